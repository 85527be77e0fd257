package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// A real LMCache beside a real engine behind the real Dynamo: of prompts that come again, the worker computes little,
// although vLLM's own prefix cache is off. Nothing here is simulated.
//
// covers: P-21, U-31
func TestDynamoLMCache(t *testing.T) {
	if os.Getenv("DYNAMO_LMCACHE") == "" {
		t.Skip("no LMCache for Dynamo's worker of vLLM (VLLM_LAB=DIR make test-dynamo)")
	}
	dir := dynamoVLLM(t)
	o := profllm(t, dir, nil, "slurm", "submit", "--system", "site.toml", "lmcache.toml", "--watch")
	require.Equal(t, exitOK, o.code, o.stdout+o.stderr)
	require.NotContains(t, o.stderr, "no worker reads the file")
	all := dynamoResults(t, dir)
	require.Len(t, all, 2)
	shares := map[string]float64{}
	for name, r := range all {
		require.True(t, r.Validity.Valid, "%s: %v", name, r.Validity.Words)
		require.False(t, r.Simulated, name)
		require.Equal(t, 20, *r.Results.CompletedRequests, name)
		for _, s := range r.Results.Server {
			if s.Role == "worker" {
				require.Zero(t, s.Counters["vllm:prefix_cache_hits_total"], name)
				shares[name] = s.Counters["vllm:external_prefix_cache_hits_total"] /
					s.Counters["vllm:external_prefix_cache_queries_total"]
			}
		}
		require.InDelta(t, shares[name], *r.Results.Routing.HitRate, 0.01, "%s: Dynamo's frontend was told the same", name)
	}
	require.Less(t, shares["lmcache/first"], 0.2, "but for the warm-up, each prompt is new")
	require.Greater(t, shares["lmcache/again"], 0.8, "two blocks of 128 tokens of each prompt of 300 are in the store")
}
