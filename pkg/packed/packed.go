// Package packed opens files that somebody may have packed by xz, each for itself,
// since they were written. It bounds what they unpack to.
package packed

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/ulikunitz/xz"

	"github.com/profllm/profllm/pkg/regular"
)

var (
	// ErrNoXZ is a file whose name ends with .xz and that xz did not write.
	ErrNoXZ = errors.New("not an xz file")
	// ErrDamaged is a packed file that is cut short, or was changed since.
	ErrDamaged = errors.New("the packed file is damaged")
)

// Open opens a file, or the same with .xz where only that exists, and returns its text
// unpacked and the name that it found. What is read of a damaged file ends with
// ErrDamaged where the damage is, what is larger than regular.Most with regular.ErrLarge.
func Open(dir fs.FS, name string) (io.ReadCloser, string, error) {
	f, err := dir.Open(name)
	if errors.Is(err, fs.ErrNotExist) && !isPacked(name) {
		if packed, xzErr := dir.Open(name + ".xz"); !errors.Is(xzErr, fs.ErrNotExist) {
			name, f, err = name+".xz", packed, xzErr
		}
	}
	if err != nil {
		return nil, name, err
	}
	var text io.Reader = regular.Limit(f, regular.Most)
	if isPacked(name) {
		if text, err = NewReader(f); err != nil {
			f.Close()
			return nil, name, err
		}
	}
	return struct {
		io.Reader
		io.Closer
	}{text, f}, name, nil
}

// Read reads what Open opens, of at most that many bytes. With an error it returns
// what came before it, unless that is more than most.
func Read(dir fs.FS, name string, most int64) ([]byte, string, error) {
	f, name, err := Open(dir, name)
	if err != nil {
		return nil, name, err
	}
	defer f.Close()
	var b bytes.Buffer // of the file's size, where that is known
	if st, err := fs.Stat(dir, name); err == nil && !isPacked(name) {
		if st.Size() > most {
			return nil, name, &fs.PathError{Op: "read", Path: name, Err: regular.TooLarge(most)}
		}
		b.Grow(int(max(st.Size(), 0)) + bytes.MinRead)
	}
	if _, err = b.ReadFrom(regular.Limit(f, most)); errors.Is(err, regular.ErrLarge) {
		return nil, name, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return b.Bytes(), name, err
}

// Bounds of what xz unpacks. Text of benchmarks shrinks to a tenth, the log of
// a progress bar to a hundredth.
const (
	ratio = 1000      // more than that many bytes of one, once it is more than free
	free  = 256 << 20 // bytes
)

// NewReader unpacks what xz wrote, by one program or several one after the other.
// It ends with regular.ErrLarge where somebody made the text in order to be large, or a
// block in order to take memory.
func NewReader(r io.Reader) (io.Reader, error) {
	in := newChecked(r, regular.Most)
	for range 2 { // up to the first block, so that its dictionary is an error of the opening
		if err := in.advance(); errors.Is(err, regular.ErrLarge) {
			return nil, err
		}
	}
	x, err := xz.NewReader(in)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoXZ, err)
	}
	return regular.Limit(&unpacking{x, in, 0}, regular.Most), nil
}

// unpacking fails where much too much comes out of what goes in.
type unpacking struct {
	x   io.Reader
	in  *checked
	out int64
}

func (u *unpacking) Read(p []byte) (int, error) {
	if u.out > max(free, ratio*u.in.n) {
		return 0, fmt.Errorf("%w: %d MiB come out of %d KiB", regular.ErrLarge, u.out>>20, u.in.n>>10)
	}
	n, err := u.x.Read(p)
	u.out += int64(n)
	switch {
	case err == nil || err == io.EOF || u.in.from.err != nil:
	case errors.Is(u.in.err, regular.ErrLarge):
		err = u.in.err
	default:
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return n, err
}

// isPacked reports whether a file of that name is packed.
func isPacked(name string) bool { return strings.HasSuffix(name, ".xz") }
