package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

// serving is a `profllm serve` that runs.
type serving struct {
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
	over           chan struct{} // closed when it has ended
	file           string        // its ready file
}

// startServe starts profllm serve, which is killed at the end of the test if it still runs.
func startServe(t *testing.T, dir string, env []string, args ...string) *serving {
	t.Helper()
	s := &serving{file: filepath.Join(dir, "ready.json"), over: make(chan struct{})}
	s.cmd = command(dir, env, append([]string{"serve", "--ready-file", s.file}, args...)...)
	s.cmd.Stdout, s.cmd.Stderr = &s.stdout, &s.stderr
	require.NoError(t, s.cmd.Start())
	go func() { s.cmd.Wait(); close(s.over) }()
	t.Cleanup(func() {
		s.cmd.Process.Kill()
		<-s.over
		if t.Failed() {
			t.Logf("stdout: %s\nstderr: %s", s.stdout.String(), s.stderr.String())
		}
	})
	return s
}

// ready waits until the servers are.
func (s *serving) ready(t *testing.T) run.Serving {
	t.Helper()
	await.True(t, func() bool {
		select {
		case <-s.over:
			t.Fatalf("it ended:\n%s", s.stderr.String())
		default:
		}
		_, err := os.Stat(s.file)
		return err == nil
	}, "the servers are ready")
	data, err := os.ReadFile(s.file)
	require.NoError(t, err)
	var at run.Serving
	require.NoError(t, json.Unmarshal(data, &at))
	return at
}

// end sends a signal and waits for the end.
func (s *serving) end(t *testing.T, sig syscall.Signal) (code int) {
	t.Helper()
	require.NoError(t, s.cmd.Process.Signal(sig))
	<-s.over
	return s.cmd.ProcessState.ExitCode()
}

// requireGone wants no process of the jobs whose state lies in the machine's TMPDIR, and every GPU free.
func requireGone(t *testing.T, env []string) {
	t.Helper()
	tmp := strings.TrimPrefix(env[2], "TMPDIR=")
	var all []int
	await.True(t, func() bool { _, all = engines(t, tmp); return len(all) == 0 }, "no process is left of %v", all)
}

// awaitEngine waits until a server has begun, ready or not.
func awaitEngine(t *testing.T, env []string) {
	t.Helper()
	await.True(t, func() bool {
		gpus, _ := engines(t, strings.TrimPrefix(env[2], "TMPDIR="))
		return len(gpus) > 0
	}, "the server has begun")
}

// The servers are up until the command is told to end, and answer as their API promises; then their
// GPUs and ports are free, and the record says that nothing was measured.
//
// covers: SRV-15, SRV-16, SRV-19, HLT-1, SIG-1, LRES-1, LRES-2, LRES-3
func TestServe(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]syscall.Signal{"TERM": syscall.SIGTERM, "Ctrl-C": syscall.SIGINT} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, env := t.TempDir(), machine(t, 2)
			here(t, dir, `cmd_args.decode.tensor_parallel_size = 2
cmd_args.decode.served_model_name = "small"
iterations = 3
phases = [{ name = "a" }, { name = "b", cache = "keep", bench_cmd_args = { seed = [1, 2] } }]`)
			s := startServe(t, dir, env, "--simulate", "s.toml")
			at := s.ready(t)
			require.Equal(t, run.ServingSchema, at.Schema)
			require.Equal(t, "small", at.Model)
			require.Equal(t, only(t, dir), at.Dir)
			require.Equal(t, s.cmd.Process.Pid, at.PID)
			require.Len(t, at.Roles, 1)
			require.Equal(t, []int{0, 1}, at.Roles[0].GPUs)
			require.Contains(t, at.URL, at.Roles[0].URL)
			requireAllPass(t, profllm(t, dir, nil, "check", at.URL, "--output", "json"))

			o := profllm(t, dir, env, "serve", "--simulate", "s.toml", "--output-dir", "other")
			require.Equal(t, exitNotSubmit, o.code)
			require.Contains(t, o.stderr, "2 GPUs are not free: GPU 0: job local-")
			o = profllm(t, dir, env, "serve", "--simulate", "s.toml", "--ready-file", s.file)
			require.Equal(t, exitUsage, o.code)
			require.Contains(t, o.stderr, "keeps the servers up that it names")

			require.Equal(t, exitOK, s.end(t, sig))
			require.Equal(t, at.URL+"  small\n", s.stdout.String())
			require.NoFileExists(t, s.file)
			requireGone(t, env)
			_, err := os.Stat(filepath.Join(at.Dir, run.StopFile))
			require.NoError(t, err)
			r := readResult(t, at.Dir)
			require.Equal(t, result.Completed, r.Status)
			require.True(t, r.Validity.Valid)
			require.Equal(t, []string{"simulated"}, r.Validity.Words, "the requests of others are not our business")
			require.Equal(t, result.NotPossible, r.Validity.Check("result-missing").Outcome)
			require.Nil(t, r.Results.CompletedRequests)
			o = profllm(t, dir, env, "collect", "results")
			require.Equal(t, exitOK, o.code)

			again := startServe(t, dir, env, "--simulate", "s.toml", "--for", "1s", "--output-dir", "again",
				"--output", "json")
			<-again.over
			require.Equal(t, exitOK, again.cmd.ProcessState.ExitCode())
			var doc document.Jobs
			require.NoError(t, json.Unmarshal(again.stdout.Bytes(), &doc))
			require.NoFileExists(t, again.file)
			requireGone(t, env)
		})
	}
}

