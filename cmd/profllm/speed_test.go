package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/campaign"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/terminal"
)

const speedScenario = `name = "curve"

[[Tests]]
id = "agg"
test_template_name = "vllm"
  [Tests.cmd_args]
  docker_image_url = "vllm/vllm-openai:v0.32.0"
  model = "Qwen/Qwen3-8B"
  [Tests.bench_cmd_args]
  random_input_len = 64
  random_output_len = 20
  num_prompts = 40
  max_concurrency = 4
  request_rate = 4
  goodput = "ttft:1000"
`

func writeSpeed(t *testing.T, text string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(text), 0o644))
	return dir
}

// The speed divides latencies and multiplies rates; the record says so, and no verb takes
// two speeds for the same thing.
func TestRehearsalSpeed(t *testing.T) {
	t.Parallel()
	dir := writeSpeed(t, speedScenario)
	pace := []string{"PROFLLM_SIM_TTFT=100ms", "PROFLLM_SIM_ITL=40ms", "PROFLLM_SIM_STARTUP=1s"}
	o := profllm(t, dir, pace, "rehearse", "s.toml", "--output-dir", "results", "--speed", "10")
	require.Equal(t, exitOK, o.code)
	require.Contains(t, o.stderr, "rehearsal of 1 run: about ")
	require.Contains(t, o.stderr, " at speed 10: simulated times are 10 times shorter (about 13 s at --speed 1)")
	require.Contains(t, o.stdout, "(simulated 10x)")
	fast := only(t, dir)
	plan, err := run.ReadPlan(fast)
	require.NoError(t, err)
	require.Equal(t, 10, plan.Rehearsal.Speed)
	r := readResult(t, fast)
	require.Equal(t, 10, r.SimulatedSpeed)
	require.InDelta(t, 10, *r.Results.Latency[result.TTFT].Median, 5, "100 ms at speed 10")
	require.Equal(t, result.Rate(40), *r.Results.RequestRate)
	require.Equal(t, map[string]float64{"ttft": 100}, r.Config.Benchmark.Goodput)
	require.True(t, r.Validity.Valid, failed(r.Validity))

	o = profllm(t, dir, pace, "rehearse", "s.toml", "--output-dir", "slow", "--speed", "8")
	require.Equal(t, exitOK, o.code)
	slow, err := filepath.Glob(filepath.Join(dir, "slow", "*", "agg", "0"))
	require.NoError(t, err)
	o = profllm(t, dir, nil, "compare", fast, slow[0])
	require.Equal(t, exitInvalid, o.code)
	require.Contains(t, o.stderr, "is simulated 10x and")
	require.Contains(t, o.stderr, "is simulated 8x: they are never compared")
	o = profllm(t, dir, nil, "diff", fast, slow[0])
	require.Equal(t, exitInvalid, o.code)
	require.Regexp(t, `simulated speed +10x +8x`, o.stdout)
	o = profllm(t, dir, nil, "trend", fast, slow[0], "--output", "json")
	require.Contains(t, o.stdout, `"kind": "simulated 10x"`)
	require.Contains(t, o.stdout, `"kind": "simulated 8x"`)

	// A lock repeats the speed.
	o = profllm(t, dir, nil, "lock", slow[0])
	require.Equal(t, exitOK, o.code)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "run.lock"), []byte(o.stdout), 0o644))
	o = profllm(t, dir, pace, "rehearse", "run.lock", "--output-dir", "again")
	require.Equal(t, exitOK, o.code)
	require.Contains(t, o.stderr, " at speed 8: ")
}

