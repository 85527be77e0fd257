package plan

import (
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/source"
)

// Kinds of a report that a profiler around a server writes.
const (
	NsysReport = "" // of the plans that name no kind
	VizReport  = "viztracer"
)

// reportSuffixes end the names of finished reports, by kind.
var reportSuffixes = map[string]string{NsysReport: ".nsys-rep", VizReport: ".json"}

// ReportWait is how long a profiler may write its report after its server was
// told to end.
const ReportWait = time.Minute

// ReportStem begins the names of the finished reports of a rank of the role, below the run
// directory or absolute. The name goes on with "-" and the host, in older runs with nothing; with
// "." and a number, if the profiler wrote one report for each capture range; and ends in
// ReportSuffix.
func (r *Role) ReportStem(rank int) string {
	return strings.TrimSuffix(r.Report, "0") + strconv.Itoa(rank)
}

// ReportSuffix ends the names of finished reports.
func (r *Role) ReportSuffix() string { return reportSuffixes[r.ReportKind] }

// ReportPattern is the report of the first profiled rank, for a message: the host is known on the
// node only.
func (r *Role) ReportPattern() string {
	first := 0
	if ranks := r.Profiled(); len(ranks) > 0 {
		first = ranks[0]
	}
	if r.ReportKind == VizReport {
		return r.ReportStem(first) + r.ReportSuffix()
	}
	return r.ReportStem(first) + "*" + r.ReportSuffix()
}

// IsReport reports whether a file of that name is a finished report of a rank of the role.
func (r *Role) IsReport(name string, rank int) bool {
	rest, ok := strings.CutPrefix(name, path.Base(r.ReportStem(rank)))
	rest, finished := strings.CutSuffix(rest, r.ReportSuffix())
	return ok && finished && (rest == "" || rest[0] == '-' || rest[0] == '.')
}

// Profiled lists the ranks of the role around which a profiler runs.
func (r *Role) Profiled() []int {
	if r.Report == "" || r.ReportRanks != nil {
		return r.ReportRanks
	}
	all := make([]int, r.Step.Tasks())
	for rank := range all {
		all[rank] = rank
	}
	return all
}

// ProfiledVar marks the process under a profiler, and those that it starts, so
// that they can be told from the profiler's own.
const ProfiledVar = "PROFLLM_PROFILED"

// A wrapper is a profiler before the command of every server.
type wrapper struct {
	name   string
	kind   string           // of its reports
	output string           // stem of their names, below raw/ unless absolute
	rank   string           // stands for the rank in a file's name; "" if the profiler has no such thing
	host   string           // stands for the host behind it; likewise
	suffix string           // that the profiler wants to be told
	ranks  map[string][]int // that are profiled, by the name of the role; nil: all
	traced bool             // the job also starts and stops a profiler inside of the engines
	// the words before the server's, by the report's file and the assignment that marks the server
	lead func(file, mark string) []string
}

// profile puts a profiler around every engine, if the test wants one.
func (p *Plan) profile(in Input, service Service) error {
	if enabled(in.Test.Nsys) && enabled(in.Test.Viz) {
		return source.Errorf(in.Test.Viz.Pos, "nsys and viztracer both run before the server; use one of them").
			Hintf("remove one of the two tables, or set its enable = false")
	}
	if err := p.nsys(in, service); err != nil {
		return err
	}
	if err := p.viztracer(in); err != nil {
		return err
	}
	for i := range p.Roles {
		if r := &p.Roles[i]; r.TraceDir != "" && r.Report == "" { // else its profiler has a supervisor
			mark := p.RunID + "/" + r.Name
			r.Step.wrap(append(p.supervise(mark, true), Texts("--", "env", ProfiledVar+"="+mark)...))
		}
	}
	return nil
}

// supervise is the command that runs a profiled server and ends it in time for what profilers
// write. A job that is cancelled tells every step to end, at once and before the script could stop
// a profiler inside of the server.
func (p *Plan) supervise(mark string, traced bool) []Word {
	words := append([]Word{Self()}, Texts("job", "profile", "--mark", mark)...)
	if traced {
		words = append(words, Texts("--run", p.Dir)...)
	}
	return words
}

// enabled reports whether the table of a profiler is there and not switched off.
func enabled(t *source.Table) bool {
	if t == nil {
		return false
	}
	v := t.Get("enable")
	if v == nil {
		return true
	}
	on, known := v.Bool()
	return on || !known // what is no truth value is refused elsewhere
}

// wrapEngines puts a profiler around the engines. Each report is named after its role, its rank
// and its host: servers that share a name would overwrite each other's.
func (p *Plan) wrapEngines(pos source.Pos, w wrapper) error {
	steps := p.profilable()
	for _, s := range steps {
		if w.ranks == nil || len(w.ranks[s.Name]) > 0 {
			p.wrapStep(w, s)
		}
	}
	for i := range p.Roles {
		r := &p.Roles[i]
		if !r.Engine || w.ranks != nil && len(w.ranks[r.Name]) == 0 {
			continue
		}
		if err := p.wrapEngine(pos, w, r); err != nil {
			return err
		}
	}
	if p.Job.Grace > 0 {
		p.Job.Grace += Seconds(ReportWait)
	}
	what := "the servers"
	if len(steps) > 0 {
		what = "the benchmark"
	}
	p.Notes = append(p.Notes, pos.String()+": "+w.name+" profiles "+what+", so the results cannot be a baseline")
	return nil
}

// A stem begins the names of reports: as the plan keeps it, and as the profiler is told it.
type stem struct{ kept, written string }

// reportStem is that of a role or step, up to the rank.
func (p *Plan) reportStem(w wrapper, name string) stem {
	output := w.output
	if !path.IsAbs(output) {
		output = path.Join("raw", output)
	}
	s := stem{kept: output + "-" + name + "-"}
	s.written = s.kept
	if !path.IsAbs(s.kept) {
		s.written = path.Join(p.Dir, s.kept)
	}
	return s
}

// wrapEngine puts a profiler around one engine.
func (p *Plan) wrapEngine(pos source.Pos, w wrapper, r *Role) error {
	stem := p.reportStem(w, r.Name)
	file := stem.written
	r.Report, r.ReportKind = stem.kept+"0", w.kind
	rank := "0"
	if r.servers() > 1 { // every rank is a server
		if rank = w.rank; rank == "" {
			return source.Errorf(pos, "%s writes one file, but %s has a server on each of %d nodes", w.name, r.Name,
				r.Step.Tasks()).Hintf("[nsys] writes a report for each")
		}
	}
	mark := p.RunID + "/" + r.Name
	lead := p.supervise(mark, w.traced)
	if only := w.ranks[r.Name]; w.ranks != nil && len(only) < r.servers() {
		r.ReportRanks = only
		lead = append(lead, Texts("--ranks", FormatGPUs(only))...)
	}
	lead = append(lead, Text("--"))
	r.Step.wrap(append(lead, Texts(w.lead(file+rank+w.host+w.suffix, ProfiledVar+"="+mark)...)...))
	return nil
}
