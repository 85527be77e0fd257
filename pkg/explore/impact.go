package explore

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/stats"
)

// Certainty is what the pairs of a change come to.
type Certainty string

// The certainties.
const (
	Shown     Certainty = "shown"           // it is more than noise, and large enough to matter
	NotShown  Certainty = "not shown"       // it may be noise, or is too small to matter
	TooLittle Certainty = "too little data" // no number of these pairs could show it
)

// Impact is what the change of one setting did to a metric, in pairs of runs that differ in nothing
// else. Percent are of the metric before the change; a pair's numbers are medians of its runs.
type Impact struct {
	Key       string    `json:"key"`
	From      string    `json:"from"` // "" where it was not set
	To        string    `json:"to"`
	Pairs     int       `json:"pairs"`
	Percent   float64   `json:"percent"` // the median of the pairs
	Low       *float64  `json:"low_percent"`
	High      *float64  `json:"high_percent"`
	Coverage  *float64  `json:"coverage,omitempty"` // of the interval
	P         *float64  `json:"p"`                  // corrected for the number of changes
	Certainty Certainty `json:"certainty"`
	Better    bool      `json:"better"` // the metric moved to its better side
	// Runs are those of the pair whose change is the median.
	Runs [2]string `json:"runs"`
}

// ImpactReport is what the settings of runs do to a metric.
type ImpactReport struct {
	Metric  metric.Metric `json:"metric"`
	Kind    records.Kind  `json:"kind,omitempty"`
	Runs    int           `json:"runs"`    // that count
	LeftOut int           `json:"leftout"` // not valid, of another kind, or without the metric
	Impacts []Impact      `json:"impacts"` // shown ones first, by size
	// Together are settings that never changed alone: nothing can be said of them.
	Together []string `json:"together,omitempty"`
}

// Impacts says which settings move a metric.
func Impacts(runs []records.Run, m metric.Metric) *ImpactReport {
	list, kind := match(runs)
	list = slices.DeleteFunc(list, func(x matched) bool { return m.Of(x.Result).Number == nil })
	r := &ImpactReport{Metric: m, Kind: kind, Runs: len(list), LeftOut: len(runs) - len(list), Impacts: []Impact{}}
	whole := make([]digest, len(list))
	for i := range list {
		whole[i] = list[i].of(func(string) bool { return false })
	}
	for _, key := range differing(list) {
		changes := changesOf(list, whole, key, m)
		if len(changes) == 0 {
			r.Together = append(r.Together, key)
		}
		r.Impacts = append(r.Impacts, changes...)
	}
	correct(r.Impacts)
	for i := range r.Impacts {
		r.Impacts[i].judge(m)
	}
	rank := func(x Impact) int { return slices.Index([]Certainty{Shown, NotShown, TooLittle}, x.Certainty) }
	slices.SortStableFunc(r.Impacts, func(a, b Impact) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(math.Abs(b.Percent), math.Abs(a.Percent)),
			cmp.Compare(a.Key, b.Key))
	})
	return r
}

// step is a change of one setting from a value to the next.
type step struct{ from, to string }

// pair is one observation of it.
type pair struct {
	before, after float64 // logarithms
	runs          [2]string
}

// changesOf finds the changes of one setting: from each number or version to the next larger one of the same
// group, and of other texts from the most frequent to each.
func changesOf(list []matched, whole []digest, key string, m metric.Metric) []Impact {
	groups := map[digest]map[string][]int{}
	frequency := map[string]int{}
	var order []digest
	for i := range list {
		v, ok := list[i].factors[key]
		d := whole[i]
		if ok {
			d -= digestOf(key, v)
		}
		if groups[d] == nil {
			groups[d], order = map[string][]int{}, append(order, d)
		}
		groups[d][v] = append(groups[d][v], i)
		frequency[v]++
	}
	pairs := map[step][]pair{}
	for _, d := range order {
		for _, s := range steps(slices.Collect(maps.Keys(groups[d])), frequency) {
			before, one, ok := middle(list, groups[d][s.from], m)
			after, two, okToo := middle(list, groups[d][s.to], m)
			if ok && okToo {
				pairs[s] = append(pairs[s], pair{before, after, [2]string{one, two}})
			}
		}
	}
	var changes []Impact
	for _, s := range slices.SortedFunc(maps.Keys(pairs), func(a, b step) int {
		return cmp.Or(compare(a.from, b.from), compare(a.to, b.to))
	}) {
		changes = append(changes, impactOf(key, s, pairs[s]))
	}
	return changes
}

