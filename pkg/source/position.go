package source

import (
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/profllm/profllm/pkg/lazyregexp"
)

// child and element spell the path of a key and of an array element. The
// separators cannot occur in a bare key and are control characters elsewhere.
func child(path, key string) string     { return path + "\x1f" + key }
func element(path string, i int) string { return path + "\x1e" + strconv.Itoa(i) }

// A duplicate is the second definition of a name.
type duplicate struct {
	name            string
	first, again    Pos
	isTable, isList bool // of the second definition: [name], [[name]]
	wasList         bool
}

// walk goes through a document once with a syntax-level parser, because the decoder
// reports no position for a key that it accepts. The first place where a path is
// mentioned wins. A document that this parser rejects although the decoder took it
// simply has fewer positions.
func walk(file string, data []byte) *walker {
	w := &walker{file: file, lines: lineStarts(data), index: map[string]Pos{}, count: map[string]int{},
		defined: map[string]Pos{}, leaf: map[string]bool{}}
	w.p.Reset(data)
	base := ""
	for w.p.NextExpression() {
		e := w.p.Expression()
		switch e.Kind {
		case unstable.Table:
			base = w.key(e.Key(), "", true)
			w.table(base)
		case unstable.ArrayTable:
			path := w.key(e.Key(), "", false)
			n := w.count[path]
			if n == 0 {
				w.once(path, duplicate{isList: true})
			}
			w.count[path] = n + 1
			w.note(element(path, n), w.index[path])
			if n > 0 {
				w.index[element(path, n)] = w.last
			}
			base = element(path, n)
		case unstable.KeyValue:
			w.keyValue(e, base)
		}
	}
	return w
}

type walker struct {
	p     unstable.Parser
	file  string
	lines []int // the offset at which each line begins
	index map[string]Pos
	count map[string]int // elements seen so far, by path of the array of tables
	last  Pos            // of the key part noted most recently

	listed  bool           // that part names an array of tables
	defined map[string]Pos // tables with a header, lists of tables, and keys with a value
	leaf    map[string]bool
	again   []duplicate
}

// once notes that a name is defined, or that it was already.
func (w *walker) once(path string, d duplicate) {
	first, ok := w.defined[path]
	if !ok {
		w.defined[path] = w.last
		return
	}
	d.name, d.first, d.again = readable(path), first, w.last
	w.again = append(w.again, d)
}

// table notes a header [name], which nothing else may have defined.
func (w *walker) table(path string) {
	if w.listed {
		path = path[:strings.LastIndexByte(path, '\x1e')]
	}
	w.once(path, duplicate{isTable: true, wasList: w.listed})
}

var elements = lazyregexp.New("\x1e[0-9]+")

// readable is a path as a person writes it.
func readable(path string) string {
	return strings.ReplaceAll(strings.TrimPrefix(elements.ReplaceAllString(path, ""), "\x1f"), "\x1f", ".")
}

func (w *walker) note(path string, pos Pos) {
	if _, ok := w.index[path]; !ok {
		w.index[path] = pos
	}
}

// key notes every part of a dotted key below path and returns the whole path.
// A part that names an array of tables means its newest element, except the
// last part when inner is false.
func (w *walker) key(it unstable.Iterator, path string, inner bool) string {
	for it.Next() {
		n := it.Node()
		path = child(path, string(n.Data))
		w.last = w.pos(n)
		w.note(path, w.last)
		w.listed = w.count[path] > 0
		if w.leaf[path] && !it.IsLast() { // a = 1 stands before a.b = 2
			w.once(path, duplicate{})
		}
		if c := w.count[path]; c > 0 && (inner || !it.IsLast()) {
			path = element(path, c-1)
		}
	}
	return path
}

func (w *walker) keyValue(e *unstable.Node, base string) {
	path := w.key(e.Key(), base, true)
	if first, ok := w.index[path]; ok && first != w.last && w.defined[path].Line == 0 { // a.b = 1 stands before a = 2
		w.defined[path] = first
	}
	w.once(path, duplicate{})
	w.leaf[path] = true
	w.value(e.Value(), path)
}

func (w *walker) value(n *unstable.Node, path string) {
	switch n.Kind {
	case unstable.InlineTable:
		it := n.Children()
		for it.Next() {
			w.keyValue(it.Node(), path)
		}
	case unstable.Array:
		i := 0
		it := n.Children()
		for it.Next() {
			c := it.Node()
			if c.Kind == unstable.Comment {
				continue
			}
			if c.Raw.Length > 0 {
				w.note(element(path, i), w.pos(c))
			}
			w.value(c, element(path, i))
			i++
		}
	}
}

// pos is where a node begins. The parser's own Shape counts the lines from the document's begin, so
// a document of n keys would take n² steps.
func (w *walker) pos(n *unstable.Node) Pos {
	at := int(n.Raw.Offset)
	line, exact := slices.BinarySearch(w.lines, at)
	if exact {
		line++
	}
	return Pos{File: w.file, Line: line, Col: at - w.lines[line-1] + 1}
}

func lineStarts(data []byte) []int {
	starts := []int{0}
	for i, b := range data {
		if b == '\n' {
			starts = append(starts, i+1)
		}
	}
	return starts
}
