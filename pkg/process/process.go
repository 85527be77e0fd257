// Package process tells whether a process still runs, and one process from a later
// one that has the same PID. It is about this machine: what is known of a process on
// another host is up to the caller.
//
//	start := process.Start(pid) // to be kept with the PID
//	if !process.Runs(pid, start) { … }
package process

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Start tells a process from a later one with the same PID: the boot it lives in and
// its start in clock ticks, as BOOT/TICKS. It is "" when no such process runs; a zombie
// does not run.
func Start(pid int) string {
	f := stat(pid)
	if len(f) < 20 || f[0] == "Z" {
		return ""
	}
	return Boot() + "/" + f[19]
}

// Runs reports whether the process that had this start runs. A start of "" is no
// process's.
func Runs(pid int, start string) bool { return start != "" && Start(pid) == start }

// Exists reports whether there is a process with a PID, of any user, perhaps a zombie.
func Exists(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// Parent returns the parent's PID of a process that runs.
func Parent(pid int) (parent int, ok bool) {
	f := stat(pid)
	if len(f) < 2 || f[0] == "Z" {
		return 0, false
	}
	parent, err := strconv.Atoi(f[1])
	return parent, err == nil
}

// Owner is the user of a process that runs, -1 if there is none.
func Owner(pid int) int {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(status)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "Uid:" {
			if uid, err := strconv.Atoi(f[1]); err == nil {
				return uid
			}
		}
	}
	return -1
}

// Boot is the id of this boot of the machine, "" if the kernel does not say it.
func Boot() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
}

// stat returns the fields of /proc/PID/stat from the third, the state, on (proc(5)):
// the second may hold spaces and brackets. It is nil for a process that is gone.
func stat(pid int) []string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	return strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
}
