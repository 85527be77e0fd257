package campaign

import (
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/profllm/profllm/pkg/run"
)

// clock tells how far runs on this machine are. Estimates are corrected by how long the runs that
// are over took.
type clock struct {
	now     func() time.Time
	tell    func(LocalProgress)
	costs   map[string]time.Duration // estimated, of each run
	over    map[string]bool
	planned time.Duration // estimated, of the runs that are over
	took    time.Duration // of these
	begun   time.Time     // of the unit that runs
	unknown bool          // there are no estimates
}

func newClock(now func() time.Time, tell func(LocalProgress), costs map[string]time.Duration) *clock {
	if tell == nil {
		tell = func(LocalProgress) {}
	}
	return &clock{now: now, tell: tell, costs: costs, over: map[string]bool{}}
}

// begin tells that runs begin, and goes on telling until stop is called.
func (c *clock) begin(runs []string) (stop func()) {
	c.begun = c.now()
	c.tell(c.progress(runs))
	done := make(chan struct{})
	var ticking sync.WaitGroup
	ticking.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				c.tell(c.progress(runs))
			}
		}
	})
	return func() {
		close(done)
		ticking.Wait()
	}
}

// end tells that runs are over.
func (c *clock) end(runs []string, states map[string]run.State) {
	for _, dir := range runs {
		c.over[dir] = true
		c.planned += c.costs[dir]
	}
	c.took += c.now().Sub(c.begun)
	c.begun = time.Time{}
	p := c.progress(nil)
	for _, dir := range runs {
		p.Ended = append(p.Ended, Ended{dir, states[dir]})
	}
	c.tell(p)
}

// progress is how far all is while some runs are not over: each leaves a file at its end.
func (c *clock) progress(running []string) LocalProgress {
	p := LocalProgress{Over: len(c.over), Of: len(c.costs), Running: running}
	for _, dir := range running {
		if _, err := os.Stat(filepath.Join(dir, run.SentinelFile)); err == nil {
			p.Over++
		}
	}
	now, left := time.Duration(0), time.Duration(0)
	for dir, cost := range c.costs {
		if !c.over[dir] {
			left += cost
		}
	}
	for _, dir := range running {
		now += c.costs[dir]
	}
	ratio := 1.0
	if c.planned > 0 {
		ratio = min(max(c.took.Seconds()/c.planned.Seconds(), 0.5), 3)
	}
	if c.unknown {
		p.Left = -1
		return p
	}
	p.Left = time.Duration(float64(left) * ratio)
	if len(running) > 0 {
		p.Left -= min(c.now().Sub(c.begun), time.Duration(float64(now)*ratio))
	}
	return p
}
