package plot_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/figure"
	"github.com/profllm/profllm/pkg/gpu"
	"github.com/profllm/profllm/pkg/plot"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/report/reporttest"
)

// job is a run with events and samples: GPUs from before the servers were ready, engines of two roles.
func job(t *testing.T, gpus int) []records.Run {
	t.Helper()
	dir := t.TempDir()
	event := func(second int, text string) string {
		return fmt.Sprintf(`{"time":"2026-01-02T03:04:%02dZ",%s}`+"\n", second, text)
	}
	reporttest.Write(t, dir+"/events.jsonl", event(10, `"event":"all-ready"`)+event(12, `"event":"client-begins","text":"bench"`)+
		event(18, `"event":"client-ended","text":"bench"`)+event(18, `"event":"client-begins","text":"eval"`)+
		event(20, `"event":"stopping"`)+`{"cut sh`)
	const base = 1767323040 // 2026-01-02T03:04:00Z
	engines := "time_s,role,running,waiting,kv_cache,generated_tokens\n"
	gpuText := gpu.Header
	for second := 5; second < 20; second++ {
		if second >= 12 {
			engines += fmt.Sprintf("%d.5,prefill,4,1,0.5,%d\n%d.5,decode,8,0,0.25,%d\n", base+second, 100*second, base+second, 300*second)
		}
		for i := range gpus {
			gpuText += fmt.Sprintf("%d,%d,GPU-%d,90,1000,%d,,1900,2600,60,\n", (base+second)*1000, i, i, 500+i)
		}
	}
	reporttest.Write(t, dir+"/telemetry/engines-bench.csv", engines+"nonsense\n")
	if gpus > 0 {
		reporttest.Write(t, dir+"/telemetry/gpu-n1.csv", gpuText)
	}
	return []records.Run{runOf(1, 4, 1, 100, 20, func(r *records.Run) { r.Dir, r.Job = dir, dir }, simulated)}
}

func TestTimeline(t *testing.T) {
	n, err := plot.Timeline(job(t, 2))
	require.NoError(t, err)
	panels := n.Figure.Panels
	require.Len(t, panels, 5)
	requests := panels[0][0].Series
	require.Equal(t, []string{"decode running", "prefill running", "decode waiting", "prefill waiting"},
		[]string{requests[0].Name, requests[1].Name, requests[2].Name, requests[3].Name})
	require.Equal(t, 2.5, requests[0].Points[0].X, "s since the servers were ready")
	require.Equal(t, 50.0, panels[1][0].Series[1].Points[0].Y)
	require.Equal(t, 300.0, panels[2][0].Series[0].Points[0].Y, "tokens per s")
	require.Equal(t, 0.0, panels[3][0].Series[0].Points[0].X, "nothing from before the servers were ready")
	require.Equal(t, requests[1].Style, panels[2][0].Series[1].Style, "a role looks the same in every panel")
	require.True(t, n.Figure.SharedX)
	require.Equal(t, 501.0, panels[4][0].Series[1].Points[0].Y)
	spans := panels[0][0].Spans
	require.Equal(t, "bench", spans[0].Name)
	require.Equal(t, 2.0, spans[0].From)
	require.Equal(t, 8.0, spans[0].To)
	require.Equal(t, 10.0, spans[1].To, "a phase that did not end lasts until the servers were stopped")
	said := texts(t, n)
	require.Contains(t, said, "Over time: night a (simulated)")
	require.Contains(t, said, "the numbers are no measurements")
	require.Contains(t, said, "Unreadable: events.jsonl has lines that cannot be read.")

	n, err = plot.Timeline(job(t, 9))
	require.NoError(t, err)
	power := n.Figure.Panels[4][0].Series
	require.Equal(t, []string{"highest and lowest of 9 GPUs", "highest and lowest of 9 GPUs", "mean"},
		[]string{power[0].Name, power[1].Name, power[2].Name})
	require.Equal(t, []float64{508, 500, 504},
		[]float64{power[0].Points[0].Y, power[1].Points[0].Y, power[2].Points[0].Y})
	n, err = plot.Timeline(job(t, 0))
	require.NoError(t, err)
	require.Contains(t, texts(t, n), "Not sampled: GPU power, GPU use.")
}

func TestTimelineRefuses(t *testing.T) {
	_, err := plot.Timeline(nil)
	require.ErrorContains(t, err, "no run of profllm")
	_, err = plot.Timeline(append(job(t, 1), job(t, 1)...))
	require.ErrorContains(t, err, "2 jobs: a timeline shows one")
	runs := job(t, 1)
	runs[0].Dir, runs[0].Job = t.TempDir(), t.TempDir()
	_, err = plot.Timeline(runs)
	require.ErrorContains(t, err, "has no samples")
	require.NotContains(t, strings.Split(err.Error(), "hint")[0], "\n\n")
}

// Where samples are missing, the line is broken, and no rate is made of what is before and behind.
func TestTimelineGaps(t *testing.T) {
	runs := job(t, 5)
	const base = 1767323040
	engines := ""
	for second := range 20 {
		if second < 12 || second > 15 {
			engines += fmt.Sprintf("%d.5,server,4,1,0.5,%d\n", base+second, 100*second)
		}
	}
	reporttest.Write(t, runs[0].Dir+"/telemetry/engines-bench.csv", engines)
	n, err := plot.Timeline(runs)
	require.NoError(t, err)
	gaps := func(s figure.Series) (at []float64) {
		for _, p := range s.Points {
			if p.Gap {
				at = append(at, p.X)
			}
		}
		return at
	}
	panels := n.Figure.Panels
	require.Equal(t, []float64{6.5}, gaps(panels[0][0].Series[0]))
	require.Equal(t, "running", panels[0][0].Series[0].Name, "one role needs no name")
	require.Equal(t, []float64{7.5}, gaps(panels[2][0].Series[0]), "the rate over the gap is unknown")
	require.Empty(t, gaps(panels[4][0].Series[0]))
	require.Contains(t, texts(t, n), "Where a line is broken, nothing was sampled, or an engine started again.")
}

// The phases of several loads are named by what tells the loads apart.
func TestTimelineNamesLoads(t *testing.T) {
	first := job(t, 1)[0]
	dir := first.Job
	event := func(second int, text string) string {
		return fmt.Sprintf(`{"time":"2026-01-02T03:04:%02dZ",%s}`+"\n", second, text)
	}
	reporttest.Write(t, dir+"/events.jsonl", event(10, `"event":"all-ready"`)+
		event(11, `"event":"client-begins","text":"1/bench"`)+event(13, `"event":"client-ended","text":"1/bench"`)+
		event(14, `"event":"client-begins","text":"2/bench"`)+event(18, `"event":"client-ended","text":"2/bench"`))
	var runs []records.Run
	for i, c := range []string{"8", "16"} {
		r := first
		r.Dir = fmt.Sprintf("%s/%d", dir, i+1)
		r.Values = []records.Setting{{Key: "bench_cmd_args.max_concurrency", Value: c}, {Key: "bench_cmd_args.num_prompts", Value: "9"}}
		runs = append(runs, r)
	}
	n, err := plot.Timeline(runs)
	require.NoError(t, err)
	spans := n.Figure.Panels[0][0].Spans
	require.Equal(t, []string{"bench 8", "bench 16"}, []string{spans[0].Name, spans[1].Name})
	require.Contains(t, texts(t, n), "2 phases of the load client, with their max_concurrency")

	runs[1].Values[0].Value = "8" // repeats
	n, err = plot.Timeline(runs)
	require.NoError(t, err)
	require.Equal(t, "1/bench", n.Figure.Panels[0][0].Spans[0].Name)
}
