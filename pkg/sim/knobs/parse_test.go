package knobs

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseFaults(t *testing.T) {
	healthy := Planted{Exit: 1, Bundle: 1, Miscount: 1}
	with := func(change func(*Planted)) Planted {
		f := healthy
		change(&f)
		return f
	}
	tests := map[string]struct {
		text, role string
		star       bool
		want       Planted
	}{
		"none":            {"", "serve", true, healthy},
		"everyone":        {"*:hang", "serve", true, with(func(f *Planted) { f.Hang = true })},
		"no role":         {"*:hang", "", true, with(func(f *Planted) { f.Hang = true })},
		"mine":            {"decode:die-after=2s,exit=3", "decode", true, with(func(f *Planted) { f.DieAfter, f.Exit = 2*time.Second, 3 })},
		"another's":       {"decode:die-after=2s", "prefill", true, healthy},
		"two groups":      {"decode:hang; *:fail=0.5 , bundle=4", "decode", true, with(func(f *Planted) { f.Hang, f.Fail, f.Bundle = true, 0.5, 4 })},
		"star not client": {"*:die-at-start", "client", false, healthy},
		"what it says":    {"decode:root=org/m,version=1.2,restart-on-request=7", "decode", true, with(func(f *Planted) { f.Root, f.Version, f.Restart = "org/m", "1.2", 7 })},
		"client":          {"client:die-at-start", "client", false, with(func(f *Planted) { f.DieAtStart = true })},
		"books": {"*:miscount=1.1,abort=0.6,preempt=0.2,corrupt=0.3,warm=0.4,cold=8,slowing=2ms", "x", true, with(func(f *Planted) {
			f.Miscount, f.Abort, f.Preempt, f.Corrupt, f.Warm, f.Cold, f.Slowing = 1.1, 0.6, 0.2, 0.3, 0.4, 8, 2*time.Millisecond
		})},
		"time": {"client:stall=10s@5s,burst=8,freeze=1s@0s,step=-9s@1m,pace=0.9", "client", false, with(func(f *Planted) {
			f.Stall, f.Burst, f.freeze, f.step, f.pace = Moment{10 * time.Second,
				5 * time.Second}, 8, Moment{by: time.Second}, Moment{-9 * time.Second, time.Minute}, 0.9
		})},
		"the rest": {"*:never-ready,zero-tokens,die-on-request=3,die-at-start", "x", true, with(func(f *Planted) {
			f.NeverReady, f.ZeroTokens, f.DieOnRequest, f.DieAtStart = true, true, 3, true
		})},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParseFaults(tt.text, tt.role, tt.star)
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestParseFaultsMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"hang":                 "want ROLE:FAULT",
		":hang":                "want ROLE:FAULT",
		"*:hnag":               `unknown fault "hnag"`,
		"*:":                   `unknown fault ""`,
		"*:die-after":          "want a duration",
		"*:die-after=-1s":      "want a duration",
		"*:fail=2":             "from 0 to 1",
		"*:fail=NaN":           "from 0 to 1",
		"*:bundle=0":           "from 1",
		"*:exit=256":           "to 255",
		"*:hang=1":             "takes no value",
		"*:root":               "root wants a value",
		"*:restart-on-request": "from 1",
		"somebody-else:exit=0": "from 1",
		"*:slowing=0s":         "want a duration",
		"*:warm=1.1":           "from 0 to 1",
		"*:miscount=-1":        "want a factor",
		"*:cold=0":             "from 1",
		"*:stall=10s":          "when it begins",
		"*:stall=0s@1s":        "when it begins",
		"*:step=1s@-1s":        "when it begins",
		"*:freeze=-1s@1s":      "when it begins",
		"*:freeze=x@1s":        "when it begins",
		"*:burst=0":            "from 1",
		"*:pace=1.1":           "from 0 to 1",
	} {
		_, err := ParseFaults(text, "serve", true)
		require.ErrorContains(t, err, want, text)
	}
}

func FuzzParseFaults(f *testing.F) {
	f.Add("decode:die-after=2s,exit=3;*:fail=0.1", "decode")
	f.Fuzz(func(t *testing.T, text, role string) {
		got, err := ParseFaults(text, role, true)
		if err == nil {
			require.True(t, got.Bundle >= 1 && got.Exit >= 1 && got.Exit <= 255 && got.Fail >= 0 && got.Fail <= 1 &&
				got.DieAfter >= 0)
		}
	})
}

func TestReadKnobsMistakes(t *testing.T) {
	_, err := Read(of(map[string]string{
		"PROFLLM_SIM_TTFT": "-1s", "PROFLLM_SIM_ITL": "20", "PROFLLM_SIM_JITTER": "2", "PROFLLM_SIM_SEED": "x",
		"PROFLLM_SIM_STARTUP": "?", "PROFLLM_SIM_ACCURACY": "-0.1", "PROFLLM_SIM_TOKENS": "bpe", "PROFLLM_SIM_FAULTS": "x",
	}))
	for _, name := range []string{"TTFT", "ITL", "JITTER", "SEED", "STARTUP", "ACCURACY", "TOKENS", "FAULTS"} {
		require.ErrorContains(t, err, "PROFLLM_SIM_"+name)
	}
}

// A client that takes a while to start meets the fault while it measures.
func TestClockBeginsWithTheFirstLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := Planted{step: Moment{by: -time.Hour, after: 500 * time.Millisecond}}
		now := f.Clock()
		time.Sleep(600 * time.Millisecond)
		began := time.Now()
		require.False(t, now().Before(began))
		time.Sleep(600 * time.Millisecond)
		require.True(t, now().Before(began))
	})
}

// of looks variables up.
func of(settings map[string]string) func(string) string {
	return func(name string) string { return settings[name] }
}

func TestMomentIsWithin(t *testing.T) {
	m := Moment{by: 10 * time.Second, after: 5 * time.Second}
	for since, left := range map[time.Duration]time.Duration{
		0: 0, 5 * time.Second: 10 * time.Second, 14 * time.Second: time.Second, 15 * time.Second: 0, time.Minute: 0,
	} {
		require.Equal(t, left, m.Within(since), since)
	}
}

func TestPaceNeedsARate(t *testing.T) {
	f := Planted{pace: 0.5}
	_, err := f.Paced([]string{"--num-prompts", "3"})
	require.ErrorContains(t, err, "needs a --request-rate")
}
