package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

// Each simulated run has four GPUs that a role was given, and one more on each node: it misses all checks narrowly, or
// trips one, or is told to accept what is unusual. Most faults of GPUs are among the planted ones.
//
// covers: PL-V26, PL-V27, PL-V28, PL-V33, PL-V36
func TestRehearsedGPUs(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs rehearsals")
	}
	const two = "num_nodes = 2\n[Tests.cmd_args.prefill]\n[Tests.cmd_args.decode]\n"
	cases := []struct{ word, faults, keys string }{
		{"", "use=4/0.9,use=2/1.5,heat=1/0.02,clock=1/1900,skip=0.02", ""},
		{"throttled", "use=4/0,clock=1/1850", ""},
		{"", "use=4/50,driver=127.0.1.1/7,driver=127.0.1.2/7", two + "[Tests.accept]\ngpu_foreign = 1\n"},
	}
	dir := t.TempDir()
	var text strings.Builder
	text.WriteString("name = \"gpus\"\n")
	for i, c := range cases {
		fmt.Fprintf(&text, "[[Tests]]\nid = \"t%d\"\ntest_template_name = \"vllm\"\n%s[Tests.telemetry]\ninterval_s = 0.1\n", i, c.keys)
		fmt.Fprintf(&text, "[Tests.extra_env_vars]\nPROFLLM_SIM_GPUS = \"5\"\nPROFLLM_SIM_FAULTS = %q\n",
			"gpu:"+c.faults)
		text.WriteString("[Tests.bench_cmd_args]\nmax_concurrency = 8\nnum_prompts = 40\nrandom_output_len = 20\nsave_detailed = true\n")
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(text.String()), 0o644))
	profllm(t, dir, []string{"PROFLLM_SIM_ITL=30ms"}, "rehearse", "s.toml", "--output-dir", "results")
	seen := 0
	for d, p := range runs(t, dir) {
		var i int
		_, err := fmt.Sscanf(p.Test, "t%d", &i)
		require.NoError(t, err)
		seen++
		c, r := cases[i], readResult(t, d)
		words := slices.DeleteFunc(slices.Clone(r.Validity.Words), func(w string) bool {
			return slices.Contains(chance, w)
		})
		want := []string{}
		if c.word != "" {
			want = append(want, c.word)
		}
		require.Equal(t, want, append([]string{}, words...), "%+v", c)
		requireSampled(t, d, r)
	}
	require.Equal(t, len(cases), seen)
}

// requireSampled looks for the samples of a rehearsal, which say that they are simulated.
func requireSampled(t *testing.T, dir string, r *result.Result) {
	t.Helper()
	require.True(t, r.Simulated)
	s := r.System.GPUSamples
	require.Equal(t, "client", s.From)
	require.Len(t, s.GPUs, 5*len(r.Placement.Nodes))
	require.Equal(t, "profllm sim GPU", r.System.HardwareInfo.GPU)
	data, err := os.ReadFile(filepath.Join(dir, "telemetry", "gpu-127.0.1.1.csv"))
	require.NoError(t, err)
	require.Contains(t, string(data), ",GPU-sim-127.0.1.1-0,")
	planned := float64(*r.Results.GPUs)
	require.InDelta(t, 400*planned, *r.Results.GPUPower, 0.1)
	require.InDelta(t, 400*planned**r.Results.Duration, *r.Results.GPUEnergy, 1)
	require.InDelta(t, *r.Results.GPUEnergy/800, *r.Results.JoulesPerOutputToken, 1e-3, "40 answers of 20 tokens")
}

// Without GPUs, and without being asked to have any, a rehearsal looks at none and
// misses none.
//
// covers: PL-V26
func TestRehearsedWithoutGPUs(t *testing.T) {
	t.Parallel()
	dirs, err := run.Find(rehearsedPair.made(t))
	require.NoError(t, err)
	for _, d := range dirs {
		r := readResult(t, d)
		require.Nil(t, r.System.GPUSamples)
		for _, w := range r.Warnings { // what others left on this machine is true
			require.Equal(t, result.NodeUnfit, w.Kind, "%+v", w)
			require.NotContains(t, w.Key, "gpu")
		}
		gpus, err := filepath.Glob(filepath.Join(d, "telemetry", "gpu-*"))
		require.NoError(t, err)
		require.Empty(t, gpus)
		for _, word := range []string{"gpu-idle", "throttled", "mixed-hardware", "power-gaps", "gpu-shared"} {
			require.Equal(t, result.NotPossible, r.Validity.Check(word).Outcome)
		}
		require.NotContains(t, r.Validity.Words, "files-missing")
	}
}
