package collect

import (
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/gpu"
	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/node"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/validity"
)

const (
	// clocksApart is how far the clocks of two nodes of a job may differ, oneClock how
	// long a note may take where there is one clock.
	clocksApart = 30 * time.Second
	oneClock    = 2 * time.Second
	// zones is how far a local time without its zone may be off.
	zones = 24 * time.Hour
)

// addAgreement adds how far the files of the run agree on what ran, and where.
func addAgreement(e *evidence, d *draft) {
	d.facts.Executions, d.facts.Places = executions(e, d.record), places(e, d.record)
}

// executions compares what the files of a run say of the job that wrote them, and of
// when its client measured: of two executions one cannot tell whose numbers they are.
func executions(e *evidence, r *result.Result) validity.Agreement {
	var a validity.Agreement
	if e.plan == nil {
		return a
	}
	compareJobs(e, &a)
	if e.load.Client == "" || !r.Results.Measured() {
		return a
	}
	begin, end := clientTimes(e)
	if begin.IsZero() && end.IsZero() {
		return a
	}
	slack := clocksApart
	if sameNode(e) {
		slack = oneClock
	}
	at, phase := func(t time.Time) string {
		return t.UTC().
			Format("2006-01-02T15:04:05.000Z")
	}, e.load.Phase(e.load.Clients[0].Name)
	within := func(what string, from, to time.Time, slack time.Duration) {
		a.Compared++
		switch {
		case !begin.IsZero() && from.Before(begin.Add(-slack)):
			a.Bad = append(a.Bad,
				fmt.Sprintf("%s says that its window began at %s, the job began %s at %s", what, at(from), phase,
					at(begin)))
		case !end.IsZero() && to.After(end.Add(slack)):
			a.Bad = append(a.Bad,
				fmt.Sprintf("%s says that its window lasted from %s to %s, %s of the job ended at %s", what, at(from),
					at(to), phase, at(end)))
		}
	}
	took := time.Duration(0)
	if d := r.Results.Duration; d != nil && *d > 0 && *d < 1e9 {
		took = time.Duration(*d * float64(time.Second))
	}
	if k := r.Results.Client; k != nil && k.Started != nil {
		within(r.Results.Source, *k.Started, k.Started.Add(took), slack)
	}
	if date, ok := dated(e.files, r.Results.Source); ok {
		within("the date of "+r.Results.Source, date, date, zones+slack)
	}
	for _, other := range e.twins {
		a.Bad = append(a.Bad, fmt.Sprintf("the client's file of load %q began at the same time to the last digit as that of %q", e.load.Name, other))
	}
	return a
}

// compareJobs compares the ids of jobs. Every file of a job has the id of the task in an
// array; a scheduler may speak of the array as a whole.
func compareJobs(e *evidence, a *validity.Agreement) {
	type fileID struct{ file, id string }
	list := []fileID{{run.ClaimFile, e.claim.JobID}}
	for _, p := range []*run.Placement{e.place, e.unplaced} {
		if p != nil {
			list = append(list, fileID{run.PlacementFile, p.JobID})
		}
	}
	if e.looked != nil {
		list = append(list, fileID{run.PreflightFile, e.looked.JobID})
	}
	if e.sentinel != nil {
		list = append(list, fileID{run.SentinelFile, e.sentinel.JobID})
		// What is known of the job may be of the next one, which has not begun, unless
		// this one has ended.
		if s := e.state; s != nil && s.Final() {
			list = append(list, fileID{run.StateFile, s.JobID})
		}
	}
	list = slices.DeleteFunc(list, func(s fileID) bool { return s.id == "" })
	for _, x := range list[min(1, len(list)):] {
		a.Compared++
		if first := list[0]; !sameJob(first.id, x.id) {
			a.Bad = append(a.Bad, fmt.Sprintf("%s is of job %s, %s of job %s", first.file, first.id, x.file, x.id))
		}
	}
}

func sameJob(a, b string) bool {
	return a == b || run.BaseID(a) == run.BaseID(b) && (run.BaseID(a) == a || run.BaseID(b) == b)
}

