package store

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/records"
)

// Verify finds what was changed behind the store's back.
func TestVerify(t *testing.T) {
	for name, place := range places {
		t.Run(name, func(t *testing.T) {
			for _, c := range []struct{ spoil, problem string }{
				{"UPDATE benchmark_runs SET suite = 'x' WHERE id = 'exp_2'", "suite is \"x\""},
				{"UPDATE benchmark_runs SET record_hash = 'x' WHERE id = 'exp_2'", "another hash"},
				{"UPDATE benchmark_runs SET extra = NULL, run_id = 'exp_7' WHERE id = 'exp_2'", "run_id is"},
				{"DELETE FROM records WHERE seq = (SELECT min(seq) FROM records)", "1 runs without their record"},
				{"DELETE FROM benchmark_runs WHERE id = 'exp_2'", "records without their run"},
				{"DELETE FROM run_texts", "runs without their texts"},
				{"UPDATE records SET record = besides", "unpack the record"},
				{"UPDATE former_records SET record_hash = 'x'", "a former record has another hash"},
				{"UPDATE store_numbers SET value = 1 WHERE name = 'seq'", "newer than the last change"},
			} {
				s, err := Open(t.Context(), place(t), Options{Create: true})
				require.NoError(t, err)
				for _, batch := range batches() {
					_, err := s.Put(t.Context(), batch)
					require.NoError(t, err)
				}
				_, err = s.write.Exec(c.spoil)
				require.NoError(t, err, c.spoil)
				found, err := s.Verify(t.Context(), nil)
				require.NoError(t, err, c.spoil)
				require.NotEmpty(t, found.Problems, c.spoil)
				require.Contains(t, fmt.Sprint(found.Problems), c.problem)
				require.NoError(t, s.Close())
			}
		})
	}
}

// A run whose folder is gone is only counted; a folder that is there and has no such run is a problem. Of several
// columns that differ, the first by name is named.
func TestVerifyFolders(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "runs.db"), Options{Create: true})
	require.NoError(t, err)
	defer s.Close()
	here, gone := plainRun(1, 1), plainRun(2, 1)
	here.Dir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(here.Dir, "result.json"), nil, 0o600))
	gone.Dir = filepath.Join(here.Dir, "gone")
	_, err = s.Put(t.Context(), []records.Run{here, gone})
	require.NoError(t, err)
	for _, c := range []struct {
		runs     []records.Run
		compared int
		problems []Fault
	}{
		{[]records.Run{here}, 1, []Fault{}},
		{nil, 0, []Fault{{"exp_1", here.Dir + " was read, and the run is not in it"}}},
	} {
		found, err := s.Verify(t.Context(), func(string) ([]records.Run, error) { return c.runs, nil })
		require.NoError(t, err)
		require.Equal(t, []any{1, c.compared, c.problems}, []any{found.Gone, found.Compared, found.Problems})
	}
	_, err = s.write.Exec("UPDATE benchmark_runs SET suite = 'x', test = 'x', completed_requests = 9 WHERE id = 'exp_1'")
	require.NoError(t, err)
	for range 5 {
		found, err := s.Verify(t.Context(), nil)
		require.NoError(t, err)
		require.Len(t, found.Problems, 1)
		require.Contains(t, found.Problems[0].What, "completed_requests is \"9\", and \"1\" in the record")
	}
}

// What is no store is refused and not changed.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	text, other, fifo := filepath.Join(dir, "text"), filepath.Join(dir, "other.db"), filepath.Join(dir, "none.db")
	require.NoError(t, os.WriteFile(text, []byte("SELECT"), 0o600))
	s, err := Open(t.Context(), other, Options{Create: true})
	require.NoError(t, err)
	_, err = s.write.Exec("PRAGMA application_id = 7")
	require.NoError(t, err)
	require.NoError(t, s.Close())
	for place, why := range map[string]string{
		text: "no store", other: "another program's database", fifo: "no such file", "": "without a name", dir: "not a regular file",
		"postgres://u:secret@127.0.0.1:1/x?connect_timeout=2": "xxxxx",
	} {
		_, err := Open(t.Context(), place, Options{})
		require.ErrorContains(t, err, why, place)
		require.NotContains(t, err.Error(), "secret")
	}
}

func FuzzDump(f *testing.F) {
	s, err := Open(f.Context(), filepath.Join(f.TempDir(), "runs.db"), Options{Create: true})
	require.NoError(f, err)
	defer s.Close()
	for _, batch := range batches() {
		_, err := s.Put(f.Context(), batch)
		require.NoError(f, err)
	}
	file := filepath.Join(f.TempDir(), "dump")
	_, err = s.Backup(f.Context(), file)
	require.NoError(f, err)
	data, err := os.ReadFile(file)
	require.NoError(f, err)
	plain, err := unzipped(data)
	require.NoError(f, err)
	f.Add(plain)
	f.Add([]byte(`{"schema":"profllm.store/1"}` + "\n" + `{"run":{"id":"a"}}`))
	f.Fuzz(func(t *testing.T, plain []byte) {
		_, err := readDump(t.Context(), strings.NewReader(string(zipped(plain))), func(l line) error {
			if l.Run != nil {
				_, _ = rowOf(l.Run)
			}
			return nil
		})
		_ = err // no panic
	})
}
