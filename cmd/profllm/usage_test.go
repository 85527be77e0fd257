package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMistypedCommands(t *testing.T) {
	for args, meant := range map[string]string{
		"submit s.toml":        "profllm slurm submit",
		"sumbit s.toml":        "profllm slurm submit",
		"slurm sumbit s.toml":  "profllm slurm submit",
		"slurm verify s.toml":  "profllm verify",
		"dryrun s.toml":        "profllm slurm dry-run",
		"bench serv":           "profllm bench serve",
		"help slurm statu":     "profllm slurm status",
		"cancel results":       "profllm slurm cancel",
		"slurm compare a b":    "profllm compare",
		"verfy --system x.tml": "profllm verify",
		"check x.toml":         "profllm verify",
		"cmp a b":              "profllm compare",
		"html results":         "profllm report",
		"slurm kill results":   "profllm slurm cancel",
	} {
		o := profllm(t, t.TempDir(), nil, strings.Fields(args)...)
		require.Equal(t, exitUsage, o.code, args)
		require.Contains(t, o.stderr, "there is no command", args)
		require.Contains(t, o.stderr, "\n\thint: did you mean \""+meant+"\"?\n", args)
	}
	o := profllm(t, t.TempDir(), nil, "run", "s.toml")
	require.Contains(t, o.stderr, "\n\thint: did you mean \"profllm slurm submit\" or \"profllm rehearse\"?\n")
	o = profllm(t, t.TempDir(), nil, "frobnicate")
	require.Equal(t, "profllm: there is no command \"frobnicate\"\n\thint: list the commands: profllm --help\n",
		o.stderr)
	o = profllm(t, t.TempDir(), nil, "slurm", "submit")
	require.Equal(t, "profllm slurm submit: missing argument <scenario>\n\thint: profllm slurm submit --help\n",
		o.stderr)
	o = profllm(t, t.TempDir(), nil, "nope")
	require.NotContains(t, o.stderr, "did you mean", "commands for scripts are not offered")
}

func TestHelpOfCommands(t *testing.T) {
	for _, pair := range [][2]string{
		{"", "--help"}, {"help", "--help"}, {"slurm", "slurm --help"}, {"help slurm", "slurm --help"},
		{"help slurm submit", "slurm submit --help"}, {"help proxy", "proxy --help"}, {"bench", "bench --help"},
	} {
		got, want := profllm(t, t.TempDir(), nil, strings.Fields(pair[0])...), profllm(t, t.TempDir(), nil,
			strings.Fields(pair[1])...)
		require.Zero(t, got.code, pair[0])
		require.NotEmpty(t, want.stdout)
		require.Equal(t, want.stdout, got.stdout, pair[0])
		require.Empty(t, got.stderr)
	}
	require.Contains(t, profllm(t, t.TempDir(), nil, "proxy", "--help").stdout, "--prefill=URL")
}
