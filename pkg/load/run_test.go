package load

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/load/answer"
	"github.com/profllm/profllm/pkg/load/loadtest"
	"github.com/profllm/profllm/pkg/load/sender"
)

// wholeStream is the shortest answer of two tokens.
const wholeStream = `data: {"choices":[{"text":"a"}]}

data: {"choices":[{"text":"b","finish_reason":"length"}]}

data: {"choices":[],"usage":{"prompt_tokens":7,"total_tokens":9,"completion_tokens":2}}

data: [DONE]

`

// senders are the ways to send requests; every behaviour has to hold for all.
var senders = map[string]func(t *sender.Target){
	"loop":       func(*sender.Target) {},
	"many loops": func(t *sender.Target) { t.PerLoop = 1 },
	"pool":       func(t *sender.Target) { t.Goroutines = true },
}

// driveOn runs a load with the sender of that name.
func driveOn(ctx context.Context, t *testing.T, name string, o Options, stdout, stderr io.Writer) (*Report, error) {
	t.Helper()
	require.NoError(t, o.Validate())
	to, err := o.target()
	require.NoError(t, err)
	senders[name](to)
	snd, err := sender.Open(ctx, to)
	require.NoError(t, err)
	defer snd.Close()
	return drive(ctx, &o, snd, time.Now, stdout, stderr)
}

// onAll runs a test with each sender.
func onAll(t *testing.T, f func(t *testing.T, run func(ctx context.Context, o Options) (*Report, string, error))) {
	for name := range senders {
		t.Run(name, func(t *testing.T) {
			f(t, func(ctx context.Context, o Options) (*Report, string, error) {
				var out bytes.Buffer
				r, err := driveOn(ctx, t, name, o, &out, io.Discard)
				return r, out.String(), err
			})
		})
	}
}

func start(t *testing.T, o loadtest.Options) *loadtest.Server {
	t.Helper()
	s, err := loadtest.Start(o)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// against returns options for a small run against s.
func against(t *testing.T, s *loadtest.Server, line string) Options {
	t.Helper()
	return parse(t, "--model tiny --base-url "+s.URL()+" --num-prompts 20 --random-input-len 8 --random-output-len 4 "+
		line)
}

// keys returns the keys of a JSON object in order.
func keys(t *testing.T, raw []byte) []string {
	t.Helper()
	var o Object
	require.NoError(t, o.UnmarshalText(raw))
	var out []string
	for _, m := range o {
		out = append(out, m.Key)
	}
	return out
}

// covers: LBEN-1 OUT-3
func TestResultHasVLLMsKeysInVLLMsOrder(t *testing.T) {
	s := start(t, loadtest.Options{Tokenizer: true})
	tests := map[string]string{
		"serve.json":          "--backend vllm --request-rate 1000 --percentile-metrics ttft,tpot,itl,e2el --metric-percentiles 50,90,95,99",
		"serve-detailed.json": "--backend vllm --request-rate 1000 --percentile-metrics ttft,tpot,itl,e2el --metric-percentiles 50,90,95,99 --save-detailed",
		"serve-chat.json":     "--backend openai-chat --max-concurrency 8 --goodput ttft:1000 tpot:200",
	}
	for name, line := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			o := against(t, s, line+" --save-result --result-filename r.json --result-dir "+dir)
			_, err := Run(t.Context(), o, time.Now, io.Discard, io.Discard)
			require.NoError(t, err)
			ours, err := os.ReadFile(filepath.Join(dir, "r.json"))
			require.NoError(t, err)
			theirs, err := os.ReadFile("testdata/" + name)
			require.NoError(t, err)
			require.Equal(t, append(keys(t, theirs), "profllm"), keys(t, ours))

			var a, b map[string]any
			require.NoError(t, json.Unmarshal(ours, &a))
			require.NoError(t, json.Unmarshal(theirs, &b))
			for key, v := range b {
				require.IsType(t, v, a[key], key)
			}
		})
	}
}

