package plot_test

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/figure"
	"github.com/profllm/profllm/pkg/interchange"
	"github.com/profllm/profllm/pkg/pareto"
	"github.com/profllm/profllm/pkg/plot"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/report/reporttest"
	"github.com/profllm/profllm/pkg/result"
)

// runOf is a run of a sweep over the concurrency and tensor parallelism.
func runOf(tp, concurrency, repeat int, throughput, ttft float64, edits ...func(*records.Run)) records.Run {
	res := reporttest.Record(reporttest.Numbers{Throughput: throughput, TTFT: ttft, GPUs: tp, GPU: "NVIDIA H100"})
	res.Results.MaxConcurrency = &concurrency
	r := records.Run{
		Dir: fmt.Sprintf("results/night/a/0/%d-%d-%d", tp, concurrency, repeat), Result: res, Job: "a",
		Case: records.Case{Scenario: "night", Test: "a", Repeat: repeat},
		Settings: map[string]string{
			"cmd_args.decode.tensor_parallel_size": strconv.Itoa(tp), "cmd_args.model": "m",
			"bench_cmd_args.max_concurrency": strconv.Itoa(concurrency), "bench_cmd_args.num_prompts": strconv.Itoa(5 * concurrency),
			"bench_cmd_args.random_input_len": "512",
		},
		Values: []records.Setting{
			{Key: "cmd_args.decode.tensor_parallel_size", Value: strconv.Itoa(tp)},
			{Key: "bench_cmd_args.max_concurrency", Value: strconv.Itoa(concurrency)},
		},
	}
	for _, e := range edits {
		e(&r)
	}
	return r
}

// sweepOf is two repeats of each of six configurations.
func sweepOf(edits ...func(*records.Run)) (runs []records.Run) {
	for _, tp := range []int{1, 2, 4} {
		for _, c := range []int{4, 16} {
			for repeat := range 2 {
				runs = append(runs, runOf(tp, c, repeat+1, float64(100*tp*c)+float64(10*repeat), 40/float64(tp), edits...))
			}
		}
	}
	return runs
}

func suspect(r *records.Run)   { reporttest.Suspect(r.Result) }
func simulated(r *records.Run) { r.Result.Simulated = true }
func invalid(r *records.Run) {
	r.Result.Validity.Valid, r.Result.Validity.Verdict = false, result.VerdictInvalid
}

// texts are the figure as text, which has all that it says.
func texts(t *testing.T, n plot.Named) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, n.Figure.Text(&b, figure.Terminal{Columns: 200}))
	return b.String()
}

func latency(t *testing.T, runs []records.Run) plot.Named {
	t.Helper()
	n, err := plot.Latency(plot.NewTable(runs, nil), plot.LatencyOptions{VarX: "output_throughput"})
	require.NoError(t, err)
	return n
}

// A curve goes through the loads of a configuration, repeats are averaged, and every point is labelled
// with its load.
func TestLatency(t *testing.T) {
	n := latency(t, sweepOf())
	require.Equal(t, 3, n.Series)
	require.Len(t, n.Figure.Panels, 2, "TTFT, and TPOT in the place of ITL")
	s := n.Figure.Panels[0][0].Series
	require.Equal(t, []string{"tensor_parallel_size=1", "tensor_parallel_size=2", "tensor_parallel_size=4"},
		[]string{s[0].Name, s[1].Name, s[2].Name})
	require.Len(t, s[1].Points, 2)
	p := s[1].Points[0]
	require.Equal(t, "4", p.Label)
	require.InDelta(t, 805, p.X, 1e-9)
	require.InDelta(t, 10/math.Sqrt2, p.XErr, 1e-9)
	require.InDelta(t, 19, p.Y, 1e-9)
	require.False(t, p.Hollow)
	said := texts(t, n)
	for _, want := range []string{"night", "12 runs, n = 2 at each point", "± 1 standard deviation", "Labels: max_concurrency.",
		"Throughput (tok/s)", "Median TTFT (ms)", "Median TPOT (ms)"} {
		require.Contains(t, said, want)
	}
	require.NotContains(t, said, "imulated")
}

