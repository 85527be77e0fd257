package sim

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/sim/program"
)

// The stand-in of a helper listens at its ports until it is told to end, and says what it is not.
func TestHelper(t *testing.T) {
	l, err := net.Listen("tcp", ":0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, l.Close())
	ctx, cancel := context.WithCancel(t.Context())
	out := &lines{n: 2}
	out.full = func() {
		defer cancel()
		answer, err := http.Get("http://127.0.0.1:" + port + "/anything")
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Errorf("asked once it listens: %v", err)
			return
		}
		answer.Body.Close()
	}
	require.Equal(t, program.OK, Main(ctx, program.Process{Args: []string{"helper", "--port", port, "--", "cache", "--api-key", "s3cret"},
		Env: env(map[string]string{"PROFLLM_NODE_ADDR": "127.0.0.1"}), Stdout: out, Stderr: out}))
	require.Contains(t, out.String(), "profllm sim: nothing is stored or served; this stands for: cache --api-key")
	require.NotContains(t, out.String(), "s3cret")
	var stderr bytes.Buffer
	require.Equal(t, program.Usage, Main(ctx, program.Process{Args: []string{"helper", "--port", port}, Env: env(nil), Stderr: &stderr}))
	require.Contains(t, stderr.String(), "want [--port PORT ...] -- COMMAND")
}
