package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/run"
)

// plantedFaults are ways in which a run is wrong.
var plantedFaults = []planted{
	{part: "server", what: "The server dies before its port opens", faults: "serve:die-at-start", words: []string{"phase-failed", "result-missing"}},
	{part: "server", what: "The server dies under load", faults: "serve:die-on-request=20", words: []string{"role-died", "request-errors"}},
	{part: "server", what: "The server is told to end under load", load: lasting, beside: "signal TERM serve", words: []string{"role-died"}},
	{part: "server", what: "The server is killed under load", load: lasting, beside: "signal KILL serve", words: []string{"role-died"}},
	{part: "server", what: "One request in five is answered with status 500", faults: "serve:fail=0.2", words: []string{"request-errors"}},
	{part: "server", what: "Every request is answered with status 500", faults: "serve:fail=1", words: []string{"no-success"}},
	{part: "server", what: "Every answer is empty", faults: "serve:zero-tokens", words: []string{"no-success"}},
	{part: "server", what: "Every answer is a web page with status 200", faults: "serve:html=1", words: []string{"no-success"}},
	{part: "server", what: "One answer in five is a web page with status 200", faults: "serve:html=0.2", words: []string{"request-errors"}},
	{part: "server", what: "One request in five is read, held and dropped", faults: "serve:drop=0.2", words: []string{"request-errors"}},
	{part: "server", what: "One stream in five is cut in the middle", faults: "serve:cut=0.2", words: []string{"request-errors"}},
	{part: "server", what: "One stream in five ends with an error event inside its status 200", faults: "serve:error-event=0.2", words: []string{"request-errors"}},
	{part: "server", what: "One stream in five ends with an error event that has choices and usage", faults: "serve:error-usage=0.2", words: []string{"request-errors"}},
	{part: "server", what: "One stream in five has an event of plain text", faults: "serve:garbage=0.2", words: []string{"request-errors"}},
	{part: "server", what: "Answers end with finish reason `abort`", faults: "serve:finish=abort", words: []string{"no-success"}},
	{part: "server", what: "Answers end with finish reason `error`", faults: "serve:finish=error", words: []string{"no-success"}},
	{part: "server", what: "The usage names half of the tokens", faults: "serve:usage=0.5", words: []string{"no-success"}},
	{part: "server", what: "The usage names 6 % more tokens than were sent", faults: "serve:usage=1.06", words: []string{"token-books"}},
	{part: "server", what: "The usage names no tokens", faults: "serve:usage=0.001", words: []string{"no-success"}},
	{part: "server", what: "The server serves another model under the planned name", faults: "serve:root=org/other", words: []string{"wrong-server"}, alone: true, look: wrongServer(`serve serves "org/other", but "Qwen/Qwen3-0.6B" was planned`)},
	{part: "server", what: "SGLang serves another model under the planned name", shape: "sglang", faults: "serve:root=org/other", words: []string{"wrong-server"}, look: wrongServer(`serve serves "org/other", but "Qwen/Qwen3-8B" was planned`)},
	{part: "server", what: "The server starts again during the load", faults: "serve:restart-on-request=20", words: []string{"server-restarted"}},
	{part: "server", what: "Another client loads the same server", beside: "load --num-prompts 12 --random-input-len 8 --random-output-len 1", words: []string{"foreign-load"}, alone: true},

	{part: "engine", what: "Three answers in ten end after a quarter of their tokens", faults: "serve:short=0.3", words: []string{"output-length"}},
	{part: "engine", what: "Four tokens arrive in one chunk", faults: "serve:bundle=4", words: []string{"itl-bundled"}},
	{part: "engine", what: "The engine counts 6 % more output tokens than it sends", faults: "serve:miscount=1.06", words: []string{"token-books"}, alone: true},
	{part: "engine", what: "The engine counts 6 % fewer output tokens than it sends", faults: "serve:miscount=0.94", words: []string{"token-books"}},
	{part: "engine", what: "The engine counts one request in five as aborted that the client calls complete", faults: "serve:abort=0.2", words: []string{"token-books"}},
	{part: "engine", what: "Three requests in ten are preempted", faults: "serve:preempt=0.3", words: []string{"preempted-requests"}, alone: true},
	{part: "engine", what: "Three requests in ten have corrupt logits", faults: "serve:corrupt=0.3", words: []string{"corrupt-output"}, alone: true},
	{part: "engine", what: "A fifth of every prompt is found in the prefix cache", faults: "serve:warm=0.2", words: []string{"cache-warm"}, alone: true},
	{part: "engine", what: "The first eight requests wait for compilation", faults: "serve:cold=8", load: keys{"num_prompts": "80"}, words: []string{"cold-start"}, alone: true},
	{part: "engine", what: "The queue grows until the end", faults: "serve:slowing=4ms", load: keys{"num_prompts": "120"}, words: []string{"not-steady"}, alone: true},

	{part: "prefill/decode", what: "Prefill sends no KV transfer parameters", shape: "pd", faults: "prefill:no-params", words: []string{"not-disaggregated", "proxy-errors"}},
	{part: "prefill/decode", what: "Three KV transfers in ten fail and decode computes the prompt", shape: "pd", faults: "decode:recompute=0.3", words: []string{"kv-transfer-failed"}},
	{part: "prefill/decode", what: "Every KV transfer fails and decode computes the prompt", shape: "pd", faults: "decode:recompute=1", words: []string{"kv-transfer-failed"}},
	{part: "prefill/decode", what: "Prefill answers one request in five with status 500", shape: "pd", faults: "prefill:fail=0.2", words: []string{"request-errors"}},
	{part: "prefill/decode", what: "Decode answers one request in five with status 500", shape: "pd", faults: "decode:fail=0.2", words: []string{"request-errors"}, look: proxyErrors("", "", "500")},
	{part: "prefill/decode", what: "Prefill reads one request in five and drops it", shape: "pd", faults: "prefill:drop=0.2", words: []string{"request-errors"}, look: proxyErrors("prefill", "closed", "502")},
	{part: "prefill/decode", what: "Decode cuts one stream in five", shape: "pd", faults: "decode:cut=0.2", words: []string{"request-errors"}},
	{part: "prefill/decode", what: "Decode sends an error event inside one status 200 in five", shape: "pd", faults: "decode:error-event=0.2", words: []string{"request-errors"}},
	{part: "prefill/decode", what: "Prefill answers one request in five with a web page", shape: "pd", faults: "prefill:html=0.2", words: []string{"request-errors"}},
	{part: "prefill/decode", what: "Prefill dies under load", shape: "pd", faults: "prefill:die-on-request=20", words: []string{"role-died"}},
	{part: "prefill/decode", what: "Decode dies under load", shape: "pd", faults: "decode:die-on-request=20", words: []string{"role-died"}},
	{part: "prefill/decode", what: "One of three decode instances dies under load", shape: "replicas", faults: "decode_1:die-on-request=8", words: []string{"instance-died"}},
	{part: "prefill/decode", what: "One of two prefill instances drops one request in five", shape: "replicas", faults: "prefill_1:drop=0.4", words: []string{"request-errors"}},
	{part: "prefill/decode", what: "One of three decode instances is of another version", shape: "replicas", faults: "decode_2:version=0.1", words: []string{"wrong-server"}, look: wrongServer("the engines differ: decode_2 is version 0.1, prefill_0 is version profllm-sim")},

	{part: "proxy", what: "The proxy is killed under load", shape: "pd", load: lasting, beside: "signal KILL proxy", words: []string{"role-died"}},

	{part: "client", what: "The client dies at its start", faults: "client:die-at-start", words: []string{"phase-failed", "result-missing"}},
	{part: "client", what: "The client dies in the middle", faults: "client:die-after=300ms", words: []string{"phase-failed", "requests-missing"}},
	{part: "client", what: "The client is killed in the middle", load: lasting, beside: "signal KILL client", words: []string{"phase-failed", "result-missing"}},
	{part: "server", what: "No stream gets a token for 2.5 s", faults: "serve:stall=2500ms@100ms", load: steady, words: []string{"stalled"}},
	{part: "engine", what: "Eight tokens arrive one behind the other, then nothing for as long as they take", faults: "serve:burst=8", load: steady, words: []string{"itl-bundled"}},
	{part: "engine", what: "Eight tokens arrive in one chunk, and the single requests are not saved", faults: "serve:bundle=8", load: keys{"num_prompts": "80", "random_output_len": "40", "save_detailed": ""}, words: []string{"itl-bundled"}},
	{part: "client", what: "The client's clock is set back by 0.2 s", faults: "client:step=-200ms@1s", load: steady, words: []string{"times-impossible"}},
	{part: "client", what: "The client's clock is set forward by 40 s", faults: "client:step=40s@1s", load: steady, words: []string{"stalled"}},
	{part: "client", what: "The client stands still for 2.5 s and then sends what is overdue at once", faults: "client:freeze=2500ms@1s", load: paced, words: []string{"sends-lumped"}},
	{part: "client", what: "The client keeps 85 % of its rate", faults: "client:pace=0.85", load: paced, words: []string{"load-not-reached"}},
	{part: "client", what: "Fewer than five rounds of requests", load: keys{"num_prompts": "39"}, words: []string{"no-steady-state"}, alone: true},

	{part: "evaluation", what: "The evaluation is planned and leaves no result", shape: "eval", after: remove("raw/vllm-gsm8k.json"), words: []string{"from-log"}},
	{part: "evaluation", what: "The evaluation runs against a server that fails", shape: "eval", faults: "serve:fail=0.3", words: []string{"accuracy-invalid"}},
	{part: "evaluation", what: "The evaluation asks another server", shape: "eval", after: copied("raw/metrics-serve-bench.prom", "raw/metrics-serve-eval.prom"), words: []string{"accuracy-invalid"}},
	{part: "evaluation", what: "The accuracy is not a number", shape: "eval", after: replaced("raw/vllm-gsm8k.json", `"accuracy": `, `"accuracy": NaN, "was": `), words: []string{"inconsistent", "from-log"}},
	{part: "evaluation", what: "The accuracy is 1.7", shape: "eval", after: replaced("raw/vllm-gsm8k.json", `"accuracy": `, `"accuracy": 1.7, "was": `), words: []string{"accuracy-invalid"}},

	{part: "node", what: "A planned GPU is idle", shape: "gpus", faults: "gpu:use=4/0,use=0/0", words: []string{"gpu-idle"}, alone: true},
	{part: "node", what: "Another GPU than planned works", shape: "gpus", faults: "gpu:use=4/50", words: []string{"gpu-idle"}, alone: true},
	{part: "node", what: "A GPU is slowed down by heat", shape: "gpus", faults: "gpu:use=4/0,heat=0/0.1", words: []string{"throttled"}, alone: true},
	{part: "node", what: "A tenth of the power samples is missing", shape: "gpus", faults: "gpu:use=4/0,skip=0.1", words: []string{"power-gaps"}, alone: true},
	{part: "node", what: "Two nodes have different drivers", shape: "gpus pd", faults: "gpu:use=4/0,driver=127.0.1.2/7", words: []string{"mixed-hardware"}, alone: true},

	{part: "job", what: "The script ends with 3 after a good benchmark", env: keys{"PLANT_END": `"exit 3"`}, words: []string{"job-state"}},
	{part: "job", what: "The script is killed by a signal after a good benchmark", env: keys{"PLANT_END": `"kill -KILL $$"`}, words: []string{"job-state"}},
	{part: "job", what: "The sentinel says 3", after: replaced(run.SentinelFile, `"code": 0,`, `"code": 3,`), words: []string{"job-state"}},
	{part: "job", what: "The sentinel is missing", after: remove(run.SentinelFile), words: []string{"phase-failed"}},

	{part: "file", what: "The client's result is missing", after: remove(benchFile), words: []string{"from-log"}},
	{part: "file", what: "The client's result is empty", after: truncated(benchFile, 0), words: []string{"from-log"}},
	{part: "file", what: "The client's result ends in the middle", after: truncated(benchFile, 0.5), words: []string{"from-log"}},
	{part: "file", what: "The client's result is a folder", after: instead(benchFile, func(p string) error { return os.Mkdir(p, 0o755) }), words: []string{"result-missing"}},
	{part: "file", what: "The client's result is a named pipe", after: instead(benchFile, func(p string) error { return syscall.Mkfifo(p, 0o644) }), words: []string{"result-missing"}},
	{part: "file", what: "The client's result is a link to a device", after: instead(benchFile, func(p string) error { return os.Symlink("/dev/zero", p) }), words: []string{"result-missing"}},
	{part: "file", what: "The client's result is 8 GB of zeros", after: instead(benchFile, sparse), words: []string{"result-missing"}},
	{part: "file", what: "The throughput is a text", after: set("output_throughput", "fast"), words: []string{"metrics-missing"}},
	{part: "file", what: "The throughput is missing", after: unset("request_throughput", "output_throughput", "total_token_throughput"), words: []string{"metrics-missing"}},
	{part: "file", what: "The TTFT is missing", after: unset("mean_ttft_ms", "median_ttft_ms", "std_ttft_ms", "p50_ttft_ms", "p90_ttft_ms", "p95_ttft_ms", "p99_ttft_ms"), words: []string{"metrics-missing"}},
	{part: "file", what: "The throughput is negative", after: set("output_throughput", -700.0), words: []string{"inconsistent"}},
	{part: "file", what: "The mean TTFT is negative", after: set("mean_ttft_ms", -20.0), words: []string{"inconsistent"}},
	{part: "file", what: "The throughput is twice what tokens and duration make", after: scale("output_throughput", 2), words: []string{"inconsistent"}},
	{part: "file", what: "The P99 of the TTFT is below its median", after: set("p99_ttft_ms", 1.0), words: []string{"inconsistent"}},
	{part: "file", what: "More requests completed than were sent", after: set("completed", 60), words: []string{"requests-missing"}},
	{part: "file", what: "Ten requests vanished", after: set("completed", 38), words: []string{"requests-missing"}},
	{part: "file", what: "The duration is 0", after: set("duration", 0.0), words: []string{"inconsistent"}},
	{part: "file", what: "The duration is twice as long as the load", after: stretched(2), words: []string{"window-wrong"}},
	{part: "file", what: "The P50 of the TTFT is not its median", after: scale("median_ttft_ms", 1.1), words: []string{"times-impossible"}},
	{part: "file", what: "Every latency is in seconds, called milliseconds", load: noDetails, after: scaleAll(0.001, "ttft", "tpot", "itl", "e2el"), words: []string{"engine-slower"}},
	{part: "file", what: "Every latency is half of what it was", load: noDetails, after: scaleAll(0.5, "ttft", "tpot", "itl", "e2el"), words: []string{"engine-slower"}},
	{part: "file", what: "TPOT is half of what TTFT and E2EL leave for it", load: noDetails, after: scaleAll(0.5, "tpot"), words: []string{"times-impossible"}},
	{part: "file", what: "The P99 of the TPOT is not that of the single requests", after: scale("p99_tpot_ms", 2), words: []string{"summary-differs"}},
	{part: "file", what: "The P99 of the ITL is not that of the single requests", after: scale("p99_itl_ms", 3), words: []string{"summary-differs"}},
	{part: "file", what: "The goodput is half of what the single requests make", load: keys{"goodput": `["e2el:60000"]`}, after: scale("request_goodput", 0.5), words: []string{"summary-differs"}},
	{part: "file", what: "The standard deviation of the TTFT is 1e308", load: noDetails, after: set("std_ttft_ms", 1e308), words: []string{"times-impossible"}},
	{part: "file", what: "The client says that it was interrupted", after: changed(func(m map[string]any) { m["profllm"].(map[string]any)["partial"] = true }), words: []string{"requests-missing"}},
	{part: "file", what: "The client was given another model", after: set("model_id", "org/other"), words: []string{"inconsistent"}},
	{part: "file", what: "The client was given another number of requests", after: set("num_prompts", 999), words: []string{"inconsistent"}},
	{part: "file", what: "The client had another limit of requests in flight", after: set("max_concurrency", 64), words: []string{"inconsistent"}},
	{part: "file", what: "The client's result is that of a run a year ago", after: changed(func(m map[string]any) {
		m["date"] = "20251103-101500"
		delete(m, "profllm")
	}), words: []string{"files-mixed"}},
	{part: "file", what: "The end is that of another job", after: keyed(run.SentinelFile, "job_id", "4711"), words: []string{"files-mixed"}},
	{part: "file", what: "The placement has no nodes", after: keyed(run.PlacementFile, "nodes", []any{}), words: []string{"placed-otherwise"}},
	{part: "file", what: "The placement is null", after: instead(run.PlacementFile, holding("null")), words: []string{"placed-otherwise"}},
	{part: "file", what: "The plan has no loads", after: keyed(run.PlanFile, "loads", nil), says: "plan.json: no load is planned: loads is empty"},
	{part: "file", what: "The plan is cut off", after: truncated(run.PlanFile, 0.5), says: "plan.json: decode plan: unexpected end of JSON input"},
	{part: "file", what: "The placement is empty", after: truncated(run.PlacementFile, 0), says: "placement.json: unexpected end of JSON input"},
}

