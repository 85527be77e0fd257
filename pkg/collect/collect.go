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
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-multierror"

	"github.com/profllm/profllm/pkg/failure"
	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/packed"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/promtext"
	"github.com/profllm/profllm/pkg/redact"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

// A Parser reads what one client left in a run directory. fs.ErrNotExist means
// that it left nothing.
type Parser interface {
	Parse(dir fs.FS) (result.Part, error)
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
}

// Run computes the results of one run directory: one for each of its loads.
// state is what a scheduler says of the job, nil if nobody was asked.
func (c *Collector) Run(dir string, state *run.State) ([]Record, error) {
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
	for i := range e.plan.Loads {
		if e.load = &e.plan.Loads[i]; e.leftOut() {
			continue
		}
		at, err := filepath.Rel(e.plan.Dir, e.load.Dir) // the whole may have been moved
		if err != nil {
			return nil, err
		}
		e.at = filepath.Join(dir, at)
		r, err := c.load(e)
		if err != nil {
			return nil, err
		}
		records = append(records, Record{e.at, r, e.plan})
	}
	return records, nil
}

func (c *Collector) load(e evidence) (*result.Result, error) {
	r := e.record(c.Version)
	ev := e.planned()
	measured := e.load != nil && e.load.Client != ""
	e.nodes(r, &ev)
	e.provenance(r)
	e.reports(r, &ev)
	known := len(r.Warnings)
	ev.Samples = e.parse(r, c.Bench, &ev.Missing, "the benchmark's result", measured)
	untouched := len(r.Warnings) == known && r.Results.Source == ""
	e.parse(r, c.Eval, &ev.Missing, "the evaluation's result", e.load != nil && e.load.Expect.Accuracy)
	if e.foreign() {
		ev.Planned.NoBenchmark = untouched && r.Accuracy != nil // an evaluation's files, and no client's
		r.Provenance.Foreign = foreignProgram(r)
	}
	e.counters(r)
	e.gpus(r, &ev)
	r.Warnings = append(r.Warnings, e.warnings...)
	r.Derive()
	r.Provenance.EngineVersion = ev.EngineVersion()
	r.MetricsVersion = result.MetricsVersion
	r.Validity = result.Judge(r, ev)
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
		if ev.Apart && r.Failure != nil && r.Failure.Cause == "unknown" {
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
	for _, rec := range records {
		data, err := result.Encode(rec.Result)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", rec.Dir, err)
		}
		path := filepath.Join(rec.Dir, run.ResultFile)
		if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
			continue // it was checked when it was written
		}
		if err := result.Validate(data); err != nil {
			return nil, fmt.Errorf("%s: %w", rec.Dir, err)
		}
		errs = append(errs, run.WriteFile(path, data, 0o644))
	}
	return records, errors.Join(errs...)
}

// evidence is what lies in one run directory.
type evidence struct {
	dir      string
	at       string     // where the load's files lie
	load     *plan.Load // nil for a run of CloudAI
	state    *run.State
	plan     *plan.Plan // nil for a run of CloudAI
	place    *run.Placement
	claim    run.Claim
	looked   *job.Preflight
	sentinel *run.Sentinel
	events   []job.Event
	warnings []result.Warning // of files that cannot be read as a whole
}

