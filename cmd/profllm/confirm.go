package main

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/catalog"
	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/definition"
	"github.com/profllm/profllm/pkg/render"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/stage"
	"github.com/profllm/profllm/pkg/stats"
)

type confirmCmd struct {
	makeFlags
	submitFlags
	reportFlags
	First        string   `arg:"" help:"Baseline: FILE, FILE#TEST, or a directory of runs, whose stored definitions are used. Alone: the directory of a confirmation to resume and judge."`
	Second       string   `arg:"" optional:"" help:"Likewise."`
	Pairs        int      `help:"Runs of each, an even number; default: the fewest with which one metric alone can be found to differ."`
	Metric       []string `placeholder:"KEY" help:"Judge these metrics instead of throughput, TTFT, TPOT and accuracy: keys of results; fewer need fewer pairs."`
	Jobs         bool     `help:"Each run is a job of its own, one after the other, instead of one allocation."`
	Simulate     bool     `help:"Run the simulated engine on Slurm; the verdict is of simulated numbers."`
	Rehearse     bool     `help:"Run the simulated engine on this machine, and wait."`
	DryRun       bool     `help:"Print the plan and every script; submit nothing."`
	New          bool     `help:"Start a new submission although an earlier one of this confirmation was interrupted."`
	Yes          bool     `short:"y" help:"Skip the cost confirmation."`
	MaxNodeHours float64  `default:"100" help:"Refuse to submit more node-hours than this, by the time limits."`
}

// Validate implements kong's interface.
func (c confirmCmd) Validate() error {
	switch least := stats.LeastPairs(1); {
	case c.Second == "" && (c.Pairs != 0 || len(c.Metric) > 0 || c.Jobs || c.Simulate || c.Rehearse || c.DryRun || c.New):
		return errors.New("a confirmation that was begun keeps its pairs and metrics: give two tests, or only its directory")
	case c.Pairs != 0 && (c.Pairs < least || c.Pairs > stats.MaxPairs || c.Pairs%2 != 0):
		return fmt.Errorf("--pairs must be an even number from %d to %d: fewer pairs cannot prove a difference, and an odd number does not cancel drift", least, stats.MaxPairs)
	}
	return nil
}

// Run submits what is not submitted, waits if it shall, and answers as compare does.
func (c confirmCmd) Run(a *app) error {
	if c.Second == "" {
		return c.goOn(a)
	}
	c.live = !c.Rehearse && !c.DryRun
	p, err := c.plan(a)
	if err != nil {
		return err
	}
	if c.DryRun {
		return a.printPlans(p, "text")
	}
	q := *a // what the steps say is no answer
	q.stdout = a.stderr
	root := p.Root
	if c.Rehearse {
		err = q.rehearse(p)
	} else {
		root, err = c.submit(&q, p)
	}
	return c.answer(a, root, err)
}

// goOn submits what an interrupted command left out, and waits if it shall.
func (c confirmCmd) goOn(a *app) error {
	root, err := filepath.Abs(c.First)
	if err != nil {
		return err
	}
	s, err := run.ReadScenario(root)
	if err != nil || s.Confirm == nil {
		return fail(exitUsage, fmt.Errorf("%s is no confirmation\n\thint: profllm confirm FIRST SECOND begins one", c.First))
	}
	q := *a
	q.stdout = a.stderr
	open := slices.ContainsFunc(s.InOrder(), func(rel string) bool {
		_, answered := run.Answered(filepath.Join(root, rel))
		return !answered
	})
	switch {
	case s.Local:
	case open:
		err = q.submit(root, c.submitFlags)
	case c.Wait || c.Watch:
		var dirs []string // but what was refused
		for _, rel := range s.Runs {
			dirs = append(dirs, filepath.Join(root, rel))
		}
		subs := q.jobs(dirs)
		dirs = slices.DeleteFunc(dirs, func(dir string) bool { return subs[dir].JobID == "" })
		if len(dirs) > 0 {
			err = q.tellEnd(c.notifyFlags, root, q.wait(q.schedulers(), dirs, c.Watch))
		}
	}
	return c.answer(a, root, err)
}

// submit goes on with an interrupted confirmation of the same definitions, or begins
// one.
func (c confirmCmd) submit(a *app, p *planned) (root string, err error) {
	if err := notStaged(p.Missing, c.First); err != nil {
		return "", fail(exitNotSubmit, err)
	}
	if !c.New {
		if root, err := a.unfinished(p); err != nil || root != "" {
			if err != nil {
				return "", fail(exitNotSubmit, err)
			}
			a.logf("an earlier submission of this confirmation was interrupted; going on with %s (--new submits anew)", relative(root))
			return root, a.submit(root, c.submitFlags)
		}
	}
	if err := a.plannedSecrets(p); err != nil {
		return "", err
	}
	if err := a.cost(p, c.MaxNodeHours, c.Yes); err != nil {
		return "", err
	}
	if err := a.create(p); err != nil {
		return "", fail(exitNotSubmit, err)
	}
	return p.Root, a.submit(p.Root, c.submitFlags)
}

