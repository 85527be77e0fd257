package local

import (
	"context"
	"fmt"
	"strings"

	"github.com/profllm/profllm/pkg/plan"
)

// Hold makes the jobs steps of an allocation of Slurm that the shell of this command holds. environ
// is that of the command.
func (l *Local) Hold(allocation string, environ []string) {
	l.Allocation, l.environ = allocation, nil
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		switch {
		case !strings.HasPrefix(name, "SLURM") || name == "SLURM_CONF":
			l.environ = append(l.environ, kv)
		case !ofTask(name):
			l.held = append(l.held, kv)
		}
	}
}

// ofTask reports whether Slurm sets a variable for a task alone: a shell that is itself a step has
// them, and the script is no part of that step.
func ofTask(name string) bool {
	switch name {
	case "SLURM_STEPID", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_TASK_PID", "SLURM_GTIDS":
		return true
	}
	for _, prefix := range []string{"SLURM_STEP_", "SLURM_LAUNCH_", "SLURM_SRUN_", "SLURM_PTY_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// resources are what a job is given: GPUs of this machine, or the allocation, in which one job runs
// at a time, since the steps of two would not be told apart.
func (l *Local) resources(ctx context.Context, job *plan.Job) (environ, leased []string, err error) {
	if l.Allocation == "" {
		return l.devices(ctx, job)
	}
	name, h := "allocation "+l.Allocation, ourselves()
	var other string
	err = changeLeases(ctx, func(of leases) bool {
		if has, ok := of[name]; ok && has != h {
			other = has.Job
			return false
		}
		of[name] = h
		return true
	})
	if err == nil && other != "" {
		err = fmt.Errorf("%s is used by job %s, and one run at a time can use it", name, other)
	}
	return l.held, []string{name}, err
}
