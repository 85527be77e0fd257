package load

import (
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// tlsVariable tells the test binary that it is the client of TestAuthorityOfTheEnvironment, and where
// its server is.
const tlsVariable = "PROFLLM_LOAD_TLS_SERVER"

// An authority in SSL_CERT_FILE is trusted, as OpenSSL and so vLLM's client do. Go reads the variable
// once, so that each client here is a process of its own.
func TestAuthorityOfTheEnvironment(t *testing.T) {
	if url := os.Getenv(tlsVariable); url != "" {
		_, err := Run(t.Context(), parse(t, "--num-prompts 2 --probe-request-rate 1 --base-url "+url), time.Now,
			io.Discard, io.Discard)
		require.NoError(t, err)
		return
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/v1/models" {
			io.WriteString(w, `{"data":[{"id":"m"}]}`)
			return
		}
		io.WriteString(w, wholeStream)
	}))
	defer server.Close()
	authority := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(authority,
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o644))
	for file, trusted := range map[string]bool{authority: true, os.DevNull: false} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestAuthorityOfTheEnvironment$")
		cmd.Env = append(os.Environ(), tlsVariable+"="+server.URL, "SSL_CERT_FILE="+file, "SSL_CERT_DIR="+t.TempDir())
		out, err := cmd.CombinedOutput()
		require.Equal(t, trusted, err == nil, "%s", out)
		if !trusted {
			require.Contains(t, string(out), "certificate signed by unknown authority")
		}
	}
}
