package report_test

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/result"
)

// tried is what a sweep tried at one concurrency.
type tried struct {
	load int
	runs []float64 // throughputs; the median TTFT in ms is ten times the load
	edit func(*result.Result)
}

// sweepOf writes a sweep over the concurrency, whose repeats are server starts of their own.
func sweepOf(t *testing.T, points ...tried) {
	t.Helper()
	step := 0
	for _, x := range points {
		for i, throughput := range x.runs {
			step++
			dir := fmt.Sprintf("%s/s/%d/%d", root, i, step)
			p := planOf(dir, "s")
			p.Step, p.Iteration = step, i
			p.Loads[0].Benchmark = map[string]any{"max_concurrency": x.load}
			p.Loads[0].Values = []plan.Assignment{{Path: "bench_cmd_args.max_concurrency", Value: x.load}}
			writePlan(t, dir, p)
			r := recordOf(numbers{Throughput: throughput, TTFT: float64(10*x.load + 1)})
			r.RunID = fmt.Sprintf("exp_20260102_030405_%06x", step)
			if x.edit != nil {
				x.edit(r)
			}
			writeRecord(t, dir, r)
		}
	}

}

// said are the answers to some questions, in their order.
func said(r *report.Report, questions ...report.Question) string {
	var lines []string
	for _, a := range r.Answers {
		for _, q := range questions {
			if a.Question == q {
				lines = append(lines, a.Text)
			}
		}
	}
	return strings.Join(lines, "\n")
}

func around(x float64, percents ...float64) []float64 {
	list := make([]float64, len(percents))
	for i, p := range percents {
		list[i] = x * (1 + p/100)
	}
	return list
}

func invalidated(r *result.Result) {
	v := r.Validity
	v.Valid, v.Verdict, v.Words = false, result.VerdictInvalid, []string{"cache-warm"}
	v.Checks = append(v.Checks, result.Check{Word: "cache-warm", Outcome: result.Fail, Severity: result.Invalid,
		Detail: "90 % of the prompt tokens were found in the cache", Why: "prompts found in the cache need no prefill"})
}

func withheld(r *result.Result) {
	r.Validity.Withheld = append(r.Validity.Withheld, "median_ttft_ms")
	r.Validity.Words = append(r.Validity.Words, "n-too-small")
	r.Validity.Checks = append(r.Validity.Checks, result.Check{Word: "n-too-small", Outcome: result.Fail,
		Severity: result.Withheld, Detail: "5 requests", Why: "a percentile needs enough requests above it"})
}

