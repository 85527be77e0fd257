package failure_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/failure"
	"github.com/profllm/profllm/pkg/result"
)

const (
	header    = "Traceback (most recent call last):"
	noDataset = "FileNotFoundError: [Errno 2] No such file or directory: '/data/share.json'"
	retry     = "2026-11-21 10:00:01,000 WARNING Cannot connect to host 10.0.0.1:8000 ssl:default [Connect call failed ('10.0.0.1', 8000)], retrying in 5 s"
	notFound  = `INFO:     10.0.0.5:41234 - "POST /v1/completions HTTP/1.1" 404 Not Found`
)

func pythonLine(file, source string) []string {
	return []string{header, `  File "` + file + `", line 12, in f`, "    " + source}
}

// traceback is an exception raised in a file.
func traceback(file, source, message string) []string {
	return append(pythonLine(file, source), message)
}

// Whose log a line stands in decides, and what a line without its own stamp may precede.
//
// covers: PL-F1, PL-F2, PL-F5, PL-F12
func TestWhoseLog(t *testing.T) {
	for name, tt := range map[string]struct {
		job  failure.Job
		logs []failure.Log
		want []string
	}{
		"an exception of a client is no cause of what the service says": {failure.Job{}, []failure.Log{
			log("client", "2026-11-21 10:00:10,000 x", plainBug), log("serve", at(20, watchdog))},
			[]string{"nccl-watchdog-timeout", "unhandled-exception"}},
		"a recorded death comes before any complaint of a client": {failure.Job{}, []failure.Log{
			log("client", "2026-11-21 10:00:10,000 x", noDataset),
			{Role: "serve", File: "s", Ended: clock(40), Exit: 137, Data: strings.NewReader("INFO all is well\n")}}, []string{"process-killed", "file-missing"}},
		"and what the dead one said comes before its death": {failure.Job{}, []failure.Log{
			log("client", "2026-11-21 10:00:10,000 x", noDataset),
			{Role: "serve", File: "s", Ended: clock(40), Exit: 1, Data: strings.NewReader(at(39, watchdog) + "\n")}}, []string{"nccl-watchdog-timeout", "file-missing"}},
		"also a root that is later than the client's": {failure.Job{}, []failure.Log{
			log("client", "2026-11-21 10:00:10,000 x", "2026-11-21 10:00:10,000 "+noDataset),
			{Role: "serve", File: "s", Ended: clock(40), Exit: 1, Data: strings.NewReader(at(39, oom) + "\n")}}, []string{"cuda-oom", "file-missing"}},
		"a dead client is no dead service": {failure.Job{}, []failure.Log{
			{Role: "client", File: "c", Ended: clock(40), Exit: 1, Data: strings.NewReader(noDataset + "\n")}, log("serve", "INFO all is well")}, []string{"file-missing"}},
		"a client that loads the model": {failure.Job{}, []failure.Log{
			log("client", "OSError: /models/llama does not appear to have a file named tokenizer.json.")},
			[]string{"model-file-missing"}},
		"a line without a stamp may be later than the one before it": {failure.Job{}, []failure.Log{
			log("proxy", "2026-11-21 10:00:10,000 started", bad502), log("decode", at(50, plainBug))},
			[]string{"unhandled-exception", "proxy-5xx"}},
		"the proxy explains its client": {failure.Job{}, []failure.Log{
			log("client", "2026-11-21 10:00:10,000 started", refused),
			log("proxy", "2026-11-21 10:00:30,000 upstream", bad502)}, []string{"proxy-5xx", "connection-refused"}},
		"but not what is known to be later": {failure.Job{}, []failure.Log{
			log("proxy", "2026-11-21 10:00:10,000 "+bad502), log("client", "2026-11-21 10:00:10,000 x", refused),
			log("job", "2026-11-21 10:05:00,000 x")},
			[]string{"proxy-5xx", "connection-refused"}},
		"a proxy's 502 hides what its backend answered": {failure.Job{}, []failure.Log{
			log("proxy", bad502), log("serve", notFound), log("client", "Error 0: Bad Gateway")},
			[]string{"backend-not-found", "proxy-5xx", "client-server-error"}},
		"an answer alone is not a failure": {failure.Job{}, []failure.Log{log("serve", notFound), log("client", "all is well")}, []string{"unknown"}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tt.want, causes(explain(t, tt.job, tt.logs...))) })
	}
}

