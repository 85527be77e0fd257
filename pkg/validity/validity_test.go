package validity_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/result/resulttest"
	"github.com/profllm/profllm/pkg/tier"
	"github.com/profllm/profllm/pkg/validity"
)

// run is a record without fault, 1,000 requests of 100 tokens in and 50 out
// on a disaggregated server, and its evidence. Cases change copies of it.
type run struct {
	r result.Result
	e validity.Evidence
}

func good() *run {
	const n = 1000
	g := &run{r: *resulttest.Good()}
	g.e = validity.Evidence{
		Executions: validity.Agreement{Compared: 3}, Places: validity.Agreement{Compared: 3},
		Planned: validity.Planned{
			NumPrompts: n, InputTokens: 100, OutputTokens: 50, IgnoreEOS: true, Accuracy: true, Disaggregated: true,
			Concurrency: 6, SharedInput: new(0.0),
			Model: "Qwen/Qwen3-8B", EngineVersion: "0.11",
		},
		Servers: []validity.Server{
			{Role: "prefill", Wanted: []string{"Qwen/Qwen3-8B"}, Names: []string{"Qwen/Qwen3-8B"}, Model: "Qwen/Qwen3-8B", Version: "0.11.1"},
			{Role: "decode", Wanted: []string{"qwen"}, Names: []string{"qwen", "a-lora"}, Model: "Qwen/Qwen3-8B", Version: "0.11.1"},
		},
		Phases: []validity.Phase{{Name: "ready", Exit: new(0)}, {Name: "bench", Exit: new(0)}, {Name: "eval", Exit: new(0)}},
	}
	g.e.Nodes = []validity.NodeCheck{
		{Node: "n1", Check: "gpu-memory", Seen: "idle", Made: true}, {Node: "n1", Check: "gpu-processes", Seen: "none", Made: true},
		{Node: "n1", Check: "limits", Seen: "nofile 1024", Made: true},
	}
	g.e.Planned.GPUs = 4
	g.r.Search = []*result.Search{{Outcome: "found", Variable: "max_concurrency", Low: new(6.0), Measured: new(6.0), Sentence: "6"}}
	for _, u := range g.r.System.GPUSamples.GPUs {
		if u.Role != "" {
			g.e.Hardware = append(g.e.Hardware, validity.NodeGPU{Node: u.Node, Name: "H100", Driver: "570"})
		}
	}
	return g
}

// gpu is the GPU of that number: two of prefill, two of decode, one of nobody.
func (g *run) gpu(i int) *result.GPUUse { return &g.r.System.GPUSamples.GPUs[i] }

// samples adds the requests behind the statistics: ten a second, about six at a
// time. change may alter request i before it is added.
func (g *run) samples(change func(i int, start, ttft, latency *float64)) {
	s := &result.Samples{}
	for i := range 1000 {
		start, ttft, latency := 0.0995*float64(i), 0.05+0.0001*float64(i%600), 0.55+0.00001*float64(i)
		change(i, &start, &ttft, &latency)
		s.Start, s.TTFT, s.Latency = append(s.Start, start), append(s.TTFT, ttft), append(s.Latency, latency)
	}
	g.e.Samples = s
	g.sumUp()
	g.parts()
}

// sumUp sets the statistics of TTFT and E2EL to those of the samples.
func (g *run) sumUp() {
	for family, values := range map[result.Family][]float64{result.TTFT: g.e.Samples.TTFT,
		result.E2EL: g.e.Samples.Latency} {
		sorted := slices.Sorted(slices.Values(values))
		g.latency(family, func(d *result.Distribution) {
			sum := 0.0
			for _, v := range values {
				sum += v
			}
			n := len(values)
			mean, square := sum/float64(n), 0.0
			for _, v := range values {
				square += (v - mean) * (v - mean)
			}
			d.Mean, d.Median, d.Std = new(1000*mean), new(1000*sorted[n/2]), new(1000*math.Sqrt(square/float64(n)))
			for p := range d.Percentiles {
				d.Percentiles[p] = 1000 * sorted[int(p/100*float64(n-1))]
			}
		})
	}
}

// parts scales TPOT and ITL to what the means of E2EL and TTFT leave to 49 tokens.
func (g *run) parts() {
	rest := *g.r.Results.Latency[result.E2EL].Mean - *g.r.Results.Latency[result.TTFT].Mean
	for _, f := range []result.Family{result.TPOT, result.ITL} {
		g.latency(f, func(d *result.Distribution) { scaled(rest / 49 / *d.Mean)(d) })
	}
}

func asTheyAre(int, *float64, *float64, *float64) {}

// latency changes one distribution.
func (g *run) latency(f result.Family, change func(*result.Distribution)) {
	d := g.r.Results.Latency[f]
	change(&d)
	g.r.Results.Latency[f] = d
}

// locked sets what is locked and what the record has.
func (g *run) locked(digest, haveDigest, revision, haveRevision string) {
	g.e.Planned.Locked.ImageDigest, g.e.Planned.Locked.ModelRevision = digest, revision
	g.r.Provenance = &result.Provenance{ImageDigest: haveDigest, ModelRevision: haveRevision}
}

// tokens sets the number of output tokens and what follows from it.
func (g *run) tokens(n int64) {
	g.r.Results.TotalOutputTokens = &n
	decode(g)["vllm:generation_tokens_total"] = float64(n)
	g.r.Results.OutputThroughput = new(float64(n) / 100)
	g.r.Results.TotalTokenThroughput = new(float64(n+*g.r.Results.TotalInputTokens) / 100)
}

// prompts sets the number of input tokens and what follows from it.
func (g *run) prompts(n int64) {
	g.r.Results.TotalInputTokens = &n
	g.r.Results.TotalTokenThroughput = new(float64(n+*g.r.Results.TotalOutputTokens) / 100)
}

// requests sets how many requests of full length completed and failed.
func (g *run) requests(completed, failed int) {
	m := &g.r.Results
	m.CompletedRequests, m.FailedRequests = &completed, &failed
	m.RequestThroughput = new(float64(completed) / 100)
	g.prompts(int64(100 * completed))
	g.tokens(int64(50 * completed))
	decode(g)["vllm:request_success_total"] = float64(completed)
}

// given is the number of requests that was planned, and given to the client.
func (g *run) given(n int) { g.e.Planned.NumPrompts, g.r.Results.NumPrompts = n, new(n) }

func prefill(g *run) map[string]float64 { return g.r.Results.Server[0].Counters }

// versions sets what prefill and decode say of themselves.
func (g *run) versions(prefill, decode string) {
	g.e.Servers[0].Version, g.e.Servers[1].Version = prefill, decode
}

func decode(g *run) map[string]float64 { return g.r.Results.Server[1].Counters }

// histogram sets one of decode's.
func (g *run) histogram(name string, sum, count float64) {
	decode(g)[name+"_sum"], decode(g)[name+"_count"] = sum, count
}

// aggregated leaves out prefill.
func (g *run) aggregated() {
	g.e.Planned.Disaggregated = false
	g.r.Results.Server = g.r.Results.Server[1:]
}

