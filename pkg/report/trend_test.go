package report_test

import (
	"bytes"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/report/format"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/tier"
)

func trendOf(t *testing.T, x report.Trend, key string) report.MetricTrend {
	t.Helper()
	for _, m := range x.Metrics {
		if m.Key == key {
			return m
		}
	}
	t.Fatalf("no %s", key)
	return report.MetricTrend{}
}

// covers: PL-Q9, PL-Q10, PL-Q15
func TestTrendVerdicts(t *testing.T) {
	again := stepAt(40, 20, -10) // falls, and rises again
	for i := 30; i < 40; i++ {
		again[i] /= 0.9
	}
	wave := make([]float64, 40)
	for i := range wave {
		wave[i] = 1000 + 100*math.Sin(float64(i)/6)
	}
	for name, c := range map[string]struct {
		values  []float64
		metrics []string
		verdict report.Outcome
		cuts    []int
		needed  int
		bad     bool
	}{
		"nothing":               {stepAt(30, 30, 0), nil, report.NoChange, nil, 0, false},
		"slower":                {stepAt(24, 12, -6), nil, report.Regressed, []int{12}, 0, true},
		"faster":                {stepAt(24, 12, 6), nil, report.Improved, []int{12}, 0, false},
		"less than matters":     {stepAt(40, 20, -1.6), nil, report.NoChange, []int{20}, 0, false},
		"slower and mended":     {again, nil, report.Improved, []int{20, 30}, 0, false},
		"too few":               {stepAt(12, 8, -20), nil, report.Watch, []int{8}, 0, false},
		"enough for one metric": {stepAt(12, 8, -20), []string{"throughput"}, report.Regressed, []int{8}, 0, true},
		"five":                  {stepAt(5, 5, 0), []string{"throughput"}, report.TooLittle, nil, 8, false},
		"nine, and five asked":  {stepAt(9, 9, 0), nil, report.TooLittle, nil, 13, false},
		"neighbours depend":     {wave, []string{"throughput"}, report.Watch, []int{4, 15, 19, 23, 35}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			inTemp(t)
			nightsOf(t, "one", c.values)
			r := trace(t, c.metrics, nil, "one")
			require.Len(t, r.Trends, 1)
			x := trendOf(t, r.Trends[0], "output_throughput")
			require.Equal(t, c.verdict, x.Verdict, x.Why)
			require.Equal(t, c.bad, r.Bad())
			require.Equal(t, c.needed, x.StartsNeeded)
			var cuts []int
			for _, cut := range x.Cuts {
				cuts = append(cuts, cut.Index)
				require.GreaterOrEqual(t, cut.AdjustedP, cut.P)
			}
			require.Equal(t, c.cuts, cuts)
			require.Len(t, x.Points, len(c.values))
			require.Len(t, r.Runs, len(c.values))
		})
	}
}

// What changed where a series changed, and nothing that changed elsewhere.
//
// covers: PL-Q16
func TestTrendCause(t *testing.T) {
	inTemp(t)
	nightsOf(t, "one", stepAt(24, 12, -6), func(i int, r *result.Result) {
		r.System.HardwareInfo.Driver = "550"
		r.Placement.Nodes = []string{fmt.Sprint("n", 1+i/20)}
		if i >= 12 {
			r.Provenance.ImageDigest, r.Provenance.EngineVersion = "sha256:b", "2"
		} else {
			r.Provenance.ImageDigest = "sha256:a"
		}
	})
	r := trace(t, nil, nil, "one")
	x := trendOf(t, r.Trends[0], "output_throughput")
	cut := x.Cuts[0]
	require.Equal(t, []string{"engine version: 1 against 2", "image digest: sha256:a against sha256:b"},
		texts(cut.Differs))
	require.False(t, cut.NotCausal, "an image is one thing")
	require.InDelta(t, -6, *cut.Percent, 1)
	require.Less(t, *cut.Low, *cut.Percent)
	require.Greater(t, *cut.High, *cut.Percent)
	require.Empty(t, r.Trends[0].Mixed)

	nightsOf(t, "one", stepAt(24, 12, -6), func(i int, r *result.Result) {
		if r.System.HardwareInfo.Driver = "550"; i >= 12 {
			r.System.HardwareInfo.Driver, r.Provenance.Image = "570", "image:2"
		}
	})
	r = trace(t, nil, nil, "one")
	cut = trendOf(t, r.Trends[0], "output_throughput").Cuts[0]
	require.Equal(t, []string{"cmd_args.docker_image_url: image:1 against image:2", "driver: 550 against 570"},
		texts(cut.Differs))
	require.True(t, cut.NotCausal)
	out := text(t, r)
	require.Contains(t, out, "regressed (first one/a/12, last before it one/a/11)")
	require.Contains(t, out, "changed there: driver: 550 against 570")
	require.Contains(t, out, "not causal")
}

