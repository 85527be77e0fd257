package report

import (
	"fmt"
	"slices"
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
	full   map[int]string // names of columns that need the header of another, where that is left out
	drop   []int          // columns that a narrow screen leaves out, the first first; nil: from the right, but the first two
	rows   []tableRow
}

// droppable lists the columns of those names, in their order.
func (t *table) droppable(names ...string) {
	for _, name := range names {
		for i, h := range t.header {
			if h == name {
				t.drop = append(t.drop, i)
			}
		}
	}
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
		for _, s := range slices.Concat(r.Sweeps, r.Phases) {
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
	}, full: map[int]string{4: "TTFT ms median", 5: "TTFT ms P99", 7: "TPOT ms median", 8: "TPOT ms P99"}, drop: []int{3, 6, 2, 8, 5, 9}}
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
		t.droppable("difference")
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
