package dataset

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSamplesLieInTheirRange(t *testing.T) {
	o := Flags{
		NumPrompts: 2000, RandomInputLen: 10, RandomOutputLen: 5, RandomPrefixLen: 3,
		RandomRangeRatio: RangeRatio{Input: 0.25, Output: 0.9},
	}
	inputs, outputs := map[int]bool{}, map[int]bool{}
	for _, s := range o.Random(0) {
		inputs[s.Input-3], outputs[s.Output] = true, true
	}
	for n := 7; n <= 13; n++ { // floor(7.5) to ceil(12.5)
		require.True(t, inputs[n], "input %d", n)
	}
	require.Len(t, inputs, 7)
	require.Len(t, outputs, 10, "1 (0 is no answer) to ceil(9.5)")
}

func TestPromptsShareOnlyTheirPrefix(t *testing.T) {
	o := Flags{NumPrompts: 500, RandomPrefixLen: 16, Seed: 3}
	s := newIDSource(&o, 0)
	first := map[int]bool{}
	prefix := s.list(0, 80)[:16]
	for i := range o.NumPrompts {
		ids := s.list(i, 80)
		require.Len(t, ids, 80)
		require.Equal(t, prefix, ids[:16])
		require.False(t, first[ids[16]], "prompt %d begins like another", i)
		first[ids[16]] = true
		for _, id := range ids {
			require.True(t, id >= lowestID && id < highestID, "%d", id)
		}
		require.Equal(t, ids, s.list(i, 80), "the same seed gives the same prompt")
	}
	o.Seed = 4
	other := newIDSource(&o, 0)
	require.NotEqual(t, s.list(0, 80), other.list(0, 80))
}

func TestMorePromptsThanIDs(t *testing.T) {
	o := Flags{NumPrompts: 90}
	s := newIDSource(&o, 20) // ids 10 to 19
	starts := map[[2]int]bool{}
	for i := range o.NumPrompts {
		ids := s.list(i, 8)
		starts[[2]int{ids[0], ids[1]}] = true
		for _, id := range ids {
			require.True(t, id >= 10 && id < 20, "%d is outside the vocabulary", id)
		}
	}
	require.Len(t, starts, 90)
}

func TestIDsAsJSON(t *testing.T) {
	s := newIDSource(&Flags{NumPrompts: 3}, 0)
	var got []int
	require.NoError(t, json.Unmarshal(s.appendJSON(nil, 2, 7), &got))
	require.Equal(t, s.list(2, 7), got)
}
