package store

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"unicode"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/filter"
)

// expr is a part of a query with the values that it is bound to. Texts of users are always bound;
// names of columns are those of this release.
type expr struct {
	text string
	args []any
}

func raw(text string, args ...any) expr { return expr{text, args} }

// format puts expressions where a text has %s.
func format(text string, parts ...expr) expr {
	var e expr
	words := make([]any, len(parts))
	for i, p := range parts {
		words[i] = p.text
		e.args = append(e.args, p.args...)
	}
	e.text = fmt.Sprintf(text, words...)
	return e
}

func joined(parts []expr, between string) expr {
	var e expr
	words := make([]string, len(parts))
	for i, p := range parts {
		words[i] = p.text
		e.args = append(e.args, p.args...)
	}
	e.text = strings.Join(words, between)
	return e
}

// nested is joined in parentheses. SQLite takes an expression that is 1,000 deep, and each part lies deeper than the
// one behind it, so many are joined by halves.
func nested(parts []expr, between string) expr {
	const few = 50
	if half := len(parts) / 2; half >= few {
		parts = []expr{nested(parts[:half], between), nested(parts[half:], between)}
	}
	return format("(%s)", joined(parts, between))
}

// value is how a field of a run is read: at most one of both is not NULL.
type value struct {
	number, text         expr
	hasNumbers, hasTexts bool // some run may have one
	isTime               bool // number is an integer
}

// value reads a field of the table of runs, which is called b.
func (s *Store) value(name string, seen used) value {
	v := value{number: raw(s.sql.null(true)), text: raw(s.sql.null(false))}
	x := seen[name]
	if x == nil {
		return v
	}
	v.hasNumbers, v.hasTexts = x.numbers, x.texts
	number, text := s.sql.extra(label(name))
	c, fixed := known().column(name)
	switch {
	case fixed && c.field.Kind == field.Text:
		v.hasNumbers, v.hasTexts = false, true
		text = raw("b." + quoted(c.name))
	case fixed:
		number, v.isTime = raw("b."+quoted(c.name)), c.field.Kind == field.Time
	}
	if v.hasNumbers {
		v.number = number
	}
	if v.hasTexts {
		v.text = text
	}
	return v
}

// has is whether a run has a value.
func (v value) has() expr {
	switch {
	case v.hasNumbers && v.hasTexts:
		return format("(%s IS NOT NULL OR %s IS NOT NULL)", v.number, v.text)
	case v.hasNumbers:
		return format("%s IS NOT NULL", v.number)
	case v.hasTexts:
		return format("%s IS NOT NULL", v.text)
	}
	return raw("FALSE")
}

// where is a filter as a condition of rows. It may be NULL in place of false, so that databases use their
// indexes: that is the same below and and or. Below not, no part is NULL.
func (s *Store) where(f *filter.Filter, seen used) expr { return s.condition(f, seen, "(%s)") }

// condition is a filter; answered puts the conditions on one field into their place.
func (s *Store) condition(f *filter.Filter, seen used, answered string) expr {
	group := func(list []filter.Filter, between, empty string) expr {
		if len(list) == 0 {
			return raw(empty)
		}
		parts := make([]expr, len(list))
		for i := range list {
			parts[i] = s.condition(&list[i], seen, answered)
		}
		return nested(parts, between)
	}
	switch {
	case f.Empty():
		return raw("TRUE")
	case f.And != nil:
		return group(f.And, " AND ", "TRUE")
	case f.Or != nil:
		return group(f.Or, " OR ", "FALSE")
	case f.Not != nil:
		return format("(NOT %s)", s.condition(f.Not, seen, "((%s) IS TRUE)"))
	case f.Anywhere != "":
		return format("EXISTS (SELECT 1 FROM run_texts x WHERE x.seq = b.seq AND %s)",
			s.sql.part(raw("x.texts"), sought(f.Anywhere)))
	}
	return format(answered, joined(s.asked(&f.Condition, s.value(f.Field, seen)), " AND "))
}

