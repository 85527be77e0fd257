package main

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

// nasty is obeyed by terminals, and begins a formula.
const nasty = "=1+1\x1b]0;owned\x07\x1b[2J\u009b31m\u202eabc\u2066\rx"

// requirePlain looks for characters that are obeyed.
func requirePlain(t *testing.T, what, text string) {
	t.Helper()
	for _, r := range text {
		require.False(t, r != '\n' && r != '\t' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r),
			"%s: %U", what, r)
	}
}

// Whatever others wrote into records, logs and names, no verb hands to a terminal or
// into a file what a terminal or a spreadsheet obeys.
func TestOutputsAreHarmless(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs a rehearsal")
	}
	f := finishedRuns(t, 100)
	dir := t.TempDir()
	for from, to := range map[string]string{"plain/0": "one", "plain/1": "two", "failed/0": "bad"} {
		at := filepath.Join(dir, "results", to)
		copyTree(t, filepath.Join(f.root, from), at)
		profllm(t, dir, nil, "collect", at)
		r := readResult(t, at)
		r.Config.Settings["cmd_args.decode.note"] = nasty
		r.Provenance.EngineVersion, r.Provenance.ImageDigest, r.Suite = nasty, nasty, nasty
		r.Warnings = append(r.Warnings, result.Warning{Kind: result.Unreadable, File: nasty, Text: nasty})
		require.NoError(t, run.WriteJSON(filepath.Join(at, run.ResultFile), r))
	}
	log := filepath.Join(dir, "results/bad/logs/serve-0.log")
	require.NoError(t, os.WriteFile(log, []byte("INFO\nRuntimeError: CUDA out of memory "+nasty+"\n"), 0o644))
	for _, args := range [][]string{
		{"report", "results", "--html", "page.html"}, {"report", "--output", "csv", "results"}, {"report", "--output", "json", "results"}, {"report", "--output", "markdown", "results"},
		{"report", "--output", "prometheus", "results"}, {"report", "--output", "otava", "results"}, {"trend", "results"}, {"plot", "metrics", "results", "--terminal", "--var-y", "output_throughput"}, {"plot", "latency", "results", "--terminal"}, {"plot", "results", "--var-x", nasty}, {"compare", "results/one", "results/two", "--junit", "junit.xml"},
		{"diff", "results/one", "results/bad"}, {"export", "llm-d", "--include-invalid", "results/one", "--output", "llmd.json"}, {"export", "pytorch", "--include-invalid", "results/one"},
		{"why", "results/bad"}, {"slurm", "logs", "results/bad"}, {"slurm", "status", "results"}, {"collect", "results/bad"}, {"verify", nasty + ".toml"}, {nasty}, {"why", nasty},
	} {
		o := profllm(t, dir, nil, args...)
		requirePlain(t, strings.Join(args, " ")+", stdout", o.stdout)
		requirePlain(t, strings.Join(args, " ")+", stderr", o.stderr)
		if slices.Contains(args, "csv") || slices.Contains(args, "otava") {
			rows, err := csv.NewReader(strings.NewReader(o.stdout)).ReadAll()
			require.NoError(t, err)
			require.Greater(t, len(rows), 1)
			for _, cell := range rows[1] {
				require.False(t, cell != "" && strings.ContainsAny(cell[:1], "=@+"), cell)
			}
			require.Contains(t, o.stdout, `'=1+1\u001b]0;owned`)
		}
	}
	for _, name := range []string{"page.html", "junit.xml", "llmd.json"} {
		requirePlain(t, name, readText(t, filepath.Join(dir, name)))
	}
}
