package main

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// advice is a command line that somebody is told to type.
type advice struct {
	where, text string
	mention     bool // in a sentence, perhaps of a verb without its arguments
}

// title is a string that names a verb, or begins what one says.
var title = regexp.MustCompile(`^(profllm [a-z]+( serve)?:? ?|profllm slurm resume( --failed)?)$`)

// hintedCommands lists the command lines in the strings of our programs: what follows a
// "profllm" and a verb. Where a string ends in a blank, a path is put behind it.
func hintedCommands(t *testing.T, verbs map[string]bool) []advice {
	t.Helper()
	var list []advice
	add := func(where, text string) {
		for _, at := range regexp.MustCompile(`profllm [a-z-]+`).FindAllStringIndex(text, -1) {
			if command := text[at[0]:]; verbs[strings.Fields(command)[1]] && !title.MatchString(text) {
				list = append(list, advice{where, command, false})
			}
		}
	}
	for _, root := range []string{"../../cmd/profllm", "../../pkg"} {
		require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
				strings.HasPrefix(path, "../../pkg/sim/") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			require.NoError(t, err)
			ast.Inspect(file, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					text, err := strconv.Unquote(lit.Value)
					require.NoError(t, err)
					if strings.HasSuffix(text, " ") {
						text += "DIR"
					}
					add(path, text)
				}
				return true
			})
			return nil
		}))
	}
	var causes struct{ Signatures []struct{ ID, Next string } }
	data, err := os.ReadFile("../../pkg/failure/signatures.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &causes))
	require.NotEmpty(t, causes.Signatures)
	for _, s := range causes.Signatures {
		add("signature "+s.ID, s.Next)
	}
	return list
}

// documented lists the command lines of our pages: in backquotes, and the lines of
// code blocks that begin with one.
func documented(t *testing.T, verbs map[string]bool) []advice {
	t.Helper()
	pages, err := filepath.Glob("../../docs/*/*.md")
	require.NoError(t, err)
	deeper, err := filepath.Glob("../../docs/*/*/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	var list []advice
	for _, page := range append(append(pages, deeper...), "../../README.md", "../../docs/README.md",
		"../../scenarios/README.md", "../../CONTRIBUTING.md") {
		data, err := os.ReadFile(page)
		require.NoError(t, err)
		parts := strings.Split(string(data), "```")
		for i, part := range parts {
			if i%2 == 0 {
				for _, m := range regexp.MustCompile("`(profllm [^`]+)`").FindAllStringSubmatch(part, -1) {
					list = append(list, advice{page, m[1], true})
				}
				continue
			}
			part = strings.ReplaceAll(part, "\\\n", " ")
			for _, m := range regexp.MustCompile(`(?m)^(?:\$ )?(?:\S+=\S+ )*(?:bin/)?(profllm .*)$`).
				FindAllStringSubmatch(part, -1) {
				list = append(list, advice{page, m[1], false})
			}
		}
	}
	for i := 0; i < len(list); i++ {
		if !verbs[strings.Fields(list[i].text)[1]] {
			list = append(list[:i], list[i+1:]...)
			i--
		}
	}
	return list
}

// words is the command line at the beginning of a text that goes on in prose: up
// to a punctuation mark, and without what begins with a word that is neither a
// verb, a flag, a value of one, a path nor a placeholder.
func words(text string, prose bool) []string {
	text, _, _ = strings.Cut(text, "\n")
	text, _, _ = strings.Cut(text, "  #")
	text = strings.NewReplacer("[--", "--", "]", "").Replace(text)
	text = regexp.MustCompile(` \d>\S+`).ReplaceAllString(text, "")
	text = regexp.MustCompile(`%[a-z]|'[^']*'|"[^"]*"|\$\([^)]*\)`).ReplaceAllString(text, "DIR")
	var list []string
	for i, w := range strings.Fields(text)[1:] {
		end := strings.IndexAny(w, ",;:)|>&")
		if end >= 0 && !strings.Contains(w, "://") {
			w = w[:end]
		} else {
			end = -1
		}
		flag := len(list) > 0 && strings.HasPrefix(list[len(list)-1], "--")
		plain := regexp.MustCompile(`^[a-z]+$`).MatchString(w)
		if prose && plain && i > 1 && !flag {
			break
		}
		if w = strings.TrimSuffix(w, "."); w != "" {
			list = append(list, w)
		}
		if end >= 0 {
			break
		}
	}
	return list
}

// parse reads a command line as execute does; paths and placeholders are replaced
// by one that is there.
func parse(line []string) error {
	args := append([]string{}, line...)
	for i, w := range args {
		if upper := regexp.MustCompile(`^\[?[A-Z][A-Z_]*(/.*)?\]?(\.\.\.)?$`).MatchString(w); upper ||
			strings.Contains(w, "/") && !strings.Contains(w, "://") || strings.HasPrefix(w, "<") {
			args[i] = "."
		}
		if name, value, ok := strings.Cut(w, "="); ok && strings.HasPrefix(w, "--") && strings.Contains(value, "/") {
			args[i] = name + "=."
		}
	}
	return parses(args)
}

// parses is the error of a command line's parser.
func parses(args []string) error {
	a := &app{stdout: io.Discard, stderr: io.Discard}
	if _, c := a.parseNamed(args); c != nil {
		return nil
	}
	p, err := newParser(a, &cli{}, func(int) {})
	if err != nil {
		return err
	}
	_, err = p.Parse(args)
	return err
}

// Whoever is told a command can type it.
func TestHintedCommandsParse(t *testing.T) {
	t.Parallel()
	var c cli
	p, err := newParser(&app{stdout: io.Discard, stderr: io.Discard}, &c, func(int) {})
	require.NoError(t, err)
	verbs := map[string]bool{}
	for _, n := range p.Model.Children {
		verbs[n.Name] = !n.Hidden
	}
	hints := hintedCommands(t, verbs)
	require.Greater(t, len(hints), 15, "the hints are found")
	for _, a := range hints {
		line := words(a.text, true)
		assert.NoError(t, parse(line), "%s: %q: profllm %s", a.where, a.text, strings.Join(line, " "))
	}
	pages := documented(t, verbs)
	require.Greater(t, len(pages), 80, "the pages are read")
	for _, a := range pages {
		line := words(a.text, false)
		err := parse(line)
		if a.mention && err != nil &&
			(strings.HasPrefix(err.Error(), "expected ") || strings.Contains(err.Error(), "missing flags: ")) {
			continue
		}
		assert.NoError(t, err, "%s: %q: profllm %s", a.where, a.text, strings.Join(line, " "))
	}
}
