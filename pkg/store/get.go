package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"time"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/run"
)

// Run is a run of the store.
type Run struct {
	ID     string
	Stored time.Time // when this record of it was
	Hash   string    // SHA-256 of Record
	Record []byte    // result.json
	records.Run
}

const runColumns = "b.id, b.stored, b.record_hash, r.record, r.besides"

// packed is a run as its row has it.
type packed struct {
	id, hash        string
	stored          int64
	record, besides []byte
}

// scanPacked reads runColumns.
func scanPacked(r interface{ Scan(...any) error }) (p packed, err error) {
	return p, r.Scan(&p.id, &p.stored, &p.hash, &p.record, &p.besides)
}

func scanRun(r interface{ Scan(...any) error }) (*Run, error) {
	p, err := scanPacked(r)
	if err != nil {
		return nil, err
	}
	return p.unpack()
}

func (p packed) unpack() (*Run, error) {
	x := &Run{ID: p.id, Hash: p.hash, Stored: time.UnixMilli(p.stored).UTC()}
	var err error
	if x.Record, err = unzipped(p.record); err == nil {
		x.Run, err = records.Unpack(x.Record, p.besides)
	}
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", p.id, err)
	}
	return x, nil
}

// Get returns a run; its error is ErrNotFound if there is none of that id.
func (s *Store) Get(ctx context.Context, id string) (*Run, error) {
	row := s.read.QueryRowContext(ctx, s.sql.bind("SELECT "+runColumns+
		" FROM benchmark_runs b JOIN records r ON r.seq = b.seq WHERE b.id = ?"), harmless(id))
	x, err := scanRun(row)
	if err == sql.ErrNoRows {
		return nil, fmt.Errorf("%q: %w", id, ErrNotFound)
	}
	return x, err
}

// Each calls visit for each run, as they were stored, and ends with its error.
func (s *Store) Each(ctx context.Context, visit func(*Run) error) error {
	return s.each(ctx, s.read, func(r *sql.Rows) error {
		x, err := scanRun(r)
		if err != nil {
			return err
		}
		return visit(x)
	}, "SELECT "+runColumns+" FROM benchmark_runs b JOIN records r ON r.seq = b.seq ORDER BY b.seq")
}

// Count is the number of runs.
func (s *Store) Count(ctx context.Context) (n int, err error) {
	if err := s.read.QueryRowContext(ctx, "SELECT count(*) FROM benchmark_runs").Scan(&n); err != nil {
		return 0, err
	}
	return n, s.sql.inPlace()
}

// usedFields are those that runs have or had, by name.
func (s *Store) usedFields(ctx context.Context, q queryer) (used, error) {
	seen := used{}
	err := s.each(ctx, q, func(r *sql.Rows) error {
		var name string
		x := &usedField{}
		if err := r.Scan(&name, &x.free, &x.numbers, &x.texts); err != nil {
			return err
		}
		seen[name] = x
		return nil
	}, "SELECT name, free, numbers, texts FROM run_fields")
	return seen, err
}

// fieldOf is a field that runs have.
func (x *usedField) fieldOf(name string) *field.Field {
	f, err := field.Find(name)
	if err != nil {
		f = &field.Field{Name: name, Group: field.Setting, Kind: field.Text}
	}
	if !x.free {
		return f
	}
	free := *f
	free.Free = true
	if x.numbers {
		free.Kind = field.Number
	}
	return &free
}

// Several returns runs in the order of their ids; its error is ErrNotFound if one is not there.
func (s *Store) Several(ctx context.Context, ids []string) ([]records.Run, error) {
	at := make(map[string]int, len(ids))
	for i, id := range ids {
		at[harmless(id)] = i
	}
	var found []packed
	for some := range slices.Chunk(slices.Collect(maps.Keys(at)), 500) {
		args := make([]any, len(some))
		for i, id := range some {
			args[i] = id
		}
		err := s.each(ctx, s.read, func(r *sql.Rows) error {
			p, err := scanPacked(r)
			found = append(found, p)
			return err
		}, "SELECT "+runColumns+" FROM benchmark_runs b JOIN records r ON r.seq = b.seq WHERE b.id IN ("+marks(len(some))+")", args...)
		if err != nil {
			return nil, err
		}
	}
	if len(found) < len(at) {
		return nil, missing(ids, found)
	}
	list := make([]records.Run, len(ids))
	errs := make([]error, len(found))
	run.AtOnce(len(found), runtime.GOMAXPROCS(0), func(i int) { // decoding takes most of the time
		var x *Run
		if x, errs[i] = found[i].unpack(); errs[i] == nil {
			list[at[x.ID]] = x.Run
		}
	})
	for i, id := range ids { // that are named twice
		list[i] = list[at[harmless(id)]]
	}
	return list, errors.Join(errs...)
}

// missing is the error for the first id that was not found.
func missing(ids []string, found []packed) error {
	for _, id := range ids {
		if !slices.ContainsFunc(found, func(p packed) bool { return p.id == harmless(id) }) {
			return fmt.Errorf("%q: %w", id, ErrNotFound)
		}
	}
	return nil
}
