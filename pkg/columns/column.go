package columns

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/profllm/profllm/pkg/field"
)

// column has the values of one field. A value is in its dictionary, and the row has the code of the
// value; or among the numbers or texts of which there are too many different ones for that.
type column struct {
	field   *field.Field
	runs    int // with a value
	numeric int // with a number
	most    int // different numbers, and texts, in the dictionary

	values   []field.Value // by code; the first is none
	totals   []int         // runs by code; the first counts nothing
	spare    []uint16      // codes that no run has
	last     uint16        // the code that was put last: neighbours often have the same
	byNumber map[float64]uint16
	byText   map[string]uint16
	codes    codePart

	numbers *numberPart // nil while the dictionary has them
	texts   *textPart

	// mu guards what questions derive from the above while they only read the table: sets, rank,
	// and the caches of the parts.
	mu   sync.Mutex
	sets [][]*rowBits // by code and chunk: the rows that have it; nil until wanted
	// inOrder are the codes by the order of their values, and rank their places; nil until wanted.
	inOrder []uint16
	rank    []uint32
}

func newColumn(f *field.Field, most int) *column {
	return &column{
		field: f, most: most, values: make([]field.Value, 1), totals: make([]int, 1),
		byNumber: map[float64]uint16{}, byText: map[string]uint16{},
	}
}

// known is the field as runs have it: a free field is one of numbers if it has any.
func (c *column) known() *field.Field {
	if !c.field.Free {
		return c.field
	}
	f := *c.field
	if f.Kind = field.Text; c.numeric > 0 {
		f.Kind = field.Number
	}
	return &f
}

// has reports whether a row has a value.
func (c *column) has(row uint32) bool {
	if c.codes.at(row) != 0 || len(c.texts.at(row)) > 0 {
		return true
	}
	if c.numbers == nil {
		return false
	}
	x := c.numbers.at(row)
	return x == x
}

// at is the value of a row.
func (c *column) at(row uint32) field.Value {
	if code := c.codes.at(row); code != 0 {
		return c.values[code]
	}
	if s := c.texts.at(row); len(s) > 0 {
		return field.OfText(string(s))
	}
	if c.numbers != nil {
		return field.OfNumber(c.numbers.at(row))
	}
	return field.Value{}
}

// put sets the value of a row that has none.
func (c *column) put(row uint32, v field.Value) {
	c.runs++
	if v.IsNumber() {
		c.numeric++
		if c.numbers == nil && !c.fits(v) {
			c.spill(true)
		}
		if c.numbers != nil {
			c.numbers.put(row, v.Number)
			return
		}
	} else {
		if c.texts == nil && !c.fits(v) {
			c.spill(false)
		}
		if c.texts != nil {
			c.texts.put(row, v.Text)
			return
		}
	}
	code := c.code(v)
	c.codes.put(row, code)
	c.totals[code]++
	if c.sets != nil {
		c.setOf(code, int(row>>shift)).set(row & mask)
	}
}

// fits reports whether the dictionary has a value, or room for it.
func (c *column) fits(v field.Value) bool {
	if c.values[c.last] == v {
		return true
	}
	if v.IsNumber() {
		_, had := c.byNumber[v.Number]
		return had || len(c.byNumber) < c.most
	}
	_, had := c.byText[v.Text]
	return had || len(c.byText) < c.most
}

// code is that of a value, a new one if it has none.
func (c *column) code(v field.Value) uint16 {
	if c.values[c.last] == v {
		return c.last
	}
	var had bool
	if v.IsNumber() {
		c.last, had = c.byNumber[v.Number]
	} else {
		c.last, had = c.byText[v.Text]
	}
	if had {
		return c.last
	}
	v.Text = strings.Clone(v.Text) // it may be a part of something large
	code := uint16(len(c.values))
	if n := len(c.spare); n > 0 {
		code, c.spare = c.spare[n-1], c.spare[:n-1]
		c.values[code] = v
	} else {
		c.values, c.totals = append(c.values, v), append(c.totals, 0)
		if c.sets != nil {
			c.sets = append(c.sets, nil)
		}
	}
	if c.last = code; v.IsNumber() {
		c.byNumber[v.Number] = code
	} else {
		c.byText[v.Text] = code
	}
	if c.inOrder, c.rank = nil, nil; len(c.values) > mostSets {
		c.sets = nil
	}
	return code
}

