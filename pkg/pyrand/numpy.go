package pyrand

import (
	"encoding/binary"
	"math/bits"
)

// Legacy is numpy.random.RandomState: numpy's draws before it had generators, from MT19937 with
// the seeding of numpy.random.seed.
type Legacy struct{ twister }

// NewLegacy seeds as numpy.random.RandomState(seed) does.
func NewLegacy(seed uint32) *Legacy {
	l := &Legacy{}
	for i := range uint32(mtWords) {
		l.state[i] = seed
		seed = 1812433253*(seed^seed>>30) + i + 1
	}
	l.next = mtWords
	return l
}

// masked is a number from 0 to n-1, n from 1 to 2^32: words cut to as many bits as n-1 has, drawn
// again while they are not below n. Where there is one number only, nothing is drawn.
func masked(n int, draw func() uint32) int {
	if n == 1 {
		return 0
	}
	mask := uint32(1<<bits.Len32(uint32(n-1)) - 1)
	for {
		if v := draw() & mask; v <= uint32(n-1) {
			return int(v)
		}
	}
}

// Ints is randint(0, n, size=k), which is choice(n, size=k) as well.
func (l *Legacy) Ints(n, k int) []int {
	out := make([]int, k)
	for i := range out {
		out[i] = masked(n, l.uint32)
	}
	return out
}

// Permutation is permutation(n).
func (l *Legacy) Permutation(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	for i := n - 1; i > 0; i-- {
		j := masked(i+1, l.uint32)
		out[i], out[j] = out[j], out[i]
	}
	return out
}

// Generator is numpy.random.default_rng: PCG64 (O'Neill, 2014), seeded by a SeedSequence.
type Generator struct {
	state, inc u128
	half       uint32 // the upper half of a word whose lower half was drawn
	halved     bool
}

// A u128 is a number of 128 bits.
type u128 struct{ hi, lo uint64 }

func (a u128) add(b u128) u128 {
	lo, carry := bits.Add64(a.lo, b.lo, 0)
	hi, _ := bits.Add64(a.hi, b.hi, carry)
	return u128{hi, lo}
}

func (a u128) mul(b u128) u128 {
	hi, lo := bits.Mul64(a.lo, b.lo)
	return u128{hi + a.hi*b.lo + a.lo*b.hi, lo}
}

// pcgMultiplier is that of PCG's generators of 128 bits.
var pcgMultiplier = u128{0x2360ed051fc65da4, 0x4385df649fccf645}

// NewGenerator seeds as numpy.random.default_rng(seed) does.
func NewGenerator(seed uint64) *Generator {
	w := seedSequence(seed)
	g := &Generator{inc: u128{w[2]<<1 | w[3]>>63, w[3]<<1 | 1}}
	g.step()
	g.state = g.state.add(u128{w[0], w[1]})
	g.step()
	return g
}

func (g *Generator) step() { g.state = g.state.mul(pcgMultiplier).add(g.inc) }

// uint64 is the output function XSL-RR.
func (g *Generator) uint64() uint64 {
	g.step()
	return bits.RotateLeft64(g.state.hi^g.state.lo, -int(g.state.hi>>58))
}

// uint32 draws halves of words, the lower one first.
func (g *Generator) uint32() uint32 {
	if g.halved {
		g.halved = false
		return g.half
	}
	w := g.uint64()
	g.half, g.halved = uint32(w>>32), true
	return uint32(w)
}

// Int is integers(0, n), n from 1 to below 2^32, by Lemire's method. Where there is one number
// only, nothing is drawn.
func (g *Generator) Int(n int) int {
	if n == 1 {
		return 0
	}
	m := uint64(g.uint32()) * uint64(n)
	if low := uint32(m); low < uint32(n) {
		for threshold := -uint32(n) % uint32(n); low < threshold; low = uint32(m) {
			m = uint64(g.uint32()) * uint64(n)
		}
	}
	return int(m >> 32)
}

// Ints is integers(0, n, size=k).
func (g *Generator) Ints(n, k int) []int {
	out := make([]int, k)
	for i := range out {
		out[i] = g.Int(n)
	}
	return out
}

// Bytes fills dst as integers(0, 256, size=len(dst), dtype=uint8) does.
func (g *Generator) Bytes(dst []byte) {
	for ; len(dst) >= 4; dst = dst[4:] {
		binary.LittleEndian.PutUint32(dst, g.uint32())
	}
	if len(dst) > 0 {
		var last [4]byte
		binary.LittleEndian.PutUint32(last[:], g.uint32())
		copy(dst, last[:])
	}
}

// Float is random(): from 0 to below 1.
func (g *Generator) Float() float64 { return float64(g.uint64()>>11) / (1 << 53) }

// Weighted is the index that choice(n, p=weights) picks, where weights add up to 1.
func (g *Generator) Weighted(weights []float64) int {
	total := 0.0
	for _, w := range weights {
		total += w
	}
	x, sum := g.Float(), 0.0
	for i, w := range weights {
		if sum += w; x < sum/total {
			return i
		}
	}
	return len(weights) - 1
}

// Shuffle is shuffle of n things, and permutation of a list of them.
func (g *Generator) Shuffle(n int, swap func(i, j int)) {
	for i := n - 1; i > 0; i-- {
		swap(i, masked(i+1, g.uint32))
	}
}

// seedSequence is SeedSequence(seed).generate_state(4, uint64) (O'Neill's seed_seq_fe, with
// numpy's constants).
func seedSequence(seed uint64) (out [4]uint64) {
	var pool [4]uint32
	mult := uint32(0x43b0d7e5)
	hash := func(v, next uint32) uint32 {
		v ^= mult
		mult *= next
		v *= mult
		return v ^ v>>16
	}
	for i, word := range []uint32{uint32(seed), uint32(seed >> 32), 0, 0} {
		pool[i] = hash(word, 0x931e8875)
	}
	for from := range pool {
		for to := range pool {
			if from != to {
				v := pool[to]*0xca01f9dd - hash(pool[from], 0x931e8875)*0x4973f715
				pool[to] = v ^ v>>16
			}
		}
	}
	mult = 0x8b51f9dd
	for i := range out {
		low := hash(pool[2*i%4], 0x58f38ded)
		high := hash(pool[(2*i+1)%4], 0x58f38ded)
		out[i] = uint64(high)<<32 | uint64(low)
	}
	return out
}
