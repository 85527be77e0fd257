package process

import (
	"time"

	"golang.org/x/sys/unix"
)

// Ends waits until one of these processes has ended, at most so long. It looks at each by a file
// descriptor (pidfd_open(2)), so that the end is seen at once; a kernel without these waits the whole
// time.
func Ends(limit time.Duration, pids ...int) {
	var fds []unix.PollFd
	defer func() {
		for _, fd := range fds {
			unix.Close(int(fd.Fd))
		}
	}()
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if err == unix.ESRCH {
			return
		}
		if err == nil {
			fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
		}
	}
	for until := time.Now().Add(limit); ; {
		left := time.Until(until)
		if left <= 0 {
			return
		}
		if len(fds) == 0 {
			time.Sleep(left)
			return
		}
		_, err := unix.Poll(fds, int((left+time.Millisecond-1)/time.Millisecond))
		if err != unix.EINTR {
			return
		}
	}
}
