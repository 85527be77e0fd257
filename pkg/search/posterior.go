package search

import (
	"math"
	"slices"
)

// distribution is where the edge may be: cells of ln(load), ascending, and how likely it lies
// in each.
type distribution []cell

type cell struct {
	from, to float64   // ln(load)
	density  []float64 // ln of the posterior density of each limit's edge in its middle, not normed
	mass     float64   // sums to 1
}

// What the posterior is computed over.
const (
	beyond      = 1.4  // ln of how far beyond the span the edge is looked for: a factor of 4
	coarse      = 16   // cells at first, beside the probes
	most        = 0.02 // share of a cell that is not divided
	parts       = 8    // most parts of a divided cell
	narrowest   = 1e-4
	leastNoise  = 0.03 // what differs between runs on one server, of the value
	clipNoise   = 2.5  // margins are clipped at so many standard deviations
	leastClip   = 0.2
	cliff       = 1e5 // slope of an edge without a slope
	cliffPrior  = 0.2
	gentler     = 1 // exponent
	refinements = 4
)

// slopes are the changes of ln(metric) with ln(load) at the edge that are thought possible:
// from hardly any to a cliff. excess are the factors by which the noise may be other than
// the probes themselves say, and how likely each is at first.
var (
	slopes = possibleSlopes()
	bends  = []float64{0.2, 1, 3, 7}
	excess = []struct{ factor, prior float64 }{{0.6, 0.1}, {1, 0.4}, {1.7, 0.35}, {3.2, 0.15}}
)

type slope struct{ by, prior float64 }

// possibleSlopes are gentle ones more than steep ones, and a cliff.
func possibleSlopes() []slope {
	const n, from, to = 11, 0.15, 60
	var list []slope
	sum := 0.0
	for i := range n {
		by := from * math.Pow(to/from, float64(i)/(n-1))
		list = append(list, slope{by, math.Pow(by, -gentler)})
		sum += list[i].prior
	}
	for i := range list {
		list[i].prior *= (1 - cliffPrior) / sum
	}
	return append(list, slope{cliff, cliffPrior})
}

// posterior is where the edge may be by these probes. Probed loads are borders of cells, and
// cells that hold much are divided.
func (g Goal) posterior(valid []Probe) distribution {
	from, to := math.Log(g.Min)-beyond, math.Log(g.Max)+beyond
	borders := []float64{to}
	for i := range coarse {
		borders = append(borders, from+(to-from)*float64(i)/coarse)
	}
	for i := range valid {
		borders = append(borders, min(max(valid[i].log, from), to))
	}
	slices.Sort(borders)
	var d distribution
	for i := range borders[1:] {
		if borders[i+1]-borders[i] > narrowest {
			d = append(d, newCell(valid, borders[i], borders[i+1]))
		}
	}
	d.weigh()
	for range refinements {
		d = d.divided(valid)
		d.weigh()
	}
	return d
}

// divided has several cells in place of each that holds much.
func (d distribution) divided(valid []Probe) distribution {
	var out distribution
	for _, c := range d {
		n := int(min(math.Ceil(c.mass/most), parts, math.Floor((c.to-c.from)/narrowest)))
		if n <= 1 {
			out = append(out, c)
			continue
		}
		width := (c.to - c.from) / float64(n)
		for i := range n {
			out = append(out, newCell(valid, c.from+float64(i)*width, c.from+float64(i+1)*width))
		}
	}
	return out
}

// weigh sets the masses. The edge is the lowest of the limits' edges, whose noises are taken
// as independent, and which are thought higher at first the more limits there are.
func (d distribution) weigh() {
	prior := d.prior(len(d[0].density))
	above := make([]float64, len(d)+1) // chance that every limit's edge is beyond the start of a cell
	for i := range above {
		above[i] = 1
	}
	for limit := range d[0].density {
		best, total := math.Inf(-1), 0.0
		for i := range d {
			best = max(best, d[i].density[limit])
		}
		mass := make([]float64, len(d))
		for i := range d {
			mass[i] = math.Exp(d[i].density[limit]-best) * prior[i]
			total += mass[i]
		}
		rest := 1.0
		for i := range d {
			above[i] *= rest
			rest = max(rest-mass[i]/total, 0)
		}
	}
	above[len(d)] = 0
	for i := range d {
		d[i].mass = above[i] - above[i+1]
	}
}

