package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/run"
)

// waits says why jobs wait from now on.
func (c *cronJob) waits(reason string) {
	c.t.Helper()
	require.NoError(c.t, os.WriteFile(filepath.Join(c.slurm, "reason"), []byte(reason), 0o644))
}

func (c *cronJob) env() []string { return []string{"PATH=" + c.slurm + ":" + os.Getenv("PATH")} }

func (c *cronJob) run(args ...string) outcome {
	c.t.Helper()
	return profllm(c.t, c.dir, c.env(), args...)
}

// root is the directory of the only scenario.
func (c *cronJob) root() string {
	c.t.Helper()
	found, err := filepath.Glob(filepath.Join(c.dir, "results", "*", run.ScenarioFile))
	require.NoError(c.t, err)
	require.Len(c.t, found, 1)
	return filepath.Join("results", filepath.Base(filepath.Dir(found[0])))
}

// Every command that waits ends once no job can start: with Slurm's reason, what to do, and code 4.
// The jobs stay.
//
// covers: PL-S14
func TestWaitEndsIfNoJobCanStart(t *testing.T) {
	t.Parallel()
	const two = `job 60 of results/demo_\S+/aggregated/0 never starts \(PartitionTimeLimit\) and stays queued; ` +
		`1 other run will not start either\n` +
		`\thint: profllm slurm cancel results/demo_[-_0-9]+, lower time_limit, and submit again; if the cluster is ` +
		`changed instead, the job starts by itself: profllm slurm watch results/demo_\S+ waits for it\n$`
	c := newCronJob(t)
	c.waits("PartitionTimeLimit")
	submit := []string{"slurm", "submit", "demo", "--system", "site.toml"}
	event := filepath.Join(c.dir, "event")
	hook := filepath.Join(c.dir, "hook")
	require.NoError(t, os.WriteFile(hook, []byte("#!/bin/sh\ncat > "+event+"\n"), 0o755))
	o := c.run(append(submit, "--wait", "--notify", hook)...)
	require.Equal(t, exitNotSubmit, o.code)
	require.Regexp(t, two, o.stderr)
	require.Equal(t, 1, strings.Count(o.stderr, "never starts"), "said once")
	require.Contains(t, readText(t, event), "never starts (PartitionTimeLimit)")
	root := c.root()
	for name, args := range map[string][]string{
		"watch": {"slurm", "watch", root}, "resume": {"slurm", "resume", root, "--wait"},
	} {
		o = c.run(args...)
		require.Equal(t, exitNotSubmit, o.code, name)
		require.Regexp(t, two, o.stderr, name)
	}
	o = c.run("slurm", "resume", root, "--watch", "--output", "json")
	doc := readDocument[document.Jobs](t, o)
	require.Equal(t, exitNotSubmit, doc.ExitCode)
	require.Contains(t, doc.Errors[0].Hint, "profllm slurm cancel "+root)
	o = c.run("slurm", "logs", "--follow", filepath.Join(root, "aggregated"))
	require.Equal(t, exitNotSubmit, o.code)
	require.Regexp(t, `job 60 of \S+ never starts \(PartitionTimeLimit\) and stays queued\n\thint: `, o.stderr)
	for _, f := range c.jobs() {
		require.Equal(t, "PENDING\n", readText(t, f), "nothing is cancelled")
	}

	// What is over is collected nevertheless.
	require.NoError(t, os.WriteFile(filepath.Join(c.slurm, "jobs", "61"), []byte("FAILED\n"), 0o644))
	o = c.run("slurm", "watch", root)
	require.Equal(t, exitNotSubmit, o.code)
	require.Regexp(t, `(?m)^ *disaggregated/0 +failed`, o.stdout)
	require.NotRegexp(t, `(?m)^ *aggregated/0 `, o.stdout)
	require.Contains(t, o.stderr, "job 60 of "+root+"/aggregated/0 never starts (PartitionTimeLimit) and stays queued\n")
}

