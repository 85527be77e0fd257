// Package progress tells how far runs are: the state of each one's job, how many of its roles are
// ready, which load and which phase of the script it is in, and the last line of the log of a role that is not ready.
// It reads the directories of the runs; what the scheduler knows is an argument.
//
//	r := progress.Reader{Dirs: dirs, Jobs: jobs, Name: filepath.Base}
//	for _, p := range r.Read(states) {
//		fmt.Println(p.Line(time.Now()))
//	}
package progress

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/redact"
	"github.com/profllm/profllm/pkg/run"
)

// Progress is how far a run is.
type Progress struct {
	Dir    string // of the run
	Name   string // as it is to be shown
	Job    string // its id, "" if there is none
	State  string // of the job: run.Queued, …
	Final  bool   // State is one that does not change
	Text   string // State with its note, or why there is no job
	Reason string // Slurm's, or why nothing is known
	Since  time.Time

	Ready, Roles int
	Doing        string // load and phase
	Done, Total  int    // of what the client does; Total 0: not known
	Live         Live

	Waiting   string // a role that is not ready
	LastWords string // the last line of its log that has words
}

// Reader reads the progress of runs. It reads each plan once.
type Reader struct {
	Dirs []string                  // of the runs
	Jobs map[string]run.Submission // by directory
	Name func(dir string) string   // as a run is to be shown
	Now  func() time.Time          // nil: how long clients still need is not estimated

	plans sync.Map // *plan.Plan by run, nil if it cannot be read
}

// Read reads the progress of all runs, whose jobs have the given states by directory.
func (r *Reader) Read(states map[string]run.State) []Progress {
	list := make([]Progress, len(r.Dirs))
	run.AtOnce(len(list), run.SmallFiles, func(i int) { list[i] = r.one(r.Dirs[i], states[r.Dirs[i]]) })
	return list
}

func (r *Reader) one(dir string, st run.State) Progress {
	sub := r.Jobs[dir]
	p := Progress{
		Dir: dir, Name: r.Name(dir), Job: sub.JobID, State: st.State, Final: st.Final(),
		Text: st.State, Reason: st.Reason, Since: sub.Time,
	}
	if st.Note != "" {
		p.Text += " " + st.Note
	}
	switch {
	case sub.Refused != "":
		p.Text = "refused: " + sub.Refused
	case sub.JobID == "":
		p.Text = "not submitted"
	}
	var claim run.Claim
	began := run.ReadJSON(filepath.Join(dir, run.ClaimFile), &claim) == nil && claim.JobID == sub.JobID
	var sentinel run.Sentinel
	over := run.ReadJSON(filepath.Join(dir, run.SentinelFile), &sentinel) == nil && sentinel.JobID == sub.JobID
	switch {
	case p.Final && over:
		p.Since = sentinel.Time
	case p.Final:
		p.Since = st.At
	case began:
		p.Since = claim.Time
	case st.State == run.Running: // its script has yet to say so
		p.Since = time.Time{}
	}
	if began && !p.Final {
		r.inside(&p)
	}
	if run.IsPoint(dir) {
		if pl := r.plan(dir); pl != nil {
			p.Name = strings.TrimSpace(p.Name + " " + pl.PointText())
		}
	}
	return p
}

