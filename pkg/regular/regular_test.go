package regular

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// hostile makes what is no file that can be read, and returns what each is.
func hostile(t *testing.T, dir string) map[string]error {
	t.Helper()
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644))
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "socket"), Net: "unix"})
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder"), 0o755))
	for name, to := range map[string]string{"zero": "/dev/zero", "null": "/dev/null", "tty": "/dev/tty", "loop": "loop",
		"lost": "nowhere", "to-pipe": "pipe"} {
		require.NoError(t, os.Symlink(to, filepath.Join(dir, name)))
	}
	return map[string]error{
		"pipe": ErrKind, "to-pipe": ErrKind, "socket": ErrKind, "folder": ErrKind, "zero": ErrKind, "null": ErrKind, "tty": ErrKind,
		"loop": syscall.ELOOP, "lost": fs.ErrNotExist, "folder/x": fs.ErrNotExist, "missing": fs.ErrNotExist,
	}
}

// Nothing but a regular file is opened, and nothing is waited for: with a pipe in
// the place of a file a reader that waits would make this test run into its deadline.
func TestOnlyRegularFiles(t *testing.T) {
	dir := t.TempDir()
	for name, want := range hostile(t, dir) {
		path := filepath.Join(dir, name)
		f, err := Open(path)
		require.Nil(t, f, name)
		require.ErrorIs(t, err, want, name)
		require.ErrorContains(t, err, path)
		_, err = ReadFile(path)
		require.ErrorIs(t, err, want, name)
		_, err = DirFS(dir).(fs.ReadFileFS).ReadFile(name)
		require.ErrorIs(t, err, want, name)
		require.ErrorContains(t, err, " "+name+": ", "named as it was asked for")
		if name != "folder" { // it can be listed
			_, err = DirFS(dir).Open(name)
			require.ErrorIs(t, err, want, name)
		}
	}
}

func TestLinksAreFollowed(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(elsewhere, "file"), []byte("text"), 0o644))
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(dir, "folder")))
	require.NoError(t, os.Symlink("folder/file", filepath.Join(dir, "link")))
	for _, name := range []string{"link", "folder/file"} {
		data, err := ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, "text", string(data))
		data, err = fs.ReadFile(DirFS(dir), name)
		require.NoError(t, err)
		require.Equal(t, "text", string(data))
	}
}

func TestUnreadable(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root reads everything")
	}
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, nil, 0))
	_, err := ReadFile(path)
	require.ErrorIs(t, err, fs.ErrPermission)
}

// A size is refused before a byte is read: a sparse file may claim terabytes.
func TestLargeFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "sparse")
	require.NoError(t, os.WriteFile(path, []byte("begin"), 0o644))
	require.NoError(t, os.Truncate(path, 1<<40))
	_, err := ReadFile(path)
	require.ErrorIs(t, err, ErrLarge)
	require.EqualError(t, err, "read "+path+": the file is too large: more than 64 MiB")
	_, err = DirFS(dir).Open("sparse")
	require.ErrorIs(t, err, ErrLarge)
	_, err = Open(path)
	require.ErrorIs(t, err, ErrLarge)
	f, err := OpenLarge(path)
	require.NoError(t, err, "who reads its end only may")
	defer f.Close()
	end := make([]byte, 3)
	_, err = f.ReadAt(end, 1<<40-3)
	require.NoError(t, err)
	require.Equal(t, []byte{0, 0, 0}, end)

	exact := filepath.Join(dir, "exact")
	require.NoError(t, os.WriteFile(exact, []byte("12345"), 0o644))
	data, err := ReadAtMost(exact, 5)
	require.NoError(t, err)
	require.Equal(t, "12345", string(data))
	_, err = ReadAtMost(exact, 4)
	require.ErrorIs(t, err, ErrLarge)
}

// A reader gets no more than its limit, whatever the file says of its size: the
// files of the kernel say 0, and one that grows says what it was.
func TestGrowingFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("x"), 3000), 0o644))
	for _, most := range []int64{0, 1, 511, 512, 513, 2999} {
		fd, _, err := open(path)
		require.NoError(t, err)
		_, err = readAll(fd, 0, most)
		require.ErrorIs(t, err, ErrLarge, most)
		require.NoError(t, syscall.Close(fd))
	}
	fd, _, err := open(path)
	require.NoError(t, err)
	defer syscall.Close(fd)
	data, err := readAll(fd, 0, 3000)
	require.NoError(t, err)
	require.Len(t, data, 3000)

	for most, want := range map[int64]error{0: ErrLarge, 2999: ErrLarge, 3000: nil, 3001: nil} {
		f, err := Open(path)
		require.NoError(t, err)
		data, err := io.ReadAll(Limit(f, most))
		require.ErrorIs(t, err, want)
		require.Len(t, data, int(min(most, 3000)))
		require.NoError(t, f.Close())
	}
}

// The copying functions of io find no way around the limit.
func TestNoWayAroundTheLimit(t *testing.T) {
	var f any = &File{}
	_, ok := f.(io.WriterTo)
	require.False(t, ok)
}

func TestDirFS(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755))
	for _, name := range []string{"a.json", "sub/b.json"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644))
	}
	require.NoError(t, fstest.TestFS(DirFS(dir), "a.json", "sub/b.json"))
	_, err := DirFS(dir).Open("../x")
	require.True(t, errors.Is(err, fs.ErrInvalid))
}
