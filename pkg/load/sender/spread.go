package sender

import "math/bits"

// A Spread counts durations in buckets of at most 1/8 of their value. The zero value is empty.
type Spread struct {
	Counts [62 * 8]uint64 // by bucket
	N      uint64         // all of them
}

// Add counts one duration in ns; a negative one counts as 0.
func (s *Spread) Add(ns int64) { s.AddTo(ns, 1) }

// AddTo counts the same duration n times.
func (s *Spread) AddTo(ns int64, n int) {
	s.Counts[bucket(uint64(max(ns, 0)))] += uint64(n)
	s.N += uint64(n)
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
	for i, c := range other.Counts {
		s.Counts[i] += c
	}
	s.N += other.N
}

// Quantile returns an upper bound, in ns, of the q-th quantile, q in [0, 1]; 0 if the spread is
// empty.
func (s *Spread) Quantile(q float64) int64 {
	if s.N == 0 {
		return 0
	}
	rank := uint64(q * float64(s.N-1))
	var seen uint64
	for i, c := range s.Counts {
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
