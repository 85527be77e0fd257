package result_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
)

// run is a record without fault, 1,000 requests of 100 tokens in and 50 out
// on a disaggregated server, and its evidence. Cases change copies of it.
type run struct {
	r result.Result
	e result.Evidence
}

func good() *run {
	const n = 1000
	latency := func(mean float64) result.Distribution {
		return result.Distribution{
			N: new(n), Mean: &mean, Median: new(mean * 0.98), Std: new(mean / 10),
			Percentiles: map[float64]float64{50: mean * 0.98, 95: mean * 1.2, 99: mean * 1.5},
		}
	}
	itl := latency(10)
	itl.N = new(49 * n)
	g := &run{}
	g.r = result.Result{
		RunID: "exp_20261121_101500_ab12cd", Suite: "baseline", Timestamp: time.Date(2026, 11, 21, 10, 15, 0, 0, time.UTC),
		Status: result.Completed,
		Results: result.Metrics{
			Counts: result.Counts{
				NumPrompts: new(n), CompletedRequests: new(n), FailedRequests: new(0), Duration: new(100.0),
				TotalInputTokens: new(int64(100 * n)), TotalOutputTokens: new(int64(50 * n)), MaxConcurrency: new(8),
			},
			Rates: result.Rates{
				RequestThroughput: new(10.0), OutputThroughput: new(500.0), TotalTokenThroughput: new(1500.0),
			},
			Latency: map[result.Family]result.Distribution{
				result.TTFT: latency(60), result.TPOT: latency(10), result.ITL: itl, result.E2EL: latency(550),
			},
			Server: []result.ServerDelta{
				{Role: "prefill", Counters: map[string]float64{"vllm:nixl_num_kv_expired_reqs_total": 0}},
				{Role: "decode", Counters: map[string]float64{
					"vllm:nixl_num_failed_transfers_total": 0, "vllm:nixl_num_failed_notifications_total": 0,
					"vllm:nixl_bytes_transferred_sum": 1e9, "vllm:nixl_bytes_transferred_count": n,
				}},
			},
			Source: "vllm-bench.json",
		},
		Accuracy: &result.Accuracy{Task: "gsm8k", Value: 0.74, InvalidRate: new(0.005), Questions: new(1319), Source: "vllm-gsm8k.json"},
		Slurm:    &result.Slurm{JobID: "4711", State: "COMPLETED", ExitCode: "0:0"},
	}
	g.e = result.Evidence{
		Planned: result.Planned{
			NumPrompts: n, InputTokens: 100, OutputTokens: 50, IgnoreEOS: true, Accuracy: true, Disaggregated: true,
		},
		Phases: []result.Phase{{"ready", new(0)}, {"bench", new(0)}, {"eval", new(0)}},
	}
	g.e.Nodes = []result.NodeCheck{
		{Node: "n1", Check: "gpu-memory", Seen: "idle", Made: true}, {Node: "n1", Check: "gpu-processes", Seen: "none", Made: true},
		{Node: "n1", Check: "limits", Seen: "nofile 1024", Made: true},
	}
	return g
}

// latency changes one distribution.
func (g *run) latency(f result.Family, change func(*result.Distribution)) {
	d := g.r.Results.Latency[f]
	change(&d)
	g.r.Results.Latency[f] = d
}

// tokens sets the number of output tokens and what follows from it.
func (g *run) tokens(n int64) {
	g.r.Results.TotalOutputTokens = &n
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
}

func decode(g *run) map[string]float64 { return g.r.Results.Server[1].Counters }