// Which setting is the best, and how sure that is, in each form.
func TestBestAndCertainty(t *testing.T) {
	one := func(load int, throughput float64) tried { return tried{load, []float64{throughput}, nil} }
	with := func(x tried, edit func(*result.Result)) tried { x.edit = edit; return x }
	little := []float64{-0.3, 0.2, -0.1, 0.1, 0.3, -0.2}
	much := []float64{-9, 7, -4, 3, 8, -6}
	for _, c := range []struct {
		name         string
		points       []tried
		best, sure   string
		certainty    report.Certainty
		noCandidates bool
	}{
		{"one run", []tried{one(16, 800)},
			"s max_concurrency=16 measured a throughput of 800 tok/s, at a median TTFT of 160 ms and a median TPOT of 16.0 ms, on 4 GPUs.",
			"Not known: one run does not show how much another would differ.", report.Alone, false},
		{"three runs alone", []tried{{16, []float64{800, 808, 792}, nil}},
			"s max_concurrency=16 measured a throughput of 800 tok/s, at a median TTFT of 160 ms and a median TPOT of 16.0 ms, on 4 GPUs.",
			"3 runs with a CV of 1.00 %; the median has no interval below 6 runs.", report.Alone, false},
		{"six runs alone", []tried{{16, around(800, little...), nil}},
			"s max_concurrency=16 measured a throughput of 800 tok/s, at a median TTFT of 160 ms and a median TPOT of 16.0 ms, on 4 GPUs.",
			"The median of 6 runs lies within 798 and 802 tok/s (95 % interval).", report.Alone, false},
		{"one run each", []tried{one(4, 400), one(16, 800), one(8, 600)},
			"max_concurrency=16 has the highest throughput of the 3 settings of s: 800 tok/s, at a median TTFT of 160 ms and a median TPOT of 16.0 ms, on 4 GPUs.",
			"Not known: one run per setting cannot show how much repeats would differ; the next is max_concurrency=8 (-25.0 %).", report.NotSure, false},
		{"0.1 % apart", []tried{one(4, 400), one(16, 800), one(8, 799.2)},
			"max_concurrency=16 and max_concurrency=8 are within 2 % of the highest throughput of the 3 settings of s: 800 tok/s, at a median TTFT of 160 ms and a median TPOT of 16.0 ms, on 4 GPUs; 799 tok/s, at 80.0 ms and 8.00 ms, on 4 GPUs.",
			"Not known: they differ by 0.100 %, and one run per setting cannot show whether repeats would keep the order.", report.NotSure, false},
		{"three alike", []tried{one(4, 800), one(16, 800), one(8, 796)},
			"max_concurrency=4, max_concurrency=16 and max_concurrency=8 are within 2 % of the highest throughput of the 3 settings of s: 800 tok/s, at a median TTFT of 40.0 ms and a median TPOT of 4.00 ms, on 4 GPUs; 800 tok/s, at 160 ms and 16.0 ms, on 4 GPUs; 796 tok/s, at 80.0 ms and 8.00 ms, on 4 GPUs.",
			"Not known: the largest difference between them is 0.500 %, and one run per setting cannot show whether repeats would keep the order.", report.NotSure, false},
		{"many alike", []tried{one(1, 800), one(2, 800), one(3, 800), one(4, 800), one(5, 800), one(6, 800)},
			"max_concurrency=1, max_concurrency=2, max_concurrency=3 and 3 more are within 2 % of the highest throughput of the 6 settings of s: 800 tok/s, at a median TTFT of 10.0 ms and a median TPOT of 1.00 ms, on 4 GPUs, for the first.",
			"Not known: the largest difference between them is 0 %, and one run per setting cannot show whether repeats would keep the order.", report.NotSure, false},
		{"shown", []tried{{4, around(400, little...), nil}, {16, around(800, little...), nil}},
			"max_concurrency=16 has the highest throughput of the 2 settings of s: 800 tok/s, at a median TTFT of 160 ms and a median TPOT of 16.0 ms, on 4 GPUs.",
			"Shown: max_concurrency=4 is worse by more than noise and by more than 2 % (-50.0 % [-50.2, -49.8], 6 runs against 6).", report.Shown, false},
		{"shown against two", []tried{{4, around(400, little...), nil}, {16, around(800, little...), nil}, {8, around(600, little...), nil}},
			"max_concurrency=16 has the highest throughput of the 3 settings of s: 800 tok/s, at a median TTFT of 160 ms and a median TPOT of 16.0 ms, on 4 GPUs.",
			"Shown: each of the others is worse by more than noise and by more than 2 %; the next is max_concurrency=8 (-25.0 % [-25.3, -24.7], 6 runs against 6).", report.Shown, false},
		{"a shown tie", []tried{{4, around(799, little...), nil}, {16, around(800, little...), nil}},
			"max_concurrency=16 and max_concurrency=4 tie for the highest throughput of the 2 settings of s: 800 tok/s, at a median TTFT of 160 ms and a median TPOT of 16.0 ms, on 4 GPUs; 799 tok/s, at 40.0 ms and 4.00 ms, on 4 GPUs.",
			"Shown: they differ by 0.125 % (interval [-0.52, +0.27], 6 runs against 6), and the interval excludes a difference above 2 %.", report.Tie, false},
		{"noise", []tried{{4, around(794, much...), nil}, {16, around(800, much...), nil}},
			"max_concurrency=16 and max_concurrency=4 are within 2 % of the highest throughput of the 2 settings of s: 796 tok/s, at a median TTFT of 160 ms and a median TPOT of 16.0 ms, on 4 GPUs; 790 tok/s, at 40.0 ms and 4.00 ms, on 4 GPUs.",
			"Not known: they differ by 0.750 % (interval [-12.7, +11.2], 6 runs against 6), and the runs neither show nor exclude a difference above 2 %.", report.NotSure, false},
		{"more noise", []tried{{4, around(760, much...), nil}, {16, around(800, much...), nil}},
			"max_concurrency=16 has the highest throughput of the 2 settings of s: 796 tok/s, at a median TTFT of 160 ms and a median TPOT of 16.0 ms, on 4 GPUs.",
			"Not shown: the runs do not exclude that max_concurrency=4 is as good (-5.00 % [-16.6, +6.63], 6 runs against 6).", report.NotSure, false},
		{"a suspect is better", []tried{one(4, 400), with(one(16, 800), suspected), one(8, 600)},
			"max_concurrency=8 has the highest throughput of the 2 settings of s: 600 tok/s, at a median TTFT of 80.0 ms and a median TPOT of 8.00 ms, on 4 GPUs.",
			"Not known: one run per setting cannot show how much repeats would differ; the next is max_concurrency=4 (-33.3 %). Not ranked: max_concurrency=16 measured 800 tok/s, which is better, but is suspect (throttled).", report.NotSure, false},
		{"all are suspect", []tried{with(one(4, 400), suspected), with(one(16, 800), suspected)},
			"No best setting of s: none of 2 runs is valid. The suspect run with the highest throughput is max_concurrency=16: 800 tok/s (throttled).", "", "", true},
		{"all are invalid", []tried{with(one(4, 400), invalidated), with(one(16, 800), invalidated)},
			"No best setting of s: none of 2 runs is valid.", "", "", true},
		{"the only one is invalid", []tried{with(one(4, 400), invalidated)},
			"No result for the setting of s: its only run is not valid.", "", "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			inTemp(t)
			sweepOf(t, c.points...)
			r := report.Build(load(t, root), report.Options{})
			require.Equal(t, c.best, said(r, report.AskBest, report.AskResult))
			require.Equal(t, c.sure, said(r, report.AskSure))
			require.Len(t, r.Choices, 1)
			require.Equal(t, c.certainty, r.Choices[0].Certainty)
			require.Equal(t, c.noCandidates, len(r.Choices[0].Candidates) == 0)
		})
	}
}

