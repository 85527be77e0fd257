package campaign

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
)

// A run is resumed with what it waits for; anything in its directory means it, and
// a folder means the runs below it. The whole may have been moved.
func TestRunsFor(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	runs := []string{"base/0", "base/1", "child/0", "other/0"}
	waits := map[string]string{"base/1": "base/0", "child/0": "base/1"}
	for _, rel := range runs {
		p := &plan.Plan{Schema: plan.Schema, RunID: rel, Dir: filepath.Join("/was/there", rel)}
		if parent := waits[rel]; parent != "" {
			p.Job.After = []plan.After{{Type: "afterok", Dir: filepath.Join("/was/there", parent)}}
		}
		require.NoError(t, run.Fill(filepath.Join(root, rel), p, nil))
	}
	for path, want := range map[string][]string{
		"":            runs,
		"child/0":     {"base/0", "base/1", "child/0"},
		"child":       {"base/0", "base/1", "child/0"},
		"base/0/logs": {"base/0"},
		"base":        {"base/0", "base/1"},
		"other/0":     {"other/0"},
		"definitions": nil,
	} {
		var dirs []string
		for _, rel := range want {
			dirs = append(dirs, filepath.Join(root, rel))
		}
		require.Equal(t, dirs, runsFor(root, filepath.Join(root, path), runs), path)
	}
}

// Why a run is submitted again completes the sentence that begins with the number of runs.
func TestAgain(t *testing.T) {
	t.Parallel()
	job := run.Submission{JobID: "7"}
	for want, c := range map[string]struct {
		sub    run.Submission
		state  run.State
		failed bool
	}{
		"whose submission was not completed": {},
		"refused":                            {sub: run.Submission{Refused: "no such partition"}},
		"never started":                      {job, run.State{State: run.Cancelled, Note: run.NeverRan}, false},
		run.NodeFail:                         {job, run.State{State: run.NodeFail}, false},
		run.Failed:                           {job, run.State{State: run.Failed}, true},
		"":                                   {job, run.State{State: run.Failed}, false},
	} {
		require.Equal(t, want, Again(c.sub, c.state, c.failed))
	}
}
