// Package killtest ends a program with KILL just before the n-th change that it
// makes: to a file, or by starting another program. It traces the program as
// strace does, but counts over all of its threads, so that every change has one
// number. What the program starts is not traced and outlives it, as after a kill -9.
package killtest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/profllm/profllm/pkg/lazyregexp"
)

// Change is a system call that was about to change something.
type Change struct {
	Call string
	Path string // of a file, "" for a process
}

func (c Change) String() string { return strings.TrimSpace(c.Call + " " + c.Path) }

var number = lazyregexp.New(`[0-9]+`)

// Kind is what the change has in common with those of other runs: the call, and
// the name of the file without its numbers.
func (c Change) Kind() string {
	return c.Call + " " + number.ReplaceAllString(filepath.Base(c.Path), "")
}

// Run runs a command and kills it before change n, counted from 1; with 0 it may
// end. It returns the changes made, the last being the one that was not, and the
// exit code, -1 if the program was killed.
func Run(cmd *exec.Cmd, n int) (changes []Change, code int, err error) {
	runtime.LockOSThread() // who traces is a thread
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, 0, err
	}
	pid := cmd.Process.Pid
	if err := cmd.Process.Release(); err != nil {
		return nil, 0, err
	}
	t := tracer{pid: pid, seen: map[int]bool{}, until: n, code: -1}
	err = t.follow()
	return t.changes, t.code, err
}

type tracer struct {
	pid     int
	seen    map[int]bool // threads
	until   int
	changes []Change
	code    int
}

// follow lets all threads go from one system call to the next until none is left.
func (t *tracer) follow() error {
	for {
		var ws unix.WaitStatus
		tid, err := unix.Wait4(-t.pid, &ws, unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ECHILD):
			return nil
		case err != nil:
			return err
		case !ws.Stopped():
			if tid == t.pid && ws.Exited() {
				t.code = ws.ExitStatus()
			}
			continue
		}
		signal, err := t.stopped(tid, ws)
		if err != nil {
			return errors.Join(err, unix.Kill(t.pid, unix.SIGKILL))
		}
		if err := unix.PtraceSyscall(tid, signal); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
}

// stopped handles one stop of a thread, and says with which signal it goes on.
func (t *tracer) stopped(tid int, ws unix.WaitStatus) (signal int, err error) {
	first := !t.seen[tid]
	t.seen[tid] = true
	switch s := ws.StopSignal(); {
	case first && tid == t.pid: // behind execve
		return 0, unix.PtraceSetOptions(tid, unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_EXITKILL)
	case s == unix.SIGTRAP|0x80:
		return 0, t.call(tid)
	case s == unix.SIGTRAP, first && s == unix.SIGSTOP:
		return 0, nil
	default:
		return int(s), nil
	}
}

// call looks at a system call, and kills before the one that is meant.
func (t *tracer) call(tid int) error {
	var info [88]byte // struct ptrace_syscall_info
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(tid), uintptr(len(info)),
		uintptr(unsafe.Pointer(&info)), 0, 0)
	if errno == unix.ESRCH {
		return nil
	}
	if errno != 0 {
		return fmt.Errorf("ask for the system call: %w", errno)
	}
	if info[0] != unix.PTRACE_SYSCALL_INFO_ENTRY {
		return nil
	}
	var args [7]uint64 // the number comes first
	for i := range args {
		args[i] = binary.NativeEndian.Uint64(info[24+8*i:])
	}
	c, changes := t.change(tid, args)
	if !changes || t.until > 0 && len(t.changes) >= t.until {
		return nil
	}
	t.changes = append(t.changes, c)
	if len(t.changes) == t.until {
		return unix.Kill(t.pid, unix.SIGKILL)
	}
	return nil
}

// byPath are calls that change a file, and which argument names it.
var byPath = map[uint64]struct {
	name string
	arg  int
}{
	unix.SYS_RENAMEAT: {"rename", 4}, unix.SYS_RENAMEAT2: {"rename", 4}, unix.SYS_LINKAT: {"link", 4},
	unix.SYS_SYMLINKAT: {"symlink", 3},
	unix.SYS_UNLINKAT:  {"unlink", 2}, unix.SYS_MKDIRAT: {"mkdir", 2}, unix.SYS_FCHMODAT: {"chmod", 2},
	unix.SYS_UTIMENSAT: {"utimens", 2},
}

// byFile are those that change an open file, their first argument.
var byFile = map[uint64]string{
	unix.SYS_WRITE: "write", unix.SYS_PWRITE64: "write", unix.SYS_FSYNC: "fsync", unix.SYS_FTRUNCATE: "truncate",
	unix.SYS_FCHMOD: "chmod",
}

func (t *tracer) change(tid int, a [7]uint64) (Change, bool) {
	const writes = unix.O_CREAT | unix.O_TRUNC | unix.O_WRONLY | unix.O_RDWR
	switch a[0] {
	case unix.SYS_CLONE:
		return Change{Call: "start a program"}, a[1]&unix.CLONE_THREAD == 0
	case unix.SYS_WAITID:
		return Change{Call: "wait for a program"}, true
	case unix.SYS_OPENAT:
		path := t.text(tid, a[2])
		return Change{"open", path}, a[3]&writes != 0 && !device(path) &&
			!strings.HasPrefix(path, "/proc/")
	}
	if c, ok := byPath[a[0]]; ok {
		return Change{c.name, t.text(tid, a[c.arg])}, true
	}
	if name, ok := byFile[a[0]]; ok {
		path, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", t.pid, a[1]))
		return Change{name, path}, a[1] > 2 && err == nil && strings.HasPrefix(path, "/") &&
			!device(path)
	}
	return Change{}, false
}

// text reads a string of the program.
func (t *tracer) text(tid int, at uint64) string {
	var text []byte
	for len(text) < unix.PathMax {
		var part [64]byte
		n, err := unix.PtracePeekData(tid, uintptr(at)+uintptr(len(text)), part[:])
		for _, b := range part[:n] {
			if b == 0 {
				return string(text)
			}
			text = append(text, b)
		}
		if err != nil || n == 0 {
			break
		}
	}
	return string(text)
}

// device reports whether a path is one of the system's devices.
func device(path string) bool {
	return strings.HasPrefix(path, "/dev/") && !strings.HasPrefix(path, "/dev/shm/")
}
