package campaign

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/profllm/profllm/pkg/run"
)

// unknownLimit ends the wait for jobs of which nobody says anything.
const unknownLimit = run.LostAfter

// Follow waits until the jobs of runs are over, or unknown for long, and returns their
// states. It ends with a StuckError, beside the states, once no job that is left can ever
// start. show, unless nil, gets the states meanwhile. Each round is one query, and the pause
// between two rounds grows while nothing changes.
func (c *Client) Follow(ctx context.Context, dirs []string, subs map[string]run.Submission,
	show func(map[string]run.State)) (map[string]run.State, error) {
	over, said, warned := map[string]bool{}, map[string]string{}, map[string]bool{}
	known := c.Now() // when Slurm last knew one of the jobs
	doomed := false  // at the last look, nothing was left that can start
	for pause := time.Second; ; pause = min(2*pause, time.Minute) {
		states, err := c.States(ctx, dirs, subs)
		if err != nil {
			return nil, err
		}
		open := 0
		for _, dir := range dirs {
			st := states[dir]
			if st.State != run.Unknown {
				known = c.Now()
			}
			if !st.Final() {
				open++
			}
			if word := st.State + st.Note + st.Reason; show != nil && word != said[dir] {
				said[dir], pause = word, soon(len(dirs))
			}
		}
		if show != nil {
			show(states)
		}
		if open == 0 || c.Now().Sub(known) > unknownLimit {
			return states, nil
		}
		stuck := c.allStuck(dirs, subs, states, open)
		switch {
		case stuck == nil:
			c.warn(dirs, states, warned)
		case doomed:
			return states, as(NotSubmitted, stuck)
		default: // Slurm may be about to cancel the job, or to read its limits again
			pause = time.Second
		}
		doomed = stuck != nil
		before := len(over)
		if !c.idle(ctx, jitter(pause), dirs, states, over, show) {
			return nil, as(Interrupted,
				fmt.Errorf("interrupted; the jobs continue\n\thint: profllm %s status %s", run.Verbs(dirs[0]),
					c.relative(rootOf(dirs[0]))))
		}
		if len(over) > before { // its job is about to end
			if pause = soon(len(dirs)) / 2; allOver(dirs, states, over) {
				pause = shortLook / 2 // nothing else is awaited
			}
		}
	}
}

// allOver reports whether every run whose job is not over says on disk that it is.
func allOver(dirs []string, states map[string]run.State, over map[string]bool) bool {
	return !slices.ContainsFunc(dirs, func(dir string) bool { return !states[dir].Final() && !over[dir] })
}

// rootOf is the scenario's directory of a run, or the run's own.
func rootOf(dir string) string { return cmp.Or(run.Root(dir), dir) }

// soon is the pause after something happened. Of many runs something happens all
// the time, and Slurm is asked no more often for that.
func soon(runs int) time.Duration {
	return min(time.Second+time.Duration(runs/20)*time.Second, time.Minute)
}

// jitter keeps commands that were started together from asking together.
func jitter(d time.Duration) time.Duration {
	return d - d/8 + rand.N(d/4)
}

// idle waits until the next look at Slurm is due, or until a run that was open
// says on disk that it is over, which over remembers: the files cost nothing, and
// Slurm is asked soon. show, if there is one, is called now and then meanwhile.
// It returns false when the command was interrupted.
func (c *Client) idle(ctx context.Context, pause time.Duration, dirs []string, states map[string]run.State,
	over map[string]bool, show func(map[string]run.State)) bool {
	look, shown := max(shortLook, time.Duration(len(dirs))*lookCost), c.Now()
	for end := c.Now().Add(pause); c.Now().Before(end); {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(min(pause, look)):
		}
		if now := c.Now(); show != nil && now.Sub(shown) >= showEach {
			show(states)
			shown = now
		}
		for _, dir := range dirs {
			if states[dir].Final() || over[dir] {
				continue
			}
			if _, err := os.Stat(filepath.Join(dir, run.SentinelFile)); err == nil {
				over[dir] = true // once: Slurm may take its time
				return true
			}
		}
	}
	return ctx.Err() == nil
}

// shortLook is the shortest pause between two looks at the files, showEach that between two calls of show.
const (
	shortLook = 100 * time.Millisecond
	showEach  = time.Second
)

// lookCost is how much longer the pause between two looks at the files gets with
// each run: a shared file system has other users.
const lookCost = 20 * time.Millisecond
