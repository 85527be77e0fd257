package store

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
	driver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/regular"
)

// sqlite keeps a store in a file. Changes go to a log beside it (WAL), so that readers and a
// writer do not wait for each other, and each is on disk before it is acknowledged
// (synchronous=FULL): a batch of records costs one fsync.
type sqlite struct {
	file string

	mu   sync.Mutex
	seen map[string]fs.FileInfo // the file and its log as they were opened, by name
}

func (*sqlite) kind() string { return "sqlite" }

// readers is how many connections read at once. Each has a cache of up to 64 MiB. Code that reads on one of
// them must not wait for another.
const readers = 8

// application marks the file as a store, in SQLite's header.
const application = 0x70724c6d

// remote are file systems whose files other machines may change, by the numbers of statfs(2). A
// log in shared memory is not possible there: https://sqlite.org/wal.html.
var remote = map[int64]string{
	0x6969: "NFS", 0x0BD00BD0: "Lustre", 0xFF534D42: "CIFS", 0xFE534D42: "SMB", 0x517B: "SMB", 0x47504653: "GPFS",
	0x19830326: "BeeGFS", 0x00C36400: "Ceph", 0x5346414F: "AFS", 0xAAD7AAEA: "PanFS", 0x01161970: "GFS2", 0x013111A8: "IBRIX",
	0x7461636F: "OCFS2", 0x20030528: "OrangeFS", 0x73757245: "Coda", 0x01021997: "9P",
}

// remoteFS names the network file system that a folder is on, "" if it is none.
var remoteFS = func(dir string) string {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return ""
	}
	return remote[int64(uint32(st.Type))]
}

func (d *sqlite) open(ctx context.Context, s *Store, o Options) error {
	if err := d.look(o.Create); err != nil {
		return err
	}
	mode := "WAL"
	if name := remoteFS(filepath.Dir(d.file)); name != "" {
		mode = "DELETE"
		s.notes = append(s.notes, fmt.Sprintf("%s is on a network file system (%s), where SQLite has no write-ahead log: readers wait for writers, and only one machine may use the store at a time. A local disk or PostgreSQL has no such limits", d.file, name))
	}
	registered()
	var err error
	if s.write, err = sql.Open("sqlite", d.source("_txlock=immediate", "_pragma=page_size(8192)",
		"_pragma=journal_mode("+mode+")", "_pragma=synchronous(FULL)")); err != nil {
		return err
	}
	s.write.SetMaxOpenConns(1)
	if s.read, err = sql.Open("sqlite", d.source("_pragma=query_only(1)")); err != nil {
		return err
	}
	s.read.SetMaxOpenConns(readers)
	var id, tables, schema int64
	// Another process may be making the store: it writes the id before the first table, so the tables are read first.
	if err := s.write.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master").Scan(&tables); err != nil {
		return d.explained(err)
	}
	for name, into := range map[string]*int64{"application_id": &id, "schema_version": &schema} {
		if err := s.write.QueryRowContext(ctx, "PRAGMA "+name).Scan(into); err != nil {
			return d.explained(err)
		}
	}
	if id != application && tables > 0 {
		return errors.New("the file is another program's database")
	}
	if id != application {
		_, err = s.write.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d", application))
	}
	return err
}

// inPlace is an error if the file or its log was removed or replaced since it was opened: what is written then goes
// into a file that nobody finds again.
func (d *sqlite) inPlace() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range []string{d.file, d.file + "-wal"} {
		now, err := os.Stat(name)
		was, known := d.seen[name]
		switch {
		case err == nil && !known:
			if d.seen == nil {
				d.seen = map[string]fs.FileInfo{}
			}
			d.seen[name] = now
		case known && (err != nil || !os.SameFile(was, now)):
			return fmt.Errorf("%s: %w", name, ErrReplaced)
		}
	}
	return nil
}

// look refuses what is no file of SQLite before SQLite sees it.
func (d *sqlite) look(create bool) error {
	f, err := regular.OpenLarge(d.file)
	if errors.Is(err, fs.ErrNotExist) {
		if create {
			return nil
		}
		return fmt.Errorf("%w\n\thint: profllm store fill --store %s RESULTS makes it", err, d.file)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	const magic = "SQLite format 3\x00"
	head := make([]byte, len(magic))
	if n, err := io.ReadFull(f, head); n > 0 && (err != nil || string(head) != magic) {
		return errors.New("the file is no store")
	}
	return nil
}

// source is what the driver is told.
func (d *sqlite) source(options ...string) string {
	options = append([]string{"_pragma=busy_timeout(60000)", "_pragma=trusted_schema(0)", "_pragma=cell_size_check(1)",
		"_pragma=cache_size(-65536)", "_pragma=temp_store(2)"}, options...)
	return (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: d.file}).EscapedPath()}).String() + "?" + strings.Join(options, "&")
}

