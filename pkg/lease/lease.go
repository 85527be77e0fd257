// Package lease lets one of several commands do a thing, over hosts that share
// nothing but a folder: two cron lines, or one on each of two login nodes.
//
// It uses no file locks, which NFS and Lustre keep in different ways or not at
// all. A lease is a folder of numbered files, each made exclusively; the highest
// number is the holder, and who finds a stale one takes over by making the next
// number, which only one can do. Numbers are never used twice by a holder: the
// highest file stays when the lease is given back.
//
//	l, err := lease.Acquire(dir, lease.Options{Now: time.Now})
//	var held *lease.HeldError
//	if errors.As(err, &held) { … }
//	defer l.Release()
package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/process"
	"github.com/profllm/profllm/pkg/run"
)

// DefaultLimit is how long a holder on another host, which cannot be looked at,
// may go without Renew before it counts as gone.
const DefaultLimit = time.Hour

// unreadable is how long a file without content counts as one that is being
// written, on a file system without hard links.
const unreadable = time.Minute

// Owner is the content of a lease file.
type Owner struct {
	Schema       string    `json:"schema"` // profllm.lease/1
	Host         string    `json:"host"`
	PID          int       `json:"pid"`
	ProcessStart string    `json:"process_start"` // tells a PID from its reuse
	Since        time.Time `json:"since"`
	Time         time.Time `json:"time"` // of the last Renew
	Released     bool      `json:"released,omitempty"`
}

// Options are what Acquire needs to know.
type Options struct {
	Now   func() time.Time
	Limit time.Duration // 0: DefaultLimit
	Renew time.Duration // between two renewals of Hold; 0: a minute
}

// Lease is one that this process holds. Not safe for concurrent use.
type Lease struct {
	dir    string
	number int
	owner  Owner
	now    func() time.Time
}

// HeldError says who holds a lease. The fields of Owner are empty while the
// holder is just writing them.
type HeldError struct{ Owner Owner }

func (e *HeldError) Error() string {
	if e.Owner.Host == "" {
		return "another command is taking this lease"
	}
	return fmt.Sprintf("process %d on %s has held this lease since %s", e.Owner.PID, e.Owner.Host,
		e.Owner.Since.Local().Format(time.DateTime))
}

// ErrLost is returned by Renew when another command has taken over.
var ErrLost = errors.New("another command has taken over this lease")

// Acquire takes the lease in dir, which is made if it is not there. A *HeldError
// means that another command holds it, or was faster.
//
// A holder on this host counts as gone when its process is; on another host, when
// it has not renewed for the limit. Such a holder that was only asleep learns of
// it at its next Renew, so what it does in between must do no harm.
func Acquire(dir string, o Options) (*Lease, error) {
	if o.Limit == 0 {
		o.Limit = DefaultLimit
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	numbers, err := list(dir)
	if err != nil {
		return nil, err
	}
	last := highest(numbers)
	if last > 0 {
		owner, held, err := holder(file(dir, last), host, o)
		if err != nil {
			return nil, err
		}
		if held {
			return nil, &HeldError{owner}
		}
	}
	return take(dir, last+1, host, o)
}

// take makes a lease file of this process.
func take(dir string, number int, host string, o Options) (*Lease, error) {
	pid, now := os.Getpid(), o.Now().UTC()
	l := &Lease{dir: dir, number: number, now: o.Now, owner: Owner{
		Schema: "profllm.lease/1", Host: host, PID: pid, ProcessStart: process.Start(pid), Since: now, Time: now,
	}}
	if err := run.CreateJSON(l.file(), l.owner); errors.Is(err, fs.ErrExist) {
		owner, _ := read(l.file())
		return nil, &HeldError{owner}
	} else if err != nil {
		return nil, fmt.Errorf("take the lease %s: %w", dir, err)
	}
	if err := l.confirm(); err != nil {
		return nil, err
	}
	return l, nil
}

// confirm looks again once the file is there. A slow command may make a number
// that was used and removed long ago; then a higher one exists, since a number is
// removed only after the next was made.
func (l *Lease) confirm() error {
	numbers, err := list(l.dir)
	if err != nil {
		return errors.Join(err, l.Release())
	}
	if last := highest(numbers); last != l.number {
		owner, _ := read(file(l.dir, last))
		return errors.Join(&HeldError{owner}, os.Remove(l.file()))
	}
	for _, n := range numbers {
		if n < l.number {
			if err := os.Remove(file(l.dir, n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return errors.Join(err, l.Release())
			}
		}
	}
	return nil
}

// Renew says that the holder still lives, for commands on other hosts. It returns
// ErrLost when one of them has taken over.
func (l *Lease) Renew() error {
	if err := l.own(); err != nil {
		return err
	}
	l.owner.Time = l.now().UTC()
	return run.WriteJSON(l.file(), l.owner)
}

// KeepRenewed renews the lease every so often until stop is called, which comes before Release. problem
// hears of each renewal that fails; ErrLost is the last.
func (l *Lease) KeepRenewed(ctx context.Context, every time.Duration, problem func(error)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if err := l.Renew(); err != nil {
					problem(err)
					if errors.Is(err, ErrLost) {
						return
					}
				}
			}
		}
	}()
	return func() { cancel(); <-done }
}

