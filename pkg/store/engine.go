package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"sync"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/filter"
	"github.com/profllm/profllm/pkg/query"
)

var _ query.Engine = (*Store)(nil)

// asking is a question that is being answered, on one state of the store.
type asking struct {
	*Store
	tx   *sql.Tx
	seen used
	seq  int64 // of the state
}

// ask runs do on one state of the store.
func (s *Store) ask(ctx context.Context, do func(*asking) error) error {
	conn, tx, err := begin(ctx, s.read, s.sql.snapshot())
	if err != nil {
		return err
	}
	defer conn.Close()
	defer tx.Rollback() //nolint:errcheck // nothing was written
	if err := s.sql.hasten(ctx, tx); err != nil {
		return err
	}
	a := &asking{Store: s, tx: tx}
	if err := tx.QueryRowContext(ctx, lastChange).Scan(&a.seq); err != nil {
		return err
	}
	if a.seen, err = s.usedFields(ctx, tx); err != nil {
		return err
	}
	return do(a)
}

// Query implements query.Engine by the database alone.
func (s *Store) Query(ctx context.Context, q query.Query) (*query.Answer, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	var a *query.Answer
	err := s.ask(ctx, func(x *asking) (err error) {
		if !q.Filter.Empty() || q.Rows != nil {
			a, err = x.answer(ctx, q)
			return err
		}
		// A page asks such a question whenever it is opened.
		key := textOf(q)
		if a = x.found.answer(x.seq, key); a == nil {
			if a, err = x.answer(ctx, q); err == nil {
				x.found.keep(x.seq, key, a)
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return a, nil
}

func (x *asking) answer(ctx context.Context, q query.Query) (a *query.Answer, err error) {
	where := x.where(q.Filter, x.seen)
	a = &query.Answer{}
	for from := 0; from == 0 || from < len(q.Metrics); from += wide {
		var some []query.Stats
		a.Matches, some, err = x.metrics(ctx, q.Metrics[from:min(from+wide, len(q.Metrics))], where)
		if err != nil {
			return nil, err
		}
		a.Metrics = append(a.Metrics, some...)
	}
	if a.Runs = a.Matches; !q.Filter.Empty() {
		if err := x.one(ctx, raw("SELECT count(*) FROM benchmark_runs"), &a.Runs); err != nil {
			return nil, err
		}
	}
	if a.Facets, err = x.facets(ctx, q); err == nil && q.Rows != nil {
		a.Rows, err = x.table(ctx, *q.Rows, where)
	}
	return a, err
}

// one reads the only row of an answer.
func (x *asking) one(ctx context.Context, e expr, into ...any) error {
	return x.tx.QueryRowContext(ctx, x.sql.bind(e.text), e.args...).Scan(into...)
}

func (x *asking) rows(ctx context.Context, visit func(*sql.Rows) error, e expr) error {
	return x.each(ctx, x.tx, visit, e.text, e.args...)
}

// wide is how many fields are read in one pass: PostgreSQL answers with up to 1,664 columns.
const wide = 300

// most is the largest number of which any number can be added up without a look at the sum.
const most = 1e290

// metrics are the statistics of fields, and the number of runs, in one pass.
func (x *asking) metrics(ctx context.Context, names []string, where expr) (runs int, list []query.Stats, err error) {
	list = make([]query.Stats, len(names))
	columns, into := []expr{raw("count(*)")}, []any{&runs}
	sums := make([]struct {
		low, high, sum sql.NullFloat64
		runs           int
	}, len(names))
	for i, name := range names {
		n := x.value(name, x.seen).number
		list[i].Field = name
		columns = append(columns, format("count(%s), min(%s), max(%s), sum(CASE WHEN abs(%s) < 1e290 THEN %s END)", n, n, n, n, n))
		into = append(into, &sums[i].runs, &sums[i].low, &sums[i].high, &sums[i].sum)
	}
	if err := x.one(ctx, format("SELECT %s FROM benchmark_runs b WHERE %s", joined(columns, ", "), where), into...); err != nil {
		return 0, nil, err
	}
	for i, s := range sums {
		sum := s.sum.Float64
		if s.runs > 0 && max(math.Abs(s.low.Float64), math.Abs(s.high.Float64)) >= most {
			sum = 0
			err := x.rows(ctx, func(r *sql.Rows) error {
				var n float64
				err := r.Scan(&n)
				sum += n
				return err
			}, format("SELECT %s FROM benchmark_runs b WHERE %s AND %s IS NOT NULL", x.value(names[i], x.seen).number, where,
				x.value(names[i], x.seen).number))
			if err != nil {
				return 0, nil, err
			}
		}
		list[i].Set(s.runs, sum, s.low.Float64, s.high.Float64)
	}
	return runs, list, nil
}

// table reads rows, many fields in one pass: all passes see one state of the store, and have one order.
func (x *asking) table(ctx context.Context, rows query.Rows, where expr) (*query.Table, error) {
	t := &query.Table{Fields: rows.Fields, Columns: make([][]field.Value, len(rows.Fields))}
	var order []expr
	for _, o := range rows.Sort {
		order = append(order, x.value(o.Field, x.seen).order(o.Descending)...)
	}
	order = append(order, raw("coalesce(b.timestamp, 0) DESC, b.id"))
	for from := 0; from == 0 || from < len(rows.Fields); from += wide {
		part := t.Columns[from:min(from+wide, len(rows.Fields))]
		columns := []expr{raw("b.id")}
		for i := range part {
			v := x.value(rows.Fields[from+i], x.seen)
			columns = append(columns, v.number, v.text)
			part[i] = []field.Value{}
		}
		t.IDs = []string{} // the same in each pass
		read := newReader(len(part))
		err := x.rows(ctx, func(r *sql.Rows) error {
			if err := r.Scan(read.into...); err != nil {
				return err
			}
			t.IDs = append(t.IDs, read.id)
			for i := range part {
				part[i] = append(part[i], read.value(i))
			}
			return nil
		}, format("SELECT %s FROM benchmark_runs b WHERE %s ORDER BY %s LIMIT %s", joined(columns, ", "), where,
			joined(order, ", "), raw("? OFFSET ?", rows.Limit, rows.Offset)))
		if err != nil {
			return nil, err
		}
	}
	return t, nil
}

// Scan calls visit for every run that meets a filter, in any order, with its values of some fields. visit keeps
// neither the id nor the slice of values.
func (s *Store) Scan(
	ctx context.Context, f *filter.Filter, fields []string, visit func(id []byte, values []field.Value),
) error {
	q := query.Query{Filter: f, Rows: &query.Rows{Fields: fields}}
	if err := q.Check(); err != nil {
		return err
	}
	return s.ask(ctx, func(x *asking) error {
		columns := []expr{raw("b.id")}
		for _, name := range fields {
			v := x.value(name, x.seen)
			columns = append(columns, v.number, v.text)
		}
		read, values := newReader(len(fields)), make([]field.Value, len(fields))
		return x.rows(ctx, func(r *sql.Rows) error {
			if err := r.Scan(read.into...); err != nil {
				return err
			}
			for i := range values {
				values[i] = read.value(i)
			}
			visit([]byte(read.id), values)
			return nil
		}, format("SELECT %s FROM benchmark_runs b WHERE %s", joined(columns, ", "), s.where(f, x.seen)))
	})
}

// reader takes an id and pairs of a number and a text from rows.
type reader struct {
	id      string
	numbers []sql.NullFloat64
	texts   []sql.NullString
	into    []any
}

func newReader(n int) *reader {
	r := &reader{numbers: make([]sql.NullFloat64, n), texts: make([]sql.NullString, n)}
	r.into = append(r.into, &r.id)
	for i := range n {
		r.into = append(r.into, &r.numbers[i], &r.texts[i])
	}
	return r
}

func (r *reader) value(i int) field.Value { return valueOf(r.numbers[i], r.texts[i]) }

func valueOf(n sql.NullFloat64, t sql.NullString) field.Value {
	if n.Valid {
		return field.OfNumber(n.Float64)
	}
	return field.OfText(t.String)
}

// remembered is what was found in a state of a store.
type remembered struct {
	sync.Mutex
	seq    int64
	spans  map[string]span
	fields []*field.Field
	// answers are those to questions about all runs, by their JSON; nobody changes them.
	answers map[string]*query.Answer
}

// mostAnswers is how many answers are remembered.
const mostAnswers = 16

func (r *remembered) answer(seq int64, key string) *query.Answer {
	r.Lock()
	defer r.Unlock()
	r.state(seq)
	return r.answers[key]
}

func (r *remembered) keep(seq int64, key string, a *query.Answer) {
	r.Lock()
	defer r.Unlock()
	if r.state(seq); len(r.answers) < mostAnswers {
		r.answers[key] = a
	}
}

// state empties what was found in another state. The caller holds the lock.
func (r *remembered) state(seq int64) {
	if r.seq != seq || r.spans == nil {
		r.seq, r.spans, r.fields, r.answers = seq, map[string]span{}, nil, map[string]*query.Answer{}
	}
}

// Fields implements query.Engine.
func (s *Store) Fields(ctx context.Context) ([]*field.Field, error) {
	var list []*field.Field
	return list, s.ask(ctx, func(x *asking) error {
		s.found.Lock()
		defer s.found.Unlock()
		if s.found.state(x.seq); s.found.fields == nil {
			seen, err := x.present(ctx)
			if err != nil {
				return err
			}
			s.found.fields = query.InOrder(func(yield func(*field.Field) bool) {
				for name, u := range seen {
					if (u.numbers || u.texts) && !yield(u.fieldOf(name)) {
						return
					}
				}
			})
		}
		list = s.found.fields
		return nil
	})
}

// present are the fields that runs have now. Once a row was removed, those that are noted may be
// of runs that are no more.
func (x *asking) present(ctx context.Context) (used, error) {
	var dropped int
	err := x.one(ctx, raw("SELECT count(*) FROM store_numbers WHERE name = 'dropped'"), &dropped)
	if err != nil || dropped == 0 {
		return x.seen, err
	}
	seen := used{}
	for name, u := range x.seen {
		v := x.value(name, x.seen)
		now := &usedField{free: u.free}
		err := x.one(ctx, format("SELECT EXISTS (SELECT 1 FROM benchmark_runs b WHERE %s IS NOT NULL), EXISTS (SELECT 1 FROM benchmark_runs b WHERE %s IS NOT NULL)",
			v.number, v.text), &now.numbers, &now.texts)
		if err != nil {
			return nil, err
		}
		seen[name] = now
	}
	return seen, nil
}

// textOf is a filter or a question as a key.
func textOf(x any) string {
	text, err := json.Marshal(x)
	if err != nil {
		panic(fmt.Sprintf("a question that is no JSON: %v", err))
	}
	return string(text)
}