// steady keeps eight requests in flight for some seconds, paced sends at a rate that the server
// can serve.
var (
	lasting = keys{"num_prompts": "480"} // until somebody is killed
	steady  = keys{"num_prompts": "80", "random_output_len": "40"}
	paced   = keys{"num_prompts": "100", "random_output_len": "40", "request_rate": "25", "max_concurrency": "100"}
)

// noDetails leaves the statistics to speak for themselves.
var noDetails = keys{"save_detailed": ""}

// instead removes a file of the run and makes another thing of its name.
func instead(name string, create func(path string) error) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.Remove(path))
		require.NoError(t, create(path))
	}
}

func remove(name string) func(*testing.T, string) {
	return instead(name, func(string) error { return nil })
}

// copied puts a file of the run in another one's place.
func copied(from, to string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		data, err := os.ReadFile(filepath.Join(dir, from))
		require.NoError(t, err)
		require.FileExists(t, filepath.Join(dir, to))
		require.NoError(t, os.WriteFile(filepath.Join(dir, to), data, 0o644))
	}
}

// sparse makes a file that takes no room on disk.
func sparse(path string) error {
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		return err
	}
	return os.Truncate(path, 8<<30)
}

// holding writes a file.
func holding(content string) func(path string) error {
	return func(path string) error { return os.WriteFile(path, []byte(content), 0o644) }
}

