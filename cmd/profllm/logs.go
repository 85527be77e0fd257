package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/redact"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/tail"
)

type logsCmd struct {
	placeFlags
	outputFlag
	Dir    string `arg:"" optional:"" name:"run" help:"Run directory; default: the only one in the results folder."`
	Role   string `placeholder:"NAME" help:"Role or client to show: decode, decode_1, decode-0 for one rank, or job for the script; default: all, or for a failed run the log that shows the cause."`
	Follow bool   `short:"f" help:"Follow the logs until the run ends."`
	Lines  int    `short:"n" default:"20" help:"Lines to show from the end of each log, or around the cause."`
}

// Run prints what matters of a run's logs.
func (c logsCmd) Run(ctx context.Context, a *app) error {
	if c.Lines < 0 {
		return fail(exitUsage, fmt.Errorf("--lines=%d: want 0 or more", c.Lines))
	}
	if c.Follow && a.json() {
		return fail(exitUsage, errors.New("--follow prints lines as they come, but --output json prints one document at the end\n\thint: use only one of them"))
	}
	paths, err := c.paths(ctx, a, slices.DeleteFunc([]string{c.Dir}, func(dir string) bool { return dir == "" }))
	if err != nil {
		return err
	}
	dir, err := a.oneRun(paths[0])
	if err != nil {
		return err
	}
	a.answers(&logsDocument{head: head{Schema: "profllm.output.logs/1"}, Dir: dir, Logs: []logEntry{}})
	logs := runLogs(dir)
	if c.Follow {
		return a.followLogs(ctx, dir, c)
	}
	if c.Role == "" {
		if f := a.firstCause(dir); f != nil {
			return a.showCause(dir, f, c.Lines)
		}
	}
	if len(logs) == 0 {
		a.logf("%s: no logs yet\n\thint: profllm slurm status %s", relative(dir), relative(dir))
		return nil
	}
	if logs, err = chosen(logs, c.Role); err != nil {
		return fail(exitUsage, err)
	}
	var errs []error
	secrets := run.Secrets(dir)
	for _, l := range logs {
		lines, err := tail.Last(l.path, c.Lines)
		errs = append(errs, unlessGone(err))
		if err := a.printLog(l, lines, secrets, len(logs) > 1); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

// oneRun finds the run directory that a path means.
func (a *app) oneRun(path string) (string, error) {
	if _, err := os.Stat(path); err != nil {
		return "", fail(exitUsage, err)
	}
	dirs, err := a.runDirs([]string{runAbove(path)})
	switch {
	case err != nil:
		return "", err
	case len(dirs) == 0:
		return "", fail(exitUsage, fmt.Errorf("no run below %s\n\thint: name a run directory, which contains plan.json", path))
	case len(dirs) > 1:
		return "", fail(exitUsage, fmt.Errorf("%d runs below %s\n\thint: name one of them, such as %s", len(dirs), path, relative(dirs[0])))
	}
	return dirs[0], nil
}

// unlessGone takes a log that went away meanwhile for an empty one.
func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// runLog is the log of one rank of a step, or the job's own.
type runLog struct {
	path  string
	below string // of the run: the load or hook with a slash, "" for the run itself
	step  string
	rank  int
	order int // of the step in the plan
}

// jobLog names what the script itself says.
const jobLog = "job"

// label is what its lines are shown with.
func (l runLog) label() string {
	if l.step == jobLog {
		return l.below + l.step
	}
	return fmt.Sprintf("%s%s-%d", l.below, l.step, l.rank)
}

// means reports whether a name given by the user means the log.
func (l runLog) means(name string) bool {
	if i, err := strconv.Atoi(strings.TrimPrefix(l.step, name+"_")); err == nil && i >= 0 && l.step != name {
		return true // a replica
	}
	return slices.Contains([]string{l.step, l.below + l.step, l.label(), strings.TrimPrefix(l.label(), l.below)}, name)
}

// runLogs lists the logs of a run, its loads and its hooks: roles and clients as
// in the plan, each by rank, the job's own last.
func runLogs(dir string) []runLog {
	order := map[string]int{}
	belows := []string{""}
	if pl, err := run.ReadPlan(dir); err == nil {
		for _, s := range steps(pl) {
			order[s] = cmp.Or(order[s], len(order)+1)
		}
		for _, l := range pl.Loads {
			if l.Name != "" {
				if rel, err := filepath.Rel(pl.Dir, l.Dir); err == nil && rel != "." {
					belows = append(belows, rel+"/")
				}
			}
		}
	}
	for _, hooks := range []string{run.PreTestDir, run.PostTestDir} {
		entries, _ := os.ReadDir(filepath.Join(dir, hooks))
		for _, e := range entries {
			belows = append(belows, hooks+"/"+e.Name()+"/")
		}
	}
	var list []runLog
	for _, below := range belows {
		for _, sub := range []string{run.LogDir, "."} {
			list = append(list, logsIn(dir, below, sub)...)
		}
	}
	for i := range list {
		list[i].order = cmp.Or(order[list[i].step], len(order)+1)
		if list[i].step == jobLog {
			list[i].order = len(order) + 2
		}
	}
	slices.SortStableFunc(list, func(x, y runLog) int {
		return cmp.Or(slices.Index(belows, x.below)-slices.Index(belows, y.below), x.order-y.order, strings.Compare(x.step, y.step), x.rank-y.rank)
	})
	return list
}

func steps(pl *plan.Plan) (names []string) {
	for _, r := range pl.Roles {
		names = append(names, r.Step.Name, r.Name)
	}
	for _, l := range pl.Loads {
		for _, c := range l.Clients {
			names = append(names, c.Name)
		}
	}
	return names
}

// logsIn lists the logs in one folder. Beside the results of a run that has logs/
// lie copies for CloudAI; only of one that has none they are all there is.
func logsIn(dir, below, sub string) []runLog {
	at := filepath.Join(dir, below, sub)
	_, err := os.Stat(filepath.Join(dir, below, run.LogDir))
	copies := sub == "." && err == nil
	files, _ := os.ReadDir(at)
	have := map[string]bool{}
	var list []runLog
	for _, f := range files {
		plain := strings.TrimSuffix(f.Name(), ".xz")
		stem, isLog := strings.CutSuffix(plain, ".log")
		info, err := f.Info()
		if err != nil || !info.Mode().IsRegular() || info.Size() == 0 || have[plain] {
			continue
		}
		l := runLog{path: filepath.Join(at, f.Name()), below: below, step: stem}
		switch i := strings.LastIndexByte(stem, '-'); {
		case sub == "." && plain == "stderr.txt":
			l.step = jobLog
		case !isLog || copies:
			continue
		case i > 0:
			if rank, err := strconv.Atoi(stem[i+1:]); err == nil {
				l.step, l.rank = stem[:i], rank
			}
		}
		have[plain] = true
		list = append(list, l)
	}
	return list
}

// chosen keeps the logs of a role; "" means all.
func chosen(logs []runLog, role string) ([]runLog, error) {
	if role == "" {
		return logs, nil
	}
	var list []runLog
	var names []string
	for _, l := range logs {
		if l.means(role) {
			list = append(list, l)
		}
		if !slices.Contains(names, l.step) {
			names = append(names, l.step)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no log of %q\n\thint: logs exist of %s", role, strings.Join(names, ", "))
	}
	return list, nil
}

// printLog prints lines without the run's secrets: while it goes on, its logs may
// hold them.
func (a *app) printLog(l runLog, lines []string, secrets redact.Values, named bool) error {
	if d := a.logsDocument(); d != nil {
		e := logEntry{Name: l.label(), File: l.path, Lines: []logLine{}}
		for _, line := range lines {
			e.Lines = append(e.Lines, logLine{Text: secrets.Text(line)})
		}
		d.Logs = append(d.Logs, e)
		return nil
	}
	prefix := ""
	if named {
		prefix = l.label() + ": "
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(a.stdout, prefix+secrets.Text(line)); err != nil {
			return err
		}
	}
	return nil
}

// logsDocument is what logs answers in JSON, nil if it prints text.
func (a *app) logsDocument() *logsDocument {
	d, _ := a.documentOf().(*logsDocument)
	return d
}

// firstCause is the failure of a run whose log can be shown, nil for a run that
// did well or is not over.
func (a *app) firstCause(dir string) *result.Failure {
	var r result.Result
	if run.ReadJSON(filepath.Join(dir, run.ResultFile), &r) == nil && shown(r.Failure) {
		return r.Failure
	}
	if st := state(dir); !st.Final() && !hasEnded(dir) {
		return nil
	}
	col, err := a.client().Collector()
	if err != nil {
		return nil
	}
	stories, err := tellRun(col, dir) // of several loads, or not collected yet
	if err != nil {
		return nil
	}
	for _, s := range stories {
		if shown(s.Failure) {
			return s.Failure
		}
	}
	return nil
}

// shown reports whether a failure has a line that can be shown.
func shown(f *result.Failure) bool { return f != nil && f.File != "" && f.LineNumber > 0 }

// state is what was last said of a run's job.
func state(dir string) (st run.State) {
	_ = run.ReadJSON(filepath.Join(dir, run.StateFile), &st) // none: nobody has asked
	return st
}

// hasEnded reports whether a run's job has written its last file.
func hasEnded(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, run.SentinelFile))
	return err == nil
}

// showCause prints a cause's log around its line.
func (a *app) showCause(dir string, f *result.Failure, n int) error {
	after := n / 3
	file := f.File
	lines, err := tail.Around(filepath.Join(dir, file), f.LineNumber, max(0, n-after-1), after)
	if errors.Is(err, fs.ErrNotExist) { // packed since, or unpacked
		if file = f.File + ".xz"; strings.HasSuffix(f.File, ".xz") {
			file = strings.TrimSuffix(f.File, ".xz")
		}
		lines, err = tail.Around(filepath.Join(dir, file), f.LineNumber, max(0, n-after-1), after)
	}
	if err != nil {
		return err
	}
	a.logf("%s: cause %s, %s:%d (--role shows other logs)", relative(dir), f.Cause, file, f.LineNumber)
	secrets := run.Secrets(dir)
	if d := a.logsDocument(); d != nil {
		e := logEntry{Name: strings.TrimSuffix(filepath.Base(f.File), ".log"), File: filepath.Join(dir, file)}
		for _, l := range lines {
			e.Lines = append(e.Lines, logLine{l.Number, secrets.Text(l.Text), l.Number == f.LineNumber})
		}
		d.Cause, d.Logs = f, append(d.Logs, e)
		return nil
	}
	for _, l := range lines {
		mark := " "
		if l.Number == f.LineNumber {
			mark = ">"
		}
		if _, err := fmt.Fprintf(a.stdout, "%s %6d  %s\n", mark, l.Number, secrets.Text(l.Text)); err != nil {
			return err
		}
	}
	return nil
}

// logPause is the time between two looks at the logs.
const logPause = 500 * time.Millisecond

// followLogs prints what is added to the logs until the run is over. Slurm is
// asked rarely: the run's last file says most ends.
func (a *app) followLogs(ctx context.Context, dir string, c logsCmd) error {
	followers := map[string]*tail.Follower{} // by path, without what says that it is packed
	ask, secrets := a.runEnd(ctx, dir), run.Secrets(dir)
	for over := false; ; {
		last := over
		logs, err := chosen(runLogs(dir), c.Role)
		if err != nil && (last || !mayLog(dir, c.Role)) {
			return fail(exitUsage, err)
		}
		for _, l := range logs {
			key := strings.TrimSuffix(l.path, ".xz")
			f := followers[key]
			if f == nil {
				f = &tail.Follower{Path: l.path, Last: c.Lines}
				followers[key] = f
			}
			lines, err := f.More()
			if err != nil {
				return err
			}
			if last {
				lines = append(lines, f.Rest()...)
			}
			if err := a.printLog(l, lines, secrets, c.Role == "" || len(logs) > 1); err != nil {
				return err
			}
		}
		if last {
			return nil
		}
		if over = ask(); over {
			continue // once more: what was written meanwhile
		}
		select {
		case <-ctx.Done():
			return fail(exitInterrupted, errors.New("interrupted; the run continues"))
		case <-time.After(logPause):
		}
	}
}

// mayLog reports whether a run may yet get a log that a name means.
func mayLog(dir, name string) bool {
	pl, err := run.ReadPlan(dir)
	if err != nil || name == jobLog || strings.Contains(name, "/") { // "/": of a load or a hook
		return true
	}
	return slices.ContainsFunc(steps(pl), func(step string) bool {
		return step == name || strings.HasPrefix(step, name+"_") || strings.HasPrefix(name, step+"-")
	})
}

// runEnd returns a function that says whether a run is over: by its files each
// time, by Slurm with pauses that grow.
func (a *app) runEnd(ctx context.Context, dir string) func() bool {
	dirs := []string{dir}
	subs := a.client().JobsOnRecord(dirs)
	pause, next := time.Second, a.now()
	return func() bool {
		var sentinel run.Sentinel
		if run.ReadJSON(filepath.Join(dir, run.SentinelFile), &sentinel) == nil && (subs[dir].JobID == "" || sentinel.JobID == subs[dir].JobID) {
			return true
		}
		if a.now().Before(next) {
			return false
		}
		next, pause = a.now().Add(pause), min(2*pause, time.Minute)
		subs = a.client().JobsOnRecord(dirs) // a job may have been submitted meanwhile
		states, err := a.client().States(ctx, dirs, subs)
		return err == nil && states[dir].Final()
	}
}
