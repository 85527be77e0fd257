package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/profllm/profllm/pkg/campaign"
	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/planner"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/render"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/sim/knobs"
	"github.com/profllm/profllm/pkg/stats"
)

type confirmCmd struct {
	makeFlags
	submitFlags
	reportFlags
	First        string   `arg:"" help:"Baseline: FILE, FILE#TEST, or a directory of runs, whose stored definitions are used. Alone: the directory of a confirmation to resume and judge."`
	Second       string   `arg:"" optional:"" help:"Test or runs to compare with the baseline, in the same forms."`
	Pairs        int      `help:"Runs per test, an even number; default: the fewest that can show a difference in one metric."`
	Metric       []string `placeholder:"KEY" help:"Judge these metrics instead of throughput, TTFT, TPOT and accuracy: keys of results; fewer need fewer pairs."`
	Jobs         bool     `help:"Run each run as its own job, one after the other, instead of all in one allocation."`
	Simulate     bool     `help:"Run the simulated engine on Slurm; the verdict is about simulated numbers."`
	Rehearse     bool     `help:"Run the simulated engine on this machine and wait."`
	Speed        *int     `placeholder:"N" help:"With --rehearse, let simulated time pass N times faster; default: 1, because this machine's own delays are N times larger in the results and hide small differences."`
	DryRun       bool     `help:"Print the plan and every script; submit nothing."`
	New          bool     `help:"Submit again although an earlier submission of this confirmation was interrupted."`
	Yes          bool     `short:"y" help:"Skip the cost confirmation."`
	MaxNodeHours float64  `default:"100" help:"Refuse to submit more node-hours than this (nodes times time limits)."`
}

// Validate implements kong's interface.
func (c confirmCmd) Validate() error {
	switch least := stats.LeastPairs(1); {
	case c.Second == "" && (c.Pairs != 0 || len(c.Metric) > 0 || c.Jobs || c.Simulate || c.Rehearse || c.DryRun ||
		c.New):
		return errors.New("a started confirmation keeps its pairs and metrics: name two tests, or only the directory")
	case c.Pairs != 0 && (c.Pairs < least || c.Pairs > stats.MaxPairs || c.Pairs%2 != 0):
		return fmt.Errorf("--pairs must be an even number from %d to %d: fewer pairs cannot prove a difference, and an odd number does not cancel drift", least, stats.MaxPairs)
	case c.Speed != nil && !c.Rehearse:
		return errors.New("--speed has no effect without --rehearse")
	}
	return atMost("speed", c.Speed, knobs.MaxSpeed)
}

// Run submits what is not submitted, waits if it shall, and answers as compare does.
func (c confirmCmd) Run(ctx context.Context, a *app) error {
	if err := c.check(); err != nil {
		return err
	}
	if c.Second == "" {
		return c.goOn(ctx, a)
	}
	c.live = !c.Rehearse && !c.DryRun
	if _, err := findMetrics(c.Metric); err != nil {
		return err
	}
	o, err := planFlags{makeFlags: c.makeFlags}.options(c.Simulate || c.Rehearse)
	if err != nil {
		return err
	}
	p, err := a.client().PlanPairs(ctx,
		campaign.Pairs{First: c.First, Second: c.Second, Pairs: c.Pairs, Metrics: c.Metric, Jobs: c.Jobs}, o)
	if err != nil {
		return c.unsent(ctx, a, err)
	}
	if c.DryRun {
		return a.printPlans(p, "text")
	}
	q := a.quieted(a.stderr) // what planning and submission say is no answer
	var root string
	if c.Rehearse {
		err = q.rehearse(ctx, p, max(given(c.Speed), 1))
		root = p.Root // the name may have been taken since it was planned
	} else {
		root, err = c.submit(ctx, q, p)
	}
	return c.answer(ctx, a, root, err)
}

// goOn submits what an interrupted command left out, and waits if it shall.
func (c confirmCmd) goOn(ctx context.Context, a *app) error {
	root, err := filepath.Abs(c.First)
	if err != nil {
		return err
	}
	s, err := run.ReadScenario(root)
	if err != nil || s.Confirm == nil {
		return fail(exitUsage,
			fmt.Errorf("%s is not a confirmation\n\thint: start one with profllm confirm FIRST SECOND", c.First))
	}
	q := a.quieted(a.stderr)
	switch {
	case s.Local:
	case campaign.HasUnanswered(root, s):
		err = q.submit(ctx, root, c.submitFlags)
	case c.Wait || c.Watch:
		var dirs []string // but what was refused
		for _, rel := range s.Runs {
			dirs = append(dirs, filepath.Join(root, rel))
		}
		subs := q.client().Jobs(ctx, dirs)
		dirs = slices.DeleteFunc(dirs, func(dir string) bool { return subs[dir].JobID == "" })
		if len(dirs) > 0 {
			err = q.tellEnd(ctx, c.notifyFlags, root, q.wait(ctx, q.client(), dirs, c.submitFlags))
		}
	}
	return c.answer(ctx, a, root, err)
}

