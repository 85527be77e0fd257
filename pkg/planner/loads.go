package planner

import (
	"cmp"
	"fmt"
	"path"
	"strings"

	"github.com/profllm/profllm/pkg/catalog"
	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
)

// A load before its client is made.
type load struct {
	name   string
	dir    string // "" for a directory of that name in the run's
	cache  string
	keeps  bool       // a warm cache was asked for
	pos    source.Pos // of what asks for it
	bench  *source.Table
	eval   bool
	step   int
	values []plan.Assignment
	repeat *plan.Repeat

	before, after string       // shell text
	program       config.Words // of the client, in place of the test's
	stop          bool         // if it fails, nothing follows
}

// phases are the loads of a test: one, or [[Tests.phases]].
func phases(t scenario.Test) []load {
	if len(t.Phases) == 0 {
		return []load{{bench: t.BenchArgs, eval: t.EvalArgs != nil, before: t.BeforeLoad, after: t.AfterLoad,
			stop: t.StopOnFailure}}
	}
	var loads []load
	for i, p := range t.Phases {
		l := load{name: p.Name, pos: p.Pos, keeps: p.Cache == "keep", bench: source.Merge(t.BenchArgs, p.BenchArgs),
			eval:   t.EvalArgs != nil && i == len(t.Phases)-1,
			before: *cmp.Or(p.BeforeLoad, &t.BeforeLoad), after: *cmp.Or(p.AfterLoad, &t.AfterLoad),
			program: p.ClientProgram, stop: *cmp.Or(p.StopOnFailure, &t.StopOnFailure)}
		if p.Cache == "reset" {
			l.cache = plan.CacheReset
		}
		if p.Eval != nil {
			l.eval = t.EvalArgs != nil && *p.Eval
		}
		loads = append(loads, l)
	}
	return loads
}

// dirBelow is the directory of a load of the run in dir.
func (l load) dirBelow(dir string) string {
	if l.dir != "" {
		return l.dir
	}
	return path.Join(dir, l.name)
}

// repeated is every load as often as the test says, each time with a directory of
// its own below the load's. All begin with the same prefix cache. Of a series that
// may end early all are planned.
func repeated(t scenario.Test, in plan.Input, loads []load) []load {
	if t.Repeat.Times < 2 {
		return loads
	}
	var until *plan.Until
	if u := t.Repeat.Until; u != nil {
		until = &plan.Until{Percent: float64(u.Precision), Metrics: u.Metrics, Time: plan.Seconds(u.Time)}
	}
	var list []load
	for _, l := range loads {
		dir := l.dirBelow(in.Dir)
		for i := range t.Repeat.Times {
			again := l
			again.dir = path.Join(dir, fmt.Sprintf("r%d", i+1))
			again.name = strings.TrimPrefix(l.name+fmt.Sprintf(".r%d", i+1), ".")
			again.repeat = &plan.Repeat{Group: runID(in.Created, dir), Index: i, Of: t.Repeat.Times, Until: until}
			if i > 0 {
				again.cache = plan.CacheReset
			}
			list = append(list, again)
		}
	}
	return list
}

// load makes the clients of one load of the run in dir.
func (b *builder) load(t scenario.Test, l load, dir string) (plan.LoadInput, error) {
	var in plan.LoadInput
	var c source.Complaints
	if w := b.o.Serve; w != nil {
		return plan.LoadInput{Clients: []plan.Client{hold{dir: dir, time: w.For}}}, nil
	}
	if !serves(t.Template) {
		return in, nothingToMeasure(t)
	}
	var err error
	if t.BenchArgs, err = perConcurrency(t, l.bench); err != nil {
		return in, err
	}
	t.BenchArgs = unbounded(t)
	if len(l.program) > 0 {
		t.ClientProgram = l.program
	}
	in.StopOnFailure = l.stop
	if b.o.Simulated && catalog.ForImage(t) {
		l.before, l.after = "", ""
	}
	client, err := newClient(t)
	c.Add(err)
	if err == nil {
		in.Clients = append(in.Clients, begun(client, l.before))
		in.Client, in.Benchmark, in.Expect = client.Name(), client.Options(), client.Expect()
		in.Prompts, err = promptsOf(in.Benchmark)
		c.Add(err)
		if d, ok := client.(interface{ DrawsAnew() bool }); ok && d.DrawsAnew() {
			in.Prompts += l.name
		}
		sweep := ""
		if l.step > 0 {
			sweep = path.Dir(b.stepDir(t, l.step))
		}
		c.Add(searched(t, sweep, &in))
	}
	if l.eval {
		eval, err := catalog.NewEval(t, b.o.Simulated)
		c.Add(err)
		in.Clients = append(in.Clients, eval)
		in.Expect.Accuracy = true
	}
	if l.after != "" {
		in.Clients = append(in.Clients, after{l.after})
	}
	return in, c.Err()
}
