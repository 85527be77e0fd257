package main

import (
	"flag"
	"slices"
	"testing"
)

// Most tests wait, for Slurm or for a simulated engine, so all of them run in parallel, many more than there are cores.
// A test that loads the machine takes a slot first: simulated engines keep their pace while the cores have room.
var (
	labSlots       = make(slots, 7) // tests with jobs on the lab
	rehearsalSlots = make(slots, 4) // commands that simulate an engine on this machine
)

const parallelTests = "24"

// slots limits how many take one at once.
type slots chan struct{}

func (s slots) take() { s <- struct{}{} }
func (s slots) give() { <-s }

// takeFor takes a slot until the test ends.
func (s slots) takeFor(t *testing.T) {
	t.Helper()
	s.take()
	t.Cleanup(s.give)
}

// simulates reports whether a command simulates an engine on this machine.
func simulates(args []string) bool {
	return slices.Contains([]string{"rehearse", "run", "bench", "serve"}, args[0]) || slices.Contains(args, "--rehearse")
}

// runInParallel sets how many tests run at once, if the command line does not.
func runInParallel() error {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if chosen {
		return nil
	}
	return flag.Set("test.parallel", parallelTests)
}
