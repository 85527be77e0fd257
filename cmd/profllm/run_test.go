package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

// machine is an environment in which this machine has n simulated GPUs, and in which nothing is
// shared with other tests but ports.
func machine(t *testing.T, n int) []string {
	t.Helper()
	bin, tmp := t.TempDir(), t.TempDir()
	require.NoError(t, os.Symlink(binary, filepath.Join(bin, "nvidia-smi")))
	return []string{"PATH=" + bin + ":" + os.Getenv("PATH"), fmt.Sprintf("PROFLLM_SIM_GPUS=%d", n), "TMPDIR=" + tmp,
		"PROFLLM_SIM_MACHINE=" + strings.ReplaceAll(filepath.Dir(tmp), "/", "-")}
}

// here writes a scenario of one test on GPUs of this machine.
func here(t *testing.T, dir, keys string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), fmt.Appendf(nil, `name = "here"
[[Tests]]
id = "t"
name = "t"
description = "d"
test_template_name = "vllm"
bench_cmd_args = { num_prompts = 80, random_input_len = 8, random_output_len = 2 }
%s`, keys), 0o644))
}

// A test gets as many GPUs as it uses, numbered from 0, or those that it names.
//
// covers: LRES-1, LRES-2, LIB-3, LIB-8
func TestRunTakesGPUs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		keys, visible, engine, samples string
	}{
		"two":          {"cmd_args.decode.tensor_parallel_size = 2", "", "0,1", "0 1"},
		"named":        {`cmd_args.decode.gpu_ids = "2,5"`, "", "2,5", "2 5"},
		"allowed":      {"cmd_args.decode.tensor_parallel_size = 2", "3,6,7", "6,7", "0 1"},
		"one of three": {"cmd_args.decode.dtype = \"auto\"", "5,3,6", "5", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			here(t, dir, c.keys)
			env := machine(t, 8)
			if c.visible != "" {
				env = append(env, "CUDA_VISIBLE_DEVICES="+c.visible)
			}
			o := profllm(t, dir, env, "run", "--simulate", "s.toml")
			require.Contains(t, []int{exitOK, exitInvalid}, o.code)
			d := only(t, dir)
			log, err := os.ReadFile(filepath.Join(d, run.LogDir, "serve-0.log"))
			require.NoError(t, err)
			require.Contains(t, string(log), "CUDA_VISIBLE_DEVICES="+c.engine+"\n")
			r := readResult(t, d)
			require.NotContains(t, r.Validity.Words, "gpu-idle", "the other GPUs are somebody else's")
			var sampled []string
			for _, g := range r.System.GPUSamples.GPUs {
				if g.Role == "serve" {
					sampled = append(sampled, strconv.Itoa(g.Index))
				}
			}
			require.Equal(t, c.samples, strings.Join(sampled, " "))
			require.Len(t, r.System.GPUSamples.GPUs, len(sampled), "it sees no others")
			require.NotEqual(t, "127.0.1.1", r.Placement.Nodes[0], "the machine has a name")
			require.Contains(t, o.stderr, "this machine, ")
		})
	}
}

