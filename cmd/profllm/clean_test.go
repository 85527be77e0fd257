package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/node"
	"github.com/profllm/profllm/pkg/process"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

// daemonScenario is a service of which every command leaves a daemon behind: a
// session of its own, forked twice, that ignores TERM. Slurm's process tracker on the
// lab does not find it again.
const daemonScenario = `name = "clean"
[[Tests]]
id = "a"
test_template_name = "vllm"
num_nodes = 2
time_limit = "LIMIT"
[Tests.custom_bash]
".*" = '''
setsid bash -c '(trap "" TERM; echo $BASHPID >>PIDS; exec sleep 7200) </dev/null >/dev/null 2>&1 &'
SERVER'''
[Tests.cmd_args]
[Tests.cmd_args.prefill]
[Tests.bench_cmd_args]
num_prompts = PROMPTS
random_output_len = 10
max_concurrency = 8
`

// Whatever ends a job, no process of it is left on any node, and what had been
// measured is there. All nodes of the lab are this machine.
//
// covers: PL-G13, PL-G14, PL-S34, PL-S40, PL-D8
func TestSlurmCleanNodes(t *testing.T) {
	t.Parallel()
	const long = 20000
	type ending struct {
		prompts  int
		limit    string
		faults   string
		stubborn bool
		end      func(t *testing.T, dir, d, id string) // once requests are served; nil: it ends by itself
		partial  bool                                  // some requests were measured
	}
	scancel := func(args ...string) func(t *testing.T, dir, d, id string) {
		return func(t *testing.T, _, _, id string) {
			out, err := exec.Command("scancel", append(args, id)...).CombinedOutput()
			require.NoError(t, err, string(out))
		}
	}
	for name, c := range map[string]ending{
		"normal":           {prompts: 50, partial: true},
		"a role crashes":   {prompts: long, faults: "decode:die-on-request=60", partial: true},
		"the client fails": {prompts: long, faults: "client:die-after=1s,exit=4"},
		"a stubborn role":  {prompts: 50, stubborn: true, partial: true},
		"cancelled": {prompts: long, partial: true, end: func(t *testing.T, dir, _, _ string) {
			require.Equal(t, exitOK, profllm(t, dir, nil, "slurm", "cancel", "results").code)
		}},
		"stubborn, cancelled":  {prompts: long, stubborn: true, end: scancel()},
		"TERM":                 {prompts: long, partial: true, end: scancel("--signal=TERM", "--batch")},
		"the time limit":       {prompts: long, limit: "1m", partial: true, end: func(*testing.T, string, string, string) {}},
		"profllm is killed":    {prompts: long, partial: true, end: killTheWatch},
		"the script is killed": {prompts: long, end: scancel("--signal=KILL", "--batch")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := lab(t)
			pids, server, limit := filepath.Join(dir, "pids"), "", "4m"
			if c.stubborn {
				server = "case $* in *\"vllm serve\"*) trap '' TERM; while :; do \"$@\"; sleep 1; done;; esac\n"
			}
			if c.limit != "" {
				limit = c.limit
			}
			text := strings.NewReplacer("LIMIT", limit, "PIDS", pids, "SERVER", server, "PROMPTS",
				strconv.Itoa(c.prompts)).Replace(daemonScenario)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(text), 0o644))
			o := profllm(t, dir, []string{"PROFLLM_SIM_FAULTS=" + c.faults, slowTokens}, "slurm", "submit", "--simulate",
				"--system", "site.toml", "s.toml")
			require.Equal(t, exitOK, o.code)
			d := only(t, dir)
			id := jobID(t, d)
			if c.end != nil {
				await.Text(t, filepath.Join(d, run.EventFile), job.ClientBegins)
				waitAnswers(t, d)
				require.NotEmpty(t, leftovers(t, id))
				c.end(t, dir, d, id)
			}
			ended := waitGone(t, id)
			require.GreaterOrEqual(t, len(strings.Fields(readText(t, pids))), 3,
				"each command of the run left a daemon")
			requireNoLeftovers(t, id)
			t.Logf("clean %.1f s after the job was over", time.Since(ended).Seconds())
			profllm(t, dir, nil, "collect", "results")
			r := readResult(t, d)
			if c.partial {
				require.Positive(t, *r.Results.CompletedRequests, "what was measured is there")
			}
			require.Contains(t, fmt.Sprint(r.Warnings), "outlived its step and was ended by KILL: sleep 7200")
			require.NotContains(t, fmt.Sprint(r.Warnings), "was not checked for leftovers")
			if name == "normal" {
				require.True(t, r.Validity.Valid)
				var left []result.Warning
				for _, w := range r.Warnings {
					if w.Kind == result.NodeUnclean {
						left = append(left, w)
					}
				}
				require.Len(t, left, 4, "prefill, decode, proxy and the client: %v", left)
				story := profllm(t, dir, nil, "why", "results").stdout
				require.Contains(t, story, "outlived its step and was ended by KILL: sleep 7200")
				requireQuickEnd(t, d)
			}
		})
	}
}

