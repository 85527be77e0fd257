package report_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/report/format"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/tier"
)

func verdictOf(t *testing.T, j report.Judgement, key string) report.MetricVerdict {
	t.Helper()
	for _, m := range j.Metrics {
		if m.Key == key {
			return m
		}
	}
	t.Fatalf("no %s", key)
	return report.MetricVerdict{}
}

// A difference that takes too many runs is said to be out of reach, apart from what some more
// runs would settle.
//
// covers: PL-Q5
func TestRunsNeededAreWithinReach(t *testing.T) {
	inTemp(t)
	runsOf(t, "one", 6, 1000, 50, 10)
	runsOf(t, "two", 6, 1000, 50, 10)
	r := pair(t)
	v := verdictOf(t, r.Judgements[0], "output_throughput")
	require.Equal(t, 297, v.RunsNeeded)
	require.Equal(t, 30, v.OutOfReach.Runs)
	require.InDelta(t, 6.3, v.OutOfReach.Percent, 0.1)
	one, two := r.Judgements[0].Missing()
	require.Equal(t, []int{0, 0}, []int{one, two})
	said := text(t, r)
	require.Contains(t, said, "out of reach: Throughput (tok/s): at a CV of 8.69 %, a difference of 2 % takes 297 runs "+
		"per side; 30 detect 6.29 % or more\n")
	require.Contains(t, said, "what helps: profllm confirm (runs in turns), longer runs, ")
	require.NotContains(t, said, "needed for a verdict")

	runsOf(t, "three", 10, 1000, 50, 1)
	runsOf(t, "four", 10, 985, 50, 1)
	r, err := report.Pair(load(t, "three"), load(t, "four"), nil)
	require.NoError(t, err)
	require.Contains(t, text(t, r), "needed for a verdict on Throughput (tok/s): 11 valid runs per side")
}

// Runs whose jobs are not known are of as many server starts, and sets that mix values are not called different.
func TestSetsOfUploadedRuns(t *testing.T) {
	inTemp(t)
	runsOf(t, "one", 4, 1000, 50, 1)
	runsOf(t, "two", 4, 1000, 50, 1)
	sides := [2][]records.Run{load(t, "one"), load(t, "two")}
	for _, side := range sides {
		for i := range side {
			side[i].Job = ""
		}
	}
	r, err := report.Pair(sides[0], sides[1], nil)
	require.NoError(t, err)
	require.Equal(t, 4, r.Judgements[0].First.Jobs)
	require.NotContains(t, text(t, r), "one server start")
	for _, side := range sides {
		for i := range side {
			side[i].Settings["bench_cmd_args.max_concurrency"] = strconv.Itoa(16 << (i % 2))
		}
	}
	r, err = report.Pair(sides[0], sides[1], nil)
	require.NoError(t, err)
	require.Contains(t, text(t, r), "max_concurrency: 16, 32 on each side")
}

// Names of sets stand wherever the first and the second would.
func TestPairNamed(t *testing.T) {
	inTemp(t)
	runsOf(t, "one", 3, 1000, 50, 1)
	runsOf(t, "two", 3, 985, 50, 1)
	r, err := report.PairNamed(load(t, "one"), load(t, "two"), nil, report.Names{First: "H100", Second: "H200"})
	require.NoError(t, err)
	said := text(t, r)
	require.Contains(t, said, "H200 against H100")
	require.Contains(t, said, "\nH100: 3 runs")
	require.Contains(t, said, "missing: 3 in H100, 3 in H200")
	require.NotContains(t, said, "in the first")
	require.Equal(t, "H200", r.Judgements[0].Second.Name)

	r, err = report.PairNamed(load(t, "one"), nil, nil, report.Names{First: "H100"})
	require.ErrorIs(t, err, report.ErrNoPair)
	require.Contains(t, r.Notes[0], "only in H100 (")
}

