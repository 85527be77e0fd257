package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/chart"
	"github.com/profllm/profllm/pkg/printable"
)

// A block is a heading with what stands below it; every form of a report prints
// the same blocks.
type block struct {
	heading string
	group   string // of its runs, "" if they are of several
	lines   []string
	tables  []table
	charts  []string // SVG
}

type table struct {
	header []string
	rows   []tableRow
}

type tableRow struct {
	group string
	cells []cell
}

type cell struct {
	text string
	role role
}

// role is how a cell is to be read.
type role string

const (
	word   role = ""
	num    role = "num"
	best   role = "best" // a number, the best of its column
	reject role = "bad"  // why something is not to be believed
)

func (t *table) row(group string, cells ...cell) {
	for i := range cells {
		cells[i].text = printable.Line(cells[i].text)
	}
	t.rows = append(t.rows, tableRow{printable.Line(group), cells})
}

const (
	widest   = 6   // columns of runs; more are printed as rows
	mostBars = 24  // runs in a bar chart
	longest  = 100 // runes of a label in a table
)

func cut(s string) string {
	r := []rune(s)
	if len(r) <= longest {
		return s
	}
	return string(r[:longest-1]) + "…"
}

func (r *Report) blocks() []block {
	var out []block
	if len(r.Runs) == 0 {
		return []block{{heading: "No runs"}}
	}
	if r.shows(PartStatus) {
		out = append(out, r.statusBlock())
	}
	if r.shows(PartPerTest) {
		offline, some := r.offlineBlock()
		if b := r.perTestBlock(); len(b.tables) > 0 || !some {
			out = append(out, b)
		}
		if some {
			out = append(out, offline)
		}
		if b, ok := r.gpusBlock(); ok {
			out = append(out, b)
		}
		if len(r.Repeats) > 0 {
			out = append(out, r.repeatsBlock())
		}
		if b, ok := r.apartBlock(); ok {
			out = append(out, b)
		}
	}
	for _, j := range r.Judgements {
		out = append(out, j.block())
	}
	out = append(out, r.trendBlocks()...)
	if r.shows(PartComparison) {
		for _, c := range r.Comparisons {
			out = append(out, c.block())
		}
	}
	if r.shows(PartSweeps) {
		for _, s := range r.Sweeps {
			out = append(out, s.block())
		}
	}
	return out
}

func (r *Report) statusBlock() block {
	t := table{header: []string{"case", "verdict", "details"}}
	for i := range r.Runs {
		e := &r.Runs[i]
		how := word
		if !e.best() {
			how = reject
		}
		details := e.Dir
		if e.Foreign != "" {
			details = "foreign, of " + e.Foreign + " · " + details
		}
		if e.Reason != "" {
			details = cut(e.Reason) + " · " + details
		}
		t.row(e.Group, cell{text: e.Label}, cell{e.shown(), how}, cell{text: details})
	}
	return block{heading: "Status", tables: []table{t}}
}

// The columns of the table of tests, behind the successful prompts.
var perTest = []Metric{meanTTFT, medianTTFT, p99TTFT, meanTPOT, medianTPOT, p99TPOT}

func (r *Report) perTestBlock() block {
	t := table{header: []string{
		"case", "verdict", "successful prompts", "TTFT ms mean", "median", "P99", "TPOT ms mean", "median", "P99", "accuracy",
	}}
	for i := range r.Runs {
		e := &r.Runs[i]
		if !e.Usable || e.offlineOnly() {
			continue
		}
		cells := []cell{{text: e.Label}, {text: e.shown()}, {e.successful(), num}}
		for _, m := range append(slices.Clone(perTest), accuracy) {
			cells = append(cells, cell{m.Of(e.run.Result).text(4), num})
		}
		t.row(e.Group, cells...)
	}
	b := block{heading: "Results of each test"}
	if len(t.rows) == 0 {
		b.lines = []string{"no run is valid"}
		return b
	}
	b.tables = []table{t}
	return b
}

func (e *Entry) successful() string {
	share, done := successShare.Of(e.run.Result), successful.Of(e.run.Result)
	if share.Number == nil || done.Number == nil {
		return "n/a"
	}
	return fmt.Sprintf("%.2f%% (%.0f of %d)", *share.Number, *done.Number, *e.run.Result.Results.NumPrompts)
}

// apartBlock holds the runs whose numbers stand beside no others.
func (r *Report) apartBlock() (block, bool) {
	t := table{header: []string{"case", "verdict", "successful prompts", "reason"}}
	for i := range r.Runs {
		e := &r.Runs[i]
		if e.Usable {
			continue
		}
		done := "n/a"
		if e.run.Result != nil {
			done = e.successful()
		}
		t.row(e.Group, cell{text: e.Label}, cell{e.shown(), reject}, cell{done, num}, cell{text: e.Reason})
	}
	return block{heading: "Apart: not to be compared", tables: []table{t}}, len(t.rows) > 0
}

