package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/terminal"
)

// GPUs that a server is given and cannot use are seen before it is submitted: they
// stay in the rates per GPU.
//
// covers: PAR-6
func TestIdleGPUsAreTold(t *testing.T) {
	role := plan.Role{Name: "serve", Nodes: plan.Slice{Count: 2}, GPUs: []int{0, 1, 2, 3}, TP: 4, PP: 2, Engine: true}
	p := &plan.Plan{Test: "a", Job: plan.Job{Nodes: 2}, Roles: []plan.Role{role, {Name: "proxy", Nodes: plan.Slice{Count: 1}}}}
	require.Equal(t, 8, p.GPUs())
	require.Contains(t, planTable(p, terminal.Screen{}), "# a: 2 nodes, 8 GPUs used, launcher")
	p.Job.GPUsPerNode = 4
	require.Contains(t, planTable(p, terminal.Screen{}), "# a: 2 nodes, 8 GPUs allocated, 8 used, launcher")
	require.Empty(t, p.IdleNotes())
	p.Roles[0].PP = 1
	require.Contains(t, planTable(p, terminal.Screen{}), "# a: 2 nodes, 8 GPUs allocated, 4 used, launcher")
	p.Roles[0].GPUs = []int{0, 1}
	require.Contains(t, planTable(p, terminal.Screen{}), "# a: 2 nodes, 8 GPUs allocated, 4 used, launcher")
	p.Job, p.Roles = plan.Job{Nodes: 1}, []plan.Role{{Name: "serve", Nodes: plan.Slice{Count: 1}, GPUs: []int{0}, TP: 1, PP: 1, Engine: true}}
	require.Contains(t, planTable(p, terminal.Screen{}), "# a: 1 node, 1 GPU used, launcher")
}

// What Slurm's programs complain of is told whole, once, and not in the table.
func TestLongReasons(t *testing.T) {
	var out bytes.Buffer
	complaint := "squeue: exit status 1: " + strings.Repeat("no host ", 20) + "at all"
	states := map[string]run.State{}
	for _, dir := range []string{"/s/a/0", "/s/b/0"} {
		states[dir] = run.State{State: run.Unknown, Reason: complaint}
	}
	a := &app{stdout: &out}
	require.NoError(t, a.printStates("status", []string{"/s/a/0", "/s/b/0"}, map[string]run.Submission{}, states))
	require.Equal(t, 1, strings.Count(out.String(), "at all"), out.String())
	for line := range strings.Lines(out.String()) {
		require.True(t, strings.TrimSpace(line) == complaint || utf8.RuneCountInString(line) < 130, line)
	}
}

// A number that a check withholds is in no table.
func TestWithheldIsNotShown(t *testing.T) {
	r := &result.Result{Validity: &result.Validity{}}
	require.NoError(t, r.Results.SetLatency(result.TTFT, "median", 51.44))
	require.NoError(t, r.Results.SetLatency(result.TTFT, "p99", 60))
	require.Equal(t, "51.4 / 60.0", latency(r, result.TTFT))
	r.Validity.Withheld = []string{"p99_ttft_ms"}
	require.Equal(t, "51.4 / –", latency(r, result.TTFT))
	require.Empty(t, latency(r, result.TPOT))
}