func (e *evidence) read() error {
	var err error
	if e.plan, err = run.ReadPlan(e.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
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
		}
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

// record fills in everything that is not measured.
func (e *evidence) record(version string) *result.Result {
	r := &result.Result{Config: result.Config{Server: map[string]any{}}}
	if p := e.plan; p != nil {
		r.RunID, r.Suite, r.Timestamp, r.Simulated = e.load.RunID, p.Scenario+"/"+p.Test, p.Created, p.Simulated
		e.config(r)
		r.Provenance = &result.Provenance{Profllm: p.Version, Engine: p.Workload, Image: p.Image, ImageDigest: p.ImageDigest, Simulated: p.Simulated}
		for _, role := range p.Roles {
			r.Provenance.Commands = append(r.Provenance.Commands, result.RoleArgv{Role: role.Name, Argv: argv(role.Step)})
		}
		for _, c := range e.load.Clients {
			r.Provenance.Commands = append(r.Provenance.Commands, result.RoleArgv{Role: c.Name, Argv: argv(c)})
		}
		if x := e.load.Repeat; x != nil {
			r.Repeats = &result.Repeats{Group: x.Group, Index: x.Index, Of: x.Of, Series: e.series()}
		}
		if gpus := e.load.Expect.GPUs; len(p.Roles) > 0 {
			r.Results.GPUs = &gpus
		}
	} else {
		r.RunID, r.Suite = foreignID(e.dir), filepath.Base(filepath.Dir(e.dir))
		r.Provenance = &result.Provenance{Profllm: version}
	}
	e.placement(r)
	for _, x := range e.events {
		switch x.Event {
		case job.CheckFailed:
			r.Warnings = append(r.Warnings, result.Warning{Kind: result.CheckFailed, Key: x.Phase, Text: x.Text})
		case job.SecretMasked:
			r.Warnings = append(r.Warnings, result.Warning{Kind: result.SecretInLog, File: x.File, Line: x.Line, Text: x.Text + "; overwritten by xxx"})
		}
	}
	for _, ph := range e.failedPostTests() {
		r.Warnings = append(r.Warnings, result.Warning{Kind: result.HookFailed, Key: ph.Name, Text: fmt.Sprintf("ended with %d", ph.Code)})
	}
	if !e.claim.Time.IsZero() {
		r.Timestamp = e.claim.Time
		if e.sentinel != nil {
			// A clock that was set back says nothing of how long it took.
			if s := e.sentinel.Time.Sub(e.claim.Time).Seconds(); s >= 0 {
				r.Duration = &s
			}
		}
	}
	if s := e.state; s != nil && s.Source != "local" && s.Source != "" {
		r.Slurm = slurmRecord(e.plan, s)
	}
	return r
}

func argv(s plan.Step) []string {
	words := make([]string, 0, len(s.Env)+len(s.Argv))
	for _, v := range s.Env {
		words = append(words, v.Name+"="+v.Value.String())
	}
	for _, w := range s.Argv {
		words = append(words, w.String())
	}
	return redact.Words(words)
}

func (e *evidence) config(r *result.Result) {
	p := e.plan
	if len(p.Roles) == 0 { // the tool's arguments
		for name, args := range p.Config.Server {
			r.Config.Server[name] = args
		}
		return
	}
	r.Config.Server["model"] = p.Config.Model
	for _, role := range p.Roles {
		args, ok := p.Config.Server[role.KindName()].(map[string]any)
		if !ok || role.Replica > 0 { // instances of a kind are alike
			continue
		}
		if !e.load.Expect.Disaggregated {
			for k, v := range args {
				r.Config.Server[k] = v
			}
			continue
		}
		r.Config.Roles = append(r.Config.Roles, result.RoleConfig{Role: role.KindName(), Server: args})
	}
	b := &r.Config.Benchmark
	x := e.load.Expect
	b.Kind = e.load.Client
	positive := func(n int) *int {
		if n == 0 {
			return nil
		}
		return &n
	}
	b.NumPrompts, b.MaxConcurrency = positive(x.NumPrompts), positive(x.Concurrency)
	b.InputTokens, b.OutputTokens = positive(x.InputTokens), positive(x.OutputTokens)
	if x.IgnoreEOS {
		b.IgnoreEOS = &x.IgnoreEOS
	}
}

func (e *evidence) placement(r *result.Result) {
	if e.plan == nil || e.place == nil {
		return
	}
	r.Placement = &result.Placement{}
	for _, n := range e.place.Nodes {
		r.Placement.Nodes = append(r.Placement.Nodes, n.Host)
	}
	for _, role := range e.plan.Roles {
		placed := result.PlacedRole{
			Role: role.KindName(), Replica: role.Replica, Slice: result.Slice{Offset: role.Nodes.Offset, Count: role.Nodes.Count},
			GPUsPerNode: len(role.GPUs), Ports: map[string]int{},
		}
		for i := role.Nodes.Offset; i < role.Nodes.End() && i < len(e.place.Nodes); i++ {
			placed.Hosts = append(placed.Hosts, e.place.Nodes[i].Host)
		}
		for name, port := range e.place.Ports {
			if name == role.Name {
				placed.Ports["http"] = port
			} else if purpose, ok := strings.CutPrefix(name, role.Name+"_"); ok {
				placed.Ports[purpose] = port
			}
		}
		r.Placement.Roles = append(r.Placement.Roles, placed)
	}
}

func slurmRecord(p *plan.Plan, s *run.State) *result.Slurm {
	out := &result.Slurm{JobID: s.JobID, State: s.Raw, ExitCode: s.ExitCode, NodeList: s.NodeList}
	if p != nil {
		out.Partition, out.Account = p.Job.Partition, p.Job.Account
	}
	if out.State == "" {
		out.State = "UNKNOWN"
	}
	stamp := func(text string) *time.Time {
		if t, err := time.ParseInLocation("2006-01-02T15:04:05", text, time.Local); err == nil {
			t = t.UTC()
			return &t
		}
		return nil
	}
	out.Start, out.End = stamp(s.Start), stamp(s.End)
	if s.Elapsed > 0 {
		out.Elapsed = &s.Elapsed
	}
	return out
}

// planned is what the plan and the sentinel say for the judgement.
func (e *evidence) planned() result.Evidence {
	var ev result.Evidence
	if e.load != nil {
		x := e.load.Expect
		ev.Planned = result.Planned{
			NumPrompts: x.NumPrompts, InputTokens: x.InputTokens, OutputTokens: x.OutputTokens,
			IgnoreEOS: x.IgnoreEOS, Accuracy: x.Accuracy, Disaggregated: x.Disaggregated, NoBenchmark: e.load.Client == "",
			Concurrency: x.Concurrency, RequestRate: x.RequestRate, Warmups: x.Warmups, SharedInput: x.SharedInput,
			Model: e.plan.Config.Model, GPUs: e.plan.GPUs(),
		}
		if l := e.plan.Locked; l != nil {
			ev.Planned.Locked = result.Locked{EngineVersion: l.EngineVersion, ImageDigest: l.ImageDigest, ModelRevision: l.ModelRevision}
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
	ev.Apart = e.apart(ev.Phases)
	for _, x := range e.events {
		if x.Event == job.RoleDied && e.concerns(x.Time) {
			ev.Died = append(ev.Died, e.roleEnd(x))
		}
	}
	return ev
}

// apart reports whether this load was over whatever became of the job: all its
// phases ended with 0, and then the job went on with other loads, or with the hooks
// after them, or failed for no more than this judgement.
func (e *evidence) apart(phases []result.Phase) bool {
	if e.plan == nil || e.sentinel == nil || len(phases) == 0 {
		return false
	}
	if len(e.plan.Loads) < 2 && len(e.failedPostTests()) == 0 && e.sentinel.Code != run.JudgedInvalid {
		return false
	}
	return !slices.ContainsFunc(phases, func(p result.Phase) bool { return p.Exit == nil || *p.Exit != 0 })
}

// failedPostTests lists the hooks after the run that failed, with their codes.
// They say something about the nodes, not about the numbers before them.
func (e *evidence) failedPostTests() []run.Phase {
	if e.sentinel == nil {
		return nil
	}
	var failed []run.Phase
	for _, ph := range e.sentinel.Phases {
		if strings.HasPrefix(ph.Name, run.PostTestDir+"/") && ph.Code != 0 {
			failed = append(failed, ph)
		}
	}
	return failed
}

// phases lists what the script did of this load, and what it should have done.
func (e *evidence) phases(ev *result.Evidence) {
	if e.plan == nil {
		return
	}
	var names []string
	for _, h := range e.plan.PreTest {
		names = append(names, run.PreTestDir+"/"+h.Name)
	}
	if len(e.plan.Roles) > 0 {
		names = append(names, "ready")
	}
	ended := map[string]int{}
	if e.sentinel != nil {
		for _, ph := range e.sentinel.Phases {
			ended[ph.Name] = ph.Code
		}
	}
	if _, prepared := ended[e.load.Phase("load")]; prepared {
		names = append(names, e.load.Phase("load"))
	}
	for _, c := range e.load.Clients {
		names = append(names, e.load.Phase(c.Name))
	}
	for _, n := range names {
		switch code, ok := ended[n]; {
		case ok && code >= 0:
			ev.Phases = append(ev.Phases, result.Phase{Name: n, Exit: &code})
		case ok || e.sentinel != nil || e.over():
			ev.Phases = append(ev.Phases, result.Phase{Name: n})
		}
	}
}

// concerns reports whether what happened at that time can have touched this
// load: no later load had begun.
func (e *evidence) concerns(at time.Time) bool {
	mine := false
	for _, x := range e.events {
		if x.Event != job.LoadBegins || e.load == nil {
			continue
		}
		if mine && !x.Time.After(at) {
			return false
		}
		mine = mine || x.Load == e.load.Name
	}
	return true
}

// exitOf is the exit code of a role's step, -1 if nobody saw it.
func (e *evidence) exitOf(role string) int {
	if e.sentinel != nil {
		for _, r := range e.sentinel.Roles {
			if r.Name == role {
				return r.Code
			}
		}
	}
	return -1
}

func (e *evidence) over() bool { return e.state != nil && e.state.Final() }

func (e *evidence) host(role string) string {
	if e.plan == nil || e.place == nil {
		return ""
	}
	if r := e.plan.Role(role); r != nil && r.Nodes.Offset < len(e.place.Nodes) {
		return e.place.Nodes[r.Nodes.Offset].Host
	}
	return ""
}

// parse merges what the first parser finds.
func (e *evidence) parse(r *result.Result, parsers []Parser, missing *[]string, what string, want bool) *result.Samples {
	for _, p := range parsers {
		part, err := p.Parse(os.DirFS(e.at))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			r.Warnings = append(r.Warnings, result.Warning{Kind: result.Unreadable, File: what, Text: err.Error()})
		}
		if err != nil {
			r.Warnings = append(r.Warnings, part.Warnings...)
			continue
		}
		r.Merge(part)
		return part.Samples
	}
	if want {
		*missing = append(*missing, what)
	}
	return nil
}

// counters adds what the engines' counters and gauges said while the client
// ran that measured, which comes first. Where its end was not kept the counters
// are those of all clients.
func (e *evidence) counters(r *result.Result) {
	if e.plan == nil || len(e.load.Clients) == 0 {
		return
	}
	var part result.Part
	for _, role := range e.plan.Roles {
		d, others := e.difference(role.Name, job.Before, e.load.Clients[0].Name), false
		if d == nil {
			d, others = e.difference(role.Name, job.Before, job.After), len(e.load.Clients) > 1
		}
		if d == nil {
			continue
		}
		part.Server = append(part.Server, result.ServerDelta{
			Role: role.KindName(), Replica: role.Replica, Reset: d.Reset(), Others: others,
			Counters: d.Totals(func(name string) bool {
				return strings.HasPrefix(name, "vllm:") && !strings.HasSuffix(name, "_bucket") && !strings.HasSuffix(name, "_created")
			}),
		})
	}
	r.Merge(part)
	data, err := os.ReadFile(filepath.Join(e.at, run.TelemetryDir, job.GaugeFile(e.load.Clients[0].Name)))
	if err == nil {
		window := 0.0
		if d := r.Results.Duration; d != nil {
			window = *d
		}
		r.Results.Load = serverLoad(data, window)
	}
}

// difference is what a role's counters did between two pages, nil if one of
// them is missing.
func (e *evidence) difference(role, from, to string) *promtext.Difference {
	before, err := e.page(role, from)
	if err != nil {
		return nil
	}
	after, err := e.page(role, to)
	if err != nil {
		return nil
	}
	return promtext.Sub(before, after)
}

func (e *evidence) page(role, when string) (*promtext.Snapshot, error) {
	data, name, err := readRaw(e.at, job.MetricsFile(role, when))
	if err != nil {
		return nil, err
	}
	// Of a number that is cut short nobody can tell.
	whole := data[:bytes.LastIndexByte(data, '\n')+1]
	page, err := promtext.ReadSome(bytes.NewReader(whole), counts)
	// Lines that it does not understand are no reason to drop the rest.
	var lines *multierror.Error
	switch {
	case errors.As(err, &lines):
		e.warn(result.Warning{Kind: result.Unreadable, File: name, Text: fmt.Sprintf("lines are left out, the first of %d: %v", len(lines.Errors), lines.Errors[0])})
	case len(whole) < len(data):
		e.warn(result.Warning{Kind: result.Unreadable, File: name, Text: "the file ends within a line, which is left out"})
	}
	return page, nil
}

// maxRaw bounds what is read of a page of counters or of samples, also when it was
// packed. The page of a vLLM server has 60 kB.
const maxRaw = 64 << 20

// readRaw reads a file of raw/, or the same file packed by xz, and says which.
func readRaw(dir, name string) ([]byte, string, error) {
	f, name, err := packed.Open(os.DirFS(filepath.Join(dir, run.RawDir)), name)
	name = run.RawDir + "/" + name
	if err != nil {
		return nil, name, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxRaw))
	if packed.IsPacked(name) && len(data) > 0 {
		err = nil // what came out before damage ends within a line
	}
	return data, name, err
}

// warn adds a warning to the record, once.
func (e *evidence) warn(w result.Warning) {
	if !slices.Contains(e.warnings, w) {
		e.warnings = append(e.warnings, w)
	}
}

// counts leaves out the buckets of histograms, which are most of a page: nothing is
// asked of them, and what fell in one fell in their count as well.
func counts(name []byte) bool { return !bytes.HasSuffix(name, []byte("_bucket")) }

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
