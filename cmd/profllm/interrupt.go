package main

import (
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/profllm/profllm/pkg/scheduler/local"
)

// patience is how long a verb has after a signal to end by itself: to cancel what
// it has started, and to write what it has measured.
const patience = time.Second

// endSignals are the signals that end a command: those of a ^C, of kill, and of a terminal that closes. The last stays
// ignored where the command was started to ignore it, as nohup has it. Of SIGTERM, Go does not know.
func endSignals() []os.Signal {
	list := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		list = append(list, syscall.SIGHUP)
	}
	return list
}

// endSoon ends a program that was interrupted and does not end: it may be in a
// read, a decoder, a scan, or in a write to somebody who does not read. No file is
// half written by that: each is replaced as a whole.
func endSoon(argv []string, jobID string) {
	if inJob(argv, jobID) || isStandIn(filepath.Base(argv[0])) {
		return // Slurm has a limit for it, KillWait, and local jobs have one as well
	}
	if endsByItself.Load() {
		again := make(chan os.Signal, 1)
		signal.Notify(again, endSignals()...)
		select {
		case <-again:
		case <-time.After(longPatience):
		}
		os.Exit(exitInterrupted)
	}
	time.Sleep(patience)
	os.Exit(exitInterrupted)
}

// endsByItself is set by a verb that has to stop servers, or a client, which take their time, and by one that
// lets its own requests end. A second signal ends it at once, and its job ends without it.
var endsByItself atomic.Bool

// longPatience is how long such a verb has: its engines, and then the hooks behind them.
const longPatience = 10 * time.Minute

// jobVerbs are the verbs that the script of a job calls. A shell of salloc has a job's id as well, and
// there users type the others.
var jobVerbs = []string{"job", "bench serve", "bench search", "eval gsm8k", "proxy", "sim"}

// inJob reports whether profllm was started by the script of a job, or as a step of one elsewhere: bench
// suite has job contain run its client, and sees to it that it ends.
func inJob(argv []string, jobID string) bool {
	if len(argv) > 2 && argv[1] == "job" && argv[2] == "contain" {
		return true
	}
	if jobID == "" || len(argv) < 2 {
		return false
	}
	return slices.Contains(jobVerbs, argv[1]) || len(argv) > 2 && slices.Contains(jobVerbs, argv[1]+" "+argv[2])
}

// simulated are the names under which profllm is a simulated program.
var simulated = []string{"vllm", "ray", "python3", "nsys", "viztracer", "nvidia-smi", "aiperf", "genai-perf"}

// isStandIn reports whether profllm acts as another program under a name.
func isStandIn(name string) bool {
	return slices.Contains(simulated, name) || slices.Contains(local.Programs, name) ||
		strings.HasPrefix(name, local.ProgramPrefix)
}