// A rehearsal has no Slurm that would end anything.
//
// covers: PL-G14
func TestRehearseCleanNodes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pids := filepath.Join(dir, "pids")
	text := strings.NewReplacer("LIMIT", "5m", "PIDS", pids, "SERVER", "", "PROMPTS", "20").Replace(daemonScenario)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(text), 0o644))
	copyFile(t, "../../examples/slurm-lab/site.toml", filepath.Join(dir, "site.toml"))
	require.Equal(t, exitOK, profllm(t, dir, nil, "rehearse", "--system", "site.toml", "s.toml").code)
	list := strings.Fields(readText(t, pids))
	require.Len(t, list, 4, "prefill, decode, proxy and the client")
	for _, text := range list {
		pid, err := strconv.Atoi(text)
		require.NoError(t, err)
		require.Empty(t, process.Start(pid), "process %d is left", pid)
	}
	require.Contains(t, fmt.Sprint(readResult(t, only(t, dir)).Warnings),
		"outlived its step and was ended by KILL: sleep 7200")
}

// waitGone waits until Slurm no longer lists the job, and says when that was.
func waitGone(t *testing.T, id string) time.Time {
	t.Helper()
	var text string
	await.True(t, func() bool {
		out, err := exec.Command("squeue", "-h", "-j", id, "-o", "%T").CombinedOutput()
		text = strings.TrimSpace(string(out))
		return err == nil && text == "" || strings.Contains(text, "Invalid job id")
	}, "job %s leaves the queue; squeue says %s", id, &text)
	return time.Now()
}

func readText(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(data)
}

// requireQuickEnd asks how long the end took, from the first signal to the sentinel.
func requireQuickEnd(t *testing.T, d string) {
	t.Helper()
	events, err := job.ReadEvents(d)
	require.NoError(t, err)
	var s run.Sentinel
	require.NoError(t, run.ReadJSON(filepath.Join(d, run.SentinelFile), &s))
	for _, e := range events {
		if e.Event == job.Stopping {
			t.Logf("the end took %.1f s", s.Time.Sub(e.Time).Seconds())
			return
		}
	}
	require.Fail(t, "the roles were never stopped")
}

// killTheWatch kills the program that the job's script waits for.
func killTheWatch(t *testing.T, _, _, id string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	killed := 0
	for _, f := range files {
		line, _ := os.ReadFile(f)
		env, _ := os.ReadFile(filepath.Join(filepath.Dir(f), "environ"))
		if bytes.Contains(line, []byte("\x00job\x00watch\x00")) &&
			bytes.Contains(env, []byte("\x00SLURM_JOB_ID="+id+"\x00")) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			require.NoError(t, err)
			require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
			killed++
		}
	}
	require.Equal(t, 1, killed)
}

