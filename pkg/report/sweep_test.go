package report_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/metric"
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
			"", "   "},
		"some alike": {[]map[string]any{load512(1), load512(4), {"dataset_name": "sonnet"}},
			"p1 has the highest throughput of the 2 phases of s with data=random and input tokens=512:\n" +
				"p2 of s is not compared: prompts differ (data, input tokens).", true,
			"* marks the best valid value among phases with the same prompts. Prompts differ, so other phases are not compared.", " * "},
		"data sets": {[]map[string]any{{"dataset_name": "sonnet"}, {"dataset_name": "sharegpt"}},
			"p0 and p1 of s are not compared: prompts differ (data).", false, "", "  "},
		"a prefix": {[]map[string]any{{"random_prefix_len": 64}, {"random_prefix_len": 0}},
			"p0 and p1 of s are not compared: prompts differ (random_prefix_len).", false, "", "  "},
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
			if c.line == "" {
				require.NotContains(t, out.String(), "* marks")
			} else {
				require.Contains(t, out.String(), "\n"+c.line+"\n")
			}
		})
	}
}

// loads are options of load clients, and the fields in which the prompts of their loads differ.
var loads = map[string]struct {
	one, two map[string]any
	fields   string
}{
	"ISL":               {aiperf("isl", 128), aiperf("isl", 512), "input tokens"},
	"ISL by two names":  {aiperf("isl", 128), aiperf("synthetic_input_tokens_mean", 128), ""},
	"the usual ISL":     {aiperf("prompt_input_tokens_mean", 550), aiperf("concurrency", 4), ""},
	"ISL or the usual":  {aiperf("isl", 128), aiperf("concurrency", 4), "input tokens"},
	"spread of ISL":     {aiperf("isl_stddev", 10), aiperf("synthetic_input_tokens_stddev", 20), "prompt_input_tokens_stddev"},
	"no spread":         {aiperf("isl_stddev", 0), aiperf("concurrency", 4), ""},
	"OSL":               {aiperf("osl", 16), aiperf("output_tokens_mean", 32), "output tokens"},
	"OSL or none":       {aiperf("osl", 16), aiperf("concurrency", 4), "output tokens"},
	"spread of OSL":     {aiperf("osl_stddev", 1), aiperf("concurrency", 4), "prompt_output_tokens_stddev"},
	"public data":       {aiperf("public_dataset", "sharegpt"), aiperf("public_dataset", "aimo"), "data"},
	"a file":            {aiperf("input_file", "a.jsonl"), aiperf("input_file", "b.jsonl"), "data"},
	"kind of a file":    {aiperf("custom_dataset_type", "mooncake_trace"), aiperf("custom_dataset_type", "multi_turn"), "custom_dataset_type"},
	"endpoint":          {aiperf("endpoint_type", "completions"), aiperf("concurrency", 4), "endpoint"},
	"another endpoint":  {aiperf("endpoint_type", "embeddings"), aiperf("concurrency", 4), "endpoint"},
	"prefix":            {aiperf("prefix_prompt_length", 64), aiperf("prompt_prefix_length", 128), "prompt_prefix_length"},
	"shared prefix":     {aiperf("shared_system_prompt_length", 64), aiperf("concurrency", 4), "shared_system_prompt_length"},
	"turns":             {aiperf("session_turns_mean", 2), aiperf("conversation_turn_mean", 4), "conversation_turn_mean"},
	"images":            {aiperf("image_width_mean", 64), aiperf("concurrency", 4), "image_width_mean"},
	"load alone":        {aiperf("concurrency", 1), aiperf("concurrency", 4), ""},
	"vLLM's range":      {map[string]any{"random_input_len": 9, "random_range_ratio": 0.5}, map[string]any{"random_input_len": 9}, "random_range_ratio"},
	"vLLM's two ranges": {map[string]any{"random_range_ratio": 0.5}, map[string]any{"random_range_ratio": 0.2}, "random_range_ratio"},
	"SGLang's lengths":  {map[string]any{"random_input": 9}, map[string]any{"random_input": 8}, "input tokens"},
	"SGLang's range":    {map[string]any{"random_input": 9, "random_range_ratio": 0}, map[string]any{"random_input": 9, "random_range_ratio": 1}, "random_range_ratio"},
	"SGLang and vLLM":   {map[string]any{"random_input": 9, "random_range_ratio": 1}, map[string]any{"random_input_len": 9}, ""},
	"a data set":        {map[string]any{"dataset_name": "sonnet"}, map[string]any{"max_concurrency": 4}, "data"},
	"vLLM's prefix":     {map[string]any{"random_prefix_len": 64}, map[string]any{"max_concurrency": 4}, "random_prefix_len"},
}

