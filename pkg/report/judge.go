package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/stats"
)

// Judgement says what two sets of runs of the same test prove: by how much the
// second differs from the first, and whether that is more than noise.
type Judgement struct {
	Test    string       `json:"test"` // with phase and step
	Kind    records.Kind `json:"kind,omitempty"`
	Verdict Outcome      `json:"verdict"` // the worst of the metrics'
	First   Side         `json:"first"`   // the baseline
	Second  Side         `json:"second"`
	// NotComparable is why nothing is said of the numbers.
	NotComparable []Unlike `json:"not_comparable,omitempty"`
	Differs       []Unlike `json:"differs,omitempty"`
	// NotCausal is set if several settings differ, so that a change has no single reason.
	NotCausal bool `json:"not_causal,omitempty"`
	// Mixed are the GPUs or drivers of a side whose runs had several: mixed-hardware.
	Mixed []string `json:"mixed_hardware,omitempty"`
	// ApartPairs is how many pairs ran on different nodes: differences between nodes are
	// part of their differences.
	ApartPairs int             `json:"pairs_on_other_nodes,omitempty"`
	Metrics    []MetricVerdict `json:"metrics,omitempty"`
	// Redefined are metrics whose keys mean something else in one of the records.
	Redefined []Redefined `json:"redefined,omitempty"`
	// RunsNeeded is how many runs of each side would settle what is open and within reach; 0:
	// nothing is.
	RunsNeeded int `json:"runs_needed,omitempty"`
	// Commands make the runs that are missing.
	Commands []string `json:"commands,omitempty"`

	a, b []*records.Run
}

// Redefined is a metric that is not compared.
type Redefined struct {
	metric.Metric
	Why string `json:"why"`
}

// Outcome is a verdict in words.
type Outcome string

// The outcomes, worst first.
const (
	NotComparable Outcome = "not-comparable"
	Regressed     Outcome = "regressed"
	Improved      Outcome = "improved"
	Watch         Outcome = "watch" // of a series: a cut that may be chance
	TooLittle     Outcome = "too little data"
	Same          Outcome = "same within noise"
	NoChange      Outcome = "no change found" // of a series
)

var outcomes = []Outcome{NotComparable, Regressed, Improved, Watch, TooLittle, Same, NoChange}

// rank is the place of an outcome, the worst first.
func (o Outcome) rank() int { return slices.Index(outcomes, o) }

// worst is the worse of two outcomes.
func worst(a, b Outcome) Outcome {
	if b.rank() < a.rank() {
		return b
	}
	return a
}

// tally lists outcomes with their number, worst first.
func tally(count map[Outcome]int) string {
	var parts []string
	for _, o := range outcomes {
		if count[o] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[o], o))
		}
	}
	return strings.Join(parts, ", ")
}

// Side is one set of runs.
type Side struct {
	Name string   `json:"name,omitempty"` // as the caller calls it; see Names
	Runs []string `json:"runs"`           // directories
	Key  string   `json:"key,omitempty"`  // of what they measure; runs of another are not like them
	Jobs int      `json:"jobs"`           // starts of the server that the runs shared
	// MedianRun is the directory of the run with the median throughput: the one to
	// look into, and to show, because medians of each field are of no run.
	MedianRun string   `json:"median_run,omitempty"`
	Apart     []string `json:"apart,omitempty"`    // directories of runs that are not compared, and why
	Accuracy  *Share   `json:"accuracy,omitempty"` // of a side of one run
	// Accepts are the thresholds of checks that tests of this side set for themselves:
	// by the defaults its runs may not be valid.
	Accepts []string `json:"accepts,omitempty"`

	LeftOut []LeftOut `json:"-"` // Apart in its parts
}

// Share is an accuracy with what its questions alone say of its noise.
type Share struct {
	Value     float64  `json:"value"` // 0 to 1
	Questions int      `json:"questions"`
	Low       float64  `json:"low"` // Wilson's interval
	High      float64  `json:"high"`
	LeastDrop *float64 `json:"least_drop,omitempty"` // that another such run detects with 80 % power
}

