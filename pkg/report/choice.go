package report

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/result"
)

// Choice says which of several settings is the best, and how sure that is. Only valid runs
// count. Repeats and iterations of a setting are its runs, and the medians are ranked. Runs of one
// server start are no independent runs: a setting with several starts is the medians of its starts.
type Choice struct {
	About  string        `json:"about,omitempty"` // the test whose settings are ranked; "" for tests
	Noun   Noun          `json:"of"`
	Kind   records.Kind  `json:"kind,omitempty"`
	Metric metric.Metric `json:"metric"`
	// Candidates have a valid run with the metric: first those that keep the limits, the best
	// first, then the others.
	Candidates []Candidate `json:"candidates,omitempty"`
	Within     int         `json:"within_limits"` // so many of the candidates keep every limit
	// Ties are the places of candidates of which the data show that they are as good as the best.
	Ties []int `json:"ties,omitempty"`
	// Near are the places of those whose medians differ from the best by no more than what matters,
	// while the data neither show nor exclude that they are worse.
	Near []int `json:"near,omitempty"`
	// Open are the places of those of which it is not known whether they are worse.
	Open      []int     `json:"open,omitempty"`
	Certainty Certainty `json:"certainty,omitempty"`
	// Suspects are runs with a better value than the best that is known to be valid. They are not
	// ranked.
	Suspects []Suspect `json:"suspects,omitempty"`
	// Unlike are fields of the load in which the tests differ, or the prompts of the phases, so that they
	// cannot be ranked.
	Unlike  []string `json:"unlike,omitempty"`
	Valid   int      `json:"valid"` // runs
	Runs    int      `json:"runs"`
	TopLoad bool     `json:"highest_load,omitempty"` // no higher load than that of the best was measured

	entries []*Entry
}

// Noun says what is ranked.
type Noun string

// What is ranked.
const (
	OfSettings Noun = "setting"
	OfPhases   Noun = "phase"
	OfTests    Noun = "test"
)

// Certainty says how sure it is that the first candidate is the best.
type Certainty string

// The certainties.
const (
	Shown   Certainty = "shown"   // the data show that each of the others is worse
	Tie     Certainty = "tie"     // the data show that at least one other is as good
	NotSure Certainty = "unknown" // too few runs, or too much noise
	Alone   Certainty = "alone"   // there is no other
)

// Candidate is one setting and its valid runs.
type Candidate struct {
	Name     string   `json:"name"`
	Dir      string   `json:"dir"` // of the run with the median of the metric
	Jobs     int      `json:"jobs"`
	Value    Spread   `json:"value"`
	Standing Standing `json:"standing,omitempty"` // if there are limits
	Why      string   `json:"why,omitempty"`
	Beside   []Aside  `json:"beside,omitempty"` // what the setting costs
	GPUs     int      `json:"gpus,omitempty"`   // that served; 0: not known
	// Against is the verdict on this candidate against the best; nil for the best, and outside of
	// the limits.
	Against *MetricVerdict `json:"against_best,omitempty"`

	values   []records.Setting
	same     [2]string // equal for runs of one candidate, beside its name
	runs     []*records.Run
	measured int  // runs with the metric
	starts   bool // the value is of the medians of server starts, not of runs
}

// Aside is the median of another metric.
type Aside struct {
	metric.Metric
	Value float64 `json:"value"`
}

// Suspect is a run that is not ranked.
type Suspect struct {
	Name  string   `json:"name"`
	Dir   string   `json:"dir"`
	Value *float64 `json:"value"`
	Why   string   `json:"why"`
}

// addChoices ranks what each sweep, the phases of each test, and the tests of each group tried.
func (r *Report) addChoices(objective metric.Metric) {
	for _, all := range r.contests() {
		list := []*Choice{all}
		if all.Noun != OfTests {
			list = all.apart()
		}
		for _, c := range list {
			c.rank(objective, r.Limits)
			if c.measured() {
				r.Choices = append(r.Choices, *c)
			}
		}
	}
}