// What cannot run here is refused before anything starts, in words that say what is missing.
//
// covers: LRES-4, CFG-4
func TestRunRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct {
		keys, visible, want string
		code                int
	}{
		{"cmd_args.decode.tensor_parallel_size = 16", "", `role "serve" needs 16 GPUs (tensor_parallel_size 16), but has 8`, exitDefinition},
		{`cmd_args.decode.gpu_ids = "8"`, "", "decode.gpu_ids names GPU 8, but a node has 8 GPUs (0-7)", exitDefinition},
		{"num_nodes = 2\ncmd_args.decode.tensor_parallel_size = 16", "", "test t needs 2 nodes, and this machine is one", exitDefinition},
		{"cmd_args.decode.tensor_parallel_size = 4", "0,1", "the job needs 4 GPUs, but this machine has 2 that it may use", exitNotSubmit},
		{`cmd_args.decode.gpu_ids = "3"`, "0,1", "the test names GPU 3, which is not among those that it may use: 0, 1", exitNotSubmit},
		{"", "9", `CUDA_VISIBLE_DEVICES is "9", but there is no GPU 9 here`, exitNotSubmit},
		{"", "-1", "the job needs 1 GPU, but this machine has 0 that it may use", exitNotSubmit},
	} {
		here(t, dir, c.keys)
		env := machine(t, 8)
		if c.visible != "" {
			env = append(env, "CUDA_VISIBLE_DEVICES="+c.visible)
		}
		o := profllm(t, dir, env, "run", "--simulate", "s.toml")
		require.Contains(t, o.stderr, c.want)
		require.Equal(t, c.code, o.code)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "machine.toml"),
		[]byte("name = 'm'\nscheduler = 'standalone'\noutput_path = 'results'\ninstall_path = 'install'\n"), 0o644))
	here(t, dir, "")
	o := profllm(t, dir, nil, "slurm", "submit", "--system", "machine.toml", "s.toml")
	require.Equal(t, exitUsage, o.code)
	require.Contains(t, o.stderr, "hint: profllm run s.toml")
}

// A run that gets no GPUs ends the command, but not the results of those before it.
func TestRunAfterRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	here(t, dir, "[[Tests]]\nid = \"u\"\nname = \"u\"\ndescription = \"d\"\ntest_template_name = \"vllm\"\ncmd_args.decode.gpu_ids = \"3\"\n"+
		"dependencies = [{ type = \"start_post_comp\", id = \"t\" }]\n")
	o := profllm(t, dir, append(machine(t, 8), "CUDA_VISIBLE_DEVICES=0"), "run", "--simulate", "s.toml")
	require.Equal(t, exitNotSubmit, o.code)
	require.Contains(t, o.stderr, "the test names GPU 3, which is not among those that it may use: 0")
	require.Regexp(t, `(?m)^ t/0  valid \(simulated\)  80/80`, o.stdout)
}

// Who asks for GPUs that another run has waits for them, or is told who has them.
//
// covers: LRES-4
func TestRunWaitsForGPUs(t *testing.T) {
	t.Parallel()
	dir, env := t.TempDir(), machine(t, 2)
	here(t, dir, "cmd_args.decode.tensor_parallel_size = 2")
	first := command(dir, append(env, "PROFLLM_SIM_STARTUP=1h"), "run", "--simulate", "s.toml")
	require.NoError(t, first.Start())
	await.True(t, func() bool {
		dirs, _ := filepath.Glob(filepath.Join(dir, "results/*/t/0", run.ClaimFile))
		return len(dirs) == 1
	}, "the first run has begun")
	o := profllm(t, dir, env, "run", "--simulate", "s.toml", "--output-dir", "refused")
	require.Equal(t, exitNotSubmit, o.code)
	require.Regexp(t, `2 GPUs are not free: GPU 0: job local-\S+; GPU 1: job local-`, o.stderr)
	var said lockedBuffer
	second := command(dir, env, "run", "--simulate", "s.toml", "--output-dir", "waited", "--wait-gpus", "1h")
	second.Stderr = &said
	require.NoError(t, second.Start())
	await.True(t, func() bool { return strings.Contains(said.String(), "waiting for 2 GPUs (GPU 0: job local-") },
		"the second run waits")
	require.NoError(t, first.Process.Signal(syscall.SIGTERM))
	first.Wait()
	second.Wait()
	require.Contains(t, []int{exitOK, exitInvalid}, second.ProcessState.ExitCode(), said.String())
}

