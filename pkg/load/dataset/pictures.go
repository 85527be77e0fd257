package dataset

import (
	"bytes"
	"encoding/base64"
	"errors"
	"image"
	"image/jpeg"
	"runtime"
	"slices"

	"github.com/profllm/profllm/pkg/pyrand"
)

// Illustrated is a chat of one message: a text, and pictures behind it.
type Illustrated struct {
	Text     string
	Pictures [][]byte // JPEG in base64
}

// AppendJSON implements [Prompt]. The message is as vLLM's client writes it.
func (p Illustrated) AppendJSON(dst []byte) []byte {
	dst = append(dst, `[{"role":"user","content":[{"type":"text","text":`...)
	dst = append(appendJSON(dst, p.Text), '}')
	for _, picture := range p.Pictures {
		dst = append(dst, `,{"type":"image_url","image_url":{"url":"data:image/jpeg;base64,`...)
		dst = append(append(dst, picture...), `"}}`...)
	}
	return append(dst, `]}]`...)
}

// randomMM makes random prompts with pictures. Their texts are those of random; with a local
// vocabulary, texts, sizes and pixels are those of vLLM.
func (s *Source) randomMM(d drawing) ([]Request, error) {
	rng := pyrand.NewGenerator(uint64(s.Seed))
	p := newPainter(s)
	if s.Local == nil {
		requests := s.Random(s.Vocabulary)
		for i := range requests {
			if err := errors.Join(p.draw(rng, i), d.ctx.Err()); err != nil {
				return nil, err
			}
		}
		return requests, p.finish(requests)
	}
	return s.illustratedText(d, rng, p)
}

// illustratedText makes vLLM's texts and pictures. Both draw from one stream, in turn.
func (s *Source) illustratedText(d drawing, rng *pyrand.Generator, p *painter) ([]Request, error) {
	n := s.NumPrompts
	inputs, outputs, offsets := s.lengthsAndOffsets(rng, n, s.RandomInput(), s.RandomOutput())
	allowed := s.Local.unmarked()
	f := &fitter{s: s, d: d, draw: func(k int) []int { return rng.Ints(s.Local.Size, k) }}
	prefix, err := s.randomPrefix(f, rng, allowed)
	if err != nil {
		return nil, err
	}
	lists := make([][]int, n)
	for i := range lists {
		lists[i] = append(slices.Clone(prefix), sequence(allowed, offsets[i]+i, inputs[i])...)
	}
	texts, tokens, err := f.first(lists)
	if err != nil {
		return nil, err
	}
	requests := make([]Request, n)
	for i := range requests {
		if want := s.RandomPrefixLen + inputs[i]; len(tokens[i]) != want {
			if texts[i], tokens[i], err = f.fit(lists[i], want); err != nil {
				return nil, err
			}
		}
		requests[i] = Request{Prompt: Text(texts[i]), Input: Unknown, Output: outputs[i]}
		if err := errors.Join(p.draw(rng, i), d.ctx.Err()); err != nil {
			return nil, err
		}
	}
	f.report(n)
	if err := p.finish(requests); err != nil {
		return nil, err
	}
	for i := range requests {
		requests[i].Prompt = Illustrated{texts[i], requests[i].Pictures}
	}
	return requests, nil
}

// A painter draws pictures one after the other, and encodes several at a time.
type painter struct {
	least, most int
	buckets     Buckets
	shares      []float64
	held        *holding
	done        []illustration // of requests, in order
	pending     []illustration
	pixels      int // of the pending ones
	mostPixels  int // of them, unless one alone has more
}

// An illustration is a picture of a request. Its bytes come once.
type illustration struct {
	request int
	pixels  int
	bytes   chan []byte
	have    []byte
}

func newPainter(s *Source) *painter {
	p := &painter{buckets: s.RandomMMBucketConfig.normalized(), held: s.holding(), mostPixels: mostPixels}
	p.least, p.most = s.pictureCounts()
	for _, b := range p.buckets {
		p.shares = append(p.shares, b.Share)
	}
	return p
}

// draw draws the pictures of request i. Videos have no share, so that the limit of pictures is never
// reached before their number, and no draw is thrown away.
func (p *painter) draw(rng *pyrand.Generator, i int) error {
	for range p.least + rng.Int(p.most-p.least+1) {
		b := p.buckets[rng.Weighted(p.shares)]
		one := illustration{request: i, pixels: b.Height * b.Width, bytes: make(chan []byte, 1)}
		for n := len(p.pending); n > 0 && (n >= runtime.GOMAXPROCS(0) || p.pixels+one.pixels > p.mostPixels); n-- {
			if err := p.take(); err != nil {
				return err
			}
		}
		noise := make([]byte, 3*one.pixels)
		rng.Bytes(noise)
		go func() { one.bytes <- encode(noise, b.Width, b.Height) }()
		p.pending, p.pixels = append(p.pending, one), p.pixels+one.pixels
	}
	return nil
}

// take waits for the oldest pending picture.
func (p *painter) take() error {
	one := p.pending[0]
	p.pending, p.pixels = p.pending[1:], p.pixels-one.pixels
	one.have = <-one.bytes
	p.done = append(p.done, one)
	return fewer(p.held.add(len(one.have)/4+heldRequest), one.request)
}

// finish waits for all pictures and gives them to their requests.
func (p *painter) finish(requests []Request) error {
	for len(p.pending) > 0 {
		if err := p.take(); err != nil {
			return err
		}
	}
	for i := range requests {
		requests[i].Pictures = [][]byte{}
	}
	for _, one := range p.done {
		r := &requests[one.request]
		r.Pictures = append(r.Pictures, one.have)
	}
	return nil
}

// encode returns the base64 of a JPEG file, with the quality and the subsampling that vLLM's library
// takes by default. pixels are red, green and blue, line by line.
func encode(pixels []byte, width, height int) []byte {
	img := image.NewRGBA(image.Rect(0, 0, width, height))
	for i, k := 0, 0; i < len(pixels); i, k = i+3, k+4 {
		img.Pix[k], img.Pix[k+1], img.Pix[k+2], img.Pix[k+3] = pixels[i], pixels[i+1], pixels[i+2], 255
	}
	var file bytes.Buffer
	if err := jpeg.Encode(&file, img, &jpeg.Options{Quality: jpeg.DefaultQuality}); err != nil {
		panic(err) // the size was checked, and a buffer takes all
	}
	return base64.StdEncoding.AppendEncode(nil, file.Bytes())
}
