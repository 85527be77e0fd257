package lease

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A command that was asleep between its look and its file makes a number that has
// been used and removed. It must see that, and leave the holder alone.
func TestTakeOfANumberLongGone(t *testing.T) {
	dir := t.TempDir()
	o := Options{Now: time.Now}
	for range 3 {
		l, err := Acquire(dir, o)
		require.NoError(t, err)
		require.NoError(t, l.Release())
	}
	holder, err := Acquire(dir, o)
	require.NoError(t, err)
	_, err = take(dir, 1, "host", o)
	var held *HeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, os.Getpid(), held.Owner.PID)
	require.NoFileExists(t, filepath.Join(dir, "lease-1.json"))
	require.NoError(t, holder.Renew())
}
