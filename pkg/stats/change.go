package stats

import (
	"math"
	"slices"
)

const (
	leastSide = 4 // runs on each side of a cut
	sameQ     = 1e-12
	// dependent is the autocorrelation above which one series of 40 in four has a
	// false cut.
	dependent = 0.3
	// clear is the shift, in standard deviations of one run within its part, that
	// dependence does not make: of series of 20 and 40 runs at an autocorrelation of 0.6,
	// 0.9 some 0.7 and 5 % have a larger one, and would else be watched.
	clear = 5
)

// Cut is a place where a series changed.
type Cut struct {
	Index     int     // first run of the new part, from 0
	Q         float64 // energy statistic of its two sides, in the unit of the values
	P         float64 // Mann-Whitney's
	AdjustedP float64 // for the places where the cut could have been between its neighbours
	Places    int
	// SearchedP is also for the places where its neighbours could have been, and so for
	// all that was looked at to find it. Of series without a change at most a share x has
	// a cut with a SearchedP of x, however small x is: where many series are asked
	// together it is what to adjust. Of a series with one cut it is AdjustedP.
	SearchedP float64
	Shift     Shift // of the part behind the cut against the one before it
	// Watch is set if the series' is, unless the shift is far larger than what dependence
	// makes.
	Watch bool
}

// Changes are the cuts of a series.
type Changes struct {
	Cuts []Cut
	// Autocorrelation is that of lag 1 within the parts, with what it loses by taking
	// the mean of each part out (Kendall's and Marriott and Pope's bias, 1954).
	Autocorrelation float64
	// Watch is set if the runs depend on each other so much that a cut is to be
	// watched and not believed. Of 20 runs that do not depend on each other one
	// series in ten looks so.
	Watch bool
}

// ChangePoints finds where a series, in the order of time, changed for good. It sees a change
// after four runs at the earliest; series of fewer than eight runs have none. It takes a time
// of n² for each cut.
func ChangePoints(xs []float64) (Changes, error) {
	if err := check("change points", 0, xs); err != nil {
		return Changes{}, err
	}
	cuts := prune(xs, split(xs, 0, nil))
	for i := range cuts {
		from, to := neighbours(xs, cuts, i)
		cuts[i], _ = bestCut(xs, from, to)
	}
	cuts = prune(xs, cuts)
	var c Changes
	for i, at := range cuts {
		from, to := neighbours(xs, cuts, i)
		cut := judged(xs, from, at, to)
		cut.Q = energy(xs[from:at], xs[at:to])
		var err error
		if cut.Shift, err = HodgesLehmann(xs[from:at], xs[at:to]); err != nil {
			return c, err
		}
		c.Cuts = append(c.Cuts, cut)
	}
	setSearchedP(xs, c.Cuts)
	if lost := float64(len(cuts)+1) / float64(max(len(xs), 1)); lost <= 1.0/leastSide {
		c.Autocorrelation = max(-1, min(1, (lag1(residuals(xs, cuts))+lost)/(1-3*lost)))
	}
	c.Watch = c.Autocorrelation > dependent
	for i := range c.Cuts {
		from, to := neighbours(xs, cuts, i)
		c.Cuts[i].Watch = c.Watch && math.Abs(c.Cuts[i].Shift.Estimate) < clear*within(xs[from:cuts[i]], xs[cuts[i]:to])
	}
	return c, nil
}

// LeastSeries is the fewest runs of a series in which one change can be found even if its cut
// is the only one that passes of so many series asked together: 8 of one series, since a change
// needs four runs on each side.
func LeastSeries(tests int) int {
	n := 2 * leastSide
	for float64(n-2*leastSide+1)*LeastP(n/2, n-n/2)*float64(max(tests, 1)) >= Alpha {
		n++
	}
	return n
}

// split cuts a series at its best place, and both parts again, whether or not a cut
// means something: a bump shows only when both of its ends are cut.
func split(xs []float64, from int, cuts []int) []int {
	if len(xs) < 2*leastSide {
		return cuts
	}
	at, _ := bestCut(xs, 0, len(xs))
	cuts = split(xs[:at], from, cuts)
	cuts = append(cuts, from+at)
	return split(xs[at:], from+at, cuts)
}

// neighbours are the ends of the two parts that a cut lies between.
func neighbours(xs []float64, cuts []int, i int) (from, to int) {
	to = len(xs)
	if i > 0 {
		from = cuts[i-1]
	}
	if i+1 < len(cuts) {
		to = cuts[i+1]
	}
	return from, to
}

// judged tests a cut between two parts.
func judged(xs []float64, from, at, to int) Cut {
	c := Cut{Index: at, Places: to - from - (2*leastSide - 1), P: mannWhitney(xs[from:at], xs[at:to]).P}
	c.AdjustedP = min(1, float64(c.Places)*c.P)
	return c
}