// prior is how likely each cell holds the edge of one of n limits before the first probe: so that the
// lowest of n such edges is in any cell in proportion to its width.
func (d distribution) prior(n int) []float64 {
	list := make([]float64, len(d))
	end := d[len(d)-1].to
	above := func(at float64) float64 { return math.Pow(max(end-at, 0)/(end-d[0].from), 1/float64(n)) }
	for i, c := range d {
		if list[i] = c.to - c.from; n > 1 {
			list[i] = above(c.from) - above(c.to)
		}
	}
	return list
}

// newCell is a cell with the posterior densities of the limits' edges.
func newCell(valid []Probe, from, to float64) cell {
	c := cell{from: from, to: to, density: make([]float64, len(valid[0].Margins))}
	var logs []float64
	for limit := range c.density {
		logs = logs[:0]
		for _, bend := range bends {
			way := make([]float64, len(valid)) // of each probe to the edge, bent
			for i := range valid {
				way[i] = (1 - math.Exp(bend*(valid[i].log-(from+to)/2))) / bend
			}
			logs = appendLogs(logs, valid, limit, way)
		}
		best, sum := slices.Max(logs), 0.0
		for _, l := range logs {
			sum += math.Exp(l - best)
		}
		c.density[limit] = best + math.Log(sum)
	}
	return c
}

// appendLogs adds ln of the posterior of each slope and each noise, not normed.
func appendLogs(logs []float64, valid []Probe, limit int, way []float64) []float64 {
	for _, slope := range slopes {
		for _, noise := range excess {
			l := logLikelihood(valid, limit, way, slope.by, noise.factor)
			logs = append(logs, l+math.Log(slope.prior*noise.prior))
		}
	}
	return logs
}

// logLikelihood is that of the probes of one limit. It takes the logarithm of products of a
// few, which is several times faster than one of each.
func logLikelihood(valid []Probe, limit int, way []float64, slope, factor float64) float64 {
	const few = 8 // none is below 1e-12
	sum, product := 0.0, 1.0
	for k := range valid {
		product *= valid[k].Margins[limit].likelihood(slope*way[k], factor)
		if k%few == few-1 {
			sum, product = sum+math.Log(product), 1
		}
	}
	return sum + math.Log(product)
}

// likelihood is that of a margin whose true value is mean. Beyond the clip only the side
// of the limit is used, since margins far from the edge follow no straight line.
func (m *Margin) likelihood(mean, factor float64) float64 {
	base := m.sd()
	clip, sd := max(leastClip, clipNoise*base), base*factor
	switch {
	case m.Log >= clip:
		return studentBelow((mean - clip) / sd)
	case m.Log <= -clip:
		return studentBelow((-clip - mean) / sd)
	}
	return studentDensity((m.Log-mean)/sd) / sd
}

// sd is the noise of a margin, as far as is known before others are seen.
func (m *Margin) sd() float64 { return math.Sqrt(m.Noise*m.Noise + leastNoise*leastNoise) }

// least is below any likelihood of a probe, so that none rules anything out.
const least = 1e-9

// studentDensity is that of Student's t with 4 degrees of freedom: noise with a stall now
// and then.
func studentDensity(t float64) float64 {
	q := 1 + t*t/4
	return max(0.375/(q*q*math.Sqrt(q)), least)
}

// studentBelow is the chance of at most t.
func studentBelow(t float64) float64 {
	if t < -20 { // the closed form loses its digits
		return max(3/(t*t*t*t), least)
	}
	s := t / math.Sqrt(4+t*t)
	return 0.5 + 0.75*(s-s*s*s/3)
}

// below is the chance that the edge is below a load.
func (d distribution) below(load float64) float64 {
	if load <= 0 {
		return 0
	}
	at, sum := math.Log(load), 0.0
	for _, c := range d {
		sum += c.mass * min(max((at-c.from)/(c.to-c.from), 0), 1)
	}
	return min(sum, 1)
}

// between is the chance that the edge lies within an interval; an end that is nil is open.
func (d distribution) between(low, high *float64) float64 {
	from, to := 0.0, 1.0
	if low != nil {
		from = d.below(*low)
	}
	if high != nil {
		to = d.below(*high)
	}
	return to - from
}

// quantile is the load below which the edge is with a chance.
func (d distribution) quantile(p float64) float64 {
	sum := 0.0
	for _, c := range d {
		if sum+c.mass >= p && c.mass > 0 {
			return math.Exp(c.from + (p-sum)/c.mass*(c.to-c.from))
		}
		sum += c.mass
	}
	return math.Exp(d[len(d)-1].to)
}
