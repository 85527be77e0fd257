package planner

import (
	"crypto/sha256"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/profllm/profllm/pkg/apicheck"
	"github.com/profllm/profllm/pkg/bench/aiperf"
	"github.com/profllm/profllm/pkg/catalog"
	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
)

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
		t, err := catalog.Prepared(t)
		if c.Add(err); err != nil {
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
	if b.system.Kube() != nil {
		return b.onKubernetes(t, in)
	}
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
	p.Notes = append(p.Notes, clientNotes(t)...)
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

// clientNotes are notes about the client of a test and its arguments.
func clientNotes(t scenario.Test) (notes []string) {
	if t.Client == aiperf.GenAI {
		notes = append(notes, fmt.Sprintf("%s: %s", t.PosOf("client"), aiperf.Deprecated))
	}
	if t.BenchArgs != nil {
		notes = append(notes, t.BenchArgs.UnquotedNotes("bench_cmd_args")...)
	}
	return notes
}

// onKubernetes plans a run whose steps are pods, each from an image.
func (b *builder) onKubernetes(t scenario.Test, in plan.Input) (*plan.Plan, error) {
	var c source.Complaints
	if b.o.Serve != nil {
		c.Add(source.Errorf(t.Pos, "test %q: servers without a measurement are not supported on Kubernetes", t.ID).
			Hintf("use a system file of Slurm"))
	}
	if b.o.Launcher != "" {
		c.Add(source.Errorf(t.Pos, "--launcher %s: pods are started by Kubernetes", b.o.Launcher).Hintf("leave it out"))
	}
	var err error
	in.LauncherName = plan.KubernetesLauncher
	in.Workload, err = workload(t, true)
	c.Add(err)
	in.APICheck, err = apiCheck(t)
	c.Add(err)
	if c.Err() != nil {
		return nil, c.Err()
	}
	p, err := plan.Make(in)
	if err != nil {
		return nil, err
	}
	p.Notes = append(p.Notes, clientNotes(t)...)
	return p, nil
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
