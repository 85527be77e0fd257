package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/gpu"
	"github.com/profllm/profllm/pkg/quantity"
)

func h100(index int, usedGiB float64, procs ...gpu.Process) gpu.Device {
	return gpu.Device{Index: index, UUID: fmt.Sprintf("GPU-%d", index), Name: "NVIDIA H100", Driver: "570",
		Total: 80 * quantity.GiB, Used: int64(usedGiB * quantity.GiB), Processes: procs}
}

// look is a fit node: two idle GPUs and room everywhere.
func look(t *testing.T) *Look {
	t.Helper()
	procDir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(procDir, "meminfo"),
		[]byte("MemTotal: 99 kB\nMemAvailable:   104857600 kB\n"), 0o644))
	small := 0.0
	return &Look{
		Settings: &config.Preflight{Shm: &small, Disk: &small, Tmp: &small},
		GPUs:     []int{0, 1}, Job: "60", Host: "n1", Self: os.Getpid(), Dir: t.TempDir(), Tmp: t.TempDir(),
		Shm: t.TempDir(), Proc: procDir,
		ListGPUs: func(context.Context) (gpu.Listing, error) {
			return gpu.Listing{Devices: []gpu.Device{h100(0, 0.1), h100(1, 0)}}, nil
		},
		Now: time.Now,
	}
}

func found(r Report, name string) *Check {
	for i := range r.Checks {
		if r.Checks[i].Name == name {
			return &r.Checks[i]
		}
	}
	return nil
}

// tmpfs mounts a small file system, which only root may do.
func tmpfs(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size, "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("no tmpfs can be mounted: %s", bytes.TrimSpace(out))
	}
	t.Cleanup(func() { require.NoError(t, exec.Command("umount", dir).Run()) })
	return dir
}

// covers: PL-G13
func TestLook(t *testing.T) {
	l := look(t)
	r := l.Report(t.Context())
	require.Equal(t, "n1", r.Host)
	for _, name := range []string{"gpus", "gpu-memory", "gpu-processes", "shm", "shm-leftovers", "disk", "tmp",
		"memory"} {
		require.Equal(t, OK, found(r, name).Verdict, "%+v", found(r, name))
	}
	require.NotNil(t, found(r, "limits"))
	require.Len(t, r.GPUs, 2)
	require.False(t, r.Ended.Before(r.Began))
	require.NotEqual(t, Fail, Worst(r.Checks))
}

