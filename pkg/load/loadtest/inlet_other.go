//go:build !linux

package loadtest

import (
	"net"
	"time"
)

// An inlet reads a connection. It takes bytes to arrive when they are read.
type inlet struct {
	net.Conn
	arrived, read time.Time
}

func newInlet(c net.Conn) (*inlet, error) { return &inlet{Conn: c}, nil }

// Read implements [io.Reader].
func (i *inlet) Read(p []byte) (n int, err error) {
	n, err = i.Conn.Read(p)
	i.read = time.Now()
	i.arrived = i.read
	return n, err
}
