package failure

import (
	"cmp"
	"errors"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/result"
)

const (
	// skew is how far the clocks of two nodes may be apart.
	skew = 2 * time.Second
	// stateMargin is how much older than the job's end a root must be to be
	// the cause of an end that Slurm explains itself.
	stateMargin = 5 * time.Second
	// mostOthers is how many further causes are named.
	mostOthers = 10
)

// A Job is what is known about the run as a whole.
type Job struct {
	State    string         // Slurm's word, "" without Slurm
	Ended    time.Time      // zero if not known
	Ready    time.Time      // every server was ready; zero if that never happened
	Teardown time.Time      // we began to stop the roles; zero if we did not
	NotReady []Unready      // roles whose time to become ready was over
	Location *time.Location // of stamps without a zone; nil means UTC
}

// byState names the causes that Slurm knows better than any log.
var byState = map[string]string{
	"TIMEOUT": "slurm-time-limit", "DEADLINE": "slurm-time-limit", "PREEMPTED": "slurm-preempted",
	"NODE_FAIL": "slurm-node-failure", "BOOT_FAIL": "slurm-node-failure", "OUT_OF_MEMORY": "host-oom-kill",
}

// An Ending is a cause that only the exit code of a process names.
type Ending struct{ ID, Next string }

// Endings are known exit codes: 128 and a signal, or what a shell says.
func Endings() map[int]Ending { return maps.Clone(endings) }

var endings = map[int]Ending{
	126: {"permission-denied", "make the program executable and readable on every node"},
	127: {"program-missing", "the program is not on the step's PATH: check the image, the prologue and the env of the test"},
	134: {"process-aborted", "an assertion of the program or of a library failed: read the last lines of the log"},
	135: {"bus-error", "enlarge /dev/shm (a container option, or the shm size of the container's runtime)"},
	137: {"process-killed", "no log says who sent KILL: look for the kernel's out-of-memory killer (dmesg, sacct MaxRSS), raise mem, or ask for a clean-up script on that node"},
	139: {"segfault", "keep the core file, and try another node and another image"},
	143: {"process-terminated",
		"a process outside this job sent TERM: ask the admin, or look for a clean-up script of another job"},
}

// Explain scans the logs, several at once, and decides. Of logs that cannot be
// read it returns errors, and the cause that the others show.
func (t *Table) Explain(logs []Log, job Job) (*result.Failure, error) {
	reports, err := t.scanAll(logs, job.Location)
	return t.Decide(reports, job), err
}

// ExplainLogs decides over logs of which nothing else is known, not even whether
// anything failed; nil if they show no failure. Stamps without a zone are in loc.
func (t *Table) ExplainLogs(logs []Log, loc *time.Location) (*result.Failure, error) {
	reports, err := t.scanAll(logs, loc)
	f := t.Decide(reports, Job{Location: loc})
	if f.Confidence != result.NoCause {
		return f, err
	}
	for i := range reports {
		if r := &reports[i]; r.Final {
			f := t.spoken(r, unknown(r, nil))
			if f.Cause == killed && anyDone(reports) {
				continue
			}
			if f.Confidence != result.NoCause || !goesOn(f.Line) {
				return f, err
			}
		}
	}
	for i := range reports {
		if f := t.stepEnd(&reports[i]); f != nil {
			return f, err
		}
	}
	return nil, err
}

func (t *Table) scanAll(logs []Log, loc *time.Location) ([]Report, error) {
	reports, errs := make([]Report, len(logs)), make([]error, len(logs))
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(len(logs), runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(logs); i = next.Add(1) - 1 {
				reports[i], errs[i] = t.Scan(logs[i], loc)
			}
		})
	}
	workers.Wait()
	return reports, errors.Join(errs...)
}

// clue is a finding with what Decide needs to weigh it.
type clue struct {
	Finding
	*entry
	report *Report
	order  int // of the report, then of the line
	index  int // in the table: the lower, the more specific
	at     time.Time
	kind   Kind
}