// renewEvery is well below every limit: a holder on another host that was killed counts as dead after it.
const renewEvery = time.Minute

// Hold acquires a lease and keeps it renewed until release. held ends if the lease is lost, which may
// happen to a process that was stopped for long. what, for that error, is what is written under the lease.
//
// held ends at the next renewal only. Before each write under the lease, ask [Check].
func Hold(ctx context.Context, dir, what string, o Options) (held context.Context, release func() error, err error) {
	l, err := Acquire(dir, o)
	if err != nil {
		return nil, nil, err
	}
	held, cancel := context.WithCancelCause(ctx)
	lost := func(err error) error {
		if errors.Is(err, ErrLost) {
			err = fmt.Errorf("%s: %w", what, err)
			cancel(err)
		} // else the disk may be back before the lease counts as abandoned
		return err
	}
	stop := l.KeepRenewed(held, cmp.Or(o.Renew, renewEvery), func(err error) { _ = lost(err) })
	held = context.WithValue(held, checkKey{}, func() error { return lost(l.own()) })
	return held, func() error {
		stop()
		cancel(nil)
		return l.Release()
	}, nil
}

// checkKey is the key of a context's check of its lease.
type checkKey struct{}

// Check looks whether the lease under which a context was made by [Hold] is still held, also once the
// context has ended. The error is ErrLost if another command has taken over, and that of the folder if
// it cannot be read, which shows nothing. A context without a lease has nothing to lose.
//
// A holder that is stopped between Check and its write can still write, so Check comes last before the
// write; durable.WriteFileIf asks there.
func Check(ctx context.Context) error {
	if check, ok := ctx.Value(checkKey{}).(func() error); ok {
		return check()
	}
	return nil
}

// Release gives the lease back. One that was lost is left to whoever has it.
func (l *Lease) Release() error {
	if err := l.own(); errors.Is(err, ErrLost) {
		return nil
	} else if err != nil {
		return err
	}
	l.owner.Time, l.owner.Released = l.now().UTC(), true
	return run.WriteJSON(l.file(), l.owner)
}

func (l *Lease) own() error {
	numbers, err := list(l.dir)
	if err == nil && highest(numbers) != l.number {
		err = ErrLost
	}
	return err
}

func (l *Lease) file() string { return file(l.dir, l.number) }

func file(dir string, number int) string {
	return filepath.Join(dir, "lease-"+strconv.Itoa(number)+".json")
}

// list returns the numbers of the files of a lease, in no order.
func list(dir string) ([]int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, e := range entries {
		word, ok := strings.CutPrefix(e.Name(), "lease-")
		word, json := strings.CutSuffix(word, ".json")
		if n, err := strconv.Atoi(word); ok && json && err == nil && n > 0 {
			numbers = append(numbers, n)
		}
	}
	return numbers, nil
}

func highest(numbers []int) int {
	top := 0
	for _, n := range numbers {
		top = max(top, n)
	}
	return top
}

// holder reads a lease file and says whether it is in force. A file that went
// away was superseded: whoever did that holds the lease, or held it.
func holder(path, host string, o Options) (Owner, bool, error) {
	owner, err := read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return owner, true, nil
	case errors.As(err, new(*fs.PathError)): // it cannot be read now, which says nothing
		return owner, false, err
	case err != nil:
		st, statErr := os.Stat(path)
		return owner, statErr != nil || o.Now().Sub(st.ModTime()).Abs() < unreadable, nil
	case owner.Released:
		return owner, false, nil
	case owner.Host == host:
		return owner, process.Runs(owner.PID, owner.ProcessStart), nil
	}
	return owner, o.Now().Sub(owner.Time).Abs() < o.Limit, nil // a time far ahead is a wrong clock's
}

func read(path string) (Owner, error) {
	var owner Owner
	if err := run.ReadJSON(path, &owner); err != nil {
		return Owner{}, err
	}
	if owner.Host == "" {
		return Owner{}, fmt.Errorf("read %s: no host", path)
	}
	return owner, nil
}
