package failure_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"

	"github.com/profllm/profllm/pkg/failure"
	"github.com/profllm/profllm/pkg/redact"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/tier"
)

func log(role string, lines ...string) failure.Log {
	return failure.Log{Role: role, Node: "node-" + role, File: role + ".log",
		Data: strings.NewReader(strings.Join(lines, "\n") + "\n")}
}

func explain(t *testing.T, job failure.Job, logs ...failure.Log) *result.Failure {
	t.Helper()
	f, err := table(t).Explain(logs, job)
	require.NoError(t, err)
	return f
}

func causes(f *result.Failure) []string {
	ids := []string{f.Cause}
	for _, o := range f.Others {
		ids = append(ids, o.Cause)
	}
	return ids
}

// at is a vLLM line of the given second past 10:00.
func at(second int, text string) string {
	return fmt.Sprintf("(EngineCore pid=7) ERROR 11-21 10:%02d:%02d [core.py:1] %s", second/60, second%60, text)
}

func clock(second int) time.Time {
	return time.Date(2026, 11, 21, 10, 0, second, 0, time.UTC)
}

const (
	oom       = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB."
	noFile    = "FileNotFoundError: [Errno 2] No such file or directory: '/data/x.json'"
	watchdog  = "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1)"
	ibError   = "NET/IB : Got completion from peer 10.2.0.5<33092> with error 12, opcode 0"
	dead      = "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue."
	plainBug  = "RuntimeError: Unsupported configuration"
	refused   = "aiohttp.client_exceptions.ClientConnectorError: Cannot connect to host 10.0.0.1:8000 ssl:default [Connect call failed ('10.0.0.1', 8000)]"
	bad502    = `INFO:     10.0.0.5:41234 - "POST /v1/completions HTTP/1.1" 502 Bad Gateway`
	timeLimit = "slurmstepd: error: *** JOB 17 ON node1 CANCELLED AT 2026-11-21T10:30:00 DUE TO TIME LIMIT ***"
)

