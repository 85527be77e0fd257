package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
)

// A server that says it serves another model, or an instance of another version,
// makes the result invalid, and nothing else does; another name for the planned
// model does not.
//
// covers: PL-V25, PL-V36
func TestRehearseWrongServer(t *testing.T) {
	if testing.Short() {
		t.Skip("runs four rehearsals")
	}
	for name, c := range map[string]struct {
		test, faults, says string
	}{
		"another model": {"test_template_name = \"vllm\"\n", "serve:root=org/other", `serve serves "org/other", but "Qwen/Qwen3-0.6B" was planned`},
		"sglang":        {"test_template_name = \"sglang\"\n", "serve:root=org/other", `serve serves "org/other", but "Qwen/Qwen3-8B" was planned`},
		"one instance": {"test_template_name = \"vllm\"\ncmd_args.prefill = {}\ncmd_args.decode.replicas = 3\n", "decode_2:version=0.1",
			"the engines differ: decode_2 is version 0.1, prefill is version profllm-sim"},
		"another name": {"test_template_name = \"vllm\"\ncmd_args.engine_version = \"0.11\"\ncmd_args.decode.served_model_name = \"qwen\"\n" +
			"bench_cmd_args.served_model_name = \"qwen\"\n", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			text := "name = \"s\"\n[[Tests]]\nid = \"a\"\nnum_nodes = 1\ntime_limit = \"5m\"\nbench_cmd_args.num_prompts = 8\n" + c.test
			require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(text), 0o644))
			want := exitOK
			if c.says != "" {
				want = exitInvalid
			}
			out := profllm(t, dir, []string{"PROFLLM_SIM_STARTUP=50ms", "PROFLLM_SIM_FAULTS=" + c.faults}, "rehearse",
				"s.toml")
			require.Equal(t, want, out.code, "%s", out.stderr)
			r := readResult(t, only(t, dir))
			check := r.Validity.Check("wrong-server")
			for _, k := range r.Validity.Checks {
				if k.Word != "wrong-server" && k.Severity == result.Invalid {
					require.NotEqual(t, result.Fail, k.Outcome, "%s: %s", k.Word, k.Detail)
				}
			}
			if c.says != "" {
				require.Equal(t, result.Fail, check.Outcome)
				require.Equal(t, c.says, check.Detail)
				return
			}
			require.Equal(t, result.Pass, check.Outcome, check.Detail)
			require.Equal(t, "profllm-sim", r.Provenance.EngineVersion)
		})
	}
}

// An engine that counts from 0 again is a restarted one, although every request was
// answered; on a request that never comes it does not.
//
// covers: PL-V19, PL-V36
func TestRehearseServerRestarted(t *testing.T) {
	if testing.Short() {
		t.Skip("runs two rehearsals")
	}
	for faults, want := range map[string]result.Outcome{"decode:restart-on-request=5": result.Fail,
		"decode:restart-on-request=50": result.Pass} {
		t.Run(faults, func(t *testing.T) {
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