// trips has for each check what trips it alone, and the nearest miss.
var trips = []struct {
	word     string
	severity result.Severity
	trip     func(*run)
	miss     func(*run)
}{
	{"no-success", result.Invalid, func(g *run) { g.requests(0, 1000); g.r.Results.Latency = nil }, func(g *run) {
		g.requests(1, 0)
		g.e.Planned.NumPrompts, g.r.Results.Latency = 1, nil
	}},
	{"no-tokens", result.Invalid, func(g *run) { g.tokens(0) }, func(g *run) { g.tokens(50_000) }},
	{"no-tokens", result.Invalid, func(g *run) { g.e.Samples = &result.Samples{OutputLen: []int{50, 0}, Errors: []string{"", ""}} },
		func(g *run) { g.e.Samples = &result.Samples{OutputLen: []int{50, 0}, Errors: []string{"", "refused"}} }},
	{"requests-missing", result.Invalid, func(g *run) { g.requests(999, 0) }, func(g *run) {
		g.requests(999, 0)
		g.e.Planned.NumPrompts = 999
	}},
	{"requests-missing", result.Invalid, func(g *run) { g.e.Planned.NumPrompts = 1001 }, func(g *run) {
		g.e.Planned.NumPrompts = 1001
		g.r.Results.Derived = []string{"failed_requests"}
	}},
	{"request-errors", result.Invalid, func(g *run) { g.requests(999, 1) }, func(g *run) {
		g.requests(950, 50)
		limits := result.DefaultLimits()
		limits.FailedShare = 0.05
		g.e.Limits = &limits
	}},
	{"output-length", result.Invalid, func(g *run) { g.tokens(49_400) }, func(g *run) { g.tokens(49_600) }},
	{"output-length", result.Invalid, func(g *run) { g.tokens(50_600) }, func(g *run) { g.tokens(50_400) }},
	{"output-length", result.Invalid, func(g *run) { g.e.Planned.IgnoreEOS = false; g.tokens(1_999) },
		func(g *run) { g.e.Planned.IgnoreEOS = false; g.tokens(2_000) }},
	{"input-length", result.Suspect, func(g *run) { g.prompts(94_000) }, func(g *run) { g.prompts(96_000) }},
	{"input-length", result.Suspect, func(g *run) { g.prompts(0) }, func(g *run) { g.prompts(104_000) }},
	{"inconsistent", result.Invalid, func(g *run) { g.r.Results.RequestThroughput = new(10.2) },
		func(g *run) { g.r.Results.RequestThroughput = new(10.09) }},
	{"inconsistent", result.Invalid, func(g *run) { g.r.Results.OutputThroughput = new(490.0) },
		func(g *run) { g.r.Results.OutputThroughput = new(496.0) }},
	{"inconsistent", result.Invalid, func(g *run) { g.r.Results.RequestGoodput = new(-0.1) },
		func(g *run) { g.r.Results.RequestGoodput = new(0.0) }},
	{"inconsistent", result.Invalid, func(g *run) { g.latency(result.TTFT, func(d *result.Distribution) { d.Percentiles[99] = 71 }) },
		func(g *run) { g.latency(result.TTFT, func(d *result.Distribution) { d.Percentiles[99] = 72 }) }},
	{"inconsistent", result.Invalid, func(g *run) {
		g.latency(result.TTFT, func(d *result.Distribution) { d.Max = new(100.0); d.Mean = new(100.1) })
	},
		func(g *run) {
			g.latency(result.TTFT, func(d *result.Distribution) { d.Max = new(100.0); d.Mean = new(99.9) })
		}},
	{"inconsistent", result.Invalid, func(g *run) {
		g.r.Warnings = []result.Warning{{Kind: result.NotFinite, Key: "mean_ttft_ms", Text: "is NaN"}}
	},
		func(g *run) { g.r.Warnings = []result.Warning{{Kind: result.BadValue, Key: "label", Text: "no text"}} }},
	{"impossible-speed", result.Invalid, func(g *run) { g.latency(result.E2EL, scaled(0.6)) }, func(g *run) { g.latency(result.E2EL, scaled(0.61)) }},
	{"itl-bundled", result.Withheld, func(g *run) { g.latency(result.ITL, scaled(0.19)) }, func(g *run) { g.latency(result.ITL, scaled(0.21)) }},
	{"itl-bundled", result.Withheld, func(g *run) { g.e.Samples = gaps(46_000) }, func(g *run) { g.e.Samples = gaps(47_000) }},
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
	{"uneven-spread", result.Suspect, func(g *run) { g.spread(393, 307, 300) }, func(g *run) { g.spread(392, 308, 300) }}, // 4 sigma are 59.6
	{"uneven-spread", result.Suspect, func(g *run) { g.spread(5_600, 4_400) }, func(g *run) { g.spread(5_500, 4_500) }},   // a tenth
	{"uneven-spread", result.Suspect, func(g *run) { g.spread(1000, 0) }, func(g *run) {
		g.spread(1000, 0)
		delete(g.r.Results.Server[2].Counters, "vllm:request_success_total")
	}},
	{"n-too-small", result.Withheld, func(g *run) { g.latency(result.TTFT, func(d *result.Distribution) { d.N = new(298) }) },
		func(g *run) { g.latency(result.TTFT, func(d *result.Distribution) { d.N = new(299) }) }},
	{"n-too-small", result.Withheld, func(g *run) { g.latency(result.TTFT, func(d *result.Distribution) { d.Percentiles[99.9] = 95 }) },
		func(g *run) {
			g.latency(result.TTFT, func(d *result.Distribution) { d.Percentiles[99.9] = 95; d.N = new(2995) })
		}},
	{"accuracy-missing", result.Invalid, func(g *run) { g.r.Accuracy = nil }, func(g *run) { g.r.Accuracy = nil; g.e.Planned.Accuracy = false }},
	{"accuracy-invalid", result.Invalid, func(g *run) { g.r.Accuracy.InvalidRate = new(0.051) }, func(g *run) { g.r.Accuracy.InvalidRate = new(0.05) }},
	{"accuracy-invalid", result.Invalid, func(g *run) { g.r.Accuracy.Value = 1.01 }, func(g *run) { g.r.Accuracy.Value = 0 }},
	{"accuracy-subset", result.Withheld, func(g *run) { g.r.Accuracy.Questions = new(199) }, func(g *run) { g.r.Accuracy.Questions = new(200) }},
	{"job-state", result.Invalid, func(g *run) { g.r.Slurm.State = "TIMEOUT" }, func(g *run) { g.r.Slurm.State = "COMPLETING" }},
	{"job-state", result.Invalid, func(g *run) { g.r.Slurm.State = "CANCELLED by 1000" }, func(g *run) { g.r.Slurm = nil }},
	{"job-state", result.Invalid, func(g *run) { g.r.Slurm.ExitCode = "7:0" }, func(g *run) { g.r.Slurm.ExitCode = "" }},
	{"phase-failed", result.Invalid, func(g *run) { g.e.Phases[1].Exit = new(1) }, func(g *run) {}},
	{"phase-failed", result.Invalid, func(g *run) { g.e.Phases[2].Exit = nil }, func(g *run) { g.e.Phases = nil }},
	{"role-died", result.Invalid, func(g *run) { g.e.Died = []result.RoleEnd{{Role: "decode", Node: "node2", Exit: 139}} }, func(g *run) {}},
	{"instance-died", result.Invalid, func(g *run) {
		g.e.Died = []result.RoleEnd{{Role: "decode_0", Spared: &result.Spared{Kind: "decode", Of: 2}}}
	}, func(g *run) {}},
	{"role-died", result.Invalid, func(g *run) {
		g.e.Died = []result.RoleEnd{{Role: "decode_0", Spared: &result.Spared{Kind: "decode", Of: 2}}, {Role: "decode_1", Spared: &result.Spared{Kind: "decode", Of: 2}}}
	}, func(g *run) {}},
	{"result-missing", result.Invalid, func(g *run) { g.r.Results = result.Metrics{} }, func(g *run) {
		g.r.Results = result.Metrics{}
		g.e.Planned.NoBenchmark = true
	}},
	{"files-missing", result.Suspect, func(g *run) { g.e.Missing = []string{"telemetry/gpu.csv"} }, func(g *run) {}},
	{"from-log", result.Suspect, func(g *run) { g.r.Results.FromLog = true }, func(g *run) {}},
	{"gpu-shared", result.Suspect, func(g *run) { g.e.Nodes[1].Bad = true }, func(g *run) { g.e.Nodes[2].Bad = true }},
	{"simulated", result.Note, func(g *run) { g.r.Simulated = true }, func(g *run) {}},
	{"profiled", result.Note, func(g *run) { g.e.Profiled = true }, func(g *run) { g.r.Profiling = &result.Profiling{} }},
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

func gaps(n int) *result.Samples { return &result.Samples{ITL: [][]float64{make([]float64, n)}} }

func failedWords(v *result.Validity) []string {
	var words []string
	for _, c := range v.Checks {
		if c.Outcome == result.Fail {
			words = append(words, c.Word)
		}
	}
	return words
}

func TestGoodRunPassesEveryCheck(t *testing.T) {
	g := good()
	v := result.Judge(&g.r, g.e)
	for _, c := range v.Checks {
		require.Equal(t, result.Pass, c.Outcome, "%s %s: %s", c.ID, c.Word, c.Detail)
		require.NotEmpty(t, c.Detail)
		require.NotEmpty(t, c.Why)
	}
	require.True(t, v.Valid)
	require.True(t, v.Baseline())
	require.Empty(t, v.Words)
	require.Empty(t, v.Withheld)
}

// covers: PL-V1, PL-V2, PL-V3, PL-V4, PL-V5, PL-V6, PL-V8, PL-V9, PL-V10, PL-V16, PL-V24, PL-V29, PL-V31, PL-V36, PL-S5, PL-G13
func TestEachCheckTripsAloneAndMissesNarrowly(t *testing.T) {
	tripped := map[string]bool{}
	for _, tt := range trips {
		t.Run(tt.word, func(t *testing.T) {
			g := good()
			tt.trip(g)
			v := result.Judge(&g.r, g.e)
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
			v = result.Judge(&g.r, g.e)
			require.Empty(t, failedWords(v), "a near miss")
		})
	}
	g := good()
	for _, c := range result.Judge(&g.r, g.e).Checks {
		require.True(t, tripped[c.Word], "no case trips %s", c.Word)
	}
}

func TestEmptyEvidenceInventsNothing(t *testing.T) {
	v := result.Judge(&result.Result{}, result.Evidence{})
	require.Equal(t, []string{"result-missing"}, failedWords(v))
	for _, c := range v.Checks {
		if c.Word != "simulated" {
			require.NotEqual(t, result.Pass, c.Outcome, "%s passed on nothing", c.Word)
		}
	}
}

// covers: PL-V10, PL-V24
func TestWithheldNamesTheMetrics(t *testing.T) {
	g := good()
	g.latency(result.ITL, scaled(0.1))
	g.latency(result.TTFT, func(d *result.Distribution) { d.N = new(50) })
	v := result.Judge(&g.r, g.e)
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
	g.r.Results.RequestThroughput = new(0.33)
	g.r.Results.OutputThroughput = new(16.67)
	g.r.Results.TotalTokenThroughput = new(50.0)
	require.Equal(t, []string{"from-log"}, failedWords(result.Judge(&g.r, g.e)))
	g.r.Results.RequestThroughput = new(0.36)
	require.Equal(t, []string{"from-log", "inconsistent"}, failedWords(result.Judge(&g.r, g.e)))
}

// covers: PL-V9
func TestImpossibleSpeedFromSamples(t *testing.T) {
	g := good()
	g.r.Results.Latency[result.E2EL] = result.Distribution{}
	// 50,000 tokens of 10 ms need 500 s of requests.
	g.e.Samples = &result.Samples{Latency: []float64{200, 100, 33}, Errors: []string{"", "", ""}}
	require.Contains(t, failedWords(result.Judge(&g.r, g.e)), "impossible-speed")
	g.e.Samples.Latency[2] = 34
	require.NotContains(t, failedWords(result.Judge(&g.r, g.e)), "impossible-speed")
	g.e.Samples.Errors[0] = "refused" // the latency of a failure is not work
	require.Contains(t, failedWords(result.Judge(&g.r, g.e)), "impossible-speed")
}

// covers: PL-Q8
func TestLeastSampleSizes(t *testing.T) {
	for rank, n := range map[float64]int{50: 5, 75: 11, 90: 29, 95: 59, 99: 299, 99.9: 2995} {
		for _, have := range []int{n - 1, n} {
			g := good()
			g.r.Results.Latency = map[result.Family]result.Distribution{
				result.TTFT: {N: &have, Percentiles: map[float64]float64{rank: 1}},
			}
			v := result.Judge(&g.r, g.e)
			require.Equal(t, have < n, v.Check("n-too-small").Outcome == result.Fail, "p%g with %d", rank, have)
		}
	}
}

func TestJudgeChangesNothing(t *testing.T) {
	g := good()
	before, err := result.Marshal(&g.r)
	require.NoError(t, err)
	result.Judge(&g.r, g.e)
	after, err := result.Marshal(&g.r)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
}

func TestInfiniteLatencyCannotBeWritten(t *testing.T) {
	g := good()
	g.latency(result.TTFT, func(d *result.Distribution) { d.Mean = new(math.Inf(1)) })
	require.Contains(t, failedWords(result.Judge(&g.r, g.e)), "inconsistent")
	_, err := result.Marshal(&g.r)
	require.ErrorContains(t, err, "mean_ttft_ms")
}
