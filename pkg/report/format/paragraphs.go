package format

import "github.com/profllm/profllm/pkg/report"

// Paragraph is what a report says in words under one heading.
type Paragraph struct {
	Heading string   `json:"heading"`
	Lines   []string `json:"lines"`
}

// Paragraphs are the words of a report as its text form has them: the answers, then the verdicts on
// two sets of runs and on series, without their tables.
func Paragraphs(r *report.Report) []Paragraph {
	var list []Paragraph
	for _, b := range blocks(r) {
		switch {
		case len(b.answers) > 0:
			p := Paragraph{Heading: b.heading}
			for _, a := range b.answers {
				p.Lines = append(p.Lines, a.text)
			}
			list = append(list, p)
		case !b.cloudai && len(b.lines) > 0:
			list = append(list, Paragraph{b.heading, b.lines})
		}
	}
	return list
}
