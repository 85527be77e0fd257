package guidellm

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/pyjson"
	"github.com/profllm/profllm/pkg/result"
)

// A benchmark is one of a report.
type benchmark struct {
	fields   map[string]pyjson.Value
	strategy string
	requests requests
}

// plan is how requests were sent: its place moved with the releases.
func (b *benchmark) plan() pyjson.Value {
	for _, v := range []pyjson.Value{b.fields["config"].At("strategy"), b.fields["scheduler"].At("strategy"),
		b.fields["args"].At("strategy")} {
		if v.Kind == pyjson.Object {
			return v
		}
	}
	return pyjson.Value{}
}

// describe names the strategy, such as "constant at 5/s".
func (b *benchmark) describe() string {
	plan := b.plan()
	name := plan.At("type_").Str
	if name == "" {
		name = "strategy not named"
	}
	if rate, ok := plan.At("rate").Finite(); ok {
		return fmt.Sprintf("%s at %g/s", name, rate)
	}
	if n, ok := plan.At("streams").Finite(); ok {
		return fmt.Sprintf("%s, %g at a time", name, n)
	}
	return name
}

// totals are the requests of the measured window by status.
func (b *benchmark) totals() pyjson.Value {
	for _, v := range []pyjson.Value{b.fields["metrics"].At("request_totals"), b.fields["request_totals"],
		b.fields["total_count"]} {
		if v.Kind == pyjson.Object {
			return v
		}
	}
	return pyjson.Value{}
}

func (b *benchmark) completed() float64 {
	n, _ := b.totals().At("successful").Finite()
	return n
}

// successful is the distribution of a metric over the successful requests.
func (b *benchmark) successful(metric string) pyjson.Value {
	return b.fields["metrics"].At(metric, "successful")
}

// latencies maps the metrics to families, with what turns their unit into ms. The
// counts of those by token are of tokens, not of requests.
var latencies = []struct {
	metric  string
	family  result.Family
	ms      float64
	byToken bool
}{
	{"time_to_first_token_ms", result.TTFT, 1, false},
	{"inter_token_latency_ms", result.TPOT, 1, true},
	{"time_per_output_token_ms", result.NTPOT, 1, true},
	{"request_latency", result.E2EL, 1000, false},
}

// known are further metrics that the record has a place for, or that say nothing more.
var known = map[string]bool{
	"request_totals": true, "requests_per_second": true, "request_concurrency": true, "prompt_token_count": true,
	"output_token_count": true,
	"total_token_count":  true, "prompt_tokens_per_second": true, "output_tokens_per_second": true,
	"tokens_per_second": true, "request_goodput": true,
	"text": true, "image": true, "video": true, "audio": true, "tool_call": true, "turns": true,
	"request_streaming_iterations_count": true, "output_tokens_per_iteration": true, "iter_tokens_per_iteration": true,
}

// part turns the benchmark that was taken into a part of a record.
func (r *report) part() result.Part {
	b := r.taken
	m := &result.Metrics{Source: r.Name}
	p := result.Part{Metrics: m}
	totals := b.totals()
	if m.CompletedRequests = r.Int(totals.At("successful"), "request_totals.successful"); m.CompletedRequests == nil {
		r.Warn(result.BadValue, totals, "request_totals", "the number of successful requests is missing")
		m.CompletedRequests = new(0)
	}
	m.FailedRequests = r.Int(totals.At("errored"), "request_totals.errored")
	if m.FailedRequests != nil {
		m.NumPrompts = new(*m.CompletedRequests + *m.FailedRequests)
		m.NoteDerived("num_prompts")
	}
	if n := r.Int(totals.At("incomplete"), "request_totals.incomplete"); n != nil && *n > 0 {
		r.Warn(result.Incomplete, totals.At("incomplete"), "request_totals.incomplete",
			"%d requests were abandoned at the end of the window: neither completed nor failed", *n)
	}
	r.compareTotals(totals)
	if m.Duration = r.Number(b.fields["duration"], "duration"); m.Duration == nil {
		start, end := r.Number(b.fields["start_time"], "start_time"), r.Number(b.fields["end_time"], "end_time")
		if start != nil && end != nil {
			m.Duration = new(*end - *start)
		}
	}
	m.TotalInputTokens, m.TotalOutputTokens = r.sum(b, "prompt_token_count"), r.sum(b, "output_token_count")
	m.RequestThroughput = r.mean(b, "requests_per_second")
	m.InputThroughput = r.mean(b, "prompt_tokens_per_second")
	m.OutputThroughput = r.mean(b, "output_tokens_per_second")
	m.TotalTokenThroughput = r.mean(b, "tokens_per_second")
	m.RequestGoodput = r.mean(b, "request_goodput")
	m.MeanConcurrentRequests = r.mean(b, "request_concurrency")
	if v := b.successful("request_concurrency").At("max"); v.Kind == pyjson.Number {
		m.MaxConcurrentRequests = r.Number(v, "request_concurrency.max")
	}
	m.CutRequests = b.cut(m.MaxConcurrentRequests)
	r.latencies(b, m)
	r.asked(b, &p)
	p.Samples = b.requests.samples(*m.CompletedRequests, m.FailedRequests)
	for _, f := range b.fields["metrics"].Fields {
		if !known[f.Key] && !isLatency(f.Key) {
			p.UnknownKeys++
		}
	}
	p.Warnings = r.Warnings
	p.Benchmark.Kind = kind
	p.Finish()
	return p
}

