// Package upload turns files that somebody sent into runs of a store. What was accepted is on
// disk before that is said, and is worked off in order, also after a crash: a spool is a folder
// with one folder for each upload.
//
//	s, err := upload.Open(dir, upload.Options{Collector: col, Put: store.Put})
//	defer s.Close()
//	go s.Work(ctx)
//	job, err := s.Accept(files)
//	status, err := s.Status(job)
package upload

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/profllm/profllm/pkg/collect"
	"github.com/profllm/profllm/pkg/durable"
	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/lease"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/regular"
)

// The limits of an upload, unless Options name others.
const (
	DefaultBytes = 4 << 30
	DefaultRoom  = 64 << 30
	MaxFiles     = 20_000
	maxName      = 512
	maxPart      = 255 // of a name; file systems of Linux take no longer one
	maxDepth     = 16
	maxEntries   = 100_000            // of an archive
	maxNames     = 32 << 20           // bytes, of all names in an archive
	keptFor      = 7 * 24 * time.Hour // of the status of one that is done, after its end
)

// State is how far an upload is.
type State string

// The states.
const (
	Queued  State = "queued"
	Running State = "running"
	Waiting State = "waiting" // for the next try, after an error of the server or its store
	Failed  State = "failed"  // given up until the server starts again, or for good; its files are kept
	Done    State = "done"
)

// Status is what became of an upload until now.
type Status struct {
	Job   string    `json:"job_id"`
	State State     `json:"state"`
	Begun time.Time `json:"begun"`
	// Ended is when it was done.
	Ended *time.Time `json:"ended,omitempty"`
	Done  int        `json:"done"`  // files, archives and folders that were read
	Total int        `json:"total"` // of them
	Files []File     `json:"files"`
	// Trouble is why an upload waits or failed: an error of the server, not of what was sent.
	Trouble string     `json:"trouble,omitempty"`
	Tries   int        `json:"tries,omitempty"`    // that ended in trouble
	NextTry *time.Time `json:"next_try,omitempty"` // of one that waits
	// Starts counts the servers that began with this upload and were killed.
	Starts int `json:"starts,omitempty"`
}

// File is what became of one file, archive or folder.
type File struct {
	Name string `json:"name"`
	// Outcome counts the runs by what the store did with them.
	Outcome map[string]int `json:"outcome,omitempty"`
	Runs    []string       `json:"runs,omitempty"` // ids, at most 100
	Error   string         `json:"error,omitempty"`
	Notes   []string       `json:"notes,omitempty"` // about single runs
}

// Sent is a file that is being sent. Its name may have folders before it.
type Sent struct {
	Name string
	io.Reader
}

// Outcome is what a store did with a run.
type Outcome struct {
	ID  string
	Did string // such as stored or duplicate
	Why string // it was refused
}

// Options of a spool.
type Options struct {
	Collector *collect.Collector
	// Put stores runs; when it returns without an error, they are on disk.
	Put func(context.Context, []records.Run) ([]Outcome, error)
	// Reason is what those who sent files may read of an error of Put; nil: only that there is one.
	Reason func(error) string
	Bytes  int64 // of one upload, and of what an archive unpacks to; 0: DefaultBytes
	// Room is how many bytes all uploads together may have that are received, wait, or are remembered, with 4 KiB
	// more for each file; 0: DefaultRoom.
	Room  int64
	Files int // of one upload; 0: MaxFiles
	// Entries is how many files and folders an archive may have; 0: 100,000.
	Entries int
	Now     func() time.Time
	Log     func(format string, args ...any)
}

// Spool takes uploads and works them off.
type Spool struct {
	dir     string
	opts    Options
	wake    chan struct{}
	held    func() error // fails once another program has the folder
	release func() error
	room    room

	mu    sync.Mutex
	tried map[string]*attempt // uploads in trouble, by job
}