// Decide returns the cause of a failed run; its Cause is "unknown" if no line
// says more than that something ended.
func (t *Table) Decide(reports []Report, job Job) *result.Failure {
	clues := t.clues(reports, job)
	roots := ranked(only(clues, Root))
	symptoms := ranked(append(only(clues, Symptom), hidden(clues)...))
	rest := append(slices.Clone(roots), symptoms...)
	if id, ok := byState[job.State]; ok {
		if old := slices.IndexFunc(roots,
			func(c clue) bool { return older(c, job.Ended) && c.entry.ID != id }); old >= 0 {
			return t.failure(roots[old], result.Exact, rest)
		}
		return t.fromState(id, rest)
	}
	dead := died(reports)
	serviceDied := dead != nil && dead.service()
	inDead := func(c clue) bool {
		return !serviceDied || c.insideService() || c.report.File == dead.File && c.report.Role == dead.Role
	}
	if i := slices.IndexFunc(roots, inDead); i >= 0 {
		if slices.Contains(missed, roots[i].entry.ID) {
			if f := t.serviceWords(reports, roots[i], rest); f != nil {
				return f
			}
		}
		return t.failure(roots[i], roots[i].confidence(), rest)
	}
	if i := slices.IndexFunc(symptoms, clue.insideService); i >= 0 {
		return t.failure(symptoms[i], result.FromSymptom, rest)
	}
	// What is left is what the service's users saw of its end.
	if dead != nil && (serviceDied || len(symptoms) == 0) {
		return t.fromEnd(dead, rest)
	}
	if len(symptoms) > 0 && len(job.NotReady) == 0 {
		if f := t.serviceWords(reports, symptoms[0], rest); f != nil {
			return f
		}
		return t.failure(symptoms[0], result.FromSymptom, rest)
	}
	if len(job.NotReady) > 0 {
		return t.fromDeadline(job.NotReady[0], reports, rest)
	}
	return unknown(best(reports), rest)
}

func older(c clue, ended time.Time) bool {
	return !c.at.IsZero() && c.at.Year() != 0 && !ended.IsZero() && ended.Sub(c.at) > stateMargin
}

// confidence of a clue that is taken for a root.
func (c clue) confidence() result.Confidence {
	if c.entry.Kind == Root {
		return result.Exact
	}
	return result.FromSymptom
}

// deadline is the id of "a role did not become ready".
const deadline = "health-deadline"

// generic is the id of any exception of a program.
const generic = "unhandled-exception"

// killed is the id of a process that got SIGKILL: scripts stop their servers that way,
// so it is no failure where a client has all its answers and nobody complains.
const killed = "process-killed"

func anyDone(reports []Report) bool {
	return slices.ContainsFunc(reports, func(r Report) bool { return r.Done })
}

// clues returns the findings that may be a cause at all.
func (t *Table) clues(reports []Report, job Job) []clue {
	reference := latest(reports, job)
	var out []clue
	for i := range reports {
		for _, f := range reports[i].Findings {
			index, known := t.byID[f.ID]
			if !known || f.Stopping || f.Overcome {
				continue
			}
			c := clue{Finding: f, entry: &t.entries[index], report: &reports[i], order: i, index: index, kind: f.Kind}
			c.at = inYear(f.Time, reference)
			if c.at.IsZero() {
				c.at = reports[i].Ended
			}
			if c.kind == Root && (f.Quoted || f.Passing && endedByItself(&reports[i], f)) {
				c.kind = Symptom
			}
			if !c.explainedByStage(job) {
				out = append(out, c)
			}
		}
	}
	promote(out)
	if anyDone(reports) && !slices.ContainsFunc(out,
		func(c clue) bool { return c.ID != killed && (c.kind == Root || c.kind == Symptom) }) {
		return slices.DeleteFunc(out, func(c clue) bool { return c.ID == killed })
	}
	return out
}

