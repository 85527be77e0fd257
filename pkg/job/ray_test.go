package job

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
)

// rayVar makes the test binary one rank of a Ray cluster, in a process of its
// own, since a rank ends every process below it.
const rayVar = "PROFLLM_TEST_RAY"

func rayRank(arg string) int {
	var r Ray
	if err := json.Unmarshal([]byte(arg), &r); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 99
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	j := &Job{Env: os.Getenv, Stdout: os.Stdout, Stderr: os.Stderr, Now: time.Now}
	code, err := j.RunRay(ctx, r, os.Environ())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return code
}

// rank is a rank to run with a fake ray program.
type rank struct {
	Ray
	number string
	dir    string // of the fake ray: its calls and environments
	cmd    *exec.Cmd
	output bytes.Buffer
}

// newRank prepares a rank. cases are those of a bash case over ray's verb.
func newRank(t *testing.T, number, cases string, r Ray) *rank {
	t.Helper()
	k := &rank{Ray: r, number: number, dir: t.TempDir()}
	bin := filepath.Join(k.dir, "bin")
	require.NoError(t, os.Mkdir(bin, 0o755))
	script := "#!/bin/bash\ncd '" + k.dir + "' || exit 1\necho \"$*\" >>calls\nenv >\"env-$1\"\ncase $1 in\n" + cases +
		"\nesac\n"
	require.NoError(t, os.WriteFile(filepath.Join(bin, "ray"), []byte(script), 0o755))
	arg, err := json.Marshal(r)
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	k.cmd = exec.Command(self)
	k.cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), rayVar+"="+string(arg), "SLURM_PROCID="+number,
		"SLURM_STEP_NODELIST=n[1-2]", "SLURMD_NODENAME=n1", "PROFLLM_NODE_ADDR=127.0.0.9",
		"http_proxy=http://p:1", "HTTPS_PROXY=http://p:1", "RAY_ADDRESS=elsewhere:1")
	k.cmd.Stdout, k.cmd.Stderr = &k.output, &k.output
	return k
}

// run runs the rank to its end.
func (k *rank) run(t *testing.T) (code int, output string) {
	t.Helper()
	var exit *exec.ExitError
	if err := k.cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return k.cmd.ProcessState.ExitCode(), k.output.String()
}

func (k *rank) lines(t *testing.T, name string) []string {
	t.Helper()
	return strings.Split(strings.TrimSpace(readFile(t, filepath.Join(k.dir, name))), "\n")
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(data)
}

// blocks is a ray that stays, as with --block; growing a cluster that has two
// nodes from the third question on, and a third that is not there yet.
const (
	blocks  = "start) exec sleep 7200 ;;\n"
	growing = blocks + `status) echo x >>asked; n=1; [ "$(wc -l <asked)" -ge 3 ] && n=2; echo "Active:"; for i in $(seq $n); do echo " 1 node_$i"; done; echo "Pending:"; echo " 1 node_9"`
)

// covers: PL-G8, PL-G10, PL-D8, SRV-5
func TestRayHead(t *testing.T) {
	r := Ray{
		Nodes: 2, Head: "10.0.0.1", Port: 6400, Timeout: time.Minute,
		HeadArgs: []string{"--num-cpus=4", "--include-dashboard=true"},
		Command: []string{"sh", "-c",
			`echo "server $RAY_ADDRESS $VLLM_HOST_IP proxy=$http_proxy$HTTPS_PROXY usage=$RAY_USAGE_STATS_ENABLED $1"; exit 7`, "sh", "a b"},
	}
	k := newRank(t, "0", growing, r)
	code, out := k.run(t)
	require.Equal(t, 7, code, "the server's own exit code: %s", out)
	require.Contains(t, out, "server 10.0.0.1:6400 10.0.0.1 proxy= usage=0 a b\n")
	require.Contains(t, out, "Ray has 2 of 2 nodes")
	require.ElementsMatch(t, []string{
		"start --head --port=6400 --node-ip-address=10.0.0.1 --block --num-cpus=4 --include-dashboard=true",
		"status --address=10.0.0.1:6400", "status --address=10.0.0.1:6400", "status --address=10.0.0.1:6400",
	}, k.lines(t, "calls"))
	for _, kv := range k.lines(t, "env-start") {
		name, _, _ := strings.Cut(kv, "=")
		require.NotContains(t, []string{"http_proxy", "HTTPS_PROXY", "RAY_ADDRESS"}, name)
	}
	require.Contains(t, k.lines(t, "env-start"), "RAY_AUTH_MODE=disabled", "a token left in the home is not demanded")
	require.Contains(t, k.lines(t, "env-status"), "RAY_AUTH_MODE=disabled")
}