// The errors of an upload that is refused.
var (
	ErrName     = errors.New("a file name that is not accepted")
	ErrTooLarge = errors.New("the upload is larger than allowed")
	ErrEmpty    = errors.New("no file was sent")
	ErrFull     = errors.New("the uploads that wait to be stored leave no room for this one")
	ErrCut      = errors.New("what was sent cannot be read to its end")
	ErrNoJob    = errors.New("no such upload")
)

// leaseLimit is how long a program of another host that was killed keeps others from its spool.
const leaseLimit = 5 * time.Minute

// Open opens the spool in a folder, which is made if it is missing. Only one program at a time can
// have it open: for others, the error is a [lease.HeldError].
func Open(dir string, o Options) (*Spool, error) {
	o.Bytes, o.Room = cmp.Or(o.Bytes, DefaultBytes), cmp.Or(o.Room, DefaultRoom)
	o.Files, o.Entries = cmp.Or(o.Files, MaxFiles), cmp.Or(o.Entries, maxEntries)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Reason == nil {
		o.Reason = func(error) string { return "the store reported an error, which the server's log describes" }
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	whole, err := filepath.Abs(dir) // as errors name it, see plain
	if err != nil {
		return nil, err
	}
	ctx, release, err := lease.Hold(context.Background(), filepath.Join(dir, leaseDir), dir,
		lease.Options{Now: o.Now, Limit: leaseLimit})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	s := &Spool{dir: whole, opts: o, wake: make(chan struct{}, 1), release: release,
		held: func() error { return lease.Check(ctx) }, room: room{most: o.Room, jobs: map[string]held{}}}
	if err := s.takeStock(); err != nil {
		return nil, errors.Join(err, release())
	}
	return s, nil
}

// Bytes is how many bytes one upload may have.
func (s *Spool) Bytes() int64 { return s.opts.Bytes }

// makeDir makes a folder whose name is on disk, unless it is there.
func makeDir(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(dir))
}

// Close lets other programs open the folder. Nothing may be accepted or worked off afterwards.
func (s *Spool) Close() error { return s.release() }

// The names in a spool: a job's folder, its files, and what is known of it.
const (
	jobHead    = "job-"
	newHead    = "new-" // not accepted yet
	leaseDir   = "lease"
	filesDir   = "files"
	workDir    = "work"
	statusFile = "status.json"
)

var jobName = lazyregexp.New(`^\d{14}-[0-9a-f]{16}$`)

// jobTime is how the name of a job begins: with the time at which it was accepted.
const jobTime = "20060102150405"

// Accept writes the files to disk and gives the upload's name. None of it stays if it is
// refused.
func (s *Spool) Accept(files iter.Seq2[Sent, error]) (*Status, error) {
	now := s.opts.Now().UTC()
	var random [8]byte
	rand.Read(random[:]) //nolint:errcheck // it never fails
	job := now.Format(jobTime) + "-" + hex.EncodeToString(random[:])
	t := &taking{room: &s.room}
	st := &Status{Job: job, State: Queued, Begun: now, Files: []File{}}
	if err := s.accept(st, t, files); err != nil {
		s.leave(job, t)
		return nil, err
	}
	select {
	case s.wake <- struct{}{}:
	default: // it will look anyway
	}
	return st, nil
}

