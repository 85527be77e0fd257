package slurmtest

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/profllm/profllm/pkg/lazyregexp"
)

var programs = []string{"sbatch", "squeue", "sacct", "scancel", "scontrol", "sinfo"}

// Main acts as one of the fake programs; ok is false when argv[0] is none of
// them.
func Main(argv, environ []string, stdout, stderr io.Writer) (code int, ok bool) {
	name := filepath.Base(argv[0])
	if !contains(programs, name) {
		return 0, false
	}
	p := program{name: name, args: argv[1:], stdout: stdout, stderr: stderr}
	for _, kv := range environ {
		if v, found := strings.CutPrefix(kv, dirVar+"="); found {
			p.controller = controller(v)
		}
	}
	code, err := p.run()
	if err != nil {
		fmt.Fprintf(stderr, "fake %s: %v\n", name, err)
		return 99, true
	}
	return code, true
}

type program struct {
	controller
	name           string
	args           []string
	stdout, stderr io.Writer
}

func (p program) run() (int, error) {
	if p.controller == "" {
		return 0, errors.New(dirVar + " is not set")
	}
	k, err := p.knobs()
	if err != nil {
		return 0, err
	}
	if err := p.record(p.name, p.args); err != nil {
		return 0, err
	}
	for contains(k.Hang, p.name) {
		if k, err = p.knobs(); err != nil {
			return 0, err // the test is over
		}
		time.Sleep(10 * time.Millisecond)
	}
	switch p.name {
	case "sbatch":
		return p.sbatch(k)
	case "squeue":
		return p.squeue(k)
	case "sacct":
		return p.sacct(k)
	case "scancel":
		return 0, p.scancel()
	}
	text := map[string]string{"sinfo": k.Sinfo, "scontrol": k.Scontrol}[p.name]
	_, err = io.WriteString(p.stdout, text)
	return 0, err
}

func (p program) fail(text string) int {
	fmt.Fprintf(p.stderr, "%s: error: %s\n", p.name, text)
	return 1
}

// option finds --key=value, or a short key and the argument behind it.
func (p program) option(keys ...string) string {
	for i, a := range p.args {
		for _, k := range keys {
			if v, ok := strings.CutPrefix(a, k+"="); ok && strings.HasPrefix(k, "--") {
				return v
			}
			if a == k && i+1 < len(p.args) {
				return p.args[i+1]
			}
		}
	}
	return ""
}

func (p program) sbatch(k Knobs) (int, error) {
	if contains(p.args, "--test-only") {
		fmt.Fprintln(p.stderr,
			"sbatch: Job 61 to start at 2282-01-01T00:00:00 using 1 processors on nodes n1 in partition main")
		return 0, nil
	}
	if err := p.gate("before", k); err != nil {
		return 0, err
	}
	job := Job{
		Name: p.option("--job-name"), Comment: p.option("--comment"), Script: p.args[len(p.args)-1],
		Queue: "PENDING", Acct: "PENDING", Reason: "Priority", ExitCode: "0:0", Start: "Unknown", End: "Unknown",
		Waits: p.option("--dependency"),
	}
	if text, err := os.ReadFile(job.Script); err == nil {
		if m := arrayLine.FindSubmatch(text); m != nil {
			last, _ := strconv.Atoi(string(m[1]))
			job.Size = last + 1
		}
	}
	if k.Refuse != "" {
		if k.Leftover {
			job.Queue, job.Acct, job.Reason, job.NodeList = "", "FAILED", "BadConstraints", "None assigned"
			if _, err := p.accept(job, 0); err != nil {
				return 0, err
			}
		}
		return p.fail(k.Refuse), nil
	}
	job, err := p.accept(job, k.HiddenLooks)
	if err != nil {
		return 0, err
	}
	if err := p.gate("accepted", k); err != nil {
		return 0, err
	}
	if k.LoseAnswer != "" {
		return p.fail(k.LoseAnswer), nil
	}
	answer := job.ID
	if k.Cluster != "" {
		answer += ";" + k.Cluster
	}
	fmt.Fprintf(p.stdout, "%s%s\n", k.Banner, answer)
	return 0, p.gate("answered", k)
}

var arrayLine = lazyregexp.New(`(?m)^#SBATCH --array=0-(\d+)`)

// final words do not show in squeue without -t all.
var final = []string{"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE",
	"OUT_OF_MEMORY", "REVOKED"}

