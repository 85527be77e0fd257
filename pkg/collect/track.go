package collect

import (
	"time"

	"github.com/profllm/profllm/pkg/gpu"
	"github.com/profllm/profllm/pkg/result"
)

const (
	// closeBy is how many intervals two samples may lie apart for all the time between
	// them to count as seen. nvidia-smi waits the interval after each look, which takes
	// it some milliseconds for each GPU.
	closeBy = 1.5
	// fewest samples in use are needed for a mean clock.
	fewestClocks = 10
)

// track follows one GPU through a window. It keeps sums and the last sample, not the
// samples.
type track struct {
	use              result.GPUUse
	begin, end       time.Time
	interval         float64 // s
	last             *gpu.Sample
	covered          float64 // s
	byPower, counted float64 // J
	all, metered     bool    // every second has a power, a counter
	sumUse, sumClock float64
	uses, clocks     int
	reasons, slowed  int
	capped           int
	why              gpu.Reasons
}

func newTrack(s *result.GPUSamples, use result.GPUUse) *track {
	return &track{use: use, begin: s.Begin, end: s.End, interval: s.Interval, all: true, metered: true}
}

// add takes the next sample. One from before the last one, of a clock that was set
// back, is left out.
func (t *track) add(s gpu.Sample) {
	if t.last != nil && !s.Time.After(t.last.Time) {
		return
	}
	if !s.Time.Before(t.begin) && !s.Time.After(t.end) {
		t.look(s)
	}
	if s.Power == nil && s.Energy == nil {
		return
	}
	t.between(t.last, &s)
	t.last = &s
}

// look counts a sample in the window.
func (t *track) look(s gpu.Sample) {
	u := &t.use
	u.Samples++
	u.UUID = s.UUID
	if s.Use != nil {
		t.sumUse += *s.Use
		t.uses++
		if s.SM != nil && *s.Use > 0 {
			t.sumClock += *s.SM
			t.clocks++
		}
	}
	highest(&u.PeakPower, s.Power, 1)
	highest(&u.PeakMemory, s.Memory, (1<<20)/1e9)
	highest(&u.PeakTemp, s.Temp, 1)
	if s.Reasons != nil {
		t.reasons++
		if *s.Reasons&gpu.SWPowerCap != 0 {
			t.capped++
		}
		if s.Reasons.Slowed() {
			t.slowed++
			t.why |= *s.Reasons
		}
	}
}

func highest(of **float64, v *float64, unit float64) {
	if v != nil && (*of == nil || **of < *v*unit) {
		*of = new(*v * unit)
	}
}

// between adds the part of the window that lies between two samples. One of them may
// be missing, at an end: then the other one's power is taken for it.
func (t *track) between(a, b *gpu.Sample) {
	from, to := t.begin, t.end // as far as the samples reach
	if a != nil {
		from = a.Time
	}
	if b != nil {
		to = b.Time
	}
	part := t.inside(from, to)
	if part <= 0 {
		return
	}
	t.use.LongestGap = max(t.use.LongestGap, part)
	near := time.Duration(t.interval / 2 * float64(time.Second))
	switch {
	case to.Sub(from).Seconds() <= closeBy*t.interval:
		t.covered += part
	default: // what lies close to either
		if a != nil {
			t.covered += t.inside(from, from.Add(near))
		}
		if b != nil {
			t.covered += t.inside(to.Add(-near), to)
		}
	}
	if from.Before(t.begin) {
		from = t.begin
	}
	if to.After(t.end) {
		to = t.end
	}
	switch {
	case a == nil:
		a = b
	case b == nil:
		b = a
	}
	t.draw(a, b, from, to)
}

// inside is how much of a time lies in the window, s.
func (t *track) inside(from, to time.Time) float64 {
	if from.Before(t.begin) {
		from = t.begin
	}
	if to.After(t.end) {
		to = t.end
	}
	return max(0, to.Sub(from).Seconds())
}

// draw adds the energy from one time to another between two samples, which may be
// the same: by the power at both, taken for a straight line, and by the counter.
func (t *track) draw(a, b *gpu.Sample, from, to time.Time) {
	part, whole := to.Sub(from).Seconds(), b.Time.Sub(a.Time).Seconds()
	power := -1.0 // W
	if a.Power != nil && b.Power != nil {
		at := func(x time.Time) float64 {
			if whole == 0 {
				return *a.Power
			}
			return *a.Power + (*b.Power-*a.Power)*x.Sub(a.Time).Seconds()/whole
		}
		power = (at(from) + at(to)) / 2
		t.byPower += power * part
	} else {
		t.all = false
	}
	switch {
	case a.Energy != nil && b.Energy != nil && whole > 0 && *b.Energy >= *a.Energy:
		t.counted += (*b.Energy - *a.Energy) / 1000 * part / whole
	case whole == 0 && power >= 0 && a.Energy != nil: // beyond the first or the last sample
		t.counted += power * part
	default: // a counter that begins anew
		t.metered = false
	}
}

// finish completes the numbers, and reports whether any sample lies in the window.
func (t *track) finish() bool {
	u := &t.use
	window := t.end.Sub(t.begin).Seconds()
	if t.last != nil {
		t.between(t.last, nil)
	} else {
		t.all, t.metered = false, false
		u.LongestGap = window
	}
	u.Coverage = min(1, t.covered/window)
	switch {
	case t.metered:
		u.Energy, u.EnergyFrom = new(t.counted), "counter"
	case t.all:
		u.Energy, u.EnergyFrom = new(t.byPower), "power"
	}
	if u.Energy != nil {
		u.Power = new(*u.Energy / window)
	}
	mean := func(sum float64, n, least int) *float64 {
		if n < least {
			return nil
		}
		return new(sum / float64(n))
	}
	u.Utilization, u.SMClock = mean(t.sumUse, t.uses, 1), mean(t.sumClock, t.clocks, fewestClocks)
	u.Slowed, u.PowerCapped = mean(float64(t.slowed), t.reasons, 1), mean(float64(t.capped), t.reasons, 1)
	u.SlowedBy = t.why.Names()
	return u.Samples > 0
}
