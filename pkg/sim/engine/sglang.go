package engine

import (
	"cmp"
	"io"
	"net/http"
	"strings"
	"time"
)

// routesOfSGLang adds what SGLang answers and vLLM does not. It has no /metrics without
// --enable-metrics, and its names are not simulated.
func (s *Server) routesOfSGLang(route func(method, path string, h http.HandlerFunc)) {
	route("GET", "/health_generate", func(http.ResponseWriter, *http.Request) {})
	route("POST", "/generate", s.generation(s.native))
	route("POST", "/flush_cache", func(w http.ResponseWriter, _ *http.Request) {
		if s.engine.blocks != nil {
			s.engine.blocks.reset()
		}
		io.WriteString(w, "Cache flushed (profllm sim).\n")
	})
	model := func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{
			"model_path": cmp.Or(s.knobs.Planted.Root, s.config.Model), "tokenizer_path": s.config.Model,
			"served_model_name": s.config.Names[0], "disaggregation_mode": s.config.mode(),
			"is_generation": true, "version": s.version(), "simulated": true,
		})
	}
	route("GET", "/get_model_info", model)
	route("GET", "/model_info", model)
	info := func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{
			"model_path": cmp.Or(s.knobs.Planted.Root, s.config.Model), "tp_size": s.config.TP, "pp_size": s.config.PP,
			"max_running_requests": s.config.MaxSeqs, "disaggregation_mode": s.config.mode(),
			"internal_states": []map[string]any{{}}, "version": s.version(), "simulated": true,
		})
	}
	route("GET", "/get_server_info", info)
	route("GET", "/server_info", info)
}

// mode is SGLang's --disaggregation-mode.
func (c *Config) mode() string {
	switch {
	case c.Connector == "":
		return "null"
	case c.Consumer:
		return "decode"
	}
	return "prefill"
}

// bootstrap is what SGLang's router adds to the request that it sends to prefill and to decode at
// once: where prefill answers for KV caches, and the number by which both know this one.
type bootstrap struct {
	Host string  `json:"bootstrap_host"`
	Port *int    `json:"bootstrap_port"`
	Room *uint64 `json:"bootstrap_room"`
}

// handOver gives a sequence its part in a transfer between SGLang's servers. Prefill makes one
// token, as the real one does.
func (s *Server) handOver(q *sequence, j *job) {
	b := j.sample.bootstrap
	if !s.config.SGLang || s.engine.kv == nil || b.Room == nil {
		return
	}
	if !s.config.Consumer {
		q.room = b.Room
		if len(q.answer.tokens) > 1 {
			q.answer = answer{tokens: q.answer.tokens[:1], finish: "length"}
		}
		return
	}
	port := bootstrapPort
	if b.Port != nil {
		port = *b.Port
	}
	q.remote = &KVParams{DoRemotePrefill: true, Host: b.Host, Port: port, room: b.Room}
}

// bootstrapPort is SGLang's default of --disaggregation-bootstrap-port.
const bootstrapPort = 8998

// defaultNewTokens is SGLang's max_new_tokens for requests that ask for none.
const defaultNewTokens = 128

// nativeRequest is the body of /generate. Of a batch the stand-in takes none: SGLang's client
// sends one prompt a request.
type nativeRequest struct {
	Text     string `json:"text"`
	InputIDs []int  `json:"input_ids"`
	Sampling struct {
		MaxNewTokens *int     `json:"max_new_tokens"`
		MinNewTokens int      `json:"min_new_tokens"`
		IgnoreEOS    bool     `json:"ignore_eos"`
		Stop         stops    `json:"stop"`
		StopTokenIDs []int    `json:"stop_token_ids"`
		Temperature  *float64 `json:"temperature"`
		TopP         *float64 `json:"top_p"`
		Seed         *int     `json:"sampling_seed"`
	} `json:"sampling_params"`
	Stream bool   `json:"stream"`
	RID    string `json:"rid"`
	bootstrap
}

// nativeAnswer is an answer of /generate; in a stream each has the whole text so far.
type nativeAnswer struct {
	Text      string     `json:"text"`
	OutputIDs []int      `json:"output_ids"`
	Meta      nativeMeta `json:"meta_info"`
}

type nativeMeta struct {
	ID            string        `json:"id"`
	Finish        *nativeFinish `json:"finish_reason"`
	Prompt        int           `json:"prompt_tokens"`
	WeightVersion string        `json:"weight_version"`
	Retractions   int           `json:"num_retractions"`
	Completion    int           `json:"completion_tokens"`
	Cached        int           `json:"cached_tokens"`
	Latency       *float64      `json:"e2e_latency,omitempty"` // seconds
}

type nativeFinish struct {
	Type    string `json:"type"`
	Length  *int   `json:"length,omitempty"`
	Matched any    `json:"matched,omitempty"`
}

// native answers SGLang's own /generate.
func (s *Server) native(w http.ResponseWriter, r *http.Request) *refusal {
	var q nativeRequest
	if refused := decode(r, &q); refused != nil {
		return refused
	}
	if q.Sampling.MaxNewTokens == nil {
		q.Sampling.MaxNewTokens = new(defaultNewTokens)
	}
	p := prompts{texts: []string{q.Text}}
	if q.Text == "" {
		p.texts, p.ids = nil, [][]int{q.InputIDs}
	}
	ids, text, refused := s.prompts(&p)
	if refused != nil {
		return refused
	}
	j, refused := s.job(r, sampling{
		MaxTokens: q.Sampling.MaxNewTokens, MinTokens: q.Sampling.MinNewTokens, IgnoreEOS: q.Sampling.IgnoreEOS,
		Stop: q.Sampling.Stop, StopTokenIDs: q.Sampling.StopTokenIDs, Temperature: q.Sampling.Temperature,
		TopP: q.Sampling.TopP, Seed: q.Sampling.Seed, RequestID: q.RID, bootstrap: q.bootstrap,
	}, ids, text)
	if refused != nil {
		return refused
	}
	all := s.sequences(j)
	if !q.Stream {
		if refused := whole(s.run(r.Context(), j, all, func(int, []token) error { return nil })); refused != nil {
			return refused
		}
		writeJSON(w, http.StatusOK, nativeOf(j, all[0], all[0].answer.tokens))
		return nil
	}
	ev := &events{w: w}
	sent := 0
	return ev.end(s.run(r.Context(), j, all, func(_ int, chunk []token) error {
		sent += len(chunk)
		return ev.send(nativeOf(j, all[0], all[0].answer.tokens[:sent]))
	}))
}

// nativeOf is the answer so far.
func nativeOf(j *job, q *sequence, tokens []token) *nativeAnswer {
	a := &nativeAnswer{Meta: nativeMeta{
		ID: j.id, Prompt: len(q.prompt), WeightVersion: "default", Completion: len(tokens), Cached: q.cached,
	}}
	a.Text, a.OutputIDs = said(tokens)
	a.Text = strings.TrimLeft(a.Text, " ")
	if len(tokens) < len(q.answer.tokens) {
		return a
	}
	a.Meta.Latency = new(time.Since(j.arrived).Seconds())
	a.Meta.Finish = &nativeFinish{Type: q.answer.finish}
	if q.answer.finish == "length" {
		a.Meta.Finish.Length = new(len(tokens))
	} else {
		a.Meta.Finish.Matched = q.answer.reason
	}
	return a
}
