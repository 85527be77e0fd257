package interchange

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/profllm/profllm/pkg/limit"
	"github.com/profllm/profllm/pkg/pyjson"
)

// Limits on what is read of one file, in bytes, levels and values. A YAML node takes several
// times the memory of a JSON one.
const (
	MaxSize  = 32 << 20
	maxYAML  = 8 << 20
	maxNodes = 2 << 20
)

type kind int

const (
	nothing kind = iota // null
	scalar              // a number or a truth value, as it is written
	text
	list
	table
)

// A node is a value of a JSON or YAML file with its place. What a reader has
// understood is taken; the rest is kept with the record.
type node struct {
	kind      kind
	text      string // of a scalar or a text
	keys      []string
	items     []*node // of a list or, in the order of keys, of a table
	line, col int
	from, to  int // bytes of the file; JSON only
	taken     bool
}

// A PlaceError is a file that cannot be read, with the place of what is wrong.
type PlaceError struct {
	File      string
	Line, Col int // from 1; 0: the file as a whole
	Text      string
	Hint      string
}

func (e *PlaceError) Error() string {
	s := e.File
	if e.Line > 0 {
		s += fmt.Sprintf(":%d:%d", e.Line, e.Col)
	}
	s += ": " + e.Text
	if e.Hint != "" {
		s += "\n\thint: " + e.Hint
	}
	return s
}

// errorf is an error at the node; where there is none, of the file as a whole.
func (n *node) errorf(file, format string, args ...any) *PlaceError {
	e := &PlaceError{File: file, Text: fmt.Sprintf(format, args...),
		Hint: "copy the file again from its origin; its other results are imported"}
	if n != nil {
		e.Line, e.Col = n.line, n.col
	}
	return e
}

// documents reads the documents of a JSON file, also with Python's NaN and
// Infinity, or else the one of a YAML file.
func documents(file string, data []byte) ([]*node, error) {
	trimmed := bytes.TrimLeft(data, " \t\r\n")
	switch {
	case len(trimmed) == 0:
		return nil, &PlaceError{File: file, Text: "the file is empty", Hint: "copy it again from its origin"}
	case len(data) > MaxSize:
		return nil, tooLarge(file, len(data), MaxSize)
	case trimmed[0] == '{' || trimmed[0] == '[':
		return parseJSON(file, data)
	case len(data) > maxYAML:
		return nil, tooLarge(file, len(data), maxYAML)
	}
	n, err := parseYAML(file, data)
	if err != nil {
		return nil, err
	}
	return []*node{n}, nil
}

func tooLarge(file string, size, limit int) *PlaceError {
	return &PlaceError{
		File: file, Text: fmt.Sprintf("%d MiB, at most %d MiB are read", size>>20, limit>>20),
		Hint: "remove the lists of single requests from a copy, or let profllm collect read a client's own result",
	}
}

// jsonReader makes nodes of JSON documents.
type jsonReader struct {
	*pyjson.Reader
	nodes int
}

func parseJSON(file string, data []byte) (docs []*node, err error) {
	r := jsonReader{Reader: pyjson.NewBytes(data)}
	for err == nil {
		if k := r.Kind(); k != pyjson.Object && k != pyjson.List {
			err = r.End()
			break
		}
		var n *node
		n, err = r.value()
		docs = append(docs, n)
	}
	if err == nil {
		return docs, nil
	}
	at := pyjson.PlaceOf(err)
	return nil, &PlaceError{
		File: file, Line: at.Line, Col: at.Col, Text: at.Text,
		Hint: "copy the file again from its origin; a truncated file cannot be read",
	}
}

func (r *jsonReader) value() (n *node, err error) {
	kind := r.Kind()
	n = &node{from: int(r.Offset())}
	n.line, n.col = r.Place()
	if r.nodes++; r.nodes > maxNodes {
		return nil, r.Errorf("more than %d values", maxNodes)
	}
	item := func() error {
		v, err := r.value()
		n.items = append(n.items, v)
		return err
	}
	switch kind {
	case pyjson.Object:
		n.kind = table
		err = r.Object(func(key string) error {
			n.keys = append(n.keys, key)
			return item()
		})
	case pyjson.List:
		n.kind = list
		err = r.List(item)
	case pyjson.Text:
		var v pyjson.Value
		v, err = r.Value()
		n.kind, n.text = text, v.Str
	case pyjson.Null:
		err = r.Skip()
	default:
		n.kind = scalar
		n.text, err = r.Word()
	}
	n.to = int(r.Offset())
	return n, err
}

// parseYAML reads one document. Aliases are followed; what they make is counted.
func parseYAML(file string, data []byte) (*node, error) {
	d := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	if err := d.Decode(&doc); err != nil {
		return nil, yamlError(file, err)
	}
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, &PlaceError{File: file, Line: max(more.Line, 1), Col: max(more.Column, 1),
			Text: "more than one document", Hint: "split it into one file per document"}
	}
	c := yamlConverter{file: file}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return nil, &PlaceError{File: file, Text: "the file has no document"}
	}
	return c.convert(doc.Content[0], 0)
}

// yamlError takes the line out of an error of the library, which has it in its text.
func yamlError(file string, err error) *PlaceError {
	e := &PlaceError{File: file, Text: strings.TrimPrefix(err.Error(), "yaml: "),
		Hint: "copy the file again from its origin"}
	var line int
	if _, scanErr := fmt.Sscanf(e.Text, "line %d:", &line); scanErr == nil {
		_, rest, _ := strings.Cut(e.Text, ": ")
		e.Line, e.Col, e.Text = line, 1, rest
	}
	return e
}

