// Package collect turns what a run left behind into one result: it reads the
// clients' files, the engines' counters and the sentinel, looks for the cause of
// a failure in the logs, and has the record judged.
//
// It asks no scheduler and edits nothing it reads, so a result can be computed
// again at any time and comes out the same.
package collect

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/profllm/profllm/pkg/durable"
	"github.com/profllm/profllm/pkg/failure"
	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/validity"
)

// A Parser reads what one client left in a run directory. fs.ErrNotExist means
// that it left nothing.
type Parser interface {
	Parse(dir fs.FS) (result.Part, error)
}

// Of is a parser of the clients that plans name so. What a run has of another client than
// planned gives it no numbers.
type Of struct {
	Parser
	Client func(name string) bool
}

// Collector reads run directories, several at a time if it shall.
type Collector struct {
	Version string
	Bench   []Parser       // the first that finds something gives the numbers
	Eval    []Parser       // likewise the accuracy
	Causes  *failure.Table // for runs whose site has no signatures of its own; nil: no cause is looked for

	mu  sync.Mutex
	own map[string]*failure.Table // by the signatures of a site
}

// Record is the result of one load, and the directory it belongs to.
type Record struct {
	Dir    string
	Result *result.Result
	Plan   *plan.Plan // of the run; nil for a run of CloudAI
	Data   []byte     // of result.json; nil if Write did not make it
}

// Run computes the results of one run directory: one for each of its loads.
// state is what a scheduler says of the job, nil if nobody was asked.
func (c *Collector) Run(dir string, state *run.State) (records []Record, err error) {
	// The files of a run come from many programs, and one of a thousand runs must not
	// take the records of the others with it.
	defer func() {
		if p := recover(); p != nil {
			records, err = nil, fmt.Errorf("%s: a defect of profllm, please report it: %v, at %s", dir, p, panicked())
		}
	}()
	return c.run(dir, state)
}

// panicked is the line of ours that the panic which is being recovered came from.
func panicked() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	thrown := false
	for {
		f, more := frames.Next()
		switch {
		case f.Function == "runtime.gopanic":
			thrown = true
		case thrown && !strings.HasPrefix(f.Function, "runtime."):
			return fmt.Sprintf("%s (%s:%d)", f.Function, filepath.Base(f.File), f.Line)
		case !more:
			return "an unknown line"
		}
	}
}

