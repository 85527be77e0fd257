package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/records"
)

// Sweep is the points of one sweep.
type Sweep struct {
	Name      string        `json:"name"` // the test's id; with its iteration if that is not the first
	Group     string        `json:"group"`
	Kind      records.Kind  `json:"kind,omitempty"`
	Objective metric.Metric `json:"objective"`
	Points    []Point       `json:"points"`
	// Best is the index of the valid point with the best value of the objective,
	// nil if no point is valid, or the prompts differ.
	Best    *int            `json:"best,omitempty"`
	Apart   bool            `json:"prompts_differ,omitempty"` // only points with the same prompts are compared
	Metrics []metric.Metric `json:"metrics"`
	Cost    Cost            `json:"cost"`
	Rooms   []Room          `json:"within_limits,omitempty"` // one for each combination of what is not the load

	Axes     [][]int `json:"-"` // places in the values of a point: what varies independently
	OfPhases bool    `json:"-"` // the points are the phases of one run
}

// Point is one point of a sweep, or one phase of a run.
type Point struct {
	Label   string            `json:"label"`
	Step    int               `json:"step"`
	Phase   string            `json:"phase,omitempty"`
	Repeat  int               `json:"repeat,omitempty"` // from 1; 0: measured once
	Values  []records.Setting `json:"values"`
	Dir     string            `json:"dir"`
	Verdict Verdict           `json:"verdict"`
	Usable  bool              `json:"usable"`
	Reason  string            `json:"reason,omitempty"`
	Reward  *float64          `json:"reward,omitempty"`
	Metrics []metric.Value    `json:"metrics"` // len == the sweep's metrics
	BestOf  []bool            `json:"best_of"` // of these it has the best value; len == the sweep's metrics

	suspect bool
}

// Doubtful reports whether a point is shown although it is suspect.
func (p Point) Doubtful() bool { return p.Usable && p.suspect }

// Cost is what a sweep took, beside what all of its space would take. Times are
// in s; what is not known is nil.
type Cost struct {
	Rows       int      `json:"rows"`  // points that were tried
	Space      int      `json:"space"` // points that there are, as far as the values tried show
	Timed      int      `json:"timed"` // points whose duration is known
	Average    *float64 `json:"average_step_s,omitempty"`
	Observed   *float64 `json:"observed_s,omitempty"`
	Projected  *float64 `json:"projected_s,omitempty"`
	Saved      *float64 `json:"saved_s,omitempty"` // never negative
	Efficiency float64  `json:"efficiency"`        // space over rows

	GPU           string   `json:"gpu,omitempty"`
	GPUHours      *float64 `json:"gpu_hours,omitempty"`
	SavedGPUHours *float64 `json:"saved_gpu_hours,omitempty"`
	GPUHourUSD    *float64 `json:"gpu_hour_usd,omitempty"`
	USD           *float64 `json:"usd,omitempty"`
	SavedUSD      *float64 `json:"saved_usd,omitempty"`
}

var sweepMetrics = []metric.Metric{
	metric.Throughput, metric.PerGPU, metric.PerUser, metric.MedianTTFT, metric.P99TTFT, metric.MedianTPOT,
	metric.P99TPOT,
	metric.SuccessShare, metric.Accuracy, metric.Cost[0],
}

// addSweeps makes a table of the points of each sweep, and of each phase of it.
func (r *Report) addSweeps(objective metric.Metric, limits []Limit) {
	scope := func(e *Entry) string { return e.Run.Series }
	within := func(e *Entry) string { return e.Case.Phase }
	for _, points := range r.inGroups(func(e *Entry) bool { return e.Case.Step > 0 }, scope, within) {
		r.Sweeps = append(r.Sweeps, newSweep(points, objective, limits))
	}
}

// inGroups returns the entries that belong to a table, in groups of one scope, of one
// part within it, and of one kind. An entry without a record has no kind of its own and
// takes that of its scope.
func (r *Report) inGroups(belongs func(*Entry) bool, scope, within func(*Entry) string) [][]*Entry {
	type id struct {
		scope, within string
		kind          records.Kind
	}
	kinds := map[string]records.Kind{}
	for i := range r.Runs {
		if e := &r.Runs[i]; e.Run.Result != nil {
			kinds[scope(e)] = e.Kind
		}
	}
	var list [][]*Entry
	index := map[id]int{}
	for i := range r.Runs {
		e := &r.Runs[i]
		if !belongs(e) {
			continue
		}
		k := id{scope(e), within(e), e.Kind}
		if e.Run.Result == nil {
			k.kind = kinds[k.scope]
		}
		at, ok := index[k]
		if !ok {
			at = len(list)
			index[k], list = at, append(list, nil)
		}
		list[at] = append(list[at], e)
	}
	return list
}