// accept writes the files to disk, and the status, in which it counts them.
func (s *Spool) accept(st *Status, t *taking, files iter.Seq2[Sent, error]) error {
	temp := filepath.Join(s.dir, newHead+st.Job)
	dir := filepath.Join(temp, filesDir)
	if err := t.take(perFile); err != nil { // of the status
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	names, err := s.receive(dir, t, files)
	if err != nil {
		return err
	}
	if err := syncBelow(dir); err != nil {
		return err
	}
	st.Total = len(parts(names))
	if err := s.writeStatus(temp, st); err != nil {
		return err
	}
	s.room.hold(st.Job, held{bytes: t.n, waits: true})
	return durable.Move(temp, filepath.Join(s.dir, jobHead+st.Job))
}

// leave removes what there is of an upload that is refused. What cannot be removed still takes room.
func (s *Spool) leave(job string, t *taking) {
	err := errors.Join(os.RemoveAll(filepath.Join(s.dir, newHead+job)), os.RemoveAll(filepath.Join(s.dir, jobHead+job)))
	if err != nil {
		s.opts.Log("upload %s: refused, and not removed before the next start: %v", job, err)
		return
	}
	s.room.drop(job, t.n)
}

// receive writes the files below a folder, and gives their names.
func (s *Spool) receive(dir string, t *taking, files iter.Seq2[Sent, error]) ([]string, error) {
	left := s.opts.Bytes
	var names []string
	for f, err := range files {
		if err != nil {
			return nil, err
		}
		name, err := safeName(f.Name)
		switch {
		case err != nil:
			return nil, err
		case len(names) == s.opts.Files:
			return nil, fmt.Errorf("%.200q: %w: more than %d files", name, ErrTooLarge, s.opts.Files)
		}
		n, err := write(filepath.Join(dir, filepath.FromSlash(name)), t, f, left)
		if err != nil {
			return nil, fmt.Errorf("%.200q: %w", name, err)
		}
		if left -= n; left < 0 {
			return nil, fmt.Errorf("%.200q: %w: more than %d bytes", name, ErrTooLarge, s.opts.Bytes)
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return nil, ErrEmpty
	}
	return names, nil
}

// write writes at most one byte more than allowed to a file that must not be there.
func write(path string, t *taking, r io.Reader, most int64) (int64, error) {
	if err := t.take(perFile); err != nil {
		return 0, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return 0, nameTaken(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, nameTaken(err)
	}
	from := &sender{Reader: r}
	n, err := io.Copy(paid{f, t}, io.LimitReader(from, most+1))
	if from.err != nil {
		err = fmt.Errorf("%w: %w", ErrCut, from.err)
	}
	return n, errors.Join(err, f.Sync(), f.Close())
}

// syncBelow brings the names in a folder and in all below it to disk.
func syncBelow(dir string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		return durable.SyncDir(path)
	})
}

// sender remembers why nothing more can be read: that is not this machine's fault.
type sender struct {
	io.Reader
	err error
}

func (s *sender) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// nameTaken says of an error of the file system that two names of an upload are in each other's way.
func nameTaken(err error) error {
	var at *fs.PathError
	taken := errors.Is(err, syscall.EEXIST) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EISDIR)
	if taken && errors.As(err, &at) {
		return fmt.Errorf("%w: %q is sent twice, or as a file and a folder", ErrName, filepath.Base(at.Path))
	}
	return err
}

// safeName is a name below a folder, whatever was sent.
func safeName(name string) (string, error) {
	name = strings.ReplaceAll(name, `\`, "/")
	clean := strings.TrimPrefix(filepath.ToSlash(filepath.Clean("/"+name)), "/")
	parts := strings.Split(name, "/")
	bad := clean == "" || len(name) > maxName || strings.Count(clean, "/") > maxDepth ||
		slices.ContainsFunc(parts, func(p string) bool { return p == ".." || len(p) > maxPart }) ||
		strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c == 0x7f || c == '\ufffd' })
	if bad {
		return "", fmt.Errorf("%w: %.100q", ErrName, name)
	}
	return clean, nil
}

// Status says how far an upload is.
func (s *Spool) Status(job string) (*Status, error) {
	if !jobName.MatchString(job) {
		return nil, fmt.Errorf("%w: %.60q", ErrNoJob, job)
	}
	data, err := regular.ReadFile(filepath.Join(s.dir, jobHead+job, statusFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", ErrNoJob, job)
	}
	if err != nil {
		return nil, err
	}
	st := &Status{}
	if err := json.Unmarshal(data, st); err != nil {
		return st, err
	}
	s.addTrouble(st)
	return st, nil
}

func (s *Spool) writeStatus(dir string, st *Status) error {
	data, err := json.Marshal(st)
	if err != nil {
		return err
	}
	return durable.WriteFileIf(filepath.Join(dir, statusFile), data, 0o600, s.held)
}
