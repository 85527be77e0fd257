package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

// Each way in which a vLLM server spans nodes, on the lab: every rank runs on its node, and gets its
// own form of the command.
//
// covers: SRV-2, SRV-3, SRV-4, SRV-20
func TestSlurmLayouts(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	scenario, err := filepath.Abs("../../scenarios/layouts.toml")
	require.NoError(t, err)
	o := profllm(t, dir, nil, "slurm", "submit", "--simulate", "--system", "site.toml", scenario, "--wait")
	require.Equal(t, exitOK, o.code)
	all := runs(t, dir)
	require.Len(t, all, 6)
	second := map[string][2]string{ // a log of the second node, and what it holds
		"ray.tp8": {"serve-1.log", "Ray rank 1 of 2"}, "ray.tp2dp4": {"serve-1.log", "Ray rank 1 of 2"},
		"mp.tp4pp2":       {"serve-1.log", "--headless --node-rank 1"},
		"headless.tp2dp4": {"serve-1.log", "--headless --data-parallel-start-rank 2"},
		"hybrid.tp2dp4":   {"serve_1-0.log", "--data-parallel-start-rank 2"},
		"external.tp2dp4": {"serve_3-0.log", "--data-parallel-rank 3"},
	}
	for d, p := range all {
		t.Run(p.Test, func(t *testing.T) {
			requirePlaced(t, d, p)
			require.Contains(t, logOf(t, d, second[p.Test][0]), second[p.Test][1])
			require.NotContains(t, logOf(t, d, p.Roles[0].Name+"-0.log"), "--headless")
		})
	}
}

// Rehearsed, the servers of both layouts with several API servers meet, and each of them serves its
// share of the requests through the proxy. The record has the requests of each, and of the proxy.
//
// covers: SRV-20
func TestBalancedLayouts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(balancedScenario("hybrid", "")+balancedTest("external", "")), 0o644))
	o := profllm(t, dir, nil, "rehearse", "s.toml", "--output-dir", "results", "--gpus-per-node", "4")
	require.Equal(t, exitOK, o.code, o.stderr)
	require.Contains(t, o.stderr, "requests go through profllm's proxy to the 2 API servers, so the proxy is part of what is measured")
	all := runs(t, dir)
	require.Len(t, all, 2)
	for d, p := range all {
		servers := map[string]int{"hybrid": 2, "external": 4}[p.Test]
		r := readResult(t, d)
		require.Len(t, r.Results.Server, servers)
		finished := 0.0
		for i, s := range r.Results.Server {
			require.Equal(t, "serve", s.Role)
			require.Equal(t, i, s.Replica)
			n := s.Counters["vllm:request_success_total"]
			require.Positive(t, n, "server %d of %s", i, p.Test)
			finished += n
			events, err := job.ReadEvents(d)
			require.NoError(t, err)
			require.True(t, slices.ContainsFunc(events, func(e job.Event) bool {
				return e.Event == job.RoleReady && e.Role == p.Roles[i].Name
			}))
		}
		require.GreaterOrEqual(t, finished, 32.0)
		require.EqualValues(t, 32, *r.Results.CompletedRequests)
		require.NotNil(t, r.Results.Proxy)
		require.Positive(t, *r.Results.Proxy.OverheadMS)
		require.Equal(t, result.Pass, r.Validity.Check("uneven-spread").Outcome)
	}
}

// balancedScenario is a scenario with balancedTest alone.
func balancedScenario(kind, more string) string { return "name = \"s\"\n" + balancedTest(kind, more) }

// balancedTest is a test of four ranks on two nodes, with that load balancing.
func balancedTest(kind, more string) string {
	return fmt.Sprintf(`[[Tests]]
id = %q
test_template_name = "vllm"
num_nodes = 2
time_limit = "10m"
client = "profllm"
[Tests.cmd_args]
%s
[Tests.cmd_args.decode]
data_parallel_size = 4
data_parallel_%s_lb = true
[Tests.bench_cmd_args]
random_input_len = 32
random_output_len = 16
max_concurrency = 4
num_prompts = 32
`, kind, more, kind)
}

// All API servers must be there, and none serves on without another: they are ranks of one group.
//
// covers: SRV-20
func TestBalancedServerMissing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ faults, wait, first string }{
		"absent": {"serve_1:absent=0", "serve_wait_seconds = 3", "Shutting down before all nodes joined."},
		"dies":   {"serve_1:die-on-request=4", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(balancedScenario("hybrid", c.wait)), 0o644))
			o := profllm(t, dir, []string{"PROFLLM_SIM_FAULTS=" + c.faults}, "rehearse", "s.toml", "--output-dir", "results",
				"--gpus-per-node", "4")
			require.Equal(t, exitJobFailed, o.code, o.stderr)
			for d := range runs(t, dir) {
				require.Contains(t, logOf(t, d, "serve_0-0.log"), c.first)
				r := readResult(t, d)
				require.False(t, r.Validity.Valid)
				require.NotEqual(t, result.Completed, r.Status, "the job ended with the server")
			}
		})
	}
}

func logOf(t *testing.T, dir, name string) string {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(dir, run.LogDir, name))
	require.NoError(t, err)
	return string(log)
}

// A rehearsal shows that a rank is missing: the head never serves.
//
// Each node has a log of its own, which stays.
//
// covers: SRV-3, SRV-14
func TestMissingRank(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const text = `name = "s"
[[Tests]]
id = "dp"
test_template_name = "vllm"
num_nodes = 2
time_limit = "10m"
[Tests.cmd_args]
serve_wait_seconds = 3
[Tests.cmd_args.decode]
data_parallel_size = 2
data_parallel_backend = "mp"
`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(text), 0o644))
	o := profllm(t, dir, []string{"PROFLLM_SIM_FAULTS=serve:absent=1"}, "rehearse", "s.toml", "--output-dir", "results",
		"--gpus-per-node", "4")
	require.Equal(t, exitJobFailed, o.code, o.stderr)
	for d := range runs(t, dir) {
		require.Contains(t, logOf(t, d, "serve-1.log"), "rank 1 never joins the others")
		require.Contains(t, logOf(t, d, "serve-0.log"), "Shutting down before all nodes joined.")
		r := readResult(t, d)
		require.False(t, r.Validity.Valid)
		t.Logf("%+v", r.Failure)
	}
}