// covers: PL-Q3, PL-Q4, PL-Q5, PL-Q9, PL-Q15
func TestVerdicts(t *testing.T) {
	for name, c := range map[string]struct {
		n, m             int
		throughput, ttft float64 // of the second; the first has 1000 and 50
		wobble           float64
		verdict, rate    report.Outcome
		latency          report.Outcome // of the median TTFT
		needed           int
		bad              bool
	}{
		"the same":                    {6, 6, 1000, 50, 1, report.Same, report.Same, report.Same, 0, false},
		"slower":                      {6, 6, 950, 50, 1, report.Regressed, report.Regressed, report.Same, 0, true},
		"faster":                      {6, 6, 1050, 50, 1, report.Improved, report.Improved, report.Same, 0, false},
		"answers later":               {6, 6, 1000, 55, 1, report.Regressed, report.Same, report.Regressed, 0, true},
		"answers sooner":              {6, 6, 1000, 45, 1, report.Improved, report.Same, report.Improved, 0, false},
		"one each way":                {6, 6, 950, 45, 1, report.Regressed, report.Regressed, report.Improved, 0, true},
		"different and no matter":     {10, 10, 985, 50, 0.5, report.Same, report.Same, report.Same, 0, false},
		"different, and perhaps more": {10, 10, 985, 50, 1, report.TooLittle, report.TooLittle, report.Same, 11, false},
		"just beyond":                 {10, 10, 978, 50, 0.5, report.Regressed, report.Regressed, report.Same, 0, true},
		"three against three":         {3, 3, 800, 50, 1, report.TooLittle, report.TooLittle, report.TooLittle, 6, false},
		"one against six":             {1, 6, 800, 50, 1, report.TooLittle, report.TooLittle, report.TooLittle, 6, false},
		"very noisy":                  {6, 6, 1000, 50, 10, report.TooLittle, report.TooLittle, report.TooLittle, 0, false},
		"unequal":                     {4, 12, 900, 50, 1, report.Regressed, report.Regressed, report.Same, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			inTemp(t)
			runsOf(t, "one", c.n, 1000, 50, c.wobble)
			runsOf(t, "two", c.m, c.throughput, c.ttft, c.wobble)
			r := pair(t)
			require.Len(t, r.Judgements, 1)
			require.Empty(t, r.Comparisons, "sets are not shown run beside run")
			j := r.Judgements[0]
			rate, latency := verdictOf(t, j, "output_throughput"), verdictOf(t, j, "median_ttft_ms")
			require.Equal(t, []report.Outcome{c.verdict, c.rate, c.latency},
				[]report.Outcome{j.Verdict, rate.Verdict, latency.Verdict})
			require.Equal(t, c.needed, j.RunsNeeded)
			require.Equal(t, c.bad, r.Bad())
			require.Equal(t, []int{c.n, c.m}, []int{rate.First.N, rate.Second.N})
			require.InDelta(t, (c.throughput-1000)/10, *rate.Percent, 0.05+c.wobble)
			if c.n < 4 {
				require.Nil(t, rate.Low)
				require.Nil(t, rate.P)
				return
			}
			require.LessOrEqual(t, *rate.Low, *rate.Percent)
			require.GreaterOrEqual(t, *rate.AdjustedP, *rate.P)
			require.GreaterOrEqual(t, *rate.Coverage, 0.95)
		})
	}
}

// One of several metrics needs more evidence than one alone: 4 against 4 has a p of
// 0.03, which of five tests is nothing.
//
// covers: PL-Q9
func TestManyMetrics(t *testing.T) {
	inTemp(t)
	runsOf(t, "one", 4, 1000, 50, 1)
	runsOf(t, "two", 4, 900, 50, 1)
	rate := verdictOf(t, pair(t).Judgements[0], "output_throughput")
	require.InDelta(t, 2.0/70, *rate.P, 1e-12)
	require.InDelta(t, 5*2.0/70, *rate.AdjustedP, 1e-12)
	require.Equal(t, report.TooLittle, rate.Verdict)
	m, err := metric.Find("throughput")
	require.NoError(t, err)
	r, err := report.Pair(load(t, "one"), load(t, "two"), []metric.Metric{m})
	require.NoError(t, err)
	require.Equal(t, report.Regressed, r.Judgements[0].Verdict)
	require.Len(t, r.Judgements[0].Metrics, 1)
}

