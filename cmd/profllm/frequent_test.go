package main

import (
	"io"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

// The commands that have a smaller parser are the same in both: flags, arguments and defaults.
func TestFrequentCommands(t *testing.T) {
	a := &app{stdout: io.Discard, stderr: io.Discard}
	all, err := newParser(a, &cli{}, func(int) {})
	require.NoError(t, err)
	few, err := parserOf(a, &frequent{}, func(int) {})
	require.NoError(t, err)
	require.Equal(t, signatures(all, func(path string) bool {
		return strings.HasPrefix(path, "profllm job ") || path == "profllm bench serve"
	}), signatures(few, func(string) bool { return true }))
	for _, f := range all.Model.Flags {
		if f.Name != "help" && f.Name != "version" {
			require.True(t, hasFlag(few.Model.Node, f.Name), f.Name)
		}
	}
}

// signatures are the leaves of a parser with their flags and arguments.
func signatures(k *kong.Kong, want func(path string) bool) map[string]string {
	list := map[string]string{}
	for _, leaf := range k.Model.Leaves(false) {
		if path := leaf.FullPath(); want(path) {
			text := leaf.Summary()
			for _, f := range leaf.Flags {
				text += "\n" + f.String() + " " + f.Default + " " + f.Help
			}
			list[path] = text
		}
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

// The smaller parser takes no command line of another command, none that asks for help, and none with
// a mistake.
func TestParseFrequent(t *testing.T) {
	dir := t.TempDir()
	for line, want := range map[string]string{
		"job turn --run DIR --batch b":                "profllm job turn",
		"job wait --run DIR serve=7 --wide":           "profllm job wait",
		"bench serve --model m --base-url http://a:1": "profllm bench serve",
		"job": "", "job turn --run DIR": "", "job turn --run DIR --batch b --help": "",
		"bench search --limit p99_ttft_ms=1": "", "bench serve --model m --version": "", "collect DIR": "",
	} {
		a := &app{stdout: io.Discard, stderr: io.Discard}
		_, kctx := a.parseFrequent(strings.Fields(strings.ReplaceAll(line, "DIR", dir)))
		if want == "" {
			require.Nil(t, kctx, line)
			continue
		}
		require.NotNil(t, kctx, line)
		require.Equal(t, want, kctx.Selected().FullPath())
		require.Equal(t, strings.Contains(line, "--wide"), a.wide)
	}
	o := profllm(t, dir, nil, "job", "turn", "--run", dir)
	require.Equal(t, exitUsage, o.code)
	require.Contains(t, o.stderr, "--batch")
}