func (p program) squeue(k Knobs) (int, error) {
	if k.Fail != "" {
		return p.fail(k.Fail), nil
	}
	format := p.option("-o", "--format")
	ids := p.option("-j", "--jobs")
	if contains(p.args, "-s") {
		return 0, p.squeueSteps(ids, format)
	}
	jobs, err := p.visible(ids, p.option("--name"))
	if err != nil {
		return 0, err
	}
	shown := 0
	if jobs, err = p.listed(jobs, contains(p.args, "-r")); err != nil {
		return 0, err
	}
	for _, j := range jobs {
		if j.Queue == "" || p.option("-t") != "all" && contains(final, j.Queue) {
			continue
		}
		shown++
		fmt.Fprintln(p.stdout,
			strings.NewReplacer("%i", j.ID, "%A", j.ID, "%T", j.Queue, "%r", reason(j.Reason), "%N", j.NodeList, "%n",
				j.Requested, "%j", j.Name, "%k", j.Comment).Replace(format))
	}
	if shown == 0 && ids != "" && !strings.Contains(ids, ",") && len(jobs) == 0 {
		fmt.Fprintln(p.stderr, "slurm_load_jobs error: Invalid job id specified")
		return 1, nil
	}
	return 0, nil
}

// listed shows arrays as tasks: those with a record of their own, and the others
// as one line, or each if they are to be taken apart.
func (p program) listed(jobs []Job, apart bool) ([]Job, error) {
	var list []Job
	for _, j := range jobs {
		own, rest, err := p.tasks(j)
		if err != nil {
			return nil, err
		}
		list = append(list, own...)
		if !apart && len(rest) > 0 {
			var numbers []string
			for _, i := range rest {
				numbers = append(numbers, strconv.Itoa(i))
			}
			j.ID = fmt.Sprintf("%s_[%s%%2]", j.ID, strings.Join(numbers, ","))
			list = append(list, j)
			continue
		}
		for _, i := range rest {
			one := j
			one.ID = fmt.Sprintf("%s_%d", j.ID, i)
			list = append(list, one)
		}
	}
	return list, nil
}

func reason(s string) string {
	if s == "" {
		return "None"
	}
	return s
}

func (p program) squeueSteps(job, format string) error {
	files, err := filepath.Glob(p.path("steps", "*.json"))
	if err != nil {
		return err
	}
	for _, f := range files {
		var s Step
		if err := readJSON(f, &s); err != nil {
			return err
		}
		if strings.HasPrefix(s.ID, job+".") || strings.HasPrefix(s.ID, job+"+") {
			fmt.Fprintln(p.stdout, strings.NewReplacer("%i", cmp.Or(s.Shown, s.ID), "%j", s.Name, "%N", s.Nodes).
				Replace(format))
		}
	}
	return nil
}

func (p program) sacct(k Knobs) (int, error) {
	switch {
	case k.NoAccounting:
		fmt.Fprintln(p.stderr, "Slurm accounting storage is disabled")
		return 1, nil
	case k.Fail != "":
		return p.fail(k.Fail), nil
	}
	jobs, err := p.visible(p.option("-j", "--jobs"), p.option("--name"))
	if err != nil {
		return 0, err
	}
	if jobs, err = p.listed(jobs, false); err != nil {
		return 0, err
	}
	for _, j := range jobs {
		if j.Acct == "" {
			continue
		}
		var cells []string
		for _, column := range strings.Split(p.option("-o", "--format"), ",") {
			cells = append(cells, j.cell(column))
		}
		fmt.Fprintln(p.stdout, strings.Join(cells, "|"))
	}
	return 0, nil
}

func (j Job) cell(column string) string {
	switch column {
	case "JobID":
		return j.ID
	case "JobName":
		return j.Name
	case "State":
		return j.Acct
	case "ExitCode":
		return j.ExitCode
	case "Start":
		return j.Start
	case "End":
		return j.End
	case "ElapsedRaw":
		return fmt.Sprint(j.Elapsed)
	case "NodeList":
		return j.NodeList
	}
	return ""
}

// scancel cancels jobs, or signals steps. It says nothing about what it does not
// know.
func (p program) scancel() error {
	signal := syscall.SIGKILL
	if p.option("--signal") == "TERM" {
		signal = syscall.SIGTERM
	}
	for _, id := range p.args {
		var s Step
		var j Job
		switch {
		case strings.HasPrefix(id, "-"):
		case readJSON(p.path("steps", id+".json"), &s) == nil:
			if s.PID == 0 {
				continue
			}
			if err := syscall.Kill(s.PID, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
				return err
			}
		case readJSON(p.path("jobs", id+".json"), &j) == nil && !contains(final, j.Queue):
			j.Queue, j.Acct, j.ExitCode = "CANCELLED", fmt.Sprintf("CANCELLED by %d", os.Getuid()), "0:15"
			if err := writeJSON(p.path("jobs", id+".json"), j); err != nil {
				return err
			}
		}
	}
	return nil
}
