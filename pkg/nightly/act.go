package nightly

import (
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
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/run"
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

// Act is one call for a scenario's nights: it continues an interrupted night or submits a
// new one, and judges the newest finished night. It is safe to call while the last night
// still runs, and on several hosts.
type Act struct {
	Client *campaign.Client
	Wait   bool                      // tonight's jobs are over when Submit returns
	Allow  func(campaign.Cost) error // agrees to the cost of a night
	Submit func(root string) error   // a job that failed and a result that is invalid are no error
	Judge  Options
}

// Outcome is what one call did and saw.
type Outcome struct {
	Scenario string   `json:"scenario"`
	Root     string   `json:"root,omitempty"` // tonight's directory, if jobs were submitted
	Act      string   `json:"act"`
	Verdict  *Verdict `json:"verdict,omitempty"` // of the newest night, if it is over and was not told yet

	told   string // the file that says that it was
	failed bool   // tonight's jobs were not submitted, or one of them is stuck
}

// News reports whether there is something to print with --quiet.
func (o Outcome) News() bool { return o.Verdict != nil && len(o.Verdict.Changes) > 0 }

// Told records that the verdict was delivered, so that the next call does not deliver it
// again. It is called last: if a command is killed before, the next call delivers the
// news.
func (o Outcome) Told() error {
	if o.told == "" {
		return nil
	}
	return run.WriteJSON(o.told, o.Verdict)
}

// JUnit writes the verdict, or a case that says why there is none: an error if tonight's jobs
// need somebody, else skipped.
func (o Outcome) JUnit(w io.Writer) error {
	if o.Verdict != nil {
		return o.Verdict.JUnit(w)
	}
	name, outcome := "nightly "+o.Scenario, junit.Skipped
	if o.failed {
		outcome = junit.Broken
	}
	return junit.Write(w, []junit.Suite{{Name: name,
		Cases: []junit.Case{{Class: name, Name: "night", Outcome: outcome, Type: "not judged", Message: o.Act}}}})
}

// Night takes the scenario's lease and does the work of one call. Beside an error, Outcome
// is what was done until then.
func (a Act) Night(ctx context.Context, p *campaign.Planned) (o Outcome, err error) {
	o.Scenario = p.Name
	l, err := lease.Acquire(filepath.Join(filepath.Dir(p.Root), leaseDir, p.Name), lease.Options{Now: a.Client.Now})
	var held *lease.HeldError
	if errors.As(err, &held) {
		o.Act = held.Error() + "; nothing was done"
		return o, nil
	}
	if err != nil {
		return o, err
	}
	renewed := l.KeepRenewed(ctx, renewEvery, func(err error) { a.Client.Events.Say(campaign.Note, err.Error()) })
	err = a.act(ctx, p, &o)
	renewed()
	return o, errors.Join(err, l.Release())
}

// act is the work of a night, while no other command does it.
func (a Act) act(ctx context.Context, p *campaign.Planned, o *Outcome) error {
	output := filepath.Dir(p.Root)
	nights, open, err := a.nights(ctx, output, p.Name, p.Simulated)
	if err != nil {
		return err
	}
	submitErr := error(nil)
	if open.Stuck != nil { // no later night would be submitted either
		submitErr = &campaign.Error{Kind: campaign.NotSubmitted, Err: open.Stuck}
	} else if open.Text != "" && !a.interrupted(p) {
		o.Act = open.Text + "; nothing was submitted"
	} else if submitErr = a.submit(p, o); submitErr != nil && ctx.Err() != nil {
		return submitErr
	} else if a.Wait && o.Root != "" {
		if nights, _, err = a.nights(ctx, output, p.Name, p.Simulated); err != nil {
			return err
		}
	}
	over := a.Wait
	if submitErr != nil {
		o.failed, over = true, false
		if stuck := (*campaign.StuckError)(nil); o.Root == "" || !errors.As(submitErr, &stuck) {
			o.Act = "tonight's jobs were not submitted"
		}
	}
	if !over { // an interrupted night that goes on looks like one that left nothing
		nights = slices.DeleteFunc(nights, func(n Night) bool { return n.Root == o.Root })
	}
	return errors.Join(submitErr, a.judge(nights, o))
}

// interrupted reports whether a submission of these definitions was: some jobs of such a night may run, and
// the others were never submitted.
func (a Act) interrupted(p *campaign.Planned) bool {
	root, err := a.Client.Unfinished(p)
	return err == nil && root != ""
}

// submit goes on with an interrupted night, or begins one.
func (a Act) submit(p *campaign.Planned, o *Outcome) error {
	root, err := a.Client.Unfinished(p)
	if err != nil {
		a.Client.Events.Say(campaign.Note, err.Error()) // its jobs, if any, are over: that was looked at
	}
	if root == "" {
		if err := a.Client.BeginAnew(p, a.Allow); err != nil {
			return err
		}
		root = p.Root
	}
	o.Root = root
	o.Act = fmt.Sprintf("submitted %s", campaign.Relative(a.Client.WorkDir, root))
	return a.Submit(root)
}

// judge compares the newest night with the others, unless that was told before.
func (a Act) judge(nights []Night, o *Outcome) error {
	if len(nights) == 0 {
		o.Act += "; no night is over yet"
		return nil
	}
	newest := nights[0]
	told := filepath.Join(newest.Root, toldFile)
	var old Verdict
	if run.ReadJSON(told, &old) == nil {
		o.Act += fmt.Sprintf("; no new night since %s", newest.Created.Local().Format("2006-01-02 15:04"))
		return nil
	}
	v, err := Judge(newest, nights[1:], a.Judge)
	if err != nil {
		return err
	}
	o.Verdict, o.told = &v, told
	return nil
}

// nights collects what earlier calls left, and returns the nights of a scenario
// that are over, newest first. open says which job is not, if there is one.
func (a Act) nights(ctx context.Context, output, name string,
	simulated bool) (nights []Night, open campaign.Open, err error) {
	roots, err := nightRoots(output, name, simulated)
	if err != nil {
		return nil, open, err
	}
	for _, root := range roots {
		s, err := run.ReadScenario(root)
		if err != nil {
			return nil, open, err
		}
		dirs := make([]string, len(s.Runs))
		for i, rel := range s.Runs {
			dirs[i] = filepath.Join(root, rel)
		}
		unsent := slices.Clone(dirs)
		if unsent = slices.DeleteFunc(unsent, submitted); len(unsent) == len(dirs) {
			continue // no night: its submission failed, which was said
		}
		why, err := a.Client.CatchUp(ctx, dirs)
		if err != nil {
			return nil, open, err
		}
		if why.Text != "" {
			if open.Stuck == nil {
				open = why
			}
			continue
		}
		runs, err := records.Load(root)
		if err != nil {
			return nil, open, err
		}
		for i := range runs {
			for _, dir := range unsent {
				if runs[i].Dir == dir || strings.HasPrefix(runs[i].Dir, dir+"/") {
					runs[i].Result, runs[i].Problem = nil, "the run was never submitted"
				}
			}
		}
		nights = append(nights, Night{Root: root, Created: s.Created, Runs: runs})
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