// covers: PL-F1, PL-F6
func TestAttempts(t *testing.T) {
	for name, tt := range map[string]struct {
		lines []string
		want  string
	}{
		"that succeeded":                 {[]string{retry, refused, "Initial test run completed. Starting main benchmark run...", "done"}, "unknown"},
		"that succeeded, as Slurm says":  {[]string{"srun: Job 3 step creation temporarily disabled, retrying (Requested nodes are busy)", "srun: Step created for StepId=3.1", "hello"}, "unknown"},
		"that failed":                    {[]string{retry, retry, refused}, "connection-refused"},
		"of a program that goes on":      {[]string{retry, "INFO: a", "INFO: b", "INFO: c", "INFO: d"}, "unknown"},
		"before the last own exception":  {append([]string{retry, retry}, traceback("/app/run.py", "run()", plainBug)...), "unhandled-exception"},
		"a warned root before it":        {append([]string{"WARNING: [Errno 98] Address already in use, retrying with port 8001"}, traceback("/app/run.py", "run()", plainBug)...), "unhandled-exception"},
		"a success does not undo a root": {[]string{noDataset, "Initial test run completed."}, "file-missing"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, explain(t, failure.Job{}, log("client", tt.lines...)).Cause)
		})
	}
}

// What is below, above or around a line belongs to it, and what only announces is never
// the answer.
//
// covers: PL-F3, PL-F7, PL-F13
func TestWhatIsSaidAround(t *testing.T) {
	box := []string{"╭─ Error ─────────────────────────────╮", "│ Invalid value for '--dtype': 'f17'  │",
		"│ is not one of these.                │", "╰─────────────────────────────────────╯"}
	for name, tt := range map[string]struct {
		lines       []string
		cause, line string
	}{
		"a message that goes on below": {[]string{"RuntimeError: The following devices are not usable:", "  mlx5_0", "bye"}, "unhandled-exception", "RuntimeError: The following devices are not usable: mlx5_0"},
		"a traceback within a message": {append([]string{"ValueError: Initial test run failed - Please make sure benchmark arguments are correctly specified. Error: " + header, `  File "x.py", line 1, in f`, "    x()"},
			"ConnectionRefusedError: [Errno 111] Connect call failed ('127.0.0.1', 28199)", "", "The above exception was the direct cause of the following exception:"),
			"client-server-never-ready", "ValueError: Initial test run failed - Please make sure benchmark arguments are correctly specified. Error: ConnectionRefusedError: [Errno 111] Connect call failed ('127.0.0.1', 28199)"},
		"SGLang's first requests": {[]string{`ValueError: Warmup failed - Please make sure benchmark arguments are correctly specified. Error: Internal Server Error: {"error":{"message":"x"}}`},
			"client-server-never-ready", `ValueError: Warmup failed - Please make sure benchmark arguments are correctly specified. Error: Internal Server Error: {"error":{"message":"x"}}`},
		"a box":                   {box, "flag-bad-value", "Invalid value for '--dtype': 'f17' is not one of these."},
		"a box that nobody knows": {[]string{"╭─ Fatal error ────╮", "│ The moon is full │", "╰──────────────────╯"}, "error-message", "The moon is full"},
		"a rich traceback": {[]string{"╭──────── Traceback (most recent call last) ────────╮", "│ /app/run.py:12 in main                             │", "╰────────────────────────────────────────────────────╯", "ValueError: a is not b"},
			"unhandled-exception", "ValueError: a is not b"},
		"a bare assertion":     {traceback("/app/shard.py", "assert world % 3 == 0", "AssertionError"), "unhandled-exception", "AssertionError: assert world % 3 == 0 (shard.py:12)"},
		"srun in between":      {slices.Insert(traceback("/app/shard.py", "assert world % 3 == 0", "AssertionError"), 1, "srun: error: node1: task 0: Exited with exit code 1"), "unhandled-exception", "AssertionError: assert world % 3 == 0 (shard.py:12)"},
		"a bare name in prose": {[]string{"AssertionError"}, "unknown", "AssertionError"},
		"a group": {[]string{"  + Exception Group Traceback (most recent call last):", `  |   File "/app/a.py", line 1, in f`, "  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)",
			"  +-+---------------- 1 ----------------", "    | Traceback (most recent call last):", `    |   File "/app/b.py", line 2, in g`, "    | ValueError: shard 7 is nobody's", "    +------------------------------------"},
			"unhandled-exception", "| ValueError: shard 7 is nobody's"},
		"a client's list whose first line is a header": {[]string{"All requests failed. This is likely due to a misconfiguration on the benchmark arguments.", "Error 0: " + header, `  File "x.py", line 1, in f`, refused},
			"connection-refused", refused},
		"the reason below": {[]string{"UserWarning: All requests failed. This is likely due to a misconfiguration on the benchmark arguments.", "INFO: a", "", "x", refused}, "connection-refused", refused},
		"nothing completed, with exit 0": {[]string{"============ Serving Benchmark Result ============", "Successful requests:                     0"},
			"client-none-completed", "Successful requests:                     0"},
		"root of a chain": {append(append(traceback("/lib/transformers/x.py", "load()", "ValueError: head 3 of 2"), "", "The above exception was the direct cause of the following exception:", ""),
			traceback("/app/y.py", "serve()", "RuntimeError: engine gave up")...), "unhandled-exception",
			"ValueError: head 3 of 2"},
		"of a chain the one that says what": {append(append(traceback("/app/x.py", "table[name]", "KeyError: 'zzq'"), "", "During handling of the above exception, another exception occurred:", ""),
			traceback("/app/y.py", "raise", "ValueError: Unknown method 'zzq', choose from 'awq'")...),
			"unhandled-exception", "ValueError: Unknown method 'zzq', choose from 'awq'"},
	} {
		t.Run(name, func(t *testing.T) {
			f := explain(t, failure.Job{}, log("client", tt.lines...))
			require.Equal(t, tt.cause, f.Cause, f.Line)
			require.Equal(t, tt.line, f.Line)
		})
	}
}

