package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/campaign"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

// endsAs is how a run may end, in the words of this account.
type endsAs string

const (
	endsValid     endsAs = "valid"
	endsFailed    endsAs = "failed"
	endsCancelled endsAs = "cancelled"
	endsTimeout   endsAs = "timeout"
	endsRefused   endsAs = "refused"
	endsLost      endsAs = "unknown, forgotten"
)

// endings says how a run ends by what was done to it.
var endings = map[fate]endsAs{
	spared: endsValid, requeue: endsValid, nodeDown: endsValid, nodeLost: endsValid, slurmdDead: endsValid,
	cancelWaiting: endsCancelled, cancelRunning: endsCancelled, cancelVerb: endsCancelled,
	killRole: endsFailed, killWatch: endsFailed, killFinish: endsFailed, killScript: endsFailed, timeLimit: endsTimeout,
}

// record is a line of Slurm's accounting.
type record struct {
	job, name, state, exit string
	start, end             time.Time // zero if never
	nodes                  string
}

// account compares what profllm says with what was done, with Slurm's records
// and with what each execution wrote for itself.
func (c *chaos) account() {
	c.nothingLeft()
	records := c.records()
	counts := map[string]int{}
	for _, e := range c.plan.executions {
		roots, _ := filepath.Glob(filepath.Join(c.dir, e.name, "results", "*", run.ScenarioFile))
		if len(roots) != 1 {
			c.Errorf("%s: %d scenarios", e.name, len(roots))
			continue
		}
		root := filepath.Dir(roots[0])
		c.known(e, root, records)
		c.collected(e, root)
		broken := map[int]bool{}
		for i, r := range e.runs {
			dir := filepath.Join(root, r.dir)
			says := c.verdict(e, dir)
			want, touched := c.expected(e, i, root, records, broken)
			broken[i] = says != endsValid
			counts[fmt.Sprint(want, map[bool]string{true: " during an outage", false: ""}[touched])]++
			c.executedOnce(e, r, dir, records)
			if !slices.Contains(want, says) {
				c.Errorf("%s %s (%s, %s) ends %s, want %v; see %s", e.name, r.dir, e.kind, r.fate, says, want, dir)
			}
			c.agrees(e, r, dir, says, records)
			if events, _ := os.ReadFile(filepath.Join(dir, run.EventFile)); says == endsValid &&
				strings.Count(string(events), "all-ready") != 1 {
				c.Errorf("%s %s: two executions are mixed:\n%s", e.name, r.dir, events)
			}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		c.Logf("%3d runs end as %s", counts[k], k)
	}
	c.Logf("%d deeds, %d outages, %.0f s", len(c.deeds), len(c.gaps), time.Since(c.began).Seconds())
}

// nothingLeft: no job, no step, no process of one, and no node is taken. Slurm may
// have drained one whose slurmd was killed under a starting job.
func (c *chaos) nothingLeft() {
	ask := func(args ...string) string {
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		if err != nil {
			return err.Error()
		}
		return strings.TrimSpace(string(out))
	}
	var left string
	free := func() bool {
		left = ask("squeue", "-h", "-a", "-o", "%i %T %j") + ask("squeue", "-h", "-s") + ask("sinfo", "-h", "-N", "-p",
			"main", "-t", "alloc,mix,comp", "-o", "%N %T")
		for _, p := range processes("") {
			if strings.Contains(p.env, c.dir) || strings.Contains(p.cmdline, c.dir) {
				left += fmt.Sprintf("process %d %s\n", p.pid, strings.ReplaceAll(p.cmdline, "\x00", " "))
			}
		}
		return left == ""
	}
	for _, last := range []bool{false, true} {
		for end := time.Now().Add(time.Minute); !free() && time.Now().Before(end); time.Sleep(time.Second) {
		}
		if left == "" {
			return
		}
		if last || !c.endGhosts() {
			c.Errorf("left: %s", left)
			return
		}
	}
}

// endGhosts cancels the jobs that a controller has read from its last state before it was
// killed, and that had ended since: it lists them as running, and no node has a process of
// them. It reports whether there are any.
func (c *chaos) endGhosts() bool {
	out, err := exec.Command("squeue", "-h", "-a", "-t", "running,completing", "-o", "%A %i").Output()
	require.NoError(c, err)
	var names []string
	for line := range strings.Lines(string(out)) {
		id, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		if len(processes(id)) > 0 {
			return false
		}
		names = append(names, name) // of an array's task: by its own id such a controller does not find it
	}
	for _, name := range names {
		out, err := exec.Command("scancel", name).CombinedOutput()
		c.Logf("job %s has ended, and the controller lists it as running; scancel: %v %s", name, err, out)
	}
	return len(names) > 0
}

// records reads Slurm's accounting, also of what was queued again, when it knows
// every end.
func (c *chaos) records() []record {
	var list []record
	open := ""
	for try := 0; try < 15; try++ {
		// With -S alone sacct leaves out what never could start.
		ids, err := exec.Command("bash", "-c",
			`cat $(find "$0" -name submit.json) | sed -n 's/.*"job_id": "\([0-9]*\).*/\1/p' | sort -un | paste -sd,`,
			c.dir).Output()
		require.NoError(c, err)
		since := c.began.Add(-time.Minute).Format("2006-01-02T15:04:05")
		out, err := exec.Command("bash", "-c", `sacct -n -P -X -D -S "$0" -o "$2"; sacct -n -P -X -D -j "$1" -o "$2"`,
			since, strings.TrimSpace(string(ids)), "JobID,JobName,State,ExitCode,Start,End,NodeList").Output()
		list, open = nil, ""
		for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
			f := strings.Split(line, "|")
			if len(f) != 7 {
				continue
			}
			start, _ := time.ParseInLocation("2006-01-02T15:04:05", f[4], time.Local)
			end, _ := time.ParseInLocation("2006-01-02T15:04:05", f[5], time.Local)
			if r := (record{taskOf(f[0]), f[1], f[2], f[3], start, end, f[6]}); !slices.Contains(list, r) {
				list = append(list, r)
			}
			if f[2] == "RUNNING" || f[2] == "PENDING" {
				open += line + "\n"
			}
		}
		if err == nil && open == "" {
			return list
		}
		time.Sleep(time.Second)
	}
	c.say("accounting lacks the end of what the controller has forgotten:\n%s", open)
	return list
}