// aiperf is a load of AIPerf with an option, as its plan has it.
func aiperf(option string, value any) map[string]any {
	load := map[string]any{"endpoint_type": "chat", "streaming": true}
	load[option] = value
	return load
}

// The same options tell apart the prompts of phases and of tests, under all names that the clients have for them.
func TestUnlikePromptsOfClients(t *testing.T) {
	for name, c := range loads {
		t.Run(name, func(t *testing.T) {
			inTemp(t)
			phased(t, c.one, c.two)
			of := report.Build(load(t, root), report.Options{})
			inTemp(t)
			for i, args := range []map[string]any{c.one, c.two} {
				dir := fmt.Sprintf("%s/t%d/0", root, i)
				p := planOf(dir, fmt.Sprintf("t%d", i))
				p.Loads[0].Benchmark = args
				writePlan(t, dir, p)
				writeRecord(t, dir, recordOf(numbers{Throughput: float64(100 * (i + 1)), TTFT: 10}))
			}
			tests := report.Build(load(t, root), report.Options{})
			if c.fields == "" {
				require.Empty(t, said(of, report.AskUnlike))
				require.Contains(t, said(tests, report.AskBest), "t1 has the highest throughput of the 2 tests")
				return
			}
			require.Equal(t, "p0 and p1 of s are not compared: prompts differ ("+c.fields+").", said(of, report.AskUnlike))
			require.Empty(t, said(of, report.AskBest))
			require.Equal(t, "The 2 tests are not ranked, because they differ in "+c.fields+".", said(tests, report.AskUnlike))
		})
	}
}

// AIPerf's options have all of their names here: those of a line in the list of its options have one field.
func TestNamesOfAIPerfsOptions(t *testing.T) {
	data, err := os.ReadFile("../bench/aiperf/options.txt")
	require.NoError(t, err)
	known := 0
	for line := range strings.Lines(string(data)) {
		words := strings.Fields(strings.ReplaceAll(line, "-", "_"))
		if words[0] == "#" || slices.Contains(words, "endpoint") {
			continue
		}
		fields := map[string]bool{}
		for _, name := range words[1:] {
			fields[report.FieldOf("bench_cmd_args."+name)] = true
		}
		require.Len(t, fields, 1, line)
		if !fields[""] {
			known++
		}
	}
	require.Greater(t, known, 40)
}

// Below a table without a star nothing explains one; that no valid result has the objective is said also where
// prompts differ.
func TestLineBelowPhases(t *testing.T) {
	const best = "* marks the best valid value among phases with the same prompts. Prompts differ, so other phases are not compared."
	of := func(tokens, concurrency int) map[string]any {
		return map[string]any{"random_input_len": tokens, "max_concurrency": concurrency}
	}
	alike := []map[string]any{of(8, 1), of(8, 4)}
	unlike := []map[string]any{of(8, 1), of(8, 4), of(9, 4)}
	for name, c := range map[string]struct {
		phases []map[string]any
		rates  []float64
		metric string
		want   string
	}{
		"equal":              {alike, []float64{5, 5}, "output_throughput", ""},
		"alone with prompts": {unlike[1:], []float64{5, 6}, "output_throughput", ""},
		"some alike":         {unlike, []float64{5, 6, 7}, "output_throughput", best},
		"no objective":       {alike, []float64{5, 6}, "accuracy", "no valid phase has accuracy"},
		"no objective, unlike": {unlike, []float64{5, 6, 7}, "accuracy",
			"no valid phase has accuracy"},
	} {
		t.Run(name, func(t *testing.T) {
			inTemp(t)
			phased(t, c.phases...)
			for i, x := range c.rates {
				writeRecord(t, fmt.Sprintf("%s/s/0/p%d", root, i), recordOf(numbers{Throughput: x, TTFT: 10}))
			}
			objective, err := metric.Find(c.metric)
			require.NoError(t, err)
			out := text(t, report.Build(load(t, root), report.Options{Objective: objective}))
			require.Contains(t, out, "== Phases: s")
			if c.want != "" {
				require.Contains(t, out, "\n"+c.want+"\n")
				return
			}
			require.NotContains(t, out, "marks the best")
			require.NotContains(t, out, "no valid phase")
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
	require.Contains(t, text(t, rep),
		"\n* marks the best valid value among points with the same prompts. Prompts differ, so other points are not compared.\n")
	require.Regexp(t, `512 +4 +valid +400 \*`, text(t, rep))
	require.Regexp(t, `128 +4 +valid +200 \*`, text(t, rep))
}
