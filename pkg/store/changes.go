package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/query"
)

// Last is the number of the last change of the store's runs. It grows with each run that is
// stored, updated or removed, by whatever program.
func (s *Store) Last(ctx context.Context) (n int64, err error) {
	err = s.read.QueryRowContext(ctx, "SELECT value FROM store_numbers WHERE name = 'seq'").Scan(&n)
	return n, err
}

// Changes calls put with each run that was stored or updated after a change, and removed with each that
// was removed, on one state of the store, and returns the number of its last change. After
// 0, these are all runs. The cells of put are its own.
//
//	last, err := s.Changes(ctx, 0, table.Put, table.Delete)
//	last, err = s.Changes(ctx, last, table.Put, table.Delete) // what is new
func (s *Store) Changes(
	ctx context.Context, after int64, put func(id string, cells []field.Cell), removed func(id string),
) (int64, error) {
	last := after
	return last, s.ask(ctx, func(x *asking) error {
		if x.seq == after {
			return nil
		}
		last = x.seq
		if after > 0 {
			err := x.rows(ctx, func(r *sql.Rows) error {
				var id string
				err := r.Scan(&id)
				if err == nil {
					removed(id)
				}
				return err
			}, raw("SELECT id FROM removed_runs WHERE seq > ? ORDER BY seq", after))
			if err != nil {
				return err
			}
		}
		return x.cells(ctx, raw("b.seq > ?", after), put)
	})
}

// cells reads the values of the runs that meet a condition, in the order in which they were stored.
func (x *asking) cells(ctx context.Context, where expr, put func(string, []field.Cell)) error {
	names := slices.Collect(maps.Keys(x.seen))
	fields := query.InOrder(func(yield func(*field.Field) bool) {
		for _, name := range names {
			if !yield(x.seen[name].fieldOf(name)) {
				return
			}
		}
	})
	columns := []expr{raw("b.id"), raw("b.extra")}
	var id string
	var extra []byte
	into := []any{&id, &extra}
	numbers, texts := make([]sql.NullFloat64, len(fields)), make([]sql.NullString, len(fields))
	byLabel := map[string]*field.Field{}
	for i, f := range fields {
		byLabel[label(f.Name)] = f
		if c, fixed := known().column(f.Name); fixed {
			columns = append(columns, raw("b."+quoted(c.name)))
			if c.field.Kind == field.Text {
				into = append(into, &texts[i])
			} else {
				into = append(into, &numbers[i])
			}
		}
	}
	return x.rows(ctx, func(r *sql.Rows) error {
		if err := r.Scan(into...); err != nil {
			return fmt.Errorf("run %s: %w", id, err)
		}
		cells := make([]field.Cell, 0, len(fields)/2)
		for i, f := range fields {
			if v := valueOf(numbers[i], texts[i]); v.Has() {
				cells = append(cells, field.Cell{Field: f, Value: v})
			}
		}
		if len(extra) > 0 {
			var more map[string]field.Value
			if err := json.Unmarshal(extra, &more); err != nil {
				return fmt.Errorf("run %s: %w", id, err)
			}
			for l, v := range more {
				cells = append(cells, field.Cell{Field: byLabel[l], Value: v})
			}
		}
		put(id, cells)
		return nil
	}, format("SELECT %s FROM benchmark_runs b WHERE %s ORDER BY b.seq", joined(columns, ", "), where))
}