// taskOf is the job of a record. The last task of an array keeps the array's record,
// which goes on to name all that were left, 36_[5-6], if the database was never told
// that the task had begun.
func taskOf(job string) string {
	array, tasks, of := strings.Cut(job, "_[")
	if !of {
		return job
	}
	tasks, _, _ = strings.Cut(strings.TrimSuffix(tasks, "]"), "%")
	return array + "_" + tasks[strings.LastIndexAny(tasks, "-,")+1:]
}

// known: every job that carries a name of this scenario is on its records, and on no
// two of them, but for a number that the controller gave again after it had forgotten
// the first job.
func (c *chaos) known(e execution, root string, records []record) {
	type holder struct {
		dir string
		at  time.Time
	}
	names, ids := map[string]bool{}, map[string]holder{}
	units := []string{}
	for _, pattern := range []string{"*/*/plan.json", "*/*/*/plan.json", "batches/*/batch.json"} {
		files, _ := filepath.Glob(filepath.Join(root, pattern))
		for _, f := range files {
			units = append(units, filepath.Dir(f))
		}
	}
	for _, dir := range units {
		u, err := run.ReadUnit(dir)
		require.NoError(c, err)
		names[u.Job().Name] = true
		subs, _ := filepath.Glob(filepath.Join(dir, run.AttemptDir, "*", run.SubmitFile))
		for _, f := range append(subs, filepath.Join(dir, run.SubmitFile)) {
			var s run.Submission
			if run.ReadJSON(f, &s) != nil || s.JobID == "" {
				continue
			}
			if other, taken := ids[s.JobID]; taken && other.dir != dir && !c.givenTwice(other.at, s.Time) {
				c.Errorf("%s: job %s is on the records of %s and %s", e.name, s.JobID, other.dir, dir)
			}
			ids[s.JobID] = holder{dir, s.Time}
		}
	}
	for _, r := range records {
		if base, _, _ := strings.Cut(r.job, "_"); names[r.name] && ids[base].dir == "" {
			c.Errorf("%s: job %s (%s, %s) is on no record", e.name, r.job, r.name, r.state)
		}
	}
}

