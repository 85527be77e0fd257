package job

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/profllm/profllm/pkg/httpclient"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/tail"
)

// poll is the pause between two looks at a role.
const poll = 200 * time.Millisecond

// clientGrace is how long a client may need to notice that its server is gone.
const clientGrace = 5 * time.Second

// tailLines is how much of a dead role's log is shown.
const tailLines = 30

func (j *Job) load() (*plan.Plan, *run.Placement, error) {
	p, err := run.ReadPlan(j.Dir)
	if err != nil {
		return nil, nil, err
	}
	var place run.Placement
	return p, &place, run.ReadJSON(j.path(run.PlacementFile), &place)
}

// WaitForHelpers returns when every helper among the processes is ready, before the servers
// start. It fails as Wait does.
func (j *Job) WaitForHelpers(ctx context.Context, procs []Process) error {
	p, place, err := j.load()
	if err != nil {
		return err
	}
	return j.ready(ctx, p, place, procs, func(r *plan.Role) bool { return r.Helper })
}

// Wait returns when every role but the helpers, which are ready then, answers its health check.
// It fails within one poll after a role's process has ended, and when a role's time limit is
// over. On success, it keeps the engines' counters, as the start of the difference.
func (j *Job) Wait(ctx context.Context, procs []Process) error {
	p, place, err := j.load()
	if err != nil {
		return err
	}
	if err := j.ready(ctx, p, place, procs, func(r *plan.Role) bool { return !r.Helper }); err != nil {
		return err
	}
	j.identify(ctx, p, place)
	if len(p.Loads) < 2 { // else each load does
		j.scrape(ctx, j.Dir, Before, nil)
	}
	return j.event(Event{Event: AllReady})
}

// ready waits for those of the processes' roles that want says.
func (j *Job) ready(ctx context.Context, p *plan.Plan, place *run.Placement, procs []Process,
	want func(*plan.Role) bool) error {
	start := j.Now()
	probing, stop := context.WithCancel(ctx)
	defer stop()
	answered := make(chan string, len(procs))
	waiting := map[string]target{} // by role
	for _, proc := range procs {
		role := p.Role(proc.Name)
		if role == nil || !want(role) || role.Health.Port == "" { // nobody knows where it answers
			continue
		}
		urls, err := endpoints(p, place, role)
		if err != nil {
			return err
		}
		t := target{url: urls[0], limit: p.ReadyLimit(role), last: new(atomic.Value)}
		waiting[role.Name] = t
		go probe(probing, role, urls, answered, t.last)
	}
	roles, lastSay := len(waiting), start
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		for _, proc := range procs {
			if !alive(proc.PID) {
				return j.died(proc.Name, "before it was ready")
			}
			if t, open := waiting[proc.Name]; open && j.Now().Sub(start) > t.limit {
				j.showTail(proc.Name)
				return errors.Join(j.event(Event{Event: NotReady, Role: proc.Name, Text: t.lacks()}),
					notReady(proc.Name, t))
			}
		}
		if len(waiting) == 0 {
			return nil
		}
		if j.Now().Sub(lastSay) > 15*time.Second {
			lastSay = j.Now()
			j.logf("waiting, %d of %d roles ready", roles-len(waiting), roles)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		case name := <-answered:
			if err := j.event(Event{Event: RoleReady, Role: name}); err != nil {
				return err
			}
			j.logf("%s is ready after %.1f s (%s)", name, j.Now().Sub(start).Seconds(), waiting[name].url)
			delete(waiting, name)
		}
	}
}

// target is a role that is not ready yet.
type target struct {
	url   string
	limit time.Duration
	last  *atomic.Value // why it was not ready when it was asked last, a text
}

// lacks says what a role that did answer still lacked, "" for one that did not.
func (t target) lacks() string {
	text, _ := t.last.Load().(string)
	return text
}

func notReady(role string, t target) error {
	if lacks := t.lacks(); lacks != "" {
		return fmt.Errorf("%s did not become ready by %s within %s: %s", role, t.url, t.limit, lacks)
	}
	return fmt.Errorf("%s did not answer %s within %s", role, t.url, t.limit)
}

// endpoints are where a role answers: on its first node, a helper on each of its nodes.
func endpoints(p *plan.Plan, place *run.Placement, role *plan.Role) (urls []string, err error) {
	at := *role
	for i := range max(1, role.Nodes.Count) {
		if i > 0 && !role.Helper {
			break
		}
		at.Nodes.Offset = role.Nodes.Offset + i
		url, err := endpoint(p, place, &at, role.Health.Path)
		if err != nil {
			return nil, err
		}
		urls = append(urls, url)
	}
	return urls, nil
}

