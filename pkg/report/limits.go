package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/records"
)

// LoadKeys are the settings that say how much load there is, the first that a sweep has first. The
// last is AIPerf's.
var LoadKeys = []string{"bench_cmd_args.max_concurrency", "bench_cmd_args.request_rate",
	"bench_cmd_args.concurrency"}

// Limit is what a metric may be at most, or must be at least where higher is better.
type Limit = metric.Limit

// Room is how much load one combination of the other settings of a sweep takes within the limits.
type Room struct {
	Key    string            `json:"key"` // of the load
	Others []records.Setting `json:"others,omitempty"`
	// Highest is the place of the highest level that keeps every limit, nil if none does.
	Highest *int    `json:"highest,omitempty"`
	Levels  []Level `json:"levels"` // ascending
	Edge    *Edge   `json:"edge,omitempty"`
}

// Level is the runs with one load.
type Level struct {
	Load       string   `json:"load"`
	Runs       int      `json:"runs"` // valid ones
	Standing   Standing `json:"standing"`
	Why        string   `json:"why,omitempty"`
	Throughput *float64 `json:"output_throughput,omitempty"` // median of the valid runs

	entries []*Entry
}

// Standing says whether a level keeps the limits.
type Standing string

// Every standing. Of six runs or more, the interval of the median decides, and of fewer, every run.
const (
	Keeps    Standing = "keeps"     // whole interval, or every run
	Unclear  Standing = "unclear"   // the limit lies within the interval, or between the runs
	Exceeds  Standing = "exceeds"   // a limit is missed by the whole interval, or by every run
	Unknown  Standing = "unknown"   // a metric is absent or withheld
	NotValid Standing = "not valid" // no run is valid
)

// rooms finds how much load a sweep takes within limits; none if it does not vary the load.
func rooms(entries []*Entry, s *Sweep, limits []Limit) []Room {
	at := -1
	for _, k := range LoadKeys {
		if at < 0 && len(limits) > 0 {
			at = slices.IndexFunc(s.Points[0].Values, func(v records.Setting) bool { return v.Key == k })
		}
	}
	if at < 0 {
		return nil
	}
	var list []Room
	for i, p := range s.Points {
		if _, err := strconv.ParseFloat(p.Values[at].Value, 64); err != nil {
			continue
		}
		rest := s.apart(p, at)
		r := slices.IndexFunc(list, func(r Room) bool { return slices.Equal(r.Others, rest) })
		if r < 0 {
			r, list = len(list), append(list, Room{Key: p.Values[at].Key, Others: rest})
		}
		list[r].add(p.Values[at].Value, entries[i])
	}
	for i := range list {
		list[i].judge(limits)
	}
	return list
}

// limited reports whether limits decide something about a sweep.
func (s Sweep) limited() bool { return len(s.Rooms) > 0 }

// apart are the settings of a point that do not go with the one at a place.
func (s *Sweep) apart(p Point, at int) []records.Setting {
	var list []records.Setting
	for _, axis := range s.Axes {
		if slices.Contains(axis, at) {
			continue
		}
		for _, i := range axis {
			list = append(list, p.Values[i])
		}
	}
	return list
}

func (r *Room) add(load string, e *Entry) {
	i := slices.IndexFunc(r.Levels, func(l Level) bool { return l.Load == load })
	if i < 0 {
		i, r.Levels = len(r.Levels), append(r.Levels, Level{Load: load})
	}
	r.Levels[i].entries = append(r.Levels[i].entries, e)
}

func (r *Room) judge(limits []Limit) {
	slices.SortStableFunc(r.Levels, func(a, b Level) int { return cmp.Compare(a.number(), b.number()) })
	for i := range r.Levels {
		l := &r.Levels[i]
		l.judge(limits)
		if l.Standing == Keeps {
			r.Highest = &i
		}
	}
	r.Edge = r.edge(limits)
}

func (l *Level) number() float64 {
	v, _ := strconv.ParseFloat(l.Load, 64)
	return v
}

// judge compares the valid runs of a level with the limits; the worst counts.
func (l *Level) judge(limits []Limit) {
	var valid []*records.Run
	for _, e := range l.entries {
		if e.Best() {
			valid = append(valid, e.Run)
		}
	}
	if l.Runs = len(valid); l.Runs == 0 {
		l.Standing, l.Why = NotValid, string(l.entries[0].Verdict)
		return
	}
	if s, err := spread(numbersOf(metric.Throughput, valid)); err == nil {
		l.Throughput = s.Median
	}
	l.Standing, l.Why = standing(valid, limits)
}

// judgeLimit says whether runs keep a limit, and why not.
func judgeLimit(l Limit, runs []*records.Run) (Standing, string) {
	var xs []float64
	inReal := ""
	for _, r := range runs {
		speed := records.KindOf(r.Result).Speed()
		if v := l.Metric.Of(r.Result).Number; v != nil {
			xs = append(xs, l.Metric.RealTime(*v, speed))
		}
		if speed > 1 {
			inReal = " in real time"
		}
	}
	if len(xs) < len(runs) {
		why := "absent"
		if slices.ContainsFunc(runs, func(r *records.Run) bool { return l.Metric.Of(r.Result).Withheld }) {
			why = "withheld"
		}
		return Unknown, l.Metric.Key + " is " + why
	}
	low, high, of := slices.Min(xs), slices.Max(xs), "runs from"
	if s, err := spread(xs); err == nil && s.Low != nil {
		low, high, of = *s.Low, *s.High, "median from"
	}
	said := fmt.Sprintf("%s %s %s to %s", l.Metric.Key, of, shortest(low), shortest(high))
	if low == high {
		said = l.Metric.Key + " " + shortest(low)
	}
	said += inReal
	switch said += ", not " + strings.TrimPrefix(l.String(), l.Metric.Key+" "); {
	case l.Meets(low) && l.Meets(high):
		return Keeps, ""
	case l.Meets(low) || l.Meets(high):
		return Unclear, said
	}
	return Exceeds, said
}

// shortest writes a number with four digits.
func shortest(v float64) string {
	if math.Abs(v) >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// String says the answer in one sentence, without the settings beside the load.
func (r *Room) String() string {
	if r.Highest == nil {
		l := r.Levels[0]
		return fmt.Sprintf("none; %s", l.what())
	}
	h := r.Levels[*r.Highest]
	text := fmt.Sprintf("%s (%s", h.Load, quantity.Count(h.Runs, "run"))
	if h.Throughput != nil {
		text += fmt.Sprintf(", %s tok/s", shortest(*h.Throughput))
	}
	text += ")"
	for i := range r.Levels[:*r.Highest] {
		if r.Levels[i].Standing != Keeps {
			text += "; lower down, " + r.Levels[i].what()
			break
		}
	}
	if next := *r.Highest + 1; next < len(r.Levels) {
		return text + "; " + r.Levels[next].what()
	}
	return text + "; no higher load was measured"
}

// what says what a level that does not keep the limits does.
func (l *Level) what() string {
	switch l.Standing {
	case NotValid:
		return fmt.Sprintf("%s has no valid run (%s)", l.Load, l.Why)
	case Unknown:
		return fmt.Sprintf("%s is not known: %s", l.Load, l.Why)
	case Unclear:
		return fmt.Sprintf("%s is unclear: %s", l.Load, l.Why)
	}
	return fmt.Sprintf("%s exceeds: %s", l.Load, l.Why)
}
