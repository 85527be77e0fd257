package stage

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/profllm/profllm/pkg/redact"
)

// full are messages of programs that run out of space and end with 0 all the same.
var full = []string{"Disk quota exceeded", "Write error", "No space left on device"}

// endWait is how long a program and what it has started may need to end after TERM. It is less
// than the second after which profllm ends itself, so that the lock is released before.
const endWait = 500 * time.Millisecond

// endPause is the time between two looks at whether they have.
const endPause = 10 * time.Millisecond

// execute runs a program and returns its standard output. Its error carries the command, ready
// to paste but for a secret in it, and the end of what it said. A program does not outlive this
// process: the kernel sends it TERM. Nothing that it has started outlives ctx.
func (s *Stager) execute(ctx context.Context, dir string, argv ...string) (string, error) {
	path, err := s.LookPath(argv[0])
	if err != nil {
		return "", fmt.Errorf("%s is %w", argv[0], errNotHere)
	}
	if s.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, s.Timeout, fmt.Errorf("not done after %s", s.Timeout))
		defer cancel()
	}
	var out, said tail
	cmd := exec.CommandContext(ctx, path, argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, s.Environ, io.MultiWriter(&out, &said), &said
	cmd.WaitDelay = endWait
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	var end time.Time // of the patience with it
	cmd.Cancel = func() error {
		end = time.Now().Add(endWait)
		return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
	}
	runtime.LockOSThread() // the kernel's signal is tied to the thread that starts it
	defer runtime.UnlockOSThread()
	err = cmd.Run()
	if !end.IsZero() {
		endGroup(cmd.Process.Pid, end)
	}
	text := said.String()
	switch cause := context.Cause(ctx); {
	case ctx.Err() != nil:
		err = cause
	case err == nil:
		for _, message := range full {
			if strings.Contains(text, message) {
				err = fmt.Errorf("exit status 0, but %q", message)
			}
		}
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w%s", paste(argv), err, redact.Line(indented(text)))
	}
	return strings.TrimSpace(out.String()), nil
}

// endGroup kills what is left of a process group at a time. As long as there is something
// left, no other group gets its number.
func endGroup(leader int, at time.Time) {
	for syscall.Kill(-leader, 0) == nil {
		if !time.Now().Before(at) {
			_ = syscall.Kill(-leader, syscall.SIGKILL) // else it has ended meanwhile
			return
		}
		time.Sleep(endPause)
	}
}

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	b   []byte
	hit string // the first of full that was seen
}

const tailSize = 8 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if t.hit == "" {
		for _, m := range full {
			if bytes.Contains(t.b, []byte(m)) {
				t.hit = m
			}
		}
	}
	if len(t.b) > 2*tailSize {
		t.b = append([]byte(nil), t.b[len(t.b)-tailSize:]...)
	}
	return len(p), nil
}

// String is the end, with a message of full that was seen before it.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := string(t.b)
	if t.hit != "" && !strings.Contains(s, t.hit) {
		s = t.hit + "\n…\n" + s
	}
	return s
}

func indented(text string) string {
	text = strings.TrimSpace(text)
	if text == "" {
		return ""
	}
	lines := strings.Split(strings.ReplaceAll(text, "\r", "\n"), "\n")
	if len(lines) > 12 {
		lines = lines[len(lines)-12:]
	}
	return "\n\t| " + strings.Join(lines, "\n\t| ")
}

// paste writes a command for a shell.
func paste(argv []string) string {
	words := make([]string, len(argv))
	for i, a := range argv {
		if a == "" || strings.ContainsAny(a, " \t\r\n'\"\\$`!*?[](){}<>|&;#~") {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		words[i] = a
	}
	return redact.Line(strings.Join(words, " "))
}

// place puts a command on a CPU step of the cluster where its program is not here,
// or where that was asked for, as CloudAI does; without a GPU.
func (s *Stager) place(program string, argv []string) ([]string, error) {
	switch {
	case s.Where == Here, s.Where == "" && s.has(program):
		if !s.has(program) {
			return nil, fmt.Errorf("%s is %w", program, errNotHere)
		}
		return argv, nil
	case !s.has("srun"):
		return nil, fmt.Errorf("neither %s nor srun is on the PATH", program)
	}
	return s.Step(argv), nil
}

// Step is argv behind srun on one node of the default partition.
func (s *Stager) Step(argv []string) []string {
	sys, name := s.System, "profllm_stage"
	step := []string{"srun", "--export=ALL", "--partition=" + sys.DefaultPartition}
	if sys.Account != "" {
		step = append(step, "--account="+sys.Account)
		name = sys.Account + "-" + name
	}
	if sys.QOS != "" {
		step = append(step, "--qos="+sys.QOS)
	}
	step = append(append(step, sys.ExtraSrunArgs...), "-N1", "--ntasks=1", "--job-name="+name)
	return append(step, argv...)
}
