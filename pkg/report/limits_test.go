package report_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/report"
)

// limit is a limit of a metric.
func limit(t *testing.T, key string, value float64) report.Limit {
	t.Helper()
	m, err := metric.Find(key)
	require.NoError(t, err)
	return report.Limit{Metric: m, Value: value}
}

// limitLines are the lines of a report about the highest load.
func limitLines(t *testing.T, limits ...report.Limit) (lines []string) {
	t.Helper()
	for line := range strings.Lines(text(t, report.Build(load(t, root), report.Options{Limits: limits}))) {
		if strings.HasPrefix(line, "highest ") {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	return lines
}

// Each combination of the other settings has its highest concurrency.
//
// covers: UC-9, GEN-5
func TestHighestLoadWithinLimits(t *testing.T) {
	inTemp(t)
	curve(t, []int{1, 2}, 1, [2]int{1, 40}, [2]int{4, 40}, [2]int{16, 80})
	ttft, tpot := limit(t, "median_ttft_ms", 13), limit(t, "median_tpot_ms", 2.5)
	require.Equal(t, []string{
		"highest max_concurrency within median_ttft_ms <= 13, median_tpot_ms <= 2.5 with tensor_parallel_size=1: " +
			"4 (1 run, 400 tok/s); 16 exceeds: median_ttft_ms 25, not <= 13",
		"highest max_concurrency within median_ttft_ms <= 13, median_tpot_ms <= 2.5 with tensor_parallel_size=2: " +
			"4 (1 run, 800 tok/s); 16 exceeds: median_ttft_ms 25, not <= 13",
	}, limitLines(t, ttft, tpot))
	require.Contains(t, limitLines(t, limit(t, "median_ttft_ms", 100))[0],
		": 16 (1 run, 1600 tok/s); no higher load was measured")
	require.Contains(t, limitLines(t, limit(t, "median_ttft_ms", 1))[0], ": none; 1 exceeds: median_ttft_ms 10, not <= 1")
	require.Contains(t, limitLines(t, limit(t, "throughput", 400))[0],
		"output_throughput >= 400 with tensor_parallel_size=1: 16 (1 run, 1600 tok/s); "+
			"lower down, 1 exceeds: output_throughput 100, not >= 400; no higher load was measured")
	require.Contains(t, limitLines(t, limit(t, "p50_itl_ms", 400))[0], ": none; 1 is not known: p50_itl_ms is absent")
	require.Empty(t, limitLines(t))
}

// Of repeats, every run counts, and of six or more the interval of their median; a run that is not
// valid does not count.
func TestLimitsOfRepeats(t *testing.T) {
	const ttftOf4 = 20.0
	for _, c := range []struct {
		name  string
		times []float64 // mean TTFT at a concurrency of 4; the median is 1 less
		bad   bool      // the runs at 4 are not valid
		want  string
	}{
		{"all within", []float64{18, 19, 20}, false, "4 (3 runs, 400 tok/s); no higher load was measured"},
		{"between", []float64{18, 19, 30}, false,
			"1 (1 run, 100 tok/s); 4 is unclear: median_ttft_ms runs from 17 to 29, not <= 19"},
		{"all beyond", []float64{28, 29, 30}, false,
			"1 (1 run, 100 tok/s); 4 exceeds: median_ttft_ms runs from 27 to 29, not <= 19"},
		{"an outlier of nine", []float64{18, 18, 18, 18, 18, 18, 18, 18, 30}, false,
			"4 (9 runs, 400 tok/s); no higher load was measured"},
		{"not valid", []float64{18}, true, "1 (1 run, 100 tok/s); 4 has no valid run (suspect)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inTemp(t)
			repeatsOf4(t, c.times, c.bad)
			lines := limitLines(t, limit(t, "median_ttft_ms", ttftOf4-1))
			require.Equal(t, []string{"highest max_concurrency within median_ttft_ms <= 19: " + c.want}, lines)
		})
	}
}

// repeatsOf4 writes a sweep of a concurrency of 1, measured once, and of 4, measured as often as
// there are times.
func repeatsOf4(t *testing.T, times []float64, bad bool) {
	t.Helper()
	point := func(step, concurrency, repeat int, ttft float64, bad bool) {
		dir := fmt.Sprintf("%s/s/0/%d", root, step)
		p := planOf(dir, "s")
		p.Step = step
		p.Loads[0].Benchmark = map[string]any{"max_concurrency": concurrency}
		p.Loads[0].Values = []plan.Assignment{{Path: "bench_cmd_args.max_concurrency", Value: concurrency}}
		writePlan(t, dir, p)
		r := recordOf(numbers{Throughput: float64(100 * concurrency), TTFT: ttft})
		if bad {
			suspected(r)
		}
		writeRecord(t, dir, r)
	}
	point(1, 1, 0, 5, false)
	for i, ttft := range times {
		point(2+i, 4, i+1, ttft, bad)
	}
}

// A report without a sweep over a load says that no highest load can be named.
func TestLimitsWithoutASweep(t *testing.T) {
	inTemp(t)
	writeRecord(t, root+"/a/0", recordOf(numbers{Throughput: 100, TTFT: 5}))
	rep := report.Build(load(t, root), report.Options{Limits: []report.Limit{limit(t, "median_ttft_ms", 13)}})
	require.Equal(t, []string{"no highest load within the limits: no sweep or phases vary max_concurrency or request_rate"},
		rep.Notes)
}

// The interval of the edge, and its probability, are those of a search with these runs as probes.
func TestEdgeOfLimits(t *testing.T) {
	inTemp(t)
	curve(t, []int{1, 2}, 1, [2]int{1, 40}, [2]int{4, 40}, [2]int{16, 80})
	rep := report.Build(load(t, root), report.Options{Limits: []report.Limit{limit(t, "median_ttft_ms", 18)}})
	e := rep.Sweeps[0].Rooms[0].Edge
	require.NotNil(t, e)
	require.Equal(t, 4.0, *e.Low)
	require.Equal(t, 16.0, *e.High)
	require.Greater(t, e.Probability, 0.9)
	require.Contains(t, text(t, rep), "limit of max_concurrency with tensor_parallel_size=1: between 4 and 16 (")

	rep = report.Build(load(t, root), report.Options{Limits: []report.Limit{limit(t, "median_ttft_ms", 1)}})
	require.Contains(t, text(t, rep), "limit of max_concurrency with tensor_parallel_size=1: below 1 (")
}

// A level without a rate does not take the edge from the others.
func TestEdgeBesideALevelWithoutARate(t *testing.T) {
	inTemp(t)
	for step, rate := range []any{1, 4, 16, "inf"} {
		dir := fmt.Sprintf("%s/s/0/%d", root, step)
		p := planOf(dir, "s")
		p.Step = step + 1
		p.Loads[0].Benchmark = map[string]any{"request_rate": rate}
		p.Loads[0].Values = []plan.Assignment{{Path: "bench_cmd_args.request_rate", Value: rate}}
		writePlan(t, dir, p)
		writeRecord(t, dir, recordOf(numbers{Throughput: 100, TTFT: []float64{5, 6, 90, 900}[step]}))
	}
	rep := report.Build(load(t, root), report.Options{Limits: []report.Limit{limit(t, "median_ttft_ms", 18)}})
	e := rep.Sweeps[0].Rooms[0].Edge
	require.NotNil(t, e)
	require.Equal(t, []float64{4, 16}, []float64{*e.Low, *e.High})
}
