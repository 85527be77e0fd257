package run_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/internal/slurmtest"
	"github.com/profllm/profllm/pkg/process"
	"github.com/profllm/profllm/pkg/run"
)

// thatTime makes every submission of a test one with the same name.
const thatTime = "2026-01-01T00:00:00Z"

// small mounts a file system of some KiB as the session's results.
func (s *session) small(kib int) {
	s.t.Helper()
	dir := filepath.Join(s.dir, "results")
	require.NoError(s.t, os.MkdirAll(dir, 0o755))
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dk", kib)); err != nil {
		s.t.Skipf("no tmpfs may be mounted here: %v", err)
	}
	s.t.Cleanup(func() { require.NoError(s.t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
}

// leave fills the session's results up to some KiB, and returns how to undo that.
func (s *session) leave(kib int) (undo func()) {
	s.t.Helper()
	dir := filepath.Join(s.dir, "results")
	var st syscall.Statfs_t
	require.NoError(s.t, syscall.Statfs(dir, &st))
	fill := int(st.Bavail)*int(st.Bsize) - kib<<10
	require.GreaterOrEqual(s.t, fill, 0)
	name := filepath.Join(dir, "ballast")
	require.NoError(s.t, os.WriteFile(name, make([]byte, fill), 0o644))
	return func() { require.NoError(s.t, os.Remove(name)) }
}

// On a full disk a submission fails with the path and what to do, whatever was the
// first file that did not fit; nothing half is left, and with room it goes on.
//
// covers: PL-D2
func TestDiskFullAtSubmit(t *testing.T) {
	s := newSession(t, slurmtest.Knobs{})
	s.small(512)
	failed := 0
	for kib := 0; ; kib += 8 {
		undo := s.leave(kib)
		code, _, stderr := s.profllm(submit...)
		undo()
		if code == 0 {
			break
		}
		failed++
		require.Equal(t, 4, code)
		require.Contains(t, stderr, "no space left on device\n")
		require.Contains(t, stderr, filepath.Join(s.dir, "results"), "it names the file")
		require.Contains(t, stderr, "hint: the disk or the quota is full")
		s.requireWhole()
		s.requireTidy()
	}
	require.Greater(t, failed, 5)
	require.Len(t, s.roots(), 1)
	s.requireNoStrangers()
	s.requireOneJobEach()
}

// A job on a full disk fails, and says why; one that has room again goes on.
func TestDiskFullInTheJob(t *testing.T) {
	s := newSession(t, slurmtest.Knobs{})
	s.small(512)
	submitted(s)
	dir := filepath.Join(s.root(), "a/0")
	job := func(args ...string) (int, string) {
		cmd := s.command(append([]string{"job", args[0], "--run", dir}, args[1:]...)...)
		cmd.Env = append(cmd.Env, "SLURM_JOB_ID=60")
		out, _ := cmd.CombinedOutput()
		return cmd.ProcessState.ExitCode(), string(out)
	}
	full := func(args ...string) {
		t.Helper()
		undo := s.leave(0)
		defer undo()
		code, out := job(args...)
		require.NotZero(t, code, out)
		require.Contains(t, out, "no space left on device")
		require.Contains(t, out, dir)
	}
	full("start")
	require.NoFileExists(t, filepath.Join(dir, run.ClaimFile))
	code, out := job("start")
	require.Zero(t, code, out)
	full("finish", "--code", "0", "bench=0")
	require.NoFileExists(t, filepath.Join(dir, run.SentinelFile))
	code, out = job("finish", "--code", "0", "bench=0")
	require.Equal(t, 6, code, "nothing was measured: %s", out)
	require.FileExists(t, filepath.Join(dir, run.SentinelFile))
	s.requireTidy()
}

// What cannot be kept is shown all the same, and the records of before stay.
func TestDiskFullAtCollect(t *testing.T) {
	s := newSession(t, slurmtest.Knobs{})
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "kill.toml"), []byte(oneRun), 0o644))
	s.small(512)
	s.finished("--time", thatTime)
	record := filepath.Join(s.root(), "a/0", run.ResultFile)
	undo := s.leave(0)
	_, stdout, stderr := s.profllm("collect", s.root())
	require.Contains(t, stdout, "result-missing", "the result is shown")
	require.Contains(t, stderr, record+": no space left on device")
	require.Contains(t, stderr, "hint: the disk or the quota is full")
	require.NoFileExists(t, record)
	code, stdout, stderr := s.profllm("slurm", "status", s.root())
	require.Zero(t, code)
	require.Contains(t, stdout, "succeeded")
	require.Contains(t, stderr, "the state of 1 run could not be saved")
	undo()
	s.profllm("collect", s.root())
	whole := read(t, record)
	undo = s.leave(0)
	s.profllm("collect", s.root())
	undo()
	require.Equal(t, whole, read(t, record))
	s.requireTidy()
}

