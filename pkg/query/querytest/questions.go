package querytest

import (
	"strings"
	"unicode/utf8"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/filter"
	"github.com/profllm/profllm/pkg/query"
)

// names are the fields that questions are about.
func names() []string {
	list := []string{"run_id", never, "extra_env_vars.NEVER"}
	for _, g := range generators {
		list = append(list, g.field)
	}
	return list
}

// question is a random question about runs.
func (m *maker) question(runs []query.Run) query.Query {
	all := names()
	q := query.Query{Filter: m.top(runs), Within: m.chance(0.2)}
	for range m.IntN(5) {
		q.Facets = append(q.Facets, pick(m, all))
	}
	if asked := q.Filter.Fields(); len(asked) > 0 {
		q.Facets = append(q.Facets, pick(m, asked))
	}
	for range m.IntN(4) {
		q.Metrics = append(q.Metrics, pick(m, all))
	}
	if m.chance(0.6) {
		q.Rows = m.rows(len(runs))
	}
	return q
}

func (m *maker) rows(runs int) *query.Rows {
	r := &query.Rows{Fields: []string{}, Limit: m.IntN(40)}
	if m.chance(0.3) {
		r.Limit = m.IntN(query.MaxRows + 1)
	}
	if m.chance(0.4) {
		r.Offset = m.IntN(runs + 10)
	}
	for range m.IntN(4) {
		r.Fields = append(r.Fields, pick(m, names()))
	}
	for range m.IntN(4) {
		r.Sort = append(r.Sort, query.Order{Field: pick(m, names()), Descending: m.chance(0.5)})
	}
	return r
}

// top is a filter as pages build it, or any other; nil asks nothing.
func (m *maker) top(runs []query.Run) *filter.Filter {
	if m.chance(0.1) {
		return nil
	}
	if m.chance(0.5) {
		f := &filter.Filter{And: []filter.Filter{}}
		for range m.IntN(5) {
			f.And = append(f.And, *m.filter(runs, 2))
		}
		return f
	}
	return m.filter(runs, 0)
}

func (m *maker) filter(runs []query.Run, depth int) *filter.Filter {
	if depth < 3 && m.chance(0.4) {
		var list []filter.Filter
		for range m.IntN(4) {
			list = append(list, *m.filter(runs, depth+1))
		}
		if list == nil {
			list = []filter.Filter{}
		}
		switch m.IntN(3) {
		case 0:
			return &filter.Filter{And: list}
		case 1:
			return &filter.Filter{Or: list}
		}
		return &filter.Filter{Not: m.filter(runs, depth+1)}
	}
	if m.chance(0.1) {
		if part := m.part(m.value(runs, pick(m, names()))); part != "" {
			return &filter.Filter{Anywhere: part}
		}
	}
	return &filter.Filter{Condition: m.condition(runs)}
}

// value is one that some run has in a field, or one that none has.
func (m *maker) value(runs []query.Run, name string) field.Value {
	for range 5 {
		if len(runs) > 0 {
			if r := pick(m, runs); r.Of(name).Has() {
				return r.Of(name)
			}
		}
	}
	return field.OfText(pick(m, words))
}

// part is a piece of a text, in other capitals now and then.
func (m *maker) part(v field.Value) string {
	letters := []rune(v.String())
	if len(letters) == 0 || !utf8.ValidString(v.String()) {
		return ""
	}
	from := m.IntN(len(letters))
	to := from + 1 + m.IntN(min(6, len(letters)-from))
	s := string(letters[from:to])
	switch m.IntN(4) {
	case 0:
		return strings.ToUpper(s)
	case 1:
		return strings.ToLower(s)
	}
	return s
}

// condition asks one thing of a field, now and then several.
func (m *maker) condition(runs []query.Run) filter.Condition {
	for {
		c := filter.Condition{Field: pick(m, names())}
		for again := true; again; again = m.chance(0.15) {
			m.ask(&c, runs)
		}
		f := filter.Filter{Condition: c}
		if f.Check() == nil {
			return c
		}
	}
}

func (m *maker) ask(c *filter.Condition, runs []query.Run) {
	v := m.value(runs, c.Field)
	switch m.IntN(8) {
	case 0, 1, 2:
		c.In = []field.Value{v}
		for range m.IntN(4) {
			c.In = append(c.In, m.value(runs, c.Field))
		}
		if m.chance(0.05) {
			c.In = []field.Value{}
		}
	case 3:
		c.Contains = m.part(v)
	case 4:
		c.Has = new(m.chance(0.5))
	case 5:
		c.Min = m.bound(v)
	case 6:
		c.Max = m.bound(v)
	default:
		if m.chance(0.5) {
			c.Above = m.bound(v)
		} else {
			c.Below = m.bound(v)
		}
	}
}

// far are bounds beyond all times and all integers that a float64 counts exactly, such as nanoseconds in place
// of milliseconds.
var far = []float64{1 << 53, 1767225600e9, 1e300}

// farQuestions ask for times before and after bounds that are far away, and for those that are not.
func farQuestions() (list []query.Query) {
	for _, far := range far {
		for _, number := range []float64{far, -far} {
			b := new(field.OfNumber(number))
			for _, c := range []filter.Condition{{Min: b}, {Max: b}, {Above: b}, {Below: b}} {
				c.Field = "timestamp"
				f := &filter.Filter{Condition: c}
				list = append(list, query.Query{Filter: f}, query.Query{Filter: &filter.Filter{Not: f}})
			}
		}
	}
	return list
}

// bound is a number that some run has, one beside it, or one that is far away.
func (m *maker) bound(v field.Value) *field.Value {
	if !v.IsNumber() {
		v = field.OfNumber(m.NormFloat64() * 100)
	}
	if m.chance(0.3) {
		v = field.OfNumber(v.Number * (0.5 + m.Float64()))
	}
	if m.chance(0.1) {
		v = field.OfNumber(pick(m, far) * pick(m, []float64{1, -1}))
	}
	return &v
}