func (c *Collector) run(dir string, state *run.State) ([]Record, error) {
	var mark run.Import
	switch err := run.ReadJSON(filepath.Join(dir, run.ImportFile), &mark); {
	case err == nil:
		r, err := c.imported(dir, mark)
		if err != nil {
			return nil, err
		}
		return []Record{{Dir: dir, Result: r}}, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	e := evidence{dir: dir, at: dir, state: state}
	if err := e.read(); err != nil {
		return nil, err
	}
	if e.plan == nil {
		r, err := c.load(e)
		return []Record{{Dir: dir, Result: r}}, err
	}
	var records []Record
	var each []evidence
	started := map[time.Time][]int{} // → records
	for i := range e.plan.Loads {
		if e.load = &e.plan.Loads[i]; e.leftOut() {
			continue
		}
		if e.at = dir; e.load.Dir != "" {
			at, err := filepath.Rel(e.plan.Dir, e.load.Dir) // the whole may have been moved
			if err != nil {
				return nil, err
			}
			e.at = filepath.Join(dir, at)
		}
		if _, err := os.Lstat(filepath.Join(e.at, run.PlanFile)); err == nil && e.at != filepath.Clean(dir) {
			return nil, fmt.Errorf("%s: loads[%d].dir is a run of its own, which keeps its record: %s", filepath.Join(dir, run.PlanFile), i, e.at)
		}
		r, err := c.load(e)
		if err != nil {
			return nil, err
		}
		if k := r.Results.Client; k != nil && k.Started != nil && r.Results.Measured() {
			started[k.Started.UTC()] = append(started[k.Started.UTC()], len(records))
		}
		records, each = append(records, Record{Dir: e.at, Result: r, Plan: e.plan}), append(each, e)
	}
	for _, same := range started { // loads follow each other: two that began together are one file
		if len(same) < 2 {
			continue
		}
		for _, i := range same {
			for _, k := range same {
				if k != i {
					each[i].twins = append(each[i].twins, each[k].load.Name)
				}
			}
			r, err := c.load(each[i])
			if err != nil {
				return nil, err
			}
			records[i].Result = r
		}
	}
	return records, nil
}

func (c *Collector) load(e evidence) (*result.Result, error) {
	e.files = list(e.at)
	r := e.record(c.Version)
	ev := e.planned()
	measured := e.load != nil && e.load.Client != ""
	e.nodes(r, &ev)
	e.provenance(r)
	e.reports(r, &ev)
	known := len(r.Warnings)
	own, others := e.splitParsers(c.Bench)
	bench := e.parse(r, own, &ev.Missing, "the benchmark's result", measured)
	ev.Samples, ev.GivenModel = bench.Samples, bench.Model
	e.strays(r, others)
	untouched := len(r.Warnings) == known && r.Results.Source == ""
	e.parse(r, c.Eval, &ev.Missing, "the evaluation's result", e.load != nil && e.load.Expect.Accuracy)
	if e.foreign() {
		ev.Planned.NoBenchmark = untouched && r.Accuracy != nil // an evaluation's files, and no client's
		r.Provenance.Foreign = foreignProgram(r)
	}
	e.counters(r)
	ev.Evaluated = e.evaluated()
	e.gpus(r, &ev)
	ev.Executions, ev.Places = e.executions(r), e.places(r)
	r.FindProfiler()
	r.Warnings = append(r.Warnings, e.warnings...)
	r.Redact()
	r.Derive()
	r.Provenance.EngineVersion = ev.EngineVersion()
	r.MetricsVersion = result.MetricsVersion
	r.Validity = validity.Judge(r, ev)
	dropNotFinite(r)
	if e.plan != nil {
		var err error
		if r.Provenance.Fingerprint, err = r.Fingerprint(); err != nil {
			return nil, err
		}
		r.Provenance.Series = result.SeriesKey(r.Config.Settings, r)
	}
	r.Status = e.status(r, ev.Planned.NoBenchmark)
	if r.Status != result.Completed && r.Status != result.Unknown {
		var unread error
		if r.Failure, unread = e.cause(c.table(e.plan)); unread != nil {
			r.Warnings = append(r.Warnings, result.Warning{Kind: result.Unreadable, File: run.LogDir, Text: unread.Error()})
		}
		if (ev.Apart || ev.Job.Judged == run.JudgedInvalid) && r.Failure != nil && r.Failure.Cause == "unknown" {
			r.Failure = nil // nothing broke: the checks say what is wrong with the numbers
		}
	}
	e.redact(r)
	return r, nil
}

// Write computes the results and replaces each result.json that changed. With an
// error of a file that could not be written it returns them all the same.
func (c *Collector) Write(dir string, state *run.State) ([]Record, error) {
	records, err := c.Run(dir, state)
	if err != nil {
		return nil, err
	}
	var errs []error
	for i, rec := range records {
		if rec.Result.RunID == "" { // the one thing of its schema that a file can break
			return nil, fmt.Errorf("%s: the run has no id, run_id of %s", rec.Dir, run.PlanFile)
		}
		data, err := result.Encode(rec.Result)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", rec.Dir, err)
		}
		records[i].Data = data
		path := filepath.Join(rec.Dir, run.ResultFile)
		if old, err := regular.ReadFile(path); err == nil && bytes.Equal(old, data) {
			continue
		}
		errs = append(errs, durable.WriteUnsynced(path, data))
	}
	return records, errors.Join(errs...)
}

