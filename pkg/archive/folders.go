package archive

import (
	"context"
	"os"
	"path/filepath"
	"strings"
)

// Folders are temporary folders in which archives are unpacked to be read. The zero value has none.
type Folders struct {
	archives map[string]string // by the directory in which each is unpacked
	temps    []string
}

// TempError says that no temporary folder can be made, so that nothing is wrong with the archive.
type TempError struct{ Err error }

func (e *TempError) Error() string { return e.Err.Error() }

func (e *TempError) Unwrap() error { return e.Err }

// Is reports whether a path is that of an archive, by its name.
func Is(path string) bool {
	st, err := os.Stat(path)
	return err == nil && strings.HasSuffix(path, Suffix) && st.Mode().IsRegular()
}

// Unpack unpacks an archive and returns its directory; isNew is false if it was unpacked
// before. Links are skipped.
func (f *Folders) Unpack(ctx context.Context, file string) (dir string, isNew bool, err error) {
	for dir, from := range f.archives {
		if _, err := os.Stat(dir); from == file && err == nil {
			return dir, false, nil
		}
	}
	temp, err := tempDir()
	if err != nil {
		return "", false, &TempError{err}
	}
	f.temps = append(f.temps, temp)
	if temp, err = filepath.Abs(temp); err != nil {
		return "", false, &TempError{err}
	}
	if dir, err = Restore(ctx, file, temp, Options{Links: SkipLinks}); err != nil {
		return "", false, err
	}
	if f.archives == nil {
		f.archives = map[string]string{}
	}
	f.archives[dir] = file
	return dir, true, nil
}

// Remove removes the folders, and returns what kept it from removing some. Names stay known.
func (f *Folders) Remove() (errs []error) {
	for _, t := range f.temps {
		if err := os.RemoveAll(t); err != nil {
			errs = append(errs, err)
		}
	}
	f.temps = nil
	return errs
}

// File is the archive that is unpacked in a directory, "" for none.
func (f *Folders) File(dir string) string { return f.archives[dir] }

// Named is a path, or a text with paths, as it is to be printed: the name of the archive
// replaces the directory in which the archive is unpacked.
func (f *Folders) Named(text string) string {
	for dir, file := range f.archives {
		text = strings.ReplaceAll(text, dir, file)
	}
	return text
}

// OnDisk is the place of a path that Named has named.
func (f *Folders) OnDisk(path string) string {
	for dir, file := range f.archives {
		if below, ok := strings.CutPrefix(path, file+"/"); ok {
			return filepath.Join(dir, below)
		}
	}
	return path
}

// Inside is the name of a path that has the name of an archive in it, below the archive's folder.
func Inside(path string) (name string, ok bool) {
	for root := path; root != filepath.Dir(root); root = filepath.Dir(root) {
		if Is(root) {
			name, err := filepath.Rel(filepath.Dir(root), path)
			return name, err == nil
		}
	}
	return "", false
}