// Repeats on one server start are not so many independent runs: the medians of several starts are
// held against each other, and of a single start the answer says that it is one.
func TestRepeatsOfOneStart(t *testing.T) {
	little := []float64{-0.3, 0.2, -0.1, 0.1, 0.3, -0.2}
	points := []tried{{4, around(400, little...), nil}, {16, around(800, little...), nil}}
	for name, c := range map[string]struct {
		starts map[int]int // of the runs of a load
		sure   string
	}{
		"own": {map[int]int{4: 6, 16: 6}, "Shown: max_concurrency=4 is worse by more than noise and by more than 2 % " +
			"(-50.0 % [-50.2, -49.8], 6 runs against 6)."},
		"one": {map[int]int{4: 1, 16: 1}, "Shown: max_concurrency=4 is worse by more than noise and by more than 2 % " +
			"(-50.0 % [-50.2, -49.8], 6 runs against 6). Differences between server starts are not included: " +
			"max_concurrency=16 has 6 runs on 1 start and max_concurrency=4 has 6 runs on 1 start."},
		"two": {map[int]int{4: 2, 16: 2}, "Not known: 6 runs on 2 starts per setting cannot show how much repeats " +
			"would differ; the next is max_concurrency=4 (-50.0 %)."},
		"the other has one": {map[int]int{4: 1, 16: 3}, "Shown: max_concurrency=4 is worse by more than noise and by more " +
			"than 2 % (-50.0 % [-50.4, -49.8], 6 runs against 3 server starts). Differences between server starts are " +
			"not included: max_concurrency=4 has 6 runs on 1 start."},
	} {
		t.Run(name, func(t *testing.T) {
			inTemp(t)
			sweepOf(t, points...)
			runs := load(t, root)
			seen := map[int]int{}
			for i := range runs {
				own, err := strconv.Atoi(runs[i].Settings["bench_cmd_args.max_concurrency"])
				require.NoError(t, err)
				runs[i].Job = fmt.Sprintf("%d-%d", own, seen[own]%c.starts[own])
				seen[own]++
			}
			r := report.Build(runs, report.Options{})
			require.Equal(t, c.sure, said(r, report.AskSure))
			require.Equal(t, c.starts[16], r.Choices[0].Candidates[0].Jobs)
		})
	}
}

