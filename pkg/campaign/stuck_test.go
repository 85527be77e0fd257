package campaign

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/run"
)

// The wait goes on while one open job may start. A job that waits for a job that never starts
// never starts either.
//
// covers: PL-S14
func TestAllStuck(t *testing.T) {
	t.Parallel()
	queued := func(note, reason string) run.State { return run.State{State: run.Queued, Note: note, Reason: reason} }
	never, held := queued(run.NeverStarts, "InvalidQOS"), queued(run.Held, "JobHeldUser")
	depends, running := queued("", "Dependency"), run.State{State: run.Running}
	const alone = "job 1 of r/1 never starts (InvalidQOS) and stays queued\n\thint: profllm slurm cancel r/1, correct the QOS"
	for name, c := range map[string]struct {
		jobs    []run.State // with the ids 1, 2, …
		waits   string      // of the second and of the third job
		endHeld bool
		want    string
	}{
		"never":                 {[]run.State{never}, "", false, alone},
		"never, one is over":    {[]run.State{never, {State: run.Failed}}, "", false, alone},
		"never, one runs":       {[]run.State{never, running}, "", false, ""},
		"never, one is unknown": {[]run.State{never, {State: run.Unknown}}, "", false, ""},
		"never, one waits":      {[]run.State{never, queued("", "Priority")}, "", false, ""},
		"never, one is held":    {[]run.State{never, held}, "", false, ""},
		"held":                  {[]run.State{held}, "", false, ""},
		"held, nobody watches": {[]run.State{held}, "", true,
			"job 1 of r/1 is held (JobHeldUser)\n\thint: scontrol release 1, or "},
		"never, others wait for it": {[]run.State{never, depends, depends}, "afterok:9:1", false,
			"job 1 of r/1 never starts (InvalidQOS) and stays queued; 2 other runs will not start either\n\thint: "},
		"the others wait for another": {[]run.State{never, depends}, "afterok:11", false, ""},
		"all waits":                   {[]run.State{queued("", "Priority"), depends}, "afterok:1", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := &Client{Now: time.Now, EndHeld: c.endHeld}
			var dirs []string
			subs, states, open := map[string]run.Submission{}, map[string]run.State{}, 0
			for i, st := range c.jobs {
				id := string(rune('1' + i))
				dir := "r/" + id
				st.JobID = id
				dirs, states[dir], subs[dir] = append(dirs, dir), st, run.Submission{JobID: id}
				if i > 0 && c.waits != "" {
					subs[dir] = run.Submission{JobID: id, Waits: []string{"after:12", c.waits}}
				}
				if !st.Final() {
					open++
				}
			}
			got := client.allStuck(dirs, subs, states, open)
			if c.want == "" {
				require.Nil(t, got)
				return
			}
			require.NotNil(t, got)
			require.Contains(t, got.Error(), c.want)
		})
	}
}

// The hint names a whole scenario, or a test of it, only if every run in it is followed.
func TestFoldersOf(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	runs := []string{"a/0", "a/1", "b/0", "b/1"}
	require.NoError(t, run.WriteJSON(filepath.Join(root, run.ScenarioFile), run.Scenario{Name: "s", Runs: runs}))
	for _, c := range []struct{ some, followed, want string }{
		{"a/0 b/1", "a/0 a/1 b/0 b/1", "."},
		{"a/0 a/1", "a/0 a/1 b/0", "a"},
		{"a/0 a/1 b/0", "a/0 a/1 b/0", "a b/0"},
		{"a/0 b/0", "a/0 b/0", "a/0 b/0"},
	} {
		below := func(list string) (dirs []string) {
			for _, d := range strings.Fields(list) {
				require.NoError(t, os.MkdirAll(filepath.Join(root, d), 0o755))
				dirs = append(dirs, filepath.Join(root, d))
			}
			return dirs
		}
		require.Equal(t, below(c.want), foldersOf(below(c.some), below(c.followed)))
	}
	require.Equal(t, []string{"r/1", "r/2"}, foldersOf([]string{"r/1", "r/2"}, []string{"r/1", "r/2"}), "no scenario")
}