// collected: a second collect changes no byte, says the same, and exits as the
// verdicts demand.
func (c *chaos) collected(e execution, root string) {
	u := &user{chaos: c, execution: e, dir: filepath.Join(c.dir, e.name)}
	var first map[string]string
	var said *outcome
	for range 2 {
		o, err := u.profllm(0, "collect", root)
		if err != nil {
			c.Errorf("%s: %v", e.name, err)
			return
		}
		files := map[string]string{}
		filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && d.Name() != run.StateFile { // which says when Slurm was asked
				data, _ := os.ReadFile(path)
				files[path] = string(data)
			}
			return nil
		})
		if first != nil {
			for path, data := range files {
				if first[path] != data {
					c.Errorf("%s: a second collect changed %s", e.name, path)
				}
			}
			if len(files) != len(first) || o.stdout != said.stdout || o.code != said.code {
				c.Errorf("%s: a second collect says something else:\n%s%s", e.name, said.stdout, o.stdout)
			}
		}
		first, said = files, o
	}
	want, unjudged := exitOK, exitOK
	for _, r := range e.runs {
		dir := filepath.Join(root, r.dir)
		var end run.Sentinel
		well := run.ReadJSON(filepath.Join(dir, run.SentinelFile), &end) == nil && end.Code == 0
		switch says := c.verdict(e, dir); {
		case says == endsValid:
		case says == endsLost:
			unjudged = exitNotOver
		case says == endsRefused:
			unjudged = cmp.Or(unjudged, exitNotSubmit)
		case says == endsCancelled, !well, jobStateFails(e, dir):
			want = exitJobFailed
		case says == endsTimeout && e.kind == "loads": // all were over before
		case want == exitOK: // its numbers alone are in doubt
			want = exitInvalid
		}
	}
	if want = cmp.Or(want, unjudged); said.code != want {
		c.Errorf("%s: collect exits with %d, want %d:\n%s", e.name, said.code, want, said.stdout)
	}
}

// resultsOf are the files of a run's records.
func resultsOf(e execution, dir string) []string {
	if e.kind == "loads" {
		return []string{filepath.Join(dir, "quiet", run.ResultFile), filepath.Join(dir, "busy", run.ResultFile)}
	}
	return []string{filepath.Join(dir, run.ResultFile)}
}

func decodeFile(file string) (*result.Result, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return result.Decode(data)
}

// jobStateFails reports whether the job of a run ended badly, whatever its script says: a
// controller that was away may time out a job that had ended.
func jobStateFails(e execution, dir string) bool {
	return slices.ContainsFunc(resultsOf(e, dir), func(file string) bool {
		r, err := decodeFile(file)
		if err != nil || r.Validity == nil {
			return false
		}
		c := r.Validity.Check("job-state")
		return c != nil && c.Outcome == result.Fail
	})
}

// verdict is what profllm says of a run, over its loads; "" if its files
// contradict each other.
func (c *chaos) verdict(e execution, dir string) endsAs {
	var book run.Book
	sub, err := book.ReadSubmission(dir)
	if err != nil {
		return endsAs("without a submission: " + err.Error())
	}
	if sub.Refused != "" {
		return endsRefused
	}
	var st run.State
	if err := run.ReadJSON(filepath.Join(dir, run.StateFile), &st); err != nil {
		return endsAs(err.Error())
	}
	var words []string
	all := true
	for _, f := range resultsOf(e, dir) {
		r, err := decodeFile(f)
		if err != nil {
			return endsAs(err.Error())
		}
		ok := r.Status == result.Completed && r.Validity.Verdict == result.VerdictValid
		all = all && ok
		words = append(words, fmt.Sprintf("%s %s %v", r.Status, r.Validity.Verdict, r.Validity.Words))
		if r.Slurm == nil || r.Slurm.JobID != sub.JobID {
			return endsAs(fmt.Sprintf("of another job than %s: %+v", sub.JobID, r.Slurm))
		}
		if st.State == run.Cancelled && r.Status != result.Cancelled && !ok {
			return endsAs("cancelled job, but " + words[0])
		}
	}
	switch {
	case all && st.State == run.Succeeded:
		return endsValid
	case st.State == run.Cancelled && !all:
		return endsCancelled
	case st.State == run.Timeout && (!all || e.kind == "loads"): // a load that was over before counts
		return endsTimeout
	case st.State == run.Failed && !all:
		return endsFailed
	case st.State == run.Unknown && st.Note == run.Forgotten && !all:
		return endsLost
	}
	return endsAs(fmt.Sprintf("%s %s, results %v", st.State, st.Note, words))
}

