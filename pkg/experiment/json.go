package experiment

import (
	"errors"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/limit"
	"github.com/profllm/profllm/pkg/pyjson"
	"github.com/profllm/profllm/pkg/source"
)

// parseJSON reads one document, in which Python's Infinity may stand.
func parseJSON(name string, data []byte) (*source.Table, error) {
	top := source.Pos{File: name, Line: 1, Col: 1}
	if len(data) > mostBytes {
		return nil, source.Errorf(source.Pos{File: name}, "the file has more than %d MiB; an experiment has some kB", mostBytes>>20)
	}
	r := jsonReader{Reader: pyjson.NewBytes(data), file: name}
	v, err := r.value(0)
	if err == nil {
		err = r.End()
	}
	var ours *source.Error
	switch {
	case errors.As(err, &ours):
		return nil, ours
	case err != nil:
		at := pyjson.PlaceOf(err)
		return nil, source.Errorf(source.Pos{File: name, Line: max(at.Line, 1), Col: max(at.Col, 1)}, "%s", at.Text)
	}
	return document(v, top)
}

type jsonReader struct {
	*pyjson.Reader
	file   string
	values int
}

// value reads the next value.
func (r *jsonReader) value(depth int) (*source.Value, error) {
	kind := r.Kind()
	line, col := r.Place()
	v := &source.Value{Pos: source.Pos{File: r.file, Line: line, Col: col}}
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
			if err == nil && isNull(one) {
				err = source.Errorf(v.Pos, "a list has no empty elements")
			}
			list = append(list, one)
			return err
		})
		v.Any = list
	case pyjson.Text:
		var text pyjson.Value
		text, err = r.Value()
		v.Any = text.Str
	case pyjson.Null:
		v.Any = null{}
		return v, r.Skip()
	default:
		v.Any, err = r.word(v.Pos)
	}
	return v, err
}

func (r *jsonReader) table(pos source.Pos, depth int) (*source.Table, error) {
	t := source.NewTable(pos)
	err := r.Object(func(key string) error {
		line, col := r.Place()
		at := source.Pos{File: r.file, Line: line, Col: col}
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

// word is a number or a truth value.
func (r *jsonReader) word(pos source.Pos) (any, error) {
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
	f, err := strconv.ParseFloat(strings.ReplaceAll(word, "Infinity", "inf"), 64)
	if err != nil {
		return nil, source.Errorf(pos, "%s is not a number that fits here", word)
	}
	return finite(f, pos)
}
