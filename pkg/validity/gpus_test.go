package validity_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/validity"
)

// covers: PL-V33
func TestEnergy(t *testing.T) {
	g := good()
	require.Equal(t, 200_000.0, *g.r.Results.GPUEnergy, "of the planned GPUs")
	require.Equal(t, 2000.0, *g.r.Results.GPUPower)
	require.Equal(t, 4.0, *g.r.Results.JoulesPerOutputToken, "200 kJ, 50,000 tokens")
	require.Equal(t, 90.0, *g.r.System.AvgGPUUtilization)

	for name, change := range map[string]func(*run){
		"of one GPU it is not known": func(g *run) { g.gpu(2).Energy = nil },
		"of none":                    func(g *run) { g.r.System.GPUSamples.GPUs = nil },
		"no window":                  func(g *run) { g.r.System.GPUSamples.End = g.r.System.GPUSamples.Begin },
	} {
		t.Run(name, func(t *testing.T) {
			g := good()
			g.r.Results.Energy = result.Energy{}
			change(g)
			g.r.SetGPUs(g.r.System.GPUSamples)
			require.Zero(t, g.r.Results.Energy)
		})
	}
	g = good()
	g.r.Results.Energy, g.r.Results.TotalOutputTokens = result.Energy{}, new(int64(0))
	g.r.SetGPUs(g.r.System.GPUSamples)
	require.NotNil(t, g.r.Results.GPUEnergy)
	require.Nil(t, g.r.Results.JoulesPerOutputToken)
}

// What is withheld is named, and what nobody could see is said.
//
// covers: PL-V26, PL-V27, PL-V28, PL-V33
func TestGPUChecksSayWhatTheySaw(t *testing.T) {
	detail := func(change func(*run), word string) (result.Outcome, string) {
		g := good()
		change(g)
		c := validity.Judge(&g.r, g.e).Check(word)
		return c.Outcome, c.Detail
	}
	for _, c := range []struct {
		word    string
		change  func(*run)
		outcome result.Outcome
		detail  string
	}{
		{"gpu-idle", func(g *run) { g.gpu(3).Utilization = new(0.4) }, result.Fail, "n2 GPU 1 of decode was in use 0.4 % of the time (accepted from 1 %)"},
		{"gpu-idle", func(g *run) { g.gpu(4).Utilization = new(35.0) }, result.Fail, "n3 GPU 0 has no role, but was in use 35.0 % of the time (accepted 1 %)"},
		{"gpu-idle", func(*run) {}, result.Pass, "each of 4 planned GPUs was in use at least 90.0 % of the time, and no other GPU was"},
		{"gpu-idle", func(g *run) { g.gpu(0).Utilization = nil }, result.NotPossible, "the client's window has no sample of the use of 1 of 4 planned GPUs"},
		{"throttled", func(g *run) { g.gpu(0).Slowed, g.gpu(0).SlowedBy = new(0.2), []string{"hw-thermal"} }, result.Fail, "n1 GPU 0 was slowed down in 20.0 % of the samples (hw-thermal; accepted 5 %)"},
		{"throttled", func(g *run) { g.gpu(1).SMClock = new(1500.0) }, result.Fail, "SM clocks of prefill: n1 GPU 1 1500 MHz, n1 GPU 0 1800 MHz, 16.7 % apart (accepted 5 %)"},
		{"throttled", func(g *run) { g.gpu(0).Slowed = nil }, result.Pass, "slowed down in at most 0.0 % of the samples; SM clocks at most 0.0 % apart; not known for 1 of 4 planned GPUs"},
		{"mixed-hardware", func(g *run) { g.e.Hardware[3].Driver = "575" }, result.Fail, "n1 has H100, driver 570, n2 has H100, driver 575"},
		{"mixed-hardware", func(g *run) { g.e.Hardware = nil }, result.NotPossible, "the GPUs were not checked before the start"},
		{"power-gaps", func(g *run) { g.gpu(0).LongestGap, g.gpu(0).Coverage = 7, 0.93 }, result.Fail, "n1 GPU 0: longest gap 7.0 s (accepted 3 s), 93.0 % of the window covered (accepted from 95 %)"},
		{"power-gaps", func(g *run) {
			for i := range 4 {
				g.gpu(i).Energy = nil
			}
		}, result.NotPossible, "no planned GPU reported its power"},
	} {
		outcome, said := detail(c.change, c.word)
		require.Equal(t, c.outcome, outcome, c.detail)
		require.Equal(t, c.detail, said)
	}
	for reason, change := range map[string]func(*run){
		"no benchmark was planned":  func(g *run) { g.e.Planned.NoBenchmark = true },
		"no GPU was planned":        func(g *run) { g.e.Planned.GPUs = 0 },
		"n1: no NVIDIA driver":      func(g *run) { g.r.System.GPUSamples, g.e.NoGPUSamples = nil, "n1: no NVIDIA driver" },
		"the GPUs were not sampled": func(g *run) { g.r.System = nil },
	} {
		for _, word := range []string{"gpu-idle", "throttled", "power-gaps"} {
			outcome, said := detail(change, word)
			require.Equal(t, result.NotPossible, outcome)
			require.Equal(t, reason, said)
		}
	}
	g := good()
	g.gpu(0).LongestGap = 4
	v := validity.Judge(&g.r, g.e)
	require.Equal(t, []string{"gpu_energy_j", "gpu_power_w", "joules_per_output_token"}, v.Withheld)
}

// A test may accept more, or less.
//
// covers: PL-V26, PL-V27, PL-V33
func TestGPULimits(t *testing.T) {
	for key, word := range map[string]string{"gpu_use": "gpu-idle", "power_gap_s": "power-gaps"} {
		g := good()
		g.e.Limits = validity.Limits{key: 0.95}
		require.Equal(t, []string{word}, failedWords(validity.Judge(&g.r, g.e)))
	}
	g := good()
	g.gpu(4).Utilization, g.gpu(1).SMClock, g.gpu(0).Coverage = new(100.0), new(900.0), 0.5
	g.e.Limits = validity.Limits{"gpu_foreign": 1, "clock_spread": 0.6, "power_coverage": 0.4}
	require.Empty(t, failedWords(validity.Judge(&g.r, g.e)))
}
