package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/stats"
)

// Judgement says what two sets of runs of the same test prove: by how much the
// second differs from the first, and whether that is more than noise.
type Judgement struct {
	Test    string  `json:"test"` // with phase and step
	Kind    Kind    `json:"kind,omitempty"`
	Verdict Outcome `json:"verdict"` // the worst of the metrics'
	First   Side    `json:"first"`   // the baseline
	Second  Side    `json:"second"`
	// NotComparable is why nothing is said of the numbers.
	NotComparable []Unlike `json:"not_comparable,omitempty"`
	Differs       []Unlike `json:"differs,omitempty"`
	// NotCausal is set if so much differs that a change has no one reason.
	NotCausal bool `json:"not_causal,omitempty"`
	// Mixed are the GPUs or drivers of a side whose runs had several: mixed-hardware.
	Mixed []string `json:"mixed_hardware,omitempty"`
	// ApartPairs is how many pairs ran on different nodes: what differs between those is
	// in their differences.
	ApartPairs int             `json:"pairs_on_other_nodes,omitempty"`
	Metrics    []MetricVerdict `json:"metrics,omitempty"`
	// Redefined are metrics whose keys mean something else in one of the records.
	Redefined []Redefined `json:"redefined,omitempty"`
	// RunsNeeded is how many runs of each side would settle what is open; 0: nothing is.
	RunsNeeded int `json:"runs_needed,omitempty"`
	// Commands make the runs that are missing.
	Commands []string `json:"commands,omitempty"`

	a, b []*Run
}

// Redefined is a metric that is not compared.
type Redefined struct {
	Metric
	Why string `json:"why"`
}

// Outcome is a verdict in words.
type Outcome string

// The outcomes, worst first.
const (
	NotComparable Outcome = "not-comparable"
	Regressed     Outcome = "regressed"
	Improved      Outcome = "improved"
	Watch         Outcome = "watch" // of a series: a cut that is not to be believed yet
	TooLittle     Outcome = "too little data"
	Same          Outcome = "same within noise"
	NoChange      Outcome = "no change found" // of a series
)

var outcomes = []Outcome{NotComparable, Regressed, Improved, Watch, TooLittle, Same, NoChange}

// Side is one set of runs.
type Side struct {
	Runs []string `json:"runs"`          // directories
	Key  string   `json:"key,omitempty"` // of what they measure; runs of another are not like them
	Jobs int      `json:"jobs"`          // starts of the server that the runs shared
	// MedianRun is the directory of the run with the median throughput: the one to
	// look into, and to show, because medians of each field are of no run.
	MedianRun string   `json:"median_run,omitempty"`
	Apart     []string `json:"apart,omitempty"`    // directories of runs that are not compared, and why
	Accuracy  *Share   `json:"accuracy,omitempty"` // of a side of one run
	// Accepts are the thresholds of checks that tests of this side set for themselves:
	// by others its runs may not be valid.
	Accepts []string `json:"accepts,omitempty"`
}

// Share is an accuracy with what its questions alone say of its noise.
type Share struct {
	Value     float64  `json:"value"` // 0 to 1
	Questions int      `json:"questions"`
	Low       float64  `json:"low"` // Wilson's interval
	High      float64  `json:"high"`
	LeastDrop *float64 `json:"least_drop,omitempty"` // that another such run shows four times of five
}

// shareOf is nil unless a run says how many questions its accuracy is of.
func shareOf(r *Run) *Share {
	v := accuracy.Of(r.Result).Number
	if v == nil || r.Result.Accuracy.Questions == nil {
		return nil
	}
	s := &Share{Value: *v, Questions: *r.Result.Accuracy.Questions}
	i, err := stats.Wilson(int(math.Round(s.Value*float64(s.Questions))), s.Questions)
	if err != nil {
		return nil // no share of questions: the record's checks say so
	}
	s.Low, s.High = i.Low, i.High
	if d, err := stats.LeastDrop(s.Value, s.Questions); err == nil {
		s.LeastDrop = &d
	}
	return s
}

func (s *Share) String() string {
	text := fmt.Sprintf("%.4f of %d questions, 95 %% interval [%.4f, %.4f]", s.Value, s.Questions, s.Low, s.High)
	if s.LeastDrop != nil {
		text += fmt.Sprintf("; a drop below %.1f points is not seen with so many", 100**s.LeastDrop)
	}
	return text
}