// Suspect runs are hollow, invalid ones are left out, simulated ones labelled and never averaged with
// measured ones: each is said.
func TestWhatMayBeBelieved(t *testing.T) {
	runs := sweepOf()
	suspect(&runs[0])
	invalid(&runs[2])
	runs[3].Result, runs[3].Problem = nil, "no result.json yet"
	n := latency(t, runs)
	points := n.Figure.Panels[0][0].Series[0].Points
	require.Len(t, points, 1, "both repeats of the second load are gone")
	require.True(t, points[0].Hollow)
	said := texts(t, n)
	require.Contains(t, said, "Left out: 1 invalid; 1 no record.")
	require.Contains(t, said, "Hollow: with suspect runs (1 of 10).")

	n = latency(t, sweepOf(simulated))
	require.Contains(t, n.Figure.Title, "(simulated)")
	require.Contains(t, texts(t, n), "the numbers are no measurements")

	mixed := append(sweepOf(), sweepOf(simulated)...)
	n = latency(t, mixed)
	require.Equal(t, 6, n.Series)
	require.Contains(t, texts(t, n), "tensor_parallel_size=1 (simulated)")
	require.Contains(t, texts(t, n), "12 of 24 runs are of a simulated engine")

	list, err := plot.Grid(plot.NewTable(mixed, nil), plot.GridOptions{VarX: "max_concurrency", VarY: "output_throughput"})
	require.NoError(t, err)
	require.Len(t, list[0].Figure.Panels[0][0].Series, 2, "a curve for each kind")
	require.Equal(t, "all runs (simulated)", list[0].Figure.Panels[0][0].Series[1].Name)

	withheld := sweepOf(func(r *records.Run) { r.Result.Validity.Withheld = []string{"median_ttft_ms"} })
	n, err = plot.Latency(plot.NewTable(append(withheld, sweepOf()[:2]...), nil),
		plot.LatencyOptions{VarX: "output_throughput", VarY: []string{"median_ttft_ms"}})
	require.NoError(t, err)
	require.Contains(t, texts(t, n), "Withheld by the checks of the record: output_throughput or median_ttft_ms of 12 runs.")
}

// Figures, rows, columns and curves are by values of columns, in the order of these values; the axes
// of one figure are the same.
func TestGrid(t *testing.T) {
	table := plot.NewTable(sweepOf(), nil)
	list, err := plot.Grid(table, plot.GridOptions{
		VarX: "output_throughput", VarY: "median_ttft_ms", FigBy: []string{"test"}, RowBy: []string{"max_concurrency"},
		ColBy: []string{"random_input_len"}, CurveBy: []string{"tensor_parallel_size", "engine"}, NoErrorBars: true,
		ScaleX: figure.Log,
	})
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, "FIGURE-test=a", list[0].Name)
	panels := list[0].Figure.Panels
	require.Len(t, panels, 2)
	require.Equal(t, "max_concurrency=4; random_input_len=512", panels[0][0].Title)
	require.Equal(t, "max_concurrency=16; random_input_len=512", panels[1][0].Title, "16 behind 4")
	require.Equal(t, panels[0][0].X.High, panels[1][0].X.High)
	require.Equal(t, "tensor_parallel_size=1, engine=", panels[0][0].Series[0].Name)
	require.Zero(t, panels[0][0].Series[0].Points[0].YErr)

	for _, c := range []struct {
		o    plot.GridOptions
		want string
	}{
		{plot.GridOptions{VarX: "outputthroughput", VarY: "median_ttft_ms"}, "--var-x: no run has \"outputthroughput\"\n\thint: did you mean"},
		{plot.GridOptions{VarX: "output_throughput", VarY: "nothing"}, "--var-y: no run has"},
		{plot.GridOptions{VarX: "output_throughput", VarY: "median_ttft_ms", FigBy: []string{"x"}}, "--fig-by"},
		{plot.GridOptions{VarX: "output_throughput", VarY: "median_ttft_ms", RowBy: []string{"x"}}, "--row-by"},
		{plot.GridOptions{VarX: "output_throughput", VarY: "median_ttft_ms", ColBy: []string{"x"}}, "--col-by"},
		{plot.GridOptions{VarX: "output_throughput", VarY: "median_ttft_ms", CurveBy: []string{"x"}}, "--curve-by"},
	} {
		_, err := plot.Grid(table, c.o)
		require.ErrorContains(t, err, c.want)
		require.ErrorContains(t, err, "columns: completed, ")
		require.ErrorContains(t, err, "tensor_parallel_size")
	}
}

