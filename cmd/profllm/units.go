package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/campaign"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/terminal"
)

// documents lists the plans, and behind them the batches that carry some.
func documents(p *campaign.Planned) []any {
	var list []any
	for _, r := range p.Runs {
		list = append(list, r.Plan)
	}
	for _, b := range p.Batches {
		list = append(list, b.Batch)
	}
	return list
}

// writePlans prints every script, and as text what the scenario consists of and a table
// before each, which fits the screen.
func writePlans(p *campaign.Planned, out *bufio.Writer, text bool, s terminal.Screen) {
	carried := p.Carried()
	var o campaign.Overview
	if text {
		o = p.Overview()
		writeOverview(out, &o, s)
	}
	for _, r := range p.Runs {
		if text {
			fmt.Fprint(out, planTable(r.Plan, s))
			if b := carried[r.Plan.Dir]; b != nil {
				fmt.Fprintf(out, "# in batch %s\n", b.RunID)
			} else {
				fmt.Fprint(out, symbolic(p, &r.Plan.Job))
			}
			fmt.Fprintln(out)
		}
		out.Write(r.Script)
		if text {
			fmt.Fprintln(out)
		}
	}
	for _, b := range p.Batches {
		if text {
			fmt.Fprintf(out, "# batch %s: %s of %d runs\n%s\n", b.Batch.RunID, b.Batch.Kind, len(b.Batch.Runs), symbolic(p, &b.Batch.Job))
		}
		out.Write(b.Script)
		if text {
			fmt.Fprintln(out)
		}
	}
	if text && len(p.Runs) > 1 {
		fmt.Fprintln(out, scenarioLine(&o)) // the first one has left the screen
	}
}

// symbolic is a comment with what sbatch is told about other jobs, whose ids are
// known only at submission.
func symbolic(p *campaign.Planned, j *plan.Job) string {
	if len(j.After) == 0 {
		return ""
	}
	tests := map[string]string{}
	for _, r := range p.Runs {
		tests[r.Plan.Dir] = r.Plan.Test
	}
	var words []string
	for _, a := range j.After {
		word := fmt.Sprintf("%s:<job of test %s>", a.Type, cmp.Or(tests[a.Dir], a.Dir))
		if !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	return fmt.Sprintf("# sbatch --dependency=%s --kill-on-invalid-dep=yes\n", strings.Join(words, ","))
}

// save writes what submission would write, below another folder.
func save(p *campaign.Planned, to string) error {
	for _, r := range p.Runs {
		rel, err := filepath.Rel(p.Root, r.Plan.Dir)
		if err != nil {
			return err
		}
		if err := run.Fill(filepath.Join(to, rel), r.Plan, r.Script, r.Hooks...); err != nil {
			return err
		}
	}
	for _, b := range p.Batches {
		rel, err := filepath.Rel(p.Root, b.Batch.Dir)
		if err != nil {
			return err
		}
		if err := run.FillBatch(filepath.Join(to, rel), b.Batch, b.Script); err != nil {
			return err
		}
	}
	return nil
}

// allow says what the runs may use, and refuses what is above the limit.
func (a *app) allow(limit float64, yes bool) func(campaign.Cost) error {
	return func(cost campaign.Cost) error {
		a.logf("%s", costText(cost))
		if cost.NodeHours <= limit || yes {
			return nil
		}
		enough := math.Ceil(cost.NodeHours*10) / 10
		return fail(exitNotSubmit, fmt.Errorf("not submitted: above %g node-hours\n\thint: --yes, or --max-node-hours %g", limit, enough))
	}
}

// costText says what the jobs may use by their time limits. Jobs without one are counted
// as often as they run.
func costText(cost campaign.Cost) string {
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

// submit submits a scenario's directory, and waits for its jobs if it shall.
func (a *app) submit(ctx context.Context, root string, f submitFlags) error {
	client := a.client()
	dirs, err := client.Submit(ctx, root, f.Settle)
	if err != nil {
		return err
	}
	return a.follow(ctx, client, root, dirs, f)
}

// follow waits for the jobs of runs if it shall, and tells how they ended.
func (a *app) follow(ctx context.Context, client *campaign.Client, root string, dirs []string, f submitFlags) error {
	if !f.Wait && !f.Watch {
		return nil
	}
	return a.tellEnd(ctx, f.notifyFlags, root, a.wait(ctx, client, dirs, f.Watch))
}
