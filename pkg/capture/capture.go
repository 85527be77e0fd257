// Package capture keeps what programs print that profllm starts, within bounds: a program that prints for ever
// must not take the machine's memory.
//
//	out, err := capture.Run(exec.CommandContext(ctx, "squeue"))
package capture

import (
	"bytes"
	"fmt"
	"os/exec"
)

// How much is kept of what a program prints that profllm starts.
const (
	Answer    = 64 << 20 // what is read
	Complaint = 64 << 10 // what is shown to somebody
)

// Output keeps the first Most bytes of what a program prints. It takes the rest too, so that the program ends
// as it would, but keeps nothing of it.
type Output struct {
	Most int
	Over bool // there was more

	kept bytes.Buffer
}

func (o *Output) Write(p []byte) (int, error) {
	room := max(0, o.Most-o.kept.Len())
	o.Over = o.Over || len(p) > room
	o.kept.Write(p[:min(len(p), room)])
	return len(p), nil
}

// Bytes is what was kept.
func (o *Output) Bytes() []byte { return o.kept.Bytes() }

func (o *Output) String() string { return o.kept.String() }

// Len is how many bytes were kept.
func (o *Output) Len() int { return o.kept.Len() }

// Err is an error if there was more.
func (o *Output) Err() error {
	if o.Over {
		return fmt.Errorf("the answer is longer than %d MiB", o.Most>>20)
	}
	return nil
}

// Tail keeps the last Most bytes of what a program prints.
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

// Run runs a program and returns what it prints, of which an error has the complaint.
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