// covers: LBEN-1
func TestTableIsVLLMs(t *testing.T) {
	number := regexp.MustCompile(`[0-9]+(\.[0-9]+)? *$`)
	shape := func(text string) (lines []string) {
		inside := false
		for line := range strings.Lines(text) {
			line = strings.TrimRight(line, "\n")
			if strings.HasPrefix(line, "============ Serving") {
				inside = true
			}
			if !inside {
				continue
			}
			value := number.FindString(line)
			if value != "" {
				require.Len(t, line, 51, "%q", line)
			}
			mask := strings.Repeat("#", len(value)) // digits may differ, the layout may not
			if strings.Contains(value, ".") {
				mask += " with decimals"
			}
			lines = append(lines, strings.TrimSuffix(line, value)+mask)
		}
		return lines
	}
	s := start(t, loadtest.Options{})
	for name, line := range map[string]string{
		"serve-bench.txt": "--request-rate 500 --percentile-metrics ttft,tpot,itl,e2el --metric-percentiles 50,90,95,99",
		"serve-chat.txt":  "--backend openai-chat --max-concurrency 8 --goodput ttft:1000 tpot:200",
	} {
		var out bytes.Buffer
		_, err := Run(t.Context(), against(t, s, line), time.Now, &out, io.Discard)
		require.NoError(t, err)
		theirs, err := os.ReadFile("testdata/" + name)
		require.NoError(t, err)
		require.Equal(t, shape(string(theirs)), shape(out.String()), name)
		require.Greater(t, len(shape(out.String())), 15)
	}
}

func TestRunMeasures(t *testing.T) {
	onAll(t, func(t *testing.T, run func(context.Context, Options) (*Report, string, error)) {
		s := start(t, loadtest.Options{TTFT: 20 * time.Millisecond, ITL: 5 * time.Millisecond, Keep: true})
		r, _, err := run(t.Context(),
			against(t, s, "--request-rate 500 --num-warmups 3 --percentile-metrics e2el,itl,ttft"))
		require.NoError(t, err)
		require.Equal(t, 20, r.Completed)
		require.Zero(t, r.Failed)
		require.Equal(t, 20*8, r.InputTokens)
		require.Equal(t, 20*4, r.OutputTokens)
		require.Equal(t, 23, s.Requests(), "warm-ups are sent and not measured")
		for i := range r.ended {
			o := &r.ended[i]
			require.GreaterOrEqual(t, o.Start, o.Due)
			require.GreaterOrEqual(t, o.TTFT(), 0.020, "no token arrives before the server sends it")
			require.GreaterOrEqual(t, o.Latency(), 0.035)
			require.Len(t, o.Tokens, 4)
		}
		require.Equal(t, Samples{TTFT: 20, TPOT: 20, ITL: 60, E2EL: 20}, r.Client.Samples)
		require.Equal(t, "ttft", r.Families[0].Name, "families keep the order of the table")

		first := s.Bodies()[0]
		var body map[string]any
		require.NoError(t, json.Unmarshal(first, &body))
		require.Equal(t, "tiny", body["model"])
		require.Len(t, body["prompt"], 8)
		require.EqualValues(t, 4, body["max_tokens"])
		require.Equal(t, true, body["ignore_eos"])
		require.NotContains(t, body, "temperature")
		require.Equal(t, first, s.Bodies()[2], "warm-ups are copies of the first sample")
	})
}

