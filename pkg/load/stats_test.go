package load

import (
	"encoding/json"
	"math"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// detailed is the part of a real vLLM result that the statistics can be recomputed from.
type detailed struct {
	OutputLens []int       `json:"output_lens"`
	InputLens  []int       `json:"input_lens"`
	TTFTs      []float64   `json:"ttfts"`
	ITLs       [][]float64 `json:"itls"`
	Starts     []float64   `json:"start_times"`
}

// outcomes rebuilds outcomes from vLLM's arrays.
func (d *detailed) outcomes() []outcome {
	ns := func(s float64) int64 { return int64(math.Round(s * second)) }
	all := make([]outcome, len(d.TTFTs))
	for i := range all {
		o := outcome{state: completed, start: ns(d.Starts[i]), input: d.InputLens[i], output: d.OutputLens[i], usage: true}
		at := d.Starts[i] + d.TTFTs[i]
		o.tokens = append(o.tokens, ns(at))
		for _, g := range d.ITLs[i] {
			at += g
			o.tokens = append(o.tokens, ns(at))
		}
		o.due, o.ready = o.start, o.start
		all[i] = o
	}
	return all
}

func readSample(t *testing.T, name string, into any) {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, into))
}

// covers: OUT-3 PL-Q2
func TestStatisticsAgreeWithVLLM(t *testing.T) {
	var arrays detailed
	readSample(t, "serve-detailed.json", &arrays)
	var theirs map[string]any
	readSample(t, "serve-detailed.json", &theirs)
	outcomes := arrays.outcomes()
	all := series(outcomes)

	checked := 0
	for _, name := range []string{"ttft", "tpot", "itl", "e2el"} {
		f := newFamily(name, all[name], []float64{50, 90, 95, 99})
		ours := map[string]float64{
			"mean_" + name + "_ms": f.Mean, "median_" + name + "_ms": f.Median, "std_" + name + "_ms": f.Std,
		}
		for _, p := range f.Percentiles {
			ours["p"+p.name()+"_"+name+"_ms"] = p.Value
		}
		for key, v := range ours {
			require.InDelta(t, theirs[key], v, 1e-5, key) // the rebuilt times are rounded to 1 ns
			checked++
		}
	}
	require.Equal(t, 4*7, checked)
	require.EqualValues(t, theirs["max_output_tokens_per_s"], peakTokens(outcomes))
	overlap := peakOverlap(outcomes)
	require.Greater(t, overlap, 1)
	require.LessOrEqual(t, float64(overlap), theirs["max_concurrent_requests"], "vLLM counts whole seconds, we count instants")
}

func TestMeanStdIsThePopulationForm(t *testing.T) {
	mean, std := meanStd([]float64{2, 4, 4, 4, 5, 5, 7, 9})
	require.Equal(t, 5.0, mean)
	require.Equal(t, 2.0, std)
	mean, std = meanStd(nil)
	require.Zero(t, mean)
	require.Zero(t, std)
}

// answered makes a completed outcome from times in ms.
func answered(start int64, output int, tokens ...int64) outcome {
	o := outcome{state: completed, start: start * 1e6, output: output}
	for _, at := range tokens {
		o.tokens = append(o.tokens, at*1e6)
	}
	return o
}

func TestGoodput(t *testing.T) {
	outcomes := []outcome{
		answered(0, 3, 50, 70, 90),      // ttft 50, tpot 20, e2el 90
		answered(0, 3, 51, 71, 91),      // one ms later
		answered(0, 1, 50),              // one token: tpot counts as 0
		{state: failed, err: "no"},      // never good
		answered(100, 3, 150, 190, 230), // tpot 40
	}
	tests := map[string]struct {
		flags List
		want  int
	}{
		"inclusive limit":   {List{"ttft:50"}, 3},
		"both have to hold": {List{"ttft:50", "tpot:20"}, 2},
		"end to end":        {List{"e2el:90"}, 2},
		"nobody":            {List{"ttft:0"}, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			limits, err := Goodput(tt.flags)
			require.NoError(t, err)
			require.Equal(t, tt.want, countGood(outcomes, limits))
		})
	}
}

func TestPeaks(t *testing.T) {
	outcomes := []outcome{
		answered(0, 3, 100, 900, 1100),
		answered(1100, 2, 1200, 1300), // begins the moment the first ends: no overlap
		{state: failed, start: 0},
	}
	require.Equal(t, 3, peakTokens(outcomes), "1.1, 1.2 and 1.3 s lie in the second second")
	require.Equal(t, 1, peakOverlap(outcomes))
	outcomes[1].start--
	require.Equal(t, 2, peakOverlap(outcomes))
}

func TestSpreadBoundsItsQuantiles(t *testing.T) {
	var s spread
	require.Zero(t, s.quantile(0.99))
	for i := range int64(100_000) {
		s.add(i)
	}
	for _, q := range []float64{0, 0.001, 0.5, 0.99, 1} {
		exact := q * 99_999
		got := float64(s.quantile(q))
		require.GreaterOrEqual(t, got+1, exact)
		require.LessOrEqual(t, got, exact*1.125+1, "q %v", q)
	}
	s.add(math.MaxInt64)
	s.add(-5)
	require.Equal(t, int64(math.MaxInt64), s.quantile(1))
}

// A client that a busy machine holds up before its first send measures from there.
func TestBeginWithFirstSend(t *testing.T) {
	started := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	m := measurement{begin: 100, end: 5000, started: started, outcomes: []outcome{{}, {start: 700}, {start: 400}}}
	m.beginWithFirstSend()
	require.EqualValues(t, 400, m.begin)
	require.Equal(t, started.Add(300), m.started)

	m = measurement{begin: 100, started: started, outcomes: []outcome{{}}} // interrupted before
	m.beginWithFirstSend()
	require.EqualValues(t, 100, m.begin)
	require.Equal(t, started, m.started)
}
