package format

import (
	"cmp"
	"io"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/terminal"
)

// Text writes the report for a person, whole and plain.
func Text(w io.Writer, r *report.Report) error { return Show(w, r, terminal.Screen{}) }

// Show writes the report on a screen.
func Show(w io.Writer, r *report.Report, s terminal.Screen) error {
	var b strings.Builder
	for _, line := range remarks(r) {
		b.WriteString(s.Message(terminal.Plain, line) + "\n\n")
	}
	for i, x := range blocks(r) {
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString(s.Message(terminal.Plain, "== "+x.heading) + "\n")
		for _, t := range x.tables {
			b.WriteString("\n" + t.text(s) + "\n")
		}
		for i, a := range x.answers {
			if i == 0 {
				b.WriteString("\n")
			}
			b.WriteString(s.Message(terminal.Plain, a.label+": "+a.text) + "\n")
		}
		for i, line := range x.lines {
			if i == 0 {
				b.WriteString("\n")
			}
			b.WriteString(s.Message(terminal.Plain, line) + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// tones are those of the roles of cells.
var tones = map[role]terminal.Tone{best: terminal.Good, reject: terminal.Bad}

func (t *table) text(s terminal.Screen) string {
	var out terminal.Table
	for i, name := range t.header {
		c := terminal.Column{Name: name, Full: t.full[i], Drop: slices.Index(t.drop, i) + 1, Right: t.numeric(i)}
		if t.drop == nil && i >= cmp.Or(t.keep, 2) {
			c.Drop = len(t.header) - i
		}
		out.Columns = append(out.Columns, c)
	}
	for _, row := range t.rows {
		cells := make([]terminal.Cell, len(row.cells))
		for i, c := range row.cells {
			cells[i] = terminal.Cell{Text: c.text, Tone: cmp.Or(tones[c.role], Tone(c.text))}
		}
		out.Row(cells...)
	}
	return out.Text(s)
}

// Tone is the tone of a verdict in words, such as "suspect" or "failed, invalid
// (simulated)", and plain for any other text.
func Tone(verdict string) terminal.Tone {
	word, _, _ := strings.Cut(verdict, " ")
	switch strings.TrimSuffix(word, ",") {
	case "valid":
		return terminal.Good
	case "suspect":
		return terminal.Doubtful
	case "invalid", "failed", "cancelled":
		return terminal.Bad
	}
	return terminal.Plain
}