func TestSamplingAndExtraBody(t *testing.T) {
	s := start(t, loadtest.Options{Keep: true})
	o := against(t, s,
		`--num-prompts 1 --temperature 0 --top-k 5 --top-p 0.5 --logprobs 2 --served-model-name api --extra-body {"top_p":0.25,"kv":{"a":[1]}}`)
	_, err := Run(t.Context(), o, time.Now, io.Discard, io.Discard)
	require.NoError(t, err)
	var body map[string]any
	require.NoError(t, json.Unmarshal(s.Bodies()[0], &body))
	require.Equal(t, "api", body["model"])
	require.Equal(t, 0.0, body["temperature"])
	require.Equal(t, 5.0, body["top_k"])
	require.Equal(t, 0.25, body["top_p"], "the extra body wins")
	require.Equal(t, map[string]any{"a": []any{1.0}}, body["kv"])
	require.Equal(t, 1, bytes.Count(s.Bodies()[0], []byte(`"top_p"`)))
}

func TestRepeatedRunsSendTheSamePrompts(t *testing.T) {
	s := start(t, loadtest.Options{Keep: true})
	for range 2 {
		_, err := Run(t.Context(), against(t, s, "--request-rate 2000 --max-concurrency 1"), time.Now, io.Discard,
			io.Discard)
		require.NoError(t, err)
	}
	require.Equal(t, s.Bodies()[:20], s.Bodies()[20:])
}

func TestConcurrencyNeverExceedsTheCap(t *testing.T) {
	onAll(t, func(t *testing.T, run func(context.Context, Options) (*Report, string, error)) {
		s := start(t, loadtest.Options{TTFT: 2 * time.Millisecond, ITL: time.Millisecond})
		r, _, err := run(t.Context(),
			against(t, s,
				"--num-prompts 60 --max-concurrency 7 --percentile-metrics client_queue_time,e2el_including_client_queue"))
		require.NoError(t, err)
		require.Equal(t, 60, r.Completed)
		require.Equal(t, 7, s.Truth().MaxInFlight, "the cap is reached and kept")
		require.LessOrEqual(t, r.PeakRequests, 7)
		require.Len(t, r.Families, 1, "the sum with the queue time needs a finite rate")
		require.Positive(t, r.Families[0].Mean, "requests beyond the cap waited")
	})
}

func TestFailedRequests(t *testing.T) {
	onAll(t, func(t *testing.T, run func(context.Context, Options) (*Report, string, error)) {
		s := start(t, loadtest.Options{ITL: time.Millisecond, Fault: func(n int) loadtest.Fault {
			return []loadtest.Fault{{}, {Status: 500}, {CutAfter: 2}, {ErrorAfter: 1}, {NoUsage: true}}[n%5]
		}})
		r, out, err := run(t.Context(), against(t, s, "--max-concurrency 2 --save-detailed"))
		require.NoError(t, err, "some requests completed")
		require.Equal(t, 8, r.Completed)
		require.Equal(t, 12, r.Failed)
		require.Equal(t, 4, r.Client.UsageMissing)
		require.Equal(t, 8*4, r.OutputTokens, "tokens of failed requests do not count")
		require.Contains(t, out, "Failed requests during benchmark run detected (capping to 10):\nError 0: ")
		require.NotContains(t, out, "Error 10:")

		raw, err := json.Marshal(r)
		require.NoError(t, err)
		var arrays struct {
			Errors    []string
			TTFTs     []float64
			ITLs      [][]float64
			Latencies []float64
			Lens      []int `json:"output_lens"`
		}
		require.NoError(t, json.Unmarshal(raw, &arrays))
		require.Len(t, arrays.Errors, 20)
		for i, e := range arrays.Errors {
			require.Equal(t, e == "", arrays.TTFTs[i] > 0)
			require.Equal(t, e == "", arrays.Latencies[i] > 0)
			require.Equal(t, e == "", len(arrays.ITLs[i]) == 3)
			require.Equal(t, e == "", arrays.Lens[i] == 4)
		}
		all := strings.Join(arrays.Errors, "\n")
		require.Contains(t, all, "500 Internal Server Error: refused on purpose")
		require.Contains(t, all, "failed on purpose (after 1 token events)")
		require.Contains(t, all, "(after 2 token events)", "a stream that breaks off is no success")
	})
}

