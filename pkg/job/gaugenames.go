package job

import "github.com/profllm/profllm/pkg/promtext"

// gaugeNames are what an engine's /metrics page calls the numbers that are sampled during a load.
type gaugeNames struct {
	running, waiting, cache string // requests, requests, share of the KV cache

	// generated counts the tokens of answers as they come, "" where there is no such counter: that of
	// SGLang moves when a request ends.
	generated string
}

// gaugesByEngine are those of vLLM, SGLang and TensorRT-LLM. docs/reference/engines.md has them
// too.
var gaugesByEngine = []gaugeNames{
	{"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc",
		"vllm:generation_tokens_total"},
	{"sglang:num_running_reqs", "sglang:num_queue_reqs", "sglang:token_usage", ""},
	{"trtllm_num_requests_running", "trtllm_num_requests_waiting", "trtllm_kv_cache_utilization", ""},
}

// gaugesOn are the names of the engine whose page has a number of requests, false for a page of
// none.
func gaugesOn(page *promtext.Snapshot) (gaugeNames, bool) {
	for _, names := range gaugesByEngine {
		if _, ok := page.Sum(names.running); ok {
			return names, true
		}
	}
	return gaugeNames{}, false
}
