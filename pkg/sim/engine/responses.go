package engine

import (
	"encoding/json"
	"errors"
	"net/http"
)

type responsesRequest struct {
	sampling
	Input     *inputItems `json:"input"`
	MaxTokens *int        `json:"max_output_tokens"`
}

func (*responsesRequest) required() []string { return []string{"input"} }

// inputItems are the messages of a request to the Responses API; a text is one of a user.
type inputItems []message

func (l *inputItems) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) == nil {
		*l = inputItems{{Role: "user", Content: content(text)}}
		return nil
	}
	if json.Unmarshal(b, (*[]message)(l)) != nil {
		return errors.New("input is neither text nor messages")
	}
	return nil
}

// A response is the part of the real one that clients read.
type response struct {
	ID         string          `json:"id"`
	Created    int64           `json:"created_at"`
	Incomplete *incomplete     `json:"incomplete_details"`
	Model      string          `json:"model"`
	Object     string          `json:"object"`
	Output     []responseItem  `json:"output"`
	MaxTokens  int             `json:"max_output_tokens"`
	Status     string          `json:"status"`
	Usage      *responsesUsage `json:"usage"`
}

type incomplete struct {
	Reason string `json:"reason"`
}

type responseItem struct {
	ID      string         `json:"id"`
	Content []responseText `json:"content"`
	Role    string         `json:"role"`
	Status  string         `json:"status"`
	Type    string         `json:"type"`
}

type responseText struct {
	Annotations []any  `json:"annotations"`
	Text        string `json:"text"`
	Type        string `json:"type"`
}

type responsesUsage struct {
	Input  int `json:"input_tokens"`
	Output int `json:"output_tokens"`
	Total  int `json:"total_tokens"`
}

// A responseEvent is one event of a stream. The real ones have more keys.
type responseEvent struct {
	Delta    *string   `json:"delta,omitempty"`
	ItemID   string    `json:"item_id,omitempty"`
	Response *response `json:"response,omitempty"`
	Sequence int       `json:"sequence_number"`
	Text     *string   `json:"text,omitempty"`
	Type     string    `json:"type"`
}

// responses answers the Responses API, with the prompt and the answer that chat would have.
func (s *Server) responses(w http.ResponseWriter, r *http.Request) *refusal {
	var q responsesRequest
	if refused := decode(r, &q); refused != nil {
		return refused
	}
	if refused := s.checkModel(q.Model); refused != nil {
		return refused
	}
	if q.Input == nil || len(*q.Input) == 0 {
		return bad("", "Cannot apply chat template to an empty conversation. Provide at least one message.")
	}
	q.sampling.MaxTokens = q.MaxTokens
	text := chatText(*q.Input)
	j, refused := s.job(r, q.sampling, [][]int{s.engine.tokens.encode(text)}, text)
	if refused != nil {
		return refused
	}
	all := s.sequences(j)[:1]
	out := &response{ID: "resp_" + j.id, Created: j.arrived.Unix(), Model: s.answering(q.Model), Object: "response",
		Output: []responseItem{}, MaxTokens: j.max, Status: "in_progress"}
	if q.Stream {
		return s.streamResponse(w, r, j, all, out)
	}
	if refused := whole(s.run(r.Context(), j, all, func(int, []token) error { return nil })); refused != nil {
		return refused
	}
	out.finish(j, all)
	writeJSON(w, http.StatusOK, out)
	return nil
}

// finish adds the answer. One that reached its length is incomplete.
func (a *response) finish(j *job, all []*sequence) {
	text, _ := said(all[0].answer.tokens)
	a.Output = []responseItem{{ID: "msg_" + j.id, Content: []responseText{{[]any{}, text, "output_text"}},
		Role: "assistant", Status: "completed", Type: "message"}}
	if a.Status = "completed"; all[0].answer.finish == "length" {
		a.Status, a.Incomplete = "incomplete", &incomplete{"max_output_tokens"}
	}
	u := total(j, all)
	a.Usage = &responsesUsage{u.Prompt, u.Completion, u.Total}
}

func (s *Server) streamResponse(
	w http.ResponseWriter, r *http.Request, j *job, all []*sequence, out *response,
) *refusal {
	ev, n := &events{w: w}, 0
	send := func(e responseEvent) error {
		e.Sequence = n
		n++
		text, err := encodeJSON(e)
		if err != nil {
			return err
		}
		return ev.named(e.Type, text)
	}
	begin := func() error {
		return errors.Join(send(responseEvent{Response: out, Type: "response.created"}),
			send(responseEvent{Response: out, Type: "response.in_progress"}))
	}
	err := s.run(r.Context(), j, all, func(_ int, tokens []token) error {
		if n == 0 {
			if err := begin(); err != nil {
				return err
			}
		}
		text, _ := said(tokens)
		return send(responseEvent{Delta: &text, ItemID: "msg_" + j.id, Type: "response.output_text.delta"})
	})
	if err == nil && n == 0 {
		err = begin()
	}
	if err == nil {
		out.finish(j, all)
		err = errors.Join(
			send(responseEvent{Text: &out.Output[0].Content[0].Text, ItemID: "msg_" + j.id, Type: "response.output_text.done"}),
			send(responseEvent{Response: out, Type: "response.completed"}))
	}
	switch {
	case err == nil:
		return nil
	case isTransfer(err) && !ev.started:
		return internal()
	}
	panic(http.ErrAbortHandler)
}
