package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/run"
)

// salloc holds nodes of the lab, and returns the allocation and what Slurm tells the shell that
// holds it.
func salloc(t *testing.T, nodes int) (id string, env []string) {
	t.Helper()
	out, err := exec.Command("salloc", "--no-shell", fmt.Sprintf("--nodes=%d", nodes), "--gres=gpu:4", "--job-name=held").CombinedOutput()
	require.NoError(t, err, "%s", out)
	m := regexp.MustCompile(`Granted job allocation (\d+)`).FindSubmatch(out)
	require.NotNil(t, m, "%s", out)
	id = string(m[1])
	t.Cleanup(func() { exec.Command("scancel", id).Run() })
	list, err := exec.Command("squeue", "-h", "-j", id, "-o", "%N").Output()
	require.NoError(t, err)
	return id, []string{"SLURM_JOB_ID=" + id, "SLURM_JOB_NODELIST=" + strings.TrimSpace(string(list)), fmt.Sprintf("SLURM_JOB_NUM_NODES=%d", nodes)}
}

// stepsOf are the names of the steps that run in an allocation.
func stepsOf(t *testing.T, id string) []string {
	t.Helper()
	out, err := exec.Command("squeue", "-h", "-s", "-j", id, "-o", "%j").Output()
	require.NoError(t, err)
	return strings.Fields(string(out))
}

func heldScenario(t *testing.T, dir, name string, nodes, prompts int) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), fmt.Appendf(nil, `name = "held"
[[Tests]]
id = "dp"
test_template_name = "vllm"
num_nodes = %d
time_limit = "10m"
client = "profllm"
[Tests.cmd_args.decode]
data_parallel_size = %d
data_parallel_backend = "mp"
[Tests.bench_cmd_args]
random_input_len = 8
random_output_len = 4
max_concurrency = 2
num_prompts = %d
`, nodes, nodes, prompts), 0o644))
}

// In a shell that holds an allocation of several nodes, a run's steps are steps of the allocation.
// It leaves whatever else runs there alone, and the allocation itself too, also if it is interrupted.
//
// covers: SRV-18
func TestSlurmRunInAHeldAllocation(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	id, env := salloc(t, 3)
	mine := exec.Command("srun", "--jobid="+id, "--overlap", "--nodes=1", "--ntasks=1", "--job-name=mine", "sleep", "600")
	require.NoError(t, mine.Start())
	t.Cleanup(func() { mine.Process.Kill(); mine.Wait() })
	await.True(t, func() bool { return slices.Contains(stepsOf(t, id), "mine") }, "the other step runs")

	heldScenario(t, dir, "s.toml", 2, 40)
	o := profllm(t, dir, env, "run", "--simulate", "--system", "site.toml", "s.toml")
	require.Equal(t, exitOK, o.code)
	require.Contains(t, o.stderr, "2 nodes of job "+id)
	d := only(t, dir)
	r := readResult(t, d)
	require.Equal(t, 40, *r.Results.CompletedRequests)
	require.Equal(t, id, r.Slurm.JobID)
	nodes := strings.TrimPrefix(env[1], "SLURM_JOB_NODELIST=")
	for i, host := range r.Placement.Nodes {
		require.Contains(t, logOf(t, d, fmt.Sprintf("serve-%d.log", i)), "SLURMD_NODENAME="+host)
	}
	require.Len(t, r.Placement.Nodes, 2, "of %s", nodes)
	require.Equal(t, []string{"mine"}, stepsOf(t, id))

	heldScenario(t, dir, "large.toml", 4, 40)
	o = profllm(t, dir, env, "run", "--simulate", "--system", "site.toml", "large.toml")
	require.Equal(t, exitDefinition, o.code)
	require.Contains(t, o.stderr, "test dp needs 4 nodes, and job "+id+" has 3")

	require.NoError(t, os.RemoveAll(filepath.Join(dir, "results")))
	heldScenario(t, dir, "long.toml", 2, 100000)
	cmd := command(dir, append(env, slowTokens), "run", "--simulate", "--system", "site.toml", "long.toml")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	require.NoError(t, cmd.Start())
	await.True(t, func() bool {
		found, _ := filepath.Glob(filepath.Join(dir, "results", "*", "dp", "0"))
		if len(found) != 1 {
			return false
		}
		events, _ := job.ReadEvents(found[0])
		return slices.ContainsFunc(events, func(e job.Event) bool { return e.Event == job.ClientBegins })
	}, "the load runs")
	second := t.TempDir()
	copyFile(t, filepath.Join(dir, "site.toml"), filepath.Join(second, "site.toml"))
	heldScenario(t, second, "s.toml", 2, 40)
	o = profllm(t, second, env, "run", "--simulate", "--system", "site.toml", "s.toml")
	require.Equal(t, exitNotSubmit, o.code)
	require.Contains(t, o.stderr, "allocation "+id+" is used by job "+run.LocalPrefix)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	cmd.Wait()
	require.Equal(t, exitInterrupted, cmd.ProcessState.ExitCode(), "%s", said.String())
	require.Equal(t, []string{"mine"}, stepsOf(t, id))
	state, err := exec.Command("squeue", "-h", "-j", id, "-o", "%T").Output()
	require.NoError(t, err)
	require.Equal(t, "RUNNING", strings.TrimSpace(string(state)))
}
