package query_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/query"
)

// runOf is a run whose values are written as settings are.
func runOf(id string, values map[string]string) query.Run {
	r := query.Run{ID: id}
	for name, s := range values {
		f, err := field.Find(name)
		if err != nil {
			panic(err)
		}
		v := field.Read(s)
		if f.Kind == field.Text && !f.Free {
			v = field.OfText(s)
		}
		r.Cells = append(r.Cells, field.Cell{Field: f, Value: v})
	}
	return r
}

var four = query.Naive{
	runOf("a", map[string]string{"gpu": "H100", "engine": "vllm", "median_ttft_ms": "10", "timestamp": "1000", "request_rate": "inf"}),
	runOf("b", map[string]string{"gpu": "H200", "engine": "vllm", "median_ttft_ms": "30", "timestamp": "2000", "request_rate": "4"}),
	runOf("c", map[string]string{"gpu": "H100", "engine": "sglang", "timestamp": "2000", "request_rate": "2"}),
	runOf("d", map[string]string{"gpu": "h100", "median_ttft_ms": "20"}),
}

// covers: API-6, API-12
func TestQuery(t *testing.T) {
	for text, want := range map[string]string{
		`{}`: `{"runs":4,"matches":4}`,
		`{"facets":["gpu"],"metrics":["median_ttft_ms"]}`: `{"runs":4,"matches":4,
			"facets":[{"field":"gpu","values":[{"value":"H100","runs":2},{"value":"H200","runs":1},{"value":"h100","runs":1}]}],
			"metrics":[{"field":"median_ttft_ms","runs":3,"min":10,"max":30,"mean":20}]}`,
		// A facet's own condition does not count for it; within says that it does.
		`{"filter":{"and":[{"field":"gpu","in":["H100"]},{"field":"engine","has":true}]},"facets":["gpu","engine"]}`: `{"runs":4,"matches":2,
			"facets":[{"field":"gpu","values":[{"value":"H100","runs":2},{"value":"H200","runs":1}]},
			{"field":"engine","values":[{"value":"sglang","runs":1},{"value":"vllm","runs":1}]}]}`,
		`{"filter":{"and":[{"field":"gpu","in":["H100"]},{"field":"engine","has":true}]},"facets":["gpu"],"within":true}`: `{"runs":4,"matches":2,
			"facets":[{"field":"gpu","values":[{"value":"H100","runs":2}]}]}`,
		`{"facets":["request_rate","cpu"]}`: `{"runs":4,"matches":4,"facets":[
			{"field":"bench_cmd_args.request_rate","values":[{"value":2,"runs":1},{"value":4,"runs":1},{"value":"inf","runs":1}],"missing":1},
			{"field":"cpu","missing":4}]}`,
		`{"metrics":["request_rate","cpu"]}`: `{"runs":4,"matches":4,"metrics":[
			{"field":"bench_cmd_args.request_rate","runs":2,"min":2,"max":4,"mean":3},{"field":"cpu","runs":0,"min":null,"max":null,"mean":null}]}`,
		`{"rows":{"fields":["gpu"],"limit":10}}`: `{"runs":4,"matches":4,
			"rows":{"ids":["b","c","a","d"],"fields":["gpu"],"columns":[["H200","H100","H100","h100"]]}}`,
		`{"rows":{"fields":["request_rate"],"sort":[{"field":"request_rate","descending":true}],"limit":10}}`: `{"runs":4,"matches":4,
			"rows":{"ids":["a","b","c","d"],"fields":["bench_cmd_args.request_rate"],"columns":[["inf",4,2,null]]}}`,
		`{"rows":{"fields":[],"sort":[{"field":"gpu"},{"field":"engine"}],"offset":1,"limit":2}}`: `{"runs":4,"matches":4,
			"rows":{"ids":["a","b"],"fields":[],"columns":[]}}`,
		`{"rows":{"fields":[],"offset":9,"limit":2}}`: `{"runs":4,"matches":4,"rows":{"ids":[],"fields":[],"columns":[]}}`,
	} {
		var q query.Query
		require.NoError(t, json.Unmarshal([]byte(text), &q))
		a, err := four.Query(t.Context(), q)
		require.NoError(t, err, text)
		got, err := json.Marshal(a)
		require.NoError(t, err)
		require.JSONEq(t, want, string(got), text)
	}
}

