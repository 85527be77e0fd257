package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/load/loadtest"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/search/runner"
)

// searchServer is a server that answers at once.
func searchServer(t *testing.T) string {
	t.Helper()
	s, err := loadtest.Start(loadtest.Options{Tokenizer: true})
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s.URL()
}

func readSearch(t *testing.T, dir string) (d runner.Document) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, runner.File))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &d))
	return d
}

// profllm's client measures each load of a search.
func TestBenchSearch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	args := []string{"bench", "search", "--base-url", searchServer(t), "--model", "m", "--random-input-len", "8",
		"--random-output-len", "4", "--limit", "median_ttft_ms=1e9", "--limit", "median_e2el_ms=1e9", "--start", "1", "--max", "4",
		"--num-prompts", "60", "--result-dir", "s"}
	o := profllm(t, dir, nil, args...)
	d := readSearch(t, filepath.Join(dir, "s"))
	require.NotEmpty(t, d.Probes, o.stderr)
	require.Equal(t, 60, d.Probes[0].NumPrompts)
	require.Contains(t, o.stdout, d.Answers[0].Sentence)
	require.FileExists(t, filepath.Join(dir, "s", d.Probes[0].Name, "vllm-bench.json"))
	again := profllm(t, dir, nil, args...)
	require.Equal(t, o.code, again.code)
	require.Equal(t, len(d.Probes), len(readSearch(t, filepath.Join(dir, "s")).Probes), "nothing is measured again")
	require.NotContains(t, again.stderr, "another search")
	other := profllm(t, dir, nil, append(args, "--random-input-len", "9")...)
	require.Equal(t, exitUsage, other.code)
	require.Contains(t, other.stderr, "search.json is of another search", "of another load")
}

// searchClient is a client whose TTFT is 50 ms up to 11 requests in flight, and 900 ms beyond.
const searchClient = `#!/bin/bash
while [ $# -gt 0 ]; do
  case $1 in
    --max-concurrency) c=$2 ;; --num-prompts) n=$2 ;; --result-dir) d=$2 ;; --result-filename) f=$2 ;;
    --metadata) mark="\"${2%%=*}\": \"${2#*=}\"," ;;
  esac
  shift
done
ttft=50; [ "$c" -le 11 ] || ttft=900
cat >"$d/$f" <<END
{$mark "num_prompts": $n, "completed": $n, "failed": 0, "duration": $n, "total_input_tokens": ${n}0, "total_output_tokens": ${n}0,
"max_concurrency": $c, "request_throughput": 1, "output_throughput": 10, "mean_ttft_ms": $ttft, "median_ttft_ms": $ttft,
"p95_ttft_ms": $ttft, "p99_ttft_ms": $ttft, "mean_tpot_ms": 1, "median_tpot_ms": 1}
END
`

// Another client is started for each load, with vLLM's flags for the load and the result.
func TestBenchSearchWithAnotherClient(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "client"), []byte(searchClient), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sla.json"), []byte(`[{"p99_ttft_ms": "<=500"}]`), 0o644))
	o := profllm(t, dir, nil, "bench", "search", "--sla-params", "sla.json", "--result-dir", "s", "--", "./client", "--model", "m")
	require.Equal(t, 0, o.code, o.stderr)
	require.Contains(t, o.stdout, "the highest max_concurrency within p99_ttft_ms <= 500 is 11: it holds at 11 and fails at 12")
	d := readSearch(t, filepath.Join(dir, "s"))
	require.Equal(t, 299, d.Probes[0].NumPrompts)

	o = profllm(t, dir, nil, "collect", "--offline", "s")
	require.Equal(t, exitOK, o.code, o.stderr)
	r := readResult(t, filepath.Join(dir, "s"))
	require.Equal(t, d.Answers, r.Search)
	require.Equal(t, 50.0, r.Results.Latency[result.TTFT].Percentiles[99], "the numbers at the highest load that holds")
	require.NoFileExists(t, filepath.Join(dir, "s", d.Probes[0].Name, "result.json"))
	o = profllm(t, dir, nil, "report", "s")
	require.Contains(t, o.stdout, "Search: s: "+d.Answers[0].Sentence)
	require.NotContains(t, o.stdout, d.Probes[0].Name)
}

func TestBenchSearchMistakes(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"missing flags: --limit or --sla-params": {}, "want KEY=VALUE": {"--limit", "p99_ttft_ms"},
		"--max is 4, but min is 9":                 {"--limit", "p99_ttft_ms=5", "--min", "9", "--max", "4"},
		"--max is +Inf, must be":                   {"--limit", "p99_ttft_ms=5", "--max", "inf"},
		"--min is NaN, must be":                    {"--limit", "p99_ttft_ms=5", "--min", "nan"},
		"--start is 1.5, must be a whole":          {"--limit", "p99_ttft_ms=5", "--start", "1.5"},
		"--tolerance must be":                      {"--limit", "p99_ttft_ms=5", "--tolerance", "nan"},
		"--gpus must be 1 or more":                 {"--limit", "p99_ttft_ms=5", "--rivals", "r", "--gpus", "0"},
		"--gpus has no effect without --rivals":    {"--limit", "p99_ttft_ms=5", "--gpus", "4"},
		"is not below that of its rivals":          {"--limit", "p99_ttft_ms=5", "--rivals", "other", "--result-dir", "s"},
		"-- profllm bench serve --processes":       {"--limit", "p99_ttft_ms=5", "--processes", "2"},
		"--processes and --rendezvous: give them ": {"--limit", "p99_ttft_ms=5", "--rendezvous", "r"},
	} {
		o := profllm(t, t.TempDir(), nil, append([]string{"bench", "search"}, args...)...)
		require.Equal(t, exitUsage, o.code)
		require.Contains(t, o.stderr, want)
	}
}

