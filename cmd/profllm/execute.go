package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/profllm/profllm/pkg/archive"
	"github.com/profllm/profllm/pkg/campaign"
	"github.com/profllm/profllm/pkg/commandline"
	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/gpu"
	"github.com/profllm/profllm/pkg/hub"
	"github.com/profllm/profllm/pkg/interchange"
	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/load"
	"github.com/profllm/profllm/pkg/load/datafile"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/printable"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/scheduler/local"
	"github.com/profllm/profllm/pkg/sim"
	"github.com/profllm/profllm/pkg/sim/knobs"
	standin "github.com/profllm/profllm/pkg/sim/program"
	"github.com/profllm/profllm/pkg/suite"
	"github.com/profllm/profllm/pkg/terminal"
)

// Exit codes, see docs/reference/exit-codes.md.
const (
	exitOK         = 0 // done; also if only help or the version was printed
	exitInternal   = 1 // an error in profllm or in the system below it
	exitUsage      = 2 // the command line is wrong, or a file is missing
	exitDefinition = 3 // a definition file is wrong, or its plan cannot work
	exitNotSubmit  = 4 // a job was not submitted, or can never start
	exitJobFailed  = 5 // a job failed
	// a result is invalid, a comparison finds a regression, or two runs have different
	// configurations
	exitInvalid     = 6
	exitNoMatch     = 7   // a phase of a job ended with 0, but without the line that means success
	exitNotOver     = 8   // runs are not over, so there is no verdict yet
	exitAPI         = 9   // a check of the API before the first load of a job failed
	exitInterrupted = 130 // interrupted by a signal
)

// exitError carries the exit code of an error that was or will be printed once.
type exitError struct {
	code int
	err  error // nil: already said
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func fail(code int, err error) error {
	if err == nil {
		return nil
	}
	return &exitError{code, err}
}

// app is what every verb is given.
type app struct {
	environ        []string
	stdin          io.Reader
	stdout, stderr io.Writer
	now            func() time.Time
	uptime         func() string    // of this machine, see run.Uptime
	archives       archive.Folders  // that this command reads
	acts           *campaign.Client // see client
	wide           bool             // lines are longer than the terminal
	answer         *answer          // shared by all copies; nil prints text
	command        string           // profllm slurm submit
	helped         bool             // the help, or the version, was printed
}

func (a *app) env(name string) string {
	for i := len(a.environ) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(a.environ[i], name+"="); ok {
			return v
		}
	}
	return ""
}

// quieted is the app with another standard output.
func (a *app) quieted(stdout io.Writer) *app {
	q := *a
	q.stdout, q.acts = stdout, nil
	return &q
}

// executable is this program as the nodes will call it, links followed: a
// stand-in started as "srun" must pass on the real name.
func executable() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(path)
}

// gpuReader is how this program reads the GPUs of its machine: by the profllm-nvml
// beside it, else by nvidia-smi.
func gpuReader() gpu.Reader {
	self, err := executable()
	if err != nil {
		return gpu.Reader{}
	}
	return gpu.Beside(self)
}

