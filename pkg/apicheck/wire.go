package apicheck

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/profllm/profllm/pkg/load/answer"
	"github.com/profllm/profllm/pkg/quantity"
)

// A request is the body of a request. Only keys that every server knows are sent.
type request struct {
	Model       string    `json:"model"`
	Prompt      any       `json:"prompt,omitempty"` // string or []string
	Messages    []message `json:"messages,omitempty"`
	MaxTokens   int       `json:"max_tokens"`
	Temperature *float64  `json:"temperature,omitempty"`
	TopP        *float64  `json:"top_p,omitempty"`
	N           int       `json:"n,omitempty"`
	Logprobs    int       `json:"logprobs,omitempty"`
	Stop        []string  `json:"stop,omitempty"`
	Echo        bool      `json:"echo,omitempty"`
	Stream      bool      `json:"stream,omitempty"`
}

// A message is one turn of a chat. A model that reasons may have come to no content within the
// few tokens that are asked for; vLLM names its reasoning "reasoning", others "reasoning_content".
type message struct {
	Role             string `json:"role"`
	Content          string `json:"content"`
	Reasoning        string `json:"reasoning,omitempty"`
	ReasoningContent string `json:"reasoning_content,omitempty"`
}

// said is what a message has to say.
func (m *message) said() string { return m.Content + m.Reasoning + m.ReasoningContent }

// A reply is the body of an answer.
type reply struct {
	Choices []choice `json:"choices"`
	Usage   *usage   `json:"usage"`
}

type choice struct {
	Index    *int            `json:"index"`
	Text     *string         `json:"text"`
	Message  *message        `json:"message"`
	Finish   json.RawMessage `json:"finish_reason"`
	Logprobs *logprobs       `json:"logprobs"`
}

// logprobs are those of completions. The first token of a prompt has none, so a value may be null.
type logprobs struct {
	Tokens []string             `json:"tokens"`
	Values []*float64           `json:"token_logprobs"`
	Top    []map[string]float64 `json:"top_logprobs"`
}

type usage struct {
	Prompt     *int `json:"prompt_tokens"`
	Completion *int `json:"completion_tokens"`
	Total      *int `json:"total_tokens"`
}

// stopped is the finish_reason of an answer that ended by itself, or at a stop string.
const stopped = `"stop"`

// greedy is the temperature at which the same request has the same answer.
func greedy() *float64 { return new(0.0) }

// post sends a request and returns its n choices, by their indices.
func (s *Server) post(ctx context.Context, path string, q request, n int) (*reply, error) {
	q.Model = s.model
	var r reply
	if err := s.call(ctx, http.MethodPost, path, q, &r); err != nil {
		return nil, err
	}
	if err := r.arrange(n); err != nil {
		return nil, err
	}
	return &r, r.Usage.check()
}

// complete asks for one completion, and returns its choice, which has a text.
func (s *Server) complete(ctx context.Context, q request) (*reply, *choice, error) {
	r, err := s.post(ctx, completionsPath, q, 1)
	if err != nil {
		return nil, nil, err
	}
	return r, &r.Choices[0], r.hasTexts()
}

// arrange puts the choices in the order of their indices, of which each must be there once.
func (r *reply) arrange(n int) error {
	if r.Choices == nil {
		return errors.New("an answer without choices")
	}
	if len(r.Choices) != n {
		return fmt.Errorf("%s instead of %d", quantity.Count(len(r.Choices), "choice"), n)
	}
	sorted := make([]choice, n)
	taken := make([]bool, n)
	for _, c := range r.Choices {
		switch {
		case c.Index == nil:
			return errors.New("a choice without an index")
		case *c.Index < 0 || *c.Index >= n:
			return fmt.Errorf("a choice with the index %d, of %s", *c.Index, quantity.Count(n, "choice"))
		case taken[*c.Index]:
			return fmt.Errorf("two choices with the index %d", *c.Index)
		case len(c.Finish) == 0 || string(c.Finish) == "null":
			return errors.New("a choice without a finish_reason")
		case !answer.Succeeded(c.Finish):
			return fmt.Errorf("finish_reason %s", c.Finish)
		}
		sorted[*c.Index], taken[*c.Index] = c, true
	}
	r.Choices = sorted
	return nil
}

// hasTexts checks that every choice has a text, be it empty.
func (r *reply) hasTexts() error {
	for i := range r.Choices {
		if r.Choices[i].Text == nil {
			return fmt.Errorf("choice %d has no text", i)
		}
	}
	return nil
}

// check checks the sum of a usage, which a server need not send.
func (u *usage) check() error {
	switch {
	case u == nil:
		return nil
	case u.Prompt == nil || u.Completion == nil:
		return errors.New("a usage without prompt_tokens and completion_tokens")
	case *u.Prompt < 1 || *u.Completion < 0:
		return fmt.Errorf("a usage of %d prompt tokens and %d completion tokens", *u.Prompt, *u.Completion)
	case u.Total != nil && *u.Total != *u.Prompt+*u.Completion:
		return fmt.Errorf("a usage that does not add up: %d prompt tokens and %d completion tokens, but %d in total",
			*u.Prompt, *u.Completion, *u.Total)
	}
	return nil
}

// mute reports whether a choice without text is one that did not speak. A model may end its
// answer with its first token: then the server says so.
func (r *reply) mute(c *choice) bool {
	ended := string(c.Finish) == stopped && r.Usage != nil && *r.Usage.Completion > 0
	return !ended
}
