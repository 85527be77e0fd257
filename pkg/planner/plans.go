package planner

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/apicheck"
	"github.com/profllm/profllm/pkg/bench/aiperf"
	"github.com/profllm/profllm/pkg/catalog"
	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/sweep"
	"github.com/profllm/profllm/pkg/validity"
)

// Options is what a plan needs beside the definitions. The same Options and
// files give the same plans.
type Options struct {
	Version   string
	Created   time.Time // also names the scenario's directory
	Output    string    // parent of the scenario's directory, absolute
	Binary    string    // profllm on the nodes, absolute
	WorkDir   string    // what relative paths of the site file mean, absolute
	Simulated bool      // rehearse: a simulated engine, without containers
	Launcher  string    // overrides every launcher, "" for none
	// ImageLauncher is the launcher of a test that names an image, where nobody chooses one; "" is
	// pyxis, or on a machine without a scheduler bare.
	ImageLauncher string
	Single        bool   // everything in one allocation, one run after the other
	Serve         *Serve // only servers, without a client; nil: everything

	// Images are the staged files that were found, by path (see Site). A plan uses one
	// in place of its image.
	Images map[string]plan.Staged

	Inventory plan.Inventory // states of the nodes, for node groups; nil: nobody asked Slurm

	// History is the results so far of the tests' sweeps, by test id.
	History map[string][]sweep.Observed
}

// Set is the content of one submission of a scenario.
type Set struct {
	Plans   []*plan.Plan
	Batches []*plan.Batch // of plans that are not submitted by themselves
	Skipped []Skipped
}

// Skipped is a point of a sweep that cannot work.
type Skipped struct {
	Test   string
	Step   int
	Label  string // what the sweep chose
	Values []plan.Assignment
	Err    error
}

// Root is the directory of one scenario execution.
func Root(s *scenario.Scenario, o Options) string {
	return Execution(s.Name, o)
}

// Execution is the directory of what is executed under a name.
func Execution(name string, o Options) string {
	return path.Join(o.Output, name+"_"+o.Created.Format("2006-01-02_15-04-05"))
}

