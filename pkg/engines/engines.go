// Package engines holds what differs between inference engines, as data: a further engine is a
// further row. How a run is planned for an engine is with its workload; what only names things is
// here.
//
//	e := engines.Of(func(name string) bool { return page.Has(name) })
package engines

// An Engine is a row of the table.
type Engine struct {
	Name  string
	Serve string // command of the server, up to the model
	Port  int    // of its API, unless it is told another
	Bench string // command of its own load client

	InputLen, OutputLen string // options of the client: tokens of a random prompt and of its answer
	Rate, Concurrency   string // options that limit the load, "" for none
	Model               string // the client's model: auto (asked of the server), or the option that it needs
	Result              string // options that name the file of results

	Parallel string // options of the server for TP, PP, DP, EP
	Note     string

	Gauges Gauges
}

// Gauges are the names on an engine's /metrics page of what profllm samples during a load.
type Gauges struct {
	Running, Waiting, Cache string // requests, requests, share of the KV cache

	// Generated counts the tokens of answers as they come, "" where there is no such counter: that of
	// SGLang moves when a request ends.
	Generated string
}

// All are the engines of the table. Only vLLM and SGLang have a workload so far.
var All = []Engine{
	{
		Name: "vLLM", Serve: "vllm serve", Port: 8000, Bench: "vllm bench serve",
		InputLen: "--random-input-len", OutputLen: "--random-output-len",
		Rate: "--request-rate", Concurrency: "--max-concurrency",
		Model: "auto", Result: "--result-dir, --result-filename",
		Parallel: "--tensor-parallel-size, --pipeline-parallel-size, --data-parallel-size, --enable-expert-parallel",
		Gauges: Gauges{Running: "vllm:num_requests_running", Waiting: "vllm:num_requests_waiting",
			Cache: "vllm:kv_cache_usage_perc", Generated: "vllm:generation_tokens_total"},
	},
	{
		Name: "SGLang", Serve: "python3 -m sglang.launch_server --model-path", Port: 30000,
		Bench:    "python3 -m sglang.bench_serving",
		InputLen: "--random-input-len", OutputLen: "--random-output-len",
		Rate: "--request-rate", Concurrency: "--max-concurrency",
		Model: "auto", Result: "--output-file",
		Parallel: "--tp, --pp, --dp, --ep",
		Note:     "DP over several nodes needs --enable-dp-attention; /metrics needs --enable-metrics",
		Gauges: Gauges{Running: "sglang:num_running_reqs", Waiting: "sglang:num_queue_reqs",
			Cache: "sglang:token_usage"},
	},
	{
		Name: "TensorRT-LLM", Serve: "trtllm-serve", Port: 8000,
		Bench:    "python3 -m tensorrt_llm.serve.scripts.benchmark_serving",
		InputLen: "--random-input-len", OutputLen: "--random-output-len",
		Concurrency: "--max-concurrency",
		Model:       "--model", Result: "--result-dir, --result-filename",
		Parallel: "--tp_size, --pp_size, --ep_size",
		Note:     "random prompts also need --random-ids --random-prefix-len 0 --ignore-eos; only the first node is used",
		Gauges: Gauges{Running: "trtllm_num_requests_running", Waiting: "trtllm_num_requests_waiting",
			Cache: "trtllm_kv_cache_utilization"},
	},
}

// Of is the engine whose /metrics page has a number of requests; nil if it is none of the table's.
func Of(has func(name string) bool) *Engine {
	for i := range All {
		if has(All[i].Gauges.Running) {
			return &All[i]
		}
	}
	return nil
}
