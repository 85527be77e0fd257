package load

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/load/answer/answertest"
	"github.com/profllm/profllm/pkg/load/dataset"
)

// A recorder answers each request from a list, again and again, and keeps what it was sent.
type recorder struct {
	*httptest.Server
	answers []string // bodies of a 200

	mu   sync.Mutex
	seen []request
}

type request struct {
	method, path string
	header       http.Header
	body         string
}

func record(t *testing.T, answers ...string) *recorder {
	t.Helper()
	s := &recorder{answers: answers}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.HasSuffix(r.URL.Path, "tokenize") {
			http.NotFound(w, r)
			return
		}
		s.mu.Lock()
		n := len(s.seen)
		s.seen = append(s.seen, request{r.Method, r.URL.Path, r.Header.Clone(), string(body)})
		s.mu.Unlock()
		io.WriteString(w, s.answers[n%len(s.answers)])
	}))
	t.Cleanup(s.Close)
	return s
}

// bodies returns the bodies that were sent.
func (s *recorder) bodies() (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.seen {
		list = append(list, r.body)
	}
	return list
}

const wholeResponse = answertest.CreatedEvent + answertest.DeltaEvent + answertest.ReasoningEvent + answertest.TextDoneEvent

func TestBackends(t *testing.T) {
	for _, tt := range []struct {
		backend, path, answer, body string
		output                      int
	}{
		{"openai-responses", "/v1/responses", wholeResponse + answertest.CompletedEvent,
			`{"model":"m","input":"WORDS","max_output_tokens":2,"stream":true,"store":false,"ignore_eos":true,"temperature":0.5}`, 2},
		{"openai-embeddings", "/v1/embeddings", answertest.Embeddings, `{"model":"m","input":IDS,"truncate_prompt_tokens":-1}`, 0},
		{"openai-embeddings-chat", "/v1/embeddings", answertest.Embeddings,
			`{"model":"m","messages":[{"content":"WORDS","role":"user"}],"truncate_prompt_tokens":-1}`, 0},
		{"infinity-embeddings", "/v1/embeddings", answertest.Embeddings, `{"model":"m","input":"WORDS"}`, 0},
		{"vllm-pooling", "/pooling", answertest.Embeddings, `{"model":"m","input":IDS,"truncate_prompt_tokens":-1}`, 0},
	} {
		t.Run(tt.backend, func(t *testing.T) {
			onAll(t, func(t *testing.T, run func(context.Context, Options) (*Report, string, error)) {
				s := record(t, tt.answer)
				o := parse(t,
					"--model m --num-prompts 3 --random-input-len 4 --random-output-len 2 --max-concurrency 2 "+
						"--temperature 0.5 --request-id-prefix id- --base-url "+s.URL+" --backend "+tt.backend)
				r, _, err := run(t.Context(), o)
				require.NoError(t, err, "%s", r.firstError())
				require.Equal(t, 3, r.Completed)
				require.Equal(t, 21, r.InputTokens, "as the server counts them")
				require.Equal(t, 3*tt.output, r.OutputTokens)
				for _, sent := range s.seen {
					require.Equal(t, [2]string{"POST", tt.path}, [2]string{sent.method, sent.path})
					require.Equal(t, "application/json", sent.header.Get("Content-Type"))
					require.Regexp(t, "^id-[012]$", sent.header.Get("X-Request-Id"))
				}
				i := slices.IndexFunc(s.seen, func(r request) bool { return r.header.Get("X-Request-Id") == "id-0" })
				want := o.Random(0)[0]
				ids := string(want.Prompt.AppendJSON(nil))
				require.Equal(t, strings.NewReplacer("WORDS",
					dataset.Words(want.Prompt.(dataset.Tokens).List(want.Input)), "IDS", ids).Replace(tt.body), s.seen[i].body)
			})
		})
	}
}

// A strict server refuses a member that OpenAI's API does not have.
func TestNoIgnoreEOS(t *testing.T) {
	s := record(t, wholeResponse+answertest.CompletedEvent)
	o := parse(t, "--model m --num-prompts 2 --random-input-len 4 --random-output-len 2 --backend openai-responses --no-ignore-eos "+
		"--base-url "+s.URL)
	_, err := Run(t.Context(), o, time.Now, io.Discard, io.Discard)
	require.NoError(t, err)
	require.Len(t, s.seen, 2)
	for _, sent := range s.seen {
		require.NotContains(t, sent.body, "ignore_eos")
	}
	o.IgnoreEOS = true
	require.ErrorContains(t, o.Validate(), "--ignore-eos and --no-ignore-eos exclude each other")
}

