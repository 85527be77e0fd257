// Package index remembers which runs were collected, and what is shown of each, so
// that the next collection does not read again what has not changed.
//
// It is a cache like the index of git: a file beside the runs that says of every file
// of a run its size, inode, times and mode. Nothing depends on it: it may be deleted, be
// written by another version of profllm, or be replaced by another command at any time,
// and then the run is read. A file can change without a change of its size or times, if
// that happens within one tick of the clock. So a run that changed less than window before
// is not remembered, and a record written so shortly before is compared by content.
//
//	x := index.Open(root, program)
//	if e := x.UnchangedForGood(dir, now); e != nil { … }     // e.Shown
//	if e := x.Unchanged(dir, asked); e != nil { … } // when the scheduler was asked
//	l := x.Look(dir)                                 // before anything is read
//	x.Keep(l, index.Entry{…})
//	err := x.Save()
package index

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	json "github.com/go-json-experiment/json/v1"
	"golang.org/x/sys/unix"

	"github.com/profllm/profllm/pkg/durable"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/run"
)

// File is the name of the index, in the directory of the runs.
const File = ".collected.jsonl"

// Schema is the format of the file: a header, then an Entry in each line.
const Schema = "profllm.collected/1"

// window is how long before a look a change may be without being told from one after
// it: two seconds are the coarsest clock of a file system in use (FAT, SMB).
const window = int64(2 * time.Second)

// largest is how large an index may be: 100,000 runs have some 100 MB.
const largest = 512 << 20

type header struct {
	Schema  string     `json:"schema"`
	Program string     `json:"program"`
	Dir     string     `json:"dir"` // where it lay when it was written
	Shapes  [][]string `json:"shapes"`
}

// An Entry is what is remembered of one run.
type Entry struct {
	Run   string `json:"run"`   // below the index
	Asked string `json:"asked"` // what else the record depends on
	Stays int64  `json:"stays"` // from when on, ns since 1970, that need not be asked again; 0: never
	Shape int    `json:"shape"` // the names of its files, of header.Shapes
	Sum   string `json:"sum"`   // of what they looked like

	Record  string `json:"record,omitempty"`  // what result.json looked like; "" if there is none
	Digest  string `json:"digest,omitempty"`  // of its content
	Written int64  `json:"written,omitempty"` // when it last changed, ns since 1970
	At      int64  `json:"at"`                // when it was last looked at, likewise, by the clock of the file system

	Shown json.RawMessage `json:"shown"` // the caller's

	// Folders and Files are what was read outside of the run's directory, as paths
	// below it or absolute. Keep takes them; they are no part of the file.
	Folders []string `json:"-"`
	Files   []string `json:"-"`
}

// racy reports whether the record may have changed since it was looked at, and look
// the same.
func (e *Entry) racy() bool { return e.Record != "" && e.Written+window > e.At }

// Index is the runs below one directory. It is safe for concurrent use.
type Index struct {
	dir, program string
	device       uint64

	mu      sync.Mutex
	shapes  [][]string
	numbers map[string]int // of shapes, by their names
	entries map[string]*Entry
	seen    map[string]bool // the runs that somebody asked for
	changed bool
	clock   func() int64
}

// Open reads the index of a directory. One that cannot be read, that another program
// wrote or that lay elsewhere is empty. program names all that decides what a record
// says beside the files of its run.
func Open(dir, program string) *Index {
	x := &Index{dir: dir, program: program, numbers: map[string]int{}, entries: map[string]*Entry{},
		seen: map[string]bool{}}
	x.clock = sync.OnceValue(x.now)
	var st unix.Stat_t
	if unix.Stat(dir, &st) == nil {
		x.device = st.Dev
	}
	x.read()
	return x
}

func (x *Index) read() {
	data, err := regular.ReadAtMost(filepath.Join(x.dir, File), largest)
	if err != nil {
		return
	}
	first, rest, _ := bytes.Cut(data, []byte("\n"))
	var h header
	if json.Unmarshal(first, &h) != nil || h.Schema != Schema || h.Program != x.program || h.Dir != x.dir {
		return
	}
	lines := slices.Collect(bytes.Lines(rest))
	entries := make([]Entry, len(lines))
	run.AtOnce(len(lines), 4, func(i int) {
		if json.Unmarshal(lines[i], &entries[i]) != nil { // cut by a full disk
			entries[i] = Entry{}
		}
	})
	var numbers []int // of the shapes of the file
	for _, names := range h.Shapes {
		numbers = append(numbers, x.shapeOf(names))
	}
	for i := range entries {
		e := &entries[i]
		if e.Sum == "" || e.Shape < 0 || e.Shape >= len(numbers) {
			continue
		}
		e.Shape = numbers[e.Shape]
		if x.entries[e.Run] = e; e.racy() {
			x.clock() // so that it can be looked at now
		}
	}
}

