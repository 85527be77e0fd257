package columns

import (
	"math"

	"github.com/profllm/profllm/pkg/query"
)

// numberPart are numbers by row, in a column that has too many different ones for a dictionary.
type numberPart struct {
	chunks []numbers
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

// numbers is a chunk of them; NaN is none. What is known of a chunk lies beside what is known of the
// next, so that a question waits for memory only where it reads numbers.
type numbers struct {
	x     *[size]float64 // nil if no row has a number
	n     int
	sums  sums
	order *[size]uint16 // the n rows with a number, from the smallest to the largest
	// summed says whether sums and order are right.
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
	if p == nil || i >= len(p.chunks) || p.chunks[i].x == nil {
		return nil
	}
	return &p.chunks[i]
}

// put sets the number of a row that has none.
func (p *numberPart) put(row uint32, x float64) {
	i := int(row >> shift)
	if p.chunk(i) == nil {
		for len(p.chunks) <= i {
			p.chunks = append(p.chunks, numbers{})
		}
		p.chunks[i].x = new([size]float64)
		for at := range p.chunks[i].x {
			p.chunks[i].x[at] = math.Float64frombits(nothing)
		}
		if p.binned {
			p.chunks[i].bins = new([size]uint8)
		}
	}
	c := &p.chunks[i]
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
	c := &p.chunks[row>>shift]
	x := c.x[row&mask]
	c.x[row&mask] = math.Float64frombits(nothing)
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
		for i := range p.chunks {
			if c := &p.chunks[i]; c.x != nil && !c.summed {
				c.summarise()
			}
		}
		p.stale = false
	}
	if !p.ranged {
		p.low, p.high = math.Inf(1), math.Inf(-1)
		for i := range p.chunks {
			if c := &p.chunks[i]; c.x != nil {
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
	for i := range p.chunks {
		c := &p.chunks[i]
		if c.x == nil {
			continue
		}
		if c.bins == nil {
			c.bins = new([size]uint8)
		}
		for row, x := range c.x {
			c.bins[row] = 0
			if x == x {
				bin := uint8(p.binning.Of(x) + 1)
				c.bins[row] = bin
				p.bins[bin]++
			}
		}
	}
	p.binned = true
}

// without adds up what is chosen of the chunk, from the sum of all rows and that of the others. It is
// not ok where that would be wrong: if the sum that is left is small beside what it is the difference of.
// A sum of 4,096 numbers of one sign is exact to about 1e-14.
func (c *numbers) without(others []uint16, gaps bool) (n int, sum float64, ok bool) {
	if c.sums.low < 0 && c.sums.high > 0 {
		return 0, 0, false
	}
	n, sum = c.sum(others, gaps)
	n, sum = c.sums.n-n, c.sums.sum-sum
	return n, sum, math.Abs(sum) >= math.Abs(c.sums.sum)/16 && !math.IsInf(sum, 0)
}

// extend takes the smallest and the largest number that is chosen into sums. rows are those chosen, or nil if
// they are not listed and many: then one of the first in order is most probably among them.
func (c *numbers) extend(s *sums, chosen *rowBits, rows []uint16) {
	steps := c.n // that cost no more than to look at all rows
	if rows != nil {
		steps = min(c.n, len(rows))
	}
	low, high := c.sums.low < s.low, c.sums.high > s.high
	if low {
		for _, r := range c.order[:steps] {
			if chosen.has(r) {
				s.low, low = min(s.low, c.x[r&mask]), false
				break
			}
		}
	}
	if high {
		for i := c.n - 1; i >= c.n-steps; i-- {
			if r := c.order[i&mask]; chosen.has(r) {
				s.high, high = max(s.high, c.x[r&mask]), false
				break
			}
		}
	}
	if low || high {
		for _, r := range rows { // no comparison with NaN holds
			x := c.x[r&mask]
			if x < s.low {
				s.low = x
			}
			if x > s.high {
				s.high = x
			}
		}
	}
}

// sum adds up rows, in four sums: an addition waits for the one before. Without gaps, every row of the
// chunk that is in use has a number.
func (c *numbers) sum(rows []uint16, gaps bool) (n int, sum float64) {
	if gaps {
		return c.sumSome(rows)
	}
	n = len(rows)
	var w, x, y, z float64
	for ; len(rows) >= 4; rows = rows[4:] {
		w, x = w+c.x[rows[0]&mask], x+c.x[rows[1]&mask]
		y, z = y+c.x[rows[2]&mask], z+c.x[rows[3]&mask]
	}
	for _, r := range rows {
		w += c.x[r&mask]
	}
	return n, w + x + (y + z)
}

// nothing are the bits of the NaN that a row without a number has.
const nothing = 0x7FF8000000000001

// orZero is a number, 0 for none, without a branch that the processor could foresee wrongly.
func orZero(x float64) (y float64, none int) {
	b := math.Float64bits(x)
	none = int(one(b == nothing))
	if b == nothing {
		b = 0
	}
	return math.Float64frombits(b), none
}

// sumSome is sum where a row may have no number.
func (c *numbers) sumSome(rows []uint16) (n int, sum float64) {
	n = len(rows)
	var w, x, y, z float64
	for ; len(rows) >= 4; rows = rows[4:] {
		a, i := orZero(c.x[rows[0]&mask])
		b, j := orZero(c.x[rows[1]&mask])
		d, k := orZero(c.x[rows[2]&mask])
		e, l := orZero(c.x[rows[3]&mask])
		w, x, y, z = w+a, x+b, y+d, z+e
		n -= i + j + k + l
	}
	for _, r := range rows {
		a, i := orZero(c.x[r&mask])
		w += a
		n -= i
	}
	return n, w + x + (y + z)
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
	n := int64(cap(p.chunks)) * 128
	for i := range p.chunks {
		if c := &p.chunks[i]; c.x != nil {
			n += size * 8
			if c.bins != nil {
				n += size
			}
			if c.order != nil {
				n += size * 2
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
	for i := range p.chunks {
		c := &p.chunks[i]
		if c.x == nil {
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
	for i := range p.chunks {
		c := &p.chunks[i]
		if c.x == nil {
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
