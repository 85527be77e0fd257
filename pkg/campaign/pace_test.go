package campaign

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/run"
)

// rehearsed plans a scenario and sets its speed; it returns what was said.
func rehearsed(t *testing.T, text string, speed int, environ ...string) (*Planned, string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "s.toml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	var said bytes.Buffer
	c := &Client{
		Environ: environ, WorkDir: dir, Executable: "/opt/profllm", Version: "v0", Now: time.Now, Uptime: run.Uptime,
		Events: heard{&said},
	}
	p, err := c.Plan(context.Background(), file, Options{Simulate: true, OutputDir: dir})
	require.NoError(t, err)
	_, err = c.setSpeed(p, speed)
	require.NoError(t, err)
	return p, said.String()
}

const longCurve = `name = "curve"
[[Tests]]
id = "agg"
test_template_name = "vllm"
  [Tests.cmd_args]
  docker_image_url = "vllm/vllm-openai:v0.32.0"
  model = "Qwen/Qwen3-8B"
  [Tests.bench_cmd_args]
  random_input_len = 512
  random_output_len = 128
  max_concurrency = [1, 2, 4, 8, 16, 32, 64]
  num_prompts = 320
`

const short = `name = "short"
[[Tests]]
id = "agg"
test_template_name = "vllm"
  [Tests.cmd_args]
  docker_image_url = "vllm/vllm-openai:v0.32.0"
  model = "Qwen/Qwen3-8B"
  [Tests.bench_cmd_args]
  random_output_len = 50
  max_concurrency = 10
  num_prompts = 100
[[Tests]]
id = "sleep"
test_template_name = "Sleep"
  [Tests.cmd_args]
  seconds = 7
`

// The speed is chosen so that a scenario takes about a minute, and at least 1.
func TestSpeedIsChosen(t *testing.T) {
	p, said := rehearsed(t, longCurve, 0)
	// 320 requests of 2.59 s, 1 to 64 at a time, are 27.4 minutes.
	require.Equal(t, 33, p.Runs[0].Plan.Rehearsal.Speed)
	require.Equal(t, "rehearsal of 1 run: about 60 s at speed 33: simulated times are 33 times shorter (about 28 minutes at --speed 1)\n", said)

	p, said = rehearsed(t, longCurve, 500)
	require.Equal(t, 500, p.Runs[0].Plan.Rehearsal.Speed)
	require.Contains(t, said, "at speed 500: ")

	// 10 rounds of 50 ms and 49 times 20 ms, a start, a sleep of 7 s: the sleep is real.
	p, said = rehearsed(t, short, 0)
	require.Equal(t, 1, p.Runs[0].Plan.Rehearsal.Speed)
	require.Equal(t, "rehearsal of 2 runs: about 22 s\n", said)
	_, said = rehearsed(t, short, 10)
	require.Contains(t, said, "about 12 s at speed 10")
}

// Where nothing is simulated, or real time alone takes more than a minute, the speed is
// still one that can be.
func TestSpeedOfRealTime(t *testing.T) {
	require.Equal(t, 1, chosenSpeed(cost{real: 5 * time.Minute}))
	require.Equal(t, 1, chosenSpeed(cost{simulated: 10 * time.Second, real: 5 * time.Minute}))
	require.Equal(t, 4, chosenSpeed(cost{simulated: time.Minute, real: 5 * time.Minute}))
	require.Equal(t, 100, chosenSpeed(cost{simulated: 24 * time.Hour}))
}

// A fault that is a time keeps its meaning for the checks, unless a speed is asked for.
func TestSpeedOfTimedFaults(t *testing.T) {
	p, said := rehearsed(t, longCurve, 0, "PROFLLM_SIM_FAULTS=serve:fail=0.1,stall=10s@5s;client:die-after=3s")
	require.Equal(t, 1, p.Runs[0].Plan.Rehearsal.Speed)
	require.Contains(t, said, "note: a planted fault is a time (die-after, stall), so the rehearsal runs at speed 1\n\thint: --speed N")
	p, _ = rehearsed(t, longCurve, 0, "PROFLLM_SIM_FAULTS=serve:fail=0.1")
	require.Equal(t, 33, p.Runs[0].Plan.Rehearsal.Speed)
	p, said = rehearsed(t, short, 0, "PROFLLM_SIM_FAULTS=serve:stall=10s@5s")
	require.Equal(t, 1, p.Runs[0].Plan.Rehearsal.Speed)
	require.NotContains(t, said, "note:", "it is short anyway")
}

// The readiness limit is a minute beyond the simulated start, and never above the test's.
func TestReadyLimitOfRehearsals(t *testing.T) {
	p, _ := rehearsed(t, longCurve, 10, "PROFLLM_SIM_STARTUP=100s")
	plan := p.Runs[0].Plan
	require.Equal(t, 70*time.Second, plan.ReadyLimit(&plan.Roles[0]))
	role := plan.Roles[0]
	role.Timeout = 5e9
	require.Equal(t, 5*time.Second, plan.ReadyLimit(&role))
	_, said := rehearsed(t, short, 0, "PROFLLM_SIM_FAULTS=serve:never-ready")
	require.Contains(t, said, "about 71 s", "a minute, and the sleep")
}

// Left time counts down, and is corrected by how long earlier runs took.
func TestTimeLeft(t *testing.T) {
	now := time.Unix(0, 0)
	costs := map[string]time.Duration{"a": 10 * time.Second, "b": 20 * time.Second}
	var last LocalProgress
	c := newClock(func() time.Time { return now }, func(p LocalProgress) { last = p }, costs)
	c.begun = now
	now = now.Add(4 * time.Second)
	require.Equal(t, LocalProgress{Of: 2, Left: 26 * time.Second, Running: []string{"a"}}, c.progress([]string{"a"}))
	now = now.Add(16 * time.Second)
	require.Equal(t, 20*time.Second, c.progress([]string{"a"}).Left, "late, and b is still to come")
	c.end([]string{"a"}, map[string]run.State{"a": {State: run.Failed}})
	require.Equal(t, LocalProgress{Over: 1, Of: 2, Left: 40 * time.Second,
		Ended: []Ended{{"a", run.State{State: run.Failed}}}}, last)
}
