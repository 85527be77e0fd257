package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/profllm/profllm/pkg/regular"
)

// Output is a file that a user named for what a command writes. It may replace an older one of
// its kind, and nothing else: a mistyped name must not destroy a file.
type Output struct {
	Option string // by which the file was named, "" for none
	Path   string // "" writes nothing
	Kind   string // what is written: "an HTML page of profllm"
	// Ours reports whether a file that begins with head is of the kind; head has at most
	// headSize bytes.
	Ours func(head []byte) bool
	// MakesFolder says that the writer makes the folder of the file.
	MakesFolder bool
}

// headSize is how much of an old file says what it is.
const headSize = 4096

// CheckOutputs refuses files that cannot or must not be written. A command calls it before it
// prints anything.
func CheckOutputs(list ...Output) error {
	var errs []error
	var seen []string
	for _, o := range list {
		if o.Path == "" {
			continue
		}
		if path := filepath.Clean(o.Path); slices.Contains(seen, path) {
			errs = append(errs,
				o.refused("another option names the same file\n\thint: give each file a name of its own"))
		} else {
			seen = append(seen, path)
		}
		errs = append(errs, o.check())
	}
	return errors.Join(errs...)
}

// Write writes the file, after the checks.
func (o Output) Write(data []byte) error {
	if o.Path == "" {
		return nil
	}
	if err := o.check(); err != nil {
		return err
	}
	return WriteFile(o.Path, data, 0o644)
}

// WriteBy writes what write writes, at once.
func (o Output) WriteBy(write func(io.Writer) error) error {
	if o.Path == "" {
		return nil
	}
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	return o.Write(b.Bytes())
}

func (o Output) check() error {
	st, err := os.Stat(o.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && o.MakesFolder:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return o.checkFolder()
	case err != nil:
		return o.refused("%v", bare(err))
	case st.IsDir():
		return o.refused("this is a folder\n\thint: name a file, such as %s", filepath.Join(o.Path, "FILE"))
	case !st.Mode().IsRegular():
		return o.refused("this is not a regular file, and cannot be replaced by one")
	}
	head, err := readHead(o.Path)
	if err != nil {
		return o.refused("%v", bare(err))
	}
	if len(head) > 0 && !o.Ours(head) {
		return o.refused("the file exists and is not %s, so it is not overwritten\n\thint: name another file, or remove this one first", o.Kind)
	}
	return nil
}

// checkFolder refuses a new file in a folder that is not there.
func (o Output) checkFolder() error {
	dir := filepath.Dir(o.Path)
	st, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return o.refused("there is no folder %s\n\thint: make it with mkdir -p", dir)
	case err != nil:
		return o.refused("%v", bare(err))
	case !st.IsDir():
		return o.refused("%s is a file, not a folder", dir)
	}
	return nil
}

func (o Output) refused(format string, args ...any) error {
	what := o.Path
	if o.Option != "" {
		what = o.Option + " " + what
	}
	return fmt.Errorf("%s: %s", what, fmt.Sprintf(format, args...))
}

func readHead(path string) ([]byte, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, headSize))
}
