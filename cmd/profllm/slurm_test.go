package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/hostlist"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/process"
	"github.com/profllm/profllm/pkg/programtest"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

// binary is profllm itself, built once by TestMain.
var binary string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	if file := os.Getenv(memoryVar); file != "" {
		return runMeasured(os.Args[1:], file)
	}
	dir, err := os.MkdirTemp("", "profllm-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary, err = programtest.Build(dir, os.Getenv)
	if err := errors.Join(err, runInParallel()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// lab returns a folder for one test on the real Slurm, which examples/slurm-lab
// starts: eight nodes of four GPUs. Without it the test is skipped, aloud, or
// fails where PROFLLM_REQUIRE_SLURM=1.
func lab(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("sinfo", "-h", "-p", "main", "-o", "%D").CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "8" {
		why := fmt.Sprintf("no Slurm lab (make lab-up): sinfo says %q, %v", strings.TrimSpace(string(out)), err)
		if os.Getenv("PROFLLM_REQUIRE_SLURM") == "1" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	labSlots.takeFor(t)
	dir := t.TempDir()
	copyFile(t, "../../examples/slurm-lab/site.toml", filepath.Join(dir, "site.toml"))
	return dir
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, data, 0o644))
}

// outcome is what one profllm command did.
type outcome struct {
	code           int
	stdout, stderr string
}

// profllm runs the program in dir with a fast simulated engine.
func profllm(t *testing.T, dir string, env []string, args ...string) outcome {
	t.Helper()
	if simulates(args) {
		rehearsalSlots.take()
		defer rehearsalSlots.give()
	}
	return outcomeOf(t, command(dir, env, args...))
}

// outcomeOf runs a command of profllm.
func outcomeOf(t *testing.T, cmd *exec.Cmd) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		t.Fatal(err)
	}
	t.Logf("profllm %s: exit %d\n%s%s", strings.Join(cmd.Args[1:], " "), cmd.ProcessState.ExitCode(),
		beginning(stdout.String()), beginning(stderr.String()))
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// beginning is what a log keeps of an output.
func beginning(text string) string {
	const most = 20_000
	if len(text) <= most {
		return text
	}
	return fmt.Sprintf("%s\n… and %d bytes more\n", text[:most], len(text)-most)
}

func command(dir string, env []string, args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "PROFLLM_SIM_TTFT=20ms", "PROFLLM_SIM_ITL=2ms", "PROFLLM_SIM_STARTUP=300ms"),
		env...)
	return cmd
}

// runs lists the run directories below dir with their plans.
func runs(t *testing.T, dir string) map[string]*plan.Plan {
	t.Helper()
	dirs, err := run.Find(filepath.Join(dir, "results"))
	require.NoError(t, err)
	plans := map[string]*plan.Plan{}
	for _, d := range dirs {
		plans[d], err = run.ReadPlan(d)
		require.NoError(t, err)
	}
	return plans
}

func only(t *testing.T, dir string) string {
	t.Helper()
	all := runs(t, dir)
	require.Len(t, all, 1)
	for d := range all {
		return d
	}
	return ""
}

func readResult(t *testing.T, dir string) *result.Result {
	t.Helper()
	return recordIn(t, filepath.Join(dir, run.ResultFile))
}

func recordIn(t *testing.T, file string) *result.Result {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, result.Validate(data))
	r, err := result.Decode(data)
	require.NoError(t, err)
	return r
}

func jobID(t *testing.T, dir string) string {
	t.Helper()
	var s run.Submission
	require.NoError(t, run.ReadJSON(filepath.Join(dir, run.SubmitFile), &s))
	return s.JobID
}

// leftovers lists the processes on this machine, which hosts every node, that
// carry the job's id in their environment.
func leftovers(t *testing.T, job string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(t, err)
	var left []string
	for _, f := range files {
		env, err := os.ReadFile(f)
		if err != nil || !bytes.Contains(append([]byte{0}, env...), []byte("\x00SLURM_JOB_ID="+job+"\x00")) {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Join(filepath.Dir(f), "cmdline"))
		left = append(left, strings.ReplaceAll(string(cmdline), "\x00", " "))
	}
	return left
}

