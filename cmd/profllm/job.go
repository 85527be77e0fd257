package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/profllm/profllm/pkg/apicheck"
	"github.com/profllm/profllm/pkg/collect/cache"
	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/scheduler/local"
	"github.com/profllm/profllm/pkg/sim/knobs"
	"github.com/profllm/profllm/pkg/summary"
	"github.com/profllm/profllm/pkg/workload/offline"
)

type jobCmd struct {
	Start    jobStartCmd    `cmd:"" help:"Claim the run for this job."`
	Node     jobNodeCmd     `cmd:"" help:"Print the state, address and busy port slots of this node."`
	Env      jobEnvCmd      `cmd:"" help:"Refuse unfit nodes, choose a port slot; write preflight.json, placement.json and job.env."`
	Ray      jobRayCmd      `cmd:"" help:"Form a Ray cluster over the step's nodes, then become the server."`
	Profile  jobProfileCmd  `cmd:"" help:"Run a server under a profiler, and end only the server on a signal."`
	Rank     jobRankCmd     `cmd:"" help:"Run a command with its rank as an option."`
	Localize jobLocalizeCmd `cmd:"" help:"Run a command with the files of this node, as a start-up command wants them."`
	Requests jobRequestsCmd `cmd:"" help:"Time the requests of a vLLM engine without a server."`
	Exec     jobExecCmd     `cmd:"" help:"Run a command with secrets in its environment."`
	Contain  jobContainCmd  `cmd:"" help:"Run a step's task in a container and remove the container."`
	Wait     jobWaitCmd     `cmd:"" help:"Wait until every role is ready."`
	API      jobAPICmd      `cmd:"" name:"api" help:"Check the API before the first load."`
	Turn     jobTurnCmd     `cmd:"" help:"Exit with 0 if a run of a sequence may begin, with 5 if a run before it failed."`
	Load     jobLoadCmd     `cmd:"" help:"Prepare one of several loads and record its start."`
	Enough   jobEnoughCmd   `cmd:"" help:"Exit with 0 if a load needs no further repeat."`
	Until    jobUntilCmd    `cmd:"" help:"End the job when other runs are over."`
	Watch    jobWatchCmd    `cmd:"" help:"Wait for a client; fail once a role has no instance left."`
	Hold     jobHoldCmd     `cmd:"" help:"Keep a job going that only serves, until it is asked to stop."`
	Check    jobCheckCmd    `cmd:"" help:"Look for the success line in a log."`
	Stop     jobStopCmd     `cmd:"" help:"Stop every step of this job."`
	Finish   jobFinishCmd   `cmd:"" help:"Write the sentinel and judge the run."`
}

type runFlag struct {
	Dir string `name:"run" required:"" type:"existingdir" help:"The run directory."`
}

func (f runFlag) job(a *app) *job.Job {
	j := &job.Job{Dir: f.Dir, Env: a.env, Stdout: a.stdout, Stderr: a.stderr, Now: a.now, GPUs: gpuReader(),
		Simulator: knobs.Conditions(a.env)}
	if local.Inside(a.env) {
		j.GPUs.View = local.View(a.env)
		j.Lease = func(ctx context.Context, ports []int) (int, error) { return local.LeasePorts(ctx, a.env, ports) }
	}
	return j
}

// jobError labels an error of a job part, whose reader looks at stderr.txt.
func jobError(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("profllm job %s: %w", what, err)
}

type jobStartCmd struct{ runFlag }

func (c jobStartCmd) Run(a *app) error { return jobError("start", c.job(a).Start()) }

type jobNodeCmd struct {
	runFlag
	Stay bool `help:"Stay until TERM or USR1, then clean up the node."`
}

func (c jobNodeCmd) Run(ctx context.Context, a *app) error {
	if c.Stay {
		end, stop := signal.NotifyContext(ctx, job.GuardEnds)
		defer stop()
		return jobError("node", c.job(a).Guard(ctx, end.Done()))
	}
	return jobError("node", c.job(a).Node(ctx))
}

type jobEnvCmd struct {
	runFlag
	Guard int `help:"PID of the srun of job node --stay, which writes nodes.txt; default: read its output from stdin."`
}

func (c jobEnvCmd) Run(ctx context.Context, a *app) error {
	j := c.job(a)
	if c.Guard == 0 {
		return jobError("env", j.Place(ctx, a.stdin, time.Time{}))
	}
	lines := j.Follow(ctx, c.Guard)
	return jobError("env", errors.Join(j.Place(ctx, lines, job.Began(c.Guard, a.now())), lines.Close()))
}

