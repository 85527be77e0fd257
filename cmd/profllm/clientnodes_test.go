package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
)

const clientNodesScenario = `name = "apart"
[[Tests]]
id = "load"
test_template_name = "vllm"
num_nodes = 3
client_nodes = 2
client = "profllm"
bench_cmd_args = { num_prompts = 40, max_concurrency = 6, random_output_len = 8, save_detailed = true }
`

// The last nodes of a job are the client's alone: one process on each, which measure one load.
//
// covers: BEN-17
func TestClientNodes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(clientNodesScenario), 0o644))
	o := profllm(t, dir, []string{"PROFLLM_SIM_STARTUP=50ms"}, "rehearse", "s.toml")
	require.Equal(t, exitOK, o.code, o.stderr)
	d := only(t, dir)
	var p plan.Plan
	require.NoError(t, run.ReadJSON(filepath.Join(d, run.PlanFile), &p))
	require.Equal(t, plan.Slice{Offset: 0, Count: 1}, p.Roles[0].Nodes)
	require.Equal(t, plan.Slice{Offset: 1, Count: 2}, p.Loads[0].Clients[0].Nodes)
	r := readResult(t, d)
	require.True(t, r.Validity.Valid, "%v", r.Validity.Words)
	require.Equal(t, 40, *r.Results.CompletedRequests)
	require.Equal(t, 2, *r.Results.Client.Processes)
	require.Equal(t, 2, *r.Results.Client.Threads)
	require.NoFileExists(t, filepath.Join(d, "raw", "rendezvous.json"))
	require.FileExists(t, filepath.Join(d, "logs", "bench-1.log"))
}

func TestClientNodesAreRefused(t *testing.T) {
	t.Parallel()
	for want, edit := range map[string][2]string{
		"s.toml:6:1: client_nodes is 3, but the test has 3 nodes: none is left for the servers": {"client_nodes = 2", "client_nodes = 3"},
		"s.toml:6:1: client_nodes is -1, must be 0 or more":                                     {"client_nodes = 2", "client_nodes = -1"},
		"s.toml:6:1: test \"load\": client_nodes is 2, but this load client is one process":     {"client = \"profllm\"", "client = \"vllm\""},
		"s.toml:6:1: test \"load\": a Sleep test serves nothing, so client_nodes has no effect": {"\"vllm\"\n", "\"Sleep\"\n"},
		"s.toml:6:1: no server runs on the nodes of the client, but bench_host is localhost":    {"client = ", "cmd_args = { bench_host = \"localhost\" }\nclient = "},
		"bench_cmd_args.max_concurrency is 1, but client_nodes is 2: each node needs one":       {"max_concurrency = 6", "max_concurrency = 1"},
		"bench_cmd_args.processes does not go with client_nodes":                                {"num_prompts = 40", "processes = 2"},
		"bench_cmd_args.rendezvous: profllm sets this argument itself":                          {"num_prompts = 40", "rendezvous = 'x'"},
	} {
		dir := t.TempDir()
		text := strings.Replace(clientNodesScenario, edit[0], edit[1], 1)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(text), 0o644))
		o := profllm(t, dir, nil, "verify", "s.toml")
		if o.code == exitOK {
			o = profllm(t, dir, nil, "slurm", "dry-run", "s.toml", "--simulate")
		}
		require.Equal(t, exitDefinition, o.code, want)
		require.Contains(t, o.stdout+o.stderr, want)
	}
}
