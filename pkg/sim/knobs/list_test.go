package knobs

import (
	"cmp"
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
				role = cmp.Or(transferFaults[f.Name], "decode")
			}
			if f.Name == "exit" {
				text = "die-after=2s," + text
			}
			env := func(name string) string {
				return map[string]string{FaultsVar: role + ":" + text, "PROFLLM_SIM_GPUS": "8"}[name]
			}
			require.NoError(t, CheckKnobs([]string{FaultsVar}, env, []string{"decode", "prefill"}), text)
		}
	}
	require.Len(t, Faults, 43)
}

// A fault that would plant nothing is refused.
func TestFaultsWithoutEffect(t *testing.T) {
	for faults, want := range map[string]string{
		"decode:exit=3":                       "decode: exit alone plants nothing: it is the exit code of die-at-start, die-after, die-on-request\n\thint: add one of them, such as decode:die-after=2s,exit=3",
		"*:exit=3":                            "*: exit alone plants nothing",
		"serve:die-after=2s;decode:exit=3":    "decode: exit alone plants nothing",
		"*:die-after=2s;client:exit=3":        "client: exit alone plants nothing",
		"client:die-after=2s;*:exit=3":        "*: exit alone plants nothing",
		"gpu:heat=1/0.2":                      "gpu: no GPU is simulated, so the fault heat has no effect\n\thint: set PROFLLM_SIM_GPUS too",
		"serve:recompute=0.5":                 "the fault recompute acts on KV transfers, and no test has prefill and decode",
		"*:no-params":                         "the fault no-params acts on KV transfers",
		"decode=die-after:2s":                 "want ROLE:FAULT or *:FAULT, separate several faults by commas\n\thint: did you mean decode:die-after=2s?",
		"decode=hang":                         "hint: did you mean decode:hang?",
		"die-after=2s":                        "hint: did you mean *:die-after=2s?",
		"hang":                                "hint: did you mean *:hang?",
		":hang":                               "hint: did you mean *:hang?",
		"*:die-after=2s;serve:exit=3":         "",
		"decode:die-after=2s; ":               "",
		"decode:die-after=2s;;serve:hang":     `"": want ROLE:FAULT`,
		"*:exit=3;decode:die-at-start":        "",
		"decode:fail=0.1,exit=2,die-after=1s": "",
		"client:exit=2;client:die-at-start":   "",
	} {
		env := func(name string) string { return map[string]string{FaultsVar: faults}[name] }
		err := CheckKnobs([]string{FaultsVar}, env, []string{"decode", "serve"})
		if want == "" {
			require.NoError(t, err, faults)
		} else {
			require.ErrorContains(t, err, want, faults)
		}
	}
}

// A fault is refused in the one of prefill and decode in which it does nothing.
func TestFaultsOfTheOtherRole(t *testing.T) {
	for faults, want := range map[string]string{
		"decode_1:no-params":    "decode_1: the fault no-params acts on prefill only",
		"serve:no-params":       "serve: the fault no-params acts on prefill only",
		"prefill:recompute=0.5": "prefill: the fault recompute acts on decode only",
		"prefill:usage=0.5":     "prefill: the fault usage has no effect: the client gets its answers from decode\n\thint: plant it in decode",
		"prefill:short=0.5":     "the fault short has no effect",
		"prefill:finish=abort":  "the fault finish has no effect",
		"prefill:no-done":       "the fault no-done has no effect",
		"prefill:cut=0.5":       "the fault cut has no effect",
		"prefill:drop=0.5,html=0.1,fail=0.1,zero-tokens": "",
		"prefill:no-params;decode_1:recompute=0.5":       "",
		"*:no-params,recompute=0.5,usage=0.5":            "",
	} {
		env := func(name string) string { return map[string]string{FaultsVar: faults}[name] }
		err := CheckKnobs([]string{FaultsVar}, env, []string{"prefill", "decode_0", "decode_1", "serve"})
		if want == "" {
			require.NoError(t, err, faults)
		} else {
			require.ErrorContains(t, err, want, faults)
		}
	}
}

func TestRoleThatNobodyPlaysIsSaidOnce(t *testing.T) {
	env := func(name string) string { return map[string]string{FaultsVar: "decod:hang,fail=0.1"}[name] }
	require.EqualError(t, CheckKnobs([]string{FaultsVar}, env, []string{"decode"}),
		"PROFLLM_SIM_FAULTS: no engine plays the role \"decod\"\n\thint: did you mean \"decode\"? known: *, client, decode, gpu")
}

// The speed divides each time of the simulation, and no limit, share or number.
func TestSpeedDividesTimes(t *testing.T) {
	set := map[string]string{
		"PROFLLM_SIM_TTFT": "100ms", "PROFLLM_SIM_ITL": "20ms", "PROFLLM_SIM_STARTUP": "1s", "PROFLLM_SIM_JITTER": "0.1",
		"PROFLLM_ROLE": "serve", speedVar: "10",
		FaultsVar: "serve:die-after=2s,slowing=5ms,stall=10s@5s,freeze=4s@3s,step=-200ms@2s,cold=8,pace=0.5",
	}
	k, err := Read(func(name string) string { return set[name] })
	require.NoError(t, err)
	require.Equal(t, Timing{TTFT: 10 * msec, ITL: 2 * msec, Jitter: 0.1, Seed: 1}, k.Timing)
	require.Equal(t, 100*msec, k.Startup)
	f := k.Planted
	require.Equal(t, [2]time.Duration{200 * msec, 500 * time.Microsecond}, [2]time.Duration{f.DieAfter, f.Slowing})
	require.Equal(t, [3]Moment{{time.Second, 500 * msec}, {400 * msec, 300 * msec}, {-20 * msec, 200 * msec}},
		[3]Moment{f.Stall, f.freeze, f.step})
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

// What a rehearsal was made under is what is set to something else than its default; another
// seed is another sample, and the speed is in the plan.
func TestConditionsOfARehearsal(t *testing.T) {
	set := map[string]string{
		"PROFLLM_SIM_ITL": "9ms", "PROFLLM_SIM_TTFT": "50ms", "PROFLLM_SIM_SEED": "7", speedVar: "20", "OTHER": "1",
		FaultsVar: "serve:cold=3",
	}
	require.Equal(t, map[string]string{"PROFLLM_SIM_ITL": "9ms", FaultsVar: "serve:cold=3"},
		Conditions(func(name string) string { return set[name] }))
}