// covers: PL-F1, PL-F2, PL-F3, PL-F4, PL-F5, PL-F6, PL-F12, PL-F13, PL-F15
func TestRules(t *testing.T) {
	tests := []struct {
		name       string
		job        failure.Job
		logs       []failure.Log
		want       []string // the cause, then the others
		confidence result.Confidence
	}{
		{"F1 a symptom before a root is no cause", failure.Job{},
			[]failure.Log{log("serve", at(1, watchdog), at(9, oom))}, []string{"cuda-oom", "nccl-watchdog-timeout"},
			result.Exact},
		{"F1 only a symptom", failure.Job{},
			[]failure.Log{log("serve", at(1, dead), at(2, watchdog))}, []string{"nccl-watchdog-timeout"},
			result.FromSymptom},
		{"F1 only tails", failure.Job{},
			[]failure.Log{log("serve", at(1, dead), "srun: error: node1: task 0: Exited with exit code 1")},
			[]string{"unknown"}, result.NoCause},
		{"F2 the earliest of several logs", failure.Job{},
			[]failure.Log{log("prefill", at(20, noFile)), log("decode", at(10, oom))},
			[]string{"cuda-oom", "file-missing"}, result.Exact},
		{"F2 the earliest of one log", failure.Job{},
			[]failure.Log{log("serve", at(10, noFile), at(11, oom))}, []string{"file-missing", "cuda-oom"},
			result.Exact},
		{"F2 without a stamp the exit decides", failure.Job{}, []failure.Log{
			{Role: "prefill", File: "p", Ended: clock(30), Data: strings.NewReader(noFile + "\n")},
			{Role: "decode", File: "d", Ended: clock(20), Data: strings.NewReader(oom + "\n")},
		}, []string{"cuda-oom", "file-missing"}, result.Exact},
		{"F2 stamps of several programs", failure.Job{}, []failure.Log{
			log("prefill", "[1795255210.705652] [node3:640743:0] ib_md.c:287 UCX ERROR ibv_reg_mr(address=0x1, length=6) failed: Bad address"),
			log("decode", "2026-11-21 10:00:15,123 x\n"+noFile),
			log("serve", "[E1121 10:00:05.426415540 x.cpp:1] "+ibError),
		}, []string{"nccl-ib-completion", "rdma-register", "file-missing"}, result.Exact},
		{"F4 the state decides", failure.Job{State: "TIMEOUT", Ended: clock(1800)},
			[]failure.Log{log("job", timeLimit), log("serve", at(1799, oom))}, []string{"slurm-time-limit", "cuda-oom"},
			result.FromState},
		{"F4 unless a root is older", failure.Job{State: "TIMEOUT", Ended: clock(1800)},
			[]failure.Log{log("job", timeLimit), log("serve", at(1794, oom))}, []string{"cuda-oom", "slurm-time-limit"},
			result.Exact},
		{"F4 an older symptom is not enough", failure.Job{State: "NODE_FAIL", Ended: clock(1800)},
			[]failure.Log{log("serve", at(100, watchdog))}, []string{"slurm-node-failure", "nccl-watchdog-timeout"},
			result.FromState},
		{"F4 no line at all", failure.Job{State: "OUT_OF_MEMORY"}, nil, []string{"host-oom-kill"}, result.FromState},
		{"F4 FAILED explains nothing", failure.Job{State: "FAILED", Ended: clock(1800)},
			[]failure.Log{log("serve", at(1799, oom))}, []string{"cuda-oom"}, result.Exact},
		{"F5 memory explains the network within the skew", failure.Job{},
			[]failure.Log{log("prefill", at(10, ibError)), log("decode", at(12, oom))},
			[]string{"cuda-oom", "nccl-ib-completion"}, result.Exact},
		{"F5 not beyond it", failure.Job{},
			[]failure.Log{log("prefill", at(10, ibError)), log("decode", at(13, oom))},
			[]string{"nccl-ib-completion", "cuda-oom"}, result.Exact},
		{"F5 a backend explains its proxy and client", failure.Job{},
			[]failure.Log{log("proxy", at(10, "x"), bad502), log("client", at(10, refused)),
				log("decode", at(11, plainBug))},
			[]string{"unhandled-exception", "proxy-5xx", "connection-refused"}, result.FromSymptom},
		{"F5 registration explains NIXL", failure.Job{}, []failure.Log{
			log("decode", at(10, "nixl._bindings.nixlBackendError: NIXL_ERR_BACKEND")),
			log("prefill", at(11, "UCX ERROR ibv_reg_mr(address=0x1) failed: Bad address")),
		}, []string{"rdma-register", "nixl-backend"}, result.Exact},
		{"F6 after our teardown", failure.Job{Teardown: clock(20)},
			[]failure.Log{log("serve", at(21, oom))}, []string{"unknown"}, result.NoCause},
		{"F6 in the second of our teardown", failure.Job{Teardown: clock(20).Add(400 * time.Millisecond)},
			[]failure.Log{log("serve", at(20, oom))}, []string{"cuda-oom"}, result.Exact},
		{"F6 after the server was told to stop", failure.Job{}, []failure.Log{log("serve",
			at(1, "[shutdown] API server: shutdown triggered"), at(1, oom))}, []string{"unknown"}, result.NoCause},
		{"F12 a server's access log is not the proxy's", failure.Job{},
			[]failure.Log{log("serve", bad502)}, []string{"unknown"}, result.NoCause},
		{"F12 the proxy's is", failure.Job{},
			[]failure.Log{log("proxy[0]", bad502)}, []string{"proxy-5xx"}, result.FromSymptom},
		{"F12 retries before ready", failure.Job{Ready: clock(30)},
			[]failure.Log{log("client", at(20, refused))}, []string{"unknown"}, result.NoCause},
		{"F12 refused after ready", failure.Job{Ready: clock(30)},
			[]failure.Log{log("client", at(40, refused))}, []string{"connection-refused"}, result.FromSymptom},
		{"F12 a transfer fails on decode only", failure.Job{},
			[]failure.Log{log("prefill", at(1, "NIXL transfer failure: transfer_failed"))}, []string{"unknown"},
			result.NoCause},
		{"F13 a traceback is one unit", failure.Job{}, []failure.Log{log("serve",
			"Traceback (most recent call last):", `  File "a.py", line 1, in f`, noFile, "",
			"During handling of the above exception, another exception occurred:", "",
			"Traceback (most recent call last):", `  File "b.py", line 2, in g`,
			"OSError: /models/llama does not appear to have a file named config.json."),
		}, []string{"model-file-missing"}, result.Exact},
		{"F13 two tracebacks are two", failure.Job{}, []failure.Log{log("serve",
			"Traceback (most recent call last):", `  File "a.py", line 1, in f`, noFile, "INFO: going on",
			"Traceback (most recent call last):", `  File "b.py", line 2, in g`,
			"OSError: /models/llama does not appear to have a file named config.json."),
		}, []string{"file-missing", "model-file-missing"}, result.Exact},
		{"F13 a client quotes the server", failure.Job{}, []failure.Log{log("client",
			"Failed requests during benchmark run detected (capping to 10):", "Error 0: Traceback (most recent call last):",
			`  File "x.py", line 1, in f`, noFile, "tip: install termplotlib"), log("serve", at(50, plainBug))},
			[]string{"unhandled-exception", "file-missing"}, result.FromSymptom},
		{"F15 the deadline is a symptom", failure.Job{}, []failure.Log{
			log("job", "2026-11-21 10:00:05,000 profllm: role decode[0] not ready after 1800s: last probe GET http://node3:8100/health"),
			log("decode", at(4, plainBug))}, []string{"unhandled-exception", "health-deadline"}, result.FromSymptom},
		{"F3 the number before the reason", failure.Job{}, []failure.Log{log("job",
			"srun: error: node1: task 0: Exited with exit code 127", "bash: line 1: vllm: command not found")}, []string{"program-missing"}, result.Exact},
		{"F3 pyxis before the log of enroot", failure.Job{}, []failure.Log{log("serve",
			"slurmstepd: error: pyxis: child 1041 failed with error code: 1", "slurmstepd: error: pyxis: failed to import docker image",
			"slurmstepd: error: pyxis: printing enroot log file:", "slurmstepd: error: pyxis:     [ERROR] URL https://registry-1.docker.io/v2/x/manifests/y returned error code: 401 Unauthorized"),
		}, []string{"container-auth"}, result.Exact},
		{"F3 srun and the task that was faster", failure.Job{}, []failure.Log{log("serve",
			"0: /usr/bin/bash: line 1: exec: vllm: not found", "srun: error: node1: task 0: Exited with exit code 127",
			"1: /usr/bin/bash: line 1: exec: vllm: not found", "srun: error: node2: task 1: Exited with exit code 127")}, []string{"program-missing"}, result.Exact},
		{"F3 pyxis before enroot, in the words of the system", failure.Job{}, []failure.Log{{Role: "serve", File: "s", Exit: 1, Data: strings.NewReader(
			"slurmstepd: error: pyxis: failed to import docker image\nslurmstepd: error: pyxis: printing enroot log file:\n" +
				"slurmstepd: error: pyxis:     mkdir: cannot create directory '/run/u': Permission denied\n" +
				"slurmstepd: error: pyxis: couldn't start container\nslurmstepd: error: Failed to invoke spank plugin stack\n")}},
			[]string{"permission-denied"}, result.FromSymptom},
		{"the system's words are no cause of a process that goes on", failure.Job{},
			[]failure.Log{log("serve", "mkdir: cannot create directory '/run/x': Permission denied")},
			[]string{"unknown"}, result.NoCause},
		{"they are when it failed of them", failure.Job{},
			[]failure.Log{{Role: "serve", File: "s", Exit: 1,
				Data: strings.NewReader("mkdir: cannot create directory '/run/x': Permission denied\n")}},
			[]string{"permission-denied"}, result.FromSymptom},
		{"nor are they when it went on", failure.Job{},
			[]failure.Log{{Role: "serve", File: "s", Exit: 1,
				Data: strings.NewReader("cat: /run/x: No such file or directory\n" + strings.Repeat("step done\n",
					2) + strings.Repeat("INFO: step done\n", 2))}},
			[]string{"unknown"}, result.NoCause},
		{"a code that says more is asked first", failure.Job{},
			[]failure.Log{{Role: "serve", File: "s", Exit: 139,
				Data: strings.NewReader("cat: /run/x: No such file or directory\n")}},
			[]string{"segfault"}, result.FromState},
		{"what NCCL looked for and did not need", failure.Job{}, []failure.Log{log("serve",
			"node1:9:9 [0] NCCL INFO NET/Plugin : Plugin load (libnccl-net.so) returned 2 : libnccl-net.so: cannot open shared object file: No such file or directory")},
			[]string{"unknown"}, result.NoCause},
		{"F13 a refused option and its reason", failure.Job{}, []failure.Log{log("serve",
			"vllm serve: error: argument --kv-transfer-config: 1 validation error for KVTransferConfig", "kv_role",
			"  Input should be 'kv_producer' or 'kv_consumer' [type=literal_error, input_value='producer', input_type=str]")},
			[]string{"config-rejected"}, result.Exact},
		{"F13 a client's list is one unit", failure.Job{}, []failure.Log{log("bench",
			"serve.py:1: UserWarning: All requests failed. This is likely due to a misconfiguration on the benchmark arguments.",
			"Failed requests during benchmark run detected (capping to 10):", "Error 0: Not Found", "Error 1: Not Found")},
			[]string{"client-not-found"}, result.FromSymptom},
		{"F10 a line of a program is no event", failure.Job{}, []failure.Log{log("serve",
			"Traceback (most recent call last):", `  File "a.py", line 3, in f`, `    raise OSError(f"{path} is not a valid JSON file.")`, "KeyError: 'x'")},
			[]string{"unhandled-exception"}, result.FromSymptom},
		{"F6 after Ray was told to stop", failure.Job{}, []failure.Log{log("head",
			"2026-11-22 02:10:01,068 INFO node.py:698 -- Node b1 received SIGTERM. Draining for up to 30.0 seconds.",
			"ray.exceptions.RpcError: Timed out while waiting for GCS to become available.")}, []string{"unknown"}, result.NoCause},
		{"F13 our own end of a dead role's log is not a second witness", failure.Job{}, []failure.Log{log("job",
			"--- end of /run/logs/serve-0.log", oom, "---", "agg/0: cause cuda-oom (exact): logs/serve-0.log:7: "+oom, noFile)},
			[]string{"file-missing"}, result.Exact},
		{"an exception that ended its process is what others met later", failure.Job{}, []failure.Log{
			{Role: "decode", File: "d", Ended: clock(11), Exit: 1, Data: strings.NewReader(at(10, plainBug) + "\n")},
			log("bench", at(20, noFile))}, []string{"unhandled-exception", "file-missing"}, result.FromSymptom},
		{"but not what a cause within the skew explains", failure.Job{}, []failure.Log{
			{Role: "decode", File: "d", Ended: clock(11), Exit: 1, Data: strings.NewReader(at(10, plainBug) + "\n")},
			log("prefill", at(11, oom))}, []string{"cuda-oom", "unhandled-exception"}, result.Exact},
		{"a process that was killed explains its users", failure.Job{}, []failure.Log{
			{Role: "serve", File: "s", Ended: clock(10), Exit: 137, Data: strings.NewReader("INFO: all is well\n")},
			log("bench", at(12, refused))}, []string{"process-killed", "connection-refused"}, result.FromState},
		{"so does one in its own words", failure.Job{}, []failure.Log{
			{Role: "serve", File: "s", Ended: clock(10), Exit: 3, Data: strings.NewReader("serve: error: gave up\n")},
			log("bench", at(12, refused))}, []string{"error-message", "connection-refused"}, result.FromSymptom},
		{"F15 a time that was over, without a word", failure.Job{NotReady: []failure.Unready{{Role: "decode"}}}, []failure.Log{
			log("decode", "INFO loading weights"), log("bench", at(12, refused))},
			[]string{"health-deadline", "connection-refused"}, result.FromSymptom},
		{"F15 and with one", failure.Job{NotReady: []failure.Unready{{Role: "decode"}}}, []failure.Log{log("decode", at(2, plainBug))},
			[]string{"unhandled-exception"}, result.FromSymptom},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := explain(t, tt.job, tt.logs...)
			require.Equal(t, tt.want, causes(f))
			require.Equal(t, tt.confidence, f.Confidence)
			require.NotEmpty(t, f.Next)
		})
	}
}

