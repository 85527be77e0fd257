package sender

import (
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// A loop that always finds something, on one processor and after a sleep that let the runtime's monitor
// sleep too, does not keep a goroutine from what has arrived for it.
func TestBusyLoopLeavesTheRuntimeRunning(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	p, err := newPoller()
	require.NoError(t, err)
	defer p.close()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	to := w.Fd()
	var told atomic.Bool
	go func() {
		r.Read(make([]byte, 1))
		told.Store(true)
	}()
	p.arm(int64(200*time.Millisecond), 0)
	p.wait(true) // the other goroutine begins to read, and nothing runs
	require.Positive(t, p.got)

	// The timer has gone off and is not quieted, so that every look finds it. No call here is one that
	// the runtime knows of.
	_, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, to, uintptr(unsafe.Pointer(&[1]byte{})), 1)
	require.Zero(t, errno)
	for begun := time.Now(); !told.Load() && time.Since(begun) < 20*time.Second; {
		p.wait(true)
	}
	require.True(t, told.Load())
}
