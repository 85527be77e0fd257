package apicheck

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/sim/engine"
	"github.com/profllm/profllm/pkg/sim/knobs"
)

// patience is the time of a check in tests whose servers answer.
const patience = time.Minute

// simulated is the interface of vLLM over the simulated engine.
func simulated() http.Handler {
	c := engine.Config{Model: "/models/tiny", Names: []string{"tiny"}, MaxLen: engine.DefaultMaxLen,
		MaxSeqs: engine.DefaultMaxSeqs, BlockSize: engine.DefaultBlockSize, TP: 1, PP: 1}
	return engine.NewServer(c, knobs.Settings{Accuracy: 1, Planted: knobs.Planted{Bundle: 1, Miscount: 1}},
		time.Now()).Handler()
}

// serve runs a server and asks all checks of it.
func serve(t *testing.T, h http.Handler) map[string]Outcome {
	t.Helper()
	web := httptest.NewServer(h)
	t.Cleanup(web.Close)
	s, err := Open(t.Context(), Options{Address: web.URL, Timeout: patience})
	require.NoError(t, err)
	outcomes, err := s.Run(t.Context(), Checks())
	require.NoError(t, err)
	byName := map[string]Outcome{}
	for _, o := range outcomes {
		byName[o.Check.Name] = o
	}
	require.Len(t, byName, 10)
	return byName
}

// covers: TST-1, TST-5
func TestSimulatedEnginePassesAll(t *testing.T) {
	for name, o := range serve(t, simulated()) {
		require.True(t, o.Passed, "%s: %s", name, o.Came)
		require.NotEmpty(t, o.Came)
		t.Logf("%d %s: %s", o.Check.Number, name, o.Came)
	}
}

// A spoiler changes the answer to one request.
type spoiler func(q map[string]any, path, body string) string

// spoiled is the simulated engine behind something that changes answers.
func spoiled(spoil spoiler) http.Handler {
	healthy := simulated()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(raw)))
		var q map[string]any
		json.Unmarshal(raw, &q)
		rec := httptest.NewRecorder()
		healthy.ServeHTTP(rec, r)
		w.Header().Set("Content-Type", rec.Header().Get("Content-Type"))
		w.WriteHeader(rec.Code)
		io.WriteString(w, spoil(q, r.URL.Path, rec.Body.String()))
	})
}

// A when says which requests are spoiled.
type when func(q map[string]any, path string) bool

func completion(q map[string]any, path string) bool {
	return path == completionsPath && q["prompt"] == "Hello" && q["max_tokens"] == 10.
}
func batch(q map[string]any, _ string) bool {
	list, ok := q["prompt"].([]any)
	return ok && len(list) == 2
}
func talking(q map[string]any, path string) bool {
	return path == chatPath && q["top_p"] == nil && q["stream"] == nil
}
func sampling(q map[string]any, _ string) bool  { return q["top_p"] != nil }
func streaming(q map[string]any, _ string) bool { return q["stream"] == true }
func probing(q map[string]any, _ string) bool   { return q["logprobs"] != nil }
func stopping(q map[string]any, _ string) bool  { return q["stop"] != nil }
func echoing(q map[string]any, _ string) bool   { return q["echo"] == true }
func multiple(q map[string]any, _ string) bool  { return q["n"] != nil }

// edit changes the JSON of an answer.
func edit(at when, change func(a map[string]any)) spoiler {
	return func(q map[string]any, path, body string) string {
		if !at(q, path) {
			return body
		}
		var a map[string]any
		if err := json.Unmarshal([]byte(body), &a); err != nil {
			panic(err)
		}
		change(a)
		text, _ := json.Marshal(a)
		return string(text)
	}
}

// choose changes the choice i of an answer.
func choose(at when, i int, change func(c map[string]any)) spoiler {
	return edit(at, func(a map[string]any) { change(a["choices"].([]any)[i].(map[string]any)) })
}

