package columns

import (
	"math"
	"strings"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/filter"
)

// A node is a filter, ready to be asked about the rows of one chunk after the other. What it says of
// rows that are not in use means nothing. Several goroutines ask it.
type node interface {
	match(chunk int, out *rowBits, s *scratch)
}

// scratch lends sets of rows to one goroutine.
type scratch struct{ idle []*rowBits }

func (s *scratch) take() *rowBits {
	n := len(s.idle)
	if n == 0 {
		return new(rowBits)
	}
	b := s.idle[n-1]
	s.idle = s.idle[:n-1]
	return b
}

func (s *scratch) give(b *rowBits) { s.idle = append(s.idle, b) }

type (
	always  bool
	allOf   []node
	anyOf   []node
	noneOf  struct{ node }
	codesIn struct {
		codes *codePart
		table []uint8 // by code: 1 if it meets the condition
	}
	setsOf struct{ sets [][]*rowBits }
	span   struct {
		numbers   *numberPart
		low, high float64
	}
	numbersIn struct {
		numbers *numberPart
		set     map[float64]bool
		inside  span
	}
	textsThat struct {
		texts *textPart
		meets func([]byte) bool
	}
	textsWith struct {
		texts *textPart
		part  []byte
	}
)

func (n always) match(_ int, out *rowBits, _ *scratch) { out.fill(bool(n)) }

func (n allOf) match(chunk int, out *rowBits, s *scratch) {
	out.fill(true)
	b := s.take()
	defer s.give(b)
	for _, x := range n {
		x.match(chunk, b, s)
		if out.and(b); out.none() {
			return
		}
	}
}

func (n anyOf) match(chunk int, out *rowBits, s *scratch) {
	out.fill(false)
	b := s.take()
	defer s.give(b)
	for _, x := range n {
		x.match(chunk, b, s)
		out.or(b)
	}
}

func (n noneOf) match(chunk int, out *rowBits, s *scratch) {
	n.node.match(chunk, out, s)
	out.not()
}

func (n codesIn) match(chunk int, out *rowBits, _ *scratch) { n.codes.match(chunk, n.table, out) }

func (n setsOf) match(chunk int, out *rowBits, _ *scratch) {
	out.fill(false)
	for _, set := range n.sets {
		if chunk < len(set) && set[chunk] != nil {
			out.or(set[chunk])
		}
	}
}

func (n span) match(chunk int, out *rowBits, _ *scratch) {
	c := n.numbers.chunk(chunk)
	switch {
	case c == nil || c.sums.high < n.low || c.sums.low > n.high:
		out.fill(false)
	case c.n == size && c.sums.low >= n.low && c.sums.high <= n.high:
		out.fill(true)
	default:
		c.within(n.low, n.high, out)
	}
}

func (n numbersIn) match(chunk int, out *rowBits, s *scratch) {
	if n.inside.match(chunk, out, s); out.none() {
		return
	}
	c := n.numbers.chunk(chunk)
	var found rowBits
	for _, r := range out.list(nil) {
		if n.set[c.x[r]] {
			found.set(uint32(r))
		}
	}
	*out = found
}

func (n textsThat) match(chunk int, out *rowBits, _ *scratch) {
	out.fill(false)
	c := n.texts.chunk(chunk)
	if c == nil {
		return
	}
	for i := range c.used {
		if s := c.at(i); len(s) > 0 && n.meets(s) {
			out.set(uint32(i))
		}
	}
}

func (n textsWith) match(chunk int, out *rowBits, _ *scratch) {
	out.fill(false)
	if c := n.texts.chunk(chunk); c != nil {
		c.lowered().find(n.part, out)
	}
}

// compile makes a filter ready; nil asks nothing.
func (t *Table) compile(f *filter.Filter) node {
	switch {
	case f.Empty():
		return always(true)
	case f.And != nil:
		return allOf(t.compileAll(f.And))
	case f.Or != nil:
		return anyOf(t.compileAll(f.Or))
	case f.Not != nil:
		return noneOf{t.compile(f.Not)}
	case f.Anywhere != "":
		var list anyOf
		for _, c := range t.columns {
			if c.numeric < c.runs {
				list = append(list, c.condition(&filter.Condition{Contains: f.Anywhere})...)
			}
		}
		return list
	}
	c := t.byName[f.Field]
	if c == nil {
		return always(f.Condition.Met(field.Value{}))
	}
	if f.Condition.Met(field.Value{}) { // only has=false is met by no value
		return noneOf{anyOf(c.condition(&filter.Condition{Has: new(true)}))}
	}
	return anyOf(c.condition(&f.Condition))
}