// endedByItself reports whether a log goes on to an exception that is no warning and
// ends its process: what it warned of before is not why.
func endedByItself(r *Report, warning Finding) bool {
	return (r.Final || r.Exit != 0) && slices.ContainsFunc(r.Findings, func(f Finding) bool {
		return f.No > warning.No && !f.Passing && f.ID == generic
	})
}

// lastMinute is how long before the end of its process an exception still is
// what ended it.
const lastMinute = time.Minute

// promote takes the exception that ended a process for a root, if the log has
// none that the table knows: what other processes met later does not explain it.
func promote(clues []clue) {
	for i := range clues {
		c := &clues[i]
		ended := c.report.Ended
		if c.entry.ID != generic || c.Quoted || ended.IsZero() || c.at.Before(ended.Add(-lastMinute)) ||
			c.at.After(ended.Add(skew)) {
			continue
		}
		if !slices.ContainsFunc(clues,
			func(d clue) bool { return d.order == c.order && d.entry.Kind == Root && d.kind == Root }) {
			c.kind = Root
		}
	}
}

// latest returns the latest time that names its year, zero if none does.
func latest(reports []Report, job Job) time.Time {
	var last time.Time
	note := func(t time.Time) {
		if t.After(last) {
			last = t
		}
	}
	note(job.Ended)
	note(job.Ready)
	note(job.Teardown)
	for _, r := range reports {
		note(r.Ended)
	}
	if last.IsZero() {
		for _, r := range reports {
			for _, f := range r.Findings {
				note(f.Time)
			}
		}
	}
	return last
}

// explainedByStage reports whether the line belongs to our own teardown, or
// to a client's retries before the servers were ready. Stamps have whole
// seconds: a line of the second in which the teardown began came before it.
func (c *clue) explainedByStage(job Job) bool {
	if c.at.IsZero() || c.at.Year() == 0 {
		return false
	}
	if !job.Teardown.IsZero() && c.at.After(job.Teardown) {
		return true
	}
	retry := c.kind == Symptom && (c.Area == "client" || c.Area == "proxy")
	return retry && !job.Ready.IsZero() && c.at.Before(job.Ready.Truncate(time.Second))
}

func only(clues []clue, kind Kind) []clue {
	var out []clue
	for _, c := range clues {
		if c.kind == kind {
			out = append(out, c)
		}
	}
	return out
}

// ranked orders clues of one kind, the most likely cause first: by time, and
// before what they explain where the time leaves the order open.
func ranked(clues []clue) []clue {
	clues = onePerBlock(clues)
	slices.SortStableFunc(clues, func(a, b clue) int {
		return cmp.Or(compareTimes(a.at, b.at), cmp.Compare(a.order, b.order), cmp.Compare(a.No, b.No))
	})
	for i := 1; i < len(clues); i++ {
		first := i
		for j := i - 1; j >= 0; j-- {
			if clues[i].mayPrecede(clues[j]) && clues[i].explains(clues[j]) || clues[i].saysMore(clues[j]) {
				first = j
			}
		}
		if first < i {
			c := clues[i]
			clues = slices.Insert(slices.Delete(clues, i, i+1), first, c)
		}
	}
	return clues
}

// onePerBlock keeps of each traceback the most specific clue, and
// makes the times of a file's clues follow its lines.
func onePerBlock(clues []clue) []clue {
	var out []clue
	for _, c := range clues {
		same := slices.IndexFunc(out, func(o clue) bool {
			return o.order == c.order && c.Block != 0 && o.Block == c.Block
		})
		if same >= 0 {
			if c.index < out[same].index || c.index == out[same].index && c.tellsMore(out[same]) {
				c.at, c.Since = out[same].at, out[same].Since
				out[same] = c
			}
			continue
		}
		if n := len(out); n > 0 && out[n-1].order == c.order && compareTimes(c.at, out[n-1].at) < 0 {
			c.at = out[n-1].at
		}
		out = append(out, c)
	}
	return out
}