// shareOf is nil unless a run says how many questions its accuracy rests on.
func shareOf(r *records.Run) *Share {
	v := metric.Accuracy.Of(r.Result).Number
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
		text += fmt.Sprintf("; so many questions show no drop below %.1f points", 100**s.LeastDrop)
	}
	return text
}

// split parts the runs of a set into those that can be compared and the others, with
// the reason. Runs that are also on the other side, nil for none, are left out.
func split(runs []*records.Run, baseline bool, other []*records.Run) (good []*records.Run, apart []LeftOut) {
	there, seen := records.Copies{}, records.Copies{}
	for _, r := range other {
		there.Add(r)
	}
	for _, r := range runs {
		why := ""
		switch e := newEntry(r); {
		case r.Result == nil, !e.Usable:
			if why = string(e.Verdict); e.Reason != "" {
				why += ": " + e.Reason
			}
		case baseline && !e.Best():
			why = fmt.Sprintf("%s, so not a baseline: %s", e.Verdict, e.Reason)
		case baseline && e.Imported != "" && !r.Baseline:
			why = fmt.Sprintf("imported from %s, so not a baseline without --imported-baseline", e.Imported)
		case there.Has(r) != "":
			why = theSame
		default:
			why = seen.Has(r)
		}
		if why != "" {
			apart = append(apart, LeftOut{r.Dir, why})
			continue
		}
		seen.Add(r)
		good = append(good, r)
	}
	return good, apart
}

