package collect_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/result/resulttest"
	"github.com/profllm/profllm/pkg/run"
)

// A search that was killed may have written null in place of an answer.
func TestSearchWithoutAnAnswer(t *testing.T) {
	data, err := os.ReadFile("../bench/vllmserve/testdata/real/serve.json")
	require.NoError(t, err)
	dir := recorded(t)
	write(t, dir, "raw/vllm-bench.json", string(data))
	write(t, dir, "raw/search.json", `{"answers": [null, {"variable": "request_rate", "outcome": "found", "sentence": "9"}]}`)
	r := only(t, collector(t), dir, completed())
	require.Len(t, r.Search, 1)
	require.Equal(t, "9", r.Search[0].Sentence)
}

// The answer of a search counts as well once its file was packed; one that is damaged is named.
func TestPackedSearch(t *testing.T) {
	dir := searched(t, "", 0)
	remove(t, dir, "raw/search.json")
	pack(t, dir, "raw/search.json.xz", `{"answers": [{"variable": "max_concurrency", "limits": ["p99_ttft_ms <= 5"],
		"outcome": "lowest-fails", "high": 1, "probability": 0.99, "probes": 1, "seconds": 3, "sentence": "even 1 does not"}]}`)
	r := only(t, collector(t), dir, completed())
	require.Len(t, r.Search, 1)
	require.Contains(t, r.Validity.Words, "no-load-holds")
	write(t, dir, "raw/search.json.xz", "not packed")
	r = only(t, collector(t), dir, completed())
	require.Empty(t, r.Search)
	require.Contains(t, r.Warnings, result.Warning{Kind: result.Unreadable, File: "raw/search.json.xz",
		Text: "not an xz file: not an xz file, or a damaged one"})
}

// searched is the recorded run with an answer of a search in place of its numbers, whose client ended with
// an exit code.
func searched(t *testing.T, answer string, code int) string {
	t.Helper()
	dir := recorded(t)
	remove(t, dir, "raw/vllm-bench.json")
	require.NoError(t, os.RemoveAll(filepath.Join(dir, run.LogDir)))
	write(t, dir, "raw/search.json", `{"answers": [`+answer+`]}`)
	var s run.Sentinel
	require.NoError(t, run.ReadJSON(filepath.Join(dir, run.SentinelFile), &s))
	for i := range s.Phases {
		if s.Phases[i].Name == "bench" && code != 0 {
			s.Phases[i].Code, s.Code = code, run.PhaseFailed
		}
	}
	require.NoError(t, run.WriteJSON(filepath.Join(dir, run.SentinelFile), s))
	return dir
}

// A search that found that no load holds ended well: its record is valid, has the answer and no numbers.
func TestSearchWhereNoLoadHolds(t *testing.T) {
	r := only(t, collector(t), searched(t, `{"variable": "max_concurrency", "limits": ["p99_ttft_ms <= 5"],
		"outcome": "lowest-fails", "high": 1, "probability": 0.99, "probes": 1, "seconds": 3, "sentence": "even 1 does not"}`, 0),
		completed())
	require.Equal(t, result.Completed, r.Status)
	require.Equal(t, result.VerdictValid, r.Validity.Verdict, r.Validity.Words)
	require.Contains(t, r.Validity.Words, "no-load-holds")
	require.False(t, r.Validity.Baseline())
	require.Equal(t, "even 1 does not", r.Validity.Check("no-load-holds").Detail)
	require.Nil(t, r.Failure)
	require.Nil(t, r.Results.CompletedRequests)
	require.Nil(t, r.Results.RequestThroughput)
	require.Equal(t, "lowest-fails", r.Search[0].Outcome)
	data, err := resulttest.Marshal(r)
	require.NoError(t, err)
	require.NoError(t, result.Validate(data))
}