// tellsMore reports whether an exception of a chain says what it is about, and the one
// before it only that the program has a defect.
func (c clue) tellsMore(d clue) bool { return d.Nature == defect && c.Nature != defect }

// compareTimes puts clues without a time last.
func compareTimes(a, b time.Time) int {
	switch {
	case a.IsZero() && b.IsZero():
		return 0
	case a.IsZero():
		return 1
	case b.IsZero():
		return -1
	}
	return a.Compare(b)
}

func (t *Table) failure(c clue, confidence result.Confidence, all []clue) *result.Failure {
	f := &result.Failure{
		Cause: c.entry.ID, Line: c.Line, File: c.report.File, LineNumber: c.No,
		Role: c.report.Role, Node: c.report.Node, Rank: c.Rank,
		Next: c.next(), Command: c.entry.Command, Confidence: confidence, Others: others(c, all), Kind: c.Nature,
		About: c.About,
	}
	if m := backend.FindStringSubmatch(c.Line); m != nil && c.entry.ID == backendFailed {
		f.Role, f.Node, f.Rank, f.About = m[1], "", "", m[2]
	}
	return f
}

// backendFailed is the id of the line by which our proxy names the server that failed a
// request, and backend the server in it: its role, and its address.
const backendFailed = "backend-failed"

var backend = lazyregexp.New(`backend="(\w+) (http[^"]+)"`)

// fromState names the cause that Slurm's state stands for, with the line that
// shows it if there is one.
func (t *Table) fromState(id string, all []clue) *result.Failure {
	for _, c := range all {
		if c.entry.ID == id {
			return t.failure(c, result.FromState, all)
		}
	}
	f := &result.Failure{Cause: id, Confidence: result.FromState, Others: others(clue{}, all)}
	if i, ok := t.byID[id]; ok {
		f.Next, f.Command = t.entries[i].Next, t.entries[i].Command
	}
	return f
}

// others lists every cause but the chosen one, each id once for each file.
func others(chosen clue, all []clue) []result.OtherCause {
	var out []result.OtherCause
	for _, c := range all {
		if chosen.entry != nil && c.entry.ID == chosen.entry.ID && c.report == chosen.report {
			continue
		}
		if slices.ContainsFunc(out,
			func(o result.OtherCause) bool { return o.Cause == c.entry.ID && o.File == c.report.File }) {
			continue
		}
		if out = append(out, result.OtherCause{
			Cause: c.entry.ID, Line: c.Line, File: c.report.File, LineNumber: c.No, Role: c.report.Role,
			Node: c.report.Node,
		}); len(out) == mostOthers {
			break
		}
	}
	return out
}

// died returns the report of the process that ended first by itself, and not
// well; nil if none did.
func died(reports []Report) *Report {
	var first *Report
	for i := range reports {
		r := &reports[i]
		if r.Ended.IsZero() && r.Exit == 0 {
			continue
		}
		if first == nil || r.service() && !first.service() ||
			r.service() == first.service() && compareTimes(r.Ended, first.Ended) < 0 {
			first = r
		}
	}
	return first
}

// service reports whether the log is that of a part of the service.
func (r *Report) service() bool {
	c := Conditions(r.Role)
	return !slices.Contains(c, "client") && !(len(c) == 1 && c[0] == "job")
}

// fromEnd names the cause that an exit code stands for.
func (t *Table) fromEnd(r *Report, rest []clue) *result.Failure {
	f := unknown(r, rest)
	e, ok := endings[r.Exit]
	if !ok {
		if r.Final {
			return t.spoken(r, f)
		}
		return f
	}
	f.Cause, f.Next, f.Confidence = e.ID, e.Next, result.FromState
	return f
}

// Unready is a role that did not become ready in its time.
type Unready struct {
	Role  string
	Lacks string // what its last answer lacked, "" if there was none
}

