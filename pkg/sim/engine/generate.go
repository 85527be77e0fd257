package engine

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/profllm/profllm/pkg/sim/knobs"
	"github.com/profllm/profllm/pkg/sim/program"
)

// A job is one generation request, checked and turned into sequences.
type job struct {
	id      string // request id without prefix
	prompts [][]int
	ask     string // the text of the only prompt, for questions that can be answered; empty if not known
	n       int    // choices per prompt
	max     int    // max_tokens
	limits  limits
	sample  sampling
	arrived time.Time
	header  http.Header // of the answer, which tells the tokens of the prompt; nil: it does not
}

// The headers by which a worker of Dynamo tells its frontend the tokens of a prompt, and those of
// them that it found in its cache.
const (
	PromptHeader = "X-Profllm-Sim-Prompt-Tokens"
	CachedHeader = "X-Profllm-Sim-Cached-Tokens"
)

// tell has the answer of a worker of Dynamo name the tokens of the prompt.
func (s *Server) tell(j *job, w http.ResponseWriter) {
	if s.Worker {
		j.header = w.Header()
	}
}

// told writes these headers, once the caches were looked at.
func (j *job) told(all []*sequence) {
	if j.header == nil || j.header.Get(PromptHeader) != "" {
		return
	}
	prompt, cached := 0, 0
	for i, q := range all {
		if i%j.n == 0 {
			prompt, cached = prompt+len(q.prompt), cached+q.cached
		}
	}
	j.header.Set(PromptHeader, strconv.Itoa(prompt))
	j.header.Set(CachedHeader, strconv.Itoa(cached))
}

// sequences decides the answers, one sequence per prompt and choice, in the order of the
// choices' indices.
func (s *Server) sequences(j *job) []*sequence {
	seed := s.knobs.Timing.Seed
	if j.sample.Seed != nil {
		seed = knobs.Mix(seed, uint64(*j.sample.Seed))
	}
	var all []*sequence
	for _, p := range j.prompts {
		for choice := range j.n {
			q := &sequence{prompt: p, arrived: j.arrived, max: j.max,
				seed: knobs.Mix(knobs.HashTokens(seed, p), uint64(choice))}
			start, _ := Solve(j.ask, s.knobs.Timing.Seed, s.knobs.Accuracy)
			limits := j.limits
			if s.knobs.Planted.Answer.Hits("short", s.knobs.Timing.Seed, q.seed) {
				limits.max = max(1, limits.max/4)
			}
			if s.knobs.Planted.ZeroTokens {
				q.answer = answer{finish: "stop"}
			} else {
				q.answer = s.engine.tokens.speak(q.seed, start, limits)
			}
			if s.engine.kv != nil && j.sample.KV != nil && j.sample.KV.DoRemotePrefill {
				q.remote = j.sample.KV
			}
			s.handOver(q, j)
			all = append(all, q)
		}
	}
	return all
}

