package proxy

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The benchmark's servers, proxy and clients are separate processes of one core
// each, so that the proxy's CPU time is its own. A process's part is in this
// variable; its address goes to stdout, and it ends with its stdin.
const partVar = "PROFLLM_PROXY_TEST_PART"

func TestMain(m *testing.M) {
	part := strings.Fields(os.Getenv(partVar))
	if len(part) == 0 {
		os.Exit(m.Run())
	}
	runtime.GOMAXPROCS(1)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr())
	switch part[0] {
	case "engine":
		tokens, _ := strconv.Atoi(part[1])
		itl, _ := time.ParseDuration(part[2])
		go serveEngine(l, tokens, itl)
	case "proxy":
		p, err := New(Options{Prefill: part[1:2], Decode: part[1:2]})
		if err != nil {
			panic(err)
		}
		go p.Serve(context.Background(), l)
	}
	io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// start runs this binary as part and returns the address it listens on.
func start(b *testing.B, part string) string {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), partVar+"="+part)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(b, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	b.Cleanup(func() { stdin.Close(); cmd.Wait() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(b, err)
	return strings.TrimSpace(line)
}

// serveEngine is a bare engine: it answers prefill at once, and a stream with
// its first token at once and then one per itl. It spends as little as it can.
func serveEngine(l net.Listener, tokens int, itl time.Duration) {
	const kv = `{"id":"cmpl-1","object":"text_completion","choices":[{"index":0,"text":"a","finish_reason":"length"}],"kv_transfer_params":{"do_remote_prefill":true,"do_remote_decode":false,"remote_block_ids":[[1,2,3,4]],"remote_engine_id":"5f0c","remote_request_id":"cmpl-1","remote_host":"127.0.0.1","remote_port":5600,"tp_size":1}}`
	prefill := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s",
		len(kv), kv)
	event := `data: {"id":"cmpl-1","object":"text_completion","created":1790000000,"model":"tiny","choices":[{"index":0,"text":" token","logprobs":null,"finish_reason":null,"stop_reason":null}],"usage":null}` + "\n\n"
	chunk := fmt.Appendf(nil, "%x\r\n%s\r\n", len(event), event)
	first := append([]byte("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"), chunk...)
	last := []byte("e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
	serve := func(c net.Conn) {
		defer c.Close()
		br := bufio.NewReaderSize(c, 64<<10)
		var body []byte
		for {
			size, ok := readHead(br)
			if !ok {
				return
			}
			body = slices.Grow(body[:0], size)[:size]
			if _, err := io.ReadFull(br, body); err != nil {
				return
			}
			if size == 0 || bytes.Contains(body, []byte(`"stream":false`)) {
				c.Write(prefill)
				continue
			}
			c.Write(first)
			next := time.Now()
			for i := 1; i < tokens; i++ {
				next = next.Add(itl)
				time.Sleep(time.Until(next))
				c.Write(chunk)
			}
			c.Write(last)
		}
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go serve(c)
	}
}

// readHead reads a message's head and returns its Content-Length.
func readHead(br *bufio.Reader) (size int, ok bool) {
	for {
		line, err := br.ReadSlice('\n')
		if err != nil {
			return 0, false
		}
		if len(line) == 2 {
			return size, true
		}
		if name, value, _ := bytes.Cut(line, []byte(":")); bytes.EqualFold(name, []byte("content-length")) {
			size, _ = strconv.Atoi(string(bytes.TrimSpace(value)))
		}
	}
}

// A load is what the clients of one run saw.
type load struct {
	ttft, itl []time.Duration
}

func (l *load) add(m load) {
	l.ttft, l.itl = append(l.ttft, m.ttft...), append(l.itl, m.itl...)
}

func (l load) meanTTFT() float64 {
	var sum time.Duration
	for _, d := range l.ttft {
		sum += d
	}
	return sum.Seconds() * 1e3 / float64(len(l.ttft))
}

// p99 is a percentile of times in ms, 0 if there are none.
func p99(times []time.Duration) float64 {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[len(times)*99/100].Seconds() * 1e3
}

// A shape is how the clients load the engine.
type shape struct {
	name   string
	engine string        // its part: tokens a request and the time between them
	rounds int           // requests per stream, one after the other
	spread time.Duration // the streams begin evenly over this time
}

// drive runs streams clients and waits for them.
func drive(b *testing.B, addr string, streams int, s shape) load {
	body := `{"model":"tiny","prompt":"` + strings.Repeat("word ",
		800) + `","max_tokens":256,"temperature":0,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true}}`
	request := fmt.Appendf(nil,
		"POST /v1/completions HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAuthorization: Bearer none\r\nContent-Length: %d\r\n\r\n%s", addr, len(body), body)
	parts := make([]load, streams)
	conns := make([]net.Conn, streams)
	for i := range conns {
		c, err := net.Dial("tcp", addr)
		require.NoError(b, err)
		defer c.Close()
		conns[i] = c
	}
	var all sync.WaitGroup
	for i := range streams {
		all.Go(func() {
			br := bufio.NewReader(conns[i])
			time.Sleep(s.spread * time.Duration(i) / time.Duration(streams))
			for range s.rounds {
				if err := parts[i].request(conns[i], br, request); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	var sum load
	for _, p := range parts {
		sum.add(p)
	}
	return sum
}

func (l *load) request(c net.Conn, br *bufio.Reader, request []byte) error {
	began := time.Now()
	if _, err := c.Write(request); err != nil {
		return err
	}
	if _, ok := readHead(br); !ok {
		return io.ErrUnexpectedEOF
	}
	last, first := began, true
	for {
		line, err := br.ReadSlice('\n')
		if err != nil {
			return err
		}
		if bytes.HasPrefix(line, []byte("data: {")) {
			now := time.Now()
			if first {
				l.ttft = append(l.ttft, now.Sub(began))
			} else {
				l.itl = append(l.itl, now.Sub(last))
			}
			last, first = now, false
		}
		if len(line) == 3 && line[0] == '0' {
			_, err := br.ReadSlice('\n')
			return err
		}
	}
}

// metric reads one of the proxy's metrics without labels.
func metric(t testing.TB, addr, name string) float64 {
	t.Helper()
	resp, err := http.Get("http://" + addr + "/metrics")
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			require.NoError(t, err)
			return v
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// BenchmarkProxy compares streams through the proxy with the same streams sent
// to the engine directly, in one run. Engine, proxy and clients have a core
// each if the machine does. The engine answers at once and then every 20 ms, 64
// tokens a request: "steady" streams begin one after the other, as they do when
// a benchmark has run for a while, "wave" all at the same moment. "limit" is one
// token a request without a pause: the proxy's highest rate.
//
//	go test -run '^$' -bench Proxy -benchtime 3x ./pkg/proxy
func BenchmarkProxy(b *testing.B) {
	const request = 64 * 20 * time.Millisecond
	for _, s := range []shape{
		{"steady", "engine 64 20ms", 2, request}, {"wave", "engine 64 20ms", 1, 0}, {"limit", "engine 1 0s", 20, 0},
	} {
		for _, streams := range []int{16, 128, 256, 512} {
			b.Run(fmt.Sprintf("%s/streams=%d", s.name, streams), func(b *testing.B) {
				engine := start(b, s.engine)
				proxy := start(b, "proxy http://"+engine)
				warm := shape{rounds: 1}
				drive(b, engine, streams, warm)
				drive(b, proxy, streams, warm)
				var direct, through load
				var wall, cpu float64
				b.ResetTimer()
				for range b.N {
					direct.add(drive(b, engine, streams, s))
					before, began := metric(b, proxy, "profllm_proxy_cpu_seconds_total"), time.Now()
					through.add(drive(b, proxy, streams, s))
					wall += time.Since(began).Seconds()
					cpu += metric(b, proxy, "profllm_proxy_cpu_seconds_total") - before
				}
				b.ReportMetric(direct.meanTTFT(), "direct-ttft-ms")
				b.ReportMetric(through.meanTTFT()-direct.meanTTFT(), "added-ttft-ms")
				b.ReportMetric(p99(through.ttft)-p99(direct.ttft), "added-p99-ttft-ms")
				if s.name != "limit" {
					b.ReportMetric(p99(direct.itl), "direct-p99-itl-ms")
					b.ReportMetric(p99(through.itl), "p99-itl-ms")
				}
				b.ReportMetric(float64(len(through.ttft))/cpu, "req/cpu-s")
				b.ReportMetric(cpu/wall, "cores")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// BenchmarkUpstream is the argument for the hand-written client: CPU time of one
// request and answer, against http.Transport, on one core.
func BenchmarkUpstream(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	engine := start(b, "engine 1 0s")
	body := []byte(`{"stream":false,"prompt":"` + strings.Repeat("word ", 800) + `"}`)
	perRequest := func(b *testing.B, request func() error) {
		b.ReportAllocs()
		before := cpuSeconds()
		for b.Loop() {
			if err := request(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric((cpuSeconds()-before)*1e6/float64(b.N), "cpu-us/op")
	}
	b.Run("own", func(b *testing.B) {
		u := &upstream{addr: engine, dial: time.Second}
		q := request{method: http.MethodPost, uri: "/v1/completions", id: "x", body: body}
		var buf []byte
		perRequest(b, func() error {
			buf = u.appendRequest(buf[:0], q, nil)
			a, err := u.send(b.Context(), q.method, buf, nil)
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, a)
			a.finish()
			return err
		})
	})
	b.Run("net-http", func(b *testing.B) {
		client := &http.Client{Transport: &http.Transport{}}
		defer client.CloseIdleConnections()
		perRequest(b, func() error {
			resp, err := client.Post("http://"+engine+"/v1/completions", "application/json", bytes.NewReader(body))
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			_, err = io.Copy(io.Discard, resp.Body)
			return err
		})
	})
}
