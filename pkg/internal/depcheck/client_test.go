package depcheck

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// clients are the functions that make an HTTP client of their own, with the reason. Every other one is made
// by pkg/httpclient, which asks no server but the named one.
var clients = map[string]string{
	"apicheck.newServer":  "follows no redirect, since a load client would measure it",
	"load.Options.source": "downloads public files, without credentials: their hosts redirect to others",
}

// Headers and credentials go only to the server that was named.
func TestClientsStayWithTheirServer(t *testing.T) {
	skip := func(pkg string) bool { // sim stands in for other programs
		return pkg == "httpclient" || strings.HasPrefix(pkg, "sim/")
	}
	checkTable(t, clients, skip, ownClients, "use pkg/httpclient, or give a reason in clients")
}

// ownClients are the places that make an http.Client, or use that of the package. A type that only names one makes none.
func ownClients(body ast.Node) (found []string) {
	ast.Inspect(body, func(n ast.Node) bool {
		names := []string{"DefaultClient", "Get", "Post", "PostForm", "Head"}
		if literal, ok := n.(*ast.CompositeLit); ok {
			n, names = literal.Type, []string{"Client"}
		}
		if sel, ok := n.(*ast.SelectorExpr); ok && slices.Contains(names, sel.Sel.Name) {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == "http" {
				found = append(found, "http."+sel.Sel.Name)
			}
		}
		return true
	})
	return found
}
