// Package columns keeps the runs of a store in memory as columns, one for each field, and answers
// questions about a million of them while a person waits. It is a query.Engine. It keeps nothing
// on disk: whoever owns the runs fills it at the start, and tells it of every change.
//
//	t := columns.New()
//	t.Put(run.Case.ID, field.Of(run))
//	answer, err := t.Query(ctx, query.Query{Facets: []string{"gpu", "engine"}})
//
// A row is a place in every column. A run that is replaced keeps its row, and the row of a run
// that was deleted goes to the next one, so no change leaves anything to clear away. Columns are
// divided into chunks of 4,096 rows; a chunk in which no run has a value costs nothing.
package columns

import (
	"context"
	"hash/maphash"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/query"
)

// Table is a set of runs. It is safe for concurrent use: questions are answered beside each other,
// and changes wait for those that are under way.
type Table struct {
	mu      sync.RWMutex
	rows    int       // that are in use or free
	runs    int       // that are in use
	live    []rowBits // by chunk: the rows in use
	lives   []int     // by chunk: their number
	free    []uint32  // rows of deleted runs
	ids     *textPart // by row
	rowOf   map[uint64]uint32
	alike   map[string]uint32 // rows of runs whose id has the hash of another run's
	seed    maphash.Seed
	columns []*column // in the order in which they came
	byName  map[string]*column
	fixed   map[*field.Field]*column // of field.All; nil until a run has one
	most    int                      // different numbers, and texts, in the dictionary of a column
	changes atomic.Int64             // so far; it grows only under mu
}

// New is an empty table.
func New() *Table {
	t := &Table{
		ids: &textPart{}, rowOf: map[uint64]uint32{}, alike: map[string]uint32{}, seed: maphash.MakeSeed(),
		byName: map[string]*column{}, fixed: map[*field.Field]*column{}, most: query.MaxDistinct,
	}
	for _, f := range field.All() {
		t.fixed[f] = nil
	}
	return t
}

// Put adds a run, or replaces the one of this id.
func (t *Table) Put(id string, cells []field.Cell) { t.PutAll([]query.Run{{ID: id, Cells: cells}}) }

// PutAll is Put of several runs, of which no question sees a part. It waits only once for the
// questions under way.
func (t *Table) PutAll(runs []query.Run) {
	if len(runs) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changes.Add(1)
	for i := range runs {
		row := t.place(runs[i].ID)
		for _, cell := range runs[i].Cells {
			if c := t.columnOf(cell.Field); cell.Value.Has() && !c.has(row) {
				c.put(row, cell.Value)
			}
		}
	}
}

// place is the row of a run, empty.
func (t *Table) place(id string) uint32 {
	row, had := t.find(id)
	switch {
	case had:
		t.clear(row)
		return row
	case len(t.free) > 0:
		row = t.free[len(t.free)-1]
		t.free = t.free[:len(t.free)-1]
	default:
		row = uint32(t.rows)
		t.rows++
	}
	at := int(row >> shift)
	if at == len(t.live) {
		t.live, t.lives = append(t.live, rowBits{}), append(t.lives, 0)
	}
	t.live[at].set(row & mask)
	t.lives[at]++
	t.runs++
	t.ids.put(row, id)
	hash := maphash.String(t.seed, id)
	if _, taken := t.rowOf[hash]; taken {
		t.alike[id] = row
	} else {
		t.rowOf[hash] = row
	}
	return row
}

// find is the row of a run.
func (t *Table) find(id string) (uint32, bool) {
	row, had := t.rowOf[maphash.String(t.seed, id)]
	if had && string(t.ids.at(row)) == id {
		return row, true
	}
	row, had = t.alike[id]
	return row, had
}

// clear empties a row.
func (t *Table) clear(row uint32) {
	for _, c := range t.columns {
		c.clear(row)
	}
}

// Delete removes a run, if there is one of this id.
func (t *Table) Delete(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	row, had := t.find(id)
	if !had {
		return
	}
	t.changes.Add(1)
	t.clear(row)
	if hash := maphash.String(t.seed, id); t.rowOf[hash] == row {
		delete(t.rowOf, hash)
	}
	delete(t.alike, id)
	t.ids.clear(row)
	t.live[row>>shift].unset(row & mask)
	t.lives[row>>shift]--
	t.runs--
	t.free = append(t.free, row)
}

// columnOf is the column of a field, a new one if no run had it yet.
func (t *Table) columnOf(f *field.Field) *column {
	c, fixed := t.fixed[f]
	if c != nil {
		return c
	}
	if c = t.byName[f.Name]; c == nil {
		c = newColumn(f, t.most)
		t.columns, t.byName[f.Name] = append(t.columns, c), c
	}
	if fixed {
		t.fixed[f] = c
	}
	return c
}

// Changes counts the changes of the table. Questions between two equal counts were answered from the same runs.
func (t *Table) Changes() int64 { return t.changes.Load() }

// Len is the number of runs.
func (t *Table) Len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.runs
}

// Fields are those that any run has, fixed ones in their order, then the others by name.
func (t *Table) Fields(context.Context) ([]*field.Field, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.fields(), nil
}

func (t *Table) fields() []*field.Field {
	byName := map[string]*field.Field{}
	for _, c := range t.columns {
		if c.runs > 0 {
			byName[c.field.Name] = c.known()
		}
	}
	return query.InOrder(maps.Values(byName))
}

// Size is what the table holds in memory, in bytes: columns, dictionaries, what it derived
// from them for the questions so far, and an estimate of its maps.
func (t *Table) Size() int64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	n := int64(len(t.live))*bitsBytes + t.ids.size()
	n += int64(len(t.rowOf))*mapEntry + int64(len(t.alike))*2*mapEntry + int64(cap(t.free))*4
	for _, c := range t.columns {
		n += c.size()
	}
	return n
}

// mapEntry is about what an entry of a map costs: key and value of 16 bytes, at a load of 2/3.
const mapEntry = 24
