package campaign

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/planner"
	"github.com/profllm/profllm/pkg/run"
)

// HasUnanswered reports whether an interrupted submission of a scenario left jobs that are not known to be
// submitted or refused.
func HasUnanswered(root string, s run.Scenario) bool {
	return slices.ContainsFunc(s.InOrder(), func(rel string) bool {
		_, answered := run.Answered(filepath.Join(root, rel))
		return !answered
	})
}

// MorePairs is the command that confirms the same with more pairs. root is the confirmation's directory,
// quoted for a shell.
func MorePairs(s run.Scenario, root string, pairs int) string {
	words := []string{
		"profllm confirm", path.Join(root, planner.Sides[0]), path.Join(root, planner.Sides[1]),
		fmt.Sprintf("--pairs %d", pairs),
	}
	for _, m := range s.Confirm.Metrics {
		words = append(words, "--metric "+m)
	}
	switch {
	case s.Local:
		words = append(words, "--rehearse")
	case s.Simulated:
		words = append(words, "--simulate")
	}
	return strings.Join(words, " ")
}
