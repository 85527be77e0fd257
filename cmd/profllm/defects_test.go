package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

var (
	defectRow  = regexp.MustCompile(`(?m)^\| (CD-\d+) \| (.*) \| (.*) \| (.*)\|$`)
	defectTest = regexp.MustCompile("`(Test\\w+)`, `([\\w/]+)`")
)

// Every defect has a row, and every row a test that is there and names it.
func TestDefectsPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(docs, "explanation/cloudai-defects.md"))
	require.NoError(t, err)
	covers := map[string]map[string]string{}
	var ids []string
	for _, row := range defectRow.FindAllStringSubmatch(string(page), -1) {
		id := row[1]
		ids = append(ids, id)
		tests := defectTest.FindAllStringSubmatch(row[4], -1)
		if id == "CD-15" || id == "CD-18" { // numbers that were never given
			require.Equal(t, "–", row[2])
			require.Empty(t, tests)
			continue
		}
		require.NotEmpty(t, tests, id)
		for _, test := range tests {
			name, dir := test[1], test[2]
			if covers[dir] == nil {
				covers[dir] = coverage(t, filepath.Join("../..", dir))
			}
			text, found := covers[dir][name]
			require.True(t, found, "%s: %s has no %s", id, dir, name)
			require.Regexp(t, regexp.MustCompile(`covers:.*\b`+id+`\b`), text, "%s of %s does not name %s", name,
				dir, id)
		}
	}
	var want []string
	for n := range 45 {
		want = append(want, fmt.Sprintf("CD-%d", n+1))
	}
	require.Equal(t, want, ids)
}

// dynamoRow is a row of the page of Dynamo's services: number, what, tests.
var dynamoRow = regexp.MustCompile(`(?m)^\| (\d+) \| (.*) \| (.*) \|$`)

// Every point has a row, and every row tests that are there.
func TestDynamoChecksPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(docs, "explanation/dynamo-checks.md"))
	require.NoError(t, err)
	rows := dynamoRow.FindAllStringSubmatch(string(page), -1)
	require.Len(t, rows, 39)
	covers := map[string]map[string]string{}
	for i, row := range rows {
		require.Equal(t, fmt.Sprint(i+1), row[1])
		tests := defectTest.FindAllStringSubmatch(row[3], -1)
		require.NotEmpty(t, tests, row[1])
		for _, test := range tests {
			name, dir := test[1], test[2]
			if covers[dir] == nil {
				covers[dir] = coverage(t, filepath.Join("../..", dir))
			}
			require.Contains(t, covers[dir], name, "%s: %s", row[1], dir)
		}
	}
}

// coverage maps the tests of a folder to the comments before and inside them.
func coverage(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	tests := map[string]string{}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		require.NoError(t, err)
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv != nil {
				continue
			}
			text := fn.Doc.Text()
			for _, c := range f.Comments {
				if c.Pos() > fn.Pos() && c.End() < fn.End() {
					text += c.Text()
				}
			}
			tests[fn.Name.Name] = text
		}
	}
	return tests
}

var (
	codeBlock  = regexp.MustCompile("(?ms)^```[a-z]*\n(.*?)^```")
	inlineCode = regexp.MustCompile("`([^`\n]+)`")
	commandOf  = regexp.MustCompile(`^(?:\$ )?(?:bin/)?profllm +(.*)$`)
)

// Every command of the documentation exists, with every flag it is shown with.
//
// covers: PL-D21
func TestDocsCommands(t *testing.T) {
	t.Parallel()
	var c cli
	k, err := newParser(&app{}, &c, func(int) {})
	require.NoError(t, err)
	pages, err := filepath.Glob("../../*.md")
	require.NoError(t, err)
	for _, pattern := range []string{"/*.md", "/*/*.md"} {
		more, err := filepath.Glob(docs + pattern)
		require.NoError(t, err)
		pages = append(pages, more...)
	}
	commands := 0
	for _, page := range pages {
		data, err := os.ReadFile(page)
		require.NoError(t, err)
		text := string(data)
		var lines []string
		for _, block := range codeBlock.FindAllStringSubmatch(text, -1) {
			lines = append(lines, strings.Split(strings.ReplaceAll(block[1], "\\\n", ""), "\n")...)
		}
		for _, span := range inlineCode.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
			lines = append(lines, span[1])
		}
		for _, line := range lines {
			if m := commandOf.FindStringSubmatch(line); m != nil {
				requireCommand(t, k.Model.Node, m[1], page)
				commands++
			}
		}
	}
	require.Greater(t, commands, 40)
}

var quotedWords = regexp.MustCompile(`"[^"]* [^"]*"`)

// requireCommand follows the words of a command line through the program's verbs,
// and looks up each flag.
func requireCommand(t *testing.T, node *kong.Node, line, page string) {
	t.Helper()
	line, _, _ = strings.Cut(line, " #")
	line, _, _ = strings.Cut(line, ";")
	line = quotedWords.ReplaceAllString(line, "…") // a command inside of a command
	for _, word := range strings.Fields(line) {
		passed := slices.ContainsFunc(node.Positional, func(p *kong.Positional) bool { return p.Passthrough })
		if word == "|" || word == "…" && len(node.Children) > 0 || node.Passthrough || passed {
			break // further verbs, or words of another program
		}
		name, isFlag := strings.CutPrefix(word, "-")
		if !isFlag {
			if i := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == word }); i >= 0 {
				node = node.Children[i]
				continue
			}
			require.Empty(t, node.Children, "%s: profllm %s: no verb %q", page, line, word)
			continue
		}
		name, _, _ = strings.Cut(strings.TrimPrefix(name, "-"), "=")
		known := slices.ContainsFunc(slices.Concat(node.AllFlags(false)...), func(f *kong.Flag) bool {
			return f.Name == name || slices.Contains(f.Aliases, name) || string(f.Short) == name
		})
		require.True(t, known, "%s: profllm %s: no flag %q", page, line, word)
	}
}
