package columns

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/query"
)

// entry is a row on its way into the answer. Of two rows with different keys, the smaller
// stands first; equal keys say nothing.
type entry struct {
	key uint64
	row uint32
}

// ordering compares rows as query.Rows wants it.
type ordering struct {
	by    []sortKey
	since *column // timestamp, nil if no run has one
	ids   *textPart
}

type sortKey struct {
	*column    // nil if no run has the field
	descending bool
}

func (t *Table) ordering(by []query.Order) *ordering {
	o := &ordering{since: t.byName["timestamp"], ids: t.ids}
	for _, s := range by {
		if c := t.byName[s.Field]; c != nil {
			c.derive(c.order)
			o.by = append(o.by, sortKey{c, s.Descending})
		}
	}
	return o
}

func (o *ordering) compare(a, b entry) int {
	if a.key != b.key {
		return cmp.Compare(a.key, b.key)
	}
	for _, k := range o.by {
		c, both := k.compare(a.row, b.row)
		if k.descending && both {
			c = -c
		}
		if c != 0 {
			return c
		}
	}
	return cmp.Or(
		cmp.Compare(o.began(b.row), o.began(a.row)),
		bytes.Compare(o.ids.at(a.row), o.ids.at(b.row)))
}

// began is the time of a run, 0 if it has none.
func (o *ordering) began(row uint32) float64 {
	if o.since == nil {
		return 0
	}
	return o.since.number(row)
}

func (c *column) number(row uint32) float64 {
	if code := c.codes.at(row); code != 0 {
		return c.values[code].Number
	}
	if c.numbers != nil {
		if x := c.numbers.at(row); x == x {
			return x
		}
	}
	return 0
}

// key is that of a row: of its first value, as far as 64 bits tell.
func (o *ordering) key(row uint32) uint64 {
	if len(o.by) == 0 {
		return ^sortable(o.began(row))
	}
	return o.by[0].key(row)
}

// Keys are numbers below texts below nothing.
const (
	textKey = 0xFFF8 << 48 // above every finite number
	noKey   = math.MaxUint64
)

func (k sortKey) key(row uint32) uint64 {
	key := uint64(noKey)
	if code := k.codes.at(row); code != 0 {
		v := k.values[code]
		if key = sortable(v.Number); !v.IsNumber() {
			key = textKey + uint64(k.rank[code])
			if k.texts != nil {
				key = textKey // as those without a rank
			}
		}
	} else if s := k.texts.at(row); len(s) > 0 {
		if key = textKey; k.numeric == 0 && k.runs == k.texts.n {
			key = prefix(s)
		}
	} else if k.numbers != nil {
		if x := k.numbers.at(row); x == x {
			key = sortable(x)
		}
	}
	if k.descending && key != noKey {
		key = ^key
	}
	return key
}

// prefix are the first bytes of a text, as a key: below that of nothing.
func prefix(s []byte) uint64 {
	var first [8]byte
	copy(first[:], s)
	return min(max(binary.BigEndian.Uint64(first[:]), 1), noKey-1)
}

// sortable is a number's bits in the order of the numbers.
func sortable(x float64) uint64 {
	b := math.Float64bits(x)
	if b>>63 == 1 {
		return ^b
	}
	return b | 1<<63
}

// table are the rows that are wanted.
func (t *Table) table(of *selection, rows query.Rows) *query.Table {
	o := t.ordering(rows.Sort)
	from := min(rows.Offset, of.n)
	to := min(from+rows.Limit, of.n)
	list := o.first(of, from, to)
	a := &query.Table{
		IDs: make([]string, len(list)), Fields: rows.Fields, Columns: make([][]field.Value, len(rows.Fields)),
	}
	for i, e := range list {
		a.IDs[i] = string(t.ids.at(e.row))
	}
	for at, name := range rows.Fields {
		a.Columns[at] = make([]field.Value, len(list))
		if c := t.byName[name]; c != nil {
			for i, e := range list {
				a.Columns[at][i] = c.at(e.row)
			}
		}
	}
	return a
}

// first are the rows at some places of the order.
func (o *ordering) first(of *selection, from, to int) []entry {
	if from == to {
		return nil
	}
	room := min(max(4*to, 1<<14), of.n)
	if 2*to > of.n {
		room = of.n
	}
	list, last := make([]entry, 0, room), entry{}
	bounded := false                         // no row behind last is wanted
	for i := len(of.bits) - 1; i >= 0; i-- { // newest rows first: most orders want them
		for _, r := range of.rows[i] {
			e := entry{row: uint32(i<<shift) + uint32(r)}
			if e.key = o.key(e.row); bounded && o.compare(e, last) > 0 {
				continue
			}
			if len(list) == room {
				o.sort(list, to-1, to)
				list, last, bounded = list[:to], list[to-1], true
				if o.compare(e, last) > 0 {
					continue
				}
			}
			list = append(list, e)
		}
	}
	o.sort(list, from, to)
	return list[from:to]
}

// sort brings the entries at some places to where they belong, by a quicksort that leaves out what lies
// elsewhere.
func (o *ordering) sort(list []entry, from, to int) {
	for depth := 0; len(list) > 16 && from < to; depth++ {
		if from <= 0 && to >= len(list) || depth > 64 {
			break
		}
		at := o.divide(list)
		if to > at {
			o.sort(list[at:], max(from-at, 0), to-at)
		}
		list, to = list[:at], min(to, at)
	}
	if from < to {
		slices.SortFunc(list, o.compare)
	}
}

// divide puts entries before others that stand behind them in the order, and returns where the others
// begin. Neither part is empty.
func (o *ordering) divide(list []entry) int {
	n := len(list)
	a, b, c := list[n/4], list[n/2], list[n-n/4]
	if o.compare(a, b) > 0 {
		a, b = b, a
	}
	if o.compare(b, c) > 0 {
		if b = c; o.compare(a, b) > 0 {
			b = a
		}
	}
	i, j := 0, n-1
	for {
		for o.compare(list[i], b) < 0 {
			i++
		}
		for o.compare(list[j], b) > 0 {
			j--
		}
		if i >= j {
			return max(i, 1)
		}
		list[i], list[j] = list[j], list[i]
		i++
		j--
	}
}