type jobWaitCmd struct {
	runFlag
	Helpers bool `help:"Wait for helpers only, before the servers start."`

	Roles []string `arg:"" optional:"" help:"name=pid of each role's srun."`
}

func (c jobWaitCmd) Run(ctx context.Context, a *app) error {
	procs, err := job.ParseProcesses(c.Roles)
	if err != nil {
		return fail(exitUsage, err)
	}
	if c.Helpers {
		return jobError("wait", c.job(a).WaitForHelpers(ctx, procs))
	}
	return jobError("wait", c.job(a).Wait(ctx, procs))
}

type jobWatchCmd struct {
	runFlag
	Client string   `required:"" help:"Name of the client's phase."`
	Until  int      `required:"" help:"PID of the client's srun."`
	Roles  []string `arg:"" optional:"" help:"name=pid of each role's srun."`
}

func (c jobWatchCmd) Run(ctx context.Context, a *app) error {
	procs, err := job.ParseProcesses(c.Roles)
	if err != nil {
		return fail(exitUsage, err)
	}
	return jobError("watch", c.job(a).Watch(ctx, c.Client, c.Until, procs))
}

type jobHoldCmd struct {
	runFlag
	URL string        `name:"url" required:"" help:"Address that clients are given."`
	For time.Duration `help:"Time after which the servers stop; default: until asked."`
}

func (c jobHoldCmd) Run(ctx context.Context, a *app) error {
	return jobError("hold", c.job(a).Hold(ctx, c.URL, c.For))
}

type jobCheckCmd struct {
	runFlag
	Phase string `required:"" help:"Phase that wrote the log."`
	Log   string `required:"" help:"Path of the log below the run directory; %t is any rank."`
	Match string `required:"" help:"Regular expression of the success line."`
}

func (c jobCheckCmd) Run(ctx context.Context, a *app) error {
	err := c.job(a).Check(ctx, c.Phase, c.Log, c.Match)
	if errors.Is(err, job.ErrNoMatch) {
		return fail(exitNoMatch, jobError("check", err))
	}
	return jobError("check", err)
}

type jobLoadCmd struct {
	runFlag
	Name string `required:"" help:"Name of the load."`
}

func (c jobLoadCmd) Run(ctx context.Context, a *app) error {
	return jobError("load", c.job(a).BeginLoad(ctx, c.Name))
}

type jobAPICmd struct {
	runFlag
	URL     string        `name:"url" required:"" help:"Address that clients are given."`
	Model   string        `help:"Model that clients ask for; default: the first that the server lists."`
	Only    []string      `placeholder:"CHECK" help:"Only these checks, by number or name."`
	Timeout time.Duration `default:"60s" help:"Time for one check."`
}

// Run makes the checks of `profllm check`, and records them.
func (c jobAPICmd) Run(ctx context.Context, a *app) error {
	checks, err := apicheck.Select(c.Only)
	if err != nil {
		return fail(exitUsage, jobError("api", err))
	}
	doc := document.NewCheck(c.URL, c.Model, nil)
	server, err := apicheck.Open(ctx, apicheck.Options{Address: c.URL, Model: c.Model, APIKey: a.env("OPENAI_API_KEY"),
		Timeout: c.Timeout}) // without a proxy: these are our own nodes
	var results []job.APIResult
	if ctx.Err() != nil {
		return jobError("api", ctx.Err())
	}
	if err != nil { // no answer, or not this model
		text, _, _ := strings.Cut(err.Error(), "\n") // without the hint
		results = append(results, job.APIResult{Check: checks[0].Name, Text: text})
	} else {
		outcomes, err := server.Run(ctx, checks)
		if err != nil {
			return jobError("api", err)
		}
		doc = document.NewCheck(server.URL(), server.Model(), outcomes)
	}
	for _, o := range doc.Checks {
		results = append(results, job.APIResult{Check: o.Name, Passed: o.Passed, Text: o.Failure()})
	}
	return c.record(ctx, a, doc, results)
}

// record keeps the answers, and fails if one is wrong.
func (c jobAPICmd) record(ctx context.Context, a *app, doc *document.Check, results []job.APIResult) error {
	failed, code, problems := 0, exitOK, []document.Problem{}
	for _, r := range results {
		if !r.Passed {
			failed, code = failed+1, exitAPI
			problems = append(problems, document.Problem{What: r.Check + ": " + r.Text})
		}
	}
	doc.End(code, problems)
	j := c.job(a)
	err := errors.Join(run.WriteJSON(filepath.Join(c.Dir, run.RawDir, job.APIFile), doc), j.CheckedAPI(ctx, results))
	if err != nil {
		return jobError("api", err)
	}
	if failed > 0 {
		return fail(exitAPI, fmt.Errorf("profllm job api: %d of %s failed", failed,
			quantity.Count(max(len(results), 1), "check")))
	}
	a.logf("profllm job api: %s passed, model %s", quantity.Count(len(results), "check"), doc.Model)
	return nil
}

