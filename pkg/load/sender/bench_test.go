package sender

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/load/answer"
	"github.com/profllm/profllm/pkg/load/loadtest"
)

// The test binary is also the server of BenchmarkSender, as a process of its own, so that the
// processor time of this process is that of the client alone.
const serverVariable = "PROFLLM_SENDER_BENCH_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(serverVariable) != "" {
		os.Exit(serveUntilEOF(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// serveUntilEOF prints the server's address and serves until stdin ends.
func serveUntilEOF(stdin io.Reader, stdout io.Writer) int {
	s, err := loadtest.Start(loadtest.Options{TTFT: 50 * time.Millisecond, ITL: 20 * time.Millisecond})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer s.Close()
	fmt.Fprintln(stdout, s.URL())
	io.Copy(io.Discard, stdin)
	return 0
}

// startServer returns the URL of completions of a server in another process.
func startServer(b *testing.B) *url.URL {
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), serverVariable+"=1"), os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(b, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	b.Cleanup(func() {
		stdin.Close()
		require.NoError(b, cmd.Wait())
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(b, err)
	u, err := url.Parse(strings.TrimSpace(line) + "/v1/completions")
	require.NoError(b, err)
	return u
}

// What BenchmarkSender sends: two waves of streams, each of 64 tokens at 50 tokens/s.
const (
	benchStreams  = 512
	benchRequests = 2 * benchStreams
	benchTokens   = 64
)

// A completion asks for benchTokens tokens.
type completion struct{}

func (completion) Body(dst []byte, _ int) []byte {
	return fmt.Appendf(dst, `{"model":"m","prompt":[1000%s],"max_tokens":%d,"stream":true,`+
		`"stream_options":{"include_usage":true}}`,
		strings.Repeat(",1000", 63), benchTokens)
}

func (completion) ID(int) string { return "" }

func (completion) Tokens(int) (prompt, answer int, bounded bool) { return 64, benchTokens, true }

// BenchmarkSender measures how many requests the client completes for each second of processor
// time, and how regular the tokens of 50 Hz look to it: with the event loop, with the pool of
// goroutines, and with a plain client of net/http. All send the same requests, as many at a
// time, to the same server. The plain client reads events once with the reader of the event
// loop, so that only the way of sending and receiving differs, and once with bufio and
// encoding/json, as one would write it without ours.
func BenchmarkSender(b *testing.B) {
	if !HaveLoop {
		b.Skip("no event loop on this system")
	}
	to := startServer(b)
	var loop, pool, plain, decoding cost
	for b.Loop() {
		loop.measure(b, func(load *Load) { viaSender(b, &Target{URL: to, Streams: benchStreams}, load) })
		pool.measure(b, func(load *Load) {
			viaSender(b, &Target{URL: to, Streams: benchStreams, Goroutines: true}, load)
		})
		plain.measure(b, func(load *Load) { viaNetHTTP(b, to, load, readWithOurs) })
		decoding.measure(b, func(load *Load) { viaNetHTTP(b, to, load, readWithJSON) })
	}
	b.ReportMetric(benchRequests*float64(b.N)/loop.cpu.Seconds(), "requests/cpu-s")
	b.ReportMetric(benchRequests*float64(b.N)/plain.cpu.Seconds(), "net/http-requests/cpu-s")
	b.ReportMetric(plain.cpu.Seconds()/loop.cpu.Seconds(), "x-net/http")
	b.ReportMetric(pool.cpu.Seconds()/loop.cpu.Seconds(), "x-goroutines")
	b.ReportMetric(decoding.cpu.Seconds()/loop.cpu.Seconds(), "x-net/http-and-json")
	b.ReportMetric(loop.p99Gap(), "p99-gap-ms")
	b.ReportMetric(plain.p99Gap(), "net/http-p99-gap-ms")
}

// A cost is what a way of sending took.
type cost struct {
	cpu  time.Duration
	gaps []float64 // between tokens, in s
}

func (c *cost) p99Gap() float64 {
	slices.Sort(c.gaps)
	return c.gaps[len(c.gaps)*99/100] * 1000
}

// measure adds what one load takes.
func (c *cost) measure(b *testing.B, send func(load *Load)) {
	origin := time.Now()
	load := &Load{
		Requests: completion{}, Outcomes: make([]answer.Outcome, benchRequests), Limit: benchStreams,
		Clock: func() int64 { return int64(time.Since(origin)) },
	}
	cpu := CPUTime()
	send(load)
	c.cpu += CPUTime() - cpu
	for i := range load.Outcomes {
		o := &load.Outcomes[i]
		require.Equal(b, answer.Completed, o.State, o.Err)
		require.Len(b, o.Tokens, benchTokens)
		c.gaps = o.Gaps(c.gaps)
	}
}

func viaSender(b *testing.B, to *Target, load *Load) {
	snd, err := Open(b.Context(), to)
	require.NoError(b, err)
	defer snd.Close()
	stats := snd.Run(b.Context(), load)
	require.Equal(b, to.Goroutines, stats.Kind == "goroutines")
}

// viaNetHTTP sends a load as a plain client of net/http does.
func viaNetHTTP(b *testing.B, to *url.URL, load *Load, read func(*Load, *answer.Outcome, io.Reader) error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: benchStreams, DisableCompression: true}}
	defer client.CloseIdleConnections()
	queue := make(chan int, benchRequests)
	for i := range load.Outcomes {
		queue <- i
	}
	close(queue)
	var streams sync.WaitGroup
	for range benchStreams {
		streams.Go(func() {
			for i := range queue {
				o := load.prepare(i)
				o.Start = load.Clock()
				resp, err := client.Post(to.String(), "application/json", bytes.NewReader(load.Requests.Body(nil, i)))
				if err != nil {
					o.Refuse(load.Clock(), err)
					continue
				}
				if err := read(load, o, resp.Body); err != nil {
					o.Refuse(load.Clock(), err)
				}
				resp.Body.Close()
			}
		})
	}
	streams.Wait()
}

// readWithOurs hands a body to the reader of the sender, behind a head.
func readWithOurs(load *Load, o *answer.Outcome, body io.Reader) error {
	var r answer.Reader
	r.Reset(o, answer.Wanted{Tokens: benchTokens})
	r.Feed([]byte("HTTP/1.1 200 OK\r\n\r\n"), load.Clock()) // the end of the body is that of the answer
	buf := make([]byte, 4<<10)
	for {
		n, err := body.Read(buf)
		r.Feed(buf[:n], load.Clock())
		if err != nil {
			r.Close(load.Clock(), r.EOF())
			return nil
		}
	}
}

// readWithJSON reads a body by lines and decodes each event.
func readWithJSON(load *Load, o *answer.Outcome, body io.Reader) error {
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		payload, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok || string(payload) == "[DONE]" {
			continue
		}
		var event struct {
			Choices []struct {
				Text   string `json:"text"`
				Reason string `json:"finish_reason"`
			} `json:"choices"`
			Usage *struct {
				Output int `json:"completion_tokens"`
			} `json:"usage"`
		}
		if err := json.Unmarshal(payload, &event); err != nil {
			return err
		}
		if len(event.Choices) > 0 {
			o.Tokens = append(o.Tokens, load.Clock())
		}
		if event.Usage != nil {
			o.State, o.Output = answer.Completed, event.Usage.Output
		}
	}
	return lines.Err()
}