// Such a search keeps its answer if its job is cancelled later.
func TestAnsweredBeforeTheJobWasCancelled(t *testing.T) {
	dir := searched(t, `{"variable": "max_concurrency", "limits": ["p99_ttft_ms <= 5"], "outcome": "lowest-fails",
		"high": 1, "probability": 0.99, "probes": 1, "seconds": 3, "sentence": "even 1 does not"}`, 0)
	var s run.Sentinel
	require.NoError(t, run.ReadJSON(filepath.Join(dir, run.SentinelFile), &s))
	s.Code, s.Phases = 143, append(s.Phases, run.Phase{Name: "post_test/check", Code: 143})
	require.NoError(t, run.WriteJSON(filepath.Join(dir, run.SentinelFile), s))
	r := only(t, collector(t), dir, state("CANCELLED by 1000", run.Cancelled))
	require.True(t, r.Validity.Valid, r.Validity.Words)
	require.Equal(t, result.Completed, r.Status)
}

// A search without an answer is invalid for that reason alone.
func TestSearchWithoutEvidence(t *testing.T) {
	r := only(t, collector(t), searched(t, `{"variable": "max_concurrency", "limits": ["p99_ttft_ms <= 5"],
		"outcome": "no-valid-results", "edge": 8, "probability": 0, "probes": 2, "seconds": 3, "why": "request-errors",
		"sentence": "no answer: results at 8 stay invalid (request-errors)"}`, 6), state("FAILED", run.Failed))
	require.Equal(t, result.Failed, r.Status)
	require.Equal(t, result.VerdictInvalid, r.Validity.Verdict)
	require.Contains(t, r.Validity.Words, "search-unanswered")
	for _, word := range []string{"phase-failed", "result-missing", "files-missing", "no-load-holds"} {
		require.NotContains(t, r.Validity.Words, word)
	}
	require.Contains(t, r.Validity.Check("search-unanswered").Detail, "request-errors")
}

// After a time limit, what to do is said of a search, which has no num_prompts, and of a load.
func TestSearchAtItsTimeLimit(t *testing.T) {
	r := only(t, collector(t), searched(t, `{"variable": "max_concurrency", "limits": ["p99_ttft_ms <= 5"],
		"outcome": "interrupted", "low": 8, "probability": 0, "probes": 2, "seconds": 3, "sentence": "at least 8"}`, 6),
		state("TIMEOUT", run.Timeout))
	require.Equal(t, "slurm-time-limit", r.Failure.Cause)
	require.Contains(t, r.Failure.Next, "raise time_limit, or let the search end before it: set search.time")
	require.NotContains(t, r.Failure.Next, "num_prompts")

	r = only(t, collector(t), recorded(t), state("TIMEOUT", run.Timeout))
	require.Contains(t, r.Failure.Next, "lower num_prompts")
}

// Numbers that a search had and that are gone are missing.
func TestSearchWhoseNumbersAreGone(t *testing.T) {
	r := only(t, collector(t), searched(t, `{"variable": "max_concurrency", "limits": ["p99_ttft_ms <= 5"],
		"outcome": "found", "low": 8, "high": 9, "measured": 8, "probability": 0.99, "probes": 5, "seconds": 3, "sentence": "8"}`, 0),
		completed())
	require.Equal(t, result.Failed, r.Status)
	require.Contains(t, r.Validity.Words, "result-missing")
}

