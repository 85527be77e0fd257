package regular

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/usertest"
)

// sharedDir is a folder like /tmp.
func sharedDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o777|os.ModeSticky))
	return dir
}

// What another user put into the place of a name is not used, whatever it is; what is ours is found
// again, also when the other user removes theirs.
func TestOwnDir(t *testing.T) {
	for what, plant := range map[string]func(t *testing.T, path string){
		"a folder": func(t *testing.T, path string) {
			require.NoError(t, os.Mkdir(path, 0o777))
			usertest.Give(t, path)
		},
		"a file": func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path, nil, 0o666))
			usertest.Give(t, path)
		},
		"a link to a folder of ours": func(t *testing.T, path string) {
			require.NoError(t, os.Symlink(t.TempDir(), path))
			usertest.Give(t, path)
		},
		"a link to nothing": func(t *testing.T, path string) {
			require.NoError(t, os.Symlink("nothing", path))
			usertest.Give(t, path)
		},
		"a folder of ours that others can write": func(t *testing.T, path string) {
			require.NoError(t, os.Mkdir(path, 0o755))
			require.NoError(t, os.Chmod(path, 0o777))
		},
	} {
		t.Run(what, func(t *testing.T) {
			shared := sharedDir(t)
			first, second := filepath.Join(shared, "jobs"), filepath.Join(shared, "jobs-2")
			plant(t, first)
			plant(t, second)
			found, err := FindOwnDir(shared, "jobs")
			require.NoError(t, err)
			require.Equal(t, os.DevNull, found)
			got, err := OwnDir(shared, "jobs")
			require.NoError(t, err)
			require.Equal(t, filepath.Join(shared, "jobs-3"), got)
			info, err := os.Lstat(got)
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o700), info.Mode().Perm())

			require.NoError(t, os.RemoveAll(first))
			again, err := OwnDir(shared, "jobs")
			require.NoError(t, err)
			require.Equal(t, got, again)
			again, err = FindOwnDir(shared, "jobs")
			require.NoError(t, err)
			require.Equal(t, got, again)
		})
	}
}

// A folder where others could replace what is ours is refused.
func TestSharedFolders(t *testing.T) {
	for mode, ok := range map[os.FileMode]bool{0o700: true, 0o755: true, 0o777: false, 0o770 | os.ModeSticky: true,
		0o777 | os.ModeSticky: true, 0o757: false} {
		dir := t.TempDir()
		require.NoError(t, os.Chmod(dir, mode))
		_, err := OwnDir(dir, "jobs")
		if ok {
			require.NoError(t, err, mode)
		} else {
			require.ErrorContains(t, err, "other users could replace", mode)
		}
	}
	dir := t.TempDir()
	usertest.Give(t, dir)
	for _, mode := range []os.FileMode{0o755, 0o777 | os.ModeSticky} { // its owner may rename what is in it
		require.NoError(t, os.Chmod(dir, mode))
		_, err := OwnDir(dir, "jobs")
		require.ErrorContains(t, err, "folder of user 12345")
	}
	require.NoError(t, os.Chown(dir, os.Getuid(), usertest.Other))
	require.NoError(t, os.Chmod(dir, 0o775))
	_, err := OwnDir(dir, "jobs")
	require.ErrorContains(t, err, "other users could replace", "a group")
}

func TestCheckOwnDir(t *testing.T) {
	shared := sharedDir(t)
	dir := filepath.Join(shared, "own")
	require.ErrorIs(t, CheckOwnDir(dir), os.ErrNotExist)
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, CheckOwnDir(dir))
	require.NoError(t, os.Symlink(dir, filepath.Join(shared, "link")))
	require.ErrorContains(t, CheckOwnDir(filepath.Join(shared, "link")), "alone can write")
	require.NoError(t, os.Chmod(dir, 0o777))
	require.ErrorContains(t, CheckOwnDir(dir), "alone can write")
	require.NoError(t, os.Chmod(dir, 0o755))
	usertest.Give(t, dir)
	require.ErrorContains(t, CheckOwnDir(dir), "belongs to user 12345")
}

// One holds the lock at a time; nobody else can hold or open it; who does not get it says so.
func TestLock(t *testing.T) {
	shared := sharedDir(t)
	if os.Getuid() == 0 {
		theirs := filepath.Join(shared, "leases.lock")
		require.NoError(t, os.WriteFile(theirs, nil, 0o666))
		usertest.Give(t, theirs)
	}
	var wg sync.WaitGroup
	var inside atomic.Int32
	for range 8 {
		wg.Go(func() {
			for range 20 {
				release, err := Lock(t.Context(), shared, "leases")
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d hold the lock", n)
				}
				inside.Add(-1)
				release()
			}
		})
	}
	wg.Wait()

	release, err := Lock(t.Context(), shared, "leases")
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(shared, "leases*.lock"))
	require.NoError(t, err)
	for _, file := range files {
		info, err := os.Lstat(file)
		require.NoError(t, err)
		require.True(t, Owner(info) == usertest.Other || info.Mode().Perm() == 0o600, file)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err = Lock(ctx, shared, "leases")
	require.ErrorContains(t, err, "another process holds "+shared)
	release()
	release, err = Lock(t.Context(), shared, "leases")
	require.NoError(t, err)
	release()
}

func TestOpenOf(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, []byte("text"), 0o644))
	f, err := OpenOf(os.Getuid(), file)
	require.NoError(t, err)
	f.Close()
	_, err = OpenOf(usertest.Other, file)
	require.ErrorContains(t, err, "not to user 12345")
	for name := range hostile(t, dir) {
		_, err := OpenOf(os.Getuid(), filepath.Join(dir, name))
		require.Error(t, err, name)
		require.True(t, strings.Contains(err.Error(), name), err)
	}
	require.NoError(t, os.Symlink("file", filepath.Join(dir, "link")))
	_, err = OpenOf(os.Getuid(), filepath.Join(dir, "link"))
	require.Error(t, err)
}

// The names of the folder and of others' files in it mean nothing.
func TestOwnNames(t *testing.T) {
	shared := filepath.Join(t.TempDir(), "a[b*?")
	require.NoError(t, os.Mkdir(shared, 0o755))
	for _, name := range []string{"jobs-x", "jobs-2x", "jobs-02", "jobs--2", "jobs-99999999999999999999", "jobs-1"} {
		require.NoError(t, os.Mkdir(filepath.Join(shared, name), 0o700))
	}
	got, err := OwnDir(shared, "jobs")
	require.NoError(t, err)
	require.Equal(t, filepath.Join(shared, "jobs"), got)
	require.NoError(t, os.Mkdir(filepath.Join(shared, "jobs-2"), 0o700))
	require.NoError(t, os.Remove(got))
	got, err = OwnDir(shared, "jobs")
	require.NoError(t, err)
	require.Equal(t, filepath.Join(shared, "jobs-2"), got)
}
