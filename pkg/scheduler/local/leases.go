package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/process"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/run"
)

// leasesDir has one file for each user, which says who has which port and which GPU. A lease
// counts for as long as a process of its job lives: what a job that was killed left behind still
// has them, and nothing outlives a reboot. Another user's file counts only if that user owns it and
// its jobs are that user's processes. The folder is none that an environment can change: who looks
// elsewhere sees no leases. A variable for tests.
var leasesDir = "/tmp"

// The names of files there: profllm-leases-UID.json, or see regular.OwnFile.
const (
	leasesName = "profllm-leases-"
	leasesExt  = ".json"
)

// leasesBase begins the names of a user's files.
func leasesBase(uid int) string { return leasesName + strconv.Itoa(uid) }

// mostLeases is the largest file of leases that is read: another user's may be made to use up memory.
const mostLeases = 64 << 10

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

// changeLeases lets f change the leases that count, with no other process of this user between reading
// and writing; nothing is written if f returns false. Those of other users are seen, and stay. Of two
// users who write at the same time at least one sees the other, and takes back what both have; f is then
// called again.
func changeLeases(ctx context.Context, f func(leases) bool) error {
	within, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	release, err := regular.Lock(within, leasesDir, leasesBase(os.Getuid()))
	if err != nil {
		return fmt.Errorf("leases of this machine: %w", err)
	}
	defer release()
	for {
		again, err := changeOnce(f)
		if err != nil {
			return fmt.Errorf("leases of this machine: %w", err)
		}
		if !again {
			return nil
		}
		select {
		case <-within.Done():
			return fmt.Errorf("leases of this machine: another user wants the same: %w", within.Err())
		case <-time.After(rand.N(20 * time.Millisecond)):
		}
	}
}

// changeOnce is changeLeases, but for a user who wrote at the same time: then it changes nothing.
func changeOnce(f func(leases) bool) (again bool, err error) {
	file, exists, err := regular.OwnFile(leasesDir, leasesBase(os.Getuid()), leasesExt)
	if err != nil {
		return false, err
	}
	before := leases{}
	if exists { // one that a crash of the machine cut short is as good as none, since no job outlived it
		if _, err = run.ReadRecord(file, &before); err != nil {
			return false, err
		}
	}
	before.forget(holder.lives)
	others, _, err := othersLeases()
	if err != nil {
		return false, err
	}
	of := maps.Clone(others)
	maps.Copy(of, before)
	if !f(of) {
		return false, nil
	}
	maps.DeleteFunc(of, func(name string, h holder) bool { return others[name] == h })
	if err := writeLeases(file, of); err != nil {
		return false, err
	}
	if others, _, err = othersLeases(); err != nil {
		return false, err
	}
	for name, h := range of {
		if _, taken := others[name]; taken && before[name] != h {
			return true, writeLeases(file, before)
		}
	}
	return false, nil
}

// writeLeases replaces the file of this user.
func writeLeases(file string, of leases) error {
	if err := run.WriteJSON(file, of); err != nil {
		return err
	}
	return os.Chmod(file, 0o644) // other users read it, whatever the umask is
}

// forget removes the leases of holders that do not live.
func (of leases) forget(lives func(holder) bool) {
	known := map[holder]bool{}
	maps.DeleteFunc(of, func(_ string, h holder) bool {
		if _, ok := known[h]; !ok {
			known[h] = lives(h)
		}
		return !known[h]
	})
}

// Ignored says which files of leases do not count, and why.
func Ignored() []error {
	_, ignored, err := othersLeases()
	if err != nil {
		return []error{err}
	}
	return ignored
}

// othersLeases reads what other users have leased, and says which files do not count.
func othersLeases() (all leases, ignored []error, err error) {
	files, err := filepath.Glob(filepath.Join(leasesDir, leasesName+"*"+leasesExt))
	if err != nil {
		return nil, nil, err
	}
	all = leases{}
	for _, file := range files {
		uid, err := leasesOwner(file)
		if err == nil && uid == os.Getuid() {
			continue
		}
		of, err := leases(nil), err
		if err == nil {
			of, err = readLeases(file, uid)
		}
		if err != nil {
			ignored = append(ignored, err)
		}
		maps.Copy(all, of)
	}
	return all, ignored, nil
}

// leasesOwner is the user in the name of a file of leases.
func leasesOwner(file string) (uid int, err error) {
	name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), leasesName), leasesExt)
	name, _, _ = strings.Cut(name, "-")
	if uid, err = strconv.Atoi(name); err != nil {
		return -1, fmt.Errorf("%s names no user", file)
	}
	return uid, nil
}

// readLeases reads the file of another user: those leases whose jobs are processes of that user.
func readLeases(file string, uid int) (of leases, err error) {
	f, err := regular.OpenOf(uid, file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(regular.Limit(f, mostLeases))
	if err == nil {
		err = json.Unmarshal(data, &of)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	foreign := 0
	of.forget(func(h holder) bool {
		pid, _, runs := watcher(h.Job)
		if runs && process.Owner(pid) != uid {
			foreign++
			return false
		}
		return runs
	})
	if foreign > 0 {
		return of, fmt.Errorf("%s: %d of its jobs are processes of other users", file, foreign)
	}
	return of, nil
}

// lives reports whether a process of the holder does.
func (h holder) lives() bool {
	_, _, runs := watcher(h.Job)
	if runs || h.State == "" {
		return runs
	}
	return len(run.Marked(jobState+"="+h.State))+len(run.Marked(run.HeldVar+"="+h.Job)) > 0
}
