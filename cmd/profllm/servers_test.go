package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
)

// wrongServer looks for what the check of the server says, and that nothing else makes the run invalid.
func wrongServer(says string) func(t *testing.T, dir string, r *result.Result) {
	return func(t *testing.T, _ string, r *result.Result) {
		require.Equal(t, says, r.Validity.Check("wrong-server").Detail)
		for _, k := range r.Validity.Checks {
			if k.Word != "wrong-server" && k.Severity == result.Invalid {
				require.NotEqual(t, result.Fail, k.Outcome, "%s: %s", k.Word, k.Detail)
			}
		}
	}
}

// rightServer looks for a server that was recognised.
func rightServer(t *testing.T, _ string, r *result.Result) {
	check := r.Validity.Check("wrong-server")
	require.Equal(t, result.Pass, check.Outcome, check.Detail)
	require.Equal(t, "profllm-sim", r.Provenance.EngineVersion)
}

// An engine that counts from 0 again is a restarted one, although every request was
// answered; on a request that never comes it does not.
//
// covers: PL-V19, PL-V36
func TestRehearseServerRestarted(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs two rehearsals")
	}
	for faults, want := range map[string]result.Outcome{"decode:restart-on-request=5": result.Fail,
		"decode:restart-on-request=50": result.Pass} {
		t.Run(faults, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			text := "name = \"s\"\n[[Tests]]\nid = \"a\"\ntest_template_name = \"vllm\"\nnum_nodes = 1\ntime_limit = \"5m\"\n" +
				"cmd_args.prefill = {}\nbench_cmd_args.num_prompts = 12\nclient = \"profllm\"\n"
			require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(text), 0o644))
			profllm(t, dir, []string{"PROFLLM_SIM_STARTUP=50ms", "PROFLLM_SIM_FAULTS=" + faults}, "rehearse", "s.toml")
			r := readResult(t, only(t, dir))
			require.Equal(t, want, r.Validity.Check("server-restarted").Outcome)
			require.Equal(t, 12, *r.Results.CompletedRequests)
			for _, k := range r.Validity.Checks {
				if k.Word != "server-restarted" && k.Severity == result.Invalid {
					require.NotEqual(t, result.Fail, k.Outcome, "%s: %s", k.Word, k.Detail)
				}
			}
		})
	}
}

// profllm's client measures simulated servers over each of its protocols in a job.
func TestRehearseProtocols(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs four rehearsals")
	}
	for name, args := range map[string]string{
		"responses":     "bench_cmd_args.backend = \"openai-responses\"\n",
		"embeddings":    "cmd_args.decode.runner = \"pooling\"\nbench_cmd_args.backend = \"openai-embeddings\"\n",
		"ranks":         "cmd_args.decode.runner = \"pooling\"\nbench_cmd_args.backend = \"vllm-rerank\"\nbench_cmd_args.dataset_name = \"random-rerank\"\n",
		"conversations": "bench_cmd_args.backend = \"openai-chat\"\nbench_cmd_args.conversation_turn_mean = 4\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			text := "name = \"s\"\n[[Tests]]\nid = \"a\"\ntest_template_name = \"vllm\"\nnum_nodes = 1\ntime_limit = \"5m\"\nclient = \"profllm\"\n" +
				"bench_cmd_args.num_prompts = 40\nbench_cmd_args.max_concurrency = 4\nbench_cmd_args.random_input_len = 32\n" + args
			require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(text), 0o644))
			out := profllm(t, dir, []string{"PROFLLM_SIM_STARTUP=50ms"}, "rehearse", "s.toml")
			r := readResult(t, only(t, dir))
			require.Equal(t, 40, *r.Results.CompletedRequests)
			for _, k := range r.Validity.Checks {
				if k.Severity == result.Invalid {
					require.NotEqual(t, result.Fail, k.Outcome, "%s: %s", k.Word, k.Detail)
				}
			}
			require.Equal(t, exitOK, out.code, "%s", out.stdout+out.stderr)
			require.NotNil(t, r.Results.SteadyState)
		})
	}
}
