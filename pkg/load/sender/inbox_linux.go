package sender

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An inbox receives bytes, and when the kernel did. The thread keeps its processor meanwhile: a
// socket that does not block costs less than the scheduler's care for one that might.
type inbox struct {
	buf     []byte
	piece   unix.Iovec
	head    unix.Msghdr
	control [8]uint64 // aligned as the control messages in it
}

func newInbox() *inbox {
	b := &inbox{buf: make([]byte, 64<<10)}
	b.piece.Base = &b.buf[0]
	b.piece.SetLen(len(b.buf))
	b.head.Iov = &b.piece
	b.head.SetIovlen(1)
	return b
}

// stamped asks the kernel to note when the bytes of a connection arrive. One that cannot do so
// returns no times.
func stamped(fd int) { syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) }

// receive returns what has arrived on fd, until the next call, and when the last of it did, in
// ns of Unix time; 0 is unknown.
func (b *inbox) receive(fd int) (p []byte, unixNano int64, err error) {
	b.head.Control = (*byte)(unsafe.Pointer(&b.control))
	b.head.SetControllen(int(unsafe.Sizeof(b.control)))
	n, _, errno := syscall.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&b.head)),
		unix.MSG_DONTWAIT)
	if errno != 0 {
		return nil, 0, errno
	}
	received(fd)
	return b.buf[:n], b.stamp(), nil
}

// A stampMessage is the control message of SO_TIMESTAMPNS.
type stampMessage struct {
	head unix.Cmsghdr
	at   unix.Timespec
}

func (b *inbox) stamp() int64 {
	m := (*stampMessage)(unsafe.Pointer(&b.control))
	if uintptr(b.head.Controllen) < unsafe.Sizeof(*m) || m.head.Level != unix.SOL_SOCKET ||
		m.head.Type != unix.SCM_TIMESTAMPNS {
		return 0
	}
	return m.at.Nano()
}
