package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
)

// proxyErrors looks for what the proxy saw of engines that fail: requests that an engine read and dropped, or refused.
func proxyErrors(role, reason, status string) func(t *testing.T, dir string, r *result.Result) {
	return func(t *testing.T, _ string, r *result.Result) {
		counted, check := r.Results.Proxy, r.Validity.Check("proxy-errors")
		require.NotNil(t, counted)
		require.GreaterOrEqual(t, counted.Requests, int64(48))
		require.Equal(t, result.Fail, check.Outcome)
		require.Positive(t, counted.Statuses[status])
		require.Contains(t, check.Detail,
			fmt.Sprintf("%d of %d requests were answered with an error", counted.Statuses[status], counted.Requests))
		require.Zero(t, counted.Resent, "what an engine read is not sent again")
		if reason != "" {
			require.Len(t, counted.Backends, 1)
			require.Equal(t, role, counted.Backends[0].Role)
			require.Equal(t, map[string]int64{reason: counted.Statuses[status]}, counted.Backends[0].Failures)
		}
	}
}

// proxyWithoutErrors looks for the same counters without errors.
func proxyWithoutErrors(t *testing.T, _ string, r *result.Result) {
	check := r.Validity.Check("proxy-errors")
	require.Equal(t, result.Pass, check.Outcome, check.Detail)
	require.GreaterOrEqual(t, r.Results.Proxy.Requests, int64(48))
	require.Equal(t, map[string]int64{"200": r.Results.Proxy.Requests}, r.Results.Proxy.Statuses)
}

// Help names the proxy's own flags, wherever it is asked for.
func TestProxyHelp(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"proxy", "--help"}, {"proxy", "-h"}, {"proxy", "--port", "1", "--help"}} {
		o := profllm(t, t.TempDir(), nil, args...)
		require.Zero(t, o.code)
		require.Contains(t, o.stdout, "Usage: profllm proxy")
		require.Contains(t, o.stdout, "--max-bodies")
		require.Empty(t, o.stderr)
	}
}
