package upload_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/archive"
	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/catalog"
	"github.com/profllm/profllm/pkg/collect"
	"github.com/profllm/profllm/pkg/failure"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/upload"
)

const release = "../result/testdata/releases/2026-11-22/release"

// shelf is a store that remembers ids.
type shelf struct {
	ids   map[string]bool
	fail  error
	never string // the folder of a run that is never stored
	dirs  []string

	cases []string
}

func (s *shelf) put(_ context.Context, runs []records.Run) ([]upload.Outcome, error) {
	if s.fail != nil {
		return nil, s.fail
	}
	var list []upload.Outcome
	for _, r := range runs {
		if s.never != "" && r.Dir == s.never {
			return nil, errRefused
		}
		did := "stored"
		if s.ids[r.Result.RunID] {
			did = "duplicate"
		}
		s.ids[r.Result.RunID] = true
		s.dirs, s.cases = append(s.dirs, r.Dir), append(s.cases, r.Case.Scenario+"/"+r.Case.Test)
		list = append(list, upload.Outcome{ID: r.Result.RunID, Did: did})
	}
	return list, nil
}

func open(t *testing.T, dir string, s *shelf, o upload.Options) *upload.Spool {
	t.Helper()
	o.Collector = &collect.Collector{Version: "test", Bench: catalog.Benches, Eval: catalog.Evals, Causes: failure.Builtin}
	o.Put = s.put
	spool, err := upload.Open(dir, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, spool.Close()) })
	return spool
}

// send is the files of a form: a name, its content, and so on.
func send(list ...string) iter.Seq2[upload.Sent, error] {
	return func(yield func(upload.Sent, error) bool) {
		for i := 0; i+1 < len(list); i += 2 {
			if !yield(upload.Sent{Name: list[i], Reader: strings.NewReader(list[i+1])}, nil) {
				return
			}
		}
	}
}

func content(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(data)
}

// work lets a spool work until an upload is done.
func work(t *testing.T, s *upload.Spool, job string) *upload.Status {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Work(ctx) }()
	var st *upload.Status
	await.True(t, func() bool {
		var err error
		st, err = s.Status(job)
		require.NoError(t, err)
		return st.State == upload.Done
	}, "the upload is done")
	cancel()
	require.NoError(t, <-ended)
	return st
}

// covers: API-1, API-2, API-4, UI-14, UI-15
func TestFilesOfAllKinds(t *testing.T) {
	shelf := &shelf{ids: map[string]bool{}}
	s := open(t, t.TempDir(), shelf, upload.Options{})
	folder := t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(folder, "night"), os.DirFS(release)))
	packed := filepath.Join(folder, "night.tar.xz")
	_, err := archive.Write(t.Context(), filepath.Join(folder, "night"), packed)
	require.NoError(t, err)
	record := content(t, release+"/aggregated/0/result.json")
	broken := strings.Replace(record, `"run_id"`, `"run_di"`, 1)
	st, err := s.Accept(send(
		"night.tar.xz", content(t, packed),
		"good.json", record,
		"broken.json", broken,
		"empty.json", "",
		"cut.json", record[:len(record)/2],
		"notes.txt", "no result",
		"bomb.tar.xz", "\xfd7zXZ\x00 not really",
		"vllm.json", content(t, "../bench/vllmserve/testdata/real/serve.json"),
		"mine/a/result.json", content(t, release+"/ray/0/result.json"),
		"mine/b/result.json", content(t, release+"/sweep/0/1/result.json"),
	))
	require.NoError(t, err)
	require.Equal(t, upload.Queued, st.State)
	st = work(t, s, st.Job)
	require.Equal(t, 9, st.Total)
	require.Equal(t, 9, st.Done)
	byName := map[string]upload.File{}
	for _, f := range st.Files {
		byName[f.Name] = f
		require.NotContains(t, f.Error, t.TempDir(), "no folder of this machine")
	}
	require.Equal(t, map[string]int{"stored": 3, "duplicate": 3}, byName["night.tar.xz"].Outcome, "%v", byName["night.tar.xz"])
	require.Equal(t, map[string]int{"stored": 1}, byName["good.json"].Outcome)
	require.Equal(t, map[string]int{"stored": 2}, byName["mine"].Outcome)
	require.Equal(t, map[string]int{"stored": 1}, byName["vllm.json"].Outcome, "%v", byName["vllm.json"])
	for name, says := range map[string]string{
		"broken.json": "run_di", "empty.json": "empty", "cut.json": "line 306", "notes.txt": "unknown format", "bomb.tar.xz": "xz",
	} {
		require.Contains(t, byName[name].Error, says, name)
	}
	require.Contains(t, shelf.dirs, "mine/a")
	require.Contains(t, shelf.cases, "release/aggregated", "a record alone says which test it is of")
}