// run runs the sequences side by side. emit gets the chunks of one sequence in order; calls are
// not concurrent.
func (s *Server) run(ctx context.Context, j *job, all []*sequence, emit func(index int, chunk []token) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer s.countPrompts(j, all)
	if len(all) == 1 {
		return s.engine.run(ctx, all[0], func(chunk []token) error {
			j.told(all)
			return emit(0, chunk)
		})
	}
	var (
		mu   sync.Mutex
		wg   sync.WaitGroup
		errs = make([]error, len(all))
	)
	for i, q := range all {
		wg.Go(func() {
			errs[i] = s.engine.run(ctx, q, func(chunk []token) error {
				mu.Lock()
				defer mu.Unlock()
				return emit(i, chunk)
			})
			if errs[i] != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// countPrompts keeps the metrics that know of prompts rather than of choices.
func (s *Server) countPrompts(j *job, all []*sequence) {
	for i := range j.prompts {
		longest := 0
		for _, q := range all[i*j.n : (i+1)*j.n] {
			longest = max(longest, q.out)
		}
		s.engine.metrics.observe("vllm:request_params_n", float64(j.n))
		s.engine.metrics.observe("vllm:request_max_num_generation_tokens", float64(longest))
	}
}

// greedy is the temperature below which vLLM does not draw (vllm/sampling_params.py, _SAMPLING_EPS).
const greedy = 1e-5

// job checks what completions and chat have in common. text is the prompt if it is known as one.
func (s *Server) job(r *http.Request, q sampling, prompts [][]int, text string) (*job, *refusal) {
	j := &job{id: r.Header.Get("X-Request-Id"), prompts: prompts, ask: text, n: 1, sample: q, arrived: time.Now()}
	if len(prompts) > 1 {
		j.ask = ""
	}
	if j.id == "" {
		j.id = q.RequestID
	}
	if j.id == "" {
		j.id = program.HexText(8)
	}
	if q.N != nil {
		j.n = *q.N
	}
	if j.n < 1 {
		return nil, bad("", "n must be at least 1, got %d.", j.n)
	}
	if t := q.Temperature; t != nil && *t < 0 {
		return nil, badValue("temperature", number(*t), "temperature must be non-negative, got %s.", number(*t))
	}
	if p := q.TopP; p != nil && !(*p > 0 && *p <= 1) {
		return nil, badValue("top_p", number(*p), "top_p must be in (0, 1], got %s.", number(*p))
	}
	if t := q.Temperature; t != nil && *t < greedy && j.n > 1 && !s.config.SGLang {
		return nil, bad("", "n must be 1 when using greedy sampling, got %d.", j.n)
	}
	if refused := checkStructure(q.Structured, q.Format); refused != nil {
		return nil, refused
	}
	s.countAdapter(q.Model)
	for _, p := range prompts {
		if refused := s.checkPrompt(p, text != ""); refused != nil {
			return nil, refused
		}
	}
	return j, s.setLength(j, q)
}

// checkPrompt refuses prompts that do not fit. The real server counts a text's tokens no
// further than one past the limit.
func (s *Server) checkPrompt(p []int, text bool) *refusal {
	limit := s.config.MaxLen
	if len(p) == 0 {
		return badValue("prompt", "", "Either prompt or prompt_embeds must be provided and non-empty.")
	}
	if len(p) >= limit {
		n, atLeast := len(p), ""
		if text {
			n, atLeast = min(n, limit+1), "at least "
		}
		return badValue("input_tokens", strconv.Itoa(n),
			"This model's maximum context length is %d tokens. However, your prompt "+
				"contains %s%d input tokens, which exceeds this limit even without any output tokens. "+
				"Please reduce the length of the input prompt.", limit, atLeast, n)
	}
	for _, id := range p {
		if id < 0 || id >= idLimit {
			return bad("", "Token id %d is out of vocabulary", id)
		}
	}
	return nil
}

// idLimit is above every vocabulary in use: which model is meant is unknown, so its ids are
// accepted beyond those that this vocabulary has text for.
const idLimit = 1 << 20

// maxChoices bounds the work one request can ask for.
const maxChoices = 1 << 14

func (s *Server) setLength(j *job, q sampling) *refusal {
	longest := 0
	for _, p := range j.prompts {
		longest = max(longest, len(p))
	}
	room := s.config.MaxLen - longest
	if q.MaxTokens != nil {
		j.max = *q.MaxTokens
		asked := strconv.Itoa(j.max)
		if j.max < 1 {
			return badValue("max_tokens", asked, "max_tokens must be at least 1, got %d.", j.max)
		}
		if j.max > s.config.MaxLen {
			return badValue("max_tokens", asked, "max_tokens=%d cannot be greater than max_model_len=%d. "+
				"Please request fewer output tokens.", j.max, s.config.MaxLen)
		}
	}
	if j.n*len(j.prompts) > maxChoices {
		return bad("", "profllm sim answers at most %d choices a request, got %d.", maxChoices, j.n*len(j.prompts))
	}
	if j.max == 0 || j.max > room {
		j.max = room
	}
	j.limits = limits{
		max: j.max, min: q.MinTokens, ignoreEOS: q.IgnoreEOS,
		stop: q.Stop, stopIDs: q.StopTokenIDs, allowed: q.AllowedIDs,
	}
	return nil
}

// transferred returns what a prefill server adds to its answer: where its KV cache can be fetched.
func (s *Server) transferred(j *job, id string, all []*sequence) *KVParams {
	if s.engine.kv == nil || s.knobs.Planted.Answer.NoParams || j.sample.KV == nil || !j.sample.KV.DoRemoteDecode ||
		all[0].answer.finish != "length" {
		return nil
	}
	return s.engine.kv.offer(id+"-"+program.HexText(4), len(all[0].prompt), all[0].cached)
}

// An events writer sends server-sent events, each at once. The header goes out with the first.
type events struct {
	w       http.ResponseWriter
	started bool
}

func (e *events) send(v any) error {
	text, err := encodeJSON(v)
	if err != nil {
		return err
	}
	return e.line(text)
}

func (e *events) line(text []byte) error { return e.named("", text) }

// named sends an event of that type; "" is the usual one.
func (e *events) named(kind string, text []byte) error {
	if !e.started {
		e.started = true
		e.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	}
	b := make([]byte, 0, len(text)+len(kind)+16)
	if kind != "" {
		b = append(append(append(b, "event: "...), kind...), '\n')
	}
	b = append(append(append(b, "data: "...), text...), "\n\n"...)
	if _, err := e.w.Write(b); err != nil {
		return err
	}
	return http.NewResponseController(e.w).Flush()
}

// end closes the stream; after an error it is cut, before its first byte refused.
func (e *events) end(err error) *refusal {
	switch {
	case err == nil:
		if e.line([]byte("[DONE]")) != nil {
			panic(http.ErrAbortHandler)
		}
		return nil
	case isTransfer(err) && !e.started:
		return internal()
	}
	panic(http.ErrAbortHandler)
}

// whole turns the error of a run without streaming into an answer.
func whole(err error) *refusal {
	if err == nil {
		return nil
	}
	if isTransfer(err) {
		return internal()
	}
	panic(http.ErrAbortHandler) // the client went away or the server stops
}

// said joins the text and ids of tokens.
func said(tokens []token) (string, []int) {
	var b strings.Builder
	ids := make([]int, 0, len(tokens))
	for _, t := range tokens {
		b.WriteString(t.text)
		ids = append(ids, t.id)
	}
	return b.String(), ids
}

// logprob is the log probability of every token: there is no model that could tell them apart.
const logprob = -9.25
