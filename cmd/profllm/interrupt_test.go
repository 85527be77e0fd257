package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
)

// interrupted are arguments with which each verb gets to where it prints, or waits:
// HOLE is the address of a server that never answers. Every verb is here.
var interrupted = map[string]string{
	"kube dry-run": "k.toml --system kube.toml", "kube submit": "k.toml --system kube.toml", "kube resume": "runs", "kube status": "runs", "kube logs": "runs/run", "kube cancel": "runs", "kube collect": "runs",
	"slurm dry-run": "s.toml", "slurm submit": "s.toml", "slurm resume": "runs", "slurm status": "runs", "slurm watch": "runs", "slurm logs": "runs/run", "slurm cancel": "runs",
	"dashboard serve": "runs --address 127.0.0.1:0",
	"store fill":      "runs --store a.db", "store rebuild": "runs --store b.db", "store info": "--store gone.db", "store verify": "--store gone.db", "store backup": "--store gone.db x.zst", "store restore": "--store c.db gone.zst", "store prune": "--store gone.db --formers 1d",
	"collect": "runs", "why": "runs/run", "report": "runs", "plot metrics": "runs --terminal --var-y output_throughput", "plot pareto": "runs --terminal", "plot latency": "runs --terminal", "plot distribution": "runs --terminal", "plot timeline": "runs/run", "plot scaling": "runs", "compare": "runs/run runs/other", "diff": "runs/run runs/other", "lock": "runs/run", "trend": "runs",
	"confirm": "s.toml s.toml", "import": "runs --output in", "export": "llm-d runs/run", "archive": "--list x.tar.xz", "rehearse": "s.toml", "run": "s.toml", "serve": "s.toml", "stage": "s.toml",
	"image list": "--system site.toml", "image stage": "--system site.toml x", "image prune": "--system site.toml", "verify": "s.toml", "init": "",
	"bench sweep serve": "--model m --dry-run", "bench sweep serve_workload": "--model m --dry-run", "bench sweep startup": "--dry-run",
	"bench serve": "--base-url HOLE --model m --num-prompts 3 --dataset-name random", "bench search": "--base-url HOLE --model m --limit p99_ttft_ms=9", "eval gsm8k": "--data .", "eval merge": "runs --save-results x.json", "bench suite": "--base-url HOLE", "proxy": "--prefill HOLE --decode HOLE --port 0", "nightly": "s.toml",
	"profile": "runs", "args list": "", "args show": "dtype", "args check": "m --dtype half", "args diff": "0.10.2 0.11.0", "args capture": "--text help.txt",
	"doctor": "", "check": "HOLE --timeout 1s", "completion": "bash", "schema": "result", "sim": "vllm serve m", "version": "", "help": "slurm",
}

// leaves are the verbs of the program, as a user types them.
func leaves(t *testing.T) (names []string) {
	t.Helper()
	var c cli
	parser, err := newParser(&app{stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}}, &c, func(int) {})
	require.NoError(t, err)
	for _, n := range parser.Model.Leaves(true) {
		var words []string
		for at := n; at != nil && at.Type == kong.CommandNode; at = at.Parent {
			words = append([]string{at.Name}, words...)
		}
		names = append(names, strings.Join(words, " "))
	}
	return names
}

// fullPipe is the end of a pipe to which nothing can be written any more.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	var fd [2]int
	require.NoError(t, syscall.Pipe2(fd[:], syscall.O_CLOEXEC))
	require.NoError(t, syscall.SetNonblock(fd[1], true))
	for size := 4096; size > 0; {
		if _, err := syscall.Write(fd[1], make([]byte, size)); err != nil {
			require.ErrorIs(t, err, syscall.EAGAIN)
			size /= 2
		}
	}
	require.NoError(t, syscall.SetNonblock(fd[1], false))
	w, r := os.NewFile(uintptr(fd[1]), "full"), os.NewFile(uintptr(fd[0]), "unread")
	t.Cleanup(func() { w.Close(); r.Close() })
	return w
}

// stuck reports whether a thread of a process is in a write to one of its streams.
func stuck(pid int) bool {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
	for _, f := range files {
		text, _ := os.ReadFile(f)
		words := strings.Fields(string(text))
		if len(words) > 2 && words[0] == fmt.Sprint(syscall.SYS_WRITE) && (words[1] == "0x1" || words[1] == "0x2") {
			return true
		}
	}
	return false
}

