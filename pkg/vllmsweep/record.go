package vllmsweep

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/pyjson"
	"github.com/profllm/profllm/pkg/source"
)

// A record is the result of one run: an object of JSON whose keys keep their order, and whose
// numbers are as they were written.
type record []field

type field struct{ key, text string }

// parseRecord reads a result file.
func parseRecord(data []byte) (record, error) {
	r := pyjson.NewBytes(data)
	if r.Kind() != pyjson.Object {
		return nil, r.Errorf("a result is an object")
	}
	var rec record
	err := r.Object(func(key string) error {
		raw, err := r.Raw()
		rec.set(key, string(bytes.TrimSpace(raw)))
		return err
	})
	if err == nil {
		err = r.End()
	}
	return rec, err
}

// set replaces a key, or adds one.
func (r *record) set(key, text string) {
	for i := range *r {
		if (*r)[i].key == key {
			(*r)[i].text = text
			return
		}
	}
	*r = append(*r, field{key, text})
}

// of marks a result with its run and with what its points set, as vLLM does.
func (r *record) of(p *Point, run int) {
	r.set("run_number", fmt.Sprint(run))
	for _, item := range []Item{p.Server.Item, p.Item} {
		if item.Named {
			r.set(nameKey, quoted(item.Name))
		}
		for _, key := range item.Params.Keys() {
			r.set(key, jsonText(item.Params.Get(key)))
		}
	}
}

// indented writes JSON as json.dump(…, indent=4) does.
func indented(b *strings.Builder, text, margin string) error {
	r := pyjson.NewBytes([]byte(text))
	inner := margin + "    "
	first := true
	open := func(c string) {
		if first {
			b.WriteString(c)
		} else {
			b.WriteByte(',')
		}
		b.WriteString("\n" + inner)
		first = false
	}
	end := func(empty, c string) {
		if first {
			b.WriteString(empty)
			return
		}
		b.WriteString("\n" + margin + c)
	}
	switch r.Kind() {
	case pyjson.Object:
		err := r.Object(func(key string) error {
			raw, err := r.Raw()
			if err != nil {
				return err
			}
			open("{")
			b.WriteString(quoted(key) + ": ")
			return indented(b, string(raw), inner)
		})
		end("{}", "}")
		return err
	case pyjson.List:
		err := r.List(func() error {
			raw, err := r.Raw()
			if err != nil {
				return err
			}
			open("[")
			return indented(b, string(raw), inner)
		})
		end("[]", "]")
		return err
	}
	b.WriteString(strings.TrimSpace(text))
	return nil
}

// json is the record as vLLM writes it.
func (r record) json(margin string) (string, error) {
	var b strings.Builder
	b.WriteString("{")
	for i, f := range r {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n" + margin + "    " + quoted(f.key) + ": ")
		if err := indented(&b, f.text, margin+"    "); err != nil {
			return "", err
		}
	}
	b.WriteString("\n" + margin + "}")
	return b.String(), nil
}

// summaryJSON is the list of a combination's runs.
func summaryJSON(list []record) (string, error) {
	var b strings.Builder
	b.WriteByte('[')
	for i, r := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		text, err := r.json("    ")
		if err != nil {
			return "", err
		}
		b.WriteString("\n    " + text)
	}
	b.WriteString("\n]")
	return b.String(), nil
}

// summaryCSV is the table of all runs: a column for each key, an empty cell for null.
func summaryCSV(list []record) (string, error) {
	var keys []string
	for _, r := range list {
		for _, f := range r {
			if !slices.Contains(keys, f.key) {
				keys = append(keys, f.key)
			}
		}
	}
	var b strings.Builder
	w := csv.NewWriter(&b)
	_ = w.Write(append([]string{""}, keys...)) // Error reports it
	for i, r := range list {
		row := make([]string, len(keys)+1)
		row[0] = fmt.Sprint(i)
		for _, f := range r {
			row[1+slices.Index(keys, f.key)] = cell(f.text)
		}
		_ = w.Write(row)
	}
	w.Flush()
	return b.String(), w.Error()
}

// cell is a value as pandas writes it.
func cell(text string) string {
	in := reader{Reader: pyjson.NewBytes([]byte(text))}
	switch in.Kind() {
	case pyjson.Null:
		return ""
	case pyjson.Text, pyjson.List, pyjson.Object:
		if v, err := in.value(0); err == nil { // else a list holds NaN
			return pythonText(v)
		}
	}
	switch text {
	case "true":
		return "True"
	case "false":
		return "False"
	case "NaN":
		return ""
	}
	return text
}

// overrides is what a point sets as an object of JSON.
func overrides(i Item) string {
	t := source.NewTable(i.Pos)
	if i.Named {
		t.Set(nameKey, &source.Value{Any: i.Name})
	}
	return jsonText(&source.Value{Any: source.Merge(t, i.Params)})
}
