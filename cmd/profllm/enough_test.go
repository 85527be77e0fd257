package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/result"
)

const seriesScenario = `name = "series"

[[Tests]]
id = "r"
test_template_name = "vllm"
client = "profllm"
time_limit = "10m"
repeat = { %s }
  [Tests.cmd_args]
  docker_image_url = "vllm/vllm-openai:v0.32.0"
  model = "Qwen/Qwen3-8B"
  [Tests.bench_cmd_args]
  random_input_len = 16
  random_output_len = 12
  num_prompts = 10
  max_concurrency = 2
`

// longRequests makes a request take so long that what a busy client adds to it is little.
var longRequests = []string{"PROFLLM_SIM_STARTUP=0s", "PROFLLM_SIM_ITL=15ms"}

// rehearseSeries rehearses repeats that go on until something holds, and returns the
// run directory.
func rehearseSeries(t *testing.T, dir, name, until string) string {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name+".toml"), fmt.Appendf(nil, seriesScenario, until), 0o644))
	o := profllm(t, dir, longRequests, "rehearse", name+".toml", "--output-dir", name)
	require.Zero(t, o.code, o.stderr)
	dirs, err := filepath.Glob(filepath.Join(dir, name, "series_*", "r", "0"))
	require.NoError(t, err)
	require.Len(t, dirs, 1)
	return dirs[0]
}

// One start of the server, and as many repeats as it takes: the job itself asks
// whether another is needed. What did not run has no record and is missed by nobody.
//
// covers: PL-Q14
func TestRepeatsEndByThemselves(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs rehearsals")
	}
	for name, c := range map[string]struct {
		until   string
		done    int
		stopped string
	}{
		"precise":  {`precision = "50%", max = 9`, 6, result.Precise},
		"hopeless": {`precision = "0.00000001%", metrics = ["median_tpot_ms", "throughput"]`, 6, result.Hopeless},
		"time":     {`precision = "50%", time = "1s"`, 1, result.OutOfTime},
		"max":      {`precision = "0.00000001%", max = 6`, 6, result.AllRan},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			at := rehearseSeries(t, dir, name, c.until)
			records, err := filepath.Glob(filepath.Join(at, "r*", "result.json"))
			require.NoError(t, err)
			require.GreaterOrEqual(t, len(records), c.done)
			if c.stopped != result.OutOfTime { // how many fit depends on the machine
				require.Len(t, records, c.done)
			}
			r := readResult(t, filepath.Join(at, "r1"))
			s := r.Repeats.Series
			require.True(t, r.Simulated)
			require.Equal(t, c.stopped, s.Stopped)
			require.Equal(t, len(records), s.Done)
			require.Equal(t, s.SavedRepeats > 0, s.SavedNodeMinutes > 0)
			o := profllm(t, dir, nil, "report", at)
			require.Zero(t, o.code)
			require.NotContains(t, o.stdout, "no record")
			if s.Done > 1 {
				require.Contains(t, o.stdout, fmt.Sprintf("r (simulated): %d repeats, to know the median of", s.Done))
				require.Contains(t, o.stdout, "stopped: "+c.stopped)
			}
			if c.stopped == result.AllRan {
				return
			}
			require.Equal(t, r.Repeats.Of-s.Done, s.SavedRepeats)
			if s.Done > 1 {
				require.Contains(t, o.stdout, fmt.Sprintf("saved %d repeats, ", s.SavedRepeats))
			}
			events, err := job.ReadEvents(at)
			require.NoError(t, err)
			ends := 0
			for _, e := range events {
				if e.Event == job.RepeatsEnd {
					ends++
				}
			}
			require.Equal(t, 1, ends)
			o = profllm(t, dir, nil, "collect", filepath.Dir(filepath.Dir(at)))
			require.Zero(t, o.code)
			require.Equal(t, len(records), strings.Count(o.stdout, "valid (simulated)"))
		})
	}
}

// The plan says what repeats may come to, and a metric that nobody knows is refused.
func TestRepeatsArePlanned(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "s.toml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, seriesScenario, `precision = "2%", max = 12, time = "8m"`),
		0o644))
	o := profllm(t, dir, nil, "slurm", "dry-run", "--simulate", "s.toml")
	require.Zero(t, o.code)
	require.Contains(t, o.stdout,
		"# r: repeats until the median of output_throughput is known to ±2 %: 6 at least, 12 at most, no repeat that would end after 8m0s\n"+
			"# the job's time limit is 10m0s on 1 node, 0.2 node-hours; all repeats have to fit into it\n")
	require.Equal(t, 11, strings.Count(o.stdout, `"$PROFLLM" job enough --run "$RUN"`))

	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, seriesScenario, `precision = "2%", metrics = ["trouhgput"]`),
		0o644))
	o = profllm(t, dir, nil, "slurm", "dry-run", "--simulate", "s.toml")
	require.Equal(t, exitDefinition, o.code)
	require.Contains(t, o.stderr, `s.toml:8:41: test "r": repeat.metrics: unknown metric "trouhgput"`)

	var stderr bytes.Buffer
	a := &app{stdout: &stderr, stderr: &stderr, now: time.Now}
	require.Error(t, jobEnoughCmd{runFlag{dir}, "r2"}.Run(a),
		"what cannot be found out is no reason to leave a repeat out")
}

// Each point of a sweep has a series of its own, and what did not run of it is no
// failure of the point.
//
// covers: PL-Q14
func TestRepeatsOfPoints(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs rehearsals")
	}
	dir := t.TempDir()
	text := strings.Replace(fmt.Sprintf(seriesScenario, `precision = "50%", max = 8`), "max_concurrency = 2",
		"max_concurrency = [1, 2]", 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(text), 0o644))
	o := profllm(t, dir, longRequests, "rehearse", "s.toml", "--output-dir", "results")
	require.Zero(t, o.code, o.stderr)
	require.Equal(t, 12, strings.Count(o.stdout, "valid (simulated)"))
	tables, err := filepath.Glob(filepath.Join(dir, "results", "series_*", "r", "0", "sweep.csv"))
	require.NoError(t, err)
	require.Len(t, tables, 1)
	table, err := os.ReadFile(tables[0])
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(string(table), ",passed"), string(table))
	groups := map[string]bool{}
	records, err := filepath.Glob(filepath.Join(dir, "results", "series_*", "r", "0", "*", "r*", "result.json"))
	require.NoError(t, err)
	require.Len(t, records, 12)
	for _, file := range records {
		x := readResult(t, filepath.Dir(file)).Repeats
		require.Equal(t, 6, x.Series.Done)
		require.Equal(t, 2, x.Series.SavedRepeats)
		groups[x.Group] = true
	}
	require.Len(t, groups, 2)
}
