// Package stage fetches what a job needs before it gets its GPUs: images into files,
// repositories at a commit, models. An image of 30 to 65 GB costs minutes that an
// allocation would spend waiting (SemiAnalysisAI/InferenceX#2785), and compute nodes
// may have no internet access.
//
// Items is pure: it lists what a scenario needs on a site. A Stager fetches one item,
// under a lock, into a temporary name beside the final one, and renames the file after
// it was checked. So a file with the final name is always complete.
package stage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/profllm/profllm/pkg/process"
)

// States of an Outcome.
const (
	Present = "present" // it was there
	Staged  = "staged"  // it is there now
	Skipped = "skipped" // see Detail
)

// Outcome says what became of an item.
type Outcome struct {
	Item
	State  string `json:"state"`
	Digest string `json:"digest,omitempty"` // of an image's file; of a repository, its commit
	Size   int64  `json:"size_bytes,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// Stager fetches items. It is safe for concurrent use. Several processes on several hosts
// may stage the same items: one works, the others wait for it.
type Stager struct {
	Site
	Environ   []string                     // of the programs it runs
	LookPath  func(string) (string, error) // finds a program
	Now       func() time.Time
	Log       func(format string, args ...any)
	Progress  func(item Item, bytes int64) // called once a second while an image grows; nil for never
	Force     bool                         // import images again that are there
	Where     string                       // Here, Slurm, or "" to run here what is installed here
	Timeout   time.Duration                // of one program; 0: no limit
	ImageSize int64                        // compressed size to expect of an image, bytes; 0: not checked
	Poll      time.Duration                // between two looks at another's lock; default 1 s
	Host      string                       // of this process
	Job       string                       // Slurm's, "" for none
	Prune     string                       // command that removes images of this site; for messages
}

// Values of Where.
const (
	Here  = "here"
	Slurm = "slurm"
)

// Stage fetches one item.
func (s *Stager) Stage(ctx context.Context, item Item) (Outcome, error) {
	o, err := Outcome{Item: item, State: Skipped, Detail: item.Skip}, error(nil)
	if item.Skip == "" {
		switch item.Kind {
		case Image:
			o, err = s.stageImage(ctx, item)
		case Repository:
			o, err = s.stageRepository(ctx, item)
		case Model:
			o, err = s.stageModel(ctx, item)
		}
	}
	if err != nil {
		return o, fmt.Errorf("stage %s %s: %w", item.Kind, item.Name, err)
	}
	return o, nil
}

func (s *Stager) owner() Owner {
	pid := os.Getpid()
	return Owner{Host: s.Host, PID: pid, ProcessStart: process.Start(pid), Job: s.Job, Time: s.Now().UTC()}
}

// alone runs work while nobody else works on path. Before that, and each time that
// another was waited for, done says whether work is needed at all.
func (s *Stager) alone(ctx context.Context, path string, done func() (bool, error), work func() error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	said := false
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		l, holder, err := acquire(path+".lock", s.owner())
		if err != nil {
			return err
		}
		if l != nil {
			defer l.release()
			if ok, err := done(); ok || err != nil { // finished between the look and the lock
				return err
			}
			s.removePartial(path)
			return work()
		}
		if !said {
			s.Log("waiting for %s: %s holds %s", filepath.Base(path), holder, path+".lock")
			said = true
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(cmp.Or(s.Poll, time.Second)):
		}
	}
}

// partial is in the name of what is not finished.
const partial = ".partial-"

// temp is where path is made before it is renamed. Its end is path's, because some
// programs go by the extension.
func (s *Stager) temp(path string) string {
	return filepath.Join(filepath.Dir(path),
		fmt.Sprintf(".%s%s%s-%d%s", filepath.Base(path), partial, s.Host, os.Getpid(), filepath.Ext(path)))
}

// removePartial removes what dead holders of the lock left.
func (s *Stager) removePartial(path string) {
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), globQuote("."+filepath.Base(path)+partial)+"*"))
	for _, file := range left {
		if err := os.RemoveAll(file); err == nil {
			s.Log("removed %s, a leftover of interrupted staging", file)
		}
	}
}

func globQuote(s string) string {
	out := make([]byte, 0, len(s))
	for i := range len(s) {
		if s[i] == '*' || s[i] == '?' || s[i] == '[' || s[i] == '\\' {
			out = append(out, '\\')
		}
		out = append(out, s[i])
	}
	return string(out)
}

// spaceFactor is how much must be free for an image, times its compressed size: the
// layers, what they unpack to, and the file.
const spaceFactor = 2.5

// checkSpace refuses to begin what will fill the file system.
func (s *Stager) checkSpace(dir string) error {
	need := int64(float64(s.ImageSize) * spaceFactor)
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil || need == 0 {
		return err
	}
	if free := int64(st.Bavail) * st.Bsize; free < need {
		return fmt.Errorf("%s has %s free, an image of %s compressed needs %s\n\thint: %s --older-than 720h, or set the size with --image-size",
			dir, bytesText(free), bytesText(s.ImageSize), bytesText(need), s.Prune)
	}
	return nil
}

func bytesText(n int64) string { return fmt.Sprintf("%.1f GB", float64(n)/1e9) }

// errNotHere says that a program is not installed on this machine.
var errNotHere = errors.New("not on the PATH")

func (s *Stager) has(program string) bool {
	_, err := s.LookPath(program)
	return err == nil
}
