package depcheck

import (
	"go/ast"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// clients are the functions that make an HTTP client of their own, with the reason. Every other one is made
// by pkg/httpclient, which asks no server but the named one.
var clients = map[string]string{
	"apicheck.newServer":  "follows no redirect, since a load client would measure it",
	"load.Options.source": "downloads public files, without credentials: their hosts redirect to others",
}

// Headers and credentials go only to the server that was named.
func TestClientsStayWithTheirServer(t *testing.T) {
	used := map[string]bool{}
	for pkg, list := range sources(t) {
		if pkg == "httpclient" || strings.HasPrefix(pkg, "sim/") { // sim stands in for other programs
			continue
		}
		for _, f := range list {
			for _, decl := range f.Decls {
				fn, ok := decl.(*ast.FuncDecl)
				if !ok || fn.Body == nil || !makesClient(fn.Body) {
					continue
				}
				name := functionName(pkg, fn)
				used[name] = true
				if clients[name] == "" {
					t.Errorf("%s makes an HTTP client: use pkg/httpclient, or give a reason in clients", name)
				}
			}
		}
	}
	for name := range clients {
		require.True(t, used[name], "%s makes none any more", name)
	}
}

func makesClient(body ast.Node) (yes bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			x, _ := sel.X.(*ast.Ident)
			yes = yes || x != nil && x.Name == "http" &&
				slices.Contains([]string{"Client", "DefaultClient", "Get", "Post", "PostForm", "Head"}, sel.Sel.Name)
		}
		return true
	})
	return yes
}