// covers: LRES-3
func TestServerDiesInTheMiddle(t *testing.T) {
	onAll(t, func(t *testing.T, run func(context.Context, Options) (*Report, string, error)) {
		s := start(t, loadtest.Options{ITL: time.Hour})
		dying := make(chan struct{})
		go func() {
			defer close(dying)
			for s.Truth().Streams < 5 { // their first tokens are out
				time.Sleep(time.Millisecond)
			}
			s.Close()
		}()
		r, _, err := run(t.Context(), against(t, s, "--max-concurrency 5"))
		<-dying
		require.ErrorIs(t, err, ErrNoneCompleted)
		require.Equal(t, 20, r.Failed, "those in flight and those that found nobody")
		require.Contains(t, r.firstError(), "after 1 token events")
	})
}

// covers: LRES-3
func TestResultIsWrittenWhenAllFail(t *testing.T) {
	onAll(t, func(t *testing.T, run func(context.Context, Options) (*Report, string, error)) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.NoError(t, l.Close()) // nobody listens there now
		dir := t.TempDir()
		o := parse(t, "--model m --base-url http://"+l.Addr().
			String()+" --num-prompts 4 --save-result --result-filename r.json --result-dir "+dir)
		_, _, err = run(t.Context(), o)
		require.ErrorIs(t, err, ErrNoneCompleted)
		require.ErrorContains(t, err, "refused")
		raw, err := os.ReadFile(filepath.Join(dir, "r.json"))
		require.NoError(t, err)
		var got map[string]any
		require.NoError(t, json.Unmarshal(raw, &got))
		require.EqualValues(t, 0, got["completed"])
		require.EqualValues(t, 4, got["failed"])
		require.EqualValues(t, 0, got["mean_ttft_ms"], "as in vLLM's files")
	})
}

// covers: LRES-3
func TestCancelledRunWritesWhatItHas(t *testing.T) {
	onAll(t, func(t *testing.T, run func(context.Context, Options) (*Report, string, error)) {
		s := start(t, loadtest.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for s.Requests() < 3 {
				time.Sleep(time.Millisecond)
			}
			cancel()
		}()
		dir := t.TempDir()
		o := against(t, s,
			"--request-rate 10 --burstiness inf --save-result --save-detailed --result-filename r.json --result-dir "+dir)
		r, _, err := run(ctx, o)
		require.ErrorIs(t, err, ErrInterrupted)
		require.ErrorIs(t, err, context.Canceled)
		require.True(t, r.Client.Partial)
		require.GreaterOrEqual(t, r.Completed, 2)
		require.Less(t, r.Completed, 20)
		require.Zero(t, r.Failed)
		require.Equal(t, 20, r.Completed+r.Client.Interrupted+r.Client.NotSent)
		raw, err := os.ReadFile(filepath.Join(dir, "r.json"))
		require.NoError(t, err)
		var got struct {
			TTFTs   []float64
			Num     int `json:"num_prompts"`
			Profllm Client
		}
		require.NoError(t, json.Unmarshal(raw, &got))
		require.Len(t, got.TTFTs, r.Completed, "interrupted requests are in no array")
		require.Equal(t, 20, got.Num)
		require.Equal(t, r.Client, got.Profllm)
	})
}

func TestCancelInFlight(t *testing.T) {
	onAll(t, func(t *testing.T, run func(context.Context, Options) (*Report, string, error)) {
		s := start(t, loadtest.Options{TTFT: time.Hour})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for s.Requests() < 6 {
				time.Sleep(time.Millisecond)
			}
			cancel()
		}()
		r, _, err := run(ctx, against(t, s, "--max-concurrency 6"))
		require.ErrorIs(t, err, ErrInterrupted)
		require.Equal(t, 6, r.Client.Interrupted)
		require.Equal(t, 14, r.Client.NotSent)
		require.Zero(t, r.Failed)
	})
}

