package local

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/gpu"
)

// A turn is the place of a job among those that wait for GPUs. It is kept as a lease, so that it
// ends with its process.
type turn struct {
	number int
	count  int      // of GPUs
	among  []string // UUIDs of those that the job may use
}

// maxTurn bounds the numbers that another user may write.
const maxTurn = 1 << 30

// name is what the lease of a turn is called.
func (t turn) name() string {
	return fmt.Sprintf("turn %d: %d of %s", t.number, t.count, strings.Join(t.among, " "))
}

// readTurn is the turn of a lease, if it is that of one.
func readTurn(name string) (t turn, ok bool) {
	words := strings.Fields(name)
	if len(words) < 4 || words[0] != "turn" || words[3] != "of" {
		return t, false
	}
	var err error
	if t.number, err = strconv.Atoi(strings.TrimSuffix(words[1], ":")); err != nil {
		return t, false
	}
	t.count, err = strconv.Atoi(words[2])
	t.among = words[4:]
	return t, err == nil && t.number > 0 && t.number < maxTurn
}

// nextTurn is a turn behind all others.
func (of leases) nextTurn(want request, allowed []gpu.Device) turn {
	t := turn{number: 1, count: want.size()}
	for name := range of {
		if other, ok := readTurn(name); ok {
			t.number = max(t.number, other.number+1)
		}
	}
	for _, d := range allowed {
		if want.takes(d) {
			t.among = append(t.among, d.UUID)
		}
	}
	return t
}

// promised says for whom GPUs are kept that nobody uses: each job that waits in front of a turn
// gets as many as it asks for, the first of the machine first. Nobody has waited longer than turn 0.
func (of leases) promised(devices []gpu.Device, before int) map[string]string {
	type waiter struct {
		turn
		job string
	}
	var waiters []waiter
	for name, h := range of {
		if t, ok := readTurn(name); ok && (before == 0 || t.number < before) {
			waiters = append(waiters, waiter{t, h.Job})
		}
	}
	slices.SortFunc(waiters, func(a, b waiter) int { return cmp.Compare(a.number, b.number) })
	kept := map[string]string{}
	for _, w := range waiters {
		for _, d := range devices {
			if w.count > 0 && kept[d.UUID] == "" && slices.Contains(w.among, d.UUID) && inUse(d, of) == "" {
				kept[d.UUID] = "kept for job " + w.job + ", which waits for it"
				w.count--
			}
		}
	}
	return kept
}
