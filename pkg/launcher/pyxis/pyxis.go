// Package pyxis runs steps in containers through the pyxis plugin of srun, which
// imports images with enroot.
package pyxis

import (
	"fmt"
	"strings"

	"github.com/profllm/profllm/pkg/plan"
)

// Launcher implements plan.Launcher.
type Launcher struct{}

// New returns the launcher.
func New() plan.Launcher { return Launcher{} }

// Wrap adds pyxis' options to srun. A step that runs profllm itself gets the
// program mounted at its own path.
func (Launcher) Wrap(s plan.Step, c plan.Container) (plan.Step, error) {
	if c.Image == "" {
		return s, fmt.Errorf("step %q has no image", s.Name)
	}
	mounts := append([]string(nil), c.Mounts...)
	for _, word := range s.Argv {
		if len(word) == 1 && word[0].Self {
			mounts = append(mounts, c.Binary+":"+c.Binary+":ro")
			break
		}
	}
	for _, m := range mounts {
		if strings.ContainsRune(m, ',') || !strings.ContainsRune(m, ':') {
			return s, fmt.Errorf("mount %q must be SRC:DST without a comma", m)
		}
	}
	s.Srun = append(s.Srun, plan.Text("--container-image="+c.Image), plan.Text("--container-mounts="+strings.Join(mounts, ",")))
	if !c.MountHome {
		s.Srun = append(s.Srun, plan.Text("--no-container-mount-home"))
	}
	return s, nil
}
