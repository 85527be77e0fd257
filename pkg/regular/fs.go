package regular

import (
	"io/fs"
	"os"
	"path/filepath"
)

// DirFS is the tree below a directory, as os.DirFS has it, with this package's
// rules for each file that is opened. A file larger than Most is refused, ReadFile
// reads at most Record bytes.
func DirFS(dir string) fs.FS { return tree(dir) }

type tree string

var (
	_ fs.ReadFileFS = tree("")
	_ fs.ReadDirFS  = tree("")
	_ fs.StatFS     = tree("")
)

// Open opens a regular file, or a folder so that it can be listed.
func (t tree) Open(name string) (fs.File, error) {
	path, err := t.path("open", name)
	if err != nil {
		return nil, err
	}
	f, err := Open(path)
	if err == nil {
		return f, nil
	}
	if d, e := OpenDir(path); e == nil {
		return d, nil
	}
	return nil, renamed(err, name)
}

func (t tree) ReadFile(name string) ([]byte, error) {
	path, err := t.path("read", name)
	if err != nil {
		return nil, err
	}
	data, err := ReadFile(path)
	return data, renamed(err, name)
}

func (t tree) ReadDir(name string) ([]fs.DirEntry, error) {
	path, err := t.path("readdir", name)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(path)
	return entries, renamed(err, name)
}

func (t tree) Stat(name string) (fs.FileInfo, error) {
	path, err := t.path("stat", name)
	if err != nil {
		return nil, err
	}
	st, err := os.Stat(path)
	return st, renamed(err, name)
}

func (t tree) path(op, name string) (string, error) {
	if !fs.ValidPath(name) {
		return "", &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	return filepath.Join(string(t), filepath.FromSlash(name)), nil
}

// renamed is an error with the name by which the file was asked for.
func renamed(err error, name string) error {
	if named, ok := err.(*fs.PathError); ok {
		return &fs.PathError{Op: named.Op, Path: name, Err: named.Err}
	}
	return err
}
