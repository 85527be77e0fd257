package dryrun

import (
	"strings"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/shell"
)

// Command is a command for a person, each word as a shell takes it. What is known only in the job
// is named: ${port:serve}.
func Command(argv []plan.Word) string {
	words := make([]string, len(argv))
	for i, w := range argv {
		words[i] = w.String()
		if text, ok := w.Literal(); ok {
			words[i] = shell.Quote(text)
		}
	}
	return strings.Join(words, " ")
}
