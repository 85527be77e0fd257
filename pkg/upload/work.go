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
	"runtime/debug"
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
	s.mu.Lock()
	s.tried = map[string]*attempt{}
	s.mu.Unlock()
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

// workOff works off every upload that waits, and forgets old ones. One that fails keeps no other waiting, nor does one
// with which programs were killed: it comes last.
func (s *Spool) workOff(ctx context.Context) error {
	entries, err := os.ReadDir(s.dir) // by name, which begins with the time
	if err != nil {
		return err
	}
	var errs []error
	var late []*Status
	var done []string
	for _, e := range entries {
		job, ok := strings.CutPrefix(e.Name(), jobHead)
		if !ok || !s.due(job) {
			continue
		}
		if !s.room.of(job).waits {
			done = append(done, job)
			continue
		}
		if err := cmp.Or(ctx.Err(), s.held()); err != nil {
			return errors.Join(append(errs, err)...)
		}
		st, err := s.Status(job)
		switch {
		case err != nil:
			s.settled(ctx, job, err)
		case st.State == Done: // and its files could not be removed
			err = s.over(job)
		case st.Starts > 0:
			late = append(late, st)
		default:
			err = s.try(ctx, st)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", job, err))
		}
	}
	for _, st := range late {
		if err := cmp.Or(ctx.Err(), s.held(), s.try(ctx, st)); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", st.Job, err))
		}
	}
	return errors.Join(append(errs, s.forget(done))...)
}

// try works an upload off, unless it has ended too many programs.
func (s *Spool) try(ctx context.Context, st *Status) error {
	err := errKills
	if st.Starts < mostStarts {
		err = s.job(ctx, st)
	}
	s.settled(ctx, st.Job, err)
	return err
}

// statusPause is the least time between two writes of a status.
const statusPause = time.Second

// job stores the runs of an upload. One that was begun before begins again: what the store has is a
// duplicate then.
func (s *Spool) job(ctx context.Context, st *Status) error {
	dir := filepath.Join(s.dir, jobHead+st.Job)
	*st = Status{Job: st.Job, State: Running, Begun: st.Begun, Total: st.Total, Files: []File{}, Starts: st.Starts + 1}
	if err := s.writeStatus(dir, st); err != nil {
		return err
	}
	st.Starts-- // whatever is written from now on, this program is not killed
	if err := s.read(ctx, st, dir); err != nil {
		_ = s.writeStatus(dir, st) // on a full disk it counts as a start that was killed
		return err
	}
	st.State, st.Starts, st.Ended = Done, 0, new(s.opts.Now().UTC())
	if err := s.writeStatus(dir, st); err != nil {
		return err
	}
	return s.over(st.Job)
}

// read reads the parts of an upload.
func (s *Spool) read(ctx context.Context, st *Status, dir string) error {
	names, err := below(filepath.Join(dir, filesDir))
	if err != nil {
		return err
	}
	list := parts(names)
	st.Total = len(list)
	texts, wrote := budget(mostTexts), time.Now()
	for _, p := range list {
		f, err := s.part(ctx, dir, p, &texts)
		if err != nil {
			return err // of this machine or the store: the upload waits for the next try
		}
		st.Files, st.Done = append(st.Files, f), st.Done+1
		if time.Since(wrote) < statusPause { // a form may have thousands of files
			continue
		}
		running := *st
		running.Starts++
		if err := s.writeStatus(dir, &running); err != nil {
			return err
		}
		wrote = time.Now()
	}
	return nil
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
func (s *Spool) part(ctx context.Context, dir, name string, texts *budget) (File, error) {
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
	r := reader{collector: s.opts.Collector, work: work, from: filepath.Join(dir, filesDir, name), name: name}
	runs, err := s.runs(ctx, &r)
	switch {
	case ctx.Err() != nil:
		return f, ctx.Err()
	case r.fault != nil:
		return f, r.fault
	}
	for _, note := range r.notes {
		f.Notes = append(f.Notes, texts.text(note))
	}
	if err != nil {
		f.Error = texts.text(s.plain(err, r.from, name))
		return f, nil
	}
	return f, s.store(ctx, &f, runs, texts)
}

// runs reads the runs of a part, which may be an archive. A fault of the program that a part brings about is an
// error of the part.
func (s *Spool) runs(ctx context.Context, r *reader) (runs []records.Run, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			s.opts.Log("upload: fault while reading %q: %v\n%s", r.name, fault, debug.Stack())
			runs, err = nil, errors.New("reading it is a fault of the program, which its log describes")
		}
	}()
	if archive.Is(r.from) {
		to, err := archive.Restore(ctx, r.from, r.work, archive.Options{Private: true,
			Limits: archive.Limits{Bytes: s.opts.Bytes, Entries: s.opts.Entries, Names: maxNames}})
		if err != nil {
			if ofMachine(err) {
				r.fault = err
			}
			return nil, err
		}
		r.from = to
	}
	return r.read()
}

// most is how many runs and notes a status names for each file.
const most = 100

// store puts runs into the store.
func (s *Spool) store(ctx context.Context, f *File, runs []records.Run, texts *budget) error {
	f.Outcome = map[string]int{}
	for some := range slices.Chunk(runs, 1000) {
		outcomes, err := s.opts.Put(ctx, some)
		if err != nil {
			return storeError{err}
		}
		for i, o := range outcomes {
			f.Outcome[o.Did]++
			if o.ID != "" && len(f.Runs) < most && *texts > 0 {
				f.Runs = append(f.Runs, o.ID)
				*texts -= budget(len(o.ID))
			}
			if o.Why != "" && len(f.Notes) < most {
				f.Notes = append(f.Notes, texts.text(some[i].Dir+": "+o.Why))
			}
		}
	}
	return nil
}

// plain is an error in the words of who sent the file: it does not know this machine's folders.
func (s *Spool) plain(err error, from, name string) string {
	text := err.Error()
	if from != "" {
		text = strings.ReplaceAll(text, from, name)
	}
	return strings.ReplaceAll(text, s.dir+string(filepath.Separator), "")
}
