package knobs

import (
	"encoding/binary"
	"hash/fnv"
)

// Unit draws number i of the sequence that seed starts, in [0, 1).
func Unit(seed, i uint64) float64 {
	return float64(Mix(seed, i)>>11) / (1 << 53)
}

// Mix draws 64 random bits (the finalizer of splitmix64, Steele et al., 2014).
func Mix(seed, i uint64) uint64 {
	z := seed + (i+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// HashTokens condenses token ids and a seed into a seed of their own.
func HashTokens(seed uint64, ids []int) uint64 {
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

func HashText(seed uint64, text string) uint64 {
	h := fnv.New64a()
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], seed)
	h.Write(b[:])
	h.Write([]byte(text))
	return h.Sum64()
}