// trips has for each check what trips it alone, and the nearest miss.
var trips = slices.Concat(timesTrips, []tripCase{
	{"no-success", result.Invalid, func(g *run) { g.requests(0, 1000); g.r.Results.Latency = nil }, func(g *run) {
		g.requests(1, 0)
		g.given(1)
		g.e.Planned.RequestRate = 1
		g.r.Results.Latency = map[result.Family]result.Distribution{result.TTFT: {Mean: new(60.0)}}
	}},
	{"no-tokens", result.Invalid, func(g *run) { g.tokens(0) }, func(g *run) { g.tokens(50_000) }},
	{"no-tokens", result.Invalid, func(g *run) { g.e.Samples = &result.Samples{OutputLen: []int{50, 0}, Errors: []string{"", ""}} },
		func(g *run) { g.e.Samples = &result.Samples{OutputLen: []int{50, 0}, Errors: []string{"", "refused"}} }},
	{"requests-missing", result.Invalid, func(g *run) { g.warned(result.CutShort, "k") }, func(g *run) { g.warned(result.Appended, "k") }},
	{"requests-missing", result.Invalid, func(g *run) { g.requests(999, 0) }, func(g *run) {
		g.requests(999, 0)
		g.given(999)
	}},
	{"requests-missing", result.Invalid, func(g *run) { g.e.Planned.NumPrompts = 1001 }, func(g *run) {
		g.e.Planned.NumPrompts = 1001
		g.r.Results.Derived = []string{"failed_requests"}
	}},
	{"request-errors", result.Invalid, func(g *run) { g.requests(999, 1) }, func(g *run) {
		g.requests(950, 50)
		g.e.Limits = validity.Limits{"failed_share": 0.05}
	}},
	{"output-length", result.Invalid, func(g *run) { g.tokens(49_400) }, func(g *run) { g.tokens(49_600) }},
	{"output-length", result.Invalid, func(g *run) { g.tokens(50_600) }, func(g *run) { g.tokens(50_400) }},
	{"output-length", result.Invalid, func(g *run) { g.e.Planned.IgnoreEOS = false; g.tokens(1_999); delete(g.r.Results.Latency, result.ITL) },
		func(g *run) { g.e.Planned.IgnoreEOS = false; g.tokens(2_000); delete(g.r.Results.Latency, result.ITL) }},
	{"input-length", result.Suspect, func(g *run) { g.prompts(94_000) }, func(g *run) { g.prompts(96_000) }},
	{"input-length", result.Suspect, func(g *run) { g.prompts(0) }, func(g *run) { g.prompts(104_000) }},
	{"token-books", result.Suspect, func(g *run) { decode(g)["vllm:generation_tokens_total"] = 51_100 }, // one probe of 50, and 2 %
		func(g *run) { decode(g)["vllm:generation_tokens_total"] = 51_000 }},
	{"token-books", result.Suspect, func(g *run) { decode(g)["vllm:generation_tokens_total"] = 48_900 },
		func(g *run) { decode(g)["vllm:generation_tokens_total"] = 49_100 }},
	{"token-books", result.Suspect, func(g *run) { g.e.Planned.Warmups = 30 }, func(g *run) {
		g.e.Planned.Warmups = 30
		decode(g)["vllm:generation_tokens_total"] = 51_500
	}},
	{"token-books", result.Suspect, func(g *run) { g.answers(200); decode(g)["vllm:generation_tokens_total"] = 67_300 }, // 81 of 200, and 2 %
		func(g *run) { g.answers(200); decode(g)["vllm:generation_tokens_total"] = 67_100 }},
	{"token-books", result.Suspect, func(g *run) { g.answers(200); decode(g)["vllm:generation_tokens_total"] = 48_900 }, func(g *run) {
		g.e.Planned.IgnoreEOS, g.e.Planned.Warmups = false, 80 // of unknown length
		decode(g)["vllm:generation_tokens_total"] = 66_000
	}},
	{"token-books", result.Suspect, func(g *run) { decode(g)["vllm:request_success_total"] = 979 }, func(g *run) { decode(g)["vllm:request_success_total"] = 980 }},
	{"token-books", result.Suspect, func(g *run) { g.r.Results.Server[1].BrokenOff = new(21.0) }, func(g *run) { g.r.Results.Server[1].BrokenOff = new(20.0) }},
	{"token-books", result.Suspect, func(g *run) { g.histogram("vllm:request_prompt_tokens", 74_000, 1000) }, func(g *run) { g.histogram("vllm:request_prompt_tokens", 300_000, 1000) }},
	{"token-books", result.Suspect, func(g *run) {
		g.histogram("vllm:request_prompt_tokens", 300_000, 1000)
		g.r.Config.Benchmark.Backend = "openai"
	}, func(g *run) { g.histogram("vllm:request_prompt_tokens", 76_000, 1000) }},
	{"token-books", result.Suspect, func(g *run) { g.histogram("vllm:request_params_max_tokens", 200_000, 1000) }, func(g *run) { g.histogram("vllm:request_params_max_tokens", 200_000, 1001) }},
	{"not-disaggregated", result.Invalid, func(g *run) { prefill(g)["vllm:prompt_tokens_total"] = 0 }, func(g *run) { prefill(g)["vllm:prompt_tokens_total"] = 1 }},
	{"proxy-errors", result.Suspect, func(g *run) { g.r.Results.Proxy.Requests = 979 }, func(g *run) { g.r.Results.Proxy.Requests = 980 }},
	{"inconsistent", result.Invalid, func(g *run) { g.r.Results.NumPrompts = new(*g.r.Results.CompletedRequests + 1) }, func(g *run) { g.r.Results.NumPrompts = new(*g.r.Results.CompletedRequests) }},
	{"inconsistent", result.Invalid, func(g *run) { g.e.GivenModel = "Qwen/Qwen3-0.6B" }, func(g *run) { g.e.GivenModel = "Qwen/Qwen3-8B" }},
	{"inconsistent", result.Invalid, func(g *run) { g.e.GivenModel = "a-lora" }, func(g *run) { g.e.GivenModel = "qwen" }},
	{"inconsistent", result.Invalid, func(g *run) { g.r.Results.MaxConcurrency = new(24) }, func(g *run) { g.r.Results.MaxConcurrency = new(6) }},
	{"inconsistent", result.Invalid, func(g *run) { g.sends(10); g.r.Results.RequestRate = new(result.Rate(5)) }, func(g *run) { g.sends(10); g.r.Results.RequestRate = new(result.Rate(10)) }},
	{"engine-slower", result.Invalid, func(g *run) { decode(g)["vllm:e2e_request_latency_seconds_sum"] = 585 }, // 5 % and 5 ms
		func(g *run) { decode(g)["vllm:e2e_request_latency_seconds_sum"] = 583 }},
	{"engine-slower", result.Invalid, func(g *run) { decode(g)["vllm:e2e_request_latency_seconds_sum"] = 1100 }, func(g *run) {
		// of others
		decode(g)["vllm:e2e_request_latency_seconds_sum"], decode(g)["vllm:e2e_request_latency_seconds_count"] = 1100, 1002
	}},
	{"engine-slower", result.Invalid, func(g *run) {
		decode(g)["vllm:e2e_request_latency_seconds_sum"], decode(g)["vllm:e2e_request_latency_seconds_count"] = 1000, 1001
	}, func(g *run) {
		// a probe that waited
		decode(g)["vllm:e2e_request_latency_seconds_sum"], decode(g)["vllm:e2e_request_latency_seconds_count"] = 840, 1001
	}},
	{"engine-slower", result.Invalid, func(g *run) { decode(g)["vllm:time_to_first_token_seconds_sum"] = 70; g.aggregated() },
		func(g *run) { decode(g)["vllm:time_to_first_token_seconds_sum"] = 180 }}, // of decode
	{"cache-warm", result.Invalid, func(g *run) { g.template(60); prefill(g)["vllm:prefix_cache_hits_total"] = 68_500 }, // 60 of 160, and 5 %
		func(g *run) { g.template(60); prefill(g)["vllm:prefix_cache_hits_total"] = 67_500 }},
	{"cache-warm", result.Invalid, func(g *run) { prefill(g)["vllm:prefix_cache_hits_total"] = 5_200 },
		func(g *run) { prefill(g)["vllm:prefix_cache_hits_total"] = 5_000 }},
	{"cache-warm", result.Invalid, func(g *run) {
		decode(g)["vllm:prefix_cache_queries_total"], decode(g)["vllm:prefix_cache_hits_total"] = 1000, 60
	},
		func(g *run) {
			decode(g)["vllm:prefix_cache_queries_total"], decode(g)["vllm:prefix_cache_hits_total"] = 1000, 0
		}},
	{"cache-warm", result.Invalid, func(g *run) {
		g.e.Planned.SharedInput = new(0.5)
		prefill(g)["vllm:prefix_cache_hits_total"] = 55_500
	}, func(g *run) {
		g.e.Planned.SharedInput = new(0.5)
		prefill(g)["vllm:prefix_cache_hits_total"] = 54_500
	}},
	{"cache-warm", result.Invalid, func(g *run) { g.lengthsVary(100); prefill(g)["vllm:prefix_cache_hits_total"] = 22_000 }, // 202 of 1202, and 5 %
		func(g *run) { g.lengthsVary(100); prefill(g)["vllm:prefix_cache_hits_total"] = 21_500 }},
	{"client-bound", result.Invalid, func(g *run) { g.r.Results.Client.CPUSeconds = new(85.1) }, func(g *run) { g.r.Results.Client.CPUSeconds = new(84.9) }},
	{"client-bound", result.Invalid, func(g *run) { g.r.Results.Client.SendDelayP99 = new(100.1) }, func(g *run) { g.r.Results.Client.SendDelayP99 = new(99.9) }},
	{"client-bound", result.Invalid, func(g *run) { g.r.Results.Client.LagP99 = new(10.1) }, func(g *run) { g.r.Results.Client.LagP99 = new(9.9) }},
	{"client-bound", result.Invalid, func(g *run) { g.sends(12) }, func(g *run) { g.sends(11.5) }}, // 10.06/s, and chance
	{"requests-resent", result.Suspect, func(g *run) { g.r.Results.Client.Resent = new(1) }, func(g *run) { g.r.Results.Client.Resent = new(0) }},
	{"usage-missing", result.Suspect, func(g *run) { g.r.Results.Client.UsageMissing = new(1) }, func(g *run) { g.r.Results.Client.UsageMissing = new(0) }},
	{"warm-up-failed", result.Suspect, func(g *run) { g.r.Results.Client.WarmUpsFailed = new(1) }, func(g *run) { g.r.Results.Client.WarmUpsFailed = new(0) }},
	{"load-not-reached", result.Suspect, func(g *run) { g.e.Planned.Concurrency = 7 }, func(g *run) { g.e.Planned.Concurrency = 6 }},
	{"load-not-reached", result.Suspect, func(g *run) { g.r.Results.Load = &result.ServerLoad{Samples: 30, Running: 4.5, Waiting: 0.4} },
		func(g *run) { g.r.Results.Load = &result.ServerLoad{Samples: 30, Running: 4.7, Waiting: 0.4} }},
	{"load-not-reached", result.Suspect, func(g *run) { g.r.Results.Load = &result.ServerLoad{Samples: 30, Running: 7} },
		func(g *run) { g.r.Results.Load = &result.ServerLoad{Samples: 29, Running: 7} }},
	{"no-steady-state", result.Suspect, func(g *run) { g.slots(201) }, func(g *run) { g.slots(200) }},
	{"no-steady-state", result.Suspect, func(g *run) { g.pause(32) }, func(g *run) { g.pause(25) }},
	{"preempted-requests", result.Suspect, func(g *run) { decode(g)["vllm:num_preemptions_total"] = 11 }, func(g *run) { decode(g)["vllm:num_preemptions_total"] = 10 }},
	{"corrupt-output", result.Invalid, func(g *run) { decode(g)["vllm:corrupted_requests_total"] = 1 }, func(g *run) { delete(decode(g), "vllm:corrupted_requests_total") }},
	{"foreign-load", result.Suspect, func(g *run) { decode(g)["vllm:request_success_total"] = 1_012 }, func(g *run) { decode(g)["vllm:request_success_total"] = 1_011 }},
	{"foreign-load", result.Suspect, func(g *run) { decode(g)["vllm:request_success_total"] = 1_062 }, func(g *run) {
		decode(g)["vllm:request_success_total"] = 1_062
		decode(g)["vllm:generation_tokens_total"] = 52_550
		g.e.Planned.Warmups = 51
	}},
	{"foreign-load", result.Suspect, func(g *run) { decode(g)["vllm:request_success_total"] = 8_012 }, func(g *run) { // 8 inputs in each
		decode(g)["vllm:request_success_total"] = 8_011
		g.r.Results.TotalInputSequences = new(int64(8_000))
	}},
	{"window-wrong", result.Invalid, func(g *run) { g.samples(func(_ int, start, _, _ *float64) { *start *= 0.97 }) },
		func(g *run) { g.samples(func(_ int, start, _, _ *float64) { *start *= 0.985 }) }},
	{"window-wrong", result.Invalid, func(g *run) { g.r.Results.Client.FirstSend, g.r.Results.Client.LastEnd = new(1.0), new(99.0) },
		func(g *run) { g.r.Results.Client.FirstSend, g.r.Results.Client.LastEnd = new(1.0), new(99.1) }},
	{"window-wrong", result.Invalid, func(g *run) { g.sends(1.5); g.late(5.2) }, func(g *run) { g.sends(1.5); g.late(4.2) }}, // 7 gaps
	{"window-open", result.Invalid, func(g *run) { g.r.Results.Duration = nil }, func(g *run) {}},
	{"cold-start", result.Suspect, func(g *run) { g.slow(100, 0.25) }, func(g *run) { g.slow(100, 0.23) }},
	{"cold-start", result.Suspect, func(g *run) { g.burst(10, 100, 0.4) }, func(g *run) { g.burst(10, 10, 0.4) }},
	{"cold-start", result.Suspect, func(g *run) { g.burst(10, 10, 0.9) }, func(g *run) { g.burst(10, 10, 0.7) }}, // ten prompts, ten times
	{"cold-start", result.Suspect, func(g *run) { g.slow(60, 0.35) }, func(g *run) { g.slow(40, 0.35) }},
	{"not-steady", result.Suspect, func(g *run) { g.growing(0.25) }, func(g *run) { g.growing(0.15) }},
	{"not-steady", result.Suspect, func(g *run) { g.piling(0.3) }, func(g *run) { g.piling(0.1) }},
	{"inconsistent", result.Invalid, func(g *run) { g.r.Results.MeanConcurrentRequests = new(6.4) }, func(g *run) { g.r.Results.MeanConcurrentRequests = new(6.2) }},
	{"times-impossible", result.Invalid, func(g *run) { g.between(20, 100, 70) }, func(g *run) { g.between(5, 115, 70) }}, // more than the range
	{"inconsistent", result.Invalid, func(g *run) { g.r.Results.RequestThroughput = new(10.2) },
		func(g *run) { g.r.Results.RequestThroughput = new(10.09) }},
	{"inconsistent", result.Invalid, func(g *run) { g.r.Results.OutputThroughput = new(490.0) },
		func(g *run) { g.r.Results.OutputThroughput = new(496.0) }},
	{"inconsistent", result.Invalid, func(g *run) { g.r.Results.RequestGoodput = new(-0.1) },
		func(g *run) { g.r.Results.RequestGoodput = new(0.0) }},
	{"inconsistent", result.Invalid, func(g *run) { g.latency(result.TTFT, func(d *result.Distribution) { d.Percentiles[99] = 71 }) },
		func(g *run) { g.latency(result.TTFT, func(d *result.Distribution) { d.Percentiles[99] = 72 }) }},
	{"inconsistent", result.Invalid, func(g *run) {
		g.latency(result.TTFT,
			func(d *result.Distribution) { d.Max, d.Mean, d.Std = new(100.0), new(100.1), new(50.0) })
		g.anyLength()
	},
		func(g *run) {
			g.latency(result.TTFT,
				func(d *result.Distribution) { d.Max, d.Mean, d.Std = new(100.0), new(99.9), new(50.0) })
			g.anyLength()
		}},
	{"inconsistent", result.Invalid, func(g *run) {
		g.r.Warnings = []result.Warning{{Kind: result.NotFinite, Key: "mean_ttft_ms", Text: "is NaN"}}
	},
		func(g *run) { g.r.Warnings = []result.Warning{{Kind: result.BadValue, Key: "label", Text: "no text"}} }},
	{"inconsistent", result.Invalid, func(g *run) { g.r.Results.MaxConcurrentRequests = new(-1.0) }, func(g *run) { g.r.Results.MaxConcurrentRequests = new(0.0) }},
	{"inconsistent", result.Invalid, func(g *run) { g.r.Results.Client.FirstSend = new(-1.0) }, func(g *run) { g.r.Results.Client.FirstSend = new(0.0) }},
	{"inconsistent", result.Invalid, func(g *run) { g.r.Results.SteadyState = &result.SteadyState{OutputThroughput: new(-1.0)} },
		func(g *run) { g.r.Results.SteadyState = &result.SteadyState{OutputThroughput: new(1.0)} }},
	{"inconsistent", result.Invalid, func(g *run) { g.latency(result.TPOT, func(d *result.Distribution) { d.Std = new(-0.1) }) },
		func(g *run) { g.latency(result.TPOT, func(d *result.Distribution) { d.Std = new(0.5) }) }},
	{"impossible-speed", result.Invalid, func(g *run) { g.latency(result.E2EL, scaled(0.588)); g.e.Planned.Concurrency = 4; g.anyLength() },
		func(g *run) { g.latency(result.E2EL, scaled(0.6)); g.e.Planned.Concurrency = 4; g.anyLength() }},
	{"itl-bundled", result.Withheld, func(g *run) { g.latency(result.ITL, bundled(0.1)) }, func(g *run) { g.latency(result.ITL, bundled(0.21)) }},
	{"itl-bundled", result.Withheld, func(g *run) { g.gaps(46_000) }, func(g *run) { g.gaps(47_000) }},
	{"kv-transfer-failed", result.Invalid, func(g *run) { decode(g)["vllm:nixl_num_failed_transfers_total"] = 1 }, func(g *run) {}},
	{"kv-transfer-failed", result.Invalid, func(g *run) { g.r.Results.Server[0].Counters["vllm:nixl_num_kv_expired_reqs_total"] = 1 },
		func(g *run) { g.r.Results.Server = nil }},
	{"kv-transfer-failed", result.Invalid, func(g *run) { decode(g)["vllm:nixl_num_failed_notifications_total"] = 2 }, func(g *run) {
		decode(g)["vllm:nixl_num_failed_notifications_total"] = 2
		g.e.Planned.Disaggregated = false
	}},
	{"not-disaggregated", result.Invalid, func(g *run) { decode(g)["vllm:nixl_bytes_transferred_sum"] = 0 },
		func(g *run) { decode(g)["vllm:nixl_bytes_transferred_sum"] = 1 }},
	{"not-disaggregated", result.Invalid, func(g *run) { decode(g)["vllm:nixl_bytes_transferred_sum"] = 0 }, func(g *run) {
		g.r.Results.Server = g.r.Results.Server[:1] // decode died: prefill counts no arrivals
		g.r.Results.Server[0].Counters["vllm:nixl_bytes_transferred_sum"] = 0
	}},
	{"server-restarted", result.Invalid, func(g *run) { g.r.Results.Server[0].Reset = true }, func(g *run) {
		g.r.Results.Server[0].Counters = map[string]float64{} // an engine that counted nothing
	}},
	{"files-mixed", result.Invalid, func(g *run) { g.e.Executions.Bad = []string{"claim.json is of job 1, finish.json of job 2"} },
		func(g *run) { g.e.Executions = validity.Agreement{} }},
	{"placed-otherwise", result.Invalid, func(g *run) { g.e.Places.Bad = []string{"placement.json has 1 nodes, the plan 2"} },
		func(g *run) { g.e.Places = validity.Agreement{} }},
	{"wrong-server", result.Invalid, func(g *run) { g.e.Servers[1].Names = []string{"Qwen/Qwen3-8B"} },
		func(g *run) { g.e.Servers[1].Wanted = []string{"a-lora"} }},
	{"wrong-server", result.Invalid, func(g *run) { g.e.Servers[0].Names = []string{} }, func(g *run) { g.e.Servers[0].Names = nil }},
	{"wrong-server", result.Invalid, func(g *run) { g.e.Servers[1].Model = "Qwen/Qwen3-8B-FP8" }, func(g *run) {
		g.e.Servers[0].Model = "/cache/models--Qwen--Qwen3-8B/snapshots/b968"
		g.e.Servers[1].Model = "/models/Qwen/Qwen3-8B"
	}},
	{"wrong-server", result.Invalid, func(g *run) { g.e.Servers[1].Model = "other" }, func(g *run) { g.e.Servers[1].Model = "qwen" }}, // SGLang repeats the name
	{"wrong-server", result.Invalid, func(g *run) { g.versions("0.12.0", "0.12.0") }, func(g *run) { g.versions("v0.11", "v0.11") }},
	{"wrong-server", result.Invalid, func(g *run) { g.versions("0.110.0", "0.110.0") }, func(g *run) { g.versions("0.11+cu129", "0.11+cu129") }},
	{"wrong-server", result.Invalid, func(g *run) { g.versions("0.11.1", "0.11.2") }, func(g *run) { g.versions("0.11.1", "") }},
	{"wrong-server", result.Invalid, func(g *run) { g.versions("0.11.1+cu126", "0.11.1+cu128") }, func(g *run) { g.versions("v0.11.1", "0.11.1+cu128") }},
	{"wrong-server", result.Invalid, func(g *run) { g.e.Planned.EngineVersion = "0.11.1+cu126"; g.versions("0.11.1+cu128", "0.11.1") },
		func(g *run) { g.e.Planned.EngineVersion = "v0.11.1+cu128"; g.versions("0.11.1+cu128", "0.11.1") }},
	{"wrong-server", result.Invalid, func(g *run) { g.e.Planned.Locked.EngineVersion = "0.11" }, func(g *run) { g.e.Planned.Locked.EngineVersion = "v0.11.1+cu128" }},
	{"wrong-server", result.Invalid, func(g *run) { g.locked("sha256:1", "sha256:2", "", "") }, func(g *run) { g.locked("sha256:1", "", "", "") }},
	{"wrong-server", result.Invalid, func(g *run) { g.locked("", "", "aa", "bb") }, func(g *run) { g.locked("", "sha256:2", "aa", "aa") }},
	{"uneven-spread", result.Suspect, func(g *run) { g.spread(393, 307, 300) }, func(g *run) { g.spread(392, 308, 300) }}, // 4 sigma are 59.6
	{"uneven-spread", result.Suspect, func(g *run) { g.spread(5_600, 4_400) }, func(g *run) { g.spread(5_500, 4_500) }},   // a tenth
	{"uneven-spread", result.Suspect, func(g *run) { g.spread(1000, 0) }, func(g *run) {
		g.spread(1000, 0)
		delete(g.r.Results.Server[2].Counters, "vllm:request_success_total")
	}},
	{"proxy-errors", result.Suspect, func(g *run) { g.proxy(map[string]int64{"200": 999, "502": 1}) }, func(g *run) { g.proxy(map[string]int64{"200": 1000}) }},
	{"proxy-errors", result.Suspect, func(g *run) { g.r.Results.Proxy.Broken = 1 }, func(g *run) { g.r.Results.Proxy.Broken, g.r.Results.Proxy.Others = 1, true }},
	{"proxy-errors", result.Suspect, func(g *run) { g.r.Results.Proxy.BadAnswers = 1 }, func(g *run) {}},
	{"proxy-errors", result.Suspect, func(g *run) { g.r.Results.Proxy.Reset = true }, func(g *run) { g.r.Results.Proxy = nil }},
	{"proxy-errors", result.Suspect, func(g *run) { g.proxy(map[string]int64{"200": 1000, "499": 1}) }, func(g *run) {
		g.proxy(map[string]int64{"200": 1000, "499": 1})
		g.r.Warnings = []result.Warning{{Kind: result.Incomplete}}
	}},
	{"proxy-errors", result.Suspect, func(g *run) { g.r.Results.Proxy.WithoutKV = 11 }, func(g *run) { g.r.Results.Proxy.WithoutKV = 10 }},
	{"proxy-errors", result.Suspect, func(g *run) { g.r.Results.Proxy.Resent = 1 }, func(g *run) {}},
	{"n-too-small", result.Withheld, func(g *run) { g.latency(result.TTFT, func(d *result.Distribution) { d.N = new(298) }) },
		func(g *run) { g.latency(result.TTFT, func(d *result.Distribution) { d.N = new(299) }) }},
	{"n-too-small", result.Withheld, func(g *run) { g.latency(result.TTFT, func(d *result.Distribution) { d.Percentiles[99.9] = 95 }) },
		func(g *run) {
			g.latency(result.TTFT, func(d *result.Distribution) { d.Percentiles[99.9] = 95; d.N = new(2995) })
		}},
	{"accuracy-missing", result.Invalid, func(g *run) { g.r.Accuracy = nil }, func(g *run) { g.r.Accuracy = nil; g.e.Planned.Accuracy = false }},
	{"accuracy-invalid", result.Invalid, func(g *run) { g.r.Accuracy.InvalidRate = new(0.051) }, func(g *run) { g.r.Accuracy.InvalidRate = new(0.05) }},
	{"accuracy-invalid", result.Invalid, func(g *run) { g.r.Accuracy.Value = 1.01 }, func(g *run) { g.r.Accuracy.Value = 0 }},
	{"accuracy-invalid", result.Invalid, func(g *run) { g.r.Accuracy.Stderr = new(-0.01) }, func(g *run) { g.r.Accuracy.Stderr = new(0.01) }},
	{"accuracy-invalid", result.Invalid, func(g *run) { g.evaluated(0.7963, 200) }, func(g *run) { g.evaluated(0.795, 200) }}, // a share of the questions
	{"accuracy-invalid", result.Invalid, func(g *run) { g.evaluated(0.333, 300) }, func(g *run) { g.evaluated(0.333, 300); g.r.Accuracy.Program = "" }},
	{"accuracy-invalid", result.Invalid, func(g *run) { g.evaluated(0.76, 1319) }, func(g *run) { g.evaluated(0.76, 1319); g.r.Accuracy.Task = "mmlu" }},
	{"accuracy-invalid", result.Invalid, func(g *run) { g.r.Accuracy.Value, g.r.Accuracy.InvalidRate = 0.98, new(0.045) },
		func(g *run) { g.r.Accuracy.Value, g.r.Accuracy.InvalidRate = 0.98, new(0.02) }},
	{"accuracy-invalid", result.Invalid, func(g *run) { g.asked("--num-questions", "200", "--num-questions=1318") },
		func(g *run) { g.asked("--num-questions", "200", "--num-questions=1319") }},
	{"accuracy-invalid", result.Invalid, func(g *run) { g.e.Evaluated = new(1292.0) }, func(g *run) { g.e.Evaluated = new(1293.0) }}, // 2 % of 1,319
	{"accuracy-invalid", result.Invalid, func(g *run) { g.r.Accuracy.Tokens = new(int64(0)) }, func(g *run) { g.r.Accuracy.Tokens = new(int64(976)) }},
	{"accuracy-invalid", result.Invalid, func(g *run) { g.r.Accuracy.Stderr = new(0.0242) }, func(g *run) { g.r.Accuracy.Stderr = new(0.0241) }},
	{"accuracy-invalid", result.Invalid, func(g *run) { g.r.Accuracy.Stderr = new(0.006) }, func(g *run) { g.r.Accuracy.Stderr = new(0.0061) }},
	{"accuracy-invalid", result.Invalid, func(g *run) { g.r.Duration, g.r.Accuracy.Duration = new(100.0), new(108.0) },
		func(g *run) { g.r.Duration, g.r.Accuracy.Duration = new(100.0), new(106.0) }},
	{"accuracy-invalid", result.Invalid, func(g *run) { g.r.Accuracy.Time = new(g.r.Timestamp.Add(-61 * time.Minute)) },
		func(g *run) { g.r.Accuracy.Time = new(g.r.Timestamp.Add(-59 * time.Minute)) }},
	{"accuracy-subset", result.Withheld, func(g *run) { g.r.Accuracy.Questions = new(199) }, func(g *run) { g.r.Accuracy.Questions = new(200) }},
	{"accuracy-subset", result.Withheld, func(g *run) { g.evaluated(0.5, 100); g.r.Accuracy.Task, g.r.Accuracy.TaskQuestions = "aime", new(101) },
		func(g *run) { g.evaluated(0.5, 100); g.r.Accuracy.Task, g.r.Accuracy.TaskQuestions = "aime", new(100) }},
	{"accuracy-subset", result.Withheld, func(g *run) { g.evaluated(0.5, 100); g.r.Accuracy.TaskQuestions = new(100) }, func(g *run) { g.evaluated(0.5, 200) }},
	{"job-state", result.Invalid, func(g *run) { g.r.Slurm.State = "TIMEOUT" }, func(g *run) { g.r.Slurm.State = "COMPLETING" }},
	{"job-state", result.Invalid, func(g *run) { g.r.Slurm.State = "CANCELLED by 1000" }, func(g *run) { g.r.Slurm = nil }},
	{"job-state", result.Invalid, func(g *run) { g.r.Slurm.ExitCode = "7:0" }, func(g *run) { g.r.Slurm.ExitCode = "" }},
	{"phase-failed", result.Invalid, func(g *run) { g.e.Phases[1].Exit = new(1) }, func(g *run) {}},
	{"phase-failed", result.Invalid, func(g *run) { g.e.Phases[2].Exit = nil }, func(g *run) { g.e.Phases = nil }},
	{"role-died", result.Invalid, func(g *run) { g.e.Died = []validity.RoleEnd{{Role: "decode", Node: "node2", Exit: 139}} }, func(g *run) {}},
	{"instance-died", result.Invalid, func(g *run) {
		g.e.Died = []validity.RoleEnd{{Role: "decode_0", Spared: &validity.Spared{Kind: "decode", Of: 2}}}
	}, func(g *run) {}},
	{"role-died", result.Invalid, func(g *run) {
		g.e.Died = []validity.RoleEnd{{Role: "decode_0", Spared: &validity.Spared{Kind: "decode", Of: 2}},
			{Role: "decode_1", Spared: &validity.Spared{Kind: "decode", Of: 2}}}
	}, func(g *run) {}},
	{"result-missing", result.Invalid, func(g *run) { g.r.Results = result.Metrics{} }, func(g *run) {
		g.r.Results = result.Metrics{}
		g.e.Planned.NoBenchmark = true
	}},
	{"search-unanswered", result.Invalid, func(g *run) { g.searched("no-valid-results", nil) }, func(g *run) { g.r.Search[0].Outcome = "budget-spent" }},
	{"search-unanswered", result.Invalid, func(g *run) { g.searched("interrupted", new(6.0)) }, func(g *run) { g.r.Search[0].Low = nil }},
	{"search-unanswered", result.Invalid, func(g *run) { g.searched("budget-spent", nil) }, func(g *run) { g.r.Search = nil }},
	{"no-load-holds", result.Note, func(g *run) { g.searched("lowest-fails", nil); g.r.Search[0].High = new(1.0) }, func(g *run) {}},
	{"search-stopped", result.Note, func(g *run) { g.searched("beaten", nil); g.r.Search[0].High = new(7.0) }, func(g *run) { g.r.Search[0].Outcome = "beaten" }},
	{"metrics-missing", result.Invalid, func(g *run) { g.r.Results.RequestThroughput = nil }, func(g *run) { g.r.Results.TotalTokenThroughput = nil }},
	{"metrics-missing", result.Invalid, func(g *run) { g.r.Results.OutputThroughput = nil }, func(g *run) { g.pooling() }},
	{"metrics-missing", result.Invalid, func(g *run) { delete(g.r.Results.Latency, result.TTFT) }, func(g *run) { delete(g.r.Results.Latency, result.TPOT) }},
	{"metrics-missing", result.Invalid, func(g *run) { delete(g.r.Results.Latency, result.TTFT) }, func(g *run) {
		delete(g.r.Results.Latency, result.TTFT)
		g.r.Config.Settings = map[string]string{"bench_cmd_args.percentile_metrics": "tpot,itl"}
	}},
	{"metrics-missing", result.Invalid, func(g *run) { g.r.Results.Latency = nil; g.e.Planned.Concurrency = 0 }, func(g *run) { g.whole() }},
	{"metrics-missing", result.Invalid, func(g *run) { g.warned(result.NoNumber, "p99_ttft_ms") }, func(g *run) { g.warned(result.BadValue, "label") }},
	{"files-missing", result.Suspect, func(g *run) { g.e.Missing = []string{"telemetry/gpu.csv"} }, func(g *run) {}},
	{"files-missing", result.Suspect, func(g *run) { g.warned(result.Unreadable, "") }, func(g *run) { g.warned(result.OtherFile, "") }},
	{"from-log", result.Suspect, func(g *run) { g.r.Results.FromLog = true }, func(g *run) {}},
	{"from-log", result.Suspect, func(g *run) { g.r.Accuracy.FromLog = true }, func(g *run) {}},
	{"gpu-shared", result.Suspect, func(g *run) { g.e.Nodes[1].Bad = true }, func(g *run) { g.e.Nodes[2].Bad = true }},
	{"gpu-idle", result.Invalid, func(g *run) { g.gpu(3).Utilization = new(0.99) }, func(g *run) { g.gpu(3).Utilization = new(1.0) }},
	{"gpu-idle", result.Invalid, func(g *run) { g.gpu(4).Utilization = new(1.01) }, func(g *run) { g.gpu(4).Utilization = new(1.0) }},
	{"throttled", result.Suspect, func(g *run) { g.gpu(1).Slowed = new(0.051) }, func(g *run) { g.gpu(1).Slowed = new(0.05); g.gpu(1).PowerCapped = new(1.0) }},
	{"throttled", result.Suspect, func(g *run) { g.gpu(1).SMClock = new(1700.0) }, func(g *run) { g.gpu(1).SMClock = new(1711.0) }},
	{"throttled", result.Suspect, func(g *run) { g.gpu(2).SMClock, g.gpu(3).SMClock = new(1600.0), new(1500.0) }, // of one kind of role
		func(g *run) { g.gpu(2).SMClock, g.gpu(3).SMClock = new(1500.0), new(1500.0) }},
	{"mixed-hardware", result.Suspect, func(g *run) { g.e.Hardware[3].Driver = "575" }, func(g *run) { g.e.Hardware[3].Node = "n7" }},
	{"mixed-hardware", result.Suspect, func(g *run) { g.e.Hardware[0].Name = "H200" }, func(g *run) { g.e.Hardware = nil }},
	{"power-gaps", result.Withheld, func(g *run) { g.gpu(0).LongestGap = 3.01 }, func(g *run) { g.gpu(0).LongestGap = 3 }},
	{"power-gaps", result.Withheld, func(g *run) { g.gpu(2).Coverage = 0.949 }, func(g *run) { g.gpu(2).Coverage = 0.95 }},
	{"imported", result.Note, func(g *run) {
		g.r.Provenance = &result.Provenance{Imported: &result.Imported{From: "llm-d-benchmark", Format: "llm-d"}}
	}, func(g *run) { g.r.Provenance = &result.Provenance{} }},
	{"simulated", result.Note, func(g *run) { g.r.Simulated = true }, func(g *run) {}},
	{"profiled", result.Note, func(g *run) { g.e.Profiled = true }, func(g *run) { g.r.Profiling = &result.Profiling{} }},
})