// submit goes on with an interrupted confirmation of the same definitions, or begins
// one.
func (c confirmCmd) submit(ctx context.Context, a *app, p *campaign.Planned) (root string, err error) {
	if root, err = a.begin(p, c.New, a.allow(c.MaxNodeHours, c.Yes), "confirmation"); err != nil {
		return "", c.unsent(ctx, a, err)
	}
	return root, a.submit(ctx, root, c.submitFlags)
}

// unsent tells why no job was submitted, unless none was to be.
func (c confirmCmd) unsent(ctx context.Context, a *app, err error) error {
	if c.DryRun || c.Rehearse {
		return err
	}
	return a.tellUnsent(ctx, c.submitFlags, c.First+" "+c.Second, "", err)
}

// answer judges a confirmation whose runs are over. err is what became of the
// submission and the jobs; a job that failed is part of the verdict.
func (c confirmCmd) answer(ctx context.Context, a *app, root string, err error) error {
	switch code := codeOf(err); {
	case code != exitOK && code != exitJobFailed && code != exitInvalid:
		return err
	case ctx.Err() != nil:
		return fail(exitInterrupted, errors.Join(err, errors.New("interrupted")))
	}
	s, err := run.ReadScenario(root)
	if err != nil {
		return err
	}
	at, err := render.Quote(relative(root))
	if err != nil {
		return err
	}
	now := &document.Confirm{Head: document.NewHead("confirm"), Root: root, Runs: len(s.Runs),
		Next: "profllm confirm " + at}
	if c.Second != "" && !c.Rehearse && !c.Wait && !c.Watch {
		now.Open = "they were submitted just now"
		return c.notYet(a, now)
	}
	dirs := make([]string, len(s.Runs))
	for i, rel := range s.Runs {
		dirs[i] = filepath.Join(root, rel)
	}
	open, err := a.client().CatchUp(ctx, dirs)
	if err != nil {
		return err
	}
	if now.Open = open.Text; open.Stuck != nil {
		a.logf("%s", open.Stuck)
	}
	if now.Open != "" {
		now.Over = len(dirs) - len(slices.DeleteFunc(slices.Clone(dirs), campaign.HasFinalRecord))
		return c.notYet(a, now)
	}
	r, err := a.judgeConfirmation(ctx, relative(root), s.Confirm)
	if err != nil {
		return err
	}
	unmade := !s.Local && a.client().Unmade(dirs)
	for i := range r.Judgements {
		j := &r.Judgements[i]
		switch pairs := j.RunsNeeded + j.RunsNeeded%2; {
		case pairs == 0:
		case unmade:
			j.Commands = []string{"profllm slurm resume " + at}
		case pairs <= stats.MaxPairs:
			j.Commands = []string{campaign.MorePairs(s, root, at, pairs)}
		}
	}
	if err := a.writeReport(r, c.reportFlags); err != nil {
		return err
	}
	if r.Bad() {
		return exit(exitInvalid)
	}
	return nil
}

// notYet says what is waited for. Only who waits or asks for the verdict fails.
func (c confirmCmd) notYet(a *app, now *document.Confirm) error {
	var err error
	if a.json() {
		a.answers(now)
	} else {
		_, err = fmt.Fprintf(a.stdout, "no verdict yet: %d of %d runs are over; %s\n%s\n", now.Over, now.Runs, now.Open,
			now.Next)
	}
	if err == nil && (c.Second == "" || c.Wait || c.Watch) {
		err = exit(exitNotOver)
	}
	return err
}

func (a *app) judgeConfirmation(ctx context.Context, root string, k *run.Confirmation) (*report.Report, error) {
	metrics, err := findMetrics(k.Metrics)
	if err != nil {
		return nil, err
	}
	var sides [2][]records.Run
	for i, name := range planner.Sides {
		var done func()
		sides[i], done, err = a.loadRuns(ctx, filepath.Join(root, name))
		defer done()
		if err != nil {
			return nil, err
		}
	}
	r, err := report.Confirm(sides[0], sides[1], metrics)
	switch {
	case errors.Is(err, report.ErrNoPair):
		return nil, fail(exitUsage, fmt.Errorf("%w: %s", err, root))
	case err != nil:
		return nil, fail(exitInvalid, err)
	}
	return r, nil
}
