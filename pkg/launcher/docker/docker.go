// Package docker runs steps in containers of Docker's daemon.
//
// The daemon is no part of the Slurm job: its containers are outside of the step's
// cgroup, see every GPU of the node, and outlive a step that is killed. So steps run
// behind `profllm job contain`, and a job should have whole nodes.
package docker

import (
	"github.com/profllm/profllm/pkg/container"
	"github.com/profllm/profllm/pkg/plan"
)

// Launcher implements plan.Launcher.
type Launcher struct{}

// New returns the launcher.
func New() plan.Launcher { return Launcher{} }

// Wrap runs the step with `docker run`. Locked memory is unlimited, because RDMA
// registers its buffers, and threads have a stack of 64 MiB: the daemon's limits are
// what counts, not the job's.
func (Launcher) Wrap(s plan.Step, c plan.Container) (plan.Step, error) {
	return container.OCI{
		Program: "docker", Options: []string{"--ulimit=memlock=-1", "--ulimit=stack=67108864"},
		GPUs: []string{"--gpus=all"},
	}.Wrap(s, c)
}
