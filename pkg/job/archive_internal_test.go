package job

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
)

// loader is a step that loads an archive, and the file of its lock.
func loader(t *testing.T) (b *box, file string) {
	dir := t.TempDir()
	env := map[string]string{"TMPDIR": dir, "SLURM_JOB_ID": "4711"}
	b = &box{Job: &Job{Env: func(name string) string { return env[name] }, Stdout: t.Output(), Now: time.Now}}
	b.alone(t.Context())()
	release := b.alone(t.Context())
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.Len(t, names, 1)
	release()
	require.NoFileExists(t, names[0])
	return b, names[0]
}

// held reports whether the file has a lock that another opening of it cannot get.
func held(t *testing.T, file string) bool {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == syscall.EWOULDBLOCK
}

// Whoever stops waiting leaves the lock to the step that loads.
func TestAloneLeavesTheLockOfAnother(t *testing.T) {
	b, file := loader(t)
	release := b.alone(t.Context())
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	b.alone(ended)()
	require.FileExists(t, file)
	require.True(t, held(t, file))
	release()
}

// A waiter whose file has lost its name waits for the file that has it: the next step waits there.
func TestAloneLocksTheFileOfTheName(t *testing.T) {
	b, file := loader(t)
	release := b.alone(t.Context())
	next := make(chan func(), 1)
	go func() { next <- b.alone(t.Context()) }()
	await.True(t, func() bool {
		open := 0
		fds, _ := filepath.Glob("/proc/self/fd/*")
		for _, fd := range fds {
			if name, _ := os.Readlink(fd); name == file {
				open++
			}
		}
		return open == 2
	}, "the other step waits")
	release()
	release = <-next
	require.FileExists(t, file)
	require.True(t, held(t, file))
	release()
	require.NoFileExists(t, file)
}

// What others put in the lock's place holds nobody up, and stays.
func TestAloneRefusesForeignFiles(t *testing.T) {
	b, file := loader(t)
	require.NoError(t, syscall.Mkfifo(file, 0o600))
	var done atomic.Bool
	go func() {
		b.alone(t.Context())()
		done.Store(true)
	}()
	await.True(t, done.Load, "the pipe is left alone")
	st, err := os.Lstat(file)
	require.NoError(t, err)
	require.NotZero(t, st.Mode()&os.ModeNamedPipe)
}