func (c *Comparison) block() block {
	b := block{heading: "Comparison: " + printable.Line(c.Group), group: printable.Line(c.Group)}
	if len(c.Apart) > 0 {
		b.lines = append(b.lines, "left out, not valid: "+printable.Line(strings.Join(c.Apart, ", ")))
	}
	if len(c.Columns) == 0 {
		return b
	}
	runs := table{header: []string{"run", "label", "verdict", "directory"}}
	for _, col := range c.Columns {
		runs.row(c.Group, cell{text: col.Name}, cell{text: cut(col.Label)}, cell{text: string(col.Verdict)}, cell{text: col.Dir})
	}
	b.tables = append(b.tables, runs)
	for _, s := range c.Sections {
		if len(c.Columns) > widest {
			b.tables = append(b.tables, c.long(s))
		} else {
			b.tables = append(b.tables, c.wide(s))
		}
	}
	b.charts = c.charts()
	return b
}

// wide has a row for each metric and a column for each run.
func (c *Comparison) wide(s Section) table {
	t := table{header: []string{s.Name}}
	for _, col := range c.Columns {
		t.header = append(t.header, printable.Line(col.Name))
	}
	two := len(c.Columns) == 2
	if two {
		t.header = append(t.header, "difference", "difference %")
	}
	for _, row := range s.Rows {
		cells := []cell{{text: row.title()}}
		for _, v := range row.Values {
			cells = append(cells, cell{v.text(row.precision()), num})
		}
		if two {
			cells = append(cells, row.Difference.cells()...)
		}
		t.row(c.Group, cells...)
	}
	return t
}

// long has a row for each run and a column for each metric.
func (c *Comparison) long(s Section) table {
	t := table{header: []string{s.Name}}
	for _, row := range s.Rows {
		t.header = append(t.header, row.title())
	}
	for i, col := range c.Columns {
		cells := []cell{{text: col.Name}}
		for _, row := range s.Rows {
			cells = append(cells, cell{row.Values[i].text(row.precision()), num})
		}
		t.row(c.Group, cells...)
	}
	return t
}

// title is the metric's name with its unit.
func (m Metric) title() string {
	if m.Unit == "" {
		return m.Name
	}
	return fmt.Sprintf("%s (%s)", m.Name, m.Unit)
}

// precision is the digits behind the point in a comparison: none for counts.
func (m Metric) precision() int {
	if m.digits == 0 {
		return 0
	}
	return 4
}

func (d *Difference) cells() []cell {
	if d == nil {
		return []cell{{"n/a", num}, {"n/a", num}}
	}
	percent := "n/a"
	if d.Percent != nil {
		percent = fmt.Sprintf("%+.2f", *d.Percent)
	}
	return []cell{{fmt.Sprintf("%+.2f", d.Absolute), num}, {percent, num}}
}

// panels are the bar charts of a comparison: metrics of one scale together.
var panels = []struct {
	title, unit string
	metrics     []Metric
	series      []string
}{
	{"TTFT", "ms", []Metric{meanTTFT, medianTTFT, p99TTFT}, []string{"mean", "median", "P99"}},
	{"TPOT", "ms", []Metric{meanTPOT, medianTPOT, p99TPOT}, []string{"mean", "median", "P99"}},
	{"Successful prompts", "%", []Metric{successShare}, []string{""}},
	{"Throughput", "tok/s", []Metric{throughput}, []string{""}},
	{"TPS/User", "tok/s", []Metric{perUser}, []string{""}},
	{"TPS/GPU", "tok/s", []Metric{perGPU}, []string{""}},
	{"Accuracy", "share", []Metric{accuracy}, []string{""}},
}

func (c *Comparison) charts() []string {
	if len(c.Columns) > mostBars {
		return nil
	}
	rows := map[string]Row{}
	for _, s := range c.Sections {
		for _, row := range s.Rows {
			rows[row.Key] = row
		}
	}
	var out []string
	for _, p := range panels {
		b := chart.Bars{Title: p.title + kindSuffix(c.Kind), Unit: p.unit, Series: p.series}
		some := false
		for i, col := range c.Columns {
			bar := chart.Bar{Label: printable.Line(col.Name), Tip: printable.Line(col.Name + ": " + col.Label)}
			for _, m := range p.metrics {
				v := rows[m.Key].Values[i].Number
				some = some || v != nil
				bar.Values = append(bar.Values, v)
			}
			b.Bars = append(b.Bars, bar)
		}
		if some {
			out = append(out, b.SVG())
		}
	}
	return out
}

func kindSuffix(k Kind) string {
	if k == Measured {
		return ""
	}
	return fmt.Sprintf(" (%s)", k)
}

func (s *Sweep) block() block {
	b := block{heading: "Sweep: " + printable.Line(s.Name) + kindSuffix(s.Kind), group: printable.Line(s.Group)}
	t := table{header: []string{"step", "verdict"}}
	for _, v := range s.Points[0].Values {
		t.header = append(t.header, printable.Line(strings.TrimPrefix(v.Key, "cmd_args.")))
	}
	for _, m := range s.Metrics {
		t.header = append(t.header, m.title())
	}
	var apart []string
	for _, p := range s.Points {
		if !p.Usable {
			apart = append(apart, printable.Line(fmt.Sprintf("step %s, %s: %s", p.name(), p.Verdict, p.Reason)))
		}
		t.row(s.Group, s.cells(p)...)
	}
	b.tables = []table{t}
	b.lines = append([]string{s.verdict()}, s.Cost.lines()...)
	b.lines = append(b.lines, apart...)
	b.charts = s.charts()
	return b
}

