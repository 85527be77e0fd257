// Package capture bounds the output of programs that profllm starts: a program that prints for ever must not take
// the machine's memory.
//
//	out, err := capture.Run(exec.CommandContext(ctx, "squeue"))
package capture

import (
	"bytes"
	"fmt"
	"io"
	"os/exec"
)

// Limits in bytes: of an answer, which is read, and of a complaint, which is shown.
const (
	Answer    = 64 << 20
	Complaint = 64 << 10
)

// Output keeps the first Most bytes that a program prints, or writes them to To. It takes the rest too, so that the
// program ends as it would, and drops it.
type Output struct {
	Most int
	To   io.Writer // nil: in memory

	kept  bytes.Buffer
	taken int
	over  bool // there was more
}

func (o *Output) Write(p []byte) (int, error) {
	room := min(len(p), o.Most-o.taken)
	o.over = o.over || len(p) > room
	o.taken += room
	to := o.To
	if to == nil {
		to = &o.kept
	}
	if _, err := to.Write(p[:room]); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Bytes returns the kept bytes.
func (o *Output) Bytes() []byte { return o.kept.Bytes() }

func (o *Output) String() string { return o.kept.String() }

// Err is an error if there was more.
func (o *Output) Err() error {
	if o.over {
		return fmt.Errorf("the answer is longer than %d MiB", o.Most>>20)
	}
	return nil
}

// Tail keeps the last Most bytes that a program prints.
type Tail struct {
	Most int

	kept []byte
}

func (t *Tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p[max(0, len(p)-t.Most):]...)
	if over := len(t.kept) - t.Most; over > t.Most { // not with each write
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(p), nil
}

func (t *Tail) String() string { return string(t.kept[max(0, len(t.kept)-t.Most):]) }

// Run runs a program and returns its output. An exec.ExitError has the complaint.
func Run(cmd *exec.Cmd) ([]byte, error) {
	out := Output{Most: Answer}
	cmd.Stdout = &out
	var said Output
	if cmd.Stderr == nil {
		said.Most = Complaint
		cmd.Stderr = &said
	}
	err := cmd.Run()
	if exit, ok := err.(*exec.ExitError); ok {
		exit.Stderr = said.Bytes()
	}
	if err == nil {
		err = out.Err()
	}
	return out.Bytes(), err
}
