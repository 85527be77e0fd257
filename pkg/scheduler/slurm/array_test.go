package slurm

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/internal/slurmtest"
	"github.com/profllm/profllm/pkg/run"
)

func TestTasks(t *testing.T) {
	for id, want := range map[string][]string{
		"60": nil, "60_3": nil, "60_[]": nil, "60_[a]": nil, "60_[1-": nil, "60_[2-3,...]": nil, "_[1]": nil, "60_[0-999999999]": nil, "60_[3:0]": nil,
		"60_[4]": {"60_4"}, "60_[2-3,6-7%2]": {"60_2", "60_3", "60_6", "60_7"}, "60_[0-4:2]": {"60_0", "60_2", "60_4"}, "60_[3-2]": nil,
	} {
		require.Equal(t, want, tasks(id), id)
	}
}

// One query for an array of any size; each task is told from the others,
// whatever squeue and sacct print of it.
//
// covers: PL-S3, PL-S15
func TestStatesOfAnArray(t *testing.T) {
	f, s := fake(t)
	f.Put(slurmtest.Job{ID: "60", Size: 1000, Queue: "PENDING", Acct: "PENDING", Start: "Unknown"})
	f.Put(slurmtest.Job{ID: "60_0", Acct: "COMPLETED", ExitCode: "0:0"})
	f.Put(slurmtest.Job{ID: "60_1", Queue: "FAILED", Acct: "FAILED", ExitCode: "3:0"})
	f.Put(slurmtest.Job{ID: "60_2", Queue: "RUNNING", Acct: "RUNNING"})
	f.Put(slurmtest.Job{ID: "60_3"}) // cancelled while it was pending: nobody lists it
	var ids []string
	for i := range 1000 {
		ids = append(ids, fmt.Sprintf("60_%d", i))
	}
	states, err := s.States(t.Context(), append(ids, "61_0"))
	require.NoError(t, err)
	for id, want := range map[string]string{
		"60_0": run.Succeeded, "60_1": run.Failed, "60_2": run.Running, "60_3": run.Cancelled, "60_4": run.Queued, "60_999": run.Queued, "61_0": run.Unknown,
	} {
		require.Equal(t, want, states[id].State, id)
		require.Equal(t, id, states[id].JobID)
	}
	require.Equal(t, run.NeverRan, states["60_3"].Note)
	require.Equal(t, [][]string{{"-h", "-a", "-r", "-t", "all", "-o", squeueFormat, "-j", "60,61"}}, f.Calls("squeue"))
	require.Len(t, f.Calls("sacct"), 1)

	// Cancelled as a whole: sacct keeps the first list for all that never began.
	f.Put(slurmtest.Job{ID: "60", Size: 1000, Acct: "CANCELLED by 0", Start: "None"})
	states, err = s.States(t.Context(), ids)
	require.NoError(t, err)
	require.Equal(t, run.Succeeded, states["60_0"].State)
	require.Equal(t, run.Cancelled, states["60_4"].State)
	require.Equal(t, run.NeverRan, states["60_4"].Note)

	// An id that Slurm gave to another job says nothing of the array that had it.
	f.Put(slurmtest.Job{ID: "62", Queue: "RUNNING", Name: "other.R2"})
	f.Put(slurmtest.Job{ID: "63", Size: 1, Queue: "PENDING", Name: "other.R3"})
	states, err = s.States(t.Context(), []string{"62_0", "63_7"})
	require.NoError(t, err)
	require.Equal(t, run.Forgotten, states["62_0"].Note)
	require.Equal(t, "other.R3", states["63_7"].Name)

	f.Set(slurmtest.Knobs{Fail: "no contact"})
	states, err = s.States(t.Context(), []string{"60_3"})
	require.NoError(t, err)
	require.Equal(t, run.Unknown, states["60_3"].State, "silence is no answer")
}