type jobTurnCmd struct {
	runFlag
	Batch string `required:"" help:"Directory of the sequence."`
}

func (c jobTurnCmd) Run(a *app) error { return fail(exitJobFailed, c.job(a).Turn(c.Batch)) }

type jobUntilCmd struct {
	runFlag
	PID  int      `name:"pid" required:"" help:"PID of the script."`
	Runs []string `arg:"" help:"Run directories."`
}

func (c jobUntilCmd) Run(ctx context.Context, a *app) error {
	return jobError("until", c.job(a).
		Until(ctx, c.PID, c.Runs, func(dirs []string) []string { return a.over(ctx, dirs) }))
}

// over lists the runs whose jobs ended without a word, or never were. Inside a
// local job nobody is asked.
func (a *app) over(ctx context.Context, dirs []string) []string {
	subs := a.client().JobsOnRecord(dirs)
	var ids, gone []string
	for _, dir := range dirs {
		if !local.Inside(a.env) {
			ids = append(ids, subs[dir].JobID)
		}
	}
	states, err := a.client().Schedulers().States(ctx, slices.DeleteFunc(ids, func(id string) bool { return id == "" }))
	if err != nil {
		a.logf("profllm job until: %v", err)
	}
	for _, dir := range dirs {
		if sub := subs[dir]; sub.Refused != "" || sub.JobID != "" && sub.RunState(states[sub.JobID], dir).Final() {
			gone = append(gone, dir)
		}
	}
	return gone
}

type jobStopCmd struct {
	runFlag
	Guard int      `help:"PID of the srun of job node --stay, which ends last."`
	Roles []string `arg:"" optional:"" help:"name=pid of each role's srun."`
}

func (c jobStopCmd) Run(ctx context.Context, a *app) error {
	procs, err := job.ParseProcesses(c.Roles)
	if err != nil {
		return fail(exitUsage, err)
	}
	j := c.job(a)
	if c.Guard > 0 {
		j.LeaveTimeToTerm(ctx, c.Guard)
	}
	j.Stop(ctx, procs)
	if c.Guard > 0 {
		j.EndGuard(ctx, c.Guard)
	}
	return nil
}

type jobFinishCmd struct {
	runFlag
	Code   int      `required:"" help:"Exit code of the script so far."`
	Role   []string `sep:"none" help:"name=code of each role's step."`
	Phases []string `arg:"" optional:"" help:"name=code of each phase."`
}

// Run writes the sentinel, judges the run and exits with what the job shall exit
// with: the script's own failure, a failed phase, or an invalid result.
func (c jobFinishCmd) Run(a *app) error {
	phases, err := job.ParsePhases(c.Phases)
	if err != nil {
		return fail(exitUsage, err)
	}
	roles, err := job.ParsePhases(c.Role)
	if err != nil {
		return fail(exitUsage, err)
	}
	j := c.job(a)
	events, err := job.ReadEvents(c.Dir)
	if err != nil {
		return jobError("finish", err)
	}
	if job.EndedWithOthers(events) && c.Code == run.Terminated {
		c.Code = exitOK // as planned: what it has is in its result
	}
	// Before the sentinel: after it, nothing that the run wrote is changed. Who was told to end may
	// be queued again, and needs its secrets then.
	if err := j.ForgetSecrets(c.Code == run.Terminated); err != nil {
		a.logf("profllm job finish: %v", err)
	}
	if err := j.Finish(c.Code, phases, roles); err != nil {
		return jobError("finish", err)
	}
	code, why := c.Code, ""
	col := a.client().Collector()
	records, err := col.Write(c.Dir, nil)
	valid, rows := true, []cache.Row(nil)
	for _, rec := range records {
		rows = append(rows, cache.Row{Dir: rec.Dir, Result: rec.Result})
		valid = valid && rec.Result.IsGood()
	}
	switch {
	case err != nil:
		a.logf("profllm job finish: %v", err)
		code, why = max(code, exitInternal), "no result could be written"
	case code == 0 && failedPhase(phases):
		code, why = exitJobFailed, "a phase failed"
	case code == 0 && !valid:
		code, why = exitInvalid, "a result is invalid"
	}
	for _, line := range summary.Notes(rows, summary.Name) {
		a.logf("%s", line)
	}
	if code == c.Code {
		return exit(code)
	}
	a.logf("profllm: the job exits with %d: %s", code, why)
	return errors.Join(exit(code), j.Judged(code))
}