func TestConditionsAndBins(t *testing.T) {
	for text, want := range map[string]int{
		"max_concurrency<16": 6, "max_concurrency<=16": 12, "max_concurrency>4,tensor_parallel_size!=1": 4, "max_concurrency>=16": 6,
		"test==a": 12, "test!='a'": 0, `cmd_args.model == "m"`: 12, "accuracy==1": 0, "accuracy!=1": 12, "": 12, "repeat==1": 6,
		"tensor_parallel_size==4.0": 4,
	} {
		list, err := plot.ParseConditions(text)
		require.NoError(t, err)
		table := plot.NewTable(sweepOf(func(r *records.Run) {
			if r.Case.Repeat == 9 {
				r.Result.Accuracy = &result.Accuracy{Value: 1}
			}
		}), nil)
		if strings.HasPrefix(text, "accuracy") {
			require.ErrorContains(t, table.Filter(list), "columns: ")
			continue
		}
		require.NoError(t, table.Filter(list))
		require.Len(t, table.Rows, want, text)
	}
	for _, bad := range []string{"a", "<4", "a<b", "a<4<5", "a==1,", ",", "a=1", "a<"} {
		_, err := plot.ParseConditions(bad)
		require.ErrorContains(t, err, "condition", bad)
	}
	for _, bad := range []string{"a", "%4", "a%0", "a%-1", "a%x", "a%inf", "a%NaN", "a%1,"} {
		_, err := plot.ParseBins(bad)
		require.ErrorContains(t, err, "bin", bad)
	}
	bins, err := plot.ParseBins("output_throughput%1000, max_concurrency%8")
	require.NoError(t, err)
	table := plot.NewTable(sweepOf(), nil)
	require.NoError(t, table.Bin(bins))
	require.Equal(t, 0.0, *table.Rows[0].Number("max_concurrency"))
	require.Equal(t, 6000.0, *table.Rows[11].Number("output_throughput"))
	require.ErrorContains(t, table.Bin([]plot.Bin{{Column: "nothing", Size: 1}}), "--bin-by: no run has")
}

// The GPUs of a record are those that served; a load without a limit counts as in vLLM.
func TestParetoOfRecords(t *testing.T) {
	runs := sweepOf()
	runs = append(runs, runOf(4, 0, 1, 999, 10, func(r *records.Run) {
		r.Result.Results.MaxConcurrency, r.Result.Results.MaxConcurrentRequests = nil, new(37.0)
		delete(r.Settings, "bench_cmd_args.max_concurrency")
	}))
	o := plot.ParetoOptions{Options: pareto.Options{Users: "max_concurrency"}, LabelBy: []string{"max_concurrency", "gpu_count"}}
	n, err := plot.Pareto(plot.NewTable(runs, nil), o)
	require.NoError(t, err)
	series := n.Figure.Panels[0][0].Series
	require.Len(t, series[0].Points, 13)
	require.Equal(t, figure.Point{X: 27, Y: 249.75}, series[0].Points[12])
	require.Len(t, series[1].Points, 6, "the means of repeats")
	require.Equal(t, "16, 1", series[2].Points[0].Label)
	require.Contains(t, texts(t, n), "Output tokens/s per GPU")
	o.Mean = true
	n, err = plot.Pareto(plot.NewTable(runs, nil), o)
	require.NoError(t, err)
	require.InDelta(t, 1605/16.0, n.Figure.Panels[0][0].Series[2].Points[0].X, 1e-9)
	require.Contains(t, texts(t, n), "the means of repeats that no other beats in both")

	runs = sweepOf()
	runs[0].Result.Validity.Withheld = []string{"output_throughput"}
	runs[1].Result.Results.OutputThroughput = nil
	n, err = plot.Pareto(plot.NewTable(runs, nil), o)
	require.NoError(t, err)
	require.Equal(t, 10, n.Runs)
	require.Contains(t, texts(t, n), "Withheld by the checks of the record: output_throughput of 1 run.")
	require.Contains(t, texts(t, n), "Without a number in output_throughput: 1 run.")

	_, err = plot.Pareto(plot.NewTable(runs, nil), plot.ParetoOptions{LabelBy: []string{"nothing"}, Options: o.Options})
	require.ErrorContains(t, err, "--label-by: no run has \"nothing\"")
	_, err = plot.Pareto(plot.NewTable(runs, nil), plot.ParetoOptions{Options: pareto.Options{Users: "model"}})
	require.ErrorContains(t, err, `model is "m" and not a number`)
}

