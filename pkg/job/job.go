// Package job is the part of profllm that runs inside an allocation. The job's script
// calls it for what bash does badly: claiming the run, choosing ports, forming a Ray
// cluster, waiting for readiness, watching roles, stopping them by step id, and writing
// the sentinel.
//
// The package starts no role itself; the script does, so that a person can read and
// rerun it.
package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/gpu"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/process"
	"github.com/profllm/profllm/pkg/run"
)

// Job is one run inside its allocation.
type Job struct {
	Dir    string              // the run directory
	Env    func(string) string // of the batch script or the step
	Stdout io.Writer
	Stderr io.Writer
	Now    func() time.Time
	GPUs   gpu.Reader // how the GPUs of a node are read; zero: by nvidia-smi
	// Simulator is the settings of the simulated programs in Env, by name; a job of a real
	// engine does not use them.
	Simulator map[string]string
	// Lease takes ports of this machine for this job, or says which one another job has. It is
	// nil where jobs do not share a node.
	Lease func(ctx context.Context, ports []int) (taken int, err error)

	grace time.Duration                              // of Stop, in tests; zero: termWait and killWait
	gpus  func(context.Context) (gpu.Listing, error) // in tests; nil: GPUs.List
}

func (j *Job) logf(format string, args ...any) {
	fmt.Fprintf(j.Stdout, "profllm "+j.Now().UTC().Format("15:04:05.000")+" "+format+"\n", args...)
}

func (j *Job) path(elem ...string) string {
	return filepath.Join(append([]string{j.Dir}, elem...)...)
}

// id is the job's id as squeue, sacct and scancel take it: in an array that of
// the task. SLURM_JOB_ID of a task is another number, which they do not print. In an allocation that
// somebody holds it is the id of the process that watches over the job.
func (j *Job) id() string {
	if array, task := j.Env("SLURM_ARRAY_JOB_ID"), j.Env("SLURM_ARRAY_TASK_ID"); array != "" && task != "" {
		return array + "_" + task
	}
	return cmp.Or(j.Env(run.HeldVar), j.Env("SLURM_JOB_ID"))
}

// Start claims the run for this job, so that two jobs can never both execute it. After a
// requeue, it moves the files of the last attempt aside.
func (j *Job) Start() error {
	p, err := run.ReadPlan(j.Dir)
	if err != nil {
		return err
	}
	id := j.id()
	if id == "" {
		return errors.New("SLURM_JOB_ID is not set: this runs inside a job")
	}
	claim := run.Claim{Schema: "profllm.claim/1", JobID: id, Node: j.Env("SLURMD_NODENAME"), Time: j.Now().UTC()}
	if j.Env(run.HeldVar) != "" {
		claim.Allocation = j.Env("SLURM_JOB_ID")
		if claim.Others, err = runningSteps(claim.Allocation); err != nil {
			return fmt.Errorf("list the steps of allocation %s, which are not the run's: %w", claim.Allocation, err)
		}
	}
	// Created before it is read: a node may learn late that a file exists.
	err = run.CreateJSON(j.path(run.ClaimFile), claim)
	made := err == nil
	if errors.Is(err, fs.ErrExist) {
		err = run.ReadJSON(j.path(run.ClaimFile), &claim)
	}
	switch {
	case err != nil:
		return fmt.Errorf("claim the run: %w", err)
	case made:
		err = j.hasSecrets(p)
	case claim.JobID != id:
		return fmt.Errorf("job %s already executes or executed this run (%s); a run is executed only once", claim.JobID,
			j.path(run.ClaimFile))
	default:
		// First: a run of a sequence that is over has none left, and keeps its result.
		if err := j.hasSecrets(p); err != nil {
			return err
		}
		if claim.Restarts, err = run.SetAside(j.Dir, claim.Restarts+1); err != nil {
			return err
		}
		claim.Node, claim.Time = j.Env("SLURMD_NODENAME"), j.Now().UTC()
		err = run.WriteJSON(j.path(run.ClaimFile), claim)
	}
	if err == nil {
		err = run.ExpectSecrets(j.Dir, p)
	}
	if err != nil {
		return err
	}
	j.logf("job %s runs %s on %s", id, p.RunID, j.Env("SLURM_JOB_NODELIST"))
	if p.Simulated {
		return j.linkEngine(p.Binary)
	}
	return nil
}

// hasSecrets reads what the submitting shell gave; a file may be on the nodes that
// need it only.
func (j *Job) hasSecrets(p *plan.Plan) error {
	for _, s := range p.Secrets() {
		if s.Env == "" {
			continue
		}
		if _, err := run.ReadSecret(j.Dir, s); err != nil {
			return err
		}
	}
	return nil
}

// linkEngine puts the simulated engine first on the script's PATH.
func (j *Job) linkEngine(binary string) error {
	if err := os.MkdirAll(j.path("bin"), 0o755); err != nil {
		return err
	}
	for _, name := range []string{"vllm", "ray", "python3", "nsys", "viztracer", "nvidia-smi", "aiperf",
		"genai-perf"} {
		link := j.path("bin", name)
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.Symlink(binary, link); err != nil {
			return err
		}
	}
	return nil
}

// Process is a background process of the script: a role's srun.
type Process struct {
	Name string
	PID  int
}

// ParseProcesses reads name=pid arguments.
func ParseProcesses(args []string) ([]Process, error) {
	list := make([]Process, len(args))
	for i, a := range args {
		name, pid, _ := strings.Cut(a, "=")
		n, err := strconv.Atoi(pid)
		if err != nil || name == "" || n < 2 {
			return nil, fmt.Errorf("%q is not name=pid", a)
		}
		list[i] = Process{name, n}
	}
	return list, nil
}

// alive reports whether a process runs. A zombie, which its shell has not yet
// waited for, does not.
func alive(pid int) bool { return process.Start(pid) != "" }

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// untilEnd sleeps, and less if one of these processes ends meanwhile. They run, or have run just now.
func untilEnd(ctx context.Context, d time.Duration, pids ...int) bool {
	process.Ends(d, pids...)
	return ctx.Err() == nil
}

// endpoint is the URL of a role inside the allocation.
func endpoint(p *plan.Plan, place *run.Placement, role *plan.Role, path string) (string, error) {
	if role.Nodes.Offset >= len(place.Nodes) {
		return "", fmt.Errorf("role %q starts at node %d of %d", role.Name, role.Nodes.Offset, len(place.Nodes))
	}
	port, ok := place.Ports[role.Health.Port]
	if !ok {
		return "", fmt.Errorf("role %q: no port %q", role.Name, role.Health.Port)
	}
	return fmt.Sprintf("http://%s:%d%s", place.Nodes[role.Nodes.Offset].Addr, port, path), nil
}