// covers: PL-G13, PL-F11
func TestLookBad(t *testing.T) {
	huge := 1e9
	for name, c := range map[string]struct {
		set     func(*Look)
		check   string
		verdict Verdict
		seen    string
	}{
		"GPU memory": {func(l *Look) {
			l.ListGPUs = func(context.Context) (gpu.Listing, error) {
				return gpu.Listing{Devices: []gpu.Device{h100(0, 1.9),
					h100(1, 72, gpu.Process{PID: 4711, Name: "python3", Used: 72 * quantity.GiB})}}, nil
			}
		}, "gpu-memory", Fail, "GPU 1 holds 72 GiB of 80 GiB: process 4711 python3"},
		"GPU memory, nobody named": {func(l *Look) {
			l.ListGPUs = func(context.Context) (gpu.Listing, error) {
				return gpu.Listing{Devices: []gpu.Device{h100(0, 3), h100(1, 0)}}, nil
			}
		}, "gpu-memory", Fail, "GPU 0 holds 3.0 GiB of 80 GiB: the driver names no process"},
		"another limit": {func(l *Look) {
			l.Settings.GPUMemory = new(0.05)
		}, "gpu-memory", Fail, "GPU 0 holds 102 MiB of 80 GiB: the driver names no process"},
		"a process without memory": {func(l *Look) {
			l.ListGPUs = func(context.Context) (gpu.Listing, error) {
				return gpu.Listing{Devices: []gpu.Device{h100(0, 0),
					h100(1, 0, gpu.Process{PID: 7}, gpu.Process{PID: 8, Name: "[Not Found]"},
						gpu.Process{PID: 9})}}, nil
			}
		}, "gpu-processes", Warn, "GPU 1: process 7, process 8, 1 more"},
		"too few": {func(l *Look) { l.GPUs = []int{0, 1, 2} }, "gpus", Fail, "2 visible, GPU 2 is planned"},
		"a broken driver": {func(l *Look) {
			l.ListGPUs = func(context.Context) (gpu.Listing, error) {
				return gpu.Listing{}, errors.New("nvidia-smi: version mismatch")
			}
		}, "gpus", Fail, "nvidia-smi: version mismatch"},
		"no driver": {func(l *Look) {
			l.ListGPUs = func(context.Context) (gpu.Listing, error) { return gpu.Listing{}, gpu.ErrNoDriver }
		}, "gpu-memory", NotPossible, "no NVIDIA driver"},
		"no GPU is planned": {func(l *Look) { l.GPUs = nil }, "gpu-memory", NotPossible, "no GPU is planned on this node"},
		"simulated":         {func(l *Look) { l.Simulated = true; l.Settings.Shm = &huge }, "shm", NotPossible, "not needed by a simulated engine"},
		"disk":              {func(l *Look) { l.Settings.Disk = &huge }, "disk", Warn, "less than 1000000000 GiB"},
		"no folder":         {func(l *Look) { l.Tmp += "/x" }, "tmp", Fail, "no such file or directory"},
		"memory":            {func(l *Look) { l.Settings.Memory = &huge }, "memory", Warn, "100 GiB available, less than"},
		"memory of the job": {func(l *Look) { l.Memory = "2048" }, "memory", Warn, "100 GiB available, 2.0 GiB allocated to the job, less than 4.0 GiB"},
		"memory is taken":   {func(l *Look) { l.Memory = "204800" }, "memory", Warn, "100 GiB available, 200 GiB allocated to the job"},
		"open files":        {func(l *Look) { l.Clients = 1 << 40 }, "limits", Warn, fmt.Sprintf("less than %d", int64(4)<<40)},
		"segments": {func(l *Look) {
			for _, name := range []string{"psm_1a2b", "sem.mp-x", "torch_1_2", "nccl-a", "vllm_q", "mine.txt"} {
				os.WriteFile(filepath.Join(l.Shm, name), make([]byte, 1024), 0o644)
			}
		}, "shm-leftovers", Warn, "unused segments: nccl-a psm_1a2b sem.mp-x torch_1_2 and 1 more, 5 KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			l := look(t)
			c.set(l)
			got := found(l.Report(t.Context()), c.check)
			require.NotNil(t, got)
			require.Equal(t, c.verdict, got.Verdict, got.Seen)
			require.Contains(t, got.Seen, c.seen)
		})
	}
}

// covers: PL-G13
func TestLookFull(t *testing.T) {
	full := tmpfs(t, "4m")
	for _, c := range []struct {
		name string
		set  func(*Look)
	}{
		{"shm", func(l *Look) { l.Shm = full }}, {"disk", func(l *Look) { l.Dir = full }}, {"tmp", func(l *Look) { l.Tmp = full }},
	} {
		l := look(t)
		c.set(l)
		got := found(l.Report(t.Context()), c.name)
		require.Equal(t, Fail, got.Verdict)
		require.Contains(t, got.Seen, "4 MiB free in "+full)
	}
}

func TestJudged(t *testing.T) {
	s := &config.Preflight{Off: []string{"shm"}, Warn: []string{"gpus"}, Fail: []string{"clock"}}
	for _, c := range []struct {
		name     string
		in, want Verdict
	}{
		{"gpus", Fail, Warn}, {"gpus", OK, OK}, {"clock", Warn, Fail}, {"clock", NotPossible, NotPossible}, {"disk", Fail, Fail},
	} {
		require.Equal(t, []Check{{c.name, c.want, "x"}}, Judged(s, c.name, c.in, " x\n"), c.name)
	}
	require.Empty(t, Judged(s, "shm", Fail, "x"))
	require.Equal(t, []Check{{"shm", Fail, "x"}}, Judged(nil, "shm", Fail, "x"))
	require.Less(t, len(Judged(nil, "shm", Fail, strings.Repeat("ü ", 1000))[0].Seen), 500)
}

// A segment that some process has mapped or open is no leftover.
func TestSegmentsInUse(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"psm_open", "psm_free"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o644))
	}
	f, err := os.Open(filepath.Join(dir, "psm_open"))
	require.NoError(t, err)
	defer f.Close()
	require.Equal(t, []segment{{"psm_free", 1}}, segments(dir, "/proc", os.Getuid(), nil))
	require.Empty(t, segments(dir, "/proc", os.Getuid()+1, nil), "of another user")
	require.Empty(t, segments(dir, "/proc", os.Getuid(), map[string]bool{"psm_free": true}), "there before")
}