func requireNoLeftovers(t *testing.T, job string) {
	t.Helper()
	var left []string
	await.True(t, func() bool { left = leftovers(t, job); return len(left) == 0 },
		"no process of job %s is left; there are %q", job, &left)
}

// stepNodes asks Slurm which hosts each step of a job ran on.
func stepNodes(t *testing.T, job string) map[string][]string {
	t.Helper()
	out, err := exec.Command("sacct", "-n", "-P", "-j", job, "-o", "JobID,JobName,NodeList").Output()
	require.NoError(t, err)
	nodes := map[string][]string{}
	for _, line := range strings.Split(string(out), "\n") {
		f := strings.Split(line, "|")
		if len(f) == 3 && strings.Contains(f[0], ".") {
			nodes[f[1]], err = hostlist.Expand(f[2])
			require.NoError(t, err)
		}
	}
	return nodes
}

// Every topology: submitted together, each role's processes on exactly the
// planned nodes with the planned GPUs, benchmark and evaluation through the
// endpoint, a valid result with an accuracy.
//
// covers: CD-12, CD-14, CD-33, CD-35, CD-44, PL-S5, PL-S31, PL-S32, PL-S37
func TestSlurmTopologies(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	scenario, err := filepath.Abs("../../scenarios/topologies.toml")
	require.NoError(t, err)
	o := profllm(t, dir, []string{"SBATCH_PARTITION=small", "SLURM_NTASKS=7"}, "slurm", "submit", "--simulate",
		"--system", "site.toml", scenario, "--wait")
	require.Equal(t, exitOK, o.code)
	require.Contains(t, o.stderr, "cleared for sbatch: SBATCH_PARTITION SLURM_NTASKS")
	all := runs(t, dir)
	require.Len(t, all, 6)
	for d, p := range all {
		t.Run(p.Test, func(t *testing.T) { requirePlaced(t, d, p) })
	}
}

func requirePlaced(t *testing.T, dir string, p *plan.Plan) {
	r := readResult(t, dir)
	require.True(t, r.Validity.Valid)
	require.True(t, r.Simulated)
	require.Equal(t, result.Completed, r.Status)
	require.Equal(t, "COMPLETED", r.Slurm.State)
	require.Equal(t, p.Loads[0].Expect.NumPrompts, *r.Results.CompletedRequests)
	require.NotNil(t, r.Accuracy)
	require.Equal(t, 200, *r.Accuracy.Questions)
	require.Len(t, r.Placement.Nodes, p.Job.Nodes)
	gpus := 0
	steps := stepNodes(t, r.Slurm.JobID)
	for _, role := range p.Roles {
		want := r.Placement.Nodes[role.Nodes.Offset:role.Nodes.End()]
		require.Equal(t, want, steps[role.Name], "Slurm's own record of role %s", role.Name)
		gpus += len(role.GPUs) * role.Nodes.Count
		for rank, host := range want {
			log, err := os.ReadFile(filepath.Join(dir, "logs", fmt.Sprintf("%s-%d.log", role.Name, rank)))
			require.NoError(t, err)
			if role.Engine {
				require.Contains(t, string(log), host, "role %s rank %d", role.Name, rank)
				require.Contains(t, string(log), "CUDA_VISIBLE_DEVICES="+plan.FormatGPUs(role.GPUs))
			}
		}
	}
	require.Equal(t, gpus, *r.Results.GPUs)
	if p.Loads[0].Expect.Disaggregated {
		require.Positive(t, *r.Results.KVTransfer.Transfers)
	}
	requireNoLeftovers(t, r.Slurm.JobID)
}

// slowTokens is for loads that go on until something ends them: they need not use the machine.
const slowTokens = "PROFLLM_SIM_ITL=40ms"

const faultScenario = `name = "fault"
[[Tests]]
id = "a"
test_template_name = "vllm"
num_nodes = NODES
time_limit = "LIMIT"
[Tests.cmd_args]
PREFILL
[Tests.bench_cmd_args]
num_prompts = PROMPTS
random_output_len = 50
max_concurrency = 8
`

func writeScenario(t *testing.T, dir, limit string, disaggregated bool, prompts int) {
	t.Helper()
	nodes, prefill := "1", ""
	if disaggregated {
		nodes, prefill = "2", "[Tests.cmd_args.prefill]"
	}
	text := strings.NewReplacer("NODES", nodes, "LIMIT", limit, "PREFILL", prefill, "PROMPTS", strconv.Itoa(prompts)).
		Replace(faultScenario)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(text), 0o644))
}

