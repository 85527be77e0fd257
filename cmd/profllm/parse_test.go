package main

import (
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

// Each command's own parser has its flags, arguments and defaults, and those of all commands.
func TestNamedCommands(t *testing.T) {
	t.Parallel()
	a := &app{stdout: io.Discard, stderr: io.Discard}
	all, err := newParser(a, &cli{}, func(int) {})
	require.NoError(t, err)
	for path, signature := range signatures(all) {
		only, ok := named(reflect.TypeFor[cli](), strings.Fields(path)[1:])
		require.True(t, ok, path)
		one, err := newParser(a, reflect.New(only).Interface(), func(int) {})
		require.NoError(t, err, path)
		require.Equal(t, map[string]string{path: signature}, signatures(one))
		for _, f := range all.Model.Flags {
			require.True(t, hasFlag(one.Model.Node, f.Name), "%s: %s", path, f.Name)
		}
	}
}

// signatures are the leaves of a parser with their flags and arguments.
func signatures(k *kong.Kong) map[string]string {
	list := map[string]string{}
	for _, leaf := range k.Model.Leaves(false) {
		text := leaf.Summary()
		for _, f := range leaf.Flags {
			text += "\n" + f.String() + " " + f.Default + " " + f.Help
		}
		list[leaf.FullPath()] = text
	}
	return list
}

func hasFlag(n *kong.Node, name string) bool {
	for _, f := range n.Flags {
		if f.Name == name {
			return true
		}
	}
	return false
}

// A command's own parser takes no command line that asks for help, and none with a mistake.
func TestParseNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for line, want := range map[string]string{
		"job turn --run DIR --batch b":                "profllm job turn",
		"job wait --run DIR serve=7 --wide":           "profllm job wait",
		"bench serve --model m --base-url http://a:1": "profllm bench serve",
		"collect DIR":                "profllm collect",
		"slurm status DIR --wide":    "profllm slurm status",
		"proxy --port 1 --nonsense":  "profllm proxy", // reads its flags itself
		"sim vllm serve --nonsense":  "profllm sim",
		"bench sweep serve -e e":     "profllm bench sweep serve",
		"":                           "",
		"job":                        "",
		"slurm":                      "",
		"slurm nonsense":             "",
		"nonsense":                   "",
		"--wide collect DIR":         "",
		"help collect":               "",
		"complete -- collect":        "",
		"job turn --run DIR":         "",
		"collect DIR --nonsense":     "",
		"collect DIR --help":         "",
		"bench search":               "",
		"bench serve --version":      "",
		"slurm status DIR --output=": "",
	} {
		a := &app{stdout: io.Discard, stderr: io.Discard}
		_, kctx := a.parseNamed(strings.Fields(strings.ReplaceAll(line, "DIR", dir)))
		if want == "" {
			require.Nil(t, kctx, line)
			continue
		}
		require.NotNil(t, kctx, line)
		require.Equal(t, want, kctx.Selected().FullPath())
		require.Equal(t, strings.Contains(line, "--wide"), a.wide, line)
	}
	o := profllm(t, dir, nil, "job", "turn", "--run", dir)
	require.Equal(t, exitUsage, o.code)
	require.Contains(t, o.stderr, "--batch")
}