// inside adds what happens in the allocation.
func (r *Reader) inside(p *Progress) {
	pl := r.plan(p.Dir)
	events, err := job.ReadEvents(p.Dir)
	if pl == nil || err != nil {
		return
	}
	p.Roles = len(pl.Roles)
	ready, client, stopping := map[string]bool{}, "", false
	var began time.Time // the client
	for _, e := range events {
		switch e.Event {
		case job.RoleReady:
			ready[e.Role] = true
		case job.RoleDied:
			delete(ready, e.Role)
			p.Doing = e.Role + " died"
		case job.ClientBegins:
			client, p.Doing, began = e.Text, e.Text, e.Time
		case job.ClientEnded:
			client, p.Doing = "", e.Text+" ended"
		case job.TraceStopping: // a large trace takes minutes
			p.Doing = "servers write their traces"
		case job.TraceStopped:
			p.Doing = "traces written"
		case job.Stopping:
			client, p.Doing, stopping = "", "stopping", true
		}
	}
	p.Ready = len(ready)
	if client != "" {
		p.Done, p.Total = clientProgress(p.Dir, pl, client)
		p.Live = live(p.Dir, pl, client)
		if p.Done > 0 && p.Total > p.Done && r.Now != nil {
			p.Live.Left = time.Duration(float64(r.Now().Sub(began)) * float64(p.Total-p.Done) / float64(p.Done))
		}
		p.Doing += loadText(pl, client)
	}
	for i := range pl.Roles {
		if role := &pl.Roles[i]; !ready[role.Name] && !stopping {
			p.Waiting = role.Name
			p.LastWords = redact.Line(lastWords(filepath.Join(p.Dir, rankLog(&role.Step))))
			if run.KeepsSecrets(p.Dir) {
				p.LastWords = run.Secrets(p.Dir).Text(p.LastWords)
			}
			return
		}
	}
}

// plan reads a plan once: it does not change.
func (r *Reader) plan(dir string) *plan.Plan {
	if pl, ok := r.plans.Load(dir); ok {
		return pl.(*plan.Plan)
	}
	pl, err := run.ReadPlan(dir)
	if err != nil {
		pl = nil
	}
	r.plans.Store(dir, pl)
	return pl
}

// Line is the progress for a person.
func (p Progress) Line(now time.Time) string {
	parts := []string{p.Name}
	if p.Job != "" {
		parts = append(parts, "job "+p.Job)
	}
	switch {
	case p.Since.IsZero() || p.Job == "":
		parts = append(parts, p.Text)
	case p.Final:
		parts = append(parts, p.Text+" at "+p.Since.In(now.Location()).Format("15:04:05"))
	default:
		parts = append(parts, p.Text+" for "+max(0, now.Sub(p.Since)).Truncate(time.Second).String())
	}
	if inside := p.Inside(); inside != "" {
		parts = append(parts, inside)
	}
	if p.Reason != "" && p.Reason != "None" {
		parts = append(parts, "("+p.Reason+")")
	}
	return strings.Join(parts, "  ")
}

// Inside is what happens in the allocation, for a person; "" if nothing is known.
func (p Progress) Inside() string {
	var parts []string
	if p.Roles > 0 {
		parts = append(parts, fmt.Sprintf("ready %d/%d", p.Ready, p.Roles))
	}
	if p.Doing != "" {
		parts = append(parts, p.Doing)
	}
	if p.Total > 0 {
		parts = append(parts, fmt.Sprintf("%d/%d", p.Done, p.Total))
	}
	if live := p.Live.String(); live != "" {
		parts = append(parts, live)
	}
	if p.LastWords != "" {
		parts = append(parts, p.Waiting+": "+p.LastWords)
	}
	return strings.Join(parts, "  ")
}

// Key changes when there is news. A client's progress is news each quarter; what a role says, or
// why nothing is known, is none.
func (p Progress) Key() string {
	quarter := 0
	if p.Total > 0 {
		quarter = 4 * p.Done / p.Total
	}
	reason := p.Reason
	if p.State == run.Unknown {
		reason = ""
	}
	return fmt.Sprint(p.Text, reason, p.Ready, "/", p.Roles, p.Doing, quarter)
}

// Fit chooses what a screen of so many lines shows: all, or else the first runs that are not over.
func Fit(all []Progress, lines int) []Progress {
	if len(all) <= lines {
		return all
	}
	var open []Progress
	for _, p := range all {
		if !p.Final {
			open = append(open, p)
		}
	}
	return open[:min(len(open), lines)]
}
