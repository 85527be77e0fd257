package slurm

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/internal/slurmtest"
)

func TestNodeState(t *testing.T) {
	for word, want := range map[string]string{
		"idle": "IDLE", "allocated": "ALLOCATED", "allocated+": "ALLOCATED", "mixed": "MIXED", "completing": "COMPLETING", "reserved": "RESERVED",
		"idle~": "IDLE", "idle#": "IDLE", "idle!": "IDLE", "idle%": "IDLE", "idle$": "IDLE", "idle@": "IDLE", "idle^": "IDLE", "idle-": "IDLE", "mixed-": "MIXED",
		"idle*": "DOWN", "allocated*": "DOWN", "down*": "DOWN", "idle~*": "DOWN", "idle*~": "DOWN", "down": "DOWN", "drained": "DRAINED", "draining@": "DRAINING",
		"alloc": "ALLOCATED", "comp": "COMPLETING", "drain": "DRAINED", "drng": "DRAINING", "fail": "FAIL", "failg": "FAILING", "futr": "FUTURE", "maint": "MAINT",
		"mix": "MIXED", "npc": "PERFCTRS", "plnd": "PLANNED", "pow_dn": "POWER_DOWN", "pow_up": "POWER_UP", "resv": "RESERVED", "unk": "UNKNOWN",
		"powered_down~": "POWERED_DOWN", "planned": "PLANNED", "": "UNKNOWN", "*": "DOWN", "n/a": "UNKNOWN", "idle 2": "UNKNOWN",
	} {
		require.Equal(t, want, nodeState(word), word)
	}
}

// Every busy node is ALLOCATED; what cannot run a job stays what it is.
func TestInventory(t *testing.T) {
	f, s := fake(t)
	f.Set(slurmtest.Knobs{Sinfo: "n1|idle\nn1|idle\nn2|idle\nn3|mixed\nn4|idle*\nn5|draining\nn[6-7]|idle~\nn8|reserved\nn9|planned\nn10|idle\nwarning: the site says hello\nx[|idle\n"})
	for _, j := range []slurmtest.Job{
		{ID: "1", Queue: "RUNNING", NodeList: "n[2-3],n5"},
		{ID: "2", Queue: "PENDING", Requested: "n4,n[6,8]"},
		{ID: "3", Queue: "PENDING"},
		{ID: "4", Queue: "RUNNING", NodeList: "(null)", Requested: "(null)"},
		{ID: "5", Queue: "RUNNING", NodeList: "elsewhere"},
		{ID: "6", Queue: "COMPLETED", NodeList: "n10"}, // over
	} {
		f.Put(j)
	}
	inv, err := s.Inventory(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]string{"n1": "IDLE", "n2": "ALLOCATED", "n3": "ALLOCATED", "n4": "DOWN",
		"n5": "DRAINING", "n6": "ALLOCATED",
		"n7": "IDLE", "n8": "ALLOCATED", "n9": "PLANNED", "n10": "IDLE"}, inv)
	require.Len(t, f.Calls("sinfo"), 1)
	require.Len(t, f.Calls("squeue"), 1)
}

func TestInventoryWithoutAnswer(t *testing.T) {
	for name, k := range map[string]slurmtest.Knobs{
		"sinfo hangs":  {Hang: []string{"sinfo"}},
		"squeue hangs": {Sinfo: "n1|idle\n", Hang: []string{"squeue"}},
	} {
		t.Run(name, func(t *testing.T) {
			f, s := fake(t)
			f.Set(k)
			s.hurry(k.Hang...)
			inv, err := s.Inventory(t.Context())
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Nil(t, inv, "half an inventory would call busy nodes idle")
		})
	}
	f, s := fake(t)
	f.Set(slurmtest.Knobs{Sinfo: "n1|idle\n", Fail: "Unable to contact slurm controller"})
	_, err := s.Inventory(t.Context())
	require.ErrorContains(t, err, "squeue -h -a -t PENDING,CONFIGURING,RUNNING,SUSPENDED -o %T|%N|%n")
}

// A pending job of the real Slurm that names a node makes it ALLOCATED.
func TestInventoryOfTheLab(t *testing.T) {
	slurmtest.Lab(t, os.Environ())
	s := New(os.Environ(), time.Now)
	up := []string{"IDLE", "ALLOCATED", "MIXED", "COMPLETING"} // others may use them, or drain some, meanwhile
	inv, err := s.Inventory(t.Context())
	require.NoError(t, err)
	require.Len(t, inv, 8)
	var nodes []string
	for _, node := range slices.Sorted(maps.Keys(inv)) {
		if slices.Contains(up, inv[node]) {
			nodes = append(nodes, node)
		}
	}
	require.Greater(t, len(nodes), 2, "%v", inv)
	mine, other := nodes[len(nodes)-2:], nodes[0]
	out, err := exec.Command("sbatch", "--parsable", "--hold", "--job-name=inventory", "--nodelist="+strings.Join(mine, ","),
		"--output=/dev/null", "--wrap=true").Output()
	require.NoError(t, err)
	id := strings.TrimSpace(string(out))
	defer func() { require.NoError(t, exec.Command("scancel", id).Run()) }()
	inv, err = s.Inventory(t.Context())
	require.NoError(t, err)
	for _, node := range mine {
		require.Equal(t, "ALLOCATED", inv[node])
	}
	require.Contains(t, up, inv[other])
}

func FuzzInventory(f *testing.F) {
	f.Add("n1|idle\nn[2-3]|mixed*\n", "RUNNING|n[1-2]|\nPENDING||n3\n")
	f.Add("|\n||\nn1|\n|idle\nn1|idle|x\r\n", "||\n(null)|(null)|(null)")
	f.Fuzz(func(t *testing.T, nodes, jobs string) {
		before := inventory(nodes, "")
		after := inventory(nodes, jobs)
		require.Len(t, after, len(before), "jobs add no node")
		for host, state := range after {
			require.Contains(t, []string{before[host], "ALLOCATED"}, state)
			require.NotEmpty(t, state)
			require.Empty(t, strings.Trim(state, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_"), state)
		}
	})
}