// A prefill/decode service is reached through its proxy.
//
// covers: SRV-15, HLT-7
func TestServeBehindTheProxy(t *testing.T) {
	t.Parallel()
	dir, env := t.TempDir(), machine(t, 2)
	here(t, dir, "[Tests.cmd_args.prefill]\ngpu_ids = \"0\"\n[Tests.cmd_args.decode]\ngpu_ids = \"1\"\n")
	s := startServe(t, dir, env, "--simulate", "s.toml")
	at := s.ready(t)
	require.Len(t, at.Roles, 3)
	for _, r := range at.Roles {
		require.Equal(t, r.Name == "proxy", strings.HasPrefix(at.URL, r.URL), r.Name)
	}
	o := profllm(t, dir, nil, "check", at.URL, "--only", "models,completion,streaming")
	require.Equal(t, exitOK, o.code, o.stdout)
	require.Equal(t, exitOK, s.end(t, syscall.SIGTERM))
	requireGone(t, env)
}

// The job does not outlive the command: nobody would know of its servers.
//
// covers: SRV-19, LRES-3
func TestServeKilled(t *testing.T) {
	t.Parallel()
	for name, up := range map[string]bool{"while they start": false, "when they are up": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, env := t.TempDir(), machine(t, 1)
			here(t, dir, "")
			start := "PROFLLM_SIM_STARTUP=1h"
			if up {
				start = "PROFLLM_SIM_STARTUP=0s"
			}
			s := startServe(t, dir, append(env, start), "--simulate", "s.toml")
			if up {
				s.ready(t)
			} else {
				awaitEngine(t, env)
			}
			s.end(t, syscall.SIGKILL)
			requireGone(t, env)
			again := startServe(t, dir, env, "--simulate", "s.toml", "--for", "100ms", "--output-dir", "again")
			<-again.over // the file of the killed command and its GPU are in nobody's way
			require.Equal(t, exitOK, again.cmd.ProcessState.ExitCode())
			r := readResult(t, only(t, filepath.Join(dir)))
			require.NotEqual(t, result.Completed, r.Status)
		})
	}
}

