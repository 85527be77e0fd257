package proxy

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// readable reports whether there are bytes to read on a socket, or its end. It is
// asked before every request, so it does without what syscall.Recvfrom does for
// the sender's address, and without telling the scheduler of a call that never
// waits (recv(2), MSG_DONTWAIT).
func readable(fd uintptr) bool {
	var one [1]byte
	_, _, err := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&one[0])), 1,
		syscall.MSG_PEEK|syscall.MSG_DONTWAIT, 0, 0)
	return err != syscall.EAGAIN
}

// bytesAcked is how many bytes the peer's kernel has acknowledged, the opening of
// the connection included (tcp(7), TCP_INFO). ok is false if that is not known.
func bytesAcked(raw syscall.RawConn) (n uint64, ok bool) {
	if raw == nil {
		return 0, false
	}
	var info *unix.TCPInfo
	var err error
	if raw.Control(func(fd uintptr) {
		info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	}) != nil || err != nil {
		return 0, false
	}
	return info.Bytes_acked, true
}