// covers: PL-F7
func TestKinds(t *testing.T) {
	const lib = "/opt/venv/lib/python3.12/site-packages/"
	for message, tt := range map[string]struct{ file, kind, about string }{
		"OSError: [Errno 5] Input/output error: '/data/x.bin'":                  {"/app/a.py", "file", "/data/x.bin"},
		"NotADirectoryError: '/data/x'":                                         {"/app/a.py", "file", "/data/x"},
		"RuntimeError: no space left on the scratch disk /scratch":              {"/app/a.py", "resource", "/scratch"},
		"numpy._core._exceptions._ArrayMemoryError: 12 GiB for x":               {"/app/a.py", "resource", "a.py:12"},
		"BlockingIOError: try later":                                            {"/app/a.py", "resource", "a.py:12"},
		"KeyError: 'model.layers.7.weight'":                                     {lib + "vllm/model_executor/models/llama.py", "model", "model.layers.7.weight"},
		"OSError: unexpected end":                                               {lib + "safetensors/torch.py", "model", "torch.py:12"},
		"RuntimeError: peer said no":                                            {lib + "torch/distributed/distributed_c10d.py", "network", "distributed_c10d.py:12"},
		"httpx.RemoteProtocolError: of http://10.0.0.7:8100/v1, nothing":        {"/app/a.py", "network", "http://10.0.0.7:8100/v1"},
		"RuntimeError: failed to connect to decode-1:9000":                      {"/app/a.py", "network", "decode-1:9000"},
		"AttributeError: module 'torch.zzz' has no attribute 'x'":               {"/app/a.py", "environment", "torch.zzz"},
		"RuntimeError: set NCCL_SOCKET_IFNAME, the environment variable, first": {"/app/a.py", "environment", "NCCL_SOCKET_IFNAME"},
		"ValueError: max_num_seqs must be a power of two":                       {"/app/a.py", "configuration", "max_num_seqs"},
		"ValueError: Unknown method: zzq. Must be one of ['awq', 'auto_awq']":   {"/app/a.py", "configuration", "zzq"},
		"ValueError: use --enable-foo with it":                                  {"/app/a.py", "configuration", "--enable-foo"},
		"yaml.scanner.ScannerError: mapping values are off in \"c.yaml\"":       {lib + "yaml/scanner.py", "file", "c.yaml"},
		"ZeroDivisionError: division by zero":                                   {lib + "vllm/v1/core/kv_cache_utils.py", "defect", "kv_cache_utils.py:12"},
		"TypeError: 'NoneType' object is not subscriptable":                     {"/app/a.py", "defect", "a.py:12"},
	} {
		t.Run(message, func(t *testing.T) {
			f := explain(t, failure.Job{}, log("serve", traceback(tt.file, "x()", message)...))
			require.Equal(t, tt.kind, f.Kind, f.About)
			require.Equal(t, tt.about, f.About)
			require.NotEmpty(t, f.Next)
		})
	}
}

