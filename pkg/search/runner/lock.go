package runner

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/profllm/profllm/pkg/lease"
)

const (
	leaseDir = ".lease" // in the folder of a search
	// renewEvery is well below leaseLimit, after which a holder on another host counts as dead: a
	// search that goes on elsewhere after a kill waits that long.
	renewEvery = time.Minute
	leaseLimit = 5 * time.Minute
)

// A Refusal is an error in what was asked, or in when.
type Refusal struct{ error }

// Unwrap is the error itself.
func (r Refusal) Unwrap() error { return r.error }

// lock keeps other searches out of the folder until release. The context ends if the folder is lost
// to another, which may happen to a process that was stopped for long.
func (r *runner) lock(ctx context.Context) (held context.Context, release func() error, err error) {
	l, err := lease.Acquire(filepath.Join(r.Dir, leaseDir), lease.Options{Now: r.Now, Limit: leaseLimit})
	if busy := new(lease.HeldError); errors.As(err, &busy) {
		return nil, nil, Refusal{fmt.Errorf("a search runs in %s: %w\n\thint: choose another folder with --result-dir",
			r.Dir, busy)}
	} else if err != nil {
		return nil, nil, err
	}
	held, cancel := context.WithCancelCause(ctx)
	stop := l.KeepRenewed(held, renewEvery, func(err error) {
		if errors.Is(err, lease.ErrLost) {
			cancel(fmt.Errorf("%s: %w", r.Dir, err))
		} // else the disk may be back before the lease counts as abandoned
	})
	return held, func() error {
		stop()
		cancel(nil)
		return l.Release()
	}, nil
}
