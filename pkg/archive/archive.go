// Package archive packs a directory into one .tar.xz beside it, proves that the file
// contains what the directory contains, and unpacks such files again without trusting
// them. It knows nothing about runs.
//
//	entries, err := archive.Write(ctx, "results/qwen", "results/qwen.tar.xz")
//	err = archive.Remove("results/qwen", entries)
//	dir, err := archive.Restore(ctx, "results/qwen.tar.xz", "results", archive.Options{})
package archive

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ulikunitz/xz"

	"github.com/profllm/profllm/pkg/durable"
	"github.com/profllm/profllm/pkg/process"
)

// Suffix ends the name of every archive.
const Suffix = ".tar.xz"

// partial is in the name of what is not finished, as in those of scenario
// directories: nobody takes it for a run.
const partial = ".partial-"

// Entry is one name of an archive. Owners are not kept, and no time of a link.
type Entry struct {
	Name   string      // with slashes; its first element is that of all
	Mode   fs.FileMode // type and permissions: a directory, a regular file or a symbolic link
	Size   int64       // of a regular file, in bytes
	Time   time.Time   // of the last change, UTC
	Link   string      // where a link leads, as it is written in it
	SHA256 [sha256.Size]byte
}

// Shown is the name for a person, and where a link points.
func (e Entry) Shown() string {
	if e.Link == "" {
		return plainName(e.Name)
	}
	return plainName(e.Name) + " -> " + plainName(e.Link)
}

// plainName is a name as it stands, or quoted if it could be taken for more.
func plainName(name string) string {
	if q := fmt.Sprintf("%q", name); q != `"`+name+`"` {
		return q
	}
	return name
}

// LeadsOut reports whether a link points outside the archive's directory. A link that goes
// up behind a name counts as well, because that name may be a link.
func (e Entry) LeadsOut() bool {
	if e.Mode.Type() != fs.ModeSymlink {
		return false
	}
	up, down := 0, false
	for element := range strings.SplitSeq(e.Link, "/") {
		switch element {
		case "", ".":
		case "..":
			if down {
				return true
			}
			up++
		default:
			down = true
		}
	}
	return e.Link == "" || path.IsAbs(e.Link) || up >= strings.Count(e.Name, "/")
}

// Write packs a directory into a file that must not exist yet (fs.ErrExist), and returns
// the entries. The file appears whole and on disk, after it was read back and compared
// with the directory. The same tree gives the same bytes.
func Write(ctx context.Context, dir, file string) ([]Entry, error) {
	pattern, err := tempName(filepath.Dir(file), file)
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(file); err == nil {
		return nil, fmt.Errorf("create %s: %w", file, fs.ErrExist)
	}
	entries, err := survey(dir)
	if err != nil {
		return nil, err
	}
	temp, err := os.CreateTemp(filepath.Dir(file), pattern)
	if err != nil {
		return nil, err
	}
	defer os.Remove(temp.Name())
	defer temp.Close()
	if err := pack(ctx, temp, dir, entries); err != nil {
		return nil, fmt.Errorf("write %s: %w", file, err)
	}
	if err := errors.Join(temp.Chmod(0o644), temp.Sync()); err != nil {
		return nil, fmt.Errorf("write %s: %w", file, err)
	}
	if err := verify(ctx, temp, dir, entries); err != nil {
		return nil, fmt.Errorf("%s was not written: the archive differs from the directory: %w", file, err)
	}
	return entries, durable.Publish(temp.Name(), file)
}

// tempDir makes a temporary folder from which an archive can be read. It removes the
// folders that killed commands of this host left there.
func tempDir() (string, error) {
	pattern, err := alone(os.TempDir(), "profllm-archive-")
	if err != nil {
		return "", err
	}
	return os.MkdirTemp(os.TempDir(), pattern)
}

// tempName is the pattern of a name beside a file.
func tempName(dir, file string) (string, error) { return alone(dir, "."+filepath.Base(file)+partial) }

// alone is the pattern of a name beside which no other is left: what commands
// of this host left there that were killed is removed. No host has a comma in its
// name.
func alone(dir, begin string) (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", err
	}
	prefix := begin + host + ","
	sweep(dir, prefix)
	return fmt.Sprintf("%s%d-*", prefix, os.Getpid()), nil
}

func sweep(dir, prefix string) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range list {
		if rest, ours := strings.CutPrefix(e.Name(), prefix); ours && abandoned(rest) {
			os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
}

// abandoned reports whether a name PID-… is of a process of this host that is gone.
func abandoned(name string) bool {
	pid, _, found := strings.Cut(name, "-")
	n, err := strconv.Atoi(pid)
	return found && err == nil && n > 0 && !process.Exists(n)
}

// survey lists a directory, names ascending, without reading its files. What no
// archive can hold is an error, all of it at once.
func survey(dir string) ([]Entry, error) {
	top := filepath.Base(dir)
	var entries []Entry
	var errs []error
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		e := Entry{Name: path.Join(top, filepath.ToSlash(rel)), Mode: st.Mode() & (fs.ModeType | fs.ModePerm),
			Time: st.ModTime().UTC()}
		switch e.Mode.Type() {
		case fs.ModeDir:
		case 0:
			e.Size = st.Size()
		case fs.ModeSymlink:
			e.Mode, e.Time = fs.ModeSymlink|fs.ModePerm, time.Time{}
			e.Link, err = os.Readlink(name)
		default:
			err = fmt.Errorf("%s: a %s cannot be archived\n\thint: remove it", name, kindWord(e.Mode))
		}
		errs = append(errs, err)
		entries = append(entries, e)
		return nil
	})
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	if !entries[0].Mode.IsDir() {
		return nil, fmt.Errorf("%s is not a directory", dir)
	}
	return entries, nil
}

