package columns

import "math/bits"

const (
	shift     = 12
	size      = 1 << shift // rows of a chunk
	mask      = size - 1
	words     = size / 64
	bitsBytes = size / 8
)

// rowBits are rows of a chunk.
type rowBits [words]uint64

func (b *rowBits) set(i uint32)   { b[i/64&(words-1)] |= 1 << (i % 64) }
func (b *rowBits) unset(i uint32) { b[i/64&(words-1)] &^= 1 << (i % 64) }

func (b *rowBits) has(i uint16) bool { return b[i/64&(words-1)]>>(i%64)&1 == 1 }

func (b *rowBits) fill(with bool) {
	var w uint64
	if with {
		w = ^uint64(0)
	}
	for i := range b {
		b[i] = w
	}
}

func (b *rowBits) and(x *rowBits) {
	for i := range b {
		b[i] &= x[i]
	}
}

func (b *rowBits) or(x *rowBits) {
	for i := range b {
		b[i] |= x[i]
	}
}

func (b *rowBits) not() {
	for i := range b {
		b[i] = ^b[i]
	}
}

func (b *rowBits) none() bool {
	var all uint64
	for _, w := range b {
		all |= w
	}
	return all == 0
}

func (b *rowBits) count() int {
	n := 0
	for _, w := range b {
		n += bits.OnesCount64(w)
	}
	return n
}

// countBoth counts the rows that are in both.
func (b *rowBits) countBoth(x *rowBits) int {
	n := 0
	for i := range b {
		n += bits.OnesCount64(b[i] & x[i])
	}
	return n
}

// list appends the rows, counted from the first of the chunk.
func (b *rowBits) list(to []uint16) []uint16 {
	for i, w := range b {
		base := uint16(i * 64)
		for ; w != 0; w &= w - 1 {
			to = append(to, base+uint16(bits.TrailingZeros64(w)))
		}
	}
	return to
}

// one is 1 or 0, without a branch.
func one(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
