package dataset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/profllm/profllm/pkg/pyrand"
)

// A Tokenizer turns text into tokens as the model does that is measured.
type Tokenizer interface {
	// Encode returns the token ids of each text. special adds those that the model wants around a
	// prompt.
	Encode(ctx context.Context, texts []string, special bool) ([][]int, error)
	// Decode returns the text of each list of ids, with its special tokens.
	Decode(ctx context.Context, ids [][]int) ([]string, error)
	// Chat returns the token ids of each chat in the model's template, up to where its answer begins.
	Chat(ctx context.Context, chats []Messages, kwargs json.RawMessage) ([][]int, error)
}

// ErrNoTokenizer is that nobody can turn text into tokens.
var ErrNoTokenizer = errors.New("there is no tokenizer")

// A Source makes the requests that flags ask for.
type Source struct {
	*Flags
	Tokenizer  Tokenizer
	Chat       bool            // requests are chats, so that the server applies the model's template
	Pooling    bool            // requests are embedded or scored, and nothing is generated
	Kwargs     json.RawMessage // a JSON object: arguments of the model's chat template; nil is none
	Raw        bool            // no tokenizer is to be used: prompts are sent as they are
	Vocabulary int             // tokens of the model; 0 is unknown and taken as large
	// Local is the model's vocabulary from its tokenizer.json; nil if it is not to be used. With
	// it, drawn prompts have vLLM's very text.
	Local *Vocabulary
	// Fetch returns the path of a data set whose file has a known place, after it has fetched the
	// file if it is absent.
	Fetch func(ctx context.Context, name string) (string, error)
	Log   func(format string, args ...any)
	// PlainWords is set by Requests: plain words stand for tokens, because there is no tokenizer.
	PlainWords bool
	// Tokenized is set by Requests: the Tokenizer made or chose the prompts. That it was only tried does
	// not count.
	Tokenized bool

	most int // of a [holding]; 0 is the usual one
}

// drawing is what lasts as long as one call of Requests.
type drawing struct {
	ctx  context.Context
	path string
}

func sets() map[string]set {
	return map[string]set{
		"random":            {drawn: true, draw: (*Source).random},
		"random-mm":         {drawn: true, draw: (*Source).randomMM},
		"random-rerank":     {drawn: true, draw: (*Source).rerank},
		"prefix_repetition": {drawn: true, draw: (*Source).prefixRepetition},
		"custom":            {all: true, prompt: true, draw: (*Source).custom},
		"spec_bench":        {all: true, prompt: true, draw: (*Source).specBench},
		"speed_bench":       {all: true, prompt: true, draw: (*Source).speedBench},
		"sharegpt":          {fetch: true, draw: (*Source).sharegpt},
		"burstgpt":          {draw: (*Source).burstgpt},
		"sonnet":            {fetch: true, prompt: true, draw: (*Source).sonnet},
		"timed_trace":       {all: true, draw: (*Source).timedTrace},
		"hf":                {prompt: true, draw: (*Source).huggingFace},
	}
}

// Requests returns the requests of the chosen data set, which are at least one. There can be fewer
// than were asked for, where the data set says so.
func (s *Source) Requests(ctx context.Context) ([]Request, error) {
	set, ok := sets()[s.DatasetName]
	if !ok {
		return nil, fmt.Errorf("--dataset-name %q is unknown", s.DatasetName)
	}
	d := drawing{ctx, s.DatasetPath}
	if set.fetch && d.path == "" {
		path, err := s.Fetch(ctx, s.DatasetName)
		if err != nil {
			return nil, fmt.Errorf("fetch the data set %s: %w", s.DatasetName, err)
		}
		d.path = path
	}
	if err := s.tryLocal(ctx); err != nil {
		return nil, err
	}
	tokenizer := s.Tokenizer
	if tokenizer != nil {
		s.Tokenizer = noted{tokenizer, &s.Tokenized}
	}
	requests, err := set.draw(s, d)
	s.Tokenizer = tokenizer
	if err != nil {
		return nil, fmt.Errorf("data set %s: %w", s.DatasetName, err)
	}
	if len(requests) == 0 {
		return nil, fmt.Errorf("data set %s: %s has no entry that can be sent", s.DatasetName, d.path)
	}
	return requests, nil
}

// noted notes that a tokenizer was used.
type noted struct {
	Tokenizer
	used *bool
}

func (n noted) Encode(ctx context.Context, texts []string, special bool) ([][]int, error) {
	ids, err := n.Tokenizer.Encode(ctx, texts, special)
	*n.used = *n.used || err == nil && len(texts) > 0
	return ids, err
}

func (n noted) Chat(ctx context.Context, chats []Messages, kwargs json.RawMessage) ([][]int, error) {
	ids, err := n.Tokenizer.Chat(ctx, chats, kwargs)
	*n.used = *n.used || err == nil && len(chats) > 0
	return ids, err
}

