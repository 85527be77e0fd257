package sim

import (
	"context"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/sim/program"
	"github.com/profllm/profllm/pkg/sim/ray"
)

// rayEnv is a node of its own: its address, its state file.
func rayEnv(t testing.TB, addr string) map[string]string {
	t.Helper()
	return map[string]string{"PROFLLM_NODE_ADDR": addr, "TMPDIR": t.TempDir()}
}

// rayHead starts a head on a free port and returns its address.
func rayHead(t testing.TB, settings map[string]string) (*command, string) {
	t.Helper()
	c := start(t, settings, "ray", "start", "--head", "--port=0", "--num-cpus=2", "--num-gpus=4", "--block")
	c.await(t, "block forever")
	s, err := ray.ReadState(program.Process{Env: env(settings)}, settings["PROFLLM_NODE_ADDR"])
	require.NoError(t, err)
	return c, s.GCS
}

func TestRayCluster(t *testing.T) {
	here, there := rayEnv(t, "127.0.1.1"), rayEnv(t, "127.0.1.2")
	head, address := rayHead(t, here)

	status := func() string {
		code, out, errs := run(t, here, "ray", "status")
		require.Equal(t, 0, code, errs)
		return out
	}
	require.Equal(t, 1, strings.Count(status(), " 1 node_"))

	worker := start(t, there, "ray", "start", "--address="+address, "--num-cpus=2", "--num-gpus=4", "--block")
	worker.await(t, "block forever")
	out := status()
	require.Regexp(t, `(?s)Active:\n 1 node_[0-9a-f]{56}\n 1 node_[0-9a-f]{56}\nPending:\n \(no pending nodes\)`, out)
	require.Contains(t, out, " 0.0/4.0 CPU\n 0.0/8.0 GPU\n")

	// The engine sees both, by RAY_ADDRESS and by the daemon of its node.
	for _, settings := range []map[string]string{
		{"RAY_ADDRESS": address},
		{"PROFLLM_NODE_ADDR": "127.0.1.2", "TMPDIR": there["TMPDIR"]},
	} {
		c := start(t, settings, "vllm", "serve", "m", "--port", "0", "--distributed-executor-backend", "ray")
		c.await(t, "Connected to Ray cluster with (2) nodes")
		c.cancel()
		require.Equal(t, 0, c.exit(t))
	}

	worker.cancel()
	require.Equal(t, 0, worker.exit(t))
	await.True(t, func() bool { return strings.Count(status(), " 1 node_") == 1 },
		"a worker that left is no longer alive")

	code, out, _ := run(t, here, "ray", "stop", "--force")
	require.Equal(t, 0, code)
	require.Contains(t, out, "Stopped all 1 Ray processes.")
	require.Equal(t, 0, head.exit(t))
	code, out, _ = run(t, here, "ray", "stop")
	require.Equal(t, 0, code)
	require.Contains(t, out, "Did not find any active Ray processes.")
}

func TestRayWorkerDiesWithItsHead(t *testing.T) {
	head, address := rayHead(t, rayEnv(t, "127.0.1.1"))
	worker := start(t, rayEnv(t, "127.0.1.2"), "ray", "start", "--address="+address, "--block")
	worker.await(t, "block forever")
	head.cancel()
	require.Equal(t, 0, head.exit(t))
	require.Equal(t, 1, worker.exit(t))
	require.Contains(t, worker.err.String(), "exited unexpectedly")
}

// closedPort is an address where nobody listens.
func closedPort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

func TestRayWithoutAHead(t *testing.T) {
	settings, nobody := rayEnv(t, "127.0.0.1"), closedPort(t)
	code, _, errs := run(t, settings, "ray", "start", "--address="+nobody, "--block")
	require.Equal(t, 1, code)
	require.Contains(t, errs, "Failed to connect to GCS at address "+nobody)

	code, _, errs = run(t, settings, "ray", "status")
	require.Equal(t, 1, code)
	require.Contains(t, errs, "Could not find any running Ray instance")

	code, out, _ := run(t, settings, "vllm", "serve", "m", "--port", "0", "--distributed-executor-backend", "ray")
	require.Equal(t, 1, code)
	require.Contains(t, out, "Could not find any running Ray instance")
}

// A worker may be started before its head.
func TestRayWorkerWaitsForItsHead(t *testing.T) {
	there := rayEnv(t, "127.0.1.2")
	there["RAY_gcs_rpc_server_reconnect_timeout_s"] = "60"
	address := closedPort(t)
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	worker := start(t, there, "ray", "start", "--address="+address, "--block")
	worker.await(t, "Local node IP")
	head := start(t, rayEnv(t, "127.0.0.1"), "ray", "start", "--head", "--port", port, "--block")
	worker.await(t, "block forever")
	head.cancel()
	require.Equal(t, 0, head.exit(t))
	require.Equal(t, 1, worker.exit(t))
}

func TestRayPortAmongItsWorkers(t *testing.T) {
	code, _, errs := run(t, rayEnv(t, "127.0.0.1"), "ray", "start", "--head", "--port=16379", "--block")
	require.Equal(t, 1, code)
	require.Contains(t, errs, "ValueError: Ray component worker_ports is trying to use a port number 16379")
}

// Without --block the daemon lives on in this process group until `ray stop`.
func TestRayDaemon(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	settings := rayEnv(t, "127.0.0.1")
	var environ []string
	for name, value := range settings {
		environ = append(environ, name+"="+value)
	}
	p := program.Process{
		Args: []string{"ray", "start", "--head", "--port=0", "--num-cpus=1"},
		Env:  env(settings), Environ: environ, Stdout: &output{}, Stderr: &output{}, Executable: self,
	}
	require.Equal(t, 0, Main(context.Background(), p), "%s", p.Stderr)
	t.Cleanup(func() { run(t, settings, "ray", "stop") })
	code, out, errs := run(t, settings, "ray", "status")
	require.Equal(t, 0, code, errs)
	require.Equal(t, 1, strings.Count(out, " 1 node_"))
	state, err := ray.ReadState(p, "127.0.0.1")
	require.NoError(t, err)
	require.NotEqual(t, os.Getpid(), state.PID)

	code, _, _ = run(t, settings, "ray", "stop")
	require.Equal(t, 0, code)
	await.True(t, func() bool {
		code, _, _ := run(t, map[string]string{"RAY_ADDRESS": state.GCS}, "ray", "status")
		return code == 1
	}, "the Ray head is gone")
}

func TestRayDaemonThatCannotStart(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	settings := rayEnv(t, "127.0.0.1")
	settings["RAY_gcs_rpc_server_reconnect_timeout_s"] = "0"
	var environ []string
	for name, value := range settings {
		environ = append(environ, name+"="+value)
	}
	errs := &output{}
	code := Main(context.Background(), program.Process{
		Args: []string{"ray", "start", "--address", closedPort(t)},
		Env:  env(settings), Environ: environ, Stdout: &output{}, Stderr: errs, Executable: self,
	})
	require.Equal(t, 1, code)
	require.Contains(t, errs.String(), "--block")
}
