// Package catalog lists every adapter and turns a test into plans. It is the one
// place that sees all of them; nothing registers itself.
package catalog

import (
	"crypto/sha256"
	"fmt"
	"path"
	"time"

	"github.com/profllm/profllm/pkg/bench/gsm8k"
	"github.com/profllm/profllm/pkg/bench/vllmserve"
	"github.com/profllm/profllm/pkg/collect"
	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/launcher/bare"
	"github.com/profllm/profllm/pkg/launcher/pyxis"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/workload/vllm"
)

// Entry is an adapter by the name that files use.
type Entry[New any] struct {
	Name string
	New  New
}

// Workloads are the values of test_template_name.
var Workloads = []Entry[func(scenario.Test, bool) (plan.Workload, error)]{
	{"vllm", vllm.New},
}

// Launchers are the values of launcher.
var Launchers = []Entry[func() plan.Launcher]{
	{"pyxis", pyxis.New}, {"bare", bare.New},
}

func find[New any](list []Entry[New], name string) (New, []string, bool) {
	var none New
	names := make([]string, len(list))
	for i, e := range list {
		if e.Name == name {
			return e.New, nil, true
		}
		names[i] = e.Name
	}
	return none, names, false
}

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
}

// Root is the directory of one scenario execution.
func Root(s *scenario.Scenario, o Options) string {
	return path.Join(o.Output, s.Name+"_"+o.Created.Format("2006-01-02_15-04-05"))
}

// Plans plans every test and iteration of a scenario, in order. The complaints
// of all tests are returned together.
func Plans(s *scenario.Scenario, sys *config.System, o Options) ([]*plan.Plan, error) {
	var c source.Complaints
	var plans []*plan.Plan
	root := Root(s, o)
	for _, t := range s.Tests {
		for i := range t.Iterations {
			dir := path.Join(root, t.ID, fmt.Sprint(i))
			p, err := makePlan(t, sys, o, plan.Input{
				System: sys, Scenario: s.Name, Test: t, Iteration: i, Dir: dir, RunID: runID(o.Created, dir),
				Version: o.Version, Created: o.Created, Binary: o.Binary, WorkDir: o.WorkDir, Simulated: o.Simulated,
			})
			c.Add(err)
			if err != nil {
				break
			}
			p.Notes = append(append([]string(nil), s.Warnings...), p.Notes...)
			plans = append(plans, p)
		}
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	return plans, nil
}

// runID is unique as long as the directory is: the directory is created
// exclusively before anything is submitted.
func runID(created time.Time, dir string) string {
	return fmt.Sprintf("exp_%s_%.3x", created.Format("20060102_150405"), sha256.Sum256([]byte(dir)))
}

func makePlan(t scenario.Test, sys *config.System, o Options, in plan.Input) (*plan.Plan, error) {
	var c source.Complaints
	newWorkload, names, ok := find(Workloads, t.Template)
	if !ok {
		return nil, source.Errorf(t.Pos, "test %q: unknown workload %q", t.ID, t.Template).Hintf("%s", source.Suggest(t.Template, names))
	}
	in.LauncherName = launcherName(t, sys, o)
	newLauncher, names, ok := find(Launchers, in.LauncherName)
	if !ok {
		c.Add(source.Errorf(t.Pos, "test %q: unknown launcher %q", t.ID, in.LauncherName).Hintf("%s", source.Suggest(in.LauncherName, names)))
	} else {
		in.Launcher = newLauncher()
	}
	var err error
	in.Workload, err = newWorkload(t, in.LauncherName != "bare")
	c.Add(err)
	load := plan.LoadInput{RunID: in.RunID, Dir: in.Dir}
	client, err := vllmserve.New(t.Client, t.Pos, t.BenchArgs)
	c.Add(err)
	if client != nil {
		load.Clients = append(load.Clients, client)
		load.Client, load.Benchmark, load.Expect = client.Name(), client.Options(), client.Expect()
	}
	if t.EvalArgs != nil {
		eval, err := gsm8k.New(t.EvalArgs)
		c.Add(err)
		load.Clients = append(load.Clients, eval)
		load.Expect.Accuracy = true
	}
	in.Loads = append(in.Loads, load)
	if c.Err() != nil {
		return nil, c.Err()
	}
	return plan.Make(in)
}

// launcherName decides: the rehearsal and the command line, the test, the site,
// and else pyxis for a test that names an image.
func launcherName(t scenario.Test, sys *config.System, o Options) string {
	switch {
	case o.Simulated:
		return "bare"
	case o.Launcher != "":
		return o.Launcher
	case t.Launcher != "":
		return t.Launcher
	case sys.Launcher != "":
		return sys.Launcher
	case t.CmdArgs.Has("docker_image_url"):
		return "pyxis"
	}
	return "bare"
}

// Benches read what load clients left in a run directory: ours in raw/ and
// logs/, CloudAI's beside.
var Benches = []collect.Parser{
	vllmserve.Parser{File: "raw/vllm-bench.json", Log: "logs/bench-0.log"}, vllmserve.Parser{},
}

// Evals read the accuracy, likewise.
var Evals = []collect.Parser{
	gsm8k.Parser{File: "raw/vllm-gsm8k.json", Log: "logs/eval-0.log"}, gsm8k.Parser{},
}