// covers: PL-F7, PL-F8
func TestWhatIsReported(t *testing.T) {
	f := explain(t, failure.Job{},
		log("decode[1]", "a\r\x1b[33mb\x1b[0m",
			"\x1b[1m(Worker_TP3 pid=41822)\x1b[0m \x1b[31mERROR\x1b[0m 11-21 10:00:00 [x.py:1] "+
				"torch.OutOfMemoryError: CUDA \x1b[1mout\x1b[0m of memory. Tried to allocate; token hf_abcdefghijklmnop "+strings.Repeat("é", 600)))
	require.Equal(t, "cuda-oom", f.Cause)
	require.Equal(t, 2, f.LineNumber)
	require.Equal(t, "TP3", f.Rank)
	require.Equal(t, "decode[1]", f.Role)
	require.Equal(t, "node-decode[1]", f.Node)
	require.NotContains(t, f.Line, "\x1b")
	require.NotContains(t, f.Line, "hf_abc")
	require.Contains(t, f.Line, "[redacted]")
	require.LessOrEqual(t, len([]rune(f.Line)), 500)
	require.Equal(t, "lower gpu_memory_utilization", f.Next[:len("lower gpu_memory_utilization")])
}

// A line that is not understood without the one beside it is shown with it.
//
// covers: PL-F13
func TestWhatStandsBesideIt(t *testing.T) {
	f := explain(t, failure.Job{}, log("serve", thrown, "  what():  cudaSetDevice: bad device", "abort"))
	require.Equal(t, "cpp-exception", f.Cause)
	require.Equal(t, thrown+" what():  cudaSetDevice: bad device", f.Line)
	require.Equal(t, thrown, explain(t, failure.Job{}, log("serve", thrown, "abort")).Line)

	f = explain(t, failure.Job{},
		log("serve", "vllm serve: error: argument --kv-transfer-config: 1 validation error", "kv_buffer_sz",
			"  Unexpected keyword argument [type=unexpected_keyword_argument, input_value=3]"))
	require.Equal(t, "config-rejected", f.Cause)
	require.Equal(t, "Unexpected keyword argument [type=unexpected_keyword_argument, input_value=3] (kv_buffer_sz)",
		f.Line)
}

