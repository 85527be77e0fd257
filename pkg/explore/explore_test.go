package explore_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/explore"
	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/synthetic"
)

// bench makes runs of one kind of service whose throughput is known.
type bench struct{ runs []explore.Run }

func (b *bench) add(throughput float64, gpus int, settings map[string]string) *explore.Run {
	id := fmt.Sprintf("exp_%04d", len(b.runs))
	r := &result.Result{
		RunID: id, Status: result.Completed, Timestamp: time.UnixMilli(int64(len(b.runs)) * 1000),
		Validity:   &result.Validity{Valid: true, Verdict: result.VerdictValid},
		Provenance: &result.Provenance{Engine: "vllm", EngineVersion: "0.32.0"},
		Results:    result.Metrics{Counts: result.Counts{GPUs: &gpus}, Rates: result.Rates{OutputThroughput: &throughput}},
	}
	r.Results.Latency = map[result.Family]result.Distribution{result.TTFT: {Median: new(throughput / 10)}}
	b.runs = append(b.runs, explore.Run{ID: id, Run: records.Run{Dir: id, Result: r, Settings: settings}})
	return &b.runs[len(b.runs)-1]
}

func settings(pairs ...string) map[string]string {
	m := map[string]string{"cmd_args.model": "m"}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

const (
	concurrency = "bench_cmd_args.max_concurrency"
	tp          = "cmd_args.tensor_parallel_size"
	dtype       = "cmd_args.dtype"
	seqs        = "cmd_args.max_num_seqs"
)

// wobble is a fixed noise of about 1 %.
func wobble(i int) float64 { return 1 + 0.01*float64((i*7)%5-2) }

// covers: UI-10, UC-2, UC-4, UC-5
func TestImpactOfOneSetting(t *testing.T) {
	var b bench
	for i := range 10 { // dtype matters, max_num_seqs does not
		for d, factor := range map[string]float64{"bfloat16": 1, "fp8": 1.3} {
			for _, n := range []string{"64", "128"} {
				b.add(1000*factor*float64(1+i)*wobble(3*i*i+len(n)+int(d[0])), 4, settings(concurrency, strconv.Itoa(1<<i), dtype, d, seqs, n))
			}
		}
	}
	invalid := b.add(9, 4, settings(dtype, "fp8"))
	invalid.Result.Validity.Verdict = result.VerdictInvalid
	r := explore.Impacts(b.runs, metric.Throughput)
	require.Equal(t, 40, r.Runs)
	require.Equal(t, 1, r.LeftOut)
	byKey := map[string]explore.Impact{}
	for _, x := range r.Impacts {
		if x.Key == dtype || x.Key == seqs {
			byKey[x.Key] = x
		}
	}
	d := byKey[dtype]
	require.Equal(t, explore.Shown, d.Certainty)
	require.Equal(t, "bfloat16", d.From)
	require.Equal(t, 20, d.Pairs)
	require.InDelta(t, 30, d.Percent, 2)
	require.LessOrEqual(t, *d.Low, 30.0)
	require.GreaterOrEqual(t, *d.High, 30.0)
	require.True(t, d.Better)
	require.Equal(t, explore.NotShown, byKey[seqs].Certainty)
	require.Empty(t, r.Together)
}

func TestSettingsThatChangeTogetherSayNothing(t *testing.T) {
	var b bench
	for i := range 8 {
		b.add(1000*wobble(i), 4, settings(dtype, "bfloat16", seqs, "64", "extra_env_vars.X", strconv.Itoa(i)))
		b.add(2000*wobble(i), 4, settings(dtype, "fp8", seqs, "128", "extra_env_vars.X", strconv.Itoa(i)))
	}
	r := explore.Impacts(b.runs, metric.Throughput)
	require.ElementsMatch(t, []string{dtype, seqs}, r.Together)
}

func TestFewPairsAreTooLittle(t *testing.T) {
	var b bench
	b.add(1000, 4, settings(dtype, "bfloat16"))
	b.add(2000, 4, settings(dtype, "fp8"))
	r := explore.Impacts(b.runs, metric.Throughput)
	require.Len(t, r.Impacts, 1)
	require.Equal(t, explore.TooLittle, r.Impacts[0].Certainty)
	require.InDelta(t, 100, r.Impacts[0].Percent, 1e-9)
	require.Equal(t, [2]string{"exp_0000", "exp_0001"}, r.Impacts[0].Runs)
}

func TestLowerIsBetterForLatency(t *testing.T) {
	var b bench
	for i := range 8 {
		b.add(1000*wobble(i), 4, settings(dtype, "bfloat16", concurrency, strconv.Itoa(i)))
		b.add(500*wobble(i), 4, settings(dtype, "fp8", concurrency, strconv.Itoa(i)))
	}
	for _, x := range explore.Impacts(b.runs, metric.MedianTTFT).Impacts {
		if x.Key == dtype {
			require.True(t, x.Better)
			require.Equal(t, explore.Shown, x.Certainty)
			return
		}
	}
	t.Fatal("no impact of dtype")
}

// covers: UC-3, HW-2
func TestScaling(t *testing.T) {
	var b bench
	for _, model := range []string{"a", "b"} {
		for i, n := range []int{1, 2, 4} {
			for _, load := range []string{"1", "64"} {
				v := 100 * float64(n) * (1 - 0.1*float64(i))
				if load == "1" {
					v /= 10
				}
				b.add(v, n, settings("cmd_args.model", model, tp, strconv.Itoa(n), concurrency, load))
			}
		}
	}
	b.add(50, 1, settings("cmd_args.model", "alone"))
	list := explore.Scalings(b.runs, metric.Throughput).Scalings
	require.Len(t, list, 2)
	require.Equal(t, []records.Setting{{Key: "model", Value: "a"}}, list[0].Settings)
	p := list[0].Points
	require.Len(t, p, 3)
	require.Equal(t, []int{1, 2, 4}, []int{p[0].GPUs, p[1].GPUs, p[2].GPUs})
	require.InDeltaSlice(t, []float64{1, 0.9, 0.8}, []float64{p[0].Efficiency, p[1].Efficiency, p[2].Efficiency}, 1e-9)
	require.Equal(t, 2, p[0].Of)
	require.Contains(t, p[2].Layout, records.Setting{Key: "max_concurrency", Value: "64"})
}

// A number of GPUs without a valid run at the loads of the others is marked: what it can do is not known.
func TestScalingOfLowLoads(t *testing.T) {
	var b bench
	for _, load := range []string{"8", "64"} {
		v := 100.0
		if load == "64" {
			v = 800
		}
		b.add(v, 1, settings(tp, "1", concurrency, load))
		b.add(4*v, 8, settings(tp, "8", concurrency, load))
	}
	b.add(190, 2, settings(tp, "2", concurrency, "8")) // the run at 64 is missing
	b.add(3000, 4, settings(tp, "4", concurrency, "32"))
	b.add(2900, 4, settings(tp, "4", concurrency, "64")) // more load does less: 32 is its best
	p := explore.Scalings(b.runs, metric.Throughput).Scalings[0].Points
	require.Len(t, p, 4)
	low := map[int]bool{}
	for _, x := range p {
		low[x.GPUs] = x.LowLoad
	}
	require.Equal(t, map[int]bool{1: false, 2: true, 4: false, 8: false}, low)
}

// covers: UC-9
func TestCapacity(t *testing.T) {
	var b bench
	for i, load := range []string{"8", "16", "32"} { // median TTFT is a tenth of the throughput
		b.add(1000*float64(i+1), 4, settings(dtype, "bfloat16", concurrency, load))
		b.add(1500*float64(i+1), 8, settings(dtype, "fp8", concurrency, load))
		b.add(9000, 4, settings(dtype, "half", concurrency, load))
	}
	limit := metric.Limit{Metric: metric.MedianTTFT, Value: 310}
	c := explore.Capacities(b.runs, metric.Throughput, []metric.Limit{limit}, 10_000)
	require.Len(t, c.Plans, 2)
	best := c.Plans[0]
	require.Equal(t, []records.Setting{{Key: "dtype", Value: "bfloat16"}}, best.Settings)
	require.Equal(t, []records.Setting{{Key: "max_concurrency", Value: "32"}}, best.Load)
	require.Equal(t, 3000.0, best.Value)
	require.Equal(t, 4, best.Copies)
	require.Equal(t, 16, best.Total)
	require.True(t, best.Top)
	require.Equal(t, 300.0, best.Limits[0].Measured)
	require.False(t, c.Plans[1].Top, "a higher load broke the limit")
	require.Equal(t, [][]records.Setting{{{Key: "dtype", Value: "half"}}}, c.Beyond)
}

func TestNothing(t *testing.T) {
	require.Empty(t, explore.Impacts(nil, metric.Throughput).Impacts)
	require.Empty(t, explore.Scalings(nil, metric.Throughput).Scalings)
	require.Empty(t, explore.Capacities(nil, metric.Throughput, nil, 0).Plans)
}

func simulated(b *bench) {
	for i := range b.runs {
		b.runs[i].Result.Simulated = true
	}
}

func TestMeasuredRunsGoBeforeSimulatedOnes(t *testing.T) {
	var b bench
	for i := range 6 {
		b.add(9000, 8, settings(dtype, "half", concurrency, strconv.Itoa(i)))
	}
	simulated(&b)
	require.Equal(t, records.Simulated, explore.Scalings(b.runs, metric.Throughput).Kind)
	b.add(1000, 4, settings(dtype, "half"))
	r := explore.Capacities(b.runs, metric.Throughput, nil, 0)
	require.Equal(t, records.Measured, r.Kind)
	require.Len(t, r.Plans, 1)
	require.Equal(t, 1000.0, r.Plans[0].Value)
	require.Equal(t, 6, explore.Impacts(b.runs, metric.Throughput).LeftOut)
}

func TestInvalidRunsChooseNoKind(t *testing.T) {
	var b bench
	for range 5 {
		b.add(9000, 8, settings()).Result.Validity.Verdict = result.VerdictInvalid
	}
	b.add(1000, 4, settings())
	b.runs[5].Result.Simulated = true
	require.Len(t, explore.Capacities(b.runs, metric.Throughput, nil, 0).Plans, 1)
}

// Many pairs without a difference prove nothing.
func TestTiesAreNoEffect(t *testing.T) {
	var b bench
	for i := range 100 {
		for _, d := range []string{"bfloat16", "fp8"} {
			b.add(1000, 4, settings(dtype, d, "extra_env_vars.X", strconv.Itoa(i)))
		}
	}
	for _, x := range explore.Impacts(b.runs, metric.Throughput).Impacts {
		if x.Key == dtype {
			require.Equal(t, 100, x.Pairs)
			require.Equal(t, 1.0, *x.P)
			require.Equal(t, explore.NotShown, x.Certainty)
			return
		}
	}
	t.Fatal("no impact of dtype")
}

func TestOneNumberWrittenTwoWays(t *testing.T) {
	var b bench
	b.add(1000, 4, settings("cmd_args.gpu_memory_utilization", "0.9"))
	b.add(1000, 4, settings("cmd_args.gpu_memory_utilization", "0.90"))
	require.Empty(t, explore.Impacts(b.runs, metric.Throughput).Impacts)
}

func TestVersionsAreOrderedByTheirParts(t *testing.T) {
	var b bench
	for _, v := range []string{"0.9.2", "0.10.1", "0.10"} {
		b.add(1000, 4, settings()).Result.Provenance.EngineVersion = v
	}
	var got []string
	for _, x := range explore.Impacts(b.runs, metric.Throughput).Impacts {
		got = append(got, x.From+" "+x.To)
	}
	require.ElementsMatch(t, []string{"0.9.2 0.10", "0.10 0.10.1"}, got)
}

func TestNoShareOfZero(t *testing.T) {
	var b bench
	b.add(0, 4, settings(dtype, "half"))
	b.add(1000, 4, settings(dtype, "fp8"))
	r := explore.Impacts(b.runs, metric.Throughput)
	require.Equal(t, []string{dtype}, r.NotAbove0)
	require.Empty(t, r.Together)
}

// One lucky repeat neither keeps a limit nor is the capacity.
func TestRepeatsCountByTheirMedian(t *testing.T) {
	var b bench
	for _, v := range []float64{1000, 4000, 4100} { // median TTFT is a tenth
		b.add(v, 4, settings(concurrency, "32"))
	}
	b.add(900, 4, settings(concurrency, "16"))
	limit := metric.Limit{Metric: metric.MedianTTFT, Value: 200}
	p := explore.Capacities(b.runs, metric.Throughput, []metric.Limit{limit}, 0).Plans
	require.Len(t, p, 1)
	require.Equal(t, 900.0, p[0].Value)
	require.Equal(t, 3, p[0].Beyond)
	require.False(t, p[0].Top)
	require.Equal(t, 4000.0, explore.Capacities(b.runs, metric.Throughput, nil, 0).Plans[0].Value)
}

func TestThePeakBelowTheHighestLoad(t *testing.T) {
	var b bench
	for load, v := range map[string]float64{"8": 1000, "16": 2000, "32": 1900} {
		b.add(v, 4, settings(concurrency, load))
	}
	p := explore.Capacities(b.runs, metric.Throughput, nil, 0).Plans[0]
	require.Equal(t, 2000.0, p.Value)
	require.False(t, p.Top, "a higher load was tried")
}

func TestUnknownGPUsAreNoFewGPUs(t *testing.T) {
	var b bench
	b.add(1000, 4, settings(dtype, "half"))
	b.add(1000, 0, settings(dtype, "fp8")).Result.Results.GPUs = nil
	p := explore.Capacities(b.runs, metric.Throughput, nil, 5000).Plans
	require.Equal(t, 20, p[0].Total)
	require.Zero(t, p[1].Total)
}

// An unknown total is left out of the answer: 0 would read as a number.
func TestUnknownTotalIsLeftOut(t *testing.T) {
	var b bench
	b.add(1000, 0, settings()).Result.Results.GPUs = nil
	data, err := json.Marshal(explore.Capacities(b.runs, metric.Throughput, nil, 5000).Plans[0])
	require.NoError(t, err)
	require.Contains(t, string(data), `"copies":5`)
	require.NotContains(t, string(data), "total_gpus")
}

func TestTheHighestLoadOfSeveralNumbers(t *testing.T) {
	const rate = "bench_cmd_args.request_rate"
	for name, c := range map[string]struct {
		loads [][2]string // concurrency and rate, the best first
		top   bool
	}{
		"a higher rate at one concurrency":  {[][2]string{{"64", "5"}, {"64", "10"}}, false},
		"no limit of the rate is above all": {[][2]string{{"64", "900"}, {"64", "inf"}}, false},
		"the rate without a limit":          {[][2]string{{"64", "inf"}, {"64", "900"}}, true},
		"a rate that is not set":            {[][2]string{{"64", ""}, {"64", "900"}}, true},
		"numbers, not texts":                {[][2]string{{"128", "inf"}, {"64", "inf"}}, true},
		"a higher one and a lower one":      {[][2]string{{"64", "5"}, {"32", "10"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var b bench
			for i, l := range c.loads {
				b.add(2000-float64(i), 4, settings(concurrency, l[0], rate, l[1]))
			}
			require.Equal(t, c.top, explore.Capacities(b.runs, metric.Throughput, nil, 0).Plans[0].Top)
		})
	}
}

func TestScalingOfRepeats(t *testing.T) {
	var b bench
	for _, v := range []float64{100, 110, 900} { // the last is luck
		b.add(v, 1, settings(concurrency, "8"))
	}
	b.add(220, 2, settings(concurrency, "8")) // nothing but the number of GPUs sets it apart
	list := explore.Scalings(b.runs, metric.Throughput).Scalings
	require.Len(t, list, 1)
	p := list[0].Points
	require.Len(t, p, 2)
	require.Equal(t, 110.0, p[0].Value)
	require.Equal(t, "exp_0001", p[0].Run)
	require.Equal(t, 3, p[0].Of)
	require.InDelta(t, 1, p[1].Efficiency, 1e-9)
}

// Of two runs with one run_id, the answers name each by its id in the store.
func TestAnswersNameTheIdsOfTheStore(t *testing.T) {
	var b bench
	b.add(100, 1, settings(tp, "1"))
	b.add(300, 2, settings(tp, "2"))
	b.runs[1].ID, b.runs[1].Result.RunID = "exp_0000~2", "exp_0000"
	require.Equal(t, [2]string{"exp_0000", "exp_0000~2"}, explore.Impacts(b.runs, metric.Throughput).Impacts[0].Runs)
	require.Equal(t, "exp_0000~2", explore.Scalings(b.runs, metric.Throughput).Scalings[0].Points[1].Run)
	require.Equal(t, "exp_0000~2", explore.Capacities(b.runs, metric.Throughput, nil, 0).Plans[0].Run)
}

// Pairs without a difference do not count for the direction of the others.
func TestTiesBesideDifferences(t *testing.T) {
	var b bench
	for i := range 40 {
		v := 1000.0
		if i < 4 {
			v = 2000
		}
		b.add(1000, 4, settings(dtype, "bfloat16", "extra_env_vars.X", "x"+strconv.Itoa(i)))
		b.add(v, 4, settings(dtype, "fp8", "extra_env_vars.X", "x"+strconv.Itoa(i)))
	}
	for _, x := range explore.Impacts(b.runs, metric.Throughput).Impacts {
		if x.Key == dtype {
			require.Greater(t, *x.P, 0.1, "four pairs show nothing")
			return
		}
	}
	t.Fatal("no impact of dtype")
}

// The runs with the two values of an effect are found by its field.
func TestEachEffectNamesAField(t *testing.T) {
	made := synthetic.New(1, 2000, time.UnixMilli(1e12))
	runs, values := make([]explore.Run, 2000), map[string]map[string]bool{}
	for i := range runs {
		r := made.Run(i)
		runs[i] = explore.Run{ID: r.Dir, Run: r}
		for _, c := range field.Of(&r) {
			if values[c.Field.Name] == nil {
				values[c.Field.Name] = map[string]bool{}
			}
			values[c.Field.Name][c.Value.String()] = true
		}
	}
	m, err := metric.Find("output_throughput")
	require.NoError(t, err)
	impacts := explore.Impacts(runs, m).Impacts
	require.True(t, slices.ContainsFunc(impacts, func(x explore.Impact) bool { return x.Key == explore.Version }))
	for _, x := range impacts {
		for _, v := range []string{x.From, x.To} {
			if v != "" { // where it was not set
				require.True(t, values[x.Field][field.Read(v).String()], "%s: %q", x.Field, v)
			}
		}
	}
}
