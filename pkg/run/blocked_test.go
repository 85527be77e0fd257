package run_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
)

// In a sequence a child of a failed run never begins, nor does its own child; one
// that goes on whatever the other did, or whose parent was in another job, does.
//
// covers: CD-6, CD-22, CD-42
func TestBlocked(t *testing.T) {
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	fill := func(name, kind, parent string) {
		p := &plan.Plan{Schema: plan.Schema, RunID: name, Dir: filepath.Join("/was", name)}
		if parent != "" {
			p.Job.After = []plan.After{{Type: kind, Dir: filepath.Join("/was", parent)}}
		}
		require.NoError(t, run.Fill(at(name), p, nil))
	}
	fill("bad", "", "")
	fill("good", "", "")
	fill("gone", "", "")
	fill("elsewhere", "", "")
	fill("child", "afterok", "bad")
	fill("grandchild", "afterok", "child")
	fill("hardy", "afterany", "bad")
	fill("begun", "after", "bad")
	fill("lucky", "afterok", "good")
	fill("orphan", "afterok", "gone")
	fill("late", "afterok", "elsewhere")
	end := func(name, job string, code int) {
		require.NoError(t, run.WriteJSON(filepath.Join(at(name), run.ClaimFile), run.Claim{JobID: job}))
		if code >= 0 {
			require.NoError(t,
				run.WriteJSON(filepath.Join(at(name), run.SentinelFile), run.Sentinel{JobID: job, Code: code}))
		}
	}
	end("bad", "60", 5)
	end("good", "60", 0)
	end("gone", "60", -1)
	end("elsewhere", "59", 5)
	before := []string{at("bad"), at("good"), at("gone"), at("child")}
	for name, want := range map[string]string{
		"bad": "", "hardy": "", "begun": "", "lucky": "", "late": "",
		"child":      "it waits for /was/bad (afterok), which ended with exit code 5",
		"grandchild": "it waits for /was/child (afterok), which never ran",
		"orphan":     "it waits for /was/gone (afterok), which did not finish",
	} {
		require.Equal(t, want, run.Blocked(at(name), "60", before), name)
		if name == "orphan" {
			want = "" // its parent may still run
		}
		require.Equal(t, want, run.Blocked(at(name), "60", nil), name)
		for _, job := range []string{run.Running, run.Failed} {
			st := run.State{JobID: "60", State: job}.WithSentinel(at(name), plan.Sequence)
			require.Equal(t, want != "", st.Reason == want && st.State == run.Cancelled && st.Note == run.NeverRan,
				fmt.Sprint(name, job, st))
		}
	}
}
