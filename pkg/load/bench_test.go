package load_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/load"
	"github.com/profllm/profllm/pkg/load/loadtest"
)

// The test binary is also the server and the client of BenchmarkServe, as processes of their own.
const roleVariable = "PROFLLM_LOAD_ROLE"

const (
	trueTTFT = 50 * time.Millisecond
	trueITL  = 20 * time.Millisecond
)

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "server":
		os.Exit(serveUntilEOF(os.Stdin, os.Stdout))
	case "client":
		os.Exit(client(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// serveUntilEOF prints the server's address and serves until stdin ends.
func serveUntilEOF(stdin io.Reader, stdout io.Writer) int {
	s, err := loadtest.Start(loadtest.Options{TTFT: trueTTFT, ITL: trueITL})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer s.Close()
	fmt.Fprintln(stdout, s.URL())
	io.Copy(io.Discard, stdin)
	return 0
}

// client runs a plain command line of the load client.
func client(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	o, err := load.ParseArgs(args)
	o.Again = func(ctx context.Context, more ...string) *exec.Cmd {
		return exec.CommandContext(ctx, os.Args[0], append(os.Args[1:], more...)...)
	}
	if err == nil {
		_, err = load.Run(ctx, o, time.Now, os.Stdout, os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// BenchmarkServe measures the client on one core against a server of known latencies on
// another: how close its figures come to the truth, and what they cost. Each size takes 15.5 s:
// three waves of 256 tokens.
//
// With PROFLLM_BENCH_PEER=/path/to/vllm, "vllm bench serve" drives the same load once per size
// (with its tokenizer from PROFLLM_BENCH_TOKENIZER) and the ratios are reported.
func BenchmarkServe(b *testing.B) {
	for _, streams := range []int{512, 1024} {
		b.Run(fmt.Sprintf("streams=%d", streams), func(b *testing.B) {
			for b.Loop() {
				url, truth, stop := startServer(b)
				got := drive(b, []string{os.Args[0]}, "client", url, streams)
				b.ReportMetric(got.MeanTTFT/50, "ttft_ratio")
				b.ReportMetric(got.MeanTTFT/truth().MeanTTFT, "ttft_to_server_log")
				b.ReportMetric(got.P99ITL/20, "itl_p99_ratio")
				b.ReportMetric(got.P99ITL/truth().P99Gap, "itl_p99_to_server_log")
				b.ReportMetric(got.CPU, "cpu_s")
				b.ReportMetric(got.Profllm.Lag, "lag_p99_ms")
				b.ReportMetric(truth().MaxLate, "server_max_late_ms")
				stop()
				if peer := os.Getenv("PROFLLM_BENCH_PEER"); peer != "" {
					comparePeer(b, peer, streams, got)
				}
			}
		})
	}
}

func comparePeer(b *testing.B, peer string, streams int, ours figures) {
	url, _, stop := startServer(b)
	defer stop()
	theirs := drive(b, []string{peer, "bench", "serve", "--tokenizer", os.Getenv("PROFLLM_BENCH_TOKENIZER")}, "", url,
		streams)
	b.ReportMetric(theirs.CPU, "peer_cpu_s")
	b.ReportMetric(theirs.MeanTTFT/50, "peer_ttft_ratio")
	b.ReportMetric(theirs.P99ITL/20, "peer_itl_p99_ratio")
	b.ReportMetric(theirs.CPU/ours.CPU, "cpu_ratio_to_peer")
}

// figures are what BenchmarkServe reads of a result file, in ms; CPU is of the whole process, in s.
type figures struct {
	Completed int
	MeanTTFT  float64 `json:"mean_ttft_ms"`
	P99ITL    float64 `json:"p99_itl_ms"`
	CPU       float64 `json:"-"`
	Profllm   struct {
		Lag float64 `json:"lag_p99_ms"`
	}
}

// startServer runs the server on the first core. stop ends it.
func startServer(b *testing.B) (url string, truth func() loadtest.Truth, stop func()) {
	cmd := pinned(0, os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"=server", "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(b, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	url, err = bufio.NewReader(stdout).ReadString('\n')
	require.NoError(b, err)
	url = strings.TrimSpace(url)
	truth = func() (t loadtest.Truth) {
		resp, err := http.Get(url + "/truth")
		require.NoError(b, err)
		defer resp.Body.Close()
		require.NoError(b, json.NewDecoder(resp.Body).Decode(&t))
		return t
	}
	return url, truth, func() {
		stdin.Close()
		require.NoError(b, cmd.Wait())
	}
}

// drive runs a client on the second core and reads its result.
func drive(b *testing.B, program []string, role, url string, streams int) (f figures) {
	dir := b.TempDir()
	cmd := pinned(1, program[0], append(program[1:], "--model", "loadtest", "--base-url", url,
		"--random-input-len", "64", "--random-output-len", "256", "--num-prompts", strconv.Itoa(3*streams),
		"--max-concurrency", strconv.Itoa(streams), "--temperature", "0", "--disable-tqdm",
		"--save-result", "--result-dir", dir, "--result-filename", "result.json")...)
	cmd.Env = append(os.Environ(), roleVariable+"="+role, "GOMAXPROCS=1", "HF_HUB_OFFLINE=1")
	out, err := cmd.CombinedOutput()
	require.NoError(b, err, "%s", out)
	raw, err := os.ReadFile(filepath.Join(dir, "result.json"))
	require.NoError(b, err)
	require.NoError(b, json.Unmarshal(raw, &f))
	require.Equal(b, 3*streams, f.Completed)
	f.CPU = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	return f
}

// pinned returns a command tied to one core, if taskset is there and the core too.
func pinned(core int, name string, args ...string) *exec.Cmd {
	tied := append([]string{"-c", strconv.Itoa(core), name}, args...)
	if exec.Command("taskset", "-c", strconv.Itoa(core), "true").Run() == nil {
		return exec.Command("taskset", tied...)
	}
	return exec.Command(name, args...)
}