// What nobody would obey is refused before anything is made.
func TestRehearsalRefusesWhatItCannotPlant(t *testing.T) {
	t.Parallel()
	dir := writeSpeed(t, speedScenario)
	for _, c := range []struct {
		env  string
		args []string
		code int
		says string
	}{
		{"PROFLLM_SIM_FAULTS=serv:die-at-start", nil, exitUsage, "no engine plays the role \"serv\"\n\thint: did you mean \"serve\"? known: *, client, gpu, serve"},
		{"PROFLLM_SIM_FAULTS=prefill:fail=1", nil, exitUsage, `no engine plays the role "prefill"`},
		{"PROFLLM_SIM_FAULTS=serve:die-at-strat", nil, exitUsage, "unknown fault \"die-at-strat\"\n\thint: did you mean \"die-at-start\"?"},
		{"PROFLLM_SIM_FAULTS=client:die-at-strat", nil, exitUsage, `unknown fault "die-at-strat"`},
		{"PROFLLM_SIM_FAULTS=*:freeze=1s@1s", nil, exitUsage, "*: the fault freeze acts on a client only"},
		{"PROFLLM_SIM_FAULTS=serve:exit=3", nil, exitUsage, "serve: exit alone plants nothing"},
		{"PROFLLM_SIM_FAULTS=serve=die-after:2s", nil, exitUsage, "did you mean serve:die-after=2s?"},
		{"PROFLLM_SIM_FAULTS=serve:fail=7", nil, exitUsage, `fail="7": want a number from 0 to 1`},
		{"PROFLLM_SIM_TTTF=1s", nil, exitUsage, "PROFLLM_SIM_TTTF is not a setting of the simulated engine\n\thint: did you mean \"PROFLLM_SIM_TTFT\"?"},
		{"PROFLLM_SIM_SPEED=2", nil, exitUsage, "hint: profllm rehearse --speed N"},
		{"", []string{"--speed", "0"}, exitUsage, "--speed is 0, must be from 1 to 1000"},
		{"", []string{"--gpus-per-node", "1000"}, exitUsage, "--gpus-per-node is 1000, must be from 1 to 64"},
		{"", []string{"--nodes=-1"}, exitUsage, "--nodes is -1, must be from 1 to"},
	} {
		o := profllm(t, dir, []string{c.env},
			append([]string{"rehearse", "s.toml", "--output-dir", "results"}, c.args...)...)
		require.Equal(t, c.code, o.code, c.env)
		require.Contains(t, o.stderr, c.says)
		require.NotContains(t, o.stderr, "test agg: ", "the shell has it, and no test")
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "own.toml"),
		[]byte(speedScenario+"  [Tests.extra_env_vars]\n  PROFLLM_SIM_FAULTS = \"serve:exit=3\"\n"), 0o644))
	o := profllm(t, dir, nil, "rehearse", "own.toml", "--output-dir", "results")
	require.Equal(t, exitUsage, o.code)
	require.Contains(t, o.stderr, "test agg: PROFLLM_SIM_FAULTS: serve: exit alone plants nothing")
	o = profllm(t, dir, nil, "rehearse", "--nodes", "1", "--output-dir", "results")
	require.Equal(t, exitDefinition, o.code)
	require.Contains(t, o.stderr, "test disaggregated needs 2 nodes, and --nodes says 1")
	require.NoDirExists(t, filepath.Join(dir, "results"))
}

// A server that never gets ready ends the rehearsal, whatever its test allows it.
func TestNeverReadyEnds(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for a minute")
	}
	dir := writeSpeed(t, speedScenario)
	begun := time.Now()
	o := outcomeOf(t, command(dir, []string{"PROFLLM_SIM_FAULTS=serve:never-ready"}, "rehearse", "s.toml", "--output-dir",
		"results")) // without a slot: for a minute, it does nothing
	require.Equal(t, exitJobFailed, o.code)
	require.GreaterOrEqual(t, time.Since(begun), campaign.ReadyLimit)
	require.Contains(t, o.stderr, "rehearsal of 1 run: about 62 s")
	o = profllm(t, dir, nil, "why", only(t, dir))
	require.Regexp(t, `serve was not ready at 6\d\.\d s, when its time limit ended`, o.stdout)
}

// On a terminal one line says how far the rehearsal is; what is said meanwhile goes above.
func TestProgressLine(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	l := progressLine{&terminal.StatusLine{Text: &b, Device: &b, Columns: 30}, true, time.Now}
	l.show(campaign.LocalProgress{Over: 1, Of: 3, Left: 41 * time.Second})
	const line = "1 of 3 runs over, about 41s left" // cut to fit
	require.Equal(t, line[:29], b.String())
	b.Reset()
	_, err := l.Write([]byte("a note\n"))
	require.NoError(t, err)
	require.Equal(t, "\r\x1b[Ka note\n"+line[:29], b.String())
	l.Set("")
	b.Reset()
	ended := []campaign.Ended{{Dir: "x/a/0", State: run.State{State: run.Succeeded}},
		{Dir: "x/b/0", State: run.State{State: run.Failed}}}
	l.show(campaign.LocalProgress{Over: 3, Of: 3, Ended: ended})
	require.Equal(t, "x/b/0: failed (3 of 3 runs over)\n3 of 3 runs over", b.String(),
		"only the failed run keeps a line")

	b.Reset()
	l = progressLine{&terminal.StatusLine{Text: &b, Device: &b}, false, time.Now}
	l.show(campaign.LocalProgress{Over: 1, Of: 3, Left: 41 * time.Second})
	require.Empty(t, b.String(), "a file gets no line that moves")
	l.show(campaign.LocalProgress{Over: 3, Of: 3, Ended: ended})
	require.Equal(t, "x/a/0: succeeded (3 of 3 runs over)\nx/b/0: failed (3 of 3 runs over)\n", b.String())
}