// measured reports whether something could have been ranked: runs of programs that measure
// nothing are no contest.
func (c *Choice) measured() bool {
	return len(c.Candidates) > 0 || slices.ContainsFunc(c.entries, func(e *Entry) bool { return len(e.Metrics) > 0 })
}

// contests are the runs that compete, without a rank yet. Runs without a record compete in
// nothing.
func (r *Report) contests() []*Choice {
	type id struct {
		noun                          Noun
		scenario, test, phase, within string
		kind                          records.Kind
	}
	phased := map[string]bool{} // jobs whose phases differ in a setting
	for i := range r.Phases {
		for _, p := range r.Phases[i].Points {
			phased[p.Dir] = true
		}
	}
	var list []*Choice
	at := map[id]*Choice{}
	for i := range r.Runs {
		e := &r.Runs[i]
		if e.Run.Result == nil || e.Kind == records.Profiled {
			continue
		}
		k := id{OfTests, e.Case.Scenario, "", e.Case.Phase, e.Group, e.Kind}
		switch {
		case e.Case.Step > 0:
			k = id{OfSettings, e.Case.Scenario, e.Case.Test, e.Case.Phase, "", e.Kind}
		case phased[e.Dir]:
			k = id{OfPhases, e.Case.Scenario, e.Case.Test, "", "", e.Kind}
		}
		if at[k] == nil {
			about := strings.TrimSpace(k.test + " " + k.phase)
			if k.noun == OfTests && k.within != allInOne+k.kind.Suffix() {
				about = strings.TrimSpace(about + " " + strings.TrimSuffix(k.within, k.kind.Suffix()))
			}
			at[k] = &Choice{About: about, Noun: k.noun, Kind: k.kind}
			list = append(list, at[k])
		}
		at[k].entries = append(at[k].entries, e)
	}
	return list
}

// rank fills a choice from its entries.
func (c *Choice) rank(objective metric.Metric, limits []Limit) {
	c.Metric = ranking(objective, c.entries)
	c.Runs = len(c.entries)
	keys := chosenKeys(c.entries)
	for _, e := range c.entries {
		if e.Best() {
			c.Valid++
			c.add(e, keys)
		}
	}
	c.tellApart()
	kept := c.Candidates[:0]
	for _, x := range c.Candidates {
		if x.sum(c.Metric, limits) {
			kept = append(kept, x)
		}
	}
	c.Candidates = kept
	if c.Noun == OfTests {
		c.Unlike = unlikeLoads(c.Candidates)
	} else if len(c.Unlike) > 0 {
		return // in the order of the run
	}
	c.order()
	c.addSuspects(keys, limits)
	c.weigh()
}

// ranking is the metric by which runs are ranked: what was asked for; or, if none of them
// served a load, the first that a benchmark without a server has.
func ranking(objective metric.Metric, entries []*Entry) metric.Metric {
	offline := []metric.Metric{metric.OfflineRates[2], metric.OfflineRates[1], metric.OfflineRates[0]}
	for _, t := range metric.Timings {
		offline = append(offline, t.Metrics()[0])
	}
	for _, m := range append([]metric.Metric{objective}, offline...) {
		if slices.ContainsFunc(entries, func(e *Entry) bool { return m.Of(e.Run.Result) != metric.Value{} }) {
			return m
		}
	}
	return objective
}

// chosenKeys are the settings that name a point: what a sweep chose, or else those in which
// the points differ.
func chosenKeys(entries []*Entry) []string {
	var keys []string
	for _, e := range entries {
		for _, v := range e.Run.Values {
			if !slices.Contains(keys, v.Key) {
				keys = append(keys, v.Key)
			}
		}
	}
	if keys == nil {
		return dimensions(entries)
	}
	return keys
}