func TestSnapshot(t *testing.T) {
	dir := t.TempDir()
	write := func(name string) {
		t.Helper()
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o644))
	}
	write("psm_before")
	s := NewSnapshot(dir, t.TempDir())
	write("psm_after")
	write("other")
	require.Equal(t, "psm_after, 0 KiB", s.Clean("60", "n1"))
	require.Empty(t, s.Clean("60", "n1"))
	require.FileExists(t, filepath.Join(dir, "psm_before"))
	require.FileExists(t, filepath.Join(dir, "other"))

	write("psm_whose")
	fake := filepath.Join(s.proc, "70")
	require.NoError(t, os.Mkdir(fake, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(fake, "stat"), []byte("70 (x) S 1 "), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(fake, "environ"), []byte("SLURM_JOB_ID=61\x00SLURMD_NODENAME=n1\x00"),
		0o644))
	require.Empty(t, s.Clean("60", "n1"), "another job of the user is here")
	require.FileExists(t, filepath.Join(dir, "psm_whose"))
	require.NotEmpty(t, s.Clean("60", "n2"), "it is on another node")
}

func TestLines(t *testing.T) {
	r := Report{
		Host: "n1", Checks: []Check{{"gpus", OK, "2 visible"}, {"shm", Warn, "\"full\""}},
		GPUs:   []gpu.Device{h100(0, 0), h100(1, 0)},
		Strays: []Process{{7, "59", "sleep 9"}}, Began: time.Unix(100, 0).UTC(), Ended: time.Unix(101, 5).UTC(),
	}
	var b bytes.Buffer
	b.WriteString("Welcome to the cluster\n")
	require.NoError(t, r.Write(&b))
	require.NoError(t, WriteLeft(&b, "n1", []string{"process 8", "a\nb"}))
	b.WriteString("look {\"host\":\"n1\",\"check\":{\"na")
	var l Lines
	for line := range bytes.Lines(b.Bytes()) {
		require.Less(t, len(line), 1000, "srun may cut longer lines in two")
		l.Add(line)
	}
	require.Equal(t, map[string]*Report{"n1": &r}, l.Reports)
	require.Equal(t, []Left{{"n1", "process 8"}, {"n1", "a b"}}, l.Left)
	require.Equal(t, []string{"n1"}, l.Swept)
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("look {\"host\":\"n1\",\"check\":{\"name\":\"gpus\",\"verdict\":\"ok\",\"seen\":\"x\"}}"))
	f.Add([]byte("look {\"host\":\"n1\",\"swept\":true}"))
	f.Add([]byte("look {\"host\":\"n1\",\"left\":\"x\"}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var l Lines
		for line := range bytes.Lines(data) {
			l.Add(line)
		}
		for host, r := range l.Reports {
			require.NotEmpty(t, host)
			require.Equal(t, host, r.Host)
		}
	})
}

func FuzzConfined(f *testing.F) {
	for _, s := range []string{
		"0::/system.slice/slurmstepd.scope/job_60/step_0/user/task_0\n", "7:memory:/slurm_n1/uid_0/job_60/step_batch\n", "0::/slurm/uid_0/job_60/step_extern/task_0",
		"0::/job_1/step_1", "", "0::/x_slurmstepd.scope/job_1/step_",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		job, step := confined(data)
		require.Regexp(t, `^\d*$`, job)
		require.Regexp(t, `^\d*$`, step)
		require.False(t, job == "" && step != "")
	})
}

// inJob starts a shell that carries a job's id, as a task of a step does, below a
// keeper that does not.
func inJob(t *testing.T, job, step, script string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("bash", "-c", script)
	cmd.Env = append(os.Environ(), "SLURM_JOB_ID="+job, "SLURM_STEP_ID="+step, "SLURMD_NODENAME=n1")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if strings.HasPrefix(script, "sleep ") { // bash becomes sleep; between the two it has no environment
		await.True(t, func() bool {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", cmd.Process.Pid))
			return strings.HasPrefix(string(line), "sleep\x00")
		}, "bash has become sleep")
	}
	return cmd
}

