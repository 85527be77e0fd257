package pyrand

import (
	"crypto/sha512"
	"encoding/binary"
	"math/bits"
)

// Python is the Mersenne Twister MT19937 (Matsumoto and Nishimura, 1998) with the seeding and
// the derived draws of CPython's random module.
type Python struct{ twister }

// twister is MT19937 itself.
type twister struct {
	state [mtWords]uint32
	next  int
}

// Parameters of MT19937.
const (
	mtWords = 624
	mtShift = 397
)

// FromText seeds as random.Random(text) does (seed version 2): the UTF-8 bytes
// followed by their SHA-512 are one big-endian integer, whose 32-bit words, least
// significant first, are the key of init_by_array.
func FromText(text string) *Python {
	digest := sha512.Sum512([]byte(text))
	seed := append([]byte(text), digest[:]...)
	for len(seed) > 1 && seed[0] == 0 {
		seed = seed[1:]
	}
	if pad := len(seed) % 4; pad != 0 {
		seed = append(make([]byte, 4-pad), seed...)
	}
	key := make([]uint32, len(seed)/4)
	for i := range key {
		key[len(key)-1-i] = binary.BigEndian.Uint32(seed[4*i:])
	}
	p := &Python{}
	p.seed(key)
	return p
}

// FromInt seeds as random.Random(n) does: without the sign, as 32-bit words, least significant
// first.
func FromInt(n int64) *Python {
	u := uint64(n)
	if n < 0 {
		u = -u
	}
	key := []uint32{uint32(u)}
	if u>>32 != 0 {
		key = append(key, uint32(u>>32))
	}
	p := &Python{}
	p.seed(key)
	return p
}

// seed is init_by_array of the authors' mt19937ar.c.
func (t *twister) seed(key []uint32) {
	s := &t.state
	s[0] = 19650218
	for i := uint32(1); i < mtWords; i++ {
		s[i] = 1812433253*(s[i-1]^s[i-1]>>30) + i
	}
	i, j := 1, 0
	wrap := func() {
		if i++; i >= mtWords {
			s[0], i = s[mtWords-1], 1
		}
	}
	for range max(mtWords, len(key)) {
		s[i] = (s[i] ^ (s[i-1]^s[i-1]>>30)*1664525) + key[j] + uint32(j)
		wrap()
		if j++; j >= len(key) {
			j = 0
		}
	}
	for range mtWords - 1 {
		s[i] = (s[i] ^ (s[i-1]^s[i-1]>>30)*1566083941) - uint32(i)
		wrap()
	}
	s[0] = 1 << 31
	t.next = mtWords
}

func (t *twister) uint32() uint32 {
	if t.next == mtWords {
		s := &t.state
		for i := range s {
			y := s[i]&(1<<31) | s[(i+1)%mtWords]&(1<<31-1)
			s[i] = s[(i+mtShift)%mtWords] ^ y>>1 ^ y&1*0x9908b0df
		}
		t.next = 0
	}
	y := t.state[t.next]
	t.next++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

// Bits is getrandbits(k), k from 1 to 64.
func (t *Python) Bits(k int) uint64 {
	if k <= 32 {
		return uint64(t.uint32() >> (32 - k))
	}
	low := uint64(t.uint32())
	return uint64(t.uint32()>>(64-k))<<32 | low
}

// Below is a number from 0 to n-1 as random.choice picks its index: as many bits
// as n needs, drawn again while they are not below n. n is 1 or more.
func (t *Python) Below(n int) int {
	k := bits.Len64(uint64(n))
	for {
		if r := t.Bits(k); r < uint64(n) {
			return int(r)
		}
	}
}

// Float is random.random(): 53 bits, from 0 to below 1.
func (t *Python) Float() float64 {
	a, b := uint64(t.uint32()>>5), uint64(t.uint32()>>6)
	return float64(a<<26|b) / (1 << 53)
}

// Weighted is the index that random.choices picks for one draw: the first whose
// cumulative weight is above a uniform number times the sum.
func (t *Python) Weighted(weights []float64) int {
	total := 0.0
	for _, w := range weights {
		total += w
	}
	x, sum := t.Float()*total, 0.0
	for i, w := range weights[:len(weights)-1] {
		if sum += w; x < sum {
			return i
		}
	}
	return len(weights) - 1
}

// Choices is random.choices(range(n), k=k).
func (t *Python) Choices(n, k int) []int {
	out := make([]int, k)
	for i := range out {
		out[i] = int(t.Float() * float64(n))
	}
	return out
}

// Shuffle is random.shuffle of n things.
func (t *Python) Shuffle(n int, swap func(i, j int)) {
	for i := n - 1; i > 0; i-- {
		swap(i, t.Below(i+1))
	}
}
