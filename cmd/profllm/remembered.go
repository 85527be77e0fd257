package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"time"

	json "github.com/go-json-experiment/json/v1"

	"github.com/profllm/profllm/pkg/collect"
	"github.com/profllm/profllm/pkg/collect/index"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/trajectory"
)

// fewest runs are worth an index: to read so many again takes no longer than to start.
const fewest = 32

// memory is what is known of runs that were collected before, in an index for each
// scenario's directory. The zero value remembers nothing.
type memory struct {
	program string
	roots   map[string]string       // by the directory above a run
	indexes map[string]*index.Index // by the directory they lie in
	settled map[string]*index.Entry // the runs that are as they were, whose jobs ended long ago
}

// remember opens the indexes of runs. Those of archives are not remembered, because
// they are unpacked to another place each time.
func (a *app) remember(dirs []string) memory {
	var m memory
	if len(dirs) < fewest {
		return m
	}
	m = memory{program: program(a.now()), roots: map[string]string{}, indexes: map[string]*index.Index{}}
	for _, dir := range dirs {
		above := filepath.Dir(dir)
		if _, known := m.roots[above]; known || a.called(dir) != dir {
			continue
		}
		root := cmp.Or(run.Root(above), above)
		m.roots[above] = root
		if m.indexes[root] == nil {
			m.indexes[root] = index.Open(root, m.program)
		}
	}
	m.settle(dirs, a.now())
	return m
}

// settle finds the runs about whose jobs nobody need be asked. That a run is carried by
// the job of several is written beside it, where its index does not look.
func (m *memory) settle(dirs []string, now time.Time) {
	var book run.Book
	apart := make([]bool, len(dirs))
	for i, dir := range dirs {
		unit, err := book.Unit(dir)
		apart[i] = err == nil && unit == dir
	}
	entries := make([]*index.Entry, len(dirs))
	run.AtOnce(len(dirs), run.SmallFiles, func(i int) {
		if x := m.of(dirs[i]); x != nil && apart[i] {
			entries[i] = x.Settled(dirs[i], now)
		}
	})
	m.settled = map[string]*index.Entry{}
	for i, e := range entries {
		if e != nil {
			m.settled[dirs[i]] = e
		}
	}
}

// program names all that decides what a record says beside the files of its run: this
// program, the definitions of its metrics, and the zone of Slurm's times.
func program(now time.Time) string {
	words := []any{version(), result.MetricsVersion}
	if file, err := os.Executable(); err == nil {
		if st, err := os.Stat(file); err == nil {
			words = append(words, st.Size(), st.ModTime().UnixNano())
		}
	}
	for _, month := range []time.Month{time.January, time.July} {
		name, offset := time.Date(now.Year(), month, 1, 0, 0, 0, 0, time.Local).Zone()
		words = append(words, name, offset)
	}
	return fmt.Sprint(words...)
}

// of is the index of a run, nil if it has none.
func (m *memory) of(dir string) *index.Index { return m.indexes[m.roots[filepath.Dir(dir)]] }

// save writes the indexes. One that cannot be written costs the next command time and
// nothing else, so that nobody is told.
func (m *memory) save() {
	for _, x := range m.indexes {
		_ = x.Save()
	}
}

// keptRun is what an index keeps of a run for the printer.
type keptRun struct {
	State string            `json:"state"` // of the job
	Rows  []briefRow        `json:"rows"`
	Sweep *trajectory.Sweep `json:"sweep,omitempty"`
}

// briefRow is a row by what is printed of many.
type briefRow struct {
	Dir    string         `json:"dir"` // below the run's
	Result *result.Result `json:"result"`
}

// recall is what became of a run at an earlier collection, if it would be the same now.
func (m *memory) recall(dir string, st *run.State) (c collected, ok bool) {
	if x := m.of(dir); x != nil {
		return recalled(dir, x.Unchanged(dir, asked(st)))
	}
	return c, false
}

// recalled is what became of a run by its entry, which may be nil.
func recalled(dir string, e *index.Entry) (c collected, ok bool) {
	var s keptRun
	if e == nil || json.Unmarshal(e.Shown, &s) != nil {
		return c, false
	}
	c = collected{dir: dir, state: s.State, sweep: s.Sweep}
	for _, b := range s.Rows {
		c.rows = append(c.rows, row{Dir: filepath.Join(dir, b.Dir), Result: b.Result, brief: true})
	}
	return c, true
}

// look looks at a run before it is read.
func (m *memory) look(dir string) *index.Look {
	if x := m.of(dir); x != nil {
		return x.Look(dir)
	}
	return nil
}

// keep remembers what became of a run, which look has seen before it was read.
func (m *memory) keep(c collected, look *index.Look, st *run.State, records []collect.Record) {
	x := m.of(c.dir)
	if x == nil {
		return
	}
	if len(records) == 0 {
		x.Keep(c.dir, nil, index.Entry{}, nil)
		return
	}
	folders, files, err := collect.Outside(c.dir, records[0].Plan)
	if err != nil || c.err != nil {
		look = nil
	}
	s := keptRun{State: c.state, Sweep: c.sweep}
	var content []byte
	for _, rec := range records {
		below, err := filepath.Rel(c.dir, rec.Dir)
		if err != nil {
			look = nil
		}
		if below == "." {
			content = rec.Data
		}
		s.Rows = append(s.Rows, briefRow{below, brief(rec.Result)})
	}
	data, err := json.Marshal(s)
	if err != nil {
		look = nil
	}
	x.Keep(c.dir, look, index.Entry{Asked: asked(st), Stays: stays(st, c.dir), Shown: data, Folders: folders, Files: files}, content)
}

// stays is from when on a scheduler says the same of a job for good, 0 if that cannot be
// known.
func stays(st *run.State, dir string) int64 {
	if st == nil || st.Outdated(dir) {
		return 0
	}
	from, ok := st.KeptFrom()
	switch {
	case !ok:
		return 0
	case from.IsZero():
		return 1
	}
	return from.UnixNano()
}

// asked is a digest of what a scheduler says of a job.
func asked(st *run.State) string {
	data, err := json.Marshal(st)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// brief is a record without what the printer does not ask of many.
func brief(r *result.Result) *result.Result {
	b := *r
	b.Config, b.Results, b.Accuracy = result.Config{}, result.Metrics{}, nil
	b.System, b.Profiling, b.Placement, b.Slurm, b.Repeats = nil, nil, nil, nil, nil
	if p := r.Provenance; p != nil {
		b.Provenance = &result.Provenance{Foreign: p.Foreign}
		if p.Imported != nil {
			b.Provenance.Imported = &result.Imported{From: p.Imported.From}
		}
	}
	if v := r.Validity; v != nil {
		few := result.Validity{Valid: v.Valid, Verdict: v.Verdict}
		for _, c := range v.Checks {
			if c.Outcome == result.Fail && (c.Severity == result.Invalid || c.Severity == result.Suspect) {
				few.Checks = append(few.Checks, c)
			}
		}
		b.Validity = &few
	}
	if f := r.Failure; f != nil {
		first := *f
		first.Tail, first.Others = nil, nil
		b.Failure = &first
	}
	return &b
}

// whole reads the record of a row of which only the brief is known.
func (r *row) whole() error {
	if !r.brief {
		return nil
	}
	file := filepath.Join(r.Dir, run.ResultFile)
	data, err := regular.ReadFile(file)
	if err != nil {
		return err
	}
	var full result.Result
	if err := json.Unmarshal(data, &full); err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	r.Result, r.brief = &full, false
	return nil
}