// cells shows a point; the numbers of one that is not usable are not shown.
func (s *Sweep) cells(p Point) []cell {
	how := word
	if !p.Usable {
		how = reject
	}
	cells := []cell{{p.name(), num}, {string(p.Verdict), how}}
	for _, v := range p.Values {
		cells = append(cells, cell{text: cut(v.Value)})
	}
	for i, m := range s.Metrics {
		switch text := p.Metrics[i].text(m.digits); {
		case !p.Usable:
			cells = append(cells, cell{"-", num})
		case p.BestOf[i]:
			cells = append(cells, cell{text + " *", best})
		default:
			cells = append(cells, cell{text, num})
		}
	}
	return cells
}

// name is the step, with the repeat of one that was measured several times.
func (p Point) name() string {
	if p.Repeat == 0 {
		return strconv.Itoa(p.Step)
	}
	return fmt.Sprintf("%d repeat=%d", p.Step, p.Repeat)
}

// verdict names the best point.
func (s *Sweep) verdict() string {
	if s.Best == nil {
		return "no best point: none is valid and has " + s.Objective.Key
	}
	p := s.Points[*s.Best]
	once := ""
	if p.Repeat > 0 {
		once = "; each repeat stands for itself here, and the best of many is luck in part"
	}
	return printable.Line(fmt.Sprintf("best by %s (%s is better)%s: step %s, %s; * marks the best of each metric, valid points only%s",
		s.Objective.Key, s.Objective.Better, kindSuffix(s.Kind), p.name(), joined(p.Values), once))
}

// lines says what the sweep took.
func (c Cost) lines() []string {
	lines := []string{fmt.Sprintf("%d points tried of %d that the values tried make; efficiency %.2f", c.Rows, c.Space, c.Efficiency)}
	if c.Average == nil {
		return append(lines, "no duration is known")
	}
	known := ""
	if c.Timed < c.Rows {
		known = fmt.Sprintf(" (durations of %d points are known)", c.Timed)
	}
	lines = append(lines, fmt.Sprintf("average step %.1f s, observed %.1f s, projected %.1f s, saved %.4f h%s",
		*c.Average, *c.Observed, *c.Projected, *c.Saved/3600, known))
	if c.GPUHours != nil {
		line := fmt.Sprintf("%.4f GPU-hours, saved %.4f", *c.GPUHours, *c.SavedGPUHours)
		if c.GPUHourUSD != nil {
			line += fmt.Sprintf("; at %.2f USD per %s hour %.2f USD, saved %.2f USD", *c.GPUHourUSD, printable.Line(c.GPU), *c.USD, *c.SavedUSD)
		}
		lines = append(lines, line)
	}
	return lines
}

func (s *Sweep) charts() []string {
	scatter := chart.Points{Title: "TTFT and throughput of the points" + kindSuffix(s.Kind), XLabel: "median TTFT (ms)", YLabel: "tok/s", FromZero: true}
	reward := chart.Points{Title: "Reward of each step" + kindSuffix(s.Kind), XLabel: "step", YLabel: "reward", Line: true}
	x := slices.IndexFunc(s.Metrics, func(m Metric) bool { return m.Key == medianTTFT.Key })
	y := slices.IndexFunc(s.Metrics, func(m Metric) bool { return m.Key == throughput.Key })
	for i, p := range s.Points {
		label := "step " + p.name()
		tip := printable.Line(label + ": " + joined(p.Values))
		chosen := s.Best != nil && *s.Best == i
		if p.Usable && x >= 0 && y >= 0 && p.Metrics[x].Number != nil && p.Metrics[y].Number != nil {
			scatter.Points = append(scatter.Points, chart.Point{Label: label, Tip: tip, X: *p.Metrics[x].Number, Y: *p.Metrics[y].Number, Mark: chosen})
		}
		if p.Usable && p.Reward != nil && p.Repeat <= 1 {
			reward.Points = append(reward.Points, chart.Point{Label: label, Tip: tip, X: float64(p.Step), Y: *p.Reward, Mark: chosen})
		}
	}
	var out []string
	for _, c := range []chart.Points{scatter, reward} {
		if len(c.Points) > 0 {
			out = append(out, c.SVG())
		}
	}
	return out
}

// remarks stand above everything else.
func (r *Report) remarks() []string {
	var lines []string
	if r.Simulated > 0 {
		lines = append(lines, fmt.Sprintf("SIMULATED: %d of %d runs had a simulated engine; their numbers are not measurements", r.Simulated, len(r.Runs)))
	}
	for _, n := range r.Notes {
		lines = append(lines, printable.Line(n))
	}
	for _, e := range r.Runs {
		for _, v := range e.Metrics {
			if v.Withheld {
				return append(lines, "withheld: the record's checks say the number would mislead, such as a P99 of few requests")
			}
		}
	}
	return lines
}
