package archive

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/ulikunitz/xz"

	"github.com/profllm/profllm/pkg/packed"
	"github.com/profllm/profllm/pkg/regular"
)

// Limits bound what an archive may unpack to.
type Limits struct {
	Bytes   int64 // of everything together; 0: DefaultBytes
	Entries int   // 0: a million
	Names   int64 // bytes of all names, which are in memory; 0: 256 MiB
}

// DefaultBytes is how many bytes an archive may unpack to by default.
const DefaultBytes = 64 << 30

const (
	defaultEntries = 1_000_000
	defaultNames   = 256 << 20
	longestName    = 4000 // bytes; with the folder that it is unpacked in, below PATH_MAX (4096)
	deepest        = 200  // folders within each other: each is opened anew for what lies below it
)

// ErrLimit is the error for an archive that unpacks to more than is allowed.
var ErrLimit = errors.New("the archive is larger than allowed")

func (l Limits) orDefault() Limits {
	if l.Bytes == 0 {
		l.Bytes = DefaultBytes
	}
	if l.Entries == 0 {
		l.Entries = defaultEntries
	}
	if l.Names == 0 {
		l.Names = defaultNames
	}
	return l
}

// List reads a whole archive and returns what it holds, with digests.
func List(ctx context.Context, file string, l Limits) ([]Entry, error) {
	f, err := regular.OpenLarge(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := list(ctx, f, l)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return entries, nil
}

func list(ctx context.Context, f io.ReadSeeker, l Limits) ([]Entry, error) {
	var entries []Entry
	err := read(ctx, f, l, func(e Entry, r io.Reader) error {
		if e.Mode.IsRegular() {
			h := sha256.New()
			if _, err := io.Copy(h, r); err != nil {
				return err
			}
			e.SHA256 = [sha256.Size]byte(h.Sum(nil))
		}
		entries = append(entries, e)
		return nil
	})
	return entries, err
}

// read calls visit for each entry, with the content of a regular file. It refuses
// what no archive of ours holds: names that leave the directory of the first entry
// or lie below none, names twice, other types. What was visited is certain only
// when it has returned nil: then every checksum was right.
func read(ctx context.Context, f io.ReadSeeker, l Limits, visit func(Entry, io.Reader) error) error {
	l = l.orDefault()
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	room, err := packed.Scan(bufio.NewReaderSize(interruptible{ctx, f}, buffer), l.Bytes, ErrLimit)
	if err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	x, err := xz.NewReader(bufio.NewReaderSize(interruptible{ctx, f}, buffer))
	if err != nil {
		return err
	}
	unpacked := &lasting{r: bufio.NewReaderSize(&lasting{r: x}, buffer)}
	t, seen := tar.NewReader(unpacked), tree{}
	for {
		h, err := t.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		e, err := entry(h)
		if err != nil {
			return err
		}
		if err := seen.add(e); err != nil {
			return err
		}
		if len(seen) > l.Entries {
			return fmt.Errorf("%w: more than %d entries", ErrLimit, l.Entries)
		}
		if l.Names -= int64(len(e.Name) + len(e.Link)); l.Names < 0 {
			return fmt.Errorf("%w: the names of its entries are too long", ErrLimit)
		}
		if room -= e.Size; room < 0 {
			return fmt.Errorf("%s: %w: the header claims more bytes than may be unpacked", e.Name, ErrLimit)
		}
		if err := visit(e, t); err != nil {
			return err
		}
	}
	if len(seen) == 0 {
		return errors.New("the archive is empty")
	}
	_, err = io.Copy(io.Discard, unpacked) // up to the last checksum
	return err
}

const buffer = 256 << 10

// lasting is a reader whose error stays: xz goes on behind a wrong checksum when
// it is asked again, and bufio does ask.
type lasting struct {
	r   io.Reader
	err error
}

func (l *lasting) Read(p []byte) (n int, err error) {
	if l.err == nil {
		n, l.err = l.r.Read(p)
	}
	return n, l.err
}

// entry reads a header of tar.
func entry(h *tar.Header) (Entry, error) {
	e := Entry{Name: h.Name, Mode: fs.FileMode(h.Mode) & fs.ModePerm, Time: h.ModTime.UTC()}
	switch h.Typeflag {
	case tar.TypeReg:
		e.Size = h.Size
	case tar.TypeDir:
		e.Name, e.Mode = strings.TrimSuffix(h.Name, "/"), e.Mode|fs.ModeDir
	case tar.TypeSymlink:
		e.Mode, e.Link, e.Time = fs.ModeSymlink|fs.ModePerm, h.Linkname, time.Time{}
	default:
		return e, fmt.Errorf("%.200q is neither a file nor a directory nor a symbolic link (type %q)", h.Name, h.Typeflag)
	}
	if !filepath.IsLocal(e.Name) || path.Clean(e.Name) != e.Name || e.Name == "." || strings.ContainsRune(e.Name, 0) {
		return e, fmt.Errorf("%.200q is not a name below a directory", h.Name)
	}
	if len(e.Name) > longestName {
		return e, fmt.Errorf("%w: the name %.60q… has %d bytes, and a path has at most %d", ErrLimit, h.Name, len(e.Name), longestName)
	}
	if strings.Count(e.Name, "/") > deepest {
		return e, fmt.Errorf("%w: %.60q… lies in more than %d folders", ErrLimit, h.Name, deepest)
	}
	if strings.ContainsRune(e.Link, 0) {
		return e, fmt.Errorf("the link %q has an invalid target %q", h.Name, e.Link)
	}
	return e, nil
}

// tree is what an archive held so far: names, and whether each is a directory.
type tree map[string]bool

// add refuses an entry that is there already, or not in a directory that is.
func (t tree) add(e Entry) error {
	if _, twice := t[e.Name]; twice {
		return fmt.Errorf("%q occurs twice", e.Name)
	}
	switch up := path.Dir(e.Name); {
	case len(t) == 0 && (up != "." || !e.Mode.IsDir()):
		return fmt.Errorf("the first entry is %q, not the archive's directory", e.Name)
	case len(t) > 0 && !t[up]:
		return fmt.Errorf("the archive has no directory for %q", e.Name)
	}
	t[e.Name] = e.Mode.IsDir()
	return nil
}
