package engine

import (
	"strconv"
	"time"

	"github.com/profllm/profllm/pkg/sim/knobs"
)

// The bucket limits of vLLM 0.32.0.
var (
	latencyBuckets = []float64{
		0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680,
	}
	firstTokenBuckets = []float64{
		0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640,
		2560,
	}
	tokenBuckets = []float64{
		0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
	}
	iterationBuckets  = []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}
	choiceBuckets     = []float64{1, 2, 5, 10, 20}
	preemptionBuckets = []float64{1, 2, 3, 4, 5, 10, 20}

	transferBuckets = []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 5}
	postBuckets     = []float64{0.001, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 5}
	byteBuckets     = []float64{1 << 11, 1 << 13, 1 << 15, 1 << 17, 1 << 19, 1 << 21, 1 << 23, 1 << 25, 1 << 27,
		1 << 29, 1 << 31, 1 << 33}
	descriptorBuckets = []float64{10, 20, 30, 50, 75, 100, 200, 400, 1000, 2000, 4000, 10000, 20000, 50000}

	httpFineBuckets = []float64{
		0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 7.5, 10, 30, 60,
	}
	httpBuckets = []float64{0.1, 0.5, 1}
)

// lengthBuckets are 1, 2, 5, 10, ... up to the context length, as vLLM builds them.
func lengthBuckets(maxLen int) []float64 {
	var b []float64
	for p := 1; ; p *= 10 {
		for _, m := range []int{1, 2, 5} {
			if m*p > maxLen {
				return b
			}
			b = append(b, float64(m*p))
		}
	}
}

// families lists the metrics of a server in vLLM's order.
func families(c Config, f knobs.Planted, cacheTokens int) []*family {
	base := []string{"engine", "0", "model_name", c.Names[0]}
	one := [][]string{base}
	each := func(label string, values ...string) [][]string {
		var sets [][]string
		for _, v := range values {
			sets = append(sets, insertLabel(base, label, v))
		}
		return sets
	}
	list := []*family{
		{name: "process_virtual_memory_bytes", kind: gauge, labels: [][]string{{}}},
		{name: "process_resident_memory_bytes", kind: gauge, labels: [][]string{{}}},
		{name: "process_start_time_seconds", kind: gauge, labels: [][]string{{}}},
		{name: "process_cpu_seconds", kind: counter, bare: true, labels: [][]string{{}}},
		{name: "process_open_fds", kind: gauge, labels: [][]string{{}}},
		{name: "process_max_fds", kind: gauge, labels: [][]string{{}}},
	}
	if c.transfers() {
		list = append(list, transferFamilies(one)...)
	}
	list = append(list, storeFamilies(c, one)...)
	list = append(list,
		&family{name: "vllm:estimated_flops_per_gpu", kind: counter, labels: one},
		&family{name: "vllm:estimated_read_bytes_per_gpu", kind: counter, labels: one},
		&family{name: "vllm:estimated_write_bytes_per_gpu", kind: counter, labels: one},
		&family{name: "vllm:num_requests_running", kind: gauge, labels: one},
		&family{name: "vllm:num_requests_waiting", kind: gauge, labels: one},
		&family{name: "vllm:num_requests_waiting_by_reason", kind: gauge,
			labels: each("reason", "capacity", "deferred")},
	)
	if f.Corrupt > 0 {
		list = append(list, &family{name: "vllm:corrupted_requests", kind: counter, labels: one})
	}
	if c.Consumer {
		list = append(list, &family{name: "vllm:num_requests_kv_fetch_by_stage", kind: gauge,
			labels: each("stage", "waiting_to_start", "in_progress", "completed_waiting")})
	}
	list = append(list, draftFamilies(c, one, each)...)
	if len(c.Adapters) > 0 {
		list = append(list, &family{name: "vllm:lora_requests_info", kind: gauge})
	}
	list = append(list, &family{name: "vllm:engine_sleep_state", kind: gauge,
		labels: each("sleep_state", "awake", "weights_offloaded", "discard_all")})
	list = append(list, tokenFamilies(c, one, each)...)
	list = append(list, requestFamilies(lengthBuckets(c.MaxLen), one)...)
	list = append(list,
		&family{name: "vllm:cache_config_info", kind: gauge, labels: [][]string{cacheLabels(c, cacheTokens)}})
	return append(list, httpFamilies()...)
}

// tokenFamilies count what went through the caches and the engine, and the requests that ended.
func tokenFamilies(c Config, one [][]string, each func(string, ...string) [][]string) []*family {
	return []*family{
		{name: "vllm:kv_cache_usage_perc", kind: gauge, labels: one},
		{name: "vllm:prefix_cache_queries", kind: counter, labels: one},
		{name: "vllm:prefix_cache_hits", kind: counter, labels: one},
		{name: "vllm:external_prefix_cache_queries", kind: counter, labels: one},
		{name: "vllm:external_prefix_cache_hits", kind: counter, labels: one},
		{name: "vllm:mm_cache_queries", kind: counter, labels: one},
		{name: "vllm:mm_cache_hits", kind: counter, labels: one},
		{name: "vllm:num_preemptions", kind: counter, labels: one},
		{name: "vllm:prompt_tokens", kind: counter, labels: one},
		{name: "vllm:prompt_tokens_by_source", kind: counter,
			labels: each("source", "local_compute", "local_cache_hit", "external_kv_transfer")},
		{name: "vllm:prompt_tokens_cached", kind: counter, labels: one},
		{name: "vllm:prompt_tokens_cached_by_source", kind: counter,
			labels: each("source", "device", "host", "p2p", "disk", "external_unspecified")},
		{name: "vllm:generation_tokens", kind: counter, labels: one},
		{name: "vllm:request_success", kind: counter,
			labels: each("finished_reason", "stop", "length", "abort", "error", "repetition")},
		{name: "vllm:admission_rejections", kind: counter, labels: [][]string{
			{"model_name", c.Names[0], "reason", "max_num_queued_reqs"},
			{"model_name", c.Names[0], "reason", "max_num_queued_tokens"}}},
	}
}