// A side of which some runs say a setting, and others do not, is not alike, and is
// told apart from one that says it throughout.
//
// covers: PL-V30
func TestASideThatIsNotAlike(t *testing.T) {
	inTemp(t)
	runsOf(t, "one", 6, 1000, 50, 1)
	runsOf(t, "two", 6, 1000, 50, 1, func(i int, r *result.Result) {
		if i > 2 {
			r.Config.Settings = map[string]string{"extra_env_vars.A": "1"}
		}
	})
	r := pair(t)
	require.Equal(t, report.NotComparable, r.Judgements[0].Verdict)
	list := r.Judgements[0].NotComparable
	require.Contains(t, texts(list), "extra_env_vars.A: unknown (the record of one/a/0 does not have it) against "+
		"1, unknown (the record of two/a/0 does not have it)", "of which run, for records that lack settings")
	require.Contains(t, texts(list), "NUM_NODES: 1 against 1, not set", "of records that have all settings")
	data, err := json.Marshal(list[len(list)-1])
	require.NoError(t, err)
	require.JSONEq(t, `{"field": "extra_env_vars.A", "first": "",
		"second": "1, unknown (the record of two/a/0 does not have it)"}`, string(data))
}

// A path that is named on both sides by mistake does not pass as no change.
//
// covers: PL-V35
func TestARunIsNotComparedWithItself(t *testing.T) {
	inTemp(t)
	runsOf(t, "one", 8, 1000, 50, 1)
	r, err := report.Pair(load(t, "one"), load(t, "one"), nil)
	require.NoError(t, err)
	j := r.Judgements[0]
	require.Len(t, j.First.Runs, 8)
	require.Empty(t, j.Second.Runs)
	require.Equal(t, "one/a/0: is also a run of the first side, so nothing can differ", j.Second.Apart[0])
	require.True(t, r.Bad())

	r, err = report.Pair(load(t, "one/a/0"), load(t, "one/a/0"), nil)
	require.NoError(t, err)
	require.Contains(t, r.Notes, "one/a/0 is also a run of the first side, so nothing can differ")
	require.Equal(t, report.TooLittle, r.Judgements[0].Verdict, "one run per side is not tested")

	runsOf(t, "two", 8, 1000, 50, 1)
	r, err = report.Pair(load(t, "one"), load(t, "two"), nil)
	require.NoError(t, err)
	require.False(t, r.Bad())
}

// covers: PL-V29, PL-V35
func TestOnlyBelievedRuns(t *testing.T) {
	inTemp(t)
	runsOf(t, "one", 8, 1000, 50, 1, func(i int, r *result.Result) {
		switch i {
		case 0:
			r.Validity = &result.Validity{Verdict: result.VerdictInvalid, Words: []string{"no-tokens"},
				Checks: []result.Check{}}
		case 1:
			suspected(r)
		}
	})
	runsOf(t, "two", 8, 1000, 50, 1, func(i int, r *result.Result) {
		switch i {
		case 2:
			suspected(r)
		case 7:
			r.RunID = "exp_20260102_030405_" + fmt.Sprintf("%06x", 3<<16+int('t')<<8)
		}
	})
	r := pair(t)
	j := r.Judgements[0]
	require.Len(t, j.First.Runs, 6)
	require.Len(t, j.First.Apart, 2)
	require.Contains(t, j.First.Apart[0], "one/a/0: invalid")
	require.Contains(t, j.First.Apart[1], "one/a/1: suspect, so not a baseline")
	require.Len(t, j.Second.Runs, 7, "a suspect run may be held against a baseline")
	require.Contains(t, j.Second.Apart[0], "two/a/7: a copy")
	require.Equal(t, report.Same, j.Verdict)
	require.False(t, r.Bad())

	runsOf(t, "two", 8, 1000, 50, 1, func(_ int, r *result.Result) { r.Validity = nil })
	r = pair(t)
	require.True(t, r.Bad(), "no run that can be believed")
	require.Equal(t, report.TooLittle, r.Judgements[0].Verdict)

	runsOf(t, "two", 8, 1000, 50, 1, func(i int, r *result.Result) { r.Simulated = i == 5 })
	_, err := report.Pair(load(t, "one"), load(t, "two"), nil)
	require.ErrorContains(t, err, "two/a/5 is simulated: they are never compared")
	runsOf(t, "two", 8, 1000, 50, 1, func(_ int, r *result.Result) { r.Profiling = &result.Profiling{Enabled: true} })
	_, err = report.Pair(load(t, "one"), load(t, "two"), nil)
	require.ErrorContains(t, err, "two/a/0 is profiled: they are never compared")
}

