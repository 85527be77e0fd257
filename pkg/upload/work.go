package upload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/archive"
	"github.com/profllm/profllm/pkg/lease"
	"github.com/profllm/profllm/pkg/records"
)

// Work works uploads off, one after the other, until ctx ends, or until another program has taken
// over the folder, which is lease.ErrLost. Only one goroutine may do so in a spool.
func (s *Spool) Work(ctx context.Context) error {
	for {
		err := s.workOff(ctx)
		switch {
		case errors.Is(err, lease.ErrLost):
			return err
		case err != nil && ctx.Err() == nil:
			s.opts.Log("uploads: %v; trying again", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		case <-time.After(time.Minute):
		}
	}
}

// workOff works off every upload that waits, and forgets old ones. One that fails keeps no other waiting.
func (s *Spool) workOff(ctx context.Context) error {
	entries, err := os.ReadDir(s.dir) // by name, which begins with the time
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		job, ok := strings.CutPrefix(e.Name(), jobHead)
		if !ok {
			continue
		}
		if err := cmp.Or(ctx.Err(), s.held()); err != nil {
			return errors.Join(append(errs, err)...)
		}
		st, err := s.Status(job)
		switch {
		case err != nil:
		case st.State == Done && s.opts.Now().Sub(st.Begun) > kept:
			err = os.RemoveAll(filepath.Join(s.dir, e.Name()))
		case st.State != Done:
			err = s.job(ctx, st)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", job, err))
		}
	}
	return errors.Join(errs...)
}

// job stores the runs of an upload. One that was begun before begins again: what the store has is a
// duplicate then.
func (s *Spool) job(ctx context.Context, st *Status) error {
	dir := filepath.Join(s.dir, jobHead+st.Job)
	st.State, st.Done, st.Files = Running, 0, []File{}
	if err := s.writeStatus(dir, st); err != nil {
		return err
	}
	names, err := below(filepath.Join(dir, filesDir))
	if err != nil {
		return err
	}
	list := parts(names)
	st.Total = len(list)
	for _, p := range list {
		f, err := s.part(ctx, dir, p)
		if err != nil {
			return err // of this machine or the store: the upload waits for the next try
		}
		st.Files, st.Done = append(st.Files, f), st.Done+1
		if err := s.writeStatus(dir, st); err != nil {
			return err
		}
	}
	st.State = Done
	if err := s.writeStatus(dir, st); err != nil {
		return err
	}
	return os.RemoveAll(filepath.Join(dir, filesDir))
}

// below lists the files below a folder, by their names from there.
func below(dir string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			var name string
			if name, err = filepath.Rel(dir, path); err == nil {
				names = append(names, filepath.ToSlash(name))
			}
		}
		return err
	})
	return names, err
}

// parts are what is read at once: a file, an archive, or everything below one folder.
func parts(names []string) []string {
	set := map[string]bool{}
	for _, name := range names {
		head, _, _ := strings.Cut(name, "/")
		set[head] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// part stores the runs of one part. What is wrong with the part itself is said in its File; an error of this
// machine is returned.
func (s *Spool) part(ctx context.Context, dir, name string) (File, error) {
	f := File{Name: name}
	if err := s.held(); err != nil {
		return f, err
	}
	work := filepath.Join(dir, workDir)
	if err := os.RemoveAll(work); err != nil {
		return f, err
	}
	if err := os.Mkdir(work, 0o700); err != nil {
		return f, err
	}
	defer os.RemoveAll(work) //nolint:errcheck // the next part or try removes it
	from := filepath.Join(dir, filesDir, name)
	if archive.Is(from) {
		to, err := archive.Restore(ctx, from, work, archive.Options{Limits: archive.Limits{Bytes: s.opts.Bytes}})
		switch {
		case ctx.Err() != nil:
			return f, ctx.Err()
		case ofMachine(err):
			return f, err
		case err != nil:
			f.Error = s.plain(err, from, name)
			return f, nil
		}
		from = to
	}
	r := reader{collector: s.opts.Collector, work: work, from: from, name: name}
	runs, err := r.read()
	if r.fault != nil {
		return f, r.fault
	}
	f.Notes = r.notes
	if err != nil {
		f.Error = s.plain(err, from, name)
		return f, nil
	}
	return f, s.store(ctx, &f, runs)
}

// most is how many runs and notes a status names.
const most = 100

// store puts runs into the store.
func (s *Spool) store(ctx context.Context, f *File, runs []records.Run) error {
	f.Outcome = map[string]int{}
	for some := range slices.Chunk(runs, 1000) {
		outcomes, err := s.opts.Put(ctx, some)
		if err != nil {
			return err
		}
		for i, o := range outcomes {
			f.Outcome[o.Did]++
			if o.ID != "" && len(f.Runs) < most {
				f.Runs = append(f.Runs, o.ID)
			}
			if o.Why != "" && len(f.Notes) < most {
				f.Notes = append(f.Notes, some[i].Dir+": "+o.Why)
			}
		}
	}
	return nil
}

// plain is an error in the words of who sent the file: it does not know this machine's folders.
func (s *Spool) plain(err error, from, name string) string {
	text := strings.ReplaceAll(err.Error(), from, name)
	return strings.ReplaceAll(text, s.dir+string(filepath.Separator), "")
}