func TestCheckSaysEverything(t *testing.T) {
	q := query.Query{
		Facets: []string{"gpuu"}, Metrics: []string{"ttftt"},
		Rows: &query.Rows{Fields: []string{"nope_1"}, Sort: []query.Order{{Field: "nope_2"}}, Limit: query.MaxRows + 1, Offset: -1},
	}
	err := q.Check()
	for _, part := range []string{"gpuu", "ttftt", "nope_1", "nope_2", "limit 10001", "offset -1"} {
		require.ErrorContains(t, err, part)
	}
	q = query.Query{Rows: &query.Rows{Sort: slices.Repeat([]query.Order{{Field: "gpu"}}, query.MaxSort+1)}}
	require.ErrorContains(t, q.Check(), "sorted by 17 fields")
}

// Every number of the range has one bin, in the order of the numbers; the largest is in the last.
func TestBins(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		low := r.NormFloat64() * math.Pow(10, float64(r.IntN(600)-300))
		high := low + math.Abs(r.NormFloat64()*math.Pow(10, float64(r.IntN(600)-300)))
		if high <= low || math.IsInf(high, 0) || (high-low)/math.Abs(low) < 1e-12 {
			continue
		}
		h := query.NewHistogram(low, high)
		require.Equal(t, 0, h.Bin(low))
		require.Equal(t, query.Bins-1, h.Bin(high), "%g to %g", low, high)
		last := 0
		for i := range 100 {
			bin := h.Bin(low + (high-low)*float64(i)/100)
			require.GreaterOrEqual(t, bin, last)
			last = bin
		}
	}
	wide := query.NewHistogram(-math.MaxFloat64, math.MaxFloat64)
	require.Equal(t, 0, wide.Bin(-math.MaxFloat64))
	require.Equal(t, query.Bins/2, wide.Bin(0))
	require.Equal(t, query.Bins-1, wide.Bin(math.MaxFloat64))
}

// A facet of many values lists the most frequent, and of too many none.
func TestManyValues(t *testing.T) {
	ask := func(different int) query.Facet {
		var runs query.Naive
		for i := range different + 2 {
			runs = append(runs, runOf(fmt.Sprint(i), map[string]string{"suite": fmt.Sprintf("s%05d", min(i, different-1)), "median_ttft_ms": fmt.Sprint(i)}))
		}
		a, err := runs.Query(t.Context(), query.Query{Facets: []string{"suite"}})
		require.NoError(t, err)
		return a.Facets[0]
	}
	f := ask(query.MaxValues + 10)
	require.Len(t, f.Values, query.MaxValues)
	require.Equal(t, query.Count{Value: field.OfText(fmt.Sprintf("s%05d", query.MaxValues+9)), Runs: 3}, f.Values[0])
	require.Equal(t, 10, f.Others)
	f = ask(query.MaxDistinct + 1)
	require.Empty(t, f.Values)
	require.Equal(t, query.MaxDistinct+3, f.Others)
}

func TestInOrder(t *testing.T) {
	fields, err := query.Naive{runOf("a", map[string]string{
		"extra_env_vars.B": "1", "extra_env_vars.A": "x", "median_ttft_ms": "1", "gpu": "a",
	}), runOf("b", map[string]string{"extra_env_vars.A": "2"})}.Fields(t.Context())
	require.NoError(t, err)
	var names []string
	for _, f := range fields {
		names = append(names, f.Name)
	}
	require.Equal(t, []string{"gpu", "median_ttft_ms", "extra_env_vars.A", "extra_env_vars.B"}, names)
}
