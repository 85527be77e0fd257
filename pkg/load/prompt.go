package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"

	"github.com/profllm/profllm/pkg/load/dataset"
	"github.com/profllm/profllm/pkg/regular"
)

// A model is what requests and the result call the model.
type model struct {
	name       string // in requests
	id         string // in the result
	vocabulary int    // tokens; 0 is unknown
}

// model returns the model to ask for: from the flags, else the first one that the server lists.
func (s *server) model(ctx context.Context, o *Options) (model, error) {
	m := model{name: o.ServedModelName, id: o.Model}
	if o.Model == "" {
		var list struct {
			Data []struct{ ID, Root string }
		}
		if err := s.call(ctx, "GET", "/v1/models", nil, &list); err != nil {
			return model{}, fmt.Errorf("ask the server for its model, because --model is absent: %w", err)
		}
		if len(list.Data) == 0 {
			return model{}, errors.New("ask the server for its model, because --model is absent: the server lists none")
		}
		m.id = list.Data[0].Root
		if m.id == "" {
			m.id = list.Data[0].ID
		}
		if m.name == "" {
			m.name = list.Data[0].ID
		}
	}
	if m.name == "" {
		m.name = m.id
	}
	for _, folder := range []string{o.Tokenizer, o.Model} {
		if m.vocabulary == 0 && folder != "" {
			m.vocabulary = vocabulary(folder)
		}
	}
	return m, nil
}

// vocabulary returns the vocabulary size that a model folder's config.json names, or 0.
func vocabulary(folder string) int {
	raw, err := regular.ReadFile(filepath.Join(folder, "config.json"))
	if err != nil {
		return 0 // not a folder, or another kind of one: the size stays unknown
	}
	var c struct {
		Size int `json:"vocab_size"`
		Text struct {
			Size int `json:"vocab_size"`
		} `json:"text_config"`
	}
	if json.Unmarshal(raw, &c) != nil {
		return 0
	}
	return max(c.Size, c.Text.Size, 0)
}

// Prompts is what the requests of a load hold, and who turned text into tokens, or tokens into text,
// to make them.
type Prompts struct {
	Kind      string `json:"kind"`      // token_ids, text or messages
	Tokenizer string `json:"tokenizer"` // server, or none: nobody did
	// PlainWords says that words stand for tokens, as there is no tokenizer: lengths are about right.
	PlainWords bool `json:"plain_words,omitempty"`
	Pictures   int  `json:"pictures,omitempty"` // of all requests
}

// prompts describes the prompts of the requests.
func (b *bodies) prompts() Prompts {
	p := Prompts{Kind: kindOf(b.requests[0].Prompt), Tokenizer: "none", PlainWords: b.plainWords}
	if b.tokenized && !b.plainWords {
		p.Tokenizer = "server"
	}
	for i := range b.requests {
		p.Pictures += len(b.requests[i].Pictures)
	}
	return p
}

// kindOf is the word for a prompt's kind; several prompts in a request are of one kind.
func kindOf(p dataset.Prompt) string {
	switch p := p.(type) {
	case dataset.Tokens:
		return "token_ids"
	case dataset.Batch:
		return kindOf(p[0])
	case dataset.Messages, dataset.Illustrated, turn:
		return "messages"
	}
	return "text"
}

// askers is how many prompts are turned into text at a time.
const askers = 8

// tokenizeRounds is how often a text is re-cut until the server counts the tokens that were
// asked for.
const tokenizeRounds = 5

// An origin is where the text of prompts comes from.
type origin int

const (
	given      origin = iota // they were no token ids
	serverText               // the server made text of token ids
	plainWords               // words stand for tokens
)

// promptTexts makes text, or chat messages, of the prompts that are token ids, if they are. Their text
// is what the server's /detokenize makes of the ids, re-cut until its /tokenize counts the wanted
// number; a server without the two gets as many plain words. What the chat template adds is on top,
// as in vLLM; the result counts what the server's usage says.
func promptTexts(
	ctx context.Context, requests []dataset.Request, form promptForm, m model, api *server, stderr io.Writer,
) (made origin, err error) {
	if _, ok := requests[0].Prompt.(dataset.Tokens); !ok {
		return given, nil
	}
	first, exact, err := chatText(ctx, &requests[0], m, api)
	var refused *statusError
	if errors.As(err, &refused) || ctx.Err() == nil && err != nil {
		fmt.Fprintf(stderr, "prompts are plain words, because the server cannot turn tokens into text: %v\n", err)
		for i := range requests {
			r := &requests[i]
			r.Prompt = form.prompt(dataset.Words(r.Prompt.(dataset.Tokens).List(r.Input)), r.Pictures)
		}
		return plainWords, nil
	}
	if err != nil {
		return given, err
	}
	requests[0].Prompt = form.prompt(first, requests[0].Pictures)
	inexact, errs := 0, []error(nil)
	if !exact {
		inexact++
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	next := make(chan *dataset.Request)
	for range askers {
		wg.Go(func() {
			for r := range next {
				text, exact, err := chatText(ctx, r, m, api)
				r.Prompt = form.prompt(text, r.Pictures)
				mu.Lock()
				if !exact {
					inexact++
				}
				errs = append(errs, err)
				mu.Unlock()
			}
		})
	}
	for i := 1; i < len(requests); i++ {
		next <- &requests[i]
	}
	close(next)
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return given, fmt.Errorf("turn tokens into text: %w", err)
	}
	if inexact > 0 {
		fmt.Fprintf(stderr, "%d of %d prompts do not have their planned length by the server's token count\n", inexact,
			len(requests))
	}
	return serverText, nil
}

// chatText returns the text of a request and whether the server counts as many tokens as were
// wanted.
func chatText(ctx context.Context, r *dataset.Request, m model, api *server) (text string, exact bool, err error) {
	prompt, want := r.Prompt.(dataset.Tokens), r.Input
	ids := prompt.List(want)
	for range tokenizeRounds {
		var made struct{ Prompt string }
		in := map[string]any{"model": m.name, "tokens": ids}
		if err := api.call(ctx, "POST", "/detokenize", in, &made); err != nil {
			return "", false, err
		}
		text = made.Prompt
		var counted struct{ Tokens []int }
		in = map[string]any{"model": m.name, "prompt": text, "add_special_tokens": false}
		if err := api.call(ctx, "POST", "/tokenize", in, &counted); err != nil {
			return "", false, err
		}
		switch got := len(counted.Tokens); {
		case got == want:
			return text, true, nil
		case got > want:
			ids = counted.Tokens[:want]
		default:
			ids = append(counted.Tokens, prompt.List(want + (want - got))[want:]...)
		}
	}
	return text, false, nil
}

// prompt returns a text, with its pictures unless they are nil, as a prompt of that form.
func (f promptForm) prompt(text string, pictures [][]byte) dataset.Prompt {
	switch {
	case pictures != nil:
		return dataset.Illustrated{Text: text, Pictures: pictures}
	case f == chatPrompt:
		return dataset.UserMessage(text)
	}
	return dataset.Text(text)
}
