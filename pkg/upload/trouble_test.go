package upload_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/archive"
	"github.com/profllm/profllm/pkg/lease"
	"github.com/profllm/profllm/pkg/upload"
)

// said gives what a spool logs; what nobody waits for is dropped.
func said() (chan string, func(format string, args ...any)) {
	c := make(chan string, 1)
	return c, func(format string, args ...any) {
		select {
		case c <- fmt.Sprintf(format, args...):
		default:
		}
	}
}

// Only one program has a spool open. Uploads under way in it stay.
func TestOneProgram(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs.db.uploads")
	s := open(t, dir, &shelf{ids: map[string]bool{}}, upload.Options{})
	_, err := s.Accept(func(yield func(upload.Sent, error) bool) {
		if !yield(upload.Sent{Name: "a.json", Reader: strings.NewReader("{}")}, nil) {
			return
		}
		_, err := upload.Open(dir, upload.Options{})
		require.ErrorAs(t, err, new(*lease.HeldError))
		require.ErrorContains(t, err, dir)
		yield(upload.Sent{Name: "b.json", Reader: strings.NewReader("{}")}, nil)
	})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	again, err := upload.Open(dir, upload.Options{})
	require.NoError(t, err)
	require.NoError(t, again.Close())
}

// A program whose spool another one has taken over, because it was stopped for long, accepts and stores nothing.
func TestTakenOver(t *testing.T) {
	dir := t.TempDir()
	shelf := &shelf{ids: map[string]bool{}}
	s := open(t, dir, shelf, upload.Options{})
	st, err := s.Accept(send("good.json", content(t, release+"/aggregated/0/result.json")))
	require.NoError(t, err)
	data, err := os.ReadFile(filepath.Join(dir, "lease", "lease-1.json"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "lease", "lease-2.json"), data, 0o600))
	require.ErrorIs(t, s.Work(t.Context()), lease.ErrLost)
	require.Empty(t, shelf.ids)
	_, err = s.Accept(send("more.json", "{}"))
	require.ErrorIs(t, err, lease.ErrLost)
	now, err := s.Status(st.Job)
	require.NoError(t, err)
	require.Equal(t, upload.Queued, now.State)
}

// An upload that fails each time, of whose status nothing can be read or which the store refuses, keeps no later one
// waiting.
func TestOthersGoOn(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "job-20260101000000-0000000000000000")
	require.NoError(t, os.Mkdir(broken, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(broken, "status.json"), []byte("{"), 0o600))
	shelf := &shelf{ids: map[string]bool{}, never: "mine/a"}
	log, say := said()
	s := open(t, dir, shelf, upload.Options{Log: say})
	record := content(t, release+"/ray/0/result.json")
	refused, err := s.Accept(send("mine/a/result.json", record))
	require.NoError(t, err)
	st, err := s.Accept(send("good.json", content(t, release+"/aggregated/0/result.json")))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Work(ctx) }()
	text := <-log // once all were tried
	cancel()
	require.NoError(t, <-ended)
	st, err = s.Status(st.Job)
	require.NoError(t, err)
	require.Equal(t, upload.Done, st.State)
	require.Equal(t, map[string]int{"stored": 1}, st.Files[0].Outcome)
	require.Contains(t, text, "20260101000000-0000000000000000: unexpected end")
	require.Contains(t, text, refused.Job+": the store refuses it")
	st, err = s.Status(refused.Job)
	require.NoError(t, err)
	require.Equal(t, upload.Waiting, st.State)
	require.Equal(t, "the store reported an error, which the server's log describes", st.Trouble)
	require.FileExists(t, filepath.Join(dir, "job-"+refused.Job, "files/mine/a/result.json"), "it is tried again")
}

// On a full disk an upload waits, and its files stay; with room, they are stored.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=600k"); err != nil {
		t.Skipf("no tmpfs may be mounted here: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, 0)) })
	folder := filepath.Join(t.TempDir(), "night")
	require.NoError(t, os.CopyFS(folder, os.DirFS(release+"/aggregated")))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "0", "zeros"), make([]byte, 1<<20), 0o600))
	_, err := archive.Write(t.Context(), folder, folder+".tar.xz")
	require.NoError(t, err)
	log, say := said()
	began := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
	s := open(t, dir, &shelf{ids: map[string]bool{}}, upload.Options{Log: say, Now: func() time.Time { return began }})
	st, err := s.Accept(send("night.tar.xz", content(t, folder+".tar.xz")))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Work(ctx) }()
	require.Contains(t, <-log, syscall.ENOSPC.Error())
	cancel()
	require.NoError(t, <-ended)
	now, err := s.Status(st.Job)
	require.NoError(t, err)
	require.Equal(t, upload.Waiting, now.State)
	require.Contains(t, now.Trouble, "no space left on device", "who sent it is told")
	require.NotContains(t, now.Trouble, dir)
	require.Equal(t, 1, now.Tries)
	require.Equal(t, time.Minute, now.NextTry.Sub(began))
	require.Empty(t, now.Files)
	require.FileExists(t, filepath.Join(dir, "job-"+st.Job, "files/night.tar.xz"))
	require.NoError(t, syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=64m"))
	now = work(t, s, st.Job)
	require.Empty(t, now.Files[0].Error)
	require.Equal(t, 1, now.Files[0].Outcome["stored"])
}

// Whatever names a form has, nothing is written outside of the upload's files.
func FuzzNames(f *testing.F) {
	for _, pair := range [][2]string{
		{"a.json", "b.json"}, {"a", "a/b"}, {"a/b", "a"}, {"../x", "/etc/x"}, {`..\x`, "./."}, {"a\x00", "a//b"}, {"", "status.json"},
		{"a.tar.xz/b", strings.Repeat("x", 300)}, {"\xff", "a/../b"}, {strings.Repeat("a/", 17), "é"},
	} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, one, two string) {
		box := t.TempDir()
		dir := filepath.Join(box, "spool")
		s, err := upload.Open(dir, upload.Options{})
		require.NoError(t, err)
		defer s.Close()
		st, err := s.Accept(send(one, "1", two, "2"))
		if err != nil {
			require.ErrorIs(t, err, upload.ErrName)
			left, err := filepath.Glob(filepath.Join(dir, "*-*"))
			require.NoError(t, err)
			require.Empty(t, left)
			return
		}
		var files []string
		require.NoError(t, filepath.WalkDir(box, func(path string, e os.DirEntry, err error) error {
			if err == nil && !e.IsDir() && !strings.HasPrefix(path, filepath.Join(dir, "lease")) {
				files = append(files, path)
			}
			return err
		}))
		require.Len(t, files, 3)
		own := filepath.Join(dir, "job-"+st.Job)
		for _, path := range files {
			require.True(t, path == filepath.Join(own, "status.json") || strings.HasPrefix(path, filepath.Join(own, "files")+"/"), path)
		}
	})
}

var errRefused = errors.New("the store refuses it")