// Servers that die, or that never get ready, end the command with the cause in words.
//
// covers: SRV-19, HLT-3, SIG-7
func TestServeFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		faults string
		says   []string
	}{
		"never ready": {"serve:die-at-start", nil},
		"dies":        {"", []string{"serve", "ended"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, env := t.TempDir(), machine(t, 1)
			here(t, dir, "")
			s := startServe(t, dir, append(env, "PROFLLM_SIM_FAULTS="+c.faults), "--simulate", "s.toml")
			if c.faults == "" {
				s.ready(t)
				gpus, _ := engines(t, strings.TrimPrefix(env[2], "TMPDIR="))
				for pid := range gpus {
					require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
				}
			}
			<-s.over
			require.Equal(t, exitJobFailed, s.cmd.ProcessState.ExitCode())
			require.NoFileExists(t, s.file)
			for _, text := range append(c.says, "\ncause: ", "more: profllm why ") {
				require.Contains(t, s.stderr.String(), text)
			}
			requireGone(t, env)
		})
	}
}

// An interrupt before the servers are ready ends them, and then the command.
//
// covers: SIG-1, SRV-19
func TestServeInterruptedEarly(t *testing.T) {
	t.Parallel()
	dir, env := t.TempDir(), machine(t, 1)
	here(t, dir, "")
	s := startServe(t, dir, append(env, "PROFLLM_SIM_STARTUP=1h"), "--simulate", "s.toml")
	awaitEngine(t, env)
	require.Equal(t, exitInterrupted, s.end(t, syscall.SIGTERM))
	gpus, _ := engines(t, strings.TrimPrefix(env[2], "TMPDIR="))
	require.Empty(t, gpus, "the command has waited for their end")
	requireGone(t, env)
	require.Contains(t, s.stderr.String(), "interrupted before the servers were ready")
	require.NoFileExists(t, s.file)
}

// What cannot be served is refused before anything is written.
func TestServeRefuses(t *testing.T) {
	t.Parallel()
	dir, env := t.TempDir(), machine(t, 8)
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	here(t, dir, "cmd_args.decode.tensor_parallel_size = [1, 2]")
	const test = "[[Tests]]\nid = \"%\"\ntest_template_name = \"Sleep\"\n"
	write("two.toml", "name = \"two\"\n"+strings.ReplaceAll(test, "%", "a")+strings.ReplaceAll(test, "%", "b"))
	write("other.json", "{}")
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{exitDefinition, "s.toml:8:17: test \"t\" is a sweep of its server, but serve keeps one server up\n\thint: write one value for decode.tensor_parallel_size", []string{"s.toml"}},
		{exitDefinition, "two has 2 tests, but serve keeps the servers of one up\n\thint: --test a, or --test b", []string{"two.toml"}},
		{exitDefinition, `two has no test "c"`, []string{"two.toml", "--test", "c"}},
		{exitDefinition, `test "a": a Sleep test has no server`, []string{"two.toml", "--test", "a"}},
		{exitUsage, "--for is -1s", []string{"s.toml", "--for", "-1s"}},
		{exitUsage, "nowhere.toml", []string{"nowhere.toml"}},
	} {
		o := profllm(t, dir, env, append([]string{"serve", "--simulate"}, c.args...)...)
		require.Equal(t, c.code, o.code, c.says)
		require.Contains(t, o.stderr, c.says)
	}
	here(t, dir, "")
	for file, says := range map[string]string{
		"other.json": "is not from profllm serve", "no/ready.json": "there is no folder no",
	} {
		o := profllm(t, dir, env, "serve", "--simulate", "s.toml", "--ready-file", file)
		require.Equal(t, exitUsage, o.code)
		require.Contains(t, o.stderr, says)
	}
	require.NoDirExists(t, filepath.Join(dir, "results"))
	o := profllm(t, dir, env, "serve", "--simulate", "s.toml", "--dry-run")
	require.Equal(t, exitOK, o.code)
	require.Regexp(t, `"\$PROFLLM" job hold (\\\n *)?--run `, o.stdout)
	require.NotContains(t, o.stdout, "bench serve")
}

