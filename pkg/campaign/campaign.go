// Package campaign acts on one execution of a scenario, from its files to the end of its jobs:
// it plans, creates the directories, submits, resumes, follows and cancels.
//
// Nothing is printed: a caller that wants to say what happens meanwhile gives Events.
package campaign

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/scheduler/slurm"
)

// Client acts for one user on one machine.
type Client struct {
	Environ    []string // of the user's shell
	WorkDir    string   // relative paths of definitions and messages start here
	Executable string   // this program as the nodes call it
	Version    string   // of this program, for records
	Now        func() time.Time
	Uptime     func() string // of this machine, see run.Uptime
	Events     Events
	// EndHeld lets Follow end for held jobs as for jobs that can never start, for callers
	// whose warnings nobody reads, so that nobody would release the jobs.
	EndHeld bool

	unkept bool // it was said that states cannot be written
}

// Events receives what happens during a call, so that the caller can tell the user.
type Events interface {
	Say(l Level, text string)
	Submitted(o run.Outcome) // a unit has its job
}

// Level says how much a text matters.
type Level int

// The levels.
const (
	Progress Level = iota // something was done
	Note                  // something to know, which needs no action
	Warning               // something that somebody should look at before the jobs are over
)

// Kind says whose business an error is.
type Kind int

// The kinds. An error without one is of profllm or of the system under it.
const (
	Usage        Kind = iota + 1 // a wrong argument, or a file that is not there
	Definition                   // a definition file is wrong, or no plan can work
	NotSubmitted                 // a job was not submitted
	JobOpen                      // a job goes on that should not
	Interrupted                  // the context ended; the jobs go on
)

// Error is an error of a kind.
type Error struct {
	Kind Kind
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// as makes an error one of a kind, and nil of nil.
func as(k Kind, err error) error {
	if err == nil {
		return nil
	}
	return &Error{k, err}
}

func (c *Client) note(format string, args ...any) {
	c.Events.Say(Note, fmt.Sprintf(format, args...))
}

func (c *Client) progress(format string, args ...any) {
	c.Events.Say(Progress, fmt.Sprintf(format, args...))
}

// saying makes a text that is written into events, a line each.
type saying struct{ *Client }

func (s saying) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		s.progress("%s", strings.TrimSuffix(line, "\n"))
	}
	return len(p), nil
}

// env is the value of a variable of the user's shell, "" if it is not set.
func (c *Client) env(name string) string {
	for i := len(c.Environ) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(c.Environ[i], name+"="); ok {
			return v
		}
	}
	return ""
}

// lookup finds a variable that is set and not empty.
func (c *Client) lookup(name string) (string, bool) {
	value := c.env(name)
	return value, value != ""
}

// relative is a path as messages have it.
func (c *Client) relative(path string) string { return Relative(c.WorkDir, path) }

// Relative is a path relative to a folder, unless the path lies far from the folder.
func Relative(dir, path string) string {
	if rel, err := filepath.Rel(dir, path); err == nil && !strings.HasPrefix(rel, "../../..") {
		return rel
	}
	return path
}

// Slurm is the cluster that this machine belongs to.
func (c *Client) Slurm() *slurm.Slurm { return slurm.New(c.Environ, c.Now) }

// hint says what to do about a file system that refuses, "" for other errors.
func hint(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "\n\thint: the disk or the quota is full (df -h, df -i, quota -s): free space, then repeat the command; files on disk are complete"
	case unreadable(err):
		return "\n\thint: this user has no permission to read it (ls -ld); ask its owner for read permission (chmod)"
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return "\n\thint: this user has no permission there (ls -ld); use a folder of your own: --output-dir, or a copy"
	case errors.Is(err, syscall.EIO), errors.Is(err, syscall.ESTALE):
		return "\n\thint: the file system reported an I/O error; retry once it recovers"
	case errors.Is(err, syscall.ELOOP):
		return "\n\thint: the symbolic links form a loop (ls -l); remove the link"
	case errors.Is(err, regular.ErrKind):
		return "\n\thint: profllm reads regular files only: name a regular file"
	case errors.Is(err, regular.ErrLarge):
		return "\n\thint: the file is larger than profllm reads (ls -l); move it away, or leave out the details of single requests"
	case noSlurm(err):
		return "\n\thint: call profllm on a login node, load Slurm's module, or set SLURM_CONF"
	}
	return ""
}

// unreadable reports whether the error is of a file or a folder that was to be read, and that this
// user may not read.
func unreadable(err error) bool {
	const read = 4 // R_OK of access(2)
	var p *fs.PathError
	return errors.As(err, &p) && errors.Is(p, fs.ErrPermission) &&
		slices.Contains([]string{"open", "stat", "lstat"}, p.Op) &&
		errors.Is(syscall.Access(p.Path, read), syscall.EACCES)
}

// noSlurm reports whether Slurm's programs or their configuration are not found here, and
// nothing says yet what to do.
func noSlurm(err error) bool {
	var c *slurm.CommandError
	return errors.As(err, &c) && !strings.Contains(err.Error(), "\thint: ") &&
		(errors.Is(err, exec.ErrNotFound) || strings.Contains(c.Stderr, "Could not establish a configuration source"))
}

// prefixed is a text behind a prefix, and nothing of nothing.
func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}