// A confirmation has one job for all its runs.
//
// covers: PL-S14
func TestConfirmEndsIfItsJobCannotStart(t *testing.T) {
	t.Parallel()
	c := newCronJob(t)
	confirmScenario(t, c.dir)
	c.waits("QOSMaxWallDurationPerJobLimit")
	o := c.run("confirm", "build.toml#old", "build.toml#same", "--simulate", "--system", "site.toml", "--metric",
		"median_tpot_ms", "--wait")
	require.Equal(t, exitNotSubmit, o.code)
	require.Contains(t, o.stderr, "never starts (QOSMaxWallDurationPerJobLimit) and stays queued")
	require.Empty(t, o.stdout, "no verdict")
	o = c.run("confirm", c.root(), "--watch")
	require.Equal(t, exitNotSubmit, o.code)
	require.Contains(t, o.stderr, ", lower time_limit, and submit again")
}

// Somebody can release a held job, and nodes that are down come back. So the wait goes on, and
// the reason is told once.
//
// covers: PL-S14
func TestWaitGoesOnIfAJobMayStart(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]string{
		"JobHeldUser": "is held (JobHeldUser); profllm keeps waiting",
		"ReqNodeNotAvail, UnavailableNodes:node1": "waits for nodes that are down or drained " +
			"(ReqNodeNotAvail, UnavailableNodes:node1); profllm keeps waiting",
	} {
		c := newCronJob(t)
		c.waits(reason)
		cmd := command(c.dir, c.env(), "slurm", "submit", "demo", "--system", "site.toml", "--wait")
		stderr, code := startReading(t, cmd)
		var text strings.Builder
		for n := 0; n < 2 && stderr.Scan(); {
			text.WriteString(stderr.Text() + "\n")
			if strings.Contains(stderr.Text(), want) {
				n++
			}
		}
		calls := func() int { return strings.Count(readText(t, filepath.Join(c.slurm, "calls")), "squeue") }
		before := calls()
		await.True(t, func() bool { return calls() > before+1 }, "Slurm was asked twice again")
		c.end("CANCELLED by 0")
		for stderr.Scan() {
			text.WriteString(stderr.Text() + "\n")
		}
		require.Equal(t, exitJobFailed, code(), text.String())
		require.Equal(t, 2, strings.Count(text.String(), want), "each job once:\n%s", text.String())
	}
}

// startReading starts a command whose standard error is read by line; code waits for its end.
func startReading(t *testing.T, cmd *exec.Cmd) (stderr *bufio.Scanner, code func() int) {
	t.Helper()
	pipe, err := cmd.StderrPipe()
	require.NoError(t, err)
	cmd.Stdout = io.Discard
	require.NoError(t, cmd.Start())
	return bufio.NewScanner(pipe), func() int {
		_ = cmd.Wait() // its code is looked at
		return cmd.ProcessState.ExitCode()
	}
}

// On a real Slurm: the partition has a limit that the job exceeds.
//
// covers: PL-S14
func TestSlurmJobThatNeverStarts(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(`name = "s"
[[Tests]]
id = "a"
test_template_name = "BashCmd"
num_nodes = 1
time_limit = "30m"
[Tests.cmd_args]
cmd = "true"
`), 0o644))
	site := strings.Replace(readText(t, filepath.Join(dir, "site.toml")), `default_partition = "main"`,
		`default_partition = "small"`, 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "site.toml"), []byte(site), 0o644))
	o := profllm(t, dir, nil, "slurm", "submit", "s.toml", "--system", "site.toml", "--wait")
	var id string
	for d := range runs(t, dir) {
		id = jobID(t, d)
	}
	t.Cleanup(func() { _ = exec.Command("scancel", id).Run() })
	require.Equal(t, exitNotSubmit, o.code)
	require.Regexp(t, `job `+id+` of results/s_\S+/a/0 never starts \(PartitionTimeLimit\) and stays queued\n`+
		`\thint: profllm slurm cancel results/s_\S+/a/0, lower time_limit, and submit again; `, o.stderr)
	o = profllm(t, dir, nil, "slurm", "watch", "results")
	require.Equal(t, exitNotSubmit, o.code)
	out, err := exec.Command("squeue", "-h", "-j", id, "-o", "%T").CombinedOutput()
	require.NoError(t, err)
	require.Equal(t, "PENDING", strings.TrimSpace(string(out)), "the wait cancels nothing")
}
