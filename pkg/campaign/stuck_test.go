package campaign

import (
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
