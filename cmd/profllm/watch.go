package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/printable"
	"github.com/profllm/profllm/pkg/redact"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/tail"
	"github.com/profllm/profllm/pkg/terminal"
)

type watchCmd struct {
	placeFlags
	Paths []string `arg:"" optional:"" help:"Run or scenario directories; default: unfinished runs in the results folder."`
	Once  bool     `help:"Print the current states and exit."`
}

// Run shows runs until all are over, and answers for them as submit --wait does.
func (c watchCmd) Run(ctx context.Context, a *app) error {
	paths, dirs, err := c.runDirs(ctx, a, c.Paths)
	if err != nil {
		return err
	}
	if len(dirs) == 0 {
		return fail(exitUsage, fmt.Errorf("no runs below %s\n\thint: name the run or scenario directory of a submission or a rehearsal", strings.Join(paths, " ")))
	}
	client := a.client()
	subs := client.Jobs(ctx, dirs)
	states, err := client.States(ctx, dirs, subs)
	if err != nil {
		return err
	}
	var shown, jobs []string // what has no job is shown, and not waited for
	for _, dir := range dirs {
		if !isRunDir(dir) || len(c.Paths) == 0 && states[dir].Final() {
			continue
		}
		shown = append(shown, dir)
		if subs[dir].JobID != "" {
			jobs = append(jobs, dir)
		}
	}
	v := &view{app: a, dirs: shown, subs: subs, name: runNames(shown)}
	if c.Once {
		if len(shown) == 0 {
			a.logf("every run is over: profllm slurm status lists them")
		}
		return v.print(states)
	}
	if len(jobs) == 0 {
		a.logf("nothing to wait for: no run has a job that is not over")
		return v.print(states)
	}
	if cols, rows, ok := a.cursorOf(a.stdout); ok {
		v.cols, v.rows, v.colours = cols, rows, a.colour()
	}
	return a.collectAtEnd(ctx, client, jobs, subs, v.show)
}

// view shows runs: on a terminal one line for each, which changes in place,
// elsewhere a line for each change.
type view struct {
	*app
	dirs       []string
	subs       map[string]run.Submission
	name       func(dir string) string
	cols, rows int // of the terminal; 0: none
	colours    bool

	plans sync.Map          // *plan.Plan by run, nil if it cannot be read
	said  map[string]string // off a terminal
	drawn int               // lines on the terminal
}

// print writes how each run is.
func (v *view) print(states map[string]run.State) error {
	var b strings.Builder
	for _, p := range v.pictures(states) {
		b.WriteString(p.line(v.now()) + "\n")
	}
	_, err := io.WriteString(v.stdout, b.String())
	return err
}

// show is called about once a second.
func (v *view) show(states map[string]run.State) {
	pictures := v.pictures(states)
	if v.cols > 0 {
		v.draw(pictures)
		return
	}
	if v.said == nil {
		v.said = map[string]string{}
	}
	for _, p := range pictures {
		if key := p.key(); v.said[p.dir] != key {
			v.said[p.dir] = key
			fmt.Fprintf(v.stdout, "%s %s\n", v.now().Format("15:04:05"), p.line(v.now()))
		}
	}
}

const (
	up        = "\x1b[%dA"
	wipeLine  = "\x1b[K"
	wipeBelow = "\x1b[J"
)

// draw replaces what was drawn before. What does not fit the screen is counted:
// runs that are over first, then the last ones.
func (v *view) draw(pictures []picture) {
	if cols, rows, ok := v.cursorOf(v.stdout); ok { // it may have changed
		v.cols, v.rows = cols, rows
	}
	room, hidden := max(v.rows-2, 1), 0
	list := pictures
	if len(list) > room {
		var open []picture
		for _, p := range list {
			if !p.final {
				open = append(open, p)
			}
		}
		list = open[:min(len(open), room)]
		hidden = len(pictures) - len(list)
	}
	var b strings.Builder
	if v.drawn > 0 {
		fmt.Fprintf(&b, up, v.drawn)
	}
	for _, p := range list {
		b.WriteString(v.paint(p, text.Snip(printable.Line(p.line(v.now())), v.cols-1, "…")) + wipeLine + "\n")
	}
	v.drawn = len(list)
	if hidden > 0 {
		fmt.Fprintf(&b, "and %d more%s\n", hidden, wipeLine)
		v.drawn++
	}
	b.WriteString(wipeBelow)
	_, _ = io.WriteString(below(v.stdout), b.String()) // it moves the cursor
}

