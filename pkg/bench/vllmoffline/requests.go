package vllmoffline

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/profllm/profllm/pkg/pyjson"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/stats"
)

// requests is the name of the benchmark that times single requests.
const requests = "requests"

// mostRequests bounds the requests of all engines.
const mostRequests = 10_000_000

// errColumns is a file whose columns are not of the same requests.
var errColumns = errors.New("the columns are not of the same requests")

// A pool is the requests of all engines: percentiles of their percentiles would be none.
type pool struct {
	from          string
	elapsed       float64 // of the slowest engine, s
	input, output int64
	n             int

	ttft, tpot, queue, e2el []float64
}

// requests takes the columns of one engine's file into the pool.
func (r *reader) requests(doc pyjson.Value, _ *result.Offline) error {
	elapsed, from := r.Number(doc.At("elapsed_time"), "elapsed_time"), doc.At("ttft_from")
	if elapsed == nil || from.Kind != pyjson.Text || doc.At("ttfts").Kind == pyjson.Absent {
		return errNoBench
	}
	if r.pool == nil {
		r.pool = &pool{from: from.Str}
	}
	p := r.pool
	if p.from != from.Str {
		return fmt.Errorf("%s: TTFT counts from %q, in another file from %q", r.Name, from.Str, p.from)
	}
	input, output, queue, ttft, decode := r.column(doc, "input_lens"), r.column(doc, "output_lens"),
		r.column(doc, "queue_times"), r.column(doc, "ttfts"), r.column(doc, "decode_times")
	if n := p.n + len(ttft); n > mostRequests {
		return fmt.Errorf("%s: the files have %d requests, and at most %d are read", r.Name, n, mostRequests)
	}
	for _, c := range [][]float64{input, output, queue, decode} {
		if len(c) != len(ttft) {
			return fmt.Errorf("%s: %w", r.Name, errColumns)
		}
	}
	for i := range ttft {
		p.add(input[i], output[i], queue[i], ttft[i], decode[i])
	}
	p.elapsed = max(p.elapsed, *elapsed)
	known := []string{"elapsed_time", "ttft_from", "input_lens", "output_lens", "queue_times", "ttfts", "decode_times",
		"num_requests", "vllm_version"}
	r.identify(doc, func(key string) bool { return slices.Contains(known, key) })
	return nil
}

// column is a list of numbers that are not below zero; nil if one of its values is none.
func (r *reader) column(doc pyjson.Value, key string) []float64 {
	list := doc.At(key).Items
	column := make([]float64, 0, len(list))
	for _, v := range list {
		x := r.Number(v, key)
		switch {
		case x == nil:
			return nil
		case *x < 0 || *x > math.MaxInt32:
			r.Warn(result.NoNumber, v, key, "%v is no time or count of a request", *x)
			return nil
		}
		column = append(column, *x)
	}
	return column
}

func (p *pool) add(input, output, queue, ttft, decode float64) {
	p.n++
	p.input, p.output = p.input+int64(input), p.output+int64(output)
	p.queue, p.ttft, p.e2el = append(p.queue, queue), append(p.ttft, ttft), append(p.e2el, queue+ttft+decode)
	if output > 1 {
		p.tpot = append(p.tpot, decode/(output-1))
	}
}

// fill sets what all requests together say.
func (p *pool) fill(o *result.Offline) {
	o.Requests = &result.OfflineRequests{TTFTFrom: p.from, TTFT: timing(p.ttft), TPOT: timing(p.tpot),
		Queue: timing(p.queue), E2EL: timing(p.e2el)}
	if o.Throughput != nil { // of vllm bench throughput, in the same folder
		return
	}
	t := &result.OfflineThroughput{Duration: &p.elapsed, Requests: new(int64(p.n)), InputTokens: &p.input,
		OutputTokens: &p.output, TotalTokens: new(p.input + p.output)}
	if p.elapsed > 0 {
		t.RequestThroughput = new(float64(p.n) / p.elapsed)
		t.TotalTokenThroughput = new(float64(*t.TotalTokens) / p.elapsed)
		t.OutputThroughput = new(float64(p.output) / p.elapsed)
	}
	o.Throughput = t
}

// ranks are the percentiles of every served load.
var ranks = []float64{50, 90, 95, 99}

// timing is the statistics of some times, nil of none.
func timing(values []float64) *result.Timing {
	if len(values) == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(values))
	sum, squares, n := 0.0, 0.0, float64(len(sorted))
	for _, v := range sorted {
		sum += v
	}
	mean := sum / n
	for _, v := range sorted {
		squares += (v - mean) * (v - mean)
	}
	t := &result.Timing{N: new(len(sorted)), Mean: &mean, Std: new(math.Sqrt(squares / n)),
		Percentiles: map[string]float64{}}
	for _, rank := range ranks {
		t.Percentiles[strconv.FormatFloat(rank, 'f', -1, 64)] = stats.PercentileFromBelow(sorted, rank/100)
	}
	return t
}