// engines are the simulated servers of jobs that are kept in a TMPDIR, with the GPUs that they were given, and
// every process there.
func engines(t *testing.T, tmp string) (gpus map[int][]string, all []int) {
	t.Helper()
	gpus = map[int][]string{}
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(t, err)
	for _, f := range files {
		environ, _ := os.ReadFile(f)
		args, _ := os.ReadFile(filepath.Join(filepath.Dir(f), "cmdline"))
		if text := string(environ) + string(args); !strings.Contains(text, "TMPDIR="+tmp+"\x00") &&
			!strings.Contains(text, tmp+"/profllm-local-") {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		require.NoError(t, err)
		if pid == os.Getpid() {
			continue
		}
		all = append(all, pid)
		if words := strings.Split(string(args), "\x00"); len(words) < 2 || filepath.Base(words[0]) != "vllm" || words[1] != "serve" {
			continue
		}
		for v := range strings.SplitSeq(string(environ), "\x00") {
			if list, ok := strings.CutPrefix(v, "CUDA_VISIBLE_DEVICES="); ok {
				gpus[pid] = strings.Split(list, ",") // the last one counts
			}
		}
	}
	return gpus, all
}

// Six experiments at once want twelve GPUs of eight, and any process is killed at any time: no two
// engines ever have the same GPU, nothing is left behind, and the next run gets all GPUs.
// PROFLLM_RUN_ROUNDS sets the number of rounds.
//
// covers: LRES-1, LRES-2, LRES-3, LRES-4, PERF-3, SM-8
func TestRunsAtOnceKilled(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs six experiments several times")
	}
	rounds, err := strconv.Atoi(os.Getenv("PROFLLM_RUN_ROUNDS"))
	if err != nil {
		rounds = 2
	}
	env := append(machine(t, 8), "PROFLLM_SIM_STARTUP=3s") // long enough for several to run at once
	tmp := strings.TrimPrefix(env[2], "TMPDIR=")
	seed := time.Now().UnixNano()
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	t.Logf("seed %d", seed)
	killed, most := map[string]int{}, 0
	// A machine so busy that no look sees all GPUs in use has shown nothing yet.
	for round := 0; round < rounds || most < 8 && round < rounds+8; round++ {
		dir := t.TempDir()
		here(t, dir, "cmd_args.decode.tensor_parallel_size = 2")
		var runs []*exec.Cmd
		var ended sync.WaitGroup
		for i := range 6 {
			cmd := command(dir, env, "run", "--simulate", "s.toml", "--wait-gpus", "2m", "--output-dir", fmt.Sprintf("results/%d", i))
			require.NoError(t, cmd.Start())
			runs = append(runs, cmd)
			ended.Go(func() { cmd.Wait() })
		}
		over := make(chan struct{})
		go func() { ended.Wait(); close(over) }()
		kill, patience := random.IntN(60), time.Now().Add(3*time.Minute)
		for look := 0; ; look++ {
			gpus, all := engines(t, tmp)
			var used []string
			for pid, list := range gpus {
				require.Len(t, list, 2, "engine %d", pid)
				used = append(used, list...)
			}
			most = max(most, len(used))
			slices.Sort(used)
			require.Len(t, slices.Compact(slices.Clone(used)), len(used), "GPUs of engines that run at once: %v", used)
			if look == kill && len(all) > 0 {
				pid := all[random.IntN(len(all))]
				name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
				killed[strings.TrimSpace(string(name))]++
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			select {
			case <-over:
				if len(all) > 0 { // of a run whose command was killed
					require.True(t, time.Now().Before(patience), "round %d: processes that never end: %v", round, all)
					time.Sleep(20 * time.Millisecond)
					continue
				}
			case <-time.After(20 * time.Millisecond):
				require.True(t, time.Now().Before(patience), "round %d: runs that never end", round)
				continue
			}
			break
		}
		bad := 0
		for _, cmd := range runs {
			if code := cmd.ProcessState.ExitCode(); code != exitOK && code != exitInvalid {
				bad++
			}
		}
		require.LessOrEqual(t, bad, 1, "a kill ends one run")
	}
	dir := t.TempDir()
	here(t, dir, "cmd_args.decode.tensor_parallel_size = 8")
	o := profllm(t, dir, env, "run", "--simulate", "s.toml")
	require.Contains(t, []int{exitOK, exitInvalid}, o.code, "every GPU is free again")
	t.Logf("killed: %v", killed)
	require.Equal(t, 8, most, "GPUs that were in use at once")
}

// Whoever interrupts the command finds nothing left: no process, no lease, and every GPU free.
//
// covers: LRES-3
func TestRunInterrupted(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			dir, env := t.TempDir(), machine(t, 2)
			tmp := strings.TrimPrefix(env[2], "TMPDIR=")
			here(t, dir, "cmd_args.decode.tensor_parallel_size = 2")
			cmd := command(dir, append(env, "PROFLLM_SIM_TTFT=10s"), "run", "--simulate", "s.toml")
			require.NoError(t, cmd.Start())
			await.True(t, func() bool { gpus, _ := engines(t, tmp); return len(gpus) == 1 }, "the engine runs")
			require.NoError(t, cmd.Process.Signal(sig))
			cmd.Wait()
			require.Equal(t, exitInterrupted, cmd.ProcessState.ExitCode())
			await.True(t, func() bool { _, all := engines(t, tmp); return len(all) == 0 }, "no process is left")
			r := readResult(t, only(t, dir))
			require.False(t, r.Validity.Valid)
			require.Equal(t, result.Cancelled, r.Status)
			o := profllm(t, dir, env, "run", "--simulate", "s.toml", "--output-dir", "next")
			require.Equal(t, exitOK, o.code)
		})
	}
}

