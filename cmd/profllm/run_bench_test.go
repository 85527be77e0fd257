package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/run"
)

// BenchmarkRun is what profllm run adds to an experiment: from its start to the start of the
// client, without the simulated engine's own start-up, and from the client's end to the end of
// the command, when the record is there. The aims are 0.5 s and 2 s.
func BenchmarkRun(b *testing.B) {
	const startup = time.Second
	dir := b.TempDir()
	require.NoError(b, os.WriteFile(filepath.Join(dir, "x.toml"), []byte(`client = "profllm"
[server]
model = "m"
[benchmark]
num_prompts = 80
random_input_len = 8
random_output_len = 2
`), 0o644))
	var before, after []time.Duration
	for b.Loop() {
		out := filepath.Join(dir, "results")
		cmd := command(dir, []string{"PROFLLM_SIM_STARTUP=" + startup.String()}, "run", "--simulate", "x.toml", "--output-dir", out)
		begun := time.Now()
		said, err := cmd.CombinedOutput()
		over := time.Now()
		require.NoError(b, err, "%s", said)
		dirs, err := run.Find(out)
		require.NoError(b, err)
		require.Len(b, dirs, 1)
		events, err := job.ReadEvents(dirs[0])
		require.NoError(b, err)
		for _, e := range events {
			switch e.Event {
			case job.ClientBegins:
				before = append(before, e.Time.Sub(begun)-startup)
			case job.ClientEnded:
				after = append(after, over.Sub(e.Time))
			}
		}
		require.NoError(b, os.RemoveAll(out))
	}
	slices.Sort(before)
	slices.Sort(after)
	b.ReportMetric(before[len(before)/2].Seconds(), "s-before")
	b.ReportMetric(0.5/before[len(before)/2].Seconds(), "ratio-to-0.5s")
	b.ReportMetric(after[len(after)/2].Seconds(), "s-after")
	b.ReportMetric(2/after[len(after)/2].Seconds(), "ratio-to-2s")
}
