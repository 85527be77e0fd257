package interchange

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/validity"
)

// Scan looks for results of other programs.
type Scan struct {
	Skip   string                       // a folder that is not looked into
	Name   func(path string) string     // a path as the user knows it
	Spoilt func(path string, err error) // hears of each file or folder that cannot be read

	Unreadable int // files and folders that cannot be read
	Unknown    int // files of a form that is read, of no known format
	files      []File
}

// Path returns the results of a file, or of what lies in a folder. One file that cannot be
// read spoils nothing but itself. The paths of the files begin with the folder's name.
func (s *Scan) Path(path string) ([]File, error) {
	s.files = nil
	err := s.path(path)
	return s.files, err
}

func (s *Scan) spoilt(path string, err error) {
	s.Unreadable++
	s.Spoilt(path, err)
}

// path takes a file, or what lies in a folder.
func (s *Scan) path(path string) error {
	abs, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if own := ownRun(abs); own != "" {
		return fmt.Errorf("%s belongs to the run %s\n\thint: profllm collect %s", path, s.Name(own), s.Name(own))
	}
	above := filepath.Dir(abs)
	if !info.IsDir() {
		return s.file(abs, filepath.Dir(above), true)
	}
	return filepath.WalkDir(abs, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			s.spoilt("", err)
			if d != nil && d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			if name == s.Skip || name != abs && isOwn(name) {
				return fs.SkipDir
			}
			return nil
		case d.Type().IsRegular() && slices.Contains([]string{".json", ".yaml", ".yml", ".csv"}, filepath.Ext(name)):
			return s.file(name, above, false)
		}
		return nil
	})
}

// isOwn reports whether a directory is a run that collect reads.
func isOwn(dir string) bool {
	for _, name := range []string{run.PlanFile, run.ImportFile, run.LoadFile, "test-run.toml"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

// ownRun finds the run that a path lies in, "" for none.
func ownRun(path string) string {
	for range 4 { // <run>/attempts/<n>/raw
		if isOwn(path) {
			return path
		}
		path = filepath.Dir(path)
	}
	return ""
}

// file reads one file. Only what was named itself must be of a known format.
func (s *Scan) file(name, above string, alone bool) error {
	rel, err := filepath.Rel(above, name)
	if err != nil {
		return err
	}
	data, err := regular.ReadAtMost(name, MaxSize)
	if errors.Is(err, regular.ErrLarge) && !alone && !Suspected(name, nil) {
		s.Unknown++
		return nil
	}
	if err != nil {
		s.spoilt(name, err)
		return nil
	}
	key := filepath.ToSlash(rel)
	format, items, err := Read(key, data)
	switch {
	case errors.Is(err, ErrUnknown) && alone:
		return fmt.Errorf("%s: %w; known are %s\n\thint: profllm collect reads the output folders of load clients",
			s.Name(name), ErrUnknown, formatNames())
	case errors.Is(err, ErrUnknown), err != nil && format == "" && !alone && !Suspected(name, data):
		s.Unknown++
		return nil
	case err != nil:
		// by the path that the user knows
		s.spoilt(name, errors.New(strings.ReplaceAll(err.Error(), key, s.Name(name))))
	}
	if len(items) > 0 {
		for i := range items {
			items[i].Evidence = validity.Evidence{} // of thousands of files; the copy is read again
		}
		s.files = append(s.files, File{Path: key, Source: name, Alone: alone, Format: format, Items: items})
	}
	return nil
}
