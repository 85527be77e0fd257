package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
)

// dynamoLab returns a folder with the files of examples/dynamo-lab, on the Slurm lab. Without a Dynamo, which make
// test-dynamo installs, the test is skipped.
func dynamoLab(t *testing.T) (dir, home string) {
	t.Helper()
	home = os.Getenv("DYNAMO_LAB")
	if home == "" {
		if os.Getenv("PROFLLM_REQUIRE_DYNAMO") == "1" {
			t.Fatal("DYNAMO_LAB is not set")
		}
		t.Skip("no NVIDIA Dynamo (make test-dynamo)")
	}
	dir = lab(t)
	for _, name := range []string{"site.toml", "scenario.toml", "vllm.toml", "lmcache.toml", "sglang.toml",
		"tests/mocker.toml", "tests/vllm.toml"} {
		data, err := os.ReadFile(filepath.Join("../../examples/dynamo-lab", name))
		require.NoError(t, err)
		to := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
		require.NoError(t, os.WriteFile(to, []byte(strings.ReplaceAll(string(data), "@LAB@", home)), 0o644))
	}
	return dir, home
}

// submitDynamo runs a scenario of one test over the mocker, and returns the exit code and the records by test and load.
func submitDynamo(t *testing.T, dir, name, text string) (int, map[string]*result.Result) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name+".toml"), []byte("name = \""+name+"\"\n[[Tests]]\nid = \""+name+
		"\"\ntest_name = \"mocker\"\ntime_limit = \"5m\"\naccept = { idle_s = 5 }\n"+text), 0o644))
	o := profllm(t, dir, nil, "slurm", "submit", "--system", "site.toml", name+".toml", "--watch")
	return o.code, dynamoResults(t, dir)
}

// dynamoResults are the records below a folder by test and load.
func dynamoResults(t *testing.T, dir string) map[string]*result.Result {
	t.Helper()
	all := map[string]*result.Result{}
	for d, p := range runs(t, dir) {
		for i := range p.Loads {
			l := &p.Loads[i]
			at := d
			if l.Name != "" {
				at = filepath.Join(d, l.Name)
			}
			all[strings.TrimSuffix(p.Test+"/"+l.Name, "/")] = readResult(t, at)
		}
	}
	return all
}

// The real Dynamo on the lab under the real AIPerf: an aggregated worker; prefill and decode on two nodes, which find
// each other through a real etcd; two of prefill and three of decode behind the KV router, in three phases. .ci/run
// knows this test as the smoke test of Dynamo.
//
// covers: P-22, U-40
func TestDynamoServes(t *testing.T) {
	dir, _ := dynamoLab(t)
	o := profllm(t, dir, nil, "slurm", "submit", "--system", "site.toml", "scenario.toml", "--watch")
	require.Equal(t, exitOK, o.code, o.stdout+o.stderr)
	all := dynamoResults(t, dir)
	require.Len(t, all, 5)
	for name, r := range all {
		require.True(t, r.Validity.Valid, "%s: %v", name, r.Validity.Words)
		require.True(t, r.Simulated, "%s: the mocker computes nothing", name)
		require.Equal(t, "aiperf", r.Config.Benchmark.Kind, name)
		require.Equal(t, 40, *r.Results.CompletedRequests, name)
		require.EqualValues(t, 40*16, *r.Results.TotalOutputTokens, "%s: by the server's count", name)
		require.Equal(t, result.Pass, r.Validity.Check("wrong-server").Outcome, name)
	}
	require.Len(t, all["disaggregated"].Placement.Nodes, 2)
	require.Contains(t, all["many/round_1"].Results.Latency, result.TTFT)
	require.NotContains(t, all["many/round_3"].Results.Latency, result.TTFT, "without streaming there is no first token, and a record all the same")
}

// A worker that never registers is missed by number.
func TestDynamoNeverReady(t *testing.T) {
	dir, _ := dynamoLab(t)
	code, all := submitDynamo(t, dir, "unready", `[Tests.cmd_args.dynamo]
serve_wait_seconds = 20
[Tests.cmd_args.dynamo.decode_worker.args]
endpoint = "dyn://dynamo.elsewhere.generate"
`)
	require.Equal(t, exitJobFailed, code)
	r := all["unready"]
	require.False(t, r.Validity.Valid)
	require.Equal(t, "frontend", r.Failure.Role)
	require.Contains(t, r.Failure.Line, "registered: 0 of 1 backend")
}