type tripCase struct {
	word     string
	severity result.Severity
	trip     func(*run)
	miss     func(*run)
}

// evaluated makes the accuracy one of lm-eval.
func (g *run) evaluated(value float64, questions int) {
	g.r.Accuracy.Program, g.r.Accuracy.Value, g.r.Accuracy.Questions, g.r.Accuracy.InvalidRate = "lm-eval", value, &questions, nil
}

// asked is the command line of the evaluation.
func (g *run) asked(argv ...string) {
	g.r.Provenance = &result.Provenance{Commands: []result.RoleArgv{{Role: "bench",
		Argv: []string{"--num-questions", "1"}}, {Role: "eval", Argv: argv}}}
}

// between gives the TTFT a range and a standard deviation.
func (g *run) between(least, most, std float64) {
	mean := (least + most) / 2
	g.latency(result.TTFT, func(d *result.Distribution) {
		d.Percentiles, d.Median, d.Min, d.Max, d.Mean, d.Std = nil, nil, &least, &most, &mean, &std
	})
}

// warned adds a warning of a parser.
func (g *run) warned(kind result.WarningKind, key string) {
	g.r.Warnings = []result.Warning{{Kind: kind, File: "f", Key: key, Text: "x"}}
}

// searched takes the numbers away that a search did not find.
func (g *run) searched(outcome string, measured *float64) {
	g.r.Results = result.Metrics{}
	g.r.Search[0] = &result.Search{Outcome: outcome, Measured: measured, Sentence: "no answer"}
}

