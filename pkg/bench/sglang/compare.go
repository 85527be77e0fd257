package sglang

import (
	"fmt"
	"math"
	"slices"

	"github.com/profllm/profllm/pkg/result"
)

// asked reads the lengths that random requests were to have.
func (r *record) asked(name string, raw []byte) bool {
	to, ok := map[string]**float64{
		"random_input_len": &r.lens.input, "random_output_len": &r.lens.output, "random_range_ratio": &r.lens.ratio,
	}[name]
	if !ok {
		return false
	}
	if v, err := number(raw); err == nil && v-v == 0 {
		*to = &v
	}
	return true
}

// What the client's own numbers may be off each other.
const (
	lengthDeviation = 0.25 // tokens of a request: special tokens, a chat template
	lengthSlack     = 32.0 // the same, tokens
	loadDeviation   = 0.05 // requests in flight, which are latencies over the duration
	beyondChance    = 6.0  // standard deviations of a mean of lengths that were drawn
	leastAlike      = 100  // requests of which a whole number of tokens each is no chance
)

// compare holds the lengths against what was asked for, and the concurrency against the
// latencies that it is made of (calculate_metrics of bench_serving).
func (r *record) compare() {
	m := r.part.Metrics
	n := float64(*m.CompletedRequests)
	if n <= 0 {
		return
	}
	note := func(key, format string, args ...any) {
		r.warn(result.Contradicts, key, 0, fmt.Sprintf(format, args...))
	}
	if c, mean := m.MeanConcurrentRequests, m.Latency[result.E2EL].Mean; c != nil && mean != nil && *m.Duration > 0 {
		if load := *mean / 1000 * n / *m.Duration; math.Abs(*c-load) > loadDeviation*load+0.01 {
			note("concurrency", "%.4g requests in flight, but the latencies give %.4g", *c, load)
		}
	}
	if r.part.Benchmark.DatasetName != "random" && r.part.Benchmark.DatasetName != "random-ids" {
		return // the lengths are defaults that nothing was made of
	}
	if least, most, ok := r.lens.span(r.lens.input, n); ok && m.TotalInputTokens != nil {
		if got := float64(*m.TotalInputTokens) / n; got < least || got > most {
			note("random_input_len", "prompts have %.6g tokens, but the %g that were asked for give %.6g to %.6g", got,
				*r.lens.input, least, most)
		}
	}
	least, most, ok := r.lens.span(r.lens.output, n)
	if !ok || m.TotalOutputTokens == nil {
		return
	}
	switch got := float64(*m.TotalOutputTokens) / n; {
	case got > most:
		note("random_output_len", "answers have %.6g tokens, but %g were asked for", got, *r.lens.output)
	case got > 0 && got < least/2 && r.alike():
		note("random_output_len",
			"all answers have %.6g tokens, but %g were asked for; answers that end by themselves would differ", got,
			*r.lens.output)
	}
}

// span is where the mean of n lengths lies: they are drawn from a share of the asked
// length up to it, and are that length at a share of 1.
func (l lengths) span(asked *float64, n float64) (least, most float64, ok bool) {
	if asked == nil || l.ratio == nil || *asked < 1 || *l.ratio < 0 || *l.ratio > 1 {
		return 0, 0, false
	}
	mean, chance := *asked*(1+*l.ratio)/2, beyondChance**asked*(1-*l.ratio)/math.Sqrt(12*n)
	return (mean-chance)*(1-lengthDeviation) - 2, (mean+chance)*(1+lengthDeviation) + lengthSlack, true
}

// alike reports whether all answers have one length, or as many tokens as if they had.
func (r *record) alike() bool {
	if s := r.part.Samples; s != nil && len(s.OutputLen) > 0 {
		done := slices.DeleteFunc(slices.Clone(s.OutputLen), func(n int) bool { return n == 0 })
		return len(done) >= 20 && len(slices.Compact(done)) == 1
	}
	n := int64(*r.part.Metrics.CompletedRequests)
	return n >= leastAlike && *r.part.Metrics.TotalOutputTokens%n == 0
}
