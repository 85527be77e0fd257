package job

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRank(t *testing.T) {
	env := map[string]string{"SLURM_PROCID": "3", "PROFLLM_NODE_ADDR": "127.0.0.9"}
	j := &Job{Env: func(name string) string { return env[name] }}
	command := []string{"python3", "-m", "x", "--json", "{rank}"}
	argv, environ, err := j.Resolve(Rank{Option: "--node-rank", First: true, Addresses: []string{"HOST_IP"}, Command: command},
		[]string{"A=1", "HOST_IP=old", "HOST_IPS=b"})
	require.NoError(t, err)
	require.Equal(t, []string{"python3", "-m", "x", "--json", "{rank}", "--node-rank", "3"}, argv)
	require.Equal(t, []string{"A=1", "HOST_IPS=b", "HOST_IP=127.0.0.9"}, environ)
	require.Len(t, command, 5, "the caller's list is left alone")

	_, environ, err = j.Resolve(Rank{Option: "--r", Command: []string{"x"}}, []string{"A=1"})
	require.NoError(t, err)
	require.Equal(t, []string{"A=1"}, environ)

	_, _, err = j.Resolve(Rank{Option: "--r"}, nil)
	require.ErrorContains(t, err, "no command")
	env["SLURM_PROCID"] = ""
	_, _, err = j.Resolve(Rank{Option: "--r", Command: []string{"x"}}, nil)
	require.ErrorContains(t, err, "SLURM_PROCID")
	env["SLURM_PROCID"], env["PROFLLM_NODE_ADDR"], env["SLURM_STEP_NODELIST"] = "0", "", "n[1"
	_, _, err = j.Resolve(Rank{Option: "--r", Addresses: []string{"A"}, Command: []string{"x"}}, nil)
	require.Error(t, err, "a host list that cannot be read")
}

// The first task of a step can be another one than the rest: the head of a group.
func TestRankOfTheFirst(t *testing.T) {
	for rank, want := range map[string]string{
		"0": "vllm serve m", "1": "vllm serve m --headless --start 4", "3": "vllm serve m --headless --start 12",
	} {
		j := &Job{Env: func(name string) string {
			return map[string]string{"SLURM_PROCID": rank, "PROFLLM_NODE_ADDR": "127.0.0.9"}[name]
		}}
		argv, environ, err := j.Resolve(Rank{Option: "--start", Each: 4, Others: []string{"--headless"},
			Addresses: []string{"A", "B"}, Command: []string{"vllm", "serve", "m"}}, []string{"B=head"})
		require.NoError(t, err)
		require.Equal(t, want, strings.Join(argv, " "))
		require.Equal(t, []string{"A=127.0.0.9", "B=127.0.0.9"}, environ)
	}
}

// Tasks of a benchmark without a server find each other as those of torchrun do: they meet at the
// first node, and only the first task of an engine writes the file that is read.
//
// covers: OFF-1
func TestJoined(t *testing.T) {
	for rank, want := range map[string]struct{ file, local string }{
		"0": {"throughput-0.json", "0"}, "3": {"throughput-3.worker.json", "1"}, "2": {"throughput-2.json", "0"},
	} {
		env := map[string]string{"SLURM_PROCID": rank, "SLURM_NTASKS": "4", "SLURM_STEP_NODELIST": "10.1.0.[5-6]"}
		j := &Job{Env: func(name string) string { return env[name] }}
		argv, environ, err := j.Resolve(Rank{Joined: 2, Port: 29501, Command: []string{"vllm", "--prompt", "50%to", "--output-json",
			"a%t/throughput-%t.json"}},
			[]string{"A=1", "RANK=7"})
		require.NoError(t, err)
		require.Equal(t, []string{"vllm", "--prompt", "50%to", "--output-json", "a%t/" + want.file}, argv)
		require.Equal(t, []string{"A=1", "LOCAL_RANK=" + want.local, "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=10.1.0.5",
			"MASTER_PORT=29501", "RANK=" + rank, "WORLD_SIZE=4"}, environ)
		env["SLURM_STEP_NODELIST"], env["SLURM_STEP_NUM_TASKS"] = "n1", "8"
		_, environ, err = j.Resolve(Rank{Joined: 2, Command: []string{"vllm"}}, nil)
		require.NoError(t, err)
		require.Contains(t, environ, "MASTER_ADDR=127.0.0.1", "one node needs no network")
		require.Contains(t, environ, "WORLD_SIZE=8")
		env["SLURM_STEP_NUM_TASKS"] = "many"
		_, _, err = j.Resolve(Rank{Joined: 2, Command: []string{"vllm"}}, nil)
		require.ErrorContains(t, err, "how many tasks")
	}
}