// Who wants Ray's tokens sets them for every rank.
func TestRayKeepsTheModeItIsGiven(t *testing.T) {
	k := newRank(t, "0", growing,
		Ray{Nodes: 2, Head: "10.0.0.1", Port: 6400, Timeout: time.Minute, Command: []string{"true"}})
	k.cmd.Env = append(k.cmd.Env, "RAY_AUTH_MODE=token")
	code, out := k.run(t)
	require.Zero(t, code, out)
	require.Contains(t, k.lines(t, "env-start"), "RAY_AUTH_MODE=token")
}

func TestRayHeadFails(t *testing.T) {
	two := "status) printf 'Active:\\n 2 node_1\\n'"
	for name, c := range map[string]struct {
		ray     string
		command string
		timeout time.Duration
		code    int
		want    string
	}{
		"a node is missing":     {blocks + "status) printf 'Active:\\n 1 node_1\\n'", "true", 0, 1, "Ray has 1 of 2 nodes after 0s"},
		"no answer":             {blocks + "status) exit 1", "true", 0, 1, "Ray has 0 of 2 nodes after 0s"},
		"not up yet":            {blocks + "status) echo 'No cluster status. It may take a few seconds for the Ray internal services to start up.'", "true", 0, 1, "Ray has 0 of 2 nodes after 0s"},
		"the head fails":        {"start) exit 3 ;;\nstatus) exit 1", "true", time.Minute, 1, "the Ray head ended: ray start --head"},
		"the head ends":         {"start) exit 0 ;;\nstatus) exit 1", "true", time.Minute, 1, "the Ray head ended: exit status 0"},
		"the server is missing": {blocks + two, "no-such-server", time.Minute, 127, "no-such-server"},
		"the head dies later":   {"start) while [ ! -e serving ]; do sleep 0.02; done; exit 1 ;;\n" + two, "SERVE", time.Minute, 1, "the Ray head ended before the server"},
	} {
		t.Run(name, func(t *testing.T) {
			r := Ray{Nodes: 2, Head: "127.0.0.1", Port: 6400, Timeout: c.timeout, Command: []string{c.command}}
			if c.command == "SERVE" {
				r.Command = []string{"sh", "-c",
					`touch "$(dirname "$(dirname "$(command -v ray)")")/serving"; exec sleep 7200`}
			}
			code, out := newRank(t, "0", c.ray, r).run(t)
			require.Contains(t, out, c.want)
			require.Equal(t, c.code, code)
		})
	}
}

// Daemons that detach themselves do not outlive their rank.
//
// covers: PL-G13
func TestRayLeavesNothing(t *testing.T) {
	r := Ray{Nodes: 1, Head: "127.0.0.1", Port: 6400, Timeout: time.Minute, Command: []string{"true"}}
	k := newRank(t, "0", "start) setsid sleep 7200 & echo $! >daemon; exec sleep 7200 ;;\nstatus) [ -s daemon ] && printf 'Active:\\n 1 node_1\\n'", r)
	code, out := k.run(t)
	require.Zero(t, code, out)
	pid, err := strconv.Atoi(k.lines(t, "daemon")[0])
	require.NoError(t, err)
	await.True(t, func() bool { return !alive(pid) }, "process %d ends", pid)
}

