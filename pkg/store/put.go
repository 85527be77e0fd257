package store

import (
	"context"
	"database/sql"
	"fmt"
	"runtime"
	"slices"

	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

// Did is what Put did with a run.
type Did string

// What Put does.
const (
	Stored    Did = "stored"    // it is new
	Duplicate Did = "duplicate" // the store has this record
	Updated   Did = "updated"   // the store had another record of the run, and keeps it as a former one
	Refused   Did = "refused"   // it has no record that can be stored
)

// Outcome is the answer of Put for a run.
type Outcome struct {
	ID  string // of the run in the store; "" if it was refused
	Did Did
	Why string // it was refused
}

// Put stores runs, all or none: when it returns without an error, they are on disk. The same
// runs again are duplicates.
func (s *Store) Put(ctx context.Context, runs []records.Run) ([]Outcome, error) {
	return s.putRuns(ctx, runs, fromFolders)
}

// origin is where the rows of a put come from.
type origin int

const (
	fromFolders origin = iota // what is there now is current
	fromMoved                 // the same, and a run that is found in another folder than before is written as well
	fromDump                  // of two records of a run, the one that was stored later is current
)

func (s *Store) putRuns(ctx context.Context, runs []records.Run, from origin) ([]Outcome, error) {
	list := make([]Outcome, len(runs))
	made := make([]*row, len(runs))
	now := s.now().UnixMilli()
	run.AtOnce(len(runs), runtime.GOMAXPROCS(0), func(i int) { // compressing takes most of the time
		why := unfit(&runs[i])
		if why == "" {
			var err error
			if made[i], err = newRow(&runs[i], now); err != nil {
				why = err.Error()
			} else if why = made[i].tooLarge(); why != "" {
				made[i] = nil
			}
		}
		if why != "" {
			list[i] = Outcome{Did: Refused, Why: why}
		}
	})
	var rows []*row
	var places []int
	for i, r := range made {
		if r != nil {
			rows, places = append(rows, r), append(places, i)
		}
	}
	outcomes, err := s.put(ctx, rows, from)
	for i, o := range outcomes {
		list[places[i]] = o
	}
	return list, err
}

// put stores rows in one transaction.
func (s *Store) put(ctx context.Context, rows []*row, from origin) (list []Outcome, err error) {
	if len(rows) == 0 {
		return nil, nil
	}
	err = s.change(ctx, func(c *change) error {
		list = make([]Outcome, len(rows))
		known, err := c.rowsOf(ctx, rows)
		if err != nil {
			return err
		}
		var fresh []*row
		for i, r := range rows {
			if list[i], err = c.settle(ctx, r, known, from); err != nil {
				return err
			}
			if r.id != "" {
				fresh = append(fresh, r)
			}
		}
		return c.replace(ctx, last(fresh))
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// unfit says why a run cannot be stored.
func unfit(r *records.Run) string {
	switch {
	case r.Result == nil && r.NoJob != "":
		return r.NoJob
	case r.Result == nil:
		return r.Problem
	case r.Result.RunID == "":
		return "the record has no run_id"
	}
	return ""
}

// last leaves of several rows of one run the last.
func last(rows []*row) []*row {
	at := map[string]int{}
	for i, r := range rows {
		at[r.id] = i
	}
	var list []*row
	for i, r := range rows {
		if at[r.id] == i {
			list = append(list, r)
		}
	}
	return list
}

// stored is a run that the store has.
type stored struct {
	seq             int64
	at              int64 // when this record was stored, Unix milliseconds
	id, hash, setup string
	dir             string
	row             *row // if this transaction writes it
}

// rowsOf are the runs of the store that have the run ids of rows.
func (c *change) rowsOf(ctx context.Context, rows []*row) (map[string][]*stored, error) {
	var ids []any
	for _, r := range rows {
		ids = append(ids, harmless(r.run.Result.RunID))
	}
	known := map[string][]*stored{}
	for some := range slices.Chunk(ids, 500) {
		err := c.each(ctx, c.tx, func(r *sql.Rows) error {
			var name, dir sql.NullString
			x := &stored{}
			if err := r.Scan(&x.seq, &x.at, &x.id, &x.hash, &x.setup, &name, &dir); err != nil {
				return err
			}
			x.dir = dir.String
			if !slices.ContainsFunc(known[name.String], func(o *stored) bool { return o.id == x.id }) {
				known[name.String] = append(known[name.String], x)
			}
			return nil
		}, "SELECT seq, stored, id, record_hash, setup_hash, run_id, dir FROM benchmark_runs WHERE run_id IN ("+
			marks(len(some))+") ORDER BY id", some...)
		if err != nil {
			return nil, err
		}
	}
	return known, nil
}

// settle says what becomes of a row, and gives it its id if it is to be written.
func (c *change) settle(ctx context.Context, r *row, known map[string][]*stored, from origin) (Outcome, error) {
	name := harmless(r.run.Result.RunID)
	list := known[name]
	for _, same := range []func(*stored) bool{
		func(x *stored) bool { return x.hash == r.hash },
		func(x *stored) bool { return x.dir == harmless(r.run.Dir) && x.dir != "" },
		func(x *stored) bool { return x.setup == r.setup },
	} {
		if i := slices.IndexFunc(list, same); i >= 0 {
			return c.again(ctx, r, list[i], from)
		}
	}
	r.id = freeID(name, list)
	known[name] = append(list, &stored{at: r.stored, id: r.id, hash: r.hash, setup: r.setup,
		dir: harmless(r.run.Dir), row: r})
	return Outcome{ID: r.id, Did: Stored}, nil
}

// freeID is an id for a run whose run id others have as well.
func freeID(name string, others []*stored) string {
	id := name
	for n := 2; slices.ContainsFunc(others, func(x *stored) bool { return x.id == id }); n++ {
		id = fmt.Sprintf("%s~%d", name, n)
	}
	return id
}

// again settles a row of a run that is known.
func (c *change) again(ctx context.Context, r *row, x *stored, from origin) (Outcome, error) {
	packed, besides := []byte(nil), []byte(nil)
	if x.row != nil {
		packed, besides = x.row.packed, x.row.besides
	} else if err := c.blobs(ctx, x.seq, &packed, &besides); err != nil {
		return Outcome{}, err
	}
	same, err := says(r, x.hash, packed)
	if err != nil {
		return Outcome{}, err
	}
	if from == fromDump && r.stored <= x.at { // what the store has stays
		if !same {
			err = c.former(ctx, x.id, r.hash, x.at, r.packed, r.besides)
		}
		return Outcome{ID: x.id, Did: Duplicate}, err
	}
	elsewhere := x.dir != harmless(r.run.Dir)
	if !same && elsewhere && x.row == nil { // a copy that was left behind
		former, err := c.isFormer(ctx, x.id, r.hash)
		if err != nil || former {
			return Outcome{ID: x.id, Did: Duplicate}, err
		}
	}
	if same && from != fromMoved && (elsewhere || string(besides) == string(r.besides)) {
		return Outcome{ID: x.id, Did: Duplicate}, nil // also a copy elsewhere
	}
	if !same {
		err := c.exec(ctx, `INSERT INTO former_records (id, record_hash, replaced, record, besides) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (id, record_hash) DO UPDATE SET replaced = excluded.replaced`,
			x.id, x.hash, c.now().UnixMilli(), packed, besides)
		if err != nil {
			return Outcome{}, err
		}
	}
	r.id, r.replaces = x.id, x.seq
	x.at, x.hash, x.setup, x.dir, x.row = r.stored, r.hash, r.setup, harmless(r.run.Dir), r
	if same && from == fromMoved {
		return Outcome{ID: x.id, Did: Duplicate}, nil
	}
	return Outcome{ID: x.id, Did: Updated}, nil
}

// former keeps a record that was replaced at a time, unless the store has it.
func (c *change) former(ctx context.Context, id, hash string, replaced int64, packed, besides []byte) error {
	return c.exec(ctx, `INSERT INTO former_records (id, record_hash, replaced, record, besides) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (id, record_hash) DO NOTHING`, id, hash, replaced, packed, besides)
}

// isFormer reports whether a record is a former one of a run.
func (c *change) isFormer(ctx context.Context, id, hash string) (bool, error) {
	var n int
	err := c.tx.QueryRowContext(ctx, c.sql.bind("SELECT count(*) FROM former_records WHERE id = ? AND record_hash = ?"),
		id, hash).Scan(&n)
	return n > 0, err
}

// says reports whether a stored record says the same as a row. Another release may have written
// it with other bytes.
func says(r *row, hash string, packed []byte) (bool, error) {
	if hash == r.hash {
		return true, nil
	}
	record, err := unzipped(packed)
	if err != nil {
		return false, err
	}
	old, err := result.Decode(record)
	if err != nil {
		return false, nil //nolint:nilerr // what cannot be read is kept as a former record
	}
	again, err := result.Encode(old)
	return err == nil && hashOf(again) == r.hash, nil
}

func (c *change) blobs(ctx context.Context, seq int64, record, besides *[]byte) error {
	return c.tx.QueryRowContext(ctx, c.sql.bind("SELECT record, besides FROM records WHERE seq = ?"), seq).
		Scan(record, besides)
}

// Delete removes runs with their former records, and says how many there were.
func (s *Store) Delete(ctx context.Context, ids ...string) (n int, err error) {
	return n, s.change(ctx, func(c *change) error {
		n, err = c.delete(ctx, ids)
		return err
	})
}

func (c *change) delete(ctx context.Context, ids []string) (n int, err error) {
	for _, id := range ids {
		var seq int64
		err := c.tx.QueryRowContext(ctx, c.sql.bind("SELECT seq FROM benchmark_runs WHERE id = ?"), harmless(id)).Scan(&seq)
		if err == sql.ErrNoRows {
			continue
		}
		if err == nil {
			err = c.drop(ctx, []any{seq})
		}
		if err == nil {
			err = c.exec(ctx, "DELETE FROM former_records WHERE id = ?", id)
		}
		if err == nil {
			c.seq++
			err = c.exec(ctx, "INSERT INTO removed_runs (seq, id) VALUES (?, ?)", c.seq, id)
		}
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// Rebuilding makes a store anew from result folders.
type Rebuilding struct {
	store  *Store
	before int64 // the last change of the store as it was
}

// Rebuild begins to make the store anew: runs that are put get their rows again, with the
// folder in which they are now, and End sees to the others.
func (s *Store) Rebuild(ctx context.Context) (*Rebuilding, error) {
	before, err := s.Last(ctx)
	return &Rebuilding{store: s, before: before}, err
}

// Put is that of a store.
func (r *Rebuilding) Put(ctx context.Context, runs []records.Run) ([]Outcome, error) {
	return r.store.putRuns(ctx, runs, fromMoved)
}

// End writes the rows of runs that were not put again from their records, which only the store
// has; or it removes these runs. It says how many there were.
func (r *Rebuilding) End(ctx context.Context, forget bool) (n int, err error) {
	return n, r.store.change(ctx, func(c *change) error {
		if forget {
			var ids []string
			err := c.each(ctx, c.tx, func(rows *sql.Rows) error {
				var id string
				err := rows.Scan(&id)
				ids = append(ids, id)
				return err
			}, "SELECT id FROM benchmark_runs WHERE seq <= ? ORDER BY seq", r.before)
			if err == nil {
				n, err = c.delete(ctx, ids)
			}
			return err
		}
		n, err = c.computeAgain(ctx, raw("b.seq <= ?", r.before))
		return err
	})
}
