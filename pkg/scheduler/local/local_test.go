package local

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/process"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/usertest"
)

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if code, ok := Main(ctx, filepath.Base(os.Args[0]), os.Args[1:], os.Environ(), os.Stdout, os.Stderr); ok {
		return code
	}
	stop()
	return m.Run()
}

// job is a script on three local nodes of two GPUs.
type job struct {
	*Local
	dir, id string
}

func submit(t *testing.T, script string) *job {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	j := &job{Local: New(t.TempDir(), self, append(os.Environ(), "SLURM_JOB_ID=7", "SLURM_NTASKS=9"), time.Now),
		dir: t.TempDir()}
	p := &plan.Plan{Schema: plan.Schema, RunID: "R", Dir: j.dir, Job: plan.Job{Name: "n.R", Nodes: 3, GPUsPerNode: 2}}
	require.NoError(t, run.Fill(j.dir, p, []byte("#!/bin/bash\n"+script)))
	sub, err := j.Submit(t.Context(),
		run.Request{Script: filepath.Join(j.dir, run.ScriptFile), Name: "n.R", Dir: j.dir})
	require.NoError(t, err)
	j.id = sub.JobID
	t.Cleanup(func() {
		j.Cancel(context.Background(), j.id)
		j.gone(t)
	})
	return j
}

// gone waits until nothing of the job runs: first the process that watches over it,
// which writes into both folders to its own end and may not have begun the script yet.
func (j *job) gone(t *testing.T) {
	t.Helper()
	await.True(t, func() bool { _, _, runs := watcher(j.id); return !runs },
		"the process that watches over job %s ends", j.id)
	var left []string
	await.True(t, func() bool { left = j.processes(t); return len(left) == 0 },
		"no process of job %s is left; there are %q", j.id, &left)
}

// wait waits for the end of the job, whose state it returns.
func (j *job) wait(t *testing.T) run.State {
	t.Helper()
	st, err := j.Wait(t.Context(), j.id)
	require.NoError(t, err)
	t.Logf("%+v\n%s%s", st, j.read(t, "stdout.txt"), j.read(t, "stderr.txt"))
	return st
}

func (j *job) read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(j.dir, name))
	require.NoError(t, err)
	return string(data)
}

// processes lists what runs with this job's id in its environment.
func (j *job) processes(t *testing.T) []string {
	t.Helper()
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(t, err)
	var list []string
	for _, name := range environs {
		env, err := os.ReadFile(name)
		if err == nil && bytes.Contains(append([]byte{0}, env...), []byte("\x00SLURM_JOB_ID="+j.id+"\x00")) {
			list = append(list, filepath.Base(filepath.Dir(name)))
		}
	}
	return list
}

