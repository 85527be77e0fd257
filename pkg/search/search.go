// Package search finds the highest load of a server at which its metrics keep their limits,
// in few measurements.
//
// A measurement at one load is a [Probe]. [Goal.Next] is told all probes so far and answers
// with the load to measure next, or with the [Answer]. It is a pure function: the same
// probes give the same step, so a search that was killed goes on from the probes on disk.
//
//	goal := search.Goal{Span: search.Span{Min: 1, Max: 256, Step: 1}}
//	step := goal.Next(probes)
//	if step.Answer == nil {
//		probes = append(probes, measure(step.Value))
//	}
//
// # The edge, and what its probability means
//
// A metric at a load is log-normal around a true value that gets worse as the load rises.
// The edge is the load at which the true value equals its limit; of several limits, the
// lowest edge. What a probe says is its margin, ln(limit/measured): above 0 it holds. Its
// noise is what the percentile of so few requests may be off, and what differs from run to
// run; how much that is, is estimated from all probes together (see posterior.go).
//
// The probability of an interval is a posterior one: before the first probe each factor of load is as
// likely to hold the edge, from a quarter of the lowest load to four times the highest; margins change
// near the edge in proportion to the logarithm of the load, by an unknown factor, and have noise with
// heavy tails of an unknown width. Far from the edge only the side of the limit counts, and no shape
// is assumed. The ends of an interval that is not narrow are loads that were measured.
// simulated_test.go and far_test.go measure how often the interval holds a known edge.
package search

import (
	"cmp"
	"math"
	"slices"
)

// Span is the loads that can be measured: the multiples of Step from Min to Max.
type Span struct{ Min, Max, Step float64 }

// Goal is what is looked for. A zero value of a field after Span takes its default.
type Goal struct {
	Span
	Start      float64 // first load; default 8 steps above 0, within the span
	Tolerance  float64 // of the interval's width, as a share of its higher end; default 0.05
	Confidence float64 // default 0.95
	Probes     int     // most probes; default 40
	// AtLeast ends the search once the edge is below it with the confidence: another
	// configuration is better. 0: none is.
	AtLeast float64
}

// The defaults of a Goal.
const (
	DefaultTolerance  = 0.05
	DefaultConfidence = 0.95
	DefaultProbes     = 40
)

// Probe is one measurement at a load.
type Probe struct {
	Value float64
	// Invalid says that the numbers cannot be believed, and are no evidence.
	Invalid bool
	Margins []Margin // one for each limit, in one order for all probes

	log float64 // ln(Value), of valid ones
}

// Margin is how far a metric is on the good side of its limit.
type Margin struct {
	Log   float64 // ln(limit/measured) of what must stay below, above 0: it holds
	Noise float64 // standard deviation of Log, as far as the run itself can tell
}

// Holds reports whether every limit holds.
func (p *Probe) Holds() bool {
	return !slices.ContainsFunc(p.Margins, func(m Margin) bool { return m.Log < 0 })
}

// Step is what to do next: measure Value, or nothing if there is an answer.
type Step struct {
	Value  float64
	Answer *Answer
}

// Kind says why a search is over.
type Kind string

// Every kind of an answer.
const (
	Found       Kind = "found"            // the interval is narrow enough
	LowestFails Kind = "lowest-fails"     // the edge is below the span
	NoLimit     Kind = "no-limit"         // the edge is above the span
	Beaten      Kind = "beaten"           // the edge is below what another configuration reaches
	Spent       Kind = "budget-spent"     // of probes or of time
	NoEvidence  Kind = "no-valid-results" // measurements at a load stay invalid
	Interrupted Kind = "interrupted"      // the search is not over: it runs, or was killed
)

// Answer is the interval that holds the edge.
type Answer struct {
	Kind Kind
	// Low is the highest load that holds, and High the lowest that fails, together with the
	// confidence; nil where that end is open.
	Low, High *float64
	// Probability that the edge lies within them.
	Probability float64
	Edge        float64 // the most central estimate: the posterior's median; with an end that is nil, mostly a guess
	At          float64 // of NoEvidence: the load
}

