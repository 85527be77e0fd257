package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/load/answer/answertest"
)

// vllmCommand is a command of the real vLLM on a CPU, in a folder of its own.
func vllmCommand(t *testing.T, home string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(filepath.Join(home, "venv/bin/vllm"), args...)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(home, "venv/bin")+":"+os.Getenv("PATH"), "HF_HUB_OFFLINE=1",
		"VLLM_CPU_KVCACHE_SPACE=1", "VLLM_CPU_OMP_THREADS_BIND=nobind", "VLLM_ENABLE_V1_MULTIPROCESSING=0",
		"VLLM_NO_USAGE_STATS=1", "OMP_NUM_THREADS=1")
	cmd.Dir = t.TempDir()
	return cmd
}

// startVLLM starts the real engine with its tiny model, and returns its address.
func startVLLM(t *testing.T, home string, args ...string) string {
	t.Helper()
	port := freePort(t)
	return startServer(t, port, vllmCommand(t, home, append([]string{"serve", filepath.Join(home, "tiny"), "--host", "127.0.0.1",
		"--port", port, "--load-format", "dummy", "--dtype", "float32", "--enforce-eager", "--max-model-len", "2048",
		"--distributed-executor-backend", "uni"}, args...)...))
}

// A wire is what a client sends, as far as a server can tell.
type wire struct {
	Method, Path string
	Header       map[string]string
	Body         map[string]any // members; of a prompt only the first byte of its JSON
}

// A wiretap answers as a server of every protocol would, and keeps what it was sent.
type wiretap struct {
	*httptest.Server
	mu   sync.Mutex
	seen []wire
}

func startWiretap(t *testing.T) *wiretap {
	t.Helper()
	tap := &wiretap{}
	const chat = `data: {"choices":[{"index":0,"delta":{"content":"a"},"text":"a","finish_reason":"length"}]}` + "\n\n" +
		answertest.UsageEvent + answertest.DoneEvent
	answers := map[string]string{
		"completions": chat, "responses": answertest.DeltaEvent + answertest.CompletedEvent,
		"embeddings": answertest.Embeddings, "pooling": answertest.Embeddings, "rerank": answertest.Ranks,
	}
	tap.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		text, ok := answers[filepath.Base(r.URL.Path)]
		if !ok {
			http.NotFound(w, r) // /metrics, /tokenize
			return
		}
		kind := "text/event-stream"
		if text[0] == '{' {
			kind = "application/json"
		}
		w.Header().Set("Content-Type", kind)
		one := wire{r.Method, r.URL.Path, map[string]string{}, map[string]any{}}
		for name := range r.Header {
			one.Header[name] = r.Header.Get(name)
		}
		var body map[string]json.RawMessage
		if err := json.Unmarshal(raw, &body); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
		for key, value := range body {
			var v any
			if err := json.Unmarshal(value, &v); err != nil {
				t.Errorf("%s: %v", value, err)
			}
			if one.Body[key] = v; slices.Contains([]string{"prompt", "input", "messages", "query", "documents"}, key) {
				one.Body[key] = string(value[:1])
			}
		}
		tap.mu.Lock()
		defer tap.mu.Unlock()
		tap.seen = append(tap.seen, one)
		io.WriteString(w, text)
	}))
	t.Cleanup(tap.Close)
	return tap
}

// take returns what was sent since the last call, in the order of request ids.
func (tap *wiretap) take() []wire {
	tap.mu.Lock()
	defer tap.mu.Unlock()
	list := tap.seen
	tap.seen = nil
	slices.SortFunc(list, func(a, b wire) int { return strings.Compare(a.Header["X-Request-Id"], b.Header["X-Request-Id"]) })
	return list
}

// For the same flags, the requests of both clients are the same: method, path, headers, members of
// the body. Differences on purpose: headers of the HTTP library; a random prompt is sent as ids
// where the server takes them, which vLLM's client turns into text; a null logprobs is left out.
//
// covers: LBEN-1, LIB-4
func TestVLLMRequests(t *testing.T) {
	home := vllmHome(t)
	dir := t.TempDir()
	loads := []struct{ backend, path, flags string }{
		{"openai", "/v1/completions", "--temperature 0 --top-k 5 --logprobs 2"},
		{"vllm", "/v1/completions", "--lora-modules a b --lora-assignment round-robin"},
		{"openai-chat", "/v1/chat/completions", `--temperature 0.5 --extra-body {"top_p":0.25,"kv":{"a":[1]}}`},
		{"openai-responses", "/v1/responses", "--temperature 0 --min-p 0.1"},
		{"openai-embeddings", "/v1/embeddings", "--temperature 0"},
		{"openai-embeddings-chat", "/v1/embeddings", `--extra-body {"dimensions":64}`},
		{"infinity-embeddings", "/v1/embeddings", ""},
		{"vllm-pooling", "/pooling", ""},
	}
	var lines [][]string
	var taps []*wiretap
	var all bytes.Buffer
	for _, l := range loads {
		tap := startWiretap(t)
		line := append(strings.Fields("--num-prompts 3 --random-input-len 8 --random-output-len 2 --request-id-prefix id- "+
			"--header X-A=b=c --max-concurrency 2 --disable-tqdm --save-result --endpoint "+l.path+" --backend "+l.backend+" "+l.flags),
			"--base-url", tap.URL, "--model", filepath.Join(home, "tiny"), "--result-filename", l.backend+".json", "--result-dir")
		lines, taps = append(lines, line), append(taps, tap)
		require.NoError(t, json.NewEncoder(&all).Encode(append(slices.Clone(line), filepath.Join(dir, "theirs"))))
	}
	script, err := filepath.Abs("../../.ci/vllm/bench-serve")
	require.NoError(t, err)
	cmd := vllmCommand(t, home, script)
	cmd.Path = filepath.Join(home, "venv/bin/python")
	cmd.Stdin = &all
	cmd.Env = append(cmd.Env, "OPENAI_API_KEY=secret")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for k, l := range loads {
		t.Run(l.backend, func(t *testing.T) {
			theirs := taps[k].take()
			o := profllm(t, dir, []string{"OPENAI_API_KEY=secret"}, append([]string{"bench", "serve"}, append(lines[k], "ours")...)...)
			require.Equal(t, exitOK, o.code)
			ours := taps[k].take()
			require.Len(t, ours, 3)
			require.Len(t, theirs, 3)
			for i := range ours {
				require.Equal(t, theirs[i].plain(), ours[i].plain())
			}
			requireKeysOfVLLM(t, filepath.Join(dir, "theirs", l.backend+".json"), filepath.Join(dir, "ours", l.backend+".json"))
		})
	}
}