func failedPhase(phases []run.Phase) bool {
	for _, p := range phases {
		if p.Code != 0 {
			return true
		}
	}
	return false
}

type jobRayCmd struct {
	Nodes     int           `required:"" help:"Nodes of the cluster."`
	Head      string        `required:"" help:"Address of the first node."`
	Port      int           `required:"" help:"Port of the head's GCS."`
	Timeout   time.Duration `default:"5m" help:"Time limit for the cluster to form."`
	HeadArg   []string      `sep:"none" help:"Option of ray start on the head."`
	WorkerArg []string      `sep:"none" help:"Option of ray start on the workers."`
	Command   []string      `arg:"" passthrough:"" help:"-- and the server's command."`
}

func (c jobRayCmd) Run(ctx context.Context, a *app) error {
	command := behindDashes(c.Command)
	if len(command) == 0 {
		return fail(exitUsage, errors.New("profllm job ray: no command"))
	}
	j := &job.Job{Env: a.env, Stdout: a.stdout, Stderr: a.stderr, Now: a.now}
	code, err := j.RunRay(ctx, job.Ray{
		Nodes: c.Nodes, Head: c.Head, Port: c.Port, Timeout: c.Timeout, HeadArgs: c.HeadArg, WorkerArgs: c.WorkerArg,
		Command: command,
	}, a.environ)
	if err != nil {
		return fail(code, jobError("ray", err))
	}
	return exit(code)
}

func behindDashes(words []string) []string {
	if len(words) > 0 && words[0] == "--" {
		return words[1:]
	}
	return words
}

type jobProfileCmd struct {
	Mark    string   `required:"" help:"Marker in the environment of the server's process."`
	Dir     string   `name:"run" placeholder:"DIR" help:"Wait for the job to stop its profilers before ending the server."`
	Ranks   []int    `placeholder:"RANK" help:"Profile only these tasks of the step; default: all."`
	Ranked  string   `placeholder:"FILE" help:"Word of the profiler's command in which %t is the task's rank."`
	Command []string `arg:"" passthrough:"" help:"-- and the profiler's command, followed by the server's."`
}

func (c jobProfileCmd) Run(ctx context.Context, a *app) error {
	command := behindDashes(c.Command)
	if len(command) == 0 {
		return fail(exitUsage, errors.New("profllm job profile: no command"))
	}
	j := &job.Job{Env: a.env, Stdout: a.stdout, Stderr: a.stderr, Now: a.now}
	if server := j.Unprofiled(c.Ranks, c.Mark, command); server != nil {
		return jobError("profile", become(server, a.environ))
	}
	if c.Ranked != "" {
		rank, err := strconv.Atoi(a.env("SLURM_PROCID"))
		if err != nil {
			return fail(exitUsage, fmt.Errorf("profllm job profile: --ranked is for the tasks of a step: SLURM_PROCID: %w", err))
		}
		for i, word := range command {
			command[i] = plan.Ranked(word, c.Ranked, rank)
		}
	}
	j.Dir = c.Dir
	code, err := j.RunProfiled(ctx, c.Mark, command, a.environ)
	if err != nil {
		return fail(code, jobError("profile", err))
	}
	return exit(code)
}

type jobRankCmd struct {
	Option     string   `help:"Option that takes the task's rank."`
	Each       int      `default:"1" help:"Factor of the rank in that option."`
	OnlyOthers bool     `help:"Leave the option out for the first task."`
	Others     []string `sep:"none" help:"Word for every task but the first."`
	Address    []string `sep:"none" help:"Variable that takes the node's own address."`
	Joined     int      `help:"Tasks of an engine, which meet as torchrun's do; %t in the last word's file is the rank."`
	Port       int      `help:"Port of the first node, where joined tasks meet."`
	Command    []string `arg:"" passthrough:"" help:"-- and the command."`
}

// Run becomes the command, so that signals reach it and its exit code counts.
func (c jobRankCmd) Run(a *app) error {
	j := &job.Job{Env: a.env, Stdout: a.stdout, Stderr: a.stderr, Now: a.now}
	argv, env, err := j.Resolve(job.Rank{
		Option: c.Option, Each: c.Each, First: !c.OnlyOthers, Others: c.Others, Addresses: c.Address,
		Joined: c.Joined, Port: c.Port, Command: behindDashes(c.Command),
	}, a.environ)
	if err != nil {
		return fail(exitUsage, jobError("rank", err))
	}
	return jobError("rank", become(argv, env))
}