// An exception that quotes a word of the step's own command names the option; what ends
// no program does not.
//
// covers: PL-F7
func TestOwnWords(t *testing.T) {
	end := traceback("/app/a.py", "x()", "ValueError: 'lotus' is nothing that we have")
	argv := []string{"vllm", "serve", "/models/m", "--attention-backend", "lotus", "--port=8000"}
	said := `INFO [a.py:1] non-default args: {'model_tag': '/models/m', 'attention_backend': 'lotus', 'port': 8000}`
	for name, tt := range map[string]struct {
		argv               []string
		lines              []string
		cause, kind, about string
	}{
		"of the plan":           {argv, end, "flag-bad-value", "configuration", "--attention-backend"},
		"of the log":            {nil, append([]string{said}, end...), "flag-bad-value", "configuration", "--attention-backend"},
		"of a namespace":        {nil, append([]string{"Namespace(subparser='bench', attention_backend='lotus')"}, end...), "flag-bad-value", "configuration", "--attention-backend"},
		"of a program that ran": {argv, append(end, "INFO: a", "INFO: b", "INFO: c", "INFO: d"), "unhandled-exception", "configuration", "--attention-backend"},
		"the model":             {argv, traceback("/app/a.py", "x()", "ValueError: /models/m has no heads"), "unhandled-exception", "model", "/models/m"},
		"another word":          {argv, traceback("/app/a.py", "x()", "ValueError: 'rose' is nothing that we have"), "unhandled-exception", "defect", "a.py:12"},
	} {
		t.Run(name, func(t *testing.T) {
			l := log("serve", tt.lines...)
			l.Argv = tt.argv
			f := explain(t, failure.Job{}, l)
			if tt.argv == nil { // --model-tag has no part in the words
				require.NotEqual(t, "/models/m", f.About)
			}
			require.Equal(t, []string{tt.cause, tt.kind, tt.about}, []string{f.Cause, f.Kind, f.About})
		})
	}
}

