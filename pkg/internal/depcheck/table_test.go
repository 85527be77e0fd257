package depcheck

import (
	"go/ast"
	"testing"

	"github.com/stretchr/testify/require"
)

// checkTable compares a table of functions, each with a reason, with those of the sources in which found returns
// something. skip leaves packages out; hint is what to do about a function that the table lacks.
func checkTable(t *testing.T, table map[string]string, skip func(pkg string) bool, found func(ast.Node) []string, hint string) {
	t.Helper()
	used := map[string]bool{}
	check := func(name string, node ast.Node) {
		for _, what := range found(node) {
			used[name] = true
			if table[name] == "" {
				t.Errorf("%s has %s: %s", name, what, hint)
			}
		}
	}
	for pkg, list := range sources(t) {
		if skip != nil && skip(pkg) {
			continue
		}
		for _, f := range list {
			for _, decl := range f.Decls {
				switch decl := decl.(type) {
				case *ast.FuncDecl:
					if decl.Body != nil {
						check(functionName(pkg, decl), decl.Body)
					}
				case *ast.GenDecl:
					for _, spec := range decl.Specs {
						if values, ok := spec.(*ast.ValueSpec); ok {
							check(valueName(pkg, values), values)
						}
					}
				}
			}
		}
	}
	for name := range table {
		require.True(t, used[name], "%s is not needed in the table any more", name)
	}
}
