package campaign

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/run"
)

// heard writes what is said.
type heard struct{ io.Writer }

func (h heard) Say(l Level, text string) {
	fmt.Fprintf(h, "%s%s\n", map[Level]string{Note: "note: ", Warning: "warning: "}[l], text)
}

func (heard) Submitted(run.Outcome) {}

// oracle is a scheduler of which a test says what it answers.
type oracle struct {
	run.Scheduler
	say, shows map[string]run.State
	asked      []string
	shown      int
	now        func() time.Time
}

func (o *oracle) stamped(m map[string]run.State, ids []string) map[string]run.State {
	out := map[string]run.State{}
	for _, id := range ids {
		if st, ok := m[id]; ok {
			st.JobID, st.At = id, o.now()
			out[id] = st
		}
	}
	return out
}

func (o *oracle) States(_ context.Context, ids []string) (map[string]run.State, error) {
	o.asked = ids
	return o.stamped(o.say, ids), nil
}

func (o *oracle) Show(_ context.Context, ids []string) (map[string]run.State, error) {
	o.shown++
	return o.stamped(o.shows, ids), nil
}

// squeue says that a job failed before the accounting has heard of it: the controller
// is asked for the exit code, once.
//
// covers: PL-S5, PL-S8
func TestExitCodeBeforeTheAccountingHasIt(t *testing.T) {
	t.Parallel()
	c := &Client{Now: time.Now, Uptime: func() string { return "" }, Events: heard{io.Discard}}
	listed := run.State{State: run.Failed, Raw: "FAILED", Source: "squeue"}
	shown := run.State{State: run.Failed, Raw: "FAILED", Source: "scontrol", ExitCode: "5:0"}
	o := &oracle{now: c.Now, say: map[string]run.State{"60": listed}, shows: map[string]run.State{"60": shown}}
	dir := t.TempDir()
	look := func() run.State {
		states, err := c.states(t.Context(), o, []string{dir}, map[string]run.Submission{dir: {JobID: "60"}})
		require.NoError(t, err)
		return states[dir]
	}
	require.Equal(t, "5:0", look().ExitCode)
	require.Equal(t, "5:0", look().ExitCode, "kept, although squeue prints none")
	require.Equal(t, 1, o.shown)

	require.NoError(t, os.WriteFile(filepath.Join(dir, run.ClaimFile), nil, 0o644))
	later := time.Now().Add(time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(dir, run.ClaimFile), later, later))
	look()
	require.Equal(t, 2, o.shown, "queued again: another end")
}

// A job that nobody lists: the controller itself is asked after ten minutes, and
// after a day it is lost. Ends are not asked about for ever.
//
// covers: PL-S8, PL-S10, PL-S15
func TestStatesOverTime(t *testing.T) {
	t.Parallel()
	clock := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	var stderr bytes.Buffer
	c := &Client{Now: func() time.Time { return clock }, Uptime: func() string { return "" }, Events: heard{&stderr}}
	o := &oracle{now: c.Now, say: map[string]run.State{
		"60": {State: run.Unknown, Note: run.Forgotten, Source: "squeue"},
		"61": {State: run.Timeout, Source: "sacct", Raw: "TIMEOUT"},
	}}
	lost, over := t.TempDir(), t.TempDir()
	dirs := []string{lost, over}
	subs := map[string]run.Submission{lost: {JobID: "60"}, over: {JobID: "61"}}
	look := func(after time.Duration) run.State {
		clock = clock.Add(after)
		states, err := c.states(t.Context(), o, dirs, subs)
		require.NoError(t, err)
		require.Equal(t, run.Timeout, states[over].State)
		var disk run.State
		require.NoError(t, run.ReadJSON(filepath.Join(lost, run.StateFile), &disk))
		require.Equal(t, states[lost].State, disk.State)
		return states[lost]
	}
	require.Equal(t, run.Forgotten, look(0).Note)
	require.Equal(t, run.Unknown, look(9*time.Minute).State)
	require.Zero(t, o.shown)
	require.Equal(t, []string{"60", "61"}, o.asked)
	require.Equal(t, run.Unknown, look(2*time.Minute).State)
	require.Equal(t, 1, o.shown)
	look(time.Minute)
	require.Equal(t, 1, o.shown, "not at every look")

	o.shows = map[string]run.State{"60": {State: run.Running, Source: "scontrol", Raw: "RUNNING"}}
	require.Equal(t, "scontrol", look(10*time.Minute).Source)
	o.shows = nil
	require.Equal(t, run.Unknown, look(time.Hour).State, "begins anew")
	require.Equal(t, []string{"60"}, o.asked, "the end of the other is known for an hour")
	st := look(24 * time.Hour)
	require.Equal(t, [2]string{run.Failed, run.Lost}, [2]string{st.State, st.Note})
	require.Equal(t, run.Lost, look(time.Minute).Note, "and stays so")
	look(time.Hour)
	require.Equal(t, []string{}, append([]string{}, o.asked...), "nothing is open")

	// The other job is queued again, long after its end, and begins.
	claim := filepath.Join(over, run.ClaimFile)
	require.NoError(t, run.WriteJSON(claim, run.Claim{JobID: "61", Restarts: 1}))
	require.NoError(t, os.Chtimes(claim, clock, clock))
	o.say["61"] = run.State{State: run.Running, Source: "squeue"}
	states, err := c.states(t.Context(), o, dirs, subs)
	require.NoError(t, err)
	require.Equal(t, []string{"61"}, o.asked)
	require.Equal(t, run.Running, states[over].State)
	require.Contains(t, troubleOf(st, "").String(), "is lost: the scheduler has not known the job since")
}