// A number of requests that is the default of other commands is still one that was asked for.
func TestBenchSearchTakesThousandPrompts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := profllm(t, dir, nil, "bench", "search", "--base-url", searchServer(t), "--model", "m", "--random-input-len", "8",
		"--random-output-len", "1", "--limit", "median_ttft_ms=1e9", "--start", "64", "--max", "64", "--min", "64", "--probes", "1",
		"--num-prompts", "1000", "--result-dir", "s")
	d := readSearch(t, filepath.Join(dir, "s"))
	require.NotEmpty(t, d.Probes, o.stderr)
	require.Equal(t, 1000, d.Probes[0].NumPrompts)
}

// What the system refuses is no mistake of the command line.
func TestBenchSearchWithoutAFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o644))
	o := profllm(t, dir, nil, "bench", "search", "--base-url", searchServer(t), "--model", "m", "--limit", "median_ttft_ms=1e9",
		"--result-dir", "file/s")
	require.Equal(t, exitInternal, o.code, o.stderr)
	require.Contains(t, o.stderr, "file")
}

// A search of a simulated server says so wherever its numbers are, also outside of a job.
func TestBenchSearchOfASimulatedServer(t *testing.T) {
	t.Parallel()
	address, env := fastServer(t)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "client"), []byte(searchClient), 0o755))
	for name, client := range map[string][]string{"own": nil, "other": {"--", "./client", "--base-url", "http://" + address}} {
		args := []string{"bench", "search", "--limit", "median_ttft_ms=1e9", "--start", "1", "--min", "1", "--max", "1", "--probes", "1",
			"--base-url", "http://" + address, "--random-input-len", "8", "--random-output-len", "2", "--result-dir", name}
		o := profllm(t, dir, env, append(args, client...)...)
		require.Contains(t, o.stdout, "simulated: ", o.stderr)
		require.Contains(t, o.stderr, "the engine is simulated")
		d := readSearch(t, filepath.Join(dir, name))
		require.True(t, d.Simulated)
		require.True(t, d.Question.Simulated)
		o = profllm(t, dir, nil, "collect", name)
		// A busy machine does not reach the load of so fast a server: the search then has no answer.
		require.Contains(t, []int{exitOK, exitJobFailed}, o.code, o.stderr)
		require.True(t, readResult(t, filepath.Join(dir, name)).Simulated, name)
	}
}

// Searches of several servers compete if their loads differ in nothing but the server's address.
func TestSearchesThatCompete(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := strings.Replace(searchClient, "-le 11", `-le "$EDGE"`, 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "client"), []byte(text), 0o755))
	search := func(name, edge, gpus string, client ...string) (runner.Document, string) {
		args := []string{"bench", "search", "--limit", "p99_ttft_ms=500", "--result-dir", filepath.Join("s", name), "--rivals", "s",
			"--gpus", gpus, "--", "./client"}
		o := profllm(t, dir, []string{"EDGE=" + edge}, append(args, client...)...)
		require.Equal(t, exitOK, o.code, o.stderr)
		return readSearch(t, filepath.Join(dir, "s", name)), o.stdout
	}
	first, _ := search("first", "40", "2", "--model", "m", "--base-url", "http://a:1", "--result-dir", "x", "--save-result")
	require.Equal(t, "found", first.Answers[0].Outcome)
	loser, said := search("loser", "3", "2", "--model", "m", "--base-url=http://b:2", "--result-dir", "y", "--save-result")
	require.Equal(t, "beaten", loser.Answers[0].Outcome)
	require.Contains(t, said, "it was stopped because another configuration (first) reaches 40")
	require.Less(t, len(loser.Probes), len(first.Probes))
	for name, args := range map[string][]string{"gpus": {"4", "--model", "m"}, "model": {"2", "--model", "n"}} {
		d, _ := search(name, "3", args[0], args[1:]...)
		require.Equal(t, "found", d.Answers[0].Outcome, name)
	}
	own := func(address string, length int) runner.Contest {
		c := benchSearchCmd{Variable: runner.Concurrency}
		c.BaseURL, c.ResultDir, c.RandomInputLen = address, address, length
		return c.contest()
	}
	require.Equal(t, own("http://a:1", 8), own("http://b:2", 8))
	require.NotEqual(t, own("http://a:1", 8), own("http://a:1", 9))
}