// set sets a key of a choice.
func set(at when, i int, key string, value any) spoiler {
	return choose(at, i, func(c map[string]any) { c[key] = value })
}

// replace changes the text of an answer.
func replace(at when, old, with string) spoiler {
	return func(q map[string]any, path, body string) string {
		if !at(q, path) {
			return body
		}
		if !strings.Contains(body, old) {
			panic("there is no " + old)
		}
		return strings.ReplaceAll(body, old, with)
	}
}

// whole replaces an answer.
func whole(at when, with string) spoiler {
	return func(q map[string]any, path, body string) string {
		if at(q, path) {
			return with
		}
		return body
	}
}

// Each fault of a server fails the check it is about, with words that name it, and no other.
//
// covers: TST-1, TST-5
func TestEachFaultFailsItsCheck(t *testing.T) {
	t.Parallel()
	logprobs := func(change func(l map[string]any)) spoiler {
		return choose(probing, 0, func(c map[string]any) { change(c["logprobs"].(map[string]any)) })
	}
	usage := func(at when, key string, value any) spoiler {
		return edit(at, func(a map[string]any) { a["usage"].(map[string]any)[key] = value })
	}
	for name, tt := range map[string]struct {
		check string
		spoil spoiler
		came  string
	}{
		"no choices":              {"completion", edit(completion, func(a map[string]any) { delete(a, "choices") }), "without choices"},
		"choices of text":         {"completion", edit(completion, func(a map[string]any) { a["choices"] = "a" }), "choices is a JSON string"},
		"an empty text":           {"completion", set(completion, 0, "text", ""), "an empty text"},
		"no text":                 {"completion", choose(completion, 0, func(c map[string]any) { delete(c, "text") }), "choice 0 has no text"},
		"an abort":                {"completion", set(completion, 0, "finish_reason", "abort"), `finish_reason "abort"`},
		"no finish_reason":        {"completion", set(completion, 0, "finish_reason", nil), "without a finish_reason"},
		"a wrong total":           {"completion", usage(completion, "total_tokens", 3), "does not add up"},
		"a negative count":        {"completion", usage(completion, "completion_tokens", -3), "-3 completion tokens"},
		"a count as text":         {"completion", usage(completion, "completion_tokens", "3"), "usage.completion_tokens is a JSON string"},
		"no count":                {"completion", usage(completion, "completion_tokens", nil), "usage without"},
		"an error with 200":       {"completion", whole(completion, `{"error":{"message":"engine is dead"}}`), "engine is dead"},
		"an HTML page with 200":   {"completion", whole(completion, "<html>hello</html>"), "HTML page"},
		"half an answer":          {"completion", whole(completion, `{"choices":[`), "not JSON"},
		"a list":                  {"completion", whole(completion, `[1]`), "no JSON object"},
		"nothing":                 {"completion", whole(completion, ``), "an empty answer"},
		"one of two prompts":      {"batch", edit(batch, func(a map[string]any) { a["choices"] = a["choices"].([]any)[:1] }), "1 choice instead of 2"},
		"one index twice":         {"batch", set(batch, 1, "index", 0), "two choices with the index 0"},
		"an index beyond":         {"batch", set(batch, 1, "index", 2), "index 2"},
		"an index below":          {"batch", set(batch, 1, "index", -1), "index -1"},
		"no index":                {"batch", set(batch, 1, "index", nil), "without an index"},
		"a mute choice":           {"batch", set(batch, 1, "text", ""), "choice 1 has an empty text"},
		"the user's role":         {"chat", choose(talking, 0, func(c map[string]any) { c["message"].(map[string]any)["role"] = "user" }), `role "user"`},
		"no content":              {"chat", choose(talking, 0, func(c map[string]any) { c["message"].(map[string]any)["content"] = nil }), "an empty content"},
		"no message":              {"chat", choose(talking, 0, func(c map[string]any) { delete(c, "message") }), "without a message"},
		"a chat of no choice":     {"chat", edit(talking, func(a map[string]any) { a["choices"] = []any{} }), "0 choices instead of 1"},
		"no content, sampled":     {"sampling", choose(sampling, 0, func(c map[string]any) { c["message"].(map[string]any)["content"] = "" }), "an empty content"},
		"a sum, sampled":          {"sampling", usage(sampling, "total_tokens", 1), "does not add up"},
		"no [DONE]":               {"streaming", replace(streaming, "data: [DONE]\n\n", ""), "without [DONE]"},
		"no events":               {"streaming", whole(streaming, "data: [DONE]\n\n"), "no token event"},
		"an event of text":        {"streaming", replace(streaming, "data: [DONE]", "data: hello\n\ndata: [DONE]"), "not a JSON object"},
		"an event after the end":  {"streaming", replace(streaming, "data: [DONE]\n\n", "data: [DONE]\n\ndata: {\"choices\":[]}\n\n"), "an event after [DONE]"},
		"an error in the stream":  {"streaming", replace(streaming, "data: [DONE]", "data: {\"error\":{\"message\":\"engine is dead\"}}\n\ndata: [DONE]"), "engine is dead"},
		"a stream without tokens": {"streaming", whole(streaming, "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\ndata: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"), "no token event"},
		"no stream":               {"streaming", whole(streaming, `{"choices":[{"message":{"content":"a"}}]}`), "not part of a streamed answer"},
		"no finish in the stream": {"streaming", replace(streaming, `"finish_reason":"length"`, `"finish_reason":null`), "without a finish_reason"},
		"no logprobs":             {"logprobs", set(probing, 0, "logprobs", nil), "without logprobs"},
		"no tokens":               {"logprobs", logprobs(func(l map[string]any) { l["tokens"] = []any{} }), "without tokens"},
		"fewer values":            {"logprobs", logprobs(func(l map[string]any) { l["token_logprobs"] = l["token_logprobs"].([]any)[1:] }), "5 tokens, 4 token_logprobs"},
		"no alternatives":         {"logprobs", logprobs(func(l map[string]any) { l["top_logprobs"] = nil }), "0 top_logprobs"},
		"a positive value":        {"logprobs", logprobs(func(l map[string]any) { l["token_logprobs"].([]any)[2] = 0.7 }), "token 2 with the log probability 0.7"},
		"a value that is null":    {"logprobs", logprobs(func(l map[string]any) { l["token_logprobs"].([]any)[2] = nil }), "token 2 without"},
		"an empty alternative":    {"logprobs", logprobs(func(l map[string]any) { l["top_logprobs"].([]any)[1] = map[string]any{} }), "token 1 with 0 top_logprobs"},
		"fewer than counted":      {"logprobs", edit(probing, func(a map[string]any) { a["usage"] = map[string]any{"prompt_tokens": 1, "completion_tokens": 6} }), "the usage counts 6"},
		"stop is ignored":         {"stop", ignoresStop(), "has the stop string"},
		"a stop without reason":   {"stop", set(stopping, 0, "finish_reason", "length"), `finish_reason is "length"`},
		"the text ends early":     {"stop", set(stopping, 0, "text", ""), "ends before the stop string"},
		"no echo":                 {"echo", choose(echoing, 0, func(c map[string]any) { c["text"] = strings.TrimPrefix(c["text"].(string), "Hello") }), `does not begin with "Hello"`},
		"only an echo":            {"echo", set(echoing, 0, "text", "Hello"), "nothing after it"},
		"n is ignored":            {"multiple", edit(multiple, func(a map[string]any) { a["choices"] = a["choices"].([]any)[:1] }), "1 choice instead of 2"},
		"three choices": {"multiple", edit(multiple, func(a map[string]any) {
			list := a["choices"].([]any)
			a["choices"] = append(list, list[0])
		}), "3 choices instead of 2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for other, o := range serve(t, spoiled(tt.spoil)) {
				require.Equal(t, other != tt.check, o.Passed, "%s: %s", other, o.Came)
				if other == tt.check {
					require.Contains(t, o.Came, tt.came)
					require.NotContains(t, o.Came, "\n")
				}
			}
		})
	}
}