// confirming is what is known while runs are not over.
type confirming struct {
	Root string `json:"root"`
	Runs int    `json:"runs"`
	Over int    `json:"over"`
	Open string `json:"open"` // what is waited for
	Next string `json:"next"` // the command that answers
}

// answer judges a confirmation whose runs are over. err is what became of the
// submission and the jobs; a job that failed is part of the verdict.
func (c confirmCmd) answer(a *app, root string, err error) error {
	switch code := codeOf(err); {
	case code != exitOK && code != exitJobFailed && code != exitInvalid:
		return err
	case a.ctx.Err() != nil:
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
	now := confirming{Root: root, Runs: len(s.Runs), Next: "profllm confirm " + at}
	if c.Second != "" && !c.Rehearse && !c.Wait && !c.Watch {
		now.Open = "they were submitted just now"
		return c.notYet(a, now)
	}
	dirs := make([]string, len(s.Runs))
	for i, rel := range s.Runs {
		dirs[i] = filepath.Join(root, rel)
	}
	if now.Open, err = a.catchUp(dirs); err != nil {
		return err
	}
	if now.Open != "" {
		now.Over = len(dirs) - len(slices.DeleteFunc(slices.Clone(dirs), settled))
		return c.notYet(a, now)
	}
	r, err := a.judgeConfirmation(relative(root), s.Confirm)
	if err != nil {
		return err
	}
	unmade := !s.Local && a.unmade(dirs)
	for i := range r.Judgements {
		j := &r.Judgements[i]
		switch pairs := j.RunsNeeded + j.RunsNeeded%2; {
		case pairs == 0:
		case unmade:
			j.Commands = []string{"profllm slurm resume " + at}
		case pairs <= stats.MaxPairs:
			j.Commands = []string{moreCommand(s, at, pairs)}
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

// unmade reports whether resume would submit some of the runs again.
func (a *app) unmade(dirs []string) bool {
	for dir, sub := range a.read(dirs) {
		var st run.State
		if run.ReadJSON(filepath.Join(dir, run.StateFile), &st) != nil {
			st = run.State{}
		}
		if again(sub, st, false) != "" && !finishedWell(dir, sub) {
			return true
		}
	}
	return false
}

// notYet says what is waited for. Only who waits or asks for the verdict fails.
func (c confirmCmd) notYet(a *app, now confirming) error {
	var err error
	if c.Output == "json" {
		err = a.printJSON(now)
	} else {
		_, err = fmt.Fprintf(a.stdout, "no verdict yet: %d of %d runs are over; %s\n%s\n", now.Over, now.Runs, now.Open, now.Next)
	}
	if err == nil && (c.Second == "" || c.Wait || c.Watch) {
		err = exit(exitNotOver)
	}
	return err
}

func (a *app) judgeConfirmation(root string, k *run.Confirmation) (*report.Report, error) {
	metrics, err := findMetrics(k.Metrics)
	if err != nil {
		return nil, err
	}
	var sides [2][]report.Run
	for i, name := range catalog.Sides {
		var done func()
		sides[i], done, err = a.loadRuns(filepath.Join(root, name))
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

// moreCommand is the command that confirms the same with more pairs.
func moreCommand(s run.Scenario, root string, pairs int) string {
	words := []string{"profllm confirm", path.Join(root, catalog.Sides[0]), path.Join(root, catalog.Sides[1]), fmt.Sprintf("--pairs %d", pairs)}
	for _, m := range s.Confirm.Metrics {
		words = append(words, "--metric "+m)
	}
	switch {
	case s.Local:
		words = append(words, "--rehearse")
	case s.Simulated:
		words = append(words, "--simulate")
	}
	return strings.Join(words, " ")
}

// plan makes the pairs of runs.
func (c confirmCmd) plan(a *app) (*planned, error) {
	metrics, err := findMetrics(c.Metric)
	if err != nil {
		return nil, err
	}
	k := catalog.Confirmation{Pairs: c.Pairs, Jobs: c.Jobs}
	if k.Pairs == 0 {
		k.Pairs = defaultPairs(len(metrics))
	}
	simulate := c.Simulate || c.Rehearse
	p := &planned{Simulated: simulate, Definitions: map[string][]byte{}, Confirm: &run.Confirmation{Pairs: k.Pairs, Metrics: c.Metric}}
	digest := sha256.New()
	fmt.Fprintf(digest, "%d %v %q\n", k.Pairs, k.Jobs, c.Metric)
	var o catalog.Options
	for i, arg := range []string{c.First, c.Second} {
		d, err := a.definedBy(arg, c.makeFlags, simulate)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			if o, err = a.options(c.makeFlags, d.system, simulate); err != nil {
				return nil, err
			}
		}
		k.Sides[i] = catalog.Side{Scenario: d.scenario, System: d.system, Test: d.test}
		var absent []stage.Item
		if k.Sides[i].Images, absent, err = stagedImages(append(slices.Concat(d.scenario.PreTest, d.scenario.PostTest), d.test), d.system, o); err != nil {
			return nil, err
		}
		if d.system.CacheDockerImagesLocally {
			p.Missing = append(p.Missing, absent...)
		} else if !simulate {
			a.noteFetched(absent, arg)
		}
		if c.live && d.scenario.NodeGroups() && o.Inventory == nil {
			if o.Inventory, err = a.slurm().Inventory(a.ctx); err != nil {
				return nil, fail(exitNotSubmit, fmt.Errorf("ask Slurm for the states of its nodes: %w", err))
			}
		}
		fmt.Fprintf(digest, "%s %q\n", d.files.Digest(), d.test.ID)
		for name, data := range d.files.Copies(d.system.Source) {
			p.Definitions[path.Join(catalog.Sides[i], name)] = data
		}
	}
	k.Name = "confirm-" + k.Sides[0].Scenario.Name
	if other := k.Sides[1].Scenario.Name; other != k.Sides[0].Scenario.Name {
		k.Name += "-" + other
	}
	if err := a.newName(k.Name, c.makeFlags, &o); err != nil {
		return nil, err
	}
	p.Name, p.Created, p.Digest = k.Name, o.Created, fmt.Sprintf("sha256:%x", digest.Sum(nil))
	p.Root = catalog.Execution(k.Name, o)
	set, err := catalog.Confirm(k, o)
	if err != nil {
		return nil, fail(exitDefinition, err)
	}
	return p, a.printed(p, set, c.Templates)
}

// defaultPairs is the fewest pairs, an even number, of which one metric alone can
// pass; of 0 metrics the usual ones are judged.
func defaultPairs(metrics int) int {
	if metrics == 0 {
		metrics = report.UsualMetrics
	}
	n := stats.LeastPairs(metrics)
	return n + n%2
}

// defined is a test, and what it was read from.
type defined struct {
	scenario *scenario.Scenario
	test     scenario.Test
	system   *config.System
	files    *definition.Files
}

// definedBy finds a test by FILE, FILE#TEST or a directory of runs.
func (a *app) definedBy(arg string, f makeFlags, simulate bool) (d defined, err error) {
	file, id, folders := arg, "", definition.Folders(f.definitionFlags)
	info, err := os.Stat(arg)
	if err != nil {
		if at := strings.LastIndexByte(arg, '#'); at > 0 {
			file, id = arg[:at], arg[at+1:]
		}
	} else if info.IsDir() {
		kept, test, err := keptDefinitions(arg)
		if err != nil {
			return d, fail(exitUsage, err)
		}
		file, id = filepath.Join(kept, definition.ScenarioCopy), test
		folders = definition.KeptFolders(kept)
		f.System = cmp.Or(f.System, filepath.Join(kept, definition.SystemCopy))
	}
	if d.scenario, d.files, err = definition.Load(file, folders); errors.Is(err, fs.ErrNotExist) {
		return d, fail(exitUsage, err)
	} else if err != nil {
		return d, fail(exitDefinition, err)
	}
	var ids []string
	for _, t := range d.scenario.Tests {
		if d.test = t; t.ID == id || id == "" && len(d.scenario.Tests) == 1 {
			d.system, err = a.system(f.System, simulate)
			return d, err
		}
		ids = append(ids, t.ID)
	}
	what := fmt.Sprintf("%s has no test %q", arg, id)
	if id == "" {
		what = fmt.Sprintf("%s has %d tests, and one is confirmed", arg, len(ids))
	}
	hint := fmt.Sprintf("%s#%s", file, ids[0])
	if info != nil && info.IsDir() {
		hint = filepath.Join(arg, ids[0])
	}
	return d, fail(exitUsage, fmt.Errorf("%s\n\thint: name it, as in %s; known: %s", what, hint, strings.Join(ids, ", ")))
}

// keptDefinitions finds the folder of the definitions that runs were made from, and
// the test that a directory is of, "" for that of a whole scenario.
func keptDefinitions(dir string) (folder, test string, err error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", "", err
	}
	root := run.Root(abs)
	s, err := run.ReadScenario(root)
	if root == "" || err != nil {
		return "", "", fmt.Errorf("%s holds no runs whose definitions are kept\n\thint: give the scenario file", dir)
	}
	folder = filepath.Join(root, run.DefinitionDir)
	below, err := filepath.Rel(root, abs)
	if err != nil {
		return "", "", err
	}
	words := strings.Split(filepath.ToSlash(below), "/")
	if s.Confirm != nil {
		if !slices.Contains(catalog.Sides[:], words[0]) {
			return "", "", fmt.Errorf("%s is a confirmation of two tests\n\thint: give %s or %s", dir, filepath.Join(dir, catalog.Sides[0]), filepath.Join(dir, catalog.Sides[1]))
		}
		folder = filepath.Join(folder, words[0])
		for _, rel := range s.Runs { // one test on each side
			if side, rest, _ := strings.Cut(filepath.ToSlash(rel), "/"); side == words[0] {
				test, _, _ = strings.Cut(rest, "/")
			}
		}
		return folder, test, nil
	}
	if words[0] == "." {
		return folder, "", nil
	}
	return folder, words[0], nil
}
