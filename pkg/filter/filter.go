// Package filter is the language in which runs are chosen: by the dashboard's page, by its
// API and by profllm report --filter. A filter is JSON:
//
//	{"and": [
//	  {"field": "gpu", "in": ["H100", "H200"]},
//	  {"field": "median_ttft_ms", "max": 200},
//	  {"or": [{"field": "suite", "contains": "llama"}, {"text": "nightly"}]},
//	  {"not": {"field": "verdict", "in": ["invalid"]}}
//	]}
//
// A condition on a field names one or more of in, contains, min, above, max, below and has; all
// of them must hold. min and max are inside the range, above and below are not. A run
// without the field meets none of them but has=false. contains and text look for a part of a
// text, never of a number, without regard to capitals; text does so in every field of a run. An
// empty filter, {} or null, is met by every run.
//
//	f, err := filter.Parse(data)
//	if f.Matches(field.Of(run)) { … }
package filter

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/source"
)

// The limits of one filter. A page builds far smaller ones.
const (
	MaxBytes      = 1 << 20
	maxDepth      = 20
	maxConditions = 1000 // on a field or a text
	maxValues     = 10_000
)

// Filter is a condition, a group of filters, or neither, which every run meets.
type Filter struct {
	And []Filter `json:"and,omitzero"` // an empty list is met by every run
	Or  []Filter `json:"or,omitzero"`  // an empty list is met by none
	Not *Filter  `json:"not,omitempty"`
	// Anywhere is looked for in every text of a run.
	Anywhere string `json:"text,omitempty"`
	Condition
}

// Condition is what is asked of one field.
type Condition struct {
	Field    string        `json:"field,omitempty"`
	In       []field.Value `json:"in,omitzero"` // an empty list is met by no run
	Contains string        `json:"contains,omitempty"`
	Min      *field.Value  `json:"min,omitempty"`
	Above    *field.Value  `json:"above,omitempty"`
	Max      *field.Value  `json:"max,omitempty"`
	Below    *field.Value  `json:"below,omitempty"`
	Has      *bool         `json:"has,omitempty"`
}