// Another load is another series, unless the series are asked for otherwise; then what
// was changed in it is the cause at the cut.
//
// covers: PL-Q16
func TestTrendSeries(t *testing.T) {
	inTemp(t)
	nightsOf(t, "one", stepAt(24, 12, -20), func(i int, r *result.Result) {
		if i >= 12 {
			r.Config.Server["max_num_seqs"] = 8
		}
	})
	r := trace(t, []string{"throughput"}, nil, "one")
	require.Len(t, r.Trends, 2)
	require.NotEqual(t, r.Trends[0].Key, r.Trends[1].Key)
	require.Empty(t, r.Trends[0].Before)
	require.Equal(t, []string{"cmd_args.decode.max_num_seqs: unknown (the record of one/a/11 does not have it) against 8"}, texts(r.Trends[1].Before))
	require.False(t, r.Bad())

	r = trace(t, []string{"throughput"}, []string{"model"}, "one")
	require.Len(t, r.Trends, 1)
	require.Equal(t, "model=m", r.Trends[0].Key)
	require.Equal(t, report.Regressed, r.Trends[0].Verdict)
	require.Equal(t, []string{"cmd_args.decode.max_num_seqs: unknown (the record of one/a/11 does not have it) against 8"},
		texts(r.Trends[0].Metrics[0].Cuts[0].Differs))
}

// A test of many series needs more of each: the same step that is found alone is one
// to watch among a hundred quiet ones.
//
// covers: PL-Q9
func TestTrendManySeries(t *testing.T) {
	inTemp(t)
	runs := func(series int) []records.Run {
		var list []records.Run
		for s := range series {
			values := stepAt(14, 14, 0)
			if s == 0 {
				values = stepAt(14, 7, -10)
			}
			for i, x := range values {
				r := recordOf(numbers{Throughput: x, TTFT: 50})
				r.RunID, r.Timestamp = fmt.Sprint(s, "-", i), time.Date(2026, 1, 2+i, 3, 0, 0, 0, time.UTC)
				list = append(list,
					records.Run{Dir: fmt.Sprintf("t%d/%d", s, i), Case: records.Case{Test: fmt.Sprint("t", s)},
						Result: r})
			}
		}
		return list
	}
	m, err := metric.Find("throughput")
	require.NoError(t, err)
	one, err := report.Trace(runs(1), []metric.Metric{m}, nil)
	require.NoError(t, err)
	require.Equal(t, report.Regressed, one.Trends[0].Verdict)
	many, err := report.Trace(runs(101), []metric.Metric{m}, nil)
	require.NoError(t, err)
	require.Len(t, many.Trends, 101)
	require.Equal(t, report.Watch, many.Trends[0].Verdict)
	require.InDelta(t, 101*one.Trends[0].Metrics[0].Cuts[0].P, many.Trends[0].Metrics[0].Cuts[0].AdjustedP, 1e-12)
	require.False(t, many.Bad())
}