// fromDeadline is a role that never became ready, and never said why.
func (t *Table) fromDeadline(u Unready, reports []Report, rest []clue) *result.Failure {
	role := u.Role
	f := &result.Failure{Cause: deadline, Role: role, Confidence: result.FromSymptom, Others: others(clue{}, rest)}
	if i := slices.IndexFunc(reports, func(r Report) bool { return r.Role == role }); i >= 0 {
		shown := unknown(&reports[i], nil)
		f.File, f.Node, f.Line, f.LineNumber, f.Tail = shown.File, shown.Node, shown.Line, shown.LineNumber, shown.Tail
	}
	if u.Lacks != "" {
		f.Line, f.File, f.LineNumber = u.Lacks, "events.jsonl", 0
	}
	f.Others = slices.DeleteFunc(f.Others, func(o result.OtherCause) bool { return o.Cause == deadline })
	if i, ok := t.byID[deadline]; ok {
		f.Next, f.Command = t.entries[i].Next, t.entries[i].Command
	}
	return f
}

// best returns the report to be read of a failure that left no clue: that of
// the process that ended badly, then the one whose last words complain, then any.
func best(reports []Report) *Report {
	if r := died(reports); r != nil {
		return r
	}
	var first *Report
	for i := range reports {
		r := &reports[i]
		switch {
		case len(r.Tail) == 0:
		case first == nil, first.LastWords == nil && r.LastWords != nil:
			first = r
		}
	}
	return first
}

// unknown shows what a log ends with: the line that looks like a complaint, and
// the tail.
func unknown(r *Report, rest []clue) *result.Failure {
	f := &result.Failure{
		Cause: "unknown", Confidence: result.NoCause, Others: others(clue{}, rest),
		Next: "read the end of that log; once you know the cause, add its line to [[signatures]] of the system file",
	}
	if r == nil {
		f.Next, f.Command = "there is no log with a line to read: ask how the job ended and on which nodes", result.AskJob
		return f
	}
	f.File, f.Role, f.Node, f.Tail = r.File, r.Role, r.Node, r.Tail
	if w := r.LastWords; w != nil {
		f.Line, f.LineNumber, f.Rank = w.Line, w.No, w.Rank
	}
	return f
}

// serviceWords are the last words of the part of the service that gave up first, if all
// that is known is what its users saw: a proxy's only if no other part has any. A part
// whose last words are later than what a user saw is not the reason for that.
func (t *Table) serviceWords(reports []Report, seen clue, rest []clue) *result.Failure {
	var first *clue
	var words *result.Failure
	for i := range reports {
		r := &reports[i]
		if !r.Final || !r.service() || r.LastWords == nil {
			continue
		}
		c := clue{Finding: *r.LastWords, entry: &entry{}, report: r}
		c.at = inYear(c.Time, seen.at)
		if !c.behind(seen) || knownAfter(c.at, seen) ||
			first != nil && cmp.Or(cmp.Compare(c.place(), first.place()), compareTimes(c.at, first.at)) >= 0 {
			continue
		}
		if f := t.spoken(r, unknown(r, rest)); f.Confidence != result.NoCause {
			first, words = &c, f
		}
	}
	return words
}

// behind reports whether what a clue saw is the work of the part of the service that
// another one stands in: a daemon's, where it could not be reached.
func (c clue) behind(seen clue) bool {
	if slices.Contains(missed, seen.entry.ID) {
		return c.report != seen.report && slices.Equal(Conditions(c.report.Role), Conditions("dynamo"))
	}
	return c.place() < seen.place()
}

// missed are the ids of daemons that could not be reached.
var missed = []string{"etcd-unreachable", "nats-unreachable"}

// knownAfter reports whether a time is certainly after a clue.
func knownAfter(at time.Time, c clue) bool {
	return !at.IsZero() && !c.at.IsZero() && !c.Since && (at.Year() == 0) == (c.at.Year() == 0) && at.Sub(c.at) > skew
}
