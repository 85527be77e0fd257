package kube

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/profllm/profllm/pkg/lease"
	"github.com/profllm/profllm/pkg/run"
)

const (
	// lockDir is the folder of the lease under which one command fetches, cancels or cleans up a run.
	lockDir = run.KubeDir + "/.lease"
	// lockLimit is when a command on another host that no longer renews its lease counts as gone.
	lockLimit = 5 * time.Minute
	// lockWait bounds the wait for another command: each of its steps has a limit below this.
	lockWait = 2 * time.Minute
)

// lock keeps other commands from a run until release, and waits for one that is at it. Before a
// write, lease.Check tells whether the context's lease is still held.
func (k *Kube) lock(ctx context.Context, dir string) (held context.Context, release func() error, err error) {
	if err := ownFolder(dir); err != nil {
		return nil, nil, err
	}
	o := lease.Options{Now: k.now, Limit: lockLimit}
	for end := k.now().Add(lockWait); ; {
		held, release, err = lease.Hold(ctx, filepath.Join(dir, lockDir), dir, o)
		if busy := new(lease.HeldError); !errors.As(err, &busy) {
			return held, release, err
		}
		if k.now().After(end) {
			return nil, nil, fmt.Errorf("another command fetches or deletes this run: %w\n\thint: repeat the command once that one has ended", err)
		}
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-time.After(k.pause):
		}
	}
}

// ownFolder makes the folder for what is fetched of a cluster. A link there would lead out of the run.
func ownFolder(dir string) error {
	at := filepath.Join(dir, run.KubeDir)
	err := os.Mkdir(at, 0o755)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if st, err := os.Lstat(at); err != nil || st.IsDir() {
		return err
	}
	return fmt.Errorf("%s is not a folder\n\thint: remove it, or move it away", at)
}
