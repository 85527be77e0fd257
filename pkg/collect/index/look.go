package index

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/run"
)

// most is how many files and folders a run may have to be remembered.
const most = 20_000

var (
	errMany    = errors.New("too many files to remember")
	errFolder  = errors.New("a link to a folder, whose files are not looked at")
	errChanged = errors.New("the names in the directory are others")
)

// A Look is what a run's directory looked like before it was read: every file and
// folder below it, but for the record that the reader writes.
type Look struct {
	names  []string // below the directory, sorted; with ".." or "/" in front: elsewhere
	marks  []byte   // of the names, in their order
	newest int64    // of all times of change, ns since 1970

	devices map[uint64]bool // that the files lie on; nil where that is not asked
}

// look walks through a directory.
func look(dir string) (*Look, error) {
	d, err := regular.OpenDir(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	at := int(d.Fd())
	l := Look{devices: map[uint64]bool{}}
	w := walk{at: at, look: &l}
	if err := w.folder("."); err != nil {
		return nil, err
	}
	w.order()
	return &l, nil
}

// walk collects what lies below a folder.
type walk struct {
	at    int
	look  *Look
	found []found
}

// found is a name, and where its mark stands among all.
type found struct {
	name       string
	begin, end int
}

// folder collects what lies below one. What appears in a folder after it was listed
// changes the folder's own time, and that is then too new to be relied on.
func (w *walk) folder(folder string) error {
	names, err := list(w.at, folder)
	if err != nil {
		return fmt.Errorf("%s: %w", folder, err)
	}
	for _, name := range names {
		if name = path.Join(folder, name); name == run.ResultFile {
			continue
		}
		if err := w.add(name); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) add(name string) error {
	if len(w.found) >= most {
		return errMany
	}
	begin := len(w.look.marks)
	mode, err := w.look.mark(w.at, name)
	if err != nil {
		return err
	}
	w.found = append(w.found, found{name, begin, len(w.look.marks)})
	if mode&unix.S_IFMT == unix.S_IFDIR {
		return w.folder(name)
	}
	return nil
}

// order puts names and marks in the order of the names.
func (w *walk) order() {
	slices.SortFunc(w.found, func(a, b found) int { return strings.Compare(a.name, b.name) })
	marks := make([]byte, 0, len(w.look.marks))
	w.look.names = make([]string, len(w.found))
	for i, f := range w.found {
		w.look.names[i] = f.name
		marks = append(marks, w.look.marks[f.begin:f.end]...)
	}
	w.look.marks = marks
}

// beside adds what was read outside of the directory: folders as a whole, and files,
// which need not exist.
func (l *Look) beside(dir string, folders, files []string) error {
	if len(folders)+len(files) == 0 {
		return nil
	}
	d, err := regular.OpenDir(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	at := int(d.Fd())
	w := walk{at: at, look: &Look{}}
	for _, name := range slices.Concat(folders, files) {
		if err := w.add(name); err != nil {
			return err
		}
	}
	for _, f := range w.found {
		l.names = append(l.names, f.name)
	}
	slices.Sort(l.names)
	l.names = slices.Compact(l.names)
	return l.markAll(at)
}

// again looks at the names of an earlier look, and at whether they are still all.
func again(dir string, names []string) (*Look, error) {
	d, err := regular.OpenDir(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	at := int(d.Fd())
	found, err := list(at, ".")
	if err != nil {
		return nil, err
	}
	n := 0
	for _, name := range found {
		if name == run.ResultFile {
			continue
		}
		if _, known := slices.BinarySearch(names, name); !known {
			return nil, errChanged
		}
		n++
	}
	for _, name := range names {
		if !strings.Contains(name, "/") && name != ".." {
			n--
		}
	}
	if n != 0 {
		return nil, errChanged
	}
	l := &Look{names: names}
	return l, l.markAll(at)
}

// markAll looks at every name.
func (l *Look) markAll(at int) error {
	l.marks = make([]byte, 0, len(l.names)*markSize)
	for _, name := range l.names {
		if _, err := l.mark(at, name); err != nil {
			return err
		}
	}
	return nil
}

// mark looks at one name, and at the file that a link leads to.
func (l *Look) mark(at int, name string) (mode uint32, err error) {
	var st unix.Stat_t
	err = unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil && !(err == unix.ENOENT && elsewhere(name)) {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	l.add(&st)
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return st.Mode, nil
	}
	end := unix.Stat_t{} // zeros, of a link that leads nowhere
	if err := unix.Fstatat(at, name, &end, 0); err == nil && end.Mode&unix.S_IFMT == unix.S_IFDIR {
		return 0, fmt.Errorf("%s: %w", name, errFolder)
	}
	l.add(&end)
	return st.Mode, nil
}

func elsewhere(name string) bool {
	return strings.HasPrefix(name, "/") || strings.HasPrefix(name, "..")
}

// markSize is the size of one mark.
const markSize = 4 + 4*8

// add appends what tells a file from another, and from itself after a change.
func (l *Look) add(st *unix.Stat_t) {
	if l.devices != nil && st.Ino != 0 {
		l.devices[st.Dev] = true
	}
	modified, changed := st.Mtim.Nano(), st.Ctim.Nano()
	l.newest = max(l.newest, modified, changed)
	l.marks = binary.LittleEndian.AppendUint32(l.marks, st.Mode)
	for _, v := range []uint64{st.Ino, uint64(st.Size), uint64(modified), uint64(changed)} {
		l.marks = binary.LittleEndian.AppendUint64(l.marks, v)
	}
}

// markOf is the mark of one regular file and the time of its last change; "" if there
// is none.
func markOf(file string) (mark string, newest int64, err error) {
	var st unix.Stat_t
	switch err := unix.Lstat(file, &st); {
	case err == unix.ENOENT:
		return "", 0, nil
	case err != nil:
		return "", 0, err
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return "", 0, regular.ErrKind
	}
	var l Look
	l.add(&st)
	return l.sum(), l.newest, nil
}

// sum is a digest of the marks.
func (l *Look) sum() string { return digest(l.marks) }

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

// list returns the names in a folder below a directory that was opened and not listed
// yet, in no order.
func list(at int, folder string) ([]string, error) {
	if folder != "." {
		fd, err := unix.Openat(at, folder, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		if err != nil {
			return nil, err
		}
		defer syscall.Close(fd)
		at = fd
	}
	var names []string
	var buf [8 << 10]byte
	for {
		n, err := syscall.ReadDirent(at, buf[:])
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return names, nil
		}
		_, _, names = syscall.ParseDirent(buf[:n], -1, names)
	}
}
