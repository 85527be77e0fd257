package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/profllm/profllm/pkg/records"
)

// Check is what Verify found.
type Check struct {
	Store    string  `json:"store"`    // file or URL, without a password
	Runs     int     `json:"runs"`     // that were read whole
	Formers  int     `json:"formers"`  // former records that were read whole
	Compared int     `json:"compared"` // runs whose result folders were compared
	Gone     int     `json:"gone"`     // runs whose result folders are no more: only the store has them
	Problems []Fault `json:"problems"` // none: the store is intact
}

// Fault is one thing that is wrong in a store.
type Fault struct {
	ID   string `json:"id,omitempty"` // of the run
	What string `json:"what"`
}

// Load reads the runs of a folder, as records.Load does.
type Load func(dir string) ([]records.Run, error)

// Verify reads all of the store: every record has its hash, every row is what its record makes
// it, and the tables belong together. With load, it compares the records with those of the
// result folders.
func (s *Store) Verify(ctx context.Context, load Load) (*Check, error) {
	c := &Check{Store: s.place, Problems: []Fault{}}
	lines, err := s.sql.check(ctx, s)
	if err != nil {
		return nil, err
	}
	for _, line := range lines {
		c.add("", "%s", line)
	}
	return c, s.ask(ctx, func(x *asking) error {
		for _, q := range counts {
			var n int
			if err := x.one(ctx, raw(q.query), &n); err != nil {
				return err
			}
			if n > 0 {
				c.add("", "%d %s", n, q.what)
			}
		}
		if err := x.verifyRuns(ctx, c, load); err != nil {
			return err
		}
		return x.verifyFormers(ctx, c)
	})
}

func (c *Check) add(id, format string, args ...any) {
	c.Problems = append(c.Problems, Fault{id, fmt.Sprintf(format, args...)})
}

// counts are 0 in a store whose tables belong together.
var counts = []struct{ query, what string }{
	{"SELECT count(*) FROM benchmark_runs b LEFT JOIN records r ON r.seq = b.seq WHERE r.seq IS NULL", "runs without their record"},
	{"SELECT count(*) FROM records r LEFT JOIN benchmark_runs b ON r.seq = b.seq WHERE b.seq IS NULL", "records without their run"},
	{"SELECT count(*) FROM benchmark_runs b LEFT JOIN run_texts x ON x.seq = b.seq WHERE x.seq IS NULL", "runs without their texts"},
	{"SELECT count(*) FROM run_texts x LEFT JOIN benchmark_runs b ON x.seq = b.seq WHERE b.seq IS NULL", "texts without their run"},
	{"SELECT count(*) FROM benchmark_runs WHERE seq > (SELECT value FROM store_numbers WHERE name = 'seq')", "runs that are newer than the last change"},
}

// part is how many runs are read together.
const part = 500

// checked is a run with the columns of its row.
type checked struct {
	seq             int64
	id, hash, setup string
	layout          string
	packed, besides []byte
	columns         map[string]string
}

// verifyRuns reads all runs.
func (x *asking) verifyRuns(ctx context.Context, c *Check, load Load) error {
	var last int64
	for {
		var list []*checked
		byID := map[string]*checked{}
		err := x.rows(ctx, func(r *sql.Rows) error {
			one := &checked{columns: map[string]string{}}
			err := r.Scan(&one.seq, &one.id, &one.hash, &one.setup, &one.layout, &one.packed, &one.besides)
			list, byID[one.id] = append(list, one), one
			return err
		}, raw(`SELECT b.seq, b.id, b.record_hash, b.setup_hash, b.columns_of, r.record, r.besides FROM benchmark_runs b
			JOIN records r ON r.seq = b.seq WHERE b.seq > ? ORDER BY b.seq LIMIT ?`, last, part))
		if err != nil || len(list) == 0 {
			return err
		}
		first := last
		last = list[len(list)-1].seq
		read := newCellReader(x.seen)
		err = x.rows(ctx, func(r *sql.Rows) error {
			run, err := read.run(r)
			for _, cell := range run.Cells {
				byID[run.ID].columns[cell.Field.Name] = cell.Value.String()
			}
			return err
		}, raw("SELECT "+read.columns()+` FROM benchmark_runs b JOIN records r ON r.seq = b.seq
			WHERE b.seq > ? AND b.seq <= ?`, first, last))
		if err != nil {
			return err
		}
		for _, one := range list {
			c.Runs++
			c.look(one, load)
		}
	}
}

// look checks one run.
func (c *Check) look(one *checked, load Load) {
	r := &row{packed: one.packed, besides: one.besides}
	if err := r.unpack(); err != nil {
		c.add(one.id, "%v", err)
		return
	}
	if r.hash != one.hash {
		c.add(one.id, "the record has another hash than was stored with it")
		return
	}
	if r.setup != one.setup {
		c.add(one.id, "the columns are not those of the record: setup_hash")
	}
	if one.layout == known().version {
		want := map[string]string{}
		for _, cell := range r.cells {
			want[cell.Field.Name] = harmless(cell.Value.String())
		}
		for _, name := range merged(want, one.columns) {
			if want[name] != one.columns[name] {
				c.add(one.id, "the columns are not those of the record: %s is %q, and %q in the record", name,
					one.columns[name], want[name])
				break
			}
		}
	}
	if load != nil && filepath.IsAbs(r.run.Dir) {
		c.compare(one.id, r, load)
	}
}

// merged are the keys of two maps in their order.
func merged(a, b map[string]string) []string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

// compare holds a run against its result folder.
func (c *Check) compare(id string, r *row, load Load) {
	if _, err := os.Lstat(filepath.Join(r.run.Dir, "result.json")); errors.Is(err, fs.ErrNotExist) {
		c.Gone++
		return
	}
	runs, err := load(r.run.Dir)
	if err != nil {
		c.add(id, "%v", err)
		return
	}
	for i := range runs {
		if now := &runs[i]; now.Dir == r.run.Dir {
			c.Compared++
			switch again, err := newRow(now, 0); {
			case now.Result == nil:
				c.add(id, "%s: %s", now.Dir, now.Problem)
			case err != nil:
				c.add(id, "%s: %v", now.Dir, err)
			case again.hash != r.hash:
				c.add(id, "%s has another record than the store; profllm store fill %s updates it", now.Dir, now.Dir)
			}
			return
		}
	}
	c.add(id, "%s was read, and the run is not in it", r.run.Dir)
}

// verifyFormers reads all former records.
func (x *asking) verifyFormers(ctx context.Context, c *Check) error {
	return x.rows(ctx, func(r *sql.Rows) error {
		var id, hash string
		var packed []byte
		if err := r.Scan(&id, &hash, &packed); err != nil {
			return err
		}
		c.Formers++
		record, err := unzipped(packed)
		switch {
		case err != nil:
			c.add(id, "a former record: %v", err)
		case hashOf(record) != hash:
			c.add(id, "a former record has another hash than was stored with it")
		}
		return nil
	}, raw("SELECT id, record_hash, record FROM former_records ORDER BY id, record_hash"))
}