// Steps on slices of the nodes, side by side, as on Slurm.
//
// covers: PL-S32
func TestSteps(t *testing.T) {
	j := submit(t, `
echo "job $SLURM_JOB_NAME $SLURM_JOB_NUM_NODES $SLURM_JOB_NODELIST tasks=$SLURM_NTASKS"
say='echo "$SLURM_PROCID $SLURM_NODEID $SLURMD_NODENAME $SLURM_STEP_NODELIST $PROFLLM_NODE_ADDR $CUDA_VISIBLE_DEVICES step=$SLURM_STEP_ID"; echo err >&2'
srun --overlap --job-name=all --nodes=3 --ntasks=3 --output=logs/all-%t.log bash -c "$say"
srun --overlap --job-name=tail --nodes=2 --ntasks=2 --relative=1 --output=logs/tail-%t.log bash -c "$say" &
srun --overlap --job-name=loud bash -c 'echo to the batch script; cat'
srun --overlap --job-name=ranks --nodes=2 --ntasks=4 --ntasks-per-node=2 --output=logs/ranks-%t.log bash -c "$say; echo local \$SLURM_LOCALID of \$SLURM_NTASKS" 2>/dev/null
wait
printf 'one\ntwo\n' | while read -r line; do srun --input=none true; echo "line $line"; done
`)
	st := j.wait(t)
	require.Equal(t, run.Succeeded, st.State)
	require.Equal(t, "0:0", st.ExitCode)
	require.Equal(t, "local", st.Source)
	require.Contains(t, j.read(t, "stdout.txt"), "job n.R 3 127.0.1.1,127.0.1.2,127.0.1.3 tasks=\n",
		"nothing of the submitting shell's job")
	require.Contains(t, j.read(t, "stdout.txt"), "to the batch script\nline one\nline two\n")
	all := "127.0.1.1,127.0.1.2,127.0.1.3"
	for name, want := range map[string]string{
		"all-0": "0 0 127.0.1.1 " + all + " 127.0.1.1 0,1", "all-1": "1 1 127.0.1.2 " + all + " 127.0.1.2 0,1", "all-2": "2 2 127.0.1.3 " + all + " 127.0.1.3 0,1",
		"tail-0": "0 0 127.0.1.2 127.0.1.2,127.0.1.3 127.0.1.2 0,1", "tail-1": "1 1 127.0.1.3 127.0.1.2,127.0.1.3 127.0.1.3 0,1",
	} {
		require.Regexp(t, "^"+want+` step=\d\nerr\n$`, j.read(t, "logs/"+name+".log"))
	}
	for rank, want := range []string{"0 0 127.0.1.1", "1 0 127.0.1.1", "2 1 127.0.1.2", "3 1 127.0.1.2"} {
		require.Regexp(t, fmt.Sprintf(`(?s)^%s .*\nlocal %d of 4\n$`, want, rank%2),
			j.read(t, fmt.Sprintf("logs/ranks-%d.log", rank)))
	}
}

// covers: PL-S39, PL-S41
func TestStepEnds(t *testing.T) {
	for name, c := range map[string]struct {
		srun   string
		code   string
		stderr string
	}{
		"exit code": {"srun sh -c 'exit 3'", "3:0", ""},
		// The first that fails ends the others: none may before all ignore that.
		"highest exit code":        {"srun --ntasks=3 sh -c 'trap \"\" TERM; touch up$SLURM_PROCID; until [ -e up0 ] && [ -e up1 ] && [ -e up2 ]; do :; done; exit $SLURM_PROCID'", "2:0", ""},
		"one bad task ends all":    {"srun --ntasks=3 sh -c '[ $SLURM_PROCID = 1 ] && exit 4; exec sleep 7200'", "143:0", ""},
		"a signal":                 {"srun sh -c 'kill -9 $$'", "137:0", ""},
		"no such program":          {"srun no-such-program", "1:0", "srun: error: execve(): no-such-program"},
		"beyond the allocation":    {"srun --relative=2 --ntasks=2 true", "1:0", "beyond the allocation of 3"},
		"before the allocation":    {"srun --relative=-1 true", "1:0", "beyond the allocation of 3"},
		"no task":                  {"srun --ntasks=0 true", "1:0", "beyond the allocation of 3"},
		"uneven tasks":             {"srun --ntasks=3 --ntasks-per-node=2 true", "1:0", "3 tasks, 2 on each node"},
		"no task on a node":        {"srun --ntasks=1 --ntasks-per-node=0 true", "1:0", "1 tasks, 0 on each node"},
		"too many tasks":           {"srun --ntasks=4 true", "1:0", "beyond the allocation of 3"},
		"not a number":             {"srun --ntasks=x true", "1:0", "--ntasks=x"},
		"no command":               {"srun --overlap", "1:0", "no command"},
		"no folder for the log":    {"srun --output=none/x-%t.log true", "1:0", "none/x-0.log"},
		"only steps are cancelled": {"scancel 60", "1:0", "only steps can be cancelled here"},
	} {
		t.Run(name, func(t *testing.T) {
			j := submit(t, c.srun+"\nexit $?\n")
			st := j.wait(t)
			require.Equal(t, run.Failed, st.State)
			require.Equal(t, c.code, st.ExitCode)
			require.Contains(t, j.read(t, "stderr.txt"), c.stderr)
		})
	}
}