// A withheld number of some runs leaves the others.
func TestWithheldInSets(t *testing.T) {
	inTemp(t)
	runsOf(t, "one", 7, 1000, 50, 1, func(i int, r *result.Result) {
		if i == 0 {
			r.Validity.Withheld = []string{"median_ttft_ms"}
		}
	})
	runsOf(t, "two", 6, 1000, 50, 1, func(_ int, r *result.Result) { r.Validity.Withheld = []string{"p99_ttft_ms"} })
	j := pair(t).Judgements[0]
	require.Equal(t, 6, verdictOf(t, j, "median_ttft_ms").First.N)
	require.Equal(t, 7, verdictOf(t, j, "output_throughput").First.N)
	m := verdictOf(t, j, "p99_ttft_ms")
	require.Equal(t, report.TooLittle, m.Verdict)
	require.Equal(t, "the second has it withheld", m.Why)
	require.Equal(t, 7, m.First.N)
	require.Zero(t, m.Second.N)
}

// A metric that one side lacks is named, and what is proven of the others is not said of
// all of them.
//
// covers: PL-Q15
func TestLackingMetric(t *testing.T) {
	without := func(_ int, r *result.Result) { r.Results.OutputThroughput = nil }
	for name, c := range map[string]struct {
		n             int
		first, second func(int, *result.Result)
		why           string
	}{
		"the second": {8, nil, without, "the second has none"},
		"the first":  {8, without, nil, "the first has none"},
		"one v one":  {1, nil, without, "the second has none"},
	} {
		t.Run(name, func(t *testing.T) {
			inTemp(t)
			for dir, edit := range map[string]func(int, *result.Result){"one": c.first, "two": c.second} {
				if edit == nil {
					edit = func(int, *result.Result) {}
				}
				runsOf(t, dir, c.n, 1000, 50, 0.1, edit)
			}
			r := pair(t)
			j := r.Judgements[0]
			require.Equal(t, report.TooLittle, verdictOf(t, j, "output_throughput").Verdict)
			require.Equal(t, c.why, verdictOf(t, j, "output_throughput").Why)
			require.Equal(t, report.TooLittle, j.Verdict)
			require.False(t, r.Bad())
			var text, xml bytes.Buffer
			require.NoError(t, format.Write(&text, r, "text"))
			require.Contains(t, text.String(), "not compared: Throughput (tok/s): "+c.why)
			require.NotContains(t, text.String(), ": same within noise\n")
			require.NoError(t, format.JUnit(&xml, r))
			require.Contains(t, xml.String(), c.why)
		})
	}
}

// One that was asked for by name and that no run has is named as well.
func TestLackingEverywhere(t *testing.T) {
	inTemp(t)
	runsOf(t, "one", 3, 1000, 50, 1)
	runsOf(t, "two", 3, 1000, 50, 1)
	m, err := metric.Find("request_goodput")
	require.NoError(t, err)
	r, err := report.Pair(load(t, "one"), load(t, "two"), []metric.Metric{m})
	require.NoError(t, err)
	require.Equal(t, "the first has none, the second has none", verdictOf(t, r.Judgements[0], "request_goodput").Why)
}