// probe asks until a role answers. Each has its own, since a server that accepts
// and then says nothing must not hide the end of another.
func probe(ctx context.Context, role *plan.Role, urls []string, answered chan<- string, last *atomic.Value) {
	for _, url := range urls {
		for {
			err := reach(ctx, role, url, 5*time.Second)
			if err == nil {
				break
			}
			if lack, ok := errors.AsType[*lacking](err); ok {
				last.Store(lack.Error())
			}
			if !sleep(ctx, cmp.Or(time.Duration(role.Poll), poll)) {
				return
			}
		}
	}
	answered <- role.Name
}

// reach asks a role for its health; one without such a path only needs to take a connection.
func reach(ctx context.Context, role *plan.Role, url string, limit time.Duration) error {
	if h := role.Health; h.Serves != "" || h.Instances != nil {
		return registered(ctx, h, url, limit)
	}
	if role.Health.Path != "" {
		return get(ctx, client(limit), url, io.Discard)
	}
	d := net.Dialer{Timeout: limit}
	c, err := d.DialContext(ctx, "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		return err
	}
	return c.Close()
}

// Watch returns nil when the client, the process until, has ended, and an error as soon as
// a role ends before that. One of several instances may end: the other instances and the
// client continue, and the run's result says so.
func (j *Job) Watch(ctx context.Context, client string, until int, procs []Process) error {
	p, err := run.ReadPlan(j.Dir)
	if err != nil {
		return err
	}
	if err := j.event(Event{Event: ClientBegins, Text: client}); err != nil {
		return err
	}
	w := watch{job: j, plan: p, procs: procs, lost: map[string]bool{}, when: "while a client ran", grace: clientGrace}
	if p.Serve != nil { // nobody else has anything to say
		w.when, w.grace = "after it was ready", 0
	}
	events, err := ReadEvents(j.Dir)
	if err != nil {
		return err
	}
	for _, e := range events { // while an earlier client ran
		if e.Event == RoleDied {
			w.lost[e.Role] = true
		}
	}
	before := len(w.lost)
	endSamples := w.sample(ctx, client)
	defer endSamples()
	for running := true; running; {
		running = alive(until)
		if err := w.ended(ctx, client, until); err != nil {
			return err
		}
		if running && !untilEnd(ctx, poll, append(w.alive(), until)...) {
			return ctx.Err()
		}
	}
	for _, name := range w.refused(ctx) {
		if !w.spared(name) {
			return j.died(name, w.when)
		}
		if err := w.recordLoss(ctx, name, client); err != nil {
			return err
		}
	}
	if len(w.lost) > before {
		w.scrape(ctx, Ended)
	}
	w.scrape(ctx, path.Base(client))
	if err := j.event(Event{Event: ClientEnded, Text: client}); err != nil {
		return err
	}
	endSamples()
	return w.stopTraces(ctx, client)
}

// watch is what Watch knows while a client runs.
type watch struct {
	job   *Job
	plan  *plan.Plan
	procs []Process
	lost  map[string]bool // instances that ended, by role
	when  string          // what went on, in words
	grace time.Duration   // of the client, once a role that it needs has ended
}

// ended finds the roles that ended while the process until runs. An instance that is spared is
// recorded; any other role is the error.
func (w *watch) ended(ctx context.Context, client string, until int) error {
	for _, proc := range w.procs {
		if alive(proc.PID) || w.lost[proc.Name] {
			continue
		}
		if w.spared(proc.Name) {
			if err := w.recordLoss(ctx, proc.Name, client); err != nil {
				return err
			}
			continue
		}
		// A client fails by itself when its server goes; it has a moment
		// to say so, and its words and numbers are kept.
		for end := w.job.Now().Add(w.grace); alive(until) && w.job.Now().Before(end) && untilEnd(ctx, poll, until); {
		}
		return w.job.died(proc.Name, w.when)
	}
	return nil
}

// alive are the PIDs of the roles that run.
func (w *watch) alive() (pids []int) {
	for _, proc := range w.procs {
		if alive(proc.PID) {
			pids = append(pids, proc.PID)
		}
	}
	return pids
}

// refused are the roles at whose port nobody listens any more. Their srun may not
// know it yet, above all while Slurm's controller is down.
func (w *watch) refused(ctx context.Context) []string {
	_, place, err := w.job.load()
	if err != nil {
		return nil
	}
	var names []string
	for _, proc := range w.procs {
		role := w.plan.Role(proc.Name)
		if role == nil || role.Health.Port == "" || w.lost[proc.Name] {
			continue
		}
		listens := *role
		listens.Health = plan.Endpoint{Port: role.Health.Port} // a question more would be one of its counts
		url, err := endpoint(w.plan, place, &listens, "")
		if err == nil && errors.Is(reach(ctx, &listens, url, 2*time.Second), syscall.ECONNREFUSED) {
			names = append(names, proc.Name)
		}
	}
	return names
}