// expected lists how run i may end: exactly one way, unless an outage touched the
// run or one that it depends on, which may make a job fail. broken are the runs
// before it that do not end valid.
func (c *chaos) expected(e execution, i int, root string, records []record,
	broken map[int]bool) (want []endsAs, touched bool) {
	r := e.runs[i]
	end := endings[r.fate]
	deed := c.deeds[e.name+" "+r.dir]
	if !deed.done && r.fate != timeLimit {
		end = endsValid
	}
	// What a cancelled or failed run takes with it.
	for j := range i {
		before := e.runs[j]
		deed := c.deeds[e.name+" "+before.dir]
		if !deed.done || !broken[j] && (len(c.witnesses(filepath.Join(root, before.dir))) > 1 ||
			c.forgettable(deed.at)) {
			continue // nothing was done, or Slurm forgot it, or the execution that it was done to
		}
		switch {
		case e.kind == "chain" && endings[before.fate] != endsValid, e.kind == "sequence" &&
			endings[before.fate] == endsCancelled:
			end = endsCancelled
			if e.resume && endings[before.fate] == endsFailed && !e.failed {
				end = endsRefused // it waits for one that failed
			}
		}
	}
	sub, _ := new(run.Book).ReadSubmission(filepath.Join(root, r.dir))
	switch {
	case e.resume && !e.failed && end == endsCancelled && deed.job == sub.JobID &&
		campaign.FinishedWell(filepath.Join(root, r.dir), sub):
		// Its script was over, well, before the cancellation came, which resume does not repeat.
	case e.resume && end == endsCancelled, e.failed && end == endsFailed:
		end = endsValid
	}
	touched = c.touched(filepath.Join(root, r.dir), records)
	for j := range i { // in a chain and in a sequence a run depends on all before it
		touched = touched || (e.kind == "chain" || e.kind == "sequence") &&
			c.touched(filepath.Join(root, e.runs[j].dir), records)
	}
	want = []endsAs{end}
	if !touched {
		return want, false
	}
	if len(c.witnesses(filepath.Join(root, r.dir))) > 1 ||
		endings[r.fate] == endsCancelled && deed.done && c.forgettable(deed.at) {
		want = append(want, endsValid) // Slurm forgot the cancellation, or the execution that something was done to
	}
	// A controller that forgot an end, or a scancel, waits for the time limit.
	want = append(want, endsFailed, endsTimeout, endsLost)
	if i > 0 && broken[i-1] {
		switch e.kind {
		case "chain":
			want = append(want, endsCancelled, endsRefused)
		case "sequence":
			want = append(want, endsCancelled) // the job was over before its turn
		}
	}
	return want, touched
}