// pooling makes it a load of embeddings: no output, one latency.
func (g *run) pooling() {
	m := &g.r.Results
	m.TotalOutputTokens, m.OutputThroughput, m.TotalTokenThroughput = nil, nil, new(1000.0)
	m.Latency = map[result.Family]result.Distribution{result.E2EL: m.Latency[result.E2EL]}
	g.e.Planned.OutputTokens, g.e.Planned.IgnoreEOS = 0, false
}

// whole makes it a load whose answers came whole.
func (g *run) whole() {
	m := &g.r.Results
	m.Latency = map[result.Family]result.Distribution{result.E2EL: m.Latency[result.E2EL]}
}

// sends makes it a load of a rate of its own, at which the requests of samples came.
func (g *run) sends(asked float64) {
	g.e.Planned.Concurrency, g.r.Results.MaxConcurrency = 0, nil
	g.e.Planned.RequestRate = asked
	g.samples(asTheyAre)
}

// slots makes it a load of n at a time that is reached.
func (g *run) slots(n int) {
	g.e.Planned.Concurrency = n
	g.latency(result.E2EL, scaled(float64(n)/6))
	g.parts()
}

// pause leaves seconds in the middle of the window without a request, and none out;
// else six are in flight, of five and what is accepted beyond them.
func (g *run) pause(seconds float64) {
	g.e.Planned.Concurrency = 5
	every := (99.4 - seconds) / 1000
	g.samples(func(i int, start, _, latency *float64) {
		*start, *latency = every*float64(i), 5.98*every+0.000001*float64(i)
		if i >= 500 {
			*start += seconds
		}
	})
}