func (n noted) Decode(ctx context.Context, ids [][]int) ([]string, error) {
	texts, err := n.Tokenizer.Decode(ctx, ids)
	*n.used = *n.used || err == nil && len(ids) > 0
	return texts, err
}

// tryLocal gives up vLLM's very text where nobody can decode and encode it. A trace needs the vocabulary
// alone.
func (s *Source) tryLocal(ctx context.Context) error {
	if s.Local == nil || s.DatasetName == "timed_trace" {
		return nil
	}
	err := ErrNoTokenizer
	if s.Tokenizer != nil {
		if _, err = s.Tokenizer.Decode(ctx, [][]int{s.Local.plain()[:1]}); err == nil {
			_, err = s.Tokenizer.Encode(ctx, []string{"a"}, false)
		}
	}
	if errors.Is(err, ErrNoTokenizer) {
		s.Log("drawn prompts are token ids and not vLLM's text, because %v", err)
		s.Local, err = nil, nil
	}
	return err
}

// batch is how many texts are given to the tokenizer at a time where nobody knows how many will be
// needed.
const batch = 64

// counts returns the tokens of each text. why says what needs them, in case that nobody can count.
func (s *Source) counts(ctx context.Context, texts []string, special bool, why string) ([]int, error) {
	ids, err := s.encode(ctx, texts, special)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", why, err)
	}
	n := make([]int, len(ids))
	for i := range ids {
		n[i] = len(ids[i])
	}
	return n, nil
}

func (s *Source) encode(ctx context.Context, texts []string, special bool) ([][]int, error) {
	if s.Tokenizer == nil {
		return nil, ErrNoTokenizer
	}
	return s.Tokenizer.Encode(ctx, texts, special)
}

// more repeats requests, drawn by the seed, until there are n, unless that is not wanted.
func (s *Source) more(requests []Request, n int, seed int64) []Request {
	if s.NoOversample || len(requests) == 0 || len(requests) >= n {
		return requests
	}
	entries := requests[:len(requests):len(requests)]
	rng := pyrand.FromInt(seed)
	for len(requests) < n {
		requests = append(requests, entries[rng.Below(len(entries))])
	}
	return requests
}

// shuffle brings entries into the order of random.shuffle, unless the order of the file is wanted.
func shuffle[T any](s *Source, seed int64, entries []T) {
	if !s.DisableShuffle {
		pyrand.FromInt(seed).Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
	}
}

// prompted makes the prompts of texts that the model's chat template goes around. Of a chat, that is
// the server's part. Of a completion, the server returns the tokens of the templated text, which
// are sent as they are: text that it tokenizes again would get its first token twice.
func (s *Source) prompted(ctx context.Context, requests []Request, chats []Messages, texts []string) error {
	switch {
	case s.Chat:
		for i := range requests {
			requests[i].Prompt = chats[i]
		}
		return nil
	case s.SkipChatTemplate || s.Pooling || s.Raw:
		for i := range requests {
			requests[i].Prompt = Text(texts[i])
		}
		return nil
	}
	if s.Tokenizer == nil {
		return s.noTemplate(ErrNoTokenizer)
	}
	ids, err := s.Tokenizer.Chat(ctx, chats, s.Kwargs)
	if err != nil {
		return s.noTemplate(err)
	}
	for i := range requests {
		if len(ids[i]) == 0 {
			return s.noTemplate(errors.New("the template makes an empty prompt"))
		}
		requests[i].Prompt, requests[i].Input = IDs(ids[i]), len(ids[i])
	}
	return nil
}

func (s *Source) noTemplate(err error) error {
	return fmt.Errorf("apply the model's chat template: %w; use --backend openai-chat, or --skip-chat-template to "+
		"send prompts as they are", err)
}

// plain makes the prompts of texts that are sent without a template: a chat of one message, or text.
func (s *Source) plain(text string) Prompt {
	if s.Chat {
		return UserMessage(text)
	}
	return Text(text)
}

func users(texts []string) []Messages {
	chats := make([]Messages, len(texts))
	for i, text := range texts {
		chats[i] = UserMessage(text)
	}
	return chats
}

// wanted is how many of the entries of a file are sent before any is repeated.
func (s *Source) wanted(entries int) int {
	if s.NumPrompts <= 0 {
		return entries
	}
	return s.NumPrompts
}

// fits is vLLM's filter of conversations: neither too short nor too long.
func fits(prompt, answer, mostPrompt, mostTotal int, anyAnswer bool) bool {
	const least = 4
	return prompt >= least && (anyAnswer || answer >= least) && prompt <= mostPrompt && prompt+answer <= mostTotal
}

// The filter's limits for most sets, in tokens.
const (
	mostPrompt = 1024
	mostTotal  = 2048
)