// A worker waits for its head, and so may start first.
//
// covers: SRV-5, SRV-12
func TestRayWorker(t *testing.T) {
	head, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer head.Close()
	port := head.Addr().(*net.TCPAddr).Port
	r := Ray{Nodes: 2, Head: "127.0.0.1", Port: port, Timeout: time.Minute, WorkerArgs: []string{"--num-cpus=4"},
		Command: []string{"false"}}
	joined := fmt.Sprintf("start --address=127.0.0.1:%d --node-ip-address=127.0.0.9 --block --num-cpus=4", port)
	t.Run("stays until Ray ends", func(t *testing.T) {
		k := newRank(t, "1", "start) ;;", r)
		code, out := k.run(t)
		require.Zero(t, code, out)
		require.Equal(t, []string{joined}, k.lines(t, "calls"))
		require.Contains(t, k.lines(t, "env-start"), "VLLM_HOST_IP=127.0.0.9")
	})
	t.Run("the head is not ready at first", func(t *testing.T) {
		k := newRank(t, "1", "start) [ -e tried ] && exit 0; touch tried; exit 1 ;;", r)
		code, out := k.run(t)
		require.Zero(t, code, out)
		require.Equal(t, []string{joined, joined}, k.lines(t, "calls"))
	})
	t.Run("is stopped", func(t *testing.T) {
		k := newRank(t, "1", blocks, r)
		require.NoError(t, k.cmd.Start())
		await.File(t, filepath.Join(k.dir, "env-start"))
		require.NoError(t, k.cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(t, k.cmd.Wait())
	})
	t.Run("there is no head", func(t *testing.T) {
		gone := r
		gone.Port, gone.Timeout = 1, 0
		k := newRank(t, "1", "start) ;;", gone)
		code, out := k.run(t)
		require.Equal(t, 1, code)
		require.Contains(t, out, "no Ray head at 127.0.0.1:1 after 0s")
		require.NoFileExists(t, filepath.Join(k.dir, "calls"), "Ray itself would wait long")
	})
	t.Run("no rank", func(t *testing.T) {
		code, out := newRank(t, "", "start) ;;", r).run(t)
		require.Equal(t, 1, code)
		require.Contains(t, out, "SLURM_PROCID")
	})
}

func TestActiveNodes(t *testing.T) {
	for text, want := range map[string]int{
		readFile(t, "testdata/ray-status-1.txt"):                                                    1,
		readFile(t, "testdata/ray-status-2.txt"):                                                    2,
		"No cluster status. It may take a few seconds for the Ray internal services to start up.\n": 0,
		"": 0,
		"Active:\n 3 gpu_nodes\n 1 head\nPending:\n 5 gpu_nodes\n": 4,
		"Pending:\n 1 node_a\nActive:\n (no active nodes)\n":       0,
		"Active:\n -1 node_a\n 99999999 node_b\n one node_c\n":     0,
	} {
		require.Equal(t, want, activeNodes(text), text)
	}
}

func FuzzActiveNodes(f *testing.F) {
	for _, name := range []string{"testdata/ray-status-1.txt", "testdata/ray-status-2.txt"} {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	f.Fuzz(func(t *testing.T, status string) {
		n := activeNodes(status)
		require.GreaterOrEqual(t, n, 0)
		if !strings.Contains(status, "Active:") {
			require.Zero(t, n)
		}
	})
}

// Options that place the dashboard ask for one.
func TestRayDashboard(t *testing.T) {
	for option, want := range map[string]bool{
		"--dashboard-host=0.0.0.0": true, "--dashboard-port=8265": true, "--dashboard-agent-listen-port=52365": false, "--num-cpus=4": false,
	} {
		k := newRank(t, "0", growing,
			Ray{Nodes: 2, Head: "10.0.0.1", Port: 6400, Timeout: time.Minute, HeadArgs: []string{option},
				Command: []string{"true"}})
		code, out := k.run(t)
		require.Zero(t, code, out)
		start := strings.Join(k.lines(t, "calls"), "\n")
		require.Contains(t, start, option)
		require.Equal(t, !want, strings.Contains(start, "--include-dashboard=false"), start)
	}
}