// Speed-up and efficiency are against the smallest configuration, one curve for each load; runs that
// must not be compared are refused.
func TestScaling(t *testing.T) {
	n, err := plot.Scaling(plot.NewTable(sweepOf(), nil), plot.ScalingOptions{})
	require.NoError(t, err)
	up, kept := n.Figure.Panels[0][0].Series, n.Figure.Panels[1][0].Series
	require.Equal(t, "ideal", up[0].Name)
	require.Equal(t, []figure.Point{{X: 1, Y: 1}, {X: 4, Y: 4}}, up[0].Points)
	require.Equal(t, "max_concurrency=4", up[1].Name)
	require.Equal(t, "max_concurrency=16", up[3].Name)
	require.Len(t, up[1].Points, 3)
	require.InDelta(t, 1605.0/405, up[1].Points[2].Y, 1e-9)
	require.InDelta(t, 1605.0/405/4*100, kept[1].Points[2].Y, 1e-9)
	require.Contains(t, texts(t, n), "Efficiency per GPU (%")

	other := sweepOf()
	for i := range other[4:] {
		other[4+i].Result.System.HardwareInfo.GPU = "NVIDIA A100"
	}
	_, err = plot.Scaling(plot.NewTable(other, nil), plot.ScalingOptions{})
	require.ErrorContains(t, err, "must not be compared: GPU: NVIDIA H100 against NVIDIA A100")
	_, err = plot.Scaling(plot.NewTable(sweepOf()[:4], nil), plot.ScalingOptions{})
	require.ErrorContains(t, err, "no test ran on different numbers of GPUs")
	_, err = plot.Scaling(plot.NewTable(sweepOf(), nil), plot.ScalingOptions{VarY: "median_ttft_ms"})
	require.ErrorContains(t, err, "less of it is better")
}

// A suspect run is neither on a frontier nor the base of a speed-up, and takes no valid run's place.
func TestSuspectBesideValid(t *testing.T) {
	runs := sweepOf()
	for _, tp := range []int{1, 4} {
		runs = append(runs, runOf(tp, 4, 3, 1e6, 1, suspect))
	}
	n, err := plot.Scaling(plot.NewTable(runs, nil), plot.ScalingOptions{})
	require.NoError(t, err)
	up := n.Figure.Panels[0][0].Series
	require.Len(t, up[1].Points, 3)
	require.InDelta(t, 1605.0/405, up[1].Points[2].Y, 1e-9)
	require.False(t, slices.ContainsFunc(up[1].Points, func(p figure.Point) bool { return p.Hollow }))
	require.Len(t, up[2].Points, 2, "beside the line")
	require.True(t, up[2].Points[0].Hollow)
	smaller := append(runs[8:12:12], runOf(1, 16, 1, 1e6, 1, suspect), runOf(2, 16, 1, 3202.5, 1))
	n, err = plot.Scaling(plot.NewTable(smaller, nil), plot.ScalingOptions{})
	require.NoError(t, err)
	require.Equal(t, []figure.Point{{X: 2, Y: 1}, {X: 4, Y: 2}}, n.Figure.Panels[0][0].Series[0].Points, "ideal")
	require.Equal(t, 1.0, n.Figure.Panels[0][0].Series[1].Points[0].Y)
	_, err = plot.Scaling(plot.NewTable(sweepOf(suspect), nil), plot.ScalingOptions{})
	require.ErrorContains(t, err, "every run is suspect")

	o := plot.ParetoOptions{Options: pareto.Options{Users: "max_concurrency"}}
	for _, o.Mean = range []bool{false, true} {
		valid, err := plot.Pareto(plot.NewTable(sweepOf(), nil), o)
		require.NoError(t, err)
		n, err = plot.Pareto(plot.NewTable(runs, nil), o)
		require.NoError(t, err)
		require.Equal(t, valid.Figure.Panels[0][0].Series[2], n.Figure.Panels[0][0].Series[2])
		require.Len(t, n.Figure.Panels[0][0].Series[0].Points, 14, "suspect runs are drawn")
	}
	n, err = plot.Pareto(plot.NewTable(sweepOf(suspect), nil), o)
	require.NoError(t, err)
	require.Len(t, n.Figure.Panels[0][0].Series, 2, "no frontier, nor its name in the legend")
}

