package sim

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// ask posts a body and decodes the answer.
func ask[T any](t testing.TB, url, body string) (v T) {
	t.Helper()
	code, text, err := post(t.Context(), url, body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, code, text)
	require.NoError(t, json.Unmarshal([]byte(text), &v), text)
	return v
}

// refused posts a body and returns the words of its refusal.
func refused(t testing.TB, url, body string) string {
	t.Helper()
	code, text, err := post(t.Context(), url, body)
	require.NoError(t, err)
	require.GreaterOrEqual(t, code, 400)
	return text
}

// counter reads a counter of /metrics that has one series, -1 if there is none.
func counter(t testing.TB, url, name string) float64 { return counterOf(t, url, name, "", "") }

// counterOf reads the series with a label.
func counterOf(t testing.TB, url, name, label, value string) float64 {
	t.Helper()
	a, err := http.Get(url + "/metrics")
	require.NoError(t, err)
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	require.NoError(t, err)
	for _, m := range regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(name)+`(\{[^}]*\})? (\S+)$`).FindAllStringSubmatch(string(text), -1) {
		if label == "" || strings.Contains(m[1], label+`="`+value+`"`) {
			n, err := strconv.ParseFloat(m[2], 64)
			require.NoError(t, err)
			return n
		}
	}
	return -1
}

// A pooling server embeds and scores, always the same, and generates no text.
//
// covers: VLM-3
func TestPooling(t *testing.T) {
	_, url := serveCommand(t, map[string]string{"PROFLLM_SIM_TTFT": "1ms"}, "--runner", "pooling")
	type embeddings struct {
		Model string
		Data  []struct {
			Index     int
			Embedding []float64
		}
		Usage struct {
			Prompt int `json:"prompt_tokens"`
			Total  int `json:"total_tokens"`
		}
	}
	two := ask[embeddings](t, url+"/v1/embeddings", `{"model":"tiny","input":["one","two"],"dimensions":8}`)
	require.Equal(t, "tiny", two.Model)
	require.Len(t, two.Data, 2)
	require.Len(t, two.Data[1].Embedding, 8)
	require.NotEqual(t, two.Data[0].Embedding, two.Data[1].Embedding)
	require.Equal(t, two.Usage.Prompt, two.Usage.Total)
	require.Positive(t, two.Usage.Prompt)
	again := ask[embeddings](t, url+"/v1/embeddings", `{"input":"two","dimensions":8}`)
	require.Equal(t, two.Data[1].Embedding, again.Data[0].Embedding)
	require.Equal(t, 3.0, counterOf(t, url, "vllm:request_success_total", "finished_reason", "stop"), "each input is one")
	require.Zero(t, counter(t, url, "vllm:generation_tokens_total"))

	text := ask[struct{ Data []struct{ Embedding string } }](t, url+"/v1/embeddings", `{"input":"two","encoding_format":"base64"}`)
	require.Regexp(t, `^[A-Za-z0-9+/]+=*$`, text.Data[0].Embedding)
	pool := ask[struct{ Data []struct{ Data []float64 } }](t, url+"/pooling", `{"input":"two"}`)
	require.Len(t, pool.Data[0].Data, 16)

	type scores struct{ Data []struct{ Score float64 } }
	score := ask[scores](t, url+"/score", `{"text_1":"q","text_2":["a","b"]}`)
	require.Len(t, score.Data, 2)
	require.Equal(t, score, ask[scores](t, url+"/v1/score", `{"queries":["q","q"],"documents":["a","b"]}`))
	rank := ask[struct {
		Results []struct {
			Index    int
			Document struct{ Text string }
			Score    float64 `json:"relevance_score"`
		}
	}](t, url+"/v1/rerank", `{"query":"q","documents":["a","b"],"top_n":1}`)
	require.Len(t, rank.Results, 1)
	best := rank.Results[0]
	require.Equal(t, max(score.Data[0].Score, score.Data[1].Score), best.Score)
	require.Equal(t, []string{"a", "b"}[best.Index], best.Document.Text)

	require.Contains(t, refused(t, url+"/score", `{"text_1":["q","r"],"text_2":["a"]}`), "1:1, 1:N or N:N")
	require.Contains(t, refused(t, url+"/v1/embeddings", `{"model":"other","input":"x"}`), "does not exist")
	require.Contains(t, refused(t, url+"/v1/embeddings", `{"model":"tiny"}`), "body.input")
	require.Contains(t, refused(t, url+"/v1/completions", hello), "Not Found")
}