// touched reports whether a job of the run was under way while a daemon that it
// needs was away, or got the number of a job that the controller had forgotten.
func (c *chaos) touched(dir string, records []record) bool {
	var book run.Book
	if sub, err := book.ReadSubmission(dir); err == nil {
		if c.forgettable(sub.Time) {
			return true
		}
		for _, r := range records { // nodes end the job that was forgotten, and with it this one
			if r.job == sub.JobID && !r.start.IsZero() && r.start.Before(sub.Time) && c.givenTwice(r.start, sub.Time) {
				return true
			}
		}
	}
	names := c.names(dir)
	for _, x := range c.witnesses(dir) {
		for _, r := range records {
			if r.job != x.job || !names[r.name] && r.name != nameless {
				continue
			}
			if r.start.IsZero() { // a controller that died meanwhile forgot that the job had begun
				r.start = x.at
			}
			for _, g := range c.gaps {
				node, slurmd := strings.CutPrefix(g.daemon, "slurmd@")
				if g.daemon == "slurmdbd" || slurmd && !slices.Contains(c.expand(r.nodes), node) {
					continue
				}
				if g.from.Before(r.end.Add(2*time.Second)) && g.to.Add(2*time.Second).After(r.start) {
					return true
				}
			}
		}
	}
	// An execution that the controller has forgotten has no record of its own.
	all := c.witnesses(dir)
	return len(all) > 1 && slices.ContainsFunc(c.gaps, func(g gap) bool {
		return g.daemon == "slurmctld" && g.to.After(all[0].at) && g.from.Before(all[len(all)-1].at)
	})
}

// forgettable reports whether the controller died soon after a submission was
// recorded, or while it was: it writes down what it knows every few seconds.
func (c *chaos) forgettable(at time.Time) bool {
	return slices.ContainsFunc(c.gaps, func(g gap) bool {
		return g.daemon == "slurmctld" && g.dead.After(at.Add(-time.Second)) && g.from.Before(at.Add(10*time.Second))
	})
}

// givenTwice reports whether two submissions may have got the same number: the
// controller died soon after the first, and before the second.
func (c *chaos) givenTwice(a, b time.Time) bool {
	if b.Before(a) {
		a, b = b, a
	}
	return c.forgettable(a) && slices.ContainsFunc(c.gaps, func(g gap) bool {
		return g.daemon == "slurmctld" && g.dead.Before(b) && g.to.After(a)
	})
}

// diedSince reports whether the controller died after a time.
func (c *chaos) diedSince(at time.Time) bool {
	return slices.ContainsFunc(c.gaps, func(g gap) bool { return g.daemon == "slurmctld" && g.dead.After(at) })
}

func (c *chaos) state(dir string) (st run.State) {
	require.NoError(c, run.ReadJSON(filepath.Join(dir, run.StateFile), &st))
	return st
}

// names are those of the jobs that were to execute a run.
func (c *chaos) names(dir string) map[string]bool {
	names := map[string]bool{}
	if p, err := run.ReadPlan(dir); err == nil {
		names[p.Job.Name] = true
	}
	for root := dir; root != c.dir; root = filepath.Dir(root) {
		files, _ := filepath.Glob(filepath.Join(root, run.BatchDir, "*"))
		for _, batch := range files {
			if u, err := run.ReadUnit(batch); err == nil && slices.Contains(u.Runs(), dir) {
				names[u.Job().Name] = true
			}
		}
	}
	return names
}

func (c *chaos) expand(list string) []string {
	out, err := exec.Command("scontrol", "show", "hostnames", list).Output()
	require.NoError(c, err)
	return strings.Fields(string(out))
}

// testimony is a line of what each execution of a run wrote for itself.
type testimony struct {
	job     string
	restart int
	at      time.Time
}

func (c *chaos) witnesses(dir string) []testimony {
	data, _ := os.ReadFile(filepath.Join(dir, "witness.txt"))
	var list []testimony
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		require.GreaterOrEqual(c, len(f), 3, line)
		restart, err := strconv.Atoi(f[1])
		require.NoError(c, err)
		at, err := strconv.ParseFloat(f[2], 64)
		require.NoError(c, err)
		list = append(list, testimony{f[0], restart, time.UnixMicro(int64(at * 1e6))})
	}
	return list
}

// overBefore reports whether a job that carries several runs had ended this one, badly, by
// then: it may go on with the others while the run is executed again.
func overBefore(dir, job string, by time.Time) bool {
	files, _ := filepath.Glob(filepath.Join(dir, run.AttemptDir, "*", run.SentinelFile))
	return slices.ContainsFunc(files, func(file string) bool {
		var end run.Sentinel
		return run.ReadJSON(file, &end) == nil && end.JobID == job && end.Code != 0 && end.Time.Before(by)
	})
}

