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
	// leaseLimit is when a holder on another host counts as dead: a search that goes on elsewhere after
	// a kill waits that long.
	leaseLimit = 5 * time.Minute
)

// A Refusal is an error in what was asked, or in when.
type Refusal struct{ error }

// Unwrap is the error itself.
func (r Refusal) Unwrap() error { return r.error }

// lock keeps other searches out of the folder until release. The context ends if the folder is lost
// to another, which may happen to a process that was stopped for long.
func (r *runner) lock(ctx context.Context) (held context.Context, release func() error, err error) {
	o := lease.Options{Now: r.Now, Limit: leaseLimit, Renew: r.Renew}
	held, release, err = lease.Hold(ctx, filepath.Join(r.Dir, leaseDir), r.Dir, o)
	if busy := new(lease.HeldError); errors.As(err, &busy) {
		err = Refusal{fmt.Errorf("a search runs in %s: %w\n\thint: choose another folder with --result-dir",
			r.Dir, busy)}
	}
	return held, release, err
}
