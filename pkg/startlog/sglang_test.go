package startlog_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/startlog"
)

// The lines have the form of SGLang's releases, from their sources and from logs in their issues.
//
// covers: UC-9
func TestSGLang(t *testing.T) {
	for _, c := range []struct {
		name, log string
		want      *result.Capacity
	}{
		{"0.4, tensor parallel", `
[2026-08-08 03:34:00 TP0] Load weight begin. avail mem=15.01 GB
[2026-08-08 03:34:30 TP0] Load weight end. type=Qwen3ForCausalLM, dtype=torch.bfloat16, avail mem=13.91 GB, mem usage=1.25 GB.
[2026-08-08 03:34:31 TP1] Load weight end. type=Qwen3ForCausalLM, dtype=torch.bfloat16, avail mem=13.9 GB, mem usage=1.5 GB.
[2026-08-08 03:34:31 TP0] KV Cache is allocated. #tokens: 104273, K size: 5.57 GB, V size: 5.57 GB
[2026-08-08 03:34:31 TP1] KV Cache is allocated. #tokens: 104273, K size: 5.5 GB, V size: 5.5 GB
[2026-08-08 03:34:31 TP0] Memory pool end. avail mem=2.43 GB
Capturing batches (bs=1 avail_mem=1.72 GB): 100%|████| 4/4 [00:18<00:00,  4.57s/it]
[2026-08-08 03:34:50 TP0] Capture cuda graph end. Time elapsed: 18.28 s. mem usage=0.11 GB. avail mem=1.70 GB.
[2026-08-08 03:34:57 TP0] max_total_num_tokens=104273, chunked_prefill_size=2048, max_prefill_tokens=16384, max_running_requests=2048, context_len=40960, available_gpu_mem=1.70 GB
[2026-08-08 03:34:58] INFO:     Application startup complete.
[2026-08-08 03:35:18] The server is fired up and ready to roll!
[2026-08-08 03:36:18 TP0] max_total_num_tokens=1, context_len=1
`, &result.Capacity{
			Engines: 1, KVCacheTokens: new(int64(104273)), KVCacheGiB: new(11.0), RequestTokens: new(int64(40960)),
			Concurrency: new(104273.0 / 40960), WeightsGiB: new(1.5), GraphsGiB: new(0.11), Startup: []result.StartPhase{
				phase(result.PhaseBeforeLoading, 0, 0), phase(result.PhaseModelLoading, -1, 31), phase(result.PhaseGraphs, 18.28, 50),
				phase(result.PhaseReady, -1, 78),
			},
		}},
		{"0.5.23, two data-parallel ranks and a draft model", `
[2026-10-10 11:59:00 DP0 TP0] Load weight end. elapsed=19.55 s, type=M, quant=gptq, bits=4, avail mem=88.21 GB, mem usage=22.47 GB.
[2026-10-10 11:59:01 DP0 TP0] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 1226984, KV size: 9.21 GB
[2026-10-10 11:59:01 DP1 TP0] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 1226984, KV size: 9.31 GB
[2026-10-10 11:59:02 DP0 TP0] Load weight end. elapsed=2.50 s, type=Draft, avail mem=30.67 GB, mem usage=-1.86 GB.
[2026-10-10 11:59:02 DP0 TP0] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 1226984, KV size: 0.33 GB
[2026-10-10 11:59:12 DP0 TP0] Capture target decode CUDA graph end. elapsed=10.10 s, mem usage=0.79 GB, avail mem=10.39 GB.
[2026-10-10 11:59:13 DP0 TP0] Capture draft decode CUDA graph end. elapsed=2.17 s
[2026-10-10 11:59:13 DP0 TP0] max_total_num_tokens=1226984, chunked_prefill_size=8192, context_len=262144, available_gpu_mem=10.39 GB
`, &result.Capacity{
			Engines: 2, KVCacheTokens: new(int64(1226984)), KVCacheGiB: new(9.21), RequestTokens: new(int64(262144)),
			Concurrency: new(1226984.0 / 262144), WeightsGiB: new(22.47), GraphsGiB: new(0.79), Startup: []result.StartPhase{
				phase(result.PhaseModelLoading, 19.55, 2), phase(result.PhaseGraphs, 10.1, 13),
			},
		}},
		{"a request's text", "[2026-10-10 11:59:00] the user wrote: KV Cache is allocated. #tokens: 7, KV size: 1 GB\n", nil},
		{"a router", "[2026-10-10 11:59:00] INFO: max_total_num_tokens\n", nil},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, capacityOf(t, c.log)) })
	}
}

// The options of SGLang's server, without its keys.
//
// covers: OUT-2
func TestResolvedOfSGLang(t *testing.T) {
	var s startlog.Start
	require.NoError(t, s.Add(strings.NewReader("[2026-10-10 11:59:00] server_args=ServerArgs(model_path='m', tp_size=2, "+
		"api_key='hunter2', admin_api_key='hunter2', ssl_keyfile_password='hunter2', schedule_policy='fcfs', mem_fraction_static=0.85, "+
		"lora_paths=None, cuda_graph_bs=[1, 2], enable_p2p_check=False)\n")))
	require.Equal(t, map[string]any{
		"model_path": "m", "tp_size": int64(2), "schedule_policy": "fcfs", "mem_fraction_static": 0.85, "lora_paths": nil,
		"cuda_graph_bs": "[1, 2]", "enable_p2p_check": false,
	}, s.Resolved())
}
