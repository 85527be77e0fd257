package format

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/profllm/profllm/pkg/printable"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/terminal"
)

// Diff writes what two runs differ in as text, json or markdown.
func Diff(w io.Writer, d *report.Delta, name string) error {
	switch name {
	case "json":
		return object(w, d)
	case "markdown":
		p := delta{
			heading: "## ", item: "- ", gap: "\n",
			plain: func(s string) string { return markdown.Replace(printable.Line(s)) },
		}
		p.table = func(t *table) { t.markdown(&p.b) }
		return p.write(w, d)
	}
	return ShowDiff(w, d, terminal.Screen{})
}

// ShowDiff writes what two runs differ in as text on a screen.
func ShowDiff(w io.Writer, d *report.Delta, screen terminal.Screen) error {
	p := delta{heading: "== ", plain: func(s string) string { return screen.Fold(printable.Line(s)) }}
	p.table = func(t *table) { p.b.WriteString("\n" + t.text(screen) + "\n") }
	return p.write(w, d)
}

// delta is the page of a report.Delta, for text and Markdown alike.
type delta struct {
	heading, item string // begin a heading and a line
	gap           string // after a heading
	plain         func(string) string
	table         func(*table)
	b             strings.Builder
}

func (p *delta) write(w io.Writer, d *report.Delta) error {
	for _, line := range deltaLines(d) {
		p.b.WriteString(p.item + p.plain(line) + "\n")
	}
	for _, g := range d.Groups {
		if len(g.Differs) > 0 {
			p.head(fmt.Sprintf("%s: %d differ, %d the same", g.Name, len(g.Differs), g.Same))
			p.table(groupTable(g))
		}
	}
	if len(d.Numbers) > 0 {
		p.head("numbers of one run per side; significance is not tested")
		p.table(numbersTable(d.Numbers))
	}
	_, err := io.WriteString(w, p.b.String())
	return err
}

func (p *delta) head(text string) { p.b.WriteString("\n" + p.heading + p.plain(text) + "\n" + p.gap) }

func groupTable(g report.DeltaGroup) *table {
	t := &table{header: []string{"field", "first", "second"}}
	for _, u := range g.Differs {
		t.row("", cell{text: u.Field}, cell{text: cut(cmp.Or(u.First, "-"))}, cell{text: cut(cmp.Or(u.Second, "-"))})
	}
	return t
}

func numbersTable(rows []report.Row) *table {
	t := &table{header: []string{"metric", "first", "second", "second against first %"}}
	for _, row := range rows {
		digits := precision(row.Metric)
		t.row("", cell{text: title(row.Metric)}, value(row.Values[0], digits), value(row.Values[1], digits),
			differenceCells(row.Difference)[1])
	}
	return t
}

// deltaLines are the lines above the tables.
func deltaLines(d *report.Delta) []string {
	differ, same := 0, []string{}
	for _, g := range d.Groups {
		differ += len(g.Differs)
		if len(g.Differs) == 0 {
			same = append(same, fmt.Sprintf("%s %d", g.Name, g.Same))
		}
	}
	head := "different configurations"
	switch {
	case d.Same:
		head = "the same configuration, fingerprint " + d.Fingerprints[0]
	case d.Fingerprints[0] == "" || d.Fingerprints[1] == "":
		head = "cannot tell whether the configurations are equal: a record lacks its settings"
	}
	var lines []string
	if d.Simulated {
		lines = append(lines, "SIMULATED: at least one of the two had a simulated engine; its numbers are not measurements")
	}
	lines = append(lines, "first: "+d.First, "second: "+d.Second, head+"; "+quantity.Clause(differ, "field", "differ"))
	if d.Causal != "" {
		lines = append(lines, d.Causal)
	}
	if len(same) > 0 {
		lines = append(lines, "nothing differs in: "+strings.Join(same, ", "))
	}
	for _, u := range d.NotComparable {
		lines = append(lines, "not comparable: "+u.String())
	}
	return lines
}