// Parse reads a filter. It refuses what it does not know, with the place in the filter.
func Parse(data []byte) (*Filter, error) {
	if len(data) > MaxBytes {
		return nil, wrong("", "it has %d bytes, more than %d", len(data), MaxBytes)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	f := &Filter{}
	if err := d.Decode(f); err != nil {
		return nil, unreadable(data, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, wrong("", "text after the filter")
	}
	if err := f.Check(); err != nil {
		return nil, err
	}
	return f, nil
}

// unreadable says what is wrong with the text of a filter.
func unreadable(data []byte, err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return wrong("", "%v, at byte %d of %q", err, syntax.Offset, shown(data))
	}
	text := strings.TrimPrefix(err.Error(), "json: ")
	if name, ok := strings.CutPrefix(text, "unknown field "); ok {
		name = strings.Trim(name, `"`)
		return source.Errorf(source.Pos{File: "filter"}, "unknown key %q", shown([]byte(name))).
			Hintf("%s", source.Suggest(name, keys))
	}
	return wrong("", "%s in %q", text, shown(data))
}

var keys = []string{"and", "or", "not", "text", "field", "in", "contains", "min", "above", "max", "below", "has"}

func shown(data []byte) string {
	const most = 100
	if len(data) > most {
		return string(data[:most]) + "…"
	}
	return string(data)
}

func wrong(place, format string, args ...any) *source.Error {
	return source.Errorf(source.Pos{File: "filter" + place}, format, args...)
}

// Check completes a filter that was not parsed: it finds the fields, and reads numbers and
// times in texts. It is an error if a condition says nothing, or more than one thing.
func (f *Filter) Check() error {
	c := checker{}
	return c.filter(f, "", 0)
}

type checker struct{ conditions, values int }

func (c *checker) filter(f *Filter, place string, depth int) error {
	if depth > maxDepth {
		return wrong(place, "groups lie more than %d deep in each other", maxDepth)
	}
	said := 0
	for _, is := range []bool{f.And != nil, f.Or != nil, f.Not != nil, f.Anywhere != "", f.Field != ""} {
		if is {
			said++
		}
	}
	if said > 1 {
		return wrong(place, "a filter is one of and, or, not, text and field").Hintf(`join them: {"and": [{…}, {…}]}`)
	}
	if f.Field == "" && f.Condition.asks() {
		return wrong(place, "a condition without a field")
	}
	for i := range f.And {
		if err := c.filter(&f.And[i], fmt.Sprintf("%s.and[%d]", place, i), depth+1); err != nil {
			return err
		}
	}
	for i := range f.Or {
		if err := c.filter(&f.Or[i], fmt.Sprintf("%s.or[%d]", place, i), depth+1); err != nil {
			return err
		}
	}
	if f.Not != nil {
		return c.filter(f.Not, place+".not", depth+1)
	}
	if f.Field != "" || f.Anywhere != "" {
		if c.conditions++; c.conditions > maxConditions {
			return wrong(place, "more than %d conditions", maxConditions)
		}
	}
	if f.Field != "" {
		return c.condition(&f.Condition, place)
	}
	return nil
}

func (c *checker) condition(x *Condition, place string) error {
	if c.values += len(x.In); c.values > maxValues {
		return wrong(place, "more than %d values", maxValues)
	}
	f, err := field.Find(x.Field)
	if err != nil {
		var unknown *source.Error
		if errors.As(err, &unknown) {
			unknown.Pos = source.Pos{File: "filter" + place}
		}
		return err
	}
	if x.Field = f.Name; !x.asks() {
		return wrong(place, "nothing is asked of %s", f.Name).Hintf("one of in, contains, min, above, max, below, has")
	}
	for i, v := range x.In {
		if x.In[i], err = read(f, v, place+".in"); err != nil {
			return err
		}
	}
	for key, v := range map[string]*field.Value{"min": x.Min, "above": x.Above, "max": x.Max, "below": x.Below} {
		if v == nil {
			continue
		}
		if *v, err = read(f, *v, place+"."+key); err != nil {
			return err
		}
		if !v.IsNumber() {
			return wrong(place+"."+key, "%q is no number", v.Text)
		}
	}
	return nil
}

// asks reports whether a condition asks anything.
func (x *Condition) asks() bool {
	return x.In != nil || x.Contains != "" || x.Min != nil || x.Above != nil || x.Max != nil || x.Below != nil ||
		x.Has != nil
}

// read is a value as runs have it in a field.
func read(f *field.Field, v field.Value, place string) (field.Value, error) {
	switch {
	case !v.Has():
		return v, wrong(place, "a value is null or empty").Hintf(`{"field": %q, "has": false} finds runs without it`, f.Name)
	case f.Kind == field.Time && !v.IsNumber():
		for _, layout := range []string{time.RFC3339, time.DateTime, time.DateOnly} {
			if t, err := time.Parse(layout, v.Text); err == nil {
				return field.OfTime(t), nil
			}
		}
		return v, wrong(place, "%q is no time", v.Text).Hintf("2026-11-26 or 2026-11-26T14:00:00Z, in UTC")
	case f.Kind == field.Text && !f.Free:
		return field.OfText(v.String()), nil
	}
	return field.Read(v.String()), nil
}

// Empty reports whether every run meets the filter because it asks nothing.
func (f *Filter) Empty() bool {
	return f == nil || f.And == nil && f.Or == nil && f.Not == nil && f.Anywhere == "" && f.Field == ""
}

// Fields are the fields that the filter asks about, sorted.
func (f *Filter) Fields() []string {
	var list []string
	f.walk(func(x *Filter) {
		if x.Field != "" {
			list = append(list, x.Field)
		}
	})
	slices.Sort(list)
	return slices.Compact(list)
}

func (f *Filter) walk(visit func(*Filter)) {
	if f == nil {
		return
	}
	visit(f)
	for i := range f.And {
		f.And[i].walk(visit)
	}
	for i := range f.Or {
		f.Or[i].walk(visit)
	}
	f.Not.walk(visit)
}

// Parts are the filters that all must be met, with the field that each asks about alone;
// "" if it asks about several. The counts of a facet leave its own parts out.
func (f *Filter) Parts() []Part {
	if f.Empty() {
		return nil
	}
	if f.And == nil {
		p := Part{Filter: f}
		if names := f.Fields(); len(names) == 1 && !f.anywhere() {
			p.Field = names[0]
		}
		return []Part{p}
	}
	var list []Part
	for i := range f.And {
		list = append(list, f.And[i].Parts()...)
	}
	return list
}

// A Part of a filter has to be met besides all others.
type Part struct {
	Filter *Filter
	Field  string
}

func (f *Filter) anywhere() bool {
	found := false
	f.walk(func(x *Filter) { found = found || x.Anywhere != "" })
	return found
}

// Without is the filter without the parts that ask about one field alone.
func (f *Filter) Without(name string) *Filter {
	rest := &Filter{And: []Filter{}}
	for _, p := range f.Parts() {
		if p.Field != name {
			rest.And = append(rest.And, *p.Filter)
		}
	}
	return rest
}
