package stats

import (
	"math"
)

// Limits of a new run's distance from the runs before it.
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

// NewRun measures a run against those before it by their median and MAD,
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