// Two sides that change places change the signs and the verdicts, whatever the numbers:
// in the test of sets, beside each other, and in diff.
//
// covers: PL-Q15
func TestSidesMirror(t *testing.T) {
	mirrored := map[report.Outcome]report.Outcome{report.Improved: report.Regressed, report.Regressed: report.Improved}
	draw := rand.New(rand.NewPCG(7, 11))
	for range 12 {
		inTemp(t)
		n := 1 + 7*draw.IntN(2)
		shift := []float64{0, 0.5, 0.8, 1, 1, 1.25, 2}[draw.IntN(7)] // 0: the second side is idle
		runsOf(t, "one", n, 1000, 50, 0.3)
		runsOf(t, "two", n, 1000*max(shift, 0.1), 50*max(shift, 0.1), 0.3, func(_ int, r *result.Result) {
			if shift == 0 {
				slowed(r, 0)
			}
		})
		ab, err := report.Pair(load(t, "one"), load(t, "two"), nil)
		require.NoError(t, err)
		ba, err := report.Pair(load(t, "two"), load(t, "one"), nil)
		require.NoError(t, err)
		for i, x := range ab.Judgements[0].Metrics {
			y := ba.Judgements[0].Metrics[i]
			want := x.Verdict
			if m, ok := mirrored[want]; ok {
				want = m
			}
			require.Equal(t, want, y.Verdict, "%s, shift %g, %d runs: %s; %s", x.Key, shift, n, x.Why, y.Why)
			opposite(t, x.Percent, y.Percent)
		}
		if n > 1 {
			continue
		}
		first, second := load(t, "one"), load(t, "two")
		d, err := report.Diff(&first[0], &second[0])
		require.NoError(t, err)
		for _, section := range ab.Comparisons[0].Sections {
			for _, x := range section.Rows {
				if x.Difference == nil {
					continue
				}
				require.Equal(t, *x.Values[1].Number-*x.Values[0].Number, x.Difference.Absolute, x.Key)
				other := row(t, ba.Comparisons[0], x.Key).Difference
				require.Equal(t, -x.Difference.Absolute, other.Absolute)
				for _, number := range d.Numbers {
					if number.Key == x.Key {
						require.Equal(t, x.Difference, number.Difference, "compare and diff say the same")
					}
				}
				for _, m := range ab.Judgements[0].Metrics {
					if m.Key == x.Key && m.Percent != nil {
						require.InDelta(t, *m.Percent, *x.Difference.Percent, 1e-9, "and so do the sets")
					}
				}
			}
		}
	}
}

// opposite requires two percentages of either side's median to be of opposite signs.
func opposite(t *testing.T, a, b *float64) {
	t.Helper()
	if a != nil && b != nil {
		require.LessOrEqual(t, *a**b, 0.0)
	}
}

