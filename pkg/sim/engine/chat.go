package engine

import (
	"fmt"
	"net/http"
	"strings"
)

// chatText renders messages as the recorded model's template does.
func chatText(messages []message) string {
	var b strings.Builder
	for _, m := range messages {
		b.WriteString("<|" + m.Role + "|>" + string(m.Content))
	}
	b.WriteString("<|assistant|>")
	return b.String()
}

func (*chatRequest) required() []string { return []string{"messages"} }

func (s *Server) chat(w http.ResponseWriter, r *http.Request) *refusal {
	var q chatRequest
	if refused := decode(r, &q); refused != nil {
		return refused
	}
	if q.StreamOptions != nil && !q.Stream {
		return badValue("stream_options", "", "Stream options can only be defined when `stream=True`.")
	}
	if refused := s.checkModel(q.Model); refused != nil {
		return refused
	}
	if len(q.Messages) == 0 {
		return bad("", "Cannot apply chat template to an empty conversation. Provide at least one message.")
	}
	if q.MaxCompletionTokens != nil {
		q.MaxTokens = q.MaxCompletionTokens
	}
	text := chatText(q.Messages)
	ask := string(q.Messages[len(q.Messages)-1].Content)
	j, refused := s.job(r, q.sampling, [][]int{s.engine.tokens.encode(text)}, text)
	if refused != nil {
		return refused
	}
	j.ask = ask
	j.id = "chatcmpl-" + j.id
	s.tell(j, w)
	if q.Stream {
		return s.streamChat(w, r, &q, j)
	}
	return s.wholeChat(w, r, &q, j)
}

func (s *Server) wholeChat(w http.ResponseWriter, r *http.Request, q *chatRequest, j *job) *refusal {
	all := s.sequences(j)
	if refused := whole(s.run(r.Context(), j, all, func(int, []token) error { return nil })); refused != nil {
		return refused
	}
	a := chat{
		ID: j.id, Object: "chat.completion", Created: j.arrived.Unix(), Model: s.answering(q.Model),
		Fingerprint: s.fingerprint, KV: s.transferred(j, j.id, all),
	}
	for i, seq := range all {
		text, ids := said(seq.answer.tokens)
		c := chatChoice{
			Index: i, Message: chatMessage{Role: "assistant", Content: text},
			Logprobs:     s.chatLogprobs(q, seq.answer.tokens),
			FinishReason: seq.answer.finish, StopReason: seq.answer.reason,
		}
		if q.ReturnTokenIDs {
			c.TokenIDs, a.PromptTokenIDs = ids, seq.prompt
		}
		a.Choices = append(a.Choices, c)
	}
	a.Usage.Usage = total(j, all)
	writeJSON(w, http.StatusOK, a)
	return nil
}

// A chatStream writes the chunks of one streamed chat.
type chatStream struct {
	s    *Server
	q    *chatRequest
	j    *job
	all  []*sequence
	want streamOptions
	ev   *events
	out  []int // tokens sent, per choice
}

func (s *Server) streamChat(w http.ResponseWriter, r *http.Request, q *chatRequest, j *job) *refusal {
	c := &chatStream{s: s, q: q, j: j, all: s.sequences(j), ev: &events{w: w}}
	c.out = make([]int, len(c.all))
	if q.StreamOptions != nil {
		c.want = *q.StreamOptions
	}
	err := s.run(r.Context(), j, c.all, c.emit)
	for i, seq := range c.all {
		if err == nil && len(seq.answer.tokens) == 0 {
			err = c.emit(i, nil)
		}
	}
	if err == nil && c.want.IncludeUsage {
		last := envelope[chatNextChoice](c)
		last.Choices = []chatNextChoice{}
		last.Usage = total(j, c.all)
		last.Fingerprint = s.fingerprint
		err = c.ev.send(last)
	}
	return c.ev.end(err)
}

func envelope[C any](c *chatStream, choices ...C) chatChunk[C] {
	return chatChunk[C]{
		ID: c.j.id, Object: "chat.completion.chunk", Created: c.j.arrived.Unix(), Model: c.s.answering(c.q.Model),
		Choices: choices,
	}
}

// running is the usage so far, if every chunk is to tell it.
func (c *chatStream) running(i int) any {
	if !c.want.ContinuousUsage {
		return nil
	}
	return chunkUsage{Usage: tokensUsed(len(c.all[i].prompt), c.out[i])}
}

func (c *chatStream) emit(i int, tokens []token) error {
	if !c.ev.started { // the roles of all choices come before the first token
		for k := range c.all {
			if err := c.role(k); err != nil {
				return err
			}
		}
	}
	seq := c.all[i]
	c.out[i] += len(tokens)
	text, ids := said(tokens)
	if !c.q.ReturnTokenIDs {
		ids = nil
	}
	probs := c.s.chatLogprobs(c.q, tokens)
	if c.out[i] < len(seq.answer.tokens) {
		chunk := envelope(c, chatNextChoice{Index: i, Delta: chatDelta{text}, Logprobs: probs, TokenIDs: ids})
		chunk.Usage = c.running(i)
		return c.ev.send(chunk)
	}
	chunk := envelope(c, chatLastChoice{
		Index: i, Delta: chatDelta{text}, Logprobs: probs, TokenIDs: ids,
		FinishReason: seq.answer.finish, StopReason: seq.answer.reason,
	})
	chunk.Usage = c.running(i)
	if !c.want.IncludeUsage {
		chunk.Fingerprint = c.s.fingerprint
	}
	return c.ev.send(chunk)
}

func (c *chatStream) role(i int) error {
	first := chatFirst{chatChunk: envelope(c, chatFirstChoice{Index: i, Delta: chatRole{Role: "assistant"}})}
	first.Usage = c.running(i)
	if c.q.ReturnTokenIDs {
		first.PromptTokenIDs = c.all[i].prompt
	}
	return c.ev.send(first)
}

func (s *Server) chatLogprobs(q *chatRequest, tokens []token) *chatLogprobs {
	if !q.Logprobs {
		return nil
	}
	top := 0
	if q.TopLogprobs != nil {
		top = min(*q.TopLogprobs, 20)
	}
	l := &chatLogprobs{Content: []chatLogprob{}}
	for _, t := range tokens {
		one := newChatLogprob(s.engine.tokens.decode(t.id))
		with := one
		for k := range top {
			if k > 0 {
				one = newChatLogprob(fmt.Sprintf("<sim alternative %d>", k))
			}
			with.Top = append(with.Top, one)
		}
		l.Content = append(l.Content, with)
	}
	return l
}

func newChatLogprob(text string) chatLogprob {
	p := chatLogprob{Token: text, Logprob: logprob, Bytes: []int{}}
	for i := range len(text) {
		p.Bytes = append(p.Bytes, int(text[i]))
	}
	return p
}
