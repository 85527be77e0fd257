// Package summary describes collected records to a person: each of a few in a line, with its
// verdict, its numbers and what is wrong with it, and many by what they have in common.
//
//	var s summary.Results
//	s.Add(row) // in any number
//	blocks, err := s.Blocks()
package summary

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/profllm/profllm/pkg/collect/cache"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/terminal"
)

// mostRows is how many results are shown line by line; of more, what they have in common.
const mostRows = 500

// Results takes results in the order in which they come, and keeps no more than mostRows of
// them in memory. The zero value has none.
type Results struct {
	Relative func(path string) string // shortens the paths of runs that have the same name; nil: they are whole

	n      int
	rows   []cache.Row // none of them if there are more than mostRows
	counts map[string]int
	wrong  map[string]*complaint
	above  string // folder that all results are in
}

// Block is a table and the lines below it.
type Block struct {
	Table terminal.Table
	Lines []string
}

// complaint is one thing that is wrong with several results.
type complaint struct {
	what  string
	cause bool
	n     int
	first string // the run, and what it says
}

// Add adds a result.
func (s *Results) Add(r cache.Row) {
	if s.n++; s.n <= mostRows {
		s.rows = append(s.rows, r)
	} else {
		s.rows = nil
	}
	s.count(r)
}

// Blocks is the description of all results.
func (s *Results) Blocks() ([]Block, error) {
	if s.n > mostRows {
		return s.common(), nil
	}
	for i := range s.rows {
		if err := s.rows[i].Read(); err != nil {
			return nil, err
		}
	}
	return []Block{table(s.rows, s.Relative)}, nil
}

// shared is the nearest folder that a folder and a directory are both in; "" is no folder yet.
func shared(folder, dir string) string {
	if folder == "" {
		return dir
	}
	for {
		if rel, err := filepath.Rel(folder, dir); err == nil && filepath.IsLocal(rel) || folder == filepath.Dir(folder) {
			return folder
		}
		folder = filepath.Dir(folder)
	}
}

// count adds a result to what many have in common.
func (s *Results) count(r cache.Row) {
	if s.counts == nil {
		s.counts, s.wrong = map[string]int{}, map[string]*complaint{}
	}
	s.counts[verdict(r)]++
	s.above = shared(s.above, r.Dir)
	if r.Result.Status == result.Unknown {
		return
	}
	complain := func(what string, cause bool, says string) {
		c := s.wrong[what]
		if c == nil {
			c = &complaint{what: what, cause: cause, first: Name(r.Dir) + ": " + says}
			s.wrong[what] = c
		}
		c.n++
	}
	for _, c := range r.Result.Validity.Checks {
		if failed(c) {
			complain(fmt.Sprintf("%s %s", c.Severity, c.Word), false, c.Detail)
		}
	}
	for _, w := range r.Result.Warnings {
		if ofJob(w.Kind) || ofFile(w.Kind) {
			complain(string(w.Kind), false, cmp.Or(w.Key, placeIn(w.File, w.Line))+": "+w.Text)
		}
	}
	if f := r.Result.Failure; hasCause(r.Result) {
		complain(fmt.Sprintf("cause %s (%s)", f.Cause, f.Confidence), true, placeIn(f.File, f.LineNumber)+": "+f.Line)
	}
}

// widestComplaint is how many characters of a run's problem the summary of many runs shows.
const widestComplaint = 100

// common counts verdicts and problems: causes first, then by frequency.
func (s *Results) common() []Block {
	t := terminal.Table{Columns: []terminal.Column{{Name: "verdict"}, {Name: "results", Right: true}}}
	verdicts := slices.SortedFunc(maps.Keys(s.counts), func(a, b string) int {
		return cmp.Or(s.counts[b]-s.counts[a], cmp.Compare(a, b))
	})
	for _, v := range verdicts {
		t.Row(Cells(v, s.counts[v])...)
	}
	blocks := []Block{{t, []string{""}}}
	list := slices.SortedFunc(maps.Values(s.wrong), func(a, b *complaint) int {
		if a.cause != b.cause {
			if a.cause {
				return -1
			}
			return 1
		}
		return cmp.Or(b.n-a.n, cmp.Compare(a.what, b.what))
	})
	if len(list) > 0 {
		t = terminal.Table{Columns: []terminal.Column{
			{Name: "problem"}, {Name: "results", Right: true}, {Name: "first occurrence"},
		}}
		for _, c := range list {
			t.Row(Cells(c.what, c.n, text.Snip(c.first, widestComplaint, "…"))...)
		}
		blocks = append(blocks, Block{t, []string{""}})
	}
	above := s.above
	if s.Relative != nil {
		above = s.Relative(above)
	}
	last := &blocks[len(blocks)-1]
	last.Lines = append(last.Lines, fmt.Sprintf("%d results: to see each, name at most %d runs; "+
		"to list all of them: profllm report --output csv %s", s.n, mostRows, above))
	return blocks
}