// Somebody else's results can be looked at; nothing is submitted into them.
func TestReadOnly(t *testing.T) {
	s := newSession(t, slurmtest.Knobs{})
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "kill.toml"), []byte(oneRun), 0o644))
	s.small(512)
	s.finished("--time", thatTime)
	dir := filepath.Join(s.dir, "results")
	require.NoError(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	calls := len(s.Calls("sbatch"))
	code, _, stderr := s.profllm(submit...)
	require.Equal(t, 4, code)
	require.Contains(t, stderr, "read-only file system\n\thint: this user has no permission")
	code, _, stderr = s.profllm("slurm", "resume", "--failed", s.root())
	require.Equal(t, 0, code, "nothing is missing")
	require.NotContains(t, stderr, "error")
	code, stdout, stderr := s.profllm("slurm", "status", s.root())
	require.Zero(t, code)
	require.Contains(t, stdout, "succeeded")
	require.Contains(t, stderr, "read-only file system")
	code, stdout, stderr = s.profllm("collect", s.root())
	require.NotZero(t, code)
	require.Contains(t, stdout, "result-missing")
	require.Contains(t, stderr, "result.json: read-only file system")
	require.Len(t, s.Calls("sbatch"), calls)
}

// The same for a user to whom the folder belongs not.
func TestNoPermission(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can act as another user")
	}
	s := newSession(t, slurmtest.Knobs{})
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "kill.toml"), []byte(oneRun), 0o644))
	s.finished("--time", thatTime)
	for _, dir := range []string{filepath.Dir(binary), filepath.Dir(s.dir), s.dir} {
		require.NoError(t, os.Chmod(dir, 0o755))
	}
	nobody := func(args ...string) (int, string) {
		cmd := s.command(args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		cmd.Env = append(cmd.Env, "HOME=/", "TMPDIR=/tmp")
		out, _ := cmd.CombinedOutput()
		return cmd.ProcessState.ExitCode(), string(out)
	}
	code, out := nobody(submit...)
	require.Equal(t, 4, code, out)
	require.Contains(t, out, "permission denied\n\thint: this user has no permission")
	unreadable := filepath.Join(s.dir, "unreadable.toml")
	require.NoError(t, os.WriteFile(unreadable, []byte(oneRun), 0o600))
	for verb, want := range map[string]int{"verify": 3, "why": 2, "report": 2} {
		code, out = nobody(verb, unreadable)
		require.Equal(t, want, code, out)
		require.Contains(t, out, "ask its owner for read permission (chmod)")
		require.NotContains(t, out, "--output-dir")
	}
	code, out = nobody("collect", "--offline", s.root())
	require.Equal(t, 5, code, out)
	require.Contains(t, out, "note: no record was written: "+s.root()+"/a/0 belongs to user 0, so it is only read")
	require.Contains(t, out, "result-missing", "it is shown all the same")
}