// requireBeforeDeadline: a dead server ends the job at once, not when servers should be ready.
func requireBeforeDeadline(t *testing.T, dir string, r *result.Result) {
	t.Helper()
	p, err := run.ReadPlan(dir)
	require.NoError(t, err)
	require.Less(t, *r.Duration, time.Duration(p.Roles[0].Timeout).Seconds())
}

// covers: CD-16, CD-43, PL-S4, PL-S36, PL-S39, PL-D8, PL-V1, PL-V4, PL-V5, SM-8
func TestSlurmFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		faults        string
		disaggregated bool
		code          int
		own           bool // the job failed for its own judgement, which is no further reason
		check         func(t *testing.T, dir string, r *result.Result)
	}{
		"server dies at start": {faults: "serve:die-at-start,exit=3", code: exitJobFailed, check: func(t *testing.T, dir string, r *result.Result) {
			require.Equal(t, result.Failed, r.Status)
			require.Equal(t, "kv-cache-none", r.Failure.Cause)
			require.Equal(t, "serve", r.Failure.Role)
			require.Contains(t, r.Failure.Line, "No available memory for the cache blocks")
			require.Equal(t, "fail", string(r.Validity.Check("role-died").Outcome))
			requireBeforeDeadline(t, dir, r)
		}},
		"decode dies at start": {faults: "decode:die-at-start", disaggregated: true, code: exitJobFailed, check: func(t *testing.T, dir string, r *result.Result) {
			require.Equal(t, "decode", r.Failure.Role)
			requireBeforeDeadline(t, dir, r)
		}},
		"server dies under load": {faults: "serve:die-on-request=100", code: exitJobFailed, check: func(t *testing.T, dir string, r *result.Result) {
			require.Equal(t, result.Partial, r.Status)
			require.Equal(t, "fail", string(r.Validity.Check("role-died").Outcome))
			require.Equal(t, "serve", r.Failure.Role)
		}},
		"requests fail": {faults: "serve:fail=0.1", code: exitInvalid, own: true, check: func(t *testing.T, dir string, r *result.Result) {
			require.Equal(t, result.Partial, r.Status)
			require.Positive(t, *r.Results.FailedRequests)
			require.Equal(t, "fail", string(r.Validity.Check("request-errors").Outcome))
			require.Equal(t, "6:0", r.Slurm.ExitCode)
		}},
		"answers are empty": {faults: "decode:zero-tokens", disaggregated: true, code: exitJobFailed, own: true, check: func(t *testing.T, dir string, r *result.Result) {
			require.Equal(t, "fail", string(r.Validity.Check("no-success").Outcome))
		}},
		"client fails": {faults: "client:die-after=1s,exit=4", code: exitJobFailed, own: true, check: func(t *testing.T, dir string, r *result.Result) {
			require.Equal(t, "fail", string(r.Validity.Check("phase-failed").Outcome))
			require.Contains(t, r.Validity.Check("phase-failed").Detail, "bench ended with 4")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := lab(t)
			writeScenario(t, dir, "5m", c.disaggregated, 300)
			o := profllm(t, dir, []string{"PROFLLM_SIM_FAULTS=" + c.faults, "PROFLLM_SIM_ITL=5ms"},
				"slurm", "submit", "--simulate", "--system", "site.toml", "s.toml", "--wait")
			require.Equal(t, c.code, o.code)
			d := only(t, dir)
			r := readResult(t, d)
			require.False(t, r.Validity.Valid)
			require.NotEqual(t, "COMPLETED", r.Slurm.State, "the job says it too")
			end := r.Validity.Check("job-state")
			require.Equal(t, c.own, end.Outcome == result.Pass, "%s: %s", end.Outcome, end.Detail)
			c.check(t, d, r)
			requireNoLeftovers(t, r.Slurm.JobID)
		})
	}
}

