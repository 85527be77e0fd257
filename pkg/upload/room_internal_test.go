package upload

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// zeros is an upload of one file of so many bytes, whose reader calls midway in its middle.
func zeros(n int, midway func()) iter.Seq2[Sent, error] {
	return func(yield func(Sent, error) bool) {
		if !yield(Sent{Name: "a", Reader: strings.NewReader(strings.Repeat("0", n/2))}, nil) {
			return
		}
		if midway != nil {
			midway()
		}
		yield(Sent{Name: "b", Reader: strings.NewReader(strings.Repeat("0", n/2))}, nil)
	}
}

// received are the uploads that a folder has, whole or in part.
func received(t *testing.T, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "*-*"))
	require.NoError(t, err)
	return list
}

// All uploads together have a bound: what is received counts, what waits, also for the next program, and the room of
// what was refused or is done is free again.
//
// covers: API-4, SM-4
func TestRoom(t *testing.T) {
	dir := t.TempDir()
	open := func() *clocked { return newClockedIn(t, dir, 1<<20) }
	c := open()
	_, err := c.Accept(zeros(2<<20, nil))
	require.ErrorIs(t, err, ErrFull)
	require.ErrorContains(t, err, "1048576 bytes")
	_, err = c.Accept(zeros(900<<10, func() {
		_, err := c.Accept(zeros(800<<10, nil))
		require.ErrorIs(t, err, ErrFull, "what is being received counts")
	}))
	require.NoError(t, err)
	_, err = c.Accept(zeros(200<<10, nil))
	require.ErrorIs(t, err, ErrFull)
	require.Len(t, received(t, dir), 1, "what was refused leaves nothing")
	require.NoError(t, c.Close())

	c = open()
	_, err = c.Accept(zeros(200<<10, nil))
	require.ErrorIs(t, err, ErrFull, "what another program accepted counts")
	require.NoError(t, c.workOff(t.Context()))
	_, err = c.Accept(zeros(900<<10, nil))
	require.NoError(t, err, "what is done has no files")
	_, err = c.Accept(func(yield func(Sent, error) bool) { yield(Sent{}, errors.New("cut")) })
	require.Error(t, err)
	for i := range 300 {
		_, err = c.Accept(zeros(2, nil))
		if err != nil {
			require.Less(t, i, 20, "an empty file takes room, too")
			return
		}
	}
	t.Fatal("small files take no room")
}

// Statuses of uploads that are done have a share of the room: the oldest are forgotten first.
//
// covers: API-4
func TestStatusesHaveABound(t *testing.T) {
	c := newClockedIn(t, t.TempDir(), keptShare*3*perFile)
	var jobs []string
	for range 6 {
		st, err := c.Accept(record(t))
		require.NoError(t, err)
		jobs = append(jobs, st.Job)
		require.NoError(t, c.workOff(t.Context()))
		c.now = c.now.Add(time.Second)
	}
	require.NoError(t, c.workOff(t.Context()))
	for _, job := range jobs[:4] {
		_, err := c.Status(job)
		require.ErrorIs(t, err, ErrNoJob)
	}
	for _, job := range jobs[4:] {
		require.Equal(t, Done, c.status(t, job).State)
	}
	require.Equal(t, c.room.kept(), c.room.used)
}

// The status of an upload is kept for a week after its end, also if it waited for longer than that, and for no longer.
//
// covers: API-4
func TestStatusIsKept(t *testing.T) {
	dir := t.TempDir()
	c := newClockedIn(t, dir, 0)
	st, err := c.Accept(record(t))
	require.NoError(t, err)
	c.fail = errors.New("the store is away")
	require.Error(t, c.workOff(t.Context()))
	c.now, c.fail = c.now.Add(2*keptFor), nil
	require.NoError(t, c.workOff(t.Context()))
	require.Equal(t, c.now, *c.status(t, st.Job).Ended)
	c.now = c.now.Add(keptFor)
	require.NoError(t, c.workOff(t.Context()))
	require.Equal(t, Done, c.status(t, st.Job).State)
	c.now = c.now.Add(time.Second)
	require.NoError(t, c.workOff(t.Context()))
	require.Empty(t, received(t, dir))
	require.Zero(t, c.room.used)
}

// A program that was killed after it had stored an upload, and before it had removed its files, leaves nothing.
//
// covers: SM-4
func TestFilesOfWhatIsDone(t *testing.T) {
	dir := t.TempDir()
	c := newClockedIn(t, dir, 0)
	st, err := c.Accept(record(t))
	require.NoError(t, err)
	require.NoError(t, c.workOff(t.Context()))
	require.NoError(t, c.Close())
	for _, below := range []string{filesDir, workDir} {
		file := filepath.Join(dir, jobHead+st.Job, below, "x")
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, make([]byte, 1<<20), 0o600))
	}
	c = newClockedIn(t, dir, 0)
	require.Equal(t, Done, c.status(t, st.Job).State)
	for _, below := range []string{filesDir, workDir} {
		require.NoDirExists(t, filepath.Join(dir, jobHead+st.Job, below), fmt.Sprint(below))
	}
	require.Less(t, c.room.used, int64(1<<20))
}