// slow gives the first n requests a TTFT.
func (g *run) slow(n int, ttft float64) {
	g.samples(func(i int, _, t, _ *float64) {
		if i < n {
			*t = ttft
		}
	})
}

// burst sends the first n requests at once, and gives that TTFT to the first slow.
func (g *run) burst(n, slow int, ttft float64) {
	g.samples(func(i int, start, t, latency *float64) {
		if i < n {
			*start = 0
		}
		if i < slow {
			*t, *latency = ttft, max(*latency, ttft+0.0001*float64(i))
		}
	})
}

// answers makes the lengths of answers differ, up to longest, behind 80 warm-ups.
func (g *run) answers(longest int) {
	g.e.Planned.IgnoreEOS, g.e.Planned.Warmups = false, 80
	g.e.Samples = &result.Samples{OutputLen: []int{longest, 20}}
	decode(g)["vllm:request_success_total"] = 1_080
}

// lengthsVary has prompts of no fixed length, behind so many warm-ups.
func (g *run) lengthsVary(warmups int) {
	g.e.Planned.InputTokens, g.e.Planned.Warmups = 0, warmups
	decode(g)["vllm:request_success_total"] += float64(warmups)
	decode(g)["vllm:generation_tokens_total"] += float64(50 * warmups)
}

// template puts so many tokens before every prompt of a chat.
func (g *run) template(tokens int) {
	g.r.Config.Benchmark.Backend = "openai-chat"
	prefill(g)["vllm:prefix_cache_queries_total"] = float64(1000 * (100 + tokens))
	prefill(g)["vllm:request_success_total"] = 1000
}