// paint colours a line by its run's state.
func (v *view) paint(p picture, line string) string {
	return terminal.Screen{Colour: v.colours}.Paint(stateTone(run.State{State: p.phase}), line)
}

// picture is what there is to see of a run.
type picture struct {
	dir, name, job string
	phase          string // run.Queued, …
	state          string // the same, with its note
	reason         string // Slurm's, or why nothing is known
	final          bool
	since          time.Time
	ready, roles   int
	doing          string // load and phase
	done, total    int    // of what the client does; total 0: not known
	behind, words  string // a role that is not ready, and the last of its log
}

// pictures reads what the directories of all runs hold.
func (v *view) pictures(states map[string]run.State) []picture {
	list := make([]picture, len(v.dirs))
	run.AtOnce(len(list), run.SmallFiles, func(i int) { list[i] = v.picture(v.dirs[i], states[v.dirs[i]]) })
	return list
}

// picture reads what the run's directory holds.
func (v *view) picture(dir string, st run.State) picture {
	sub := v.subs[dir]
	p := picture{dir: dir, name: v.name(dir), job: sub.JobID, phase: st.State, final: st.Final(),
		state: st.State + prefixed(" ", st.Note), reason: st.Reason, since: sub.Time}
	switch {
	case sub.Refused != "":
		p.state = "refused: " + sub.Refused
	case sub.JobID == "":
		p.state = "not submitted"
	}
	var claim run.Claim
	began := run.ReadJSON(filepath.Join(dir, run.ClaimFile), &claim) == nil && claim.JobID == sub.JobID
	var sentinel run.Sentinel
	over := run.ReadJSON(filepath.Join(dir, run.SentinelFile), &sentinel) == nil && sentinel.JobID == sub.JobID
	switch {
	case p.final && over:
		p.since = sentinel.Time
	case p.final:
		p.since = st.At
	case began:
		p.since = claim.Time
	case st.State == run.Running: // its script has yet to say so
		p.since = time.Time{}
	}
	if began && !p.final {
		v.inside(&p)
	}
	if point(dir) {
		if pl := v.plan(dir); pl != nil {
			p.name = strings.TrimSpace(p.name + " " + pl.PointText())
		}
	}
	return p
}

// inside adds what happens in the allocation.
func (v *view) inside(p *picture) {
	pl := v.plan(p.dir)
	events, err := job.ReadEvents(p.dir)
	if pl == nil || err != nil {
		return
	}
	p.roles = len(pl.Roles)
	ready, client, stopping := map[string]bool{}, "", false
	for _, e := range events {
		switch e.Event {
		case job.RoleReady:
			ready[e.Role] = true
		case job.RoleDied:
			delete(ready, e.Role)
			p.doing = e.Role + " died"
		case job.ClientBegins:
			client, p.doing = e.Text, e.Text
		case job.ClientEnded:
			client, p.doing = "", e.Text+" ended"
		case job.Stopping:
			client, p.doing, stopping = "", "stopping", true
		}
	}
	p.ready = len(ready)
	if client != "" {
		p.done, p.total = progress(p.dir, pl, client)
		p.doing += loadText(pl, client)
	}
	for i := range pl.Roles {
		if r := &pl.Roles[i]; !ready[r.Name] && !stopping {
			p.behind, p.words = r.Name, redact.Line(lastWords(filepath.Join(p.dir, rankLog(&r.Step))))
			if run.KeepsSecrets(p.dir) {
				p.words = run.Secrets(p.dir).Text(p.words)
			}
			return
		}
	}
}

