package summary

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/collect/cache"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/terminal"
)

// sample is a result as collect hands it on: every fifth one is invalid, and half of
// those have a cause.
func sample(i int) cache.Row {
	r := &result.Result{RunID: fmt.Sprint(i), Status: result.Completed, Simulated: true,
		Validity: &result.Validity{Valid: true, Verdict: result.VerdictValid}}
	if i%5 == 0 {
		r.Status, r.Validity = result.Failed, &result.Validity{
			Verdict: result.VerdictInvalid,
			Checks: []result.Check{{Word: "no-success", Outcome: result.Fail, Severity: result.Invalid,
				Detail: fmt.Sprintf("%d requests", i)}},
		}
	}
	if i%10 == 0 {
		r.Failure = &result.Failure{Cause: "cuda-oom", Line: "out of memory", File: "logs/serve-0.log", LineNumber: 7,
			Confidence: result.Exact}
	}
	return cache.Row{Dir: fmt.Sprintf("/results/s/t/%d", i), Result: r}
}

func printed(t *testing.T, n int) string {
	t.Helper()
	var r Results
	for i := range n {
		r.Add(sample(i))
		require.LessOrEqual(t, len(r.rows), mostRows)
	}
	blocks, err := r.Blocks()
	require.NoError(t, err)
	var out strings.Builder
	for _, b := range blocks {
		out.WriteString(b.Table.Text(terminal.Screen{}) + "\n" + strings.Join(append(b.Lines, ""), "\n"))
	}
	return out.String()
}

// Up to a limit each result has a line; of more there is a summary of the same length
// however many they are.
func TestManyResultsAreSummedUp(t *testing.T) {
	few := printed(t, mostRows)
	require.Contains(t, few, "t/499")
	require.Equal(t, mostRows/5, strings.Count(few, ": invalid no-success: "))

	many := printed(t, 10*mostRows)
	require.Equal(t, strings.Count(printed(t, mostRows+1), "\n"), strings.Count(many, "\n"))
	require.Regexp(t, `valid \(simulated\) +4000\n`, many)
	require.Regexp(t, `failed, invalid \(simulated\) +1000\n`, many)
	require.Regexp(t, `cause cuda-oom \(exact\) +500  t/0: logs/serve-0.log:7: out of memory`, many)
	require.Regexp(t, `invalid no-success +1000  t/0: 0 requests`, many)
	require.Contains(t, many, "5000 results: ")
}

// A number that a check withholds is in no table.
func TestWithheldIsNotShown(t *testing.T) {
	r := &result.Result{Validity: &result.Validity{}}
	require.NoError(t, r.Results.SetLatency(result.TTFT, "median", 51.44))
	require.NoError(t, r.Results.SetLatency(result.TTFT, "p99", 60))
	require.Equal(t, "51.4 / 60.0", latency(r, result.TTFT))
	r.Validity.Withheld = []string{"p99_ttft_ms"}
	require.Equal(t, "51.4 / –", latency(r, result.TTFT))
	require.Empty(t, latency(r, result.TPOT))
}

// Results of one test are told apart by their settings; those of different tests are not.
func TestResultsOfOneTestShowSettings(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(root, run.ScenarioFile), []byte("{}"), 0o644))
	of := func(place, concurrency string) cache.Row {
		r := &result.Result{Status: result.Completed, Validity: &result.Validity{Verdict: result.VerdictValid}}
		r.Config.Settings = map[string]string{"bench_cmd_args.max_concurrency": concurrency, "cmd_args.model": "m"}
		return cache.Row{Dir: filepath.Join(root, place), Result: r}
	}
	printed := func(rows ...cache.Row) string {
		b := table(rows, nil)
		return b.Table.Text(terminal.Screen{})
	}
	out := printed(of("a/0/1", "4"), of("a/0/2", "16"), of("b/0", "8"))
	require.Regexp(t, `^ run    settings            verdict  done`, out)
	require.Contains(t, out, "\n a/0/1  max_concurrency=4   valid\n a/0/2  max_concurrency=16  valid\n b/0                        valid")
	require.Regexp(t, `^ run  verdict  done`, printed(of("a/0", "4"), of("b/0", "8")))

	begun, waiting := of("a/0/1", "4"), of("a/0/2", "4")
	begun.Result.Config.Settings["extra_env_vars.PROFLLM_SIM_ITL"] = "2ms"
	waiting.Result.Status = result.Unknown
	require.NotContains(t, printed(begun, waiting), "settings", "it will have the same")
	waiting.Result.Status = result.Completed
	require.Contains(t, printed(begun, waiting), "PROFLLM_SIM_ITL=2ms")
}

// Runs are named by their places below the scenario's directory, where each has another.
func TestNames(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(root, run.ScenarioFile), []byte("{}"), 0o644))
	require.Equal(t, "a/0/2/p1/r1", Name(filepath.Join(root, "a/0/2/p1/r1")))
	require.Equal(t, "a/0", Name("/nowhere/s/a/0"))
	require.Equal(t, "a/0", Names([]string{"/nowhere/s/a/0", "/nowhere/s/b/0"}, nil)("/nowhere/s/a/0"))
	require.Equal(t, "/nowhere/s/a/0", Names([]string{"/nowhere/s/a/0", "/nowhere/t/a/0"}, nil)("/nowhere/s/a/0"),
		"two of the same name")
}

// What holds for several points of a sweep is said once, and a note on one point alone is as
// it was.
func TestNotesOnPointsTogether(t *testing.T) {
	point := func(step int, done string) cache.Row {
		checks := []result.Check{
			{Word: "phase-failed", Outcome: result.Fail, Severity: result.Invalid, Detail: fmt.Sprintf("%d/bench never ended", step)},
			{Word: "no-success", Outcome: result.Fail, Severity: result.Invalid, Detail: done},
		}
		return cache.Row{Dir: fmt.Sprintf("/r/load/0/%d", step), Result: &result.Result{
			Status: result.Failed, Validity: &result.Validity{Verdict: result.VerdictInvalid, Checks: checks},
			Failure: &result.Failure{Cause: "oom", Confidence: result.Exact, File: "logs/serve-0.log", LineNumber: 7,
				Line: "out of memory", Next: "less"},
		}}
	}
	name := func(dir string) string { return strings.TrimPrefix(dir, "/r/") }
	well := cache.Row{Dir: "/r/load/0/1",
		Result: &result.Result{Status: result.Completed, Validity: &result.Validity{Valid: true}}}
	require.Equal(t, []string{
		"load/0/2-4: invalid phase-failed: bench never ended",
		"load/0/2: invalid no-success: 3 requests completed",
		"load/0/3, 4: invalid no-success: 0 requests completed",
		"load/0/2-4: cause oom (exact): logs/serve-0.log:7: out of memory",
		"load/0/2-4: next: less",
	}, Notes([]cache.Row{well, point(2, "3 requests completed"), point(3, "0 requests completed"),
		point(4, "0 requests completed")}, name))

	other := point(2, "0 requests completed")
	other.Dir = "/r/other/0/2"
	lines := Notes([]cache.Row{point(2, "0 requests completed"), other}, name)
	require.Len(t, lines, 8, "tests are told apart")
	require.Equal(t, "load/0/2: invalid phase-failed: 2/bench never ended", lines[0])
}
