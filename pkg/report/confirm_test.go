package report_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/report/format"
	"github.com/profllm/profllm/pkg/result"
)

// What runs that alternate have in common is not in the verdict: of a machine that
// gets slower all the time the pairs prove what the two sets alone do not.
//
// covers: PL-Q4, PL-Q9, PL-Q13, PL-Q15
func TestConfirm(t *testing.T) {
	for name, c := range map[string]struct {
		pairs         int
		drift, slower float64
		metrics       []string
		want          report.Outcome
		unpaired      bool // the sets alone prove it, too
		needed        int
	}{
		"slower":                         {8, 0, 5, nil, report.Regressed, true, 0},
		"faster":                         {8, 0, -5, nil, report.Improved, true, 0},
		"the same":                       {8, 0, 0, nil, report.Same, false, 0},
		"slower, while all get slower":   {8, 1, 5, nil, report.Regressed, false, 0},
		"the same, while all get slower": {8, 1, 0, nil, report.Same, false, 0},
		"one metric needs six pairs":     {6, 1, 5, []string{"throughput"}, report.Regressed, false, 0},
		"of five six prove nothing":      {6, 0, 5, nil, report.TooLittle, true, 8},
		"five are no test":               {5, 0, 5, []string{"throughput"}, report.TooLittle, true, 6},
		"too noisy":                      {8, 4, 0, []string{"throughput"}, report.TooLittle, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inTemp(t)
			turns(t, c.pairs, c.drift, c.slower)
			r := confirm(t, c.metrics...)
			require.Len(t, r.Judgements, 1)
			j := r.Judgements[0]
			v := verdictOf(t, j, "output_throughput")
			require.Equal(t, c.want, v.Verdict, v.Why)
			require.Equal(t, c.want == report.Regressed, r.Bad())
			require.Equal(t, c.pairs, v.Paired.N)
			require.InDelta(t, -c.slower, *v.Paired.Percent, 1)
			require.Equal(t, c.needed, j.RunsNeeded)
			if c.unpaired {
				require.Less(t, *v.P, 0.01)
			} else {
				require.Greater(t, *v.P, 0.01)
			}
			var out bytes.Buffer
			require.NoError(t, format.Text(&out, r))
			require.Contains(t, out.String(), "unpaired shift %")
			require.Contains(t, out.String(), "finds from %")
			if name == "too noisy" {
				require.Equal(t, 85, v.RunsNeeded)
				require.Equal(t, 30, v.OutOfReach.Runs)
				require.Contains(t, out.String(), "out of reach: Throughput (tok/s): at a CV of 4.64 %, a difference of 2 % "+
					"takes 85 pairs; 30 detect 3.36 % or more\nwhat helps: longer runs, ")
				require.NotContains(t, out.String(), "needed for a verdict")
			}
		})
	}
}

// A run that cannot be believed takes its partner with it, and a run without a record
// does.
//
// covers: PL-Q13
func TestConfirmLeavesOutPairs(t *testing.T) {
	inTemp(t)
	turns(t, 8, 0, 5, func(side string, i int, r *result.Result) {
		if i < 2 {
			r.Placement.Nodes[0] = side
		}
		if side == "second" && i == 3 {
			r.Validity.Valid, r.Validity.Verdict = false, result.VerdictInvalid
		}
	})
	write(t, "first/a/5/result.json", "{")
	j := confirm(t, "throughput").Judgements[0]
	require.Equal(t, 6, j.Metrics[0].Paired.N)
	require.Equal(t, 2, j.ApartPairs, "on different nodes")
	require.Len(t, j.First.Runs, 6)
	require.Len(t, j.Second.Runs, 6)
	require.Len(t, j.First.Apart, 2)
	require.Len(t, j.Second.Apart, 2)
	require.Contains(t, j.First.Apart, "first/a/3: the other run of its pair is left out")
	require.Contains(t, j.Second.Apart, "second/a/5: the other run of its pair is left out")
	require.Equal(t, report.Regressed, j.Verdict)
}

