package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Store keeps records. It is safe for concurrent use, also by several programs.
type Store struct {
	place string  // as messages name it
	write *sql.DB // one connection in SQLite, which takes one writer
	read  *sql.DB
	sql   dialect
	now   func() time.Time
	notes []string
	found remembered
}

// Options are those of Open.
type Options struct {
	Create bool             // a file that is missing; a database of PostgreSQL must be there
	Now    func() time.Time // nil: time.Now
}

// ErrNotFound is the error of a run that is not in the store.
var ErrNotFound = errors.New("no such run in the store")

// dialect is where the two databases differ.
type dialect interface {
	kind() string
	open(ctx context.Context, s *Store, o Options) error
	// bind makes ? the placeholders of the database.
	bind(query string) string
	typeOf(c column) string
	// lock lets one transaction after the other change runs.
	lock(ctx context.Context, tx *sql.Tx) error
	// insert adds rows to a table within a transaction on a connection.
	insert(ctx context.Context, c *sql.Conn, tx *sql.Tx, table string, columns []string, rows [][]any) error
	// full reports whether the disk of the database is full.
	full(err error) bool
	// null is NULL, as a number or a text.
	null(number bool) string
	// extra is the number and the text of a label in the column extra.
	extra(label string) (number, text expr)
	// part finds a text in another, both in small letters, and contains in one of any letters.
	part(text expr, small string) expr
	contains(text expr, small string) expr
	// snapshot are the options of a transaction that sees one state of the store.
	snapshot() *sql.TxOptions
	// hasten lets the questions of a transaction have the memory that they are quicker with.
	hasten(ctx context.Context, tx *sql.Tx) error
	// bin is how many of some edges, in their order, a number has reached; NULL for none.
	bin(number expr, edges []float64) expr
	// grouped counts runs by each of some sets of columns, ni, ti and ki: as a number whose bit of the set is 0,
	// the last that of the lowest bit, the values of the set, and how many runs there are.
	grouped(runs expr, sets []set) expr
	// inPlace is an error if the database is not any more where others look for it.
	inPlace() error
	size(ctx context.Context, s *Store) (int64, error)
	check(ctx context.Context, s *Store) ([]string, error)
}

// ErrReplaced says that the file of a store was removed or replaced while it was in use.
var ErrReplaced = errors.New("the file was removed or replaced while this program used the store: what it writes is lost\n\t" +
	"hint: put the file back, or start this program again; then repeat what was refused")

// Open opens the store at a place, the name of a file or postgres://…, and brings its
// tables up to this release.
func Open(ctx context.Context, place string, o Options) (*Store, error) {
	if place == "" {
		return nil, errors.New("a store without a name\n\thint: runs.db or postgres://user@host/database")
	}
	s := &Store{place: place, now: o.Now, sql: &sqlite{file: place}}
	if s.now == nil {
		s.now = time.Now
	}
	if IsURL(place) {
		s.place, s.sql = withoutPassword(place), &postgres{url: place}
	}
	err := s.sql.open(ctx, s, o)
	if err == nil {
		err = s.migrate(ctx)
	}
	if err == nil {
		err = s.sql.inPlace()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open store %s: %w", s.place, err), s.Close())
	}
	return s, nil
}

// IsURL reports whether a place is one of PostgreSQL.
func IsURL(place string) bool {
	return strings.HasPrefix(place, "postgres://") || strings.HasPrefix(place, "postgresql://")
}

// Close closes the store.
func (s *Store) Close() error {
	var errs []error
	for _, db := range []*sql.DB{s.read, s.write} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}

// Place is the name of the store without a password.
func (s *Store) Place() string { return s.place }

// Kind is sqlite or postgres.
func (s *Store) Kind() string { return s.sql.kind() }

// Notes say what a user of this store should know.
func (s *Store) Notes() []string { return s.notes }

// hinted says what to do about an error of the database.
func (s *Store) hinted(err error) error {
	if err == nil || !s.sql.full(err) {
		return err
	}
	return fmt.Errorf("no room on the disk of store %s, nothing of this was stored: %w\n\thint: make room, or remove former records with profllm store prune, and repeat", s.place, err)
}

// change runs a transaction that changes runs. All of it is on disk when change returns nil.
func (s *Store) change(ctx context.Context, do func(*change) error) error {
	conn, tx, err := begin(ctx, s.write, nil)
	if err != nil {
		return s.hinted(err)
	}
	defer conn.Close()
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	c := &change{Store: s, conn: conn, tx: tx}
	if err := s.sql.lock(ctx, tx); err != nil {
		return s.hinted(err)
	}
	if err := c.number(ctx, "seq", &c.seq); err != nil {
		return err
	}
	before := c.seq
	if err := do(c); err != nil {
		return s.hinted(err)
	}
	if c.seq != before {
		if err := c.exec(ctx, "UPDATE store_numbers SET value = ? WHERE name = 'seq'", c.seq); err != nil {
			return s.hinted(err)
		}
	}
	return s.committed(tx)
}

// committed ends a transaction: all of it is on disk, where others find it, when the error is nil.
func (s *Store) committed(tx *sql.Tx) error {
	if err := tx.Commit(); err != nil {
		return s.hinted(err)
	}
	return s.sql.inPlace()
}

// begin begins a transaction. A connection may have ended while nobody used it, with the server that was
// restarted: then the next is tried, of which few are kept.
func begin(ctx context.Context, db *sql.DB, o *sql.TxOptions) (*sql.Conn, *sql.Tx, error) {
	for tries := 1; ; tries++ {
		conn, err := db.Conn(ctx)
		if err != nil {
			return nil, nil, err
		}
		tx, err := conn.BeginTx(ctx, o)
		if err == nil {
			return conn, tx, nil
		}
		conn.Close()
		if tries == 4 || ctx.Err() != nil {
			return nil, nil, err
		}
	}
}

// change is a transaction that changes runs. seq is the number of its last row: each row and each
// removal has another, and later ones have larger ones.
type change struct {
	*Store
	conn *sql.Conn
	tx   *sql.Tx
	seq  int64
}

func (c *change) exec(ctx context.Context, query string, args ...any) error {
	_, err := c.tx.ExecContext(ctx, c.sql.bind(query), args...)
	return err
}

func (c *change) number(ctx context.Context, name string, into *int64) error {
	return c.tx.QueryRowContext(ctx, c.sql.bind("SELECT value FROM store_numbers WHERE name = ?"), name).Scan(into)
}

// queryer is a database or a transaction.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// each calls visit for each row of an answer.
func (s *Store) each(ctx context.Context, q queryer, visit func(*sql.Rows) error, query string, args ...any) error {
	rows, err := q.QueryContext(ctx, s.sql.bind(query), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := visit(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// marks are n placeholders.
func marks(n int) string { return strings.TrimSuffix(strings.Repeat("?,", n), ",") }

// numbered makes ? into $1, $2, …
func numbered(query string) string {
	var b strings.Builder
	n := 0
	for {
		before, after, found := strings.Cut(query, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		n++
		b.WriteString("$" + strconv.Itoa(n))
		query = after
	}
}
