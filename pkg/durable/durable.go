// Package durable writes files that are whole or not there, whatever happens: a
// temporary file beside the place, on disk with its content, then the name, on disk
// as well.
//
//	err := durable.WriteFile("run/result.json", data, 0o644)
package durable

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/profllm/profllm/pkg/process"
)

// WriteFile replaces a file as a whole, and keeps the permissions of an old one.
// What killed writers left beside it is taken away.
func WriteFile(path string, data []byte, mode fs.FileMode) error {
	return WriteFileIf(path, data, mode, nil)
}

// WriteFileIf is WriteFile, but asks once more when only the name is left to be given: with an error
// of still, the old file stays. nil: nothing is asked.
func WriteFileIf(path string, data []byte, mode fs.FileMode, still func() error) error {
	if err := replace(path, bytesOf(data), mode, synced, still); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// WriteBy replaces a file as WriteFile does, with what write writes, which need not be in memory.
func WriteBy(path string, mode fs.FileMode, write func(io.Writer) error) error {
	buffered := func(w io.Writer) error {
		b := bufio.NewWriterSize(w, 1<<20)
		if err := write(b); err != nil {
			return err
		}
		return b.Flush()
	}
	if err := replace(path, buffered, mode, synced, nil); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// WriteUnsynced replaces a file that can be computed again, as WriteFile does, but
// does not wait for the disk: with thousands of records that would be most of the
// time. No reader ever sees half of the file. If the machine loses power at once, some
// file systems may keep it empty; every reader refuses an empty file, and the next
// collection finds that it is not the record and writes it again.
func WriteUnsynced(path string, data []byte) error {
	return replace(path, bytesOf(data), 0o644, unsynced, nil)
}

func replace(path string, write content, mode fs.FileMode, d durability, still func() error) error {
	if st, err := os.Lstat(path); err == nil && st.Mode().IsRegular() {
		mode = st.Mode().Perm()
	}
	temp, err := writeTemp(path, write, mode, d)
	if err != nil {
		return err
	}
	if still != nil {
		err = still()
	}
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return nil
}

// Clock is the time by the clock of the file system that a directory lies on, which
// over a network is the server's. It makes a file for that and removes it.
func Clock(dir string) (time.Time, error) {
	temp, err := writeTemp(filepath.Join(dir, "clock"), bytesOf(nil), 0o600, unsynced)
	if err != nil {
		return time.Time{}, err
	}
	defer os.Remove(temp)
	st, err := os.Stat(temp)
	if err != nil {
		return time.Time{}, err
	}
	return st.ModTime(), nil
}

// Create writes a file that must not exist yet, so that of several commands exactly
// one succeeds; the others get fs.ErrExist. It is on disk, name and all, when this
// returns. The file appears with its content, except on a file system without hard
// links.
func Create(path string, data []byte) error {
	temp, err := writeTemp(path, bytesOf(data), 0o644, synced)
	if err != nil {
		return err
	}
	defer os.Remove(temp)
	return link(temp, path, func() error { return createHere(path, data) })
}

// Publish gives a finished file, which is on disk, a second name that must not exist
// yet: if it does, the error is fs.ErrExist. The name is on disk when this returns. On a
// file system without hard links the file is renamed, and of two commands at once both
// may succeed.
func Publish(temp, path string) error {
	return link(temp, path, func() error {
		if _, err := os.Lstat(path); err == nil {
			return taken(path)
		}
		return os.Rename(temp, path)
	})
}

// link gives a file a second name, or does otherwise what a file system without hard
// links allows.
func link(temp, path string, otherwise func() error) error {
	if err := made(temp, path, os.Link(temp, path)); errors.Is(err, fs.ErrExist) {
		return taken(path)
	} else if err != nil {
		if err := otherwise(); err != nil {
			return err
		}
	}
	return SyncDir(filepath.Dir(path))
}

// Rename gives a finished file or directory its name. A file replaces another, but a
// directory that is there already is fs.ErrExist. Only a power cut can undo it: see Move.
func Rename(temp, path string) error {
	err := os.Rename(temp, path)
	if errors.Is(err, fs.ErrExist) {
		return taken(path)
	}
	return err
}

// Move is Rename, and the name is on disk when it returns.
func Move(temp, path string) error {
	if err := Rename(temp, path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

func taken(path string) error { return fmt.Errorf("create %s: %w", path, fs.ErrExist) }

// made is the outcome of a link: over NFS one may be made, and its answer lost,
// so that the repeated request finds the name taken (open(2), O_EXCL).
func made(temp, path string, err error) error {
	if err == nil {
		return nil
	}
	from, fromErr := os.Lstat(temp)
	to, toErr := os.Lstat(path)
	if fromErr == nil && toErr == nil && os.SameFile(from, to) {
		return nil
	}
	return err
}

// createHere creates a file under its own name.
func createHere(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if err := writeAll(f, bytesOf(data), synced); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(path))
	}
	return nil
}

// durability is whether a file is on disk when its writer returns.
type durability bool

const (
	synced   durability = true
	unsynced durability = false
)

// A content writes what a file is to hold.
type content func(io.Writer) error

func bytesOf(data []byte) content {
	return func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
}

// writeAll writes and closes a new file.
func writeAll(f *os.File, write content, d durability) error {
	err := write(f)
	if err == nil && d == synced {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return bare(err)
}

// bare is an error without the name of its file, which means nothing to anybody.
func bare(err error) error {
	var named *fs.PathError
	if errors.As(err, &named) {
		return named.Err
	}
	return err
}

// temporary is in the name of a file that is not finished: .NAME.tmp-HOST,PID-N.
// No host has a comma in its name.
const temporary = ".tmp-"

// abandoned is the age at which the temporary file of another host counts as
// left behind. A write takes no time.
const abandoned = time.Hour

// writeTemp writes a temporary file beside path, not in TMPDIR, so that it can be
// renamed. On an error nothing is left.
func writeTemp(path string, write content, mode fs.FileMode, d durability) (temp string, err error) {
	host, err := os.Hostname()
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(path)
	var f *os.File
	for {
		temp = filepath.Join(dir,
			fmt.Sprintf(".%s%s%s,%d-%d", filepath.Base(path), temporary, host, os.Getpid(), rand.Int64()))
		if f, err = os.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode); !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	if err != nil {
		return "", fmt.Errorf("write %s: %w", path, bare(err))
	}
	if st, err := f.Stat(); err == nil {
		sweep(dir, host, st.ModTime()) // by the clock of the file server
	}
	if err := writeAll(f, write, d); err != nil {
		return "", errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(temp))
	}
	return temp, nil
}

// sweep removes temporary files whose writers were killed. What cannot be removed
// does no harm, and stays.
func sweep(dir, host string, now time.Time) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		_, rest, ours := strings.Cut(e.Name(), temporary)
		writer, id, found := strings.Cut(rest, ",")
		if !ours || !found || !strings.HasPrefix(e.Name(), ".") {
			continue
		}
		word, _, _ := strings.Cut(id, "-")
		pid, err := strconv.Atoi(word)
		if err != nil {
			continue
		}
		if writer == host && !process.Exists(pid) || old(e, now) {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

func old(e fs.DirEntry, now time.Time) bool {
	st, err := e.Info()
	return err == nil && now.Sub(st.ModTime()) > abandoned
}

// SyncDir brings the names in a directory to disk.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) { // some network file systems
		err = nil
	}
	return errors.Join(err, d.Close())
}
