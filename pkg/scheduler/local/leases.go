package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/profllm/profllm/pkg/run"
)

// leasesDir has one file for each user, which says who has which port and which GPU. A lease
// counts for as long as a process of its job lives: what a job that was killed left behind still
// has them, and nothing outlives a reboot. The folder is none that an environment can change: who
// looks elsewhere sees no leases. A variable for tests.
var leasesDir = "/tmp"

func leasesFile(uid int) string {
	return filepath.Join(leasesDir, fmt.Sprintf("profllm-leases-%d.json", uid))
}

// holder is a job that has a lease, or a command that is about to start one.
type holder struct {
	Job   string `json:"job"`             // of which the process that watches over it can be told
	State string `json:"state,omitempty"` // the job's directory, by which its other processes are known
}

// leases are the holders by what they have, see portName and gpuName.
type leases map[string]holder

// portName is what a lease of a port is called. All nodes of local jobs are this machine, and
// some servers listen on all its addresses.
func portName(port int) string { return fmt.Sprintf("port %d", port) }

// gpuName is what a lease of a GPU is called.
func gpuName(uuid string) string { return "gpu " + uuid }

// Inside reports whether an environment is that of a local job.
func Inside(environ func(string) string) bool { return environ(jobState) != "" }

// LeasePorts gives ports to the local job of an environment until it is over. If another job
// has one of them, that port is returned, and none is given.
func LeasePorts(ctx context.Context, environ func(string) string, ports []int) (taken int, err error) {
	h := holder{Job: run.BaseID(environ("SLURM_JOB_ID")), State: environ(jobState)}
	err = changeLeases(ctx, func(of leases) bool {
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

// release gives back all that a holder has.
func (h holder) release(ctx context.Context) error {
	return changeLeases(ctx, func(of leases) bool {
		maps.DeleteFunc(of, func(_ string, other holder) bool { return other == h })
		return true
	})
}

// takeOver takes leases from another holder, which may be gone by now.
func (h holder) takeOver(from holder, names []string) error {
	if len(names) == 0 {
		return nil
	}
	var lost string
	err := changeLeases(context.Background(), func(of leases) bool {
		for _, name := range names {
			if other, ok := of[name]; ok && other != from {
				lost = fmt.Sprintf("%s is now used by job %s", name, other.Job)
				return false
			}
		}
		for _, name := range names {
			of[name] = h
		}
		return true
	})
	if err == nil && lost != "" {
		err = errors.New(lost)
	}
	return err
}

// changeLeases lets f change the leases that count, with no other process between reading and
// writing; nothing is written if f returns false. Those of other users are seen, and stay.
func changeLeases(ctx context.Context, f func(leases) bool) error {
	alone, err := exclude(ctx)
	if err != nil {
		return fmt.Errorf("leases of this machine: %w", err)
	}
	defer alone.Close()
	own := leasesFile(os.Getuid())
	files, err := filepath.Glob(filepath.Join(leasesDir, "profllm-leases-*.json"))
	if err != nil {
		return err
	}
	of, others := leases{}, leases{}
	for _, file := range files {
		if file != own {
			maps.Copy(others, readLeases(file))
		}
	}
	maps.Copy(of, others)
	ours, err := ownLeases(own)
	if err != nil {
		return fmt.Errorf("leases of this machine: %w", err)
	}
	maps.Copy(of, ours)
	lives := map[holder]bool{}
	maps.DeleteFunc(of, func(_ string, h holder) bool {
		if _, known := lives[h]; !known {
			lives[h] = h.lives()
		}
		return !lives[h]
	})
	if !f(of) {
		return nil
	}
	maps.DeleteFunc(of, func(name string, h holder) bool { return others[name] == h })
	if err := run.WriteJSON(own, of); err != nil {
		return err
	}
	return os.Chmod(own, 0o644) // other users read it, whatever the umask is
}

// ownLeases reads the file of this user. One that a crash of the machine cut short is as good as
// none, since no job outlived it; one that cannot be read is not.
func ownLeases(file string) (of leases, err error) {
	var st syscall.Stat_t
	if syscall.Lstat(file, &st) == nil && int(st.Uid) != os.Getuid() {
		return nil, fmt.Errorf("%s belongs to user %d, who must remove it", file, st.Uid)
	}
	_, err = run.ReadRecord(file, &of)
	return of, err
}

// readLeases reads the file of another user. One that says nothing, or that somebody else wrote,
// is as good as none.
func readLeases(file string) leases {
	var uid int
	if _, err := fmt.Sscanf(filepath.Base(file), "profllm-leases-%d.json", &uid); err != nil {
		return nil
	}
	var st syscall.Stat_t
	if syscall.Lstat(file, &st) != nil || int(st.Uid) != uid {
		return nil
	}
	var of leases
	if run.ReadJSON(file, &of) != nil {
		return nil
	}
	return of
}

// lives reports whether a process of the holder does.
func (h holder) lives() bool {
	_, _, runs := watcher(h.Job)
	if runs || h.State == "" {
		return runs
	}
	return len(run.Marked(jobState+"="+h.State))+len(run.Marked(run.HeldVar+"="+h.Job)) > 0
}

// exclude waits until no other process is in here. The name of a socket has one owner, and the
// kernel takes it from a process that dies.
func exclude(ctx context.Context) (io.Closer, error) {
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
