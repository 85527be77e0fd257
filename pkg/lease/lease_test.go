package lease_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/lease"
	"github.com/profllm/profllm/pkg/process"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/run"
)

// actVar makes the test binary act as a command that takes the lease.
const actVar = "PROFLLM_LEASE_ACT"

func TestMain(m *testing.M) {
	if act := os.Getenv(actVar); act != "" {
		if err := actAs(act, os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// actAs is one command: "hold" takes the lease and stays; "once" waits for a
// line, takes it if it can and stays; "loop" takes and gives back many times and
// fails if it ever is not alone.
func actAs(act, dir string) error {
	in := bufio.NewScanner(os.Stdin)
	if act != "hold" {
		fmt.Println("ready")
		in.Scan()
	}
	rounds := 1
	if act == "loop" {
		rounds = 40
	}
	for range rounds {
		l, err := lease.Acquire(filepath.Join(dir, "lease"), lease.Options{Now: time.Now})
		var held *lease.HeldError
		switch {
		case errors.As(err, &held):
			if act == "once" {
				fmt.Println("held")
				return nil
			}
			continue
		case err != nil:
			return err
		case act != "loop":
			fmt.Println("taken")
			in.Scan()
			return nil // without Release, as a killed command
		}
		if err := alone(filepath.Join(dir, "alone")); err != nil {
			return err
		}
		fmt.Println("turn")
		if err := l.Release(); err != nil {
			return err
		}
	}
	return nil
}

// alone fails while another command is inside it.
func alone(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("not alone: %w", err)
	}
	return errors.Join(f.Sync(), f.Close(), os.Remove(path))
}

// actor is a command and its streams.
type actor struct {
	*exec.Cmd
	out *bufio.Scanner
	in  io.WriteCloser
}

func start(t *testing.T, act, dir string) *actor {
	t.Helper()
	cmd := exec.Command(os.Args[0], dir)
	cmd.Env = append(os.Environ(), actVar+"="+act)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return &actor{cmd, bufio.NewScanner(out), in}
}

func (p *actor) line() string {
	p.out.Scan()
	return p.out.Text()
}

func options() lease.Options { return lease.Options{Now: time.Now} }

func requireHeld(t *testing.T, err error) lease.Owner {
	t.Helper()
	var held *lease.HeldError
	require.ErrorAs(t, err, &held)
	return held.Owner
}

// put writes the n-th lease file as another command would have.
func put(t *testing.T, dir string, n int, o lease.Owner) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, run.WriteJSON(filepath.Join(dir, fmt.Sprintf("lease-%d.json", n)), o))
}

func hostname(t *testing.T) string {
	t.Helper()
	host, err := os.Hostname()
	require.NoError(t, err)
	return host
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestHeldUntilReleased(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	first, err := lease.Acquire(dir, options())
	require.NoError(t, err)
	_, err = lease.Acquire(dir, options())
	owner := requireHeld(t, err)
	require.Equal(t, os.Getpid(), owner.PID)
	require.Contains(t, err.Error(), "process "+strconv.Itoa(os.Getpid())+" on "+hostname(t))
	require.NoError(t, first.Renew())
	require.NoError(t, first.Release())
	second, err := lease.Acquire(dir, options())
	require.NoError(t, err)
	require.ErrorIs(t, first.Renew(), lease.ErrLost)
	require.NoError(t, first.Release(), "gives back only its own")
	_, err = lease.Acquire(dir, options())
	requireHeld(t, err)
	require.NoError(t, second.Release())
	require.Equal(t, []string{"lease-2.json"}, files(t, dir), "old numbers are removed")
}

func TestStale(t *testing.T) {
	now := time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC)
	own := hostname(t)
	self := process.Start(os.Getpid())
	for name, c := range map[string]struct {
		owner lease.Owner
		held  bool
	}{
		"process lives":             {lease.Owner{Host: own, PID: os.Getpid(), ProcessStart: self, Time: now.Add(-48 * time.Hour)}, true},
		"PID used again":            {lease.Owner{Host: own, PID: os.Getpid(), ProcessStart: "another boot/1", Time: now}, false},
		"no such process":           {lease.Owner{Host: own, PID: 1 << 30, ProcessStart: self, Time: now}, false},
		"no process start":          {lease.Owner{Host: own, PID: 1 << 30, Time: now}, false},
		"given back":                {lease.Owner{Host: own, PID: os.Getpid(), ProcessStart: self, Time: now, Released: true}, false},
		"another host, lately":      {lease.Owner{Host: own + "2", PID: 1, ProcessStart: "x", Time: now.Add(-59 * time.Minute)}, true},
		"another host, long ago":    {lease.Owner{Host: own + "2", PID: 1, ProcessStart: "x", Time: now.Add(-61 * time.Minute)}, false},
		"another host, clock ahead": {lease.Owner{Host: own + "2", PID: 1, ProcessStart: "x", Time: now.Add(5 * time.Minute)}, true},
		"another host, wrong clock": {lease.Owner{Host: own + "2", PID: 1, ProcessStart: "x", Time: now.AddDate(1, 0, 0)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, dir, 7, c.owner)
			l, err := lease.Acquire(dir, lease.Options{Now: func() time.Time { return now }})
			if c.held {
				requireHeld(t, err)
				require.Equal(t, []string{"lease-7.json"}, files(t, dir))
				return
			}
			require.NoError(t, err)
			require.Equal(t, []string{"lease-8.json"}, files(t, dir))
			require.NoError(t, l.Release())
		})
	}
}

