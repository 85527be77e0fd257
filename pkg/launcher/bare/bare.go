// Package bare runs steps directly on the node, without a container: whatever
// the step's command needs must be installed there.
package bare

import "github.com/profllm/profllm/pkg/plan"

// Launcher implements plan.Launcher.
type Launcher struct{}

// New returns the launcher.
func New() plan.Launcher { return Launcher{} }

// Wrap returns the step as it is.
func (Launcher) Wrap(s plan.Step, _ plan.Container) (plan.Step, error) {
	s.Container = false
	return s, nil
}