// ignoresStop answers a request with stop strings as the one before it without.
func ignoresStop() spoiler {
	last := ""
	return func(q map[string]any, path, body string) string {
		if q["prompt"] == "1." && q["stop"] == nil {
			last = body
		}
		if stopping(q, path) {
			return last
		}
		return body
	}
}

// What servers rightly answer is no fault.
func TestHonestDifferences(t *testing.T) {
	t.Parallel()
	message := func(key, text string) spoiler {
		return choose(talking, 0, func(c map[string]any) {
			m := c["message"].(map[string]any)
			m["content"], m[key] = nil, text
		})
	}
	for name, spoil := range map[string]spoiler{
		"no usage":          edit(talking, func(a map[string]any) { delete(a, "usage") }),
		"no total":          edit(completion, func(a map[string]any) { delete(a["usage"].(map[string]any), "total_tokens") }),
		"the other order":   edit(batch, func(a map[string]any) { l := a["choices"].([]any); l[0], l[1] = l[1], l[0] }),
		"reasoning":         message("reasoning", "hm"),
		"older reasoning":   message("reasoning_content", "hm"),
		"streamed thoughts": replace(streaming, `"delta":{"content"`, `"delta":{"reasoning"`),
		"a model that ends at once": edit(multiple, func(a map[string]any) {
			c := a["choices"].([]any)[1].(map[string]any)
			c["text"], c["finish_reason"] = "", "stop"
		}),
		"trimmed texts":     choose(stopping, 0, func(c map[string]any) { c["text"] = strings.TrimSpace(c["text"].(string)) }),
		"another text":      set(stopping, 0, "text", "another text"),
		"the error is null": edit(completion, func(a map[string]any) { a["error"] = nil }),
		"keep-alive":        replace(streaming, "data: [DONE]", ": ping\n\ndata: [DONE]"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for check, o := range serve(t, spoiled(spoil)) {
				require.True(t, o.Passed, "%s: %s", check, o.Came)
			}
		})
	}
}

