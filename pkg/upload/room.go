package upload

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// perFile is what a file takes besides its bytes: a block that is not full, and its name.
const perFile = 4 << 10

// keptShare is the share of the room that the statuses of uploads that are done may take.
const keptShare = 16

// room counts what a spool holds: what is being received, what waits, and the statuses of what is done.
type room struct {
	most int64

	mu   sync.Mutex
	used int64
	jobs map[string]held
}

// held is what an upload takes.
type held struct {
	bytes int64
	waits bool // it is not done, or its files are not removed yet
}

// take takes room, or fails.
func (r *room) take(n int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used+n > r.most {
		return fmt.Errorf("%w: all together may have %d bytes; send it again later", ErrFull, r.most)
	}
	r.used += n
	return nil
}

// hold notes what an upload takes that is counted already.
func (r *room) hold(job string, h held) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.jobs[job] = h
}

// set is hold of an upload of which as much is counted as was held before.
func (r *room) set(job string, h held) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used += h.bytes - r.jobs[job].bytes
	r.jobs[job] = h
}

// drop forgets an upload that took so much.
func (r *room) drop(job string, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used -= n
	delete(r.jobs, job)
}

func (r *room) of(job string) held {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.jobs[job]
}

// kept is what the uploads take that are done.
func (r *room) kept() (n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.jobs {
		if !h.waits {
			n += h.bytes
		}
	}
	return n
}

// taking is what one upload takes while it is received.
type taking struct {
	*room
	n int64
}

func (t *taking) take(n int64) error {
	err := t.room.take(n)
	if err == nil {
		t.n += n
	}
	return err
}

// paid writes what there is room for.
type paid struct {
	io.Writer
	*taking
}

func (p paid) Write(b []byte) (int, error) {
	if err := p.take(int64(len(b))); err != nil {
		return 0, err
	}
	return p.Writer.Write(b)
}

// takeStock counts what earlier programs left in the folder, and removes what none of them wants.
func (s *Spool) takeStock() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(s.dir, e.Name())
		if strings.HasPrefix(e.Name(), newHead) { // its sender was never told that it was accepted
			err = errors.Join(err, os.RemoveAll(path))
			continue
		}
		job, ok := strings.CutPrefix(e.Name(), jobHead)
		if !ok {
			continue
		}
		st, unreadable := s.Status(job)
		waits := unreadable != nil || st.State != Done
		gone := os.RemoveAll(filepath.Join(path, workDir))
		if !waits {
			gone = errors.Join(gone, os.RemoveAll(filepath.Join(path, filesDir)))
		}
		n, wrong := sizeOf(path)
		if gone = errors.Join(gone, wrong); gone != nil { // which is no reason to take no others
			s.opts.Log("upload %s: %v", job, gone)
		}
		s.room.set(job, held{bytes: n, waits: waits})
	}
	return err
}

// sizeOf is what the files below a folder take.
func sizeOf(dir string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			n += info.Size() + perFile
		}
		return err
	})
	return n, err
}

// over ends an upload whose status says that it is done.
func (s *Spool) over(job string) error {
	dir := filepath.Join(s.dir, jobHead+job)
	if err := os.RemoveAll(filepath.Join(dir, filesDir)); err != nil {
		return err
	}
	n, err := sizeOf(dir)
	if err == nil {
		s.room.set(job, held{bytes: n})
	}
	return err
}

// forget removes the statuses of uploads that are done: old ones, and the oldest of those that take too much.
// jobs are all of them, in the order in which they were accepted.
func (s *Spool) forget(jobs []string) error {
	var errs []error
	now, kept := s.opts.Now(), s.room.kept()
	for _, job := range jobs {
		h := s.room.of(job)
		if kept <= s.room.most/keptShare && !s.old(job, now) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(s.dir, jobHead+job)); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", job, err))
			continue
		}
		s.room.drop(job, h.bytes)
		kept -= h.bytes
	}
	return errors.Join(errs...)
}

// old reports whether an upload that is done ended long ago. Most are too young for it by their names.
func (s *Spool) old(job string, now time.Time) bool {
	begun, err := time.Parse(jobTime, job[:min(len(job), len(jobTime))])
	if err == nil && now.Sub(begun) <= keptFor {
		return false
	}
	st, err := s.Status(job)
	if err != nil || st.Ended == nil { // of an earlier release
		return true
	}
	return now.Sub(*st.Ended) > keptFor
}
