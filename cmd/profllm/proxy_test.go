package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
)

// What the proxy saw of engines that fail is in the record and judged: requests
// that an engine read and dropped, and those that it refused. A run without a
// fault has the same counters and passes.
//
// covers: PL-V34
func TestRehearsedProxyErrors(t *testing.T) {
	if testing.Short() {
		t.Skip("runs rehearsals")
	}
	cases := []struct{ faults, role, reason, status string }{
		{"", "", "", ""},
		{"prefill:drop=0.2", "prefill", "closed", "502"},
		{"decode:fail=0.2", "", "", "500"},
	}
	dir := t.TempDir()
	var text strings.Builder
	text.WriteString("name = \"proxied\"\n")
	for i, c := range cases {
		fmt.Fprintf(&text, "[[Tests]]\nid = \"t%d\"\ntest_template_name = \"vllm\"\nnum_nodes = 2\n[Tests.extra_env_vars]\nPROFLLM_SIM_FAULTS = %q\n", i, c.faults)
		text.WriteString("[Tests.cmd_args.prefill]\n[Tests.cmd_args.decode]\n[Tests.bench_cmd_args]\nmax_concurrency = 4\nnum_prompts = 40\nrandom_output_len = 5\n")
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(text.String()), 0o644))
	profllm(t, dir, []string{"PROFLLM_SIM_ITL=5ms"}, "rehearse", "s.toml", "--output-dir", "results")
	seen := 0
	for d, p := range runs(t, dir) {
		var i int
		_, err := fmt.Sscanf(p.Test, "t%d", &i)
		require.NoError(t, err)
		seen++
		c, r := cases[i], readResult(t, d)
		counted, check := r.Results.Proxy, r.Validity.Check("proxy-errors")
		require.NotNil(t, counted, c.faults)
		require.GreaterOrEqual(t, counted.Requests, int64(40))
		if c.faults == "" {
			require.Equal(t, result.Pass, check.Outcome, check.Detail)
			require.Equal(t, map[string]int64{"200": counted.Requests}, counted.Statuses)
			continue
		}
		require.Equal(t, result.Fail, check.Outcome, c.faults)
		require.NotEqual(t, result.VerdictValid, r.Validity.Verdict)
		require.Positive(t, counted.Statuses[c.status])
		require.Contains(t, check.Detail,
			fmt.Sprintf("%d of %d requests were answered with an error", counted.Statuses[c.status], counted.Requests))
		require.Zero(t, counted.Resent, "what an engine read is not sent again")
		if c.reason != "" {
			require.Len(t, counted.Backends, 1)
			require.Equal(t, c.role, counted.Backends[0].Role)
			require.Equal(t, map[string]int64{c.reason: counted.Statuses[c.status]}, counted.Backends[0].Failures)
		}
		require.Contains(t, r.Validity.Words, "request-errors", "the client says so too")
	}
	require.Equal(t, len(cases), seen)
}

// Help names the proxy's own flags, wherever it is asked for.
func TestProxyHelp(t *testing.T) {
	for _, args := range [][]string{{"proxy", "--help"}, {"proxy", "-h"}, {"proxy", "--port", "1", "--help"}} {
		o := profllm(t, t.TempDir(), nil, args...)
		require.Zero(t, o.code)
		require.Contains(t, o.stdout, "Usage: profllm proxy")
		require.Contains(t, o.stdout, "--max-bodies")
		require.Empty(t, o.stderr)
	}
}