// Only what can be believed stands in a series; what does not is named with its word.
//
// covers: PL-V29, PL-V35
func TestTrendLeftOut(t *testing.T) {
	inTemp(t)
	edit := func(i int, r *result.Result) {
		switch i {
		case 3:
			r.Validity = &result.Validity{Verdict: result.VerdictInvalid, Words: []string{"no-tokens"},
				Checks: []result.Check{{Word: "no-tokens", Outcome: result.Fail, Severity: result.Invalid,
					Detail: "0 tokens"}}}
		case 4:
			suspected(r)
		case 5:
			r.Simulated = true
		case 6:
			r.Profiling = &result.Profiling{Enabled: true}
		case 7:
			r.RunID = fmt.Sprintf("exp_20260102_030405_%06x", int('o')<<16)
		case 8:
			r.Status = result.Partial
		}
	}
	nightsOf(t, "one", stepAt(20, 20, 0), edit)
	r := trace(t, nil, nil, "one", "one/a/0")
	require.Equal(t, 14, r.Trends[0].Runs)
	var why []string
	for _, x := range r.LeftOut {
		why = append(why, x.Dir+" "+x.Why)
	}
	require.Equal(t, []string{
		"one/a/3 invalid: no-tokens: 0 tokens", "one/a/4 suspect: throttled: 6 % of the samples", "one/a/5 simulated", "one/a/6 profiled",
		"one/a/7 a copy: another run has the same run id", "one/a/8 partial",
	}, why)
	out := text(t, r)
	require.Contains(t, out, "14 runs in series, 6 left out; metrics of 1 series: 5 no change found")
	require.Contains(t, out, "== Left out of every series")

	nightsOf(t, "one", stepAt(20, 20, 0), func(_ int, r *result.Result) { r.Simulated = true })
	r = trace(t, nil, nil, "one")
	require.Equal(t, records.Simulated, r.Trends[0].Kind)
	require.Empty(t, r.LeftOut)
	out = text(t, r)
	require.Contains(t, out, "SIMULATED: 20 of 20 runs")
	require.Contains(t, out, "== Trend: a (simulated): no change found")

	nightsOf(t, "one", stepAt(20, 20, 0), func(_ int, r *result.Result) { r.Validity = nil })
	r = trace(t, nil, nil, "one")
	require.Empty(t, r.Trends)
	require.True(t, r.Bad(), "no run that can be believed")
}

// Runs of one start of the server are one point: what differs from one start to the
// next is the noise that counts.
//
// covers: PL-Q1
func TestTrendStarts(t *testing.T) {
	inTemp(t)
	for night, x := range stepAt(10, 10, 0) {
		dir := fmt.Sprintf("%s/%d/0", root, night)
		p := planOf(dir, "a")
		load := p.Loads[0]
		p.Loads = nil
		for repeat := range 3 {
			l := load
			l.Dir, l.Name = fmt.Sprintf("%s/r%d", p.Dir, repeat+1), fmt.Sprintf("r%d", repeat+1)
			p.Loads = append(p.Loads, l)
			r := recordOf(numbers{Throughput: x + float64(repeat), TTFT: 50})
			r.RunID, r.Timestamp = fmt.Sprintf("exp_20260102_030405_%06x", 16*night+repeat), time.Date(2026, 1, 2+night,
				3, repeat, 0, 0, time.UTC)
			writeRecord(t, fmt.Sprintf("%s/r%d", dir, repeat+1), r)
		}
		writePlan(t, dir, p)
	}
	runs := load(t, root)
	for i := range runs {
		runs[i].Case.Phase = ""
	}
	r, err := report.Trace(runs, nil, nil)
	require.NoError(t, err)
	require.Len(t, r.Trends, 1)
	require.Equal(t, []int{30, 10}, []int{r.Trends[0].Runs, r.Trends[0].Starts})
	p := r.Trends[0].Metrics[0].Points
	require.Len(t, p, 10)
	require.Len(t, p[0].Runs, 3)
	require.InDelta(t, 1000*(1+noise[0]/100)+1, p[0].Value, 1e-9, "the median")
	out := text(t, r)
	require.Contains(t, out, "30 runs from 10 server starts, one point per start")
}