const thrown = "terminate called after throwing an instance of 'std::runtime_error'"

func TestRank(t *testing.T) {
	for line, want := range map[string]string{
		"(Worker_TP3 pid=1) " + oom:         "TP3",
		"(Worker_DP0_TP1 pid=1) " + oom:     "DP0_TP1",
		"[rank13]: " + oom:                  "13",
		"(Worker pid=1) " + oom:             "5", // as the log says
		"(VllmWorker_PP1_TP0 pid=1) " + oom: "PP1_TP0",
	} {
		l := log("serve", line)
		l.Rank = 5
		require.Equal(t, want, explain(t, failure.Job{}, l).Rank, line)
	}
}

// covers: PL-D10, PL-F7
func TestLinesAreRedacted(t *testing.T) {
	f := explain(t, failure.Job{}, log("serve", "HF_TOKEN=hf_AbCdEfGhIjKlMnOp "+oom))
	require.Contains(t, f.Line, redact.Mark)
	require.NotContains(t, f.Line, "AbCdEf")
	f = explain(t, failure.Job{}, log("serve", "key sk-proj-123456789012", "what is this"))
	require.Equal(t, []string{"key " + redact.Mark, "what is this"}, f.Tail)
}

// A stamp without a year belongs to the year before its job's end.
func TestYears(t *testing.T) {
	december := "(EngineCore pid=7) ERROR 12-31 23:59:58 [core.py:1] " + oom
	january := "2027-01-01T00:00:05.000Z " + noFile
	f := explain(t, failure.Job{Ended: time.Date(2027, 1, 1, 0, 1, 0, 0, time.UTC)}, log("prefill", january),
		log("decode", december))
	require.Equal(t, []string{"cuda-oom", "file-missing"}, causes(f))
}

