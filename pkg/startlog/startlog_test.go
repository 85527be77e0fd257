package startlog_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/startlog"
)

// capacityOf reads logs of one instance.
func capacityOf(t *testing.T, logs ...string) *result.Capacity {
	t.Helper()
	var s startlog.Start
	for _, l := range logs {
		require.NoError(t, s.Add(strings.NewReader(l)))
	}
	return s.Capacity()
}

// phase is a phase by its duration and its end; -1: not known.
func phase(name string, duration, end float64) result.StartPhase {
	p := result.StartPhase{Name: name, Duration: &duration, End: &end}
	if duration < 0 {
		p.Duration = nil
	}
	if end < 0 {
		p.End = nil
	}
	return p
}

// The log of a real vLLM 0.32.0 on CPUs.
//
// covers: UC-9
func TestRealLog(t *testing.T) {
	data, err := os.ReadFile("../failure/testdata/logs/serve-ok.log")
	require.NoError(t, err)
	require.Equal(t, &result.Capacity{
		Engines: 1, KVCacheTokens: new(int64(524288)), KVCacheGiB: new(1.0), RequestTokens: new(int64(2048)),
		Concurrency: new(256.0),
		Startup: []result.StartPhase{
			phase(result.PhaseBeforeLoading, 18, 18), phase(result.PhaseEngine, 1.74, 21), phase(result.PhaseReady, -1, 22),
		},
	}, capacityOf(t, string(data)))
}

