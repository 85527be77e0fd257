package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/apicheck"
	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/document"
)

// freePort is a port of this machine that nobody had a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return port
}

// startServer runs a server until the test ends, and waits until it is ready.
func startServer(t *testing.T, port string, cmd *exec.Cmd) (address string) {
	t.Helper()
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // vLLM has children
	require.NoError(t, cmd.Start())
	over := make(chan struct{})
	go func() { cmd.Wait(); close(over) }()
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-over
		if t.Failed() {
			t.Logf("%s", log.Bytes()[max(0, log.Len()-4000):])
		}
	})
	address = "127.0.0.1:" + port
	await.True(t, func() bool {
		select {
		case <-over:
			t.Fatalf("the server ended:\n%s", log.String())
		default:
		}
		resp, err := http.Get("http://" + address + "/health")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}, "the server is ready")
	return address
}

// simulatedServer is `profllm sim vllm serve`.
func simulatedServer(t *testing.T, flags ...string) (address string) {
	t.Helper()
	port := freePort(t)
	return startServer(t, port, command(t.TempDir(), nil, append([]string{"sim", "vllm", "serve", "/models/tiny",
		"--served-model-name", "tiny", "--host", "127.0.0.1", "--port", port}, flags...)...))
}

// requireAllPass holds the output of a check against ten checks that passed.
func requireAllPass(t *testing.T, o outcome) document.Check {
	t.Helper()
	require.Equal(t, exitOK, o.code, o.stderr)
	requireDocumented(t, "Check", o)
	d := readDocument[document.Check](t, o)
	require.Equal(t, 10, d.Passed)
	require.Zero(t, d.Failed)
	require.Len(t, d.Checks, 10)
	for i, c := range d.Checks {
		require.Equal(t, i+1, c.Number)
		require.True(t, c.Passed, c.Name)
	}
	return d
}

// covers: TST-1, TST-2, TST-3, TST-4
func TestCheckOfTheSimulatedEngine(t *testing.T) {
	t.Parallel()
	address := simulatedServer(t, "--api-key", "a-key-of-this-test")
	dir, key := t.TempDir(), []string{"OPENAI_API_KEY=a-key-of-this-test"}
	d := requireAllPass(t, profllm(t, dir, key, "check", "http://"+address+"/v1", "--output", "json"))
	require.Equal(t, "tiny", d.Model)
	require.Equal(t, "http://"+address, d.URL)

	o := profllm(t, dir, key, "check", address, "--model", "tiny", "--only", "6,stop", "--only", "stop")
	require.Equal(t, exitOK, o.code)
	require.Regexp(t, `(?m)^ +6 +streaming +ok `, o.stdout)
	require.Regexp(t, `(?m)^ +8 +stop +ok `, o.stdout)
	require.NotContains(t, o.stdout, "echo")
	require.Contains(t, o.stdout, "http://"+address+": 2 checks passed, model tiny\n")

	o = profllm(t, dir, []string{"OPENAI_API_KEY=another-key"}, "check", address)
	require.Equal(t, exitInternal, o.code)
	require.Contains(t, o.stderr, "401 Unauthorized")
	require.Contains(t, o.stderr, "\thint: put the server's key into OPENAI_API_KEY")
	require.NotContains(t, o.stderr, "another-key")

	o = profllm(t, dir, key, "check", address, "--model", "large")
	require.Equal(t, exitUsage, o.code)
	require.Contains(t, o.stderr, "the server has no model \"large\"\n\thint: known: tiny\n")
}

