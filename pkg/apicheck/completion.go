package apicheck

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/profllm/profllm/pkg/quantity"
)

func listsModels(ctx context.Context, s *Server) (string, error) {
	ids, err := s.models(ctx)
	if err != nil {
		return "", err
	}
	if !slices.Contains(ids, s.model) {
		return "", fmt.Errorf("%s without %q", quantity.Count(len(ids), "model"), s.model)
	}
	return fmt.Sprintf("%s: %s", quantity.Count(len(ids), "model"), strings.Join(ids, ", ")), nil
}

func completes(ctx context.Context, s *Server) (string, error) {
	_, c, err := s.complete(ctx, request{Prompt: "Hello", MaxTokens: 10, Temperature: greedy()})
	if err != nil {
		return "", err
	}
	if *c.Text == "" {
		return "", fmt.Errorf("an empty text, finish_reason %s", c.Finish)
	}
	return fmt.Sprintf("%q", *c.Text), nil
}

func batches(ctx context.Context, s *Server) (string, error) {
	return s.several(ctx, request{Prompt: []string{"Once", "In"}, MaxTokens: 10, Temperature: greedy()})
}

// multiplies draws: the same text twice would say little, and vLLM refuses several greedy choices.
func multiplies(ctx context.Context, s *Server) (string, error) {
	return s.several(ctx, request{Prompt: "Hi", MaxTokens: 10, N: 2})
}

// several asks for completions that make two choices.
func (s *Server) several(ctx context.Context, q request) (string, error) {
	r, err := s.post(ctx, completionsPath, q, 2)
	if err != nil {
		return "", err
	}
	if err := r.hasTexts(); err != nil {
		return "", err
	}
	for i := range r.Choices {
		if c := &r.Choices[i]; *c.Text == "" && r.mute(c) {
			return "", fmt.Errorf("choice %d has an empty text, finish_reason %s", i, c.Finish)
		}
	}
	return fmt.Sprintf("%q and %q", *r.Choices[0].Text, *r.Choices[1].Text), nil
}

func echoes(ctx context.Context, s *Server) (string, error) {
	const prompt = "Hello"
	r, c, err := s.complete(ctx, request{Prompt: prompt, MaxTokens: 5, Echo: true, Temperature: greedy()})
	if err != nil {
		return "", err
	}
	switch {
	case !strings.HasPrefix(*c.Text, prompt):
		return "", fmt.Errorf("a text that does not begin with %q: %q", prompt, *c.Text)
	case *c.Text == prompt && r.mute(c):
		return "", fmt.Errorf("the prompt and nothing after it, finish_reason %s", c.Finish)
	}
	return fmt.Sprintf("%q", *c.Text), nil
}

func givesLogprobs(ctx context.Context, s *Server) (string, error) {
	const asked = 5
	r, c, err := s.complete(ctx, request{Prompt: "Hello", MaxTokens: 5, Logprobs: asked, Temperature: greedy()})
	if err != nil {
		return "", err
	}
	l := c.Logprobs
	if l == nil {
		return "", errors.New("a choice without logprobs")
	}
	n := len(l.Tokens)
	switch {
	case n == 0:
		return "", errors.New("logprobs without tokens")
	case len(l.Values) != n || len(l.Top) != n:
		return "", fmt.Errorf("logprobs with %s, %d token_logprobs and %d top_logprobs", quantity.Count(n, "token"),
			len(l.Values), len(l.Top))
	case r.Usage != nil && *r.Usage.Completion != n:
		return "", fmt.Errorf("logprobs of %s, but the usage counts %d", quantity.Count(n, "token"), *r.Usage.Completion)
	}
	for i, v := range l.Values {
		switch {
		case v == nil:
			return "", fmt.Errorf("token %d without a log probability", i)
		case *v > slack:
			return "", fmt.Errorf("token %d with the log probability %g, above 0", i, *v)
		case len(l.Top[i]) == 0 || len(l.Top[i]) > asked+1: // the token itself may come on top
			return "", fmt.Errorf("token %d with %d top_logprobs instead of %d", i, len(l.Top[i]), asked)
		}
	}
	return fmt.Sprintf("%s, the first %q with %.4g", quantity.Count(n, "token"), l.Tokens[0], *l.Values[0]), nil
}

// slack is how far rounding may lift the log probability of a certain token above 0.
const slack = 1e-3

// stops asks twice, since no string is known that a model will say: the second request stops
// where the first answer has its middle.
func stops(ctx context.Context, s *Server) (string, error) {
	q := request{Prompt: "1.", MaxTokens: 20, Temperature: greedy()}
	_, first, err := s.complete(ctx, q)
	if err != nil {
		return "", fmt.Errorf("without stop strings: %w", err)
	}
	q.Stop = []string{"3."}
	stop := middle(*first.Text)
	if stop != "" {
		q.Stop = []string{stop, "3."}
	}
	_, second, err := s.complete(ctx, q)
	if err != nil {
		return "", err
	}
	return stoppedBefore(*first.Text, second, q.Stop)
}

// stoppedBefore holds the answer with stop strings against the one without.
func stoppedBefore(whole string, c *choice, stops []string) (string, error) {
	text, due, at := *c.Text, "", len(whole)
	for _, stop := range stops {
		if strings.Contains(text, stop) {
			return "", fmt.Errorf("the text has the stop string %q: %q", stop, text)
		}
		if i := strings.Index(whole, stop); i >= 0 && i < at {
			due, at = stop, i
		}
	}
	before := strings.TrimSpace(whole[:at]) // some servers trim what they answer
	switch text := strings.TrimSpace(text); {
	case due == "":
		return fmt.Sprintf("%q, which no stop string could end", text), nil
	case text == before && string(c.Finish) != stopped:
		return "", fmt.Errorf("the text ends at the stop string %q, but finish_reason is %s", due, c.Finish)
	case text == before:
		return fmt.Sprintf("%q, then %q was due", text, due), nil
	case strings.HasPrefix(before, text):
		return "", fmt.Errorf("the text ends before the stop string %q was due: %q", due, text)
	}
	return fmt.Sprintf("%q, another text than without stop strings", text), nil
}

// stopSize is how many characters a stop string has.
const stopSize = 3

// middle is a part of the third quarter of a text, for a stop string: not only white space, and of
// whole characters. Of several, it is the one that the text has last for the first time, so that
// a text that repeats itself is not stopped at its begin. At its end, the limit of tokens would
// stop it as well. "" if there is none.
func middle(text string) string {
	runes := []rune(text)
	best, at := "", -1
	for i := len(runes) / 2; i <= len(runes)*3/4 && i+stopSize <= len(runes); i++ {
		part := runes[i : i+stopSize]
		if slices.Contains(part, utf8.RuneError) || slices.ContainsFunc(part, unicode.IsControl) ||
			strings.TrimSpace(string(part)) == "" {
			continue
		}
		if first := strings.Index(text, string(part)); first > at {
			best, at = string(part), first
		}
	}
	return best
}
