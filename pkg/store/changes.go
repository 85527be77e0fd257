package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/profllm/profllm/pkg/field"
)

// Change is a run that was stored or replaced, or one that was removed.
type Change struct {
	ID    string
	Gone  bool
	Cells []field.Cell
}

// Last is the number of the last change. Questions between two equal numbers were answered from the same runs.
func (s *Store) Last(ctx context.Context) (n int64, err error) {
	err = s.read.QueryRowContext(ctx, lastChange).Scan(&n)
	return n, err
}

const lastChange = "SELECT value FROM store_numbers WHERE name = 'seq'"

// Changes calls visit for what changed behind a number, and returns the number of the last change; 0
// gives every run. Whoever keeps the runs elsewhere, such as in memory, follows the store so, whichever
// program changes it.
func (s *Store) Changes(ctx context.Context, since int64, visit func(Change) error) (last int64, err error) {
	return last, s.ask(ctx, func(x *asking) error {
		last = x.seq
		if x.seq == since {
			return nil
		}
		err := x.rows(ctx, func(r *sql.Rows) error {
			c := Change{Gone: true}
			if err := r.Scan(&c.ID); err != nil {
				return err
			}
			return visit(c)
		}, raw("SELECT id FROM removed_runs WHERE seq > ? ORDER BY seq", since))
		if err != nil {
			return err
		}
		// A run that was removed and stored again comes behind its removal.
		read := newCellReader(x.seen)
		return x.rows(ctx, func(r *sql.Rows) error {
			c, err := read.run(r)
			if err != nil {
				return err
			}
			return visit(c)
		}, raw("SELECT "+read.columns()+" FROM benchmark_runs b WHERE b.seq > ? ORDER BY b.seq", since))
	})
}

// cellReader reads the fields of whole runs: from the columns that any run has a value in, and from
// extra.
type cellReader struct {
	fixed  []column
	texts  []sql.NullString  // of the fixed fields that are texts
	nums   []sql.NullFloat64 // of the others
	id     string
	extra  sql.NullString
	into   []any
	byName map[string]*field.Field
	seen   used
}

func newCellReader(seen used) *cellReader {
	r := &cellReader{seen: seen, byName: map[string]*field.Field{}}
	for _, c := range known().columns {
		if x := seen[c.field.Name]; x != nil && (x.numbers || c.field.Kind == field.Text) {
			r.fixed = append(r.fixed, c)
		}
	}
	r.texts, r.nums = make([]sql.NullString, len(r.fixed)), make([]sql.NullFloat64, len(r.fixed))
	r.into = append(r.into, &r.id, &r.extra)
	for i, c := range r.fixed {
		if c.field.Kind == field.Text {
			r.into = append(r.into, &r.texts[i])
		} else {
			r.into = append(r.into, &r.nums[i])
		}
	}
	return r
}

func (r *cellReader) columns() string {
	names := []string{"b.id", "b.extra"}
	for _, c := range r.fixed {
		names = append(names, "b."+quoted(c.name))
	}
	return strings.Join(names, ", ")
}

func (r *cellReader) run(rows *sql.Rows) (Change, error) {
	if err := rows.Scan(r.into...); err != nil {
		return Change{}, err
	}
	c := Change{ID: r.id, Cells: make([]field.Cell, 0, 64)}
	for i, x := range r.fixed {
		switch {
		case r.texts[i].Valid:
			c.Cells = append(c.Cells, field.Cell{Field: x.field, Value: field.OfText(r.texts[i].String)})
		case r.nums[i].Valid:
			c.Cells = append(c.Cells, field.Cell{Field: x.field, Value: field.OfNumber(r.nums[i].Float64)})
		}
	}
	if !r.extra.Valid || r.extra.String == "" {
		return c, nil
	}
	var extra map[string]field.Value
	if err := json.Unmarshal([]byte(r.extra.String), &extra); err != nil {
		return c, fmt.Errorf("run %s: its column extra: %w", r.id, err)
	}
	for key, v := range extra {
		c.Cells = append(c.Cells, field.Cell{Field: r.field(key), Value: v})
	}
	return c, nil
}

// field is the field of a key of extra.
func (r *cellReader) field(key string) *field.Field {
	f := r.byName[key]
	if f == nil {
		name := unlabel(key)
		x := r.seen[name]
		if x == nil {
			x = &usedField{}
		}
		f = x.fieldOf(name)
		r.byName[key] = f
	}
	return f
}

var unlabels = strings.NewReplacer("%25", "%", "%22", `"`, "%5C", `\`, "%00", "\x00")

// unlabel is the field of a label.
func unlabel(key string) string { return unlabels.Replace(key) }