// Each verb is caught while it can do nothing, because nobody reads what it prints,
// and ends soon after TERM: those that a job's script does not call in a shell of salloc too.
func TestEveryVerbEndsAfterTERM(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs every verb")
	}
	dir := t.TempDir()
	f := finishedRuns(t, 100)
	copyTree(t, filepath.Join(f.root, "plain/0"), filepath.Join(dir, "runs/run"))
	copyTree(t, filepath.Join(f.root, "plain/1"), filepath.Join(dir, "runs/other"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(finishedScenario), 0o644))
	copyFile(t, "../../examples/kubernetes/scenario.toml", filepath.Join(dir, "k.toml"))
	copyFile(t, "../../examples/kubernetes/cluster.toml", filepath.Join(dir, "kube.toml"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "help.txt"), []byte("usage: vllm\n  --dtype DTYPE\n"), 0o644))
	hole, err := net.Listen("tcp", "127.0.0.1:0") // takes calls and is silent
	require.NoError(t, err)
	t.Cleanup(func() { hole.Close() })
	names := leaves(t)
	require.Len(t, interrupted, len(names))
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // else the verbs ignore it where this test does, as below nohup
	for _, name := range names {
		args, known := interrupted[name]
		require.True(t, known, name)
		argv := append(strings.Fields(name),
			strings.Fields(strings.ReplaceAll(args, "HOLE", "http://"+hole.Addr().String()))...)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := "SLURM_JOB_ID=17"
			if inJob(append([]string{"profllm"}, argv...), "17") { // it would have Slurm's patience
				job = "SLURM_JOB_ID="
			}
			cmd := exec.Command(binary, argv...)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "SLURM_CONF=/nowhere/slurm.conf", job)
			cmd.Stdout, cmd.Stderr = fullPipe(t), fullPipe(t)
			require.NoError(t, cmd.Start())
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			await.True(t, func() bool { return stuck(cmd.Process.Pid) }, "the verb waits for its reader")
			begun, sig := time.Now(), syscall.SIGTERM
			switch {
			case name == "collect": // from the keyboard
				sig = syscall.SIGINT
			case len(name)%3 == 0: // the terminal was closed
				sig = syscall.SIGHUP
			}
			require.NoError(t, cmd.Process.Signal(sig))
			<-ended // the deadline of the test is the limit
			t.Logf("ended %d ms after %v: %v", time.Since(begun).Milliseconds(), sig, cmd.ProcessState)
			require.Equal(t, exitInterrupted, cmd.ProcessState.ExitCode())
		})
	}
}

// A hangup that a command was started to ignore stays ignored, as nohup asks for.
func TestIgnoredHangup(t *testing.T) {
	t.Parallel()
	cmd := command(t.TempDir(), nil, "dashboard", "serve", "--address", "127.0.0.1:0", "--demo")
	cmd.Args = append([]string{"sh", "-c", `trap "" HUP; exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
	var err error
	cmd.Path, err = exec.LookPath("sh")
	require.NoError(t, err)
	p := startListening(t, cmd)
	for range 20 { // a signal that counts ends it within a few answers
		require.NoError(t, cmd.Process.Signal(syscall.SIGHUP))
		status, _, _ := get(t, p.url+"/api/ready")
		require.Equal(t, 200, status)
	}
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	_ = cmd.Wait() // the deadline of the test is the limit
}

// Whatever verb the script of a job calls has Slurm's patience, and no other has it in a
// shell of salloc.
func TestJobVerbs(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob("../../pkg/render/testdata/golden/*/*/*.sh")
	require.NoError(t, err)
	require.NotEmpty(t, scripts)
	called := regexp.MustCompile(`"\$PROFLLM" '?((?:bench |eval )?[a-z0-9-]+)`)
	found := map[string]bool{}
	for _, file := range scripts {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range called.FindAllStringSubmatch(string(text), -1) {
			found[m[1]] = true
		}
	}
	delete(found, "version") // waits for nothing
	require.Contains(t, found, "job")
	for verb := range found {
		require.True(t, inJob(append([]string{"profllm"}, strings.Fields(verb)...), "17"), verb)
	}
	ours := []string{"bench serve", "bench search", "eval gsm8k", "proxy", "sim"}
	for _, name := range leaves(t) {
		argv := append([]string{"profllm"}, strings.Fields(name)...)
		require.Equal(t, slices.Contains(ours, name), inJob(argv, "17"), name)
		require.False(t, inJob(argv, ""), name)
	}
	require.False(t, inJob([]string{"profllm"}, "17"))
	require.True(t, inJob([]string{"profllm", "job", "contain"}, ""), "bench suite runs its client by that")
	require.False(t, inJob([]string{"profllm", "job", "guard"}, ""))
}

// A verb that decodes, scans or unpacks something large ends as well.
func TestBusyVerbsEndAfterTERM(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs a rehearsal")
	}
	dir := t.TempDir()
	f := finishedRuns(t, 100)
	copyTree(t, filepath.Join(f.root, "failed/0"), filepath.Join(dir, "log"))
	large(t, filepath.Join(dir, "log/logs/serve-0.log"), "INFO a line\n", 3<<30)
	copyTree(t, filepath.Join(f.root, "plain/0"), filepath.Join(dir, "json"))
	manyKeys(t, filepath.Join(dir, "json/raw/vllm-bench.json"), 120<<20)
	for _, args := range []string{"collect log", "why log", "collect json", "why json"} {
		cmd := exec.Command(binary, strings.Fields(args)...)
		cmd.Dir = dir
		require.NoError(t, cmd.Start())
		await.True(t, func() bool { return readBytes(cmd.Process.Pid) > 8<<20 }, "%s reads", args)
		begun := time.Now()
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		err := cmd.Wait()
		t.Logf("%s ended %d ms after TERM: %v", args, time.Since(begun).Milliseconds(), err)
		require.Equal(t, exitInterrupted, cmd.ProcessState.ExitCode(), args)
	}
}

// large makes a file that takes long to read and no room on the disk.
func large(t *testing.T, path, begin string, size int64) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(begin), 0o644))
	require.NoError(t, os.Truncate(path, size))
}

