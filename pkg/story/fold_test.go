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
