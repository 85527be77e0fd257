package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/campaign"
	"github.com/profllm/profllm/pkg/dryrun"
	"github.com/profllm/profllm/pkg/experiment"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/vllmsweep"
)

type benchSweepCmd struct {
	Serve    sweepServeCmd    `cmd:"" help:"Measure loads on servers: each combination of two parameter files, with one start of each server."`
	Startup  sweepStartupCmd  `cmd:"" help:"Measure starts of the engine: each combination of two parameter files."`
	Workload sweepWorkloadCmd `cmd:"" name:"serve_workload" help:"Measure each load from one request at a time to all at once, and levels between."`
}

// placingFlags say where the servers of a sweep run. vLLM's own command has none of them.
type placingFlags struct {
	System    string        `aliases:"system-config" env:"PROFLLM_SYSTEM,CLOUDAI_SYSTEM_CONFIG" placeholder:"FILE" help:"System file; default: this machine, or with --slurm ask Slurm."`
	Slurm     bool          `help:"Run each server in a job of Slurm and wait for the jobs; default: run here."`
	Single    bool          `name:"single-sbatch" help:"With --slurm: one job for all servers, one after the other."`
	Launcher  string        `enum:"${launchers}" default:"" placeholder:"NAME" help:"Launcher of containers: ${launcher_list}."`
	Image     string        `help:"Container image of server and client; default: no container."`
	Nodes     int           `placeholder:"N" help:"Nodes of each server; default: 1."`
	TimeLimit string        `placeholder:"TIME" help:"Limit of a server with all of its loads, such as 2h; default: none."`
	WaitGPUs  time.Duration `name:"wait-gpus" placeholder:"TIME" help:"Wait for free GPUs, such as 2h; default: do not wait."`
	Simulate  bool          `help:"Run the simulated engine."`
	Yes       bool          `short:"y" help:"Skip the cost confirmation of --slurm."`
	NodeHours float64       `name:"max-node-hours" default:"100" help:"With --slurm, ask before submitting more node-hours than this."`
}

// resultFlags are those of every sweep of vLLM that say where results go.
type resultFlags struct {
	OutputDir      string `short:"o" default:"results" placeholder:"DIR" help:"Parent of the experiment's folder; default: results."`
	ExperimentName string `short:"e" placeholder:"NAME" help:"Name of the experiment and of its folder; default: the time, as YYYYMMDD_HHMMSS."`
	DryRun         bool   `name:"dry-run" help:"Print the points, the cost and every command; run nothing."`
	Resume         bool   `help:"Measure only the runs whose results are not in the experiment's folder."`
	PrintScenario  bool   `help:"Print the scenario of the sweep; run nothing."`
}

type sweepServeFlags struct {
	resultFlags
	placingFlags
	ServeCmd   string `placeholder:"COMMAND" help:"Command of the server; default: vllm serve MODEL."`
	BenchCmd   string `placeholder:"COMMAND" help:"Command of the load client; default: vllm bench serve --model MODEL."`
	Model      string `help:"Model of the default commands."`
	AfterBench string `name:"after-bench-cmd" placeholder:"COMMAND" help:"Command after each run; default: empty the engine's caches."`
	ShowStdout bool   `help:"No effect: the output of servers and clients is kept in the folders of their runs."`

	ServerReadyTimeout int    `default:"300" placeholder:"SECONDS" help:"Time for a server to become ready, s; default: 300."`
	ServeParams        string `placeholder:"FILE" help:"JSON file with the parameters of each server."`
	BenchParams        string `placeholder:"FILE" help:"JSON file with the parameters of each load."`
	LinkVars           string `placeholder:"A=B,..." help:"Keep only pairs whose server parameter A equals load parameter B."`
	NumRuns            int    `default:"3" placeholder:"N" help:"Runs of each combination; default: 3."`
	WarmupNumPrompts   int    `default:"0" placeholder:"N" help:"Prompts of an unmeasured run before each combination; default: 0, none."`
	ContinueOnError    bool   `help:"No effect: a failed run is always recorded, and the sweep continues."`
	Client             string `enum:"vllm,profllm" default:"vllm" help:"Load client: vllm, or profllm for profllm's own; default: vllm."`
}

type sweepServeCmd struct{ sweepServeFlags }

type sweepWorkloadCmd struct {
	sweepServeFlags
	WorkloadVar   string `enum:"request_rate,max_concurrency" default:"request_rate" help:"Variable of the levels: request_rate or max_concurrency."`
	WorkloadIters int    `default:"10" placeholder:"N" help:"Levels of each combination, with the two ends; default: 10."`
}

