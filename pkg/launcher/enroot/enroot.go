// Package enroot runs steps in containers of enroot, without pyxis: for clusters
// whose Slurm does not have the plugin.
package enroot

import (
	"fmt"
	"strings"

	"github.com/profllm/profllm/pkg/container"
	"github.com/profllm/profllm/pkg/plan"
)

// Launcher implements plan.Launcher.
type Launcher struct{}

// New returns the launcher.
func New() plan.Launcher { return Launcher{} }

// Wrap runs the step with `enroot start` on an image file; writes go to memory and are
// gone at the end. Enroot shares the host's network, /dev and /dev/shm. Its hook adds GPUs
// if NVIDIA_VISIBLE_DEVICES is set; a step without GPUs gets "void", which switches the
// hook off. `profllm job contain` writes the command script that replaces the image's
// entrypoint, and works around the limits of enroot's files of variables and mounts.
func (Launcher) Wrap(s plan.Step, c plan.Container) (plan.Step, error) {
	r, err := container.ParseReference(c.Image)
	if err != nil {
		return s, err
	}
	if !strings.HasSuffix(r.File, ".sqsh") && !strings.HasSuffix(r.File, ".squashfs") {
		return s, fmt.Errorf("image %q: enroot starts .sqsh files (stage the image before: profllm stage SCENARIO)", c.Image)
	}
	own, mounts, err := container.Mounts(s, c)
	if err != nil {
		return s, err
	}
	devices := "void"
	if container.UsesGPUs(s) {
		devices = "all"
	}
	args := []string{"--env=NVIDIA_VISIBLE_DEVICES=" + devices}
	for _, m := range own {
		args = append(args, fstab(m))
	}
	args = append(args, "--root", "--rw")
	for _, name := range container.Names(c) {
		args = append(args, "--env="+name)
	}
	for _, m := range mounts {
		args = append(args, fstab(m))
	}
	args = append(append(args, c.Args...), r.File)
	return container.Contain(s, "enroot", container.Flags{All: []string{"--workdir=" + c.Dir}}, c, args), nil
}

// fstab is a mount as enroot reads it: fields of fstab.
func fstab(m container.Mount) string {
	options := "x-create=auto,rbind"
	if m.ReadOnly {
		options += ",ro"
	}
	if m.Propagation != "" {
		options += "," + m.Propagation
	}
	return "--mount=" + m.Source + ":" + m.Target + ":none:" + options
}
