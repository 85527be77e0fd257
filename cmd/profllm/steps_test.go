package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/result"
)

// Tests that serve nothing, on real nodes: each a command with a log for each of
// its ranks.
//
// covers: CD-40, CD-44
func TestSlurmSteps(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	scenario, err := filepath.Abs("../../scenarios/steps.toml")
	require.NoError(t, err)
	o := profllm(t, dir, nil, "slurm", "submit", "--simulate", "--system", "site.toml", scenario, "--wait")
	require.Equal(t, exitOK, o.code)
	require.Contains(t, o.stderr, "cmd runs unchanged, also in a simulated run")
	all := runs(t, dir)
	require.Len(t, all, 4)
	for d, p := range all {
		r := readResult(t, d)
		require.Equal(t, result.Completed, r.Status, p.Test)
		require.True(t, r.Validity.Valid)
		require.True(t, r.Simulated)
		require.Equal(t, "COMPLETED", r.Slurm.State)
		step := p.Loads[0].Clients[0]
		require.Equal(t, r.Placement.Nodes, stepNodes(t, r.Slurm.JobID)[step.Name], "on every node")
		logs, err := filepath.Glob(filepath.Join(d, "logs", step.Name+"-*.log"))
		require.NoError(t, err)
		require.Len(t, logs, step.Tasks(), "a log for each rank")
		first, err := os.ReadFile(filepath.Join(d, "logs", step.Name+"-0.log"))
		require.NoError(t, err)
		switch p.Test {
		case "sleep":
			require.GreaterOrEqual(t, *r.Duration, 1.0)
		case "bash":
			require.Contains(t, string(first), "has the kernel", "the text ran")
		case "container":
			require.Contains(t, string(first), "profllm sim: parsed by bash, not run: python3 -c",
				"there is no image here")
		case "nccl":
			require.Equal(t, 8, step.Tasks())
			require.Contains(t, string(first), "profllm sim: no collective ran")
		}
		requireNoLeftovers(t, r.Slurm.JobID)
	}
}

// allReduce stands in for a program of nccl-tests that starts MPI: its ranks
// find each other through the PMI that srun's --mpi gives them.
const allReduce = `#!/bin/bash
echo "rank $SLURM_PROCID of $SLURM_NTASKS on $SLURMD_NODENAME, PMI ${PMI_RANK-none} of ${PMI_SIZE-none}"
[[ $SLURM_PROCID == 0 ]] || { sleep 6; exit; } # longer than a rank of a server may outlive the first
echo "# Out of bounds values : 0 OK"
`