// Validate refuses numbers that mean nothing.
func (f sweepServeFlags) Validate() error {
	switch {
	case f.NumRuns < 1:
		return fmt.Errorf("--num-runs is %d, must be 1 or more", f.NumRuns)
	case f.WarmupNumPrompts < 0:
		return fmt.Errorf("--warmup-num-prompts is %d, must be 0 or more", f.WarmupNumPrompts)
	case f.ServerReadyTimeout < 1:
		return fmt.Errorf("--server-ready-timeout is %d, must be 1 or more", f.ServerReadyTimeout)
	}
	return f.placingFlags.check()
}

// check refuses flags that do not go together.
func (f placingFlags) check() error {
	switch {
	case f.Slurm && f.WaitGPUs > 0:
		return errors.New("--wait-gpus has no effect with --slurm: a job waits in Slurm's queue")
	case f.Single && !f.Slurm:
		return errors.New("--single-sbatch has no effect without --slurm")
	}
	return nil
}

// Validate refuses numbers that mean nothing.
func (c sweepWorkloadCmd) Validate() error {
	if c.WorkloadIters < 2 {
		return fmt.Errorf("--workload-iters is %d, must be 2 or more", c.WorkloadIters)
	}
	return c.sweepServeFlags.Validate()
}

// definition is what the flags say of the sweep.
func (f sweepServeFlags) definition(name string) (vllmsweep.Serve, error) {
	if f.Model == "" && (f.ServeCmd == "" || f.BenchCmd == "") {
		return vllmsweep.Serve{}, fail(exitUsage,
			errors.New("--serve-cmd and --bench-cmd are both needed, or --model for their defaults"))
	}
	in := vllmsweep.Serve{
		Name: name, Model: f.Model, ServeCmd: f.ServeCmd, BenchCmd: f.BenchCmd, Runs: f.NumRuns,
		Warmup: f.WarmupNumPrompts, Ready: time.Duration(f.ServerReadyTimeout) * time.Second,
		Image: f.Image, Nodes: f.Nodes, TimeLimit: f.TimeLimit, AfterLoad: f.AfterBench,
		Simulate: f.Simulate,
	}
	if f.Client != "vllm" {
		in.Client = f.Client
	}
	var err error
	if in.Links, err = vllmsweep.ParseLinks(f.LinkVars); err != nil {
		return in, fail(exitUsage, err)
	}
	if in.ServeParams, err = sweepParams(f.ServeParams); err != nil {
		return in, err
	}
	in.BenchParams, err = sweepParams(f.BenchParams)
	return in, err
}

// name is that of the experiment.
func (f resultFlags) name(a *app) string {
	return cmp.Or(f.ExperimentName, vllmsweep.Name(a.now()))
}

// sweepParams reads a parameter file; without one the command is measured as it is.
func sweepParams(file string) ([]vllmsweep.Item, error) {
	if file == "" {
		return vllmsweep.Unchanged(), nil
	}
	data, err := regular.ReadFile(file)
	if err != nil {
		return nil, fail(exitUsage, err)
	}
	items, err := vllmsweep.ReadParams(file, data)
	return items, fail(exitDefinition, err)
}

// Run measures each combination of two parameter files.
func (c sweepServeCmd) Run(ctx context.Context, a *app) error {
	s, err := c.begin(a, nil)
	if err != nil {
		return err
	}
	return s.measure(ctx)
}

// Run measures the ends of each combination, then the levels between them.
func (c sweepWorkloadCmd) Run(ctx context.Context, a *app) error {
	s, err := c.begin(a, &vllmsweep.Explore{Var: c.WorkloadVar, Iters: c.WorkloadIters})
	if err != nil {
		return err
	}
	if c.DryRun || c.PrintScenario {
		a.logf("note: only the two ends of each combination; their results decide the levels between")
		return s.measure(ctx)
	}
	ends := s.measure(ctx)
	if ctx.Err() != nil {
		return ends
	}
	levels, err := s.sweep.Levels(s.dir)
	if err != nil {
		return errors.Join(ends, err)
	}
	if len(levels) == 0 {
		a.logf("note: no combination has the results of all runs of both ends, so no levels between were measured")
		return ends
	}
	if s.sweep, err = s.sweep.Between(levels); err != nil {
		return errors.Join(ends, fail(exitDefinition, err))
	}
	return errors.Join(ends, s.measure(ctx))
}

type sweepStartupCmd struct {
	resultFlags
	placingFlags
	StartupCmd    string `default:"vllm bench startup" placeholder:"COMMAND" help:"Command of the benchmark; default: vllm bench startup."`
	ServeParams   string `placeholder:"FILE" help:"JSON file with parameters of each engine, as of vllm serve."`
	StartupParams string `placeholder:"FILE" help:"JSON file with parameters of the benchmark."`
	StrictParams  bool   `help:"Refuse parameters that the benchmark lacks; default: leave them out with a note."`
	NumRuns       int    `default:"1" placeholder:"N" help:"Runs of each combination; default: 1."`
	ShowStdout    bool   `help:"No effect: the output of each run is kept in its folder."`
}