type jobLocalizeCmd struct {
	runFlag
	Fill    string   `placeholder:"VARIABLE" help:"Variable of a file whose placeholders are filled in."`
	Value   []string `sep:"none" placeholder:"NAME=TEXT" help:"What a placeholder stands for."`
	Command []string `arg:"" passthrough:"" help:"-- and the command."`
}

// Run becomes the command, as that of rank does.
func (c jobLocalizeCmd) Run(a *app) error {
	placeholders, err := job.ParsePlaceholders(c.Fill, c.Value)
	if err != nil {
		return fail(exitUsage, jobError("localize", err))
	}
	argv, env, err := c.job(a).Localize(behindDashes(c.Command), a.environ, placeholders)
	if err != nil {
		return fail(exitUsage, jobError("localize", err))
	}
	return jobError("localize", become(argv, env))
}

type jobRequestsCmd struct {
	Python string   `default:"python3" help:"Python that has vLLM."`
	Args   []string `arg:"" passthrough:"" help:"-- and arguments of the engine and of the benchmark."`
}

// Run becomes the program that loads the engine, so that signals reach it and its exit code counts.
func (c jobRequestsCmd) Run(a *app) error {
	argv := append([]string{c.Python, "-c", offline.Program}, behindDashes(c.Args)...)
	return jobError("requests", become(argv, a.environ))
}

// become replaces this process by a command.
func become(argv, env []string) error {
	program, err := exec.LookPath(argv[0])
	if err != nil {
		return fail(127, err)
	}
	return syscall.Exec(program, argv, env)
}

type jobExecCmd struct {
	runFlag
	Env     []string `sep:"none" placeholder:"NAME=VARIABLE" help:"Secret from the submitting shell."`
	File    []string `sep:"none" placeholder:"NAME=PATH" help:"Secret from a file on the node."`
	Command []string `arg:"" passthrough:"" help:"-- and the command."`
}

// Run becomes the command, so that signals reach it and its exit code counts, and
// no other process ever has the secrets.
func (c jobExecCmd) Run(a *app) error {
	secrets, err := job.ParseSecrets(c.Env, c.File)
	if err != nil {
		return fail(exitUsage, jobError("exec", err))
	}
	x := job.Exec{Secrets: secrets, Command: behindDashes(c.Command)}
	env, err := c.job(a).EnvironWithSecrets(x, a.environ)
	if err != nil {
		return jobError("exec", err)
	}
	program, err := exec.LookPath(x.Command[0])
	if err != nil {
		return fail(127, jobError("exec", err))
	}
	return jobError("exec", syscall.Exec(program, x.Command, env))
}

type jobContainCmd struct {
	Runtime   string   `required:"" enum:"${runtimes}" help:"Program that runs the container."`
	Step      string   `required:"" help:"Name of the step."`
	Env       []string `sep:"none" help:"Variable to pass into the container."`
	Load      string   `help:"Archive that holds the image (docker, podman)."`
	Login     string   `placeholder:"IMAGE" help:"Image to log in for if the node cannot pull it without (docker, podman)."`
	RDMA      bool     `name:"rdma" help:"Pass the RDMA devices of this node (docker, podman)."`
	Workdir   string   `help:"Working directory of the command (enroot)."`
	MountHome bool     `help:"Mount the home folder."`
	Args      []string `arg:"" passthrough:"" help:"NAME=VALUE of variables to set and pass, -- and the runtime's arguments."`
}

func (c jobContainCmd) Run(ctx context.Context, a *app) error {
	set, args, ok := job.Variables(c.Args)
	if !ok {
		return fail(exitUsage, errors.New("profllm job contain: only NAME=VALUE may stand before --"))
	}
	j := &job.Job{Env: a.env, Stdout: a.stdout, Stderr: a.stderr, Now: a.now}
	dir, err := os.Getwd() // where the job's script is: the run directory
	id := ""
	if err != nil || !run.HasPlan(dir) {
		dir = ""
	} else if p, err := run.ReadPlan(dir); err == nil {
		id = p.RunID
	}
	self, err := os.Executable()
	if err != nil {
		self = ""
	}
	code, err := j.RunContain(ctx, job.Contain{
		Self: self, Dir: dir, Runtime: c.Runtime, Step: c.Step, Args: args, Set: set, Load: c.Load,
		WorkDir: c.Workdir, MountHome: c.MountHome, Login: c.Login, RDMA: c.RDMA, Run: id,
		Names: slices.Concat(c.Env, job.StepNames),
	}, a.environ)
	if err != nil {
		return fail(code, jobError("contain", err))
	}
	return exit(code)
}