// judgedMetrics are those that are tested where nothing else is asked: few, because
// each further one makes the others harder to believe.
var judgedMetrics = []Metric{throughput, medianTTFT, p99TTFT, medianTPOT, p99TPOT, accuracy}

// UsualMetrics is how many are tested where nothing else is asked.
var UsualMetrics = len(judgedMetrics)

// accuracyFloor is in percent of the score: runs of one model differ by up to a
// point.
const accuracyFloor = 1.0

// Floor is the change, in percent, below which the metric's difference does not
// matter.
func (m Metric) Floor() float64 {
	if m.Key == accuracy.Key {
		return accuracyFloor
	}
	_, stat, ok := result.SplitKey(m.Key)
	if !ok {
		return stats.FloorThroughput
	}
	var rank float64
	if stat == "max" || stat == "std" {
		return stats.FloorTail
	}
	if _, err := fmt.Sscanf(stat, "p%g", &rank); err == nil && rank >= 90 {
		return stats.FloorTail
	}
	return stats.FloorMedian
}

// split parts the runs of a set into those that can be compared and the others, with
// the reason. Those of the other side, nil for none, are no news on this one.
func split(runs []*Run, baseline bool, other []*Run) (good []*Run, apart []string) {
	there, seen := copies{}, copies{}
	for _, r := range other {
		there.add(r)
	}
	for _, r := range runs {
		why := ""
		switch e := newEntry(r); {
		case r.Result == nil, !e.Usable:
			why = fmt.Sprintf("%s: %s", e.Verdict, e.Reason)
		case baseline && !e.best():
			why = fmt.Sprintf("%s, and so no baseline: %s", e.Verdict, e.Reason)
		case baseline && e.Imported != "" && !r.Baseline:
			why = fmt.Sprintf("imported from %s, and so no baseline unless that is asked for", e.Imported)
		case there.has(r) != "":
			why = "the same run as one of the first: nothing can differ"
		default:
			why = seen.has(r)
		}
		if why != "" {
			apart = append(apart, r.Dir+": "+why)
			continue
		}
		seen.add(r)
		good = append(good, r)
	}
	return good, apart
}

// sideOf sums up the runs of one side.
func sideOf(good []*Run, apart []string) Side {
	s := Side{Runs: []string{}, Apart: apart}
	jobs := map[string]bool{}
	for _, r := range good {
		jobs[r.job] = true
		s.Runs = append(s.Runs, r.Dir)
		s.Accepts = append(s.Accepts, r.Result.Validity.Set...)
	}
	slices.Sort(s.Accepts)
	s.Accepts = slices.Compact(s.Accepts)
	if s.Jobs = len(jobs); len(good) > 0 {
		s.Key = good[0].Key()
	}
	if i := throughputMedian(good); i >= 0 {
		s.MedianRun = good[i].Dir
	}
	if len(good) == 1 {
		s.Accuracy = shareOf(good[0])
	}
	return s
}

// throughputMedian is the index of the run whose throughput is the median; -1 if no run has
// one.
func throughputMedian(runs []*Run) int {
	var values []float64
	var of []int
	for i, r := range runs {
		if v := throughput.Of(r.Result).Number; v != nil {
			values, of = append(values, *v), append(of, i)
		}
	}
	if i := stats.MedianRun(values); i >= 0 {
		return of[i]
	}
	return -1
}

// question is how two sets of runs are compared.
type question struct {
	metrics []Metric
	asked   bool // by name: one that no run has is reported as well
	one     bool // each set is one run, asked for by name
	pairs   bool // the sets were made in pairs, told by the iteration
}