// loadText is what a sweep chose for the load of a client, in brackets; "" for nothing.
func loadText(pl *plan.Plan, phase string) string {
	for i := range pl.Loads {
		l := &pl.Loads[i]
		if slices.ContainsFunc(l.Clients, func(c plan.Step) bool { return l.Phase(c.Name) == phase }) {
			if text := pl.LoadText(l); text != "" {
				return " (" + text + ")"
			}
		}
	}
	return ""
}

// plan reads a plan once: it does not change.
func (v *view) plan(dir string) *plan.Plan {
	if pl, ok := v.plans.Load(dir); ok {
		return pl.(*plan.Plan)
	}
	pl, err := run.ReadPlan(dir)
	if err != nil {
		pl = nil
	}
	v.plans.Store(dir, pl)
	return pl
}

// rankLog is the log of a step's first rank.
func rankLog(s *plan.Step) string { return strings.ReplaceAll(s.Log, "%t", "0") }

// progressRoom is the end of a log in which a progress bar is looked for.
const progressRoom = 8 << 10

// progress says how far the client of a phase has come, by its own log.
func progress(dir string, pl *plan.Plan, phase string) (done, total int) {
	for i := range pl.Loads {
		l := &pl.Loads[i]
		for j := range l.Clients {
			if l.Phase(l.Clients[j].Name) != phase {
				continue
			}
			log := rankLog(&l.Clients[j])
			if !filepath.IsAbs(log) {
				log = filepath.Join(dir, log)
			}
			text, _ := tail.End(log, progressRoom) // a log that is not there yet says nothing
			done, total, _ = tail.Progress(text)
			return done, total
		}
	}
	return 0, 0
}

// stamp is what vLLM puts before what it says.
var stamp = regexp.MustCompile(`^(\([^)]*\) )?(?:INFO (\d\d-\d\d )?[\d:]{8} (\[[^\]]*\] )?)?`)

// lastWords is the last line of a log that says something.
func lastWords(path string) string {
	const enough = 20
	lines, _ := tail.Last(path, enough)
	for i := len(lines) - 1; i >= 0; i-- {
		if strings.ContainsFunc(lines[i], unicode.IsLetter) {
			return strings.TrimSpace(strings.TrimPrefix(lines[i], stamp.FindString(lines[i])))
		}
	}
	return ""
}

// line is the picture for a person.
func (p picture) line(now time.Time) string {
	parts := []string{p.name}
	if p.job != "" {
		parts = append(parts, "job "+p.job)
	}
	switch {
	case p.since.IsZero() || p.job == "":
		parts = append(parts, p.state)
	case p.final:
		parts = append(parts, p.state+" at "+p.since.Local().Format("15:04:05"))
	default:
		parts = append(parts, p.state+" for "+max(0, now.Sub(p.since)).Truncate(time.Second).String())
	}
	if p.roles > 0 {
		parts = append(parts, fmt.Sprintf("ready %d/%d", p.ready, p.roles))
	}
	if p.doing != "" {
		parts = append(parts, p.doing)
	}
	if p.total > 0 {
		parts = append(parts, fmt.Sprintf("%d/%d", p.done, p.total))
	}
	if p.words != "" {
		parts = append(parts, p.behind+": "+p.words)
	}
	if p.reason != "" && p.reason != "None" {
		parts = append(parts, "("+p.reason+")")
	}
	return strings.Join(parts, "  ")
}

// key changes when there is news: of a progress each quarter, of what a role says
// or why nothing is known none.
func (p picture) key() string {
	quarter := 0
	if p.total > 0 {
		quarter = 4 * p.done / p.total
	}
	reason := p.reason
	if p.phase == run.Unknown {
		reason = ""
	}
	return fmt.Sprint(p.state, reason, p.ready, "/", p.roles, p.doing, quarter)
}