func newSweep(entries []*Entry, objective metric.Metric, limits []Limit) Sweep {
	first := entries[0]
	s := Sweep{Name: first.Case.Test, Objective: objective}
	if first.Case.Phase != "" {
		s.Name += " " + first.Case.Phase
	}
	if first.Case.Iteration > 0 {
		s.Name += fmt.Sprintf(" iter=%d", first.Case.Iteration)
	}
	keys := dimensions(entries)
	s.fill(entries, keys)
	s.Axes = axes(entries, keys)
	s.markBest(entries)
	s.Cost = cost(entries, &s)
	s.Rooms = rooms(entries, &s, limits)
	return s
}

// fill takes the points with these settings, and the metrics that one of them has.
func (s *Sweep) fill(entries []*Entry, keys []string) {
	for _, e := range entries {
		if e.Group != "" {
			s.Group, s.Kind = e.Group, e.Kind
			break
		}
	}
	for _, m := range append([]metric.Metric{s.Objective}, sweepMetrics...) {
		has := func(e *Entry) bool { return m.Of(e.Run.Result) != metric.Value{} }
		same := func(x metric.Metric) bool { return x.Key == m.Key }
		if slices.ContainsFunc(entries, has) && !slices.ContainsFunc(s.Metrics, same) {
			s.Metrics = append(s.Metrics, m)
		}
	}
	for _, e := range entries {
		p := Point{
			Label: e.Label, Step: e.Case.Step, Phase: e.Case.Phase, Repeat: e.Case.Repeat,
			Values: groupOf(e.Run, keys), Dir: e.Dir,
			Verdict: e.Verdict, Usable: e.Usable, Reason: e.Reason, Reward: e.Run.Reward,
			BestOf: make([]bool, len(s.Metrics)), suspect: !e.Best(),
		}
		for _, m := range s.Metrics {
			p.Metrics = append(p.Metrics, m.Of(e.Run.Result))
		}
		s.Points = append(s.Points, p)
	}
}

// axes are the places in keys of what varies independently: a setting, or those that
// sweep.zip pairs. Settings that no plan chose follow from others, such as num_prompts =
// "5x" from the concurrency, unless no plan says what was chosen.
func axes(entries []*Entry, keys []string) [][]int {
	picked, zips := map[string]bool{}, map[string]int{}
	for _, e := range entries {
		for _, v := range e.Run.Values {
			picked[v.Key] = true
		}
		maps.Copy(zips, e.Run.Zips)
	}
	var out [][]int
	at := map[int]int{}
	for i, k := range keys {
		group := zips[k]
		if place, ok := at[group]; ok && group > 0 {
			out[place] = append(out[place], i)
			continue
		}
		if len(picked) == 0 || picked[k] {
			at[group] = len(out)
			out = append(out, []int{i})
		}
	}
	return out
}

// dimensions are the keys that a sweep chose, as its plans say, and those of the load that
// follow from them; or else those in which its points differ.
func dimensions(entries []*Entry) []string {
	var keys []string
	runs := make([]*records.Run, 0, len(entries))
	for _, e := range entries {
		for _, v := range e.Run.Values {
			if !slices.Contains(keys, v.Key) {
				keys = append(keys, v.Key)
			}
		}
		if e.Run.Settings != nil {
			runs = append(runs, e.Run)
		}
	}
	all := records.Differing(runs)
	if keys == nil {
		return all
	}
	for _, k := range all {
		within := func(have string) bool { return have == k || strings.HasPrefix(k, have+".") }
		if strings.HasPrefix(k, "bench_cmd_args.") && !slices.ContainsFunc(keys, within) {
			keys = append(keys, k)
		}
	}
	return keys
}

// markBest marks the best of each metric, and of the objective. Only a valid
// point may be the best, and the only point is the best of none. Points are compared
// with those that have the same prompts.
func (s *Sweep) markBest(entries []*Entry) {
	groups := map[string][]int{}
	for j, e := range entries {
		k := ""
		if e.Run.Result != nil {
			k = promptKey(e.Run)
		}
		groups[k] = append(groups[k], j)
	}
	s.Apart = len(promptsDiffer(recordedOf(entries))) > 0
	for i, m := range s.Metrics {
		for _, places := range groups {
			at := s.markBestOf(i, places, entries)
			if m.Key == s.Objective.Key && at >= 0 && !s.Apart {
				s.Best = &at
			}
		}
	}
}