// clear empties a row.
func (c *column) clear(row uint32) {
	switch code := c.codes.at(row); {
	case code != 0:
		if c.values[code].IsNumber() {
			c.numeric--
		}
		if c.sets != nil {
			c.setOf(code, int(row>>shift)).unset(row & mask)
		}
		c.codes.put(row, 0)
		if c.totals[code]--; c.totals[code] == 0 {
			c.forget(code)
		}
	case len(c.texts.at(row)) > 0:
		c.texts.clear(row)
	case c.numbers != nil && c.has(row):
		c.numbers.clear(row)
		c.numeric--
	default:
		return
	}
	c.runs--
}

// forget takes a value that no row has out of the dictionary.
func (c *column) forget(code uint16) {
	if v := c.values[code]; v.IsNumber() {
		delete(c.byNumber, v.Number)
	} else {
		delete(c.byText, v.Text)
	}
	c.values[code], c.spare = field.Value{}, append(c.spare, code)
	c.inOrder, c.rank = nil, nil
}

// spill moves the numbers out of the dictionary, or the texts.
func (c *column) spill(numbers bool) {
	for i := range c.codes.chunks() {
		if !c.codes.has(i) {
			continue
		}
		for row := uint32(i << shift); row < uint32((i+1)<<shift); row++ {
			v := c.values[c.codes.at(row)]
			if !v.Has() || v.IsNumber() != numbers {
				continue
			}
			c.codes.put(row, 0)
			if numbers {
				c.numbers = orNew(c.numbers)
				c.numbers.put(row, v.Number)
			} else {
				c.texts = orNew(c.texts)
				c.texts.put(row, v.Text)
			}
		}
	}
	for code, v := range c.values {
		if v.Has() && v.IsNumber() == numbers {
			c.totals[code] = 0
			c.forget(uint16(code))
		}
	}
	c.codes.drop()
	c.sets = nil
}

func orNew[T any](p *T) *T {
	if p == nil {
		p = new(T)
	}
	return p
}

// mostSets is how many codes, with that of none, have a set of rows each.
const mostSets = 33

// derive calls what derives caches of the column, one at a time.
func (c *column) derive(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
}

// wantSets builds the sets of rows, unless there are too many codes.
func (c *column) wantSets() bool {
	if len(c.values) > mostSets {
		return false
	}
	if c.sets != nil {
		return true
	}
	c.sets = make([][]*rowBits, len(c.values))
	for i := range c.codes.chunks() {
		if !c.codes.has(i) {
			continue
		}
		for row := range uint32(size) {
			if code := c.codes.at(uint32(i)<<shift + row); code != 0 {
				c.setOf(code, i).set(row)
			}
		}
	}
	return true
}

// setOf is the rows of a chunk that have a code.
func (c *column) setOf(code uint16, chunk int) *rowBits {
	c.sets[code] = ensure(c.sets[code], chunk)
	return c.sets[code][chunk]
}

// order ranks the values of the dictionary.
func (c *column) order() {
	if c.inOrder != nil {
		return
	}
	c.inOrder, c.rank = make([]uint16, 0, len(c.values)), make([]uint32, len(c.values))
	for code, v := range c.values {
		if v.Has() {
			c.inOrder = append(c.inOrder, uint16(code))
		}
	}
	slices.SortFunc(c.inOrder, func(a, b uint16) int { return field.Compare(c.values[a], c.values[b]) })
	for at, code := range c.inOrder {
		c.rank[code] = uint32(at)
	}
}

// compare orders the values of two rows; more reports whether both have one. order was called.
func (c *column) compare(a, b uint32) (order int, both bool) {
	x, y := c.codes.at(a), c.codes.at(b)
	if x != 0 && y != 0 {
		return cmp.Compare(c.rank[x], c.rank[y]), true
	}
	if s, t := c.texts.at(a), c.texts.at(b); len(s) > 0 && len(t) > 0 {
		return bytes.Compare(s, t), true
	}
	if c.numbers != nil {
		v, w := c.numbers.at(a), c.numbers.at(b)
		if v == v && w == w {
			return cmp.Compare(v, w), true
		}
	}
	v, w := c.at(a), c.at(b)
	return field.Compare(v, w), v.Has() && w.Has()
}

// entryBytes is about what an entry of a dictionary costs: its value, total and code, and a map's
// entry.
const entryBytes = 40 + 8 + 2 + 2*mapEntry

func (c *column) size() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := int64(512) + c.codes.size() + c.numbers.size() + c.texts.size() + int64(len(c.values))*entryBytes
	for _, v := range c.values {
		n += int64(len(v.Text))
	}
	for _, list := range c.sets {
		for _, s := range list {
			if n += 8; s != nil {
				n += bitsBytes
			}
		}
	}
	return n + int64(len(c.inOrder))*2 + int64(len(c.rank))*4
}