// An adapter is a model of its own in requests, answers and the list.
func TestAdapters(t *testing.T) {
	_, url := serveCommand(t, map[string]string{"PROFLLM_SIM_TTFT": "1ms", "PROFLLM_SIM_ITL": "1ms"}, "--enable-lora", "--lora-modules",
		"first=/lora/1", `{"name":"second","path":"/lora/2"}`)
	a, err := http.Get(url + "/v1/models")
	require.NoError(t, err)
	defer a.Body.Close()
	var list struct {
		Data []struct{ ID, Root, Parent string }
	}
	require.NoError(t, json.NewDecoder(a.Body).Decode(&list))
	require.Equal(t, []struct{ ID, Root, Parent string }{{"tiny", "/models/tiny", ""}, {"first", "/lora/1", "tiny"},
		{"second", "/lora/2", "tiny"}}, list.Data)
	type answer struct{ Model string }
	require.Equal(t, "second", ask[answer](t, url+"/v1/completions", `{"model":"second","prompt":"x","max_tokens":2}`).Model)
	require.Equal(t, "tiny", ask[answer](t, url+"/v1/completions", `{"model":"tiny","prompt":"x","max_tokens":2}`).Model)
	require.Contains(t, refused(t, url+"/v1/completions", `{"model":"third","prompt":"x"}`), "does not exist")
	require.Positive(t, counter(t, url, "vllm:lora_requests_info"))
	code, _, stderr := run(t, nil, "vllm", "serve", "m", "--lora-modules", "a=/b")
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "--lora-modules needs --enable-lora")
}

// Drafts are counted, and an accepted one comes in the chunk of its step.
func TestSpeculation(t *testing.T) {
	_, url := serveCommand(t, map[string]string{"PROFLLM_SIM_TTFT": "1ms", "PROFLLM_SIM_ITL": "1ms"},
		"--speculative-config", `{"method":"ngram","num_speculative_tokens":3}`)
	ask[struct{}](t, url+"/v1/completions", `{"prompt":"Hello","max_tokens":200,"ignore_eos":true}`)
	drafts := counter(t, url, "vllm:spec_decode_num_drafts_total")
	accepted := counter(t, url, "vllm:spec_decode_num_accepted_tokens_total")
	require.Equal(t, 3*drafts, counter(t, url, "vllm:spec_decode_num_draft_tokens_total"))
	require.Equal(t, 199.0, drafts+accepted, "each step gives one token and those accepted; the first is the prompt's")
	require.Positive(t, accepted)
	for _, flags := range []string{`{}`, `{"method":"ngram"}`, `[`} {
		code, _, stderr := run(t, nil, "vllm", "serve", "m", "--speculative-config", flags)
		require.Equal(t, 2, code, flags)
		require.Contains(t, stderr, "--speculative-config", flags)
	}
}

