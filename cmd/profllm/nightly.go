package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/campaign"
	"github.com/profllm/profllm/pkg/junit"
	"github.com/profllm/profllm/pkg/lease"
	"github.com/profllm/profllm/pkg/nightly"
	"github.com/profllm/profllm/pkg/notify"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/stats"
)

const (
	// leaseDir is below the output folder, one folder for each scenario.
	leaseDir = ".leases"
	// renewEvery is well below the lease's limit, which is for dead hosts.
	renewEvery = 5 * time.Minute
	// lookBack is how many nights are read, of which some may be no baseline.
	lookBack = 30
	// toldFile is in the directory of a night that was judged and told.
	toldFile = "nightly.json"
)

type nightlyCmd struct {
	planFlags
	notifyFlags
	Scenario     string        `arg:"" help:"Scenario file, or demo."`
	Simulate     bool          `help:"Run the simulated engine on Slurm; such nights are never compared."`
	Wait         bool          `help:"Wait for tonight's jobs and judge them, instead of at the next call."`
	Quiet        bool          `short:"q" help:"Print nothing unless something changed."`
	Tolerance    *float64      `help:"Percent of the baseline within which a number has not changed; default: 2 for throughput, 5 for medians."`
	Baselines    int           `default:"7" help:"Valid nights behind a baseline, at most; 4 at least."`
	Yes          bool          `short:"y" help:"Skip the cost confirmation."`
	MaxNodeHours float64       `default:"100" help:"Refuse to submit more node-hours than this, by the time limits."`
	Settle       time.Duration `default:"30s" help:"Pause between two looks for the job of an interrupted submission."`
	Output       string        `enum:"text,json" default:"text" help:"text or json."`
	JUnit        string        `placeholder:"FILE" name:"junit" help:"Also write JUnit XML, a case for each run and number of the night that is judged."`
}

// Validate implements kong's interface.
func (c nightlyCmd) Validate() error {
	if c.Tolerance != nil && *c.Tolerance < 0 || c.Baselines < stats.LeastBaseline {
		return fmt.Errorf("--tolerance is 0 or more, --baselines %d or more", stats.LeastBaseline)
	}
	return nil
}

// nightOutcome is what one call did and saw.
type nightOutcome struct {
	Scenario string           `json:"scenario"`
	Root     string           `json:"root,omitempty"` // tonight's directory, if jobs were submitted
	Act      string           `json:"act"`
	Verdict  *nightly.Verdict `json:"verdict,omitempty"` // of the newest night, if it is over and was not told yet

	told string // the file that says that it was
}

// news reports whether there is something to say to somebody who asked for
// silence.
func (o nightOutcome) news() bool { return o.Verdict != nil && len(o.Verdict.Changes) > 0 }

// Run is safe to call from cron, on several login nodes, while the last night
// still runs.
func (c nightlyCmd) Run(a *app) error {
	var log bytes.Buffer
	q := a.quieted(&log) // what the steps say is no answer
	if c.Quiet {
		q.stderr = &log
	}
	o, err := c.night(q)
	if code := codeOf(err); code != exitOK && c.Quiet {
		a.stderr.Write(log.Bytes())
	}
	if o.Act != "" {
		if err := c.say(a, o); err != nil {
			return err
		}
		if err := writeFile(c.JUnit, o.junit); err != nil {
			return err
		}
	}
	if err == nil && o.Verdict != nil {
		err = exit(verdictCode(*o.Verdict))
	}
	if o.news() || codeOf(err) != exitOK && a.ctx.Err() == nil {
		a.tell(c.notifyFlags, o.event(codeOf(err), err))
	}
	if o.told != "" {
		// Last, so that a command that is killed before has its news told by the next.
		if writeErr := run.WriteJSON(o.told, o.Verdict); writeErr != nil {
			return errors.Join(writeErr, err)
		}
	}
	return err
}