// nameOf is what is ranked by its name, and the settings that make it.
func (c *Choice) nameOf(e *Entry, keys []string) (string, []records.Setting) {
	switch c.Noun {
	case OfTests:
		return e.Case.Test, nil
	case OfPhases:
		return e.Case.Phase, nil
	}
	values := groupOf(e.Run, keys)
	return cmp.Or(records.JoinShort(values), e.Case.Test), values
}

// add adds a valid run to its candidate: runs of another image or engine are another one.
func (c *Choice) add(e *Entry, keys []string) {
	name, values := c.nameOf(e, keys)
	same := [2]string{e.Run.Key(), build(e.Run)}
	at := slices.IndexFunc(c.Candidates, func(x Candidate) bool { return x.Name == name && x.same == same })
	if at < 0 {
		at, c.Candidates = len(c.Candidates), append(c.Candidates, Candidate{Name: name, values: values, same: same})
	}
	c.Candidates[at].runs = append(c.Candidates[at].runs, e.Run)
}

// build says which program a run measured.
func build(r *records.Run) string {
	return cmp.Or(r.Surrounding("digest"), r.Surrounding("image")) + " " + r.Surrounding("engine")
}

// tellApart adds to equal names what their runs differ in.
func (c *Choice) tellApart() {
	names := map[string][]int{}
	for i, x := range c.Candidates {
		names[x.Name] = append(names[x.Name], i)
	}
	for _, places := range names {
		if len(places) < 2 {
			continue
		}
		var runs []*records.Run
		for _, i := range places {
			runs = append(runs, c.Candidates[i].runs[0])
		}
		keys := records.Differing(runs)
		for _, i := range places {
			x := &c.Candidates[i]
			differs := groupOf(x.runs[0], keys)
			for _, name := range []string{"image", "engine", "GPU", "digest"} {
				of := func(r *records.Run) string { return r.Surrounding(name) }
				if v := of(x.runs[0]); len(differs) == 0 && v != "" && valuesOf(runs, of) != v {
					differs = append(differs, records.Setting{Key: name, Value: v})
				}
			}
			if len(differs) == 0 {
				differs = append(differs, records.Setting{Key: "run", Value: x.runs[0].Dir})
			}
			x.Name += " (" + records.JoinShort(differs) + ")"
		}
	}
}

// sum sums up the runs of a candidate; it is false if none has the metric.
func (x *Candidate) sum(m metric.Metric, limits []Limit) bool {
	numbers := x.numbers(m)
	var err error
	if x.Value, err = spread(numbers); err != nil {
		return false
	}
	away := math.Inf(1)
	for _, r := range x.runs {
		if v := m.Of(r.Result).Number; v != nil && math.Abs(*v-*x.Value.Median) < away {
			away, x.Dir = math.Abs(*v-*x.Value.Median), r.Dir
		}
	}
	if n := x.runs[0].Result.Results.GPUs; n != nil {
		x.GPUs = *n
	}
	for _, other := range []metric.Metric{metric.Throughput, metric.MedianTTFT, metric.MedianTPOT, metric.Accuracy} {
		if s, err := spread(numbersOf(other, x.runs)); err == nil && other.Key != m.Key {
			x.Beside = append(x.Beside, Aside{other, *s.Median})
		}
	}
	if len(limits) > 0 {
		x.Standing, x.Why = standing(x.runs, limits)
	}
	return true
}

// numbers are what a candidate measured, as numbers that are independent of each other where there
// are several server starts: the median of each. It notes how many starts and runs there were.
func (x *Candidate) numbers(m metric.Metric) []float64 {
	var jobs []string
	by := map[string][]*records.Run{}
	x.measured = 0
	for _, r := range x.runs {
		if m.Of(r.Result).Number == nil {
			continue
		}
		start := r.ServerStart()
		if by[start] == nil {
			jobs = append(jobs, start)
		}
		by[start] = append(by[start], r)
		x.measured++
	}
	x.Jobs = len(jobs)
	if x.starts = x.Jobs > 1 && x.Jobs < x.measured; !x.starts {
		return numbersOf(m, x.runs)
	}
	var list []float64
	for _, j := range jobs {
		if s, err := spread(numbersOf(m, by[j])); err == nil {
			list = append(list, *s.Median)
		}
	}
	return list
}

