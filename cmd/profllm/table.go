package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/profllm/profllm/pkg/campaign"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/terminal"
)

// planTable is what a person checks before he submits.
func planTable(p *plan.Plan, s terminal.Screen) string {
	t := terminal.Table{Columns: []terminal.Column{
		{Name: "role"}, {Name: "nodes"}, {Name: "GPUs on each"}, {Name: "TP x PP x DP", Drop: 4}, {Name: "port", Drop: 3},
		{Name: "ready at", Drop: 2}, {Name: "within", Drop: 1},
	}}
	port := func(name string) string {
		for _, x := range p.Ports {
			if x.Name == name {
				return fmt.Sprintf("%d + %d x slot", x.Base, x.Step)
			}
		}
		return ""
	}
	for _, r := range p.Roles {
		sizes := ""
		if r.Engine {
			sizes = fmt.Sprintf("%d x %d x %d", r.TP, r.PP, r.DP)
		}
		t.Row(cells(r.Name, r.Nodes, plan.FormatGPUs(r.GPUs), sizes, port(r.Health.Port), r.Health.Path,
			fmt.Sprintf("%gs", asSeconds(r.Timeout)))...)
	}
	for _, c := range clients(p) {
		t.Row(cells(c.name, c.nodes, "", "", "", "", "")...)
	}
	simulated := ""
	if p.Simulated {
		simulated = ", SIMULATED engine"
	}
	return fmt.Sprintf("# %s: %s%s, launcher %s%s, run %s\n%s\n%s", runTitle(p), quantity.Count(p.Job.Nodes, "node"), gpusOf(p), p.Launcher, simulated, p.RunID,
		t.Text(s), seriesLines(p))
}

// runTitle is the test of a run, with its iteration or the points of its sweep.
func runTitle(p *plan.Plan) string {
	switch steps := p.Steps(); {
	case len(steps) == 1:
		return fmt.Sprintf("%s, point %d", p.Test, steps[0])
	case len(steps) > 1:
		return fmt.Sprintf("%s, points %s", p.Test, quantity.Ranges(steps))
	case p.Iteration > 0:
		return fmt.Sprintf("%s, iteration %d", p.Test, p.Iteration)
	}
	return p.Test
}

// gpusOf says how many GPUs a job gets, and how many of them its roles make use of.
func gpusOf(p *plan.Plan) string {
	switch {
	case len(p.Roles) == 0:
		return ""
	case p.Allocated() > 0:
		return fmt.Sprintf(", %s allocated, %d used", quantity.Count(p.Allocated(), "GPU"), p.Used())
	}
	return fmt.Sprintf(", %s used", quantity.Count(p.Used(), "GPU"))
}

type clientRow struct{ name, nodes string }

// clients are the clients of all loads, each once.
func clients(p *plan.Plan) []clientRow {
	var list []clientRow
	times := map[string]int{}
	for _, l := range p.Loads {
		for _, c := range l.Clients {
			if times[c.Name]++; times[c.Name] == 1 {
				list = append(list, clientRow{c.Name, c.Nodes.String()})
			}
		}
	}
	for i, c := range list {
		if n := times[c.name]; n > 1 {
			list[i].name = fmt.Sprintf("%s (%d loads)", c.name, n)
		}
	}
	return list
}

func asSeconds(s plan.Seconds) float64 {
	data, _ := s.MarshalJSON()
	f, _ := strconv.ParseFloat(string(data), 64)
	return f
}

// printStates shows how the jobs of runs are. name is the command's, in its document.
func (a *app) printStates(name string, dirs []string, subs map[string]run.Submission, states map[string]run.State) error {
	lines := make([]stateEntry, len(dirs))
	for i, dir := range dirs {
		lines[i] = stateEntry{dir, subs[dir], states[dir]}
	}
	if a.json() {
		a.answers(&statesDocument{head{Schema: "profllm.output." + name + "/1"}, lines})
		return nil
	}
	wd, err := os.Getwd()
	if err != nil {
		return err
	}
	const widest = 60 // of a reason in the table; what a program complained of stands below, once
	var long []string
	points := pointTexts(dirs)
	t := terminal.Table{Columns: []terminal.Column{
		{Name: "job", Whole: true}, {Name: "state"}, {Name: "reason", Drop: 3}, {Name: "nodes", Drop: 2},
		{Name: "source", Drop: 1}, {Name: "run"}, {Name: "settings"},
	}}
	if len(points) == 0 {
		t.Columns = t.Columns[:len(t.Columns)-1]
	}
	for _, l := range lines {
		state := l.State.State
		switch {
		case l.Submission.Refused != "":
			state = "refused"
		case l.Submission.JobID == "" && isRunDir(l.Dir):
			state = "not submitted"
		}
		reason := cmp.Or(l.Submission.Refused, l.State.Reason, waited(l.Submission, l.State))
		if utf8.RuneCountInString(reason) > widest {
			if !slices.Contains(long, reason) {
				long = append(long, reason)
			}
			reason = text.Snip(reason, widest, "…")
		}
		shown := terminal.Cell{Text: strings.TrimSpace(state + " " + l.State.Note), Tone: stateTone(l.State)}
		t.Row(cells(l.Submission.JobID, shown, reason, l.State.NodeList, l.State.Source, campaign.Relative(wd, l.Dir),
			points[l.Dir])[:len(t.Columns)]...)
	}
	err = a.printTable(&t)
	for _, reason := range long {
		err = errors.Join(err, a.printLine(reason))
	}
	return err
}