func TestPoolingReportsWhatVLLMReports(t *testing.T) {
	s := record(t, answertest.Embeddings, `{"data":[],"usage":{"prompt_tokens":7}}`)
	o := parse(t,
		"--model m --num-prompts 6 --random-input-len 4 --max-concurrency 1 --request-rate 10000 --backend vllm-pooling "+
			"--save-detailed --percentile-metrics ttft,tpot,itl,e2el,client_queue_time --base-url "+s.URL)
	var out bytes.Buffer
	r, err := Run(t.Context(), o, time.Now, &out, io.Discard)
	require.NoError(t, err)
	raw, err := json.Marshal(r)
	require.NoError(t, err)
	require.Equal(t, strings.Fields(`date endpoint_type backend label model_id tokenizer_id num_prompts request_rate burstiness
		max_concurrency duration completed failed total_input_tokens total_input_sequences request_throughput
		input_sequence_throughput total_token_throughput input_lens latencies queue_times errors
		mean_e2el_ms median_e2el_ms std_e2el_ms p99_e2el_ms
		mean_client_queue_time_ms median_client_queue_time_ms std_client_queue_time_ms p99_client_queue_time_ms profllm`), keys(t, raw))
	var got struct {
		Completed, Failed int
		Tokens            int     `json:"total_input_tokens"`
		Sequences         int     `json:"total_input_sequences"`
		Rate              float64 `json:"request_throughput"`
		Inputs            float64 `json:"input_sequence_throughput"`
		All               float64 `json:"total_token_throughput"`
		Latencies         []float64
		Errors            []string
		Mean              float64 `json:"mean_e2el_ms"`
	}
	require.NoError(t, json.Unmarshal(raw, &got))
	require.Equal(t, [4]int{3, 3, 21, 3}, [4]int{got.Completed, got.Failed, got.Tokens, got.Sequences})
	require.Equal(t, got.Rate, got.Inputs)
	require.InEpsilon(t, 7*got.Rate, got.All, 1e-9)
	require.Positive(t, got.Mean)
	for i, e := range got.Errors {
		require.Equal(t, e == "", got.Latencies[i] > 0)
	}
	var labels []string
	for line := range strings.Lines(out.String()[strings.Index(out.String(), "============"):]) {
		label, _, _ := strings.Cut(line, ":")
		labels = append(labels, strings.Trim(label, "=-\n "))
	}
	require.Equal(t, []string{"Serving Benchmark Result", "Successful requests", "Failed requests",
		"Maximum request concurrency",
		"Request rate configured (RPS)", "Benchmark duration (s)", "Total input tokens", "Request throughput (req/s)",
		"Input throughput (inputs/s)", "Total token throughput (tok/s)", "End-to-end Latency", "Mean E2EL (ms)",
		"Median E2EL (ms)", "P99 E2EL (ms)", "Client-side Queueing", "Mean Client Queue Time (ms)",
		"Median Client Queue Time (ms)", "P99 Client Queue Time (ms)", ""}, labels)
}

func TestSeveralTextsInARequest(t *testing.T) {
	texts := dataset.Texts{"q", "a", "b"}
	for name, want := range map[Backend]struct {
		body string
		n    int
	}{
		"vllm-rerank":       {`{"model":"m","query":"q","documents":["a","b"],"truncate_prompt_tokens":-1}`, 2},
		"openai-embeddings": {`{"model":"m","input":["q","a","b"],"truncate_prompt_tokens":-1}`, 3},
		"vllm-pooling":      {`{"model":"m","input":["q","a","b"],"truncate_prompt_tokens":-1}`, 3},
	} {
		o := parse(t, "--dataset-name random-rerank --backend "+string(name))
		require.Equal(t, want.body, string(bodiesOf(&o, "m", []dataset.Request{{Prompt: texts}}).render(nil, 0)))
		require.Equal(t, want.n, o.protocol().prompt.sequences(texts))
		require.Empty(t, o.protocol().prompt.fits(texts))
	}
	batch := dataset.Batch{dataset.IDs{1}, dataset.Text("a")}
	require.Equal(t, 2, anyPrompt.sequences(batch))
	require.Contains(t, textPrompt.fits(batch), "takes text")
	require.Empty(t, textPrompt.fits(batch[1:]))
	require.Contains(t, rankPrompt.fits(dataset.Texts{"q"}), "needs a query and documents")
	require.Contains(t, chatPrompt.fits(texts), "needs one chat a request")
}

func TestAdapters(t *testing.T) {
	models := func(line string) (list []string) {
		s := record(t, wholeStream)
		_, err := Run(t.Context(), parse(t,
			"--model m --num-prompts 6 --random-input-len 4 --max-concurrency 1 --base-url "+
				s.URL+" --lora-modules a b c "+line), time.Now, io.Discard, io.Discard)
		require.NoError(t, err)
		for _, body := range s.bodies() {
			var is struct{ Model string }
			require.NoError(t, json.Unmarshal([]byte(body), &is))
			list = append(list, is.Model)
		}
		return list
	}
	require.Equal(t, []string{"a", "b", "c", "a", "b", "c"}, models("--lora-assignment round-robin"))
	drawn := models("")
	require.Len(t, drawn, 6)
	require.Subset(t, []string{"a", "b", "c"}, drawn)
	require.Equal(t, drawn, models("--lora-assignment random"), "the same seed assigns the same")
	o := parse(t, "--lora-modules a b c --num-prompts 999")
	counts := map[string]int{}
	for _, name := range o.adapters(999) {
		counts[name]++
	}
	for _, name := range []string{"a", "b", "c"} {
		require.InDelta(t, 333, counts[name], 90)
	}
}