// A server that does not offer something fails that check in words of its own.
func TestServerThatOffersLess(t *testing.T) {
	t.Parallel()
	healthy := simulated()
	outcomes := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case completionsPath:
			w.WriteHeader(http.StatusNotFound)
			io.WriteString(w, `{"detail":"Not Found"}`)
		case chatPath: // as vLLM 0.32 refuses a model without a template
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, `{"error":{"message":"As of transformers v4.44, default chat template is no longer allowed","code":400}}`)
		default:
			healthy.ServeHTTP(w, r)
		}
	}))
	require.True(t, outcomes["models"].Passed)
	require.Equal(t, "the server does not offer POST /v1/completions (404 Not Found)", outcomes["echo"].Came)
	require.Equal(t, "400 Bad Request: As of transformers v4.44, default chat template is no longer allowed",
		outcomes["streaming"].Came)
}

// Servers that send without end do not keep the checks, nor fill the memory.
func TestEndlessAnswers(t *testing.T) {
	t.Parallel()
	healthy := simulated()
	for name, tt := range map[string]struct{ part, came string }{
		"tokens":      {`data: {"choices":[{"delta":{"content":"a"}}]}` + "\n\n", "more than 84 token events"},
		"keep-alives": {": ping\n\n", "longer than 4 MiB"},
		"one line":    {"data: " + strings.Repeat("a", 8<<10), "longer than 4 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outcomes := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != chatPath {
					healthy.ServeHTTP(w, r)
					return
				}
				for { // until the client hangs up
					if _, err := io.WriteString(w, tt.part); err != nil {
						return
					}
				}
			}))
			require.Contains(t, outcomes["streaming"].Came, tt.came)
			require.Equal(t, "the answer is longer than 4 MiB", outcomes["chat"].Came)
			require.True(t, outcomes["echo"].Passed)
		})
	}
}

