package render_test

import (
	"io/fs"
	"strings"
	"testing"
	"text/template/parse"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/render"
	"github.com/profllm/profllm/templates"
)

// bare are the values that the template prints without a quoting function, and
// why that is safe. Everything that stands in a comment is proven one line by
// TestNamesCannotBreakOut and TestSummaryIsOneLine.
var bare = map[string]string{
	".":          "range .Directives: each matches a strict pattern",
	".Version":   "printable ASCII, in a comment",
	".Digest":    "computed, in a comment",
	".Scenario":  "a path element, in a comment",
	".Test":      "a path element, in a comment",
	".Iteration": "a number",
	".RunID":     "a path element, in a comment",
	".Summary":   "one line, in a comment",
	".Prologue":  "documented as shell text of the site",
	".Nodes":     "a number",
	".Name":      "of a role: a shell identifier",
	".Phase":     "of a client: checked names, joined by a slash",
}

// Every value that the template prints passes a quoting function, or is in the
// list above.
//
// covers: CD-20
func TestTemplateQuotesEverything(t *testing.T) {
	text, err := fs.ReadFile(templates.FS, render.Name)
	require.NoError(t, err)
	stub := func() string { return "" }
	trees, err := parse.Parse(render.Name, string(text), "", "",
		map[string]any{"quote": stub, "words": stub, "export": stub, "command": stub, "array": stub})
	require.NoError(t, err)
	require.Greater(t, len(trees), 1, "the template and its blocks")
	printed, used := 0, map[string]bool{}
	for name, tree := range trees {
		walk(tree.Root, func(action *parse.ActionNode) {
			printed++
			require.Empty(t, action.Pipe.Decl, "%s: a template computes nothing", action)
			require.Len(t, action.Pipe.Cmds, 1, "%s", action)
			args := action.Pipe.Cmds[0].Args
			if f, ok := args[0].(*parse.IdentifierNode); ok {
				require.Contains(t, []string{"quote", "words", "export", "command", "array"}, f.Ident,
					"%s in %s", action, name)
				require.Len(t, args, 2, "%s in %s", action, name)
				return
			}
			require.Len(t, args, 1, "%s in %s", action, name)
			require.Contains(t, bare, args[0].String(), "%s in %s is printed without quote, words, export or command",
				action, name)
			used[args[0].String()] = true
		})
	}
	require.Greater(t, printed, 15)
	require.Len(t, used, len(bare), "the list names only what the template prints: %v", used)
	for _, line := range strings.Split(string(text), "\n") {
		for _, field := range []string{"{{.Version}}", "{{.Digest}}", "{{.Scenario}}", "{{.Test}}", "{{.RunID}}",
			"{{.Summary}}"} {
			if strings.Contains(line, field) {
				require.True(t, strings.HasPrefix(line, "#"), "%s stands outside of a comment: %s", field, line)
			}
		}
	}
}

// walk calls f for every action that prints.
func walk(n parse.Node, f func(*parse.ActionNode)) {
	switch n := n.(type) {
	case *parse.ListNode:
		if n == nil {
			return
		}
		for _, c := range n.Nodes {
			walk(c, f)
		}
	case *parse.ActionNode:
		f(n)
	case *parse.IfNode:
		walk(n.List, f)
		walk(n.ElseList, f)
	case *parse.RangeNode:
		walk(n.List, f)
		walk(n.ElseList, f)
	case *parse.WithNode:
		walk(n.List, f)
		walk(n.ElseList, f)
	}
}
