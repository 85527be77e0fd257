package loadtest

import (
	"os"
	"syscall"
	"time"
	"unsafe"
)

// A clock ticks. The Go runtime's own timers are late by up to a millisecond, as its poller
// counts in those; a timer descriptor is not.
type clock struct {
	file   *os.File
	ticker *time.Ticker // if there is no descriptor
}

func newClock(every time.Duration) clock {
	const clockMonotonic = 1
	fd, _, errno := syscall.Syscall(syscall.SYS_TIMERFD_CREATE, clockMonotonic, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if errno != 0 {
		return clock{ticker: time.NewTicker(every)}
	}
	period := syscall.NsecToTimespec(every.Nanoseconds())
	spec := [2]syscall.Timespec{period, period}
	syscall.Syscall6(syscall.SYS_TIMERFD_SETTIME, fd, 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
	return clock{file: os.NewFile(fd, "timer")}
}

// wait returns at the next tick, and false when the clock is broken.
func (c clock) wait() bool {
	if c.file == nil {
		<-c.ticker.C
		return true
	}
	var count [8]byte
	_, err := c.file.Read(count[:])
	return err == nil
}

func (c clock) close() {
	if c.file == nil {
		c.ticker.Stop()
		return
	}
	c.file.Close()
}