// keyed sets one key of a JSON file.
func keyed(name, key string, value any) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		edit(t, filepath.Join(dir, name), func(m map[string]any) { m[key] = value })
	}
}

// truncated keeps a share of a file.
func truncated(name string, share float64) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.NoError(t, os.Truncate(path, int64(share*float64(info.Size()))))
	}
}

// replaced replaces the first occurrence of a text in a file.
func replaced(name, old, by string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		path := filepath.Join(dir, name)
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Contains(t, string(data), old)
		require.NoError(t, os.WriteFile(path, bytes.Replace(data, []byte(old), []byte(by), 1), 0o644))
	}
}

// changed changes the client's result.
func changed(change func(map[string]any)) func(*testing.T, string) {
	return func(t *testing.T, dir string) { edit(t, filepath.Join(dir, benchFile), change) }
}

func set(key string, value any) func(*testing.T, string) {
	return changed(func(m map[string]any) { m[key] = value })
}

func unset(all ...string) func(*testing.T, string) {
	return changed(func(m map[string]any) {
		for _, key := range all {
			delete(m, key)
		}
	})
}

func scale(key string, by float64) func(*testing.T, string) {
	return changed(func(m map[string]any) { m[key] = scaled(m[key], by) })
}

// scaleAll makes all statistics of families so many times as large.
func scaleAll(by float64, families ...string) func(*testing.T, string) {
	return changed(func(m map[string]any) {
		for key, v := range m {
			if family, ok := strings.CutSuffix(key, "_ms"); ok &&
				slices.Contains(families, family[strings.LastIndexByte(family, '_')+1:]) {
				m[key] = scaled(v, by)
			}
		}
	})
}

// stretched makes the window longer, and every rate fit it.
func stretched(by float64) func(*testing.T, string) {
	return changed(func(m map[string]any) {
		m["duration"] = scaled(m["duration"], by)
		for _, key := range []string{"request_throughput", "output_throughput", "total_token_throughput"} {
			m[key] = scaled(m[key], 1/by)
		}
	})
}
