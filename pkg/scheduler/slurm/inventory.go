package slurm

import (
	"context"
	"strings"

	"github.com/profllm/profllm/pkg/hostlist"
)

// sinfoFormat and busyFormat are the columns asked for: hosts and state; state,
// nodes that a job has, nodes that a pending job names.
const (
	sinfoFormat = "%N|%T"
	busyFormat  = "%T|%N|%n"
)

// Inventory returns Slurm's base state of every host that it knows, upper case
// and without flags. A node that does not respond is DOWN. A node that could be
// had, but which a running job has or a pending job names, is ALLOCATED.
//
// It costs one sinfo and one squeue. When either fails there is no inventory:
// half of one would call busy nodes idle.
func (s *Slurm) Inventory(ctx context.Context) (map[string]string, error) {
	nodes, err := s.command(ctx, "sinfo", "-h", "-a", "-N", "-o", sinfoFormat)
	if err != nil {
		return nil, err
	}
	jobs, err := s.command(ctx, "squeue", "-h", "-a", "-t", "PENDING,CONFIGURING,RUNNING,SUSPENDED", "-o", busyFormat)
	if err != nil {
		return nil, err
	}
	return inventory(nodes, jobs), nil
}

// inventory reads what sinfo and squeue print. Lines that do not fit are left
// out: site plugins print others. sinfo lists a node once for each partition.
func inventory(nodes, jobs string) map[string]string {
	inv := map[string]string{}
	for _, line := range strings.Split(nodes, "\n") {
		list, word, ok := strings.Cut(strings.TrimSpace(line), "|")
		hosts, err := hostlist.Expand(list)
		if !ok || err != nil {
			continue
		}
		state := nodeState(word)
		for _, h := range hosts {
			if old, seen := inv[h]; !seen || old == "IDLE" { // what is not idle somewhere is not idle
				inv[h] = state
			}
		}
	}
	for _, line := range strings.Split(jobs, "\n") {
		f := strings.Split(strings.TrimSpace(line), "|")
		if len(f) != 3 {
			continue
		}
		for _, list := range f[1:] {
			hosts, _ := hostlist.Expand(list) // "(null)" is no list
			for _, h := range hosts {
				switch inv[h] {
				case "IDLE", "COMPLETING", "MIXED", "PLANNED", "RESERVED":
					inv[h] = "ALLOCATED"
				}
			}
		}
	}
	return inv
}

// nodeStates are the words that sinfo prints for a node (21.08 to 26.05), by
// their short form, cut off or with characters that name flags.
var nodeStates = map[string]string{
	"ALLOC": "ALLOCATED", "COMP": "COMPLETING", "DRAIN": "DRAINED", "DRNG": "DRAINING", "FAILG": "FAILING",
	"FUTR": "FUTURE",
	"MIX":  "MIXED", "NPC": "PERFCTRS", "PLND": "PLANNED", "POW_DN": "POWER_DOWN", "POW_UP": "POWER_UP",
	"RESV": "RESERVED", "UNK": "UNKNOWN",
}

// nodeFlags may follow a state (sinfo(1), NODE STATE CODES): not responding,
// ALLOCATED and completing too, powered off, powering up, about to power down,
// powering down, in a maintenance reservation, about to reboot, rebooting,
// planned for another job.
const nodeFlags = "*+~#!%$@^-"

// nodeState reads sinfo's word for a node's state.
func nodeState(word string) string {
	word = strings.ToUpper(strings.TrimSpace(word))
	base := strings.TrimRight(word, nodeFlags)
	if full, ok := nodeStates[base]; ok {
		base = full
	}
	switch {
	case strings.Contains(word[len(strings.TrimRight(word, nodeFlags)):], "*"):
		return "DOWN"
	case base == "" || strings.Trim(base, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") != "":
		return "UNKNOWN"
	}
	return base
}