// covers: PL-F11
func TestOrigin(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"a.log", "(APIServer pid=1) INFO 11-22 23:52:24 [api_utils.py:286] non-default args: {'model': 'm'}", "server"},
		{"client.log", "(APIServer pid=1) INFO 11-22 23:52:24 [x.py:1] vLLM API server version 0.32.0", "server"},
		{"server.log", "Namespace(subparser='bench', bench_type='serve', x=1)", "client"},
		{"a", "non-default args: {'kv_transfer_config': KVTransferConfig(kv_role='kv_producer')}", "prefill"},
		{"a", "(EngineCore pid=1) INFO [core.py:1] Please set kv_role='kv_producer' for prefill", "server"},
		{"a", "[2026-01-01] server_args=ServerArgs(model_path='m', disaggregation_mode='decode')", "decode"},
		{"a", "[2026-01-01] server_args=ServerArgs(model_path='m', disaggregation_mode='null')", "server"},
		{"a", "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)", "queue"},
		{"a", "2026-11-22 23:55:09,984\tINFO scripts.py:983 -- Local node IP: 127.0.0.1", "ray"},
		{"a", "srun: error: node1: task 0: Killed", "job"},
		{"a", "sbatch: error: invalid partition specified: gpuu", "submit"},
		{"a", "INFO:     Uvicorn running on http://0.0.0.0:8000", "proxy"},
		{"a", "[   12.345678] usb 1-1: new device", "node"},
		{"a", "[1746690477.974497] [node7:611:0] parser.c:2578 UCX  WARN  x", ""},
		{"logs/decode-1.log", "x", "decode"}, {"bench_2.out", "x", "client"}, {"slurm-17.out", "x", "job"}, {"prefill/log", "x", "prefill"},
		{"observer.log", "x", ""}, {"notes.txt", "hello", ""},
	} {
		role, err := failure.Origin(strings.NewReader(tt.text), tt.name)
		require.NoError(t, err)
		require.Equal(t, tt.want, role, "%s: %s", tt.name, tt.text)
	}
}

// A step that failed in silence is shown, and no cause is claimed.
func TestStepThatSaysNothing(t *testing.T) {
	f, err := table(t).ExplainLogs([]failure.Log{log("job", "hello",
		"srun: error: node1: task 0: Exited with exit code 9")}, time.UTC)
	require.NoError(t, err)
	require.Equal(t, result.NoCause, f.Confidence)
	require.Equal(t, 2, f.LineNumber)
	require.Contains(t, f.Line, "exit code 9")
}

// Of logs alone nobody knows whether anything failed.
func TestExplainLogs(t *testing.T) {
	for name, tt := range map[string]struct {
		lines []string
		want  string // "" for no failure
	}{
		"healthy":                   {[]string{"INFO: a", "0 errors, 0 failed"}, ""},
		"a step that was killed":    {[]string{"srun: error: node1: task 0: Killed", "srun: Force Terminated StepId=10.0"}, "process-killed"},
		"a step that a shell ended": {[]string{"hello", "srun: error: node1: task 0: Exited with exit code 127"}, "program-missing"},
		"a step that was stopped":   {[]string{"srun: error: node1: task 0: Exited with exit code 143"}, ""},
		"a step that was cancelled": {[]string{"slurmstepd: error: *** STEP 49.1 ON node1 CANCELLED AT 2026-11-21T01:32:27 ***", "srun: error: node1: task 0: Killed"}, ""},
		"the system's words":        {[]string{"cat: /data/x: No such file or directory"}, "file-missing"},
		"a library's":               {[]string{"node1:1:1 [0] x.cc:598 NCCL WARN Cuda failure 1 'invalid argument'"}, ""},
		"a program's own":           {[]string{"INFO: a", "serve.sh: error: GPU 3 has pending retirements"}, "error-message"},
		"a panic with its trace":    {append([]string{"panic: assignment to entry in nil map", "", "goroutine 1 [running]:"}, strings.Split(strings.Repeat("main.f()\n", 8), "\n")...), "error-message"},
	} {
		t.Run(name, func(t *testing.T) {
			if f := explained(t, tt.want, tt.lines); f != nil {
				require.NotEmpty(t, strings.TrimSpace(f.Line))
				require.NotEqual(t, result.NoCause, f.Confidence)
			}
		})
	}
}

// explained requires the cause of a job's log, "" for none, and returns what is said of it.
func explained(t *testing.T, cause string, lines []string) *result.Failure {
	t.Helper()
	f, err := table(t).ExplainLogs([]failure.Log{log("job", lines...)}, time.UTC)
	require.NoError(t, err)
	if cause == "" {
		require.Nil(t, f)
		return nil
	}
	require.NotNil(t, f)
	require.Equal(t, cause, f.Cause)
	return f
}