type cli struct {
	Slurm      slurmCmd      `cmd:"" help:"Plan, submit and follow jobs on a Slurm cluster."`
	Kube       kubeCmd       `cmd:"" meant:"kubernetes,k8s" help:"Plan, submit and follow runs on a Kubernetes cluster."`
	Dashboard  dashboardCmd  `cmd:"" meant:"ui,web,grafana" help:"Serve results as a page and an HTTP API."`
	Collect    collectCmd    `cmd:"" meant:"judge" help:"Read finished runs, judge them and write result.json."`
	Why        whyCmd        `cmd:"" meant:"explain,debug,analyze" help:"Find the first cause of a failure in a run or in any logs."`
	Profile    profileCmd    `cmd:"" meant:"traces,nsys,perfetto,torch" help:"List the traces of profiled runs and how to open them."`
	Report     reportCmd     `cmd:"" meant:"html,show,table,generate-report" help:"Show records as tables, comparisons or one HTML page."`
	Plot       plotCmd       `cmd:"" meant:"draw,chart,graph,figure,plot_pareto" help:"Draw results as PNG, SVG or on the terminal."`
	Compare    compareCmd    `cmd:"" meant:"cmp" help:"Test whether the second set of runs is slower."`
	Diff       diffCmd       `cmd:"" help:"List the differences of two runs; exit with 6 if their configurations differ."`
	Lock       lockCmd       `cmd:"" help:"Write a lock file that reproduces a run."`
	Trend      trendCmd      `cmd:"" help:"Show where each metric of a series of runs changed."`
	Confirm    confirmCmd    `cmd:"" help:"Run two tests in turn and test whether the second is slower."`
	Import     importCmd     `cmd:"" help:"Import results of other benchmark programs."`
	Export     exportCmd     `cmd:"" help:"Export records to formats of other programs."`
	Store      storeCmd      `cmd:"" meant:"database,db,ingest" help:"Keep records in a database."`
	Archive    archiveCmd    `cmd:"" meant:"pack,tar" help:"Pack, list and unpack finished scenarios or runs."`
	Run        runCmd        `cmd:"" meant:"local,standalone,start,launch" help:"Run a scenario on this machine, without a scheduler."`
	Serve      serveCmd      `cmd:"" meant:"up,deploy" help:"Keep the servers of a test up until interrupted."`
	Rehearse   rehearseCmd   `cmd:"" meant:"simulate" help:"Run the real plan and script with a simulated engine."`
	Stage      stageCmd      `cmd:"" meant:"install,pull,download" help:"Fetch a scenario's images, repositories and models."`
	Image      imageCmd      `cmd:"" help:"Manage staged container images."`
	Verify     verifyCmd     `cmd:"" meant:"validate,lint,verify-configs" help:"Check definition files."`
	Args       argsCmd       `cmd:"" meant:"options,flags,arguments" help:"List, show, check and compare the options of vllm serve and its load client, by release."`
	Init       initCmd       `cmd:"" meant:"setup" help:"Write a system file from Slurm's configuration."`
	Bench      benchCmd      `cmd:"" help:"Measure a running server."`
	Eval       evalCmd       `cmd:"" meant:"gsm8k,accuracy" help:"Evaluate the answers of a running server."`
	Proxy      proxyCmd      `cmd:"" passthrough:"" help:"Serve prefill and decode instances behind one endpoint."`
	Nightly    nightlyCmd    `cmd:"" meant:"cron" help:"Run one night of a scenario from cron."`
	Doctor     doctorCmd     `cmd:"" help:"Check which cluster features work."`
	Check      checkCmd      `cmd:"" meant:"probe,smoke,test" help:"Check the answers of an OpenAI-compatible server."`
	Probe      probeNodeCmd  `cmd:"" hidden:"" name:"probe-node" help:"Used by doctor: print the state of this machine."`
	Completion completionCmd `cmd:"" help:"Print a completion script for a shell."`
	Complete   completeCmd   `cmd:"" hidden:"" help:"Used by completion scripts."`
	Schema     schemaCmd     `cmd:"" help:"Print the JSON Schema of a kind of file."`
	Sim        simCmd        `cmd:"" help:"Simulate vllm, ray, Dynamo, the GSM8K script or a benchmark."`
	Job        jobCmd        `cmd:"" hidden:"" help:"Used by job scripts inside an allocation."`
	Version    versionCmd    `cmd:"" help:"Print the version and the program that reads the GPUs."`
	Help       helpCmd       `cmd:"" help:"Print the help of a command."`

	Wide        bool             `help:"Show tables whole, even if they are wider than the terminal."`
	VersionFlag kong.VersionFlag `name:"version" help:"Print version, commit and date."`
}

