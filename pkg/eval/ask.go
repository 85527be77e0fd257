package eval

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/profllm/profllm/pkg/load/answer"
)

// A Server is who is asked, and how.
type Server struct {
	URL         string // without /v1
	APIKey      string // sent as a bearer token unless empty
	Concurrency int    // most requests at once
	Timeout     time.Duration
	Client      *http.Client
	Progress    func(done, all int) // hears of every answer; nil: nobody does
}

// Stops are the texts at which an answer ends.
var Stops = []string{"Question", "Assistant:", "<|separator|>"}

// answerLimit bounds the body of one answer, in bytes.
const answerLimit = 4 << 20

// Ask asks the questions of a part that have no answer yet, and keeps every answer. A request that
// fails is kept as such; the error is that of a file that cannot be written, or of ctx.
func Ask(ctx context.Context, s Server, set *Set, part Shard, b *Book) error {
	open := b.Open(set, part)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	places := make(chan int)
	var workers sync.WaitGroup
	var mu sync.Mutex
	done := 0
	for range min(len(open), s.Concurrency) {
		workers.Go(func() {
			for i := range places {
				a := s.ask(ctx, set, i)
				if ctx.Err() != nil {
					continue // no answer: it was not waited for
				}
				if err := b.Add(a); err != nil {
					cancel(err)
					continue
				}
				mu.Lock()
				if done++; s.Progress != nil {
					s.Progress(done, len(open))
				}
				mu.Unlock()
			}
		})
	}
	for _, i := range open {
		select {
		case places <- i:
		case <-ctx.Done():
		}
	}
	close(places)
	workers.Wait()
	return context.Cause(ctx)
}

// request is the body of a request; absent members are the server's to choose.
type request struct {
	Model       string          `json:"model,omitempty"`
	Prompt      string          `json:"prompt,omitempty"`
	Messages    []message       `json:"messages,omitempty"`
	MaxTokens   int             `json:"max_tokens"`
	Stop        []string        `json:"stop"`
	Temperature *float64        `json:"temperature,omitempty"`
	Seed        *int            `json:"seed,omitempty"`
	TopP        *float64        `json:"top_p,omitempty"`
	TopK        *int            `json:"top_k,omitempty"`
	Effort      *string         `json:"reasoning_effort,omitempty"`
	Template    json.RawMessage `json:"chat_template_kwargs,omitempty"`
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// reply is what is read of an answer.
type reply struct {
	Choices []struct {
		Text    *string `json:"text"`
		Message struct {
			Content *string `json:"content"`
		} `json:"message"`
	} `json:"choices"`
	Usage struct {
		Tokens int `json:"completion_tokens"`
	} `json:"usage"`
}

// ask asks one question.
func (s *Server) ask(ctx context.Context, set *Set, i int) Answer {
	it := &set.Items[i]
	a := Answer{Question: i, ID: it.ID, Label: it.Label}
	text, tokens, err := s.send(ctx, set, it.Prompt)
	if err != nil {
		a.Error = err.Error()
		return a
	}
	a.Text, a.Tokens = text, tokens
	if n, ok := Number(text); ok {
		a.Number, a.Right = &n, n == it.Label
	}
	return a
}

func (s *Server) send(ctx context.Context, set *Set, prompt string) (string, int, error) {
	q := request{MaxTokens: set.MaxTokens, Stop: Stops, Temperature: set.Temperature, Seed: set.Seed, TopP: set.TopP,
		TopK: set.TopK, Model: set.Model}
	path := "/v1/completions"
	if set.Endpoint == Chat {
		path = "/v1/chat/completions"
		q.Messages = []message{{"user", prompt}}
		q.Effort, q.Template = set.Effort, set.Template
	} else {
		q.Prompt = prompt
	}
	body, err := json.Marshal(q)
	if err != nil {
		return "", 0, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.Timeout, fmt.Errorf("no whole answer within %s", s.Timeout))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+path, bytes.NewReader(body))
	if err != nil {
		return "", 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	if s.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+s.APIKey)
	}
	resp, err := s.Client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return "", 0, err
	}
	defer resp.Body.Close()
	return read(resp)
}

// read reads an answer; an empty text is one.
func read(resp *http.Response) (string, int, error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, answerLimit+1))
	switch {
	case err != nil:
		return "", 0, err
	case resp.StatusCode != http.StatusOK:
		return "", 0, errors.New(answer.StatusText(resp.Status, body))
	case len(body) > answerLimit:
		return "", 0, fmt.Errorf("the answer is longer than %d MiB", answerLimit>>20)
	}
	var r reply
	if err := json.Unmarshal(body, &r); err != nil {
		return "", 0, fmt.Errorf("an answer of another form: %w", err)
	}
	if len(r.Choices) == 0 {
		return "", 0, errors.New("an answer without choices")
	}
	switch c := r.Choices[0]; {
	case c.Text != nil:
		return *c.Text, r.Usage.Tokens, nil
	case c.Message.Content != nil:
		return *c.Message.Content, r.Usage.Tokens, nil
	}
	return "", r.Usage.Tokens, nil // a chat that has only reasoned
}
