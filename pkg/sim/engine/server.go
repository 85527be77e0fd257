package engine

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/profllm/profllm/pkg/sim/knobs"
	"github.com/profllm/profllm/pkg/sim/program"
)

// A Server answers vLLM's HTTP interface from an engine.
type Server struct {
	config      Config
	knobs       knobs.Settings
	engine      *engine
	fingerprint string
	Dev         bool // VLLM_SERVER_DEV_MODE
	Worker      bool // of NVIDIA Dynamo: tells its frontend the tokens of each prompt
	requests    atomic.Int64
	die         chan struct{} // closed by the request that die-on-request names
}

func NewServer(c Config, k knobs.Settings, start time.Time) *Server {
	return &Server{
		config:      c,
		knobs:       k,
		engine:      newEngine(c, k, start),
		fingerprint: program.Version + "-" + program.HexText(4),
		die:         make(chan struct{}),
	}
}

func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	ok := func(http.ResponseWriter, *http.Request) {}
	refuse := func(status int, detail string) http.HandlerFunc {
		return s.measured("none", func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, status, map[string]string{"detail": detail})
		})
	}
	route := func(method, path string, h http.HandlerFunc) {
		measured := s.measured(path, h)
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == method || path == "/ping" && r.Method == http.MethodPost {
				measured(w, r)
				return
			}
			w.Header().Set("Allow", method)
			refuse(http.StatusMethodNotAllowed, "Method Not Allowed")(w, r)
		})
	}
	route("GET", "/health", ok)
	if s.config.SGLang {
		s.routesOfSGLang(route)
	} else {
		route("GET", "/ping", ok)
		route("GET", "/version", func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, http.StatusOK, map[string]string{"version": s.version()})
		})
		route("GET", "/metrics", s.serveMetrics)
		s.profileRoutes(route)
	}
	route("GET", "/v1/models", s.models)
	if s.config.Pooling {
		s.poolingRoutes(route)
	} else {
		route("POST", "/v1/completions", s.generation(s.completions))
		route("POST", "/v1/chat/completions", s.generation(s.chat))
		if !s.config.SGLang {
			route("POST", "/v1/responses", s.generation(s.responses))
		}
	}
	route("POST", "/tokenize", s.tokenize)
	route("POST", "/detokenize", s.detokenize)
	if s.Dev {
		route("POST", "/reset_prefix_cache", func(http.ResponseWriter, *http.Request) {
			if s.engine.blocks != nil {
				s.engine.blocks.reset()
			}
		})
		for _, path := range []string{"/reset_mm_cache", "/reset_encoder_cache"} { // it has neither
			route("POST", path, func(http.ResponseWriter, *http.Request) {})
		}
	}
	mux.HandleFunc("/", refuse(http.StatusNotFound, "Not Found"))
	return s.authorized(mux)
}