// strace returns a command under strace, which makes some of its system calls fail.
func (s *session) strace(options []string, args ...string) *exec.Cmd {
	s.t.Helper()
	path, err := exec.LookPath("strace")
	if err != nil {
		s.t.Skip("no strace")
	}
	if out, err := exec.Command(path, "-f", "true").CombinedOutput(); err != nil {
		s.t.Skipf("strace may not trace here: %v %s", err, out)
	}
	cmd := exec.Command(path, append(append([]string{"-f", "-b", "execve", "-o", os.DevNull}, options...),
		append([]string{binary}, args...)...)...)
	cmd.Dir, cmd.Env = s.dir, s.Env(os.Environ())
	return cmd
}

// No lock and no hard link is needed, nor that a folder can be synchronised.
//
// covers: PL-D22
func TestPoorFileSystems(t *testing.T) {
	root := "results/kill_2026-01-01_00-00-00"
	for name, options := range map[string][]string{
		"no hard links":       {"-e", "inject=linkat:error=EPERM"},
		"no such call":        {"-e", "inject=linkat:error=ENOSYS"},
		"no locks":            {"-e", "inject=flock:error=ENOLCK"},
		"no sync of a folder": {"-e", "inject=fsync:error=EINVAL", "-P", "results", "-P", root, "-P", root + "/a/0", "-P", root + "/b/0", "-P", root + "/c/0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSession(t, slurmtest.Knobs{})
			codes := make([]string, 3)
			var wg sync.WaitGroup
			for i := range codes {
				cmd := s.strace(options, append(submit[:len(submit):len(submit)], "--time", thatTime)...)
				wg.Go(func() {
					out, _ := cmd.CombinedOutput()
					codes[i] = fmt.Sprintf("%d %s", cmd.ProcessState.ExitCode(), out)
				})
			}
			wg.Wait()
			require.Contains(t, strings.Join(codes, "\n"), "submitted job 60", codes)
			s.requireOneJobEach()
			s.requireTidy()

			cmd := s.strace(options, "nightly", "kill.toml", "--simulate", "--system", "local.toml")
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
			require.Contains(t, string(out), "is queued, Priority; nothing was submitted")
		})
	}
}

// A file that went away under its reader, as over NFS, is opened again.
func TestStale(t *testing.T) {
	s := newSession(t, slurmtest.Knobs{})
	submitted(s)
	file := filepath.Join(s.root(), "a/0", run.SubmitFile)
	cmd := s.strace([]string{"-P", file, "-e", "inject=read:error=ESTALE:when=1"}, "slurm", "status", s.root())
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.NotContains(t, string(out), "note:")
	require.Contains(t, string(out), "60")
}

// An unreadable file is never treated as absent: it does not show that there is no
// intent, no record, or no job that began.
func TestUnreadableIsNotAbsent(t *testing.T) {
	for _, name := range []string{run.IntentFile, run.SubmitFile, run.ClaimFile, run.ScenarioFile} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSession(t, slurmtest.Knobs{})
			submitted(s)
			dir := filepath.Join(s.root(), "a/0")
			s.began(dir, "60")
			file := filepath.Join(dir, name)
			switch name {
			case run.ClaimFile: // the last that knows the job
				require.NoError(t, os.Remove(filepath.Join(dir, run.SubmitFile)))
				j := s.Jobs()[0]
				j.Name, j.Queue, j.Acct = "forgotten", "", ""
				s.Put(j)
			case run.ScenarioFile:
				require.NoError(t, os.Remove(filepath.Join(dir, run.SubmitFile)))
				file = filepath.Join(s.root(), name)
			}
			cmd := s.strace([]string{"-P", file, "-e", "inject=read:error=EIO"}, submit...)
			if name != run.ScenarioFile { // else the scenario is whole, and this a new one
				cmd = s.strace([]string{"-P", file, "-e", "inject=read:error=EIO"}, "slurm", "resume", "--settle",
					"10ms", s.root())
			}
			out, _ := cmd.CombinedOutput()
			require.Len(t, s.Calls("sbatch"), 3, string(out))
			if name != run.SubmitFile && name != run.IntentFile {
				require.Equal(t, 4, cmd.ProcessState.ExitCode(), string(out))
				require.Contains(t, string(out), "input/output error")
			}
			require.FileExists(t, filepath.Join(dir, run.ClaimFile), "it stays where it is")
			if name != run.ScenarioFile {
				require.FileExists(t, file)
			}
		})
	}
}