// What the prefix cache has lost comes back from the store; no side channel is opened.
func TestStores(t *testing.T) {
	fast := map[string]string{"PROFLLM_SIM_TTFT": "1ms", "PROFLLM_SIM_ITL": "1ms", "VLLM_SERVER_DEV_MODE": "1",
		"VLLM_NIXL_SIDE_CHANNEL_PORT": "1"}
	prompt := `{"max_tokens":2,"prompt":[` + strings.Repeat("7,", 511) + `7]}`
	for _, c := range []struct {
		flags  []string
		source string
	}{
		{[]string{"--kv-offloading-size", "4"}, "host"},
		{[]string{"--kv-transfer-config", `{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}`}, "external_unspecified"},
	} {
		_, url := serveCommand(t, fast, c.flags...)
		ask[struct{}](t, url+"/v1/completions", prompt)
		code, _, err := post(t.Context(), url+"/reset_prefix_cache", "")
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, code)
		require.Zero(t, counter(t, url, "vllm:external_prefix_cache_hits_total"))
		ask[struct{}](t, url+"/v1/completions", prompt)
		require.Equal(t, 384.0, counter(t, url, "vllm:external_prefix_cache_hits_total"), "full blocks of 128")
		require.Equal(t, 384.0, counterOf(t, url, "vllm:prompt_tokens_cached_by_source_total", "source", c.source))
		require.Equal(t, -1.0, counter(t, url, "vllm:nixl_num_failed_transfers_total"))
	}
	_, url := serveCommand(t, map[string]string{"PROFLLM_SIM_TTFT": "1h", "PROFLLM_SIM_ITL": "1ms", "VLLM_NIXL_SIDE_CHANNEL_PORT": "1"},
		"--kv-transfer-config", `{"kv_connector":"DecodeBenchConnector","kv_role":"kv_both"}`)
	ask[struct{}](t, url+"/v1/completions", prompt)
	require.Equal(t, 511.0, counter(t, url, "vllm:external_prefix_cache_hits_total"), "nothing is prefilled")
}

// A rehearsal finds a configuration or a store of LMCache that is not there.
func TestLMCacheIsLookedFor(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	good := filepath.Join(t.TempDir(), "good.yaml")
	require.NoError(t, os.WriteFile(good, []byte("chunk_size: 256\nremote_url: \"lm://"+l.Addr().String()+"\"\n"), 0o644))
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	require.NoError(t, os.WriteFile(bad, []byte("remote_url: lm://"+freeAddress(t)+"\n"), 0o644))
	inside := []string{"--kv-transfer-config", `{"kv_connector":"MultiConnector","kv_role":"kv_both","kv_connector_extra_config":{"connectors":[{"kv_connector":"LMCacheConnectorV1"}]}}`}
	for _, c := range []struct {
		flags []string
		env   map[string]string
		want  string // "" for a server that starts
	}{
		{inside, nil, ""},
		{inside, map[string]string{"LMCACHE_CONFIG_FILE": good}, ""},
		{inside, map[string]string{"LMCACHE_CONFIG_FILE": bad}, "remote_url: nothing answers at lm://"},
		{inside, map[string]string{"LMCACHE_CONFIG_FILE": bad + ".not"}, "LMCACHE_CONFIG_FILE: open "},
		{inside, map[string]string{"LMCACHE_REMOTE_URL": "lm://" + l.Addr().String()}, ""},
		{inside, map[string]string{"LMCACHE_REMOTE_URL": "lm://here"}, `remote_url "lm://here": want a host with a port`},
		{[]string{"--kv-offloading-size", "4", "--kv-offloading-backend", "lmcache"}, nil, "lmcache.mp.host and lmcache.mp.port: nothing answers at tcp://localhost:5555"},
	} {
		if c.want == "" {
			serveCommand(t, c.env, c.flags...)
			continue
		}
		code, stdout, stderr := run(t, c.env, append([]string{"vllm", "serve", "m", "--port", "0"}, c.flags...)...)
		require.NotZero(t, code)
		require.Contains(t, stdout+stderr, "LMCache: "+c.want)
	}
}