// The shipped experiment is the same in each of its forms, and fits every command that takes a
// scenario.
//
// covers: LIB-10, LIB-11
func TestShippedExperiments(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../examples/experiment/experiment.*")
	require.NoError(t, err)
	require.Len(t, files, 3)
	dir := t.TempDir()
	digests := map[string]bool{}
	for _, file := range files {
		file, err := filepath.Abs(file)
		require.NoError(t, err)
		o := profllm(t, dir, nil, "verify", file)
		require.Equal(t, exitOK, o.code)
		require.Contains(t, o.stdout, "experiment")
		o = profllm(t, dir, nil, "slurm", "dry-run", "--simulate", "--output", "script", "--time", "2026-11-26T00:00:00Z", file)
		require.Equal(t, exitOK, o.code)
		require.Contains(t, o.stdout, "vllm serve Qwen/Qwen3-0.6B ")
		digests[regexp.MustCompile(`exp_\w+`).ReplaceAllString(o.stdout, "")] = true
	}
	require.Len(t, digests, 1)
}

// In a shell that holds an allocation, what runs here runs on a node of the allocation, with the
// GPUs that Slurm gave to it.
func TestRunInAnAllocation(t *testing.T) {
	t.Parallel()
	dir, env := t.TempDir(), machine(t, 8)
	here(t, dir, "cmd_args.decode.tensor_parallel_size = 2")
	held := append(env, "SLURM_JOB_ID=4711", "SLURM_JOB_NODELIST=gpu[01-02]", "SLURM_JOB_GPUS=4,5,6")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "one.toml"), []byte("name = \"one\"\nscheduler = \"standalone\"\n"+
		"output_path = \"results\"\ninstall_path = \"install\"\n"), 0o644))
	o := profllm(t, dir, held, "run", "--system", "one.toml", "s.toml")
	require.Equal(t, exitUsage, o.code, "a system without Slurm")
	require.Contains(t, o.stderr, "this shell holds job 4711 on gpu[01-02], and ")
	o = profllm(t, dir, append(held, "SLURMD_NODENAME=gpu02"), "run", "--simulate", "s.toml")
	require.Equal(t, exitOK, o.code)
	log, err := os.ReadFile(filepath.Join(only(t, dir), run.LogDir, "serve-0.log"))
	require.NoError(t, err)
	require.Contains(t, string(log), "CUDA_VISIBLE_DEVICES=4,5\n")
}
