package figure

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/drawing"
)

// Scale says how numbers lie on an axis.
type Scale string

// The scales.
const (
	Linear Scale = "linear"
	Log    Scale = "log"  // base 10; numbers above 0 only
	Sqrt   Scale = "sqrt" // numbers from 0 on
)

// Scales lists every scale.
var Scales = []Scale{Linear, Log, Sqrt}

// ParseScale reads the name of a scale; "" is linear.
func ParseScale(name string) (Scale, error) {
	if name == "" {
		return Linear, nil
	}
	if s := Scale(name); slices.Contains(Scales, s) {
		return s, nil
	}
	names := make([]string, len(Scales))
	for i, s := range Scales {
		names[i] = string(s)
	}
	return "", fmt.Errorf("unknown scale %q: want %s", name, strings.Join(names, ", "))
}

func (s Scale) holds(v float64) bool {
	switch s {
	case Log:
		return drawing.Finite(v) && v > 1e-100
	case Sqrt:
		return drawing.Finite(v) && v >= 0
	}
	return drawing.Finite(v)
}

// at is where a number lies, in the units of the scale.
func (s Scale) at(v float64) float64 {
	switch s {
	case Log:
		return math.Log10(v)
	case Sqrt:
		return math.Sqrt(v)
	}
	return v
}

// ruler is an axis with its ends.
type ruler struct {
	scale  Scale
	lo, hi float64 // of the axis, lo < hi
	ticks  []float64
}

// frac is where a number lies between the ends, 0 to 1 within them.
func (r ruler) frac(v float64) float64 {
	a, b := r.scale.at(r.lo), r.scale.at(r.hi)
	return (r.scale.at(v) - a) / (b - a)
}

// rule is the axis for numbers, with about n ticks.
func (a Axis) rule(values []float64, n int) ruler {
	r := ruler{scale: a.Scale}
	for _, extra := range []*float64{a.Low, a.High} {
		if extra != nil {
			values = append(values, *extra)
		}
	}
	values = slices.DeleteFunc(slices.Clone(values), func(v float64) bool { return !a.Scale.holds(v) })
	lo, hi := 0.0, 1.0
	switch {
	case len(values) > 0:
		lo, hi = slices.Min(values), slices.Max(values)
	case a.Scale == Log:
		lo, hi = 1, 10
	}
	if a.Scale == Log {
		r.ticks = logTicks(lo, hi, n)
	} else {
		if a.FromZero || a.Scale == Sqrt && lo < hi/4 {
			lo, hi = min(lo, 0), max(hi, 0)
		}
		r.ticks = drawing.Ticks(lo, hi, n)
		if a.Scale == Sqrt {
			r.ticks = slices.DeleteFunc(r.ticks, func(v float64) bool { return v < 0 })
		}
	}
	r.lo, r.hi = r.ticks[0], r.ticks[len(r.ticks)-1]
	if a.Tight {
		r.tighten(lo, hi)
	}
	r.pad(lo, hi)
	return r
}

// tighten ends the axis where numbers do, if two ticks stay.
func (r *ruler) tighten(lo, hi float64) {
	inside := slices.DeleteFunc(slices.Clone(r.ticks), func(v float64) bool { return v < lo || v > hi })
	if len(inside) > 1 {
		r.lo, r.hi, r.ticks = lo, hi, inside
	}
}

// pad makes room beyond numbers at an end of the axis, so that no mark lies on the frame; a zero may.
func (r *ruler) pad(lo, hi float64) {
	const room = 0.04
	a, b := r.scale.at(r.lo), r.scale.at(r.hi)
	wide := (b - a) * room
	from, to := a, b
	if lo != 0 && r.scale.at(lo)-a < wide/2 {
		from -= wide
	}
	if hi != 0 && b-r.scale.at(hi) < wide/2 {
		to += wide
	}
	switch r.scale {
	case Log:
		r.lo, r.hi = math.Pow(10, from), math.Pow(10, to)
	case Sqrt:
		r.lo, r.hi = max(from, 0)*max(from, 0), to*to
	default:
		r.lo, r.hi = from, to
	}
}

// logTicks are powers of ten, with 2 and 5 times them where few are within, that cover lo to hi.
func logTicks(lo, hi float64, n int) []float64 {
	first, last := math.Floor(math.Log10(lo)+1e-9), math.Ceil(math.Log10(hi)-1e-9)
	if last <= first {
		last = first + 1
	}
	steps := []float64{1, 2, 5}
	every := 1
	if last-first > 2 {
		steps = steps[:1]
		every = max(1, int(math.Ceil((last-first)/float64(max(n, 1)))))
	}
	var ticks []float64
	for e := first; e <= last; e += float64(every) {
		for _, m := range steps {
			ticks = append(ticks, m*math.Pow(10, e))
		}
	}
	ticks = append(ticks, math.Pow(10, last))
	slices.Sort(ticks)
	ticks = slices.Compact(ticks)
	for len(ticks) > 2 && ticks[1] <= lo { // no more than is needed
		ticks = ticks[1:]
	}
	for len(ticks) > 2 && ticks[len(ticks)-2] >= hi {
		ticks = ticks[:len(ticks)-1]
	}
	return ticks
}

// texts are the ticks as text.
func (r ruler) texts() []string { return drawing.TickTexts(r.ticks) }

// extent are the numbers that a panel must show, of x and of y.
func (p *Panel) extent() (xs, ys []float64) {
	for _, s := range p.Series {
		for _, q := range p.usable(s) {
			xs, ys = append(xs, q.X), append(ys, q.Y)
			if drawing.Finite(q.XErr) && q.XErr > 0 {
				xs = append(xs, q.X-q.XErr, q.X+q.XErr)
			}
			if drawing.Finite(q.YErr) && q.YErr > 0 {
				ys = append(ys, q.Y-q.YErr, q.Y+q.YErr)
			}
		}
	}
	for _, s := range p.Spans {
		if drawing.Finite(s.From) && drawing.Finite(s.To) {
			xs = append(xs, s.From, s.To)
		}
	}
	return xs, ys
}
