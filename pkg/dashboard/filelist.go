package dashboard

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/regular"
)

// runFile is one of a run's folder. Its content is not served, unless the record names it as a trace.
type runFile struct {
	Name string `json:"name" doc:"below the folder"`
	Size int64  `json:"size" doc:"bytes"`
}

// The limits of a list of files.
const (
	mostFiles   = 500
	mostEntries = 10_000 // that are looked at, also folders and what is not listed
	mostDeep    = 8
)

// filesBelow lists regular files below a folder, and reports whether there are more. Links are neither listed
// nor followed, and names that begin with a dot are not listed.
func filesBelow(dir string) (list []runFile, more bool) {
	l := lister{left: mostEntries, files: []runFile{}}
	l.list(dir, "", nil, 1)
	slices.SortFunc(l.files, func(a, b runFile) int { return strings.Compare(a.Name, b.Name) })
	if len(l.files) > mostFiles {
		l.files, l.more = l.files[:mostFiles], true
	}
	return l.files, l.more
}

type lister struct {
	left  int // entries that may still be looked at
	files []runFile
	more  bool
}

// list lists a folder; seen is what its parent had in its place, which a link may have taken since.
func (l *lister) list(dir, below string, seen fs.FileInfo, depth int) {
	if depth > mostDeep || l.left == 0 {
		l.more = true
		return
	}
	f, err := regular.OpenDir(dir)
	if err != nil {
		return
	}
	defer f.Close()
	if is, err := f.Stat(); err != nil || seen != nil && !os.SameFile(seen, is) {
		return
	}
	entries, _ := f.ReadDir(l.left + 1) // what could be read before an error is listed
	if len(entries) > l.left {
		entries, l.more = entries[:l.left], true
	}
	l.left -= len(entries)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		info, err := e.Info()
		switch name := path.Join(below, e.Name()); {
		case err != nil: // it is gone
		case info.IsDir():
			l.list(filepath.Join(dir, e.Name()), name, info, depth+1)
		case info.Mode().IsRegular():
			l.files = append(l.files, runFile{name, info.Size()})
		}
	}
}
