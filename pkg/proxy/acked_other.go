//go:build !linux

package proxy

import "syscall"

// bytesAcked is not known here, so that nothing is sent again.
func bytesAcked(syscall.RawConn) (n uint64, ok bool) { return 0, false }
