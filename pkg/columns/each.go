package columns

import (
	"context"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/filter"
	"github.com/profllm/profllm/pkg/query"
)

// Each calls visit for every run that meets a filter, in any order, with its values of some fields. visit keeps
// neither the id nor the slice of values, and must not use the table.
func (t *Table) Each(
	ctx context.Context, f *filter.Filter, fields []string, visit func(id []byte, values []field.Value),
) error {
	q := query.Query{Filter: f, Rows: &query.Rows{Fields: fields}}
	if err := q.Check(); err != nil {
		return err
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	hits, err := t.meeting(ctx, &q)
	if err != nil {
		return err
	}
	list := make([]*column, len(fields))
	for i, name := range q.Rows.Fields {
		list[i] = t.byName[name]
	}
	values := make([]field.Value, len(fields))
	for chunk, rows := range hits.chosen.rows {
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, r := range rows {
			row := uint32(chunk<<shift) + uint32(r)
			for i, c := range list {
				if c != nil {
					values[i] = c.at(row)
				}
			}
			visit(t.ids.at(row), values)
		}
	}
	return nil
}