// covers: PL-F8
func TestEveryPartOfALongLogIsRead(t *testing.T) {
	tier.Alone(t)
	line := strings.Repeat("INFO nothing to see here, all is well ", 3) + "\n"
	filler := strings.Repeat(line, 10<<20/len(line))
	n := strings.Count(filler, "\n")
	for name, tt := range map[string]struct {
		text string
		want string
		line int
	}{
		"head":              {oom + "\n" + filler + filler + filler, "cuda-oom", 1},
		"tail":              {filler + filler + filler + oom + "\n", "cuda-oom", 3*n + 1},
		"tail without end":  {filler + filler + filler + oom, "cuda-oom", 3*n + 1},
		"middle":            {filler + oom + "\n" + filler + filler, "cuda-oom", n + 1},
		"short of two":      {filler + oom + "\n", "cuda-oom", n + 1},
		"across the border": {filler[:8<<20-20] + "\n" + oom + "\n", "cuda-oom", strings.Count(filler[:8<<20-20], "\n") + 2},
	} {
		t.Run(name, func(t *testing.T) {
			f := explain(t, failure.Job{}, failure.Log{Role: "serve", File: "x", Data: strings.NewReader(tt.text)})
			require.Equal(t, tt.want, f.Cause)
			require.Equal(t, tt.line, f.LineNumber)
		})
	}
}

