package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/profllm/profllm/pkg/regular"
)

// A sample is the size of one request, in tokens. input includes the shared prefix.
type sample struct{ input, output int }

// drawSamples draws the lengths of all requests.
func drawSamples(o *Options) []sample {
	rng := rand.New(rand.NewPCG(uint64(o.Seed), lengthStream))
	draw := func(length int, ratio float64, least int) int {
		lo := max(int(math.Floor(float64(length)*(1-ratio))), least)
		hi := int(math.Ceil(float64(length) * (1 + ratio)))
		return lo + rng.IntN(max(hi-lo, 0)+1)
	}
	samples := make([]sample, o.NumPrompts)
	for i := range samples {
		in := draw(o.inputLen(), o.RandomRangeRatio.Input, 0) + o.RandomPrefixLen
		samples[i] = sample{max(in, 1), draw(o.outputLen(), o.RandomRangeRatio.Output, 1)}
	}
	return samples
}

// Token ids are drawn from [lowestID, highestID): text in every vocabulary of the field. Below
// lie the special tokens of SentencePiece (0-2), byte fallbacks (3-258) and Mistral's control
// tokens (0-999); the special tokens of GPT-2, Llama 3 and Qwen lie above 50,000.
const (
	lowestID  = 1000
	highestID = 10000
)

// An idSource yields the token ids of random prompts: the same ones for the same seed, and
// prompts that share no token at their start beyond the prefix (with more prompts than ids, at
// most one).
type idSource struct {
	seed   uint64
	prefix int // tokens
	count  int // prompts
	lo, n  int // ids are lo to lo+n-1
}

// newIDSource keeps ids below the vocabulary's size; 0 is unknown and taken as large.
func newIDSource(o *Options, vocabulary int) idSource {
	lo, hi := lowestID, highestID
	if vocabulary > 0 && vocabulary < hi {
		hi = max(vocabulary, 2)
		lo = min(lo, hi/2)
	}
	return idSource{uint64(o.Seed), o.RandomPrefixLen, o.NumPrompts, lo, hi - lo}
}

// each calls yield with the first length ids of prompt i.
func (s *idSource) each(i, length int, yield func(id int)) {
	var rng rand.PCG
	draw := func() int { return s.lo + int((rng.Uint64()>>32)*uint64(s.n)>>32) }
	rng.Seed(s.seed, prefixStream)
	for range min(s.prefix, length) {
		yield(draw())
	}
	rng.Seed(s.seed, promptStream<<48|uint64(i))
	for k := range max(length-s.prefix, 0) {
		id := draw()
		switch {
		case k == 0:
			id = s.lo + (i+int(s.seed%uint64(s.n)))%s.n
		case k == 1 && s.count > s.n:
			id = s.lo + i/s.n%s.n
		}
		yield(id)
	}
}

// appendJSON appends the ids of prompt i as a JSON array.
func (s *idSource) appendJSON(dst []byte, i, length int) []byte {
	dst = append(dst, '[')
	s.each(i, length, func(id int) {
		dst = append(strconv.AppendInt(dst, int64(id), 10), ',')
	})
	dst[len(dst)-1] = ']' // over the last comma; a prompt has at least one token
	return dst
}

// list returns the ids of prompt i.
func (s *idSource) list(i, length int) []int {
	ids := make([]int, 0, length)
	s.each(i, length, func(id int) { ids = append(ids, id) })
	return ids
}

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

// askers is how many prompts are turned into text at a time.
const askers = 8

// tokenizeRounds is how often a text is re-cut until the server counts the tokens that were
// asked for.
const tokenizeRounds = 5

// chatTexts returns the messages of every sample. The text is what the server's /detokenize
// makes of random ids, re-cut until its /tokenize counts the wanted number; a server without
// the two gets as many plain words. What the chat template adds is on top, as in vLLM; the
// result counts what the server's usage says.
func chatTexts(ctx context.Context, b *bodies, m model, api *server, stderr io.Writer) ([]json.RawMessage, error) {
	texts := make([]json.RawMessage, len(b.samples))
	first, exact, err := chatText(ctx, b, 0, m, api)
	var refused *statusError
	if errors.As(err, &refused) || ctx.Err() == nil && err != nil {
		fmt.Fprintf(stderr, "prompts are plain words, because the server cannot turn tokens into text: %v\n", err)
		for i := range texts {
			texts[i] = userMessage(wordText(b, i))
		}
		return texts, nil
	}
	if err != nil {
		return nil, err
	}
	texts[0] = userMessage(first)
	inexact, errs := 0, []error(nil)
	if !exact {
		inexact++
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	next := make(chan int)
	for range askers {
		wg.Go(func() {
			for i := range next {
				text, exact, err := chatText(ctx, b, i, m, api)
				mu.Lock()
				texts[i] = userMessage(text)
				if !exact {
					inexact++
				}
				errs = append(errs, err)
				mu.Unlock()
			}
		})
	}
	for i := 1; i < len(texts); i++ {
		next <- i
	}
	close(next)
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("turn tokens into text: %w", err)
	}
	if inexact > 0 {
		fmt.Fprintf(stderr, "%d of %d prompts do not have their planned length by the server's token count\n", inexact,
			len(texts))
	}
	return texts, nil
}

// chatText returns the text of sample i and whether the server counts as many tokens as were
// wanted.
func chatText(ctx context.Context, b *bodies, i int, m model, api *server) (text string, exact bool, err error) {
	want := b.samples[i].input
	ids := b.ids.list(i, want)
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
			more := b.ids.list(i, want+(want-got))
			ids = append(counted.Tokens, more[want:]...)
		}
	}
	return text, false, nil
}

func userMessage(text string) json.RawMessage {
	raw, err := json.Marshal([]map[string]string{{"role": "user", "content": text}})
	if err != nil {
		panic(err) // strings always marshal
	}
	return raw
}

// words are one token each in the vocabularies of the field.
const words = "time year people way day man thing woman life child world school state family student group country " +
	"problem hand part place case week company system program question work government number night point home water " +
	"room mother area money story fact month lot right study book eye job word business issue side kind head house"

// wordText returns a text of as many words as sample i has tokens.
func wordText(b *bodies, i int) string {
	list := strings.Fields(words)
	var text strings.Builder
	b.ids.each(i, b.samples[i].input, func(id int) {
		if text.Len() > 0 {
			text.WriteByte(' ')
		}
		text.WriteString(list[id%len(list)])
	})
	return text.String()
}