// recordedOf are the entries with a record.
func recordedOf(entries []*Entry) []*Entry {
	return slices.DeleteFunc(slices.Clone(entries), func(e *Entry) bool { return e.Run.Result == nil })
}

// markBestOf marks the best of a metric among some points, and returns its place, -1 if there is none.
// Of those that are equal in the digits that tables show, all are marked, unless that is every one.
func (s *Sweep) markBestOf(metric int, places []int, entries []*Entry) int {
	m := s.Metrics[metric]
	var best *float64
	at, of := -1, 0
	for _, j := range places {
		v := s.Points[j].Metrics[metric].Number
		if v == nil || !entries[j].Best() {
			continue
		}
		if of++; best == nil || m.Beats(*v, *best) {
			best, at = v, j
		}
	}
	if best == nil {
		return -1
	}
	var equal []int
	for _, j := range places {
		if v := s.Points[j].Metrics[metric].Number; v != nil && entries[j].Best() && m.Shown(*v) == m.Shown(*best) {
			equal = append(equal, j)
		}
	}
	if len(places) > 1 && (len(equal) < of || of == 1) {
		for _, j := range equal {
			s.Points[j].BestOf[metric] = true
		}
	}
	return at
}

// cost adds up what the points took. The points of one job share its time.
func cost(entries []*Entry, s *Sweep) Cost {
	rows, timed, jobs := map[int]bool{}, map[int]bool{}, map[string]bool{}
	var c Cost
	seconds, hours, gpusKnown := 0.0, 0.0, true
	for _, e := range entries {
		rows[e.Case.Step] = true
		r := e.Run.Result
		if r == nil || r.Duration == nil {
			continue
		}
		timed[e.Case.Step] = true
		c.GPU = cmp.Or(c.GPU, e.Run.GPU())
		if usd := r.Results.GPUHourUSD; usd != nil {
			c.GPUHourUSD = usd
		}
		if jobs[e.Run.ServerStart()] {
			continue
		}
		jobs[e.Run.ServerStart()] = true
		seconds += *r.Duration
		n := e.Run.HeldGPUs()
		gpusKnown = gpusKnown && n > 0
		hours += *r.Duration / 3600 * float64(n)
	}
	c.Rows, c.Timed, c.Space = len(rows), len(timed), s.space(len(rows))
	c.Efficiency = float64(c.Space) / float64(c.Rows)
	if c.Timed > 0 {
		c.project(seconds)
		if gpusKnown {
			c.projectGPUs(hours)
		}
	}
	return c
}

// forAll is what all of the space would take, when the timed points took so much.
func (c *Cost) forAll(taken float64) float64 { return taken / float64(c.Timed) * float64(c.Space) }

func (c *Cost) project(seconds float64) {
	c.Observed, c.Average, c.Projected = &seconds, new(seconds/float64(c.Timed)), new(c.forAll(seconds))
	c.Saved = new(max(*c.Projected-seconds, 0))
}

func (c *Cost) projectGPUs(hours float64) {
	c.GPUHours, c.SavedGPUHours = &hours, new(max(c.forAll(hours)-hours, 0))
	usd, ok := price(c.GPU)
	if c.GPUHourUSD != nil { // the site's
		usd, ok = *c.GPUHourUSD, true
	}
	if ok {
		c.GPUHourUSD, c.USD, c.SavedUSD = &usd, new(hours*usd), new(*c.SavedGPUHours*usd)
	}
}

// space is the number of combinations of the values that were tried; no less
// than the points.
func (s *Sweep) space(rows int) int {
	n := 1
	for _, axis := range s.Axes {
		seen := map[string]bool{}
		for _, p := range s.Points {
			var b strings.Builder
			for _, i := range axis {
				b.WriteString(p.Values[i].Value + "\x00")
			}
			seen[b.String()] = true
		}
		n *= len(seen)
	}
	return max(n, rows)
}

// prices in USD for an hour of one GPU, as CloudAI has them; of the families in a
// name the longest counts.
var prices = map[string]float64{"H100": 3.0, "B200": 5.5, "GB200": 11.0, "GB300": 8.0}

func price(gpu string) (float64, bool) {
	family := ""
	for name := range prices {
		if strings.Contains(strings.ToUpper(gpu), name) && len(name) > len(family) {
			family = name
		}
	}
	usd, ok := prices[family]
	return usd, ok
}