// covers: PL-V28
func TestMixedHardware(t *testing.T) {
	inTemp(t)
	drivers := func(i int, r *result.Result) { r.System.HardwareInfo.Driver = []string{"550", "570"}[i/4%2] }
	nightsOf(t, "one", stepAt(20, 20, 0), drivers)
	r := trace(t, nil, nil, "one")
	require.Equal(t, []string{"driver: 550 (12 runs), 570 (8 runs)"}, r.Trends[0].Mixed)
	require.Equal(t, []report.Mark{report.MixedHardware}, r.Trends[0].Metrics[0].Marks)
	nightsOf(t, "two", stepAt(20, 10, 0),
		func(i int, r *result.Result) { r.System.HardwareInfo.GPU = fmt.Sprint("H", i/19) })
	r = trace(t, nil, []string{"model"}, "two")
	require.Equal(t, []string{"GPU: H0 (19 runs), H1 (1 run)"}, r.Trends[0].Mixed)
	require.Len(t, trace(t, nil, nil, "two").Trends, 2, "another GPU is another series")

	nightsOf(t, "two", stepAt(20, 20, 0), func(i int, r *result.Result) {
		if r.System.HardwareInfo.Driver = "570"; i == 0 {
			r.System.HardwareInfo.Driver = "" // not known: no other
		}
	})
	j := pair(t).Judgements[0]
	require.Equal(t, []string{"first: driver: 550 (12 runs), 570 (8 runs)"}, j.Mixed)
	require.Equal(t, []report.Mark{report.MixedHardware}, j.Metrics[0].Marks)
	require.Equal(t, report.Same, j.Verdict, "the word does not hide the numbers")
	b := report.Build(load(t, "one"), report.Options{})
	require.Equal(t, []string{"driver: 550 (12 runs), 570 (8 runs)"}, b.Repeats[0].Mixed)
	out := text(t, b)
	require.Contains(t, out, "mixed-hardware: suspect, the runs of a are not alike: driver: 550 (12 runs), 570 (8 runs)")
	require.Empty(t, report.Build(load(t, "two"), report.Options{}).Repeats[0].Mixed)
}

// A gain of speed is hollow until the answers were looked at, before and after it, on
// the same image with the same flags.
//
// covers: PL-V32
func TestAccuracyUnchecked(t *testing.T) {
	tier.Alone(t)
	eval := func(r *result.Result) {
		r.Accuracy = &result.Accuracy{Task: "gsm8k", Value: 0.94, Questions: new(1319), Source: "x"}
	}
	image := func(i int, r *result.Result) {
		if i >= 12 {
			r.Provenance.ImageDigest = "sha256:b"
		}
	}
	for name, c := range map[string]struct {
		percent float64
		edit    func(i int, r *result.Result)
		marks   []report.Mark
	}{
		"no accuracy":    {6, func(int, *result.Result) {}, []report.Mark{report.AccuracyUnchecked}},
		"of all":         {6, func(_ int, r *result.Result) { eval(r) }, nil},
		"of one of each": {6, func(i int, r *result.Result) { i %= 12; keep(i == 4, eval, r) }, nil},
		"before only":    {6, func(i int, r *result.Result) { keep(i < 12, eval, r) }, []report.Mark{report.AccuracyUnchecked}},
		"behind only":    {6, func(i int, r *result.Result) { keep(i >= 12, eval, r) }, []report.Mark{report.AccuracyUnchecked}},
		"of another digest": {6, func(i int, r *result.Result) {
			eval(r)
			if i > 12 {
				r.Provenance.ImageDigest, r.Accuracy = "sha256:c", nil
			}
		}, []report.Mark{report.AccuracyUnchecked}},
		"withheld": {6, func(i int, r *result.Result) {
			eval(r)
			r.Validity.Withheld = []string{"accuracy.value"}
		}, []report.Mark{report.AccuracyUnchecked}},
		"a loss": {-6, func(int, *result.Result) {}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inTemp(t)
			values := stepAt(24, 12, c.percent)
			nightsOf(t, "all", values, image, c.edit)
			x := trendOf(t, trace(t, nil, nil, "all").Trends[0], "output_throughput")
			require.Len(t, x.Cuts, 1)
			require.Equal(t, c.marks, x.Marks)
			require.Equal(t, c.marks, x.Cuts[0].Marks)
			nightsOf(t, "one", values[:12], image, c.edit)
			nightsOf(t, "two", values[12:], func(i int, r *result.Result) { image(i+12, r); c.edit(i+12, r) })
			require.Equal(t, c.marks, verdictOf(t, pair(t).Judgements[0], "output_throughput").Marks)
		})
	}
	t.Run("of another test on the same server", func(t *testing.T) {
		inTemp(t)
		nightsOf(t, "all", stepAt(24, 12, 6), image)
		for i, name := range []string{"p", "q"} {
			nightsOf(t, name, []float64{500}, func(_ int, r *result.Result) {
				image(12*i, r)
				eval(r)
				r.Config.Benchmark.MaxConcurrency = new(2)
			})
		}
		r := trace(t, nil, nil, "all", "p", "q")
		for _, x := range r.Trends {
			for _, m := range x.Metrics {
				require.Empty(t, m.Marks)
			}
		}
		require.Equal(t, report.Improved, r.Trends[0].Verdict)
	})
}

