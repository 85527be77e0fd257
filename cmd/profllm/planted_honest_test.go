package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// honestVariations are loads, services and files that are unusual and not wrong.
var honestVariations = []planted{
	{part: "client", what: "One request at a time", load: keys{"max_concurrency": "1", "num_prompts": "40"}},
	{part: "client", what: "Two requests at a time", load: keys{"max_concurrency": "2"}},
	{part: "client", what: "32 requests at a time", load: keys{"max_concurrency": "32", "num_prompts": "600"}},
	{part: "client", what: "A rate that the server can serve", load: keys{"request_rate": "50", "num_prompts": "120", "max_concurrency": ""}},
	{part: "client", what: "A rate of evenly spaced requests", load: keys{"request_rate": "50", "burstiness": "100.0", "num_prompts": "120", "max_concurrency": ""}},
	{part: "client", what: "A rate of bursts", load: keys{"request_rate": "40", "burstiness": "0.5", "num_prompts": "160", "max_concurrency": ""}},
	{part: "client", what: "A rate with a limit of requests in flight that is never met", load: keys{"request_rate": "40", "num_prompts": "120", "max_concurrency": "64"}},
	{part: "client", what: "A rate above what the limit of requests in flight lets through", load: keys{"request_rate": "2000", "num_prompts": "120"}},
	{part: "client", what: "Just five rounds of requests", load: keys{"num_prompts": "40"}},
	{part: "client", what: "No per-request details", load: keys{"save_detailed": ""}},
	{part: "client", what: "Another seed", load: keys{"seed": "7"}},
	{part: "client", what: "Prompts of unequal length", load: keys{"random_range_ratio": "0.5"}},
	{part: "client", what: "Prompts of eight tokens", load: keys{"random_input_len": "8"}},
	{part: "client", what: "Prompts of 2,000 tokens", load: keys{"random_input_len": "2000"}},
	{part: "client", what: "Answers of 100 tokens", load: keys{"random_output_len": "100"}},
	{part: "client", what: "Answers of two tokens", load: keys{"random_output_len": "2"}},
	{part: "client", what: "Answers of one token", load: keys{"random_output_len": "1"}},
	{part: "client", what: "Many prompts", load: keys{"num_prompts": "600", "max_concurrency": "16"}},
	{part: "client", what: "The load client of profllm", test: keys{"client": `"profllm"`}},
	{part: "client", what: "Another client sends one request", beside: "load --num-prompts 1 --random-input-len 8 --random-output-len 1"},
	{part: "client", what: "A goodput whose limits some requests miss", load: keys{"goodput": `["ttft:20", "tpot:5"]`}},
	{part: "client", what: "Warm-up requests before the load", load: keys{"num_warmups": "8"}},

	{part: "server", what: "Streams end without [DONE]", faults: "serve:no-done"},
	{part: "server", what: "The server needs two seconds to start", env: keys{"PROFLLM_SIM_STARTUP": `"2s"`}},
	{part: "server", what: "A slow server", env: keys{"PROFLLM_SIM_TTFT": `"300ms"`, "PROFLLM_SIM_ITL": `"20ms"`}},
	{part: "server", what: "A very fast server", env: keys{"PROFLLM_SIM_TTFT": `"4ms"`, "PROFLLM_SIM_ITL": `"1ms"`}},
	{part: "server", what: "Latencies that vary by 30 %", env: keys{"PROFLLM_SIM_JITTER": `"0.3"`}},
	{part: "server", what: "Latencies that vary by 80 %", env: keys{"PROFLLM_SIM_JITTER": `"0.8"`}},
	{part: "server", what: "Tokens of one byte", env: keys{"PROFLLM_SIM_TOKENS": `"bytes"`}},
	{part: "server", what: "The server admits fewer requests than are sent", test: keys{"cmd_args.decode.max_num_seqs": "4"}, load: keys{"num_prompts": "80"}},
	{part: "server", what: "The served model has another name", test: keys{"cmd_args.decode.served_model_name": `"qwen"`, "cmd_args.engine_version": `"0.11"`}, load: keys{"served_model_name": `"qwen"`}, look: rightServer},

	{part: "engine", what: "The engine counts 1 % more output tokens than it sends", faults: "serve:miscount=1.01"},
	{part: "engine", what: "3 % of every prompt is found in the prefix cache", faults: "serve:warm=0.03"},
	{part: "engine", what: "A preemption is possible and does not happen", faults: "serve:preempt=0"},
	{part: "engine", what: "Corruption is counted and does not happen", faults: "serve:corrupt=0.000001"},
	{part: "engine", what: "The first two requests of 80 are slow", faults: "serve:cold=2", load: keys{"num_prompts": "80"}},
	{part: "engine", what: "Each request is 20 microseconds slower", faults: "serve:slowing=20us", load: keys{"num_prompts": "80"}},

	{part: "service", what: "Prefill and decode on two nodes", shape: "pd", look: proxyWithoutErrors},
	{part: "service", what: "Two prefill and three decode instances", shape: "replicas", load: keys{"num_prompts": "90"}},
	{part: "service", what: "A server over two nodes on Ray", shape: "ray"},
	{part: "service", what: "SGLang with its own client", shape: "sglang"},
	{part: "service", what: "An evaluation after the load", shape: "eval", words: []string{"accuracy-subset"}},
	{part: "service", what: "A model with a poor accuracy", shape: "eval", env: keys{"PROFLLM_SIM_ACCURACY": `"0.2"`}, words: []string{"accuracy-subset"}},

	{part: "node", what: "All planned GPUs work, one foreign GPU is accepted", shape: "gpus", faults: "gpu:use=4/0.9"},
	{part: "node", what: "A few power samples are missing", shape: "gpus", faults: "gpu:use=4/0,skip=0.02"},
	{part: "node", what: "Heat slows a GPU in 2 % of the samples", shape: "gpus", faults: "gpu:use=4/0,heat=0/0.02"},

	{part: "file", what: "The client's result is packed", after: packedInPlace(benchFile)},
	{part: "file", what: "The logs are packed", after: packedInPlace("logs/serve-0.log")},
	{part: "file", what: "The client's result was written twice", after: twice(benchFile)},
	{part: "file", what: "A result of another program lies beside the client's", after: func(t *testing.T, dir string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "raw/sglang-bench.jsonl"),
			[]byte(`{"request_throughput": 1024.0, "completed": 80}`+"\n"), 0o644))
	}},
	{part: "file", what: "A counter of the engine is not a number", after: appended("raw/metrics-serve-bench.prom", "vllm:inter_token_latency_seconds_sum{engine=\"0\",model_name=\"m\"} NaN\n")},
}

// packedInPlace replaces a file by the same packed with xz.
func packedInPlace(name string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		path := filepath.Join(dir, name)
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path+".xz", pack(t, data), 0o644))
		require.NoError(t, os.Remove(path))
	}
}

// twice appends a file to itself, as a client does that is told to append.
func twice(name string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		path := filepath.Join(dir, name)
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, append(append(data, '\n'), data...), 0o644))
	}
}

// appended adds a text to a file.
func appended(name, text string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = f.WriteString(text)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
}