// Whichever call fails, and however: the command says so, nothing half is left, and
// the next one goes on.
func TestCallsFail(t *testing.T) {
	for _, fault := range []string{"fsync:error=EDQUOT", "fsync:error=EIO", "renameat:error=EIO", "linkat:error=EDQUOT",
		"mkdirat:error=EDQUOT"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			failed := 0
			for when := 1; when < 16; when += 1 + when/3 {
				s := newSession(t, slurmtest.Knobs{})
				cmd := s.strace([]string{"-e", fmt.Sprintf("inject=%s:when=%d+", fault, when)}, submit...)
				out, _ := cmd.CombinedOutput()
				if cmd.ProcessState.ExitCode() == 0 {
					continue
				}
				failed++
				require.Equal(t, 4, cmd.ProcessState.ExitCode(), string(out))
				require.Contains(t, string(out), "\thint: ")
				s.requireWhole()
				code, _, _ := s.profllm(submit...)
				require.Zero(t, code)
				s.requireOneJobEach()
				s.requireTidy()
			}
			require.True(t, failed > 0 || strings.HasPrefix(fault, "linkat"), "a link has a way around it")
		})
	}
}

// A job whose record is there, while its folder cannot be synchronised, is submitted:
// the same command once more would make a second scenario of it.
func TestRecordWhoseNameMayBeLost(t *testing.T) {
	s := newSession(t, slurmtest.Knobs{})
	submitted(s)
	dir := filepath.Join(s.root(), "c/0")
	require.NoError(t, os.Remove(filepath.Join(dir, run.SubmitFile)))
	cmd := s.strace([]string{"-P", dir, "-e", "inject=fsync:error=EIO"}, "slurm", "resume", "--settle", "10ms",
		s.root())
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	s.requireOneJobEach()
	s.requireTidy()
}

// Where /proc hides the processes of others, one that submits counts as alive.
func TestHiddenProcesses(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can act as another user")
	}
	s := newSession(t, slurmtest.Knobs{})
	const hide = `mount -t proc -o hidepid=2 proc /proc && exec setpriv --reuid=65534 --regid=65534 --clear-groups "$0" "$@"`
	hidden := func(args ...string) *exec.Cmd {
		cmd := exec.Command("unshare", append([]string{"--mount", "sh", "-c", hide}, args...)...)
		cmd.Dir, cmd.Env = s.dir, append(os.Environ(), "PATH=/usr/bin:/bin", "HOME=/")
		return cmd
	}
	if out, err := hidden("test", "!", "-e", fmt.Sprintf("/proc/%d", os.Getpid())).CombinedOutput(); err != nil {
		t.Skipf("processes cannot be hidden here: %v %s", err, out)
	}
	submitted(s)
	dir := filepath.Join(s.root(), "a/0")
	require.NoError(t, os.Remove(filepath.Join(dir, run.SubmitFile)))
	pid := os.Getpid()
	require.NoError(t, run.WriteJSON(filepath.Join(dir, run.IntentFile),
		run.Intent{Host: host(t), PID: pid, ProcessStart: process.Start(pid), Time: time.Now()}))
	for _, path := range []string{filepath.Dir(binary), filepath.Dir(s.dir), s.dir} {
		require.NoError(t, os.Chmod(path, 0o755))
	}
	cmd := hidden(binary, "slurm", "resume", "--settle", "10ms", s.root())
	out, _ := cmd.CombinedOutput()
	require.Equal(t, 4, cmd.ProcessState.ExitCode(), string(out))
	require.Contains(t, string(out), fmt.Sprintf("another command (process %d on", pid))
}
