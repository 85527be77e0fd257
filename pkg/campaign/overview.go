package campaign

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/run"
)

// Overview is what a person needs to know about a scenario before submitting it.
type Overview struct {
	Scenario string
	Cost     Cost
	Time     Estimate // of all runs, one after the other
	Tests    []TestOverview
}

// TestOverview is that of one test.
type TestOverview struct {
	Test      string
	Runs      int // jobs, array tasks or parts of one allocation
	Points    int // of a sweep; 0: none
	LeftOut   int // points that cannot work
	Each      []Estimate
	Time      Estimate
	NodeHours float64 // at most, by the time limits
	// Header and Rows are the points of a sweep, or the phases of a test, with the
	// settings in which they differ. A test with one load has none.
	Header []string
	Rows   [][]string
	Idle   []string // what nothing uses, and what to change

	keys  []string // the settings in the table
	first int      // the column of the first
}

// Overview describes the parts of p and how long they may take.
func (p *Planned) Overview() Overview {
	o := Overview{Scenario: p.Name, Cost: p.Cost()}
	before := earlierOf(p)
	var all []Estimate
	for _, plans := range p.byTest() {
		t := TestOverview{Test: plans[0].Test, Runs: len(plans)}
		for _, pl := range plans {
			t.Each = append(t.Each, before.estimate(p.Root, pl))
			t.NodeHours += float64(pl.Job.Nodes) * time.Duration(pl.Job.TimeLimit).Hours()
		}
		t.Time = total(t.Each)
		t.table(p.Root, plans)
		for _, s := range p.Skipped {
			if s.Test == t.Test {
				t.leaveOut(s)
			}
		}
		t.Idle = idle(plans)
		all = append(all, t.Each...)
		o.Tests = append(o.Tests, t)
	}
	o.Time = total(all)
	return o
}

// byTest are the plans of each test, in the order of the scenario.
func (p *Planned) byTest() [][]*plan.Plan {
	var list [][]*plan.Plan
	at := map[string]int{}
	for i := range p.Runs {
		pl := p.Runs[i].Plan
		n, ok := at[pl.Test]
		if !ok {
			n = len(list)
			at[pl.Test], list = n, append(list, nil)
		}
		list[n] = append(list[n], pl)
	}
	return list
}

// total adds up runs; what is not known of one is not known of all.
func total(list []Estimate) Estimate {
	sum := Estimate{}
	about, least, most := true, true, true
	for _, e := range list {
		about, least, most = about && e.About > 0, least && e.Least > 0, most && e.Most > 0
		sum.About, sum.Least, sum.Most = sum.About+e.About, sum.Least+e.Least, sum.Most+e.Most
	}
	if !about {
		sum.About = 0
	}
	if !least {
		sum.Least = 0
	}
	if !most {
		sum.Most = 0
	}
	return sum
}

// idle are the notes of runs about what nothing uses, each once, with the points that it
// is about if it is not about all.
func idle(plans []*plan.Plan) []string {
	var notes []string
	of := map[string][]int{}
	points := 0
	for _, p := range plans {
		points += len(p.Steps())
		for _, n := range p.IdleNotes() {
			if !slices.Contains(notes, n) {
				notes = append(notes, n)
			}
			of[n] = append(of[n], p.Steps()...)
		}
	}
	for i, n := range notes {
		slices.Sort(of[n])
		switch steps := of[n]; {
		case len(steps) == points:
		case len(steps) == 1:
			notes[i] = fmt.Sprintf("point %d: %s", steps[0], n)
		default:
			notes[i] = fmt.Sprintf("points %s: %s", quantity.Ranges(steps), n)
		}
	}
	return notes
}

// measured is a load as a row of the table, repeats counted.
type measured struct {
	plan  *plan.Plan
	load  *plan.Load
	phase string
	times int
}

// rows are the loads of runs, each once.
func rows(plans []*plan.Plan) []measured {
	var list []measured
	for _, p := range plans {
		for i := range p.Loads {
			l := &p.Loads[i]
			if n := len(list); n > 0 && l.Repeat != nil && l.Repeat.Index > 0 {
				list[n-1].times++
				continue
			}
			list = append(list, measured{p, l, phase(l), 1})
		}
	}
	return list
}

