package collect_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"

	"github.com/profllm/profllm/pkg/collect"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

const (
	noMemory = "(EngineCore pid=7) ERROR 11-21 %s [core.py:1] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB.\n"
	refused  = "aiohttp.client_exceptions.ClientConnectorError: Cannot connect to host n2:8503 ssl:default [Connect call failed ('n2', 8503)]\n"
)

// lost makes a finish.json in which the client was ended because decode had died
// with the given code, and an event that says so.
func lost(t *testing.T, dir string, code int) {
	t.Helper()
	write(t, dir, run.SentinelFile,
		fmt.Sprintf(`{"schema":"profllm.finish/1","job_id":"20537","time":"2026-11-21T04:56:07Z","code":1,
		"phases":[{"name":"ready","code":0},{"name":"bench","code":-1}],"roles":[{"name":"prefill","code":143},{"name":"decode","code":%d}]}`, code))
	f, err := os.OpenFile(filepath.Join(dir, "events.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(`{"time":"2026-11-21T04:56:05Z","event":"role-died","role":"decode","text":"while a client ran"}` + "\n")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	remove(t, dir, "raw/vllm-bench.json", "raw/vllm-gsm8k.json")
}

// allFailed makes a run whose client failed since every request did, as AIPerf 0.13 does.
func allFailed(t *testing.T, dir string) {
	t.Helper()
	write(t, dir, run.SentinelFile,
		`{"schema":"profllm.finish/1","time":"2026-11-21T04:56:07Z","code":5,"phases":[{"name":"ready","code":0},{"name":"bench","code":1}]}`)
	remove(t, dir, "raw/vllm-bench.json", "raw/vllm-gsm8k.json")
	write(t, dir, "logs/bench-0.log", "19:46:34.842 ERROR    All 8 inference request(s) failed; no successful responses were collected. (system_controller.py:2370)\n")
}

// covers: PL-F2, PL-F4, PL-F5, PL-F7, PL-F15, U-24
func TestCauseOfDeath(t *testing.T) {
	for name, tt := range map[string]struct {
		change     func(t *testing.T, dir string)
		state      *run.State
		cause      string
		role, node string
		confidence result.Confidence
	}{
		"killed, and its client noticed": {func(t *testing.T, dir string) {
			lost(t, dir, 137)
			write(t, dir, "logs/bench-0.log", refused)
		}, nil, "process-killed", "decode", "127.0.1.2", result.FromState},
		"stopped by us is no death": {func(t *testing.T, dir string) {
			lost(t, dir, 3)
			write(t, dir, "logs/decode-0.log", "serve: error: gave up\n")
		}, nil, "error-message", "decode", "127.0.1.2", result.FromSymptom},
		"a client by its own code": {func(t *testing.T, dir string) {
			write(t, dir, run.SentinelFile,
				`{"schema":"profllm.finish/1","time":"2026-11-21T04:56:07Z","code":5,"phases":[{"name":"ready","code":0},{"name":"bench","code":137}]}`)
			remove(t, dir, "raw/vllm-bench.json", "raw/vllm-gsm8k.json")
			write(t, dir, "logs/bench-0.log", "Starting main benchmark run...\n")
		}, nil, "process-killed", "bench", "127.0.1.1", result.FromState},
		"AIPerf says only in its file of requests how the server answered": {func(t *testing.T, dir string) {
			allFailed(t, dir)
			write(t, dir, "raw/profile_export.jsonl", `{"metadata":{},"metrics":{},"error":{"code":503,"type":"Service Unavailable","message":"{}"}}`+"\n")
		}, nil, "client-server-error", "client", "", result.FromSymptom},
		"and the frontend of Dynamo says why": {func(t *testing.T, dir string) {
			allFailed(t, dir)
			write(t, dir, "raw/profile_export.jsonl", `{"metadata":{},"metrics":{},"error":{"code":503,"type":"Service Unavailable","message":"{}"}}`+"\n")
			write(t, dir, "logs/frontend-0.log", "2026-11-21T04:56:03.409774Z ERROR http-request: dynamo_llm::kv_router::prefill_router: Remote prefill failed, failing "+
				"request error=Unavailable: Generate Error: mocker handoff session limit reached for DP rank 0 method=POST\n")
		}, nil, "dynamo-mocker-handoff", "frontend", "", result.Exact},
		"a time that was over": {func(t *testing.T, dir string) {
			write(t, dir, run.SentinelFile,
				`{"schema":"profllm.finish/1","time":"2026-11-21T04:56:07Z","code":1,"phases":[{"name":"ready","code":1}]}`)
			remove(t, dir, "raw/vllm-bench.json", "raw/vllm-gsm8k.json")
			write(t, dir, "events.jsonl", `{"time":"2026-11-21T04:56:05Z","event":"not-ready","role":"decode"}`+"\n")
		}, nil, "health-deadline", "decode", "127.0.1.2", result.FromSymptom},
		"Slurm's end of a job without a sentinel": {func(t *testing.T, dir string) {
			remove(t, dir, run.SentinelFile, "raw/vllm-bench.json", "raw/vllm-gsm8k.json")
			write(t, dir, "logs/decode-0.log", fmt.Sprintf(noMemory, "04:56:02"))
		}, state("TIMEOUT", run.Timeout), "cuda-oom", "decode", "127.0.1.2", result.Exact},
		"but not of one just before it": {func(t *testing.T, dir string) {
			remove(t, dir, run.SentinelFile, "raw/vllm-bench.json", "raw/vllm-gsm8k.json")
			write(t, dir, "logs/decode-0.log", fmt.Sprintf(noMemory, "04:56:06"))
		}, state("TIMEOUT", run.Timeout), "slurm-time-limit", "", "", result.FromState},
		"packed": {func(t *testing.T, dir string) {
			lost(t, dir, 1)
			remove(t, dir, "logs/decode-0.log")
			pack(t, dir, "logs/decode-0.log.xz", fmt.Sprintf(noMemory, "04:56:02"))
		}, nil, "cuda-oom", "decode", "127.0.1.2", result.Exact},
		"in a hook": {func(t *testing.T, dir string) {
			write(t, dir, run.SentinelFile,
				`{"schema":"profllm.finish/1","time":"2026-11-21T04:56:07Z","code":5,"phases":[{"name":"pre_test/nccl","code":1}]}`)
			remove(t, dir, "raw/vllm-bench.json", "raw/vllm-gsm8k.json")
			write(t, dir, "pre_test/nccl/logs/nccl-0.log", "bash: line 1: all_reduce_perf: command not found\n")
		}, nil, "program-missing", "nccl", "", result.Exact},
		"our own report of it": {func(t *testing.T, dir string) {
			lost(t, dir, 3)
			write(t, dir, "stderr.txt", "--- end of logs/decode-0.log\n"+fmt.Sprintf(noMemory, "04:56:02")+"---\n")
			write(t, dir, "logs/decode-0.log", "serve: error: gave up\n")
		}, nil, "error-message", "decode", "127.0.1.2", result.FromSymptom},
	} {
		t.Run(name, func(t *testing.T) {
			dir := recorded(t)
			tt.change(t, dir)
			r := only(t, collector(t), dir, tt.state)
			require.NotNil(t, r.Failure)
			require.Equal(t, tt.cause, r.Failure.Cause, "%s: %s", r.Failure.File, r.Failure.Line)
			require.Equal(t, tt.confidence, r.Failure.Confidence)
			require.Equal(t, tt.role, r.Failure.Role)
			require.Equal(t, tt.node, r.Failure.Node)
			require.Empty(t, unreadable(r))
		})
	}
}

func unreadable(r *result.Result) []string {
	var texts []string
	for _, w := range r.Warnings {
		if w.Kind == "unreadable" && w.File == run.LogDir {
			texts = append(texts, w.Text)
		}
	}
	return texts
}

func pack(t *testing.T, dir, name, text string) {
	t.Helper()
	var b bytes.Buffer
	w, err := xz.NewWriter(&b)
	require.NoError(t, err)
	_, err = w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	write(t, dir, name, b.String())
}

// A log that cannot be read costs a warning, not the result.
func TestUnreadableLog(t *testing.T) {
	dir := recorded(t)
	lost(t, dir, 1)
	remove(t, dir, "logs/decode-0.log")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "logs", "decode-0.log"), 0o755))
	write(t, dir, "logs/prefill-0.log", fmt.Sprintf(noMemory, "04:56:02"))
	r := only(t, collector(t), dir, nil)
	require.Equal(t, "cuda-oom", r.Failure.Cause)
	require.Len(t, unreadable(r), 1)
	require.Contains(t, unreadable(r)[0], "logs/decode-0.log")
}

