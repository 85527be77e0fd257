package stats

import (
	"fmt"
	"math"
)

// Limits of a new run's distance from the runs before it (PL-Q12).
const (
	LeastBaseline = 4   // runs
	WatchZ        = 2.0 // below: ok
	ChangeZ       = 3.5 // below: watch; else changed, if also beyond its floor

	minScale = 0.005 // of the median: few runs can be alike by luck
	toSigma  = 1.4826
)

// Distance is how far a new run is from those before it.
type Distance struct {
	Z       float64 // distance over scale; above 0: larger
	Median  float64 // of the runs before
	MAD     float64
	Scale   float64 // of one run, as a standard deviation; at least 0.5 % of the median
	Percent float64 // distance in percent of the median; NaN if that is 0
}

// Far sorts a distance.
type Far string

// The sorts.
const (
	Ok      Far = "ok"
	Watch   Far = "watch"
	Changed Far = "changed"
)

// Far is what the distance alone says; whether a change matters is the floors'.
func (d Distance) Far() Far {
	switch z := math.Abs(d.Z); {
	case z < WatchZ:
		return Ok
	case z < ChangeZ:
		return Watch
	}
	return Changed
}

// NewRun measures a run against those before it by their median and MAD (PL-Q12),
// of which it needs at least 4.
func NewRun(before []float64, x float64) (Distance, error) {
	if err := check("a baseline", LeastBaseline, before); err != nil {
		return Distance{}, err
	}
	if err := check("a run", 1, []float64{x}); err != nil {
		return Distance{}, err
	}
	mad, err := MAD(before)
	if err != nil {
		return Distance{}, err
	}
	d := Distance{Median: median(before), MAD: mad, Percent: math.NaN()}
	d.Scale = max(toSigma*d.MAD, minScale*math.Abs(d.Median))
	away := x - d.Median
	switch {
	case d.Scale > 0:
		d.Z = away / d.Scale
	case away != 0:
		d.Z = math.Inf(int(math.Copysign(1, away)))
	}
	if d.Median != 0 {
		d.Percent = 100 * away / math.Abs(d.Median)
	}
	return d, nil
}

// RangeCoverage is the chance, 0 to 1, that the next run lies within the range of n
// like it: (n-1)/(n+1) (PL-Q12).
func RangeCoverage(n int) float64 { return max(0, float64(n-1)/float64(n+1)) }

// Confirmation is the answer of a deliberate comparison of A and B.
type Confirmation struct {
	Rank        Test // Mann-Whitney
	Permutation Test // of means
	Pairs       Test // of neighbours, by sign flips
	Shift       Shift
}

const (
	leastBlocks = 3
	maxBlocks   = MaxPermuted / 4
)

// ABBA is the order of a comparison that a linear drift cannot decide: true is B,
// four runs a block on the same nodes, three blocks or more (PL-Q13).
func ABBA(blocks int) ([]bool, error) {
	if blocks < leastBlocks || blocks > maxBlocks {
		return nil, fmt.Errorf("%w: %d blocks of %d to %d", ErrRange, blocks, leastBlocks, maxBlocks)
	}
	var order []bool
	for range blocks {
		order = append(order, false, true, true, false)
	}
	return order, nil
}

// Confirm compares runs that were made in the order of ABBA: 6 of each at least.
// Two neighbours are a pair, of which six are the fewest that can show something
// (PL-Q13).
func Confirm(runs []float64) (Confirmation, error) {
	var c Confirmation
	if len(runs) < 4*leastBlocks {
		return c, &TooFewError{"a comparison in the order ABBA", len(runs), 4 * leastBlocks}
	}
	if len(runs)%4 != 0 {
		return c, fmt.Errorf("%w: %d runs are no whole blocks of ABBA", ErrRange, len(runs))
	}
	order, err := ABBA(len(runs) / 4)
	if err != nil {
		return c, err
	}
	var a, b, differences []float64
	for i, x := range runs {
		if order[i] {
			b = append(b, x)
		} else {
			a = append(a, x)
		}
		switch {
		case i%2 == 0:
		case order[i]:
			differences = append(differences, x-runs[i-1])
		default:
			differences = append(differences, runs[i-1]-x)
		}
	}
	if c.Rank, err = MannWhitney(a, b); err != nil {
		return c, err
	}
	if c.Permutation, err = Permutation(a, b); err != nil {
		return c, err
	}
	if c.Pairs, err = SignFlip(differences); err != nil {
		return c, err
	}
	c.Shift, err = HodgesLehmann(a, b)
	return c, err
}
