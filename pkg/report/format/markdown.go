package format

import (
	"io"
	"strings"

	"github.com/profllm/profllm/pkg/report"
)

// markdown shows text as it stands: no markup, no HTML, no end of a cell.
var markdown = strings.NewReplacer(
	`\`, `\\`, "|", `\|`, "<", "&lt;", ">", "&gt;", "&", "&amp;", "`", "\\`",
	"*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "~", `\~`,
)

// Markdown writes the report for a page or a comment on a change.
func Markdown(w io.Writer, r *report.Report) error {
	var b strings.Builder
	for _, line := range remarks(r) {
		b.WriteString(markdown.Replace(line) + "\n\n")
	}
	for _, x := range blocks(r) {
		b.WriteString("## " + markdown.Replace(x.heading) + "\n\n")
		for _, a := range x.answers {
			b.WriteString("- **" + a.label + "**: " + markdown.Replace(a.text) + "\n")
		}
		if len(x.answers) > 0 {
			b.WriteString("\n")
		}
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

func (t *table) markdown(b *strings.Builder) {
	line := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	header, rule := make([]string, len(t.header)), make([]string, len(t.header))
	for i, h := range t.header {
		header[i], rule[i] = markdown.Replace(h), "---"
		if t.numeric(i) {
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
