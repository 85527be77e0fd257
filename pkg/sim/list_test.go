package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Every fault of the list is understood with its example, and acts on what the list says.
func TestListedFaults(t *testing.T) {
	for _, f := range Faults {
		text := f.Name
		if f.Value != "" {
			text += "=" + f.Value
		}
		require.NotEmpty(t, f.On, text)
		for _, on := range f.On {
			role := on
			if on == OnServer {
				role = "decode"
			}
			env := func(name string) string { return map[string]string{FaultsVar: role + ":" + text}[name] }
			require.NoError(t, CheckKnobs([]string{FaultsVar}, env, []string{"decode"}), text)
		}
	}
	require.Len(t, Faults, 42)
}

// The speed divides each time of the simulation, and no limit, share or number.
func TestSpeedDividesTimes(t *testing.T) {
	set := map[string]string{
		"PROFLLM_SIM_TTFT": "100ms", "PROFLLM_SIM_ITL": "20ms", "PROFLLM_SIM_STARTUP": "1s", "PROFLLM_SIM_JITTER": "0.1",
		"PROFLLM_ROLE": "serve", SpeedVar: "10",
		FaultsVar: "serve:die-after=2s,slowing=5ms,stall=10s@5s,freeze=4s@3s,step=-200ms@2s,cold=8,pace=0.5",
	}
	k, err := readKnobs(func(name string) string { return set[name] })
	require.NoError(t, err)
	require.Equal(t, timing{ttft: 10 * ms, itl: 2 * ms, jitter: 0.1, seed: 1}, k.timing)
	require.Equal(t, 100*ms, k.startup)
	f := k.faults
	require.Equal(t, [2]time.Duration{200 * ms, 500 * time.Microsecond}, [2]time.Duration{f.dieAfter, f.slowing})
	require.Equal(t, [3]moment{{time.Second, 500 * ms}, {400 * ms, 300 * ms}, {-20 * ms, 200 * ms}}, [3]moment{f.stall, f.freeze, f.step})
	require.Equal(t, 8, f.cold)
	require.InDelta(t, 0.5, f.pace, 0)

	pace, err := PaceOf(func(name string) string { return set[name] })
	require.NoError(t, err)
	require.Equal(t, Pace{Startup: time.Second, TTFT: 100 * ms, ITL: 20 * ms}, pace, "as the knobs say, at speed 1")
	for _, bad := range []string{"0", "-1", "1.5", "1001", "fast"} {
		_, err := Speed(func(string) string { return bad })
		require.ErrorContains(t, err, "want a whole number from 1 to 1000", bad)
	}
}
