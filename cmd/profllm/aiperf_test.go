package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

// aiperfProgram returns the program of a real AIPerf. Without it, the test is skipped.
func aiperfProgram(t *testing.T) string {
	t.Helper()
	program := os.Getenv("AIPERF")
	if program == "" {
		t.Skip("AIPERF does not name the program of a real AIPerf")
	}
	return program
}

// aiperfTest is a test of simulated servers under a client, in the form of a scenario.
func aiperfTest(id, program, more string) string {
	if program != "" {
		program = fmt.Sprintf("client_program = %q\n", program)
	}
	return fmt.Sprintf("[[Tests]]\nid = %q\nname = %q\ntest_template_name = \"vllm\"\nclient = \"aiperf\"\n%s%s\n", id, id, program, more)
}

// aiperfSite is this machine with simulated servers in place of vLLM.
func aiperfSite(t *testing.T, dir string) {
	t.Helper()
	bin := filepath.Join(dir, "bin")
	require.NoError(t, os.MkdirAll(bin, 0o755))
	require.NoError(t, os.Symlink(binary, filepath.Join(bin, "vllm")))
	site := fmt.Sprintf("name = \"s\"\nscheduler = \"standalone\"\noutput_path = \"results\"\ninstall_path = \"install\"\nlauncher = \"bare\"\n"+
		"prologue = 'export PATH=%s:$PATH PROFLLM_SIM_TTFT=100ms PROFLLM_SIM_ITL=5ms'\n", bin)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "site.toml"), []byte(site), 0o644))
}

// aiperfLoad are the arguments of every load here. AIPerf's own tokenizer is fetched once, that of
// the tiny model of make test-vllm needs no network.
func aiperfLoad() string {
	tokenizer := "builtin"
	if home := cmp.Or(os.Getenv("VLLM_LAB"), os.Getenv("DYNAMO_LAB")); home != "" {
		tokenizer = filepath.Join(home, "tiny")
	}
	return fmt.Sprintf(`[Tests.bench_cmd_args]
request_count = 60
isl = 64
osl = 16
tokenizer = %q
random_seed = 7
extra_inputs = { ignore_eos = true }
use_server_token_count = true
`, tokenizer)
}

// A real AIPerf measures simulated servers: a sweep on one server start, and prefill and decode.
// The record has the numbers of its files.
//
// covers: P-14
func TestAIPerf(t *testing.T) {
	program, dir := aiperfProgram(t), t.TempDir()
	aiperfSite(t, dir)
	text := "name = \"s\"\n" + aiperfTest("curve", program, aiperfLoad()+"concurrency = [2, 4]\nserver_metrics = \"auto\"\n") +
		aiperfTest("endpoint", program, aiperfLoad()+"endpoint = \"/v9/nowhere\"\n") +
		aiperfTest("model", program, aiperfLoad()+"[Tests.cmd_args.decode]\nserved_model_name = \"another\"\n") +
		aiperfTest("missing", "", aiperfLoad())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(text), 0o644))
	o := profllm(t, dir, nil, "run", "--system", "site.toml", "s.toml")
	require.Equal(t, exitJobFailed, o.code, o.stderr)
	roots, err := filepath.Glob(filepath.Join(dir, "results", "*"))
	require.NoError(t, err)
	require.Len(t, roots, 1)
	root := roots[0]
	for i, inFlight := range []int{2, 4} {
		requireAIPerf(t, filepath.Join(root, "curve/0", fmt.Sprint(i+1)), inFlight)
	}
	for test, want := range map[string][]string{
		"endpoint": {"no-success", "Not Found: "}, "model": {"no-success", "does not exist"},
		"missing": {"result-missing", "aiperf"},
	} {
		r := readResult(t, filepath.Join(root, test, "0"))
		require.Equal(t, result.VerdictInvalid, r.Validity.Verdict, test)
		require.Contains(t, r.Validity.Words, want[0], test)
		data, err := json.Marshal(r)
		require.NoError(t, err)
		require.Contains(t, string(data), want[1], test)
	}
}

// requireAIPerf holds a record against AIPerf's own file.
func requireAIPerf(t *testing.T, dir string, inFlight int) {
	t.Helper()
	r := readResult(t, dir)
	require.NotEqual(t, result.VerdictInvalid, r.Validity.Verdict, r.Validity.Words)
	for _, word := range []string{"requests-missing", "output-length", "token-books", "summary-differs", "inconsistent", "times-impossible"} {
		check := r.Validity.Check(word)
		require.Equal(t, result.Pass, check.Outcome, "%s: %s", word, check.Detail)
	}
	var file map[string]json.RawMessage
	data, err := os.ReadFile(filepath.Join(dir, run.RawDir, "profile_export_aiperf.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &file))
	has := func(tag, stat string) float64 {
		var m map[string]any
		require.NoError(t, json.Unmarshal(file[tag], &m), tag)
		return m[stat].(float64)
	}
	m := r.Results
	require.Equal(t, []int{60, 60, 0, inFlight}, []int{*m.NumPrompts, *m.CompletedRequests, *m.FailedRequests, *m.MaxConcurrency})
	require.EqualValues(t, 60*16, *m.TotalOutputTokens)
	require.InEpsilon(t, 60/has("request_throughput", "avg"), *m.Duration, 1e-3, "the time of the rates")
	require.InDelta(t, has("request_throughput", "avg"), *m.RequestThroughput, 1e-9)
	require.InDelta(t, has("time_to_first_token", "p50"), *m.Latency[result.TTFT].Median, 1e-9)
	require.InDelta(t, has("inter_token_latency", "avg"), *m.Latency[result.TPOT].Mean, 1e-9)
	require.InDelta(t, has("request_latency", "max"), *m.Latency[result.E2EL].Max, 1e-9)
	require.Equal(t, "aiperf", r.Config.Benchmark.Kind)
	require.Equal(t, "chat", r.Config.Benchmark.Backend)
	log, err := os.ReadFile(filepath.Join(dir, "logs/bench-0.log"))
	require.NoError(t, err)
	require.Contains(t, string(log), "/metrics", "it was asked to read the servers' counters")
	require.False(t, strings.Contains(string(log), "GPU telemetry enabled"))
}

// A rehearsal has stand-ins of both clients, whatever program a test names.
func TestRehearseAIPerf(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const load = "[Tests.bench_cmd_args]\nrequest_count = 30\nconcurrency = 2\nisl = 64\nosl = 16\nextra_inputs = { ignore_eos = true }\n"
	text := "name = \"s\"\n" + aiperfTest("new", "/nowhere/aiperf", load) +
		strings.Replace(aiperfTest("old", "", load), `"aiperf"`, `"genai-perf"`, 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(text), 0o644))
	o := profllm(t, dir, nil, "rehearse", "s.toml")
	require.Equal(t, exitOK, o.code, o.stderr)
	require.Contains(t, o.stdout+o.stderr, "NVIDIA replaced GenAI-Perf by AIPerf")
	all := runs(t, dir)
	require.Len(t, all, 2)
	for d, p := range all {
		r := readResult(t, d)
		require.NotEqual(t, result.VerdictInvalid, r.Validity.Verdict, "%s: %v", p.Test, r.Validity.Words)
		require.True(t, r.Simulated, p.Test)
		require.Equal(t, 30, *r.Results.CompletedRequests, p.Test)
		require.Equal(t, map[string]string{"new": "aiperf", "old": "genai-perf"}[p.Test], r.Config.Benchmark.Kind)
		require.Positive(t, *r.Results.Latency[result.TTFT].Median, p.Test)
	}
}