func (d *sqlite) explained(err error) error {
	var e *driver.Error
	if errors.As(err, &e) {
		switch e.Code() & 0xff {
		case sqlite3.SQLITE_CANTOPEN:
			if st, statErr := os.Stat(filepath.Dir(d.file)); statErr != nil || !st.IsDir() {
				return fmt.Errorf("%w\n\thint: mkdir -p %s", err, filepath.Dir(d.file))
			}
		case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
			return fmt.Errorf("%w\n\thint: fill another store from the result folders, or restore a backup", err)
		}
	}
	return err
}

func (*sqlite) bind(query string) string { return query }

func (*sqlite) typeOf(c column) string {
	switch c.field.Kind {
	case field.Number:
		return "REAL"
	case field.Time:
		return "INTEGER"
	}
	return "TEXT"
}

func (*sqlite) lock(context.Context, *sql.Tx) error { return nil } // BEGIN IMMEDIATE has done it

func (*sqlite) insert(
	ctx context.Context, _ *sql.Conn, tx *sql.Tx, table string, columns []string, rows [][]any,
) error {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = quoted(c)
	}
	stmt, err := tx.PrepareContext(ctx, fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", quoted(table),
		strings.Join(names, ","), marks(len(columns))))
	if err != nil {
		return err
	}
	defer stmt.Close()
	for _, row := range rows {
		if _, err := stmt.ExecContext(ctx, row...); err != nil {
			return err
		}
	}
	return nil
}

func (*sqlite) full(err error) bool {
	var e *driver.Error
	return errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_FULL || errors.Is(err, unix.ENOSPC)
}

func (*sqlite) null(bool) string { return "NULL" }

func (*sqlite) extra(label string) (number, text expr) {
	path := `$."` + label + `"`
	return raw("CASE WHEN json_type(b.extra, ?) IN ('integer', 'real') THEN CAST(json_extract(b.extra, ?) AS REAL) END", path, path),
		raw("CASE WHEN json_type(b.extra, ?) = 'text' THEN json_extract(b.extra, ?) END", path, path)
}

func (*sqlite) part(text expr, small string) expr {
	return format("instr(%s, %s) > 0", text, raw("?", small))
}

// contains calls a function of this program: SQLite knows no capitals but those of ASCII.
func (*sqlite) contains(text expr, small string) expr {
	return format("profllm_contains(%s, %s)", text, raw("?", small))
}

var registered = sync.OnceFunc(func() {
	driver.MustRegisterDeterministicScalarFunction("profllm_contains", 2,
		func(_ *driver.FunctionContext, args []sqldriver.Value) (sqldriver.Value, error) {
			text, ok := args[0].(string)
			small, _ := args[1].(string)
			return number(ok && hit(text, small)), nil
		})
})

func (*sqlite) snapshot() *sql.TxOptions { return nil }

func (*sqlite) hasten(context.Context, *sql.Tx) error { return nil }

func (*sqlite) bin(number expr, edges []float64) expr {
	text, args := "CASE WHEN %[1]s IS NULL THEN NULL", number.args
	for i, e := range edges {
		text += fmt.Sprintf(" WHEN %%[1]s < ? THEN %d.0", i)
		args = append(append(slices.Clip(args), number.args...), e)
	}
	return raw(fmt.Sprintf("CAST("+text+fmt.Sprintf(" ELSE %d.0 END AS REAL)", len(edges)), number.text), args...)
}

func (*sqlite) grouped(runs expr, sets []set) expr {
	parts := make([]expr, len(sets))
	for i, s := range sets {
		column := func(name string, wanted bool) string {
			if !wanted {
				return "NULL"
			}
			return fmt.Sprint(name, i)
		}
		parts[i] = raw(fmt.Sprintf("SELECT %d, %s, %s, %s, count(*) FROM h GROUP BY %s", (1<<len(sets)-1)&^(1<<(len(sets)-1-i)),
			column("n", s.number), column("t", s.text), column("k", s.kind), strings.Join(s.names(i), ", ")))
	}
	return format("WITH h AS MATERIALIZED (%s) %s", runs, joined(parts, " UNION ALL "))
}

func (*sqlite) size(ctx context.Context, s *Store) (n int64, err error) {
	err = s.read.QueryRowContext(ctx,
		"SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").Scan(&n)
	return n, err
}

func (*sqlite) check(ctx context.Context, s *Store) (list []string, err error) {
	err = s.each(ctx, s.read, func(r *sql.Rows) error {
		var line string
		if err := r.Scan(&line); err != nil {
			return err
		}
		if line != "ok" {
			list = append(list, line)
		}
		return nil
	}, "PRAGMA integrity_check(20)")
	return list, err
}
