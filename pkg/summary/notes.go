package summary

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/profllm/profllm/pkg/collect/cache"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/result"
)

// note is one thing to say of a record that is not simply valid.
type note struct {
	rank int // notes of several records are said in this order
	text string
}

// The ranks of notes.
const (
	ofCheck = iota
	ofWarning
	ofCause
	ofNext
)

// notesOn explain a verdict that is not simply valid, and why a record has no numbers.
func notesOn(r *result.Result) []note {
	var list []note
	if r.Status == result.Unknown {
		return nil
	}
	for _, c := range r.Validity.Checks {
		numberless := c.Word == "no-load-holds" || c.Word == "search-stopped"
		if failed(c) || numberless && c.Outcome == result.Fail {
			list = append(list, note{ofCheck, fmt.Sprintf("%s %s: %s", c.Severity, c.Word, c.Detail)})
		}
	}
	for _, w := range r.Warnings {
		switch {
		case ofJob(w.Kind):
			list = append(list, note{ofWarning, fmt.Sprintf("%s: %s", w.Key, w.Text)})
		case ofFile(w.Kind):
			list = append(list, note{ofWarning, fmt.Sprintf("%s: %s: %s", w.Kind, placeIn(w.File, w.Line), w.Text)})
		}
	}
	if f := r.Failure; hasCause(r) {
		place := placeIn(f.File, f.LineNumber)
		list = append(list, note{ofCause, fmt.Sprintf("cause %s (%s): %s: %s", f.Cause, f.Confidence, place, f.Line)},
			note{ofNext, "next: " + f.Next})
	}
	return list
}

// remark is a note with the records that it holds for.
type remark struct {
	note
	own   string   // as the first record has it, with its own number
	bases []string // the last elements of the records' names
}

// Notes explain verdicts that are not simply valid. Points of a sweep, iterations and phases
// stand beside each other, and what holds for several of them is said once, with all their
// numbers: load/0/2-7.
func Notes(rows []cache.Row, name func(dir string) string) []string {
	var lines []string
	for i := 0; i < len(rows); {
		parent, end := filepath.Dir(name(rows[i].Dir)), i
		for end < len(rows) && filepath.Dir(name(rows[end].Dir)) == parent {
			end++
		}
		lines = append(lines, together(rows[i:end], parent, name)...)
		i = end
	}
	return lines
}

// together are the notes on records beside each other.
func together(rows []cache.Row, parent string, name func(dir string) string) []string {
	var list []*remark
	of := map[string]*remark{}
	for _, r := range rows {
		base := filepath.Base(name(r.Dir))
		for _, n := range notesOn(r.Result) {
			text := records.WithoutPoint(n.text, base)
			x := of[text]
			if x == nil {
				x = &remark{note: note{n.rank, text}, own: n.text}
				of[text], list = x, append(list, x)
			}
			if !slices.Contains(x.bases, base) {
				x.bases = append(x.bases, base)
			}
		}
	}
	if len(rows) > 1 {
		slices.SortStableFunc(list, func(a, b *remark) int { return cmp.Compare(a.rank, b.rank) })
	}
	lines := make([]string, len(list))
	for i, x := range list {
		text := x.text
		if len(x.bases) == 1 {
			text = x.own
		}
		lines[i] = filepath.Join(parent, quantity.Names(x.bases)) + ": " + text
	}
	return lines
}
