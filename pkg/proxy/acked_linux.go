package proxy

import (
	"syscall"

	"golang.org/x/sys/unix"
)

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
