package format

import (
	"github.com/profllm/profllm/pkg/printable"
	"github.com/profllm/profllm/pkg/report"
)

// searchBlocks have the answers of runs that searched for the highest load, if they are too many to
// open the report.
func searchBlocks(r *report.Report) []block {
	b := block{heading: "Searches"}
	for i := range r.Runs {
		e := &r.Runs[i]
		for _, sentence := range e.Searches() {
			b.say("%s%s: %s", printable.Line(e.Label), e.Kind.Suffix(), printable.Line(sentence))
		}
	}
	opening := 0
	for _, a := range r.Answers {
		if a.Question == report.AskSearch {
			opening++
		}
	}
	if len(b.lines) <= opening {
		return nil
	}
	return []block{b}
}
