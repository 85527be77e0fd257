package report_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/result"
)

// A record that no longer fits itself is left out, with its name and the reason.
func TestEditedRecords(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*result.Result)
		why  string
	}{
		"throughput": {func(r *result.Result) { *r.Results.OutputThroughput *= 1.2 }, "output_throughput"},
		"verdict": {func(r *result.Result) {
			suspected(r)
			r.Validity.Checks[len(r.Validity.Checks)-1].Severity = result.Invalid
		}, "validity.valid is true, but failed: throttled"},
	} {
		t.Run(name, func(t *testing.T) {
			inTemp(t)
			runsOf(t, "one", 7, 1000, 50, 1)
			runsOf(t, "two", 7, 1000, 50, 1, func(i int, r *result.Result) {
				if i == 3 {
					c.edit(r)
				}
			})
			j := pair(t).Judgements[0]
			require.Len(t, j.First.Runs, 7)
			require.Len(t, j.Second.Runs, 6)
			require.Len(t, j.Second.Apart, 1)
			require.Contains(t, j.Second.Apart[0], "two/a/3: no record: result.json was changed after it was judged")
			require.Contains(t, j.Second.Apart[0], c.why)
		})
	}
}

// The same measurement counts once, whatever it is called; equal numbers of another start
// are another, and so are those whose start nobody wrote down.
func TestOneMeasurementCountsOnce(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
	started := func(apart time.Duration) func(int, *result.Result) {
		return func(i int, r *result.Result) {
			r.Results.Client = &result.Client{Program: "x", Started: new(at.Add(time.Duration(i) * apart))}
		}
	}
	for name, c := range map[string]struct {
		edit func(int, *result.Result)
		want int
	}{
		"copies":            {started(0), 1},
		"repeats":           {started(time.Second), 6},
		"no start":          {func(int, *result.Result) {}, 6},
		"one claim":         {func(_ int, r *result.Result) { r.Timestamp = at }, 1},
		"imported":          {func(_ int, r *result.Result) { r.Timestamp, r.Provenance.Foreign = at, "x" }, 6},
		"one claim, phases": {func(i int, r *result.Result) { r.Timestamp = at; *r.Results.Duration += 1e-6 * float64(i) }, 6},
		"no whole duration": {func(_ int, r *result.Result) { r.Timestamp, r.Results.Duration = at, nil }, 6},
	} {
		t.Run(name, func(t *testing.T) {
			inTemp(t)
			runsOf(t, "one", 6, 1000, 50, 1)
			runsOf(t, "two", 6, 1000, 50, 0, c.edit)
			j := pair(t).Judgements[0]
			require.Len(t, j.Second.Runs, c.want)
			for _, why := range j.Second.Apart {
				require.Contains(t, why, "a copy: another run has the same client start time")
			}
		})
	}
	inTemp(t)
	runsOf(t, "one", 6, 1000, 50, 1, started(time.Second))
	runsOf(t, "two", 6, 1000, 50, 1, started(time.Second))
	j := pair(t).Judgements[0]
	require.Empty(t, j.Second.Runs, "all are runs of the first")
	r, err := report.Trace(load(t, "one", "two"), nil, nil)
	require.NoError(t, err)
	require.Len(t, r.LeftOut, 6)
}

// Run ids have 24 random bits. A run with that of another and other settings is another run; with the same
// settings it is a copy, also in another folder.
func TestRunsOfOneIDAndOtherSettings(t *testing.T) {
	inTemp(t)
	named := func(i int, r *result.Result) { r.RunID = "exp_20260102_030405_00000f" }
	runsOf(t, "one", 1, 1000, 50, 1, named)
	runsOf(t, "two", 1, 1100, 50, 2, named, func(_ int, r *result.Result) {
		r.Config.Settings = map[string]string{"cmd_args.max_num_seqs": "7"}
	})
	r, err := report.Trace(load(t, "one", "two"), nil, nil)
	require.NoError(t, err)
	require.Empty(t, r.LeftOut)
	runsOf(t, "three", 1, 1100, 50, 3, named)
	r, err = report.Trace(load(t, "one", "two", "three"), nil, nil)
	require.NoError(t, err)
	require.Len(t, r.LeftOut, 1)
	require.Equal(t, "three/a/0", r.LeftOut[0].Dir)
	require.Contains(t, r.LeftOut[0].Why, "the same run id")
}

// Runs that are left out for one reason are told once, in the status, in the list of what is left
// out and beside a verdict. Their records stay apart in the other forms.
func TestOneReasonIsToldOnce(t *testing.T) {
	inTemp(t)
	runsOf(t, "one", 6, 1000, 50, 1)
	runsOf(t, "two", 9, 1000, 50, 1, func(i int, r *result.Result) {
		if i > 5 {
			r.Status, r.Failure = result.Cancelled, &result.Failure{Cause: "never-started",
				Confidence: result.NoCause}
		}
	})
	r := pair(t)
	require.Len(t, r.Judgements[0].Second.Apart, 3)
	said := text(t, r)
	require.Equal(t, 1, strings.Count(said, "second, left out: "), said)
	require.Contains(t, said, "second, left out: two/a/6-8: cancelled")

	said = text(t, report.Build(load(t, "two"), report.Options{}))
	require.Contains(t, said, "two/a/6-8\n")
	require.Equal(t, 2, strings.Count(said, "a iter=6 and 2 more"), said)
}

// Of a run without a job, no verdict will come: it is told by the word that collect has for it, not
// as one that is not over.
func TestRunsWithoutAJob(t *testing.T) {
	inTemp(t)
	runsOf(t, "one", 6, 1000, 50, 1)
	runsOf(t, "two", 8, 1000, 50, 1)
	two := load(t, "two")
	for i, noJob := range map[int]string{6: "refused", 7: "not submitted"} {
		two[i].Result.Status, two[i].NoJob = result.Unknown, noJob
	}
	two[6].Refusal, two[7].Result = "no partition", nil
	r, err := report.Pair(load(t, "one"), two, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"two/a/6: refused: no partition", "two/a/7: not submitted"}, r.Judgements[0].Second.Apart)
	said := text(t, report.Build(two, report.Options{}))
	require.Regexp(t, `a iter=6 +refused +no partition · two/a/6\n`, said)
	require.NotContains(t, said, "not over")
	require.Equal(t, "refused", two[6].Unfit(records.Measured))
}