// phase is the name of a load without its step and its repeat: <step>.<phase>.r<repeat>.
func phase(l *plan.Load) string {
	name := l.Name
	if l.Repeat != nil {
		name = strings.TrimSuffix(strings.TrimSuffix(name, fmt.Sprintf("r%d", l.Repeat.Index+1)), ".")
	}
	if l.Step > 0 {
		name = strings.TrimPrefix(strings.TrimPrefix(name, fmt.Sprint(l.Step)), ".")
	}
	return name
}

// table makes the table of a test's points or phases.
func (t *TestOverview) table(root string, plans []*plan.Plan) {
	list := rows(plans)
	swept := slices.ContainsFunc(list, func(m measured) bool { return m.load.Step > 0 })
	phased := slices.ContainsFunc(list, func(m measured) bool { return m.phase != "" })
	if !swept && !phased {
		return
	}
	seen := map[int]bool{}
	repeated := false
	for _, m := range list {
		seen[m.load.Step] = true
		repeated = repeated || m.times > 1
	}
	if swept {
		t.Points, t.Header = len(seen), []string{"point"}
	}
	if phased {
		t.Header = append(t.Header, "phase")
	}
	keys := columns(list)
	t.keys, t.first = keys, len(t.Header)
	t.Header = append(t.Header, plan.ShortKeys(keys)...)
	if repeated {
		t.Header = append(t.Header, "repeats")
	}
	if swept {
		t.Header = append(t.Header, "run")
	}
	for _, m := range list {
		t.Rows = append(t.Rows, m.cells(root, keys, swept, phased, repeated))
	}
}

// leaveOut adds a point that cannot work.
func (t *TestOverview) leaveOut(s run.Skipped) {
	t.LeftOut++
	cells := make([]string, len(t.Header))
	cells[0], cells[len(cells)-1] = strconv.Itoa(s.Step), "left out"
	for _, v := range s.Values {
		if i := slices.Index(t.keys, plan.SettingKey(v.Path)); i >= 0 {
			cells[t.first+i] = plan.SettingText(v.Value)
		}
	}
	at := 0
	for at < len(t.Rows) && step(t.Rows[at]) < s.Step {
		at++
	}
	t.Rows = slices.Insert(t.Rows, at, cells)
}

// step is the point of a row.
func step(cells []string) int {
	n, err := strconv.Atoi(cells[0])
	if err != nil {
		return 0
	}
	return n
}

func (m measured) cells(root string, keys []string, swept, phased, repeated bool) []string {
	var cells []string
	if swept {
		cells = append(cells, fmt.Sprint(m.load.Step))
	}
	if phased {
		cells = append(cells, m.phase)
	}
	settings := m.plan.Settings(m.load)
	for _, k := range keys {
		cells = append(cells, settings[k])
	}
	if repeated {
		times := fmt.Sprint(m.times)
		if r := m.load.Repeat; r != nil && r.Until != nil {
			times = "at most " + times
		}
		cells = append(cells, times)
	}
	if rel, err := filepath.Rel(root, m.plan.Dir); swept && err == nil {
		cells = append(cells, rel)
	}
	return cells
}

// columns are the settings that a sweep chose, in its order, and behind them those in
// which loads differ beside: what a phase sets, and a number of prompts that follows the
// concurrency.
func columns(list []measured) []string {
	var keys []string
	var settings []map[string]string
	for _, m := range list {
		for _, v := range m.load.Values {
			if k := plan.SettingKey(v.Path); !slices.Contains(keys, k) {
				keys = append(keys, k)
			}
		}
		settings = append(settings, m.plan.Settings(m.load))
	}
	for _, k := range plan.DifferingKeys(settings) {
		if !slices.Contains(keys, k) && strings.HasPrefix(k, "bench_cmd_args.") {
			keys = append(keys, k)
		}
	}
	return keys
}