// authorized asks for the API key on paths below /v1, if there is one.
func (s *Server) authorized(next http.Handler) http.Handler {
	if len(s.config.APIKeys) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if strings.HasPrefix(r.URL.Path, "/v1") && !(bearer && slices.Contains(s.config.APIKeys, key)) {
			writeJSON(w, http.StatusUnauthorized, map[string]string{"error": "Unauthorized"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// generation applies the faults of requests that ask for tokens.
func (s *Server) generation(h func(http.ResponseWriter, *http.Request) *refusal) http.HandlerFunc {
	f := s.knobs.Planted
	return func(w http.ResponseWriter, r *http.Request) {
		n := s.requests.Add(1)
		if n == int64(f.Restart) {
			s.engine.metrics.restart()
		}
		switch {
		case n == int64(f.DieOnRequest):
			close(s.die)
			fallthrough
		case f.Hang:
			io.Copy(io.Discard, r.Body) // only then does the context notice that the client went away
			<-r.Context().Done()
			panic(http.ErrAbortHandler)
		case f.Fail > 0 && knobs.Unit(s.knobs.Timing.Seed, uint64(n)) < f.Fail:
			internal().write(w)
			return
		}
		if w = s.spoil(w, r, n); w == nil {
			return
		}
		if refused := h(w, r); refused != nil {
			refused.write(w)
		}
	}
}

// unmeasured handlers are those that vLLM leaves out of its HTTP metrics.
var unmeasured = []string{"/health", "/ping", "/version", "/metrics"}

// measured keeps the HTTP metrics of one handler.
func (s *Server) measured(handler string, next http.HandlerFunc) http.HandlerFunc {
	if slices.Contains(unmeasured, handler) {
		return next
	}
	m := s.engine.metrics
	return func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		sw := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		next(sw, r)
		took := time.Since(start).Seconds()
		length, _ := strconv.ParseFloat(w.Header().Get("Content-Length"), 64)
		m.add("http_requests", 1, "handler", handler, "method", r.Method, "status", fmt.Sprintf("%dxx", sw.status/100))
		m.observe("http_request_size_bytes", float64(max(0, r.ContentLength)), "handler", handler)
		m.observe("http_response_size_bytes", length, "handler", handler)
		m.observe("http_request_duration_highr_seconds", took)
		m.observe("http_request_duration_seconds", took, "handler", handler, "method", r.Method)
	}
}

// statusWriter remembers the status.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteMetrics writes the page of counters.
func (s *Server) WriteMetrics(w io.Writer) error { return s.engine.metrics.writeTo(w) }

// Requests is how many requests for tokens there were.
func (s *Server) Requests() int64 { return s.requests.Load() }

func (s *Server) serveMetrics(w http.ResponseWriter, _ *http.Request) {
	var b bytes.Buffer
	if err := s.WriteMetrics(&b); err != nil {
		internal().write(w)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=1.0.0; charset=utf-8")
	w.Write(b.Bytes())
}

type modelCard struct {
	ID          string       `json:"id"`
	Object      string       `json:"object"`
	Created     int64        `json:"created"`
	OwnedBy     string       `json:"owned_by"`
	Root        string       `json:"root"`
	Parent      *string      `json:"parent"` // of a LoRA adapter
	MaxModelLen int          `json:"max_model_len"`
	Permission  []permission `json:"permission"`
}

type permission struct {
	ID                 string `json:"id"`
	Object             string `json:"object"`
	Created            int64  `json:"created"`
	AllowCreateEngine  bool   `json:"allow_create_engine"`
	AllowSampling      bool   `json:"allow_sampling"`
	AllowLogprobs      bool   `json:"allow_logprobs"`
	AllowSearchIndices bool   `json:"allow_search_indices"`
	AllowView          bool   `json:"allow_view"`
	AllowFineTuning    bool   `json:"allow_fine_tuning"`
	Organization       string `json:"organization"`
	Group              Null   `json:"group"`
	IsBlocking         bool   `json:"is_blocking"`
}

func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	now := time.Now().Unix()
	card := func(name, root string) modelCard {
		return modelCard{
			ID: name, Object: "model", Created: now, OwnedBy: program.Version,
			Root: root, MaxModelLen: s.config.MaxLen,
			Permission: []permission{{
				ID: "modelperm-" + program.HexText(8), Object: "model_permission", Created: now,
				AllowSampling: true, AllowLogprobs: true, AllowView: true, Organization: "*",
			}},
		}
	}
	var cards []modelCard
	for _, name := range s.config.Names {
		cards = append(cards, card(name, cmp.Or(s.knobs.Planted.Root, s.config.Model)))
	}
	for _, a := range s.config.Adapters {
		one := card(a.Name, a.Path)
		one.Parent = &s.config.Names[0]
		cards = append(cards, one)
	}
	writeJSON(w, http.StatusOK, struct {
		Object string      `json:"object"`
		Data   []modelCard `json:"data"`
	}{"list", cards})
}

func (s *Server) version() string { return cmp.Or(s.knobs.Planted.Version, program.Version) }

// checkModel refuses a model that is not served; no name at all means the only one.
func (s *Server) checkModel(name string) *refusal {
	if name == "" || slices.Contains(s.config.Names, name) || s.adapted(name) {
		return nil
	}
	return noModel(name, s.config.Names)
}

// adapted reports whether a name is that of a LoRA adapter.
func (s *Server) adapted(name string) bool {
	return slices.ContainsFunc(s.config.Adapters, func(a Adapter) bool { return a.Name == name })
}

// answering is the name that answers carry for the model that was asked for.
func (s *Server) answering(name string) string {
	if s.adapted(name) {
		return name
	}
	return s.config.Names[0]
}

// countAdapter notes the adapter of a request, as vLLM's scheduler last saw it.
func (s *Server) countAdapter(name string) {
	if s.adapted(name) {
		s.engine.metrics.set("vllm:lora_requests_info", Seconds(time.Now()), "max_lora", "1",
			"running_lora_adapters", name, "waiting_lora_adapters", "")
	}
}

type tokenizeRequest struct {
	Model    string    `json:"model"`
	Prompt   string    `json:"prompt"`
	Messages []message `json:"messages"`
	Strings  bool      `json:"return_token_strs"`
}

type tokenizeAnswer struct {
	Count       int      `json:"count"`
	MaxModelLen int      `json:"max_model_len"`
	Tokens      []int    `json:"tokens"`
	Strings     []string `json:"token_strs"`
}

func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) {
	var q tokenizeRequest
	refused := decode(r, &q)
	if refused == nil {
		refused = s.checkModel(q.Model)
	}
	if refused != nil {
		refused.write(w)
		return
	}
	text := q.Prompt
	if q.Messages != nil {
		text = chatText(q.Messages)
	}
	a := tokenizeAnswer{MaxModelLen: s.config.MaxLen, Tokens: s.engine.tokens.encode(text)}
	a.Count = len(a.Tokens)
	if q.Strings {
		for _, id := range a.Tokens {
			a.Strings = append(a.Strings, s.engine.tokens.decode(id))
		}
	}
	writeJSON(w, http.StatusOK, a)
}

func (s *Server) detokenize(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Model  string `json:"model"`
		Tokens []int  `json:"tokens"`
	}
	refused := decode(r, &q)
	if refused == nil {
		refused = s.checkModel(q.Model)
	}
	if refused != nil {
		refused.write(w)
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"prompt": s.engine.tokens.text(q.Tokens)})
}