// sideOf sums up the runs of one side.
func sideOf(good []*records.Run, apart []LeftOut) Side {
	s := Side{Runs: []string{}, LeftOut: apart}
	for _, x := range apart {
		s.Apart = append(s.Apart, x.Dir+": "+x.Why)
	}
	jobs := map[string]bool{}
	for _, r := range good {
		jobs[r.ServerStart()] = true
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
func throughputMedian(runs []*records.Run) int {
	var values []float64
	var of []int
	for i, r := range runs {
		if v := metric.Throughput.Of(r.Result).Number; v != nil {
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
	metrics []metric.Metric
	asked   bool // by name: one that no run has is reported as well
	one     bool // each set is one run, asked for by name
	pairs   bool // the sets were made in pairs, told by the iteration
	names   Names
}

// judge compares two sets of runs of one kind; conclude gives the verdicts. A suspect
// run is never part of a baseline, but may be compared with one.
func judge(test string, a, b []*records.Run, q question) (*Judgement, error) {
	j := &Judgement{Test: test, Kind: kindOf(a)}
	j.take(a, b, q)
	if len(j.a) == 0 || len(j.b) == 0 {
		return j, nil
	}
	for i, side := range [][]*records.Run{j.a, j.b} {
		for _, line := range mixed(side) {
			name := []string{cmp.Or(q.names.First, "first"), cmp.Or(q.names.Second, "second")}[i]
			j.Mixed = append(j.Mixed, name+": "+line)
		}
	}
	if j.NotComparable, j.Differs = unlike(j.a, j.b); len(j.NotComparable) > 0 {
		return j, nil
	}
	j.NotCausal = Causes(j.Differs) > 1
	if q.pairs {
		j.ApartPairs = apartPairs(j.a, j.b)
	}
	for _, m := range q.metrics {
		if err := j.test(m, q); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", test, m.Key, err)
		}
	}
	return j, nil
}

// take chooses the runs of both sides that can be compared.
func (j *Judgement) take(a, b []*records.Run, q question) {
	var apartA, apartB []LeftOut
	j.a, apartA = split(a, !q.one, nil)
	var other []*records.Run
	if !q.one { // one run per side is not tested
		other = j.a
	}
	j.b, apartB = split(b, false, other)
	if q.pairs {
		first, alone := partners(j.a, j.b)
		apartA = append(apartA, alone...)
		second, alone := partners(j.b, j.a)
		apartB = append(apartB, alone...)
		j.a, j.b = first, second
	}
	j.First, j.Second = sideOf(j.a, apartA), sideOf(j.b, apartB)
	j.First.Name, j.Second.Name = q.names.First, q.names.Second
}

// test adds what the numbers of a metric say, without a verdict yet.
func (j *Judgement) test(m metric.Metric, q question) error {
	if why := redefined(m, slices.Concat(j.a, j.b)); why != "" {
		j.Redefined = append(j.Redefined, Redefined{m, why})
		return nil
	}
	first, second := numbersOf(m, j.a), numbersOf(m, j.b)
	if len(first) == 0 && len(second) == 0 && !q.asked {
		return nil
	}
	if len(first) == 0 || len(second) == 0 {
		v, err := j.lacking(m)
		if err == nil {
			j.Metrics = append(j.Metrics, *v)
		}
		return err
	}
	v, err := newVerdict(m, first, second)
	if err == nil {
		err = v.permute(first, second)
	}
	if err == nil && m.Key == metric.Accuracy.Key && v.P == nil {
		v.Answers, v.P, err = pairAnswers(j.a, j.b)
	}
	if err == nil && q.pairs {
		v.Paired, err = paired(m, j.a, j.b)
	}
	if err == nil {
		j.Metrics = append(j.Metrics, *v)
	}
	return err
}

// redefined says why the numbers of a metric must not be compared, "" if they may.
func redefined(m metric.Metric, runs []*records.Run) string {
	for _, r := range runs[1:] {
		if why := result.Redefined(m.Key, runs[0].Result.MetricsVersion, r.Result.MetricsVersion); why != "" {
			return why
		}
	}
	return ""
}

// kindOf is the kind of the first run with a record.
func kindOf(runs []*records.Run) records.Kind {
	for _, r := range runs {
		if r.Result != nil {
			return records.KindOf(r.Result)
		}
	}
	return records.Measured
}

func numbersOf(m metric.Metric, runs []*records.Run) []float64 {
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
	var all pvalues
	later := 0 // tests of which there are too few pairs yet
	for i := range list {
		for k := range list[i].Metrics {
			v := &list[i].Metrics[k]
			if _, _, _, p := v.Deciding(); p != nil {
				all.add(*p, func(p float64) { v.AdjustedP = &p })
			} else if v.Paired != nil {
				later++
			}
		}
	}
	if err := all.adjust(); err != nil {
		return err
	}
	for i := range list {
		if err := list[i].conclude(len(all), len(all)+later, proof); err != nil {
			return err
		}
	}
	return nil
}

// conclude gives each metric its verdict as one of so many tests, and takes the worst. With more
// pairs, there will be more tests.
func (j *Judgement) conclude(tests, later int, proof Proven) error {
	if len(j.NotComparable) > 0 || len(j.Metrics) == 0 && len(j.Redefined) > 0 {
		j.Verdict = NotComparable
		return nil
	}
	j.Verdict = Same
	if len(j.Metrics) == 0 {
		j.Verdict, j.RunsNeeded = TooLittle, usualRuns
	}
	for k := range j.Metrics {
		v := &j.Metrics[k]
		if err := v.conclude(tests, later); err != nil {
			return err
		}
		if v.Verdict == Improved && v.Key != metric.Accuracy.Key && !proof.Covers(j.a, j.b) {
			v.Marks = append(v.Marks, AccuracyUnchecked)
		}
		if len(j.Mixed) > 0 {
			v.Marks = append(v.Marks, MixedHardware)
		}
		if v.OutOfReach == nil {
			j.RunsNeeded = max(j.RunsNeeded, v.RunsNeeded)
		}
		j.Verdict = worst(j.Verdict, v.Verdict)
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

// summary is the verdicts of a report in a line.
func (r *Report) summary() string {
	count := map[Outcome]int{}
	for _, j := range r.Judgements {
		for _, v := range j.Metrics {
			count[v.Verdict]++
		}
		if len(j.Metrics) == 0 {
			count[j.Verdict]++
		}
	}
	return "second against first: " + tally(count)
}
