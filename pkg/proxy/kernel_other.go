//go:build !linux

package proxy

import "syscall"

// readable reports whether there are bytes to read on a socket, or its end.
func readable(fd uintptr) bool {
	var one [1]byte
	_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK)
	return err != syscall.EAGAIN && err != syscall.EWOULDBLOCK
}

// bytesAcked is not known here. A request is sent again only if this machine's
// kernel took no byte of it.
func bytesAcked(syscall.RawConn) (n uint64, ok bool) { return 0, false }