// plain leaves out what differs on purpose.
func (w wire) plain() wire {
	for _, name := range []string{"Accept", "Accept-Encoding", "Content-Length", "User-Agent", "Connection"} {
		delete(w.Header, name)
	}
	if w.Body["logprobs"] == nil {
		delete(w.Body, "logprobs")
	}
	for _, key := range []string{"prompt", "input"} {
		if w.Body[key] == "[" {
			w.Body[key] = `"`
		}
	}
	return w
}

// requireKeysOfVLLM holds the keys of our result file against vLLM's, in their order.
func requireKeysOfVLLM(t *testing.T, theirs, ours string) {
	t.Helper()
	keys := func(name string) (list []string) {
		raw, err := os.ReadFile(name)
		require.NoError(t, err)
		d := json.NewDecoder(strings.NewReader(string(raw)))
		_, err = d.Token()
		require.NoError(t, err)
		for d.More() {
			key, err := d.Token()
			require.NoError(t, err)
			list = append(list, key.(string))
			var skipped json.RawMessage
			require.NoError(t, d.Decode(&skipped))
		}
		return list
	}
	got := slices.DeleteFunc(keys(ours), func(key string) bool { return key == "profllm" })
	want := keys(theirs)
	if slices.Contains(want, "total_input_sequences") { // vLLM's client does not say how many failed
		want = slices.Insert(want, slices.Index(want, "completed")+1, "failed")
	}
	require.Equal(t, want, got)
}

// Our client measures the real engine over every protocol that it has.
func TestVLLMProtocols(t *testing.T) {
	home := vllmHome(t)
	measure := func(t *testing.T, address, flags string) map[string]any {
		dir := t.TempDir()
		o := profllm(t, dir, nil, strings.Fields("bench serve --num-prompts 6 --random-input-len 12 --random-output-len 4 --max-concurrency 2 "+
			"--temperature 0 --save-result --result-filename r.json --base-url http://"+address+" "+flags)...)
		require.Equal(t, exitOK, o.code)
		raw, err := os.ReadFile(filepath.Join(dir, "r.json"))
		require.NoError(t, err)
		var r map[string]any
		require.NoError(t, json.Unmarshal(raw, &r))
		require.EqualValues(t, 0, r["failed"])
		require.EqualValues(t, 6, r["completed"])
		require.EqualValues(t, 0, r["profllm"].(map[string]any)["usage_missing"])
		return r
	}
	t.Run("generation", func(t *testing.T) {
		address := startVLLM(t, home)
		for _, flags := range []string{"", "--backend openai-chat", "--backend openai-responses --probe-request-rate 20",
			"--backend openai-chat --conversation-turn-mean 3"} {
			r := measure(t, address, flags)
			require.EqualValues(t, 6*4, r["total_output_tokens"], flags)
			require.GreaterOrEqual(t, r["total_input_tokens"], 6*12.0, flags)
			require.Positive(t, r["mean_ttft_ms"], flags)
			if strings.Contains(flags, "probe") {
				require.Positive(t, r["probe_completed"])
			}
			if strings.Contains(flags, "turn") {
				turns := r["profllm"].(map[string]any)["conversations"].(map[string]any)["turns"].([]any)
				before := 0.0
				for _, one := range turns {
					tokens := one.(map[string]any)["mean_input_tokens"].(float64)
					require.Greater(t, tokens, before+12, "the history grows by a turn and its answer")
					before = tokens
				}
			}
		}
	})
	t.Run("pooling", func(t *testing.T) {
		address := startVLLM(t, home, "--runner", "pooling", "--convert", "embed")
		for _, backend := range []string{"openai-embeddings", "openai-embeddings-chat", "vllm-pooling"} {
			r := measure(t, address, "--backend "+backend)
			require.GreaterOrEqual(t, r["total_input_tokens"], 6*12.0, backend)
			require.EqualValues(t, 6, r["total_input_sequences"], backend)
			require.Positive(t, r["mean_e2el_ms"], backend)
		}
	})
}