// A file whose writer died over it, where no hard links are.
func TestUnreadable(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "lease-1.json")
	require.NoError(t, os.WriteFile(path, []byte(`{"sch`), 0o644))
	_, err := lease.Acquire(dir, options())
	require.Empty(t, requireHeld(t, err).Host)
	old := time.Now().Add(-2 * time.Minute)
	require.NoError(t, os.Chtimes(path, old, old))
	_, err = lease.Acquire(dir, options())
	require.NoError(t, err)

	ahead := time.Now().Add(24 * time.Hour) // of another host, whose clock is wrong
	require.NoError(t, os.WriteFile(filepath.Join(dir, "lease-3.json"), nil, 0o644))
	require.NoError(t, os.Chtimes(filepath.Join(dir, "lease-3.json"), ahead, ahead))
	_, err = lease.Acquire(dir, options())
	require.NoError(t, err)
}

// A lease file that cannot be read now says nothing: nobody takes over.
func TestNotToBeRead(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "lease-1.json"), 0o755))
	_, err := lease.Acquire(dir, options())
	require.ErrorIs(t, err, regular.ErrKind)
	require.Equal(t, []string{"lease-1.json"}, files(t, dir))
}

// A folder in the way, and a folder that is none.
func TestErrors(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o644))
	_, err := lease.Acquire(filepath.Join(dir, "file"), options())
	require.Error(t, err)
	var held *lease.HeldError
	require.False(t, errors.As(err, &held))
}

// Foreign files in the folder are neither read nor removed.
func TestForeignFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"lease-x.json", "lease--1.json", "notes.txt", ".lease-9.json-123"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	l, err := lease.Acquire(dir, options())
	require.NoError(t, err)
	require.NoError(t, l.Release())
	require.Len(t, files(t, dir), 5)
}

// Of many that find a stale lease, or none, exactly one takes it; whatever was
// there before.
func TestManyGoroutines(t *testing.T) {
	for round := range 60 {
		dir := t.TempDir()
		if round%2 == 0 {
			put(t, dir, 3, lease.Owner{Host: hostname(t), PID: 1 << 30, ProcessStart: "gone"})
		}
		var wg sync.WaitGroup
		var mu sync.Mutex
		var won []*lease.Lease
		gate := make(chan struct{})
		for range 24 {
			wg.Go(func() {
				<-gate
				l, err := lease.Acquire(dir, options())
				var held *lease.HeldError
				if err == nil {
					mu.Lock()
					won = append(won, l)
					mu.Unlock()
				} else if !errors.As(err, &held) {
					t.Error(err)
				}
			})
		}
		close(gate)
		wg.Wait()
		require.Len(t, won, 1)
		require.NoError(t, won[0].Release())
	}
}

