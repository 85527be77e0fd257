// Package apptainer runs steps in containers of Apptainer.
package apptainer

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

// Wrap runs the step with `apptainer exec`, contained: no home and no environment of
// the host but what the step names, because packages of the home folder would be
// found before the image's. Contained mode has a small /dev and a /tmp of 64 MiB, so
// /dev/shm is the host's, and `profllm job contain` adds a scratch folder and the
// devices of the network.
func (Launcher) Wrap(s plan.Step, c plan.Container) (plan.Step, error) {
	image, err := imageName(c.Image)
	if err != nil {
		return s, err
	}
	own, mounts, err := container.Mounts(s, c)
	if err != nil {
		return s, err
	}
	var args []string
	if container.UsesGPUs(s) {
		args = append(args, "--nv")
	}
	bind := func(list []container.Mount) error {
		for _, m := range list {
			if strings.ContainsAny(m.Source+m.Target, `,\`) || m.Propagation != "" {
				return fmt.Errorf("mount %s:%s: apptainer supports no comma, no backslash and no propagation option",
					m.Source, m.Target)
			}
			word := "--bind=" + m.Source + ":" + m.Target
			if m.ReadOnly {
				word += ":ro"
			}
			args = append(args, word)
		}
		return nil
	}
	if err := bind(own); err != nil {
		return s, err
	}
	args = append(args, "--contain", "--cleanenv", "--writable-tmpfs", "--bind=/dev/shm")
	if c.Dir != "" {
		args = append(args, "--pwd="+c.Dir)
	}
	if err := bind(mounts); err != nil {
		return s, err
	}
	args = append(append(args, c.Args...), image)
	var flags []string
	for _, name := range container.Names(c) {
		flags = append(flags, "--env="+name)
	}
	return container.Contain(s, "apptainer", container.Flags{All: flags}, c, args), nil
}

func imageName(image string) (string, error) {
	r, err := container.ParseReference(image)
	switch {
	case err != nil:
		return "", err
	case r.File == "":
		return "docker://" + r.Plain(), nil
	case container.IsArchive(r.File):
		return "", fmt.Errorf("image %q: apptainer runs .sif files, squashfs files and folders (apptainer build NAME.sif docker-archive:%s makes one)", image, image)
	}
	return r.File, nil
}
