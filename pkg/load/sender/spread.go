package sender

import "math/bits"

// A Spread counts durations in buckets of at most 1/8 of their value. The zero value is empty.
type Spread struct {
	counts [62 * 8]uint64
	n      uint64
}

// Add counts one duration in ns; a negative one counts as 0.
func (s *Spread) Add(ns int64) {
	s.counts[bucket(uint64(max(ns, 0)))]++
	s.n++
}

// bucket keeps the three bits below the highest one.
func bucket(v uint64) int {
	if v < 8 {
		return int(v)
	}
	shift := bits.Len64(v) - 4
	return (shift+1)*8 + int(v>>shift&7)
}

func (s *Spread) merge(other *Spread) {
	for i, c := range other.counts {
		s.counts[i] += c
	}
	s.n += other.n
}

// Quantile returns an upper bound, in ns, of the q-th quantile, q in [0, 1]; 0 if the spread is
// empty.
func (s *Spread) Quantile(q float64) int64 {
	if s.n == 0 {
		return 0
	}
	rank := uint64(q * float64(s.n-1))
	var seen uint64
	for i, c := range s.counts {
		if seen += c; seen > rank {
			if i < 8 {
				return int64(i)
			}
			shift := i/8 - 1
			return int64((8+uint64(i%8)+1)<<shift) - 1
		}
	}
	return 0
}