// defaults fills in what was left out.
func (g Goal) defaults() Goal {
	set := func(v *float64, to float64) {
		if *v == 0 {
			*v = to
		}
	}
	set(&g.Step, 1)
	set(&g.Tolerance, DefaultTolerance)
	set(&g.Confidence, DefaultConfidence)
	set(&g.Start, 8*g.Step)
	if g.Probes == 0 {
		g.Probes = DefaultProbes
	}
	return g
}

// Snap is the load of the span that is nearest to x.
func (s Span) Snap(x float64) float64 {
	return s.within(s.multiple(math.Round(x / s.Step)))
}

// multiple is n steps, without the digits that a product of decimals adds.
func (s Span) multiple(n float64) float64 {
	if inverse := math.Round(1 / s.Step); s.Step < 1 && math.Abs(inverse*s.Step-1) < 1e-9 {
		return n / inverse
	}
	return n * s.Step
}

func (s Span) within(x float64) float64 { return min(max(x, s.Min), s.Max) }

// near reports whether two loads are the same.
func (s Span) near(a, b float64) bool { return math.Abs(a-b) < s.Step/1e3 }

// invalidTries is how often a load is measured whose results are invalid.
const invalidTries = 2

// Next says what to measure next, or what was found.
func (g Goal) Next(probes []Probe) Step {
	g = g.defaults()
	valid := evidence(probes)
	if len(valid) == 0 {
		return g.allowed(g.Snap(g.Start), probes, &Answer{Kind: NoEvidence, At: g.Snap(g.Start), Probability: 1})
	}
	d := g.posterior(valid)
	answer := g.answer(d, valid)
	switch {
	case answer.Kind != "":
		return Step{Answer: answer}
	case len(probes) >= g.Probes:
		answer.Kind = Spent
		return Step{Answer: answer}
	}
	return g.allowed(g.choose(d, valid), probes, answer)
}

// Conclude is the answer so far, for a search that must end now.
func (g Goal) Conclude(probes []Probe) *Answer {
	g = g.defaults()
	valid := evidence(probes)
	if len(valid) == 0 {
		return &Answer{Kind: NoEvidence, At: g.Snap(g.Start), Probability: 1}
	}
	answer := g.answer(g.posterior(valid), valid)
	if answer.Kind == "" {
		answer.Kind = Spent
	}
	return answer
}

// Bracket is the interval between measured loads that an [Answer] would have; without one that has the
// confidence the likeliest between two neighbours, whose chance is lower. Below the lowest and above the
// highest load the interval has an open end, which is nil, but never both. Nothing is said without
// evidence.
func (g Goal) Bracket(probes []Probe) (low, high *float64, probability float64, ok bool) {
	g = g.defaults()
	valid := evidence(probes)
	if len(valid) == 0 {
		return nil, nil, 0, false
	}
	d := g.posterior(valid)
	if low, high = g.interval(d, valid); low == nil && high == nil {
		low, high = d.likeliest(valid)
	}
	return low, high, d.between(low, high), true
}

// likeliest is the interval between two neighbouring loads, or beyond all of them, that most likely holds
// the edge.
func (d distribution) likeliest(valid []Probe) (low, high *float64) {
	loads := []*float64{nil}
	for i := range valid {
		loads = append(loads, &valid[i].Value)
	}
	slices.SortFunc(loads[1:], func(a, b *float64) int { return cmp.Compare(*a, *b) })
	loads = append(loads, nil)
	best := -1.0
	for i := range len(loads) - 1 {
		if c := d.between(loads[i], loads[i+1]); c > best {
			best, low, high = c, loads[i], loads[i+1]
		}
	}
	return low, high
}

// evidence are the probes that say something.
func evidence(probes []Probe) []Probe {
	var valid []Probe
	for _, p := range probes {
		if !p.Invalid && len(p.Margins) > 0 {
			p.log = math.Log(p.Value)
			valid = append(valid, p)
		}
	}
	return valid
}

