package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// A real SGLang on CPU behind the real Dynamo's KV router. The router learns from the worker's events which prompts its
// cache holds. Nothing here is simulated.
//
// covers: P-21
func TestDynamoSGLang(t *testing.T) {
	if os.Getenv("DYNAMO_SGLANG") == "" {
		t.Skip("no SGLang for Dynamo (VLLM_LAB=DIR SGLANG_LAB=DIR make test-dynamo)")
	}
	dir, _ := dynamoLab(t)
	o := profllm(t, dir, nil, "slurm", "submit", "--system", "site.toml", "sglang.toml", "--watch")
	require.Equal(t, exitOK, o.code, o.stdout+o.stderr)
	all := dynamoResults(t, dir)
	require.Len(t, all, 2)
	for name, r := range all {
		require.True(t, r.Validity.Valid, "%s: %v", name, r.Validity.Words)
		require.False(t, r.Simulated, "%s: SGLang computes every token", name)
		require.Equal(t, 20, *r.Results.CompletedRequests, name)
	}
	again := all["sglang/again"].Results.Routing
	require.Greater(t, *again.HitRate, 0.8, "the prompts are those of the first phase")
	require.Greater(t, *again.ExpectedTokens, 0.8**again.InputTokens, "by its events the router knew")
}