// A command that fails, one that says nothing of what it should, and one that
// does, on real nodes and not simulated.
//
// covers: CD-40, CD-43, CD-44, PL-S5
func TestSlurmStepOutcomes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		test  string
		code  int
		check func(t *testing.T, dir string, r *result.Result, o outcome)
	}{
		"a command fails on one node": {
			test: "test_template_name = \"BashCmd\"\nnum_nodes = 2\n[Tests.cmd_args]\ncmd = 'echo on $SLURMD_NODENAME; [ \"$SLURM_PROCID\" = 0 ] || exit 3'\n",
			code: exitJobFailed,
			check: func(t *testing.T, dir string, r *result.Result, o outcome) {
				require.Equal(t, result.Failed, r.Status)
				require.Equal(t, "bash ended with 3", r.Validity.Check("phase-failed").Detail)
				require.Equal(t, "5:0", r.Slurm.ExitCode)
				require.Contains(t, o.stdout, "invalid phase-failed: bash ended with 3")
				log, err := os.ReadFile(filepath.Join(dir, "logs", "bash-1.log"))
				require.NoError(t, err)
				require.Equal(t, "on "+r.Placement.Nodes[1]+"\n", string(log))
			},
		},
		"the line of success is missing": {
			test: "test_template_name = \"NcclTest\"\nnum_nodes = 2\n",
			code: exitJobFailed,
			check: func(t *testing.T, dir string, r *result.Result, o outcome) {
				require.Equal(t, result.Failed, r.Status)
				require.Equal(t, "nccl ended with 7", r.Validity.Check("phase-failed").Detail)
				require.Contains(t, o.stdout, "nccl: no line of nccl-%t.log (8 files) matches ^# Avg bus bandwidth")
				events, err := job.ReadEvents(dir)
				require.NoError(t, err)
				require.True(t,
					slices.ContainsFunc(events, func(e job.Event) bool { return e.Event == job.CheckFailed }), "%v",
					events)
			},
		},
		"the ranks find each other": {
			test: "test_template_name = \"NcclTest\"\nnum_nodes = 2\n[Tests.cmd_args]\nsubtest_name = \"all_gather_perf_mpi\"\n",
			code: exitOK,
			check: func(t *testing.T, dir string, r *result.Result, _ outcome) {
				require.Equal(t, result.Completed, r.Status)
				require.False(t, r.Simulated)
				log, err := os.ReadFile(filepath.Join(dir, "logs", "nccl-7.log"))
				require.NoError(t, err)
				require.Contains(t, string(log), "rank 7 of 8 on "+r.Placement.Nodes[1]+", PMI 7 of 8")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := lab(t)
			bin := filepath.Join(dir, "bin")
			require.NoError(t, os.Mkdir(bin, 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(bin, "all_reduce_perf_mpi"), []byte(allReduce), 0o755))
			require.NoError(t,
				os.WriteFile(filepath.Join(bin, "all_gather_perf_mpi"),
					[]byte(allReduce+"echo '# Avg bus bandwidth    : 1.5 '\n"), 0o755))
			site, err := os.ReadFile(filepath.Join(dir, "site.toml"))
			require.NoError(t, err)
			text := strings.Replace(string(site), "launcher = ", "mpi = \"pmi2\"\nlauncher = ",
				1) + "\n[global_env_vars]\nPATH = { shell = \"" + bin + ":$PATH\" }\n"
			require.NoError(t, os.WriteFile(filepath.Join(dir, "site.toml"), []byte(text), 0o644))
			require.NoError(t,
				os.WriteFile(filepath.Join(dir, "s.toml"),
					[]byte("name = \"s\"\n[[Tests]]\nid = \"a\"\ntime_limit = \"5m\"\n"+c.test), 0o644))
			o := profllm(t, dir, nil, "slurm", "submit", "--system", "site.toml", "s.toml", "--wait")
			require.Equal(t, c.code, o.code)
			d := only(t, dir)
			r := readResult(t, d)
			c.check(t, d, r, o)
			requireNoLeftovers(t, r.Slurm.JobID)
		})
	}
}

// A rehearsal needs neither image, nor MPI, nor GPUs.
func TestRehearseSteps(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	scenario, err := filepath.Abs("../../scenarios/steps.toml")
	require.NoError(t, err)
	o := profllm(t, dir, nil, "rehearse", "--output-dir", "results", scenario)
	require.Equal(t, exitOK, o.code)
	require.Equal(t, 4, strings.Count(o.stdout, "valid (simulated)"))
	for d := range runs(t, dir) {
		require.Equal(t, result.Completed, readResult(t, d).Status)
	}
}

// The pids that the script hands on are those of the sruns: a signal to a shell around
// one would end nothing where Slurm's controller has forgotten the step.
func TestPIDsAreThoseOfSruns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "templates", "slurm"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "templates", "slurm", "pids.block.tmpl"),
		[]byte(`{{define "before_client"}}
for pid in "$GUARD" "${ROLES[@]#*=}"; do cat "/proc/$pid/comm"; done >"$RUN/pids.txt"
{{end}}`), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"),
		[]byte("name = \"s\"\n[[Tests]]\nid = \"a\"\ntest_template_name = \"vllm\"\nnum_nodes = 2\n"+
			"cmd_args.prefill = {}\ncmd_args.decode = {}\nbench_cmd_args.num_prompts = 4\n"), 0o644))
	profllm(t, dir, nil, "rehearse", "s.toml", "--templates", "templates")
	text, err := os.ReadFile(filepath.Join(only(t, dir), "pids.txt"))
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("srun\n", 4), string(text), "the guard, prefill, decode and the proxy")
}