// Plans plans every test, iteration and point of a sweep, in order. The
// complaints of all tests are returned together. A point of a sweep that cannot
// work is left out, as long as another can.
func Plans(s *scenario.Scenario, sys *config.System, o Options) (*Set, error) {
	if o.Serve != nil {
		var err error
		if s, err = o.Serve.served(s); err != nil {
			return nil, err
		}
	}
	b := builder{scenario: s, system: sys, o: o, root: Root(s, o), first: map[string][]string{},
		last: map[string][]string{}, taken: map[string]bool{}}
	var c source.Complaints
	for i := range s.Tests {
		t := s.Tests[b.order(i)]
		plans, err := b.test(t)
		c.Add(err)
		b.set.Plans = append(b.set.Plans, plans...)
	}
	if c.Err() == nil {
		b.setEndsWith()
		c.Add(b.batches())
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	for _, p := range b.set.Plans {
		p.Notes = slices.Concat(s.Warnings, b.warnings, p.Notes)
	}
	return &b.set, nil
}

// builder makes the plans of one scenario.
type builder struct {
	scenario *scenario.Scenario
	system   *config.System
	o        Options
	root     string
	set      Set
	taken    map[string]bool // hosts that earlier runs chose
	warnings []string
	queue    []int               // tests in an order in which none comes before one it waits for
	first    map[string][]string // test id → directories of the runs that start first
	last     map[string][]string // test id → directories of the runs after which the test is over
}

// order returns the index of the i-th test to plan.
func (b *builder) order(i int) int {
	if b.queue == nil {
		index, seen := map[string]int{}, map[string]bool{}
		for j, t := range b.scenario.Tests {
			index[t.ID] = j
		}
		var visit func(id string)
		visit = func(id string) {
			j, ok := index[id]
			if !ok || seen[id] {
				return
			}
			seen[id] = true
			for _, d := range b.scenario.Tests[j].Dependencies {
				if d.Type != scenario.EndPostComp {
					visit(d.ID)
				}
			}
			b.queue = append(b.queue, j)
		}
		for _, t := range b.scenario.Tests {
			visit(t.ID)
		}
	}
	return b.queue[i]
}

// test plans one test: its iterations, or the points of its sweep.
func (b *builder) test(t scenario.Test) ([]*plan.Plan, error) {
	before := maps.Clone(b.taken) // iterations follow each other, and may have the same nodes
	after := b.waits(t)
	points, dims, err := b.points(t)
	if err != nil {
		return nil, err
	}
	if points != nil {
		plans, err := b.sweep(t, points, dims, after)
		b.first[t.ID], b.last[t.ID] = dirs(plans), dirs(plans)
		return plans, err
	}
	var plans []*plan.Plan
	for i := range t.Iterations {
		in := b.input(t, path.Join(b.root, t.ID, fmt.Sprint(i)))
		in.Iteration, in.After, in.Taken = i, after, before
		if i > 0 {
			in.After = []plan.After{{Type: b.dependencyType(), Dir: plans[i-1].Dir}}
		}
		p, err := b.run(t, in, phases(t))
		if err != nil {
			return plans, err
		}
		plans = append(plans, p)
	}
	b.first[t.ID], b.last[t.ID] = dirs(plans[:1]), dirs(plans[len(plans)-1:])
	return plans, nil
}

func dirs(plans []*plan.Plan) []string {
	list := make([]string, len(plans))
	for i, p := range plans {
		list[i] = p.Dir
	}
	return list
}

// dependencyType is Slurm's word for "when that job is over": a failed run ends what waits
// for it, unless the scenario says otherwise.
func (b *builder) dependencyType() string {
	if b.scenario.GoOn {
		return "afterany"
	}
	return "afterok"
}

// waits translates a test's dependencies that say when it starts.
func (b *builder) waits(t scenario.Test) []plan.After {
	var after []plan.After
	for _, d := range t.Dependencies {
		switch d.Type {
		case scenario.StartPostComp:
			for _, dir := range b.last[d.ID] {
				after = append(after, plan.After{Type: b.dependencyType(), Dir: dir})
			}
		case scenario.StartPostInit:
			for _, dir := range b.first[d.ID] {
				after = append(after, plan.After{Type: "after", Dir: dir})
			}
		}
	}
	return after
}

// setEndsWith says which runs end with others. That is no order, so it is known only
// when every test is planned: the runs of a sweep are those of its points.
func (b *builder) setEndsWith() {
	dirs := map[string][]string{}
	for _, t := range b.scenario.Tests {
		for _, d := range t.Dependencies {
			if d.Type == scenario.EndPostComp {
				dirs[t.ID] = append(dirs[t.ID], b.last[d.ID]...)
			}
		}
	}
	for _, p := range b.set.Plans {
		p.Job.Until = dirs[p.Test]
	}
}

func (b *builder) input(t scenario.Test, dir string) plan.Input {
	o := b.o
	return plan.Input{
		System: b.system, Scenario: b.scenario.Name, Test: t, Limit: b.scenario.Limit(t), Dir: dir,
		RunID:   runID(o.Created, dir),
		Version: o.Version, Created: o.Created, Binary: o.Binary, WorkDir: o.WorkDir, Simulated: o.Simulated,
		Inventory: o.Inventory, Taken: b.taken,
	}
}

// runID is unique as long as the directory is: the directory is created
// exclusively before anything is submitted.
func runID(created time.Time, dir string) string {
	return fmt.Sprintf("exp_%s_%.3x", created.Format("20060102_150405"), sha256.Sum256([]byte(dir)))
}

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
}