// The best within limits, and what is said of the settings that do not keep them.
func TestBestWithinLimits(t *testing.T) {
	points := []tried{{4, []float64{400}, nil}, {8, []float64{600}, nil}, {16, []float64{800}, nil}}
	blind := []tried{{4, []float64{400}, nil}, {8, []float64{600}, withheld}, {16, []float64{800}, withheld}}
	for _, c := range []struct {
		name       string
		points     []tried
		most       float64 // median TTFT in ms
		best, sure string
	}{
		{"all keep it", points, 1000,
			"max_concurrency=16 has the highest throughput of the 3 settings of s, which all keep median_ttft_ms <= 1000: 800 tok/s, at a median TTFT of 160 ms and a median TPOT of 16.0 ms, on 4 GPUs.",
			"Not known: one run per setting cannot show how much repeats would differ; the next is max_concurrency=8 (-25.0 %). No higher load was measured, so a higher one may keep the limit too."},
		{"some keep it", points, 100,
			"max_concurrency=8 has the highest throughput of the 2 settings of s that keep median_ttft_ms <= 100: 600 tok/s, at a median TTFT of 80.0 ms and a median TPOT of 8.00 ms, on 4 GPUs. 1 setting misses it.",
			"Not known: one run per setting cannot show how much repeats would differ; the next is max_concurrency=4 (-33.3 %)."},
		{"one keeps it", points, 50,
			"max_concurrency=4 is the only one of the 3 settings of s that is known to keep median_ttft_ms <= 50: 400 tok/s, at a median TTFT of 40.0 ms and a median TPOT of 4.00 ms, on 4 GPUs. 2 settings miss it.",
			"Not known: one run does not show how much another would differ."},
		{"none keeps it", points, 10,
			"None of the 3 settings of s keeps median_ttft_ms <= 10. The nearest is max_concurrency=4: median_ttft_ms 40, not <= 10.", ""},
		{"the others are not known", blind, 50,
			"max_concurrency=4 is the only one of the 3 settings of s that is known to keep median_ttft_ms <= 50: 400 tok/s, at a median TTFT of 40.0 ms and a median TPOT of 4.00 ms, on 4 GPUs. 2 settings are not known.",
			"Not known: one run does not show how much another would differ."},
		{"none is known to keep it", blind, 10,
			"None of the 3 settings of s is known to keep median_ttft_ms <= 10: 1 setting misses it and 2 are not known. The nearest is max_concurrency=4: median_ttft_ms 40, not <= 10.", ""},
		{"a single setting misses it", points[:1], 10, "s max_concurrency=4 does not keep median_ttft_ms <= 10: median_ttft_ms 40, not <= 10.", ""},
		{"a single setting", points[:1], 50,
			"s max_concurrency=4 measured a throughput of 400 tok/s, at a median TTFT of 40.0 ms and a median TPOT of 4.00 ms, on 4 GPUs, which keeps median_ttft_ms <= 50.",
			"Not known: one run does not show how much another would differ. No higher load was measured, so a higher one may keep the limit too."},
	} {
		t.Run(c.name, func(t *testing.T) {
			inTemp(t)
			sweepOf(t, c.points...)
			r := report.Build(load(t, root), report.Options{Limits: []report.Limit{limit(t, "median_ttft_ms", c.most)}})
			require.Equal(t, c.best, said(r, report.AskBest, report.AskResult))
			require.Equal(t, c.sure, said(r, report.AskSure))
		})
	}
}

