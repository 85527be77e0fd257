// Package resulttest has a record for tests.
package resulttest

import (
	"fmt"
	"time"

	"github.com/profllm/profllm/pkg/result"
)

// Good returns a record without a fault: 1,000 requests of 100 tokens in and 50 out, on
// a disaggregated server of four GPUs, and one GPU of its nodes that no role was given.
func Good() *result.Result {
	const n = 1000
	latency := func(mean float64) result.Distribution {
		return result.Distribution{
			N: new(n), Mean: &mean, Median: new(mean * 0.98), Std: new(mean / 10),
			Percentiles: map[float64]float64{50: mean * 0.98, 95: mean * 1.2, 99: mean * 1.5},
		}
	}
	itl := latency(10)
	itl.N = new(49 * n)
	r := &result.Result{
		RunID: "exp_20261121_101500_ab12cd", Suite: "baseline",
		Timestamp: time.Date(2026, 11, 21, 10, 15, 0, 0, time.UTC),
		Status:    result.Completed, Provenance: &result.Provenance{},
		Results: result.Metrics{
			Counts: result.Counts{
				NumPrompts: new(n), CompletedRequests: new(n), FailedRequests: new(0), Duration: new(100.0),
				TotalInputTokens: new(int64(100 * n)), TotalOutputTokens: new(int64(50 * n)),
			},
			Rates: result.Rates{
				RequestThroughput: new(10.0), OutputThroughput: new(500.0), TotalTokenThroughput: new(1500.0),
			},
			Latency: map[result.Family]result.Distribution{
				result.TTFT: latency(60), result.TPOT: latency(10), result.ITL: itl, result.E2EL: latency(550),
			},
			Server: []result.ServerDelta{
				{Role: "prefill", Counters: map[string]float64{
					"vllm:nixl_num_kv_expired_reqs_total": 0, "vllm:prefix_cache_queries_total": 100 * n,
					"vllm:prefix_cache_hits_total": 96,
				}},
				{Role: "decode", Counters: map[string]float64{
					"vllm:nixl_num_failed_transfers_total": 0, "vllm:nixl_num_failed_notifications_total": 0,
					"vllm:nixl_bytes_transferred_sum": 1e9, "vllm:nixl_bytes_transferred_count": n,
					"vllm:generation_tokens_total": 50 * n, "vllm:request_success_total": n,
					"vllm:num_preemptions_total": 0, "vllm:corrupted_requests_total": 0,
					"vllm:time_to_first_token_seconds_sum": 40, "vllm:time_to_first_token_seconds_count": n,
					"vllm:e2e_request_latency_seconds_sum": 300, "vllm:e2e_request_latency_seconds_count": n,
				}},
			},
			Proxy: &result.Proxy{Requests: n, Statuses: map[string]int64{"200": n}},
			Client: &result.Client{
				Program: "profllm bench serve", Threads: new(1), CPUSeconds: new(20.0), SendDelayP99: new(1.0),
				LagP99: new(0.1),
				Resent: new(0), UsageMissing: new(0), WarmUpsFailed: new(0),
			},
			Source: "vllm-bench.json",
		},
		Accuracy: &result.Accuracy{Task: "gsm8k", Value: 0.74, InvalidRate: new(0.005), Questions: new(1319),
			Source: "vllm-gsm8k.json"},
		Slurm:  &result.Slurm{JobID: "4711", State: "COMPLETED", ExitCode: "0:0"},
		System: &result.System{HardwareInfo: &result.Hardware{GPU: "H200", GPUs: new(8), Driver: "570"}},
	}
	r.SetGPUs(gpuSamples(r))
	return r
}

// gpuSamples are two busy GPUs of each of two servers, and an idle one.
func gpuSamples(r *result.Result) *result.GPUSamples {
	s := &result.GPUSamples{Begin: r.Timestamp, End: r.Timestamp.Add(100 * time.Second), From: "client", Interval: 1}
	for i, role := range []string{"prefill", "prefill", "decode", "decode", ""} {
		u := result.GPUUse{
			Node: fmt.Sprintf("n%d", 1+i/2), Index: i % 2, Role: role, Samples: 100, Utilization: new(90.0),
			Power: new(500.0), Energy: new(50_000.0),
			EnergyFrom: "counter", SMClock: new(1800.0), Slowed: new(0.0), Coverage: 1, LongestGap: 1,
		}
		if role == "" {
			u.Utilization, u.SMClock = new(0.0), nil
		}
		s.GPUs = append(s.GPUs, u)
	}
	return s
}

// Marshal returns a record as result.Encode does; the error says which part of the
// schema it breaks.
func Marshal(r *result.Result) ([]byte, error) {
	data, err := result.Encode(r)
	if err != nil {
		return nil, err
	}
	return data, result.Validate(data)
}