// covers: PL-V30, PL-Q16
func TestUnlike(t *testing.T) {
	for name, c := range map[string]struct {
		edit    func(int, *result.Result)
		refused []string
		differs []string
		causal  bool
	}{
		"alike":        {func(int, *result.Result) {}, nil, nil, true},
		"another GPU":  {func(_ int, r *result.Result) { r.System.HardwareInfo.GPU = "H200" }, []string{"GPU: H100 against H200"}, nil, true},
		"mixed GPUs":   {func(i int, r *result.Result) { r.System.HardwareInfo.GPU = fmt.Sprint("H", i/3) }, []string{"GPU: H100 against H0, H1"}, nil, true},
		"no GPU known": {func(_ int, r *result.Result) { r.System = nil }, nil, []string{"GPU: H100 against unknown (the record of two/a/0 does not have it)"}, true},
		"model": {func(_ int, r *result.Result) { r.Config.Server["model"] = "n" },
			[]string{"tokenizer: m against n"}, nil, true},
		"endpoint": {func(_ int, r *result.Result) { r.Config.Benchmark.Endpoint = "/v1/chat/completions" },
			nil, []string{"endpoint: unknown (the record of one/a/0 does not have it) against /v1/chat/completions"}, true},
		"lengths": {func(_ int, r *result.Result) { r.Config.Benchmark.InputTokens = new(9) }, nil, []string{"input tokens: unknown (the record of one/a/0 does not have it) against 9"}, true},
		"image": {func(_ int, r *result.Result) {
			r.Provenance.Image, r.Provenance.EngineVersion, r.Placement.Nodes = "image:2", "2", []string{"n7"}
		}, nil, []string{"cmd_args.docker_image_url: image:1 against image:2", "engine version: 1 against 2",
			"nodes: n1 against n7"}, true},
		"image and load": {func(_ int, r *result.Result) {
			r.Provenance.Image, r.Config.Benchmark.MaxConcurrency = "image:2", new(32)
		}, nil, []string{"bench_cmd_args.max_concurrency: 16 against 32",
			"cmd_args.docker_image_url: image:1 against image:2"}, false},
		"no set": {func(i int, r *result.Result) { r.Config.Benchmark.MaxConcurrency = new(16 + i) },
			[]string{"bench_cmd_args.max_concurrency: 16 against 16, 17, 18, 19, 20, 21"}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			inTemp(t)
			runsOf(t, "one", 6, 1000, 50, 1)
			runsOf(t, "two", 6, 1000, 50, 1, c.edit)
			r := pair(t)
			j := r.Judgements[0]
			require.Equal(t, c.refused, texts(j.NotComparable))
			require.Equal(t, c.differs, texts(j.Differs))
			require.Equal(t, c.causal, !j.NotCausal)
			require.Equal(t, c.refused != nil, j.Verdict == report.NotComparable)
			require.Equal(t, c.refused != nil, r.Bad())
			require.Equal(t, c.refused != nil, len(j.Metrics) == 0)
		})
	}
}

func texts(list []report.Unlike) []string {
	var out []string
	for _, u := range list {
		out = append(out, u.String())
	}
	return out
}

// Runs that are alike stand together, with the one that has their median throughput;
// never a row of medians as if a run had had them.
//
// covers: PL-Q6, PL-Q18, PL-D17
func TestRunsThatAreAlike(t *testing.T) {
	inTemp(t)
	runsOf(t, "one", 7, 1000, 50, 1, func(i int, r *result.Result) {
		if i == 6 {
			r.Validity = &result.Validity{Verdict: result.VerdictInvalid, Checks: []result.Check{}}
		}
	})
	runsOf(t, "two", 3, 500, 50, 1, func(_ int, r *result.Result) { r.Config.Benchmark.MaxConcurrency = new(1) })
	runsOf(t, "six", 1, 500, 50, 1, func(_ int, r *result.Result) { r.Config.Benchmark.MaxConcurrency = new(2) })
	r := report.Build(load(t, "one", "two", "six"), report.Options{})
	require.Len(t, r.Repeats, 2, "of one run there is no spread")
	x := r.Repeats[0]
	require.Len(t, x.Runs, 6)
	require.Equal(t, "one/a/3", x.MedianRun)
	rate := x.Metrics["output_throughput"]
	require.Equal(t, 6, rate.N)
	require.InDelta(t, 1000.5, *rate.Median, 1e-9)
	require.InDelta(t, 990, *rate.Low, 1e-9)
	require.InDelta(t, 1011, *rate.High, 1e-9)
	require.Nil(t, r.Repeats[1].Metrics["output_throughput"].Low)
	out := text(t, r)
	require.Regexp(t, `a +Throughput \(tok/s\) +6 +1000.5000 +\[990.0000, 1011.0000\] +0.8\d +one/a/3`, out)
	require.Contains(t, out, "none below 6 runs")
	require.Empty(t, report.Build(load(t, "six"), report.Options{}).Repeats)
}

