package explore

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
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
	Field     string    `json:"field"` // by which runs with these values are filtered
	From      string    `json:"from"`  // "" where it was not set
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
	// NotAbove0 are settings that changed alone, but from or to 0 or less, of which there is no share.
	NotAbove0 []string `json:"not_above_0,omitempty"`
}

// Impacts says which settings move a metric.
func Impacts(runs []Run, m metric.Metric) *ImpactReport {
	list, kind := match(runs)
	list = slices.DeleteFunc(list, func(x matched) bool { return m.Of(x.Result).Number == nil })
	r := &ImpactReport{Metric: m, Kind: kind, Runs: len(list), LeftOut: len(runs) - len(list), Impacts: []Impact{}}
	whole := make([]digest, len(list))
	for i := range list {
		whole[i] = list[i].of(func(string) bool { return false })
	}
	for _, key := range differing(list) {
		changes, alone := changesOf(list, whole, key, m)
		switch {
		case !alone:
			r.Together = append(r.Together, key)
		case len(changes) == 0:
			r.NotAbove0 = append(r.NotAbove0, key)
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
// group, and of other texts from the most frequent to each. alone is false if it never changed alone.
func changesOf(list []matched, whole []digest, key string, m metric.Metric) (changes []Impact, alone bool) {
	groups := map[digest]map[string][]*matched{}
	frequency := map[string]int{}
	var order []digest
	for i := range list {
		v, ok := list[i].factors[key]
		d := whole[i]
		if ok {
			d -= digestOf(key, v)
		}
		if groups[d] == nil {
			groups[d], order = map[string][]*matched{}, append(order, d)
		}
		groups[d][v] = append(groups[d][v], &list[i])
		frequency[v]++
	}
	pairs := map[step][]pair{}
	for _, d := range order {
		for _, s := range steps(key, slices.Collect(maps.Keys(groups[d])), frequency) {
			alone = true
			before, one := middle(groups[d][s.from], m)
			after, two := middle(groups[d][s.to], m)
			if before > 0 && after > 0 {
				pairs[s] = append(pairs[s], pair{math.Log(before), math.Log(after), [2]string{one.ID, two.ID}})
			}
		}
	}
	for _, s := range slices.SortedFunc(maps.Keys(pairs), func(a, b step) int {
		return cmp.Or(compare(key, a.from, b.from), compare(key, a.to, b.to))
	}) {
		changes = append(changes, impactOf(key, s, pairs[s]))
	}
	return changes, alone
}

// compare orders the values of a setting: numbers by value, versions part by part, and equals by their texts.
func compare(key, a, b string) int {
	x, y := field.Read(a), field.Read(b)
	if key != Version && (x.IsNumber() || y.IsNumber()) {
		return cmp.Or(field.Compare(x, y), strings.Compare(a, b))
	}
	restA, restB := a, b
	for restA != restB && restA != "" && restB != "" {
		var one, two string
		one, restA, _ = strings.Cut(restA, ".")
		two, restB, _ = strings.Cut(restB, ".")
		if c := comparePart(one, two); c != 0 {
			return c
		}
	}
	return cmp.Or(strings.Compare(restA, restB), strings.Compare(a, b)) // 0.10 stands before 0.10.1
}

// comparePart orders parts of versions by the number at their beginning. A release follows its candidates: 0rc1
// stands before 0.
func comparePart(a, b string) int {
	cut := func(part string) (number float64, candidate bool, rest string) {
		rest = strings.TrimLeft(part, "0123456789")
		number, err := strconv.ParseFloat(part[:len(part)-len(rest)], 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return -1, false, rest
		}
		return number, rest != "" && rest[0] >= 'a' && rest[0] <= 'z', rest
	}
	x, early, restA := cut(a)
	y, earlyToo, restB := cut(b)
	if c := cmp.Compare(x, y); c != 0 || early == earlyToo {
		return cmp.Or(c, strings.Compare(restA, restB))
	}
	if early {
		return -1
	}
	return 1
}

// steps are the changes among the values of a group.
func steps(key string, values []string, frequency map[string]int) []step {
	slices.SortFunc(values, func(a, b string) int { return compare(key, a, b) })
	numbers := slices.ContainsFunc(values, func(v string) bool { return v != "" && v[0] >= '0' && v[0] <= '9' })
	var list []step
	if numbers {
		for i := 1; i < len(values); i++ {
			list = append(list, step{values[i-1], values[i]})
		}
		return list
	}
	base := slices.MaxFunc(values, func(a, b string) int {
		return cmp.Or(cmp.Compare(frequency[a], frequency[b]), strings.Compare(b, a))
	})
	for _, v := range values {
		if v != base {
			list = append(list, step{base, v})
		}
	}
	return list
}

func impactOf(key string, s step, pairs []pair) Impact {
	x := Impact{Key: key, Field: fieldOf(key), From: s.from, To: s.to, Pairs: len(pairs)}
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

// signBound is an upper bound of the sign test's p, by Hoeffding's inequality. Pairs without a difference
// say nothing.
func signBound(differences []float64) float64 {
	up, n := 0, 0.0
	for _, d := range differences {
		switch {
		case d > 0:
			up++
			n++
		case d < 0:
			n++
		}
	}
	if n == 0 {
		return 1
	}
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
