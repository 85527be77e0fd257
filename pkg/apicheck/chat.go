package apicheck

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/profllm/profllm/pkg/load/answer"
	"github.com/profllm/profllm/pkg/quantity"
)

// talkTokens is how many tokens each chat asks for.
const talkTokens = 10

// talk is the request that all chats share.
func talk() request {
	return request{Messages: []message{{Role: "user", Content: "Hi"}}, MaxTokens: talkTokens}
}

func chats(ctx context.Context, s *Server) (string, error) {
	q := talk()
	q.Temperature = greedy()
	_, c, err := s.chat(ctx, q)
	if err != nil {
		return "", err
	}
	if c.Message.said() == "" {
		return "", fmt.Errorf("an empty content, finish_reason %s", c.Finish)
	}
	return fmt.Sprintf("%q", c.Message.said()), nil
}

func samples(ctx context.Context, s *Server) (string, error) {
	q := talk()
	q.Temperature, q.TopP = new(0.9), new(0.95)
	r, c, err := s.chat(ctx, q)
	if err != nil {
		return "", err
	}
	if c.Message.said() == "" && r.mute(c) {
		return "", fmt.Errorf("an empty content, finish_reason %s", c.Finish)
	}
	return fmt.Sprintf("%q", c.Message.said()), nil
}

// chat asks for one answer of the assistant.
func (s *Server) chat(ctx context.Context, q request) (*reply, *choice, error) {
	r, err := s.post(ctx, chatPath, q, 1)
	if err != nil {
		return nil, nil, err
	}
	c := &r.Choices[0]
	switch {
	case c.Message == nil:
		return nil, nil, errors.New("a choice without a message")
	case c.Message.Role != "assistant":
		return nil, nil, fmt.Errorf("a message of the role %q", c.Message.Role)
	}
	return r, c, nil
}

// streams reads a stream as the load client does, which also accepts one without [DONE].
func streams(ctx context.Context, s *Server) (string, error) {
	q := talk()
	q.Model, q.Temperature, q.Stream = s.model, greedy(), true
	resp, err := s.ask(ctx, http.MethodPost, chatPath, q)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var out answer.Outcome
	var r answer.Reader
	r.ResetBody(&out, answer.Wanted{Tokens: talkTokens, Text: true})
	failure := feed(&r, resp.Body)
	if failure != nil && !errors.Is(failure, errTooLong) {
		failure = broken(ctx, failure)
	}
	r.Close(0, failure)
	switch {
	case out.State != answer.Completed:
		return "", errors.New(out.Err)
	case !r.Done():
		return "", fmt.Errorf("the stream ended without [DONE] (after %d token events)", len(out.Tokens))
	case !r.Spoke():
		return "", fmt.Errorf("%s, none with a token", quantity.Count(len(out.Tokens), "event"))
	}
	return fmt.Sprintf("%s, %q, then [DONE]", quantity.Count(len(out.Tokens), "event"), out.Text), nil
}

// feed gives a body to a reader of streams, until the body ends or the reader has enough of it:
// then the reader knows why. An error is that of the body.
func feed(r *answer.Reader, body io.Reader) error {
	part := make([]byte, 32<<10)
	for total := 0; ; {
		n, err := body.Read(part)
		if total += n; total > answerLimit {
			return errTooLong
		}
		if _, enough := r.Feed(part[:n], 0); enough != nil || errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