// A server that is silent costs a check its time, and Ctrl-C ends it.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	healthy, asked := simulated(), make(chan bool, 10)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != chatPath {
			healthy.ServeHTTP(w, r)
			return
		}
		asked <- true
		w.WriteHeader(http.StatusOK)
		io.WriteString(w, `data: {"choices":[{"delta":{"content":"a"}}]}`+"\n\n")
		http.NewResponseController(w).Flush()
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	t.Cleanup(web.Close)
	s, err := Open(t.Context(), Options{Address: web.URL, Timeout: patience})
	require.NoError(t, err)
	list, err := Select([]string{"streaming", "chat"})
	require.NoError(t, err)

	s.timeout = 50 * time.Millisecond
	outcomes, err := s.Run(t.Context(), list)
	require.NoError(t, err)
	require.Contains(t, outcomes[0].Came, "no whole answer within 50ms")
	require.Contains(t, outcomes[1].Came, "no whole answer within 50ms")

	s.timeout = patience
	<-asked
	<-asked
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	outcomes, err = s.Run(ctx, list)
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, outcomes)
}

// covers: TST-2
func TestOpen(t *testing.T) {
	t.Parallel()
	answering := func(code int, header, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if name, value, ok := strings.Cut(header, ": "); ok {
				w.Header().Set(name, value)
			}
			w.WriteHeader(code)
			io.WriteString(w, body)
		}
	}
	for name, tt := range map[string]struct {
		h    http.Handler
		want []string
	}{
		"a page":         {answering(200, "", "<!doctype html><p>hello"), []string{"an HTML page instead of JSON", "no OpenAI-compatible API"}},
		"a proxy":        {answering(502, "", "<html>Bad Gateway</html>"), []string{"502 Bad Gateway with an HTML page", "not ready"}},
		"a text":         {answering(200, "", "hello"), []string{`not JSON: "hello"`, "no OpenAI-compatible API"}},
		"no such path":   {answering(404, "", `{"detail":"Not Found"}`), []string{"does not offer GET /v1/models (404 Not Found)", "--model"}},
		"a locked door":  {answering(401, "", `{"error":"Unauthorized"}`), []string{"401 Unauthorized: Unauthorized", "OPENAI_API_KEY"}},
		"a redirect":     {answering(308, "Location: https://user:secret@other/v1/models", ""), []string{"308 Permanent Redirect to https://user:[redacted]@other/v1/models", "use the address"}},
		"a long text":    {answering(500, "", "a\nb"+strings.Repeat(" c", 500)), []string{"500 Internal Server Error: a b c c", "c…\n\thint: "}},
		"no models":      {answering(200, "", `{"data":[]}`), []string{"a list without models"}},
		"a nameless one": {answering(200, "", `{"data":[{"id":""}]}`), []string{"a model without an id"}},
		"models of text": {answering(200, "", `{"data":[{"id":4}]}`), []string{"data.id is a JSON number"}},
		"an endless list": {http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		}), []string{"longer than 4 MiB"}},
		"a large head": {answering(200, "X: "+strings.Repeat("a", 1<<20), "{}"), []string{"headers exceeded"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			web := httptest.NewServer(tt.h)
			t.Cleanup(web.Close)
			_, err := Open(t.Context(), Options{Address: web.URL, Timeout: patience})
			require.Error(t, err)
			for _, want := range tt.want {
				require.ErrorContains(t, err, want)
			}
			require.ErrorContains(t, err, web.URL+"/v1/models: ")
			require.ErrorContains(t, err, "\n\thint: ")
		})
	}
}