// Validate refuses numbers that mean nothing.
func (c sweepStartupCmd) Validate() error {
	if c.NumRuns < 1 {
		return fmt.Errorf("--num-runs is %d, must be 1 or more", c.NumRuns)
	}
	return c.placingFlags.check()
}

// Run measures the starts of each combination of two parameter files.
func (c sweepStartupCmd) Run(ctx context.Context, a *app) error {
	in := vllmsweep.Startup{Name: c.name(a), StartupCmd: c.StartupCmd, Strict: c.StrictParams, Runs: c.NumRuns,
		Image: c.Image, TimeLimit: c.TimeLimit, Simulate: c.Simulate}
	var err error
	if in.ServeParams, err = sweepParams(c.ServeParams); err != nil {
		return err
	}
	if in.StartupParams, err = sweepParams(c.StartupParams); err != nil {
		return err
	}
	sweep, ignored, err := in.Sweep()
	if err != nil {
		return fail(exitDefinition, err)
	}
	for _, note := range ignored {
		a.logf("note: %s", note)
	}
	s, err := c.open(a, c.placingFlags, sweep)
	if err != nil {
		return err
	}
	return s.measure(ctx)
}

// sweeping is a sweep with the folder of its results.
type sweeping struct {
	*app
	flags   resultFlags
	placing placingFlags
	sweep   *vllmsweep.Sweep
	dir     string
}

// begin reads what the sweep is of, and finds the folder of its results.
func (f sweepServeFlags) begin(a *app, explore *vllmsweep.Explore) (*sweeping, error) {
	in, err := f.definition(f.name(a))
	if err != nil {
		return nil, err
	}
	in.Explore = explore
	sweep, err := in.Sweep()
	if err != nil {
		return nil, fail(exitDefinition, err)
	}
	return f.open(a, f.placingFlags, sweep)
}

// open finds the folder of a sweep's results.
func (f resultFlags) open(a *app, placing placingFlags, sweep *vllmsweep.Sweep) (*sweeping, error) {
	s := &sweeping{app: a, flags: f, placing: placing, sweep: sweep}
	var err error
	if s.dir, err = filepath.Abs(filepath.Join(f.OutputDir, sweep.Name)); err != nil {
		return nil, err
	}
	_, err = os.Stat(s.dir)
	switch {
	case f.Resume && f.ExperimentName == "":
		return nil, fail(exitUsage,
			errors.New("--resume needs --experiment-name, the name of the experiment to resume"))
	case f.Resume && errors.Is(err, fs.ErrNotExist):
		return nil, fail(exitUsage, fmt.Errorf("--resume: there is no experiment %s", relative(s.dir)))
	case !f.Resume && err == nil:
		return nil, fail(exitUsage, fmt.Errorf("%s is there already\n\thint: --resume measures what is "+
			"missing in it; or choose another --experiment-name",
			relative(s.dir)))
	}
	return s, nil
}

// measure measures what is missing, and writes the results.
func (s *sweeping) measure(ctx context.Context) error {
	if err := s.sweep.Check(s.dir); err != nil { // first: results get the parameters of today
		return fail(exitUsage, err)
	}
	if s.flags.Resume && !s.flags.DryRun && !s.flags.PrintScenario {
		if err := s.takeIn(ctx); err != nil {
			return err
		}
	}
	missing, err := s.sweep.Lacking(s.dir)
	if err != nil {
		return err
	}
	table := s.sweep.Scenario(missing)
	if table == nil {
		s.logf("every run has its result")
		return s.write()
	}
	data, err := experiment.TOML(table)
	if err != nil {
		return err
	}
	if s.flags.PrintScenario {
		_, err := s.stdout.Write(data)
		return err
	}
	file := filepath.Join(s.dir, "scenario.toml")
	made := scenario.File{Name: relative(file), Data: data, Table: table}
	p, err := s.client().Plan(ctx, made.Name, s.options(&made))
	if err != nil {
		return err
	}
	s.say(p, missing)
	if s.flags.DryRun {
		return s.printCommands(p)
	}
	if err := os.MkdirAll(s.dir, 0o777); err != nil {
		return err
	}
	if err := s.sweep.Keep(s.dir); err != nil {
		return fail(exitUsage, err)
	}
	if err := run.WriteFile(file, data, 0o644); err != nil {
		return err
	}
	return errors.Join(s.execute(ctx, p), s.write())
}

// options say how the scenario is planned.
func (s *sweeping) options(made *scenario.File) campaign.Options {
	f := s.placing
	return campaign.Options{
		System: f.System, OutputDir: filepath.Join(s.dir, vllmsweep.RunsDir), Launcher: f.Launcher,
		Simulate: f.Simulate, Single: f.Single, Live: f.Slurm, Here: !f.Slurm, Made: made,
	}
}

