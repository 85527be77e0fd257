package sender

import "syscall"

// silent reports whether nothing has arrived on a connection that is to carry a request:
// neither bytes nor its end.
func silent(fd int) bool {
	var b [1]byte
	for {
		_, _, err := syscall.Recvfrom(fd, b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		if err != syscall.EINTR {
			return err == syscall.EAGAIN
		}
	}
}
