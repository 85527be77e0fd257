package failure_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/failure"
)

// allAnswered is what a client prints of a run without failed requests.
const allAnswered = "Failed requests:                         0         "

// Signals, in the forms of bash, mpirun, UCX, systemd and Kubernetes.
//
// covers: PL-F7
func TestSignals(t *testing.T) {
	for line, want := range map[string]string{
		"./run.sh: line 41:  3211 Killed                  python3 -m serve":                     "process-killed",
		"./run.sh: line 4:  3211 Segmentation fault      (core dumped) python3 -m serve":        "segfault",
		"Segmentation fault (core dumped)":                                                      "segfault",
		"./run.sh: line 4: 12 Bus error               (core dumped) python3 -m serve":           "bus-error",
		"[node1:4390 :0:4390] Caught signal 7 (Bus error: nonexistent physical address)":        "bus-error",
		"[node1:4390 :0:4390] Caught signal 4 (Illegal instruction: illegal operand)":           "illegal-instruction",
		"Illegal instruction (core dumped)":                                                     "illegal-instruction",
		"Aborted (core dumped)":                                                                 "process-aborted",
		"mpirun noticed that process rank 3 with PID 0 on node n1 exited on signal 9 (Killed).": "process-killed",
		"serve.service: Main process exited, code=killed, status=9/KILL":                        "process-killed",
		"serve.service: A process of this unit has been killed by the OOM killer.":              "host-oom-kill",
		"      Reason:       OOMKilled":                                                         "host-oom-kill",
		"Killed":                                                                                "process-killed",
		"The user was Killed in the game":                                                       "",
	} {
		t.Run(line, func(t *testing.T) {
			f, err := table(t).ExplainLogs([]failure.Log{log("serve", "INFO loading", line)}, time.UTC)
			require.NoError(t, err)
			if want == "" {
				require.Nil(t, f)
				return
			}
			require.Equal(t, want, f.Cause)
			require.Equal(t, strings.TrimSpace(line), f.Line)
		})
	}
}

// A script that kills its server when the client is done has not failed.
//
// covers: PL-F6
func TestKilledAtTheEnd(t *testing.T) {
	const shell = "./run.sh: line 41:  3211 Killed                  python3 -m serve"
	for name, tt := range map[string]struct {
		logs []failure.Log
		want string
	}{
		"by the shell that waited":  {[]failure.Log{log("client", allAnswered), log("job", shell)}, ""},
		"in one log":                {[]failure.Log{log("job", allAnswered, shell)}, ""},
		"in the server's log":       {[]failure.Log{log("client", allAnswered), log("serve", "INFO a", "Killed")}, ""},
		"while a client still asks": {[]failure.Log{log("client", allAnswered, "INFO", refused), log("serve", "INFO a", shell)}, "process-killed"},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := table(t).ExplainLogs(tt.logs, time.UTC)
			require.NoError(t, err)
			if tt.want == "" {
				require.Nil(t, f)
				return
			}
			require.Equal(t, tt.want, f.Cause)
		})
	}
}

// What a program went on after is not a failure.
//
// covers: PL-F1, PL-F6
func TestWentOn(t *testing.T) {
	const (
		up      = "(APIServer pid=7) INFO:     Application startup complete."
		port    = "OSError: [Errno 98] Address already in use"
		good    = `(APIServer pid=7) INFO:     127.0.0.1:5 - "POST /v1/completions HTTP/1.1" 200 OK`
		bad     = `(APIServer pid=7) INFO:     127.0.0.1:5 - "POST /v1/completions HTTP/1.1" 400 Bad Request`
		thread  = "Exception in thread Thread-1 (_report_usage_worker):"
		handler = "(APIServer pid=7) ERROR 11-21 10:00:01 [serving_chat.py:257] "
	)
	quiet := []string{"INFO a", "INFO b", "INFO c", "INFO d"}
	refusal := []string{handler + header, handler + `  File "/app/serving_chat.py", line 2, in f`, handler + "    f()",
		handler + "ValueError: no such image"}
	join := func(parts ...[]string) (all []string) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	for name, tt := range map[string]struct {
		lines []string
		want  string
	}{
		"a warning of several lines":             {join([]string{"WARNING x", "(Worker pid=8) WARNING 11-21 10:00:01 [a.py:1] /cuda/compiler.h:12:10: fatal error: cuda_fp4.h: No such file or directory", up}, quiet), ""},
		"the same as an error":                   {join([]string{"/cuda/compiler.h:12:10: fatal error: cuda_fp4.h: No such file or directory", up}, quiet), "no-c-compiler"},
		"a retry that the next line tells of":    {join([]string{"'(MaxRetryError())' thrown while requesting HEAD https://huggingface.co/a/b", "Retrying in 1s [Retry 1/5].", up}, quiet), ""},
		"none that it tells of":                  {join([]string{"'(MaxRetryError())' thrown while requesting HEAD https://huggingface.co/a/b", up}, quiet), "hub-offline"},
		"SGLang that got SIGTERM":                {join([]string{"[2026-11-21 10:00:01] SIGTERM received. signum=None frame=None. Draining requests and shutting down..."}, []string{header, `  File "a.py", line 1, in f`, "AttributeError: 'NoneType' object has no attribute 'close'"}), ""},
		"an old vLLM that got SIGINT":            {[]string{up, "(APIServer pid=7) INFO 11-21 10:00:01 [launcher.py:101] Shutting down FastAPI HTTP server.", "terminate called without an active exception"}, ""},
		"one that ended after an error":          {[]string{up, at(1, oom), "(APIServer pid=7) INFO 11-21 10:00:01 [launcher.py:101] Shutting down FastAPI HTTP server.", "terminate called without an active exception"}, "cuda-oom"},
		"one that ended with its engine":         {[]string{up, at(1, dead), "(APIServer pid=7) INFO 11-21 10:00:01 [launcher.py:101] Shutting down FastAPI HTTP server.", at(2, oom)}, "cuda-oom"},
		"a request that was refused":             {join([]string{up}, refusal, []string{bad, good}, quiet), ""},
		"one that got no answer":                 {join([]string{up}, refusal, []string{good}, quiet), "unhandled-exception"},
		"one that nobody came after":             {join([]string{up, good}, refusal, []string{bad}, quiet), "unhandled-exception"},
		"another thread":                         {join([]string{thread}, traceback("/lib/usage_lib.py", "f()", "PermissionError: [Errno 13] Permission denied: '/sys/x'"), []string{up}, quiet), ""},
		"the same in the main thread":            {join(traceback("/lib/usage_lib.py", "f()", "PermissionError: [Errno 13] Permission denied: '/sys/x'"), []string{up}, quiet), "permission-denied"},
		"another thread, and never ready":        {join([]string{thread}, traceback("/lib/usage_lib.py", "f()", "PermissionError: [Errno 13] Permission denied: '/sys/x'"), quiet), "permission-denied"},
		"a port that was taken at first":         {join([]string{"(APIServer pid=5) " + port, up}, quiet), ""},
		"a port that another program could take": {join([]string{"(Router pid=5) " + port, up}, quiet), "port-in-use"},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := table(t).ExplainLogs([]failure.Log{log("serve", tt.lines...)}, time.UTC)
			require.NoError(t, err)
			if tt.want == "" {
				require.Nil(t, f)
				return
			}
			require.NotNil(t, f)
			require.Equal(t, tt.want, f.Cause, f.Line)
		})
	}
}
