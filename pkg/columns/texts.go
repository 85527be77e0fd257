package columns

import (
	"bytes"
	"slices"
	"sort"
	"strings"

	"github.com/profllm/profllm/pkg/query"
)

// textPart are texts by row, in a column that has too many different ones for a dictionary. The texts
// of a chunk lie behind each other, without a pointer for the garbage collector to follow.
type textPart struct {
	chunks []*texts
	n      int // rows with a text
	many   distinct
}

// texts is a chunk of them; no row has an empty text, so that one without any has none.
type texts struct {
	bytes []byte
	ends  [size]uint32 // of the first used rows
	used  int
	n     int
	// mixed says that a text changes in lower case; low has them so, nil until wanted.
	mixed bool
	low   *texts
}

func (p *textPart) chunk(i int) *texts {
	if p == nil || i >= len(p.chunks) {
		return nil
	}
	return p.chunks[i]
}

// at is the text of a row, which the caller must not keep; nil if it has none.
func (p *textPart) at(row uint32) []byte {
	if c := p.chunk(int(row >> shift)); c != nil {
		return c.at(int(row & mask))
	}
	return nil
}

func (c *texts) at(i int) []byte {
	if i >= c.used {
		return nil
	}
	from, to := c.span(i)
	return c.bytes[from:to]
}

func (c *texts) span(i int) (from, to uint32) {
	if i > 0 {
		from = c.ends[i-1]
	}
	return from, c.ends[i]
}

func (p *textPart) put(row uint32, s string) {
	p.chunks = ensure(p.chunks, int(row>>shift))
	if c := p.chunks[row>>shift]; s != "" {
		c.put(int(row&mask), s)
		c.mixed = c.mixed || strings.ToLower(s) != s
		c.n++
		p.n++
	}
}

func (p *textPart) clear(row uint32) {
	c := p.chunk(int(row >> shift))
	if len(p.at(row)) == 0 {
		return
	}
	c.put(int(row&mask), "")
	c.n--
	p.n--
	p.many.known = false
}

// put replaces a text.
func (c *texts) put(i int, s string) {
	c.low = nil
	if i >= c.used {
		for ; c.used < i; c.used++ {
			c.ends[c.used] = uint32(len(c.bytes))
		}
		c.bytes = append(c.bytes, s...)
		c.ends[i] = uint32(len(c.bytes))
		if c.used++; c.used == size {
			c.bytes = slices.Clip(slices.Clone(c.bytes))
		}
		return
	}
	from, to := c.span(i)
	c.bytes = slices.Replace(c.bytes, int(from), int(to), []byte(s)...)
	for j := i; j < c.used; j++ {
		c.ends[j] += uint32(len(s)) - (to - from) // wraps around to what is right
	}
}

// lower are the texts in lower case.
func (c *texts) lower() *texts {
	if !c.mixed {
		return c
	}
	if c.low == nil {
		low := &texts{}
		for i := range c.used {
			low.bytes = append(low.bytes, strings.ToLower(string(c.at(i)))...)
			low.ends[i] = uint32(len(low.bytes))
		}
		low.used = c.used
		c.low = low
	}
	return c.low
}

// find sets the rows whose text contains one that is in lower case. c is in lower case itself.
func (c *texts) find(part []byte, out *rowBits) {
	*out = rowBits{}
	for at := 0; ; {
		i := bytes.Index(c.bytes[at:], part)
		if i < 0 {
			return
		}
		at += i
		row := sort.Search(c.used, func(j int) bool { return int(c.ends[j]) > at })
		if end := int(c.ends[row]); at+len(part) <= end {
			out.set(uint32(row))
			at = end
		} else {
			at++ // it lies across two texts
		}
	}
}

// listed reports whether there are few enough different texts for a facet to list.
func (p *textPart) listed() bool {
	if p.many.known {
		return !p.many.more
	}
	seen := map[string]struct{}{}
	for _, c := range p.chunks {
		if c == nil {
			continue
		}
		for i := range c.used {
			if s := c.at(i); len(s) > 0 {
				seen[string(s)] = struct{}{}
			}
			if len(seen) > query.MaxDistinct {
				p.many = distinct{known: true, more: true}
				return false
			}
		}
	}
	return true
}

func (p *textPart) size() int64 {
	if p == nil {
		return 0
	}
	n := int64(len(p.chunks)) * 8
	for _, c := range p.chunks {
		if c != nil {
			n += size*4 + 64 + int64(cap(c.bytes))
			if c.low != nil {
				n += size*4 + 64 + int64(cap(c.low.bytes))
			}
		}
	}
	return n
}