// covers: TST-2
func TestOpenFindsTheModel(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(simulated())
	t.Cleanup(web.Close)
	s, err := Open(t.Context(), Options{Address: strings.TrimPrefix(web.URL, "http://") + "/v1/", Timeout: patience})
	require.NoError(t, err)
	require.Equal(t, "tiny", s.Model())
	require.Equal(t, web.URL, s.URL())
	_, err = Open(t.Context(), Options{Address: web.URL, Model: "large", Timeout: patience})
	var unknown *UnknownModelError
	require.ErrorAs(t, err, &unknown)
	require.EqualError(t, err, "the server has no model \"large\"\n\thint: known: tiny")

	// A server without a list can be asked for a model that is named.
	bare := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(bare.Close)
	s, err = Open(t.Context(), Options{Address: bare.URL, Model: "large", Timeout: patience})
	require.NoError(t, err)
	outcomes, err := s.Run(t.Context(), Checks()[:1])
	require.NoError(t, err)
	require.Equal(t, "the server does not offer GET /v1/models (404 Not Found)", outcomes[0].Came)

	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	_, err = Open(t.Context(), Options{Address: gone.URL, Model: "large", Timeout: patience})
	require.EqualError(t, err, fmt.Sprintf("%s/v1/models: nothing listens on %s\n\thint: start the server, or name "+
		"another address: profllm check HOST:PORT", gone.URL, strings.TrimPrefix(gone.URL, "http://")))
}

