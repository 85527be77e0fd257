package report_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
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

// phased writes a run whose phases have these benchmark arguments; the throughput of the i-th is 100·(i+1).
func phased(t *testing.T, phases ...map[string]any) {
	t.Helper()
	dir := root + "/s/0"
	p := planOf(dir, "s")
	one := p.Loads[0]
	p.Loads = nil
	for i, args := range phases {
		l := one
		l.Name = fmt.Sprintf("p%d", i)
		l.Dir, l.Benchmark = filepath.Join(p.Dir, l.Name), args
		p.Loads = append(p.Loads, l)
		writeRecord(t, dir+"/"+l.Name, recordOf(numbers{Throughput: float64(100 * (i + 1)), TTFT: 10}))
	}
	writePlan(t, dir, p)
}

// Phases are ranked among those with the same prompts: numbers of other lengths, or of another data set,
// are neither better nor worse.
func TestPhasesOfUnlikePrompts(t *testing.T) {
	load512 := func(concurrency int) map[string]any {
		return map[string]any{"random_input_len": 512, "max_concurrency": concurrency}
	}
	for name, c := range map[string]struct {
		phases []map[string]any
		want   string // answers
		sure   bool   // whether any is ranked
		line   string // below the table
		stars  string // of the throughput, by phase
	}{
		"alike": {[]map[string]any{load512(1), load512(4)}, "p1 has the highest throughput of the 2 phases of s:", true,
			"* marks the best of each metric, valid results only", " *"},
		"each unlike": {[]map[string]any{{"random_input_len": 128}, {"random_input_len": 512}, {"random_input_len": 512, "random_output_len": 9}},
			"p0, p1 and p2 of s are not compared: prompts differ (input tokens, output tokens).", false,
			"* marks the best of each metric among phases with the same prompts, others are not compared: prompts differ", "   "},
		"some alike": {[]map[string]any{load512(1), load512(4), {"dataset_name": "sonnet"}},
			"p1 has the highest throughput of the 2 phases of s with data=random and input tokens=512:\n" +
				"p2 of s is not compared: prompts differ (data, input tokens).", true, "others are not compared: prompts differ", " * "},
		"data sets": {[]map[string]any{{"dataset_name": "sonnet"}, {"dataset_name": "sharegpt"}},
			"p0 and p1 of s are not compared: prompts differ (data).", false, "prompts differ", "  "},
		"a prefix": {[]map[string]any{{"random_prefix_len": 64}, {"random_prefix_len": 0}},
			"p0 and p1 of s are not compared: prompts differ (random_prefix_len).", false, "prompts differ", "  "},
		"the default data set": {[]map[string]any{{"dataset_name": "random", "max_concurrency": 1}, {"max_concurrency": 4}},
			"p1 has the highest throughput of the 2 phases of s:", true, "* marks the best of each metric, valid results only", " *"},
	} {
		t.Run(name, func(t *testing.T) {
			inTemp(t)
			phased(t, c.phases...)
			rep := report.Build(load(t, root), report.Options{})
			got := said(rep, report.AskBest, report.AskResult, report.AskUnlike)
			require.Equal(t, c.want, regexp.MustCompile(` \d+ tok/s.*`).ReplaceAllString(got, ""))
			require.Equal(t, c.sure, said(rep, report.AskSure) != "")
			stars := ""
			for _, p := range rep.Phases[0].Points {
				stars += map[bool]string{true: "*", false: " "}[p.BestOf[0]]
			}
			require.Equal(t, c.stars, stars)
			var out bytes.Buffer
			require.NoError(t, format.Text(&out, rep))
			require.Contains(t, out.String(), c.line)
		})
	}
}

// The points of a sweep over the lengths are no better or worse than each other; at each length they are ranked.
func TestSweepOfLengths(t *testing.T) {
	inTemp(t)
	for i, c := range [][2]int{{128, 1}, {128, 4}, {512, 1}, {512, 4}} {
		dir := fmt.Sprintf("%s/s/0/%d", root, i+1)
		p := planOf(dir, "s")
		p.Step = i + 1
		p.Loads[0].Benchmark = map[string]any{"random_input_len": c[0], "max_concurrency": c[1]}
		p.Loads[0].Values = []plan.Assignment{{Path: "bench_cmd_args.random_input_len", Value: c[0]},
			{Path: "bench_cmd_args.max_concurrency", Value: c[1]}}
		writePlan(t, dir, p)
		writeRecord(t, dir, recordOf(numbers{Throughput: float64(100 * (i + 1)), TTFT: 10}))
	}
	rep := report.Build(load(t, root), report.Options{})
	require.Regexp(t, `random_input_len=128 max_concurrency=4 has the highest throughput of the 2 settings of s with input tokens=128: 200 .*
random_input_len=512 max_concurrency=4 has the highest throughput of the 2 settings of s with input tokens=512: 400 `,
		said(rep, report.AskBest, report.AskUnlike))
	require.Nil(t, rep.Sweeps[0].Best)
	require.Contains(t, text(t, rep), "* marks the best of each metric among points with the same prompts")
	require.Regexp(t, `512 +4 +valid +400 \*`, text(t, rep))
	require.Regexp(t, `128 +4 +valid +200 \*`, text(t, rep))
}
