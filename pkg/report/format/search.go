package format

import (
	"github.com/profllm/profllm/pkg/printable"
	"github.com/profllm/profllm/pkg/report"
)

// searchBlocks have the answers of runs that searched for the highest load.
func searchBlocks(r *report.Report) []block {
	b := block{heading: "Searches"}
	for i := range r.Runs {
		e := &r.Runs[i]
		if e.Run == nil || e.Run.Result == nil {
			continue
		}
		for _, s := range e.Run.Result.Search {
			if s == nil { // of a record that an earlier version wrote while the search ran
				continue
			}
			b.say("%s%s: %s", printable.Line(e.Label), e.Kind.Suffix(), printable.Line(s.Sentence))
		}
	}
	if len(b.lines) == 0 {
		return nil
	}
	return []block{b}
}
