package store

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/internal/killtest"
	"github.com/profllm/profllm/pkg/pgtest"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/result"
)

// childVar makes the test binary a program that stores runs, and says so in a file beside the store.
const childVar = "PROFLLM_STORE_CHILD"

func TestMain(m *testing.M) {
	if place := os.Getenv(childVar); place != "" {
		if err := ingest(place); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	pgtest.Stop()
	os.Exit(code)
}

// ingest stores two batches, of which the second updates a run of the first, and acknowledges each.
func ingest(place string) error {
	ctx := context.Background()
	s, err := Open(ctx, place, Options{Create: true})
	if err != nil {
		return err
	}
	for i, batch := range batches() {
		if _, err := s.Put(ctx, batch); err != nil {
			return err
		}
		if err := os.WriteFile(fmt.Sprintf("%s.ack%d", place, i), nil, 0o600); err != nil {
			return err
		}
	}
	return s.Close()
}

// plainRun is a small record.
func plainRun(n, completed int) records.Run {
	return records.Run{Dir: fmt.Sprintf("/runs/%d", n), Case: records.Case{Test: "t"}, Settings: map[string]string{"NUM_NODES": "1"},
		Result: &result.Result{RunID: fmt.Sprintf("exp_%d", n), Suite: "s", Timestamp: time.Unix(int64(n), 0).UTC(),
			Schema: result.SchemaV1, Status: result.Completed, Config: result.Config{Server: map[string]any{}},
			Results: result.Metrics{Counts: result.Counts{CompletedRequests: &completed}}}}
}

func batches() [][]records.Run {
	return [][]records.Run{{plainRun(1, 1), plainRun(2, 1), plainRun(3, 1)}, {plainRun(3, 2), plainRun(4, 1)}}
}

// intact requires that a store has what was acknowledged, each once, and of another batch all or nothing.
func intact(t *testing.T, place string, acknowledged [2]bool) {
	t.Helper()
	s, err := Open(t.Context(), place, Options{Create: true})
	require.NoError(t, err)
	defer s.Close()
	c, err := s.Verify(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, c.Problems)
	want := []string{"[0 0]", "[3 0]", "[4 1]"}
	if acknowledged[0] {
		want = want[1:]
	}
	if acknowledged[1] {
		want = want[1:]
	}
	require.Contains(t, want, fmt.Sprint([]int{c.Runs, c.Formers}))
	for range 2 { // the same program again ends what was begun
		for _, batch := range batches() {
			_, err := s.Put(t.Context(), batch)
			require.NoError(t, err)
		}
	}
	n, err := s.Count(t.Context())
	require.NoError(t, err)
	require.Equal(t, 4, n)
}

// Whatever change of the disk a kill comes before: what was acknowledged is there, nothing is doubled, and no
// batch is there in part.
//
// covers: SM-4
func TestKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("kills a program often")
	}
	child := func(place string) *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childVar+"="+place)
		return cmd
	}
	changes, code, err := killtest.Run(child(filepath.Join(t.TempDir(), "runs.db")), 0)
	require.NoError(t, err)
	require.Zero(t, code)
	require.Greater(t, len(changes), 20)
	points := killPoints(changes)
	t.Logf("%d changes, killed before %d: the first and the last of those alike (make test-kill: before each)", len(changes), len(points))
	for _, n := range points {
		place := filepath.Join(t.TempDir(), "runs.db")
		_, code, err := killtest.Run(child(place), n)
		require.NoError(t, err)
		require.Equal(t, -1, code)
		var acknowledged [2]bool
		for i := range acknowledged {
			_, err := os.Stat(fmt.Sprintf("%s.ack%d", place, i))
			acknowledged[i] = err == nil
		}
		intact(t, place, acknowledged)
	}
}

// killPoints are all changes, or without PROFLLM_KILL_EVERY=1 the first and the last of those in a row that
// are alike.
func killPoints(changes []killtest.Change) []int {
	var list []int
	for i, c := range changes {
		alike := i > 0 && i+1 < len(changes) && changes[i-1].Kind() == c.Kind() && changes[i+1].Kind() == c.Kind()
		if !alike || os.Getenv("PROFLLM_KILL_EVERY") == "1" {
			list = append(list, i+1)
		}
	}
	return list
}

// A full disk is said, and nothing of the batch is there; with room, the same batch is stored.
//
// covers: SM-4
func TestDiskFull(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "runs.db"), Options{Create: true})
	require.NoError(t, err)
	defer s.Close()
	var pages int
	require.NoError(t, s.write.QueryRow("PRAGMA page_count").Scan(&pages))
	_, err = s.write.Exec(fmt.Sprintf("PRAGMA max_page_count = %d", pages+4))
	require.NoError(t, err)
	var many []records.Run
	for i := range 300 {
		many = append(many, plainRun(i, 1))
	}
	_, err = s.Put(t.Context(), many)
	require.ErrorContains(t, err, "no room on the disk")
	require.ErrorContains(t, err, "hint: make room")
	n, err := s.Count(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)
	_, err = s.write.Exec("PRAGMA max_page_count = 100000")
	require.NoError(t, err)
	_, err = s.Put(t.Context(), many)
	require.NoError(t, err)
	c, err := s.Verify(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, c.Problems)
	require.Equal(t, len(many), c.Runs)
}

// On a network file system, there is no write-ahead log, and the user is told.
func TestNetworkFileSystem(t *testing.T) {
	real := remoteFS
	t.Cleanup(func() { remoteFS = real })
	remoteFS = func(string) string { return "NFS" }
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "runs.db"), Options{Create: true})
	require.NoError(t, err)
	defer s.Close()
	require.Contains(t, strings.Join(s.Notes(), ""), "network file system (NFS)")
	var mode string
	require.NoError(t, s.write.QueryRow("PRAGMA journal_mode").Scan(&mode))
	require.Equal(t, "delete", mode)
	_, err = s.Put(t.Context(), []records.Run{plainRun(1, 1)})
	require.NoError(t, err)
	require.Empty(t, real(os.TempDir()))
}

