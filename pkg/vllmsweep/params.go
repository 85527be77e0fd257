package vllmsweep

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/limit"
	"github.com/profllm/profllm/pkg/pyjson"
	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/sweep"
)

// nameKey is the label of an entry, which is no parameter.
const nameKey = "_benchmark_name"

// Limits on a parameter file: one of a thousand points has some hundred kB.
const (
	mostBytes  = 8 << 20
	mostValues = 1 << 18
)

// An Item is one entry of a parameter file: what it sets, in the order of the file. A Value that
// holds nil is null.
type Item struct {
	Pos    source.Pos
	Name   string // _benchmark_name, else every parameter as k=v, joined with dashes
	Named  bool   // it has a _benchmark_name
	Params *source.Table
}

// empty reports whether the entry is the base command unchanged.
func (i Item) empty() bool { return !i.Named && len(i.Params.Keys()) == 0 }

// Unchanged is the only point without a parameter file: the base command.
func Unchanged() []Item { return []Item{{Params: source.NewTable(source.Pos{})}} }

// ReadParams reads a parameter file: a list of objects, or an object of objects by their names.
// Errors name the place in the file.
func ReadParams(file string, data []byte) ([]Item, error) {
	if len(data) > mostBytes {
		return nil, source.Errorf(source.Pos{File: file}, "the file has more than %d MiB", mostBytes>>20)
	}
	r := reader{Reader: pyjson.NewBytes(data), file: file}
	items, err := r.items()
	if err == nil {
		err = r.End()
	}
	var ours *source.Error
	switch {
	case errors.As(err, &ours):
		return nil, ours
	case err != nil:
		at := pyjson.PlaceOf(err)
		return nil, source.Errorf(source.Pos{File: file, Line: max(at.Line, 1), Col: max(at.Col, 1)}, "%s", at.Text)
	case len(items) == 0:
		return nil, source.Errorf(source.Pos{File: file, Line: 1, Col: 1}, "the file has no point").
			Hintf("write [{}] for the command as it is")
	}
	return items, distinct(items)
}

// distinct refuses points that cannot be told apart.
func distinct(items []Item) error {
	var c source.Complaints
	seen := map[string]Item{}
	for _, i := range items {
		first, again := seen[i.Name]
		switch {
		case again && i.Named && first.Named:
			c.Addf(i.Pos, "%s %q is taken (%s)", nameKey, i.Name, first.Pos)
		case again:
			c.Add(source.Errorf(i.Pos, "this point is %s once more: both would write the same files", first.Pos).
				Hintf("remove one, or give each a %s", nameKey))
		}
		seen[i.Name] = i
	}
	return c.Err()
}

type reader struct {
	*pyjson.Reader
	file   string
	values int
}

func (r *reader) pos() source.Pos {
	line, col := r.Place()
	return source.Pos{File: r.file, Line: line, Col: col}
}

// items are those of either form.
func (r *reader) items() (items []Item, err error) {
	kind := r.Kind()
	switch pos := r.pos(); kind {
	case pyjson.List:
		err = r.List(func() error {
			item, err := r.item("")
			items = append(items, item)
			return err
		})
	case pyjson.Object:
		err = r.Object(func(key string) error {
			item, err := r.item(key)
			items = append(items, item)
			return err
		})
	case pyjson.Absent:
		err = r.End()
		if err == nil {
			err = source.Errorf(pos, "the file is empty")
		}
	default:
		err = source.Errorf(pos, "parameters are a list of objects, or an object of objects by their names")
	}
	return items, err
}

// item reads one entry; name is its key in an object of objects.
func (r *reader) item(name string) (Item, error) {
	kind := r.Kind()
	i := Item{Pos: r.pos(), Name: name, Named: name != ""}
	if kind != pyjson.Object {
		return i, source.Errorf(i.Pos, "a point is an object of parameters")
	}
	v, err := r.value(0)
	if err != nil {
		return i, err
	}
	t, _ := v.Any.(*source.Table)
	if label := t.Get(nameKey); label != nil {
		i.Name, i.Named = pythonText(label), true
	}
	i.Params = t.Without(nameKey)
	if !i.Named {
		i.Name = label(i.Params)
	}
	return i, nil
}

// label is the name of an entry without one.
func label(params *source.Table) string {
	var parts []string
	for _, key := range params.Keys() {
		parts = append(parts, key+"="+pythonText(params.Get(key)))
	}
	return strings.Join(parts, "-")
}

// value reads what comes next.
func (r *reader) value(depth int) (*source.Value, error) {
	kind := r.Kind()
	v := &source.Value{Pos: r.pos()}
	if r.values++; r.values > mostValues || depth > limit.Depth {
		return nil, source.Errorf(v.Pos, "more than %d values, or more than %d levels", mostValues, limit.Depth)
	}
	var err error
	switch kind {
	case pyjson.Object:
		v.Any, err = r.table(v.Pos, depth)
	case pyjson.List:
		list := []*source.Value{}
		err = r.List(func() error {
			one, err := r.value(depth + 1)
			list = append(list, one)
			return err
		})
		v.Any = list
	case pyjson.Text:
		var text pyjson.Value
		text, err = r.Value()
		v.Any = text.Str
	case pyjson.Null:
		err = r.Skip()
	default:
		v.Any, err = r.word(v.Pos)
	}
	return v, err
}

func (r *reader) table(pos source.Pos, depth int) (*source.Table, error) {
	t := source.NewTable(pos)
	err := r.Object(func(key string) error {
		at := r.pos()
		v, err := r.value(depth + 1)
		switch {
		case err != nil:
			return err
		case t.Has(key):
			return source.Errorf(at, "%q stands twice, first at %s", key, t.PosOf(key))
		}
		t.Set(key, v)
		return nil
	})
	return t, err
}

// word is a number or a truth value. Infinity is the text inf, as Python prints it.
func (r *reader) word(pos source.Pos) (any, error) {
	word, err := r.Word()
	if err != nil {
		return nil, err
	}
	switch word {
	case "true", "false":
		return word == "true", nil
	}
	if n, err := strconv.ParseInt(word, 10, 64); err == nil {
		return n, nil
	}
	f, ok := pyjson.ParseNumber([]byte(word))
	switch {
	case !ok || math.IsNaN(f):
		return nil, source.Errorf(pos, "%s is no value of an option", word)
	case math.IsInf(f, 0):
		return strings.TrimPrefix(strings.ToLower(fmt.Sprint(f)), "+"), nil
	}
	return f, nil
}

// pythonText is what Python's str makes of a value.
func pythonText(v *source.Value) string {
	if s, ok := v.Text(); ok {
		return s
	}
	return sweep.Literal(v)
}

// Folder is the name of the folder of a combination, as vLLM makes it; "" for that of the
// experiment itself. more is what stands behind the points.
func Folder(serve Item, kind string, other Item, more ...string) string {
	var parts []string
	if !serve.empty() {
		parts = append(parts, "SERVE-", serve.Name)
	}
	if !other.empty() {
		parts = append(parts, kind+"-", other.Name)
	}
	name := strings.Join(append(parts, more...), "-")
	name = strings.ReplaceAll(strings.ReplaceAll(name, "/", "_"), "..", "__")
	return strings.Trim(strings.Trim(name, "'"), `"`)
}
