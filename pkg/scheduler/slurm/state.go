package slurm

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/pending"
	"github.com/profllm/profllm/pkg/run"
)

// states is every word that squeue and sacct print for a job, 21.08 to 26.05:
// the base states, then the flags that hide them, the first before the others.
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

	{"COMPLETING", "CG", run.Running, run.Ending},
	{"STAGE_OUT", "SO", run.Running, run.Ending},
	{"CONFIGURING", "CF", run.Running, "booting"},
	{"EXPEDITING", "", run.Queued, "expedited"},
	{"RESIZING", "RS", run.Running, "resizing"},
	{"REQUEUED", "RQ", run.Queued, "requeued"},
	{"REQUEUE_FED", "RF", run.Queued, "requeued"},
	{"REQUEUE_HOLD", "RH", run.Queued, run.Held},
	{"SPECIAL_EXIT", "SE", run.Queued, run.Held},
	{"STOPPED", "ST", run.Running, "stopped"},
	{"REVOKED", "RV", run.Cancelled, "runs on a sibling cluster"},
	{"RESV_DEL_HOLD", "RD", run.Queued, run.Held},
	{"SIGNALING", "SI", run.Running, "signalled"},
}

// baseStates is how many of states are no flags.
const baseStates = 12

// silentFlags stand beside a base state in JSON and change nothing of it.
var silentFlags = []string{"LAUNCH_FAILED", "POWER_UP_NODE", "RECONFIG_FAIL", "UPDATE_DB"}

