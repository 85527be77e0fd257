package main

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/report"
)

const reportScenario = `name = "pair"
[reports.per_test]
[reports.vllm_comparison]
group_by = ["decode.tensor_parallel_size"]

[[Tests]]
id = "tp1"
test_template_name = "vllm"
client = "profllm"
  [Tests.cmd_args.decode]
  tensor_parallel_size = 1
  [Tests.bench_cmd_args]
  random_input_len = 16
  random_output_len = 4
  num_prompts = 8

[[Tests]]
id = "tp2"
test_template_name = "vllm"
client = "profllm"
  [Tests.cmd_args.decode]
  tensor_parallel_size = 2
  [Tests.bench_cmd_args]
  random_input_len = 16
  random_output_len = 4
  num_prompts = 8
`

// The verbs on the records of a rehearsal.
func TestReportAndCompare(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "pair.toml"), []byte(reportScenario), 0o644))
	rehearsedPair.copyTo(t, dir)

	o := profllm(t, dir, nil, "report", "results", "--html", "r.html")
	require.Zero(t, o.code)
	require.Contains(t, o.stdout, "SIMULATED: 2 of 2 runs")
	require.Contains(t, o.stdout, "== Comparison: all-in-one (simulated)")
	require.Regexp(t, `tp2 +NUM_NODES|tp2 +cmd_args.decode.tensor_parallel_size=2`, o.stdout)
	page, err := os.ReadFile(filepath.Join(dir, "r.html"))
	require.NoError(t, err)
	require.Contains(t, string(page), "<svg")

	rows, err := csv.NewReader(strings.NewReader(profllm(t, dir, nil, "report", "results", "--output", "csv").stdout)).
		ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 3)
	var rep report.Report
	require.NoError(t, json.Unmarshal([]byte(profllm(t, dir, nil, "report", "results", "--output", "json", "--metric",
		"tps-per-gpu").stdout), &rep))
	require.Equal(t, []string{"tp1", "tp2"}, []string{rep.Runs[0].Label, rep.Runs[1].Label})
	require.True(t, rep.Runs[0].Usable)

	o = profllm(t, dir, nil, "report", "results", "--scenario", "pair.toml")
	require.Contains(t, o.stdout, "== Comparison: decode.tensor_parallel_size=2 (simulated)")
	require.NotContains(t, o.stdout, "== Results of each test", "[reports.per_test] without enable switches it off")

	o = profllm(t, dir, nil, "report", "results", "--group-by", "decode.tensor_paralel_size")
	require.Equal(t, exitUsage, o.code)
	require.Contains(t, o.stderr, `did you mean "decode.tensor_parallel_size"?`)
	require.Equal(t, exitUsage, profllm(t, dir, nil, "report", "results", "--metric", "speed").code)
	require.Zero(t, profllm(t, dir, nil, "report", ".", "--output", "text", "--scenario", "pair.toml").code)
	o = profllm(t, dir, nil, "report", ".", "--system", "pair.toml")
	require.Equal(t, exitDefinition, o.code)
	require.Contains(t, o.stderr, "this is a scenario file, not a system file")
	for _, verb := range []string{"report", "collect", "watch", "why"} {
		args := []string{verb, "."}
		if verb == "watch" {
			args = []string{"slurm", verb, "."}
		}
		o = profllm(t, t.TempDir(), nil, args...)
		require.Equal(t, exitUsage, o.code)
		require.Regexp(t, `^(no runs|no records|neither runs nor logs) below \.\n\thint: `, o.stderr)
	}

	one, err := filepath.Glob(filepath.Join(dir, "results", "*", "tp1", "0"))
	require.NoError(t, err)
	two, err := filepath.Glob(filepath.Join(dir, "results", "*", "tp2"))
	require.NoError(t, err)
	o = profllm(t, dir, nil, "compare", one[0], two[0])
	require.Zero(t, o.code)
	require.Contains(t, o.stdout, "significance is not tested")
	require.Contains(t, o.stdout, "difference %")

	both := filepath.Dir(two[0])
	other := filepath.Join(dir, "other", "x_2026-01-02_03-04-05", "else")
	require.NoError(t, os.CopyFS(filepath.Join(other, "0"), os.DirFS(one[0])))
	require.NoError(t, os.CopyFS(filepath.Join(filepath.Dir(other), "more", "0"), os.DirFS(one[0])))
	for _, name := range []string{"else", "more"} {
		require.NoError(t, os.Remove(filepath.Join(filepath.Dir(other), name, "0", "plan.json")))
	}
	o = profllm(t, dir, nil, "compare", both, filepath.Dir(other))
	require.Equal(t, exitUsage, o.code)
	require.Contains(t, o.stderr, "tp1: only in the first")
	require.Contains(t, o.stderr, "else: only in the second")
	require.Contains(t, o.stderr, "hint: name the directories of two tests")
}
