package dashboard_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/archive"
	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/internal/killtest"
	"github.com/profllm/profllm/pkg/pgtest"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/store"
	"github.com/profllm/profllm/pkg/synthetic"
	"github.com/profllm/profllm/pkg/upload"
)

// madeRecords are made-up records, as they are sent, and their ids.
func madeRecords(t testing.TB, n int) (texts, ids []string) {
	t.Helper()
	m := synthetic.New(3, n, time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))
	for i := range n {
		data, err := result.Encode(m.Record(i))
		require.NoError(t, err)
		texts, ids = append(texts, string(data)), append(ids, m.Record(i).RunID)
	}
	return texts, ids
}

// stored are the ids of all runs in the store of a server, which must be sound.
func (s *site) stored() (ids []string) {
	s.t.Helper()
	require.NoError(s.t, s.live.Store.Each(s.t.Context(), func(r *store.Run) error {
		ids = append(ids, r.ID)
		return nil
	}))
	v, err := s.live.Verify(s.t.Context(), nil)
	require.NoError(s.t, err)
	require.Empty(s.t, v.Problems)
	slices.Sort(ids)
	return ids
}

// sendRecord uploads a record, and gives the upload's name.
func (s *site) sendRecord(text string) string {
	s.t.Helper()
	status, answer, _ := s.send("POST", "/api/upload/raw", "application/json", strings.NewReader(text))
	require.Equal(s.t, 202, status, "%s", answer)
	var st upload.Status
	require.NoError(s.t, json.Unmarshal(answer, &st))
	return st.Job
}

// The server is killed before each change of the disk: what it acknowledged is stored by the next one, nothing is
// doubled, and what was not acknowledged may be sent again.
//
// covers: SM-4, API-1
func TestKilledServer(t *testing.T) {
	if testing.Short() {
		t.Skip("kills a program often")
	}
	texts, ids := madeRecords(t, 4)
	template := t.TempDir()
	db, err := store.Open(t.Context(), filepath.Join(template, "runs.db"), store.Options{Create: true})
	require.NoError(t, err)
	require.NoError(t, db.Close())
	folder := filepath.Join(t.TempDir(), "two")
	for i := range 2 {
		require.NoError(t, os.MkdirAll(filepath.Join(folder, ids[i]), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(folder, ids[i], "result.json"), []byte(texts[i]), 0o600))
	}
	require.NoError(t, os.MkdirAll(filepath.Join(template, "sent"), 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(template, "acked"), 0o700))
	_, err = archive.Write(t.Context(), folder, filepath.Join(template, "sent", "two.tar.xz"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(template, "sent", "one.json"), []byte(texts[2]), 0o600))
	run := func(until int) (box string, changes []killtest.Change, code int) {
		box = t.TempDir()
		require.NoError(t, os.CopyFS(box, os.DirFS(template)))
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childVar+"="+box)
		changes, code, err := killtest.Run(cmd, until)
		require.NoError(t, err)
		return box, changes, code
	}
	box, changes, code := run(0)
	require.Zero(t, code)
	survived(t, box, texts[:3], ids[:3])
	points := killPoints(changes)
	t.Logf("%d changes, killed before %d: some of each kind (make test-kill: before each)", len(changes), len(points))
	for _, n := range points {
		box, _, code := run(n)
		require.Contains(t, []int{-1, 0}, code) // threads may take another order, with fewer changes
		survived(t, box, texts[:3], ids[:3])
	}
}

// killPoints are all changes, or without PROFLLM_KILL_EVERY=1 some thirty, over all kinds of calls.
func killPoints(changes []killtest.Change) (list []int) {
	seen := map[string]bool{}
	step := max(1, len(changes)/24)
	for i, c := range changes {
		if !seen[c.Call] || i%step == 0 || os.Getenv("PROFLLM_KILL_EVERY") == "1" {
			list = append(list, i+1)
		}
		seen[c.Call] = true
	}
	return list
}

// survived requires that a new server of a box stores what the killed one acknowledged.
func survived(t *testing.T, box string, texts, ids []string) {
	t.Helper()
	s := start(t, box, config{})
	acked := map[string][]string{}
	for name, of := range map[string][]string{"one.json": ids[2:], "two.tar.xz": ids[:2]} {
		if job, err := os.ReadFile(filepath.Join(box, "acked", name)); err == nil && len(job) > 0 {
			st := s.uploaded(string(job))
			require.Empty(t, st.Files[0].Error)
			require.Equal(t, len(of), st.Files[0].Outcome["stored"]+st.Files[0].Outcome["duplicate"])
			acked[name] = of
		}
	}
	have := s.stored()
	for name, of := range acked {
		for _, id := range of {
			require.Contains(t, have, id, name)
		}
	}
	for i, text := range texts {
		st := s.uploaded(s.sendRecord(text))
		require.Len(t, st.Files[0].Runs, 1)
		require.Equal(t, ids[i], st.Files[0].Runs[0])
	}
	want := slices.Clone(ids)
	slices.Sort(want)
	require.Equal(t, want, s.stored(), "each once")
	left, err := filepath.Glob(filepath.Join(box, "spool", "new-*"))
	require.NoError(t, err)
	require.Empty(t, left)
	s.end()
}

