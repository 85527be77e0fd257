package depcheck

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// What a program prints that profllm starts is bounded, by pkg/capture: neither Output nor CombinedOutput of
// os/exec is, nor a bytes.Buffer.
func TestOutputsAreBounded(t *testing.T) {
	helpers := append(slices.Clone(standIns), "programtest", "internal/gputest")
	for pkg, list := range sources(t) {
		if slices.ContainsFunc(helpers, func(h string) bool { return pkg == h || strings.HasSuffix(pkg, "/"+h) }) {
			continue
		}
		for _, f := range list {
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CallExpr:
					sel, ok := n.Fun.(*ast.SelectorExpr)
					if ok && len(n.Args) == 0 && (sel.Sel.Name == "CombinedOutput" || sel.Sel.Name == "Output" && !isField(sel.X)) {
						t.Errorf("%s calls %s: use pkg/capture", pkg, sel.Sel.Name)
					}
				case *ast.FuncDecl:
					if n.Body != nil && buffersOutput(n.Body) {
						t.Errorf("%s.%s lets a program print into a bytes.Buffer: use pkg/capture", pkg, n.Name.Name)
					}
				}
				return true
			})
		}
	}
}

func isField(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name != "cmd"
}

// buffersOutput reports whether a function has a bytes.Buffer and assigns a command's output to its address.
func buffersOutput(body ast.Node) (yes bool) {
	buffers := map[string]bool{}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			if sel, ok := n.Type.(*ast.SelectorExpr); ok && (sel.Sel.Name == "Buffer" || sel.Sel.Name == "Builder") {
				for _, name := range n.Names {
					buffers[name.Name] = true
				}
			}
		case *ast.AssignStmt:
			if !slices.ContainsFunc(n.Lhs, func(e ast.Expr) bool {
				sel, ok := e.(*ast.SelectorExpr)
				return ok && (sel.Sel.Name == "Stdout" || sel.Sel.Name == "Stderr")
			}) {
				return true
			}
			for _, e := range n.Rhs {
				if of, ok := e.(*ast.UnaryExpr); ok {
					id, _ := of.X.(*ast.Ident)
					yes = yes || id != nil && buffers[id.Name]
				}
			}
		}
		return true
	})
	return yes
}
