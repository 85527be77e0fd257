package collect

import (
	"errors"
	"io/fs"
	"path"
	"syscall"

	"github.com/profllm/profllm/pkg/regular"
)

// listing is the tree below a directory, of which each folder is listed once. Parsers
// ask for some forty files by name, most of which do not exist: a list of names
// answers them without a system call each. It is not safe for concurrent use.
type listing struct {
	fs.FS
	folders map[string]*names
}

// names is one folder; err is why it cannot be listed.
type names struct {
	entries []fs.DirEntry
	has     map[string]bool
	err     error
}

func list(dir string) *listing {
	return &listing{FS: regular.DirFS(dir), folders: map[string]*names{}}
}

var (
	_ fs.ReadFileFS = (*listing)(nil)
	_ fs.ReadDirFS  = (*listing)(nil)
	_ fs.StatFS     = (*listing)(nil)
)

// Open opens a file that the listing names.
func (l *listing) Open(name string) (fs.File, error) {
	if !l.names(name) {
		return nil, missing("open", name)
	}
	return l.FS.Open(name)
}

// ReadFile reads a file that the listing names.
func (l *listing) ReadFile(name string) ([]byte, error) {
	if !l.names(name) {
		return nil, missing("open", name)
	}
	return fs.ReadFile(l.FS, name)
}

// Stat looks at a file that the listing names.
func (l *listing) Stat(name string) (fs.FileInfo, error) {
	if !l.names(name) {
		return nil, missing("stat", name)
	}
	return fs.Stat(l.FS, name)
}

// ReadDir lists a folder, sorted by name. The caller must not change the list.
func (l *listing) ReadDir(name string) ([]fs.DirEntry, error) {
	f := l.folder(name)
	return f.entries, f.err
}

// names reports whether a file may be there: of a folder that cannot be listed
// nothing is known.
func (l *listing) names(name string) bool {
	dir, base := path.Split(name)
	f := l.folder(path.Clean(dir))
	return base == "." || f.has[base] || f.err != nil && !errors.Is(f.err, fs.ErrNotExist)
}

func (l *listing) folder(name string) *names {
	if f := l.folders[name]; f != nil {
		return f
	}
	f := &names{has: map[string]bool{}, err: missing("open", name)}
	if name == "." || l.names(name) {
		f.entries, f.err = fs.ReadDir(l.FS, name)
	}
	for _, e := range f.entries {
		f.has[e.Name()] = true
	}
	l.folders[name] = f
	return f
}

func missing(op, name string) error {
	return &fs.PathError{Op: op, Path: name, Err: syscall.ENOENT}
}
