// Package runlog finds the logs of a run, of its loads and of its hooks: which there are, which of
// them a name means, which lines around the first cause of a failure matter, and which lines were
// added since the last look.
//
//	logs, err := runlog.Choose(runlog.List(dir), "decode")
//	lines, err := tail.Last(logs[0].Path, 20)
package runlog

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/source"
)

// Log is the log of one rank of a step, or the job's own.
type Log struct {
	Path  string
	Below string // of the run: the load or hook with a slash, "" for the run itself
	Step  string
	Rank  int

	order int // of the step in the plan
}

// Job is the step that names what the job's script itself prints.
const Job = run.JobStep

// Label is what its lines are shown with.
func (l Log) Label() string {
	if l.Step == Job {
		return l.place() + l.Step
	}
	return fmt.Sprintf("%s%s-%d", l.place(), l.Step, l.Rank)
}

// place is Below as it is shown: 5/ of a point of a sweep, which lies beside its run.
func (l Log) place() string { return strings.TrimPrefix(l.Below, "../") }

// Means reports whether a name given by the user means the log.
func (l Log) Means(name string) bool {
	if i, err := strconv.Atoi(strings.TrimPrefix(l.Step, name+"_")); err == nil && i >= 0 && l.Step != name {
		return true // a replica
	}
	names := []string{
		l.Step, l.Below + l.Step, l.place() + l.Step, l.Label(), strings.TrimPrefix(l.Label(), l.place()),
	}
	return slices.Contains(names, name)
}

// List lists the logs of a run, its loads and its hooks: roles and clients as in the plan, each by
// rank, the job's own last.
func List(dir string) []Log {
	order := map[string]int{}
	belows := []string{""}
	if pl, err := run.ReadPlan(dir); err == nil {
		for _, s := range steps(pl) {
			order[s] = cmp.Or(order[s], len(order)+1)
		}
		belows = append(belows, loadFolders(pl)...)
	}
	for _, hooks := range []string{run.PreTestDir, run.PostTestDir} {
		entries, _ := os.ReadDir(filepath.Join(dir, hooks))
		for _, e := range entries {
			belows = append(belows, hooks+"/"+e.Name()+"/")
		}
	}
	var list []Log
	for _, below := range belows {
		for _, sub := range []string{run.LogDir, "."} {
			list = append(list, listIn(dir, below, sub)...)
		}
	}
	for i := range list {
		list[i].order = cmp.Or(order[list[i].Step], len(order)+1)
		if list[i].Step == Job {
			list[i].order = len(order) + 2
		}
	}
	slices.SortStableFunc(list, func(x, y Log) int {
		return cmp.Or(slices.Index(belows, x.Below)-slices.Index(belows, y.Below), x.order-y.order,
			strings.Compare(x.Step, y.Step), x.Rank-y.Rank)
	})
	return list
}

// loadFolders are the folders of a plan's named loads below the run's, with a slash.
func loadFolders(pl *plan.Plan) []string {
	var belows []string
	for _, l := range pl.Loads {
		if l.Name == "" {
			continue
		}
		if rel, err := filepath.Rel(pl.Dir, l.Dir); err == nil && rel != "." {
			belows = append(belows, rel+"/")
		}
	}
	return belows
}

// steps are the steps of a plan whose logs have names.
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

// listIn lists the logs in one folder. The logs beside the results of a run are copies for
// CloudAI if the run has a folder logs/, and else all that there are.
func listIn(dir, below, sub string) []Log {
	at := filepath.Join(dir, below, sub)
	_, err := os.Stat(filepath.Join(dir, below, run.LogDir))
	copies := sub == "." && err == nil
	files, _ := os.ReadDir(at)
	have := map[string]bool{}
	var list []Log
	for _, f := range files {
		plain := strings.TrimSuffix(f.Name(), ".xz")
		stem, isLog := strings.CutSuffix(plain, ".log")
		info, err := f.Info()
		if err != nil || !info.Mode().IsRegular() || info.Size() == 0 || have[plain] {
			continue
		}
		l := Log{Path: filepath.Join(at, f.Name()), Below: below, Step: stem}
		switch i := strings.LastIndexByte(stem, '-'); {
		case sub == "." && plain == "stderr.txt":
			l.Step = Job
		case !isLog || copies:
			continue
		case i > 0:
			if rank, err := strconv.Atoi(stem[i+1:]); err == nil {
				l.Step, l.Rank = stem[:i], rank
			}
		}
		have[plain] = true
		list = append(list, l)
	}
	return list
}

// Choose keeps the logs that a name means; "" means all.
func Choose(logs []Log, name string) ([]Log, error) {
	if name == "" {
		return logs, nil
	}
	var list []Log
	var names []string
	for _, l := range logs {
		if l.Means(name) {
			list = append(list, l)
		}
		if !slices.Contains(names, l.Step) {
			names = append(names, l.Step)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no log of %q\n\thint: %s", name, source.Suggest(name, names))
	}
	return list, nil
}

// MayCome reports whether a run may yet get a log that a name means.
func MayCome(dir, name string) bool {
	pl, err := run.ReadPlan(dir)
	if err != nil || name == Job || strings.Contains(name, "/") { // "/": of a load or a hook
		return true
	}
	return slices.ContainsFunc(steps(pl), func(step string) bool {
		return step == name || strings.HasPrefix(step, name+"_") || strings.HasPrefix(name, step+"-")
	})
}
