package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/durable"
	"github.com/profllm/profllm/pkg/regular"
)

// Links says what happens to links that lead out of the archive's directory.
type Links int

const (
	RefuseLinks Links = iota // an error that names them
	KeepLinks                // made as they are; nothing is written through them
	SkipLinks                // not made
)

// Options of Restore; the zero value refuses everything doubtful.
type Options struct {
	Limits Limits
	Links  Links
	// Private gives all files the mode 0600 and all folders 0700: whoever restores can read and remove them,
	// whatever the archive says.
	Private bool
}

// ErrLeadsOut is the error for an archive with links that lead out of its directory.
var ErrLeadsOut = errors.New("links lead out of the archive's directory")

// Restore unpacks an archive below an existing folder and returns the directory, which
// must not exist yet (fs.ErrExist). The directory appears whole, after every checksum was
// verified.
func Restore(ctx context.Context, file, parent string, o Options) (string, error) {
	f, err := regular.OpenLarge(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	pattern, err := tempName(parent, file)
	if err != nil {
		return "", err
	}
	temp, err := os.MkdirTemp(parent, pattern)
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temp)
	top, err := unpack(ctx, f, temp, parent, o)
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	target := filepath.Join(parent, top)
	if err := free(target); err != nil {
		return "", err
	}
	return target, durable.Move(filepath.Join(temp, top), target)
}

func free(target string) error {
	if _, err := os.Lstat(target); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", target, errors.Join(err, fs.ErrExist))
	}
	return nil
}

// unpack fills a folder and returns the name of the directory that it made there.
func unpack(ctx context.Context, f io.ReadSeeker, temp, parent string, o Options) (string, error) {
	root, err := os.OpenRoot(temp)
	if err != nil {
		return "", err
	}
	defer root.Close()
	var dirs []Entry
	var out []string
	err = read(ctx, f, o.Limits, func(e Entry, r io.Reader) error {
		if len(dirs) == 0 {
			if err := free(filepath.Join(parent, e.Name)); err != nil {
				return err
			}
		}
		switch {
		case e.Mode.IsDir():
			dirs = append(dirs, e)
			return root.Mkdir(e.Name, 0o700)
		case e.Mode.IsRegular():
			if o.Private {
				e.Mode = 0o600
			}
			return unpackFile(root, e, r)
		case o.Links != KeepLinks && e.LeadsOut():
			out = append(out, fmt.Sprintf("%s -> %s", e.Name, e.Link))
			return nil
		}
		return root.Symlink(e.Link, e.Name)
	})
	if err != nil {
		return "", err
	}
	if o.Links == RefuseLinks && len(out) > 0 {
		return "", fmt.Errorf("%w:\n\t%s", ErrLeadsOut, strings.Join(out, "\n\t"))
	}
	for _, e := range slices.Backward(dirs) { // what is below first: it changes times
		if o.Private {
			e.Mode = 0o700
		}
		if err := errors.Join(root.Chtimes(e.Name, e.Time, e.Time), root.Chmod(e.Name, e.Mode.Perm())); err != nil {
			return "", err
		}
	}
	return dirs[0].Name, nil
}

func unpackFile(root *os.Root, e Entry, r io.Reader) error {
	f, err := root.OpenFile(e.Name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	if err := errors.Join(err, f.Chmod(e.Mode.Perm()), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("%s: %w", e.Name, err)
	}
	return root.Chtimes(e.Name, e.Time, e.Time)
}
