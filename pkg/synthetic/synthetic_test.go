package synthetic_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/query"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/synthetic"
)

var end = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

func TestRecordsAreValid(t *testing.T) {
	g := synthetic.New(1, 500, end)
	seen, last := map[string]bool{}, time.Time{}
	for i := range g.Len() {
		r := g.Record(i)
		data, err := result.Encode(r)
		require.NoError(t, err)
		require.NoError(t, result.Validate(data), "%s", data)
		require.True(t, r.Simulated)
		require.True(t, r.Provenance.Simulated)
		require.False(t, seen[r.RunID], r.RunID)
		require.False(t, r.Timestamp.Before(last))
		seen[r.RunID], last = true, r.Timestamp
		again, err := result.Encode(synthetic.New(1, 500, end).Record(i))
		require.NoError(t, err)
		require.Equal(t, string(data), string(again))
	}
	other, err := result.Encode(synthetic.New(2, 500, end).Record(7))
	require.NoError(t, err)
	same, err := result.Encode(g.Record(7))
	require.NoError(t, err)
	require.NotEqual(t, string(same), string(other))
}

// What the model promises can be found in the numbers.
func TestCorrelations(t *testing.T) {
	g := synthetic.New(3, 4000, end)
	runs := make(query.Naive, g.Len())
	for i := range runs {
		runs[i] = g.Query(i)
	}
	var invalid int
	low, high := mean{}, mean{}
	small, large := mean{}, mean{}
	slow, fast := mean{}, mean{}
	for i := range runs {
		of := func(name string) float64 { return runs[i].Of(name).Number }
		if runs[i].Of("verdict").Text == "invalid" {
			invalid++
		}
		if !runs[i].Of("median_ttft_ms").Has() {
			continue
		}
		switch c := of("bench_cmd_args.max_concurrency"); {
		case c <= 4:
			low.add(math.Log(of("output_throughput")))
			small.add(math.Log(of("median_ttft_ms")))
		case c >= 128:
			high.add(math.Log(of("output_throughput")))
			large.add(math.Log(of("median_ttft_ms")))
		}
		switch of("cmd_args.tensor_parallel_size") {
		case 1:
			slow.add(math.Log(of("output_throughput_per_user")))
		case 2:
			fast.add(math.Log(of("output_throughput_per_user")))
		}
	}
	require.InDelta(t, 0.05, float64(invalid)/float64(len(runs)), 0.02)
	require.Greater(t, high.of(), low.of()+1, "throughput grows with concurrency")
	require.Greater(t, large.of(), small.of()+0.5, "the time to the first token grows with the load")
	require.Greater(t, fast.of(), slow.of(), "throughput grows with tensor parallelism")
}

// A release that the model calls slower has later tokens in the services that run every night.
func TestSlowerReleases(t *testing.T) {
	g := synthetic.New(1, 6000, end)
	tpot := map[string]*mean{}
	for i := 0; i < g.Len(); i += 3 { // every third run is of a service
		r := g.Record(i)
		if r.Provenance.Engine != "vllm" || r.Results.Latency[result.TPOT].Median == nil {
			continue
		}
		v := r.Provenance.EngineVersion
		if tpot[v] == nil {
			tpot[v] = &mean{}
		}
		tpot[v].add(math.Log(*r.Results.Latency[result.TPOT].Median))
	}
	require.InDelta(t, math.Log(1.09*1.22/1.24), tpot["0.12.0"].of()-tpot["0.11.0"].of(), 0.03)
	require.Less(t, tpot["0.13.0"].of(), tpot["0.12.0"].of())
}

type mean struct {
	sum float64
	n   int
}

func (m *mean) add(x float64) { m.sum, m.n = m.sum+x, m.n+1 }
func (m *mean) of() float64   { return m.sum / float64(m.n) }

func BenchmarkRun(b *testing.B) {
	g := synthetic.New(1, 1_000_000, end)
	b.Run("record", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			g.Record(i)
		}
	})
	b.Run("cells", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			g.Query(i)
		}
	})
}
