package load_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/load"
	"github.com/profllm/profllm/pkg/load/loadtest"
)

// The test binary is also the server and the client of benchmarks, as processes of their own.
const (
	roleVariable = "PROFLLM_LOAD_ROLE"
	gapVariable  = "PROFLLM_LOAD_GAP" // between the server's tokens, if not trueITL
)

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
	itl := trueITL
	if text := os.Getenv(gapVariable); text != "" {
		var err error
		if itl, err = time.ParseDuration(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
	}
	s, err := loadtest.Start(loadtest.Options{TTFT: trueTTFT, ITL: itl, Time: true})
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

// BenchmarkServe measures load clients on one core against a server of known latencies on
// another: how far their figures are from what the server saw, and what they cost. Each size takes
// 15.5 s: three waves of 256 tokens.
//
// The server counts from when the kernel has a request. It also says how long requests then waited
// until it read them (unread). For profllm's client, times of single requests are compared too: from its
// time of a request to the request's arrival (send), and from when the server began to write the first
// token to the client's time of it (token).
//
// It drives profllm's client, and each peer whose program a variable names: PROFLLM_BENCH_VLLM,
// PROFLLM_BENCH_VLLM_RS, PROFLLM_BENCH_GUIDELLM, PROFLLM_BENCH_AIPERF. PROFLLM_BENCH_TOKENIZER is
// the folder of a tokenizer, which they need.
func BenchmarkServe(b *testing.B) {
	for _, streams := range []int{1, 64, 512, 1024, 2048} {
		ours := 0.0 // processor seconds
		for _, p := range peers {
			program := os.Getenv(p.variable)
			if p.variable == "" {
				program = os.Args[0]
			} else if program == "" {
				continue
			}
			b.Run(fmt.Sprintf("streams=%d/%s", streams, p.name), func(b *testing.B) {
				for b.Loop() {
					s := startServer(b)
					got := p.drive(b, program, s.url, streams)
					got.report(b, s.truth())
					got.reportRequests(b, s.times())
					s.stop()
					if p.variable == "" {
						ours = got.cpu
					}
					if ours > 0 { // profllm was not left out
						b.ReportMetric(ours/got.cpu, "our_cpu_to_this")
					}
				}
			})
		}
	}
}

// A peer is a load client.
type peer struct {
	name, variable string
	words          func(j job) []string
	file           string // of the result, in the job's folder
	read           func(raw []byte) (figures, error)
}

// job is the load that a peer drives.
type job struct {
	url, dir, tokenizer string
	streams             int
}

func (j job) prompts() string { return strconv.Itoa(3 * j.streams) }

// requestsFile has the times of single requests, if the client writes them.
const requestsFile = "requests.jsonl"

var peers = []peer{
	{name: "profllm", words: func(j job) []string {
		return append(vllmWords(j), "--save-requests", requestsFile)
	}, file: "result.json", read: readVLLM},
	{"vllm", "PROFLLM_BENCH_VLLM", func(j job) []string {
		return append([]string{"bench", "serve", "--tokenizer", j.tokenizer}, vllmWords(j)...)
	}, "result.json", readVLLM},
	{"vllm-rs", "PROFLLM_BENCH_VLLM_RS", func(j job) []string {
		return append([]string{"bench", "serve", "--tokenizer", j.tokenizer, "--prompt-token-ids"}, vllmWords(j)...)
	}, "result.json", readVLLM},
	{"guidellm", "PROFLLM_BENCH_GUIDELLM", func(j job) []string {
		return []string{"run", "--backend",
			"kind=openai_http,model=loadtest,request_format=/v1/completions,validate_backend=false,target=" + j.url,
			"--profile", "kind=concurrent,streams=" + strconv.Itoa(j.streams),
			"--constraint", "kind=max_requests,count=" + j.prompts(), "--tokenizer", "kind=hf_auto,model=" + j.tokenizer,
			"--data", "kind=synthetic_text,prompt_tokens=64,output_tokens=256",
			"--output", "kind=json,path=" + filepath.Join(j.dir, "result.json"), "--disable-console"}
	}, "result.json", readGuideLLM},
	{"aiperf", "PROFLLM_BENCH_AIPERF", func(j job) []string {
		return []string{"profile", "--model", "loadtest", "--url", j.url, "--endpoint-type", "completions", "--streaming",
			"--tokenizer", j.tokenizer, "--isl", "64", "--osl", "256", "--extra-inputs", "ignore_eos:true",
			"--concurrency", strconv.Itoa(j.streams), "--request-count", j.prompts(), "--artifact-dir", j.dir, "--ui", "none"}
	}, "profile_export_aiperf.json", readAIPerf},
}

// vllmWords are the arguments of `vllm bench serve`, which three of the clients take.
func vllmWords(j job) []string {
	return append(plainWords(j.url, j.dir), "--random-output-len", "256", "--num-prompts", j.prompts(),
		"--max-concurrency", strconv.Itoa(j.streams))
}

// plainWords are those of any load.
func plainWords(url, dir string) []string {
	return []string{"--model", "loadtest", "--base-url", url, "--random-input-len", "64", "--temperature", "0",
		"--disable-tqdm", "--percentile-metrics", "ttft,itl", "--metric-percentiles", "50,99",
		"--save-result", "--result-dir", dir, "--result-filename", "result.json"}
}

// figures are what a client says, in ms, and what it took: processor seconds of all its processes, and
// MB of the largest.
type figures struct {
	completed   int
	ttft, itl   loadtest.Ranks
	cpu, memory float64
	requests    []load.Line // if the client writes them
}

// report shows the figures beside what the server saw.
func (f figures) report(b *testing.B, truth loadtest.Truth) {
	b.ReportMetric(f.cpu, "cpu_s")
	b.ReportMetric(f.memory, "memory_MB")
	b.ReportMetric(f.ttft.P50-truth.TTFT.P50, "ttft_p50_off_ms")
	b.ReportMetric(f.ttft.P99-truth.TTFT.P99, "ttft_p99_off_ms")
	b.ReportMetric(f.itl.P50-truth.Gap.P50, "itl_p50_off_ms")
	b.ReportMetric(f.itl.P99-truth.Gap.P99, "itl_p99_off_ms")
	b.ReportMetric(truth.Unread.P50, "server_unread_p50_ms")
	b.ReportMetric(truth.Unread.P99, "server_unread_p99_ms")
	b.ReportMetric(truth.TTFT.P99-ms(trueTTFT), "server_ttft_late_p99_ms")
	b.ReportMetric(truth.MaxLate, "server_max_late_ms")
	b.ReportMetric(0, "ns/op")
}

// reportRequests shows how far the times of single requests are from the server's.
func (f figures) reportRequests(b *testing.B, times []loadtest.Times) {
	seen := make(map[string]loadtest.Times, len(times))
	for _, t := range times {
		seen[t.ID] = t
	}
	var send, token []float64
	for i := range f.requests {
		l := &f.requests[i]
		t, ok := seen[l.ID]
		require.True(b, ok, "the server knows no request %s", l.ID)
		sent, err := time.Parse(time.RFC3339Nano, l.SentAt)
		require.NoError(b, err)
		first := sent.Add(time.Duration(float64(*l.FirstToken-*l.Sent) * 1e9))
		send = append(send, ms(t.Arrived.Sub(sent)))
		token = append(token, ms(first.Sub(t.Begun)))
	}
	for name, off := range map[string][]float64{"send": send, "token": token} {
		if slices.Sort(off); len(off) > 0 {
			b.ReportMetric(off[len(off)/2], name+"_p50_ms")
			b.ReportMetric(off[len(off)*99/100], name+"_p99_ms")
		}
	}
}

func ms(d time.Duration) float64 { return d.Seconds() * 1000 }

// result is what is read of a result file of `vllm bench serve`.
type result struct {
	Completed  int
	Throughput float64 `json:"request_throughput"`
	TTFT50     float64 `json:"p50_ttft_ms"`
	TTFT99     float64 `json:"p99_ttft_ms"`
	ITL50      float64 `json:"p50_itl_ms"`
	ITL99      float64 `json:"p99_itl_ms"`
	Profllm    struct {
		LastSend  float64 `json:"last_send_s"`
		SendDelay float64 `json:"send_delay_p99_ms"`
		CPU       float64 `json:"cpu_s"`
	}
}

func (r result) figures() figures {
	return figures{completed: r.Completed, ttft: loadtest.Ranks{P50: r.TTFT50, P99: r.TTFT99},
		itl: loadtest.Ranks{P50: r.ITL50, P99: r.ITL99}, cpu: r.Profllm.CPU}
}

func readVLLM(raw []byte) (figures, error) {
	var r result
	err := json.Unmarshal(raw, &r)
	return r.figures(), err
}

// BenchmarkRates measures how much of a rate of requests is delivered: those that were sent, by the
// time until the last of them.
func BenchmarkRates(b *testing.B) {
	for _, rate := range []int{10, 100, 1000, 4000} {
		b.Run(fmt.Sprintf("rate=%d", rate), func(b *testing.B) {
			for b.Loop() {
				s := startServer(b)
				r := drive(b, 1, s.url, "--random-output-len", "8", "--num-prompts", strconv.Itoa(10*rate),
					"--request-rate", strconv.Itoa(rate))
				s.stop()
				require.Equal(b, 10*rate, r.Completed)
				b.ReportMetric(float64(r.Completed)/r.Profllm.LastSend/float64(rate), "delivered_to_asked")
				b.ReportMetric(r.Profllm.SendDelay, "send_delay_p99_ms")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

// BenchmarkProcesses measures 10,000 streams with one process of the client and with two, whose figures
// are merged. The server's tokens are 500 ms apart, so that it has a core for them.
func BenchmarkProcesses(b *testing.B) {
	b.Setenv(gapVariable, "500ms")
	var one result
	for _, processes := range []int{1, 2} {
		b.Run(fmt.Sprintf("processes=%d", processes), func(b *testing.B) {
			for b.Loop() {
				s := startServer(b)
				r := drive(b, -1, s.url, "--random-output-len", "32", "--num-prompts", "20000", "--max-concurrency", "10000",
					"--processes", strconv.Itoa(processes))
				require.Equal(b, 20000, r.Completed)
				f := r.figures()
				f.report(b, s.truth())
				s.stop()
				if processes == 1 {
					one = r
				}
				b.ReportMetric(r.TTFT99/one.TTFT99, "ttft_p99_to_one")
				b.ReportMetric(r.ITL99/one.ITL99, "itl_p99_to_one")
				b.ReportMetric(r.Throughput/one.Throughput, "throughput_to_one")
			}
		})
	}
}

// A server is one of known latencies, in a process of its own.
type server struct {
	b    *testing.B
	url  string
	stop func()
}

// startServer runs a server on the first core.
func startServer(b *testing.B) *server {
	cmd := pinned(0, os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"=server", "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(b, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	url, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(b, err)
	return &server{b, strings.TrimSpace(url), func() {
		stdin.Close()
		require.NoError(b, cmd.Wait())
	}}
}

func (s *server) truth() (t loadtest.Truth) { s.ask("/truth", &t); return t }

func (s *server) times() (t []loadtest.Times) { s.ask("/times", &t); return t }

func (s *server) ask(path string, answer any) {
	resp, err := http.Get(s.url + path)
	require.NoError(s.b, err)
	defer resp.Body.Close()
	require.NoError(s.b, json.NewDecoder(resp.Body).Decode(answer))
}

// drive runs profllm's client on a core, or on any if that is below 0, and reads its result.
func drive(b *testing.B, core int, url string, args ...string) (r result) {
	dir := b.TempDir()
	cmd := pinned(core, os.Args[0], append(plainWords(url, dir), args...)...)
	cmd.Env = append(os.Environ(), roleVariable+"=client")
	out, err := cmd.CombinedOutput()
	require.NoError(b, err, "%s", out)
	raw, err := os.ReadFile(filepath.Join(dir, "result.json"))
	require.NoError(b, err)
	require.NoError(b, json.Unmarshal(raw, &r))
	return r
}

// readGuideLLM reads guidellm 0.8's report. Its latencies between tokens are means of requests.
func readGuideLLM(raw []byte) (f figures, err error) {
	type distribution struct {
		Successful struct{ Percentiles struct{ P50, P99 float64 } }
	}
	var r struct {
		Benchmarks []struct {
			Metrics struct {
				Totals struct{ Successful int } `json:"request_totals"`
				TTFT   distribution             `json:"time_to_first_token_ms"`
				ITL    distribution             `json:"inter_token_latency_ms"`
			}
		}
	}
	if err := json.Unmarshal(raw, &r); err != nil || len(r.Benchmarks) != 1 {
		return f, fmt.Errorf("%d benchmarks: %w", len(r.Benchmarks), err)
	}
	m := r.Benchmarks[0].Metrics
	return figures{completed: m.Totals.Successful, ttft: loadtest.Ranks(m.TTFT.Successful.Percentiles),
		itl: loadtest.Ranks(m.ITL.Successful.Percentiles)}, nil
}

// readAIPerf reads AIPerf 0.13's export; its inter_chunk_latency is what others call ITL.
func readAIPerf(raw []byte) (f figures, err error) {
	var r struct {
		Count struct{ Avg float64 } `json:"request_count"`
		TTFT  loadtest.Ranks        `json:"time_to_first_token"`
		Chunk loadtest.Ranks        `json:"inter_chunk_latency"`
	}
	err = json.Unmarshal(raw, &r)
	return figures{completed: int(r.Count.Avg), ttft: r.TTFT, itl: r.Chunk}, err
}

// drive runs a client on the second core and reads its result.
func (p peer) drive(b *testing.B, program, url string, streams int) figures {
	j := job{url: url, dir: b.TempDir(), tokenizer: os.Getenv("PROFLLM_BENCH_TOKENIZER"), streams: streams}
	cmd := pinned(1, program, p.words(j)...)
	cmd.Dir, cmd.Env = j.dir, append(os.Environ(), roleVariable+"=client", "GOMAXPROCS=1")
	if p.name != "aiperf" { // which then refuses the folder of a tokenizer
		cmd.Env = append(cmd.Env, "HF_HUB_OFFLINE=1")
	}
	out, err := cmd.CombinedOutput()
	require.NoError(b, err, "%s", out)
	raw, err := os.ReadFile(filepath.Join(j.dir, p.file))
	require.NoError(b, err, "%s", out)
	f, err := p.read(raw)
	require.NoError(b, err)
	require.Equal(b, 3*streams, f.completed)
	f.cpu = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	f.requests = readRequests(b, filepath.Join(j.dir, requestsFile))
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		f.memory = float64(usage.Maxrss) / 1024
	}
	return f
}

// readRequests reads the file of --save-requests, if there is one.
func readRequests(b *testing.B, name string) (lines []load.Line) {
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	require.NoError(b, err)
	defer file.Close()
	for d := json.NewDecoder(file); d.More(); {
		var l load.Line
		require.NoError(b, d.Decode(&l))
		lines = append(lines, l)
	}
	return lines
}

// pinned returns a command tied to one core, if taskset is there and the core too. It has a session of its
// own: Linux divides a busy core by sessions, and the client's share would follow the server's load.
func pinned(core int, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	if core >= 0 && exec.Command("taskset", "-c", strconv.Itoa(core), "true").Run() == nil {
		cmd = exec.Command("taskset", append([]string{"-c", strconv.Itoa(core), name}, args...)...)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}