// now is the time by the clock of the file system, 0 if nothing can be written there.
func (x *Index) now() int64 {
	if run.CheckDir(x.dir) != nil {
		return 0
	}
	t, err := durable.Clock(x.dir)
	if err != nil {
		return 0
	}
	return t.UnixNano()
}

// Unchanged returns the entry of a run if collecting it would come to the same, nil
// if that is not known.
func (x *Index) Unchanged(dir, asked string) *Entry {
	return x.unchanged(dir, func(e *Entry) bool { return e.Asked == asked })
}

// UnchangedForGood is Unchanged of a run whose Asked stays as it is: nobody need be asked.
func (x *Index) UnchangedForGood(dir string, now time.Time) *Entry {
	return x.unchanged(dir, func(e *Entry) bool { return e.Stays != 0 && now.UnixNano() >= e.Stays })
}

func (x *Index) unchanged(dir string, same func(*Entry) bool) *Entry {
	name, err := filepath.Rel(x.dir, dir)
	x.mu.Lock()
	e := x.entries[name]
	x.seen[name] = true
	var names []string
	if e != nil {
		names = x.shapes[e.Shape]
	}
	x.mu.Unlock()
	if err != nil || e == nil || !same(e) {
		return nil
	}
	l, err := again(dir, names)
	if err != nil || l.sum() != e.Sum || !x.kept(dir, e) {
		return nil
	}
	return e
}

// kept reports whether the record of a run is the one that was written.
func (x *Index) kept(dir string, e *Entry) bool {
	if mark, _, err := markOf(filepath.Join(dir, run.ResultFile)); err != nil || mark != e.Record {
		return false
	}
	if !e.racy() {
		return true
	}
	at := x.clock() // taken before the record is read
	if data, err := regular.ReadFile(filepath.Join(dir, run.ResultFile)); err != nil || digest(data) != e.Digest {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if at >= e.Written+window { // later looks need not read it
		e.At, x.changed = at, true
	}
	return true
}

// Look looks at a run before it is read; nil if it cannot be remembered.
func (x *Index) Look(dir string) *Look {
	if x.clock() == 0 {
		return nil
	}
	l, err := look(dir)
	if err != nil {
		return nil
	}
	return l
}

// Keep remembers a run whose record was written. content is that of result.json, nil if
// the run has none of its own. What may still change without being seen is forgotten.
func (x *Index) Keep(dir string, l *Look, e Entry, content []byte) {
	name, err := filepath.Rel(x.dir, dir)
	if err != nil || l == nil || !x.settle(dir, l, &e, content) {
		x.forget(name)
		return
	}
	e.Run = name
	x.mu.Lock()
	defer x.mu.Unlock()
	e.Shape = x.shapeOf(l.names)
	x.entries[name], x.changed = &e, true
}

// shapeOf is the number of those names; a new one if they are new.
func (x *Index) shapeOf(names []string) int {
	key := strings.Join(names, "\x00")
	n, known := x.numbers[key]
	if !known {
		n = len(x.shapes)
		x.shapes, x.numbers[key] = append(x.shapes, names), n
	}
	return n
}

// settle completes an entry, and reports whether it can be relied on.
func (x *Index) settle(dir string, l *Look, e *Entry, content []byte) bool {
	e.At = x.clock()
	if err := l.beside(dir, e.Folders, e.Files); err != nil || l.newest+window > e.At {
		return false
	}
	for device := range l.devices {
		if device != x.device { // another file system has a clock of its own
			return false
		}
	}
	mark, written, err := markOf(filepath.Join(dir, run.ResultFile))
	if err != nil || (mark == "") != (content == nil) {
		return false
	}
	e.Sum, e.Record, e.Written = l.sum(), mark, written
	if content != nil {
		e.Digest = digest(content)
	}
	return true
}

func (x *Index) forget(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.entries[name] != nil {
		delete(x.entries, name)
		x.changed = true
	}
}

// Save writes the index if it says something new. Runs that are gone are left out.
func (x *Index) Save() error {
	if !x.changed {
		return nil
	}
	h := header{Schema: Schema, Program: x.program, Dir: x.dir}
	shapes := make([]int, len(x.shapes)) // the new number of each shape that is in use, from 1
	var lines bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(x.entries)) {
		e := x.entries[name]
		if _, err := os.Lstat(filepath.Join(x.dir, name)); !x.seen[name] && err != nil {
			continue
		}
		if shapes[e.Shape] == 0 {
			h.Shapes = append(h.Shapes, x.shapes[e.Shape])
			shapes[e.Shape] = len(h.Shapes)
		}
		out := *e
		out.Shape = shapes[e.Shape] - 1
		line, err := json.Marshal(out)
		if err != nil {
			return err
		}
		lines.Write(append(line, '\n'))
	}
	first, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return run.WriteUnsynced(filepath.Join(x.dir, File), slices.Concat(first, []byte("\n"), lines.Bytes()))
}
