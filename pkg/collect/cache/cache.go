// Package cache collects runs, and skips those that have not changed since they were
// collected: pkg/collect/index knows which these are, and keeps the table row of each.
//
//	c := cache.Open(dirs, cache.Options{Version: version, Now: time.Now()})
//	for _, dir := range dirs {
//		got := c.Collect(collector, dir, states) // got.Rows
//	}
//	c.Save()
package cache

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/profllm/profllm/pkg/collect"
	"github.com/profllm/profllm/pkg/collect/index"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/trajectory"
)

// leastRuns is how many runs are worth an index: to read fewer again takes no longer than to
// read an index.
const leastRuns = 32

// Options say what else than the files of a run decides what its record says.
type Options struct {
	Version    string                // of this program
	Executable string                // the file of this program, "" if it is not known
	Now        time.Time             // in the zone of the times of Slurm
	Skip       func(dir string) bool // runs that are not remembered, such as those of an unpacked archive; nil: none
}

// Cache is what is known of runs that were collected before, in an index for each scenario's
// directory. The zero value remembers nothing. It is safe for concurrent use.
type Cache struct {
	roots   map[string]string       // by the directory above a run
	indexes map[string]*index.Index // by the directory they lie in
	settled map[string]*index.Entry // the runs that have not changed, whose jobs ended long ago
}

// Collected is what became of the collection of one run.
type Collected struct {
	Dir   string
	State string // of its job
	Rows  []Row
	Sweep *trajectory.Sweep // nil for no point of one
	Err   error
}

// Open opens the indexes of runs.
func Open(dirs []string, o Options) *Cache {
	if len(dirs) < leastRuns {
		return &Cache{}
	}
	c := &Cache{roots: map[string]string{}, indexes: map[string]*index.Index{}}
	program := o.program()
	for _, dir := range dirs {
		above := filepath.Dir(dir)
		if _, known := c.roots[above]; known || o.Skip != nil && o.Skip(dir) {
			continue
		}
		root := cmp.Or(run.Root(above), above)
		c.roots[above] = root
		if c.indexes[root] == nil {
			c.indexes[root] = index.Open(root, program)
		}
	}
	c.settle(dirs, o.Now)
	return c
}

// settle finds the runs about whose jobs the scheduler need not be asked. Which job carries a
// run of a batch is written outside of the run's directory, where its index does not look.
func (c *Cache) settle(dirs []string, now time.Time) {
	var book run.Book
	apart := make([]bool, len(dirs))
	for i, dir := range dirs {
		unit, err := book.Unit(dir)
		apart[i] = err == nil && unit == dir
	}
	entries := make([]*index.Entry, len(dirs))
	run.AtOnce(len(dirs), run.SmallFiles, func(i int) {
		if x := c.index(dirs[i]); x != nil && apart[i] {
			entries[i] = x.UnchangedForGood(dirs[i], now)
		}
	})
	c.settled = map[string]*index.Entry{}
	for i, e := range entries {
		if e != nil {
			c.settled[dirs[i]] = e
		}
	}
}

// program names all that decides what a record says beside the files of its run: this program,
// the definitions of its metrics, and the zone of Slurm's times.
func (o Options) program() string {
	words := []any{o.Version, result.MetricsVersion}
	if st, err := os.Stat(o.Executable); err == nil {
		words = append(words, st.Size(), st.ModTime().UnixNano())
	}
	for _, month := range []time.Month{time.January, time.July} {
		name, offset := time.Date(o.Now.Year(), month, 1, 0, 0, 0, 0, o.Now.Location()).Zone()
		words = append(words, name, offset)
	}
	return fmt.Sprint(words...)
}

// index is the index of a run, nil if it has none.
func (c *Cache) index(dir string) *index.Index { return c.indexes[c.roots[filepath.Dir(dir)]] }

// IsUnchanged reports whether a run has not changed and its job ended long ago, so that the
// scheduler need not be asked about it.
func (c *Cache) IsUnchanged(dir string) bool { return c.settled[dir] != nil }

// Save writes the indexes. The only loss of one that cannot be written is the time of the next
// command, so no error is returned.
func (c *Cache) Save() {
	for _, x := range c.indexes {
		_ = x.Save()
	}
}

// Collect collects one run, with what the scheduler said of its job, unless it is known that
// this comes to the same again. Runs without a state have that of their state.json.
func (c *Cache) Collect(col *collect.Collector, dir string, states map[string]run.State) Collected {
	if got, ok := recalled(dir, c.settled[dir]); ok {
		return got
	}
	var known *run.State
	st, ok := states[dir]
	var unread error
	if !ok {
		ok, unread = run.ReadRecord(filepath.Join(dir, run.StateFile), &st)
	}
	if ok {
		known = &st
	}
	x := c.index(dir)
	if x == nil {
		got, _ := collected(col, dir, known, unread)
		return got
	}
	if got, ok := recalled(dir, x.Unchanged(dir, digest(known))); ok && unread == nil {
		return got
	}
	look := x.Look(dir) // before it is read
	got, records := collected(col, dir, known, unread)
	keep(x, look, got, known, records)
	return got
}

// collected reads a run and writes its records. unread is what was wrong with its state.
func collected(col *collect.Collector, dir string, st *run.State, unread error) (Collected, []collect.Record) {
	got := Collected{Dir: dir}
	if st != nil {
		got.State = st.State
	}
	records, err := col.Write(dir, st)
	for _, rec := range records {
		got.Rows = append(got.Rows, Row{Dir: rec.Dir, Result: rec.Result})
	}
	if got.Err = errors.Join(err, unread); len(records) > 0 {
		got.Sweep = trajectory.Of(records[0].Plan)
	}
	return got, records
}

// NoJob says why no verdict will come of a run that has none: Slurm refused its job, or none
// was submitted. "" for every other run.
func (c *Collected) NoJob(book *run.Book) string {
	open := slices.IndexFunc(c.Rows, func(r Row) bool { return r.Result.IsOpen() })
	if open < 0 {
		return ""
	}
	word, _ := NoJob(book, c.Dir, c.Rows[open].Result)
	return word
}

// NoJob is the same of the run in a directory with one of its records, nil for none, and the reason
// in Slurm's words.
func NoJob(book *run.Book, dir string, r *result.Result) (word, reason string) {
	if !r.IsOpen() || !run.HasPlan(dir) {
		return "", ""
	}
	return book.NoJob(dir)
}