// allowed is the step to a load, unless its measurements stay invalid: then to one nearer to
// what could be measured, and if there is none, the answer so far.
func (g Goal) allowed(value float64, probes []Probe, answer *Answer) Step {
	for range 3 {
		if !g.blocked(value, probes) {
			return Step{Value: value}
		}
		below := g.Min
		for _, p := range probes {
			if p.Value < value && !g.blocked(p.Value, probes) {
				below = max(below, p.Value)
			}
		}
		next := g.Snap(math.Sqrt(value * below))
		if g.near(next, value) || g.measured(next, probes) {
			break
		}
		value = next
	}
	answer.Kind, answer.At = NoEvidence, value
	return Step{Answer: answer}
}

// blocked reports whether a load was measured so often that its next result would be
// invalid as well.
func (g Goal) blocked(value float64, probes []Probe) bool {
	bad := 0
	for _, p := range probes {
		switch {
		case !g.near(p.Value, value):
		case !p.Invalid:
			return false
		default:
			bad++
		}
	}
	return bad >= invalidTries
}

func (g Goal) measured(value float64, probes []Probe) bool {
	return slices.ContainsFunc(probes, func(p Probe) bool { return !p.Invalid && g.near(p.Value, value) })
}

// answer is the interval that the posterior allows; its kind is "" if it is not good enough.
//
// Its ends are loads that were measured, unless it is narrow: the quantiles between measured loads, and
// beyond them, follow from what was thought before the first probe and not from what was seen.
func (g Goal) answer(d distribution, valid []Probe) *Answer {
	tail := (1 - g.Confidence) / 2
	a := &Answer{Edge: d.quantile(0.5)}
	from, to := d.quantile(tail), d.quantile(1-tail)
	narrow := false
	if a.Low, a.High = g.interval(d, valid); a.Low != nil && a.High != nil {
		if narrow = g.narrow(*a.Low, *a.High); !narrow {
			low, high := max(g.floor(from), *a.Low), min(g.ceil(to), *a.High)
			if narrow = g.narrow(low, high); narrow {
				a.Low, a.High = &low, &high
			}
		}
	}
	switch fails := g.fails(d, valid); {
	case g.measured(g.Min, valid) && d.below(g.Min) >= g.Confidence:
		a.Kind, a.Low, a.High = LowestFails, nil, new(g.Min)
	case g.measured(g.Max, valid) && 1-d.below(g.Max) >= g.Confidence:
		a.Kind, a.Low, a.High = NoLimit, new(g.Max), nil
	case narrow:
		a.Kind = Found // also of one that is beaten: nothing more is to be learnt
	case fails != nil && *fails <= g.AtLeast:
		a.Kind, a.Low, a.High = Beaten, g.holds(d, valid, *fails), fails
	}
	a.Probability = d.between(a.Low, a.High)
	return a
}

// narrow reports whether an interval is an answer.
func (g Goal) narrow(low, high float64) bool { return high-low <= max(g.Step*1.001, g.Tolerance*high) }

// interval is the likeliest narrow interval between two loads that were measured, or else the narrowest,
// which has the confidence. Where none has it, one end is open, and the other has the confidence alone:
// of two such intervals, the likelier. Both ends are nil if there is none at all.
func (g Goal) interval(d distribution, valid []Probe) (low, high *float64) {
	best, ratio := 0.0, math.Inf(1)
	for _, p := range valid {
		for _, q := range valid {
			chance := d.below(q.Value) - d.below(p.Value)
			if p.Value >= q.Value || chance < g.Confidence {
				continue
			}
			switch narrow := g.narrow(p.Value, q.Value); {
			case narrow && chance > best:
				best, low, high = chance, new(p.Value), new(q.Value)
			case best == 0 && q.Value/p.Value < ratio:
				ratio, low, high = q.Value/p.Value, new(p.Value), new(q.Value)
			}
		}
	}
	if low != nil {
		return low, high
	}
	low, high = g.holds(d, valid, math.Inf(1)), g.fails(d, valid)
	switch {
	case low == nil || high == nil:
		return low, high
	case d.between(low, nil) > d.between(nil, high):
		return low, nil
	}
	return nil, high
}

