package planner

import (
	"encoding/json"
	"strings"
)

// paceKeys are options of the clients that decide when requests are sent, how long
// answers are and what is written, not what the prompts are. The number of prompts is
// among them: of two numbers the smaller may be the beginning of the larger.
var paceKeys = []string{
	"num_prompts", "max_concurrency", "request_rate", "burstiness", "ramp_up_strategy", "ramp_up_start_rps",
	"ramp_up_end_rps",
	"num_warmups", "warmup_requests", "ready_check_timeout_sec", "random_output_len", "random_output", "output_len",
	"sharegpt_output_len",
	"hf_output_len", "custom_output_len", "sonnet_output_len", "ignore_eos", "disable_ignore_eos", "temperature",
	"top_p", "top_k", "min_p",
	"logprobs", "percentile_metrics", "metric_percentiles", "goodput", "save_result", "save_detailed", "append_result",
	"output_details",
	"label", "metadata", "disable_tqdm", "disable_stream", "profile",
	"request_count", "num_requests", "concurrency", "prefill_concurrency", "arrival_pattern", "request_rate_mode",
	"arrival_smoothness", "warmup_request_count", "num_warmup_requests", "warmup_duration", "benchmark_duration",
	"benchmark_grace_period", "output_tokens_mean", "osl", "prompt_output_tokens_mean", "output_tokens_stddev",
	"osl_stddev", "prompt_output_tokens_stddev", "streaming", "use_server_token_count", "server_metrics",
	"no_server_metrics", "gpu_telemetry", "slice_duration", "export_level",
}

// promptsOf is the same for clients whose options give the same prompts.
func promptsOf(options map[string]any) (string, error) {
	left := map[string]any{}
	for key, v := range options {
		left[strings.ReplaceAll(key, "-", "_")] = v
	}
	for _, key := range paceKeys {
		delete(left, key)
	}
	text, err := json.Marshal(left)
	return string(text), err
}