func TestOneEndlessLine(t *testing.T) {
	tier.Alone(t)
	text := strings.Repeat("x", 3<<20) + " " + oom + strings.Repeat(" y", 1<<20)
	f := explain(t, failure.Job{}, failure.Log{Role: "serve", File: "x", Data: strings.NewReader(text)})
	require.Equal(t, "cuda-oom", f.Cause)
	require.Equal(t, 1, f.LineNumber)
}

func TestProgressBarBeforeTheLine(t *testing.T) {
	f := explain(t, failure.Job{}, log("client", " 0%|  |\r 50%|# |\r"+noFile))
	require.Equal(t, "file-missing", f.Cause)
	require.Equal(t, 1, f.LineNumber)
	require.Equal(t, noFile, f.Line)
}

func TestTailOfAnUnknownFailure(t *testing.T) {
	var lines []string
	for i := range 80 {
		lines = append(lines, fmt.Sprintf("line %d", i))
	}
	early := log("decode", lines...)
	early.Ended = clock(10)
	late := log("serve", "still fine")
	late.Ended = clock(20)
	f := explain(t, failure.Job{}, late, early)
	require.Equal(t, "unknown", f.Cause)
	require.Equal(t, "decode.log", f.File)
	require.Len(t, f.Tail, 50)
	require.Equal(t, "line 30", f.Tail[0])
	require.Equal(t, "line 79", f.Tail[49])
}

// A report is written on one node and judged on another.
func TestReportSurvivesJSON(t *testing.T) {
	tab := table(t)
	r, err := tab.Scan(log("serve", at(1, watchdog), at(9, oom)), nil)
	require.NoError(t, err)
	data, err := json.Marshal(r)
	require.NoError(t, err)
	var back failure.Report
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, tab.Decide([]failure.Report{r}, failure.Job{}), tab.Decide([]failure.Report{back}, failure.Job{}))
	require.Equal(t, "cuda-oom", tab.Decide([]failure.Report{back}, failure.Job{}).Cause)
}

func TestReadErrorIsReturned(t *testing.T) {
	f, err := os.Open(t.TempDir())
	require.NoError(t, err)
	defer f.Close()
	_, err = table(t).Scan(failure.Log{File: "decode.log", Data: f}, nil)
	require.ErrorContains(t, err, "scan decode.log")
}

