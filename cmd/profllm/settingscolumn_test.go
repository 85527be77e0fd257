package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
)

// The states of runs that measure points of a sweep have their settings; a run that is none
// has no such column.
func TestStatesOfPointsShowSettings(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write := func(place string, p *plan.Plan) string {
		dir := filepath.Join(root, place)
		require.NoError(t, os.MkdirAll(dir, 0o755))
		p.Schema = plan.Schema
		data, err := p.Encode()
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, run.PlanFile), data, 0o644))
		return dir
	}
	load := func(n int) plan.Load {
		return plan.Load{Values: []plan.Assignment{{Path: "bench_cmd_args.max_concurrency", Value: n}}}
	}
	swept := write("a/0/1", &plan.Plan{Step: 1, Loads: []plan.Load{load(4), load(16)}})
	single := write("b/0", &plan.Plan{Loads: []plan.Load{{}}})
	printed := func(dirs ...string) string {
		var out bytes.Buffer
		a := &app{stdout: &out}
		require.NoError(t, a.printStates("status", dirs, map[string]run.Submission{}, map[string]run.State{}))
		return out.String()
	}
	require.Regexp(t, `(?m)/a/0/1 +max_concurrency=4,16$`, printed(swept, single))
	require.NotContains(t, printed(single), "settings")
}
