package dataset

import (
	"fmt"
	"slices"

	"github.com/profllm/profllm/pkg/pyrand"
)

// recuts is how often vLLM cuts a text anew until it has the wanted number of tokens.
const recuts = 10

// A fitter makes texts of a wanted number of tokens as vLLM does: it decodes ids, encodes the text
// again and cuts or fills up what comes out, until the number is right.
type fitter struct {
	s     *Source
	d     drawing
	draw  func(k int) []int // that many ids to fill up with
	wrong int               // texts that did not get their length
}

// fit returns the text of ids that has want tokens, and its tokens.
func (f *fitter) fit(ids []int, want int) (text string, tokens []int, err error) {
	for round := 0; ; round++ {
		texts, err := f.s.Tokenizer.Decode(f.d.ctx, [][]int{ids})
		if err != nil {
			return "", nil, fmt.Errorf("turn token ids into text: %w", err)
		}
		encoded, err := f.s.encode(f.d.ctx, texts, false)
		if err != nil {
			return "", nil, fmt.Errorf("turn text into token ids: %w", err)
		}
		text, ids = texts[0], slices.Clone(encoded[0])
		switch n := len(ids); {
		case n == want:
			return text, ids, nil
		case round == recuts:
			f.wrong++
			return text, ids, nil
		case n < want:
			ids = append(ids, f.draw(want-n)...)
		default:
			ids = ids[:want]
		}
	}
}

// fitAll is fit for many lists of ids. Most have their length at once, so that all are tried
// together first; the others draw in their order, as if each had been tried in turn.
func (f *fitter) fitAll(lists [][]int, want []int) (texts []string, tokens [][]int, err error) {
	if texts, tokens, err = f.first(lists); err != nil {
		return nil, nil, err
	}
	for i, ids := range tokens {
		if len(ids) == want[i] {
			continue
		}
		if texts[i], tokens[i], err = f.fit(lists[i], want[i]); err != nil {
			return nil, nil, err
		}
	}
	return texts, tokens, nil
}

// first decodes lists of ids, and encodes their texts again.
func (f *fitter) first(lists [][]int) (texts []string, tokens [][]int, err error) {
	if texts, err = f.s.Tokenizer.Decode(f.d.ctx, lists); err != nil {
		return nil, nil, fmt.Errorf("turn token ids into text: %w", err)
	}
	if tokens, err = f.s.encode(f.d.ctx, texts, false); err != nil {
		return nil, nil, fmt.Errorf("turn text into token ids: %w", err)
	}
	return texts, tokens, nil
}

// report says how many texts did not get their length.
func (f *fitter) report(of int) {
	if f.wrong > 0 {
		f.s.Log("%d of %d prompts do not have their planned length by the tokenizer's count", f.wrong, of)
	}
}

// lengthsAndOffsets draws as vLLM does: the lengths of n prompts and answers, and where in the
// vocabulary each prompt begins.
func (s *Source) lengthsAndOffsets(rng *pyrand.Generator, n, input, output int) (inputs, outputs, offsets []int) {
	draw := func(length int, ratio float64, least int) []int {
		lo, hi := spread(length, ratio)
		lo, hi = max(lo, least), max(hi, least)
		drawn := rng.Ints(hi-lo+1, n)
		for i := range drawn {
			drawn[i] += lo
		}
		return drawn
	}
	inputs = draw(max(input-s.Local.Around, 0), s.RandomRangeRatio.Input, 0)
	outputs = draw(output, s.RandomRangeRatio.Output, 1)
	return inputs, outputs, rng.Ints(s.Local.Size, n)
}

// randomText makes vLLM's random prompts: text whose tokens follow each other in the vocabulary.
func (s *Source) randomText(d drawing) ([]Request, error) {
	rng := pyrand.NewGenerator(uint64(s.Seed))
	n := s.NumPrompts
	inputs, outputs, offsets := s.lengthsAndOffsets(rng, n, s.RandomInput(), s.RandomOutput())
	if lo, _ := spread(max(s.RandomInput()-s.Local.Around, 0), s.RandomRangeRatio.Input); lo+s.RandomPrefixLen < 1 {
		return nil, fmt.Errorf("--random-input-len %d is too small: the tokenizer puts %d tokens around a prompt",
			s.RandomInput(), s.Local.Around)
	}
	allowed := s.Local.allowed()
	f := &fitter{s: s, d: d, draw: func(k int) []int { return rng.Ints(s.Local.Size, k) }}
	prefix, err := s.randomPrefix(f, rng, allowed)
	if err != nil {
		return nil, err
	}
	lists := make([][]int, n)
	want := make([]int, n)
	for i := range lists {
		lists[i] = append(slices.Clone(prefix), sequence(allowed, offsets[i]+i, inputs[i])...)
		want[i] = s.RandomPrefixLen + inputs[i]
	}
	texts, tokens, err := f.fitAll(lists, want)
	if err != nil {
		return nil, err
	}
	f.report(n)
	requests := make([]Request, n)
	for i := range requests {
		requests[i] = Request{Prompt: s.plain(texts[i]), Input: len(tokens[i]), Output: outputs[i]}
	}
	return requests, nil
}

