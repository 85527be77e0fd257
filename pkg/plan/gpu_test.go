package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
)

// covers: CD-39
func TestParseGPUs(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []int
		err  string
	}{
		{in: "0", want: []int{0}},
		{in: "0,1,2,3", want: []int{0, 1, 2, 3}},
		{in: " 0 , 1 ", want: []int{0, 1}},
		{in: "0-3", want: []int{0, 1, 2, 3}},
		{in: "3,0-1, 5 - 6", want: []int{3, 0, 1, 5, 6}},
		{in: "2-2", want: []int{2}},
		{in: "1023", want: []int{1023}},
		{in: "", err: `"" is not a GPU id or a range such as 0-3`},
		{in: "0,", err: `"" is not a GPU id`},
		{in: "0,,1", err: `"" is not a GPU id`},
		{in: "3-0", err: `"3-0" is not`},
		{in: "0-", err: `"0-" is not`},
		{in: "-1", err: `"-1" is not`},
		{in: "+1", err: `"+1" is not`},
		{in: "0-1-2", err: `"0-1-2" is not`},
		{in: "GPU-1a2b", err: `"GPU-1a2b" is not`},
		{in: "all", err: `"all" is not`},
		{in: "1024", err: `"1024" is not`},
		{in: "0-999999999999", err: `is not`},
		{in: "0,0", err: `GPU 0 is named twice in "0,0"`},
		{in: "2,0-3", err: `GPU 2 is named twice in "2,0-3"`},
	} {
		got, err := plan.ParseGPUs(c.in)
		if c.err != "" {
			require.ErrorContains(t, err, c.err, c.in)
			continue
		}
		require.NoError(t, err, c.in)
		require.Equal(t, c.want, got, c.in)
	}
}

// covers: C.1
func TestSplitGPUs(t *testing.T) {
	for n, want := range map[int][2]string{
		0: {"", ""}, 1: {"", "0"}, 2: {"0", "1"}, 3: {"0", "1,2"}, 5: {"0,1", "2,3,4"}, 7: {"0,1,2", "3,4,5,6"},
		8: {"0,1,2,3", "4,5,6,7"},
	} {
		prefill, decode := plan.SplitGPUs(plan.CountGPUs(n))
		require.Equal(t, want, [2]string{plan.FormatGPUs(prefill), plan.FormatGPUs(decode)}, n)
	}
}

func FuzzParseGPUs(f *testing.F) {
	for _, s := range []string{"0", "0-3", "3,0-1, 5 - 6", "0,0", "", ",", "1-0", "GPU-x", "0-1023", "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ids, err := plan.ParseGPUs(s)
		if err != nil {
			require.Nil(t, ids)
			return
		}
		require.NotEmpty(t, ids)
		seen := map[int]bool{}
		for _, id := range ids {
			require.False(t, seen[id] || id < 0, "%d in %v", id, ids)
			seen[id] = true
		}
		again, err := plan.ParseGPUs(plan.FormatGPUs(ids))
		require.NoError(t, err)
		require.Equal(t, ids, again)
	})
}
