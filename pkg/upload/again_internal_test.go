package upload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/records"
)

// clocked is a spool with a clock that stands still, and a store that answers with an error unless it is nil.
type clocked struct {
	*Spool
	now  time.Time
	fail error
	puts int
	said []string
}

func newClocked(t *testing.T, dir string) *clocked { return newClockedIn(t, dir, 0) }

// newClockedIn is a clocked spool with so much room.
func newClockedIn(t *testing.T, dir string, room int64) *clocked {
	t.Helper()
	c := &clocked{now: time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)}
	var err error
	c.Spool, err = Open(dir, Options{
		Room:   room,
		Now:    func() time.Time { return c.now },
		Reason: func(err error) string { return "in words: " + err.Error() },
		Put: func(_ context.Context, runs []records.Run) ([]Outcome, error) {
			c.puts++
			return make([]Outcome, len(runs)), c.fail
		},
		Log: func(format string, args ...any) { c.said = append(c.said, fmt.Sprintf(format, args...)) },
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	c.tried = map[string]*attempt{} // as Work begins
	return c
}

// record is what an upload of one record sends.
func record(t *testing.T) iter.Seq2[Sent, error] {
	t.Helper()
	data, err := os.ReadFile("../result/testdata/releases/2026-11-22/release/aggregated/0/result.json")
	require.NoError(t, err)
	return func(yield func(Sent, error) bool) {
		yield(Sent{Name: "a.json", Reader: strings.NewReader(string(data))}, nil)
	}
}

func (c *clocked) status(t *testing.T, job string) *Status {
	t.Helper()
	st, err := c.Status(job)
	require.NoError(t, err)
	return st
}

// An upload that meets an error of this machine is tried again after pauses that grow, and is given up after a week;
// its status says so, and another program tries at once.
//
// covers: API-4, SM-4
func TestPauses(t *testing.T) {
	dir := t.TempDir()
	c := newClocked(t, dir)
	st, err := c.Accept(record(t))
	require.NoError(t, err)
	c.fail = syscall.ENOSPC
	began := c.now
	for range 100 {
		require.NotErrorIs(t, c.workOff(t.Context()), context.Canceled)
		c.now = c.now.Add(time.Minute)
	}
	require.Equal(t, 100, c.puts, "a store that does not answer is asked each minute")
	now := c.status(t, st.Job)
	require.Equal(t, Waiting, now.State)
	require.Equal(t, "in words: "+syscall.ENOSPC.Error(), now.Trouble)
	require.Equal(t, 100, now.Tries)
	c.now = began.Add(2 * giveUp)
	require.Error(t, c.workOff(t.Context()))
	require.Equal(t, Waiting, c.status(t, st.Job).State, "a store may be away for long")

	c.fail = nil
	require.NoError(t, c.Spool.workOff(t.Context()), "it is not due yet")
	c.now = c.now.Add(time.Minute)
	require.NoError(t, c.workOff(t.Context()))
	now = c.status(t, st.Job)
	require.Equal(t, Done, now.State)
	require.Empty(t, now.Trouble)

	broken, err := c.Accept(record(t)) // cannot be read, by this machine's fault
	require.NoError(t, err)
	file := filepath.Join(dir, jobHead+broken.Job, filesDir)
	require.NoError(t, os.Rename(file, file+".away"))
	tries := []time.Duration{}
	for began := c.now; c.status(t, broken.Job).State != Failed; {
		if next := c.status(t, broken.Job).NextTry; next != nil {
			c.now = *next
		}
		tries = append(tries, c.now.Sub(began))
		require.ErrorIs(t, c.workOff(t.Context()), fs.ErrNotExist)
	}
	require.Equal(t, []time.Duration{0, time.Minute, 3 * time.Minute, 7 * time.Minute}, tries[:4])
	require.Greater(t, tries[len(tries)-1], giveUp)
	require.Less(t, len(tries), 200)
	require.Contains(t, strings.Join(c.said, "\n"), "given up until the next start")
	require.NoError(t, c.workOff(t.Context()), "it is not tried any more")

	require.NoError(t, os.Rename(file+".away", file))
	require.NoError(t, c.Close())
	c = newClocked(t, dir)
	require.NoError(t, c.workOff(t.Context()))
	require.Equal(t, Done, c.status(t, broken.Job).State)
}

// An upload that ends the program is read after all others, and after some times no more.
func TestUploadsThatKill(t *testing.T) {
	dir := t.TempDir()
	c := newClocked(t, dir)
	bad, err := c.Accept(record(t))
	require.NoError(t, err)
	for n := range mostStarts {
		c.opts.Put = func(context.Context, []records.Run) ([]Outcome, error) {
			data, err := os.ReadFile(filepath.Join(dir, jobHead+bad.Job, statusFile)) // as a killed program leaves it
			require.NoError(t, err)
			var st Status
			require.NoError(t, json.Unmarshal(data, &st))
			require.Equal(t, n+1, st.Starts)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "left.json"), data, 0o600))
			return nil, errors.New("killed")
		}
		require.Error(t, c.workOff(t.Context()))
		require.NoError(t, os.Rename(filepath.Join(dir, "left.json"), filepath.Join(dir, jobHead+bad.Job, statusFile)))
		require.NoError(t, c.Close())
		c = newClocked(t, dir)
	}
	good, err := c.Accept(record(t))
	require.NoError(t, err)
	require.ErrorIs(t, c.workOff(t.Context()), errKills)
	require.Equal(t, Done, c.status(t, good.Job).State)
	now := c.status(t, bad.Job)
	require.Equal(t, Failed, now.State)
	require.Contains(t, now.Trouble, "killed 5 times")
	require.DirExists(t, filepath.Join(dir, jobHead+bad.Job, filesDir))
}

// An upload that an ending program left is not one that killed it.
func TestEndingIsNoKill(t *testing.T) {
	dir := t.TempDir()
	c := newClocked(t, dir)
	st, err := c.Accept(record(t))
	require.NoError(t, err)
	for range 2 * mostStarts {
		ctx, cancel := context.WithCancel(t.Context())
		c.opts.Put = func(context.Context, []records.Run) ([]Outcome, error) {
			cancel()
			return nil, ctx.Err()
		}
		require.ErrorIs(t, c.workOff(ctx), context.Canceled)
		require.NoError(t, c.Close())
		c = newClocked(t, dir)
	}
	require.NoError(t, c.workOff(t.Context()))
	require.Equal(t, Done, c.status(t, st.Job).State)
}

// A part that brings about a fault of the program is refused, and the program goes on.
func TestFaultOfTheProgram(t *testing.T) {
	c := newClocked(t, t.TempDir())
	var nobody context.Context // what reads an archive asks it
	path := filepath.Join(t.TempDir(), "evil.tar.xz")
	require.NoError(t, os.WriteFile(path, []byte("evil"), 0o600))
	runs, err := c.runs(nobody, &reader{work: t.TempDir(), name: "evil", from: path})
	require.Empty(t, runs)
	require.ErrorContains(t, err, "fault of the program")
	require.Contains(t, strings.Join(c.said, ""), `fault while reading "evil"`)
}

// The texts of a status are bounded, and a terminal obeys none of them.
func TestTextsOfAStatus(t *testing.T) {
	b := budget(mostTexts)
	require.Equal(t, `\u001b[2J`, b.text("\x1b[2J"))
	require.LessOrEqual(t, len(b.text(strings.Repeat("é", 5000))), 1003)
	n := 0
	for range 20_000 {
		n += len(b.text(strings.Repeat("x", 5000)))
	}
	require.Less(t, n, 4<<20)
}
