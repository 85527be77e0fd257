package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/report"
)

const compareScenario = `name = "build"

[[Tests]]
id = "agg"
test_template_name = "vllm"
client = "profllm"
repeat = %d
  [Tests.cmd_args]
  docker_image_url = "vllm/vllm-openai:v0.32.0"
  model = "Qwen/Qwen3-8B"
  [Tests.bench_cmd_args]
  random_input_len = %d
  random_output_len = 12
  num_prompts = 10
  max_concurrency = 2
`

// rehearseBuild makes repeats of a test on an engine with that time between tokens.
func rehearseBuild(t *testing.T, dir, output, itl string, repeats, input int) {
	t.Helper()
	file := output + ".toml"
	require.NoError(t, os.WriteFile(filepath.Join(dir, file), fmt.Appendf(nil, compareScenario, repeats, input), 0o644))
	o := profllm(t, dir, []string{"PROFLLM_SIM_ITL=" + itl, "PROFLLM_SIM_TTFT=20ms", "PROFLLM_SIM_STARTUP=0s"},
		"rehearse", file, "--output-dir", output)
	require.Zero(t, o.code, o.stderr)
}

func judgement(t *testing.T, o outcome) report.Judgement {
	t.Helper()
	var r report.Report
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &r), o.stdout+o.stderr)
	require.Len(t, r.Judgements, 1)
	return r.Judgements[0]
}

// Engines of known latency: the same twice is the same, 8 % later tokens are a
// regression one way and an improvement the other, too few runs are said to be.
//
// covers: PL-Q3, PL-Q5, PL-Q15, PL-Q18, PL-V30, GEN-4
func TestCompareBuilds(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs rehearsals")
	}
	dir := t.TempDir()
	rehearseBuild(t, dir, "old", "20ms", 6, 16)
	rehearseBuild(t, dir, "same", "20ms", 6, 16)
	rehearseBuild(t, dir, "slow", "21600us", 6, 16)
	rehearseBuild(t, dir, "few", "21600us", 2, 16)
	rehearseBuild(t, dir, "other", "20ms", 1, 32)
	compare := func(args ...string) outcome { return profllm(t, dir, nil, append([]string{"compare"}, args...)...) }

	o := compare("old", "same", "--metric", "median_tpot_ms", "--output", "json")
	require.Equal(t, exitOK, o.code)
	j := judgement(t, o)
	require.Equal(t, report.Same, j.Verdict)
	require.InDelta(t, 0, *j.Metrics[0].Percent, 3)
	require.Empty(t, j.Differs)
	require.Equal(t, 1, j.First.Jobs)
	require.Len(t, j.First.Runs, 6)

	o = compare("old", "slow", "--output", "json")
	require.Equal(t, exitInvalid, o.code)
	j = judgement(t, o)
	require.Equal(t, report.Regressed, j.Verdict)
	for _, m := range j.Metrics {
		if m.Key == "median_tpot_ms" {
			require.Equal(t, report.Regressed, m.Verdict)
			require.InDelta(t, 8, *m.Percent, 2)
		}
	}
	o = compare("slow", "old", "--metric", "median_tpot_ms")
	require.Equal(t, exitOK, o.code)
	require.Contains(t, o.stdout, "== Verdict: agg (simulated): improved")
	require.Contains(t, o.stdout, "6 runs from one server start")

	o = compare("old", "few")
	require.Equal(t, exitOK, o.code, "nothing is claimed")
	require.Contains(t, o.stdout, "6 v 2: no test")
	require.Contains(t, o.stdout,
		"6 valid runs per side; missing: 0 in the first, 4 in the second")
	root, err := filepath.Glob(filepath.Join(dir, "few", "build_*"))
	require.NoError(t, err)
	command := fmt.Sprintf("profllm rehearse few/%[1]s/definitions/scenario.toml --system few/%[1]s/definitions/system.toml --output-dir few --speed 1  # times 2", filepath.Base(root[0]))
	knobs := []string{"PROFLLM_SIM_ITL=21600us", "PROFLLM_SIM_STARTUP=0s", "PROFLLM_SIM_TTFT=20ms"}
	require.Contains(t, o.stdout, "  "+strings.Join(knobs, " ")+" "+command)
	asOnSlurm(t, root[0])
	require.Contains(t, compare("old", "few").stdout,
		strings.NewReplacer("rehearse", "slurm submit", "--speed 1", "--simulate").Replace(command))
	o = profllm(t, dir, knobs,
		strings.Fields(strings.TrimPrefix(command, "profllm "))[:6]...)
	require.Zero(t, o.code, o.stderr)
	o = compare("old", "few", "--metric", "median_tpot_ms")
	require.Equal(t, exitInvalid, o.code, "with four the test has something to say")
	require.Contains(t, o.stdout, "== Verdict: agg (simulated): regressed")
	require.Contains(t, o.stdout, "4 runs from 2 server starts")
	require.Contains(t, o.stdout, "one setting differs: extra_env_vars.PROFLLM_SIM_ITL: not set against 21600us")
	o = profllm(t, dir, append(knobs[1:], "PROFLLM_SIM_ITL=22ms", "PROFLLM_SIM_SEED=2"),
		strings.Fields(strings.TrimPrefix(command, "profllm "))[:6]...)
	require.Zero(t, o.code, o.stderr)
	o = compare("old", "few", "--metric", "median_tpot_ms")
	require.Equal(t, exitInvalid, o.code, "runs of two simulated engines are not one side")
	require.Contains(t, o.stdout, "== Verdict: agg (simulated): not-comparable")
	require.Contains(t, o.stdout,
		"not comparable: extra_env_vars.PROFLLM_SIM_ITL: not set against 21600us, 22ms")

	o = compare("old", "other")
	require.Equal(t, exitInvalid, o.code)
	require.Contains(t, o.stdout, "not-comparable")
	require.Contains(t, o.stdout, "not comparable: input tokens: 16 against 32")
	require.Equal(t, exitUsage, compare("old", "same", "--metric", "speed").code)
}