// executedOnce: no two jobs execute a run, except that the first is over, and did
// not succeed; and no start of a job executes it twice.
func (c *chaos) executedOnce(e execution, r chaosRun, dir string, records []record) {
	seen := map[string]bool{}
	var before testimony
	for i, x := range c.witnesses(dir) {
		key := fmt.Sprintf("%s restart %d", x.job, x.restart)
		// a controller that forgot the start of a job starts it again
		forgotten := slices.ContainsFunc(c.gaps, func(g gap) bool {
			return g.daemon == "slurmctld" && g.to.After(before.at) && g.from.Before(x.at)
		})
		if seen[key] && !forgotten {
			c.Errorf("%s %s: job %s executed it twice", e.name, r.dir, key)
		}
		seen[key] = true
		if i > 0 && before.job != x.job {
			for _, rec := range records {
				if rec.job == before.job && !overBefore(dir, before.job, x.at) &&
					(rec.end.After(x.at.Add(time.Second)) || rec.state == "COMPLETED" && e.kind != "sequence") {
					c.Errorf("%s %s: job %s executes what job %s (%s until %s) had", e.name, r.dir, x.job, before.job,
						rec.state, rec.end)
				}
			}
		}
		before = x
	}
}

// nameless is what slurmdbd calls a job of whose start it was never told.
const nameless = "allocation"

// known is the newest time in a record: one whose start was lost with a controller
// has an end alone.
func (r record) known() time.Time {
	if r.end.After(r.start) {
		return r.end
	}
	return r.start
}

// agrees: Slurm's own record of the last job says the same, and the cause names
// what was killed.
func (c *chaos) agrees(e execution, r chaosRun, dir string, says endsAs, records []record) {
	if says == endsRefused || says == endsLost {
		return
	}
	names := c.names(dir)
	var book run.Book
	sub, err := book.ReadSubmission(dir)
	if err != nil {
		return
	}
	var last *record
	for i, rec := range records {
		if rec.job == sub.JobID && (names[rec.name] || rec.name == nameless) && (last == nil || !rec.known().
			Before(last.known())) {
			last = &records[i]
		}
	}
	word := map[endsAs]string{endsValid: "COMPLETED", endsFailed: "FAILED", endsCancelled: "CANCELLED",
		endsTimeout: "TIMEOUT"}[says]
	switch {
	case e.kind == "sequence": // one job, several ends
	case last == nil && says == endsCancelled && e.kind == "array": // Slurm keeps nothing of it
	case last == nil && c.state(dir).Source != "sacct" && c.diedSince(sub.Time): // before it had told the database
	case last == nil:
		alike := slices.DeleteFunc(slices.Clone(records),
			func(r record) bool { return run.BaseID(r.job) != run.BaseID(sub.JobID) })
		c.Errorf("%s %s: %s, but accounting knows no job %s among %v", e.name, r.dir, says, sub.JobID, alike)
	// the controller forgot an end
	case (last.state == "RUNNING" || c.state(dir).Raw == "RUNNING") && c.state(dir).Source == "sentinel":
	// the controller forgot the job, and the database has what it guessed
	case c.state(dir).Source == "sentinel" && c.forgettable(sub.Time):
	// the controller forgot that it had queued the job again
	case last.state == "REQUEUED" && c.state(dir).Source == "sentinel" && c.forgettable(last.end):
	case !strings.HasPrefix(last.state, word):
		c.Errorf("%s %s: %s, but Slurm's record of job %s is %s %s", e.name, r.dir, says, sub.JobID, last.state,
			last.exit)
	}
	if deed := c.deeds[e.name+" "+r.dir]; r.fate == killRole && deed.done && says == endsFailed &&
		deed.job == sub.JobID && e.kind != "loads" {
		res := readResult(c.T, dir)
		if check := res.Validity.Check("role-died"); check == nil || check.Outcome != result.Fail ||
			!strings.Contains(check.Detail, r.role) {
			c.Errorf("%s %s: the verdict does not name the role %s: %+v", e.name, r.dir, r.role, check)
		}
	}
}
