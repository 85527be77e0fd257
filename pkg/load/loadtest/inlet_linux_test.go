package loadtest

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Bytes that lie unread arrived before they were read.
func TestInletKnowsArrival(t *testing.T) {
	const wait = 5 * time.Millisecond
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	far, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer far.Close()
	near, err := l.Accept()
	require.NoError(t, err)
	defer near.Close()
	in, err := newInlet(near)
	require.NoError(t, err)
	for tries := 0; in.read.Sub(in.arrived) < wait; tries++ { // the kernel takes a moment to begin with stamps
		if tries == 1000 {
			t.Skip("this kernel does not say when bytes arrived")
		}
		before := time.Now()
		_, err := far.Write([]byte("x"))
		require.NoError(t, err)
		time.Sleep(wait)
		n, err := in.Read(make([]byte, 2))
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.False(t, in.arrived.Before(before.Add(-time.Millisecond)), "the clocks may be read apart")
	}
	far.Close()
	_, err = in.Read(make([]byte, 1))
	require.Error(t, err)
}

// What is no stamp, or one of another time, says nothing.
func TestAgeBeyondBelief(t *testing.T) {
	now := time.Now()
	require.Zero(t, age(nil, now))
	require.Zero(t, age([]byte("no control message"), now))
	require.Zero(t, age(make([]byte, unix.CmsgSpace(16)), now))
}