// The signatures of the site travel with the plan.
//
// covers: PL-F9, P-2, U-7
func TestSiteCauses(t *testing.T) {
	ours := plan.Signature{ID: "site-lustre", Area: "site", Kind: "root", Role: "any", Regex: `LustreError: \d+`,
		Sample: "LustreError: 11", Next: "call us", Where: "site.toml:9:3"}
	dir := recorded(t)
	lost(t, dir, 1)
	write(t, dir, "logs/decode-0.log", "LustreError: 11-0: gone\n")
	p, err := run.ReadPlan(dir)
	require.NoError(t, err)
	c := collector(t)
	for want, signatures := range map[string][]plan.Signature{"site-lustre": {ours},
		"unhandled-exception": {{ID: "broken", Regex: "("}}} {
		p.Signatures = signatures
		data, err := p.Encode()
		require.NoError(t, err)
		write(t, dir, run.PlanFile, string(data))
		require.Equal(t, want, only(t, c, dir, nil).Failure.Cause)
	}

	twice := ours
	twice.ID, twice.Where = "cuda-oom", "site.toml:15:3"
	_, err = collect.Causes([]plan.Signature{ours, twice})
	require.ErrorContains(t, err,
		`site.toml:15:3: signature "cuda-oom": another signature, built in or of the site, has this id`)
	require.False(t, strings.Contains(err.Error(), "site-lustre"))
}