// clientTimes are when the job began the client that measured and saw its end; else when
// the job began and ended. Zero if that is not known.
func clientTimes(e *evidence) (begin, end time.Time) {
	phase := e.load.Phase(e.load.Clients[0].Name)
	for _, x := range e.events {
		switch {
		case x.Text != phase:
		case x.Event == job.ClientBegins && begin.IsZero():
			begin = x.Time
		case x.Event == job.ClientEnded:
			end = x.Time
		}
	}
	if begin.IsZero() {
		begin = e.claim.Time
	}
	if end.IsZero() && e.sentinel != nil {
		end = e.sentinel.Time
	}
	if end.Before(begin) { // a clock that was set back, by how much is not known
		return time.Time{}, time.Time{}
	}
	return begin, end
}

// sameNode reports whether the client ran on the node on which the job's script did.
func sameNode(e *evidence) bool {
	c := e.load.Clients[0]
	return strings.HasPrefix(e.claim.JobID, run.LocalPrefix) && e.claim.Allocation == "" ||
		e.place != nil && c.Nodes.Offset < len(e.place.Nodes) && e.claim.Node != "" &&
			e.claim.Node == e.place.Nodes[c.Nodes.Offset].Host
}

// vllmDate is among the first keys of a result of vLLM's client, by its local time.
var vllmDate = lazyregexp.New(`"date"\s*:\s*"(\d{8}-\d{6})"`)

// dated is the date of the client's file, if one of its first keys is that.
func dated(files fs.FS, name string) (time.Time, bool) {
	f, err := files.Open(name)
	if err != nil {
		return time.Time{}, false
	}
	defer f.Close()
	head := make([]byte, 256)
	n, _ := io.ReadFull(f, head)
	m := vllmDate.FindSubmatch(head[:n])
	if m == nil {
		return time.Time{}, false
	}
	date, err := time.Parse("20060102-150405", string(m[1]))
	return date, err == nil
}

// places compares the nodes and GPUs of the plan, the placement and the preflight.
func places(e *evidence, r *result.Result) validity.Agreement {
	var a validity.Agreement
	if e.plan == nil {
		return a
	}
	compare := func(bad bool, format string, args ...any) {
		if a.Compared++; bad {
			a.Bad = append(a.Bad, fmt.Sprintf(format, args...))
		}
	}
	place := e.place
	if place == nil {
		place = e.unplaced
	}
	if n := e.plan.Job.Nodes; n > 0 && place != nil {
		compare(len(place.Nodes) != n, "%s has %s, the plan %d", run.PlacementFile,
			quantity.Count(len(place.Nodes), "node"), n)
	}
	if len(e.plan.Roles) > 0 {
		compare(e.load.Expect.GPUs != e.plan.GPUs(), "the plan expects %d GPUs of the load, its roles have %d",
			e.load.Expect.GPUs, e.plan.GPUs())
	}
	if e.looked == nil {
		return a
	}
	if place != nil {
		var placed, seen []string
		for _, n := range place.Nodes {
			placed = append(placed, n.Host)
		}
		for _, n := range e.looked.Nodes {
			seen = append(seen, n.Host)
		}
		slices.Sort(placed)
		slices.Sort(seen)
		compare(!slices.Equal(placed, seen), "%s has the nodes %s, %s %s", run.PlacementFile, strings.Join(placed, " "),
			run.PreflightFile, strings.Join(seen, " "))
	}
	for i := range e.plan.Roles {
		role := &e.plan.Roles[i]
		for k := role.Nodes.Offset; k < role.Nodes.End() && k < len(e.looked.Nodes); k++ {
			n := e.looked.Nodes[k]
			if len(n.GPUs) == 0 || len(role.GPUs) == 0 { // nobody listed them
				continue
			}
			missing := absentGPUs(role, n.GPUs)
			compare(len(missing) > 0, "%s has %d GPUs of %s, %s was given GPU %s of it", run.PreflightFile, len(n.GPUs),
				n.Host, role.Name, strings.Join(missing, ", "))
		}
	}
	if r.Results.Measured() { // a job whose preflight failed starts nothing
		compare(e.looked.Verdict == node.Fail, "the verdict of %s is %s, but the client measured", run.PreflightFile,
			e.looked.Verdict)
	}
	return a
}

// absentGPUs are the GPUs of a role that a node did not list.
func absentGPUs(role *plan.Role, listed []gpu.Device) []string {
	var absent []string
	for _, index := range role.GPUs {
		if !slices.ContainsFunc(listed, func(d gpu.Device) bool { return d.Index == index }) {
			absent = append(absent, fmt.Sprint(index))
		}
	}
	return absent
}
