package filter

import (
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/records"
)

// Matches reports whether a run with these values meets the filter.
func (f *Filter) Matches(cells []field.Cell) bool {
	switch {
	case f.Empty():
		return true
	case f.And != nil:
		return !slices.ContainsFunc(f.And, func(x Filter) bool { return !x.Matches(cells) })
	case f.Or != nil:
		return slices.ContainsFunc(f.Or, func(x Filter) bool { return x.Matches(cells) })
	case f.Not != nil:
		return !f.Not.Matches(cells)
	case f.Anywhere != "":
		return slices.ContainsFunc(cells, func(c field.Cell) bool { return Contains(c.Value, f.Anywhere) })
	}
	for _, c := range cells {
		if c.Field.Name == f.Field {
			return f.Condition.Met(c.Value)
		}
	}
	return f.Condition.Met(field.Value{})
}

// Met reports whether a value of the condition's field meets it.
func (x *Condition) Met(v field.Value) bool {
	if x.Has != nil && *x.Has != v.Has() {
		return false
	}
	if !v.Has() {
		return x.Has != nil && !x.bounded() && x.In == nil && x.Contains == ""
	}
	if x.In != nil && !slices.Contains(x.In, v) {
		return false
	}
	if x.Contains != "" && !Contains(v, x.Contains) {
		return false
	}
	return !x.bounded() || x.within(v)
}

func (x *Condition) bounded() bool {
	return x.Min != nil || x.Above != nil || x.Max != nil || x.Below != nil
}

// within reports whether a value is a number in the range.
func (x *Condition) within(v field.Value) bool {
	return v.IsNumber() &&
		(x.Min == nil || v.Number >= x.Min.Number) && (x.Above == nil || v.Number > x.Above.Number) &&
		(x.Max == nil || v.Number <= x.Max.Number) && (x.Below == nil || v.Number < x.Below.Number)
}

// Contains reports whether a text value has a text in it, without regard to capitals.
func Contains(v field.Value, s string) bool {
	return v.Has() && !v.IsNumber() && strings.Contains(strings.ToLower(v.Text), strings.ToLower(s))
}

// Choose gives the runs that meet the filter.
func (f *Filter) Choose(runs []records.Run) []records.Run {
	if f.Empty() {
		return runs
	}
	var chosen []records.Run
	for i := range runs {
		if f.Matches(field.Of(&runs[i])) {
			chosen = append(chosen, runs[i])
		}
	}
	return chosen
}