// places are a new store of each database.
var places = map[string]func(t *testing.T) string{
	"sqlite":   func(t *testing.T) string { return filepath.Join(t.TempDir(), "runs.db") },
	"postgres": func(t *testing.T) string { return pgtest.Database(t, os.Environ()) },
}

// A store of a release that knew fewer fields, and one of another kind, gets their columns, and its rows
// get values in them; a store of a newer release stays as it is, or is refused.
//
// covers: DATA-3, DASH-9
func TestOlderTable(t *testing.T) {
	for name, place := range places {
		t.Run(name, func(t *testing.T) {
			at := place(t)
			s, err := Open(t.Context(), at, Options{Create: true})
			require.NoError(t, err)
			runs := []records.Run{plainRun(1, 7), plainRun(2, 8)}
			_, err = s.Put(t.Context(), runs)
			require.NoError(t, err)
			completed, _ := known().column("completed_requests")
			suite, _ := known().column("suite")
			require.NotEmpty(t, completed.name)
			for _, q := range []string{
				"ALTER TABLE benchmark_runs DROP COLUMN " + quoted(completed.name),
				dropIndex(suite), "ALTER TABLE benchmark_runs DROP COLUMN suite",
				"ALTER TABLE benchmark_runs ADD COLUMN suite " + s.sql.typeOf(column{field: &field.Field{Kind: field.Number}}),
				"UPDATE benchmark_runs SET columns_of = 'older'",
			} {
				_, err := s.write.Exec(q)
				require.NoError(t, err, q)
			}
			require.NoError(t, s.Close())

			s, err = Open(t.Context(), at, Options{})
			require.NoError(t, err)
			c, err := s.Verify(t.Context(), nil)
			require.NoError(t, err)
			require.Empty(t, c.Problems)
			require.Equal(t, 2, c.Runs)
			var n float64
			var text string
			require.NoError(t, s.read.QueryRow("SELECT "+quoted(completed.name)+", suite FROM benchmark_runs WHERE id = 'exp_2'").
				Scan(&n, &text))
			require.Equal(t, 8.0, n)
			require.Equal(t, "s", text)

			_, err = s.write.Exec("ALTER TABLE benchmark_runs ADD COLUMN of_tomorrow " + s.sql.typeOf(completed))
			require.NoError(t, err)
			_, err = s.write.Exec("UPDATE benchmark_runs SET columns_of = 'tomorrow', of_tomorrow = 3")
			require.NoError(t, err)
			require.NoError(t, s.Close())
			s, err = Open(t.Context(), at, Options{})
			require.NoError(t, err)
			var layout string
			require.NoError(t, s.read.QueryRow("SELECT max(columns_of) FROM benchmark_runs").Scan(&layout))
			require.Equal(t, "tomorrow", layout)
			_, err = s.Put(t.Context(), runs)
			require.NoError(t, err)

			_, err = s.write.Exec("INSERT INTO store_versions (version_id, is_applied) VALUES (99, " +
				map[string]string{"sqlite": "1", "postgres": "true"}[name] + ")")
			require.NoError(t, err)
			require.NoError(t, s.Close())
			_, err = Open(t.Context(), at, Options{})
			require.ErrorContains(t, err, "a newer profllm wrote the store")
		})
	}
}

// The first who opens an empty database makes its tables, also if several do at the same moment; they store the
// same runs, and each is there once.
//
// covers: DASH-9
func TestAtOnce(t *testing.T) {
	for name, place := range places {
		t.Run(name, func(t *testing.T) {
			at := place(t)
			var all sync.WaitGroup
			errs := make([]error, 6)
			for i := range errs {
				all.Go(func() {
					s, err := Open(t.Context(), at, Options{Create: true})
					if err == nil {
						for _, batch := range batches() {
							if _, e := s.Put(t.Context(), batch); e != nil {
								err = e
							}
						}
						s.Close()
					}
					errs[i] = err
				})
			}
			all.Wait()
			for _, err := range errs {
				require.NoError(t, err)
			}
			s, err := Open(t.Context(), at, Options{})
			require.NoError(t, err)
			defer s.Close()
			c, err := s.Verify(t.Context(), nil)
			require.NoError(t, err)
			require.Empty(t, c.Problems)
			require.Equal(t, 4, c.Runs)
		})
	}
}

// A database that goes away in the middle is an error, nothing is stored in part, and the same store goes
// on when the database is back.
//
// covers: SM-4, DASH-9
func TestRestartedDatabase(t *testing.T) {
	server := pgtest.New(t, os.Environ())
	s, err := Open(t.Context(), server.Database(t), Options{})
	require.NoError(t, err)
	defer s.Close()
	_, err = s.Put(t.Context(), batches()[0])
	require.NoError(t, err)
	err = s.change(t.Context(), func(c *change) error {
		r := plainRun(9, 1)
		one, err := newRow(&r, 0)
		require.NoError(t, err)
		one.id = "exp_9"
		require.NoError(t, c.replace(t.Context(), []*row{one}))
		server.Kill()
		return nil
	})
	require.Error(t, err)
	_, err = s.Put(t.Context(), batches()[1])
	require.Error(t, err)
	server.Start(t)
	_, err = s.Put(t.Context(), batches()[1])
	require.NoError(t, err)
	c, err := s.Verify(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, c.Problems)
	require.Equal(t, []int{4, 1}, []int{c.Runs, c.Formers})
}