// The answer of a search says if its run is not to be believed.
func TestAnswerOfAnInvalidSearch(t *testing.T) {
	inTemp(t)
	answered := func(r *result.Result) {
		r.Search = []*result.Search{{Variable: "max_concurrency", Sentence: "the highest max_concurrency is 12"}}
	}
	invalid := func(r *result.Result) { answered(r); invalidated(r) }
	sweepOf(t, tried{4, []float64{400}, answered}, tried{8, []float64{600}, invalid})
	require.Equal(t, "s max_concurrency=4: the highest max_concurrency is 12.\n"+
		"s max_concurrency=8 is invalid (cache-warm): the highest max_concurrency is 12.",
		said(report.Build(load(t, root), report.Options{}), report.AskSearch))
}

// broken makes a run fail by a cause.
func broken(cause string) func(*result.Result) {
	return func(r *result.Result) {
		r.Status = result.Failed
		r.Failure = &result.Failure{Cause: cause, Line: "the line of " + cause, Next: "do something about " + cause,
			Confidence: result.Exact}
		invalidated(r)
	}
}

// What cannot be believed, what failed and what is left out: none, one, several, all.
func TestDoubtsAndFailures(t *testing.T) {
	ran := func(load int, edit func(*result.Result)) tried {
		return tried{load, []float64{float64(100 * load)}, edit}
	}
	cancelled := func(r *result.Result) { invalidated(r); r.Status = result.Cancelled }
	for _, c := range []struct {
		name                  string
		points                []tried
		doubt, failed, absent string
	}{
		{"the only run is valid", []tried{ran(1, nil)}, "The only run is valid.", "", ""},
		{"two are valid", []tried{ran(1, nil), ran(2, nil)}, "Both runs are valid.", "", ""},
		{"three are valid", []tried{ran(1, nil), ran(2, nil), ran(4, nil)}, "All 3 runs are valid.", "", ""},
		{"one is invalid", []tried{ran(1, nil), ran(2, invalidated)},
			"1 of 2 runs is invalid and is not ranked: s max_concurrency=2 (cache-warm: 90 % of the prompt tokens were found in the cache).", "", ""},
		{"two are invalid", []tried{ran(1, nil), ran(2, invalidated), ran(4, invalidated)},
			"2 of 3 runs are invalid and are not ranked: s max_concurrency=2 and s max_concurrency=4 (cache-warm: prompts found in the cache need no prefill).", "", ""},
		{"all are invalid", []tried{ran(1, invalidated), ran(2, invalidated), ran(4, invalidated), ran(8, invalidated), ran(16, invalidated)},
			"All 5 runs are invalid and are not ranked: s max_concurrency=1, s max_concurrency=2, s max_concurrency=4 and 2 more (cache-warm: prompts found in the cache need no prefill).", "", ""},
		{"one is suspect", []tried{ran(1, nil), ran(2, suspected)},
			"1 of 2 runs is suspect: it is shown, but is never the best: s max_concurrency=2 (throttled: 6 % of the samples).", "", ""},
		{"suspect and invalid", []tried{ran(1, invalidated), ran(2, suspected)},
			"1 of 2 runs is invalid and is not ranked: s max_concurrency=1 (cache-warm: 90 % of the prompt tokens were found in the cache).\n" +
				"1 of 2 runs is suspect: it is shown, but is never the best: s max_concurrency=2 (throttled: 6 % of the samples).", "", ""},
		{"withheld", []tried{ran(1, nil), ran(2, withheld)},
			"Both runs are valid.\n1 of 2 runs withholds Median TTFT (n-too-small: a percentile needs enough requests above it).", "", ""},
		{"one failed", []tried{ran(1, nil), ran(2, broken("cuda-oom"))}, "1 of 2 runs is valid.",
			"1 of 2 runs failed: s max_concurrency=2 (cuda-oom: the line of cuda-oom; next: do something about cuda-oom).", ""},
		{"two failed alike", []tried{ran(1, nil), ran(2, broken("cuda-oom")), ran(4, broken("cuda-oom"))}, "1 of 3 runs is valid.",
			"2 of 3 runs failed: s max_concurrency=2 and s max_concurrency=4 (cuda-oom; next: do something about cuda-oom).", ""},
		{"all failed in many ways", []tried{ran(1, broken("a")), ran(2, broken("b")), ran(4, broken("c")), ran(8, broken("d")), ran(16, broken("d"))}, "",
			"All 5 runs failed: s max_concurrency=8 and s max_concurrency=16 (d; next: do something about d); s max_concurrency=1 (a: the line of a; next: do something about a); s max_concurrency=2 (b: the line of b; next: do something about b); 1 more cause.", ""},
		{"cancelled", []tried{ran(1, nil), ran(2, cancelled)}, "1 of 2 runs is valid.",
			"1 of 2 runs was cancelled: s max_concurrency=2 (cache-warm: 90 % of the prompt tokens were found in the cache).", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			inTemp(t)
			sweepOf(t, c.points...)
			r := report.Build(load(t, root), report.Options{})
			require.Equal(t, c.doubt, said(r, report.AskDoubt))
			require.Equal(t, c.failed, said(r, report.AskFailure))
			require.Equal(t, c.absent, said(r, report.AskLeftOut))
		})
	}
}

