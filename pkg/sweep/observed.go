package sweep

// A Verdict says what became of a point.
type Verdict string

// The verdicts.
const (
	Pending Verdict = "pending" // handed out, no result yet
	Passed  Verdict = "passed"  // every metric was measured
	Failed  Verdict = "failed"  // it ran, and a metric is missing
	Refused Verdict = "refused" // it breaks a constraint or is not valid: nothing ran
)

// Observed is a point and what came of it.
type Observed struct {
	Point
	Observation []float64 // in the order of agent_metrics, in each metric's own unit; NaN is missing
	Reward      float64
	Verdict     Verdict
	Dir         string // of the run, "" if nothing ran
}

// Best is the passed point of the highest reward, the earliest of equals; ok is
// false if none passed. The reward of a failure does not compete: under the
// function negative, -1 for a failure would beat every success.
func Best(history []Observed) (best Observed, ok bool) {
	for _, o := range history {
		if o.Verdict == Passed && (!ok || o.Reward > best.Reward) {
			best, ok = o, true
		}
	}
	return best, ok
}

// A Cache finds what a point gave when it ran before.
type Cache map[string]Observed

// NewCache returns the cache of history: points that passed, and points that
// failed and were not mended by a later try. A refused point is not kept: to
// refuse it again costs nothing.
func NewCache(history []Observed) Cache {
	c := Cache{}
	for _, o := range history {
		c.Add(o)
	}
	return c
}

// Add puts a finished point into the cache.
func (c Cache) Add(o Observed) {
	if o.Verdict != Passed && o.Verdict != Failed {
		return
	}
	k := o.Key()
	if old, ok := c[k]; ok && old.Verdict == Passed {
		return
	}
	c[k] = o
}

// Find returns the earlier result of p under p's own step. Values must match in
// type, and what the environment drew must be the same.
func (c Cache) Find(p Point) (Observed, bool) {
	o, ok := c[p.Key()]
	o.Step = p.Step
	return o, ok
}
