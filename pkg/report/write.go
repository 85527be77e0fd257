package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/printable"
	"github.com/profllm/profllm/pkg/terminal"
)

// JSON writes the report as one object.
func (r *Report) JSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// Text writes the report for a person, whole and plain.
func (r *Report) Text(w io.Writer) error { return r.Show(w, terminal.Screen{}) }

// Show writes the report on a screen.
func (r *Report) Show(w io.Writer, s terminal.Screen) error {
	var b strings.Builder
	for _, line := range r.remarks() {
		b.WriteString(s.Message(terminal.Plain, line) + "\n\n")
	}
	for i, x := range r.blocks() {
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString(s.Message(terminal.Plain, "== "+x.heading) + "\n")
		for _, t := range x.tables {
			b.WriteString("\n" + t.text(s) + "\n")
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

func (t table) text(s terminal.Screen) string {
	var out terminal.Table
	for i, name := range t.header {
		c := terminal.Column{Name: name, Full: t.full[i], Drop: slices.Index(t.drop, i) + 1}
		if t.drop == nil && i > 1 {
			c.Drop = len(t.header) - i
		}
		out.Columns = append(out.Columns, c)
	}
	for i, c := range t.first() {
		out.Columns[i].Right = c.role == num || c.role == best
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

func (t table) first() []cell {
	if len(t.rows) == 0 {
		return nil
	}
	return t.rows[0].cells
}

// markdown shows text as it stands: no markup, no HTML, no end of a cell.
var markdown = strings.NewReplacer(
	`\`, `\\`, "|", `\|`, "<", "&lt;", ">", "&gt;", "&", "&amp;", "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "~", `\~`,
)

// Markdown writes the report for a page or a comment on a change.
func (r *Report) Markdown(w io.Writer) error {
	var b strings.Builder
	for _, line := range r.remarks() {
		b.WriteString(markdown.Replace(line) + "\n\n")
	}
	for _, x := range r.blocks() {
		b.WriteString("## " + markdown.Replace(x.heading) + "\n\n")
		for _, t := range x.tables {
			t.markdown(&b)
		}
		for _, line := range x.lines {
			b.WriteString("- " + markdown.Replace(line) + "\n")
		}
		if len(x.lines) > 0 {
			b.WriteString("\n")
		}
	}
	_, err := io.WriteString(w, strings.TrimSuffix(b.String(), "\n"))
	return err
}

func (t table) markdown(b *strings.Builder) {
	line := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	header, rule := make([]string, len(t.header)), make([]string, len(t.header))
	for i, h := range t.header {
		header[i], rule[i] = markdown.Replace(h), "---"
	}
	for i, c := range t.first() {
		if c.role == num || c.role == best {
			rule[i] = "--:"
		}
	}
	line(header)
	line(rule)
	for _, row := range t.rows {
		cells := make([]string, len(row.cells))
		for i, c := range row.cells {
			cells[i] = markdown.Replace(c.text)
			if c.role == best {
				cells[i] = "**" + cells[i] + "**"
			}
		}
		line(cells)
	}
	b.WriteString("\n")
}

// CSV writes one line for each run: what it is, every metric that some run has,
// and every setting; of series one line for each point. A cell without a value is
// empty.
func (r *Report) CSV(w io.Writer) error {
	if len(r.Trends) > 0 {
		return r.trendCSV(w)
	}
	have, asked := map[string]bool{}, map[string]bool{}
	for _, e := range r.Runs {
		for k := range e.Metrics {
			have[k] = true
		}
		for k := range e.Settings {
			asked[k] = true
		}
	}
	header := []string{"label", "scenario", "test", "phase", "iteration", "step", "group", "verdict", "kind", "usable", "reason", "run_id", "dir"}
	var shown []Metric
	for _, m := range metrics {
		if have[m.Key] {
			shown = append(shown, m)
			header = append(header, m.Key)
		}
	}
	settings := slices.Sorted(maps.Keys(asked))
	c := printable.NewCSV(w)
	if err := c.Write(append(header, settings...)); err != nil {
		return err
	}
	for _, e := range r.Runs {
		row := []string{
			e.Label, e.Case.Scenario, e.Case.Test, e.Case.Phase, strconv.Itoa(e.Case.Iteration), strconv.Itoa(e.Case.Step), e.Group,
			string(e.Verdict), string(e.Kind), strconv.FormatBool(e.Usable), e.Reason, e.RunID, e.Dir,
		}
		for _, m := range shown {
			row = append(row, csvValue(e.Metrics[m.Key]))
		}
		for _, k := range settings {
			row = append(row, e.Settings[k])
		}
		if err := c.Write(row); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}

func csvValue(v Value) string {
	if v.Withheld || v.Number == nil {
		return ""
	}
	return strconv.FormatFloat(*v.Number, 'g', -1, 64)
}

// Write writes the report in the format of that name: text, json, csv, markdown,
// prometheus.
func (r *Report) Write(w io.Writer, format string) error {
	w = printable.NewWriter(w)
	switch format {
	case "text":
		return r.Text(w)
	case "json":
		return r.JSON(w)
	case "csv":
		return r.CSV(w)
	case "markdown":
		return r.Markdown(w)
	case "prometheus":
		return r.Prometheus(w)
	}
	return fmt.Errorf("unknown format %q", format)
}