// A distribution is of single requests where these were kept, else of percentiles, and says which.
func TestDistribution(t *testing.T) {
	dir := t.TempDir()
	reporttest.Write(t, dir+"/raw/vllm-bench.json", `{"duration": 1, "completed": 4, "num_prompts": 5, "ttfts": [0.2, 0.1, 0.4, 0.3, 0],
		"itls": [[0.01, 0], [0.02], [], [0.03], []], "latencies": [1, 2, 3, 4, 0], "errors": ["", "", "", "", "timeout"],
		"output_lens": [3, 2, 1, 2, 0]}`)
	runs := []records.Run{runOf(1, 4, 1, 100, 20), runOf(1, 4, 2, 100, 20, func(r *records.Run) {
		r.Dir, r.Result.Results.Source = dir, "raw/vllm-bench.json"
	})}
	n, err := plot.Distribution(plot.NewTable(runs, nil), plot.DistributionOptions{ScaleX: figure.Log})
	require.NoError(t, err)
	ttft, itl := n.Figure.Panels[0][0].Series, n.Figure.Panels[1][0].Series
	require.Equal(t, []figure.Point{{X: 19, Y: 50}, {X: 30, Y: 99}}, ttft[0].Points, "the percentiles of the record")
	require.True(t, ttft[0].Marks)
	require.InDelta(t, 100, ttft[1].Points[0].X, 1e-9)
	require.InDelta(t, 400, ttft[1].Points[len(ttft[1].Points)-1].X, 1e-9)
	require.Equal(t, 100.0, ttft[1].Points[len(ttft[1].Points)-1].Y)
	require.False(t, ttft[1].Marks)
	require.Len(t, itl, 1)
	said := texts(t, n)
	require.Contains(t, said, "Lines without marks are from single requests; marks are reported percentiles")
	require.Contains(t, said, "Times of 0 lie left of the axis")

	n, err = plot.Distribution(plot.NewTable(runs[:1], nil), plot.DistributionOptions{})
	require.NoError(t, err)
	require.Contains(t, texts(t, n), "single requests were not kept")
	_, err = plot.Distribution(plot.NewTable(append(sweepOf(), sweepOf()...), nil), plot.DistributionOptions{})
	require.ErrorContains(t, err, "24 runs: at most 12 can be told apart")
	_, err = plot.Distribution(plot.NewTable(runs[:1], nil), plot.DistributionOptions{Families: []result.Family{result.NTPOT}})
	require.ErrorContains(t, err, "no run has a distribution")
}

// Ten thousand runs are drawn in any kind of figure.
func TestManyRuns(t *testing.T) {
	var rows []interchange.Row
	for i := range 10_000 {
		x, c := float64(i), float64(i%64+1)
		rows = append(rows, interchange.Row{Chosen: 3, Cells: []interchange.Cell{
			{Key: "output_throughput", Number: &x, Text: fmt.Sprint(i)}, {Key: "max_concurrency", Number: &c, Text: fmt.Sprint(i%64 + 1)},
			{Key: "median_ttft_ms", Number: &x, Text: fmt.Sprint(i)}, {Key: "tp", Number: &c, Text: fmt.Sprint(i % 3)},
		}})
	}
	table := func() *plot.Table {
		return plot.NewTable(nil, []interchange.Sweep{{File: "x/y/summary.json", Rows: rows}})
	}
	list, err := plot.Grid(table(), plot.GridOptions{VarX: "output_throughput", VarY: "median_ttft_ms", CurveBy: []string{"max_concurrency"}})
	require.NoError(t, err)
	require.Equal(t, 10_000, list[0].Runs)
	_, err = plot.Pareto(table(), plot.ParetoOptions{Options: pareto.Options{Users: "max_concurrency"}})
	require.NoError(t, err)
	n, err := plot.Latency(table(), plot.LatencyOptions{VarX: "output_throughput"})
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, n.Figure.SVG(&b))
	require.NotContains(t, b.String(), "NaN")
}

// Whatever is typed, a condition is read or refused, and what was read keeps its meaning.
func FuzzConditions(f *testing.F) {
	for _, text := range []string{"max_concurrency<1000,model==tiny", "a!='b'", "x>=1e3", "a==b==c", "==", "a<=", "a%1", ",", "\x00<1", "a<nan"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, err := plot.ParseConditions(text)
		if err != nil {
			require.ErrorContains(t, err, "condition")
			return
		}
		for _, c := range list {
			require.NotEmpty(t, c.Column)
			require.Contains(t, text, c.Operator)
		}
		table := plot.NewTable([]records.Run{runOf(1, 4, 1, 100, 20)}, nil)
		_ = table.Filter(list)
		require.LessOrEqual(t, len(table.Rows), 1)
	})
}

func FuzzBins(f *testing.F) {
	for _, text := range []string{"request_throughput%1", "a%0.5,b%2", "a%%1", "%", "a%1e-300", "a%1e300"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, err := plot.ParseBins(text)
		if err != nil {
			require.ErrorContains(t, err, "bin")
			return
		}
		table := plot.NewTable([]records.Run{runOf(1, 4, 1, 100, 20)}, nil)
		for _, b := range list {
			require.Greater(t, b.Size, 0.0)
			_ = table.Bin([]plot.Bin{{Column: "max_concurrency", Size: b.Size}})
		}
	})
}