// evidence is what lies in one run directory.
type evidence struct {
	dir      string
	at       string     // where the load's files lie
	files    *listing   // of at
	load     *plan.Load // nil for a run of CloudAI
	state    *run.State
	plan     *plan.Plan // nil for a run of CloudAI
	place    *run.Placement
	unplaced *run.Placement // of fewer nodes than the plan needs
	claim    run.Claim
	looked   *job.Preflight
	sentinel *run.Sentinel
	events   []job.Event
	twins    []string         // loads whose client began at the same time to the last digit
	warnings []result.Warning // of files that cannot be read as a whole
}

func (e *evidence) read() error {
	var err error
	if e.plan, err = run.ReadPlan(e.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if e.plan != nil {
		if err := e.plan.Sound(); err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(e.dir, run.PlanFile), err)
		}
	}
	var place run.Placement
	var sentinel run.Sentinel
	var looked job.Preflight
	for _, f := range []struct {
		name string
		into any
		have func()
	}{
		{run.PlacementFile, &place, func() { e.place = &place }},
		{run.PreflightFile, &looked, func() { e.looked = &looked }},
		{run.SentinelFile, &sentinel, func() { e.sentinel = &sentinel }},
		{run.ClaimFile, &e.claim, func() {}},
	} {
		// A file that a crash or a full disk left unreadable is as good as absent:
		// every writer replaces files whole, so only the claim can be empty.
		switch err := run.ReadJSON(filepath.Join(e.dir, f.name), f.into); {
		case err == nil:
			f.have()
		case !errors.Is(err, fs.ErrNotExist) && f.name != run.ClaimFile:
			return err
		case errors.As(err, new(*fs.PathError)):
			e.unread(f.name, err)
		}
	}
	if n := e.needed(); e.place != nil && len(e.place.Nodes) < n {
		e.warn(result.Warning{
			Kind: result.Unreadable, File: run.PlacementFile,
			Text: fmt.Sprintf("nodes: %d, the plan needs %d; where the run was placed is not known", len(e.place.Nodes), n),
		})
		e.unplaced, e.place = e.place, nil
	}
	var bad []int
	if e.events, bad, err = job.ReadAllEvents(e.dir); len(bad) > 0 && e.sentinel != nil {
		e.warn(result.Warning{
			Kind: result.Unreadable, File: run.EventFile, Line: bad[0],
			Text: fmt.Sprintf("%d lines are no events, the first of them line %d; what they said is not known", len(bad), bad[0]),
		})
	}
	return err
}

// needed is how many nodes the plan's roles are spread over, at least one.
func (e *evidence) needed() int {
	n := 0
	if e.plan != nil {
		for i := range e.plan.Roles {
			n = max(n, e.plan.Roles[i].Nodes.End())
		}
		n = max(n, min(1, e.plan.Job.Nodes))
	}
	return n
}

// planned is what the plan and the sentinel say for the judgement.
func (e *evidence) planned() validity.Evidence {
	var ev validity.Evidence
	if e.load != nil {
		x := e.load.Expect
		ev.Planned = validity.Planned{
			NumPrompts: x.NumPrompts, InputTokens: x.InputTokens, OutputTokens: x.OutputTokens,
			IgnoreEOS: x.IgnoreEOS, Accuracy: x.Accuracy, Disaggregated: x.Disaggregated, NoBenchmark: e.load.Client == "",
			Concurrency: x.Concurrency, RequestRate: x.RequestRate, Warmups: x.Warmups, SharedInput: x.SharedInput,
			Model: e.plan.Config.Model, GPUs: e.plan.GPUs(),
		}
		if l := e.plan.Locked; l != nil {
			ev.Planned.Locked = validity.Locked{EngineVersion: l.EngineVersion, ImageDigest: l.ImageDigest, ModelRevision: l.ModelRevision}
		}
		if !e.plan.Simulated { // the simulated engine has a version of its own
			ev.Planned.EngineVersion = e.plan.Config.Engine
		}
	}
	if e.plan != nil {
		ev.Limits = e.plan.Accept
	}
	e.phases(&ev)
	ev.Servers = e.servers()
	ev.Apart, ev.Job = e.apart(ev.Phases), e.jobEnd()
	for _, x := range e.events {
		if x.Event == job.RoleDied && e.concerns(x.Time) {
			ev.Died = append(ev.Died, e.roleEnd(x))
		}
	}
	return ev
}