// requestFamilies are the histograms of lengths and times of requests.
func requestFamilies(lengths []float64, one [][]string) []*family {
	return []*family{
		{name: "vllm:request_prompt_tokens", kind: histogram, buckets: lengths, labels: one},
		{name: "vllm:request_generation_tokens", kind: histogram, buckets: lengths, labels: one},
		{name: "vllm:iteration_tokens_total", kind: histogram, buckets: iterationBuckets, labels: one},
		{name: "vllm:request_max_num_generation_tokens", kind: histogram, buckets: lengths, labels: one},
		{name: "vllm:request_params_n", kind: histogram, buckets: choiceBuckets, labels: one},
		{name: "vllm:request_params_max_tokens", kind: histogram, buckets: lengths, labels: one},
		{name: "vllm:time_to_first_token_seconds", kind: histogram, buckets: firstTokenBuckets, labels: one},
		{name: "vllm:inter_token_latency_seconds", kind: histogram, buckets: tokenBuckets, labels: one},
		{name: "vllm:request_time_per_output_token_seconds", kind: histogram, buckets: tokenBuckets,
			labels: one},
		{name: "vllm:e2e_request_latency_seconds", kind: histogram, buckets: latencyBuckets, labels: one},
		{name: "vllm:request_queue_time_seconds", kind: histogram, buckets: latencyBuckets, labels: one},
		{name: "vllm:request_inference_time_seconds", kind: histogram, buckets: latencyBuckets, labels: one},
		{name: "vllm:request_prefill_time_seconds", kind: histogram, buckets: latencyBuckets, labels: one},
		{name: "vllm:request_decode_time_seconds", kind: histogram, buckets: latencyBuckets, labels: one},
		{name: "vllm:request_num_preemptions", kind: histogram, buckets: preemptionBuckets, labels: one},
		{name: "vllm:request_prefill_kv_computed_tokens", kind: histogram, buckets: lengths, labels: one},
	}
}

// httpFamilies are those of the server's HTTP library.
func httpFamilies() []*family {
	return []*family{
		{name: "http_requests", kind: counter},
		{name: "http_request_size_bytes", kind: summary},
		{name: "http_response_size_bytes", kind: summary},
		{name: "http_request_duration_highr_seconds", kind: histogram, buckets: httpFineBuckets,
			labels: [][]string{{}}},
		{name: "http_request_duration_seconds", kind: histogram, buckets: httpBuckets},
	}
}

// transferFamilies are there only with a KV connector.
func transferFamilies(one [][]string) []*family {
	return []*family{
		{name: "vllm:nixl_xfer_time_seconds", kind: histogram, buckets: transferBuckets, labels: one},
		{name: "vllm:nixl_post_time_seconds", kind: histogram, buckets: postBuckets, labels: one},
		{name: "vllm:nixl_bytes_transferred", kind: histogram, buckets: byteBuckets, labels: one},
		{name: "vllm:nixl_num_descriptors", kind: histogram, buckets: descriptorBuckets, labels: one},
		{name: "vllm:nixl_num_failed_transfers", kind: counter, labels: one},
		{name: "vllm:nixl_num_failed_notifications", kind: counter, labels: one},
		{name: "vllm:nixl_num_kv_expired_reqs", kind: counter, labels: one},
		{name: "vllm:nixl_num_notifications_after_expiry", kind: counter, labels: one},
	}
}

// insertLabel returns the labels with one more, sorted by name.
func insertLabel(base []string, name, value string) []string {
	var set []string
	placed := false
	for i := 0; i < len(base); i += 2 {
		if !placed && name < base[i] {
			set, placed = append(set, name, value), true
		}
		set = append(set, base[i], base[i+1])
	}
	if !placed {
		set = append(set, name, value)
	}
	return set
}

// cacheLabels are those of vLLM's labels that have a meaning here.
func cacheLabels(c Config, tokens int) []string {
	caching := "False"
	if c.Prefix {
		caching = "True"
	}
	return []string{
		"block_size", strconv.Itoa(c.BlockSize),
		"cache_dtype", "auto",
		"enable_prefix_caching", caching,
		"engine", "0",
		"kv_cache_max_concurrency", number(float64(tokens) / float64(c.MaxLen)),
		"kv_cache_size_tokens", strconv.Itoa(tokens),
		"num_gpu_blocks", strconv.Itoa(tokens / c.BlockSize),
	}
}

// setFixed gives the metrics that do not move their values. Memory and file counts are left at 0.
func setFixed(r *registry, c Config, start time.Time) {
	r.set("process_start_time_seconds", Seconds(start))
	r.set("vllm:engine_sleep_state", 1, "sleep_state", "awake")
	r.set("vllm:cache_config_info", 1)
}
