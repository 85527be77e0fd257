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
	Reward      float64   // of one that did not pass the sweep's for failures, which nobody measured; NaN if it was not kept
	Verdict     Verdict
	Dir         string // of the run, "" if nothing ran
}
