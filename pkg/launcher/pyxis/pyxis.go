// Package pyxis runs steps in containers through the pyxis plugin of srun, which
// imports images with enroot.
package pyxis

import (
	"errors"
	"fmt"
	"strings"

	"github.com/profllm/profllm/pkg/container"
	"github.com/profllm/profllm/pkg/plan"
)

// Launcher implements plan.Launcher.
type Launcher struct{}

// New returns the launcher.
func New() plan.Launcher { return Launcher{} }

// Wrap adds pyxis' options to srun. A step that runs profllm itself gets the
// program mounted at its own path; so does one with secrets, which profllm reads
// inside the container, and the files that hold them.
func (Launcher) Wrap(s plan.Step, c plan.Container) (plan.Step, error) {
	image, err := imageName(c.Image)
	if err != nil {
		return s, err
	}
	mounts := append([]string(nil), c.Mounts...)
	self := len(s.Secrets) > 0
	for _, word := range s.Argv {
		self = self || len(word) == 1 && word[0].Self
	}
	if self {
		mounts = append(mounts, c.Binary+":"+c.Binary+":ro")
	}
	for _, x := range s.Secrets {
		if x.File != "" {
			mounts = append(mounts, x.File+":"+x.File+":ro")
		}
	}
	for _, m := range mounts {
		_, target, _ := strings.Cut(m, ":")
		switch {
		case strings.ContainsRune(m, ',') || !strings.ContainsRune(m, ':'):
			return s, fmt.Errorf("mount %q must be SRC:DST without a comma", m)
		case strings.ContainsAny(m, "\"$`\n\r"): // pyxis writes it into a line of bash, in double quotes
			return s, fmt.Errorf("mount %q: pyxis would have a shell evaluate it; use a path without $, ` and \"", m)
		case !strings.HasPrefix(m, "/") && !strings.HasPrefix(m, "tmpfs:") && !strings.HasPrefix(m, "umount:"):
			return s, fmt.Errorf("mount %q: the source must be an absolute path", m)
		case !strings.HasPrefix(target, "/"):
			return s, fmt.Errorf("mount %q: the target must be an absolute path", m)
		}
	}
	s.Srun = append(s.Srun, plan.Text("--container-image="+image),
		plan.Text("--container-mounts="+strings.Join(mounts, ",")))
	if len(c.Env) > 0 { // else the image's own values win (NVIDIA/pyxis#124)
		s.Srun = append(s.Srun, plan.Text("--container-env="+strings.Join(c.Env, ",")))
	}
	// Said in either case: what enroot does without an option, each site decides. Engines
	// write below their home, which is the image's.
	home := "--no-container-mount-home"
	if c.MountHome {
		home = "--container-mount-home"
	}
	s.Srun = append(s.Srun, plan.Text(home), plan.Text("--container-writable"))
	return s, nil
}

// Exposes is true: pyxis hands the step's whole environment in.
func (Launcher) Exposes() bool { return true }

// imageName writes an image as enroot reads it: a file by its path, else
// REGISTRY#NAME:TAG. A registry written the way of Docker, REGISTRY/NAME, would be
// taken for a name at Docker Hub, which answers 401 (NVIDIA/pyxis#168).
func imageName(image string) (string, error) {
	switch {
	case image == "":
		return "", errors.New("no image")
	case strings.HasPrefix(image, "dockerd://"):
		return "", fmt.Errorf("image %q: pyxis imports from registries and .sqsh files only (NVIDIA/pyxis#70)", image)
	case (image[0] == '/' || image[0] == '.') && container.IsArchive(image):
		return "", fmt.Errorf("image %q: pyxis imports from registries and .sqsh files only; docker load, then `enroot import --output NAME.sqsh dockerd://NAME:TAG` makes one", image)
	case image[0] == '/', image[0] == '.':
		return image, nil
	}
	if _, err := container.ParseReference(image); err != nil {
		return "", err
	}
	if strings.ContainsRune(image, '#') {
		return image, nil
	}
	name, isURL := strings.CutPrefix(image, "docker://")
	registry, rest, ok := strings.Cut(name, "/")
	if !ok || registry != "localhost" && !strings.ContainsAny(registry, ".:") {
		return image, nil
	}
	if isURL {
		registry = "docker://" + registry
	}
	return registry + "#" + rest, nil
}