// late has the window begin so many seconds before the first request.
func (g *run) late(seconds float64) {
	list := g.e.Samples
	for i := range list.Start {
		list.Start[i] *= (100 - seconds) / 100
	}
}

// growing has TTFT rise by that share over the second half.
func (g *run) growing(share float64) {
	g.samples(func(i int, _, t, _ *float64) {
		*t = 0.05 + 0.0002*float64(i%7)
		if i >= 500 {
			*t *= 1 + share*float64(i-500)/500
		}
		if i == 0 {
			*t = 0.11 // above every percentile that was reported
		}
	})
}

// piling has requests of a rate of its own pile up by that share over the second half.
func (g *run) piling(share float64) {
	g.e.Planned.RequestRate = 10
	g.samples(func(i int, _, t, latency *float64) {
		if i >= 500 {
			*latency = 0.55 * (1 + share*float64(i-500)/500)
		}
		if i == 0 {
			*latency = 0.9 // above every percentile that was reported
		}
	})
}

func scaled(by float64) func(*result.Distribution) {
	return func(d *result.Distribution) {
		for _, v := range []*float64{d.Mean, d.Median, d.Std} {
			*v *= by
		}
		for p := range d.Percentiles {
			d.Percentiles[p] *= by
		}
	}
}

// bundled scales the percentiles below the mean: many short gaps, and a few long ones.
func bundled(by float64) func(*result.Distribution) {
	return func(d *result.Distribution) {
		d.Median, d.Percentiles[50], d.Std = new(*d.Median*by), d.Percentiles[50]*by, new(*d.Std*20)
	}
}