// One run's accuracy has an interval, by its questions.
//
// covers: PL-Q7
func TestAccuracyOfOne(t *testing.T) {
	inTemp(t)
	eval := func(value float64, questions *int) func(int, *result.Result) {
		return func(_ int, r *result.Result) {
			r.Accuracy = &result.Accuracy{Task: "gsm8k", Value: value, Questions: questions, Source: "x"}
		}
	}
	runsOf(t, "one", 1, 1000, 50, 1, eval(0.94, new(200)))
	runsOf(t, "two", 1, 1000, 50, 1, eval(1240.0/1319, new(1319)))
	j := pair(t).Judgements[0]
	require.InDelta(t, 0.89806831, j.First.Accuracy.Low, 1e-8)
	require.InDelta(t, 0.96534781, j.First.Accuracy.High, 1e-8)
	require.Equal(t, "0.9401 of 1319 questions, 95 % interval [0.9260, 0.9517]; so many questions show no drop below 2.9 points", j.Second.Accuracy.String())
	for name, e := range map[string]func(int, *result.Result){
		"no number of questions": eval(0.9, nil), "no questions": eval(0.9, new(0)),
	} {
		runsOf(t, "two", 1, 1000, 50, 1, e)
		require.Nil(t, pair(t).Judgements[0].Second.Accuracy, name)
	}
	runsOf(t, "two", 1, 1000, 50, 1, eval(1, new(10)))
	require.Nil(t, pair(t).Judgements[0].Second.Accuracy.LeastDrop)
}

// Runs that are valid by thresholds of their own say so where others are held against
// them.
func TestThresholdsOfASide(t *testing.T) {
	inTemp(t)
	runsOf(t, "one", 6, 1000, 50, 1,
		func(_ int, r *result.Result) { r.Validity.Set = []string{"rounds = 1, looser than the default 5"} })
	runsOf(t, "two", 6, 1000, 50, 1)
	r := pair(t)
	require.Equal(t, []string{"rounds = 1, looser than the default 5"}, r.Judgements[0].First.Accepts)
	out := text(t, r)
	require.Equal(t, 1, strings.Count(out, "accepted by its own thresholds"))
	require.Contains(t, out, "first: accepted by its own thresholds: rounds = 1, looser than the default 5")
}

// One evaluation beside another of the same questions is tested question by
// question.
//
// covers: PL-Q7
func TestPairedAccuracy(t *testing.T) {
	inTemp(t)
	// eval gets the first questions right but for those of the wrong range.
	eval := func(from, to, of int) func(int, *result.Result) {
		return func(_ int, r *result.Result) {
			ids, right, n := make([]string, of), make([]bool, of), 0
			for i := range of {
				ids[i] = fmt.Sprint(i)
				if right[i] = i < from || i >= to; right[i] {
					n++
				}
			}
			a, err := result.NewAnswers(ids, right)
			require.NoError(t, err)
			r.Accuracy = &result.Accuracy{Task: "gsm8k", Value: float64(n) / float64(of), Questions: &of, Answers: a,
				Source: "x"}
		}
	}
	for _, c := range []struct {
		from, to, of int // wrong in the second; questions 0 and 1 are in the first
		p            float64
		verdict      report.Outcome
	}{
		{2, 12, 200, 0.0385742188, report.Regressed},
		{2, 9, 200, 0.1796875, report.TooLittle},
		{0, 2, 200, 1, report.TooLittle},
		{2, 12, 2000, 0.0385742188, report.TooLittle}, // 0.4 % do not matter
		{2, 12, 0, 0, report.TooLittle},               // not the same questions
	} {
		of := c.of
		if of == 0 {
			of = 200
		}
		runsOf(t, "one", 1, 1000, 50, 1, eval(0, 2, of))
		if c.of == 0 {
			of++
		}
		runsOf(t, "two", 1, 1000, 50, 1, eval(c.from, c.to, of))
		m := verdictOf(t, pair(t).Judgements[0], "accuracy")
		require.Equal(t, c.verdict, m.Verdict, "%+v", c)
		if c.of == 0 {
			require.Nil(t, m.Answers)
			continue
		}
		require.InDelta(t, c.p, *m.P, 1e-9, "%+v", c)
		require.Equal(t, c.of, m.Answers.Questions)
		var out bytes.Buffer
		require.NoError(t, format.Text(&out, pair(t)))
		require.Contains(t, out.String(), "one run per side: only the answers are tested\nfirst: accuracy")
		require.Contains(t, out.String(), fmt.Sprintf("the same %d questions: ", c.of))
	}
}