// manyKeys makes a JSON file of about size bytes that takes long to decode. It is written in
// parts: what this process takes counts as memory of the programs that it starts.
func manyKeys(t *testing.T, path string, size int) {
	t.Helper()
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	part := strings.Repeat(`"a":1,`, 100_000)
	_, err = f.WriteString("{")
	for n := 0; n < size && err == nil; n += len(part) {
		_, err = f.WriteString(part)
	}
	require.NoError(t, err)
}

// readBytes is how much a process has read.
func readBytes(pid int) (n int64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	fmt.Sscanf(string(text), "rchar: %d", &n)
	return n
}

// A server that is told to end answers the requests that it has begun, although that takes longer than the
// patience with a verb that hangs.
func TestServersLetRequestsEnd(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(t *testing.T) (p *page, finish func()){
		"dashboard": halfAnUpload, "proxy": askThroughProxy,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, finish := begin(t)
			require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
			await.True(t, func() bool {
				c, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
				if err == nil {
					c.Close()
				}
				return err != nil
			}, "it takes no new calls")
			time.Sleep(patience + patience/2)
			finish()
			require.NoError(t, p.cmd.Wait(), p.said.String())
		})
	}
}

// halfAnUpload sends half of a record to a dashboard, which has begun to read it.
func halfAnUpload(t *testing.T) (p *page, finish func()) {
	dir := t.TempDir()
	id := writeRecords(t, filepath.Join(dir, "results"), 1)[0]
	data, err := os.ReadFile(filepath.Join(dir, "results", id, "result.json"))
	require.NoError(t, err)
	p = startDashboard(t, dir, nil, "--store", "runs.db")
	c, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	fmt.Fprintf(c, "POST /api/upload/raw HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\nExpect: 100-continue\r\n\r\n", len(data))
	answers := bufio.NewReader(c)
	line, err := answers.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 100 Continue\r\n", line)
	_, err = answers.ReadString('\n')
	require.NoError(t, err)
	_, err = c.Write(data[:len(data)/2])
	require.NoError(t, err)
	return p, func() {
		_, err := c.Write(data[len(data)/2:])
		require.NoError(t, err)
		got, err := http.ReadResponse(answers, nil)
		require.NoError(t, err)
		got.Body.Close()
		require.Equal(t, http.StatusAccepted, got.StatusCode)
	}
}

// askThroughProxy has a proxy wait for a server, which has the request.
func askThroughProxy(t *testing.T) (p *page, finish func()) {
	begun, answer := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			close(begun)
			<-answer
		}
		io.WriteString(w, "{}")
	}))
	t.Cleanup(server.Close)
	p = startListening(t, command(t.TempDir(), nil, "proxy", "--server", server.URL, "--host", "127.0.0.1", "--port", "0"))
	codes := make(chan int, 1)
	go func() {
		got, err := http.Post(p.url+"/v1/completions", "application/json", strings.NewReader(`{"model":"m"}`))
		if err != nil {
			codes <- 0
			return
		}
		got.Body.Close()
		codes <- got.StatusCode
	}()
	<-begun
	return p, func() {
		close(answer)
		require.Equal(t, http.StatusOK, <-codes)
	}
}
