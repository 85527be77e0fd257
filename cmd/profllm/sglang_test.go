package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

// sglangHome returns the folder of SGLang's clients and routers, which make test-sglang installs,
// and that of the tiny model. Without it, the test is skipped.
func sglangHome(t *testing.T) (home, model string) {
	t.Helper()
	home = os.Getenv("SGLANG_LAB")
	if home == "" {
		if os.Getenv("PROFLLM_REQUIRE_SGLANG") == "1" {
			t.Fatal("SGLANG_LAB is not set")
		}
		t.Skip("no SGLang client and router (make test-sglang)")
	}
	return home, filepath.Join(os.Getenv("VLLM_LAB"), "tiny")
}

// sglangTest is a test of 40 requests. The image is never started: its tag says which client the
// version has.
func sglangTest(id, version, model, more string) string {
	return fmt.Sprintf(`[[Tests]]
id = %q
test_template_name = "sglang"
num_nodes = 2
time_limit = "10m"
[Tests.bench_cmd_args]
dataset_name = "random-ids"
random_input = 32
random_output = 16
num_prompts = 40
max_concurrency = 8
[Tests.cmd_args]
docker_image_url = "lmsysorg/sglang:v%s"
model = %q
%s
`, id, version, model, more)
}

// SGLang's own client, before and after its new name, and its own router measure simulated servers:
// one server, prefill and decode behind the router, two of each behind the router that left SGLang's
// repository. .ci/run knows the newest version as the smoke test.
func TestSGLangClients(t *testing.T) {
	home, model := sglangHome(t)
	const pd = "[Tests.cmd_args.prefill]\ntp = 1\n[Tests.cmd_args.decode]\ntp = 1\n"
	for _, c := range []struct {
		version, module string
		tests           map[string]string
	}{
		{"0.5.5", "sglang.bench_serving", map[string]string{"agg": "[Tests.cmd_args.decode]\ntp = 1", "pd": pd}},
		{"0.5.23", "sglang.benchmark.serving", map[string]string{"agg": "[Tests.cmd_args.decode]\ntp = 1", "pd": pd,
			"2p2d": "router_module = \"smg.launch_router\"\n[Tests.cmd_args.router]\npolicy = \"round_robin\"\n" +
				"[Tests.cmd_args.prefill]\nreplicas = 2\ntp = 1\n[Tests.cmd_args.decode]\nreplicas = 2\ntp = 1\n"}},
	} {
		t.Run(c.version, func(t *testing.T) {
			dir := t.TempDir()
			text := "name = \"s\"\n"
			for id, more := range c.tests {
				text += sglangTest(id, c.version, model, more)
			}
			require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(text), 0o644))
			env := []string{"HF_HUB_OFFLINE=1", "PROFLLM_SIM_TTFT=50ms", "PROFLLM_SIM_ITL=20ms",
				"PROFLLM_SIM_SGLANG=" + filepath.Join(home, "venv-"+c.version, "bin/python")}
			o := profllm(t, dir, env, "rehearse", "--speed", "1", "s.toml")
			require.Equal(t, exitOK, o.code, o.stderr)
			all := runs(t, dir)
			require.Len(t, all, len(c.tests))
			for d, p := range all {
				requireSGLang(t, d, p.Test, c.module)
			}
		})
	}
}

var transfersOfLog = regexp.MustCompile(`Num successful transfers=(\d+), .* Num failed transfers=(\d+)`)

// requireSGLang holds the run of a sglangTest against what its client was asked for.
func requireSGLang(t *testing.T, dir, test, module string) {
	t.Helper()
	r := readResult(t, dir)
	require.True(t, r.Validity.Valid, "%s: %v", test, r.Validity.Words)
	require.True(t, r.Simulated)
	for _, word := range []string{"metrics-missing", "wrong-server", "summary-differs"} {
		check := r.Validity.Check(word)
		require.Equal(t, result.Pass, check.Outcome, "%s %s: %s", test, word, check.Detail)
	}
	m := r.Results
	require.Equal(t, []int{40, 40, 0}, []int{*m.NumPrompts, *m.CompletedRequests, *m.FailedRequests})
	require.EqualValues(t, 40*32, *m.TotalInputTokens)
	require.EqualValues(t, 40*16, *m.TotalOutputTokens)
	client := logOf(t, dir, "bench-0.log")
	require.Contains(t, client, "benchmark_args=Namespace(", "SGLang's own client")
	require.NotContains(t, client, "deprecated")
	line, err := os.ReadFile(filepath.Join(dir, run.RawDir, "sglang-bench.jsonl"))
	require.NoError(t, err)
	require.Equal(t, module == "sglang.benchmark.serving", strings.Contains(string(line), `"p95_ttft_ms"`))
	script, err := os.ReadFile(filepath.Join(dir, run.ScriptFile))
	require.NoError(t, err)
	require.Contains(t, string(script), module)
	if test == "agg" {
		return
	}
	require.Contains(t, logOf(t, dir, "proxy-0.log"), "smg::", "the router's own log")
	moved := 0
	logs, err := filepath.Glob(filepath.Join(dir, run.LogDir, "decode*.log"))
	require.NoError(t, err)
	for _, name := range logs {
		part := 0
		for _, found := range transfersOfLog.FindAllStringSubmatch(logOf(t, dir, filepath.Base(name)), -1) {
			n, err := strconv.Atoi(found[1])
			require.NoError(t, err)
			require.Equal(t, "0", found[2])
			part += n
		}
		require.Positive(t, part, "no request reached %s", name)
		moved += part
	}
	require.Equal(t, 40+2, moved, "a transfer for each request, and two to warm up")
}
