// Package packed opens files that somebody may have packed by xz, each for itself,
// since they were written. It bounds what they unpack to.
package packed

import (
	"bufio"
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
	ErrNoXZ = errors.New("no xz file")
	// ErrDamaged is a packed file that is cut short, or was changed since.
	ErrDamaged = errors.New("the packed file is damaged")
)

// Open opens a file, or the same with .xz where only that exists, and returns its text
// unpacked and the name that it found. What is read of a damaged file ends with
// ErrDamaged where the damage is, what is larger than regular.Most with regular.ErrLarge.
func Open(dir fs.FS, name string) (io.ReadCloser, string, error) {
	f, err := dir.Open(name)
	if errors.Is(err, fs.ErrNotExist) && !IsPacked(name) {
		if packed, xzErr := dir.Open(name + ".xz"); !errors.Is(xzErr, fs.ErrNotExist) {
			name, f, err = name+".xz", packed, xzErr
		}
	}
	if err != nil {
		return nil, name, err
	}
	var text io.Reader = regular.Limit(f, regular.Most)
	if IsPacked(name) {
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
	if st, err := fs.Stat(dir, name); err == nil && !IsPacked(name) {
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
	ratio      = 1000      // more than that many bytes of one, once it is more than free
	free       = 256 << 20 // bytes
	dictionary = 64 << 20  // of the first block, in bytes; xz -9 has no larger one
)

// NewReader unpacks what xz wrote, by one program or several one after the other.
// It ends with regular.ErrLarge where somebody made the text in order to be large.
func NewReader(r io.Reader) (io.Reader, error) {
	in := &counter{r: bufio.NewReader(r)}
	if head, _ := in.r.Peek(blockHeader); !modest(head) {
		return nil, fmt.Errorf("%w: its dictionary has more than %d MiB", regular.ErrLarge, dictionary>>20)
	}
	x, err := xz.NewReader(in)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoXZ, err)
	}
	return regular.Limit(&unpacking{x, in, 0}, regular.Most), nil
}

// blockHeader is where the longest header of a first block ends, see section 3.1
// of the xz file format 1.2.0: behind the stream's header of 12 bytes.
const blockHeader = 12 + 1024

// modest reports whether a first block, if head is the beginning of one, has no
// filter LZMA2 (id 0x21, one byte of properties) with a larger dictionary. Its size
// is known by the byte behind the id and the length (section 5.3.1).
func modest(head []byte) bool {
	if len(head) < 14 {
		return true
	}
	at := bytes.Index(head[14:min(len(head), 12+4*(1+int(head[12])))], []byte{0x21, 1})
	if at < 0 || 14+at+2 >= len(head) {
		return true
	}
	bits := head[14+at+2]
	return bits > 40 || int64(2|bits&1)<<(bits/2+11) <= dictionary // above 40 it is no header
}

// unpacking fails where much too much comes out of what goes in.
type unpacking struct {
	x   io.Reader
	in  *counter
	out int64
}

func (u *unpacking) Read(p []byte) (int, error) {
	if u.out > max(free, ratio*u.in.n) {
		return 0, fmt.Errorf("%w: %d MiB come out of %d KiB", regular.ErrLarge, u.out>>20, u.in.n>>10)
	}
	n, err := u.x.Read(p)
	u.out += int64(n)
	if err != nil && err != io.EOF && u.in.err == nil {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return n, err
}

// counter counts what is read through it, and keeps an error that is not the end.
type counter struct {
	r   *bufio.Reader
	n   int64
	err error
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}

// IsPacked reports whether a file of that name is packed.
func IsPacked(name string) bool { return strings.HasSuffix(name, ".xz") }