// The way the script stops its roles: list the steps, TERM by id.
//
// covers: PL-S34, CD-36
func TestStepsAreStoppedById(t *testing.T) {
	j := submit(t, `
srun --job-name=gentle sh -c 'trap "echo flushed; exit 0" TERM; echo up >gentle.up; while :; do sleep 0.02; done' &
gentle=$!
srun --job-name=stubborn sh -c 'trap "" TERM; echo up >stubborn.up; while :; do sleep 0.02; done' &
stubborn=$!
while [ ! -e gentle.up ] || [ ! -e stubborn.up ]; do sleep 0.02; done
squeue -h -s -j "$SLURM_JOB_ID" -o "%i|%j" | sort -t'|' -k2 >steps
scancel --signal=TERM $(cut -d'|' -f1 steps)
wait $gentle; echo "gentle $?"
scancel --signal=KILL $(cut -d'|' -f1 steps)
wait $stubborn; echo "stubborn $?"
echo "left $(squeue -h -s -j "$SLURM_JOB_ID" | wc -l)"
`)
	require.Equal(t, run.Succeeded, j.wait(t).State)
	require.Equal(t, "flushed\ngentle 0\nstubborn 137\nleft 0\n", j.read(t, "stdout.txt"))
	require.Regexp(t, `^`+j.id+`\.\d\|gentle\n`+j.id+`\.\d\|stubborn\n$`, j.read(t, "steps"))
}

// A cancelled job leaves no process, and says what it was.
//
// covers: PL-S40, PL-G14
func TestCancel(t *testing.T) {
	j := submit(t, `
trap 'echo told; exit 143' TERM
srun --ntasks=3 sh -c 'sleep 7200 & echo $SLURM_PROCID >up.$SLURM_PROCID; wait' &
sleep 7200 &
while [ ! -e up.0 ] || [ ! -e up.1 ] || [ ! -e up.2 ]; do sleep 0.02; done
echo ready >ready
wait
`)
	await.File(t, filepath.Join(j.dir, "ready"))
	states, err := j.States(t.Context(), []string{j.id, "1"})
	require.NoError(t, err)
	require.Equal(t, run.Running, states[j.id].State)
	require.Equal(t, run.Unknown, states["1"].State)
	require.Greater(t, len(j.processes(t)), 6)

	ctx, interrupt := context.WithCancel(t.Context())
	interrupt() // Wait cancels the job
	st, err := j.Wait(ctx, j.id)
	require.NoError(t, err)
	require.Equal(t, run.Cancelled, st.State)
	require.Contains(t, j.read(t, "stdout.txt"), "told")
	j.gone(t)
	require.NoError(t, j.Cancel(t.Context(), j.id), "it is over")
	require.Error(t, j.Cancel(t.Context(), "1"), "no job of ours")
}

// What a script leaves behind ends with it.
func TestNothingOutlivesTheJob(t *testing.T) {
	j := submit(t, "srun sh -c 'sleep 7200 & exec sleep 7200' &\nsleep 7200 &\nwhile ! squeue | grep -q .; do sleep 0.02; done\nexit 0\n")
	require.Equal(t, run.Succeeded, j.wait(t).State)
	j.gone(t)
}

// A job that was killed is over, also when its process start was never known.
//
// covers: PL-S10
func TestStatesOfKilled(t *testing.T) {
	j := submit(t, "exec sleep 7200\n")
	pid, ours, runs := watcher(j.id)
	require.True(t, ours && runs, j.id)
	await.True(t, func() bool { return len(j.processes(t)) > 0 }, "the script runs")
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	await.True(t, func() bool {
		states, err := j.States(t.Context(), []string{j.id})
		return err == nil && states[j.id].Final()
	}, "the killed job is over")
	states, err := j.States(t.Context(), []string{j.id})
	require.NoError(t, err)
	require.Equal(t, run.Failed, states[j.id].State)
	require.Equal(t, "killed", states[j.id].Note)
	await.True(t, func() bool { return len(j.processes(t)) == 0 }, "no process of the job is left")

	// The sentinel knows better, if the script had come to its end.
	require.Equal(t, run.Failed, states[j.id].WithSentinel(j.dir, "").State)
	require.NoError(t, run.WriteJSON(filepath.Join(j.dir, run.SentinelFile), run.Sentinel{JobID: j.id}))
	require.Equal(t, run.Succeeded, states[j.id].WithSentinel(j.dir, "").State)
}