// spared reports whether another instance of the role's kind still runs, and can without it.
func (w *watch) spared(name string) bool {
	dead := w.plan.Role(name)
	if dead != nil && dead.Group {
		return false
	}
	for _, proc := range w.procs {
		r := w.plan.Role(proc.Name)
		if dead != nil && r != nil && proc.Name != name && r.KindName() == dead.KindName() && alive(proc.PID) {
			return true
		}
	}
	return false
}

// recordLoss records that an instance ended, and keeps the counters of the others at
// the first such time, so that before and after can be told apart.
func (w *watch) recordLoss(ctx context.Context, name, client string) error {
	first := len(w.lost) == 0
	w.lost[name] = true
	err := w.job.event(Event{Event: RoleDied, Role: name,
		Text: "while " + client + " ran; the other instances continue to serve"})
	w.job.logf("%s ended while %s ran; the other instances continue to serve", name, client)
	w.job.showTail(name)
	if first {
		w.scrape(ctx, Died)
	}
	return err
}

func (w *watch) scrape(ctx context.Context, when string) {
	ctx, cancel := context.WithTimeout(ctx, scrapeLimit)
	defer cancel()
	w.job.scrapeLast(ctx, when, func(role string) bool { return !w.lost[role] })
}

// died records that a role ended by itself, and shows the end of its logs. While
// the job stops its roles, none of them does.
func (j *Job) died(role, when string) error {
	if events, err := ReadEvents(j.Dir); err == nil &&
		slices.ContainsFunc(events, func(e Event) bool { return e.Event == Stopping }) {
		return fmt.Errorf("%s was stopped %s", role, when)
	}
	err := j.event(Event{Event: RoleDied, Role: role, Text: when})
	j.showTail(role)
	return errors.Join(fmt.Errorf("%s ended %s", role, when), err)
}

func (j *Job) showTail(role string) {
	files, _ := filepath.Glob(j.path(run.LogDir, role+"-*.log"))
	for _, f := range files {
		lines, err := tail.Last(f, tailLines)
		if err != nil {
			continue
		}
		fmt.Fprintf(j.Stderr, "--- end of %s\n%s\n---\n", f, strings.Join(lines, "\n"))
	}
}

// scrape keeps /metrics of every engine and of profllm's own proxy in raw/ of a
// load's directory; one without it is no error, the checks that need it will say
// so. want leaves roles out; nil: none.
func (j *Job) scrape(ctx context.Context, dir, when string, want func(role string) bool) {
	p, place, err := j.load()
	if err != nil {
		return
	}
	for i := range p.Roles {
		role := &p.Roles[i]
		if !role.Engine && !role.Proxy && !role.Router || want != nil && !want(role.Name) {
			continue
		}
		url, err := endpoint(p, place, role, "/metrics")
		if err != nil {
			continue
		}
		var body bytes.Buffer
		if err := get(ctx, client(3*time.Second), url, &body); err != nil {
			j.logf("no metrics of %s: %v", role.Name, err)
			continue
		}
		if err := run.WriteFile(filepath.Join(dir, run.RawDir, MetricsFile(role.Name, when)), body.Bytes(),
			0o644); err != nil {
			j.logf("store metrics of %s: %v", role.Name, err)
		}
	}
}

// When counters are kept, beside the end of each client, which is called as its
// phase. Died and Ended are there only if an instance ended while others served on.
const (
	Before = "before" // every role is ready
	Died   = "died"   // the first instance has just ended
	Ended  = "ended"  // the client that ran then has ended
	After  = "after"  // all clients have ended
)

// scrapeLimit bounds how long all engines together may take to answer.
const scrapeLimit = 4 * time.Second

// MetricsFile is the name below raw/ of a role's counters at one of those times.
func MetricsFile(role, when string) string { return "metrics-" + role + "-" + when + ".prom" }

// maxBody bounds what is read from a server.
const maxBody = 64 << 20

// client goes round the proxy of the environment: these are our own nodes.
func client(limit time.Duration) *http.Client {
	return httpclient.New(direct, limit)
}

var direct = &http.Transport{}

func get(ctx context.Context, client *http.Client, url string, into io.Writer) error {
	return ask(ctx, client, http.MethodGet, url, into)
}

func ask(ctx context.Context, client *http.Client, method, url string, into io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(into, io.LimitReader(res.Body, maxBody)); err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return &statusError{url: url, status: res.Status, code: res.StatusCode}
	}
	return nil
}

// A statusError is an answer that is not the one for success.
type statusError struct {
	url, status string
	code        int
}

func (e *statusError) Error() string { return e.url + ": " + e.status }
