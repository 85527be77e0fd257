package story

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Loads of one run of which the same is to be told are one story.
func TestFold(t *testing.T) {
	t.Parallel()
	of := func(dir, load, happened string) Story {
		return Story{Dir: dir, Verdict: failed, load: load, Lines: []Line{
			{"asked", "test a of scenario s" + ofLoad(load) + ", SIMULATED engine"}, {"happened", happened},
		}}
	}
	valid := Story{Dir: "d", Verdict: "valid", load: "1"}
	list := []Story{valid, of("d", "2", "died"), of("d", "3", "never began"), of("d", "4", "never began"),
		of("d", "5", "never began"), of("e", "3", "never began")}
	got := Fold(list)
	require.Len(t, got, 4)
	require.Equal(t, list[1], got[1])
	require.Equal(t, "test a of scenario s, loads 3-5, SIMULATED engine", got[2].Lines[0].Text)
	require.Equal(t, list[5], got[3], "another run")
	require.Equal(t, "test a of scenario s, load 3, SIMULATED engine", list[2].Lines[0].Text,
		"the stories stay as they are")

	phases := Fold([]Story{of("d", "cold", "x"), of("d", "hot", "x"), {Dir: "d", Verdict: failed},
		{Dir: "d", Verdict: failed}})
	require.Len(t, phases, 3, "runs without loads are never one")
	require.Equal(t, "test a of scenario s, loads cold, hot, SIMULATED engine", phases[0].Lines[0].Text)
}

// A job that is cancelled is told once, in the run that it was cancelled in, with the runs whose turn
// never came; without that run, the first of them stands for the others.
func TestFoldRunsWithoutATurn(t *testing.T) {
	t.Parallel()
	of := func(at, job, verdict string, missed bool) Story {
		return Story{Dir: at, at: at, Verdict: verdict, job: job, missedTurn: missed,
			Lines: []Line{{"asked", "test " + at}}}
	}
	list := []Story{
		of("first/a/0", "7", "valid", false), of("first/a/1", "7", cancelled, false), of("first/a/2", "7", cancelled, true),
		of("first/a/3", "7", cancelled, true), of("second/a/1", "7", cancelled, true), of("x/0", "8", cancelled, true),
		of("x/1", "8", cancelled, true), of("y/0", "9", cancelled, true), of("y/1", "", cancelled, true),
	}
	got := Fold(list)
	var at []string
	for _, s := range got {
		at = append(at, s.at)
	}
	require.Equal(t, []string{"first/a/0", "first/a/1", "x/0", "y/0", "y/1"}, at)
	require.Equal(t, Line{"others", "3 more runs of this job never ran: first/a/{2,3}, second/a/1"}, got[1].Lines[1])
	require.Equal(t, Line{"others", "1 more run of this job never ran: x/1"}, got[2].Lines[1])
	for _, i := range []int{0, 3, 4} {
		require.Len(t, got[i].Lines, 1)
	}
	require.Len(t, list[1].Lines, 1, "the stories stay as they are")
}
