package loadtest

import (
	"io"
	"net"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An inlet reads a connection. It knows when the kernel received the last of the bytes that were
// read, and when they were read.
type inlet struct {
	conn    syscall.RawConn
	control [8]uint64 // aligned as the control messages in it

	arrived, read time.Time
}

func newInlet(c net.Conn) (*inlet, error) {
	raw, err := c.(*net.TCPConn).SyscallConn() // the network is tcp
	if err != nil {
		return nil, err
	}
	err = raw.Control(func(fd uintptr) { // without stamps, bytes arrive when they are read
		unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	})
	return &inlet{conn: raw}, err
}

// Read implements [io.Reader].
func (i *inlet) Read(p []byte) (n int, err error) {
	control := unsafe.Slice((*byte)(unsafe.Pointer(&i.control)), unsafe.Sizeof(i.control))
	used := 0
	gone := i.conn.Read(func(fd uintptr) bool {
		for {
			if n, used, _, _, err = unix.Recvmsg(int(fd), p, control, 0); err != unix.EINTR {
				return err != unix.EAGAIN
			}
		}
	})
	switch {
	case gone != nil:
		return 0, gone
	case err != nil:
		return 0, err
	case n == 0 && len(p) > 0:
		return 0, io.EOF
	}
	i.read = time.Now()
	i.arrived = i.read.Add(-age(control[:used], i.read))
	return n, nil
}

// longestAge bounds how long bytes wait to be read: beyond it, the system's clock was set.
const longestAge = time.Minute

// age returns how long before now the kernel received bytes, by the control messages that came
// with them; 0 is unknown.
func age(control []byte, now time.Time) time.Duration {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return 0
	}
	for _, m := range messages {
		if m.Header.Level != unix.SOL_SOCKET || m.Header.Type != unix.SCM_TIMESTAMPNS ||
			len(m.Data) < int(unsafe.Sizeof(unix.Timespec{})) {
			continue
		}
		at := (*unix.Timespec)(unsafe.Pointer(&m.Data[0]))
		if waited := time.Duration(now.UnixNano() - at.Nano()); waited > 0 && waited < longestAge {
			return waited
		}
	}
	return 0
}
