package arguments

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// conflicting are command lines that a rule refuses, each with a near one that passes.
var conflicting = []struct{ wrong, right, text string }{
	{"-tp 4 --decode-context-parallel-size 3", "-tp 4 --decode-context-parallel-size 2", "tensor_parallel_size 4 is not divisible by decode_context_parallel_size 3"},
	{"--enable-eplb -tp 2", "--enable-eplb -tp 2 --enable-expert-parallel", "enable_eplb needs enable_expert_parallel"},
	{"--enable-eplb --enable-expert-parallel", "--enable-eplb --enable-expert-parallel -dp 2", "enable_eplb needs more than one GPU"},
	{`--eplb-config {"num_redundant_experts":2}`, `--eplb-config {"num_redundant_experts":0}`, "num_redundant_experts is 2, but enable_eplb is off"},
	{"--eplb-config.num_redundant_experts 2", "--eplb-config.num_redundant_experts 0", "num_redundant_experts is 2"},
	{"--nnodes 2 --data-parallel-backend ray", "--nnodes 1 --data-parallel-backend ray", `nnodes above 1 needs data_parallel_backend = "mp"`},
	{"--nnodes 2 -tp 2 --distributed-executor-backend ray", "--nnodes 2 -tp 2 --distributed-executor-backend mp", "nnodes above 1 does not go with"},
	{"--nnodes 2 -tp 2 --node-rank 2", "--nnodes 2 -tp 2 --node-rank 1", "node_rank 2 is not below nnodes 2"},
	{"--nnodes 2 -tp 3", "--nnodes 2 -tp 2 -pp 2", "nnodes 2 does not divide the 3 GPUs of TP x PP x DP"},
	{"-dp 4 -dpl 2 --data-parallel-rank 1", "-dp 4 -dpl 1 --data-parallel-rank 1", "data_parallel_size_local is 2, but with data_parallel_external_lb"},
	{"-dp 2 -dpl 0 --headless", "-dp 2 -dpl 1 --headless", "data_parallel_size_local is 0, but a headless process"},
	{"--data-parallel-hybrid-lb --data-parallel-external-lb -dp 2 -dpl 1", "--data-parallel-hybrid-lb -dp 2 -dpl 1", "exclude each other"},
	{"--data-parallel-external-lb --data-parallel-rank 0", "--data-parallel-external-lb --data-parallel-rank 0 -dp 2", "needs a data_parallel_size above 1"},
	{"--data-parallel-hybrid-lb -dp 2", "--data-parallel-hybrid-lb -dp 2 -dpl 1", "needs data_parallel_size_local"},
	{"--data-parallel-hybrid-lb -dp 2 -dpl 1 --headless", "-dp 2 -dpl 1 --headless", "does not go with headless"},
	{"-dp 2 -dpl 3", "-dp 2 -dpl 2", "data_parallel_size_local 3 is above data_parallel_size 2"},
	{"-dp 2 --data-parallel-rank 2", "-dp 2 --data-parallel-rank 1", "data_parallel_rank 2 is not below data_parallel_size 2"},
	{"--headless --api-server-count 2", "--headless", "api_server_count does not go with it"},
	{"--max-num-batched-tokens 8 --max-num-seqs 16", "--max-num-batched-tokens 16 --max-num-seqs 16", "max_num_batched_tokens 8 is below max_num_seqs 16"},
	{"--max-num-batched-tokens 1k --max-num-seqs 1024", "--max-num-batched-tokens 1K --max-num-seqs 1024", "max_num_batched_tokens 1000 is below max_num_seqs 1024"},
	{"--no-enable-chunked-prefill --max-num-batched-tokens 256 --max-model-len 512 --max-num-seqs 8",
		"--enable-chunked-prefill --max-num-batched-tokens 256 --max-model-len 512 --max-num-seqs 8", "without chunked prefill"},
	{"--max-num-active-seqs 9 --max-num-seqs 8", "--max-num-active-seqs 8 --max-num-seqs 8", "max_num_active_seqs 9 is above max_num_seqs 8"},
	{"--long-prefill-token-threshold 513 --max-model-len 512", "--long-prefill-token-threshold 512 --max-model-len 512", "long_prefill_token_threshold 513 is above max_model_len 512"},
	{"--enable-auto-tool-choice", "--enable-auto-tool-choice --tool-call-parser hermes", "needs tool_call_parser"},
	{"--enable-log-outputs", "--enable-log-outputs --enable-log-requests", "needs enable_log_requests"},
	{"--numa-bind-nodes 0", "--numa-bind-nodes 0 --numa-bind", "need numa_bind"},
}

// covers: CFG-3, PAR-2, PAR-9
func TestConflicts(t *testing.T) {
	r := exactly("0.32.0")
	seen := map[string]bool{}
	for _, c := range conflicting {
		args, err := r.Parse(append([]string{"m"}, strings.Fields(c.wrong)...))
		require.NoError(t, err, c.wrong)
		list := Conflicts(args)
		require.NotEmpty(t, list, c.wrong)
		require.Contains(t, list[0].Text, c.text, c.wrong)
		for _, option := range list[0].Options {
			require.Contains(t, Serve.Names(), strings.ReplaceAll(strings.TrimPrefix(option, "--"), "-", "_"))
		}
		seen[list[0].Options[0]+list[0].Options[1]] = true
		args, err = r.Parse(append([]string{"m"}, strings.Fields(c.right)...))
		require.NoError(t, err, c.right)
		require.Empty(t, Conflicts(args), c.right)
	}
	args, err := r.Parse(strings.Fields("m --enable-expert-parallel -pp 2"))
	require.NoError(t, err)
	list := Conflicts(args)
	require.Len(t, list, 1)
	require.True(t, list[0].Warning)
	require.Len(t, seen, len(rules)-1, "every rule has its own example")
}

// The real engine refuses each of them too, and not the near ones for that reason.
func TestVLLMConflicts(t *testing.T) {
	home := realVLLM(t)
	model := filepath.Join(home, "tiny")
	var tries []try
	for _, c := range conflicting {
		for _, line := range []string{c.wrong, c.right} {
			tries = append(tries, try{Args: append([]string{model}, strings.Fields(line)...), Start: true})
		}
	}
	said, _ := askParser(t, home, Serve, tries)
	for i, c := range conflicting {
		wrong, right := said[2*i], said[2*i+1]
		t.Logf("%s\n  %s\n%s\n  %s", c.wrong, wrong, c.right, right)
		if wrong == "ok" || wrong == right {
			t.Errorf("vLLM takes %s", c.wrong)
		}
	}
}
