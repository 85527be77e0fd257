package stats

import (
	"fmt"
	"math"
	"slices"
)

// Floors are the differences, in percent, below which a change is not worth a word
// whatever its p is.
const (
	FloorThroughput = 2.0
	FloorMedian     = 5.0  // of a latency's middle: mean, p50 and below p90
	FloorTail       = 15.0 // of a latency's p90 and above
)

// MostRuns is how many runs of each side are proposed at most, unless more than half as many exist.
// A difference that needs more is out of reach: less noise helps sooner than more runs.
const MostRuns = 30

// LeastShift is the smallest difference of two means of n runs each that is found
// four times of five, in the unit of cv: a ratio or percent.
func LeastShift(cv float64, n int) (float64, error) {
	if !(cv >= 0) || n < 1 {
		return 0, fmt.Errorf("%w: CV %g of %d", ErrRange, cv, n)
	}
	return power * cv * math.Sqrt(2/float64(n)), nil
}

// RunsForShift is how many runs each side needs so that LeastShift is at most
// shift, in the unit of cv.
func RunsForShift(cv, shift float64) (int, error) {
	if !(cv >= 0 && shift > 0) || math.IsInf(cv, 0) {
		return 0, fmt.Errorf("%w: CV %g, shift %g", ErrRange, cv, shift)
	}
	n := 2 * math.Pow(power*cv/shift, 2)
	return max(1, int(math.Ceil(min(n, math.MaxInt32)))), nil
}

// looks are the numbers of runs at which a series of repeats may stop.
var looks = []int{LeastRepeats, 9, 12, 15, MostRepeats}

// Look is what a series of repeats came to.
type Look struct {
	Enough    bool    // stop: precise, or the budget is used up
	Precise   bool    // the interval is as narrow as was asked
	HalfWidth float64 // of the median's interval, in percent of the median; +Inf if there is none yet
	Next      int     // runs at which to look again; 0 if enough
}

// Repeat says whether runs made one after the other are enough: their median's
// interval is no wider than ± percent, or there are budget of them. It asks at 6, 9,
// 12, 15 and 20 runs only, and never for a p: to stop at a good one finds false ones.
func Repeat(runs []float64, percent float64, budget int) (Look, error) {
	if !(percent > 0) || budget < 1 {
		return Look{}, fmt.Errorf("%w: precision %g, budget %d", ErrRange, percent, budget)
	}
	if err := check("a series", 0, runs); err != nil {
		return Look{}, err
	}
	l := Look{HalfWidth: math.Inf(1)}
	n := len(runs)
	if i, err := MedianInterval(runs); err == nil {
		l.HalfWidth = 100 * (i.High - i.Low) / 2 / math.Abs(median(runs))
	}
	l.Precise = Looks(n) && l.HalfWidth <= percent
	budget = min(budget, MostRepeats)
	if l.Enough = l.Precise || n >= budget; l.Enough {
		return l, nil
	}
	l.Next = budget
	for _, at := range looks {
		if at > n {
			l.Next = min(at, budget)
			break
		}
	}
	return l, nil
}

// How many runs a series of repeats has: a median of fewer has no interval, and after
// the last look there is none.
const (
	LeastRepeats = 6
	MostRepeats  = 20
)

// Looks reports whether a series of so many repeats is looked at.
func Looks(n int) bool { return slices.Contains(looks, n) }

// Project is how many runs a series may need until the interval of its median is no
// wider than ± percent, by how wide it is now and how it narrows for values of a
// normal distribution; at most MaxProjected. Of fewer than six runs nothing can be
// said: TooFewError.
func Project(runs []float64, percent float64) (int, error) {
	if !(percent > 0) {
		return 0, fmt.Errorf("%w: precision %g", ErrRange, percent)
	}
	i, err := MedianInterval(runs)
	if err != nil {
		return 0, err
	}
	n, wide := len(runs), 100*(i.High-i.Low)/2/math.Abs(median(runs))
	if wide <= percent {
		return n, nil
	}
	unit := wide / halfWidth(n)
	for n < MaxProjected && !(unit*halfWidth(n) <= percent) {
		n++
	}
	return n, nil
}

// MaxProjected bounds the answer of Project: nobody makes so many.
const MaxProjected = 200

// halfWidth is about half the width of the interval of the median of n values of the
// standard normal distribution, by Blom's scores of its two ends.
func halfWidth(n int) float64 {
	return quantile((float64(n+1-medianCut(n)) - 0.375) / (float64(n) + 0.25))
}

// quantile is the standard normal distribution's inverse.
func quantile(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }

// BenjaminiHochberg adjusts the p of tests that are asked together: those at most q
// are found, with a share of false ones of at most q among them. The answer
// is in the order of ps, each of which is 0 to 1.
func BenjaminiHochberg(ps []float64) ([]float64, error) {
	order := make([]int, len(ps))
	for i, p := range ps {
		if !(p >= 0 && p <= 1) {
			return nil, fmt.Errorf("%w: p %g", ErrRange, p)
		}
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		switch {
		case ps[i] < ps[j]:
			return -1
		case ps[i] > ps[j]:
			return 1
		}
		return 0
	})
	adjusted, least := make([]float64, len(ps)), 1.0
	for rank := len(ps); rank > 0; rank-- {
		i := order[rank-1]
		least = min(least, ps[i]*(float64(len(ps))/float64(rank)))
		adjusted[i] = least
	}
	return adjusted, nil
}
