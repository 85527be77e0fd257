package engine

import (
	"net/http"
	"strconv"
)

// defaultMaxTokens is vLLM's max_tokens for completions that ask for none.
const defaultMaxTokens = 16

func (s *Server) completions(w http.ResponseWriter, r *http.Request) *refusal {
	var q completionRequest
	if refused := decode(r, &q); refused != nil {
		return refused
	}
	if q.StreamOptions != nil && !q.Stream {
		return badValue("stream_options", "", "Stream options can only be defined when `stream=True`.")
	}
	if refused := s.checkModel(q.Model); refused != nil {
		return refused
	}
	prompts, text, refused := s.prompts(q.Prompt)
	if refused != nil {
		return refused
	}
	if q.MaxTokens == nil {
		q.MaxTokens = new(min(defaultMaxTokens, s.config.MaxLen))
	}
	j, refused := s.job(r, q.sampling, prompts, text)
	if refused != nil {
		return refused
	}
	j.id = "cmpl-" + j.id
	s.tell(j, w)
	if q.Stream {
		return s.streamCompletion(w, r, &q, j)
	}
	return s.wholeCompletion(w, r, &q, j)
}

// prompts returns the token ids of each prompt, and the text if there is one prompt and it came
// as text.
func (s *Server) prompts(p *prompts) ([][]int, string, *refusal) {
	missing := badValue("prompt", "", "Either prompt or prompt_embeds must be provided and non-empty.")
	switch {
	case p == nil:
		return nil, "", missing
	case p.ids != nil && !(len(p.ids) == 1 && len(p.ids[0]) == 0):
		return p.ids, "", nil
	case len(p.texts) == 0:
		return nil, "", bad("", "You must pass at least one prompt")
	}
	var ids [][]int
	for _, text := range p.texts {
		if text == "" {
			return nil, "", missing
		}
		ids = append(ids, s.engine.tokens.encode(text))
	}
	return ids, p.texts[len(p.texts)-1], nil
}

func (s *Server) wholeCompletion(w http.ResponseWriter, r *http.Request, q *completionRequest, j *job) *refusal {
	all := s.sequences(j)
	if refused := whole(s.run(r.Context(), j, all, func(int, []token) error { return nil })); refused != nil {
		return refused
	}
	a := completion{
		ID: j.id, Object: "text_completion", Created: j.arrived.Unix(), Model: s.answering(q.Model),
		Fingerprint: s.fingerprint, KV: s.transferred(j, j.id+"-0", all),
	}
	prompt, generated := 0, 0
	for i, seq := range all {
		text, ids := said(seq.answer.tokens)
		c := completionChoice{
			Index: i, Text: text, Logprobs: s.logprobs(q.Logprobs, seq.answer.tokens, 0),
			FinishReason: seq.answer.finish, StopReason: seq.answer.reason,
		}
		if q.ReturnTokenIDs {
			c.TokenIDs, c.PromptTokenIDs = ids, seq.prompt
		}
		if q.Echo {
			c.Text = s.engine.tokens.text(seq.prompt) + text
		}
		a.Choices = append(a.Choices, c)
		generated += len(ids)
		if i%j.n == 0 {
			prompt += len(seq.prompt)
		}
	}
	a.Usage.Usage = tokensUsed(prompt, generated)
	writeJSON(w, http.StatusOK, a)
	return nil
}

func (s *Server) streamCompletion(w http.ResponseWriter, r *http.Request, q *completionRequest, j *job) *refusal {
	all := s.sequences(j)
	out := make([]int, len(all))    // tokens sent
	offset := make([]int, len(all)) // bytes of text sent
	ev := &events{w: w}
	chunk := completionChunk{ID: j.id, Object: "text_completion", Created: j.arrived.Unix(), Model: s.answering(q.Model)}
	want := streamOptions{}
	if q.StreamOptions != nil {
		want = *q.StreamOptions
	}
	emit := func(i int, tokens []token) error {
		seq := all[i]
		text, ids := said(tokens)
		c := completionChunkChoice{Index: i, Text: text, Logprobs: s.logprobs(q.Logprobs, tokens, offset[i])}
		if q.ReturnTokenIDs {
			c.TokenIDs = ids
			if out[i] == 0 {
				c.PromptTokenIDs = seq.prompt
			}
		}
		if q.Echo && out[i] == 0 {
			c.Text = s.engine.tokens.text(seq.prompt) + c.Text
		}
		out[i] += len(tokens)
		offset[i] += len(text)
		next := chunk
		if out[i] == len(seq.answer.tokens) {
			c.FinishReason, c.StopReason = &seq.answer.finish, seq.answer.reason
			if !want.IncludeUsage {
				next.Fingerprint = s.fingerprint
			}
		}
		if want.ContinuousUsage {
			next.Usage = new(tokensUsed(len(seq.prompt), out[i]))
		}
		next.Choices = []completionChunkChoice{c}
		return ev.send(next)
	}
	err := s.run(r.Context(), j, all, emit)
	for i, seq := range all {
		if err == nil && len(seq.answer.tokens) == 0 {
			err = emit(i, nil)
		}
	}
	if err == nil && want.IncludeUsage {
		chunk.Choices = []completionChunkChoice{}
		chunk.Usage = new(total(j, all))
		chunk.Fingerprint = s.fingerprint
		err = ev.send(chunk)
	}
	return ev.end(err)
}

// total is the usage of a whole request: each prompt once, every choice's tokens.
func total(j *job, all []*sequence) Usage {
	prompt, generated := 0, 0
	for i, seq := range all {
		if i%j.n == 0 {
			prompt += len(seq.prompt)
		}
		generated += len(seq.answer.tokens)
	}
	return tokensUsed(prompt, generated)
}

// logprobs returns nil unless asked; want is how many alternatives beside the token.
func (s *Server) logprobs(want *int, tokens []token, offset int) *logprobs {
	if want == nil {
		return nil
	}
	l := &logprobs{}
	for _, t := range tokens {
		text := s.engine.tokens.decode(t.id)
		top := map[string]float64{text: logprob}
		for i := range min(*want, 20) {
			top["<sim alternative "+strconv.Itoa(i+1)+">"] = logprob
		}
		l.TextOffset = append(l.TextOffset, offset)
		l.TokenLogprobs = append(l.TokenLogprobs, logprob)
		l.Tokens = append(l.Tokens, text)
		l.TopLogprobs = append(l.TopLogprobs, top)
		offset += len(t.text)
	}
	return l
}
