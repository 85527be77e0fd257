package planner

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/profllm/profllm/pkg/catalog"
	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/search"
	"github.com/profllm/profllm/pkg/search/runner"
	"github.com/profllm/profllm/pkg/source"
)

// searching is a load client that `profllm bench search` starts for each load.
type searching struct {
	client catalog.LoadClient
	search *scenario.Search
	rivals string // folder of the points of the sweep, if they compete
}

// unbounded are the arguments of a load whose rate is searched for: requests in flight are as many as
// the rate makes, unless the test bounds them. The default of the clients would be the edge instead.
func unbounded(t scenario.Test) *source.Table {
	if t.Search == nil || t.Search.Load() != runner.Rate || !catalog.ByVLLMs(t) || t.BenchArgs.Has(maxConcurrency) {
		return t.BenchArgs
	}
	args := source.NewTable(t.Pos)
	if t.BenchArgs != nil {
		args = t.BenchArgs.Without()
	}
	args.Set(maxConcurrency, &source.Value{Pos: args.Pos, Any: "none"})
	return args
}

// searched has the load of a test searched for, if the test says so. sweep is the folder of the points of
// the test's sweep, "" if there is none.
func searched(t scenario.Test, sweep string, in *plan.LoadInput) error {
	if t.Search == nil {
		return nil
	}
	if !catalog.ByVLLMs(t) {
		return source.Errorf(t.PosOf("search"), "test %q: a search needs vLLM's client or profllm's", t.ID).
			Hintf(`write client = "profllm"`)
	}
	if t.BenchArgs.Has("processes") {
		return source.Errorf(t.BenchArgs.PosOf("processes"), "test %q: the client of a search is one process", t.ID).
			Hintf("remove bench_cmd_args.processes")
	}
	keys := t.Table.Table("search")
	if t.Search.StopLosers && sweep == "" {
		return source.Errorf(keys.PosOf("stop_losers"), "test %q: search.stop_losers needs a sweep, whose points compete", t.ID).
			Hintf("remove stop_losers, or write several values of a key in a list")
	}
	span := search.Span{Min: t.Search.Min, Max: t.Search.Max, Step: t.Search.Resolution}
	goal := search.Goal{Span: span, Start: t.Search.Start, AtLeast: t.Search.AtLeast}
	if err := runner.Check(t.Search.Load(), goal); err != nil {
		pos := t.PosOf("search")
		if at := new(runner.GoalError); errors.As(err, &at) {
			pos = keys.PosOf(at.Key)
		}
		return source.Errorf(pos, "test %q: search.%v", t.ID, err)
	}
	for i, text := range t.Search.Limits {
		_, err := metric.ReadLimit(text)
		if of := new(source.Error); errors.As(err, &of) {
			return source.Errorf(keys.ElementPos("limits", i), "search.limits: %s", of.Msg).Hintf("%s", of.Hint)
		} else if err != nil {
			return source.Errorf(keys.ElementPos("limits", i), "search.limits: %v", err)
		}
	}
	last := len(in.Clients) - 1
	client := searching{client: in.Clients[last].(catalog.LoadClient), search: t.Search}
	if in.Beside = t.Search.StopLosers; in.Beside {
		client.rivals = sweep
	}
	in.Clients[last] = client
	in.Expect.NumPrompts, in.Expect.Concurrency, in.Expect.RequestRate = 0, 0, 0
	in.Benchmark = maps.Clone(in.Benchmark)
	delete(in.Benchmark, numPrompts)
	delete(in.Benchmark, t.Search.Load())
	return nil
}

// Command implements plan.Client.
func (s searching) Command(t plan.Target) (plan.Step, error) {
	step, err := s.client.Command(t)
	if err != nil {
		return step, err
	}
	argv := slices.Concat([]plan.Word{plan.Self()}, plan.Texts("bench", "search", "--variable", s.search.Load()))
	for _, l := range s.search.Limits {
		argv = append(argv, plan.Texts("--limit", l)...)
	}
	number := func(flag string, v float64) {
		if v != 0 {
			argv = append(argv, plan.Texts(flag, strconv.FormatFloat(v, 'g', -1, 64))...)
		}
	}
	number("--min", s.search.Min)
	number("--max", s.search.Max)
	number("--resolution", s.search.Resolution)
	number("--start", s.search.Start)
	number("--tolerance", float64(s.search.Tolerance))
	number("--probes", float64(s.search.Probes))
	number("--at-least", s.search.AtLeast)
	if s.rivals != "" {
		argv = append(argv, plan.Texts("--rivals", s.rivals)...)
		if t.GPUs > 0 {
			argv = append(argv, plan.Texts("--gpus", strconv.Itoa(t.GPUs))...)
		}
	}
	if s.search.Time > 0 {
		argv = append(argv, plan.Texts("--time", time.Duration(s.search.Time).String())...)
	}
	if s.client.Name() == "profllm bench serve" {
		step.Argv = append(argv, step.Argv[3:]...) // without profllm bench serve
		return step, nil
	}
	argv = append(argv, plan.Texts("--result-dir", t.Dir, "--")...)
	step.Argv = append(argv, step.Argv...)
	return step, nil
}