// pidIn waits for a process to write its id into a file.
func pidIn(t *testing.T, file string) int {
	t.Helper()
	pid := 0
	await.True(t, func() bool {
		data, _ := os.ReadFile(file)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(data)))
		return pid > 0
	}, "the process has written its id")
	t.Cleanup(func() {
		if lives(pid) {
			if p, err := os.FindProcess(pid); err == nil {
				p.Kill()
			}
		}
	})
	return pid
}

func lives(pid int) bool {
	_, ok := readProcesses("/proc")[pid]
	return ok
}

// The daemons of a job are ended, by TERM or by KILL, and nothing else: not those of
// another job, not tasks of its own steps, not a process of the same name without a job.
//
// covers: PL-G14
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	job := fmt.Sprintf("9%d", os.Getpid())
	// The parent ends at once, so that init, or who stands in for it, has the child.
	daemon := func(file, trap string) string {
		return fmt.Sprintf("setsid bash -c '(echo $BASHPID >%s; %s exec sleep 300) >/dev/null 2>&1 </dev/null &'",
			filepath.Join(dir, file), trap)
	}
	inJob(t, job, "1", daemon("polite", "")).Wait()
	inJob(t, job, "1", daemon("stubborn", "trap \"\" TERM;")).Wait()
	inJob(t, job, "", daemon("script", "")).Wait()
	srun := filepath.Join(dir, "srun") // of the script, whose subshell is gone
	sleep, err := exec.LookPath("sleep")
	require.NoError(t, err)
	require.NoError(t, os.Symlink(sleep, srun))
	inJob(t, job, "", fmt.Sprintf("setsid bash -c '(echo $BASHPID >%s; exec %s 300) >/dev/null 2>&1 </dev/null &'",
		filepath.Join(dir, "client"), srun)).Wait()
	inJob(t, job+"1", "1", daemon("foreign", "")).Wait()
	client := pidIn(t, filepath.Join(dir, "client"))
	polite, stubborn, script, foreign := pidIn(t, filepath.Join(dir, "polite")), pidIn(t,
		filepath.Join(dir, "stubborn")), pidIn(t, filepath.Join(dir, "script")), pidIn(t, filepath.Join(dir, "foreign"))
	guard := inJob(t, job, "0", "sleep 300")
	task := inJob(t, job, "1", "sleep 300")

	sweep := Sweep{Proc: "/proc", Job: job, Host: "n1", Self: guard.Process.Pid, Grace: 300 * time.Millisecond,
		Limit: 2 * time.Second, Steps: true}
	patient := sweep
	patient.Patient = true
	ended, left := patient.Run()
	require.Empty(t, ended, "a task still runs")
	require.Len(t, left, 2)

	ended, left = sweep.Run()
	require.Empty(t, left)
	require.Len(t, ended, 2)
	signals := map[int]string{}
	for _, e := range ended {
		signals[e.PID] = e.Signal
		require.Equal(t, job, e.Job)
		require.Equal(t, "sleep 300", e.Command)
	}
	require.Equal(t, map[int]string{polite: "TERM", stubborn: "KILL"}, signals)
	for _, pid := range []int{script, foreign, guard.Process.Pid, task.Process.Pid} {
		require.True(t, lives(pid))
	}

	require.NoError(t, task.Process.Kill())
	task.Wait()
	sweep.Steps, sweep.Limit = false, time.Hour // nothing is waited for
	ended, left = sweep.Run()
	require.Empty(t, left)
	require.Len(t, ended, 1, "what the script itself has started, at the end of the whole job")
	require.Equal(t, script, ended[0].PID)
	require.True(t, lives(foreign))
	require.True(t, lives(client), "it ends with its step")
}

// A process that may still end by itself gets no signal.
func TestSweepLetsHelpersEnd(t *testing.T) {
	file := filepath.Join(t.TempDir(), "helper")
	job := fmt.Sprintf("6%d", os.Getpid())
	inJob(t, job, "1", fmt.Sprintf("setsid bash -c '(echo $BASHPID >%s; exec sleep 300) >/dev/null 2>&1 </dev/null &'", file)).Wait()
	helper, guard := pidIn(t, file), inJob(t, job, "0", "sleep 300")
	sweep := Sweep{Proc: "/proc", Job: job, Host: "n1", Self: guard.Process.Pid, Settle: time.Hour}
	ended, left := sweep.Run() // one look
	require.Empty(t, ended)
	require.Len(t, left, 1)
	require.True(t, lives(helper))
	sweep.Settle, sweep.Grace, sweep.Limit = 0, time.Minute, time.Minute
	ended, left = sweep.Run()
	require.Empty(t, left)
	require.Len(t, ended, 1)
	require.Equal(t, "TERM", ended[0].Signal)
}