func keep(yes bool, edit func(*result.Result), r *result.Result) {
	if yes {
		edit(r)
	}
}

// Runs in which a metric meant something else are no points of it: a new definition is
// no change of the machine.
//
// covers: PL-Q9
func TestTrendRedefined(t *testing.T) {
	inTemp(t)
	nightsOf(t, "one", stepAt(40, 12, -30), func(i int, r *result.Result) {
		if i >= 12 {
			r.MetricsVersion = result.MetricsVersion + 1
		}
	})
	r := trace(t, []string{"output_throughput"}, nil, "one")
	require.Equal(t, report.NoChange, r.Trends[0].Verdict)
	x := trendOf(t, r.Trends[0], "output_throughput")
	require.Len(t, x.Points, 28)
	require.Equal(t, []string{"one/a/12"}, x.Points[0].Runs)
	out := text(t, r)
	require.Contains(t, out, "Throughput: older runs are left out: version 2 of the metrics' definitions is unknown to this profllm")
}

// A metric that the newest starts lack has not stayed as it was: nobody knows. One that
// was asked for and that no run has is named.
//
// covers: PL-Q15
func TestTrendLackingMetric(t *testing.T) {
	inTemp(t)
	nightsOf(t, "one", stepAt(30, 30, 0), func(i int, r *result.Result) {
		if i == 3 || i >= 28 {
			r.Results.OutputThroughput = nil
		}
	})
	r := trace(t, []string{"throughput", "request_goodput"}, nil, "one")
	x := trendOf(t, r.Trends[0], "output_throughput")
	require.Equal(t, report.TooLittle, x.Verdict)
	require.Equal(t, "the newest 2 server starts lack it", x.Why)
	require.Equal(t, 3, x.Lacking)
	none := trendOf(t, r.Trends[0], "request_goodput")
	require.Equal(t, report.TooLittle, none.Verdict)
	require.Equal(t, "no run has it", none.Why)
	for _, name := range []string{"text", "json", "csv", "markdown", "prometheus"} {
		var b bytes.Buffer
		require.NoError(t, format.Write(&b, r, name), name)
	}
	var page bytes.Buffer
	require.NoError(t, format.Page{}.Write(&page, r))
	require.NoError(t, format.JUnit(&page, r))
	_, err := format.Otava(&page, r)
	require.NoError(t, err)
	require.Equal(t, report.NoChange, trendOf(t, trace(t, nil, nil, "one").Trends[0], "median_ttft_ms").Verdict)
}

// A change from a median of 0 has a direction, and no percentage: as in a comparison.
func TestTrendFromZero(t *testing.T) {
	inTemp(t)
	nightsOf(t, "one", stepAt(24, 12, 0), func(i int, r *result.Result) {
		d := r.Results.Latency[result.TTFT]
		if i < 12 {
			d.Median = new(0.0)
		}
		r.Results.Latency[result.TTFT] = d
	})
	x := trace(t, []string{"median_ttft_ms"}, nil, "one").Trends[0].Metrics[0]
	require.Equal(t, report.Regressed, x.Verdict, "%+v", x)
	require.Len(t, x.Cuts, 1)
	require.Equal(t, 12, x.Cuts[0].Index)
	require.Nil(t, x.Cuts[0].Percent)
	require.Contains(t, x.Cuts[0].Why, "the median before it is 0")
}
