package render_test

import (
	"io/fs"
	"os/exec"
	"sort"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/render"
	"github.com/profllm/profllm/pkg/tier"
	"github.com/profllm/profllm/templates"
)

// wholeSteps is the template without the arrays of words that several steps have, as a site's own
// may be.
func wholeSteps(t *testing.T) fs.FS {
	t.Helper()
	text, err := fs.ReadFile(templates.FS, render.Name)
	require.NoError(t, err)
	const arrays = "{{range .Shared}}\n{{array .}} # words of several steps{{end}}"
	require.Equal(t, 1, strings.Count(string(text), arrays))
	return fstest.MapFS{render.Name: {Data: []byte(strings.Replace(string(text), arrays, "", 1))}}
}

// whole is a script whose steps have all their words.
func whole(t *testing.T, p *plan.Plan) string {
	t.Helper()
	text, err := render.Script(p, wholeSteps(t))
	require.NoError(t, err)
	require.NotContains(t, string(text), "BOX", p.Test)
	return string(text)
}

// calls are the words of every step of a script, as bash reads them.
func calls(t *testing.T, script string) []string {
	t.Helper()
	_, tail, ok := strings.Cut(script, "\n. ./job.env")
	require.True(t, ok)
	tail = strings.NewReplacer(" & wait $!", "", "; wait $!", "", " & ROLES", "; ROLES",
		" & CLIENT", "; CLIENT").Replace(tail)
	cmd := exec.Command("bash", "-u")
	cmd.Stdin = strings.NewReader(`true & RUN=/run PROFLLM=true PHASES=() ROLES=() CLIENT=()
step() { printf '%q ' "$@"; echo; }
phase() { local name=$1; shift; "$@"; PHASES+=("$name=0"); }
hook() { :; }
` + variables(script) + tail)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	list := strings.Split(strings.TrimSpace(string(out)), "\n")
	sort.Strings(list)
	return list
}

// variables sets every variable of job.env that a script uses to its own name.
func variables(script string) string {
	var b strings.Builder
	for _, word := range strings.FieldsFunc(script, func(r rune) bool {
		return r != '$' && r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z')
	}) {
		name, ok := strings.CutPrefix(word, "$")
		if ok && (strings.HasSuffix(name, "_ADDR") || strings.HasSuffix(name, "_PORT")) {
			b.WriteString(name + "=" + name + "\n")
		}
	}
	return b.String()
}

// An array with the words of several steps gives each the words that it would have without.
func TestSharedWordsChangeNothing(t *testing.T) {
	tier.Alone(t)
	arrays := 0
	for _, s := range scripts(t) {
		if !strings.Contains(string(s.text), "# words of several steps") {
			continue
		}
		arrays++
		require.Equal(t, calls(t, whole(t, s.plan)), calls(t, string(s.text)), s.golden)
	}
	require.Greater(t, arrays, 20)
}

// A site's block before the roles can change an address, and the arrays have what it says.
func TestArraysFollowTheBlockBeforeRoles(t *testing.T) {
	site := fstest.MapFS{"slurm/site.block.tmpl": {Data: []byte("{{define \"before_roles\"}}\nSITE=1{{end}}")}}
	arrays := 0
	for _, s := range scripts(t) {
		text, err := render.Script(s.plan, site, templates.FS)
		require.NoError(t, err, s.golden)
		before, after, ok := strings.Cut(string(text), "\nSITE=1\n")
		require.True(t, ok, s.golden)
		require.NotContains(t, before, "# words of several steps", s.golden)
		arrays += strings.Count(after, "# words of several steps")
	}
	require.Greater(t, arrays, 20)
}
