package load

import (
	"encoding/json"
	"math"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/load/answer"
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
func (d *detailed) outcomes() []answer.Outcome {
	ns := func(s float64) int64 { return int64(math.Round(s * second)) }
	all := make([]answer.Outcome, len(d.TTFTs))
	for i := range all {
		o := answer.Outcome{State: answer.Completed, Start: ns(d.Starts[i]), Input: d.InputLens[i],
			Output: d.OutputLens[i], Usage: true}
		at := d.Starts[i] + d.TTFTs[i]
		o.Tokens = append(o.Tokens, ns(at))
		for _, g := range d.ITLs[i] {
			at += g
			o.Tokens = append(o.Tokens, ns(at))
		}
		o.Due, o.Ready = o.Start, o.Start
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

// covers: OUT-3 PL-Q2, MET-1
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
	require.LessOrEqual(t, float64(overlap), theirs["max_concurrent_requests"],
		"vLLM counts whole seconds, we count instants")
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
func answered(start int64, output int, tokens ...int64) answer.Outcome {
	o := answer.Outcome{State: answer.Completed, Start: start * 1e6, Output: output}
	for _, at := range tokens {
		o.Tokens = append(o.Tokens, at*1e6)
	}
	return o
}

func TestGoodput(t *testing.T) {
	outcomes := []answer.Outcome{
		answered(0, 3, 50, 70, 90),        // ttft 50, tpot 20, e2el 90
		answered(0, 3, 51, 71, 91),        // one ms later
		answered(0, 1, 50),                // one token: tpot counts as 0
		{State: answer.Failed, Err: "no"}, // never good
		answered(100, 3, 150, 190, 230),   // tpot 40
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
	outcomes := []answer.Outcome{
		answered(0, 3, 100, 900, 1100),
		answered(1100, 2, 1200, 1300), // begins the moment the first ends: no overlap
		{State: answer.Failed, Start: 0},
	}
	require.Equal(t, 3, peakTokens(outcomes), "1.1, 1.2 and 1.3 s lie in the second second")
	require.Equal(t, 1, peakOverlap(outcomes))
	outcomes[1].Start--
	require.Equal(t, 2, peakOverlap(outcomes))
}

// A client that a busy machine holds up before its first send measures from there.
func TestBeginWithFirstSend(t *testing.T) {
	started := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	m := measurement{begin: 100, end: 5000, started: started,
		outcomes: []answer.Outcome{{}, {Start: 700}, {Start: 400}}}
	m.beginWithFirstSend()
	require.EqualValues(t, 400, m.begin)
	require.Equal(t, started.Add(300), m.started)

	m = measurement{begin: 100, started: started, outcomes: []answer.Outcome{{}}} // interrupted before
	m.beginWithFirstSend()
	require.EqualValues(t, 100, m.begin)
	require.Equal(t, started, m.started)
}