// setSearchedP sets every SearchedP. A cut lies between neighbours that were searched for
// too, so its p counts for all places of the three, except that a neighbour which is
// more certain stays where it is: then the cut's p is that one's at least. A neighbour
// that is less certain may also be taken away, if the cut is more certain without.
func setSearchedP(xs []float64, cuts []Cut) {
	settled := map[int]bool{}
	gate := 0.0
	for range cuts {
		best, least := -1, math.Inf(1)
		for i, c := range cuts {
			if settled[i] {
				continue
			}
			from, to := 0, len(xs) // up to settled cuts
			left, right := 0, len(xs)
			if i > 0 {
				left = cuts[i-1].Index
			}
			if i+1 < len(cuts) {
				right = cuts[i+1].Index
			}
			for k := range cuts {
				switch {
				case settled[k] && k < i:
					from = cuts[k].Index
				case settled[k] && k > i && to == len(xs):
					to = cuts[k].Index
				}
			}
			for _, a := range ends(left, from) {
				for _, b := range ends(right, to) {
					free := 0
					if a != from {
						free++
					}
					if b != to {
						free++
					}
					places := choose(to-from-leastSide*(free+2)+free+1, free+1)
					if p := min(1, mannWhitney(xs[a:c.Index], xs[c.Index:b]).P*places); p < least {
						best, least = i, p
					}
				}
			}
		}
		gate = max(gate, least)
		settled[best], cuts[best].SearchedP = true, gate
	}
}

// ends are the two places at which a part may end, if they are two.
func ends(near, far int) []int {
	if near == far {
		return []int{far}
	}
	return []int{near, far}
}

// prune drops the least certain cut until all that remain pass Alpha.
func prune(xs []float64, cuts []int) []int {
	cuts = slices.Clone(cuts)
	tested := make([]Cut, len(cuts))
	test := func(i int) {
		if i >= 0 && i < len(cuts) {
			from, to := neighbours(xs, cuts, i)
			tested[i] = judged(xs, from, cuts[i], to)
		}
	}
	for i := range cuts {
		test(i)
	}
	for len(cuts) > 0 {
		worst := 0
		for i, c := range tested {
			if w := tested[worst]; c.AdjustedP > w.AdjustedP || c.AdjustedP == w.AdjustedP && c.P > w.P {
				worst = i
			}
		}
		if tested[worst].AdjustedP < Alpha {
			break
		}
		cuts, tested = slices.Delete(cuts, worst, worst+1), slices.Delete(tested, worst, worst+1)
		test(worst - 1) // its part and the next are one now
		test(worst)
	}
	return cuts
}

// bestCut is the place of the largest Q within [from,to), the leftmost of equals.
func bestCut(xs []float64, from, to int) (at int, q float64) {
	xs = xs[from:to]
	var left, right, across float64 // sums of distances of pairs
	for i, x := range xs {
		for _, y := range xs[:i] {
			right += math.Abs(x - y)
		}
	}
	at = from + leastSide
	for i, x := range xs { // x goes over from the right to the left
		var toLeft, toRight float64
		for _, y := range xs[:i] {
			toLeft += math.Abs(x - y)
		}
		for _, y := range xs[i+1:] {
			toRight += math.Abs(x - y)
		}
		left, right, across = left+toLeft, right-toRight, across+toRight-toLeft
		n := i + 1
		if m := len(xs) - n; n >= leastSide && m >= leastSide {
			if e := energyOf(n, m, left, right, across); n == leastSide || e > q+sameQ*max(1, math.Abs(q)) {
				at, q = from+n, e
			}
		}
	}
	return at, q
}

// energy is Q of two parts of two runs or more.
func energy(a, b []float64) float64 {
	within := func(xs []float64) float64 {
		sum := 0.0
		for i, x := range xs {
			for _, y := range xs[:i] {
				sum += math.Abs(x - y)
			}
		}
		return sum
	}
	across := 0.0
	for _, x := range a {
		for _, y := range b {
			across += math.Abs(x - y)
		}
	}
	return energyOf(len(a), len(b), within(a), within(b), across)
}

// energyOf is nm/(n+m) (2 mean|x-y| - mean|x-x'| - mean|y-y'|), from the sums over
// pairs; a pair is of two different runs.
func energyOf(n, m int, left, right, across float64) float64 {
	x, y := float64(n), float64(m)
	return x * y / (x + y) * (2*across/(x*y) - 2*left/(x*(x-1)) - 2*right/(y*(y-1)))
}

// within is the standard deviation of one run of two parts of two or more.
func within(a, b []float64) float64 {
	sum := 0.0
	for _, xs := range [][]float64{a, b} {
		m := mean(xs)
		for _, x := range xs {
			sum += (x - m) * (x - m) / float64(2*(len(xs)-1))
		}
	}
	return math.Sqrt(sum)
}

// residuals are the runs less the mean of their part.
func residuals(xs []float64, cuts []int) []float64 {
	out := slices.Clone(xs)
	from := 0
	for _, to := range append(slices.Clone(cuts), len(xs)) {
		m := mean(xs[from:to])
		for i := from; i < to; i++ {
			out[i] -= m
		}
		from = to
	}
	return out
}