// mostPoints is how many runs of sweeps are shown with their settings, which are read from
// a plan each.
const mostPoints = 200

// pointTexts are the settings of runs that measure points of a sweep, by directory.
func pointTexts(dirs []string) map[string]string {
	swept := slices.DeleteFunc(slices.Clone(dirs), func(dir string) bool { return !point(dir) })
	if len(swept) > mostPoints {
		return nil
	}
	texts := make([]string, len(swept))
	run.AtOnce(len(swept), run.SmallFiles, func(i int) {
		if p, err := run.ReadPlan(swept[i]); err == nil { // what cannot be read is told by who needs it
			texts[i] = p.PointText()
		}
	})
	of := map[string]string{}
	for i, dir := range swept {
		if texts[i] != "" {
			of[dir] = texts[i]
		}
	}
	return of
}

// point reports whether a directory has the place of a point: <test>/<iteration>/<step>.
func point(dir string) bool {
	number := func(path string) bool { _, err := strconv.Atoi(filepath.Base(path)); return err == nil }
	return number(dir) && number(filepath.Dir(dir))
}

// waited says what a job that never began was waiting for.
func waited(sub run.Submission, st run.State) string {
	if st.Note != run.NeverRan {
		return ""
	}
	return prefixed("waited for ", strings.Join(sub.Waits, ", "))
}

// runName is the place of a run, or of a load, below its scenario's directory;
// without one the last two elements.
func runName(dir string) string {
	if name, ok := inArchive(dir); ok {
		return name
	}
	for root := filepath.Dir(dir); root != filepath.Dir(root); root = filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, run.ScenarioFile)); err != nil {
			continue
		}
		if name, err := filepath.Rel(root, dir); err == nil {
			return name
		}
	}
	return filepath.Join(filepath.Base(filepath.Dir(dir)), filepath.Base(dir))
}

func (row row) verdict() string {
	r := row.Result
	if r.Status == result.Unknown {
		return cmp.Or(row.NoJob, "not over") // no verdict before the end
	}
	s := string(r.Validity.Verdict)
	if r.Status != result.Completed {
		s = string(r.Status) + ", " + s
	}
	if r.Simulated {
		s += fmt.Sprintf(" (%s)", report.KindOf(r))
	}
	switch p := r.Provenance; {
	case p.From() == "":
	case p.Imported != nil:
		s += " (imported)"
	default:
		s += " (foreign)"
	}
	return s
}

func number[T int | float64](v *T, format string) string {
	if v == nil {
		return ""
	}
	return fmt.Sprintf(format, *v)
}

// latency is the median and P99; – stands for one that a check withholds.
func latency(r *result.Result, f result.Family) string {
	d, ok := r.Results.Latency[f]
	if !ok {
		return ""
	}
	shown := func(stat string, rank float64) string {
		v, ok := d.Percentile(rank)
		switch {
		case !ok:
			return ""
		case r.Validity.Withholds(f.Key(stat)):
			return "–"
		}
		return fmt.Sprintf("%.1f", v)
	}
	p50, p99 := shown("median", 50), shown("p99", 99)
	if p50 == "" || p99 == "" {
		return ""
	}
	return p50 + " / " + p99
}

// notes explains a verdict that is not simply valid.
func notes(name string, r row) []string {
	var lines []string
	if r.Result.Status == result.Unknown {
		return nil
	}
	for _, c := range r.Result.Validity.Checks {
		if c.Outcome == result.Fail && (c.Severity == result.Invalid || c.Severity == result.Suspect) {
			lines = append(lines, fmt.Sprintf("%s: %s %s: %s", name, c.Severity, c.Word, c.Detail))
		}
	}
	for _, w := range r.Result.Warnings {
		switch w.Kind {
		case result.CheckFailed, result.HookFailed, result.NodeUnclean:
			lines = append(lines, fmt.Sprintf("%s: %s: %s", name, w.Key, w.Text))
		case result.SecretInLog, result.Unreadable, result.Truncated, result.BadValue:
			lines = append(lines, fmt.Sprintf("%s: %s: %s: %s", name, w.Kind, placeIn(w.File, w.Line), w.Text))
		}
	}
	if f := r.Result.Failure; f != nil && f.Line != "" && !(f.Confidence == result.NoCause && r.Result.Status == result.Cancelled) {
		lines = append(lines, fmt.Sprintf("%s: cause %s (%s): %s: %s", name, f.Cause, f.Confidence, placeIn(f.File, f.LineNumber), f.Line))
		lines = append(lines, fmt.Sprintf("%s: next: %s", name, f.Next))
	}
	return lines
}

// placeIn is a line of a file; 0: the file.
func placeIn(file string, line int) string {
	if line > 0 {
		return file + ":" + strconv.Itoa(line)
	}
	return file
}
