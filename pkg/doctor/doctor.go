// Package doctor checks which features of a cluster work before a benchmark needs them:
// Slurm's programs and settings, the shared folder, the limits, and, in one short job,
// a node.
//
// It changes nothing except a folder of its own, which it removes. Every command has a
// time limit, and code that touches a file system runs in a process of its own, so that
// a dead mount is a finding and not a hang.
//
//	checks := (&doctor.Doctor{System: sys, Dir: dir, …}).Run(ctx)
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/profllm/profllm/pkg/capture"
	"github.com/profllm/profllm/pkg/config"
)

// Schema is the value of a report's "schema" key.
const Schema = "profllm.doctor/1"

// Limits of time.
const (
	commandLimit = 20 * time.Second // of one command
	startLimit   = 60 * time.Second // for the job to start
	jobLimit     = 2 * time.Minute  // for it to end, once started
	fileLimit    = 10 * time.Second // for its files to be seen here, once it is over
	slow         = 2 * time.Second  // an answer that took longer is worth a word
)

// Status is the outcome of a check.
type Status string

// The outcomes.
const (
	OK         Status = "ok"
	Warn       Status = "warn" // works, with a drawback, or something that may be missing
	Bad        Status = "bad"  // runs will fail
	NotChecked Status = "not checked"
)

// Check is one thing that was looked at.
type Check struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	Seen   string `json:"seen"`
	Do     string `json:"do,omitempty"` // what to do about it
}

// Report is every check, in a fixed order.
type Report struct {
	Schema string  `json:"schema"` // profllm.doctor/1
	Checks []Check `json:"checks"`
}

// Bad reports whether a check is bad.
func (r Report) Bad() bool {
	for _, c := range r.Checks {
		if c.Status == Bad {
			return true
		}
	}
	return false
}

// Doctor says what to check, and with which programs.
type Doctor struct {
	Environ   []string       // of every command; inherited SLURM_ and SBATCH_ variables are taken out
	Export    []string       // of sbatch, which its job is given: a part of Environ, and likewise; nil: Environ
	System    *config.System // nil: no system file
	Partition string         // "": the system's default, else Slurm's
	Dir       string         // output folder, absolute; need not exist
	Self      []string       // command that prints a Probe of this machine: SELF… --dir DIR
	Node      []string       // the same command, as a node calls it
	Job       bool           // also look at a node
	Now       func() time.Time
	Log       func(format string, args ...any)

	limits limits // zero: the constants
	checks []Check
	config map[string]string // of Slurm, by key; empty if it could not be read
	local  *Probe            // nil if it could not be had
	gpus   string            // GRES of the partition, such as "gpu:8"
}

// limits replaces constants in tests.
type limits struct{ command, start, job, file time.Duration }

// Run makes all checks. If ctx is cancelled, Run ends early; the remaining checks are then
// "not checked" or fail.
func (d *Doctor) Run(ctx context.Context) Report {
	if d.limits == (limits{}) {
		d.limits = limits{commandLimit, startLimit, jobLimit, fileLimit}
	}
	d.Environ, d.Export = without(d.Environ), without(d.Export)
	if d.Partition == "" && d.System != nil {
		d.Partition = d.System.DefaultPartition
	}
	if d.programs(ctx) {
		d.controller(ctx)
		d.settings(ctx)
		d.partitions(ctx)
		d.gres()
		d.accounting(ctx)
	}
	d.runtimes(ctx)
	d.machine(ctx)
	d.node(ctx)
	return Report{Schema: Schema, Checks: d.checks}
}

func (d *Doctor) add(name string, s Status, seen, do string) {
	if s == OK {
		do = ""
	}
	d.checks = append(d.checks, Check{name, s, seen, do})
}

// without takes out the variables by which a shell changes what Slurm's programs
// do, but for SLURM_CONF.
func without(environ []string) []string {
	var kept []string
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		foreign := false
		for _, prefix := range []string{"SBATCH_", "SLURM_", "SLURMD_", "SRUN_", "SQUEUE_", "SACCT_", "SINFO_",
			"SCANCEL_"} {
			foreign = foreign || strings.HasPrefix(name, prefix)
		}
		if !foreign || name == "SLURM_CONF" {
			kept = append(kept, kv)
		}
	}
	return kept
}

// answer is what a command said.
type answer struct {
	out, errors string
	took        time.Duration
	err         error
	hung        bool // no answer within the limit
}

// why says why a command failed, in one line; "" if it did not.
func (a answer) why() string {
	if a.err == nil {
		return ""
	}
	if text := oneLine(a.errors); text != "" {
		return text
	}
	return a.err.Error()
}

// oneLine is the first line of a text, at most 200 bytes.
func oneLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if len(line) > 200 {
		line = line[:200] + "…"
	}
	return strings.TrimSpace(line)
}

// command runs a command for at most the limit. A process that cannot be killed,
// because it waits for a dead file system, is left alone.
func (d *Doctor) command(ctx context.Context, argv ...string) answer {
	program := argv[0]
	if !strings.Contains(program, "/") {
		program = cmp.Or(d.lookPath(program), program)
	}
	cmd := exec.Command(program, argv[1:]...)
	cmd.Env = d.Environ
	if argv[0] == "sbatch" && d.Export != nil {
		cmd.Env = d.Export
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	stdout, stderr := capture.Output{Most: capture.Answer}, capture.Output{Most: capture.Complaint}
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return answer{err: err}
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	timer := time.NewTimer(d.limits.command)
	defer timer.Stop()
	a := answer{}
	select {
	case a.err = <-done:
		a.out, a.errors, a.took = stdout.String(), stderr.String(), time.Since(begin)
		return a
	case <-timer.C:
		a.hung, a.err = true, fmt.Errorf("%s: no answer in %s", argv[0], d.limits.command)
	case <-ctx.Done():
		a.err = ctx.Err()
	}
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		a.err = errors.Join(a.err, err)
	}
	select {
	case <-done:
	case <-time.After(time.Second):
	}
	return a
}

func seconds(t time.Duration) string { return fmt.Sprintf("%.2f s", t.Seconds()) }