// The key reaches the server, and no message.
func TestKeyIsHidden(t *testing.T) {
	t.Parallel()
	const key = "sk-a-key-of-this-test"
	got := ""
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Authorization")
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"error":{"message":"wrong key %s"}}`, key)
	}))
	t.Cleanup(web.Close)
	_, err := Open(t.Context(), Options{Address: web.URL, APIKey: key, Timeout: patience})
	require.Equal(t, "Bearer "+key, got)
	require.ErrorContains(t, err, "wrong key ")
	require.NotContains(t, err.Error(), key)
	s, err := Open(t.Context(), Options{Address: web.URL, APIKey: key, Model: "m", Timeout: patience})
	require.NoError(t, err)
	outcomes, err := s.Run(t.Context(), Checks())
	require.NoError(t, err)
	for _, o := range outcomes {
		require.Contains(t, o.Came, "wrong key ")
		require.NotContains(t, o.Came, key)
	}
}

func TestCertificates(t *testing.T) {
	t.Parallel()
	web := httptest.NewUnstartedServer(simulated())
	web.Config.ErrorLog = log.New(io.Discard, "", 0)
	web.StartTLS()
	t.Cleanup(web.Close)
	_, err := Open(t.Context(), Options{Address: web.URL, Timeout: patience})
	require.ErrorContains(t, err, "the server's certificate is not trusted")
	_, err = Open(t.Context(), Options{Address: web.URL, Timeout: patience, Insecure: true})
	require.NoError(t, err)
	_, err = Open(t.Context(), Options{Address: strings.TrimPrefix(web.URL, "https://"), Timeout: patience})
	require.ErrorContains(t, err, "400 Bad Request: Client sent an HTTP request to an HTTPS server")
}

func TestBase(t *testing.T) {
	for address, want := range map[string]string{
		"http://h:1":                        "http://h:1",
		"h:1":                               "http://h:1",
		"h":                                 "http://h:8000",
		"http://h":                          "http://h",
		"h:1/v1":                            "http://h:1",
		"https://h/team/v1/":                "https://h/team",
		"http://h:1/v1/chat/completions":    "http://h:1",
		"http://h:1/v1/models":              "http://h:1",
		"[::1]:8000":                        "http://[::1]:8000",
		"[::1]":                             "http://[::1]:8000",
		"http://user:a-word@h:1/v1":         "http://user:a-word@h:1",
		" 127.0.0.1:8000 ":                  "http://127.0.0.1:8000",
		"https://h/a%2Fb/v1/completions///": "https://h/a/b",
	} {
		base, err := Base(address)
		require.NoError(t, err, address)
		require.Equal(t, want, base, address)
	}
	for address, want := range map[string]string{
		"":                     "is not the address of a server",
		"http://":              "is not the address of a server",
		":8000":                "is not the address of a server",
		"h:eight":              "is not the address of a server",
		"a b":                  "is not the address of a server",
		"ftp://h":              `"ftp" is not http or https`,
		"http://h/?key=a-word": "no query",
		"h#v1":                 "no query and no fragment",
	} {
		_, err := Base(address)
		require.ErrorContains(t, err, want, address)
	}
	_, err := Base("http://user:a-word@h:eight")
	require.NotContains(t, err.Error(), "a-word")
}

// covers: TST-1
func TestSelect(t *testing.T) {
	all, err := Select(nil)
	require.NoError(t, err)
	require.Len(t, all, 10)
	for i, c := range all {
		require.Equal(t, i+1, c.Number)
		require.NotEmpty(t, c.Asks)
		require.NotEmpty(t, c.Requires)
	}
	some, err := Select([]string{"stop", "6", "Streaming", "1"})
	require.NoError(t, err)
	require.Len(t, some, 3)
	require.Equal(t, "models", some[0].Name)
	require.Equal(t, "streaming", some[1].Name)
	require.Equal(t, "stop", some[2].Name)
	for _, wrong := range []string{"", "0", "11", "ecko"} {
		_, err = Select([]string{wrong})
		require.ErrorContains(t, err, fmt.Sprintf("there is no check %q\n\thint: ", wrong))
	}
}

// A stop string is looked for where the text has it late for the first time.
func TestMiddle(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "",
		"ab":                           "",
		"one two three":                "hre",
		" w5. w5. w5. w5. w5.":         ". w",
		"\ufffd\ufffd\ufffd\ufffd":     "",
		"          ":                   "",
		"a\nb\nc\nd\ne\nf":             "",
		"日本語日本語日本":                     "語日本",
		"x\ufffdabc\ufffd\ufffd\ufffd": "",
	} {
		require.Equal(t, want, middle(text), "%q", text)
	}
}

// FuzzAnswers gives all checks the same bytes for an answer.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte(`{"data":[{"id":"m"}]}`))
	f.Add([]byte(`{"choices":[{"index":0,"text":"Hello a","logprobs":{"tokens":["a"],"token_logprobs":[-1],"top_logprobs":[{"a":-1}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`))
	f.Add([]byte(`{"choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"length"}]}`))
	f.Add([]byte(`{"choices":[{"index":1,"text":"","finish_reason":"stop"},{"index":0,"text":"b","finish_reason":"stop"}],"usage":{}}`))
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"))
	f.Add([]byte(`{"error":{"message":"dead"}}`))
	f.Add([]byte("<html>"))
	f.Fuzz(func(t *testing.T, body []byte) {
		s := newServer("http://h", Options{Model: "m", Timeout: patience}, answers(body))
		outcomes, err := s.Run(t.Context(), Checks())
		if err != nil || len(outcomes) != 10 {
			t.Fatalf("%d outcomes, %v", len(outcomes), err)
		}
		for _, o := range outcomes {
			if strings.ContainsAny(o.Came, "\n\r\x1b") || len([]rune(o.Came)) > longest+1 || o.Came == "" {
				t.Fatalf("%s: %q", o.Check.Name, o.Came)
			}
		}
	})
}

// answers is a transport that answers everything with these bytes.
type answers []byte

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != "h" {
		return nil, errors.New("another host")
	}
	return &http.Response{StatusCode: http.StatusOK, Status: "200 OK", Header: http.Header{},
		Body: io.NopCloser(strings.NewReader(string(a))), Request: r}, nil
}