// execute runs what was planned here, or in jobs of Slurm.
func (s *sweeping) execute(ctx context.Context, p *campaign.Planned) error {
	if s.placing.Slurm {
		root, err := s.begin(p, true, s.allow(s.placing.NodeHours, s.placing.Yes), "sweep")
		if err != nil {
			return err
		}
		return s.submit(ctx, root, submitFlags{Wait: true, Settle: 30 * time.Second})
	}
	endsByItself.Store(true)
	return s.local(ctx, func(
		client *campaign.Client, tell func(campaign.LocalProgress),
	) ([]string, map[string]run.State, error) {
		return client.RunHere(ctx, p, campaign.Here{WaitGPUs: s.placing.WaitGPUs, Progress: tell})
	}, func() string { return p.Root })
}

// takeIn writes the results of earlier executions. One whose jobs are not over is an error: its
// runs would be measured twice.
func (s *sweeping) takeIn(ctx context.Context) error {
	roots, err := vllmsweep.Executions(s.dir)
	if err != nil || len(roots) == 0 {
		return err
	}
	dirs, err := s.runDirs(roots)
	if err != nil {
		return err
	}
	states, err := s.client().States(ctx, dirs, s.client().Jobs(ctx, dirs))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if st := states[dir]; st.JobID != "" && !st.Final() {
			return fail(exitNotOver, fmt.Errorf("job %s of %s is not over\n\thint: profllm slurm watch %s, then resume",
				st.JobID,
				relative(dir), relative(dir)))
		}
	}
	quiet := s.quieted(s.stderr)
	if err := quiet.report(ctx, quiet.openCache(dirs), dirs, states); codeOf(err) == exitInternal {
		return err
	}
	_, err = s.sweep.Write(s.dir, roots)
	return err
}

// write writes the results as vLLM's command would.
func (s *sweeping) write() error {
	roots, err := vllmsweep.Executions(s.dir)
	if err != nil {
		return err
	}
	out, err := s.sweep.Write(s.dir, roots)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("results: %s, %s", relative(s.dir), quantity.Count(out.Measured, "run"))
	if out.Failed > 0 {
		text += fmt.Sprintf(", %d failed (run=N.failure.json)", out.Failed)
	}
	if out.Absent > 0 {
		text += fmt.Sprintf(", %d without a result (--resume measures them)", out.Absent)
	}
	s.logf("%s", text)
	return nil
}

// say says how much there is to do.
func (s *sweeping) say(p *campaign.Planned, missing func(p *vllmsweep.Point, run int) bool) {
	runs, points, servers := s.sweep.Missing(missing)
	all := len(s.sweep.Points()) * s.sweep.Runs
	text := fmt.Sprintf("sweep: %s of %s on %s", quantity.Count(runs, "run"), quantity.Count(points, "point"),
		quantity.Count(servers, "server"))
	if runs < all {
		text += fmt.Sprintf("; %d more runs have results", all-runs)
	}
	switch t := p.Overview().Time; {
	case t.About > 0:
		text += ", about " + quantity.Duration(t.About) + " by earlier runs"
	case t.Least > 0:
		text += ", at least " + quantity.Duration(t.Least) + " by the request rate"
	case t.Most > 0:
		text += ", at most " + quantity.Duration(t.Most)
	default:
		text += ", for a time that is not known yet"
	}
	s.logf("%s", text)
	if s.sweep.Dropped > 0 {
		s.logf("note: %s left out by --link-vars", quantity.Count(s.sweep.Dropped, "combination"))
	}
}

// printCommands prints the command of each server and each load.
func (s *sweeping) printCommands(p *campaign.Planned) error {
	for _, r := range p.Runs {
		if len(r.Plan.Roles) == 0 {
			fmt.Fprintf(s.stdout, "%s: %s\n", r.Plan.Test, dryrun.Command(r.Plan.Loads[0].Clients[0].Argv))
			continue
		}
		for i := range r.Plan.Roles {
			if role := &r.Plan.Roles[i]; role.Engine {
				fmt.Fprintf(s.stdout, "server %s: %s\n", r.Plan.Test, dryrun.Command(role.Step.Argv))
			}
		}
		for i := range r.Plan.Loads {
			l := &r.Plan.Loads[i]
			switch {
			case l.Repeat == nil:
				fmt.Fprintf(s.stdout, "  load %s: %s\n", l.Name, dryrun.Command(l.Clients[0].Argv))
			case l.Repeat.Index == 0:
				name := strings.TrimSuffix(l.Name, ".r1")
				fmt.Fprintf(s.stdout, "  load %s, %d times: %s\n", name, l.Repeat.Of, dryrun.Command(l.Clients[0].Argv))
			}
		}
	}
	s.logf("results would be in %s", relative(s.dir))
	return nil
}
