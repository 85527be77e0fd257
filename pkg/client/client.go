// Package client has a load client measure one load into a folder, with a log of what the client
// prints. The client is profllm's own, which the caller runs in this process, or a command.
package client

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/profllm/profllm/pkg/lease"
)

// A Client measures the load that its arguments describe, with the flags of `vllm bench serve`, and
// writes what it prints to out.
type Client func(ctx context.Context, args []string, out io.Writer) error

// A Stop is how a command is asked to end when its load is interrupted.
type Stop struct {
	Signal os.Signal
	Wait   time.Duration // until the command is killed
}

// Command is a client that is a program of its own. words are those in front of its arguments.
func Command(words []string, stop Stop) Client {
	return func(ctx context.Context, args []string, out io.Writer) error {
		cmd := exec.CommandContext(ctx, words[0], slices.Concat(words[1:], args)...)
		cmd.Stdout, cmd.Stderr = out, out
		cmd.Cancel = func() error { return cmd.Process.Signal(stop.Signal) }
		cmd.WaitDelay = stop.Wait
		return cmd.Run()
	}
}

// A Load is one load of a client.
type Load struct {
	Args []string
	Log  string // file of what the client prints, in a folder that nobody else writes to
	// Result is the file that the client writes. It is removed if the load was interrupted, since it
	// is of a part of the load then, unless the folder's lease was lost: it may be another's by now.
	// "": its folder goes anyway.
	Result string
}

// Measure has a client measure the load. The log must be new: what has its name, such as a pipe, was
// put there by another.
func (l Load) Measure(ctx context.Context, c Client) error {
	log, err := os.OpenFile(l.Log, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	err = c(ctx, l.Args, log)
	if closed := log.Close(); err == nil {
		err = closed
	}
	err = Interrupted(ctx, err)
	if ctx.Err() == nil || l.Result == "" || errors.Is(context.Cause(ctx), lease.ErrLost) || lease.Check(ctx) != nil {
		return err
	}
	if gone := os.Remove(l.Result); !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}

// Interrupted is the error of a load, with the reason for which its context ended, if it did: what the
// client had done by then may have looked like success.
func Interrupted(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return errors.Join(cause, err)
	}
	return err
}