// What Slurm says is the answer, although nothing can be kept of it.
//
// covers: PL-S8
func TestStatesOnAFullDisk(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	c := &Client{Now: time.Now, Uptime: run.Uptime, Events: heard{&stderr}}
	gone := filepath.Join(t.TempDir(), "gone")
	states, err := c.states(t.Context(),
		&oracle{now: c.Now, say: map[string]run.State{"60": {State: run.Running, Source: "squeue"}}},
		[]string{gone}, map[string]run.Submission{gone: {JobID: "60"}})
	require.NoError(t, err)
	require.Equal(t, run.Running, states[gone].State)
	require.Contains(t, stderr.String(), "note: the state of 1 run could not be saved: write "+gone)
	require.Equal(t, 1, bytes.Count(stderr.Bytes(), []byte("\n")))
}

// What is said before the end.
//
// covers: PL-S11, PL-S14, PL-S25
func TestTrouble(t *testing.T) {
	t.Parallel()
	say := func(st run.State) string { return troubleOf(st, "r/a/0").String() }
	require.Equal(t, "is held (JobHeldUser)\n\thint: scontrol release 7, or ask whoever holds the job; "+
		"profllm slurm cancel r/a/0 gives it up",
		say(run.State{JobID: "7", State: run.Queued, Note: run.Held, Reason: "JobHeldUser"}))
	require.Equal(t, "never starts (PartitionNodeLimit) and stays queued\n\thint: profllm slurm cancel r/a/0, "+
		"request fewer nodes, and submit again; if the cluster is changed instead, the job starts by itself: "+
		"profllm slurm watch r/a/0 waits for it",
		say(run.State{JobID: "7", State: run.Queued, Note: run.NeverStarts, Reason: "PartitionNodeLimit"}))
	require.Equal(t, "waits for nodes that are down or drained (ReqNodeNotAvail, UnavailableNodes:n1)\n\t"+
		"hint: sinfo -R says why they are",
		say(run.State{JobID: "7", State: run.Queued, Reason: "ReqNodeNotAvail, UnavailableNodes:n1"}))
	now := time.Now()
	require.Contains(t, say(run.State{State: run.Running, Note: run.Ending, At: now,
		Since: now.Add(-3 * time.Minute), Reason: "still ending after 2m30s"}), "still ending after")
	for _, quiet := range []run.State{
		{}, {State: run.Queued, Reason: "Priority"}, {State: run.Running, Note: run.Ending}, {State: run.Failed},
		{State: run.Running, Note: run.Ending, At: now, Since: now, Reason: "NonZeroExitCode"},
	} {
		require.Empty(t, say(quiet))
	}
}

// covers: PL-S15
func TestPauses(t *testing.T) {
	t.Parallel()
	for range 100 {
		require.InDelta(t, float64(8*time.Second), float64(jitter(8*time.Second)), float64(time.Second))
	}
	require.Equal(t, time.Second, soon(1))
	require.Equal(t, time.Minute, soon(5000), "many runs are no reason to ask often")
}

// A controller that dies within seconds of a submission forgets the job, and gives
// its id to another. The run does not take that for its own, nor cancels it; it is
// submitted again once it is sure that it never began.
//
// covers: PL-D2, PL-S10
func TestStatesOfAReusedID(t *testing.T) {
	t.Parallel()
	clock := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	c := &Client{Now: func() time.Time { return clock }, Uptime: func() string { return "" }, Events: heard{io.Discard}}
	o := &oracle{now: c.Now, say: map[string]run.State{
		"60": {State: run.Running, Source: "squeue", Raw: "RUNNING", Name: "other.R2"},
		"61": {State: run.Succeeded, Source: "sacct", Raw: "COMPLETED", Name: "another's"},
	}}
	waiting, began := t.TempDir(), t.TempDir()
	require.NoError(t, run.WriteJSON(filepath.Join(began, run.ClaimFile), run.Claim{JobID: "61"}))
	dirs := []string{waiting, began}
	subs := map[string]run.Submission{waiting: {RunID: "R1", JobID: "60"}, began: {RunID: "R3", JobID: "61"}}
	states, err := c.states(t.Context(), o, dirs, subs)
	require.NoError(t, err)
	for _, dir := range dirs {
		require.Equal(t, [2]string{run.Unknown, run.Forgotten}, [2]string{states[dir].State, states[dir].Note})
	}
	require.Contains(t, states[waiting].Reason, `its id 60 now belongs to job "other.R2"`)
	require.False(t, states[waiting].Vanished(waiting), "not at once")
	require.Empty(t, c.toCancel(dirs, subs, states))

	clock = clock.Add(run.AskAfter)
	states, err = c.states(t.Context(), o, dirs, subs)
	require.NoError(t, err)
	require.True(t, states[waiting].Vanished(waiting))
	require.False(t, states[began].Vanished(began), "what began may still run")

	o.say["60"] = run.State{State: run.Running, Source: "squeue", Raw: "RUNNING", Name: "s.R1"}
	states, err = c.states(t.Context(), o, dirs, subs)
	require.NoError(t, err)
	require.Equal(t, run.Running, states[waiting].State, "it began after all")
}