// Runs without numbers and combinations that were not tried are counted.
func TestLeftOut(t *testing.T) {
	inTemp(t)
	night(t)
	r := report.Build(load(t, root), report.Options{})
	require.Equal(t, "2 of 9 runs have no numbers: broken (no record: decode result: line 1, column 41: unexpected end of "+
		"JSON input); waiting (no record: no result.json yet: profllm collect writes it).", said(r, report.AskLeftOut))

	inTemp(t)
	curve(t, []int{1, 2}, 0, [2]int{1, 40}, [2]int{4, 40}, [2]int{16, 80})
	require.Equal(t, "s tried 6 of the 12 combinations of its values.",
		said(report.Build(load(t, root), report.Options{}), report.AskLeftOut))
}

// Tests whose loads differ are not ranked.
func TestTestsThatCannotBeRanked(t *testing.T) {
	inTemp(t)
	for i, tokens := range []int{512, 1024} {
		dir := fmt.Sprintf("%s/t%d/0", root, i)
		p := planOf(dir, fmt.Sprintf("t%d", i))
		p.Loads[0].Benchmark = map[string]any{"random_input_len": tokens}
		writePlan(t, dir, p)
		writeRecord(t, dir, recordOf(numbers{Throughput: 100, TTFT: 10}))
	}
	r := report.Build(load(t, root), report.Options{})
	require.Equal(t, "The 2 tests are not ranked, because they differ in input tokens.", said(r, report.AskUnlike))
	require.Empty(t, said(r, report.AskSure))
}

