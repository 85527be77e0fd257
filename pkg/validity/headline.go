package validity

import (
	"cmp"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/result"
)

// A headline is a number that a benchmark of some kind always reports.
type headline struct {
	name string
	has  func(*result.Metrics) bool
	need func(*result.Metrics) bool // nil: always
}

// headlines are the numbers without which a result is none, by kind of benchmark or, of
// an imported file, by format. Formats that hold other programs' numbers promise less.
var headlines = map[string][]headline{
	"vllm-offline": {
		{"offline.batch.latency.mean_s", func(m *result.Metrics) bool { return timed(m.Offline.Batch.Latency) },
			func(m *result.Metrics) bool { return m.Offline.Batch != nil }},
		{"offline.startup.cold.mean_s or warm.mean_s",
			func(m *result.Metrics) bool { return timed(m.Offline.Startup.Cold) || timed(m.Offline.Startup.Warm) },
			func(m *result.Metrics) bool { return m.Offline.Startup != nil }},
		{"offline.throughput.request_throughput",
			func(m *result.Metrics) bool { return m.Offline.Throughput.RequestThroughput != nil },
			hasOfflineThroughput},
		{"offline.throughput.total_token_throughput",
			func(m *result.Metrics) bool { return m.Offline.Throughput.TotalTokenThroughput != nil },
			hasOfflineThroughput},
		{"offline.processor.e2el.mean_s", func(m *result.Metrics) bool { return timed(m.Offline.Processor.E2EL) },
			func(m *result.Metrics) bool { return m.Offline.Processor != nil }},
		{"offline.requests.ttft.mean_s", func(m *result.Metrics) bool { return timed(m.Offline.Requests.TTFT) },
			func(m *result.Metrics) bool { return m.Offline.Requests != nil }},
	},
	// Every load client: ours, vLLM's, SGLang's, AIPerf, GuideLLM, inference-perf.
	"serve": {
		{"request_throughput", func(m *result.Metrics) bool { return m.RequestThroughput != nil }, nil},
		{"output_throughput", func(m *result.Metrics) bool { return m.OutputThroughput != nil }, generates},
		{"TTFT", func(m *result.Metrics) bool { return has(m, result.TTFT) }, streams},
		someLatency,
	},

	"llm-d":      {someRate, someLatency},
	"inferencex": {someLatency},
	"pytorch":    {anyNumber}, // a record is of one metric
	"srt-slurm":  {someRate, someLatency},
}

var (
	someRate = headline{"a throughput", func(m *result.Metrics) bool {
		return m.RequestThroughput != nil || m.OutputThroughput != nil || m.TotalTokenThroughput != nil
	}, nil}
	someLatency = headline{"TTFT or E2EL", func(m *result.Metrics) bool {
		return slices.ContainsFunc(result.Families(), func(f result.Family) bool { return has(m, f) })
	}, nil}
	anyNumber = headline{"a throughput or a latency",
		func(m *result.Metrics) bool { return someRate.has(m) || someLatency.has(m) }, nil}
)

func hasOfflineThroughput(m *result.Metrics) bool { return m.Offline.Throughput != nil }

func timed(t *result.Timing) bool { return t != nil && t.Mean != nil }

func has(m *result.Metrics, f result.Family) bool { return len(m.Latency[f].Statistics()) > 0 }

// generates reports whether the load asked for text. Embeddings and other pooling have
// neither output tokens nor latencies of tokens.
func generates(m *result.Metrics) bool {
	return m.TotalOutputTokens != nil && *m.TotalOutputTokens > 0 || has(m, result.TPOT) || has(m, result.ITL)
}

// streams reports whether the answers came token by token: without a TPOT and an ITL they
// may have come whole, or have one token, and E2EL stands for TTFT.
func streams(m *result.Metrics) bool { return has(m, result.TPOT) || has(m, result.ITL) }

// headlinesOf are those of a record.
func headlinesOf(r *result.Result) []headline {
	if r.Results.Offline != nil {
		return headlines["vllm-offline"]
	}
	if p := r.Provenance; p != nil && p.Imported != nil {
		if list, ok := headlines[p.Imported.Format]; ok {
			return list
		}
	}
	return headlines["serve"]
}

// unasked reports whether the test asked its client to leave TTFT out.
func (c *facts) unasked(h headline) bool {
	asked, set := c.r.Config.Settings["bench_cmd_args.percentile_metrics"]
	return set && h.name == "TTFT" && !strings.Contains(asked, "ttft")
}

// metricsMissing fails a result that lacks what its kind of benchmark always reports, or
// that has something in the place of a number.
func metricsMissing(c *facts) answer {
	var parts []string
	if bad := c.warnings(result.NoNumber); len(bad) > 0 {
		parts = append(parts, "unreadable: "+list(bad))
	}
	m := c.m
	measured := m.Offline != nil || m.CompletedRequests != nil && *m.CompletedRequests > 0 ||
		m.CompletedRequests == nil && c.imported() && m.Measured()
	var missing []string
	asked := 0
	for _, h := range headlinesOf(c.r) {
		if !measured || h.need != nil && !h.need(m) || c.unasked(h) {
			continue
		}
		if asked++; !h.has(m) {
			missing = append(missing, h.name)
		}
	}
	if len(missing) > 0 {
		parts = append(parts, "missing: "+list(missing))
	}
	switch {
	case len(parts) > 0:
		return fail("%s", strings.Join(parts, "; "))
	case !measured:
		return notPossible("no benchmark result with a completed request")
	}
	return pass("%d headline metrics of %s are present", asked, cmp.Or(c.r.Config.Benchmark.Kind, "the benchmark"))
}
