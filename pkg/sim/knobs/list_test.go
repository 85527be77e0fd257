package knobs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const msec = time.Millisecond

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
	k, err := Read(func(name string) string { return set[name] })
	require.NoError(t, err)
	require.Equal(t, Timing{TTFT: 10 * msec, ITL: 2 * msec, Jitter: 0.1, Seed: 1}, k.Timing)
	require.Equal(t, 100*msec, k.Startup)
	f := k.Planted
	require.Equal(t, [2]time.Duration{200 * msec, 500 * time.Microsecond}, [2]time.Duration{f.DieAfter, f.Slowing})
	require.Equal(t, [3]Moment{{time.Second, 500 * msec}, {400 * msec, 300 * msec}, {-20 * msec, 200 * msec}}, [3]Moment{f.Stall, f.freeze, f.step})
	require.Equal(t, 8, f.Cold)
	require.InDelta(t, 0.5, f.pace, 0)

	pace, err := PaceOf(func(name string) string { return set[name] })
	require.NoError(t, err)
	require.Equal(t, Pace{Startup: time.Second, TTFT: 100 * msec, ITL: 20 * msec}, pace, "as the knobs say, at speed 1")
	for _, bad := range []string{"0", "-1", "1.5", "1001", "fast"} {
		_, err := Speed(func(string) string { return bad })
		require.ErrorContains(t, err, "want a whole number from 1 to 1000", bad)
	}
}