// Goroutines that take and give back all the time are never two inside, although
// numbers are removed under the slow ones.
func TestManyRounds(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	var inside sync.Mutex
	turns := make([]int, 8)
	for i := range turns {
		wg.Go(func() {
			for range 100 {
				l, err := lease.Acquire(dir, options())
				if err != nil {
					continue
				}
				turns[i]++
				alone := inside.TryLock()
				if !alone {
					t.Error("not alone")
				}
				runtime.Gosched()
				if alone {
					inside.Unlock()
				}
				if err := l.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	total := 0
	for _, n := range turns {
		total += n
	}
	require.Positive(t, total)
}

// The holder is killed: of several commands exactly one takes over.
func TestProcessesTakeOver(t *testing.T) {
	dir := t.TempDir()
	dead := start(t, "hold", dir)
	require.Equal(t, "taken", dead.line())
	_, err := lease.Acquire(filepath.Join(dir, "lease"), options())
	require.Equal(t, dead.Process.Pid, requireHeld(t, err).PID)

	var racers []*actor
	for range 6 {
		p := start(t, "once", dir)
		require.Equal(t, "ready", p.line())
		racers = append(racers, p)
	}
	require.NoError(t, dead.Process.Kill())
	require.Error(t, dead.Wait(), "killed")
	answers := make([]string, len(racers))
	var wg sync.WaitGroup
	for _, p := range racers {
		_, err := io.WriteString(p.in, "go\n")
		require.NoError(t, err)
	}
	for i, p := range racers {
		wg.Go(func() { answers[i] = p.line() })
	}
	wg.Wait()
	require.Equal(t, 1, strings.Count(strings.Join(answers, " "), "taken"), answers)
	require.Equal(t, 5, strings.Count(strings.Join(answers, " "), "held"), answers)
}

// Processes that take and give back are never two inside.
func TestProcessesTakeTurns(t *testing.T) {
	dir := t.TempDir()
	var all []*actor
	for range 4 {
		p := start(t, "loop", dir)
		require.Equal(t, "ready", p.line())
		all = append(all, p)
	}
	turns := make([]int, len(all))
	var wg sync.WaitGroup
	for i, p := range all {
		require.NoError(t, p.in.Close())
		wg.Go(func() {
			for p.out.Scan() {
				turns[i]++
			}
			if err := p.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	total := 0
	for _, n := range turns {
		total += n
	}
	require.Positive(t, total)
}

// A lease is renewed until its holder stops; the holder hears that another has taken over.
func TestKeepRenewed(t *testing.T) {
	dir := t.TempDir()
	l, err := lease.Acquire(dir, lease.Options{Now: time.Now})
	require.NoError(t, err)
	problems := make(chan error)
	stop := l.KeepRenewed(t.Context(), time.Millisecond, func(err error) { problems <- err })
	require.NoError(t, os.WriteFile(filepath.Join(dir, "lease-2.json"), []byte("{}"), 0o644))
	require.ErrorIs(t, <-problems, lease.ErrLost)
	stop()
	require.NoError(t, l.Release())
}

// What is held is held by nobody else until it is released, and ends with that.
func TestHold(t *testing.T) {
	dir := t.TempDir()
	held, release, err := lease.Hold(t.Context(), dir, "the results", lease.Options{Now: time.Now})
	require.NoError(t, err)
	_, _, err = lease.Hold(t.Context(), dir, "the results", lease.Options{Now: time.Now})
	require.ErrorAs(t, err, new(*lease.HeldError))
	require.NoError(t, held.Err())
	require.NoError(t, release())
	require.Error(t, held.Err())
	_, release, err = lease.Hold(t.Context(), dir, "the results", lease.Options{Now: time.Now})
	require.NoError(t, err)
	require.NoError(t, release())
}

// What is held ends once another command has taken over the lease, which is left to it.
func TestHoldLost(t *testing.T) {
	dir := t.TempDir()
	held, release, err := lease.Hold(t.Context(), dir, "the results", lease.Options{Now: time.Now, Renew: time.Millisecond})
	require.NoError(t, err)
	put(t, dir, 2, lease.Owner{Host: "other", PID: 1, ProcessStart: "x", Time: time.Now()})
	<-held.Done()
	require.ErrorIs(t, context.Cause(held), lease.ErrLost)
	require.ErrorContains(t, context.Cause(held), "the results: ")
	require.NoError(t, release())
	_, err = lease.Acquire(dir, options())
	require.Equal(t, "other", requireHeld(t, err).Host)
}

// Who asks before a write hears at once that another command has taken over, not only at the next renewal,
// and also after the context has ended for another reason.
func TestCheck(t *testing.T) {
	require.NoError(t, lease.Check(t.Context()), "there is no lease")
	for _, ended := range []bool{false, true} {
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		held, release, err := lease.Hold(ctx, dir, "the results", lease.Options{Now: time.Now, Renew: time.Hour})
		require.NoError(t, err)
		require.NoError(t, lease.Check(held))
		put(t, dir, 2, lease.Owner{Host: "other", PID: 1, ProcessStart: "x", Time: time.Now()})
		if ended {
			cancel()
		}
		require.ErrorIs(t, lease.Check(held), lease.ErrLost)
		require.Error(t, held.Err())
		require.Equal(t, !ended, errors.Is(context.Cause(held), lease.ErrLost))
		require.NoError(t, release())
		cancel()
	}
}
