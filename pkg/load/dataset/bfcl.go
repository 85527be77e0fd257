package dataset

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"encoding/json"

	"github.com/profllm/profllm/pkg/pyjson"
	"github.com/profllm/profllm/pkg/pyrand"
)

// bfclFiles are the files that are taken unless others are named.
const bfclFiles = "simple,live_simple,multiple"

// functionCalls makes the requests of the Berkeley Function Calling Leaderboard: the first turn of
// each entry, with its functions as tools.
func (s *Source) functionCalls(d drawing) ([]Request, error) {
	if !s.Chat {
		return nil, errNoChat
	}
	var files [][]pyjson.Value
	for category := range strings.SplitSeq(cmp.Or(s.BfclCategories, bfclFiles), ",") {
		path := filepath.Join(d.path, "BFCL_v3_"+strings.TrimSpace(category)+".json")
		var entries []pyjson.Value
		err := eachObject(path, func(v pyjson.Value) error {
			entries = append(entries, v)
			return nil
		})
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: --dataset-path is a folder with the files of the set, "+
				"--bfcl-categories says which", err)
		}
		if err != nil {
			return nil, err
		}
		files = append(files, entries)
	}
	entries := alternate(files)
	if !s.DisableShuffle {
		pyrand.FromInt(s.Seed).Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
	}
	var requests []Request
	for _, v := range entries {
		if len(requests) == s.NumPrompts {
			break
		}
		if r, ok := called(v); ok {
			r.Output = or(s.hfOutput(), hfSets()[bfclName].output)
			requests = append(requests, r)
		}
	}
	return s.more(requests, s.NumPrompts, s.Seed), nil
}

// alternate takes one element of each list in turn, until all are at their end.
func alternate[T any](lists [][]T) (out []T) {
	for i, more := 0, true; more; i++ {
		more = false
		for _, l := range lists {
			if i < len(l) {
				out, more = append(out, l[i]), true
			}
		}
	}
	return out
}

// called makes the request of an entry; ok is false if the entry has no question or no function.
func called(v pyjson.Value) (r Request, ok bool) {
	question, functions := v.At("question"), v.At("function")
	if question.Kind != pyjson.List || len(question.Items) == 0 {
		return Request{}, false
	}
	first := question.Items[0]
	if first.Kind != pyjson.List || len(first.Items) == 0 {
		return Request{}, false
	}
	list := functions.Items
	if functions.Kind == pyjson.Object {
		list = []pyjson.Value{functions}
	}
	if len(list) == 0 {
		return Request{}, false
	}
	tools := []byte("[")
	for i, f := range list {
		if i > 0 {
			tools = append(tools, ',')
		}
		tools = append(tools, `{"type":"function","function":`...)
		tools = append(appendValue(tools, f, true), '}')
	}
	return Request{
		Prompt: Messages(appendValue(nil, first, false)), Input: Unknown,
		Extra: []Member{{"tools", append(tools, ']')}, {"tool_choice", []byte(`"auto"`)}},
	}, true
}

// schemaTypes are the types of the set's schemas that JSON Schema has not, and its own.
var schemaTypes = map[string]string{"dict": "object", "float": "number", "tuple": "array", "any": "string"}

// appendValue writes a value as JSON, with JSON Schema's types if it is a schema.
func appendValue(dst []byte, v pyjson.Value, schema bool) []byte {
	switch v.Kind {
	case pyjson.Null, pyjson.Absent:
		return append(dst, "null"...)
	case pyjson.Bool:
		return append(dst, v.Str...)
	case pyjson.Number:
		return appendNumber(dst, v.Num)
	case pyjson.Text:
		return appendJSON(dst, v.Str)
	case pyjson.List:
		dst = append(dst, '[')
		for i, item := range v.Items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendValue(dst, item, schema)
		}
		return append(dst, ']')
	}
	dst = append(dst, '{')
	for i, f := range v.Fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendJSON(dst, f.Key), ':')
		if to, ok := schemaTypes[f.Value.Str]; ok && schema && f.Key == "type" && f.Value.Kind == pyjson.Text {
			dst = appendJSON(dst, to)
			continue
		}
		dst = appendValue(dst, f.Value, schema)
	}
	return append(dst, '}')
}

// appendNumber writes a number; what JSON has no number for becomes null.
func appendNumber(dst []byte, x float64) []byte {
	if raw, err := json.Marshal(x); err == nil {
		return append(dst, raw...)
	}
	return append(dst, "null"...)
}