func TestReadyCheck(t *testing.T) {
	onAll(t, func(t *testing.T, run func(context.Context, Options) (*Report, string, error)) {
		s := start(t, loadtest.Options{Fault: func(n int) loadtest.Fault {
			if n < 2 {
				return loadtest.Fault{Status: 503}
			}
			return loadtest.Fault{}
		}})
		r, out, err := run(t.Context(), against(t, s, "--ready-check-timeout-sec 60"))
		require.NoError(t, err)
		require.Equal(t, 20, r.Completed)
		require.Zero(t, r.Failed, "the run began after the check succeeded")
		require.Equal(t, 23, s.Requests())
		require.Contains(t, out, "Initial test run completed.")
	})
}

func TestReadyCheckGivesUp(t *testing.T) {
	s := start(t, loadtest.Options{Fault: func(int) loadtest.Fault { return loadtest.Fault{Status: 401} }})
	r, err := Run(t.Context(), against(t, s, "--ready-check-timeout-sec 1"), time.Now, io.Discard, io.Discard)
	require.Nil(t, r)
	require.ErrorContains(t, err, "401 Unauthorized: refused on purpose")
}

func TestModelIsAskedFor(t *testing.T) {
	s := start(t, loadtest.Options{Keep: true})
	r, err := Run(t.Context(), parse(t, "--num-prompts 1 --base-url "+s.URL()), time.Now, io.Discard, io.Discard)
	require.NoError(t, err)
	require.Equal(t, "loadtest", r.ModelID)
	require.Contains(t, string(s.Bodies()[0]), `"model":"loadtest"`)
}

func TestChatPromptsHaveTheirLength(t *testing.T) {
	for name, tokenizer := range map[string]bool{"by the server's tokenizer": true, "in words": false} {
		t.Run(name, func(t *testing.T) {
			s := start(t, loadtest.Options{Tokenizer: tokenizer, Keep: true})
			var log bytes.Buffer
			o := against(t, s, "--backend openai-chat --random-range-ratio 0.5")
			r, err := Run(t.Context(), o, time.Now, io.Discard, &log)
			require.NoError(t, err)
			want := 0
			for _, sample := range o.Random(0) {
				want += sample.Input
			}
			require.Equal(t, want, r.InputTokens, "the server counts as many as were asked for")
			require.Equal(t, !tokenizer, strings.Contains(log.String(), "plain words"))
			require.Equal(t, tokenizer, regexp.MustCompile(`"content":"w\d`).Match(s.Bodies()[0]), "%s", s.Bodies()[0])
		})
	}
}

func TestMetadataAndFileNames(t *testing.T) {
	s := start(t, loadtest.Options{})
	dir := t.TempDir()
	t.Chdir(dir)
	o := against(t, s,
		"--num-prompts 1 --model a/b --request-rate 1000 --max-concurrency 3 --append-result --metadata label=mine duration=9 run=7")
	for range 2 {
		o.ResultFilename = "both.json"
		_, err := Run(t.Context(), o, time.Now, io.Discard, io.Discard)
		require.NoError(t, err)
	}
	raw, err := os.ReadFile("both.json")
	require.NoError(t, err)
	d := json.NewDecoder(bytes.NewReader(raw))
	for range 2 {
		var got map[string]any
		require.NoError(t, d.Decode(&got))
		require.Equal(t, "mine", got["label"], "metadata wins over identity")
		require.NotEqual(t, "9", got["duration"], "and loses against measurements")
		require.Equal(t, "7", got["run"])
	}
	require.ErrorIs(t, d.Decode(new(any)), io.EOF)

	o.ResultFilename, o.AppendResult, o.SaveResult = "", false, true
	r, err := Run(t.Context(), o, time.Now, io.Discard, io.Discard)
	require.NoError(t, err)
	require.FileExists(t, "openai-1000.0qps-concurrency3-b-"+r.Date+".json")
	left, err := filepath.Glob("*")
	require.NoError(t, err)
	require.Len(t, left, 2, "no temporary file stays")
}