// Groups that differ in nothing but the image are held against the first, with the words of
// compare.
func TestChangeBetweenGroups(t *testing.T) {
	inTemp(t)
	noise := []float64{-0.3, 0.2, -0.1, 0.1, 0.3, -0.2}
	for k, image := range []string{"image:1", "image:2"} {
		for i, x := range around(1000*(1-0.05*float64(k)), noise...) {
			dir := fmt.Sprintf("%s/a%d/%d", root, k, i)
			p := planOf(dir, fmt.Sprintf("a%d", k))
			p.Iteration, p.Image = i, image
			writePlan(t, dir, p)
			r := recordOf(numbers{Throughput: x, TTFT: 50, GPU: "H100"})
			r.RunID = fmt.Sprintf("exp_20260102_030405_%06x", 10*k+i)
			r.Provenance = &result.Provenance{Profllm: "1", Engine: "vllm", EngineVersion: "1", Image: image}
			writeRecord(t, dir, r)
		}
	}
	r := report.Build(load(t, root), report.Options{GroupBy: []string{"cmd_args.docker_image_url"}})
	require.Equal(t, "a0 and a1, cmd_args.docker_image_url=image:2 against cmd_args.docker_image_url=image:1 "+
		"(6 runs against 6): regressed: throughput -5.00 % [-5.38, -4.62]; same within noise: median TTFT, "+
		"P99 TTFT, median TPOT and P99 TPOT.", said(r, report.AskChange))
	require.Equal(t, report.Regressed, r.Changes[0].Judgements[0].Verdict)

	runs := load(t, root)
	runs[0].Result.Results.OutputThroughput = new(math.Inf(1))
	r = report.Build(runs, report.Options{GroupBy: []string{"cmd_args.docker_image_url"}})
	require.Contains(t, strings.Join(r.Notes, "\n"), "image:2 is not compared with")
	require.Empty(t, said(r, report.AskChange), "the note says why, and the groups have counterparts")

	r = report.Build(load(t, root), report.Options{GroupBy: []string{"NUM_NODES"}})
	require.Empty(t, r.Changes, "one group has nothing to be held against")
}

// Many runs that failed by one cause are named by what they alone have in common.
func TestFailuresAreNamedByTheirSetting(t *testing.T) {
	for name, c := range map[string]struct{ layout, said string }{
		"all of a value":   {"a a b b b b b", "5 of 7 runs failed: all 5 with layout=b (d; next: do something about d)."},
		"some of a value":  {"a b b b b b b!", "5 of 7 runs failed: 5 of the 6 with layout=b (d; next: do something about d)."},
		"nothing common":   {"a a b b c c c", "5 of 7 runs failed: s max_concurrency=3, s max_concurrency=4, s max_concurrency=5 and 2 more (d; next: do something about d)."},
		"a value of all 7": {"a a a a a a a", "5 of 7 runs failed: s max_concurrency=3, s max_concurrency=4, s max_concurrency=5 and 2 more (d; next: do something about d)."},
	} {
		t.Run(name, func(t *testing.T) {
			inTemp(t)
			var points []tried
			layouts := strings.Fields(c.layout)
			for i, l := range layouts {
				p := tried{i + 1, []float64{100}, broken("d")}
				if l == "a" && i < 2 || strings.HasSuffix(l, "!") {
					p.edit = nil
				}
				points = append(points, p)
			}
			sweepOf(t, points...)
			runs := load(t, root)
			require.Len(t, runs, len(layouts))
			for i := range runs {
				load := runs[i].Values[0].Value
				n, err := strconv.Atoi(load)
				require.NoError(t, err)
				runs[i].Values = append(runs[i].Values, records.Setting{Key: "cmd_args.layout", Value: strings.Trim(layouts[n-1], "!")})
			}
			require.Equal(t, c.said, said(report.Build(runs, report.Options{}), report.AskFailure))
		})
	}
}

// Of many settings with as many runs each on one start, the answer names none.
func TestEverySettingHasOneStart(t *testing.T) {
	inTemp(t)
	var points []tried
	for i := range 6 {
		points = append(points, tried{i + 1, around(float64(400+100*i), -0.3, 0.2, -0.1), nil})
	}
	sweepOf(t, points...)
	runs := load(t, root)
	for i := range runs {
		runs[i].Job = "one of " + runs[i].Values[0].Value
	}
	require.Contains(t, said(report.Build(runs, report.Options{}), report.AskSure),
		"Differences between server starts are not included: every setting has 3 runs on 1 start.")
}