// judge compares two sets of runs of one kind; conclude gives the verdicts. A suspect
// run is never part of a baseline, but may be compared with one.
func judge(test string, a, b []*Run, q question) (*Judgement, error) {
	j := &Judgement{Test: test, Kind: kindOf(a)}
	var apartA, apartB []string
	j.a, apartA = split(a, !q.one, nil)
	if q.one {
		j.b, apartB = split(b, false, nil) // nothing is claimed of one beside one
	} else {
		j.b, apartB = split(b, false, j.a)
	}
	if q.pairs {
		first, alone := partners(j.a, j.b)
		apartA = append(apartA, alone...)
		second, alone := partners(j.b, j.a)
		apartB = append(apartB, alone...)
		j.a, j.b = first, second
	}
	j.First, j.Second = sideOf(j.a, apartA), sideOf(j.b, apartB)
	if len(j.a) == 0 || len(j.b) == 0 {
		return j, nil
	}
	for i, side := range [][]*Run{j.a, j.b} {
		for _, line := range mixed(side) {
			j.Mixed = append(j.Mixed, []string{"first: ", "second: "}[i]+line)
		}
	}
	if j.NotComparable, j.Differs = unlike(j.a, j.b); len(j.NotComparable) > 0 {
		return j, nil
	}
	j.NotCausal = causes(j.Differs) > 1
	if q.pairs {
		j.ApartPairs = apartPairs(j.a, j.b)
	}
	for _, m := range q.metrics {
		if why := redefined(m, slices.Concat(j.a, j.b)); why != "" {
			j.Redefined = append(j.Redefined, Redefined{m, why})
			continue
		}
		first, second := numbersOf(m, j.a), numbersOf(m, j.b)
		if len(first) == 0 && len(second) == 0 && !q.asked {
			continue
		}
		if len(first) == 0 || len(second) == 0 {
			v, err := lacking(m, j.a, j.b)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", test, m.Key, err)
			}
			j.Metrics = append(j.Metrics, *v)
			continue
		}
		v, err := newVerdict(m, first, second)
		if err == nil {
			err = v.permute(first, second)
		}
		if err == nil && m.Key == accuracy.Key && v.P == nil {
			v.Answers, v.P, err = pairAnswers(j.a, j.b)
		}
		if err == nil && q.pairs {
			v.Paired, err = paired(m, j.a, j.b)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", test, m.Key, err)
		}
		j.Metrics = append(j.Metrics, *v)
	}
	return j, nil
}

// redefined says why the numbers of a metric must not be compared, "" if they may.
func redefined(m Metric, runs []*Run) string {
	for _, r := range runs[1:] {
		if why := result.Redefined(m.Key, runs[0].Result.MetricsVersion, r.Result.MetricsVersion); why != "" {
			return why
		}
	}
	return ""
}

// kindOf is the kind of the first run with a record.
func kindOf(runs []*Run) Kind {
	for _, r := range runs {
		if r.Result != nil {
			return KindOf(r.Result)
		}
	}
	return Measured
}

func numbersOf(m Metric, runs []*Run) []float64 {
	var list []float64
	for _, r := range runs {
		if v := m.Of(r.Result).Number; v != nil {
			list = append(list, *v)
		}
	}
	return list
}

// conclude gives every metric its verdict. A metric is one of all tests that the
// report asks, so this comes last. A gain of speed needs proof.
func conclude(list []Judgement, proof Proven) error {
	var ps []float64
	var of []*MetricVerdict
	for i := range list {
		for k := range list[i].Metrics {
			v := &list[i].Metrics[k]
			if _, _, _, p := v.deciding(); p != nil {
				ps, of = append(ps, *p), append(of, v)
			}
		}
	}
	adjusted, err := stats.BenjaminiHochberg(ps)
	if err != nil {
		return err
	}
	for i, v := range of {
		v.AdjustedP = &adjusted[i]
	}
	for i := range list {
		j := &list[i]
		if len(j.NotComparable) > 0 || len(j.Metrics) == 0 && len(j.Redefined) > 0 {
			j.Verdict = NotComparable
			continue
		}
		j.Verdict = Same
		if len(j.Metrics) == 0 {
			j.Verdict, j.RunsNeeded = TooLittle, usualRuns
		}
		for k := range j.Metrics {
			v := &j.Metrics[k]
			if err := v.conclude(len(ps)); err != nil {
				return err
			}
			if v.Verdict == Improved && v.Key != accuracy.Key && !proof.Covers(j.a, j.b) {
				v.Marks = append(v.Marks, AccuracyUnchecked)
			}
			if len(j.Mixed) > 0 {
				v.Marks = append(v.Marks, MixedHardware)
			}
			j.RunsNeeded = max(j.RunsNeeded, v.RunsNeeded)
			if slices.Index(outcomes, v.Verdict) < slices.Index(outcomes, j.Verdict) {
				j.Verdict = v.Verdict
			}
		}
	}
	return nil
}

// Missing is how many more runs each side needs.
func (j *Judgement) Missing() (first, second int) {
	if j.RunsNeeded == 0 {
		return 0, 0
	}
	return max(0, j.RunsNeeded-len(j.First.Runs)), max(0, j.RunsNeeded-len(j.Second.Runs))
}