// The last matches of a signature are kept as well as the first: a client that
// tried for long before its server was ready is heard when it fails later.
//
// covers: PL-F12
func TestAttemptsDoNotUseUpTheirPlaces(t *testing.T) {
	var lines []string
	for i := range 2000 {
		lines = append(lines, at(i/1000, refused))
	}
	lines = append(lines, at(50, refused))
	f := explain(t, failure.Job{Ready: clock(30)}, log("client", lines...))
	require.Equal(t, "connection-refused", f.Cause)
	require.Equal(t, 2001, f.LineNumber)
}

func TestLastWords(t *testing.T) {
	for name, tt := range map[string]struct {
		lines []string
		exit  int
		want  string
		no    int
	}{
		"a complaint":              {[]string{"loading", "serve.sh: error: no licence", "bye", "bye"}, 0, "serve.sh: error: no licence", 2},
		"the last of several":      {[]string{"error: a", "x", "FATAL: b", "y"}, 0, "FATAL: b", 3},
		"error before could not":   {[]string{"error: a", "could not write the log"}, 0, "error: a", 1},
		"could not":                {[]string{"x", "could not find the key", "y"}, 0, "could not find the key", 2},
		"warnings do not count":    {[]string{"UserWarning: error: x", "INFO no error: x", "WARNING: unable to y"}, 0, "", 0},
		"nor does a count":         {[]string{"Failed requests:                         0"}, 0, "", 0},
		"nor what only says it is": {[]string{"srun: error: node1: task 0: Exited with exit code 1"}, 1, "", 0},
		"nothing, but it failed":   {[]string{"bench.py: no results to write", ""}, 1, "bench.py: no results to write", 1},
		"a complaint beats that":   {[]string{"error: a", "bye"}, 1, "error: a", 1},
		"nothing, and it did not":  {[]string{"bench.py: no results to write"}, 0, "", 0},
		"the first of an event":    {[]string{"E1216 08:39:47.3 159 a.cpp:7] rejected by peer", "E1216 08:39:47.4 159 b.cpp:8] no handshake", "bye"}, 0, "E1216 08:39:47.3 159 a.cpp:7] rejected by peer", 1},
		"of the last event":        {append([]string{"error: a"}, append(make([]string, 20), "error: b", "error: c")...), 0, "error: b", 22},
		"the last traceback":       {[]string{"queue.Empty: a", "error: x", "[rank0]: queue.Full: b", "error: y"}, 0, "[rank0]: queue.Full: b", 3},
		"behind a launcher's mark": {[]string{"ERROR 01-28 03:21:01 engine.py:387] triton.OutOfResources: shared memory", "error: y"}, 0, "ERROR 01-28 03:21:01 engine.py:387] triton.OutOfResources: shared memory", 1},
		"a container is last":      {[]string{"slurmstepd: error: pyxis: failed to import docker image", "slurmstepd: error: Failed to invoke spank plugin stack"}, 1, "slurmstepd: error: pyxis: failed to import docker image", 1},
		"a command that failed":    {[]string{"Traceback (most recent call last):", "subprocess.CalledProcessError: Command 'false' returned non-zero exit status 1."}, 1, "subprocess.CalledProcessError: Command 'false' returned non-zero exit status 1.", 2},
		"NCCL's errors":            {[]string{"n:1:1 [0] x:7 NCCL WARN fi_getinfo() call failed", "n:1:1 [0] NCCL INFO x -> 2"}, 0, "n:1:1 [0] x:7 NCCL WARN fi_getinfo() call failed", 1},
		"Windows line ends":        {[]string{"run.sh: error: pipefail\r: odd name"}, 0, `run.sh: error: pipefail\r: odd name`, 1},
		"a rust panic":             {[]string{"thread 'main' panicked at src/main.rs:4:5:", "note: run with RUST_BACKTRACE=1"}, 0, "thread 'main' panicked at src/main.rs:4:5:", 1},
	} {
		t.Run(name, func(t *testing.T) {
			l := log("serve", tt.lines...)
			l.Exit = tt.exit
			f := explain(t, failure.Job{}, l)
			require.Contains(t, []string{"unknown", "error-message"}, f.Cause)
			require.Equal(t, tt.want, f.Line)
			require.Equal(t, tt.no, f.LineNumber)
		})
	}
}