func TestChatTemplateArguments(t *testing.T) {
	o := parse(t, `--backend openai-chat --chat-template-kwargs {"enable_thinking":false,"a":[1]}`)
	body := bodiesOf(&o, "m", []dataset.Request{{Prompt: dataset.UserMessage("hi"), Output: 2}}).render(nil, 0)
	var is map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(body, &is))
	require.JSONEq(t, `{"enable_thinking":false,"a":[1]}`, string(is["chat_template_kwargs"]))
}

func TestProbes(t *testing.T) {
	onAll(t, func(t *testing.T, run func(context.Context, Options) (*Report, string, error)) {
		probes, rest := make(chan struct{}, 100), make(chan struct{})
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if !bytes.Contains(body, []byte(`"prompt":"Hi"`)) {
				<-rest // the load waits until probes have come
			} else {
				if r.Header.Get("X-Request-Id") != "" || !bytes.Contains(body, []byte(`"max_tokens":1,`)) {
					t.Errorf("not a probe: %s", body)
				}
				probes <- struct{}{}
			}
			io.WriteString(w, wholeStream)
		}))
		t.Cleanup(s.Close)
		go func() {
			for range 3 {
				<-probes
			}
			close(rest)
		}()
		r, out, err := run(t.Context(), parse(t, "--model m --num-prompts 2 --random-input-len 4 --max-concurrency 1 "+
			"--probe-request-rate 200 --base-url "+s.URL))
		require.NoError(t, err)
		require.Equal(t, 2, r.Completed, "probes are not part of the load, nor of its limit")
		require.GreaterOrEqual(t, r.Probes.Completed, 3)
		require.Contains(t, out, "Probe request rate: 200.0 req/s\n")
		require.Contains(t, out,
			fmt.Sprintf("------------------Probe Requests------------------\n%-40s %-10d\n%-40s %-10d\n",
				"Probe requests completed:", r.Probes.Completed, "Probe requests failed:", 0))
		raw, err := json.Marshal(r)
		require.NoError(t, err)
		var got struct {
			Completed   int     `json:"probe_completed"`
			Failed      *int    `json:"probe_failed"`
			Median, P99 float64 `json:"-"`
			M           float64 `json:"probe_median_e2el_ms"`
			P           float64 `json:"probe_p99_e2el_ms"`
			Max         float64 `json:"probe_max_e2el_ms"`
		}
		require.NoError(t, json.Unmarshal(raw, &got))
		require.Equal(t, r.Probes.Completed, got.Completed)
		require.Zero(t, *got.Failed)
		require.True(t, 0 < got.M && got.M <= got.P && got.P <= got.Max, "%+v", got)
	})
}

func TestProbesThatFail(t *testing.T) {
	probed := make(chan struct{})
	var once sync.Once
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if bytes.Contains(body, []byte(`"prompt":"Hi"`)) {
			http.Error(w, "no", http.StatusTeapot)
			once.Do(func() { close(probed) })
			return
		}
		<-probed
		io.WriteString(w, wholeStream)
	}))
	defer s.Close()
	var out, log bytes.Buffer
	r, err := Run(t.Context(), parse(t,
		"--model m --num-prompts 1 --random-input-len 4 --probe-request-rate 100 --base-url "+
			s.URL), time.Now, &out, &log)
	require.NoError(t, err)
	require.Zero(t, r.Probes.Completed)
	require.Positive(t, r.Probes.Failed)
	require.NotContains(t, out.String(), "Probe Requests")
	require.Contains(t, log.String(), "probes failed, the first with: 418 I'm a teapot: no")
	raw, err := json.Marshal(r)
	require.NoError(t, err)
	require.Contains(t, string(raw), `"probe_completed":0,"probe_failed":`)
	require.NotContains(t, string(raw), "probe_max")
}

func TestRanks(t *testing.T) {
	s := record(t, answertest.Ranks)
	r, err := Run(t.Context(), parse(t,
		"--model m --num-prompts 6 --random-input-len 10 --random-batch-size 3 --backend vllm-rerank "+
			"--dataset-name random-rerank --max-concurrency 1 --base-url "+s.URL), time.Now, io.Discard, io.Discard)
	require.NoError(t, err)
	require.Equal(t, 2, r.Completed)
	require.Equal(t, 6, r.Pooling.InputSequences)
	require.Equal(t, 26, r.InputTokens)
	var body struct {
		Query     string
		Documents []string
		Truncate  int `json:"truncate_prompt_tokens"`
	}
	require.NoError(t, json.Unmarshal([]byte(s.bodies()[1]), &body))
	require.NotEmpty(t, body.Query)
	require.Len(t, body.Documents, 3)
	require.Equal(t, -1, body.Truncate)
	require.Equal(t, "/rerank", s.seen[0].path)
}
