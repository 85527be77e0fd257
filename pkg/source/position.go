package source

import (
	"strconv"

	"github.com/pelletier/go-toml/v2/unstable"
)

// child and element spell the path of a key and of an array element. The
// separators cannot occur in a bare key and are control characters elsewhere.
func child(path, key string) string     { return path + "\x1f" + key }
func element(path string, i int) string { return path + "\x1e" + strconv.Itoa(i) }

// positions walks the document once with a syntax-level parser, because the
// decoder reports no position for a key that it accepts. The first place where
// a path is mentioned wins. A document that this parser rejects although the
// decoder took it simply has fewer positions.
func positions(file string, data []byte) map[string]Pos {
	w := walker{file: file, index: map[string]Pos{}, count: map[string]int{}}
	w.p.Reset(data)
	base := ""
	for w.p.NextExpression() {
		e := w.p.Expression()
		switch e.Kind {
		case unstable.Table:
			base = w.key(e.Key(), "", true)
		case unstable.ArrayTable:
			path := w.key(e.Key(), "", false)
			n := w.count[path]
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
	return w.index
}

type walker struct {
	p     unstable.Parser
	file  string
	index map[string]Pos
	count map[string]int // elements seen so far, by path of the array of tables
	last  Pos            // of the key part noted most recently
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
		if c := w.count[path]; c > 0 && (inner || !it.IsLast()) {
			path = element(path, c-1)
		}
	}
	return path
}

func (w *walker) keyValue(e *unstable.Node, base string) {
	path := w.key(e.Key(), base, true)
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

func (w *walker) pos(n *unstable.Node) Pos {
	s := w.p.Shape(n.Raw).Start
	return Pos{File: w.file, Line: s.Line, Col: s.Column}
}
