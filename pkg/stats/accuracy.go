package stats

import (
	"fmt"
	"math"
)

// Wilson is the interval of a share of right answers, 0 to 1.
func Wilson(right, of int) (Interval, error) {
	if of < 1 {
		return Interval{}, &TooFewError{"a share", of, 1}
	}
	if right < 0 || right > of {
		return Interval{}, fmt.Errorf("%w: %d of %d", ErrRange, right, of)
	}
	const zz = z975 * z975
	n, p := float64(of), float64(right)/float64(of)
	middle := (p + zz/(2*n)) / (1 + zz/n)
	half := z975 / (1 + zz/n) * math.Sqrt(p*(1-p)/n+zz/(4*n*n))
	i := Interval{Low: max(0, middle-half), High: min(1, middle+half), Coverage: 1 - Alpha}
	if right == 0 {
		i.Low = 0 // by algebra, not by rounding
	}
	if right == of {
		i.High = 1
	}
	return i, nil
}

// McNemar is the exact p of two systems that answered the same questions: b were
// right of the first only, c of the second only.
func McNemar(b, c int) (float64, error) {
	switch {
	case b < 0 || c < 0:
		return 0, fmt.Errorf("%w: %d and %d", ErrRange, b, c)
	case b+c == 0:
		return 1, nil
	}
	return min(1, 2*atMost(min(b, c), b+c, 0.5)), nil
}

// power is (z(97.5 %) + z(80 %)): a difference of so many standard errors is found
// four times of five.
const power = z975 + z80

// LeastDrop is the smallest drop of a share p, 0 to 1, that n questions for each of
// two systems show with 80 % power; the questions are not paired.
func LeastDrop(p float64, n int) (float64, error) {
	if !(p > 0 && p < 1) || n < 1 {
		return 0, fmt.Errorf("%w: share %g of %d", ErrRange, p, n)
	}
	// n = k (p(1-p) + (p-d)(1-p+d)) / d², solved for d.
	const k = power * power
	lean, spread := k*(2*p-1), p*(1-p)
	return min(p, (lean+math.Sqrt(lean*lean+8*k*(float64(n)+k)*spread))/(2*(float64(n)+k))), nil
}