func TestRampUpIsRecorded(t *testing.T) {
	s := start(t, loadtest.Options{})
	r, err := Run(t.Context(), against(t, s, "--ramp-up-strategy linear --ramp-up-start-rps 100 --ramp-up-end-rps 103"),
		time.Now, io.Discard, io.Discard)
	require.NoError(t, err)
	raw, err := json.Marshal(r)
	require.NoError(t, err)
	require.Subset(t, keys(t, raw),
		[]string{"ramp_up_strategy", "ramp_up_start_rps", "ramp_up_end_rps", "rps_change_events"})
	require.Len(t, r.changes, 4)
}

// covers: LIB-3
func TestServerThatClosesIdleConnections(t *testing.T) {
	var opened atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, wholeStream)
	}))
	server.Config.IdleTimeout = time.Microsecond
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	o := parse(t, "--model m --num-prompts 30 --random-input-len 4 --max-concurrency 2 --request-rate 400 --base-url "+
		server.URL)
	r, err := Run(t.Context(), o, time.Now, io.Discard, io.Discard)
	require.NoError(t, err)
	require.Equal(t, 30, r.Completed+r.Failed)
	for i := range r.ended {
		// a busy machine sees a close too late to tell it from a lost request
		if o := &r.ended[i]; o.State == answer.Failed {
			require.Regexp(t, "without an answer|receive: ", o.Err)
		}
	}
	require.Greater(t, opened.Load(), int64(10), "the server did close connections")
}

func TestHTTPSAndHeaders(t *testing.T) {
	var seen atomic.Pointer[http.Header]
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		h := r.Header.Clone()
		seen.Store(&h)
		io.WriteString(w, wholeStream)
	}))
	defer server.Close()
	o := parse(t, "--model m --num-prompts 1 --header X-A=b=c --request-id-prefix id- --insecure --base-url "+
		server.URL)
	o.APIKey = "secret"
	r, err := Run(t.Context(), o, time.Now, io.Discard, io.Discard)
	require.NoError(t, err)
	require.Equal(t, "goroutines", r.Client.Engine)
	h := *seen.Load()
	require.Equal(t, "b=c", h.Get("X-A"))
	require.Equal(t, "Bearer secret", h.Get("Authorization"))
	require.Equal(t, "id-0", h.Get("X-Request-Id"))

	raw, err := json.Marshal(r)
	require.NoError(t, err)
	require.NotContains(t, string(raw), "secret")

	o.Insecure = false
	_, err = Run(t.Context(), o, time.Now, io.Discard, io.Discard)
	require.ErrorContains(t, err, "certificate")
}

func TestProxyIsUsed(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if r.URL.Host == "far.invalid" {
			io.WriteString(w, wholeStream)
		}
	}))
	defer proxy.Close()
	o := parse(t, "--model m --num-prompts 2 --base-url http://far.invalid")
	o.Proxy = func(*http.Request) (*url.URL, error) { return url.Parse(proxy.URL) }
	r, err := Run(t.Context(), o, time.Now, io.Discard, io.Discard)
	require.NoError(t, err)
	require.Equal(t, 2, r.Completed)

	o.Proxy = nil
	_, err = Run(t.Context(), o, time.Now, io.Discard, io.Discard)
	require.ErrorContains(t, err, "resolve the server")
}

// covers: LBEN-1
func TestLocalhostWithOneFamily(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0"} {
		s, err := loadtest.Start(loadtest.Options{Addr: addr})
		if err != nil {
			t.Logf("no listener on %s: %v", addr, err)
			continue
		}
		_, port, err := net.SplitHostPort(strings.TrimPrefix(s.URL(), "http://"))
		require.NoError(t, err)
		r, err := Run(t.Context(), parse(t, "--model m --num-prompts 2 --host localhost --port "+port), time.Now,
			io.Discard, io.Discard)
		s.Close()
		if addr[0] == '[' && err != nil { // localhost need not have an IPv6 address
			require.ErrorContains(t, err, "refused")
			continue
		}
		require.NoError(t, err)
		require.Equal(t, 2, r.Completed)
	}
}