// randomPrefix draws the tokens that all prompts share.
func (s *Source) randomPrefix(f *fitter, rng *pyrand.Generator, allowed []int) ([]int, error) {
	if s.RandomPrefixLen == 0 {
		return nil, nil
	}
	ids := rng.Ints(len(allowed), s.RandomPrefixLen)
	for i, k := range ids {
		ids[i] = allowed[k]
	}
	_, tokens, err := f.fit(ids, s.RandomPrefixLen)
	return tokens, err
}

// sequence returns n of the ids from a place on, which start again at their end.
func sequence(ids []int, from, n int) []int {
	out := make([]int, n)
	for k := range out {
		out[k] = ids[(from+k)%len(ids)]
	}
	return out
}

// prefixRepetition makes prompts of which groups share their beginning.
func (s *Source) prefixRepetition(d drawing) ([]Request, error) {
	each := s.NumPrompts / s.PrefixRepetitionNumPrefixes
	requests := make([]Request, 0, each*s.PrefixRepetitionNumPrefixes)
	length := s.PrefixRepetitionPrefixLen + s.PrefixRepetitionSuffixLen
	if s.Local == nil {
		lo, n := idRange(s.Vocabulary)
		for p := range s.PrefixRepetitionNumPrefixes {
			source := &idSource{uint64(s.Seed), s.PrefixRepetitionPrefixLen, s.NumPrompts, lo, n, p}
			for range each {
				prompt := &drawn{source, len(requests), length}
				requests = append(requests, Request{Prompt: prompt, Input: length, Output: s.prefixOutput()})
			}
		}
	} else if err := s.prefixText(d, each, &requests); err != nil {
		return nil, err
	}
	shuffle(s, s.Seed, requests)
	return requests, nil
}

// prefixText makes vLLM's prompts that share their beginning.
func (s *Source) prefixText(d drawing, each int, requests *[]Request) error {
	rng := pyrand.NewLegacy(uint32(s.Seed))
	draw := func(k int) []int { return rng.Ints(s.Local.Size, k) }
	f := &fitter{s: s, d: d, draw: draw}
	var lists [][]int
	for range s.PrefixRepetitionNumPrefixes {
		var prefix []int
		if n := s.PrefixRepetitionPrefixLen; n > 0 {
			var err error
			if _, prefix, err = f.fit(draw(n), n); err != nil {
				return err
			}
		}
		for range each {
			_, suffix, err := f.fit(draw(s.PrefixRepetitionSuffixLen), s.PrefixRepetitionSuffixLen)
			if err != nil {
				return err
			}
			lists = append(lists, append(slices.Clone(prefix), suffix...))
		}
	}
	f.report(len(lists))
	texts, err := s.Tokenizer.Decode(d.ctx, lists)
	if err != nil {
		return fmt.Errorf("turn token ids into text: %w", err)
	}
	for i, text := range texts {
		*requests = append(*requests, Request{Prompt: s.plain(text), Input: len(lists[i]), Output: s.prefixOutput()})
	}
	return nil
}

// rerank makes queries, each with documents that a model compares with it.
func (s *Source) rerank(d drawing) ([]Request, error) {
	if !s.Pooling {
		return nil, fmt.Errorf("its requests are queries with documents: use --backend vllm-rerank")
	}
	n, size, between := s.NumPrompts, s.RandomBatchSize, 1
	if s.NoReranker {
		n, size, between = n-1, size-1, 0
	}
	queryLen := s.RandomInput()
	if !s.NoReranker {
		queryLen = s.RandomInput()/2 - between
	}
	if queryLen < 1 {
		return nil, fmt.Errorf("--random-input-len %d is too small for a query and a document", s.RandomInput())
	}
	texts, lengths, err := s.rerankTexts(d, n, queryLen, between)
	if err != nil {
		return nil, err
	}
	var requests []Request
	for start := 1; start <= n; start += size {
		end := min(start+size, n+1)
		r := Request{Prompt: append(Texts{texts[0]}, texts[start:end]...), Input: lengths[0]}
		if !s.NoReranker {
			r.Input = (lengths[0] + between) * (end - start)
		}
		for _, l := range lengths[start:end] {
			r.Input += l
		}
		requests = append(requests, r)
	}
	return requests, nil
}

// rerankTexts returns the query and n documents, and how many tokens each has.
func (s *Source) rerankTexts(d drawing, n, queryLen, between int) (texts []string, lengths []int, err error) {
	if s.Local == nil {
		return s.rerankWords(n, queryLen, between)
	}
	rng := pyrand.NewGenerator(uint64(s.Seed))
	allowed := s.Local.allowed()
	f := &fitter{s: s, d: d, draw: func(k int) []int { return rng.Ints(s.Local.Size, k) }}
	queries, _, queryAt := s.lengthsAndOffsets(rng, 1, queryLen, 0)
	docLen := s.RandomInput()
	if !s.NoReranker {
		docLen -= queries[0] + between
	}
	docs, _, docAt := s.lengthsAndOffsets(rng, n, docLen, 0)
	want := append(queries, docs...)
	lists := make([][]int, n+1)
	for i, at := range append(queryAt, docAt...) {
		lists[i] = sequence(allowed, at+i, want[i])
	}
	texts, tokens, err := f.fitAll(lists, want)
	if err != nil {
		return nil, nil, err
	}
	f.report(n + 1)
	for _, ids := range tokens {
		lengths = append(lengths, len(ids))
	}
	return texts, lengths, nil
}
