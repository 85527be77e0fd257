// Package packed opens files that somebody may have packed by xz, each for itself,
// since they were written.
package packed

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/ulikunitz/xz"
)

// ErrNoXZ is a file whose name ends with .xz and that xz did not write.
var ErrNoXZ = errors.New("no xz file")

// Open opens a file, or the same with .xz where only that exists, and returns its text
// unpacked and the name that it found. What is read of a damaged file ends with an
// error where the damage is; how much is read is the caller's to bound.
func Open(dir fs.FS, name string) (io.ReadCloser, string, error) {
	f, err := dir.Open(name)
	if errors.Is(err, fs.ErrNotExist) && !IsPacked(name) {
		if packed, xzErr := dir.Open(name + ".xz"); xzErr == nil {
			name, f, err = name+".xz", packed, nil
		}
	}
	if err != nil || !IsPacked(name) {
		return f, name, err
	}
	x, err := xz.NewReader(f)
	if err != nil {
		f.Close()
		return nil, name, fmt.Errorf("%w: %w", ErrNoXZ, err)
	}
	return struct {
		io.Reader
		io.Closer
	}{x, f}, name, nil
}

// IsPacked reports whether a file of that name is packed.
func IsPacked(name string) bool { return strings.HasSuffix(name, ".xz") }