func TestNamesThatAreNotAccepted(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, &shelf{ids: map[string]bool{}}, upload.Options{Bytes: 1000})
	for _, name := range []string{
		"../up.json", "a/../../up.json", `..\up.json`, "", "/", "a\x00b", "a\nb", strings.Repeat("x/", 40) + "y",
		strings.Repeat("x", 600), "..", "a/" + strings.Repeat("x", 256) + "/b", "a\xff",
	} {
		_, err := s.Accept(send(name, "{}"))
		require.ErrorIs(t, err, upload.ErrName, "%q", name)
	}
	_, err := s.Accept(send("a", "{}", "a", "{}"))
	require.ErrorIs(t, err, upload.ErrName)
	_, err = s.Accept(send("a", "{}", "a/b", "{}"))
	require.ErrorIs(t, err, upload.ErrName)
	_, err = s.Accept(send("a/b", "{}", "a", "{}"))
	require.ErrorIs(t, err, upload.ErrName)
	_, err = s.Accept(send("a", strings.Repeat("x", 1001)))
	require.ErrorIs(t, err, upload.ErrTooLarge)
	_, err = s.Accept(send("a", strings.Repeat("x", 600), "b", strings.Repeat("x", 600)))
	require.ErrorIs(t, err, upload.ErrTooLarge)
	_, err = s.Accept(send())
	require.ErrorIs(t, err, upload.ErrEmpty)
	_, err = s.Accept(func(yield func(upload.Sent, error) bool) {
		yield(upload.Sent{Name: "a", Reader: io.MultiReader(strings.NewReader("{"), iotest.ErrReader(io.ErrUnexpectedEOF))}, nil)
	})
	require.ErrorIs(t, err, upload.ErrCut)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "what was refused leaves nothing beside the lease")
	st, err := s.Accept(send("/absolute.json", "{}"))
	require.NoError(t, err, "an absolute name is one below the folder")
	require.Equal(t, 1, st.Total)
	for _, job := range []string{"", "..", "../..", "20260101000000-0000000000000000"} {
		_, err = s.Status(job)
		require.ErrorIs(t, err, upload.ErrNoJob)
	}
}

// covers: SM-4
func TestAnUploadSurvivesACrashAndAStoreThatIsAway(t *testing.T) {
	dir := t.TempDir()
	shelf := &shelf{ids: map[string]bool{}, fail: errors.New("the database is away")}
	record := content(t, release+"/aggregated/0/result.json")
	said := make(chan string, 10)
	s := open(t, dir, shelf, upload.Options{Log: func(format string, args ...any) {
		select {
		case said <- format:
		default:
		}
	}})
	st, err := s.Accept(send("good.json", record))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Work(ctx) }()
	<-said
	cancel()
	require.NoError(t, <-ended)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "new-20260101000000-0000000000000000"), 0o700))

	require.NoError(t, s.Close())
	shelf.fail = nil // another process, with the store back
	st = work(t, open(t, dir, shelf, upload.Options{}), st.Job)
	require.Equal(t, map[string]int{"stored": 1}, st.Files[0].Outcome)
	require.NoDirExists(t, filepath.Join(dir, "new-20260101000000-0000000000000000"))
	require.NoDirExists(t, filepath.Join(dir, "job-"+st.Job, "files"), "the store has it")
}