// sought is a text as the table run_texts has it.
func sought(text string) string { return strings.ToLower(harmless(text)) }

// asked is what a condition asks of a field: all of it must hold.
func (s *Store) asked(x *filter.Condition, v value) []expr {
	var all []expr
	if x.Has != nil {
		all = append(all, format(map[bool]string{true: "%s", false: "NOT %s"}[*x.Has], v.has()))
	}
	if x.In != nil {
		all = append(all, v.in(x.In))
	}
	if x.Contains != "" {
		all = append(all, raw("FALSE"))
		if v.hasTexts {
			all[len(all)-1] = s.sql.contains(v.text, sought(x.Contains))
		}
	}
	for _, b := range []struct {
		than  *field.Value
		op    string
		whole func(float64) float64
	}{{x.Min, ">=", math.Ceil}, {x.Above, ">", math.Floor}, {x.Max, "<=", math.Floor}, {x.Below, "<", math.Ceil}} {
		if b.than != nil {
			all = append(all, v.compared(b.op, b.than.Number, b.whole))
		}
	}
	return all
}

// compared holds numbers against a bound; times are compared as integers.
func (v value) compared(op string, bound float64, whole func(float64) float64) expr {
	switch {
	case !v.hasNumbers:
		return raw("FALSE")
	case v.isTime && math.Abs(bound) < 1<<53:
		return format("%s "+op+" %s", v.number, raw("?", int64(whole(bound))))
	case v.isTime && (op[0] == '>') == (bound < 0): // no time is so far away
		return format("%s IS NOT NULL", v.number)
	case v.isTime:
		return raw("FALSE")
	}
	return format("%s "+op+" %s", v.number, raw("?", bound))
}

// in is whether a value is among some.
func (v value) in(list []field.Value) expr {
	var numbers, texts []any
	for _, x := range list {
		switch {
		case x.IsNumber() && v.isTime:
			if x.Number == math.Trunc(x.Number) && math.Abs(x.Number) < 1<<53 {
				numbers = append(numbers, int64(x.Number))
			}
		case x.IsNumber():
			numbers = append(numbers, x.Number)
		case x.Has():
			texts = append(texts, harmless(x.Text))
		}
	}
	var parts []expr
	if len(numbers) > 0 && v.hasNumbers {
		parts = append(parts, format("%s IN (%s)", v.number, raw(marks(len(numbers)), numbers...)))
	}
	if len(texts) > 0 && v.hasTexts {
		parts = append(parts, format("%s IN (%s)", v.text, raw(marks(len(texts)), texts...)))
	}
	if parts == nil {
		return raw("FALSE")
	}
	return format("(%s)", joined(parts, " OR "))
}

// order is how rows are sorted by a field.
func (v value) order(descending bool) []expr {
	if !v.hasNumbers && !v.hasTexts {
		return nil
	}
	way := ""
	if descending {
		way = " DESC"
	}
	rank := "CASE WHEN %s IS NOT NULL THEN 0 WHEN %s IS NOT NULL THEN 1 ELSE 2 END"
	first, second := v.number, v.text
	if descending {
		first, second = second, first
	}
	list := []expr{format(rank, first, second)}
	if v.hasNumbers {
		list = append(list, format("%s"+way, v.number))
	}
	if v.hasTexts {
		list = append(list, format("%s"+way, v.text))
	}
	return list
}

// letters are those that strings.ToLower changes and ASCII does not have, and what it makes of them. The
// databases know other rules: final sigma, and İ as two characters.
var letters = sync.OnceValue(func() [2]string {
	var large, small strings.Builder
	for r := rune(0x80); r <= unicode.MaxRune; r++ {
		if l := unicode.ToLower(r); l != r {
			large.WriteRune(r)
			small.WriteRune(l)
		}
	}
	return [2]string{large.String(), small.String()}
})

// hit is a text in which another is looked for, in small letters.
func hit(text, small string) bool { return strings.Contains(strings.ToLower(text), small) }
