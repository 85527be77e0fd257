package depcheck

import (
	"errors"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// A pattern of a package variable is compiled when it is first used, and compiles: nothing else finds one that does not
// before a user meets it.
func TestPatternsAreLazyAndCompile(t *testing.T) {
	all := sources(t)
	seen := 0
	for pkg, files := range all {
		texts := constants(files)
		for _, f := range files {
			for _, decl := range f.Decls {
				vars, ok := decl.(*ast.GenDecl)
				if !ok || vars.Tok != token.VAR {
					continue
				}
				ast.Inspect(vars, func(n ast.Node) bool {
					if _, ok := n.(*ast.FuncLit); ok {
						return false
					}
					call, ok := n.(*ast.CallExpr)
					if !ok {
						return true
					}
					switch calls(call) {
					case "regexp.MustCompile":
						t.Errorf("%s compiles a pattern at every start of the program: use lazyregexp.New", pkg)
					case "lazyregexp.New":
						seen++
						pattern, err := texts.value(call.Args[0])
						if errors.Is(err, errComputed) && slices.Contains(computed, pkg) {
							break
						}
						if err == nil {
							_, err = regexp.Compile(pattern)
						}
						if err != nil {
							t.Errorf("%s: %v", pkg, err)
						}
					}
					return true
				})
			}
		}
	}
	require.Greater(t, seen, 200)
}

// computed are packages that make patterns out of other texts by function calls; their own tests use each of these.
var computed = []string{"redact", "scheduler/kube"}

var errComputed = errors.New("no text that is known without running it")

// calls is package.Function of a call, "" for another form.
func calls(call *ast.CallExpr) string {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	x, ok := sel.X.(*ast.Ident)
	if !ok {
		return ""
	}
	return x.Name + "." + sel.Sel.Name
}

// texts are the expressions of a package's constants and variables by name.
type texts map[string]ast.Expr

func constants(files []*ast.File) texts {
	list := texts{}
	for _, f := range files {
		for _, decl := range f.Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range group.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok && len(v.Values) == len(v.Names) {
					for i, name := range v.Names {
						list[name.Name] = v.Values[i]
					}
				}
			}
		}
	}
	return list
}

// value is the text of a constant expression.
func (x texts) value(e ast.Expr) (string, error) {
	switch e := e.(type) {
	case *ast.BasicLit:
		return strconv.Unquote(e.Value)
	case *ast.ParenExpr:
		return x.value(e.X)
	case *ast.BinaryExpr:
		left, err := x.value(e.X)
		if err != nil {
			return "", err
		}
		right, err := x.value(e.Y)
		return left + right, err
	case *ast.Ident:
		if named, ok := x[e.Name]; ok {
			return x.value(named)
		}
	}
	return "", errComputed
}