// parseState reads Slurm's word for a job state: any case, the short form,
// "CANCELLED by 1000", and a word cut off with "+" if only one fits.
func parseState(word string) (state, note string) {
	w := strings.ToUpper(strings.TrimSpace(word))
	prefix, cut := strings.CutSuffix(w, "+")
	if head, tail, ok := strings.Cut(prefix, " "); ok &&
		(strings.HasPrefix(tail, "BY ") || cut && strings.HasPrefix("BY ", tail)) {
		w, prefix, cut = head, head, false // who cancelled it
	}
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

// listed is the word that squeue would print for a base state and flags; "?" if
// there are two base states, none, or a word that nobody knows.
func listed(words []string) string {
	first, base := len(states), ""
	for _, w := range words {
		w = strings.ToUpper(strings.TrimSpace(w))
		i := slices.IndexFunc(states, func(s struct{ word, short, state, note string }) bool { return s.word == w })
		switch {
		case i >= baseStates:
			first = min(first, i)
		case i >= 0 && base == "":
			base = w
		case i < 0 && slices.Contains(silentFlags, w):
		default:
			return "?"
		}
	}
	switch {
	case first < len(states):
		return states[first].word
	case base == "":
		return "?"
	}
	return base
}

// waiting is the note on a pending job by the reason that Slurm gives. The causes
// job-held and job-never-starts go by the same list.
func waiting(st run.State) string {
	if st.State != run.Queued || st.Note != "" {
		return st.Note
	}
	switch pending.Of(st.Reason) {
	case pending.Held:
		return run.Held
	case pending.Never:
		return run.NeverStarts
	}
	return ""
}

// squeueFormat and sacctFormat are the columns asked for.
const (
	squeueFormat = "%i|%T|%r|%N|%j|%k"
	sacctFormat  = "JobID,State,ExitCode,Start,End,ElapsedRaw,NodeList,JobName"
)

// job is one line about a job.
type job struct{ run.State }

// refused reports whether the record is what a refused request leaves behind: it
// used up an id, failed at once and never had a node.
func (j job) refused() bool {
	noNode := j.NodeList == "" || j.NodeList == "None assigned"
	return j.State.State == run.Failed && noNode && j.Elapsed == 0
}

// record completes what was read of a job.
func record(name string, st run.State) job {
	if st.Reason == "None" {
		st.Reason = ""
	}
	st.Note = waiting(st)
	if never := st.Start == "None" || st.Start == "Unknown"; never && st.State == run.Cancelled {
		st.Note = run.NeverRan
	}
	if name != nameless {
		st.Name = name
	}
	return job{st}
}

// nameless is what sacct calls a job of which it knows an end, but has not been told
// the start yet, which holds the name.
const nameless = "allocation"

// isJob tells the id of a job from that of a step and from other text.
func isJob(id string) bool {
	return id != "" && id[0] >= '0' && id[0] <= '9' && !strings.Contains(id, ".")
}

// parseSqueue reads `squeue -h -o squeueFormat`, or JSON. Lines that do not fit
// are left out: site plugins print others.
func parseSqueue(out string, at time.Time) []job {
	if isJSON(out) {
		return parseJSON(out, "squeue", at)
	}
	var jobs []job
	for line := range strings.Lines(out) {
		f := strings.SplitN(strings.TrimRight(line, "\r\n"), "|", 6)
		if len(f) < 5 || !isJob(f[0]) {
			continue
		}
		state, note := parseState(f[1])
		jobs = append(jobs, record(f[4], run.State{
			JobID: f[0], State: state, Note: note, Raw: f[1], Reason: f[2], NodeList: f[3], Source: "squeue", At: at,
		}))
	}
	return jobs
}

// parseSacct reads `sacct -n -P -X -o sacctFormat`, or JSON.
func parseSacct(out string, at time.Time) []job {
	if isJSON(out) {
		return parseJSON(out, "sacct", at)
	}
	var jobs []job
	for line := range strings.Lines(out) {
		f := strings.SplitN(strings.TrimRight(line, "\r\n"), "|", 8)
		if len(f) < 8 || !isJob(f[0]) {
			continue
		}
		state, note := parseState(f[1])
		elapsed, _ := strconv.ParseUint(f[5], 10, 31) // s
		jobs = append(jobs, record(f[7], run.State{
			JobID: f[0], State: state, Note: note, Raw: f[1], ExitCode: f[2], Start: f[3], End: f[4],
			Elapsed: float64(elapsed), NodeList: f[6], Source: "sacct", At: at,
		}))
	}
	return jobs
}

// parseShow reads `scontrol show job`: records that begin with JobId, of which
// only lines are read whose first key is ours, because names and comments may
// hold anything.
func parseShow(out string, at time.Time) []job {
	var jobs []job
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		key, rest, _ := strings.Cut(line, "=")
		if key == "JobId" {
			id, name := shownID(line)
			jobs = append(jobs, job{run.State{JobID: id, Name: name, State: run.Unknown, Source: "scontrol", At: at}})
			continue
		}
		if len(jobs) == 0 {
			continue
		}
		st := &jobs[len(jobs)-1].State
		switch value, _, _ := strings.Cut(rest, " "); key {
		case "JobState":
			st.Raw = value
			st.State, st.Note = parseState(value)
			st.Reason = shown(line, "Reason")
		case "Requeue":
			st.ExitCode = shown(line, "ExitCode")
		case "StartTime":
			st.Start, st.End = value, shown(line, "EndTime")
		case "NodeList":
			if value != "(null)" {
				st.NodeList = value
			}
		}
	}
	jobs = slices.DeleteFunc(jobs, func(j job) bool { return !isJob(j.JobID) })
	for i, j := range jobs {
		jobs[i] = record(j.Name, j.State)
	}
	return jobs
}

// shown is the value of a key on a line of scontrol, up to the next blank.
func shown(line, key string) string {
	_, value, _ := strings.Cut(" "+line, " "+key+"=")
	value, _, _ = strings.Cut(value, " ")
	return value
}

// shownID is the id as squeue prints it, and the name, of a record's first line.
func shownID(line string) (id, name string) {
	line, name, _ = strings.Cut(line, " JobName=")
	id = shown(line, "JobId")
	if task := shown(line, "ArrayTaskId"); task != "" {
		if strings.ContainsAny(task, "-,%:") {
			task = "[" + task + "]"
		}
		id = shown(line, "ArrayJobId") + "_" + task
	} else if offset := shown(line, "HetJobOffset"); offset != "" {
		id = shown(line, "HetJobId") + "+" + offset
	}
	return id, name
}

// merge decides between what squeue and sacct say of one job: squeue while the
// job is not over, sacct's end over squeue's silence, and the richer of two ends
// that agree: where they do not, sacct has not heard of the newest yet.
func merge(queue, acct *job) (run.State, bool) {
	switch {
	case queue == nil && acct == nil:
		return run.State{}, false
	case queue == nil:
		return acct.State, true
	case acct == nil, !queue.Final():
		return queue.State, true
	case acct.Final() && acct.State.State == queue.State.State:
		st := acct.State
		st.Name = cmp.Or(queue.Name, st.Name)
		return st, true
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
