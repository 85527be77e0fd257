package render_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
)

// A script that gets TERM several times at once writes its run's end all the same: Slurm
// signals it and what it runs in, which passes the signal on.
//
// covers: PL-D10, PL-S12
func TestSeveralSignalsAtOnce(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	const waits = "while [ -e job.sh ] && [ ! -e finished ]; do sleep 0.02; done\n" // the test may be over sooner
	programs := map[string]string{
		"srun":    "#!/bin/sh\n" + waits,
		"profllm": "#!/bin/sh\ncase \"$1 $2\" in\n'job env') touch up; " + waits + ";;\n'job finish') touch finished ;;\nesac\n",
	}
	for name, text := range programs {
		require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755))
	}
	// Without the guard of finish few scripts end without their sentinel, so there are many.
	for i := range 60 {
		dir := t.TempDir()
		p := sample()
		p.Dir, p.Binary, p.Loads[0].Dir = dir, filepath.Join(bin, "profllm"), dir
		script := filepath.Join(dir, "job.sh")
		require.NoError(t, os.WriteFile(script, []byte(rendered(t, p)), 0o755))
		cmd := exec.Command("bash", script)
		cmd.Dir = dir
		require.NoError(t, cmd.Start())
		await.True(t, func() bool { _, err := os.Stat(filepath.Join(dir, "up")); return err == nil },
			"the script waits for its nodes")
		for k := range 4 {
			_ = cmd.Process.Signal(syscall.SIGTERM) // it may be over
			time.Sleep(time.Duration(i*k) * 5 * time.Microsecond)
		}
		_ = cmd.Wait()
		require.FileExists(t, filepath.Join(dir, "finished"), "script %d", i)
	}
}

// Slurm ends the steps of a job before its script, which may have seen one fail by then. A script
// that gets TERM before its steps are stopped was told to end; one that gets none failed by itself.
//
// covers: PL-D10, CD-22
func TestToldToEndAfterAStepFailed(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	program := "#!/bin/sh\ncase \"$1 $2\" in\n'job env') exec 2>job.env; [ -e late ] ;;\n" +
		"'job stop') touch stopping; while [ -e job.sh ] && [ ! -e stopped ]; do sleep 0.02; done ;;\n" +
		"'job finish') echo \"$6\" >code ;;\nesac\n"
	require.NoError(t, os.WriteFile(filepath.Join(bin, "profllm"), []byte(program), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(bin, "srun"), []byte("#!/bin/sh\nexit 1\n"), 0o755))
	for _, c := range []struct {
		name       string
		late, told bool // it is the load that fails, after which nothing is left to do; TERM arrives
		code       string
	}{
		{"a node", false, false, "71"},
		{"a node, and TERM", false, true, "143"},
		{"the last load", true, false, "0"},
		{"the last load, and TERM", true, true, "143"},
	} {
		dir := t.TempDir()
		p := sample()
		p.Dir, p.Binary, p.Loads[0].Dir = dir, filepath.Join(bin, "profllm"), dir
		script := filepath.Join(dir, "job.sh")
		require.NoError(t, os.WriteFile(script, []byte(rendered(t, p)), 0o755))
		if c.late {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "late"), nil, 0o644))
		}
		cmd := exec.Command("bash", script)
		cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Setpgid: true}
		require.NoError(t, cmd.Start())
		await.True(t, func() bool { _, err := os.Stat(filepath.Join(dir, "stopping")); return err == nil },
			"the script stops its steps")
		if c.told { // Slurm signals the script and all that it runs
			require.NoError(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM))
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, "stopped"), nil, 0o644))
		_ = cmd.Wait()
		code, err := os.ReadFile(filepath.Join(dir, "code"))
		require.NoError(t, err)
		require.Equal(t, c.code+"\n", string(code), c.name)
	}
}
