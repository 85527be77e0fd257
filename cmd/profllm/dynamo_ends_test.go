package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

// frontendBlock ends the frontend of a service once the client of the first phase has ended.
const frontendBlock = `{{define "before_client"}}
pids() { grep -slzx "SLURM_JOB_ID=$SLURM_JOB_ID" /proc/[0-9]*/environ | xargs -r grep -slzx "PROFLLM_ROLE=$1" | tr -dc '0-9\n'; }
{ while kill -0 $$ && ! grep -q 'client-ended.*one/bench' events.jsonl; do sleep 0.02; done; kill -KILL $(pids frontend); } >beside.log 2>&1 &
{{end}}`

// twoPhases is a service with two loads, each of so many requests.
func twoPhases(requests int) string {
	return fmt.Sprintf(`name = "s"
[[Tests]]
id = "a"
test_template_name = "AIDynamo"
[Tests.cmd_args.dynamo]
backend = "mocker"
[Tests.cmd_args.dynamo.dcgm_exporter]
enabled = true
[Tests.cmd_args.aiperf.args]
concurrency = 4
request_count = %d
synthetic_input_tokens_mean = 32
output_tokens_mean = 16
extra_inputs = { ignore_eos = true }
[[Tests.cmd_args.aiperf_phases]]
name = "one"
[[Tests.cmd_args.aiperf_phases]]
name = "two"
args = { request_count = 400 }
`, requests)
}

// A frontend that dies once the first phase is over fails the second phase, and the run. What the
// first measured is kept.
func TestRehearseDynamoFrontendDies(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs rehearsals")
	}
	dir := t.TempDir()
	templates := filepath.Join(dir, "templates", "slurm")
	require.NoError(t, os.MkdirAll(templates, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(templates, "frontend.block.tmpl"), []byte(frontendBlock), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(twoPhases(20)), 0o644))
	o := profllm(t, dir, []string{"PROFLLM_SIM_STARTUP=50ms"}, "rehearse", "s.toml", "--templates", "templates", "--speed", "1")
	require.Equal(t, exitJobFailed, o.code, o.stdout+o.stderr)
	all := dynamoResults(t, dir)
	require.Equal(t, 20, *all["a/one"].Results.CompletedRequests)
	two := all["a/two"]
	require.False(t, two.Validity.Valid)
	require.Equal(t, result.Fail, two.Validity.Check("phase-failed").Outcome)
	require.Equal(t, result.Fail, two.Validity.Check("role-died").Outcome)
	require.Contains(t, two.Validity.Check("role-died").Detail, "frontend")
}

// A cancelled job of Dynamo ends its client, router, workers and exporters, and keeps the logs and
// the counters that were written.
//
// covers: PL-S34
func TestRehearseDynamoCancelled(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs rehearsals")
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(twoPhases(20000)), 0o644))
	env := []string{"PROFLLM_SIM_STARTUP=50ms", "TMPDIR=" + dir}
	cmd := command(dir, env, "rehearse", "s.toml", "--speed", "1", "--output-dir", "results")
	require.NoError(t, cmd.Start())
	var at string
	await.True(t, func() bool {
		found, _ := filepath.Glob(filepath.Join(dir, "results", "*", "a", "0"))
		if len(found) == 0 {
			return false
		}
		at = found[0]
		events, err := job.ReadEvents(at)
		_, unread := os.Stat(filepath.Join(at, "one", "raw", job.MetricsFile("frontend", job.Before)))
		return err == nil && unread == nil && len(events) > 0 && events[len(events)-1].Event == job.ClientBegins
	}, "the first client begins, and the pages were read before it")
	require.Equal(t, exitOK, profllm(t, dir, env, "slurm", "cancel", "results").code)
	require.Error(t, cmd.Wait(), "the rehearsal was cancelled")
	r := readResult(t, filepath.Join(at, "one"))
	require.Equal(t, result.Cancelled, r.Status)
	require.False(t, r.Validity.Valid)
	var placement run.Placement
	require.NoError(t, run.ReadJSON(filepath.Join(at, run.PlacementFile), &placement))
	requireNoLeftovers(t, placement.JobID)
	for _, name := range []string{"decode", "prefill", "frontend", "dcgm_exporter"} {
		require.FileExists(t, filepath.Join(at, "logs", name+"-0.log"))
	}
	left, err := filepath.Glob(filepath.Join(at, "discovery", "v1", "instances", "*"))
	require.NoError(t, err)
	require.Empty(t, left, "the workers were told, and could leave")
}