// Of comparisons of like with like, each of five metrics, one in twenty at most has a
// wrong verdict; a tenth less is found nearly always.
//
// covers: PL-Q3, PL-Q9
func TestFalseAlarms(t *testing.T) {
	tier.Alone(t)
	d := rand.New(rand.NewPCG(1, 2))
	ids := 0
	side := func(throughput float64) []records.Run {
		var runs []records.Run
		for i := range 6 {
			around := func(x float64) float64 { return x * (1 + 0.03*d.NormFloat64()) }
			r := recordOf(numbers{Throughput: around(throughput), TTFT: around(50)})
			r.RunID = fmt.Sprintf("exp_20260102_030405_%06x", ids)
			ids++
			for _, f := range []result.Family{result.TTFT, result.TPOT} {
				require.NoError(t, r.Results.SetLatency(f, "median", around(50)))
				require.NoError(t, r.Results.SetLatency(f, "p99", around(90)))
			}
			runs = append(runs, records.Run{Dir: fmt.Sprint(i), Case: records.Case{Test: "a"}, Result: r})
		}
		return runs
	}
	const times = 400
	count := func(throughput float64) (alarms, found int) {
		for range times {
			r, err := report.Pair(side(1000), side(throughput), nil)
			require.NoError(t, err)
			if v := r.Judgements[0].Verdict; v == report.Regressed || v == report.Improved {
				alarms++
			}
			if verdictOf(t, r.Judgements[0], "output_throughput").Verdict == report.Regressed {
				found++
			}
		}
		return alarms, found
	}
	alarms, _ := count(1000)
	require.LessOrEqual(t, alarms, times/20+13, "three standard deviations above 5 %")
	_, found := count(900)
	require.Greater(t, found, times*9/10)
}

// A chat and a completion are never compared, whether the endpoint is set or follows from the backend.
//
// covers: BEN-15
func TestEndpointsAreNotMixed(t *testing.T) {
	backend := func(name, endpoint string) func(int, *result.Result) {
		return func(_ int, r *result.Result) {
			r.Config.Benchmark.Backend, r.Config.Benchmark.Endpoint = name, endpoint
		}
	}
	for name, c := range map[string]struct {
		first, second func(int, *result.Result)
		refused       []string
	}{
		"backends":            {backend("openai", ""), backend("openai-chat", ""), []string{"endpoint: /v1/completions against /v1/chat/completions"}},
		"set against default": {backend("openai", "/v1/chat/completions"), backend("vllm", ""), []string{"endpoint: /v1/chat/completions against /v1/completions"}},
		"set as the default":  {backend("openai", "/v1/completions"), backend("openai", ""), nil},
	} {
		t.Run(name, func(t *testing.T) {
			inTemp(t)
			runsOf(t, "one", 6, 1000, 50, 1, c.first)
			runsOf(t, "two", 6, 1000, 50, 1, c.second)
			j := pair(t).Judgements[0]
			require.Equal(t, c.refused, texts(j.NotComparable))
			require.Equal(t, c.refused != nil, j.Verdict == report.NotComparable)
		})
	}
}