// phases are the loads of a test: one, or [[Tests.phases]].
func phases(t scenario.Test) []load {
	if len(t.Phases) == 0 {
		return []load{{bench: t.BenchArgs, eval: t.EvalArgs != nil}}
	}
	var loads []load
	for i, p := range t.Phases {
		l := load{name: p.Name, pos: p.Pos, keeps: p.Cache == "keep", bench: source.Merge(t.BenchArgs, p.BenchArgs),
			eval: t.EvalArgs != nil && i == len(t.Phases)-1}
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

// run plans one run with its hooks.
func (b *builder) run(t scenario.Test, in plan.Input, loads []load) (*plan.Plan, error) {
	var c source.Complaints
	loads = repeated(t, in, loads)
	for _, l := range loads {
		dir := l.dirBelow(in.Dir)
		id := in.RunID
		if dir != in.Dir {
			id = runID(in.Created, dir)
		}
		load, err := b.load(t, l, in.Dir)
		c.Add(err)
		load.Name, load.Dir, load.RunID, load.Cache, load.Keeps, load.Pos = l.name, dir, id, l.cache, l.keeps, l.pos
		load.Step, load.Values, load.Repeat = l.step, l.values, l.repeat
		in.Loads = append(in.Loads, load)
	}
	var err error
	in.PreTest, err = b.hooks(b.scenario.PreTest, path.Join(in.Dir, "pre_test"))
	c.Add(err)
	in.PostTest, err = b.hooks(b.scenario.PostTest, path.Join(in.Dir, "post_test"))
	c.Add(err)
	p, err := b.make(t, in)
	c.Add(err)
	if p != nil {
		if w := b.o.Serve; w != nil {
			p.Serve = &plan.Serve{For: plan.Seconds(w.For)}
		}
		c.Add(p.Sound()) // whoever reads the plan asks for it
		if note := unsteady(t, loads, in.Loads); note != "" {
			p.Notes = append(p.Notes, note)
		}
		for _, host := range p.Job.NodeList {
			b.taken[host] = !b.o.Single // in one allocation all runs have the same nodes
		}
		for _, h := range slices.Concat(p.PreTest, p.PostTest) {
			if h.Plan.Job.Nodes > p.Job.Nodes {
				c.Addf(t.PosOf("num_nodes"), "test %q has %s, but its hook %q needs %d", t.ID,
					quantity.Count(p.Job.Nodes, "node"), h.Name, h.Plan.Job.Nodes)
			}
			// its steps take processors of this job
			p.Job.NTasksPerNode = max(p.Job.NTasksPerNode, h.Plan.Job.NTasksPerNode)
		}
	}
	return p, c.Err()
}

// unsteady says which loads are so short that their results will be called
// no-steady-state, at the place of the first; "" for none. made are the loads as
// they are planned.
func unsteady(t scenario.Test, loads []load, made []plan.LoadInput) string {
	const most = 3 // a sweep may have hundreds
	var pos source.Pos
	var said []string
	for i, l := range made {
		e := l.Expect
		least := validity.Limits(t.Accept).SteadyFrom(e.Concurrency)
		if e.Concurrency == 0 || e.RequestRate > 0 || e.NumPrompts == 0 || e.NumPrompts >= least {
			continue
		}
		count, _ := loadKeys(t, loads[i].bench)
		text := fmt.Sprintf("%d requests, %d at a time (%s = %d or more is accepted)", e.NumPrompts,
			e.Concurrency, count, least)
		if slices.Contains(said, text) {
			continue
		}
		if said = append(said, text); len(said) == 1 {
			pos = t.Pos
			if loads[i].bench != nil {
				pos = loads[i].bench.PosOf(count)
			}
		}
	}
	if len(said) == 0 {
		return ""
	}
	if n := len(said) - most; n > 0 {
		said = append(said[:most], fmt.Sprintf("%d more", n))
	}
	return fmt.Sprintf("%s: the results will be no-steady-state: %s", pos, strings.Join(said, ", "))
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
	client, err := newClient(t)
	c.Add(err)
	if err == nil {
		in.Clients = append(in.Clients, client)
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
		eval, err := catalog.NewEval(t)
		c.Add(err)
		in.Clients = append(in.Clients, eval)
		in.Expect.Accuracy = true
	}
	if t.AfterLoad != "" {
		in.Clients = append(in.Clients, after{t.AfterLoad})
	}
	return in, c.Err()
}

// apiCheck names the checks of the API that gate the loads of a test.
func apiCheck(t scenario.Test) ([]string, error) {
	if !t.APICheck.On {
		return nil, nil
	}
	if isTool(t.Template) {
		return nil, source.Errorf(t.PosOf("api_check"), "test %q: a %s test serves nothing, so api_check has no effect",
			t.ID, t.Template).Hintf("remove it")
	}
	checks, err := apicheck.Select(t.APICheck.Only)
	if err != nil {
		return nil, fmt.Errorf("%s: api_check: %w", t.PosOf("api_check"), err)
	}
	var names []string
	for _, c := range checks {
		names = append(names, c.Name)
	}
	return names, nil
}

// serves reports whether a workload is a service that a client measures.
func serves(template string) bool {
	_, _, ok := catalog.Find(catalog.Workloads, template)
	return ok
}

// isTool reports whether a workload is known to serve nothing.
func isTool(template string) bool {
	_, _, ok := catalog.Find(catalog.Tools, template)
	return ok
}

// nothingToMeasure refuses what asks for a service in a test that has none. It says nothing
// of a workload that profllm does not know: workload refuses that.
func nothingToMeasure(t scenario.Test) error {
	var c source.Complaints
	if !isTool(t.Template) {
		return nil
	}
	for _, s := range []struct {
		key   string
		table *source.Table
	}{{"bench_cmd_args", t.BenchArgs}, {"semantic_eval_cmd_args", t.EvalArgs}} {
		if s.table != nil {
			c.Add(source.Errorf(s.table.Pos, "test %q: a %s test serves nothing, so %s has no effect", t.ID, t.Template,
				s.key).Hintf("remove it"))
		}
	}
	if t.AfterLoad != "" {
		c.Add(source.Errorf(t.PosOf("after_load"), "test %q: a %s test serves nothing, so after_load has no effect",
			t.ID, t.Template).Hintf("remove it"))
	}
	if t.Client != "" {
		c.Add(source.Errorf(t.PosOf("client"), "test %q: a %s test serves nothing, so client = %q has no effect", t.ID,
			t.Template, t.Client).Hintf("remove it"))
	}
	if t.ClientNodes != 0 {
		c.Add(source.Errorf(t.PosOf("client_nodes"), "test %q: a %s test serves nothing, so client_nodes has no effect",
			t.ID, t.Template).Hintf("remove it"))
	}
	return c.Err()
}

// notRun says why a test has no plan.
func notRun(t scenario.Test) error {
	note, err := catalog.Template(&t)
	if note == "" {
		return err
	}
	return source.Errorf(t.PosOf("test_template_name"), "test %q: the workload %s is not supported yet", t.ID,
		t.Template).
		Hintf("remove the test, or run its command as a SlurmContainer or BashCmd test; profllm supports %s",
			strings.Join(catalog.Runnable(), ", "))
}

// workload makes the workload of a test.
func workload(t scenario.Test, needImage bool) (plan.Workload, error) {
	if err := inapplicable(t); err != nil {
		return nil, err
	}
	newWorkload, _, ok := catalog.Find(catalog.Workloads, t.Template)
	if !ok {
		if newWorkload, _, ok = catalog.Find(catalog.Tools, t.Template); !ok {
			return nil, notRun(t)
		}
	}
	return newWorkload(t, needImage)
}

// hooks plans hook tests as runs of their own, below the run they belong to.
func (b *builder) hooks(tests []scenario.Test, below string) ([]plan.Hook, error) {
	var hooks []plan.Hook
	var c source.Complaints
	for _, t := range tests {
		if s, err := Sweep(t); err != nil || s.Active() {
			c.Add(err)
			if err == nil {
				c.Add(source.Errorf(t.Pos, "hook %q is a sweep, but a hook is one run", t.ID).
					Hintf("write one value in place of each list"))
			}
			continue
		}
		dir := path.Join(below, t.ID)
		hook := builder{scenario: &scenario.Scenario{Name: b.scenario.Name}, system: b.system, o: b.o,
			taken: map[string]bool{}}
		hook.o.Serve = nil
		p, err := hook.run(t, hook.input(t, dir), phases(t))
		c.Add(err)
		hooks = append(hooks, plan.Hook{Name: t.ID, Dir: dir, Plan: p})
	}
	return hooks, c.Err()
}

func (b *builder) make(t scenario.Test, in plan.Input) (*plan.Plan, error) {
	var c source.Complaints
	in.LauncherName = launcherName(t, b.system, b.o)
	in.NoImage = in.LauncherName == config.Bare && chosenLauncher(t, b.system, b.o) == ""
	newLauncher, names, ok := catalog.Find(catalog.Launchers, in.LauncherName)
	if !ok {
		c.Add(source.Errorf(t.PosOf("launcher"), "test %q: unknown launcher %q", t.ID, in.LauncherName).
			Hintf("%s", source.Suggest(in.LauncherName, names)))
	} else {
		in.Launcher = newLauncher()
	}
	var err error
	in.Workload, err = workload(t, in.LauncherName != config.Bare)
	c.Add(err)
	in.APICheck, err = apiCheck(t)
	c.Add(err)
	if b.o.Serve == nil { // else the nodes stay free, for a client that somebody starts
		c.Add(clientNodes(t))
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	staged, note := staged(t, b.system, b.o)
	in.Staged = staged
	p, err := plan.Make(in)
	if err != nil {
		return nil, err
	}
	if note != "" {
		p.Notes = append(p.Notes, note)
	}
	if t.Client == aiperf.GenAI {
		p.Notes = append(p.Notes, fmt.Sprintf("%s: %s", t.PosOf("client"), aiperf.Deprecated))
	}
	if t.BenchArgs != nil {
		p.Notes = append(p.Notes, t.BenchArgs.UnquotedNotes("bench_cmd_args")...)
	}
	if b.system.ContainerSecurity != "" && slices.Contains([]string{"pyxis", "enroot", "apptainer"}, in.LauncherName) {
		p.Notes = append(p.Notes,
			fmt.Sprintf("%s: container_security has no effect with launcher %s", b.system.Pos, in.LauncherName))
	}
	if len(b.system.ContainerArgs) > 0 && in.LauncherName == "pyxis" {
		p.Notes = append(p.Notes,
			fmt.Sprintf("%s: container_args has no effect with launcher pyxis; use extra_srun_args", b.system.Pos))
	}
	return p, nil
}

// clientNodes checks that the client of a test can use the nodes that it has to itself.
func clientNodes(t scenario.Test) error {
	if t.ClientNodes > 1 && t.Client != "profllm" {
		return source.Errorf(t.PosOf("client_nodes"), "test %q: client_nodes is %d, but this load client is one process",
			t.ID, t.ClientNodes).Hintf("set client = \"profllm\", or client_nodes = 1")
	}
	if t.ClientNodes > 1 && t.Search != nil {
		return source.Errorf(t.PosOf("client_nodes"), "test %q: client_nodes is %d, but the client of a search is one process",
			t.ID, t.ClientNodes).Hintf("set client_nodes = 1")
	}
	return nil
}

// NotRunnable says why tests cannot run although they can be read, "" if they can: their
// workload is not supported, or something that the workload is asked for.
func NotRunnable(tests ...scenario.Test) string {
	var why []string
	if text := catalog.Unsupported(tests...); text != "" {
		why = append(why, text)
	}
	for _, t := range tests {
		w, err := workload(t, false)
		if err != nil {
			continue // Check says it
		}
		if r, ok := w.(interface{ NotRunnable() string }); ok && r.NotRunnable() != "" &&
			!slices.Contains(why, r.NotRunnable()) {
			why = append(why, r.NotRunnable())
		}
	}
	return strings.Join(why, "; ")
}
