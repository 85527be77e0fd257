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