// holds is the highest measured load between which and another the edge lies with the confidence; nil if
// there is none.
func (g Goal) holds(d distribution, valid []Probe, below float64) (load *float64) {
	for _, p := range valid {
		if d.below(below)-d.below(p.Value) >= g.Confidence && (load == nil || p.Value > *load) {
			load = new(p.Value)
		}
	}
	return load
}

// fails is the lowest measured load below which the edge is with the confidence; nil if there is none.
func (g Goal) fails(d distribution, valid []Probe) (load *float64) {
	for _, p := range valid {
		if d.below(p.Value) >= g.Confidence && (load == nil || p.Value < *load) {
			load = new(p.Value)
		}
	}
	return load
}

// around are the nearest loads that were measured around an interval, itself where there are none.
func around(valid []Probe, low, high float64) (float64, float64) {
	l, h := math.Inf(-1), math.Inf(1)
	for _, p := range valid {
		if p.Value <= low {
			l = max(l, p.Value)
		}
		if p.Value >= high {
			h = min(h, p.Value)
		}
	}
	if math.IsInf(l, -1) {
		l = low
	}
	if math.IsInf(h, 1) {
		h = high
	}
	return l, h
}

func (s Span) floor(x float64) float64 { return s.multiple(math.Floor(x/s.Step + 1e-9)) }
func (s Span) ceil(x float64) float64  { return s.multiple(math.Ceil(x/s.Step - 1e-9)) }

// choose is the load whose result tells most: twice or half of what was measured until both
// sides of the edge are known, then the median of where the edge may be.
func (g Goal) choose(d distribution, valid []Probe) float64 {
	lowest, highest := valid[0].Value, valid[0].Value
	for _, p := range valid {
		lowest, highest = min(lowest, p.Value), max(highest, p.Value)
	}
	switch {
	case d.below(highest) < 0.5 && highest < g.Max:
		return g.within(g.ceil(highest * 2))
	case d.below(lowest) > 0.5 && lowest > g.Min:
		return g.Snap(lowest / 2)
	}
	at := min(max(d.quantile(g.aim(d, valid)), g.Min), g.Max)
	for i := range valid { // beyond a load that is clear, nothing is left to learn
		if p := &valid[i]; p.clear(1) && p.Value <= d.quantile(0.5) {
			at = max(at, p.Value)
		} else if p.clear(-1) && p.Value >= d.quantile(0.5) {
			at = min(at, p.Value)
		}
	}
	a, b := g.within(g.floor(at)), g.within(g.ceil(at))
	if count(valid, g, a) < count(valid, g, b) {
		return a
	} else if count(valid, g, a) > count(valid, g, b) {
		return b
	}
	return g.Snap(at)
}

// aim is the part of the posterior below the next probe: half as long as the loads around are
// clear, so that the interval is halved, and else beside it in turns, because how fast the
// metric changes is seen from loads that differ.
func (g Goal) aim(d distribution, valid []Probe) float64 {
	median := d.quantile(0.5)
	low, high := around(valid, median, median)
	for _, p := range valid {
		if g.near(p.Value, low) && !p.clear(1) || g.near(p.Value, high) && !p.clear(-1) {
			return []float64{0.2, 0.8}[len(valid)%2]
		}
	}
	return 0.5
}

// clear reports whether a probe is on a side of the limits whatever its noise was.
func (p *Probe) clear(side float64) bool {
	worst := math.Inf(1)
	for _, m := range p.Margins {
		worst = min(worst, m.Log/m.sd())
	}
	return side*worst > 2.5
}

func count(valid []Probe, g Goal, value float64) int {
	n := 0
	for _, p := range valid {
		if g.near(p.Value, value) {
			n++
		}
	}
	return n
}
