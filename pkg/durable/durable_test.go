package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A link whose answer was lost counts as made by this command, and by no other.
func TestMade(t *testing.T) {
	dir := t.TempDir()
	mine, other, target := filepath.Join(dir, "mine"), filepath.Join(dir, "other"), filepath.Join(dir, "target")
	require.NoError(t, os.WriteFile(mine, nil, 0o644))
	require.NoError(t, os.WriteFile(other, nil, 0o644))
	require.ErrorIs(t, made(mine, target, fs.ErrPermission), fs.ErrPermission)
	require.NoError(t, os.Link(mine, target))
	require.NoError(t, made(mine, target, os.Link(mine, target)))
	require.ErrorIs(t, made(other, target, os.Link(other, target)), fs.ErrExist)
}

// What killed writers left is taken away, and nothing else.
func TestSweep(t *testing.T) {
	host, err := os.Hostname()
	require.NoError(t, err)
	dir := t.TempDir()
	long := time.Now().Add(-2 * abandoned)
	for name, c := range map[string]struct{ stays, old bool }{
		fmt.Sprintf(".a.json.tmp-%s,%d-1", host, 1<<30):       {false, false},
		fmt.Sprintf(".b.json.tmp-%s,%d-1", host, os.Getpid()): {true, false},
		".c.json.tmp-elsewhere,1-1":                           {true, false},
		".d.json.tmp-elsewhere,1-1":                           {false, true},
		".e.json.tmp-elsewhere":                               {true, true},
		"f.json.tmp-elsewhere,1-1":                            {true, true},
		".g.json":                                             {true, true},
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, nil, 0o644))
		if c.old {
			require.NoError(t, os.Chtimes(path, long, long))
		}
		require.NoError(t, WriteFile(filepath.Join(dir, "x"), nil, 0o644))
		require.Equal(t, c.stays, leftOver(path), name)
	}
}

func leftOver(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// writerVar asks the test program to write files, see TestOrderOnDisk.
const writerVar = "DURABLE_TEST_WRITES"

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerVar); dir != "" {
		if err := errors.Join(WriteFile(filepath.Join(dir, "replaced"), []byte("x"), 0o644),
			Create(filepath.Join(dir, "created"), []byte("x"))); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(m.Run())
}

// The content is on disk before the name is there, and the name before the caller goes
// on: after a loss of power the file is whole and has its name.
func TestOrderOnDisk(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("no strace here")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	trace := filepath.Join(t.TempDir(), "trace") // on stderr, lines on new threads stand within others
	cmd := exec.Command(strace, "-f", "-y", "-o", trace, "-e", "trace=fsync,rename,renameat,renameat2,link,linkat",
		os.Args[0])
	cmd.Env = append(os.Environ(), writerVar+"="+dir)
	said, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", said)
	out, err := os.ReadFile(trace)
	require.NoError(t, err)
	var calls []string // of which strace breaks a line when another thread says something meanwhile
	for _, m := range regexp.MustCompile(`(?m)(fsync|rename|link)(?:at2?)?\(([^\n]*?)(?:\) = 0| <unfinished)`).
		FindAllStringSubmatch(string(out), -1) {
		what := m[1]
		switch {
		case what == "fsync" && strings.HasSuffix(m[2], "<"+dir+">"):
			what += " directory"
		case what == "fsync":
			what += " file"
		}
		calls = append(calls, what)
	}
	require.Equal(t, []string{"fsync file", "rename", "fsync directory", "fsync file", "link", "fsync directory"},
		calls, "%s", out)
}

// A finished file or directory gets a name that is free, and a directory's place is
// taken once only.
func TestNames(t *testing.T) {
	dir := t.TempDir()
	name := func(s string) string { return filepath.Join(dir, s) }
	require.NoError(t, os.WriteFile(name("temp"), []byte("x"), 0o644))
	require.NoError(t, Publish(name("temp"), name("file")))
	require.FileExists(t, name("temp"), "the caller removes it")
	require.NoError(t, os.WriteFile(name("other"), []byte("y"), 0o644))
	require.EqualError(t, Publish(name("other"), name("file")), "create "+name("file")+": file already exists")
	for _, d := range []string{"built", "late"} {
		require.NoError(t, os.Mkdir(name(d), 0o755))
	}
	require.NoError(t, Move(name("built"), name("dir")))
	require.ErrorIs(t, Move(name("late"), name("dir")), fs.ErrExist)
	require.DirExists(t, name("late"))
	require.NoError(t, Move(name("other"), name("file")), "a file replaces another")
}

func TestWriteByReplacesAsAWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	require.NoError(t, WriteFile(path, []byte("old"), 0o644))
	boom := errors.New("boom")
	require.ErrorIs(t, WriteBy(path, 0o644, func(w io.Writer) error {
		io.WriteString(w, strings.Repeat("x", 3<<20))
		return boom
	}), boom)
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "old", string(got))
	require.NoError(t, WriteBy(path, 0o644, func(w io.Writer) error {
		_, err := io.WriteString(w, "new")
		return err
	}))
	got, err = os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "new", string(got))
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, left, 1)
}

// A file whose writer may no longer write it stays, and nothing is left beside it.
func TestWriteFileIf(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	require.NoError(t, WriteFileIf(path, []byte("old"), 0o644, func() error { return nil }))
	lost := errors.New("lost")
	require.ErrorIs(t, WriteFileIf(path, []byte("new"), 0o644, func() error { return lost }), lost)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "old", string(data))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}