// Two workers of one engine: the room is that of the smaller, the memory that of the larger. The
// lines have the form of the releases, from their sources and from logs in their issues.
func TestReleases(t *testing.T) {
	for _, c := range []struct {
		name, log string
		want      result.Capacity
	}{
		{"0.33, tensor parallel", `
(APIServer pid=1) INFO 12-31 23:59:50 [api_utils.py:286] non-default args: {}
(Worker_TP0 pid=34322) INFO 01-01 00:00:00 [gpu_model_runner.py:4979] Starting to load model m...
Loading safetensors checkpoint shards: 100% Completed | 9/9 [00:29<00:00,  3.28s/it]
(Worker_TP0 pid=34322)
(Worker_TP0 pid=34322) INFO 01-01 00:00:25 [default_loader.py:507] Loading weights took 24.84 seconds
(Worker_TP0 pid=34322) INFO 01-01 00:00:30 [gpu_model_runner.py:5089] Model loading took 12.66 GiB memory and 29.657031 seconds
(Worker_TP1 pid=34323) INFO 01-01 00:00:31 [gpu_model_runner.py:5089] Model loading took 12.7 GiB memory and 30.1 seconds
(Worker_TP0 pid=34322) INFO 01-01 00:00:50 [monitor.py:48] [backbone] torch.compile took 18.10 s in total
(Worker_TP0 pid=34322) INFO 01-01 00:00:51 [monitor.py:76] [backbone] Initial profiling/warmup run took 0.11 s
(Worker_TP0 pid=34322) INFO 01-01 00:00:52 [gpu_worker.py:773] Available KV cache memory: 56.18 GiB
(Worker_TP1 pid=34323) INFO 01-01 00:00:52 [gpu_worker.py:773] Available KV cache memory: 55.9 GiB
(EngineCore pid=9) INFO 01-01 00:00:52 [kv_cache_utils.py:1148] GPU KV cache size: 1,839,104 tokens, Maximum concurrency for 131,072 tokens per request: 14.03x
(Worker_TP0 pid=34322) INFO 01-01 00:01:10 [gpu_model_runner.py:6517] Graph capturing finished in 15 secs, took 0.84 GiB
(EngineCore pid=9) INFO 01-01 00:01:11 [core.py:396] init engine (profile, create kv cache, warmup model) took 40.12 s (compilation: 18.10 s)
(APIServer pid=1) INFO:     Application startup complete.
(EngineCore pid=9) INFO 01-01 00:09:11 [kv_cache_utils.py:1148] GPU KV cache size: 1 tokens
`, result.Capacity{
			Engines: 1, KVCacheTokens: new(int64(1839104)), KVCacheGiB: new(55.9), RequestTokens: new(int64(131072)),
			Concurrency: new(14.03), WeightsGiB: new(12.7), GraphsGiB: new(0.84), Startup: []result.StartPhase{
				phase(result.PhaseBeforeLoading, 10, 10), phase(result.PhaseWeights, 24.84, 35),
				phase(result.PhaseModelLoading, 30.1, 41), phase(result.PhaseCompile, 18.1, 60),
				phase(result.PhaseGraphs, 15, 80), phase(result.PhaseEngine, 40.12, 81), phase(result.PhaseReady, -1, 81),
			},
		}},
		{"0.12, two data-parallel ranks", `
(EngineCore_DP0 pid=5) INFO 09-21 12:30:37 [gpu_model_runner.py:2581] Model loading took 2.2845 GiB and 74.270197 seconds
(EngineCore_DP0 pid=5) INFO 09-21 12:30:47 [kv_cache_utils.py:900] GPU KV cache size: 52,432 tokens
(EngineCore_DP0 pid=5) INFO 09-21 12:30:47 [kv_cache_utils.py:904] Maximum concurrency for 8,192 tokens per request: 6.40x
(EngineCore_DP1 pid=6) INFO 09-21 12:30:47 [kv_cache_utils.py:900] GPU KV cache size: 52,416 tokens
(EngineCore_DP1 pid=6) INFO 09-21 12:30:47 [kv_cache_utils.py:904] Maximum concurrency for 8,192 tokens per request: 6.39x
`, result.Capacity{
			Engines: 2, KVCacheTokens: new(int64(52416)), RequestTokens: new(int64(8192)), Concurrency: new(6.39),
			WeightsGiB: new(2.2845), Startup: []result.StartPhase{phase(result.PhaseModelLoading, 74.270197, 0)},
		}},
		{"0.8, V0", `
INFO 03-21 20:15:10 [model_runner.py:1140] Model loading took 12.5523 GB and 6.5 seconds
INFO 03-21 20:15:44 [monitor.py:33] torch.compile takes 28.77 s in total
INFO 03-21 20:15:45 [worker.py:267] Memory profiling takes 34.26 seconds
INFO 03-21 20:15:45 [worker.py:267] model weights take 12.55GiB; the rest of the memory reserved for KV Cache is 56.18GiB.
INFO 03-21 20:15:46 [executor_base.py:111] # cuda blocks: 7191, # CPU blocks: 512
INFO 03-21 20:15:46 [executor_base.py:116] Maximum concurrency for 2048 tokens per request: 56.18x
INFO 03-21 20:16:00 [model_runner.py:1592] Graph capturing finished in 12 secs, took 0.21 GiB
INFO 03-21 20:16:00 [llm_engine.py:447] init engine (profile, create kv cache, warmup model) took 50.01 seconds
`, result.Capacity{
			Engines: 1, KVCacheBlocks: new(int64(7191)), KVCacheGiB: new(56.18), RequestTokens: new(int64(2048)),
			Concurrency: new(56.18), WeightsGiB: new(12.5523), GraphsGiB: new(0.21), Startup: []result.StartPhase{
				phase(result.PhaseModelLoading, 6.5, 0), phase(result.PhaseProfiling, 34.26, 35),
				phase(result.PhaseCompile, 28.77, 34), phase(result.PhaseGraphs, 12, 50), phase(result.PhaseEngine, 50.01, 50),
			},
		}},
		{"0.6, without brackets", `
INFO 02-02 18:01:24 model_runner.py:926] Loading model weights took 30.7098 GB
INFO 02-02 18:01:30 gpu_executor.py:122] # GPU blocks: 1381, # CPU blocks: 2048
INFO 02-02 18:01:42 model_runner.py:1335] Graph capturing finished in 9 secs.
`, result.Capacity{
			Engines: 1, KVCacheBlocks: new(int64(1381)), WeightsGiB: new(30.7098), Startup: []result.StartPhase{
				phase(result.PhaseModelLoading, -1, 0), phase(result.PhaseGraphs, 9, 18),
			},
		}},
		{"colours, progress bars and long lines", strings.Repeat("x", 20000) + "\n" +
			"Loading: 50%\rLoading: 100%\r\x1b[0;36m(EngineCore pid=3)\x1b[0;0m INFO 11-21 01:57:33 [k.py:7] " +
			"GPU KV cache size: 16 tokens, Maximum concurrency for 2,048 tokens per request: 0.01x" +
			strings.Repeat(" ", 9000),
			result.Capacity{Engines: 1, KVCacheTokens: new(int64(16)), RequestTokens: new(int64(2048)), Concurrency: new(0.01)}},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, &c.want, capacityOf(t, c.log)) })
	}
}