func TestLargeRequestsAreSentWhole(t *testing.T) {
	s := start(t, loadtest.Options{Keep: true})
	o := against(t, s, "--num-prompts 6 --random-input-len 1500000 --seed 9") // more than a socket holds
	r, err := Run(t.Context(), o, time.Now, io.Discard, io.Discard)
	require.NoError(t, err)
	require.Equal(t, 6*1_500_000, r.InputTokens)
	for _, b := range s.Bodies() {
		require.True(t, json.Valid(b))
	}
}

// covers: PL-V13
func TestClientTellsHowItFared(t *testing.T) {
	s := start(t, loadtest.Options{ITL: time.Millisecond})
	o := against(t, s, "--request-rate 400")
	o.Version = "v1.2.3"
	r, err := Run(t.Context(), o, time.Now, io.Discard, io.Discard)
	require.NoError(t, err)
	c := r.Client
	require.Equal(t, "v1.2.3", c.Version)
	require.Positive(t, c.SendDelayP99)
	require.Positive(t, c.FirstSend)
	require.Greater(t, c.LastSend, c.FirstSend)
	require.Greater(t, c.LastEnd, c.LastSend)
	require.LessOrEqual(t, c.LastEnd, r.Duration)
	if sender.HaveLoop {
		require.Positive(t, c.CPUSeconds)
		require.Equal(t, "epoll", c.Engine)
	} else {
		require.Positive(t, c.LagP99)
	}
}

func TestFailedWarmUpsAreCounted(t *testing.T) {
	for way := range senders {
		t.Run(way, func(t *testing.T) {
			s := start(t, loadtest.Options{Fault: func(n int) loadtest.Fault {
				if n < 2 {
					return loadtest.Fault{Status: http.StatusInternalServerError}
				}
				return loadtest.Fault{}
			}})
			var log bytes.Buffer
			o := against(t, s, "--num-warmups 3 --max-concurrency 1")
			r, err := driveOn(t.Context(), t, way, o, io.Discard, &log)
			require.NoError(t, err)
			require.Equal(t, 20, r.Completed)
			require.Zero(t, r.Failed)
			require.Equal(t, 2, r.Client.WarmUpsFailed)
			require.Contains(t, log.String(), "2 of 3 warm-up requests failed, the first with: 500 ")
		})
	}
}

func TestProxyThatRefuses(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
	}))
	defer proxy.Close()
	o := parse(t, "--model m --num-prompts 2 --base-url https://far.invalid")
	for via, want := range map[string]string{proxy.URL: "403 Forbidden",
		"socks5://127.0.0.1:1": "only http and https proxies"} {
		o.Proxy = func(*http.Request) (*url.URL, error) { return url.Parse(via) }
		_, err := Run(t.Context(), o, time.Now, io.Discard, io.Discard)
		require.ErrorContains(t, err, want)
	}
}

func TestResentRequestsAreNamed(t *testing.T) {
	o := parse(t, "--model m --num-prompts 4")
	m := &measurement{options: &o, arrivals: make([]time.Duration, 4), rates: make([]float64, 4), started: time.Now()}
	for i := range 4 {
		sent := answered(1, 2, 2, 3)
		sent.Resends = byte(min(i, 1))
		m.outcomes = append(m.outcomes, sent)
	}
	r := newReport(m)
	require.Equal(t, 3, r.Client.Retried)
	require.Equal(t, []int{1, 2, 3}, r.Client.RetriedRequests)
	raw, err := r.MarshalJSON()
	require.NoError(t, err)
	require.Contains(t, string(raw), `"retried":3,"retried_requests":[1,2,3]`)
}