// Another image is another prompt, and constraints are checked as a real server does.
func TestImagesAndConstraints(t *testing.T) {
	_, url := serveCommand(t, map[string]string{"PROFLLM_SIM_TTFT": "1ms", "PROFLLM_SIM_ITL": "1ms"})
	type answer struct {
		Choices []struct{ Message struct{ Content string } }
	}
	chat := func(image string) string {
		return ask[answer](t, url+"/v1/chat/completions", `{"max_tokens":8,"messages":[{"role":"user","content":[{"type":"text","text":"What is it?"},`+
			`{"type":"image_url","image_url":{"url":"data:image/jpeg;base64,`+image+`"}}]}]}`).Choices[0].Message.Content
	}
	require.Equal(t, chat("AAAA"), chat("AAAA"))
	require.NotEqual(t, chat("AAAA"), chat("BBBB"))

	constrained := func(more string) string { return `{"prompt":"x","max_tokens":2,` + more + `}` }
	for _, ok := range []string{`"structured_outputs":{"json":{"type":"object"}}`, `"structured_outputs":null`,
		`"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{}}}`} {
		ask[struct{}](t, url+"/v1/completions", constrained(ok))
	}
	for bad, want := range map[string]string{
		`"structured_outputs":{}`:                           "none are specified",
		`"structured_outputs":{"regex":"a","choice":["a"]}`: "multiple are specified: regex, choice",
		`"structured_outputs":"json"`:                       "structured_outputs",
		`"response_format":{"type":"yaml"}`:                 "response_format.type must be one of",
	} {
		require.Contains(t, refused(t, url+"/v1/completions", constrained(bad)), want)
	}
}

// The simulated client asks a pooling server as vLLM's does, and writes what vLLM's writes.
func TestPoolingClient(t *testing.T) {
	_, url := serveCommand(t, map[string]string{"PROFLLM_SIM_TTFT": "1ms"}, "--runner", "pooling")
	dir := t.TempDir()
	bench := func(flags ...string) (int, string) {
		code, stdout, stderr := run(t, nil, append([]string{"vllm", "bench", "serve", "--model", "tiny", "--base-url", url, "--random-input-len", "32",
			"--num-prompts", "40", "--max-concurrency", "4", "--metric-percentiles", "50,99", "--save-result", "--result-dir", dir,
			"--result-filename", "r.json"}, flags...)...)
		return code, stdout + stderr
	}
	for _, c := range []struct {
		flags            []string
		requests, inputs int
	}{
		{[]string{"--backend", "openai-embeddings", "--endpoint", "/v1/embeddings"}, 40, 40},
		{[]string{"--backend", "vllm-pooling", "--endpoint", "/pooling", "--random-batch-size", "8"}, 5, 40},
		{[]string{"--backend", "vllm-rerank", "--endpoint", "/v1/rerank", "--dataset-name", "random-rerank", "--random-batch-size", "14", "--no-reranker"}, 3, 39},
	} {
		code, out := bench(c.flags...)
		require.Zero(t, code, out)
		require.Contains(t, out, "no number below is a measurement")
		data, err := os.ReadFile(filepath.Join(dir, "r.json"))
		require.NoError(t, err)
		var r struct {
			Completed int
			Sequences int     `json:"total_input_sequences"`
			Prompts   int     `json:"num_prompts"`
			Tokens    int     `json:"total_input_tokens"`
			P99       float64 `json:"p99_e2el_ms"`
			Median    float64 `json:"median_e2el_ms"`
			Simulated string
		}
		require.NoError(t, json.Unmarshal(data, &r))
		require.Equal(t, []int{c.requests, c.inputs, 40}, []int{r.Completed, r.Sequences, r.Prompts})
		require.Positive(t, r.Tokens)
		require.Positive(t, r.Median)
		require.GreaterOrEqual(t, r.P99, r.Median)
		require.Equal(t, "true", r.Simulated)
	}
	code, out := bench("--backend", "openai-embeddings")
	require.Equal(t, 2, code)
	require.Contains(t, out, "the endpoint /v1/completions must end with embeddings")
	code, out = bench("--backend", "openai-embeddings", "--endpoint", "/v2/embeddings")
	require.Zero(t, code, "as vLLM's client ends")
	require.Contains(t, out, "a request failed: 404 Not Found")
}