// anyLength is a load whose answers are of any length.
func (g *run) anyLength() { g.e.Planned.IgnoreEOS, g.e.Planned.OutputTokens = false, 0 }

// gaps are n gaps of 10 ms.
func (g *run) gaps(n int) {
	list := make([]float64, n)
	for i := range list {
		list[i] = 0.01 + 1e-8*float64(i%1000)
	}
	g.e.Samples = &result.Samples{ITL: [][]float64{list}}
	g.latency(result.ITL, func(d *result.Distribution) { d.Percentiles = map[float64]float64{99: 10} })
}

func failedWords(v *result.Validity) []string {
	var words []string
	for _, c := range v.Checks {
		if c.Outcome == result.Fail {
			words = append(words, c.Word)
		}
	}
	return words
}

// The requests that a client gave up are missing; the engines count them right.
func TestRequestsThatTheClientGaveUp(t *testing.T) {
	g := good()
	g.requests(979, 0)
	g.r.Results.Server[1].BrokenOff = new(21.0)
	v := validity.Judge(&g.r, g.e)
	require.Equal(t, result.Fail, v.Check("requests-missing").Outcome)
	require.Equal(t, result.Pass, v.Check("token-books").Outcome, v.Check("token-books").Detail)
}

func TestGoodRunPassesEveryCheck(t *testing.T) {
	g := good()
	g.samples(asTheyAre)
	v := validity.Judge(&g.r, g.e)
	for _, c := range v.Checks {
		if c.Word == "sends-lumped" { // of a load with a rate
			continue
		}
		require.Equal(t, result.Pass, c.Outcome, "%s: %s", c.Word, c.Detail)
		require.NotEmpty(t, c.Detail)
		require.NotEmpty(t, c.Why)
	}
	require.True(t, v.Valid)
	require.True(t, v.Baseline())
	require.Empty(t, v.Words)
	require.Empty(t, v.Withheld)
}

// covers: PL-V1, PL-V2, PL-V3, PL-V4, PL-V5, PL-V6, PL-V7, PL-V8, PL-V9, PL-V10, PL-V11, PL-V13, PL-V14, PL-V15, PL-V16, PL-V17, PL-V18, PL-V19, PL-V20, PL-V21,
// covers: PL-V7, PL-V13, PL-V22, PL-V23, PL-V24, PL-V25, PL-V26, PL-V27, PL-V28, PL-V29, PL-V31, PL-V33, PL-V36, PL-S5, PL-G13
func TestEachCheckTripsAloneAndMissesNarrowly(t *testing.T) {
	tier.Alone(t)
	tripped := map[string]bool{}
	for _, tt := range trips {
		t.Run(tt.word, func(t *testing.T) {
			g := good()
			tt.trip(g)
			v := validity.Judge(&g.r, g.e)
			require.Equal(t, []string{tt.word}, failedWords(v))
			c := v.Check(tt.word)
			require.Equal(t, tt.severity, c.Severity)
			require.Equal(t, tt.severity != result.Invalid, v.Valid)
			require.Equal(t, tt.severity == result.Withheld, v.Baseline())
			require.Equal(t, tt.severity == result.Withheld, len(v.Withheld) > 0)
			want := result.VerdictValid
			switch tt.severity {
			case result.Invalid:
				want = result.VerdictInvalid
			case result.Suspect:
				want = result.VerdictSuspect
			}
			require.Equal(t, want, v.Verdict)
			tripped[tt.word] = true

			g = good()
			tt.miss(g)
			v = validity.Judge(&g.r, g.e)
			require.Empty(t, failedWords(v), "a near miss")
		})
	}
	g := good()
	for _, c := range validity.Judge(&g.r, g.e).Checks {
		require.True(t, tripped[c.Word], "no case trips %s", c.Word)
	}
}

// Each way in which a run can be no good has a check of its own, and each check that fails says
// why. How many requests may fail is for the test to say: none by default.
//
// covers: P-17
func TestReasonForEachFailedCheck(t *testing.T) {
	g := good()
	g.requests(900, 90)
	g.r.Results.NumPrompts = new(1000)
	g.r.Accuracy = nil
	g.e.Phases = append(g.e.Phases, validity.Phase{Name: "bench/2", Exit: new(3)})
	g.e.Died = append(g.e.Died, validity.RoleEnd{Role: "decode"})
	v := validity.Judge(&g.r, g.e)
	require.Equal(t, result.VerdictInvalid, v.Verdict)
	for _, word := range []string{"phase-failed", "role-died", "requests-missing", "request-errors", "accuracy-missing"} {
		require.Contains(t, failedWords(v), word)
	}
	for _, word := range failedWords(v) {
		require.NotEmpty(t, v.Check(word).Detail, word)
	}
	require.Contains(t, failedWords(validity.Judge(&result.Result{}, validity.Evidence{})), "result-missing")
	g = good()
	g.requests(0, 1000)
	require.Contains(t, failedWords(validity.Judge(&g.r, g.e)), "no-success")

	g = good()
	g.requests(999, 1)
	require.Contains(t, failedWords(validity.Judge(&g.r, g.e)), "request-errors", "the default is none")
	g.e.Limits = validity.Limits{"failed_share": 0.001}
	require.Empty(t, failedWords(validity.Judge(&g.r, g.e)))
}

func TestEmptyEvidenceInventsNothing(t *testing.T) {
	v := validity.Judge(&result.Result{}, validity.Evidence{})
	require.Equal(t, []string{"result-missing"}, failedWords(v))
	for _, c := range v.Checks {
		if c.Word != "simulated" {
			require.NotEqual(t, result.Pass, c.Outcome, "%s passed on nothing", c.Word)
		}
	}
}