// splitParsers are the parsers of the client that was planned, and the others. Of a client that
// no parser knows by its name, and of files without a plan, anyone's files are read.
func (e *evidence) splitParsers(parsers []Parser) (own, others []Parser) {
	for _, p := range parsers {
		if o, ok := p.(Of); ok && e.load != nil && e.load.Client != "" && o.Client(e.load.Client) {
			own = append(own, p)
		} else {
			others = append(others, p)
		}
	}
	if len(own) == 0 {
		return parsers, nil
	}
	return own, others
}

// strays warns of results of other clients than the planned one.
func (e *evidence) strays(r *result.Result, others []Parser) {
	for _, p := range others {
		part, err := p.Parse(e.files)
		if err != nil || part.Metrics == nil || part.Metrics.FromLog || part.Metrics.Source == r.Results.Source {
			continue
		}
		e.warn(result.Warning{
			Kind: result.OtherFile, File: part.Metrics.Source,
			Text: fmt.Sprintf("a result of %s, which the plan does not have; it was not used: %s measured", part.Benchmark.Kind, e.load.Client),
		})
	}
}

// parse merges what the first parser finds. A network file system may believe an old
// list of names for a minute, so what is wanted and in no list is asked for by name.
func (e *evidence) parse(r *result.Result, parsers []Parser, missing *[]string, what string, required bool) result.Part {
	known := len(r.Warnings)
	part, found := e.parseIn(e.files, r, parsers, what)
	if !found && required {
		r.Warnings = r.Warnings[:known]
		part, found = e.parseIn(e.files.FS, r, parsers, what)
	}
	if !found && required {
		*missing = append(*missing, what)
	}
	return part
}

func (e *evidence) parseIn(dir fs.FS, r *result.Result, parsers []Parser, what string) (part result.Part, found bool) {
	for _, p := range parsers {
		part, err := p.Parse(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			r.Warnings = append(r.Warnings, result.Warning{Kind: result.Unreadable, File: what, Text: err.Error()})
		}
		if err != nil {
			r.Warnings = append(r.Warnings, part.Warnings...)
			continue
		}
		r.Merge(part)
		return part, true
	}
	return result.Part{}, false
}

// warn adds a warning to the record, once.
func (e *evidence) warn(w result.Warning) {
	if !slices.Contains(e.warnings, w) {
		e.warnings = append(e.warnings, w)
	}
}

// unread warns of a file that is there and cannot be read.
func (e *evidence) unread(name string, err error) {
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return
	}
	var named *fs.PathError
	if errors.As(err, &named) {
		err = named.Err // without the path, which differs from one machine to the next
	}
	e.warn(result.Warning{Kind: result.Unreadable, File: name, Text: err.Error()})
}

// status says how the run ended.
func (e *evidence) status(r *result.Result, noBenchmark bool) result.Status {
	numbers := r.Results.CompletedRequests != nil && *r.Results.CompletedRequests > 0 || r.Results.Offline != nil
	switch {
	case e.state != nil && e.state.State == run.Cancelled && !(numbers && r.Validity.Valid):
		return result.Cancelled
	case e.sentinel == nil && e.plan != nil && !e.over():
		return result.Unknown
	case numbers && r.Validity.Valid, noBenchmark && r.Validity.Valid:
		return result.Completed
	case job.WasEnded(e.events):
		return result.Cancelled
	case numbers:
		return result.Partial
	}
	return result.Failed
}
