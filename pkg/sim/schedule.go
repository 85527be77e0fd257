package sim

import (
	"encoding/binary"
	"hash/fnv"
	"time"
)

// timing says when tokens are due.
type timing struct {
	ttft, itl time.Duration
	jitter    float64 // 0-1
	seed      uint64
}

// A schedule holds the due times of one request's tokens.
type schedule struct {
	first  time.Duration // due time of token 0, after admission
	itl    time.Duration
	jitter float64
	seed   uint64 // of this request
}

// request returns the schedule of the request with this seed. With resumed the prompt's KV cache came from elsewhere, and
// the first token takes one step.
func (t timing) request(seed uint64, resumed bool) schedule {
	first := t.ttft
	if resumed {
		first = t.itl
	}
	late := 1 + t.jitter*(2*unit(seed, 0)-1)
	return schedule{first: time.Duration(float64(first) * late), itl: t.itl, jitter: t.jitter, seed: seed}
}

// due returns when token i is due, counted from admission. It does not depend on when earlier tokens went out, so a late
// token delays no other, and it never decreases: with jitter j a token is at most j/2 steps early or late.
func (s schedule) due(i int) time.Duration {
	d := s.first + time.Duration(i)*s.itl
	if i > 0 && s.jitter > 0 {
		d += time.Duration(float64(s.itl) * s.jitter * (unit(s.seed, uint64(i)) - 0.5))
	}
	return d
}

// unit draws number i of the sequence that seed starts, in [0, 1).
func unit(seed, i uint64) float64 {
	return float64(mix(seed, i)>>11) / (1 << 53)
}

// mix draws 64 random bits (the finalizer of splitmix64, Steele et al., 2014).
func mix(seed, i uint64) uint64 {
	z := seed + (i+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// hashTokens condenses token ids and a seed into a seed of their own.
func hashTokens(seed uint64, ids []int) uint64 {
	h := fnv.New64a()
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], seed)
	h.Write(b[:])
	for _, id := range ids {
		binary.LittleEndian.PutUint64(b[:], uint64(id))
		h.Write(b[:])
	}
	return h.Sum64()
}

func hashText(seed uint64, text string) uint64 {
	h := fnv.New64a()
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], seed)
	h.Write(b[:])
	h.Write([]byte(text))
	return h.Sum64()
}
