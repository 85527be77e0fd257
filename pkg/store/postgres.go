package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3/lock"

	"github.com/profllm/profllm/pkg/field"
)

// postgres keeps a store in a database of PostgreSQL, which several machines may use.
type postgres struct{ url string }

func (*postgres) inPlace() error { return nil }

func (*postgres) kind() string { return "postgres" }

// withoutPassword is a URL as messages may have it.
func withoutPassword(place string) string {
	u, err := url.Parse(place)
	if err != nil {
		return "postgres://…"
	}
	q := u.Query()
	if q.Has("password") {
		q.Set("password", "xxxxx")
		u.RawQuery = q.Encode()
	}
	return u.Redacted()
}

func (d *postgres) open(ctx context.Context, s *Store, _ Options) error {
	config, err := pgx.ParseConfig(d.url)
	if err != nil {
		return err
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "profllm"
	}
	s.write = stdlib.OpenDB(*config)
	s.write.SetMaxOpenConns(8)
	s.read = stdlib.OpenDB(*config)
	s.read.SetMaxOpenConns(16)
	if err := s.write.PingContext(ctx); err != nil {
		return err
	}
	var encoding string
	if err := s.write.QueryRowContext(ctx, "SHOW server_encoding").Scan(&encoding); err != nil {
		return err
	}
	if encoding != "UTF8" {
		return fmt.Errorf("the database has the encoding %s\n\thint: CREATE DATABASE name ENCODING 'UTF8' TEMPLATE template0", encoding)
	}
	return nil
}

func migrationLock() (lock.SessionLocker, error) { return lock.NewPostgresSessionLocker() }

func (*postgres) bind(query string) string { return numbered(query) }

func (*postgres) typeOf(c column) string {
	switch c.field.Kind {
	case field.Number:
		return "double precision"
	case field.Time:
		return "bigint"
	}
	return `text COLLATE "C"`
}

// lockOfRuns is any number that other programs do not lock.
const lockOfRuns = 0x70724c6d

func (*postgres) lock(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock($1)", lockOfRuns)
	return err
}

// insert copies rows, which is several times faster than INSERT.
func (*postgres) insert(
	ctx context.Context, c *sql.Conn, _ *sql.Tx, table string, columns []string, rows [][]any,
) error {
	return c.Raw(func(d any) error {
		_, err := d.(*stdlib.Conn).Conn().CopyFrom(ctx, pgx.Identifier{table}, columns, pgx.CopyFromRows(rows))
		return err
	})
}

func (*postgres) full(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == "53100" // disk_full
}

func (*postgres) null(number bool) string {
	if number {
		return "NULL::double precision"
	}
	return "NULL::text"
}

func (*postgres) extra(label string) (number, text expr) {
	return raw("CASE WHEN jsonb_typeof(b.extra->?::text) = 'number' THEN (b.extra->>?::text)::double precision END", label, label),
		raw(`(CASE WHEN jsonb_typeof(b.extra->?::text) = 'string' THEN b.extra->>?::text END COLLATE "C")`, label, label)
}

func (*postgres) part(text expr, small string) expr {
	return format("strpos(%s, %s) > 0", text, raw("?", small))
}

func (d *postgres) contains(text expr, small string) expr {
	return d.part(format(`lower(CASE WHEN octet_length(%s) = char_length(%s) THEN %s ELSE translate(%s, %s) END COLLATE "C")`,
		text, text, text, text, raw("?, ?", letters()[0], letters()[1])), small)
}

func (*postgres) snapshot() *sql.TxOptions {
	return &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}
}

// hasten lets groups be counted in hash tables. With the default of 4 MB, PostgreSQL sorts all runs anew for each
// of them. To compile a question takes longer than it saves.
func (*postgres) hasten(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, "SELECT set_config('work_mem', '64MB', true), set_config('jit', 'off', true)")
	return err
}

func (*postgres) bin(number expr, edges []float64) expr {
	list := make([]string, len(edges))
	for i, e := range edges {
		list[i] = strconv.FormatFloat(e, 'g', -1, 64)
	}
	return format("CAST(width_bucket(CAST(%s AS double precision), '{"+strings.Join(list, ",")+"}'::double precision[]) AS double precision)",
		number) // a parameter would be read anew for each run
}

// grouped needs OFFSET 0, which keeps PostgreSQL from taking equal columns of two sets for one and making
// them NULL.
func (*postgres) grouped(runs expr, sets []set) expr {
	var first, groups, numbers, texts, kinds []string
	numbers, texts, kinds = []string{"NULL::double precision"}, []string{"NULL::text"}, []string{"NULL::integer"}
	for i, s := range sets {
		names := s.names(i)
		first, groups = append(first, names[0]), append(groups, "("+strings.Join(names, ", ")+")")
		for _, name := range names {
			switch name[0] {
			case 'n':
				numbers = append(numbers, name)
			case 't':
				texts = append(texts, name)
			default:
				kinds = append(kinds, name)
			}
		}
	}
	list := func(names []string) string { return strings.Join(names, ", ") }
	return format("SELECT GROUPING("+list(first)+"), coalesce("+list(numbers)+"), coalesce("+list(texts)+"), coalesce("+
		list(kinds)+"), count(*) FROM (%s OFFSET 0) x GROUP BY GROUPING SETS ("+list(groups)+")", runs)
}

func (*postgres) size(ctx context.Context, s *Store) (n int64, err error) {
	err = s.read.QueryRowContext(ctx, `SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c
		WHERE c.relkind = 'r' AND c.relname = ANY($1) AND pg_table_is_visible(c.oid)`, tables).Scan(&n)
	return n, err
}

func (*postgres) check(context.Context, *Store) ([]string, error) { return nil, nil }

// tables are those of a store.
var tables = []string{
	"benchmark_runs", "records", "run_texts", "former_records", "removed_runs", "run_fields", "presets", "store_numbers",
}
