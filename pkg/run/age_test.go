package run_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/run"
)

// follow looks at a job at minutes after noon, one state after the other.
func follow(states ...run.State) run.State {
	var old run.State
	for _, st := range states {
		st.JobID = "60"
		old = st.Follows(old)
	}
	return old
}

func at(minutes float64, state, note string) run.State {
	noon := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	return run.State{State: state, Note: note, At: noon.Add(time.Duration(minutes * float64(time.Minute)))}
}

// Nobody waits for ever, and silence is no answer.
//
// covers: PL-S10, PL-S11
func TestFollows(t *testing.T) {
	const day = 24 * 60
	forgotten := func(m float64) run.State { return at(m, run.Unknown, run.Forgotten) }
	silent := func(m float64) run.State { return at(m, run.Unknown, "") }
	for name, c := range map[string]struct {
		looks       []run.State
		state, note string
		since       float64
		says        string
	}{
		"first":                         {[]run.State{forgotten(5)}, run.Unknown, run.Forgotten, 5, ""},
		"almost a day":                  {[]run.State{forgotten(0), forgotten(day - 1)}, run.Unknown, run.Forgotten, 0, ""},
		"a day":                         {[]run.State{forgotten(0), forgotten(5), forgotten(day)}, run.Failed, run.Lost, day, "the scheduler has not known the job since 2026-03-04T12:00:00Z"},
		"known in between":              {[]run.State{forgotten(0), at(5, run.Running, ""), forgotten(day)}, run.Unknown, run.Forgotten, day, ""},
		"silence in between":            {[]run.State{forgotten(0), silent(5), forgotten(day)}, run.Failed, run.Lost, day, "the scheduler"},
		"silence at the end":            {[]run.State{forgotten(0), silent(2 * day)}, run.Unknown, run.Forgotten, 0, ""},
		"only silence":                  {[]run.State{silent(0), silent(2 * day)}, run.Unknown, "", 0, ""},
		"an answer after long silence":  {[]run.State{silent(0), forgotten(2 * day)}, run.Unknown, run.Forgotten, 2 * day, ""},
		"ending":                        {[]run.State{at(0, run.Running, run.Ending), at(2.5, run.Running, run.Ending)}, run.Running, run.Ending, 0, ""},
		"ending too long":               {[]run.State{at(0, run.Running, run.Ending), at(2.6, run.Running, run.Ending)}, run.Running, run.Ending, 0, "still ending after 2m30s"},
		"running before, ends just now": {[]run.State{at(0, run.Running, ""), at(60, run.Running, run.Ending)}, run.Running, run.Ending, 60, ""},
	} {
		got := follow(c.looks...)
		require.Equal(t, [2]string{c.state, c.note}, [2]string{got.State, got.Note}, name)
		require.Equal(t, at(c.since, "", "").At, got.Since, name)
		require.Contains(t, got.Reason, c.says, name)
		require.Equal(t, c.says == "", got.Reason == "", name)
	}
	other := at(0, run.Unknown, run.Forgotten)
	other.JobID = "59"
	st := at(2*day, run.Unknown, run.Forgotten)
	st.JobID = "60"
	require.Equal(t, run.Unknown, st.Follows(other).State, "of an earlier job")
}

// A clock that is set, or that of another host, makes no job lost, and no node
// hang: what counts is the time that went by.
//
// covers: PL-S10
func TestFollowsThroughJumps(t *testing.T) {
	const day = 24 * 60
	look := func(clock, up float64, boot, state, note string) run.State {
		st := at(clock, state, note)
		st.Up = fmt.Sprintf("%s/%d", boot, int64(up*float64(time.Minute)))
		return st
	}
	for name, c := range map[string]struct {
		looks []run.State
		note  string
		since float64
		slow  bool
	}{
		"a day ahead":             {[]run.State{look(0, 0, "b", run.Unknown, run.Forgotten), look(day+5, 5, "b", run.Unknown, run.Forgotten)}, run.Forgotten, day, false},
		"ahead, then really late": {[]run.State{look(0, 0, "b", run.Unknown, run.Forgotten), look(day+5, 5, "b", run.Unknown, run.Forgotten), look(2*day, day, "b", run.Unknown, run.Forgotten)}, run.Lost, 2 * day, true},
		"a day back, really late": {[]run.State{look(2*day, 0, "b", run.Unknown, run.Forgotten), look(2*day, day, "b", run.Unknown, run.Forgotten)}, run.Lost, 2 * day, true},
		"back, of another boot":   {[]run.State{look(day, 0, "b", run.Unknown, run.Forgotten), look(0, 9, "c", run.Unknown, run.Forgotten)}, run.Forgotten, 0, false},
		"kept right":              {[]run.State{look(0, 0, "b", run.Unknown, run.Forgotten), look(5, 4.5, "b", run.Unknown, run.Forgotten)}, run.Forgotten, 0, false},
		"ending, ahead":           {[]run.State{look(0, 0, "b", run.Running, run.Ending), look(60, 1, "b", run.Running, run.Ending)}, run.Ending, 59, false},
		"no such clock":           {[]run.State{at(0, run.Unknown, run.Forgotten), at(day, run.Unknown, run.Forgotten)}, run.Lost, day, true},
	} {
		got := follow(c.looks...)
		require.Equal(t, c.note, got.Note, name)
		require.Equal(t, at(c.since, "", "").At, got.Since, name)
		require.Equal(t, c.slow, got.Reason != "", name)
	}
	first, second := run.Uptime(), run.Uptime()
	require.Equal(t, strings.Split(first, "/")[0], strings.Split(second, "/")[0])
	require.NotEqual(t, first, second)
	require.Empty(t, follow(look(0, 0, "b", run.Running, "")).Up, "of a state that may last")
	old := look(0, 0, "b", run.Running, run.Ending)
	require.False(t, look(1, 1, "b", run.Running, run.Ending).News(old))
}

// covers: PL-S10, PL-S15
func TestAskAndKeep(t *testing.T) {
	since := at(0, "", "").At
	ask := func(now, before float64) bool {
		st := at(now, run.Unknown, run.Forgotten)
		st.Since = since
		return st.NeedsController(at(before, run.Unknown, run.Forgotten))
	}
	require.False(t, ask(9, 8))
	require.True(t, ask(10, 9))
	require.False(t, ask(11, 10), "once")
	require.True(t, ask(21, 11), "and again")
	running := at(60, run.Running, "")
	running.Since = since
	require.False(t, running.NeedsController(at(1, run.Running, "")))

	ended := at(0, run.Succeeded, "")
	require.False(t, ended.Kept(at(59, "", "").At))
	require.True(t, ended.Kept(at(60, "", "").At))
	require.False(t, at(0, run.Unknown, "").Kept(at(600, "", "").At))
	ended.JobID = run.KubePrefix + "a.b.c"
	require.True(t, ended.Kept(at(1, "", "").At), "it never begins again")
	ended.Note = run.Lost
	require.False(t, ended.Kept(at(1, "", "").At), "the cluster that did not list it may have been another one")

	require.False(t, at(9, run.Running, "").News(at(0, run.Running, "")), "the same")
	require.True(t, at(10, run.Running, "").News(at(0, run.Running, "")), "so that its age shows")
	require.True(t, at(1, run.Running, run.Ending).News(at(0, run.Running, "")))
	require.False(t, at(600, run.Failed, "").News(at(0, run.Failed, "")))
}
