package dataset

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"time"

	"github.com/profllm/profllm/pkg/pyjson"
	"github.com/profllm/profllm/pkg/pyrand"
)

// timedTrace makes the requests of a recorded trace, with the times at which they are sent. A hash
// of the trace stands for a block of tokens: the same hash, the same tokens, so that prompts
// share what they shared when the trace was recorded.
func (s *Source) timedTrace(d drawing) ([]Request, error) {
	blocks := &blocks{size: s.TimedTraceChunkHashSize, ids: s.traceIDs(), made: map[string]int32{}, held: s.holding()}
	var requests []Request
	err := eachObject(d.path, func(v pyjson.Value) error {
		r, err := s.traced(v, blocks, len(requests))
		if err != nil {
			return fewer(err, len(requests))
		}
		if requests = append(requests, r); len(requests) == s.NumPrompts {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return requests, err
}

// traced makes the request of one line of a trace, the i-th.
func (s *Source) traced(v pyjson.Value, blocks *blocks, i int) (Request, error) {
	input, err := whole(v, s.TimedTraceLabelInputLength, 1)
	if err != nil {
		return Request{}, fmt.Errorf("%w (--timed-trace-label-input-length names the key)", err)
	}
	output, err := whole(v, s.TimedTraceLabelOutputLength, 1)
	if err != nil {
		return Request{}, fmt.Errorf("%w (--timed-trace-label-output-length names the key)", err)
	}
	at, ok := v.At(s.TimedTraceLabelTimestamp).Finite()
	if t := v.At(s.TimedTraceLabelTimestamp); t.Kind == pyjson.Text {
		at, err = strconv.ParseFloat(t.Str, 64)
		ok = err == nil
	}
	at *= s.TimedTraceSecMultiplier
	if !ok || !(at >= 0 && at < math.MaxInt64/1e9) {
		return Request{}, fmt.Errorf("%q is no time in seconds: --timed-trace-label-timestamp names the key, "+
			"--timed-trace-sec-multiplier its unit", s.TimedTraceLabelTimestamp)
	}
	if input > longest {
		return Request{}, fmt.Errorf("a prompt of %d tokens is longer than %d", input, longest)
	}
	hashes := v.At(s.TimedTraceLabelHashIDs)
	prompt := &blockPrompt{of: blocks}
	if hashes.Kind == pyjson.List && len(hashes.Items) > 0 {
		err = prompt.addAll(hashes.Items, input)
	} else {
		err = prompt.add(fmt.Sprintf("line %d", i), input)
	}
	if err == nil {
		err = blocks.held.add(heldRequest)
	}
	return Request{Prompt: prompt, Input: prompt.length, Output: output, Due: time.Duration(at * 1e9)}, err
}

// traceIDs are the ids that blocks are made of: the model's whole vocabulary without special
// tokens, or a range that is text in any.
func (s *Source) traceIDs() []int {
	if s.Local != nil {
		return s.Local.plain()
	}
	lo, n := idRange(s.Vocabulary)
	ids := make([]int, n)
	for i := range ids {
		ids[i] = lo + i
	}
	return ids
}

// blocks are the tokens for which hashes stand. Each is kept once, however many prompts have it.
type blocks struct {
	size int
	ids  []int
	list [][]int32
	made map[string]int32 // the place of each in the list, by hash and length
	held *holding
}

// A blockPrompt is a prompt of blocks.
type blockPrompt struct {
	of     *blocks
	places []int32 // of its blocks in their list
	length int     // tokens
}

// addAll appends the blocks of a prompt of that length. A trace whose hashes do not cover its
// length gets a shorter prompt, as with vLLM.
func (p *blockPrompt) addAll(hashes []pyjson.Value, length int) error {
	p.places = make([]int32, 0, min(len(hashes), (length+p.of.size-1)/p.of.size))
	for _, h := range hashes {
		if length <= 0 {
			break
		}
		word, err := hashWord(h)
		if err != nil {
			return err
		}
		n := min(p.of.size, length)
		if err := p.add(word, n); err != nil {
			return err
		}
		length -= n
	}
	return nil
}

// add appends the block of n tokens for a hash.
func (p *blockPrompt) add(hash string, n int) error {
	place, err := p.of.block(hash, n)
	if err == nil {
		err = p.of.held.add(1)
	}
	p.places, p.length = append(p.places, place), p.length+n
	return err
}

// AppendJSON implements [Prompt].
func (p *blockPrompt) AppendJSON(dst []byte) []byte {
	dst = append(dst, '[')
	for k, place := range p.places {
		for i, id := range p.of.list[place] {
			if k+i > 0 {
				dst = append(dst, ',')
			}
			dst = strconv.AppendInt(dst, int64(id), 10)
		}
	}
	return append(dst, ']')
}

// List implements [Tokens]. Beyond its end, the prompt starts again.
func (p *blockPrompt) List(n int) []int {
	ids := make([]int, 0, n)
	for len(ids) < n {
		for _, place := range p.places {
			for _, id := range p.of.list[place] {
				if len(ids) == n {
					return ids
				}
				ids = append(ids, int(id))
			}
		}
	}
	return ids
}

func hashWord(h pyjson.Value) (string, error) {
	if h.Kind == pyjson.Text {
		return h.Str, nil
	}
	if x, ok := h.Finite(); ok && x == math.Trunc(x) && math.Abs(x) < 1<<53 {
		return strconv.FormatInt(int64(x), 10), nil
	}
	return "", fmt.Errorf("a hash is neither a whole number nor a string")
}

// block returns the place of the block of n tokens for a hash. vLLM draws them from a seed that is
// Python's hash of the two, which is another one in each process, unless PYTHONHASHSEED is 0: then
// they are these.
func (b *blocks) block(hash string, n int) (place int32, err error) {
	key := hash + ":" + strconv.Itoa(n)
	if place, ok := b.made[key]; ok {
		return place, nil
	}
	if err := b.held.add(n + heldBlock + len(key)/4); err != nil {
		return 0, err
	}
	drawn := pyrand.FromInt(int64(uint32(pythonHash(key)))).Choices(len(b.ids), n)
	ids := make([]int32, n)
	for i, k := range drawn {
		ids[i] = int32(b.ids[k])
	}
	b.list = append(b.list, ids)
	b.made[key] = int32(len(b.list) - 1)
	return b.made[key], nil
}

// pythonHash is hash(text) of CPython since 3.11, for ASCII text and PYTHONHASHSEED=0: SipHash-1-3
// with a key of zeros (Aumasson and Bernstein, 2012).
func pythonHash(text string) int64 {
	if text == "" {
		return 0
	}
	v0, v1, v2, v3 := uint64(0x736f6d6570736575), uint64(0x646f72616e646f6d), uint64(0x6c7967656e657261),
		uint64(0x7465646279746573)
	round := func() {
		v0 += v1
		v1 = bits.RotateLeft64(v1, 13) ^ v0
		v0 = bits.RotateLeft64(v0, 32)
		v2 += v3
		v3 = bits.RotateLeft64(v3, 16) ^ v2
		v0 += v3
		v3 = bits.RotateLeft64(v3, 21) ^ v0
		v2 += v1
		v1 = bits.RotateLeft64(v1, 17) ^ v2
		v2 = bits.RotateLeft64(v2, 32)
	}
	rest := []byte(text)
	for len(rest) >= 8 {
		word := binary.LittleEndian.Uint64(rest)
		v3 ^= word
		round()
		v0 ^= word
		rest = rest[8:]
	}
	last := uint64(len(text)) << 56
	for i, b := range rest {
		last |= uint64(b) << (8 * i)
	}
	v3 ^= last
	round()
	v0 ^= last
	v2 ^= 0xff
	round()
	round()
	round()
	if h := int64(v0 ^ v1 ^ v2 ^ v3); h != -1 {
		return h
	}
	return -2
}
