package main

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A sweep whose lists are paired, one with a value twice, has the pairs in its tables, goes
// on with the pairs that are left, and is over when all were tried.
func TestSweepOfPairsContinues(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs a rehearsal")
	}
	dir := t.TempDir()
	rehearse := func(steps int, args ...string) int {
		text := fmt.Sprintf(`name = "pairs"
[[Tests]]
id = "a"
test_template_name = "vllm"
agent = "random"
agent_steps = %d
  [Tests.bench_cmd_args]
  max_concurrency = [1, 2, 4]
  random_input_len = [4, 4, 8]
  num_prompts = "2x"
  random_output_len = 3
  [Tests.sweep]
  zip = [["max_concurrency", "random_input_len"]]
`, steps)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "pairs.toml"), []byte(text), 0o644))
		return profllm(t, dir, nil, append([]string{"rehearse", "pairs.toml", "--output-dir"}, args...)...).code
	}
	root := func(name string) string {
		roots, err := filepath.Glob(filepath.Join(dir, name, "*"))
		require.NoError(t, err)
		require.Len(t, roots, 1)
		return roots[0]
	}
	require.Equal(t, exitOK, rehearse(2, "one"))
	require.Equal(t, exitOK, rehearse(3, "two", "--continue", root("one")))
	f, err := os.Open(filepath.Join(root("two"), "a/0/sweep.csv"))
	require.NoError(t, err)
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	require.Equal(t, []string{"step", "bench_cmd_args.max_concurrency", "bench_cmd_args.random_input_len"}, rows[0][:3])
	require.Len(t, rows, 4)
	var pairs []string
	for _, row := range rows[1:] {
		pairs = append(pairs, row[1]+" "+row[2])
	}
	require.ElementsMatch(t, []string{"1 4", "2 4", "4 8"}, pairs)
	r := readResult(t, filepath.Join(root("two"), "a", rows[3][5]))
	require.Equal(t, rows[3][1], r.Config.Settings["bench_cmd_args.max_concurrency"])
	require.Equal(t, 2**r.Config.Benchmark.MaxConcurrency, *r.Config.Benchmark.NumPrompts, "the record has the number")
	require.Equal(t, exitUsage, rehearse(4, "three", "--continue", root("two")), "nothing is left to try")
}
