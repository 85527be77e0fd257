package progress

import (
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/tail"
)

// loadText is what a sweep chose for the load of a client, in brackets; "" for nothing.
func loadText(pl *plan.Plan, phase string) string {
	for i := range pl.Loads {
		l := &pl.Loads[i]
		if slices.ContainsFunc(l.Clients, func(c plan.Step) bool { return l.Phase(c.Name) == phase }) {
			if text := pl.LoadText(l); text != "" {
				return " (" + text + ")"
			}
		}
	}
	return ""
}

// rankLog is the log of a step's first rank.
func rankLog(s *plan.Step) string { return strings.ReplaceAll(s.Log, "%t", "0") }

// barBytes is the end of a log in which a progress bar is looked for.
const barBytes = 8 << 10

// clientProgress says how far the client of a phase has come, by its own log.
func clientProgress(dir string, pl *plan.Plan, phase string) (done, total int) {
	for i := range pl.Loads {
		l := &pl.Loads[i]
		for j := range l.Clients {
			if l.Phase(l.Clients[j].Name) != phase {
				continue
			}
			log := rankLog(&l.Clients[j])
			if !filepath.IsAbs(log) {
				log = filepath.Join(dir, log)
			}
			text, _ := tail.End(log, barBytes) // a log that is not there yet says nothing
			done, total, _ = tail.Progress(text)
			return done, total
		}
	}
	return 0, 0
}

// stamp is what vLLM puts before what it says.
var stamp = lazyregexp.New(`^(\([^)]*\) )?(?:INFO (\d\d-\d\d )?[\d:]{8} (\[[^\]]*\] )?)?`)

// lastWords is the last line of a log that has a letter, without vLLM's stamp.
func lastWords(path string) string {
	const enough = 20
	lines, _ := tail.Last(path, enough)
	for i := len(lines) - 1; i >= 0; i-- {
		if strings.ContainsFunc(lines[i], unicode.IsLetter) {
			return strings.TrimSpace(strings.TrimPrefix(lines[i], stamp.FindString(lines[i])))
		}
	}
	return ""
}