// The folder of a search outside of a job is one run: its record has the answer, and is judged as that of a
// search in a job. Its probes and its capacity are no runs of their own.
func TestSearchOutsideAJob(t *testing.T) {
	data, err := os.ReadFile("../bench/vllmserve/testdata/real/serve.json")
	require.NoError(t, err)
	const head = `{"schema": "profllm.search/1", "simulated": true, "probes": [{"name": "probe-001", "began": "2026-11-21T05:00:00Z"}],
"answers": [{"variable": "max_concurrency", "limits": ["p99_ttft_ms <= 5"], "probability": 0.99, "probes": 2, "seconds": 3, `
	for name, c := range map[string]struct {
		answer  string
		numbers bool
		status  result.Status
		verdict result.Verdict
		word    string
	}{
		"found": {`"outcome": "found", "low": 8, "high": 9, "measured": 8, "sentence": "8"}`, true, result.Completed, result.VerdictValid, ""},
		"none":  {`"outcome": "lowest-fails", "high": 1, "sentence": "even 1 does not"}`, false, result.Completed, result.VerdictValid, "no-load-holds"},
		"broken": {`"outcome": "no-valid-results", "edge": 8, "why": "request-errors", "sentence": "no answer"}`, false, result.Failed,
			result.VerdictInvalid, "search-unanswered"},
		"killed": {`"outcome": "interrupted", "low": 8, "measured": 8, "sentence": "8 or more"}`, false, result.Failed,
			result.VerdictInvalid, "search-unanswered"},
		"lost": {`"outcome": "found", "low": 8, "high": 9, "measured": 8, "sentence": "8"}`, false, result.Failed,
			result.VerdictInvalid, "result-missing"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "s")
			write(t, dir, "search.json", head+c.answer+"]}")
			for _, part := range []string{"probe-001", "capacity", "capacity-failed"} {
				write(t, filepath.Join(dir, part), "vllm-bench.json", string(data))
			}
			if c.numbers {
				write(t, dir, "vllm-bench.json", string(data))
			}
			found, err := run.Find(filepath.Dir(dir))
			require.NoError(t, err)
			require.Equal(t, []string{dir}, found)
			r := only(t, collector(t), dir, nil)
			require.Equal(t, c.status, r.Status)
			require.Equal(t, c.verdict, r.Validity.Verdict, r.Validity.Words)
			if c.word != "" {
				require.Contains(t, r.Validity.Words, c.word)
			}
			require.True(t, r.Failure == nil || name == "lost", "nothing broke but what the checks say")
			require.Len(t, r.Search, 1)
			require.Equal(t, 2, r.Search[0].Probes)
			require.Equal(t, "profllm's bench search", r.Provenance.Foreign)
			require.True(t, r.Simulated)
			require.Equal(t, c.numbers, r.Results.CompletedRequests != nil)
			encoded, err := resulttest.Marshal(r)
			require.NoError(t, err)
			require.NoError(t, result.Validate(encoded))
		})
	}
}

// A search.json of another program says nothing, and its folder is no run.
func TestSearchOfAnotherProgram(t *testing.T) {
	data, err := os.ReadFile("../bench/vllmserve/testdata/real/serve.json")
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "s")
	write(t, dir, "search.json", `{"answers": [{"outcome": "found"}]}`)
	write(t, filepath.Join(dir, "probe-1"), "vllm-bench.json", string(data))
	found, err := run.Find(dir)
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(dir, "probe-1")}, found)
	write(t, dir, "vllm-bench.json", string(data))
	r := only(t, collector(t), dir, nil)
	require.Empty(t, r.Search)
	require.Equal(t, "vllm-serve", r.Provenance.Foreign)
}

// The answers of a search.json of another version are not read, and that is said, in a job and outside.
func TestSearchOfAnotherVersion(t *testing.T) {
	data, err := os.ReadFile("../bench/vllmserve/testdata/real/serve.json")
	require.NoError(t, err)
	const file = `{"schema": "profllm.search/2", "answers": [{"outcome": "found", "low": 8, "sentence": "8"}]}`
	job := recorded(t)
	write(t, job, "raw/search.json", file)
	alone := filepath.Join(t.TempDir(), "s")
	write(t, alone, "search.json", file)
	write(t, alone, "vllm-bench.json", string(data))
	for dir, name := range map[string]string{job: "raw/search.json", alone: "search.json"} {
		r := only(t, collector(t), dir, nil)
		require.Empty(t, r.Search)
		require.Contains(t, r.Warnings, result.Warning{Kind: result.Unreadable, File: name,
			Text: `schema is "profllm.search/2", this profllm reads profllm.search/1`})
	}
}
