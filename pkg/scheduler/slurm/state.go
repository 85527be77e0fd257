package slurm

import (
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/run"
)

// states is every word that squeue and sacct print for a job, 21.08 to 26.05:
// twelve base states, then the flags that hide them.
var states = []struct{ word, short, state, note string }{
	{"PENDING", "PD", run.Queued, ""},
	{"RUNNING", "R", run.Running, ""},
	{"SUSPENDED", "S", run.Running, "suspended"},
	{"COMPLETED", "CD", run.Succeeded, ""},
	{"CANCELLED", "CA", run.Cancelled, ""},
	{"FAILED", "F", run.Failed, ""},
	{"TIMEOUT", "TO", run.Timeout, ""},
	{"NODE_FAIL", "NF", run.NodeFail, ""},
	{"PREEMPTED", "PR", run.Preempted, ""},
	{"BOOT_FAIL", "BF", run.NodeFail, "boot failed"},
	{"DEADLINE", "DL", run.Timeout, "never started in time"},
	{"OUT_OF_MEMORY", "OOM", run.OOM, ""},
	{"COMPLETING", "CG", run.Running, "ending"},
	{"CONFIGURING", "CF", run.Running, "booting"},
	{"STAGE_OUT", "SO", run.Running, "ending"},
	{"RESIZING", "RS", run.Running, "resizing"},
	{"SIGNALING", "SI", run.Running, "signalled"},
	{"STOPPED", "ST", run.Running, "stopped"},
	{"EXPEDITING", "", run.Queued, "expedited"},
	{"REQUEUED", "RQ", run.Queued, "requeued"},
	{"REQUEUE_HOLD", "RH", run.Queued, "held"},
	{"SPECIAL_EXIT", "SE", run.Queued, "held"},
	{"RESV_DEL_HOLD", "RD", run.Queued, "held"},
	{"REQUEUE_FED", "RF", run.Queued, "requeued"},
	{"REVOKED", "RV", run.Cancelled, "runs on a sibling cluster"},
}

// ParseState reads Slurm's word for a job state: any case, the short form,
// "CANCELLED by 1000", and a word cut off with "+" if only one fits.
func ParseState(word string) (state, note string) {
	w := strings.ToUpper(strings.TrimSpace(word))
	w, _, _ = strings.Cut(w, " BY ")
	prefix, cut := strings.CutSuffix(w, "+")
	state = run.Unknown
	hits := 0
	for _, s := range states {
		switch {
		case s.word == w, s.short != "" && s.short == w, s.word == prefix:
			return s.state, s.note
		case cut && prefix != "" && strings.HasPrefix(s.word, prefix):
			state, note = s.state, s.note
			hits++
		}
	}
	if hits > 1 {
		return run.Unknown, "ambiguous"
	}
	return state, note
}

// squeueFormat and sacctFormat are the columns asked for.
const (
	squeueFormat = "%i|%T|%r|%N|%j|%k"
	sacctFormat  = "JobID,State,ExitCode,Start,End,ElapsedRaw,NodeList,JobName"
)

// job is one line about a job.
type job struct {
	run.State
	name string
}

// refused reports whether the record is what a refused request leaves behind: it
// used up an id, failed at once and never had a node (PL-S23).
func (j job) refused() bool {
	noNode := j.NodeList == "" || j.NodeList == "None assigned"
	return j.State.State == run.Failed && noNode && j.Elapsed == 0
}

// parseSqueue reads `squeue -h -o squeueFormat`. Lines that do not fit are left
// out: site plugins print others.
func parseSqueue(out string, at time.Time) []job {
	var jobs []job
	for _, line := range strings.Split(out, "\n") {
		f := strings.SplitN(strings.TrimRight(line, "\r"), "|", 6)
		if len(f) < 5 || f[0] == "" {
			continue
		}
		state, note := ParseState(f[1])
		reason := f[2]
		if reason == "None" {
			reason = ""
		}
		jobs = append(jobs, job{name: f[4], State: run.State{
			JobID: f[0], State: state, Note: note, Raw: f[1], Reason: reason, NodeList: f[3], Source: "squeue", At: at,
		}})
	}
	return jobs
}

// parseSacct reads `sacct -n -P -X -o sacctFormat`.
func parseSacct(out string, at time.Time) []job {
	var jobs []job
	for _, line := range strings.Split(out, "\n") {
		f := strings.SplitN(strings.TrimRight(line, "\r"), "|", 8)
		if len(f) < 8 || f[0] == "" {
			continue
		}
		state, note := ParseState(f[1])
		if state == run.Cancelled && (f[3] == "None" || f[3] == "Unknown") {
			note = run.NeverRan
		}
		elapsed, _ := strconv.ParseUint(f[5], 10, 31) // s
		jobs = append(jobs, job{name: f[7], State: run.State{
			JobID: f[0], State: state, Note: note, Raw: f[1], ExitCode: f[2], Start: f[3], End: f[4],
			Elapsed: float64(elapsed), NodeList: f[6], Source: "sacct", At: at,
		}})
	}
	return jobs
}

// merge decides between what squeue and sacct say of one job: squeue while the
// job is not over, sacct's end over squeue's silence, and the richer of two ends.
func merge(queue, acct *job) (run.State, bool) {
	switch {
	case queue == nil && acct == nil:
		return run.State{}, false
	case queue == nil:
		return acct.State, true
	case acct == nil, !queue.Final():
		return queue.State, true
	case acct.Final():
		return acct.State, true
	}
	return queue.State, true
}

// maxTasks bounds what a list of tasks may stand for: ours are runs of a scenario.
const maxTasks = 100000

// tasks lists the ids that 60_[0-3,6-8:2%2] stands for, none if the id is no such
// list, or cut short.
func tasks(id string) []string {
	base, list, found := strings.Cut(id, "_[")
	list, closed := strings.CutSuffix(list, "]")
	if !found || !closed || base == "" {
		return nil
	}
	list, _, _ = strings.Cut(list, "%")
	var ids []string
	for _, item := range strings.Split(list, ",") {
		item, stride, stepped := strings.Cut(item, ":")
		from, to, ranged := strings.Cut(item, "-")
		if !ranged {
			to = from
		}
		if !stepped {
			stride = "1"
		}
		first, err1 := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		by, err3 := strconv.Atoi(stride)
		if err1 != nil || err2 != nil || err3 != nil || first < 0 || by < 1 || last >= maxTasks {
			return nil
		}
		for i := first; i <= last; i += by {
			ids = append(ids, base+"_"+strconv.Itoa(i))
		}
		if len(ids) > maxTasks {
			return nil
		}
	}
	return ids
}
