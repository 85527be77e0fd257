package dynamo

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
)

// Values that no release of vLLM takes are refused where they stand, in vLLM's words, as for a test
// of vLLM alone. Options of Dynamo's own, and those that some release takes, go on.
//
// covers: CFG-2, P-24
func TestValues(t *testing.T) {
	const args = "[dynamo.decode_worker.args]\n"
	for given, want := range map[string]string{
		args + `gpu-memory-utilization = "lots"`:                                                 "t.toml:2:1: decode_worker.args.gpu_memory_utilization: vLLM 0.33.0 says: argument --gpu-memory-utilization/",
		args + `max_num_seqs = 2.5`:                                                              "t.toml:2:1: decode_worker.args.max_num_seqs: vLLM",
		args + `enforce_eager = "yes"`:                                                           "t.toml:2:1: decode_worker.args.enforce_eager: vLLM",
		args + `gpu_memory_utilization = [0.5, 0.6]`:                                             "t.toml:2:1: decode_worker.args.gpu_memory_utilization: vLLM",
		"[dynamo.decode_worker]\nextra_args = \"--enforce-eager --max-model-len long\"":          "t.toml:2:1: decode_worker.extra_args: --max-model-len: vLLM",
		"[dynamo.decode_worker]\ncmd = \"python3 -m dynamo.vllm --gpu-memory-utilization=lots\"": "t.toml:2:1: decode_worker.cmd: --gpu-memory-utilization=lots: vLLM",
	} {
		_, err := serve(t, given, plan.Cluster{Nodes: 2, GPUsPerNode: 1})
		require.ErrorContains(t, err, want, given)
	}
	for _, given := range []string{
		args + "endpoint = \"dyn://a.b.c\"\nmax_num_seqs = \"16\"\nmax-model-len = \"8k\"\ntrust-remote-code = true\nno-such = \"lots\"\ntp = 1",
		"[dynamo.decode_worker]\nextra_args = \"--enforce-eager --max-model-len 8k --custom 5\"",
		"[dynamo]\nbackend = \"sglang\"\n" + args + `gpu_memory_utilization = "lots"`,
		"[dynamo]\nbackend = \"mocker\"\n" + args + `gpu_memory_utilization = "lots"`,
	} {
		_, err := serve(t, given, plan.Cluster{Nodes: 2, GPUsPerNode: 1})
		require.NoError(t, err, given)
	}
}

// vLLM has the short names of sizes with one dash only, so that they are written in full. SGLang
// knows them with two.
//
// covers: P-21
func TestShortSizes(t *testing.T) {
	for backend, want := range map[string]string{"vllm": "--tensor-parallel-size 2 --pipeline-parallel-size 1", "sglang": "--tp 2 --pp 1"} {
		s, err := serve(t, "[dynamo]\nbackend = \""+backend+"\"\n[dynamo.decode_worker.args]\ntp = 2\npp = 1",
			plan.Cluster{Nodes: 2, GPUsPerNode: 2})
		require.NoError(t, err)
		require.Contains(t, argv(roleOf(t, s, "decode")), want)
		require.Equal(t, 2, roleOf(t, s, "decode").TP)
	}
}

// A name of a model is one line.
//
// covers: CD-45, U-5
func TestModelOfOneLine(t *testing.T) {
	for _, model := range []string{"Qwen\nQwen3", "a\x1bb", "a\tb"} {
		_, err := serve(t, fmt.Sprintf("[dynamo]\nmodel = %s", strings.ReplaceAll(strconv.Quote(model), `\x1b`, `\u001b`)),
			plan.Cluster{Nodes: 2, GPUsPerNode: 1})
		require.ErrorContains(t, err, fmt.Sprintf("t.toml:2:1: dynamo.model %q has a control character", model))
	}
	_, err := serve(t, "[dynamo]\nmodel = \" \"", plan.Cluster{Nodes: 2, GPUsPerNode: 1})
	require.ErrorContains(t, err, "is blank")
}
