package report_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/report/format"
)

// Settings that sweep.zip pairs are one dimension: the space is no product of both.
func TestSweepOfPairs(t *testing.T) {
	inTemp(t)
	curve(t, []int{1, 2}, 1, [2]int{1, 40}, [2]int{4, 40}, [2]int{16, 80})
	rep := report.Build(load(t, root), report.Options{})
	require.Equal(t, "s tensor_parallel_size=1 max_concurrency=4 num_prompts=40", rep.Runs[1].Label)
	require.Equal(t, 6, rep.Sweeps[0].Cost.Space)
	require.Contains(t, text(t, rep), "\n6 of 6 points tried; efficiency 1.00\n")
	require.Contains(t, text(t, rep),
		" tensor_parallel_size  max_concurrency  num_prompts  verdict  Throughput (tok/s)")

	inTemp(t)
	curve(t, []int{1, 2}, 0, [2]int{1, 40}, [2]int{4, 40}, [2]int{16, 80})
	require.Equal(t, 12, report.Build(load(t, root), report.Options{}).Sweeps[0].Cost.Space,
		"not paired: each with each")
}

// A number of prompts that follows the concurrency is shown, and is no dimension.
func TestSweepWithPromptsPerConcurrency(t *testing.T) {
	inTemp(t)
	for step, n := range []int{1, 4, 16} {
		dir := fmt.Sprintf("%s/s/0/%d", root, step+1)
		p := planOf(dir, "s")
		p.Step = step + 1
		p.Loads[0].Benchmark = map[string]any{"num_prompts": 5 * n, "max_concurrency": n}
		p.Loads[0].Values = []plan.Assignment{{Path: "bench_cmd_args.max_concurrency", Value: n}}
		writePlan(t, dir, p)
		writeRecord(t, dir, recordOf(numbers{Throughput: float64(100 * n), TTFT: 10}))
	}
	s := report.Build(load(t, root), report.Options{}).Sweeps[0]
	require.Equal(t, []records.Setting{{Key: "bench_cmd_args.max_concurrency", Value: "4"},
		{Key: "bench_cmd_args.num_prompts", Value: "20"}}, s.Points[1].Values)
	require.Equal(t, 3, s.Cost.Space)
}

// Phases of one run that differ in a setting have the table and the curve of a sweep.
func TestPhasesThatDiffer(t *testing.T) {
	inTemp(t)
	p := planOf(root+"/s/0", "s")
	p.Loads = nil
	for i, name := range []string{"quiet", "busy", "lost"} {
		n := []int{2, 16, 32}[i]
		p.Loads = append(p.Loads,
			plan.Load{Name: name, Dir: filepath.Join(p.Dir, name),
				Benchmark: map[string]any{"num_prompts": 400, "max_concurrency": n}})
		if name != "lost" {
			writeRecord(t, root+"/s/0/"+name, recordOf(numbers{Throughput: float64(100 * n), TTFT: float64(n)}))
		}
	}
	writePlan(t, root+"/s/0", p)
	rep := report.Build(load(t, root), report.Options{})
	require.Empty(t, rep.Sweeps)
	require.Len(t, rep.Phases, 1)
	out := text(t, rep)
	require.Contains(t, out, "== Phases: s\n\n phase  max_concurrency  verdict    Throughput (tok/s)")
	require.Regexp(t, `\n busy +16 +valid +1600 \*`, out)
	require.Contains(t, out, "\nBest: busy has the highest throughput of the 2 phases of s: 1600 tok/s")
	require.Less(t, strings.Index(out, "\n quiet  "), strings.Index(out, "\n busy   "), "in the order of the run")
	require.Contains(t, out, "\nlost, no record: no result.json yet")
	require.NotContains(t, out, "points tried")
	var page bytes.Buffer
	require.NoError(t, format.Page{}.Write(&page, rep))
	require.Contains(t, page.String(), ">Throughput by max_concurrency</text>")

	require.Empty(t, report.Build(load(t, root), report.Options{Without: []report.Part{report.PartSweeps}}).Phases)
}