// waitAnswers waits until the client of a run says, as it does every 5 s, that some
// requests are done.
func waitAnswers(t *testing.T, dir string) {
	t.Helper()
	some, last := regexp.MustCompile(`load: [1-9]\d*/`), ""
	await.True(t, func() bool {
		data, err := os.ReadFile(filepath.Join(dir, run.LogDir, "bench-0.log"))
		if err == nil {
			last = string(data)
		}
		return some.MatchString(last)
	}, "the client has answers; its log:\n%s", &last)
}

// covers: PL-S34, PL-S40, CD-36
func TestSlurmCancel(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	writeScenario(t, dir, "5m", true, 5000)
	o := profllm(t, dir, []string{slowTokens}, "slurm", "submit", "--simulate", "--system", "site.toml", "s.toml")
	require.Equal(t, exitOK, o.code)
	d := only(t, dir)
	await.Text(t, filepath.Join(d, "events.jsonl"), "all-ready")
	waitAnswers(t, d) // the partial result is about them
	require.Equal(t, exitOK, profllm(t, dir, nil, "slurm", "cancel", "results").code)
	require.Equal(t, exitJobFailed, profllm(t, dir, nil, "collect", "results").code)
	r := readResult(t, d)
	require.Equal(t, result.Cancelled, r.Status)
	require.Contains(t, r.Slurm.State, "CANCELLED")
	require.Positive(t, *r.Results.CompletedRequests, "what was measured is readable")
	require.False(t, r.Validity.Valid)
	requireNoLeftovers(t, jobID(t, d))
}

// covers: PL-S35
func TestSlurmTimeLimit(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	writeScenario(t, dir, "60s", false, 20000)
	o := profllm(t, dir, []string{slowTokens}, "slurm", "submit", "--simulate", "--system", "site.toml", "s.toml", "--wait")
	require.Equal(t, exitJobFailed, o.code)
	d := only(t, dir)
	r := readResult(t, d)
	require.Equal(t, "TIMEOUT", r.Slurm.State)
	require.Equal(t, "slurm-time-limit", r.Failure.Cause)
	require.Positive(t, *r.Results.CompletedRequests)
	requireNoLeftovers(t, jobID(t, d))
}

// A submission that is killed with KILL around sbatch loses no job and makes no
// second one: the next command finds it.
//
// covers: PL-S20, PL-S21, PL-S22, PL-D2
func TestSlurmSubmitKilled(t *testing.T) {
	t.Parallel()
	real, err := exec.LookPath("sbatch")
	if err != nil {
		lab(t)
	}
	for name, wrapper := range map[string]string{
		"before sbatch": "touch called; WAIT; exec REAL \"$@\"",
		"during sbatch": "out=$(REAL \"$@\"); touch called; WAIT; echo \"$out\"",
		"after sbatch":  "REAL \"$@\"; code=$?; exec >&-; touch called; WAIT; exit $code",
	} {
		for _, again := range []string{"submit", "resume"} {
			t.Run(name+"/"+again, func(t *testing.T) {
				t.Parallel()
				dir := lab(t)
				bin := filepath.Join(dir, "bin")
				require.NoError(t, os.Mkdir(bin, 0o755))
				called, goOn := filepath.Join(dir, "called"), filepath.Join(dir, "go-on")
				script := "#!/bin/bash\n" + strings.NewReplacer("REAL", real, "touch called",
					"echo $$ >"+called+".part; mv "+called+".part "+called,
					"WAIT", "until [[ -e "+goOn+" ]]; do sleep 0.02; done").Replace(wrapper) + "\n"
				require.NoError(t, os.WriteFile(filepath.Join(bin, "sbatch"), []byte(script), 0o755))
				writeScenario(t, dir, "5m", false, 20)
				args := []string{"slurm", "submit", "--simulate", "--system", "site.toml", "s.toml", "--settle", "20s"}
				cmd := command(dir, []string{"PATH=" + bin + ":" + os.Getenv("PATH")}, args...)
				require.NoError(t, cmd.Start())
				await.File(t, called)
				sbatch, err := strconv.Atoi(strings.TrimSpace(readText(t, called)))
				require.NoError(t, err)
				require.NoError(t, cmd.Process.Kill())
				cmd.Wait()
				d := only(t, dir)
				require.NoFileExists(t, filepath.Join(d, run.SubmitFile))

				if again == "resume" {
					args = []string{"slurm", "resume", filepath.Dir(filepath.Dir(d)), "--settle", "20s"}
				}
				o := settling(t, command(dir, nil, append(args, "--wait")...), goOn)
				await.True(t, func() bool { return process.Start(sbatch) == "" },
					"the interrupted sbatch, process %d, ends", sbatch)
				require.Equal(t, exitOK, o.code)
				require.Equal(t, d, only(t, dir), "the interrupted run goes on; there is no second one")
				require.Contains(t, o.stdout, "adopted job "+jobID(t, d))
				require.True(t, readResult(t, d).Validity.Valid)

				p, err := run.ReadPlan(d)
				require.NoError(t, err)
				out, err := exec.Command("squeue", "-h", "-t", "all", "--name="+p.Job.Name, "-o", "%i").Output()
				require.NoError(t, err)
				require.Equal(t, jobID(t, d), strings.TrimSpace(string(out)), "exactly one job")
			})
		}
	}
}

