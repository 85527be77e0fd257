package run

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/regular"
)

// A ForeignError is the error for writing into a directory of another user.
type ForeignError struct {
	Dir   string
	Owner int
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s belongs to user %d, so it is only read", e.Dir, e.Owner)
}

// Each directory of a scenario, a run or an import has one of these records.
var marks = []string{ScenarioFile, PlanFile, ImportFile}

// CheckDir refuses to write into a directory of a run if it belongs to another user (ForeignError), who could
// replace its files, or if a link below the scenario's directory leads to it. A run directory is foreign
// input. Directories outside of runs pass. Every function of this package that writes calls it. A process
// of the job itself passes whatever the owner: in a container it may be root, and the directory a user's.
func CheckDir(dir string) error {
	path, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	top := topOf(path)
	if top == "" {
		return nil
	}
	for below := path; ; below = filepath.Dir(below) {
		look := os.Lstat
		if below == top { // a link to the whole is another name of it
			look = os.Stat
		}
		info, err := look(below)
		switch {
		case errors.Is(err, fs.ErrNotExist) && below != top:
			continue
		case err != nil:
			return err
		case !info.IsDir():
			return fmt.Errorf("nothing is written into %s: %s is no directory but a %s", dir, below, kindOf(info))
		}
		if owner := regular.Owner(info); owner != os.Geteuid() && !InJob && !mapsOwners(below, owner) {
			return &ForeignError{below, owner}
		}
		if below == top {
			return nil
		}
	}
}

// mapsOwners reports whether a file system shows another owner for everybody's files, this user's too: NFS that does not
// know the user, a share that was mounted for one user, sshfs. A new file there tells.
func mapsOwners(dir string, owner int) bool {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false
	}
	defer root.Close()
	name := fmt.Sprintf(".profllm-owner-%d-%d", os.Getpid(), rand.Int64())
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return false
	}
	info, err := f.Stat()
	return errors.Join(err, f.Close(), root.Remove(name)) == nil && regular.Owner(info) == owner
}

// InJob is set by the program in a process that is a part of a run's own job.
var InJob bool

func kindOf(info fs.FileInfo) string {
	if info.Mode()&fs.ModeSymlink != 0 {
		return "link"
	}
	return "file"
}

// topOf is the highest directory above a path that is one of a scenario or of a run, "" for none. They
// are nested at most so deep: scenario, test, iteration, load or attempt, and a folder in it.
func topOf(path string) (top string) {
	const deepest = 8
	for range deepest {
		if isMarked(path) {
			top = path
		}
		parent := filepath.Dir(path)
		if parent == path {
			break
		}
		path = parent
	}
	return top
}

// isMarked reports whether a directory has such a record. A record of a user in a shared folder of root, such as
// /tmp, does not count.
func isMarked(dir string) bool {
	for _, name := range marks {
		mark, err := os.Lstat(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		in, err := os.Stat(dir)
		return err != nil || in.Mode()&fs.ModeSticky == 0 || regular.Owner(in) != 0 || regular.Owner(mark) == 0
	}
	return false
}

// Append opens a file of a run to add to it.
func Append(path string) (*os.File, error) {
	if err := CheckDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o644)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: regular.ErrKind}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// loadsOf lists the directories of a run's loads that are the run's: inside of it, or beside it and marked
// by their load.json as this run's.
func loadsOf(dir string, p *plan.Plan) (dirs []string) {
	for i := range p.Loads {
		l := &p.Loads[i]
		if at := movedPath(dir, p, l.Dir); l.Dir != "" && CheckLoad(dir, at) == nil {
			dirs = append(dirs, at)
		}
	}
	return dirs
}

// CheckLoad refuses a directory that no load of a run has.
func CheckLoad(dir, at string) error {
	if rel, err := filepath.Rel(dir, at); err == nil && filepath.IsLocal(rel) {
		return nil
	}
	var mark LoadMark
	if err := ReadJSON(filepath.Join(at, LoadFile), &mark); err != nil {
		return fmt.Errorf("%s is no directory of a load: %w", at, err)
	}
	if own := filepath.Join(at, mark.Run); own != filepath.Clean(dir) {
		return fmt.Errorf("%s is the directory of a load of %s, not of %s", at, own, dir)
	}
	return nil
}