// standing says whether runs keep every limit, and if not, why.
func standing(runs []*records.Run, limits []Limit) (is Standing, why string) {
	worst := []Standing{Keeps, Unclear, Unknown, Exceeds}
	is = Keeps
	for _, l := range limits {
		s, said := judgeLimit(l, runs)
		if slices.Index(worst, s) > slices.Index(worst, is) {
			is, why = s, said
		}
	}
	return is, why
}

// order puts the candidates that keep the limits first, and the best of them at the front.
func (c *Choice) order() {
	within := func(x Candidate) int {
		if x.Standing == "" || x.Standing == Keeps {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(c.Candidates, func(a, b Candidate) int {
		better := 0
		switch x, y := *a.Value.Median, *b.Value.Median; {
		case c.Metric.Beats(x, y):
			better = -1
		case c.Metric.Beats(y, x):
			better = 1
		}
		return cmp.Or(within(a)-within(b), better)
	})
	for _, x := range c.Candidates {
		c.Within += 1 - within(x)
	}
	if c.Within > 0 {
		c.TopLoad = c.topLoad()
	}
}

// topLoad reports whether the best has the highest load of the candidates that have its other
// settings.
func (c *Choice) topLoad() bool {
	load := func(x Candidate) (own float64, key, rest string) {
		var others []records.Setting
		for _, v := range x.values {
			if n, ok := number(v); ok && key == "" && slices.Contains(LoadKeys, v.Key) {
				own, key = n, v.Key
				continue
			}
			others = append(others, v)
		}
		return own, key, records.Join(others)
	}
	own, key, rest := load(c.Candidates[0])
	for _, x := range c.Candidates[1:] {
		if n, _, others := load(x); others == rest && n > own {
			return false
		}
	}
	return key != ""
}

// unlikeLoads are the fields that forbid to rank tests: their loads or their GPUs differ.
func unlikeLoads(list []Candidate) []string {
	var fields []string
	for i := 1; i < len(list); i++ {
		refused, _, _ := unmet(list[0].runs, list[i].runs)
		for _, u := range refused {
			if !slices.Contains(fields, u.Field) {
				fields = append(fields, u.Field)
			}
		}
	}
	return fields
}

// addSuspects notes the suspect runs that measured more than the best valid one.
func (c *Choice) addSuspects(keys []string, limits []Limit) {
	for _, e := range c.entries {
		if !e.Usable || e.Best() {
			continue
		}
		v := c.Metric.Of(e.Run.Result).Number
		if v == nil || c.Within > 0 && !c.Metric.Beats(*v, *c.Candidates[0].Value.Median) {
			continue
		}
		if is, _ := standing([]*records.Run{e.Run}, limits); is != Keeps {
			continue
		}
		name, _ := c.nameOf(e, keys)
		c.Suspects = append(c.Suspects, Suspect{name, e.Dir, v, quantity.List(doubts(e.Run.Result.Validity))})
	}
	slices.SortStableFunc(c.Suspects, func(a, b Suspect) int {
		switch {
		case c.Metric.Beats(*a.Value, *b.Value):
			return -1
		case c.Metric.Beats(*b.Value, *a.Value):
			return 1
		}
		return 0
	})
}

// doubts are the words of the checks for which a run is suspect or invalid.
func doubts(v *result.Validity) []string {
	var words []string
	for _, c := range v.Checks {
		if c.Outcome == result.Fail && (c.Severity == result.Suspect || c.Severity == result.Invalid) {
			words = append(words, c.Word)
		}
	}
	return words
}
