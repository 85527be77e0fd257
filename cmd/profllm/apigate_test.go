package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/apicheck"
	"github.com/profllm/profllm/pkg/run"
)

const gatedScenario = `name = "gated"
[[Tests]]
id = "gate"
test_template_name = "vllm"
api_check = true
bench_cmd_args = { num_prompts = 4, random_output_len = 4 }
`

// The checks of the API stand between readiness and the client. If they pass, their requests are
// not counted with the client's; if one fails, the job ends with a code of its own, nothing is
// measured, and the record has the wrong answer.
//
// covers: TST-6, HLT-6
func TestAPIGate(t *testing.T) {
	t.Parallel()
	rehearsed := func(t *testing.T, scenario, faults string) (outcome, string) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(scenario), 0o644))
		o := profllm(t, dir, []string{"PROFLLM_SIM_STARTUP=50ms", "PROFLLM_SIM_FAULTS=" + faults}, "rehearse", "s.toml")
		return o, only(t, dir)
	}
	t.Run("right answers", func(t *testing.T) {
		t.Parallel()
		o, d := rehearsed(t, gatedScenario, "")
		require.Equal(t, exitOK, o.code, o.stderr)
		r := readResult(t, d)
		require.Equal(t, len(apicheck.Checks()), r.APICheck.Passed)
		require.Empty(t, r.APICheck.Failed)
		require.True(t, r.Validity.Valid, "the engine's counters agree with the client: %v", r.Validity.Words)
		require.FileExists(t, filepath.Join(d, "raw", "api-check.json"))
	})
	t.Run("a wrong answer", func(t *testing.T) {
		t.Parallel()
		o, d := rehearsed(t, gatedScenario, "serve:no-done")
		require.Equal(t, exitJobFailed, o.code)
		var s run.Sentinel
		require.NoError(t, run.ReadJSON(filepath.Join(d, run.SentinelFile), &s))
		require.Equal(t, exitAPI, s.Code)
		require.Equal(t, []run.Phase{{Name: "ready"}, {Name: "api_check", Code: exitAPI}}, s.Phases)
		r := readResult(t, d)
		require.Equal(t, "api-check", r.Failure.Cause)
		require.Equal(t, 9, r.APICheck.Passed)
		require.Equal(t, "streaming", r.APICheck.Failed[0].Check)
		require.Contains(t, r.APICheck.Failed[0].Text, "the stream ended without [DONE]")
		require.NoFileExists(t, filepath.Join(d, "raw", "vllm-bench.json"))
	})
	t.Run("one real completion", func(t *testing.T) {
		t.Parallel()
		one := strings.Replace(gatedScenario, "api_check = true", `api_check = ["completion"]`, 1)
		o, d := rehearsed(t, one, "serve:fail=1")
		require.Equal(t, exitJobFailed, o.code)
		r := readResult(t, d)
		require.Zero(t, r.APICheck.Passed)
		require.Len(t, r.APICheck.Failed, 1)
		require.Contains(t, r.APICheck.Failed[0].Text, "500")
	})
}

const unreadyScenario = `name = "unready"
[[Tests]]
id = "late"
test_template_name = "vllm"
cmd_args = { serve_wait_seconds = 1 }
extra_env_vars = { PROFLLM_SIM_FAULTS = "serve:never-ready" }
bench_cmd_args = { num_prompts = 4 }
nsys = {}
[[Tests]]
id = "dead"
test_template_name = "vllm"
extra_env_vars = { PROFLLM_SIM_FAULTS = "serve:die-at-start" }
bench_cmd_args = { num_prompts = 4 }
[[Tests]]
id = "other"
test_template_name = "vllm"
api_check = ["models"]
bench_cmd_args = { num_prompts = 4, served_model_name = "another" }
`

// A server that is not ready in time, one that dies and one that serves another model are told
// apart. nsys around the first has written its report nevertheless.
//
// covers: HLT-5, SIG-5
func TestUnreadyServers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(unreadyScenario), 0o644))
	o := profllm(t, dir, []string{"PROFLLM_SIM_STARTUP=50ms"}, "rehearse", "s.toml")
	require.Equal(t, exitJobFailed, o.code)
	for d, p := range runs(t, dir) {
		r := readResult(t, d)
		require.NotNil(t, r.Failure, p.Test)
		switch p.Test {
		case "late":
			require.Equal(t, "health-deadline", r.Failure.Cause)
			require.Contains(t, readText(t, filepath.Join(d, "stderr.txt")), "did not answer")
			require.Len(t, nsysReports(t, d, "serve", 0), 1)
			require.Len(t, r.Profiling.Traces, 1)
		case "dead":
			require.Equal(t, "kv-cache-none", r.Failure.Cause)
		case "other":
			require.Equal(t, "api-check", r.Failure.Cause)
			require.Contains(t, r.Failure.Line, `the server has no model "another"`)
		}
	}
}
