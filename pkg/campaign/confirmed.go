package campaign

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/again"
	"github.com/profllm/profllm/pkg/planner"
	"github.com/profllm/profllm/pkg/run"
)

// HasUnanswered reports whether an interrupted submission of a scenario left jobs that are not
// known to be submitted or refused.
func HasUnanswered(root string, s run.Scenario) bool {
	return slices.ContainsFunc(s.InOrder(), func(rel string) bool {
		_, answered := run.Answered(filepath.Join(root, rel))
		return !answered
	})
}

// MorePairs is the command that confirms the same with more pairs. root is the confirmation's
// directory, and shown the same, quoted for a shell.
func MorePairs(s run.Scenario, root, shown string, pairs int) string {
	words := []string{
		"profllm confirm", path.Join(shown, planner.Sides[0]), path.Join(shown, planner.Sides[1]),
		fmt.Sprintf("--pairs %d", pairs),
	}
	for _, m := range s.Confirm.Metrics {
		words = append(words, "--metric "+m)
	}
	switch {
	case s.Local:
		words = append(words, "--rehearse")
		if p, err := run.ReadPlan(filepath.Join(root, s.Runs[0])); err == nil && p.Speed() > 1 {
			words = append(words, fmt.Sprintf("--speed %d", p.Speed()))
		}
	case s.Simulated:
		words = append(words, "--simulate")
	}
	simulator := ""
	for _, rel := range s.Runs {
		if simulator, _ = again.Simulator(filepath.Join(root, rel), root); simulator != "" {
			break // others never ran, or were made under the same
		}
	}
	return simulator + strings.Join(words, " ")
}
