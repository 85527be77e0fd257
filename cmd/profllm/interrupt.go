package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/scheduler/local"
)

// patience is how long a verb has after a signal to end by itself: to cancel what
// it has started, and to write what it has measured.
const patience = time.Second

// endSoon ends a program that was interrupted and does not end: it may be in a
// read, a decoder, a scan, or in a write to somebody who does not read. No file is
// half written by that: each is replaced as a whole.
func endSoon(argv []string, inJob bool) {
	if inJob || isStandIn(filepath.Base(argv[0])) {
		return // Slurm has a limit for it, KillWait, and local jobs have one as well
	}
	time.Sleep(patience)
	os.Exit(exitInterrupted)
}

// simulated are the names under which profllm is a simulated program.
var simulated = []string{"vllm", "ray", "python3", "nsys", "nvidia-smi"}

// isStandIn reports whether profllm acts as another program under a name.
func isStandIn(name string) bool {
	return slices.Contains(simulated, name) || slices.Contains(local.Programs, name) || strings.HasPrefix(name, local.ProgramPrefix)
}