// A node that is not fit ends the job before servers start, and everybody says why.
//
// covers: PL-G11, PL-G13, PL-F1, PL-F7
func TestSlurmPreflight(t *testing.T) {
	t.Parallel()
	const busy = "0, GPU-a, NVIDIA H100, 570.1, 81559, 4\n1, GPU-b, NVIDIA H100, 570.1, 81559, 74102\n2, GPU-c, NVIDIA H100, 570.1, 81559, 4\n3, GPU-d, NVIDIA H100, 570.1, 81559, 4\n"
	for name, c := range map[string]struct {
		extra  string // of the test
		busy   string // nvidia-smi on every node
		holder string // who computes
		cause  string // "" for a run that is not ended before its servers start
		check  string
		seen   string
	}{
		"a busy GPU":                        {busy: busy, holder: "GPU-b, 1, python3 -m vllm, 74090\n", cause: "gpu-memory-busy", check: "gpu-memory", seen: "GPU 1 holds 72 GiB of 79 GiB: process 1 python3 -m vllm"},
		"too few GPUs":                      {busy: "0, GPU-a, NVIDIA H100, 570.1, 81559, 4\n", cause: "gpu-not-visible", check: "gpus", seen: "1 visible, GPU 3 is planned"},
		"a busy GPU, which the test allows": {busy: busy, holder: "GPU-b, 1, python3, 74090\n", extra: "[Tests.preflight]\nwarn = [\"gpu-memory\"]\n", check: "gpu-memory", seen: "GPU 1 holds 72 GiB"},
		"a process, which the test refuses": {busy: strings.Replace(busy, "74102", "9", 1), holder: "GPU-b, 1, python3, 5\n", extra: "[Tests.preflight]\nfail = [\"gpu-processes\"]\n",
			cause: "gpu-busy", check: "gpu-processes", seen: "GPU 1: process 1 python3"},
		"a disk that is too small for this test": {extra: "[Tests.preflight]\ndisk_gib = 1000000\nfail = [\"disk\"]\n", cause: "no-space", check: "disk", seen: "less than 1000000 GiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := lab(t)
			site := readText(t, filepath.Join(dir, "site.toml"))
			if c.busy != "" {
				smi := fmt.Sprintf("#!/bin/sh\ncase $1 in --query-gpu=*) printf '%%s' '%s';; *) printf '%%s' '%s';; esac\n", c.busy, c.holder)
				require.NoError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o755))
				require.NoError(t, os.WriteFile(filepath.Join(dir, "bin", "nvidia-smi"), []byte(smi), 0o755))
				site = fmt.Sprintf("prologue = 'export PATH=%s:$PATH'\n", filepath.Join(dir, "bin")) + site
			}
			require.NoError(t, os.WriteFile(filepath.Join(dir, "site.toml"), []byte(site), 0o644))
			// No simulated engine, which would need no GPU: nothing is served here anyhow.
			scenario := "name = \"unfit\"\n[[Tests]]\nid = \"a\"\ntest_template_name = \"BashCmd\"\ntime_limit = \"2m\"\n" + c.extra + "[Tests.cmd_args]\ncmd = \"echo it ran\"\n"
			require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(scenario), 0o644))
			o := profllm(t, dir, nil, "slurm", "submit", "--system", "site.toml", "s.toml", "--wait")
			d := only(t, dir)
			r := readResult(t, d)
			var p job.Preflight
			require.NoError(t, run.ReadJSON(filepath.Join(d, run.PreflightFile), &p))
			require.Len(t, p.Nodes, 1)
			host := p.Nodes[0].Host
			story := profllm(t, dir, nil, "why", "results").stdout
			require.Contains(t, story, c.seen)
			require.Contains(t, fmt.Sprint(r.Warnings), c.seen)
			if c.cause == "" {
				require.Equal(t, exitOK, o.code)
				require.Equal(t, result.Completed, r.Status)
				require.Equal(t, string(node.Warn), r.System.Preflight)
				require.Equal(t, "NVIDIA H100", r.System.HardwareInfo.GPU)
				require.Equal(t, 4, *r.System.HardwareInfo.GPUs)
				require.Equal(t, result.VerdictSuspect, r.Validity.Verdict)
				require.Contains(t, r.Validity.Words, "gpu-shared")
				require.Contains(t, fmt.Sprint(r.Warnings), "GPU memory is still in use: GPU 1 holds 72 GiB")
				return
			}
			require.Equal(t, exitJobFailed, o.code)
			require.NoFileExists(t, filepath.Join(d, "logs", "bash-0.log"), "nothing was started")
			require.Equal(t, result.Failed, r.Status)
			require.Equal(t, string(node.Fail), r.System.Preflight)
			require.Equal(t, c.cause, r.Failure.Cause)
			require.Equal(t, host, r.Failure.Node)
			require.Equal(t, run.PreflightFile, r.Failure.File)
			require.Equal(t, result.Exact, r.Failure.Confidence)
			require.Contains(t, r.Failure.Line, c.check+": ")
			require.Contains(t, r.Failure.Next, fmt.Sprintf("exclude_nodes = [%q]", host))
			require.Contains(t, story, c.cause+", on "+host)
			requireNoLeftovers(t, r.Slurm.JobID)
		})
	}
}
