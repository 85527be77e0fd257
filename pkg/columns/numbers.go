package columns

import (
	"math"

	"github.com/profllm/profllm/pkg/query"
)

// numberPart are numbers by row, in a column that has too many different ones for a dictionary.
type numberPart struct {
	chunks []*numbers
	n      int  // rows with a number
	stale  bool // the sums of a chunk are
	// low and high are of all rows; ranged says whether they are known.
	low, high float64
	ranged    bool
	// binned says whether the chunks have the bins of the range, and bins how many rows each has; the
	// first counts nothing.
	binned  bool
	binning query.Binning
	bins    [query.Bins + 1]int
	many    distinct
}

// numbers is a chunk of them; NaN is none.
type numbers struct {
	x    [size]float64
	n    int
	sums sums
	// summed says whether sums are right.
	summed bool
	bins   *[size]uint8 // 1 for the first bin; 0: no number
}

// sums are of some numbers.
type sums struct {
	n              int
	sum, low, high float64
}

func noSums() sums { return sums{low: math.Inf(1), high: math.Inf(-1)} }

func (s *sums) add(x float64) {
	s.n++
	s.sum += x
	s.low, s.high = min(s.low, x), max(s.high, x)
}

func (s *sums) join(x sums) {
	s.n += x.n
	s.sum += x.sum
	s.low, s.high = min(s.low, x.low), max(s.high, x.high)
}

func (p *numberPart) at(row uint32) float64 {
	if c := p.chunk(int(row >> shift)); c != nil {
		return c.x[row&mask]
	}
	return math.NaN()
}

func (p *numberPart) chunk(i int) *numbers {
	if p == nil || i >= len(p.chunks) {
		return nil
	}
	return p.chunks[i]
}

// put sets the number of a row that has none.
func (p *numberPart) put(row uint32, x float64) {
	i := int(row >> shift)
	if p.chunk(i) == nil {
		p.chunks = ensure(p.chunks, i)
		for at := range p.chunks[i].x {
			p.chunks[i].x[at] = math.NaN()
		}
		if p.binned {
			p.chunks[i].bins = new([size]uint8)
		}
	}
	c := p.chunks[i]
	c.x[row&mask] = x
	c.n++
	c.summed, p.stale = false, true
	if p.ranged && (x < p.low || x > p.high) {
		p.unbin()
	}
	if p.n++; p.binned {
		bin := uint8(p.binning.Of(x) + 1)
		c.bins[row&mask] = bin
		p.bins[bin]++
	}
}

func (p *numberPart) clear(row uint32) {
	c := p.chunks[row>>shift]
	x := c.x[row&mask]
	c.x[row&mask] = math.NaN()
	c.n--
	c.summed, p.stale = false, true
	p.many.known = false
	p.n--
	if x == p.low || x == p.high {
		p.unbin()
	}
	if p.binned {
		p.bins[c.bins[row&mask]]--
		c.bins[row&mask] = 0
	}
}

// unbin forgets the range and the bins.
func (p *numberPart) unbin() {
	p.ranged, p.binned = false, false
}

// sum brings the sums of all chunks and the range up to date.
func (p *numberPart) sum() {
	if p.stale {
		for _, c := range p.chunks {
			if c != nil && !c.summed {
				c.sums, c.summed = c.all(), true
			}
		}
		p.stale = false
	}
	if !p.ranged {
		p.low, p.high = math.Inf(1), math.Inf(-1)
		for _, c := range p.chunks {
			if c != nil {
				p.low, p.high = min(p.low, c.sums.low), max(p.high, c.sums.high)
			}
		}
		p.ranged = true
	}
}

// bin brings the bins up to date.
func (p *numberPart) bin() {
	p.sum()
	if p.binned {
		return
	}
	p.binning, p.bins = query.NewBinning(p.low, p.high), [query.Bins + 1]int{}
	for _, c := range p.chunks {
		if c == nil {
			continue
		}
		if c.bins == nil {
			c.bins = new([size]uint8)
		}
		for i, x := range c.x {
			c.bins[i] = 0
			if x == x {
				bin := uint8(p.binning.Of(x) + 1)
				c.bins[i] = bin
				p.bins[bin]++
			}
		}
	}
	p.binned = true
}

func (c *numbers) all() sums {
	s := noSums()
	for _, x := range c.x {
		if x == x {
			s.add(x)
		}
	}
	return s
}

// of sums up rows of the chunk. Without gaps, every row of the chunk that is in use has a number.
func (c *numbers) of(rows []uint16, gaps bool) sums {
	s := noSums()
	if gaps {
		for _, r := range rows {
			if x := c.x[r&mask]; x == x {
				s.n++
				s.sum += x
				if x < s.low {
					s.low = x
				}
				if x > s.high {
					s.high = x
				}
			}
		}
		return s
	}
	s.n = len(rows)
	var a, b, c2, d float64 // four sums, as one addition waits for the last
	low, high := s.low, s.high
	for ; len(rows) >= 4; rows = rows[4:] {
		w, x, y, z := c.x[rows[0]&mask], c.x[rows[1]&mask], c.x[rows[2]&mask], c.x[rows[3]&mask]
		a, b, c2, d = a+w, b+x, c2+y, d+z
		low, high = lower(low, w, x, y, z), higher(high, w, x, y, z)
	}
	for _, r := range rows {
		x := c.x[r&mask]
		a += x
		low, high = min(low, x), max(high, x)
	}
	s.sum, s.low, s.high = a+b+(c2+d), low, high
	return s
}

// lower and higher are min and max without regard to NaN and the sign of 0, which cost more than half
// of their time.
func lower(low, w, x, y, z float64) float64 {
	if w < low {
		low = w
	}
	if x < low {
		low = x
	}
	if y < low {
		low = y
	}
	if z < low {
		low = z
	}
	return low
}

func higher(high, w, x, y, z float64) float64 {
	if w > high {
		high = w
	}
	if x > high {
		high = x
	}
	if y > high {
		high = y
	}
	if z > high {
		high = z
	}
	return high
}

// within sets the rows whose number is in a range, edges included.
func (c *numbers) within(low, high float64, out *rowBits) {
	for w := range out {
		var b uint64
		for i, x := range c.x[w*64 : w*64+64] {
			b |= (one(x >= low) & one(x <= high)) << (i & 63)
		}
		out[w] = b
	}
}

func (p *numberPart) size() int64 {
	if p == nil {
		return 0
	}
	n := int64(len(p.chunks)) * 8
	for _, c := range p.chunks {
		if c != nil {
			n += size*8 + 64
			if c.bins != nil {
				n += size
			}
		}
	}
	return n
}

// distinct says whether a part has more different values than a facet lists. More values
// change nothing in a yes.
type distinct struct{ known, more bool }

// listed reports whether there are few enough different numbers.
func (p *numberPart) listed() bool {
	if p.many.known {
		return !p.many.more
	}
	seen := map[float64]struct{}{}
	for _, c := range p.chunks {
		if c == nil {
			continue
		}
		for _, x := range c.x {
			if x != x {
				continue
			}
			if seen[x] = struct{}{}; len(seen) > query.MaxDistinct {
				p.many = distinct{known: true, more: true}
				return false
			}
		}
	}
	return true
}

// several reports whether there are enough different numbers for a histogram.
func (p *numberPart) several() bool {
	seen := map[float64]struct{}{}
	for _, c := range p.chunks {
		if c == nil {
			continue
		}
		for _, x := range c.x {
			if x != x {
				continue
			}
			if seen[x] = struct{}{}; len(seen) > query.Bins {
				return true
			}
		}
	}
	return false
}