// junit writes the verdict, or a skipped case that says why there is none.
func (o nightOutcome) junit(w io.Writer) error {
	if o.Verdict != nil {
		return o.Verdict.JUnit(w)
	}
	name := "nightly " + o.Scenario
	return junit.Write(w, []junit.Suite{{Name: name, Cases: []junit.Case{{Class: name, Name: "night", Outcome: junit.Skipped, Type: "not judged", Message: o.Act}}}})
}

func (o nightOutcome) event(code int, err error) notify.Event {
	e := notify.Event{Kind: "night", Scenario: o.Scenario, Run: o.Root, Code: code, Lines: []string{}}
	if o.Verdict != nil {
		e.Run = o.Verdict.Root
		for _, c := range o.Verdict.Changes {
			e.Lines = append(e.Lines, c.String())
		}
	}
	if err != nil && err.Error() != "" {
		e.Lines = append(e.Lines, err.Error())
	}
	return e
}

// say prints one line when nothing changed, else one line for each change.
func (c nightlyCmd) say(a *app, o nightOutcome) error {
	if c.Output == "json" {
		return a.printJSON(o)
	}
	var err error
	switch {
	case o.news():
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

// night plans, takes the lease, and does what is to be done.
func (c nightlyCmd) night(a *app) (nightOutcome, error) {
	var o nightOutcome
	c.live = true
	p, err := a.plan(c.Scenario, c.planFlags, c.Simulate)
	if err != nil {
		return o, err
	}
	o.Scenario = p.Name
	output := filepath.Dir(p.Root)
	l, err := lease.Acquire(filepath.Join(output, leaseDir, p.Name), lease.Options{Now: a.now})
	var held *lease.HeldError
	if errors.As(err, &held) {
		o.Act = held.Error() + "; nothing was done"
		return o, nil
	}
	if err != nil {
		return o, err
	}
	renewed := a.renew(l)
	err = c.held(a, p, &o)
	renewed()
	return o, errors.Join(err, l.Release())
}

// renew keeps a lease until the returned function is called.
func (a *app) renew(l *lease.Lease) (stop func()) {
	ctx, cancel := context.WithCancel(a.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(renewEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if err := l.Renew(); err != nil {
					a.logf("note: %v", err)
					if errors.Is(err, lease.ErrLost) {
						return
					}
				}
			}
		}
	}()
	return func() { cancel(); <-done }
}

// held is the work of a night, while no other command does it.
func (c nightlyCmd) held(a *app, p *campaign.Planned, o *nightOutcome) error {
	nights, open, err := a.nights(filepath.Dir(p.Root), p.Name, c.Simulate)
	if err != nil {
		return err
	}
	submitErr := error(nil)
	if open != "" {
		o.Act = open + "; nothing was submitted"
	} else if submitErr = c.submit(a, p, o); codeOf(submitErr) == exitInterrupted {
		return submitErr
	} else if c.Wait && o.Root != "" {
		if nights, _, err = a.nights(filepath.Dir(p.Root), p.Name, c.Simulate); err != nil {
			return err
		}
	}
	over := c.Wait
	switch code := codeOf(submitErr); {
	case code == exitJobFailed, code == exitInvalid:
		submitErr = nil // the verdict says it
	case code != exitOK:
		o.Act, over = "tonight's jobs were not submitted", false
	}
	if !over { // an interrupted night that goes on looks like one that left nothing
		nights = slices.DeleteFunc(nights, func(n nightly.Night) bool { return n.Root == o.Root })
	}
	return errors.Join(submitErr, c.judge(nights, o))
}

// submit goes on with an interrupted night, or begins one.
func (c nightlyCmd) submit(a *app, p *campaign.Planned, o *nightOutcome) error {
	flags := submitFlags{Wait: c.Wait, Settle: c.Settle}
	root, err := a.client().Unfinished(p)
	if err != nil {
		a.logf("note: %v", err) // its jobs, if any, are over: that was looked at
	}
	if root == "" {
		if err := a.client().BeginAnew(p, a.allow(c.MaxNodeHours, c.Yes)); err != nil {
			return err
		}
		root = p.Root
	}
	o.Root = root
	o.Act = fmt.Sprintf("submitted %s", relative(root))
	return a.submit(root, flags)
}

// judge compares the newest night with the others, unless that was told before.
func (c nightlyCmd) judge(nights []nightly.Night, o *nightOutcome) error {
	if len(nights) == 0 {
		o.Act += "; no night is over yet"
		return nil
	}
	newest := nights[0]
	told := filepath.Join(newest.Root, toldFile)
	var old nightly.Verdict
	if run.ReadJSON(told, &old) == nil {
		o.Act += fmt.Sprintf("; no new night since %s", newest.Created.Local().Format("2006-01-02 15:04"))
		return nil
	}
	v, err := nightly.Judge(newest, nights[1:], nightly.Options{Tolerance: c.Tolerance, Baselines: c.Baselines, Failed: jobFailed})
	if err != nil {
		return err
	}
	o.Verdict, o.told = &v, told
	return nil
}

// nights collects what earlier calls left, and returns the nights of a scenario
// that are over, newest first. open says which job is not, if there is one.
func (a *app) nights(output, name string, simulated bool) (nights []nightly.Night, open string, err error) {
	roots, err := nightRoots(output, name, simulated)
	if err != nil {
		return nil, "", err
	}
	for _, root := range roots {
		s, err := run.ReadScenario(root)
		if err != nil {
			return nil, "", err
		}
		dirs := make([]string, len(s.Runs))
		for i, rel := range s.Runs {
			dirs[i] = filepath.Join(root, rel)
		}
		unsent := slices.Clone(dirs)
		if unsent = slices.DeleteFunc(unsent, submitted); len(unsent) == len(dirs) {
			continue // no night: its submission failed, which was said
		}
		why, err := a.client().CatchUp(a.ctx, dirs)
		if err != nil {
			return nil, "", err
		}
		if why != "" {
			open = why
			continue
		}
		runs, err := report.Load(root)
		if err != nil {
			return nil, "", err
		}
		for i := range runs {
			for _, dir := range unsent {
				if runs[i].Dir == dir || strings.HasPrefix(runs[i].Dir, dir+"/") {
					runs[i].Result, runs[i].Problem = nil, "it was never submitted"
				}
			}
		}
		nights = append(nights, nightly.Night{Root: root, Created: s.Created, Runs: runs})
	}
	return nights, open, nil
}

// submitted reports whether a submission of the run was begun and not refused.
func submitted(dir string) bool {
	var sub run.Submission
	if run.ReadJSON(filepath.Join(dir, run.SubmitFile), &sub) == nil {
		return sub.Refused == ""
	}
	_, err := os.Stat(filepath.Join(dir, run.IntentFile))
	return err == nil
}

// nightRoots lists the newest directories of a scenario, newest first.
func nightRoots(output, name string, simulated bool) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(globQuote(filepath.Join(output, name))+"_*", "scenario.json"))
	if err != nil {
		return nil, err
	}
	type night struct {
		root    string
		created time.Time
	}
	var list []night
	for _, f := range files {
		root := filepath.Dir(f)
		s, err := run.ReadScenario(root)
		if err != nil || s.Name != name || len(s.Runs) == 0 || strings.Contains(root, ".partial-") {
			continue
		}
		if p, err := run.ReadPlan(filepath.Join(root, s.Runs[0])); err == nil && p.Simulated == simulated {
			list = append(list, night{root, s.Created})
		}
	}
	slices.SortFunc(list, func(a, b night) int { return b.created.Compare(a.created) })
	var roots []string
	for _, n := range list[:min(len(list), lookBack)] {
		roots = append(roots, n.root)
	}
	return roots, nil
}

// globQuote makes a path mean itself in a pattern.
func globQuote(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}