type yamlConverter struct {
	file  string
	nodes int
}

func (c *yamlConverter) convert(y *yaml.Node, depth int) (*node, error) {
	n := &node{line: y.Line, col: y.Column}
	if c.nodes++; c.nodes > maxNodes || depth > limit.Depth {
		return nil, n.errorf(c.file, "more than %d values or %d levels", maxNodes, limit.Depth)
	}
	switch y.Kind {
	case yaml.AliasNode:
		return c.convert(y.Alias, depth+1)
	case yaml.MappingNode:
		n.kind = table
		for i := 0; i+1 < len(y.Content); i += 2 {
			v, err := c.convert(y.Content[i+1], depth+1)
			if err != nil {
				return nil, err
			}
			n.keys, n.items = append(n.keys, y.Content[i].Value), append(n.items, v)
		}
	case yaml.SequenceNode:
		n.kind = list
		for _, x := range y.Content {
			v, err := c.convert(x, depth+1)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, v)
		}
	case yaml.ScalarNode:
		switch y.ShortTag() {
		case "!!null":
		case "!!bool", "!!int", "!!float":
			n.kind, n.text = scalar, y.Value
		default:
			n.kind, n.text = text, y.Value
		}
	}
	return n, nil
}

// get returns the value of a key and takes it; nil if there is none, or null. Of
// several the last counts, as for every reader of JSON.
func (n *node) get(key string) *node {
	if n == nil || n.kind != table {
		return nil
	}
	for i := len(n.keys) - 1; i >= 0; i-- {
		if n.keys[i] == key {
			if n.items[i].kind == nothing {
				n.items[i].taken = true
				return nil
			}
			return n.items[i]
		}
	}
	return nil
}

// has reports whether a table has all of the keys.
func (n *node) has(keys ...string) bool {
	return n != nil && n.kind == table &&
		!slices.ContainsFunc(keys, func(k string) bool { return !slices.Contains(n.keys, k) })
}

// str takes a text; "" if it is none.
func (n *node) str() string {
	if n == nil || n.kind != text {
		return ""
	}
	n.taken = true
	return n.text
}

// number takes a finite number, also one in quotes.
func (n *node) number() (float64, bool) {
	if n == nil || n.kind != scalar && n.kind != text {
		return 0, false
	}
	v, err := strconv.ParseFloat(n.text, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, false
	}
	n.taken = true
	return v, true
}

// float takes a finite number; nil if it is none.
func (n *node) float() *float64 { return n.times(1) }

// times takes a finite number and multiplies it; nil if that is no finite number.
func (n *node) times(by float64) *float64 {
	if n == nil {
		return nil
	}
	was := n.taken
	v, ok := n.number()
	if v *= by; !ok || math.IsInf(v, 0) {
		n.taken = was
		return nil
	}
	return &v
}

// whole takes a whole number from 0 on; nil if it is none.
func (n *node) whole() *int {
	if n == nil {
		return nil
	}
	was := n.taken
	v, ok := n.number()
	if !ok || v != math.Trunc(v) || v < 0 || v > 1<<53 {
		n.taken = was
		return nil
	}
	return new(int(v))
}

// truth takes true or false, also in quotes; known is false for anything else.
func (n *node) truth() (v, known bool) {
	if n == nil || n.kind != scalar && n.kind != text {
		return false, false
	}
	switch strings.ToLower(n.text) {
	case "true":
		v, known = true, true
	case "false":
		known = true
	}
	n.taken = n.taken || known
	return v, known
}

// take marks a value and all below it as understood.
func (n *node) take() {
	if n == nil {
		return
	}
	n.taken = true
	for _, x := range n.items {
		x.take()
	}
}

// longestList is what is kept of lists: longer ones, which are of single requests
// or of samples, are in the copy of the file only.
const longestList = 64

// rest is what nobody has taken, nil if there is nothing.
func (n *node) rest() any {
	switch {
	case n == nil, n.taken:
		return nil
	case n.kind != table:
		return n.plain()
	}
	m := map[string]any{}
	for i, k := range n.keys {
		if n.items[i].kind == nothing && !n.items[i].taken {
			m[k] = nil
		} else if v := n.items[i].rest(); v != nil {
			m[k] = v
		}
	}
	if len(m) == 0 {
		return nil
	}
	return m
}

// plain is the value as encoding/json writes it: numbers as they were written where
// JSON has them, else as text.
func (n *node) plain() any {
	switch n.kind {
	case text:
		return n.text
	case scalar:
		switch w := strings.ToLower(n.text); {
		case w == "true" || w == "false":
			return w == "true"
		case json.Valid([]byte(n.text)):
			if _, err := strconv.ParseFloat(n.text, 64); err == nil { // others read it as well
				return json.Number(n.text)
			}
		}
		return n.text
	case list:
		if len(n.items) > longestList {
			return fmt.Sprintf("a list of %d, see the copy of the file in raw", len(n.items))
		}
		l := make([]any, len(n.items))
		for i, x := range n.items {
			l[i] = x.plain()
		}
		return l
	case table:
		m := make(map[string]any, len(n.keys))
		for i, k := range n.keys {
			m[k] = n.items[i].plain()
		}
		return m
	}
	return nil
}