// The logs of the nodes of one instance make one answer.
func TestSeveralLogs(t *testing.T) {
	line := "(EngineCore_DP%s pid=7) INFO 11-21 01:57:33 [k.py:7] GPU KV cache size: %s tokens\n"
	head := strings.NewReplacer("%s tokens", "1,000 tokens", "DP%s", "DP0").Replace(line)
	other := strings.NewReplacer("%s tokens", "900 tokens", "DP%s", "DP1").Replace(line)
	c := capacityOf(t, head, other)
	require.Equal(t, 2, c.Engines)
	require.Equal(t, int64(900), *c.KVCacheTokens)
}

// Text that only looks like such lines says nothing.
func TestOtherText(t *testing.T) {
	for name, log := range map[string]string{
		"nothing":     "",
		"a proxy":     "INFO:     Application startup complete.\n",
		"no level":    "[k.py:7] GPU KV cache size: 16 tokens\n",
		"inside text": "INFO 11-21 01:57:33 [k.py:7] the user wrote: GPU KV cache size: 16 tokens\n",
		"negative":    "INFO 11-21 01:57:33 worker.py:267] the rest of the memory reserved for KV Cache is -1.05GiB.\n",
		"reloaded":    "INFO 11-21 01:57:33 [k.py:7] Reloading and processing weights took 1.00 seconds\n",
		"zero":        "INFO 11-21 01:57:33 [k.py:7] GPU KV cache size: 0 tokens\n",
	} {
		require.Nil(t, capacityOf(t, log), name)
	}
}

func FuzzAdd(f *testing.F) {
	files, _ := filepath.Glob("../failure/testdata/logs/*.log")
	require.NotEmpty(f, files)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Add([]byte("[2026-10-10 11:59:01 DP0 TP0] KV Cache is allocated. #tokens: 12, K size: 1 GB, V size: 2 GB\n[2026-10-10 11:59:02] server_args=ServerArgs(a=1)"))
	f.Add([]byte("INFO 02-02 18:01:42 model_runner.py:1335] Graph capturing finished in 9 secs.\r\x1b["))
	f.Fuzz(func(t *testing.T, data []byte) {
		var s startlog.Start
		require.NoError(t, s.Add(strings.NewReader(string(data))))
		_, err := json.Marshal(s.Resolved())
		require.NoError(t, err)
		c := s.Capacity()
		if c == nil {
			return
		}
		require.GreaterOrEqual(t, c.Engines, 0)
		for _, v := range []*float64{c.KVCacheGiB, c.Concurrency, c.WeightsGiB, c.GraphsGiB} {
			require.False(t, v != nil && !(*v >= 0 && *v <= 1e15))
		}
		for _, p := range c.Startup {
			require.False(t, p.Duration != nil && !(*p.Duration >= 0 && *p.Duration <= 1e15))
			require.False(t, p.End != nil && *p.End < 0)
		}
	})
}

// What the options came to is in the engine's own line. Commas within brackets and quotes part
// nothing, and a line that is cut short loses its last option.
//
// covers: OUT-2, SCH-5
func TestResolved(t *testing.T) {
	const begin = "(EngineCore_DP0 pid=7) INFO 11-26 01:02:03 [core.py:81] Initializing a V1 LLM engine (v0.32.0) with config: "
	for text, want := range map[string]map[string]any{
		begin + `model='/m, n', speculative_config=None, dtype=torch.float32, max_seq_len=2048, enforce_eager=True, ` +
			`pooler=Pooler(a='x', b=[1, 2]), compilation_config={'mode': <Mode.NONE: 0>, 'sizes': [1, 2]}, share=0.5, seed=-1`: {
			"model": "/m, n", "speculative_config": nil, "dtype": "torch.float32", "max_seq_len": int64(2048), "enforce_eager": true,
			"pooler": "Pooler(a='x', b=[1, 2])", "compilation_config": "{'mode': <Mode.NONE: 0>, 'sizes': [1, 2]}", "share": 0.5, "seed": int64(-1),
		},
		begin + `seed=1, compilation_config={'mode': 1, 'x`: {"seed": int64(1)},
		"INFO 11-26 01:02:03 llm_engine.py:237] Initializing an LLM engine (v0.6.3) with config: model='m', use_v2=False, ": {
			"model": "m", "use_v2": false},
		"INFO 11-26 01:02:03 [core.py:81] Initializing a V1 LLM engine (v0.32.0) with config: nothing": nil,
		"INFO 11-26 01:02:03 [core.py:81] model='m'":                                                   nil,
	} {
		var s startlog.Start
		require.NoError(t, s.Add(strings.NewReader(text+"\n")))
		require.Equal(t, want, s.Resolved())
	}
}
