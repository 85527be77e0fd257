package dataset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
)

// A RangeRatio spreads the lengths of random prompts and answers: a length L is drawn from
// floor(L*(1-r)) to ceil(L*(1+r)). On the command line it is a number, or a JSON object with
// input and output.
type RangeRatio struct {
	Input  float64 `json:"input"`
	Output float64 `json:"output"`
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (r *RangeRatio) UnmarshalText(text []byte) error {
	if f, err := strconv.ParseFloat(string(text), 64); err == nil {
		*r = RangeRatio{f, f}
	} else {
		type plain RangeRatio // without this method
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode((*plain)(r)); err != nil {
			return fmt.Errorf("%q is neither a number nor a JSON object with input and output: %w", text, err)
		}
	}
	if !(r.Input >= 0 && r.Input < 1 && r.Output >= 0 && r.Output < 1) {
		return errors.New("a range ratio must be in [0, 1)")
	}
	return nil
}

// Streams of random numbers drawn from one seed; each use has its own, so that changing one
// leaves the others. Package load draws arrivals from stream 1.
const (
	lengthStream = 2 + iota
	prefixStream
	promptStream
)

// random makes random prompts of a given length: exact token ids, which are drawn while a request
// is rendered, so that none are kept; or vLLM's very text.
func (s *Source) random(d drawing) ([]Request, error) {
	if s.RandomBatchSize > 1 && !s.Pooling {
		return nil, errors.New("--random-batch-size is for backends that generate nothing")
	}
	if s.Local != nil {
		return s.randomText(d)
	}
	return s.Random(s.Vocabulary), nil
}

// Random makes the requests of the data set random from exact token ids. vocabulary is the number
// of tokens that the model knows; 0 is unknown and taken as large.
func (f *Flags) Random(vocabulary int) []Request {
	rng := rand.New(rand.NewPCG(uint64(f.Seed), lengthStream))
	draw := func(length int, ratio float64, least int) int {
		lo, hi := spread(length, ratio)
		lo = max(lo, least)
		return lo + rng.IntN(max(hi-lo, 0)+1)
	}
	source := newIDSource(f, vocabulary)
	requests := make([]Request, f.NumPrompts)
	prompts := make([]drawn, f.NumPrompts)
	for i := range requests {
		in := max(draw(f.RandomInput(), f.RandomRangeRatio.Input, 0)+f.RandomPrefixLen, 1)
		prompts[i] = drawn{&source, i, in}
		requests[i] = Request{Prompt: &prompts[i], Input: in,
			Output: draw(f.RandomOutput(), f.RandomRangeRatio.Output, 1)}
	}
	return requests
}

// Outputs draws the lengths of n answers to prompts that are not drawn, in tokens: by
// --random-output-len and the range ratio of outputs.
func (f *Flags) Outputs(n int) []int {
	rng := rand.New(rand.NewPCG(uint64(f.Seed), lengthStream))
	lo, hi := spread(f.RandomOutput(), f.RandomRangeRatio.Output)
	lo = max(lo, 1)
	lengths := make([]int, n)
	for i := range lengths {
		lengths[i] = lo + rng.IntN(max(hi-lo, 0)+1)
	}
	return lengths
}

// spread returns the bounds between which lengths are drawn.
func spread(length int, ratio float64) (lo, hi int) {
	return int(math.Floor(float64(length) * (1 - ratio))), int(math.Ceil(float64(length) * (1 + ratio)))
}

// Batches puts so many prompts into one request each.
func Batches(requests []Request, size int) []Request {
	var out []Request
	for start := 0; start < len(requests); start += size {
		part := requests[start:min(start+size, len(requests))]
		var prompts Batch
		input := 0
		for _, r := range part {
			prompts = append(prompts, r.Prompt)
			input += r.Input
		}
		out = append(out, Request{Prompt: prompts, Input: input})
	}
	return out
}

// drawn is a random prompt: its place in the load and its length.
type drawn struct {
	source    *idSource
	i, length int
}

// AppendJSON implements [Prompt].
func (p *drawn) AppendJSON(dst []byte) []byte { return p.source.appendJSON(dst, p.i, p.length) }

// List implements [Tokens].
func (p *drawn) List(n int) []int { return p.source.list(p.i, n) }

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
	group  int // prompts of one group share their prefix
}

// newIDSource keeps ids below the vocabulary's size; 0 is unknown and taken as large.
func newIDSource(f *Flags, vocabulary int) idSource {
	lo, n := idRange(vocabulary)
	return idSource{uint64(f.Seed), f.RandomPrefixLen, f.NumPrompts, lo, n, 0}
}

// idRange returns the lowest id of plain text in a vocabulary of that size, and how many follow.
func idRange(vocabulary int) (lo, n int) {
	lo, hi := lowestID, highestID
	if vocabulary > 0 && vocabulary < hi {
		hi = max(vocabulary, 2)
		lo = min(lo, hi/2)
	}
	return lo, hi - lo
}

// each calls yield with the first length ids of prompt i.
func (s *idSource) each(i, length int, yield func(id int)) {
	var rng rand.PCG
	draw := func() int { return s.lo + int((rng.Uint64()>>32)*uint64(s.n)>>32) }
	rng.Seed(s.seed, prefixStream+uint64(s.group)<<8)
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

// rerankWords is rerankTexts without a tokenizer: plain words, most of which are one token.
func (s *Source) rerankWords(n, queryLen, between int) (texts []string, lengths []int, err error) {
	docLen := s.RandomInput()
	if !s.NoReranker {
		docLen -= queryLen + between
	}
	rng := rand.New(rand.NewPCG(uint64(s.Seed), lengthStream))
	source := newIDSource(s.Flags, 0)
	for i := range n + 1 {
		lo, hi := spread(docLen, s.RandomRangeRatio.Input)
		if i == 0 {
			lo, hi = spread(queryLen, s.RandomRangeRatio.Input)
		}
		lo, hi = max(lo, 1), max(hi, 1)
		length := lo + rng.IntN(hi-lo+1)
		texts, lengths = append(texts, Words(source.list(i, length))), append(lengths, length)
	}
	s.PlainWords = true
	s.Log("queries and documents are plain words, because there is no tokenizer: their lengths are about right")
	return texts, lengths, nil
}

// words are one token each in the vocabularies of the field.
const words = "time year people way day man thing woman life child world school state family student group country " +
	"problem hand part place case week company system program question work government number night point home water " +
	"room mother area money story fact month lot right study book eye job word business issue side kind head house"

// Words returns a text of as many plain words as there are ids.
func Words(ids []int) string {
	list := strings.Fields(words)
	var text strings.Builder
	for i, id := range ids {
		if i > 0 {
			text.WriteByte(' ')
		}
		text.WriteString(list[id%len(list)])
	}
	return text.String()
}