// stats is what the periodic log line is computed from.
type stats struct {
	prompt, generated, queries, hits, extQueries, extHits float64
}

func (s *Server) stats() stats {
	m := s.engine.metrics
	return stats{
		m.value("vllm:prompt_tokens"), m.value("vllm:generation_tokens"),
		m.value("vllm:prefix_cache_queries"), m.value("vllm:prefix_cache_hits"),
		m.value("vllm:external_prefix_cache_queries"), m.value("vllm:external_prefix_cache_hits"),
	}
}

// statsInterval is how often vLLM logs its throughput.
const statsInterval = 10 * time.Second

// logStats logs throughput and cache hits while there is anything to tell, and once more when
// ctx ends.
func (s *Server) logStats(ctx context.Context, log *Logger) {
	var last stats
	since := time.Now()
	for more := true; more; {
		more = program.Wait(ctx, statsInterval)
		now := s.stats()
		if now != last {
			s.logLine(log, last, now, time.Since(since))
		}
		last, since = now, time.Now()
	}
}

func (s *Server) logLine(log *Logger, last, now stats, d time.Duration) {
	m := s.engine.metrics
	line := fmt.Sprintf("Engine 000: Avg prompt throughput: %.1f tokens/s, Avg generation throughput: %.1f tokens/s, "+
		"Running: %.0f reqs, Waiting: %.0f reqs, GPU KV cache usage: %.1f%%, Prefix cache hit rate: %.1f%%",
		(now.prompt-last.prompt)/d.Seconds(), (now.generated-last.generated)/d.Seconds(),
		m.value("vllm:num_requests_running"), m.value("vllm:num_requests_waiting"),
		100*m.value("vllm:kv_cache_usage_perc"), percent(now.hits, now.queries))
	if now.extQueries > 0 {
		line += fmt.Sprintf(", External prefix cache hit rate: %.1f%%", percent(now.extHits, now.extQueries))
	}
	log.Info("%s", line)
	if s.engine.kv == nil {
		return
	}
	if t := s.engine.kv.take(); t.ok+t.failed > 0 {
		n := float64(max(1, t.ok))
		log.Info("KV Transfer metrics: Num successful transfers=%d, Avg xfer time (ms)=%.3f, Avg MB per transfer=%.3f, "+
			"Num failed transfers=%d", t.ok, float64(t.time.Microseconds())/1e3/n, float64(t.bytes)/(1<<20)/n, t.failed)
	}
}

func percent(part, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * part / whole
}