// A controller without its state counts ids from one again, and sacct still has the jobs of before. What it says of a
// task of the earlier array is not said of the newer one, whose task never began.
//
// covers: PL-D2, PL-S3
func TestStatesOfAnArrayWithAReusedID(t *testing.T) {
	earlier := slurmtest.Job{ID: "1_2", Name: "batch.R1", Acct: "COMPLETED", Start: "2026-03-04T05:00:00", End: "2026-03-04T05:12:44"}
	ids := []string{"1_0", "1_2", "1_3"}
	whole := slurmtest.Job{ID: "1", Name: "batch.R2", Size: 4}
	cancelled := whole
	cancelled.Acct, cancelled.Start, cancelled.End = "CANCELLED by 0", "None", "2026-03-04T11:21:30"
	first := slurmtest.Job{ID: "1_0", Name: "batch.R2", Acct: "COMPLETED", Start: "2026-03-04T11:21:20", End: "2026-03-04T11:22:00"}
	runs, renamed := first, first
	runs.Queue, runs.Acct, runs.End = "RUNNING", "RUNNING", "Unknown"
	renamed.Name += " for Ada"
	for when, newer := range map[string][]slurmtest.Job{
		"one task runs":              {whole, runs},
		"all is over":                {whole, first},
		"the rest has a record":      {cancelled, first},
		"somebody added to the name": {cancelled, renamed},
	} {
		f, s := fake(t)
		f.Put(earlier)
		for _, j := range newer {
			f.Put(j)
		}
		states, err := s.States(t.Context(), ids)
		require.NoError(t, err)
		require.NotEqual(t, run.Cancelled, states["1_0"].State, when)
		for _, id := range ids[1:] {
			require.Equal(t, run.Cancelled, states[id].State, "%s: %s", when, id)
			require.Contains(t, states[id].Name, "batch.R2", when)
		}
	}

	// A job that is no array may have the id as well, before or after.
	array := slurmtest.Job{ID: "1", Name: "batch.R1", Size: 4}
	alone := slurmtest.Job{ID: "1", Name: "a.R2", Acct: "COMPLETED", Start: "2026-03-04T11:21:20", End: "2026-03-04T11:22:00"}
	old, young := record(earlier.Name, run.State{JobID: earlier.ID, End: earlier.End}), record(alone.Name, run.State{JobID: alone.ID, End: alone.End})
	require.Equal(t, []job{young}, ofNewest(nil, []job{old, young}))
	require.Equal(t, []job{young}, ofNewest(nil, []job{young, old}))
	require.Equal(t, []job{old}, ofNewest(map[string]*job{"1_3": {run.State{JobID: "1_3", Name: array.Name}}}, []job{old, young}))
	require.Equal(t, []job{young}, ofNewest(map[string]*job{"1": {run.State{JobID: "1", Name: alone.Name}}}, []job{old, young}))

	f, s := fake(t) // while nothing is known of the newer array, the earlier one has the id
	f.Put(array)
	f.Put(earlier)
	states, err := s.States(t.Context(), []string{"1_2"})
	require.NoError(t, err)
	require.Equal(t, "batch.R1", states["1_2"].Name)
}

func TestFindArray(t *testing.T) {
	f, s := fake(t)
	f.Put(slurmtest.Job{ID: "60", Name: "tag", Size: 3, Queue: "PENDING"})
	f.Put(slurmtest.Job{ID: "60_0", Name: "tag", Queue: "RUNNING"})
	f.Put(slurmtest.Job{ID: "61", Name: "tag", Queue: "RUNNING"})
	id, found, err := s.FindJob(t.Context(), "tag", noon)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, "60", id)
	id, found, err = s.FindJob(t.Context(), "tag", noon, "60")
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, "61", id)
	_, found, err = s.FindJob(t.Context(), "tag", noon, "60", "61")
	require.NoError(t, err)
	require.False(t, found)
}

// covers: CD-6, PL-S26
func TestSubmitWaits(t *testing.T) {
	f, s := fake(t)
	r := request
	r.Waits = []string{"afterok:60:61_2", "after:7"}
	_, err := s.Submit(t.Context(), r)
	require.NoError(t, err)
	require.Contains(t, f.Calls("sbatch")[0], "--dependency=afterok:60:61_2,after:7")
	require.Contains(t, f.Calls("sbatch")[0], "--kill-on-invalid-dep=yes")
}
