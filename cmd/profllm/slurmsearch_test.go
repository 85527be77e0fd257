package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/search"
)

// searchScenario searches a server with room for four requests, each of which takes 400 ms: a fifth
// waits for one of them to end.
const searchScenario = `name = "s"

[[Tests]]
id = "a"
test_template_name = "vllm"
client = "profllm"
time_limit = "LIMIT"

  [Tests.cmd_args.decode]
  max_num_seqs = 4

  [Tests.bench_cmd_args]
  random_input_len = 16
  random_output_len = 8

  [Tests.search]
  limits = ["p95_ttft_ms=250"]
  start = 2
  max = 8
`

// searchKnobs are the times of the server. The time between two tokens makes the probes short or long.
func searchKnobs(itl string) []string {
	return []string{"PROFLLM_SIM_TTFT=50ms", "PROFLLM_SIM_ITL=" + itl}
}

// slurmSearch submits the scenario with a time limit.
func slurmSearch(t *testing.T, limit, itl string, flags ...string) (dir, runDir string, o outcome) {
	t.Helper()
	dir = lab(t)
	text := strings.Replace(searchScenario, "LIMIT", limit, 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(text), 0o644))
	o = profllm(t, dir, searchKnobs(itl),
		append([]string{"slurm", "submit", "--simulate", "--system", "site.toml", "s.toml"}, flags...)...)
	return dir, only(t, dir), o
}

// A search in a job finds the edge of the server. The record has the answer and the numbers at the
// highest load that holds, and the report has the sentence.
func TestSlurmSearch(t *testing.T) {
	t.Parallel()
	dir, d, o := slurmSearch(t, "9m", "50ms", "--wait")
	require.Equal(t, exitOK, o.code)
	r := readResult(t, d)
	require.Equal(t, result.Completed, r.Status)
	require.True(t, r.Validity.Valid, r.Validity.Words)
	require.Len(t, r.Search, 1)
	s := r.Search[0]
	require.Equal(t, string(search.Found), s.Outcome, s.Sentence)
	require.Equal(t, []float64{4, 5, 4}, []float64{*s.Low, *s.High, *s.Measured}, s.Sentence)
	require.Equal(t, 4, *r.Results.MaxConcurrency)
	require.Len(t, readSearch(t, filepath.Join(d, run.RawDir)).Probes, s.Probes)
	o = profllm(t, dir, nil, "report", "results")
	require.Equal(t, exitOK, o.code)
	require.Contains(t, o.stdout, s.Sentence)
	require.Contains(t, o.stdout, "simulated")
	requireNoLeftovers(t, jobID(t, d))
}

// A search whose job is cancelled has no answer, and what it measured is kept. Resumed, it searches
// again, on a new start of the server.
func TestSlurmSearchCancelled(t *testing.T) {
	t.Parallel()
	dir, d, o := slurmSearch(t, "9m", "50ms")
	require.Equal(t, exitOK, o.code)
	first := jobID(t, d)
	await.Text(t, filepath.Join(d, run.RawDir, "probe-001", "probe.json"), `"verdict"`)
	require.Equal(t, exitOK, profllm(t, dir, nil, "slurm", "cancel", "results").code)
	require.Equal(t, exitJobFailed, profllm(t, dir, nil, "collect", "results").code)
	r := readResult(t, d)
	require.Equal(t, result.Cancelled, r.Status)
	requireInterrupted(t, r)
	requireNoLeftovers(t, first)

	require.Equal(t, exitOK, profllm(t, dir, searchKnobs("50ms"), "slurm", "resume", run.Root(d), "--wait").code)
	r = readResult(t, d)
	require.Equal(t, result.Completed, r.Status)
	require.Equal(t, string(search.Found), r.Search[0].Outcome, r.Search[0].Sentence)
	require.True(t, r.Validity.Valid, r.Validity.Words)
	require.NotEqual(t, first, jobID(t, d))
	require.FileExists(t, filepath.Join(d, "attempts", "1", run.RawDir, "search.json"))
}

// A search that its job's time limit ends has no answer, which makes the run invalid.
func TestSlurmSearchTimeLimit(t *testing.T) {
	t.Parallel()
	_, d, o := slurmSearch(t, "60s", "200ms", "--wait")
	require.Equal(t, exitJobFailed, o.code)
	r := readResult(t, d)
	require.Equal(t, "TIMEOUT", r.Slurm.State)
	require.Equal(t, "slurm-time-limit", r.Failure.Cause)
	requireInterrupted(t, r)
	requireNoLeftovers(t, jobID(t, d))
}

// requireInterrupted: a search without an answer is invalid for that reason, and says how far it came.
func requireInterrupted(t *testing.T, r *result.Result) {
	t.Helper()
	require.Len(t, r.Search, 1)
	require.Equal(t, string(search.Interrupted), r.Search[0].Outcome)
	require.Contains(t, r.Search[0].Sentence, "interrupted")
	require.False(t, r.Validity.Valid)
	require.Equal(t, result.Fail, r.Validity.Check("search-unanswered").Outcome)
}