// After a reboot /tmp may be empty, and the PID another process'.
//
// covers: PL-S10, PL-G14
func TestIDsOfOthers(t *testing.T) {
	l := New(t.TempDir(), "", nil, time.Now)
	self := os.Getpid()
	for id, want := range map[string]string{
		newID(self, process.Start(self)):                    run.Running,
		newID(self, "an earlier boot/1"):                    run.Failed,
		newID(self, "an earlier boot/1") + "_0":             run.Failed + " " + run.Killed,
		run.LocalPrefix + "elsewhere-77-0000beef":           run.Unknown,
		run.LocalPrefix + host() + "-elsewhere-77-0000beef": run.Unknown,
		run.LocalPrefix + host() + "-x-0000beef":            run.Unknown,
		fmt.Sprint(self):                                    run.Unknown,
	} {
		states, err := l.States(t.Context(), []string{id})
		require.NoError(t, err)
		require.Contains(t, states[id].State+" "+states[id].Note, want, id)
		if want != run.Running {
			l.Cancel(t.Context(), id) // would end this test
		}
	}
}

// Whoever finds an intent without an answer finds the job by its name.
//
// covers: PL-S22
func TestFindJob(t *testing.T) {
	j := submit(t, "exec sleep 7200\n")
	id, found, err := j.FindJob(t.Context(), "n.R", time.Now())
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, j.id, id)
	for _, besides := range [][]string{{j.id}, nil} {
		_, found, err = j.FindJob(t.Context(), map[bool]string{true: "n.R", false: "n"}[besides != nil], time.Now(),
			besides...)
		require.NoError(t, err)
		require.False(t, found)
	}
}

func TestSubmitRefused(t *testing.T) {
	l := New(filepath.Join(t.TempDir(), "none"), "/bin/true", nil, time.Now)
	_, err := l.Submit(t.Context(), run.Request{Dir: t.TempDir()})
	require.ErrorAs(t, err, new(*run.RefusedError), "no plan")
}

func TestMainOutsideAJob(t *testing.T) {
	for _, name := range Programs {
		var out, errs bytes.Buffer
		code, ok := Main(t.Context(), name, []string{"true"}, []string{"SLURM_JOB_NODELIST=a"}, &out, &errs)
		require.True(t, ok)
		require.Equal(t, 1, code)
		require.Contains(t, errs.String(), name+": error: ")
	}
	_, ok := Main(t.Context(), "profllm", nil, nil, nil, nil)
	require.False(t, ok)
	var errs bytes.Buffer
	code, ok := Main(t.Context(), jobProgram, []string{"{"}, nil, nil, &errs)
	require.True(t, ok)
	require.Equal(t, 1, code)
	require.True(t, strings.HasPrefix(errs.String(), "profllm local job: "), fmt.Sprint(errs.String()))
}

// A folder that another user made in this one's name is not used: neither its programs nor its records.
func TestStateOfAnotherUser(t *testing.T) {
	shared := t.TempDir()
	require.NoError(t, os.Chmod(shared, 0o777|os.ModeSticky))
	planted := filepath.Join(shared, base())
	id := newID(os.Getpid(), process.Start(os.Getpid()))
	require.NoError(t, os.MkdirAll(filepath.Join(planted, id), 0o777))
	require.NoError(t, run.WriteJSON(filepath.Join(planted, id, startedFile), record{ID: id, Name: "job"}))
	require.NoError(t, run.WriteJSON(filepath.Join(planted, id, endedFile(id)), record{ID: id, State: run.Succeeded}))
	usertest.Give(t, planted)

	l := New(shared, os.Args[0], nil, time.Now)
	_, found, err := l.FindJob(t.Context(), "job", time.Time{})
	require.NoError(t, err)
	require.False(t, found)
	states, err := l.States(t.Context(), []string{id})
	require.NoError(t, err)
	require.Equal(t, run.Running, states[id].State, "this process runs, whatever the planted record says")

	dir, bin, err := l.makeState()
	require.NoError(t, err)
	require.Equal(t, planted+"-2", filepath.Dir(dir))
	require.FileExists(t, filepath.Join(bin, "srun"))
}