// Of several logs the unreadable one is reported, and the others decide.
func TestUnreadableLogAmongOthers(t *testing.T) {
	dir, err := os.Open(t.TempDir())
	require.NoError(t, err)
	defer dir.Close()
	f, err := table(t).Explain([]failure.Log{{Role: "serve", File: "a", Data: dir}, log("decode", oom)}, failure.Job{})
	require.ErrorContains(t, err, "scan a")
	require.Equal(t, "cuda-oom", f.Cause)
}

// A packed log that was cut off is read as far as it goes.
func TestCutOffXZ(t *testing.T) {
	var packed bytes.Buffer
	w, err := xz.WriterConfig{BlockSize: 1 << 10, DictCap: 1 << 16}.NewWriter(&packed)
	require.NoError(t, err)
	_, err = w.Write([]byte(oom + "\n" + strings.Repeat("INFO nothing to see here\n", 400)))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	f := explain(t, failure.Job{},
		failure.Log{Role: "serve", File: "x", Data: bytes.NewReader(packed.Bytes()[:packed.Len()/2])})
	require.Equal(t, "cuda-oom", f.Cause)
}

func FuzzScan(f *testing.F) {
	tier.Alone(f)
	for _, s := range []string{oom, at(3, dead), "\x1b[3mx\r\r\n" + refused, "[1795255210.705652] x",
		"Error 0: Traceback (most recent call last):\n " + noFile} {
		f.Add([]byte(s), "serve")
		f.Add([]byte(s), "client")
	}
	for _, x := range realLogs(f) {
		data, err := os.ReadFile("testdata/real/" + x.File)
		require.NoError(f, err)
		f.Add(data[:min(len(data), 4<<10)], x.Role)
	}
	f.Add([]byte("\xfd7zXZ\x00\x00\x04"), "serve")
	tab := table(f)
	f.Fuzz(func(t *testing.T, text []byte, role string) {
		r, err := tab.Scan(failure.Log{Role: role, File: "x", Exit: len(text) % 2, Data: bytes.NewReader(text)}, nil)
		if err != nil { // packed, and not by xz
			require.True(t, bytes.HasPrefix(text, []byte("\xfd7zXZ\x00")))
			return
		}
		for _, x := range r.Findings {
			require.LessOrEqual(t, len([]rune(x.Line)), 510)
			require.LessOrEqual(t, x.No, 1+bytes.Count(text, []byte("\n")))
		}
		require.LessOrEqual(t, len(r.Tail), 50)
		require.NotEmpty(t, tab.Decide([]failure.Report{r}, failure.Job{}).Cause)
	})
}

// bigLog is 100 MiB of a healthy server with a few lines that look bad.
func bigLog() []byte {
	random := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	for b.Len() < 100<<20 {
		switch random.IntN(100) {
		case 0:
			b.WriteString("(APIServer pid=1) WARNING 11-21 10:00:01 [system_utils.py:279] This can cause fd limit errors like `OSError: [Errno 24] Too many open files`\n")
		default:
			fmt.Fprintf(&b, "INFO:     127.0.0.1:%d - \"POST /v1/completions HTTP/1.1\" 200 OK\n",
				30000+random.IntN(30000))
		}
	}
	return b.Bytes()
}

func BenchmarkScan100MiB(b *testing.B) {
	text := bigLog()
	tab := table(b)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := tab.Scan(failure.Log{Role: "serve", File: "x", Data: bytes.NewReader(text)}, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkScanMatches is the worst case: every line matches a signature.
func BenchmarkScanMatches(b *testing.B) {
	text := bytes.Repeat([]byte(bad502+"\n"), (20<<20)/len(bad502))
	tab := table(b)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := tab.Scan(failure.Log{Role: "proxy", File: "x", Data: bytes.NewReader(text)}, nil); err != nil {
			b.Fatal(err)
		}
	}
}
