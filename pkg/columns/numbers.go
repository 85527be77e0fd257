package columns

import (
	"math"
	"slices"

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
	// lowest and highest are rows with the smallest and largest numbers, as many as there are up to extremes.
	lowest, highest []uint16
	// summed says whether sums, lowest and highest are right.
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
				c.sum()
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

// extremes is how many of the smallest and largest numbers of a chunk are known by their rows. If a selection
// has most rows of the chunk, it has one of them.
const extremes = 4

func (c *numbers) sum() {
	c.sums, c.summed = noSums(), true
	c.lowest, c.highest = c.lowest[:0], c.highest[:0]
	for i, x := range c.x {
		if x != x {
			continue
		}
		c.sums.add(x)
		if n := len(c.lowest); n < extremes || x < c.x[c.lowest[n-1]] {
			c.lowest = c.insert(c.lowest, uint16(i), func(y float64) bool { return x < y })
		}
		if n := len(c.highest); n < extremes || x > c.x[c.highest[n-1]] {
			c.highest = c.insert(c.highest, uint16(i), func(y float64) bool { return x > y })
		}
	}
}

// insert puts a row where its number comes before others, and drops what is too much.
func (c *numbers) insert(list []uint16, row uint16, before func(float64) bool) []uint16 {
	at := slices.IndexFunc(list, func(r uint16) bool { return before(c.x[r]) })
	if at < 0 {
		at = len(list)
	}
	if len(list) == extremes {
		list = list[:extremes-1]
	}
	return slices.Insert(list, at, row)
}

// without sums up what is chosen of the chunk, from the sums of all rows and those of the others. It
// is not ok where that would be wrong: if the extremes are among the others, or the sum that is left is
// small beside what it is the difference of. A sum of 4,096 numbers of one sign is exact to about 1e-14.
func (c *numbers) without(others []uint16, chosen *rowBits, gaps bool) (s sums, ok bool) {
	if c.sums.low < 0 && c.sums.high > 0 {
		return s, false
	}
	low, okLow := c.first(c.lowest, chosen)
	high, okHigh := c.first(c.highest, chosen)
	if !okLow || !okHigh {
		return s, false
	}
	rest := c.of(others, gaps)
	s = sums{n: c.sums.n - rest.n, sum: c.sums.sum - rest.sum, low: low, high: high}
	return s, math.Abs(s.sum) >= math.Abs(c.sums.sum)/16 && !math.IsInf(s.sum, 0)
}

// first is the number of the first row that is chosen.
func (c *numbers) first(rows []uint16, chosen *rowBits) (float64, bool) {
	for _, r := range rows {
		if chosen.has(r) {
			return c.x[r], true
		}
	}
	return 0, false
}

// of sums up rows of the chunk. Without gaps, every row of the chunk that is in use has a number.
func (c *numbers) of(rows []uint16, gaps bool) sums {
	if gaps {
		return c.ofSome(rows)
	}
	s := noSums()
	s.n = len(rows)
	var sum [4]float64 // an addition waits for the one before
	for ; len(rows) >= 4; rows = rows[4:] {
		w, x, y, z := c.x[rows[0]&mask], c.x[rows[1]&mask], c.x[rows[2]&mask], c.x[rows[3]&mask]
		sum[0], sum[1], sum[2], sum[3] = sum[0]+w, sum[1]+x, sum[2]+y, sum[3]+z
		s.low, s.high = lower(s.low, w, x, y, z), higher(s.high, w, x, y, z)
	}
	for _, r := range rows {
		x := c.x[r&mask]
		sum[0] += x
		s.low, s.high = min(s.low, x), max(s.high, x)
	}
	s.sum = sum[0] + sum[1] + (sum[2] + sum[3])
	return s
}

// ofSome is of where a row may have no number. No comparison with NaN holds.
func (c *numbers) ofSome(rows []uint16) sums {
	s := noSums()
	var even, odd float64
	n := 0
	for ; len(rows) >= 2; rows = rows[2:] {
		x, y := c.x[rows[0]&mask], c.x[rows[1]&mask]
		if x == x {
			even += x
			n++
		}
		if y == y {
			odd += y
			n++
		}
		if x < s.low {
			s.low = x
		}
		if y < s.low {
			s.low = y
		}
		if x > s.high {
			s.high = x
		}
		if y > s.high {
			s.high = y
		}
	}
	for _, r := range rows {
		if x := c.x[r&mask]; x == x {
			odd += x
			n++
			s.low, s.high = min(s.low, x), max(s.high, x)
		}
	}
	s.n, s.sum = n, even+odd
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