// In an allocation that somebody holds, what carries another run's id, or none, stays.
//
// covers: SRV-18
func TestSweepOfAHeldAllocation(t *testing.T) {
	dir := t.TempDir()
	job := fmt.Sprintf("8%d", os.Getpid())
	daemon := func(file string) string {
		return fmt.Sprintf("setsid bash -c '(echo $BASHPID >%s; exec sleep 300) >/dev/null 2>&1 </dev/null &'", filepath.Join(dir, file))
	}
	held := func(id, step, script string) *exec.Cmd {
		return inJob(t, job, step, "export PROFLLM_HELD_JOB="+id+"; "+script)
	}
	held("local-1", "2", daemon("own")).Wait()
	held("local-2", "3", daemon("other")).Wait()
	inJob(t, job, "1", daemon("user")).Wait()
	held("local-1", "", daemon("script")).Wait()
	own := pidIn(t, filepath.Join(dir, "own"))
	others := []int{pidIn(t, filepath.Join(dir, "other")), pidIn(t, filepath.Join(dir, "user")), pidIn(t, filepath.Join(dir, "script"))}
	guard := held("local-1", "0", "exec bash -c 'echo >"+filepath.Join(dir, "guard")+"; exec sleep 300'")
	await.File(t, filepath.Join(dir, "guard"))
	ended, left := Sweep{Proc: "/proc", Job: job, Held: "local-1", Host: "n1", Self: guard.Process.Pid, Grace: time.Minute,
		Limit: time.Minute, Steps: true}.Run()
	require.Empty(t, left)
	require.Len(t, ended, 1)
	require.Equal(t, own, ended[0].PID)
	for _, pid := range others {
		require.True(t, lives(pid))
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	}
}

// The tasks of a step that nobody ends are ended in the end, and not those of a step
// that began meanwhile: the next run's, in an allocation for several.
//
// covers: PL-G14
func TestSweepOfForgottenSteps(t *testing.T) {
	job := fmt.Sprintf("7%d", os.Getpid())
	guard := inJob(t, job, "0", "sleep 300")
	task := inJob(t, job, "1", "sleep 300")
	var next *exec.Cmd
	sweep := Sweep{Proc: "/proc", Job: job, Host: "n1", Self: guard.Process.Pid, Tasks: 100 * time.Millisecond,
		Limit: time.Second}
	sweep.Changed = func(ended []Ended) {
		if next == nil {
			next = inJob(t, job, "2", "sleep 300")
		}
	}
	ended, left := sweep.Run()
	require.Error(t, task.Wait())
	require.Empty(t, left)
	for _, e := range ended {
		require.Equal(t, "KILL", e.Signal)
	}
	require.Contains(t, ended, Ended{Process: Process{task.Process.Pid, job, "sleep 300"}, Signal: "KILL"})
	require.True(t, lives(next.Process.Pid))
	require.True(t, lives(guard.Process.Pid))
}