// PostgreSQL ends before, while and after a run is stored: the upload waits, says why, and is stored once.
//
// covers: SM-4, API-4
func TestDatabaseThatEnds(t *testing.T) {
	texts, ids := madeRecords(t, 4)
	server := pgtest.New(t, os.Environ())
	var ahead atomic.Int64 // seconds
	var when atomic.Value
	when.Store("")
	var s *site
	s = start(t, t.TempDir(), config{
		store: server.Database(t),
		ups:   upload.Options{Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load()) * time.Second) }, Log: t.Logf},
		put: func(ctx context.Context, runs []records.Run) error {
			switch when.Swap("") {
			case "before":
				server.Kill()
			case "while":
				go server.Kill()
			case "after":
				_, err := s.live.Put(ctx, runs)
				server.Kill()
				return errors.Join(errors.New("its answer is lost"), err)
			}
			return nil
		},
	})
	s.uploaded(s.sendRecord(texts[3]))
	for i, at := range []string{"before", "while", "after"} {
		when.Store(at)
		job := s.sendRecord(texts[i])
		var st upload.Status
		await.True(t, func() bool {
			now, err := s.spool.Status(job)
			require.NoError(t, err)
			st = *now
			return st.State == upload.Waiting || st.State == upload.Done
		}, "the upload waits: %+v", &st)
		if at != "while" {
			require.Equal(t, upload.Waiting, st.State)
			require.NotEmpty(t, st.Trouble)
			require.NotRegexp(t, `127\.0\.0\.1|localhost|user|/`, st.Trouble, "who sent it does not learn where the database is")
			require.NotNil(t, st.NextTry)
		}
		await.True(t, func() bool { return server.Ended() }, "the database has ended")
		server.Start(t)
		ahead.Add(61)
		s.uploaded(s.sendRecord(texts[3])) // which wakes what waits
		require.Equal(t, ids[i], s.uploaded(job).Files[0].Runs[0])
	}
	slices.Sort(ids)
	require.Equal(t, ids, s.stored())
}

// Two servers of one store take uploads at the same moment: nothing is lost or doubled, and both show all of it.
//
// covers: SM-3, SM-4
func TestTwoServers(t *testing.T) {
	texts, ids := madeRecords(t, 30)
	for name, place := range map[string]func(t *testing.T) string{
		"sqlite":   func(t *testing.T) string { return filepath.Join(t.TempDir(), "runs.db") },
		"postgres": func(t *testing.T) string { return pgtest.Database(t, os.Environ()) },
	} {
		t.Run(name, func(t *testing.T) {
			at := place(t)
			sites := []*site{start(t, t.TempDir(), config{store: at}), start(t, t.TempDir(), config{store: at})}
			var all sync.WaitGroup
			jobs := make([][]string, 2)
			for i, s := range sites {
				for _, text := range texts[10*i : 10*i+20] { // ten of them to both
					jobs[i] = append(jobs[i], s.sendRecord(text))
				}
				all.Go(func() {
					for _, job := range jobs[i] {
						s.uploaded(job)
					}
				})
			}
			all.Wait()
			want := slices.Clone(ids)
			slices.Sort(want)
			for i, s := range sites {
				require.Equal(t, want, s.stored())
				n := 0
				await.True(t, func() bool { n = s.runs(); return n == len(want) }, "server %v shows all: %v", &i, &n)
			}
		})
	}
}

// An upload for which there is no room is refused, or waits and says so, and leaves nothing; with room, it is stored.
//
// covers: SM-4, API-4
func TestFullDisk(t *testing.T) {
	box := t.TempDir()
	dir := filepath.Join(box, "spool")
	require.NoError(t, os.Mkdir(dir, 0o700))
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("no tmpfs may be mounted here: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, 0)) })
	var ahead atomic.Int64
	s := start(t, box, config{ups: upload.Options{
		Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load()) * time.Second) }, Log: t.Logf}})
	body, kind := form(t, "large.json", strings.Repeat("x", 4<<20))
	status, answer, head := s.send("POST", "/api/upload/json", kind, strings.NewReader(body))
	require.Equal(t, 507, status, "%s", answer)
	require.Equal(t, "application/problem+json", head.Get("Content-Type"))
	require.Contains(t, string(answer), "no space left on device")
	require.NotContains(t, string(answer), box)
	s.well()

	record := goodRecord(t, nil)
	body, kind = form(t, "night.tar.xz", packedTar(t, folder("d"), folder("d/0"), file("d/0/result.json", 0), record, file("d/zeros", 8<<20)))
	status, answer, _ = s.send("POST", "/api/upload/json", kind, strings.NewReader(body))
	require.Equal(t, 202, status, "%s", answer)
	var st upload.Status
	require.NoError(t, json.Unmarshal(answer, &st))
	job := st.Job
	await.True(t, func() bool {
		_, answer, _ := s.send("GET", "/api/upload/status/"+job, "", nil)
		st = upload.Status{}
		require.NoError(t, json.Unmarshal(answer, &st))
		return st.State == upload.Waiting
	}, "the upload waits: %+v", &st)
	require.Contains(t, st.Trouble, "no space left on device")
	require.NotContains(t, st.Trouble, box)
	require.NotNil(t, st.NextTry)
	s.uploaded(s.sendRecord(record)) // is not kept waiting
	require.Equal(t, 1, s.runs())

	require.NoError(t, syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=64m"))
	ahead.Add(61)
	s.sendRecord("{}")
	require.Equal(t, map[string]int{"duplicate": 1}, s.uploaded(job).Files[0].Outcome, fmt.Sprint(st))
}