// parse parses a command line. Without a context, the program is over, with the code.
func (a *app) parse(ctx context.Context, args []string) (*kong.Kong, *kong.Context, int) {
	if parser, kctx := a.parseNamed(args); kctx != nil {
		return parser, kctx, exitOK
	}
	var c cli
	parser, err := newParser(a, &c, func(int) { a.helped = true })
	if err != nil {
		fmt.Fprintln(a.stderr, "profllm:", err)
		return nil, nil, exitInternal
	}
	args = commandline.WithHelp(parser.Model.Node, args)
	kctx, err := parser.Parse(args)
	if a.helped {
		return nil, nil, exitOK
	}
	if err != nil {
		err = usageError(parser, args, err)
		a.say(terminal.Bad, err.Error())
		a.answer.wanted = commandline.LooksLikeJSON(args)
		return nil, nil, a.finish(ctx, exitUsage, err)
	}
	a.wide = c.Wide
	return parser, kctx, exitOK
}

// newParser makes the parser of a struct of commands: *cli, or one with fewer.
func newParser(a *app, c any, exit func(int)) (*kong.Kong, error) {
	return kong.New(c, kong.Name("profllm"),
		kong.Vars{
			"version": build(), "writable": list(interchange.Writable(), ","), "runtimes": list(job.Runtimes, ","),
			"launchers": "," + list(config.Launchers, ","), "launcher_list": list(config.Launchers, ", "),
			"api_checks": apiChecks(), "suite_groups": list(suite.Groups(), ", "),
		},
		kong.Description("Plans, runs, collects and judges LLM serving benchmarks on Slurm."),
		kong.Writers(a.stdout, a.stderr), kong.Exit(exit), kong.UsageOnError(), commandline.Values(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}))
}

// list is the text of a list in flags and their help.
func list[T ~string](values []T, separator string) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = string(v)
	}
	return strings.Join(texts, separator)
}

// execute is the program: argv[0] may be the name of a stand-in.
func execute(ctx context.Context, argv, environ []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{environ: environ, stdin: stdin, stdout: stdout, stderr: stderr, now: time.Now, uptime: run.Uptime}
	name := filepath.Base(argv[0])
	if slices.Contains(simulated, name) {
		return a.simulate(ctx, append([]string{name}, argv[1:]...))
	}
	if code, ok := local.Main(ctx, name, argv[1:], environ, stdout, stderr); ok {
		return code
	}
	// From here on it is this program that speaks, also of names and lines that others wrote.
	printed := &counted{Writer: stdout}
	a.stdout, a.stderr = printable.NewWriter(printed), printable.NewWriter(stderr)
	a.answer = &answer{printed: printed}
	parser, kctx, code := a.parse(ctx, argv[1:])
	if kctx == nil {
		return code
	}
	a.answer.wanted = commandline.AsksJSON(kctx)
	kctx.BindTo(ctx, (*context.Context)(nil))
	a.command = kctx.Selected().FullPath()
	// A step may run another verb than job, such as bench serve in a container.
	run.InJob = a.env(plan.RoleVar) != "" || strings.HasPrefix(a.command, "profllm job ")
	err := campaign.Interruption(ctx, kctx.Run(a, parser))
	return a.finish(ctx, a.code(ctx, err), err)
}

// code prints an error once and says how the program ends.
func (a *app) code(ctx context.Context, err error) int {
	if err == nil {
		return exitOK
	}
	code := codeOf(err)
	if ctx.Err() != nil {
		code = exitInterrupted
	}
	text := campaign.Explain(err)
	if code == exitUsage && a.command != "" && (campaign.Missing(err) != "" || strings.HasPrefix(text, "--")) {
		text = a.command + ": " + text // as if the parser had refused the file or the flag
	}
	if err.Error() != "" {
		a.say(terminal.Bad, text)
	}
	return code
}

type simCmd struct {
	Args []string `arg:"" passthrough:"" help:"Name of the program to simulate, and its arguments."`
}

func (c simCmd) Run(ctx context.Context, a *app) error {
	return exit(a.simulate(ctx, c.Args))
}

// exit turns the code of a part that prints for itself into an error.
func exit(code int) error {
	if code == 0 {
		return nil
	}
	return &exitError{code: code}
}

