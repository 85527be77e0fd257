package format

import (
	"fmt"
	"math"
	"strconv"

	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/printable"
)

// A block is a heading with what stands below it; text, Markdown and the page show the
// same blocks.
type block struct {
	heading string
	group   string // of its runs, "" if they are of several
	lines   []string
	tables  []table
	charts  []string // SVG
	absent  string   // what the charts do not show, or show otherwise
	answers []answer
	cloudai bool // one of CloudAI's tables
}

// answer is a sentence with what it answers, and where its runs are.
type answer struct {
	label, text string
	dirs        []string
}

// say adds a line.
func (b *block) say(format string, args ...any) {
	b.lines = append(b.lines, printable.Line(fmt.Sprintf(format, args...)))
}

type table struct {
	header []string
	// full are names of columns that need the header of another, where that is left out.
	full map[int]string
	// drop are the columns that a narrow screen leaves out, the first first; nil: from the
	// right, but the first two.
	drop []int
	keep int // if drop is nil: so many columns at the left are never left out; 0: two
	rows []tableRow
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

func (t *table) row(group string, cells ...cell) {
	for i := range cells {
		cells[i].text = printable.Line(cells[i].text)
	}
	t.rows = append(t.rows, tableRow{group: printable.Line(group), cells: cells})
}

// leads says in which directory the files of the last row's run are.
func (t *table) leads(dir string) { t.rows[len(t.rows)-1].dir = dir }

// numeric reports whether a column holds numbers, by its first row.
func (t *table) numeric(column int) bool {
	if len(t.rows) == 0 || column >= len(t.rows[0].cells) {
		return false
	}
	r := t.rows[0].cells[column].role
	return r == num || r == best
}

type tableRow struct {
	group string
	dir   string // of its run
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

// title is the metric's name with its unit.
func title(m metric.Metric) string {
	if m.Unit == "" {
		return m.Name
	}
	return fmt.Sprintf("%s (%s)", m.Name, m.Unit)
}

// precision is the number of decimals in a comparison: none for counts.
func precision(m metric.Metric) int {
	if m.Digits == 0 {
		return 0
	}
	return 4
}

// text writes a value with that many decimals; n/a if absent.
func text(v metric.Value, digits int) string {
	switch {
	case v.Withheld:
		return "withheld"
	case v.Number == nil:
		return "n/a"
	}
	return strconv.FormatFloat(*v.Number, 'f', digits, 64)
}

// value is a cell with a value.
func value(v metric.Value, digits int) cell { return cell{text(v, digits), num} }

// brief is a cell with a value in the digits that a reader needs.
func brief(m metric.Metric, v metric.Value) cell {
	if v.Number == nil || v.Withheld {
		return value(v, m.Digits)
	}
	return cell{m.Shown(*v.Number), num}
}

// number is a cell with a number, if there is one.
func number(x *float64, digits int) cell { return value(metric.Value{Number: x}, digits) }

// count is a cell with a whole number.
func count(n int) cell { return cell{strconv.Itoa(n), num} }

// formatted is a cell with a number in one of fmt's formats.
func formatted(format string, x *float64) cell { return cell{decimals(format, x), num} }

func decimals(format string, x *float64) string {
	if x == nil || math.IsNaN(*x) {
		return "n/a"
	}
	return fmt.Sprintf(format, *x)
}

func interval(low, high *float64) string {
	if low == nil {
		return "none"
	}
	return fmt.Sprintf("[%+.2f, %+.2f]", *low, *high)
}

// span is an interval after a number; "" if there is none.
func span(low, high *float64) string {
	if low == nil {
		return ""
	}
	return " " + interval(low, high)
}
