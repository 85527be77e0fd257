package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/durable"
	"github.com/profllm/profllm/pkg/junit"
	"github.com/profllm/profllm/pkg/nightly"
	"github.com/profllm/profllm/pkg/notify"
	"github.com/profllm/profllm/pkg/stats"
)

type nightlyCmd struct {
	planFlags
	notifyFlags
	alsoStoreFlag
	Scenario     string        `arg:"" meant:"test-scenario" help:"Scenario file, or demo."`
	Simulate     bool          `help:"Run the simulated engine on Slurm; simulated nights are never compared with others."`
	Wait         bool          `help:"Wait for tonight's jobs and judge them now instead of at the next call."`
	Quiet        bool          `short:"q" help:"Print nothing unless something changed."`
	Tolerance    *float64      `type:"percent" help:"Largest change that counts as no change, in percent of the baseline; default: 2 for throughput, 5 for medians."`
	Baselines    int           `default:"7" help:"Number of valid nights that form the baseline, 4 or more."`
	Yes          bool          `short:"y" help:"Skip the cost confirmation."`
	MaxNodeHours float64       `default:"100" help:"Refuse to submit more node-hours than this (nodes times time limits)."`
	Settle       time.Duration `default:"30s" help:"Time between two searches for the job of an interrupted submission."`
	Output       string        `meant:"format" enum:"text,json" default:"text" help:"text or json."`
	JUnit        string        `placeholder:"FILE" name:"junit" help:"Also write JUnit XML with a case for each run and each judged number of the night. Only an older JUnit report of profllm is overwritten."`
}

// Validate implements kong's interface.
func (c nightlyCmd) Validate() error {
	if c.Tolerance != nil && *c.Tolerance < 0 || c.Baselines < stats.LeastBaseline {
		return fmt.Errorf("--tolerance must be 0 or more, and --baselines %d or more", stats.LeastBaseline)
	}
	return nil
}

// Run is safe to call from cron, on several login nodes, while the last night
// still runs.
func (c nightlyCmd) Run(ctx context.Context, a *app) error {
	if err := durable.CheckOutputs(junit.File(c.JUnit)); err != nil {
		return fail(exitUsage, err)
	}
	var log bytes.Buffer
	q := a.quieted(&log) // what the steps say is no answer
	if c.Quiet {
		q.stderr = &log
	}
	o, err := c.night(ctx, q)
	if code := codeOf(err); code != exitOK && c.Quiet {
		a.stderr.Write(log.Bytes())
	}
	if o.Verdict != nil {
		if kept := c.keep(ctx, q, o.Verdict.Root); kept != nil { // the verdict decides the exit code
			a.complain(fmt.Errorf("the night was not stored: %w", kept))
		}
	}
	if o.Act != "" {
		if err := c.say(a, o, err); err != nil {
			return err
		}
		if err := junit.File(c.JUnit).WriteBy(o.JUnit); err != nil {
			return err
		}
	}
	if err == nil && o.Verdict != nil {
		err = exit(verdictCode(*o.Verdict))
	}
	if o.News() || codeOf(err) != exitOK && ctx.Err() == nil {
		e := nightEvent(o, codeOf(err), err)
		if e.Scenario == "" { // it could not be planned
			e.Scenario = scenarioName(c.Scenario, c.definitionFlags)
		}
		a.tell(ctx, c.notifyFlags, e)
	}
	if writeErr := o.Told(); writeErr != nil {
		return errors.Join(writeErr, err)
	}
	return err
}

// night plans the scenario, then submits or judges.
func (c nightlyCmd) night(ctx context.Context, a *app) (nightly.Outcome, error) {
	c.live = true
	p, err := a.plan(ctx, c.Scenario, c.planFlags, c.Simulate)
	if err != nil {
		return nightly.Outcome{}, err
	}
	client := a.client()
	client.EndHeld = true // nobody watches
	act := nightly.Act{
		Client: client, Wait: c.Wait, Allow: a.allow(c.MaxNodeHours, c.Yes),
		Judge: nightly.Options{Tolerance: c.Tolerance, Baselines: c.Baselines},
		Submit: func(root string) error {
			err := a.submit(ctx, root, submitFlags{Wait: c.Wait, Settle: c.Settle})
			if code := codeOf(err); code == exitJobFailed || code == exitInvalid {
				return nil // the verdict says it
			}
			return err
		},
	}
	return act.Night(ctx, p)
}

func nightEvent(o nightly.Outcome, code int, err error) notify.Event {
	e := notify.Event{Kind: "night", Scenario: o.Scenario, Run: o.Root, Code: code, Lines: []string{}}
	if o.Verdict != nil {
		e.Run = o.Verdict.Root
		for _, c := range o.Verdict.Changes {
			e.Lines = append(e.Lines, c.String())
		}
	}
	if err != nil && err.Error() != "" {
		e.Lines = append(e.Lines, eventLines(err)...)
	}
	return e
}

// say prints one line when nothing changed, else one line for each change.
func (c nightlyCmd) say(a *app, o nightly.Outcome, ended error) error {
	if c.Output == "json" { // now, and not at the end: a verdict counts as told only after it was printed
		d := document.Nightly{Head: document.NewHead("nightly"), Outcome: o}
		code := codeOf(ended)
		if ended == nil && o.Verdict != nil {
			code = verdictCode(*o.Verdict)
		}
		d.End(code, a.problems(ended))
		return a.printJSON(d)
	}
	var err error
	switch {
	case o.News():
		for _, change := range o.Verdict.Changes {
			change.Dir = relative(change.Dir)
			_, err = fmt.Fprintln(a.stdout, change)
		}
		if !c.Quiet {
			a.logf("nightly %s: %s; %s", o.Scenario, o.Act, o.Verdict)
		}
	case c.Quiet:
	case o.Verdict != nil:
		_, err = fmt.Fprintf(a.stdout, "nightly %s: %s; %s\n", o.Scenario, o.Act, o.Verdict)
	default:
		_, err = fmt.Fprintf(a.stdout, "nightly %s: %s\n", o.Scenario, o.Act)
	}
	return err
}

func verdictCode(v nightly.Verdict) int {
	switch {
	case v.Has(nightly.Failed):
		return exitJobFailed
	case v.Has(nightly.Invalid), v.Has(nightly.Regressed):
		return exitInvalid
	}
	return exitOK
}