// compare orders numbers by value, and versions by the numbers in them.
func compare(a, b string) int {
	x, y := field.Read(a), field.Read(b)
	if x.IsNumber() || y.IsNumber() {
		return field.Compare(x, y)
	}
	for a != b {
		one, restA, _ := strings.Cut(a, ".")
		two, restB, _ := strings.Cut(b, ".")
		if c := field.Compare(field.Read(one), field.Read(two)); c != 0 {
			return c
		}
		a, b = restA, restB
	}
	return 0
}

// steps are the changes among the values of a group.
func steps(values []string, frequency map[string]int) []step {
	slices.SortFunc(values, compare)
	numbers := slices.ContainsFunc(values, func(v string) bool { return v != "" && v[0] >= '0' && v[0] <= '9' })
	var list []step
	if numbers {
		for i := 1; i < len(values); i++ {
			list = append(list, step{values[i-1], values[i]})
		}
		return list
	}
	base := slices.MaxFunc(values, func(a, b string) int {
		return cmp.Or(cmp.Compare(frequency[a], frequency[b]), cmp.Compare(b, a))
	})
	for _, v := range values {
		if v != base {
			list = append(list, step{base, v})
		}
	}
	return list
}

// middle is the logarithm of the median of some runs, and the id of the run at it; ok is false if the
// median is not above 0.
func middle(list []matched, at []int, m metric.Metric) (log float64, id string, ok bool) {
	xs := make([]float64, len(at))
	for i, j := range at {
		xs[i] = *m.Of(list[j].Result).Number
	}
	mid, err := stats.Median(xs)
	if err != nil || mid <= 0 {
		return 0, "", false
	}
	return math.Log(mid), list[at[stats.MedianRun(xs)]].Result.RunID, true
}

func impactOf(key string, s step, pairs []pair) Impact {
	x := Impact{Key: key, From: s.from, To: s.to, Pairs: len(pairs)}
	before, after := make([]float64, len(pairs)), make([]float64, len(pairs))
	differences := make([]float64, len(pairs))
	for i, p := range pairs {
		before[i], after[i], differences[i] = p.before, p.after, p.after-p.before
	}
	x.Runs = pairs[stats.MedianRun(differences)].runs
	shift, err := stats.PairedShift(before, after)
	if err != nil {
		return x // never: there is a pair, and logarithms of positive numbers are finite
	}
	percent := func(log float64) float64 { return 100 * math.Expm1(log) }
	x.Percent = percent(shift.Estimate)
	if i := shift.Interval; i != nil {
		x.Low, x.High, x.Coverage = new(percent(i.Low)), new(percent(i.High)), &i.Coverage
	}
	switch t, err := stats.SignFlip(differences); {
	case err == nil:
		x.P = &t.P
	case errors.Is(err, stats.ErrTooMany):
		x.P = new(signBound(differences))
	}
	return x
}

// signBound is an upper bound of the sign test's p, by Hoeffding's inequality.
func signBound(differences []float64) float64 {
	up := 0
	for _, d := range differences {
		if d > 0 {
			up++
		}
	}
	n := float64(len(differences))
	far := math.Abs(float64(up) - n/2)
	return min(1, 2*math.Exp(-2*far*far/n))
}

// correct adjusts the p values for their number.
func correct(list []Impact) {
	var ps []float64
	for _, x := range list {
		if x.P != nil {
			ps = append(ps, *x.P)
		}
	}
	adjusted, err := stats.BenjaminiHochberg(ps)
	if err != nil {
		return // there is none
	}
	for i := range list {
		if list[i].P != nil {
			list[i].P, adjusted = &adjusted[0], adjusted[1:]
		}
	}
}

// judge decides whether a change is shown.
func (x *Impact) judge(m metric.Metric) {
	x.Better = x.Percent != 0 && (x.Percent > 0) == (m.Better == metric.Higher)
	switch {
	case x.P == nil || x.Low == nil:
		x.Certainty = TooLittle
	case *x.P <= stats.Alpha && (*x.Low > 0 || *x.High < 0) && math.Abs(x.Percent) >= m.Floor():
		x.Certainty = Shown
	default:
		x.Certainty = NotShown
	}
}