// A search that says why there are no numbers takes the place of result-missing; one whose numbers are lost
// does not. Its exit code stands for its own check.
func TestRunWithoutALoadThatHolds(t *testing.T) {
	g := good()
	g.r.Results, g.e.Missing = result.Metrics{}, []string{"the benchmark's result"}
	require.Equal(t, []string{"result-missing", "files-missing"}, failedWords(validity.Judge(&g.r, g.e)), "6 was measured")
	g.e.Missing = nil
	g.searched("lowest-fails", nil)
	g.r.Search[0].High = new(1.0)
	require.Contains(t, validity.Judge(&g.r, g.e).Check("result-missing").Detail, "the search left no numbers")
	require.True(t, validity.WithoutNumbers(&g.r))

	g.e.Phases[1].Exit = new(6)
	require.Equal(t, []string{"phase-failed", "no-load-holds"}, failedWords(validity.Judge(&g.r, g.e)))
	g.searched("no-valid-results", nil)
	v := validity.Judge(&g.r, g.e)
	require.Equal(t, []string{"search-unanswered"}, failedWords(v))
	require.Equal(t, "bench ended with 6: see search-unanswered", v.Check("phase-failed").Detail)
	g.e.Phases[1].Exit = new(1)
	require.Equal(t, []string{"phase-failed", "search-unanswered"}, failedWords(validity.Judge(&g.r, g.e)))
}

// covers: PL-V10, PL-V24
func TestWithheldNamesTheMetrics(t *testing.T) {
	g := good()
	g.latency(result.ITL, bundled(0.1))
	g.latency(result.TTFT, func(d *result.Distribution) { d.N = new(50) })
	v := validity.Judge(&g.r, g.e)
	require.Equal(t, []string{
		"mean_itl_ms", "median_itl_ms", "p50_itl_ms", "p95_itl_ms", "p95_ttft_ms", "p99_itl_ms", "p99_ttft_ms", "std_itl_ms",
	}, v.Withheld)
	require.True(t, v.Valid)
}

// covers: PL-V8
func TestRoundedLogIsNotInconsistent(t *testing.T) {
	g := good()
	g.r.Results.FromLog = true
	g.r.Results.Duration = new(3000.0)
	g.e.Planned.RequestRate = 1.0 / 3
	g.r.Results.RequestThroughput = new(0.33)
	g.r.Results.OutputThroughput = new(16.67)
	g.r.Results.TotalTokenThroughput = new(50.0)
	require.Equal(t, []string{"from-log"}, failedWords(validity.Judge(&g.r, g.e)))
	g.r.Results.RequestThroughput = new(0.36)
	require.Equal(t, []string{"from-log", "inconsistent"}, failedWords(validity.Judge(&g.r, g.e)))
}

// covers: PL-V9
func TestImpossibleSpeedFromSamples(t *testing.T) {
	g := good()
	g.r.Results.Latency[result.E2EL] = result.Distribution{}
	// 49,000 tokens of 10 ms that follow a first one need 490 s of requests.
	g.e.Samples = &result.Samples{Latency: []float64{200, 100, 26}, Errors: []string{"", "", ""}}
	require.Contains(t, failedWords(validity.Judge(&g.r, g.e)), "impossible-speed")
	g.e.Samples.Latency[2] = 27
	require.NotContains(t, failedWords(validity.Judge(&g.r, g.e)), "impossible-speed")
	g.e.Samples.Errors[0] = "refused" // the latency of a failure is not work
	require.Contains(t, failedWords(validity.Judge(&g.r, g.e)), "impossible-speed")

	// Answers of two tokens from a machine that stalled between them.
	g = good()
	g.r.Results.TotalOutputTokens = new(2 * int64(*g.r.Results.CompletedRequests))
	g.latency(result.TPOT, func(d *result.Distribution) { d.Mean = new(490.0) })
	g.latency(result.E2EL, func(d *result.Distribution) { d.Mean = new(500.0) })
	require.NotContains(t, failedWords(validity.Judge(&g.r, g.e)), "impossible-speed")
}

// covers: PL-Q8
func TestLeastSampleSizes(t *testing.T) {
	for rank, n := range map[float64]int{50: 5, 75: 11, 90: 29, 95: 59, 99: 299, 99.9: 2995} {
		for _, have := range []int{n - 1, n} {
			g := good()
			g.r.Results.Latency = map[result.Family]result.Distribution{
				result.TTFT: {N: &have, Percentiles: map[float64]float64{rank: 1}},
			}
			v := validity.Judge(&g.r, g.e)
			require.Equal(t, have < n, v.Check("n-too-small").Outcome == result.Fail, "p%g with %d", rank, have)
		}
	}
}

func TestJudgeChangesNothing(t *testing.T) {
	g := good()
	before, err := resulttest.Marshal(&g.r)
	require.NoError(t, err)
	validity.Judge(&g.r, g.e)
	after, err := resulttest.Marshal(&g.r)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
}

func TestInfiniteLatencyCannotBeWritten(t *testing.T) {
	g := good()
	g.latency(result.TTFT, func(d *result.Distribution) { d.Mean = new(math.Inf(1)) })
	require.Contains(t, failedWords(validity.Judge(&g.r, g.e)), "inconsistent")
	_, err := resulttest.Marshal(&g.r)
	require.ErrorContains(t, err, "mean_ttft_ms")
}

// Where the engine is simulated, client and engine wait for one machine.
//
// covers: PL-V13
func TestClientOfASimulatedEngine(t *testing.T) {
	g := good()
	g.r.Simulated = true
	g.r.Results.Client.SendDelayP99, g.r.Results.Client.LagP99 = new(500.0), new(50.0)
	require.Equal(t, result.Pass, validity.Judge(&g.r, g.e).Check("client-bound").Outcome)
	g.r.Results.Client.CPUSeconds = new(90.0)
	require.Equal(t, result.Fail, validity.Judge(&g.r, g.e).Check("client-bound").Outcome)
}

// What arrives comes in bunches, and so is what is in flight. Sixteen slots that serve
// for two seconds are a queue at every load, which grows from a load of one on. Of 200
// loads 12 at half of it, and 28 at four fifths, grow by chance, where bursts queue.
//
// covers: PL-V23
func TestOnlyQueuesThatGrowDo(t *testing.T) {
	for _, c := range []struct {
		load        float64
		least, most int
	}{{0.5, 0, 20}, {0.8, 0, 40}, {1.5, 190, 200}} {
		bad := 0
		for seed := range uint64(200) {
			g := good()
			g.e.Planned.RequestRate = c.load * 8
			g.e.Samples = &result.Samples{}
			s, chance, at, free := g.e.Samples, rand.New(rand.NewPCG(seed, 1)), 0.0, make([]float64, 16)
			for range 300 {
				at += chance.ExpFloat64() / g.e.Planned.RequestRate
				slices.Sort(free)
				begin, serve := max(at, free[0]), 1+2*chance.Float64()
				free[0] = begin + serve
				s.Start = append(s.Start, at)
				s.TTFT = append(s.TTFT, begin-at+0.05)
				s.Latency = append(s.Latency, begin-at+serve)
			}
			if validity.Judge(&g.r, g.e).Check("not-steady").Outcome == result.Fail {
				bad++
			}
		}
		require.GreaterOrEqual(t, bad, c.least, "load %g", c.load)
		require.LessOrEqual(t, bad, c.most, "load %g", c.load)
	}
}

func BenchmarkJudge(b *testing.B) {
	g := good()
	for b.Loop() {
		validity.Judge(&g.r, g.e)
	}
}

// The page that explains the checks has each of them, in their order.
func TestValidityPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/explanation/validity.md")
	require.NoError(t, err)
	var want strings.Builder
	for _, c := range validity.Judge(&result.Result{}, validity.Evidence{}).Checks {
		fmt.Fprintf(&want, "| `%s` | %s | %s |\n", c.Word, c.Severity, c.Why)
	}
	require.Contains(t, string(page), want.String())
}
