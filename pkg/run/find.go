package run

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/profllm/profllm/pkg/regular"
)

// Find lists the run directories at or below the given paths, sorted: directories with a
// plan or an import, runs of CloudAI (test-run.toml or vllm-bench.json), and folders in
// which a client, a search or an evaluation left its files. Find does not look below a run
// (attempts, hooks, logs), and a load's directory is not a run. A path may be a link. If a
// folder below cannot be read, Find returns an error beside what it found elsewhere.
func Find(paths ...string) ([]string, error) {
	var found []string
	var open []folder
	var unread []error
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		path = filepath.Clean(path)
		switch {
		case strings.Contains(filepath.Base(path), partial):
		case info.IsDir():
			open = append(open, folder{path: path, given: true})
		case isRunFile(filepath.Dir(path), filepath.Base(path)) && filepath.Base(filepath.Dir(path)) != RawDir &&
			!exists(filepath.Join(filepath.Dir(path), LoadFile)):
			found = append(found, filepath.Dir(path))
		}
	}
	for len(open) > 0 {
		AtOnce(len(open), SmallFiles, func(i int) { open[i].look() })
		var below []folder
		for _, f := range open {
			switch {
			case f.err != nil && f.given:
				return nil, f.err
			case f.err != nil:
				unread = append(unread, f.err)
			}
			if f.run {
				found = append(found, f.path)
			}
			for _, name := range f.folders {
				below = append(below, folder{path: filepath.Join(f.path, name)})
			}
		}
		open = below
	}
	slices.Sort(found)
	return slices.Compact(found), errors.Join(unread...)
}

// folder is one step of Find.
type folder struct {
	path  string
	given bool // not found

	run     bool
	folders []string // to look into
	err     error
}

func (f *folder) look() {
	d, err := regular.OpenDir(f.path)
	if errors.Is(err, fs.ErrNotExist) && !f.given {
		return // a running job sets folders aside
	}
	if err != nil {
		f.err = err
		return
	}
	defer d.Close()
	entries, err := d.ReadDir(-1) // in no order, which spares the time
	if err != nil && !(errors.Is(err, fs.ErrNotExist) && !f.given) {
		f.err = err
		return
	}
	load, planned, search := false, false, false
	for _, e := range entries {
		switch name := e.Name(); {
		case name == PlanFile: // whatever it is: who reads it says so
			f.run, planned = true, true
		case e.IsDir():
			if !strings.Contains(name, partial) {
				f.folders = append(f.folders, name)
			}
		case name == LoadFile:
			load = true
		case strings.TrimSuffix(name, ".xz") == SearchFile:
			search = isRunFile(f.path, name)
			f.run = f.run || search
		case !f.run:
			f.run = isRunFile(f.path, name)
		}
	}
	if search {
		f.folders = slices.DeleteFunc(f.folders, ofSearch)
	}
	f.run = f.run && !load && filepath.Base(f.path) != RawDir
	if planned {
		f.folders = nil
	}
}

// SmallFiles is how many small files to read at the same time: many more than
// there are cores, because each takes a shared file system a millisecond.
const SmallFiles = 64

// AtOnce calls f for 0 to n-1, up to limit at a time.
func AtOnce(n, limit int, f func(i int)) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(n, limit) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	workers.Wait()
}