// settling runs a command that finds an interrupted submission, and lets its sbatch go on
// once the command waits for it, or has ended without.
func settling(t *testing.T, cmd *exec.Cmd, goOn string) outcome {
	t.Helper()
	var stdout, stderr lockedBuffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Start())
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = cmd.Wait() // its code is looked at
	}()
	await.True(t, func() bool {
		select {
		case <-over:
			return true
		default:
			return strings.Contains(stderr.String(), "looking again in ")
		}
	}, "the command looks for the job; it has said:\n%s\n%s", &stdout, &stderr)
	require.NoError(t, os.WriteFile(goOn, nil, 0o644))
	<-over
	t.Logf("%s%s", &stdout, &stderr)
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// What dry-run prints on a machine without any Slurm is what sbatch gets.
func TestSlurmDryRunIsTheTruth(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	writeScenario(t, dir, "5m", true, 20)
	at := []string{"--simulate", "--system", "site.toml", "--time", "2026-01-02T03:04:05Z", "s.toml"}
	dry := profllm(t, dir, []string{"PATH=/nowhere", "SLURM_CONF=/nowhere"},
		append([]string{"slurm", "dry-run", "--output", "script"}, at...)...)
	require.Equal(t, exitOK, dry.code)
	require.NoDirExists(t, filepath.Join(dir, "results"), "a dry run leaves nothing")
	o := profllm(t, dir, nil, append([]string{"slurm", "submit"}, at...)...)
	require.Equal(t, exitOK, o.code)
	d := only(t, dir)
	script, err := os.ReadFile(filepath.Join(d, run.ScriptFile))
	require.NoError(t, err)
	require.Equal(t, dry.stdout, string(script))
	held, err := exec.Command("scontrol", "write", "batch_script", jobID(t, d), "-").Output()
	require.NoError(t, err)
	require.Equal(t, string(script), strings.TrimRight(string(held), "\n")+"\n", "what Slurm holds")
	require.Equal(t, exitOK, profllm(t, dir, nil, "slurm", "cancel", "results").code)
}

// A job that Slurm refuses costs no other: what is accepted is on record.
//
// covers: CD-24, CD-45
func TestSlurmRefusal(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	writeScenario(t, dir, "5m", false, 20)
	text, err := os.ReadFile(filepath.Join(dir, "s.toml"))
	require.NoError(t, err)
	text = append(text, []byte("[Tests.slurm]\npartition = \"nosuch\"\n[[Tests]]\nid = \"b\"\ntest_template_name = \"Sleep\"\ntime_limit = \"5m\"\ncmd_args.seconds = 100\n")...)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), text, 0o644))
	o := profllm(t, dir, nil, "slurm", "submit", "--simulate", "--system", "site.toml", "s.toml")
	require.Equal(t, exitNotSubmit, o.code)
	require.Contains(t, o.stderr, "invalid partition specified: nosuch")
	status := profllm(t, dir, nil, "slurm", "status", "results", "--output", "json")
	lines := readDocument[document.States](t, status).Runs
	require.Len(t, lines, 2)
	require.NotEmpty(t, lines[0].Submission.Refused)
	require.NotEmpty(t, lines[1].Submission.JobID)
	require.Contains(t, o.stderr, "profllm slurm resume ")
	require.Equal(t, exitOK, profllm(t, dir, nil, "slurm", "cancel", "results").code)
}