// Phases of the same name belong together, whatever the tests are called.
func TestConfirmPhases(t *testing.T) {
	inTemp(t)
	for side, test := range map[string]string{"first": "old", "second": "new"} {
		for i := range 6 {
			dir := fmt.Sprintf("%s/%s/%d", side, test, i)
			p := planOf(dir, test)
			p.Iteration = i
			busy := p.Loads[0]
			p.Loads[0].Name, p.Loads[0].Dir = "quiet", p.Dir+"/quiet"
			busy.Name, busy.Dir = "busy", p.Dir+"/busy"
			p.Loads = append(p.Loads, busy)
			writePlan(t, dir, p)
			for k, phase := range []string{"quiet", "busy"} {
				r := recordOf(numbers{Throughput: 100*float64(k+1) + float64(i), TTFT: 50})
				r.RunID = dir + phase
				writeRecord(t, dir+"/"+phase, r)
			}
		}
	}
	r := confirm(t, "throughput")
	require.Len(t, r.Judgements, 2)
	require.Equal(t, []string{"old busy and new busy", "old quiet and new quiet"},
		[]string{r.Judgements[0].Test, r.Judgements[1].Test})
	for _, j := range r.Judgements {
		require.Equal(t, 6, j.Metrics[0].Paired.N)
		require.Zero(t, *j.Metrics[0].Paired.Percent)
		require.Equal(t, report.Same, j.Verdict)
	}
}

// Of a series that was over early nothing is missing, and the report says why it was
// and what that saved.
//
// covers: PL-Q14
func TestSeriesOfRepeats(t *testing.T) {
	inTemp(t)
	const dir = root + "/agg/0"
	p := planOf(dir, "agg")
	first := p.Loads[0]
	p.Loads = nil
	for i := range 9 {
		l := first
		l.Name, l.Dir = fmt.Sprintf("r%d", i+1), fmt.Sprintf("%s/r%d", p.Dir, i+1)
		until := &result.Series{Percent: 2, Metrics: []string{"output_throughput"}, Done: 6, Stopped: result.Precise,
			Why: "known to ±0.3 %", SavedRepeats: 3, SavedNodeMinutes: 4.5}
		l.Repeat = &plan.Repeat{Group: "g", Index: i, Of: 9,
			Until: &plan.Until{Percent: 2, Metrics: []string{"output_throughput"}}}
		p.Loads = append(p.Loads, l)
		if i < 6 {
			r := recordOf(numbers{Throughput: 1000 + noise[i], TTFT: 50})
			r.RunID, r.Repeats = l.Name, &result.Repeats{Group: "g", Index: i, Of: 9, Series: until}
			writeRecord(t, dir+"/"+l.Name, r)
		}
	}
	writePlan(t, dir, p)
	r := report.Build(load(t, root), report.Options{})
	require.Len(t, r.Runs, 6)
	require.Len(t, r.Repeats, 1)
	require.Len(t, r.Repeats[0].Series, 1, "one line for one start of the server")
	out := text(t, r)
	require.Contains(t, out, "agg: 6 repeats, to know the median of output_throughput to ±2 %; stopped: precise, known to ±0.3 %; saved 3 repeats, 4.5 node-minutes")
}

// The two tests of a confirmation may have one name and differ in the image alone: they
// are neither repeats of one test nor one series.
//
// covers: PL-Q6, PL-Q13
func TestSidesAreNotOneTest(t *testing.T) {
	inTemp(t)
	for i := range 4 {
		for k, side := range []string{"first", "second"} {
			dir := fmt.Sprintf("%s/%s/a/%d", root, side, i)
			p := planOf(dir, "a")
			p.Iteration, p.Image = i, fmt.Sprintf("image:%d", k)
			writePlan(t, dir, p)
			r := recordOf(numbers{Throughput: 1000, TTFT: 50})
			r.RunID = fmt.Sprintf("exp_20260102_030405_%06x", 2*i+k)
			writeRecord(t, dir, r)
		}
	}
	r := report.Build(load(t, root), report.Options{})
	require.Equal(t, "night/first", r.Runs[0].Case.Scenario)
	require.Len(t, r.Repeats, 2)
	require.Len(t, r.Repeats[0].Runs, 4)
	require.Len(t, trace(t, nil, nil, root).Trends, 2)
	require.Equal(t, 4, pairOf(t, root+"/first", root+"/second").Judgements[0].First.Jobs)
}

func pairOf(t *testing.T, a, b string) *report.Report {
	t.Helper()
	r, err := report.Pair(load(t, a), load(t, b), nil)
	require.NoError(t, err)
	return r
}