// A server with one fault: the exit code is 1, and the request, the answer and what was expected
// are shown.
//
// covers: TST-3, TST-4, TST-5
func TestCheckThatFails(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/models":
			io.WriteString(w, `{"data":[{"id":"m"}]}`)
		case "/v1/chat/completions":
			io.WriteString(w, `data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`+"\n\n")
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(web.Close)
	o := profllm(t, t.TempDir(), nil, "check", web.URL, "--only", "models,streaming,echo")
	require.Equal(t, exitInternal, o.code)
	require.Regexp(t, `(?m)^ +1 +models +ok `, o.stdout)
	require.Regexp(t, `(?m)^ +6 +streaming +failed +the stream ended without \[DONE\] \(after 1 token events\)`, o.stdout)
	text := strings.Join(strings.Fields(o.stdout), " ") // lines fit the terminal
	require.Contains(t, text, `streaming: asked POST /v1/chat/completions: user "Hi", 10 tokens, temperature 0, stream; `+
		"expected events of JSON, at least one with a token, then data: [DONE]; got: the stream ended without [DONE] (after 1 token events)")
	require.Contains(t, text, "got: the server does not offer POST /v1/completions (404 Not Found)")
	require.Contains(t, text, web.URL+": 2 of 3 checks failed, model m")
	require.Empty(t, o.stderr)

	o = profllm(t, t.TempDir(), nil, "check", web.URL, "--only", "models,streaming,echo", "--output", "json")
	require.Equal(t, exitInternal, o.code)
	requireDocumented(t, "Check", o)
	d := readDocument[document.Check](t, o)
	require.Equal(t, []int{1, 2}, []int{d.Passed, d.Failed})
	require.Empty(t, d.Errors, "a failed check is an answer")
}

// covers: TST-2, TST-3
func TestCheckRefusals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), nil, 0o644))
	nobody := "127.0.0.1:" + freePort(t)
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{exitInternal, "nothing listens on " + nobody + "\n\thint: start the server", []string{nobody}},
		{exitUsage, `there is no check "ecko"`, []string{nobody, "--only", "ecko"}},
		{exitUsage, "--timeout is 0s", []string{nobody, "--timeout", "0s"}},
		{exitUsage, "is not the address of a server", []string{"a b"}},
		{exitUsage, "s.toml names a file, not a server\n\thint: did you mean \"profllm verify\"?", []string{"s.toml"}},
		{exitUsage, "gone.toml names a file, not a server", []string{"gone.toml"}},
		{exitUsage, "<url>", nil},
	} {
		o := profllm(t, dir, nil, append([]string{"check"}, c.args...)...)
		require.Equal(t, c.code, o.code)
		require.Contains(t, o.stderr, c.says)
		o = profllm(t, dir, nil, append([]string{"check", "--output", "json"}, c.args...)...)
		require.Equal(t, c.code, o.code)
		requireDocumented(t, "Error", o)
	}
}

// The page lists every check.
func TestCheckPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/how-to/check-server.md")
	require.NoError(t, err)
	for _, c := range apicheck.Checks() {
		require.Contains(t, string(page), fmt.Sprintf("| %d | `%s` | ", c.Number, c.Name))
	}
}

// An interrupted check says what it has.
func TestCheckInterrupted(t *testing.T) {
	t.Parallel()
	asked := make(chan bool, 1)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/models" {
			json.NewEncoder(w).Encode(map[string]any{"data": []any{map[string]string{"id": "m"}}})
			return
		}
		asked <- true
		io.Copy(io.Discard, r.Body) // so that the end of the client is noticed
		<-r.Context().Done()
	}))
	t.Cleanup(web.Close)
	cmd := command(t.TempDir(), nil, "check", web.URL)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Start())
	<-asked
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	cmd.Wait()
	require.Equal(t, exitInterrupted, cmd.ProcessState.ExitCode(), stderr.String())
	require.Contains(t, stdout.String(), "1 check passed")
	require.Equal(t, "interrupted\n", stderr.String())
}

// The real engine passes all checks. It needs no Slurm.
//
// covers: TST-1, TST-5
func TestVLLMCheck(t *testing.T) {
	home := vllmHome(t)
	address := startVLLM(t, home)
	d := requireAllPass(t, profllm(t, t.TempDir(), nil, "check", address, "--output", "json"))
	require.Equal(t, filepath.Join(home, "tiny"), d.Model)
	require.Contains(t, d.Checks[7].Came, "was due", "the stop string is one that the engine says")
	for _, c := range d.Checks {
		fmt.Fprintf(t.Output(), "%d %s: %s\n", c.Number, c.Name, c.Came)
	}
}