func kindWord(m fs.FileMode) string {
	switch m.Type() {
	case fs.ModeNamedPipe:
		return "named pipe"
	case fs.ModeSocket:
		return "socket"
	}
	return "device"
}

// pack writes the entries of a directory, and sets their digests.
func pack(ctx context.Context, w io.Writer, dir string, entries []Entry) error {
	out := &noting{w: w}
	x, err := xz.WriterConfig{CheckSum: xz.SHA256}.NewWriter(out)
	if err != nil {
		return err
	}
	t := tar.NewWriter(x)
	for i := range entries {
		e := &entries[i]
		if err := t.WriteHeader(header(e)); err != nil {
			return fmt.Errorf("%s: %w", e.Name, err)
		}
		if !e.Mode.IsRegular() {
			continue
		}
		if e.SHA256, err = copyFile(ctx, t, below(dir, e.Name), e.Size); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), x.Close(), out.err)
}

// noting is a writer that keeps its first error: xz does not return each.
type noting struct {
	w   io.Writer
	err error
}

func (n *noting) Write(p []byte) (int, error) {
	k, err := n.w.Write(p)
	if n.err == nil {
		n.err = err
	}
	return k, err
}

// header says an entry to tar: with fractions of seconds, and without owners.
func header(e *Entry) *tar.Header {
	h := &tar.Header{Format: tar.FormatPAX, Name: e.Name, Mode: int64(e.Mode.Perm()), Size: e.Size, ModTime: e.Time,
		Linkname: e.Link, Typeflag: tar.TypeReg}
	switch e.Mode.Type() {
	case fs.ModeDir:
		h.Name, h.Typeflag = e.Name+"/", tar.TypeDir
	case fs.ModeSymlink:
		h.Typeflag = tar.TypeSymlink
	}
	return h
}

// below is where an entry lies, if dir is the directory of all.
func below(dir, name string) string {
	_, rest, _ := strings.Cut(name, "/")
	return filepath.Join(dir, filepath.FromSlash(rest))
}

// copyFile copies a file of a known size, and no other one.
func copyFile(ctx context.Context, w io.Writer, name string, size int64) (sum [sha256.Size]byte, err error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, h), io.LimitReader(interruptible{ctx, f}, size))
	if err != nil {
		return sum, fmt.Errorf("%s: %w", name, err)
	}
	if more, err := f.Read(make([]byte, 1)); n < size || more > 0 || err != io.EOF {
		return sum, fmt.Errorf("%s: the file changed while it was read (%d bytes at first)\n\thint: wait until nothing writes there any more", name, size)
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}

// interruptible is a reader that ends with its context.
type interruptible struct {
	ctx context.Context
	r   io.Reader
}

func (i interruptible) Read(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	return i.r.Read(p)
}

// verify reads an archive back and compares it with the directory as it is now,
// byte for byte, and both with what was written.
func verify(ctx context.Context, f io.ReadSeeker, dir string, written []Entry) error {
	held, err := list(ctx, f, Limits{Bytes: 1 << 62, Entries: len(written)})
	if err != nil {
		return err
	}
	now, err := digest(ctx, dir)
	if err != nil {
		return err
	}
	if err := same(written, held, "the archive"); err != nil {
		return err
	}
	return same(written, now, dir)
}

// digest lists a directory and reads its files.
func digest(ctx context.Context, dir string) ([]Entry, error) {
	now, err := survey(dir)
	if err != nil {
		return nil, err
	}
	for i := range now {
		if now[i].Mode.IsRegular() {
			if now[i].SHA256, err = copyFile(ctx, io.Discard, below(dir, now[i].Name), now[i].Size); err != nil {
				return nil, err
			}
		}
	}
	return now, nil
}

// Compare checks that a file that Write made earlier has the same content as a directory,
// byte for byte, and returns the entries.
func Compare(ctx context.Context, dir, file string, l Limits) ([]Entry, error) {
	held, err := List(ctx, file, l)
	if err != nil {
		return nil, err
	}
	now, err := digest(ctx, dir)
	if err != nil {
		return nil, err
	}
	if err := same(held, now, dir); err != nil {
		return nil, fmt.Errorf("%s does not match the directory: %w", file, err)
	}
	return held, nil
}

// same says the first difference between two lists of entries.
func same(want, have []Entry, where string) error {
	for i := range min(len(want), len(have)) {
		if w, h := want[i], have[i]; w != h {
			return fmt.Errorf("%s differs in %s", w.Name, where)
		}
	}
	if len(want) != len(have) {
		return fmt.Errorf("%d entries were written, but %d are in %s", len(want), len(have), where)
	}
	return nil
}
