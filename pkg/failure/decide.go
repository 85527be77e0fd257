// Package failure says why a run failed: it looks for the lines that known
// failures print, and decides which of them is the cause.
//
// The table is data (signatures.json); a site can put its own entries in
// front. Scan reads one log on the node that owns it, Decide judges the
// reports of all logs and the job's end together. The package reads no file
// by itself and stops nothing.
//
//	table, err := failure.Builtin()
//	cause, err := table.Explain(logs, failure.Job{State: "FAILED", Ended: end})
package failure

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/result"
)

const (
	// skew is how far the clocks of two nodes may be apart (PL-F2).
	skew = 2 * time.Second
	// stateMargin is how much older than the job's end a root must be to be
	// the cause of an end that Slurm explains itself (PL-F4).
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
	Location *time.Location // of stamps without a zone; nil means UTC
}

// byState names the causes that Slurm knows better than any log (PL-F4).
var byState = map[string]string{
	"TIMEOUT": "slurm-time-limit", "DEADLINE": "slurm-time-limit", "PREEMPTED": "slurm-preempted",
	"NODE_FAIL": "slurm-node-failure", "BOOT_FAIL": "slurm-node-failure", "OUT_OF_MEMORY": "host-oom-kill",
}

// Explain scans the logs and decides.
func (t *Table) Explain(logs []Log, job Job) (*result.Failure, error) {
	reports := make([]Report, 0, len(logs))
	for _, l := range logs {
		r, err := t.Scan(l, job.Location)
		if err != nil {
			return nil, err
		}
		reports = append(reports, r)
	}
	return t.Decide(reports, job), nil
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
	symptoms := ranked(only(clues, Symptom))
	rest := append(slices.Clone(roots), symptoms...)
	if id, ok := byState[job.State]; ok {
		if old := slices.IndexFunc(roots, func(c clue) bool { return older(c, job.Ended) && c.entry.ID != id }); old >= 0 {
			return t.failure(roots[old], result.Exact, rest)
		}
		return t.fromState(id, rest)
	}
	switch {
	case len(roots) > 0:
		return t.failure(roots[0], result.Exact, rest)
	case len(symptoms) > 0:
		return t.failure(symptoms[0], result.FromSymptom, rest)
	}
	return unknown(reports)
}

func older(c clue, ended time.Time) bool {
	return !c.at.IsZero() && c.at.Year() != 0 && !ended.IsZero() && ended.Sub(c.at) > stateMargin
}

// clues returns the findings that may be a cause at all.
func (t *Table) clues(reports []Report, job Job) []clue {
	reference := latest(reports, job)
	var out []clue
	for i := range reports {
		for _, f := range reports[i].Findings {
			index, known := t.byID[f.ID]
			if !known || f.Stopping {
				continue
			}
			c := clue{Finding: f, entry: &t.entries[index], report: &reports[i], order: i, index: index, kind: f.Kind}
			c.at = inYear(f.Time, reference)
			if c.at.IsZero() {
				c.at = reports[i].Ended
			}
			if f.Quoted && c.kind == Root {
				c.kind = Symptom
			}
			if !c.explainedByStage(job) {
				out = append(out, c)
			}
		}
	}
	return out
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
			if clues[j].near(clues[i]) && clues[i].explains(clues[j]) {
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

// onePerBlock keeps of each traceback the most specific clue (PL-F13), and
// makes the times of a file's clues follow its lines.
func onePerBlock(clues []clue) []clue {
	var out []clue
	for _, c := range clues {
		same := slices.IndexFunc(out, func(o clue) bool {
			return o.order == c.order && c.Block != 0 && o.Block == c.Block
		})
		if same >= 0 {
			if c.index < out[same].index {
				c.at = out[same].at
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

// near reports whether clocks or missing stamps leave open which of two clues
// of different files came first.
func (c clue) near(d clue) bool {
	if c.order == d.order {
		return false
	}
	if c.at.IsZero() || d.at.IsZero() || (c.at.Year() == 0) != (d.at.Year() == 0) {
		return true
	}
	return math.Abs(c.at.Sub(d.at).Seconds()) <= skew.Seconds()
}

// explains says which failures bring about which others elsewhere (PL-F5).
func (c clue) explains(d clue) bool {
	fatal := slices.Contains([]string{"gpu-memory", "host-memory", "gpu", "shm"}, c.Area) || c.entry.ID == "segfault"
	consequence := slices.Contains([]string{"nccl", "ray", "client", "proxy", "services"}, d.Area) ||
		slices.Contains([]string{"nixl-backend", "kv-transfer-failed", "health-deadline"}, d.entry.ID)
	switch {
	case fatal && consequence:
		return true
	case strings.HasPrefix(c.entry.ID, "rdma-") || c.entry.ID == "ucx-unreachable":
		return strings.HasPrefix(d.entry.ID, "nixl-") || d.entry.ID == "kv-transfer-failed"
	case d.entry.ID == "health-deadline":
		return true
	case d.Area == "client":
		return c.Area != "client"
	case d.Area == "proxy":
		return c.Area != "client" && c.Area != "proxy"
	}
	return false
}

func (t *Table) failure(c clue, confidence result.Confidence, all []clue) *result.Failure {
	return &result.Failure{
		Cause: c.entry.ID, Line: c.Line, File: c.report.File, LineNumber: c.No,
		Role: c.report.Role, Node: c.report.Node, Rank: c.Rank,
		Next: c.Next, Confidence: confidence, Others: others(c, all),
	}
}

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
		f.Next = t.entries[i].Next
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
		if slices.ContainsFunc(out, func(o result.OtherCause) bool { return o.Cause == c.entry.ID && o.File == c.report.File }) {
			continue
		}
		if out = append(out, result.OtherCause{
			Cause: c.entry.ID, Line: c.Line, File: c.report.File, LineNumber: c.No, Role: c.report.Role, Node: c.report.Node,
		}); len(out) == mostOthers {
			break
		}
	}
	return out
}

// unknown shows the tail of the log whose process ended first.
func unknown(reports []Report) *result.Failure {
	f := &result.Failure{
		Cause: "unknown", Confidence: result.NoCause,
		Next: "read the tail; if the line is typical, add a signature for it",
	}
	var first *Report
	for i := range reports {
		r := &reports[i]
		if len(r.Tail) > 0 && (first == nil || compareTimes(r.Ended, first.Ended) < 0) {
			first = r
		}
	}
	if first != nil {
		f.File, f.Role, f.Node, f.Tail = first.File, first.Role, first.Node, first.Tail
	}
	return f
}