// With --slurm, the same plan is a job of Slurm: asked to stop once it is ready, else cancelled.
//
// covers: SRV-15, SIG-1
func TestServeOnSlurm(t *testing.T) {
	t.Parallel()
	for name, ready := range map[string]bool{"ready": true, "not ready": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCronJob(t)
			require.NoError(t, os.WriteFile(filepath.Join(c.slurm, "scancel"),
				[]byte("#!/bin/bash\nfor id; do echo 'CANCELLED by 0' > "+c.slurm+"/jobs/$id; done\n"), 0o755))
			here(t, c.dir, "")
			s := startServe(t, c.dir, withSlurm(c.slurm), "--slurm", "--simulate", "--system", "site.toml", "s.toml")
			job := filepath.Join(c.slurm, "jobs/60")
			await.File(t, job)
			await.True(t, func() bool {
				submitted, _ := filepath.Glob(filepath.Join(c.dir, "results/*/t/0", run.SubmitFile))
				return len(submitted) == 1
			}, "the submission is on record")
			d := only(t, c.dir)
			if !ready {
				require.Equal(t, exitInterrupted, s.end(t, syscall.SIGTERM))
				state, err := os.ReadFile(job)
				require.NoError(t, err)
				require.Equal(t, "CANCELLED by 0\n", string(state))
				require.NoFileExists(t, filepath.Join(d, run.StopFile))
				return
			}
			other := run.Serving{Schema: run.ServingSchema, URL: "http://old:1/v1", JobID: "59", Dir: d}
			require.NoError(t, run.WriteJSON(filepath.Join(d, run.ServingFile), other))
			at := run.Serving{Schema: run.ServingSchema, URL: "http://node1:8300/v1", Model: "m", JobID: "60", Dir: d}
			require.NoError(t, run.WriteJSON(filepath.Join(d, run.ServingFile), at))
			require.Equal(t, at.URL, s.ready(t).URL, "an earlier job has nothing to say")
			require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
			await.File(t, filepath.Join(d, run.StopFile))
			script := 0
			sentinel := run.Sentinel{Schema: "profllm.finish/1", JobID: "60", Time: time.Now(), Script: &script,
				Phases: []run.Phase{{Name: "ready"}, {Name: "hold"}}}
			require.NoError(t, run.WriteJSON(filepath.Join(d, run.SentinelFile), sentinel))
			require.NoError(t, os.WriteFile(job, []byte("COMPLETED\n"), 0o644))
			<-s.over
			require.Equal(t, exitOK, s.cmd.ProcessState.ExitCode())
			require.Equal(t, "http://node1:8300/v1  m\n", s.stdout.String())
			require.NoFileExists(t, s.file)
		})
	}
}

// The real vLLM, here: up, checked, and gone.
//
// covers: SRV-15, SRV-16, SRV-19
func TestVLLMServe(t *testing.T) {
	home := vllmHome(t)
	dir := t.TempDir()
	env := []string{"PATH=" + filepath.Join(home, "venv/bin") + ":" + os.Getenv("PATH"), "HF_HUB_OFFLINE=1",
		"TMPDIR=" + t.TempDir()}
	here(t, dir, `[Tests.cmd_args]
model = "`+filepath.Join(home, "tiny")+`"
serve_wait_seconds = 400
[Tests.cmd_args.decode]
load_format = "dummy"
dtype = "float32"
enforce_eager = ""
max_model_len = 2048
max_num_seqs = 16
gpu_memory_utilization = 0.3
distributed_executor_backend = "uni"
[Tests.extra_env_vars]
HF_HUB_OFFLINE = "1"
VLLM_CPU_KVCACHE_SPACE = "1"
VLLM_CPU_OMP_THREADS_BIND = "nobind"
VLLM_ENABLE_V1_MULTIPROCESSING = "0"
VLLM_NO_USAGE_STATS = "1"
OMP_NUM_THREADS = "1"
`)
	s := startServe(t, dir, env, "s.toml")
	at := s.ready(t)
	require.Equal(t, filepath.Join(home, "tiny"), at.Model)
	requireAllPass(t, profllm(t, dir, nil, "check", at.URL, "--output", "json"))
	require.Equal(t, exitOK, s.end(t, syscall.SIGINT))
	require.NoFileExists(t, s.file)
	requireGone(t, env)
	r := readResult(t, at.Dir)
	require.Equal(t, result.Completed, r.Status)
	require.False(t, r.Simulated)
}