func (t *Table) compileAll(list []filter.Filter) []node {
	nodes := make([]node, len(list))
	for i := range list {
		nodes[i] = t.compile(&list[i])
	}
	return nodes
}

// condition are what finds the values that meet a condition, which no missing value does.
func (c *column) condition(x *filter.Condition) []node {
	c.mu.Lock()
	defer c.mu.Unlock()
	meets := met(x)
	list := c.dictionary(meets)
	if c.numbers != nil && x.Contains == "" && (x.Has == nil || *x.Has) {
		c.numbers.sum()
		in := rangeOf(x)
		in.numbers = c.numbers
		if x.In == nil {
			list = append(list, in)
		} else if set := numbersOf(x.In); len(set) > 0 {
			list = append(list, numbersIn{c.numbers, set, narrowed(in, set)})
		}
	}
	if c.texts != nil && c.texts.n > 0 && rangeOf(x).all() {
		list = append(list, c.texts.condition(x, meets))
	}
	return list
}

// condition finds the texts that meet a condition.
func (p *textPart) condition(x *filter.Condition, meets func(field.Value) bool) node {
	switch {
	case x.Contains != "" && x.In == nil && x.Has == nil:
		p.lower()
		return textsWith{p, []byte(strings.ToLower(x.Contains))}
	case x.Contains == "" && x.In != nil && x.Has == nil:
		in := map[string]bool{}
		for _, v := range x.In {
			if !v.IsNumber() {
				in[v.Text] = true
			}
		}
		return textsThat{p, func(s []byte) bool { return in[string(s)] }}
	}
	return textsThat{p, func(s []byte) bool { return meets(field.OfText(string(s))) }}
}

// dictionary finds the codes whose values meet a condition.
func (c *column) dictionary(meets func(field.Value) bool) []node {
	table, hits := make([]uint8, len(c.values)), 0
	for code, v := range c.values {
		if v.Has() && meets(v) {
			table[code] = 1
			hits++
		}
	}
	if hits == 0 {
		return nil
	}
	if !c.wantSets() {
		return []node{codesIn{&c.codes, table}}
	}
	n := setsOf{}
	for code, ok := range table {
		if ok == 1 {
			n.sets = append(n.sets, c.sets[code])
		}
	}
	return []node{n}
}

// met is Condition.Met, quick for long lists of values.
func met(x *filter.Condition) func(field.Value) bool {
	if len(x.In) < 10 {
		return x.Met
	}
	in := make(map[field.Value]bool, len(x.In))
	for _, v := range x.In {
		in[v] = true
	}
	rest := *x
	rest.In = nil
	return func(v field.Value) bool { return in[v] && rest.Met(v) }
}

// rangeOf are the numbers that a condition leaves, edges included.
func rangeOf(x *filter.Condition) span {
	r := span{low: math.Inf(-1), high: math.Inf(1)}
	if x.Min != nil {
		r.low = x.Min.Number
	}
	if x.Above != nil {
		r.low = max(r.low, math.Nextafter(x.Above.Number, math.Inf(1)))
	}
	if x.Max != nil {
		r.high = x.Max.Number
	}
	if x.Below != nil {
		r.high = min(r.high, math.Nextafter(x.Below.Number, math.Inf(-1)))
	}
	return r
}

// all reports whether the range leaves out no number.
func (n span) all() bool { return math.IsInf(n.low, -1) && math.IsInf(n.high, 1) }

// narrowed is a range without what is not between numbers of a set.
func narrowed(r span, set map[float64]bool) span {
	low, high := math.Inf(1), math.Inf(-1)
	for x := range set {
		low, high = min(low, x), max(high, x)
	}
	r.low, r.high = max(r.low, low), min(r.high, high)
	return r
}

func numbersOf(list []field.Value) map[float64]bool {
	set := map[float64]bool{}
	for _, v := range list {
		if v.IsNumber() {
			set[v.Number] = true
		}
	}
	return set
}

// lower has the texts of all chunks ready in lower case.
func (p *textPart) lower() {
	for _, c := range p.chunks {
		if c != nil {
			c.lower()
		}
	}
}

// lowered are the texts in lower case, after lower.
func (c *texts) lowered() *texts {
	if c.mixed {
		return c.low
	}
	return c
}
