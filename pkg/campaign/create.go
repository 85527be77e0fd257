package campaign

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/process"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/redact"
	"github.com/profllm/profllm/pkg/run"
)

// Cost is what the jobs of a scenario may use. An array counts by its runs, a sequence by
// its one allocation.
type Cost struct {
	Runs, Jobs int
	NodeHours  float64 // by the time limits
	Unlimited  int     // jobs without a time limit, which are not in NodeHours
}

// String says what the jobs may use by their time limits. Jobs without one are counted
// as often as they run.
func (cost Cost) String() string {
	text := quantity.Count(cost.Jobs, "job")
	if cost.Jobs != cost.Runs {
		text = quantity.Count(cost.Runs, "run") + " in " + text
	}
	if cost.NodeHours > 0 {
		text += ", at most " + quantity.NodeHours(cost.NodeHours)
	}
	switch {
	case cost.Unlimited == 0:
	case cost.NodeHours == 0:
		text += ", without a time limit"
	default:
		text += fmt.Sprintf(" and %d without a time limit", cost.Unlimited)
	}
	return text
}

// Cost adds up the jobs.
func (p *Planned) Cost() Cost {
	sum := Cost{Runs: len(p.Runs), Jobs: len(p.Batches)}
	add := func(j *plan.Job, times int) {
		if j.TimeLimit == 0 {
			sum.Unlimited += times
			return
		}
		sum.NodeHours += float64(times*j.Nodes) * time.Duration(j.TimeLimit).Hours()
	}
	for _, b := range p.Batches {
		if b.Batch.Kind == plan.Array {
			add(&b.Batch.Job, len(b.Batch.Runs))
		} else {
			add(&b.Batch.Job, 1)
		}
	}
	carried := p.Carried()
	for _, r := range p.Runs {
		if carried[r.Plan.Dir] == nil {
			sum.Jobs++
			add(&r.Plan.Job, 1)
		}
	}
	return sum
}

// Begin makes the directory of a scenario, ready for Submit, once allow has agreed to the
// cost. If an earlier submission of the same definitions was interrupted, it returns that
// one's directory instead.
func (c *Client) Begin(p *Planned, allow func(Cost) error) (root string, resumed bool, err error) {
	if err := p.staged(); err != nil {
		return "", false, err
	}
	if root, err = c.Unfinished(p); err != nil || root != "" {
		return root, true, as(NotSubmitted, err)
	}
	err = c.begin(p, allow)
	return p.Root, false, err // begin may have chosen another name
}

// BeginAnew is Begin without a look for interrupted submissions.
func (c *Client) BeginAnew(p *Planned, allow func(Cost) error) error {
	if err := p.staged(); err != nil {
		return err
	}
	return c.begin(p, allow)
}

func (c *Client) begin(p *Planned, allow func(Cost) error) error {
	if !p.Kubernetes {
		if err := p.ForSlurm(); err != nil {
			return err
		}
	}
	if err := c.plannedSecrets(p); err != nil {
		return err
	}
	if err := allow(p.Cost()); err != nil {
		return err
	}
	return as(NotSubmitted, c.create(p))
}

// mostNames is how many names are tried. Each that is taken is of another submission.
const mostNames = 100

// create makes the scenario's directory, with everything in it but the jobs. If another
// submission has taken the name since it was chosen, all is planned again under the next free
// name.
func (c *Client) create(p *Planned) error {
	for range mostNames {
		err := c.createNamed(p)
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		if _, gone := os.Lstat(p.Root); gone != nil {
			return err // what is there is not the name
		}
		if p.again == nil {
			return fmt.Errorf("%w\n\thint: --time names this directory; give another time, or leave it out", err)
		}
		if err := p.rename(); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s: other submissions took each of %d names\n\thint: try again", c.relative(p.Root), mostNames)
}

// rename plans p again under the next free name.
func (p *Planned) rename() error {
	next, err := p.again()
	if err != nil {
		return err
	}
	if next.Digest != p.Digest || len(next.Runs) != len(p.Runs) {
		return fmt.Errorf("%s was changed while it was submitted\n\thint: try again", p.Scenario)
	}
	for i := range next.Runs {
		next.Runs[i].Plan.Rehearsal = p.Runs[i].Plan.Rehearsal
	}
	next.Local, next.Verb = p.Local, p.Verb
	*p = *next
	return nil
}

// createNamed makes the directory under the name that was planned.
func (c *Client) createNamed(p *Planned) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	pid := os.Getpid()
	return run.Create(p.Root, run.Scenario{
		Schema: "profllm.scenario/1", Name: p.Name, Digest: p.Digest, Created: p.Created.UTC(),
		Host: host, PID: pid, ProcessStart: process.Start(pid), Skipped: p.Skipped, Simulated: p.Simulated,
		Local: p.Local, Verb: p.Verb, Continues: p.Continued, Confirm: p.Confirm, Definitions: p.Definitions,
		Launcher: p.Launcher, Single: p.Single, WorkDir: p.WorkDir,
	}, p.Runs, p.Batches)
}

// Unfinished finds an interrupted submission of the same definitions.
func (c *Client) Unfinished(p *Planned) (string, error) {
	roots, err := run.Unfinished(filepath.Dir(p.Root), p.Name, p.Simulated)
	if err != nil || len(roots) == 0 {
		return "", err
	}
	root := roots[len(roots)-1]
	s, err := run.ReadScenario(root)
	if err != nil {
		return "", err
	}
	if s.Digest != p.Digest {
		return "", fmt.Errorf("an earlier submission of an older version of this scenario was interrupted: %s\n\thint: profllm %s resume %s, or submit with --new",
			c.relative(root), run.Verbs(root), c.relative(root))
	}
	return root, nil
}

// plannedSecrets looks for the secrets of everything planned, before anything is
// written.
func (c *Client) plannedSecrets(p *Planned) error {
	var plans []*plan.Plan
	for _, r := range p.Runs {
		plans = append(plans, r.Plan)
		for _, h := range slices.Concat(r.Plan.PreTest, r.Plan.PostTest) {
			plans = append(plans, h.Plan)
		}
	}
	if err := run.CheckSecrets(plans, c.lookup); err != nil {
		return as(NotSubmitted, err)
	}
	said := map[string]bool{}
	for _, pl := range plans {
		for _, s := range pl.Secrets() {
			if note := c.doubt(s); note != "" && !said[note] {
				said[note] = true
				c.note("%s", note)
			}
		}
	}
	return nil
}

// doubt says what is wrong with a secret that works, "" for nothing. A file may be
// on the nodes only.
func (c *Client) doubt(s plan.Secret) string {
	if s.File == "" {
		if value, _ := c.lookup(s.Env); len(strings.TrimSpace(value)) < redact.Least {
			return fmt.Sprintf("%s has less than %d bytes, so it is not removed from logs", s.Env, redact.Least)
		}
		return ""
	}
	if st, err := os.Stat(s.File); err == nil && st.Mode().Perm()&0o007 != 0 {
		return fmt.Sprintf("all users can read %s: chmod 600 %s", s.File, s.File)
	}
	return ""
}

// checkSecrets looks for the secrets of all submissions before the first is made.
func (c *Client) checkSecrets(units []string) error {
	for _, dir := range units {
		u, err := run.ReadUnit(dir)
		if err != nil {
			return err
		}
		if err := u.CheckSecrets(c.lookup); err != nil {
			return fmt.Errorf("%s: %w", c.relative(dir), err)
		}
	}
	return nil
}
