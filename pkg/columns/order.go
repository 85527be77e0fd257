package columns

import (
	"cmp"
	"math/bits"
	"slices"
)

// summarise finds the sums of a chunk and the order of its rows.
func (c *numbers) summarise() {
	c.sums, c.summed = noSums(), true
	for _, x := range c.x {
		if x == x {
			c.sums.add(x)
		}
	}
	if c.n == 0 {
		return
	}
	if c.order == nil {
		c.order = new([size]uint16)
	}
	c.sort()
}

// ranked is a row with its place between the smallest and the largest number of a chunk, as far as 16
// bits tell.
type ranked struct{ key, row uint16 }

// sort orders the rows of the chunk that have a number: first by keys of 16 bits, one byte after the
// other, then those of one key.
func (c *numbers) sort() {
	var list, other [size]ranked
	from := sortable(c.sums.low)
	shift := max(bits.Len64(sortable(c.sums.high)-from)-16, 0)
	n := 0
	for row, x := range c.x {
		if x == x {
			list[n] = ranked{uint16((sortable(x) - from) >> shift), uint16(row)}
			n++
		}
	}
	byByte(list[:n], other[:n], 0)
	byByte(other[:n], list[:n], 8)
	for first := 0; first < n; {
		last := first
		for ; last < n && list[last].key == list[first].key; last++ {
			c.order[last] = list[last].row
		}
		if shift > 0 && last-first > 1 {
			slices.SortFunc(c.order[first:last], func(a, b uint16) int { return cmp.Compare(c.x[a], c.x[b]) })
		}
		first = last
	}
}

// byByte puts the elements of a list into another, ordered by a byte of their keys.
func byByte(from, into []ranked, shift int) {
	var ends [256]int
	for _, r := range from {
		ends[uint8(r.key>>shift)]++
	}
	at := 0
	for i, n := range ends {
		ends[i], at = at, at+n
	}
	for _, r := range from {
		b := uint8(r.key >> shift)
		into[ends[b]] = r
		ends[b]++
	}
}
