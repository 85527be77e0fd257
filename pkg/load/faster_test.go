package load

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// A load of faster servers has higher rates and stricter limits; what is no time stays.
func TestFasterLoad(t *testing.T) {
	o, err := ParseArgs([]string{
		"--base-url", "http://127.0.0.1:1", "--num-prompts", "40", "--request-rate", "4", "--goodput", "ttft:200", "tpot:5",
	})
	require.NoError(t, err)
	require.NoError(t, o.Faster(10))
	require.InDelta(t, 40, o.RequestRate, 0)
	require.Equal(t, List{"tpot:0.5", "ttft:20"}, o.Goodput)
	require.Equal(t, 40, o.NumPrompts)

	o, err = ParseArgs([]string{
		"--base-url", "http://127.0.0.1:1", "--ramp-up-strategy", "linear", "--ramp-up-start-rps", "2", "--ramp-up-end-rps", "8",
	})
	require.NoError(t, err)
	require.NoError(t, o.Faster(10))
	require.Equal(t, [2]int{20, 80}, [2]int{*o.RampUpStartRPS, *o.RampUpEndRPS})

	o, err = ParseArgs([]string{"--base-url", "http://127.0.0.1:1"})
	require.NoError(t, err)
	require.NoError(t, o.Faster(10))
	require.True(t, math.IsInf(o.RequestRate, 1))
	require.Empty(t, o.Goodput)
}
