package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/pressly/goose/v3"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/records"
)

//go:embed migrations
var migrations embed.FS

// migrate brings the tables up to this release: the numbered migrations, then the columns of
// fields that the table does not have. Nothing goes back.
func (s *Store) migrate(ctx context.Context) error {
	dir, err := fs.Sub(migrations, "migrations/"+s.Kind())
	if err != nil {
		return err
	}
	p, err := s.provider(dir)
	if err != nil {
		return err
	}
	current, target, err := p.GetVersions(ctx)
	if err != nil {
		return err
	}
	if current > target {
		return fmt.Errorf("a newer profllm wrote the store: its tables have version %d, and this program knows %d", current, target)
	}
	if current < target {
		if err := s.up(ctx, p); err != nil {
			return err
		}
	}
	return s.fitColumns(ctx)
}

// up applies migrations. Another program may do so at the same moment.
func (s *Store) up(ctx context.Context, p *goose.Provider) error {
	_, err := p.Up(ctx)
	for range 3 {
		if err == nil {
			return nil
		}
		if current, target, e := p.GetVersions(ctx); e == nil && current == target {
			return nil
		}
		_, err = p.Up(ctx)
	}
	return s.hinted(err)
}

// createRuns is the first migration: the table of runs, with the columns of this release.
func (s *Store) createRuns(ctx context.Context, tx *sql.Tx) error {
	big, text, json := "INTEGER", "TEXT", "TEXT"
	if s.Kind() == "postgres" {
		big, text, json = "bigint", `text COLLATE "C"`, "jsonb"
	}
	defs := []string{
		"seq " + big + " PRIMARY KEY", "id " + text + " NOT NULL UNIQUE", "record_hash " + text + " NOT NULL",
		"setup_hash " + text + " NOT NULL", "stored " + big + " NOT NULL", "columns_of " + text + " NOT NULL", "extra " + json,
	}
	for _, c := range known().columns {
		defs = append(defs, quoted(c.name)+" "+s.sql.typeOf(c))
	}
	list := append([]string{"CREATE TABLE IF NOT EXISTS benchmark_runs (" + strings.Join(defs, ", ") + ")"}, s.indexes()...)
	for _, q := range list {
		if _, err := tx.ExecContext(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// indexed are the fields that are filtered by most, and whose values are counted first.
var indexed = []string{
	"run_id", "suite", "scenario", "test", "status", "kind", "verdict", "cause", "gpu", "gpus", "nodes", "topology", "partition",
	"engine", "engine_version", "image", "series", "fingerprint", "client",
	"cmd_args.model", "cmd_args.tensor_parallel_size", "cmd_args.max_num_seqs", "bench_cmd_args.max_concurrency",
	"bench_cmd_args.request_rate", "request_throughput", "output_throughput", "median_ttft_ms", "p99_ttft_ms", "median_tpot_ms",
}

func (s *Store) indexes() []string {
	list := []string{
		"CREATE INDEX IF NOT EXISTS runs_newest ON benchmark_runs (coalesce(timestamp, 0) DESC, id)",
		"CREATE INDEX IF NOT EXISTS runs_columns_of ON benchmark_runs (columns_of)",
	}
	for _, name := range indexed {
		if c, ok := known().column(name); ok {
			list = append(list, fmt.Sprintf("CREATE INDEX IF NOT EXISTS %s ON benchmark_runs (%s)", quoted("runs_by_"+c.name),
				quoted(c.name)))
		}
	}
	return list
}

// present are the columns of the table of runs with their types.
func (s *Store) present(ctx context.Context, q queryer) (map[string]string, error) {
	query := "SELECT name, type FROM pragma_table_info('benchmark_runs')"
	if s.Kind() == "postgres" {
		query = `SELECT attname, format_type(atttypid, NULL) FROM pg_attribute
			WHERE attrelid = 'benchmark_runs'::regclass AND attnum > 0 AND NOT attisdropped`
	}
	have := map[string]string{}
	err := s.each(ctx, q, func(r *sql.Rows) error {
		var name, kind string
		err := r.Scan(&name, &kind)
		have[name] = kind
		return err
	}, query)
	return have, err
}

// fitColumns adds the columns of fields that another release did not have, and computes again the rows
// that were written without them. A column whose field is of another kind now is made again.
func (s *Store) fitColumns(ctx context.Context) error {
	have, err := s.present(ctx, s.read)
	if err != nil {
		return err
	}
	var changes []string
	known := known()
	for _, c := range known.columns {
		kind, ok := have[c.name]
		delete(have, c.name)
		want, _, _ := strings.Cut(s.sql.typeOf(c), " COLLATE")
		if ok && kind == want {
			continue
		}
		if ok {
			changes = append(changes, dropIndex(c), "ALTER TABLE benchmark_runs DROP COLUMN "+quoted(c.name))
		}
		changes = append(changes, "ALTER TABLE benchmark_runs ADD COLUMN "+quoted(c.name)+" "+s.sql.typeOf(c))
	}
	for _, name := range own {
		delete(have, name)
	}
	if len(changes) == 0 && len(have) > 0 { // a newer release reads and writes it too
		return nil
	}
	var stale int
	err = s.read.QueryRowContext(ctx, s.sql.bind("SELECT count(*) FROM (SELECT 1 FROM benchmark_runs WHERE columns_of < ? OR columns_of > ? LIMIT 1) x"),
		known.version, known.version).Scan(&stale)
	if err != nil || len(changes) == 0 && stale == 0 {
		return err
	}
	return s.change(ctx, func(c *change) error {
		if len(changes) > 0 {
			changes = append(changes, s.indexes()...)
		}
		for _, q := range changes {
			if err := c.exec(ctx, q); err != nil {
				return fmt.Errorf("%s: %w", q, err)
			}
		}
		_, err := c.computeAgain(ctx, raw("b.columns_of < ? OR b.columns_of > ?", known.version, known.version))
		return err
	})
}

func dropIndex(c column) string { return "DROP INDEX IF EXISTS " + quoted("runs_by_"+c.name) }

// computeAgain writes the rows that meet a condition again from their records, and says how many. A row that
// was written again must not meet it.
func (c *change) computeAgain(ctx context.Context, where expr) (n int, err error) {
	for {
		var rows []*row
		err := c.each(ctx, c.tx, func(r *sql.Rows) error {
			one := &row{}
			if err := r.Scan(&one.replaces, &one.id, &one.stored, &one.packed, &one.besides); err != nil {
				return err
			}
			rows = append(rows, one)
			return nil
		}, "SELECT b.seq, b.id, b.stored, r.record, r.besides FROM benchmark_runs b JOIN records r ON r.seq = b.seq WHERE "+
			where.text+fmt.Sprintf(" ORDER BY b.seq LIMIT %d", part), where.args...)
		if err != nil || len(rows) == 0 {
			return n, err
		}
		for _, r := range rows {
			if err := r.unpack(); err != nil {
				return n, fmt.Errorf("run %s: %w", r.id, err)
			}
		}
		if err := c.replace(ctx, rows); err != nil {
			return n, err
		}
		n += len(rows)
	}
}

// unpack fills a row from the record that is stored.
func (r *row) unpack() error {
	var err error
	if r.record, err = unzipped(r.packed); err != nil {
		return err
	}
	if r.run, err = records.Unpack(r.record, r.besides); err != nil {
		return err
	}
	r.hash, r.setup, r.cells = hashOf(r.record), setupOf(r.run.Result), field.Of(&r.run)
	return nil
}

var errNoDown = errors.New("a store is not taken back to an older release")

// provider applies the migrations.
func (s *Store) provider(dir fs.FS) (*goose.Provider, error) {
	first := goose.NewGoMigration(1, &goose.GoFunc{RunTx: s.createRuns},
		&goose.GoFunc{RunTx: func(context.Context, *sql.Tx) error { return errNoDown }})
	options := []goose.ProviderOption{goose.WithGoMigrations(first), goose.WithDisableGlobalRegistry(true),
		goose.WithTableName("store_versions")}
	if s.Kind() == "postgres" {
		locker, err := migrationLock()
		if err != nil {
			return nil, err
		}
		options = append(options, goose.WithSessionLocker(locker))
		return goose.NewProvider(goose.DialectPostgres, s.write, dir, options...)
	}
	return goose.NewProvider(goose.DialectSQLite3, s.write, dir, slices.Clip(options)...)
}
