package campaign

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/lockfile"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/render"
	"github.com/profllm/profllm/pkg/run"
)

// followLock leaves of a plan what is locked, and refuses it if anything is not as it was. A
// nil file locks nothing.
func (c *Client) followLock(f *lockfile.File, p *Planned, layers []fs.FS) error {
	if f == nil {
		return nil
	}
	p.Speed = f.Speed
	if p.Simulated != f.Simulated {
		c.note("the lock file has measured runs, which cannot be compared with a simulation")
	} else {
		var list []lockfile.Planned
		for _, r := range p.Runs {
			one := lockfile.Planned{Plan: r.Plan, Script: r.Script, Root: p.Root}
			for i, h := range slices.Concat(r.Plan.PreTest, r.Plan.PostTest) {
				one.Hooks = append(one.Hooks, lockfile.Planned{Plan: h.Plan, Script: r.Hooks[i], Root: p.Root})
			}
			list = append(list, one)
		}
		differs, err := f.Compare(list)
		if err != nil {
			return err
		}
		if len(differs) > 0 {
			text := make([]string, len(differs))
			for i, d := range differs {
				text[i] = d.String()
			}
			hint := "put back what differs, or submit the scenario itself"
			if f.Profllm != c.Version {
				hint += fmt.Sprintf("; profllm %s planned it, this is %s", f.Profllm, c.Version)
			}
			return as(NotSubmitted,
				fmt.Errorf("not as it was locked:\n\t%s\n\thint: %s", strings.Join(text, "\n\t"), hint))
		}
	}
	alone := p.only(f)
	for _, r := range alone {
		c.note("%s is submitted alone: the runs that it waited for, or ended with, are not locked", r.Plan.Test)
		var err error
		if r.Script, err = render.Script(r.Plan, layers...); err != nil {
			return fmt.Errorf("test %s: %w", r.Plan.Test, err)
		}
	}
	return nil
}

// only leaves the locked runs, with what must be found again in their plans, and
// without what carried the others. It returns those that lost runs to wait for.
func (p *Planned) only(f *lockfile.File) (alone []*run.Printed) {
	kept := map[string]bool{}
	p.Runs = slices.DeleteFunc(p.Runs, func(r run.Printed) bool {
		l := f.Of(r.Plan)
		if l != nil {
			r.Plan.Locked = &plan.Locked{RunID: l.RunID, EngineVersion: l.EngineVersion, ImageDigest: l.ImageDigest,
				ModelRevision: l.ModelRevision}
			kept[r.Plan.Dir] = true
		}
		return l == nil
	})
	if f.Whole {
		return nil
	}
	p.Batches = nil
	for i := range p.Runs {
		job := &p.Runs[i].Plan.Job
		other := func(dir string) bool { return !kept[dir] }
		before := len(job.After) + len(job.Until)
		job.After = slices.DeleteFunc(job.After, func(x plan.After) bool { return other(x.Dir) })
		job.Until = slices.DeleteFunc(job.Until, other)
		if len(job.After)+len(job.Until) < before {
			alone = append(alone, &p.Runs[i])
		}
	}
	return alone
}
