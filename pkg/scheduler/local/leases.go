package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"path/filepath"
	"syscall"
	"time"

	"github.com/profllm/profllm/pkg/run"
)

// leasesFile says which local job has which port and which GPU. A lease counts for as
// long as a process of its job lives: what a job that was killed left behind still has
// them, and nothing outlives a reboot.
const leasesFile = "leases.json"

// holder is a job that has a lease.
type holder struct {
	Job   string `json:"job"`
	State string `json:"state"` // its directory, by which its processes are known
}

// leases are the holders by what they have, see [portName].
type leases map[string]holder

// portName is what a lease of a port is called. All nodes of local jobs are this machine, and
// some servers listen on all its addresses.
func portName(port int) string { return fmt.Sprintf("port %d", port) }

// Inside reports whether an environment is that of a local job.
func Inside(environ func(string) string) bool { return environ(jobState) != "" }

// LeasePorts gives ports to the local job of an environment until it is over. If another job
// has one of them, that port is returned, and none is given.
func LeasePorts(ctx context.Context, environ func(string) string, ports []int) (taken int, err error) {
	h := holder{Job: run.BaseID(environ("SLURM_JOB_ID")), State: environ(jobState)}
	err = h.change(ctx, func(of leases) bool {
		for _, port := range ports {
			if other, ok := of[portName(port)]; ok && other != h {
				taken = port
				return false
			}
		}
		for _, port := range ports {
			of[portName(port)] = h
		}
		return true
	})
	return taken, err
}

// release gives back all that the job has.
func (h holder) release(ctx context.Context) error {
	return h.change(ctx, func(of leases) bool {
		maps.DeleteFunc(of, func(_ string, other holder) bool { return other == h })
		return true
	})
}

// change lets f change the leases that count, with no other process between reading and
// writing; nothing is written if f returns false.
func (h holder) change(ctx context.Context, f func(leases) bool) error {
	alone, err := exclude(ctx)
	if err != nil {
		return fmt.Errorf("leases of this machine: %w", err)
	}
	defer alone.Close()
	file := filepath.Join(filepath.Dir(h.State), leasesFile)
	of := leases{}
	// A file that a crash of the machine cut short is as good as none: no job outlived it.
	if err := run.ReadJSON(file, &of); err != nil && errors.Is(err, fs.ErrPermission) {
		return err
	}
	lives := map[holder]bool{h: true}
	maps.DeleteFunc(of, func(_ string, other holder) bool {
		if _, known := lives[other]; !known {
			lives[other] = other.lives()
		}
		return !lives[other]
	})
	if !f(of) {
		return nil
	}
	return run.WriteJSON(file, of)
}

// lives reports whether a process of the job does.
func (h holder) lives() bool {
	_, _, runs := watcher(h.Job)
	return runs || len(run.Marked(jobState+"="+h.State)) > 0
}

// exclude waits until no other process is in here. The name of a socket has one owner, and the
// kernel takes it from a process that dies.
func exclude(ctx context.Context) (interface{ Close() error }, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		l, err := net.Listen("unix", "@profllm-leases")
		if !errors.Is(err, syscall.EADDRINUSE) {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("another process holds them: %w", ctx.Err())
		case <-time.After(time.Millisecond):
		}
	}
}
