package collect

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/promtext"
)

// changeOf is what a role's counters of testdata/dynamo did.
func changeOf(t *testing.T, router, role string) *change {
	t.Helper()
	page := func(when string) *promtext.Snapshot {
		data, err := os.ReadFile(filepath.Join("testdata/dynamo", router, "metrics-"+role+"-"+when+".prom"))
		require.NoError(t, err)
		s, err := promtext.Some(data, counts)
		require.NoError(t, err)
		return s
	}
	return finite(promtext.Sub(page("before"), page("after")))
}

// Of the same prompts, the KV router finds more in the caches of two workers than round robin does. The workers are
// simulated, and their caches kept as an engine's would be.
func TestRouting(t *testing.T) {
	kv := routing(changeOf(t, "kv", "frontend"), false)
	require.EqualValues(t, 240, kv.Requests)
	require.Zero(t, kv.FailedRequests)
	require.Equal(t, 65280.0, *kv.InputTokens)
	require.Equal(t, 46672.0, *kv.CachedTokens)
	require.InDelta(t, 0.715, *kv.HitRate, 0.001)
	require.Equal(t, 46672.0, *kv.ExpectedTokens)
	require.Equal(t, 52528.0, *kv.BestTokens)
	require.Positive(t, *kv.OverheadMS)
	require.False(t, kv.Reset)

	robin := routing(changeOf(t, "round-robin", "frontend"), true)
	require.Equal(t, 32768.0, *robin.CachedTokens)
	require.InDelta(t, 0.502, *robin.HitRate, 0.001)
	require.Nil(t, robin.OverheadMS, "nobody decided by caches")
	require.True(t, robin.Others)

	require.Nil(t, routing(changeOf(t, "kv", "worker"), false), "a worker routes nothing")
	totals := changeOf(t, "kv", "worker").Totals(counted)
	require.Contains(t, totals, "dynamo_component_requests_total")
	require.Contains(t, totals, "vllm:e2e_request_latency_seconds_count")
	require.NotContains(t, totals, "dynamo_engine_request")
}

// Failed requests are counted by what Dynamo calls their error.
func TestRoutingErrors(t *testing.T) {
	const page = `# TYPE dynamo_frontend_requests_total counter
dynamo_frontend_requests_total{endpoint="chat",error_type="",model="m",status="success"} 3
dynamo_frontend_requests_total{endpoint="chat",error_type="unavailable",model="m",status="error"} 4
dynamo_frontend_requests_total{endpoint="chat",error_type="internal",model="m",status="error"} 1
# TYPE dynamo_frontend_model_migration_total counter
dynamo_frontend_model_migration_total{migration_type="ongoing_request",model="m"} 2
# TYPE dynamo_frontend_model_rejection_total counter
dynamo_frontend_model_rejection_total{endpoint="chat",model="m"} 5
`
	after, err := promtext.Some([]byte(page), counts)
	require.NoError(t, err)
	r := routing(finite(promtext.Sub(&promtext.Snapshot{}, after)), false)
	require.EqualValues(t, 8, r.Requests)
	require.EqualValues(t, 5, r.FailedRequests)
	require.Equal(t, map[string]int64{"unavailable": 4, "internal": 1}, r.Errors)
	require.EqualValues(t, 2, r.Migrations)
	require.EqualValues(t, 5, r.Rejected)
	require.Nil(t, r.HitRate, "the page has no tokens")
}