func (a *app) simulate(ctx context.Context, args []string) int {
	binary, err := executable()
	if err != nil {
		return a.code(ctx, err)
	}
	return sim.Main(ctx, standin.Process{
		Args: args, Env: a.env, Environ: a.environ, Stdout: a.stdout, Stderr: a.stderr, Executable: binary,
		Bench: func(ctx context.Context, args []string, now func() time.Time, stdout, stderr io.Writer) int {
			o, err := load.ParseArgs(args)
			if err != nil {
				fmt.Fprintln(stderr, err)
				return exitUsage
			}
			if err := a.markSimulated(&o, stdout); err != nil {
				fmt.Fprintln(stderr, err)
				return exitUsage
			}
			o.ByReading = true // the simulated client has the faults of vLLM's: a frozen one reads late
			return a.code(ctx, a.measure(ctx, o, now, stdout, stderr))
		},
		Proxy: func(ctx context.Context, args []string, stdout, stderr io.Writer) int {
			return a.code(ctx, serveProxy(ctx, args, stdout, stderr))
		},
	})
}

type benchCmd struct {
	Serve  benchServeCmd  `cmd:"" help:"Run the load client, with the flags and results of vllm bench serve."`
	Suite  benchSuiteCmd  `cmd:"" help:"Measure a running server with suites of loads."`
	Search benchSearchCmd `cmd:"" help:"Find the highest request rate or concurrency at which limits hold, such as a P99 of TTFT."`
	Sweep  benchSweepCmd  `cmd:"" help:"Run a sweep, with the parameter files and results of vllm bench sweep."`
}

type benchServeCmd struct {
	load.Options
}

// markSimulated labels a load of simulated servers, and fits it to their speed.
func (a *app) markSimulated(o *load.Options, stdout io.Writer) error {
	fmt.Fprintln(stdout, standin.Notice)
	o.Metadata = append(o.Metadata, load.SimulatedMark)
	n, err := knobs.Speed(a.env)
	if err != nil || n == 1 {
		return err
	}
	fmt.Fprintf(stdout, "profllm sim: time passes %d times faster: rates are %d times higher, limits of latencies %d times lower\n", n, n, n)
	return o.Faster(n)
}

// Run marks its result where the job's script says that the engine is simulated.
func (c benchServeCmd) Run(ctx context.Context, a *app) error {
	if a.env(job.SimulatedVar) != "" {
		if err := a.markSimulated(&c.Options, a.stdout); err != nil {
			return fail(exitUsage, err)
		}
	}
	return a.measure(ctx, c.Options, time.Now, a.stdout, a.stderr)
}

func (a *app) measure(ctx context.Context, o load.Options, now func() time.Time, stdout, stderr io.Writer) error {
	if err := errors.Join(o.InSlurm(a.env), o.CheckOutput()); err != nil {
		return fail(exitUsage, err)
	}
	if o.Again == nil {
		o.Again = runAgain
	}
	o.Simulated = func(owner string) string {
		if standin.Owns(owner) {
			return standin.Notice
		}
		return ""
	}
	o.APIKey, o.Proxy, o.Version = a.env("OPENAI_API_KEY"), http.ProxyFromEnvironment, version()
	o.HubCache, o.DataCache = hub.Cache(a.env), datafile.Folder(a.env)
	_, err := load.Run(ctx, o, now, stdout, stderr)
	switch {
	case errors.Is(err, load.ErrNoneCompleted):
		return fail(exitInvalid, err)
	case errors.Is(err, load.ErrInterrupted) && ctx.Err() != nil: // else a process of the load was lost
		return fail(exitInterrupted, err)
	}
	return err
}

// runAgain makes a command that runs this program again with the same arguments and those behind
// them.
func runAgain(ctx context.Context, args ...string) *exec.Cmd {
	return itself(ctx, slices.Concat(os.Args[1:], args)...)
}

// itself makes a command that runs this program.
func itself(ctx context.Context, args ...string) *exec.Cmd {
	program, err := os.Executable()
	if err != nil {
		program = os.Args[0]
	}
	return exec.CommandContext(ctx, program, args...)
}

type proxyCmd struct {
	Args []string `arg:"" optional:"" help:"--host --port --prefill URL... --decode URL..."`
}

func (c proxyCmd) Run(ctx context.Context, a *app) error {
	return serveProxy(ctx, c.Args, a.stdout, a.stderr)
}