// compareTotals holds the number of all requests against those by status.
func (r *report) compareTotals(totals pyjson.Value) {
	all, known := totals.At("total").Finite()
	sum := 0.0
	for _, status := range []string{"successful", "errored", "incomplete"} {
		n, ok := totals.At(status).Finite()
		sum, known = sum+n, known && ok
	}
	if known && all != sum {
		r.Warn(result.Contradicts, totals.At("total"), "request_totals.total", "%g requests, %g by status", all, sum)
	}
}

// cut is how many requests the ends of the window may cut: as many as were in flight
// at its end, and at its beginning if that lies behind a warm-up.
func (b *benchmark) cut(inFlight *float64) *float64 {
	if inFlight == nil {
		return nil
	}
	ends := 1.0
	if x, ok := b.fields["warmup_duration"].Finite(); ok && x > 0 {
		ends = 2
	}
	return new(ends * *inFlight)
}

func isLatency(metric string) bool {
	for _, l := range latencies {
		if l.metric == metric {
			return true
		}
	}
	return false
}

func (r *report) mean(b *benchmark, metric string) *float64 {
	v := b.successful(metric)
	if n, ok := v.At("count").Finite(); ok && n == 0 { // zeros stand for nothing
		return nil
	}
	return r.Number(v.At("mean"), metric+".mean")
}

func (r *report) sum(b *benchmark, metric string) *int64 {
	v := b.successful(metric)
	if n, ok := v.At("count").Finite(); ok && n == 0 {
		return nil
	}
	x := r.Number(v.At("total_sum"), metric+".total_sum")
	if x == nil {
		return nil
	}
	if *x < 0 || *x > 1<<53 {
		r.Warn(result.NoNumber, v.At("total_sum"), metric+".total_sum", "not a count: %v", *x)
		return nil
	}
	return new(int64(math.Round(*x))) // a mean times a count, in floating point
}

func (r *report) latencies(b *benchmark, m *result.Metrics) {
	for _, l := range latencies {
		v := b.successful(l.metric)
		if v.Kind != pyjson.Object || l.family == result.NTPOT && b.fields["args"].Kind == pyjson.Object {
			continue // before 0.4 it began with the first token and was divided by all
		}
		count, ok := v.At("count").Finite()
		if top, finite := v.At("max").Finite(); ok && count == 0 || finite && top == 0 {
			continue // an empty sample is zeros, and so is what was not streamed
		}
		put := func(stat string, x pyjson.Value) {
			if n := r.Number(x, l.metric+"."+stat); n != nil {
				_ = m.SetLatency(l.family, stat, *n*l.ms) // the names are ours
			}
		}
		for _, s := range [][2]string{{"mean", "mean"}, {"median", "median"}, {"std", "std_dev"}, {"min", "min"},
			{"max", "max"}} {
			put(s[0], v.At(s[1]))
		}
		for _, f := range v.At("percentiles").Fields {
			if rank, ok := rank(f.Key); ok {
				put(result.PercentileName(rank), f.Value)
			}
		}
		if d, some := m.Latency[l.family]; some && ok && !l.byToken && count == math.Trunc(count) && count < 1<<31 {
			d.N = new(int(count))
			m.Latency[l.family] = d
		}
	}
}

// rank reads GuideLLM's names of percentiles: two digits before the point, the others
// behind it, so that p001 is the 0.1th and p999 the 99.9th.
func rank(name string) (float64, bool) {
	digits, ok := strings.CutPrefix(name, "p")
	if !ok || len(digits) < 2 || len(digits) > 6 || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	p, err := strconv.ParseFloat(digits[:2]+"."+digits[2:]+"0", 64)
	return p, err == nil
}

// asked is what the client was told to do.
func (r *report) asked(b *benchmark, p *result.Part) {
	plan := b.plan()
	ask := &p.Benchmark
	switch plan.At("type_").Str {
	case "synchronous":
		ask.MaxConcurrency = new(1)
	case "concurrent":
		if ask.MaxConcurrency = r.Int(plan.At("streams"), "strategy.streams"); ask.MaxConcurrency == nil {
			ask.MaxConcurrency = r.Int(plan.At("max_concurrency"), "strategy.max_concurrency")
		}
	case "throughput":
		ask.MaxConcurrency = r.Int(plan.At("max_concurrency"), "strategy.max_concurrency")
		ask.RequestRate = new(result.Rate(math.Inf(1)))
	case "constant", "poisson":
		if rate := r.Number(plan.At("rate"), "strategy.rate"); rate != nil && *rate > 0 {
			ask.RequestRate = new(result.Rate(*rate))
		}
		ask.Burstiness, ask.Arrivals = new(result.Rate(1)), result.Drawn
		if plan.At("type_").Str == "constant" {
			ask.Burstiness = new(result.Rate(math.Inf(1)))
		}
	}
	p.Metrics.MaxConcurrency, p.Metrics.RequestRate = ask.MaxConcurrency, ask.RequestRate
	p.Model = firstText(b.fields["config"].At("backend", "model"), b.fields["benchmarker"].At("backend", "model"),
		b.fields["worker"].At("backend_model"))
	if p.Model == "" {
		p.Model = r.model
	}
}
