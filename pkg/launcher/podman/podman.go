// Package podman runs steps in containers of Podman, which needs no daemon: the
// container's processes stay in the step's cgroup, with its GPUs and its limits.
package podman

import (
	"github.com/profllm/profllm/pkg/container"
	"github.com/profllm/profllm/pkg/plan"
)

// Launcher implements plan.Launcher.
type Launcher struct{}

// New returns the launcher.
func New() plan.Launcher { return Launcher{} }

// Wrap runs the step with `podman run`. No cgroup of its own, so that Slurm finds
// every process; no proxy variables of the host, because Ray's gRPC would follow
// them; no SELinux labels, because they would make mounted files unreadable. GPUs
// come by their CDI names, which `nvidia-ctk cdi generate` writes on the node.
func (Launcher) Wrap(s plan.Step, c plan.Container) (plan.Step, error) {
	return container.OCI{
		Program: "podman", Options: []string{"--cgroups=disabled", "--http-proxy=false",
			"--security-opt=label=disable"},
		GPUs: []string{"--device=nvidia.com/gpu=all"},
	}.Wrap(s, c)
}
