// Package source reads TOML and remembers where every key stands.
//
// It is the only reader of definition files: a file becomes a Table, tables are
// merged (scenario over test), and a Table is decoded strictly into a struct.
// Every complaint carries file, line and column. It knows nothing about what
// the keys mean.
//
//	t, err := source.Parse("site.toml", data)
//	err = source.Decode(t, &site) // every complaint at once
package source

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/hashicorp/go-multierror"

	"github.com/profllm/profllm/pkg/limit"
)

// Pos is a place in a file. Line and Col count from 1; Col counts bytes.
// A zero Line means the whole file.
type Pos struct {
	File      string
	Line, Col int
}

func (p Pos) String() string {
	switch {
	case p.File == "" && p.Line == 0:
		return "-"
	case p.Line == 0:
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
}

// Error is one complaint about a definition: where, what, and how to mend it.
type Error struct {
	Pos     Pos
	Msg     string
	Excerpt string // the line of the file and a caret below, each indented; "" if they add nothing
	Hint    string // a mend, "" if there is none
}

func (e *Error) Error() string {
	s := e.Pos.String() + ": " + e.Msg
	if e.Excerpt != "" {
		s += "\n" + e.Excerpt
	}
	if e.Hint != "" {
		s += "\n\thint: " + e.Hint
	}
	return s
}

// Errorf makes an Error without a hint.
func Errorf(pos Pos, format string, args ...any) *Error {
	return &Error{Pos: pos, Msg: fmt.Sprintf(format, args...)}
}

// Hintf returns a copy of e with a hint.
func (e *Error) Hintf(format string, args ...any) *Error {
	c := *e
	c.Hint = fmt.Sprintf(format, args...)
	return &c
}

// Value is a TOML value with the position of its key (or of the element, in an
// array). Any holds string, int64, float64, bool, time.Time, []*Value or *Table.
type Value struct {
	Pos Pos
	Any any
}

// Table is a TOML table: its keys keep the order of the file.
type Table struct {
	Pos    Pos
	keys   []string
	values map[string]*Value
	at     map[string]Pos // of keys whose value is an element of a list
}

// NewTable returns an empty table that stands at pos.
func NewTable(pos Pos) *Table { return &Table{Pos: pos, values: map[string]*Value{}} }

// Keys returns the keys in file order; keys of an overriding table come last.
func (t *Table) Keys() []string {
	if t == nil {
		return nil
	}
	return append([]string(nil), t.keys...)
}

// Get returns the value of key, or nil.
func (t *Table) Get(key string) *Value {
	if t == nil {
		return nil
	}
	return t.values[key]
}

// Has reports whether the user wrote key.
func (t *Table) Has(key string) bool { return t.Get(key) != nil }

// Table returns the sub-table of that name, or nil.
func (t *Table) Table(key string) *Table {
	if v := t.Get(key); v != nil {
		sub, _ := v.Any.(*Table)
		return sub
	}
	return nil
}

// Set adds or replaces a key.
func (t *Table) Set(key string, v *Value) {
	if _, ok := t.values[key]; !ok {
		t.keys = append(t.keys, key)
	}
	t.values[key] = v
}

// Without returns a copy of t that lacks the named keys.
func (t *Table) Without(names ...string) *Table {
	drop := map[string]bool{}
	for _, n := range names {
		drop[n] = true
	}
	c := NewTable(t.Pos)
	for _, k := range t.keys {
		if !drop[k] {
			c.Set(k, t.values[k])
		}
	}
	c.at = maps.Clone(t.at)
	return c
}

// PosOf returns the position of key, or of the table when the key is absent.
func (t *Table) PosOf(key string) Pos {
	if v := t.Get(key); v != nil {
		return v.Pos
	}
	if t == nil {
		return Pos{}
	}
	return t.Pos
}

// KeyPos returns the position of key itself, also where an element of a list stands in
// its place. What is wrong with the key of a sweep is so said once.
func (t *Table) KeyPos(key string) Pos {
	if t != nil && t.at[key] != (Pos{}) {
		return t.at[key]
	}
	return t.PosOf(key)
}

// SetElement puts an element of a list in the place of the list.
func (t *Table) SetElement(key string, element *Value) {
	t.setAt(key, t.KeyPos(key))
	t.Set(key, element)
}

func (t *Table) setAt(key string, pos Pos) {
	if t.at == nil {
		t.at = map[string]Pos{}
	}
	t.at[key] = pos
}

// ElementPos returns the position of element i of a list, or of the key where the list
// has no such element.
func (t *Table) ElementPos(key string, i int) Pos {
	if v := t.Get(key); v != nil {
		if list, ok := v.Any.([]*Value); ok && i < len(list) {
			return list[i].Pos
		}
	}
	return t.PosOf(key)
}

// Merge returns base overridden by over: tables merge recursively, everything
// else is replaced whole. Neither argument changes; either may be nil.
func Merge(base, over *Table) *Table {
	if base == nil {
		return over
	}
	out := base.Without()
	if over == nil {
		return out
	}
	for _, k := range over.keys {
		v := over.values[k]
		delete(out.at, k)
		if pos, ok := over.at[k]; ok {
			out.setAt(k, pos)
		}
		if sub, ok := v.Any.(*Table); ok && base.Table(k) != nil {
			out.Set(k, &Value{Pos: v.Pos, Any: Merge(base.Table(k), sub)})
			continue
		}
		out.Set(k, v)
	}
	return out
}

// Parse reads one TOML document. name stands in positions. A syntax error is
// an *Error.
func Parse(name string, data []byte) (*Table, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // which editors on Windows write
	if len(data) > largest {
		return nil, Errorf(Pos{File: name}, "the file has %d MiB or more; a definition has some kB", largest>>20)
	}
	if at, ok := nesting(name, data); !ok {
		return nil, Errorf(at, "lists, tables or keys more than %d levels deep", limit.Depth)
	}
	raw := map[string]any{}
	if _, err := toml.Decode(string(data), &raw); err != nil {
		var pe toml.ParseError
		if errors.As(err, &pe) {
			return nil, syntaxError(name, data, pe)
		}
		return nil, Errorf(Pos{File: name}, "%v", err)
	}
	w := walk(name, data)
	for _, d := range w.again {
		if !d.isTable && !d.isList { // the decoder lets a.b = 1 before a = 2 pass
			return nil, twiceError(d, string(data))
		}
	}
	t := build(raw, w.index, "", Pos{File: name, Line: 1, Col: 1})
	if pos, found := withNUL(t); found {
		return nil, Errorf(pos, "this text holds a NUL byte").Hintf("remove \\u0000")
	}
	return t, nil
}

// build turns what the decoder made into Tables, in the order of the file.
func build(raw map[string]any, index map[string]Pos, path string, pos Pos) *Table {
	t := NewTable(pos)
	keys := make([]string, 0, len(raw))
	for k := range raw {
		keys = append(keys, k)
	}
	sort.Slice(keys, func(i, j int) bool {
		a, b := index[child(path, keys[i])], index[child(path, keys[j])]
		if a.Line != b.Line {
			return a.Line < b.Line
		}
		if a.Col != b.Col {
			return a.Col < b.Col
		}
		return keys[i] < keys[j]
	})
	for _, k := range keys {
		t.Set(k, buildValue(raw[k], index, child(path, k), pos))
	}
	return t
}

func buildValue(raw any, index map[string]Pos, path string, parent Pos) *Value {
	pos, ok := index[path]
	if !ok {
		pos = parent
	}
	v := &Value{Pos: pos}
	switch x := raw.(type) {
	case map[string]any:
		v.Any = build(x, index, path, pos)
	case []map[string]any:
		list := make([]*Value, len(x))
		for i, e := range x {
			list[i] = buildValue(e, index, element(path, i), pos)
		}
		v.Any = list
	case []any:
		list := make([]*Value, len(x))
		for i, e := range x {
			list[i] = buildValue(e, index, element(path, i), pos)
		}
		v.Any = list
	case string, int64, float64, bool, time.Time:
		v.Any = x
	default:
		v.Any = fmt.Sprint(x)
	}
	return v
}

// Kind names the TOML type of v for messages: "string", "integer", …
func (v *Value) Kind() string {
	switch v.Any.(type) {
	case string:
		return "string"
	case int64:
		return "integer"
	case float64:
		return "float"
	case bool:
		return "boolean"
	case []*Value:
		return "list"
	case *Table:
		return "table"
	case time.Time:
		return "date"
	}
	return "value"
}

// Plain returns v as plain Go data: map[string]any, []any and scalars. Tables
// lose their order.
func (v *Value) Plain() any {
	switch x := v.Any.(type) {
	case []*Value:
		out := make([]any, len(x))
		for i, e := range x {
			out[i] = e.Plain()
		}
		return out
	case *Table:
		return x.Plain()
	}
	return v.Any
}

// Word writes a scalar as one word of a command line; ok is false for a list, a
// table and nil.
func (v *Value) Word() (s string, ok bool) {
	if v == nil {
		return "", false
	}
	switch x := v.Any.(type) {
	case []*Value, *Table:
		return "", false
	case float64:
		return strconv.FormatFloat(x, 'g', -1, 64), true
	case time.Time:
		return dateText(x), true
	default:
		return fmt.Sprint(x), true
	}
}

// dateText writes a date or a time as a file has it. The decoder names the locations of
// those without a zone.
func dateText(t time.Time) string {
	layout := time.RFC3339Nano
	switch t.Location().String() {
	case "datetime-local":
		layout = "2006-01-02T15:04:05.999999999"
	case "date-local":
		layout = time.DateOnly
	case "time-local":
		layout = "15:04:05.999999999"
	}
	return t.Format(layout)
}

// Plain returns t as plain Go data.
func (t *Table) Plain() map[string]any {
	out := make(map[string]any, len(t.keys))
	for _, k := range t.keys {
		out[k] = t.values[k].Plain()
	}
	return out
}

// Complaints collects errors and prints one per line, without decoration.
type Complaints struct{ list *multierror.Error }

// Add appends err; a nil err is ignored, a collection is flattened.
func (c *Complaints) Add(err error) {
	if err == nil {
		return
	}
	c.list = multierror.Append(c.list, err)
}

// Addf appends an Error at pos.
func (c *Complaints) Addf(pos Pos, format string, args ...any) { c.Add(Errorf(pos, format, args...)) }

// Err returns nil, or every complaint in order of file, line and column.
func (c *Complaints) Err() error {
	if c.list == nil {
		return nil
	}
	sort.SliceStable(c.list.Errors, func(i, j int) bool {
		a, b := posOf(c.list.Errors[i]), posOf(c.list.Errors[j])
		if a.File != b.File {
			return a.File < b.File
		}
		if a.Line != b.Line {
			return a.Line < b.Line
		}
		return a.Col < b.Col
	})
	seen := map[string]bool{}
	c.list.Errors = slices.DeleteFunc(c.list.Errors, func(err error) bool {
		s := err.Error()
		defer func() { seen[s] = true }()
		return seen[s]
	})
	c.list.ErrorFormat = func(errs []error) string {
		lines := make([]string, len(errs))
		for i, e := range errs {
			lines[i] = e.Error()
		}
		return strings.Join(lines, "\n")
	}
	return c.list.ErrorOrNil()
}

func posOf(err error) Pos {
	var e *Error
	if errors.As(err, &e) {
		return e.Pos
	}
	return Pos{}
}

// Text returns the string in v; ok is false for a nil v or another type.
func (v *Value) Text() (s string, ok bool) {
	if v == nil {
		return "", false
	}
	s, ok = v.Any.(string)
	return s, ok
}