// A process that was given another environment, or overwrote its own with a title,
// is the job's by its cgroup, of either version; what came in from outside is not, nor
// is what looks after a step.
//
// covers: PL-G14
func TestStraysByCgroup(t *testing.T) {
	proc := t.TempDir()
	add := func(pid, parent int, name, env, cgroup string) {
		dir := filepath.Join(proc, strconv.Itoa(pid))
		require.NoError(t, os.Mkdir(dir, 0o755))
		for file, text := range map[string]string{
			"stat": fmt.Sprintf("%d (%s) S %d 1 1", pid, name, parent), "environ": strings.ReplaceAll(env, " ", "\x00"), "cmdline": name + "\x00", "cgroup": cgroup,
		} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644))
		}
	}
	const v1, v2 = "9:cpuset:/\n7:memory:/slurm_n1/uid_1000/job_%s/step_%s/task_0\n", "0::/system.slice/slurmstepd.scope/job_%s/step_%s/user/task_0\n"
	in := func(version, job, step string) string { return fmt.Sprintf(version, job, step) }
	env := "SLURM_JOB_ID=60 SLURM_STEP_ID=0 SLURMD_NODENAME=n1"
	add(1, 0, "init", "", "0::/init.scope\n")
	add(10, 1, "slurmstepd", "", in(v2, "60", "0"))
	add(11, 10, "guard", env, in(v2, "60", "0"))
	add(20, 1, "slurmstepd", "", "0::/system.slice/n1_slurmstepd.scope/job_60/step_1/slurm\n")
	add(21, 20, "task", strings.Replace(env, "ID=0", "ID=1", 1), in(v2, "60", "1"))
	add(22, 21, "hidden", "VLLM::EngineCore", in(v2, "60", "1"))
	add(30, 1, "titled", "ray::IDLE", in(v2, "60", "1"))
	add(31, 1, "old", "", in(v1, "60", "0"))
	add(32, 1, "script", "", in(v2, "60", "batch"))
	add(40, 1, "foreign", "", in(v2, "61", "1"))
	add(41, 1, "sshd", "", in(v2, "60", "extern"))
	add(42, 1, "liar", "", "0::/user.slice/job_60/step_1/x\n")
	add(43, 1, "other", "SLURM_JOB_ID=61", in(v2, "60", "1"))

	s := Sweep{Proc: proc, Job: "60", Host: "n1", Self: 11}
	names := func(s Sweep) (tasks int, list []string) {
		found, strays := s.find(map[string]bool{})
		for _, p := range strays {
			require.True(t, p.daemon, p.name)
			list = append(list, p.name)
		}
		slices.Sort(list)
		return len(found), list
	}
	tasks, strays := names(s)
	require.Equal(t, 2, tasks, "the task, and what it has started")
	require.Equal(t, []string{"old", "script", "titled"}, strays)
	s.Steps = true
	_, strays = names(s)
	require.Equal(t, []string{"old", "titled"}, strays)

	// In an allocation that somebody holds, what hides is the run's in its own steps only.
	s.Held = "local-1"
	environ := func(pid, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(proc, pid, "environ"), []byte(strings.ReplaceAll(text, " ", "\x00")), 0o644))
	}
	environ("11", env+" PROFLLM_HELD_JOB=local-1")
	tasks, strays = names(s)
	require.Zero(t, tasks, "step 1 is somebody else's")
	require.Equal(t, []string{"old"}, strays)
	environ("21", strings.Replace(env, "ID=0", "ID=1", 1)+" PROFLLM_HELD_JOB=local-1")
	own := map[string]bool{}
	found, left := s.find(own)
	require.Len(t, found, 2)
	require.Len(t, left, 2)
	require.NoError(t, os.RemoveAll(filepath.Join(proc, "21")))
	found, _ = s.find(own)
	require.Empty(t, found, "a task whose parent is gone is a stray")
	_, left = s.find(own)
	require.Len(t, left, 3, "the step stays the run's")
}

// covers: PL-G14
func TestStrays(t *testing.T) {
	dir := t.TempDir()
	job := fmt.Sprintf("8%d", os.Getpid())
	file := filepath.Join(dir, "pid")
	inJob(t, job, "1", "setsid bash -c '(echo $BASHPID >"+file+"; exec sleep 300) >/dev/null 2>&1 </dev/null &'").Wait()
	pid := pidIn(t, file)
	guard := inJob(t, "60", "0", "sleep 300")
	l := look(t)
	l.Proc, l.Self = "/proc", guard.Process.Pid
	named := func() bool {
		return slices.ContainsFunc(l.strays(), func(p Process) bool { return p.PID == pid && p.Job == job })
	}
	require.True(t, named())
	l.Host = "n2"
	require.False(t, named(), "of another node")
	l.Host, l.Job = "n1", job
	require.False(t, named(), "of this job")
}

// What containers are given is looked for before their runtime misses it.
func TestLookForMounts(t *testing.T) {
	l := look(t)
	there := t.TempDir()
	for name, c := range map[string]struct {
		mounts []string
		want   Verdict
		seen   string
	}{
		"none":    {nil, NotPossible, "no container"},
		"there":   {[]string{there, "/"}, OK, "2 mount sources exist"},
		"missing": {[]string{there, there + "/a", there + "/b"}, Fail, "mount sources missing on this node: " + there + "/a, " + there + "/b"},
	} {
		l.Mounts = c.mounts
		check := found(l.Report(t.Context()), "mounts")
		require.NotNil(t, check, name)
		require.Equal(t, []any{c.want, c.seen}, []any{check.Verdict, check.Seen}, name)
	}
}
