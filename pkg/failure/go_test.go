package failure_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/failure"
)

// Programs in Go write the system's errors in small letters.
//
// covers: PL-F10
func TestErrorsOfGo(t *testing.T) {
	for _, tt := range []struct{ role, line, want string }{
		{"bench", "write the result: write /x/y.json: no space left on device", "no-space"},
		{"", "profllm job finish: write /x/y.json.tmp: disk quota exceeded", "disk-quota"},
		{"bench", "make the folder of the result: mkdir /x: read-only file system", "fs-io-error"},
		{"bench", "write the result: rename /x/.a /x/a: stale NFS file handle", "fs-io-error"},
		{"bench", "write the result: open /x/y.json: input/output error", "fs-io-error"},
		{"bench", "make the folder of the result: mkdir /x: permission denied", "permission-denied"},
		{"serve", "profllm job profile: fork/exec /opt/nsys: permission denied", "permission-denied"},
		{"serve", "profllm job profile: fork/exec /opt/nsys: no such file or directory", "program-missing"},
		{"serve", "fork/exec /opt/nsys: exec format error", "exec-format"},
		{"serve", "fork/exec /opt/nsys: argument list too long", "arguments-too-long"},
		{"serve", "fork/exec /opt/nsys: cannot allocate memory", "python-memory-error"},
		{"bench", "make the folder of the result: mkdir /proc/x: no such file or directory", "file-missing"},
		{"bench", "Error 2: socket: too many open files (raise the limit on open files: ulimit -n)", "too-many-files"},
		{"proxy", "listen tcp 127.0.0.1:8000: bind: address already in use", "port-in-use"},
		{"bench", "Error 0: connect: connection refused", "connection-refused"},
		{"bench", "no request completed: all 20 failed, the first with: connect: connection refused", "connection-refused"},
		{"bench", "Error 0: read: connection reset by peer", "client-disconnected"},
		{"bench", "Error 0: the server closed the connection without an answer", "client-disconnected"},
		{"bench", "Error 0: connect: no answer after 10s", "client-timeout"},
		{"bench", "Error 0: 500 Internal Server Error: x", "client-server-error"},
		{"bench", "Error 0: 404 Not Found: x", "client-not-found"},
		{"bench", "Error 0: finish_reason abort (after 3 token events)", "client-bad-answer"},

		{"", "note: open /sys/x: no such file or directory", ""},
		{"", "profllm: node n1: GPU samples: open /dev/nvidia0: no such file or directory; the note was not written", ""},
		{"proxy", `time=2026-11-25T22:24:50.927Z level=WARN msg="instance is not healthy" role=decode url=http://127.0.1.2:8561 reason="dial tcp 127.0.1.2:8561: connect: connection refused"`, ""},
		{"proxy", `time=2026-11-25T22:24:50.927Z level=WARN msg="request failed" id=a-1 path=/v1/completions status=499 backend="decode http://127.0.1.2:8561" seconds=0.1 err="the client is gone after 3 bytes"`, ""},
	} {
		t.Run(tt.line, func(t *testing.T) {
			r, err := table(t).Scan(log(tt.role, tt.line), time.UTC)
			require.NoError(t, err)
			id := ""
			if len(r.Findings) > 0 {
				id = r.Findings[0].ID
			}
			require.Equal(t, tt.want, id)
		})
	}
}

// Who failed the requests of a run that went on: the proxy's line names the server, and
// without a proxy the client's own error is the line.
//
// covers: PL-F1, PL-F7
func TestFailedRequests(t *testing.T) {
	const (
		status = `time=2026-11-25T22:24:51.228Z level=WARN msg="request failed" id=a-13 path=/v1/completions status=500 backend="decode http://127.0.1.2:8561" seconds=0.1 err="backend answered an error"`
		seen   = "Error 0: 500 Internal Server Error: Internal server error"
		empty  = "Error 0: the server counts 0 completion tokens (after 1 token events)"
	)
	f := explain(t, failure.Job{}, log("bench", "a", seen), log("proxy", "a", status))
	require.Equal(t, "backend-failed", f.Cause)
	require.Equal(t, "decode", f.Role)
	require.Equal(t, "http://127.0.1.2:8561", f.About)
	require.Equal(t, status, f.Line)
	require.Equal(t, 2, f.LineNumber)

	f = explain(t, failure.Job{}, log("bench", "a", seen))
	require.Equal(t, "client-server-error", f.Cause)
	require.Equal(t, seen, f.Line)

	f = explain(t, failure.Job{}, log("bench", empty, "Successful requests:                     0"))
	require.Equal(t, "client-bad-answer", f.Cause)
	require.Equal(t, empty, f.Line)
	require.Contains(t, f.Next, "the server answered")
}
