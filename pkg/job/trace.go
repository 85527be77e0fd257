package job

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/run"
)

const (
	// traceStartLimit bounds the answer of an engine to the start of its profiler. With
	// several workers, CUPTI takes seconds to start in each.
	traceStartLimit = 5 * time.Minute
	// traceSeenLimit bounds the wait for traces that the engine says are written. A
	// shared file system may show another node's files only after its cache times out,
	// 60 s for NFS (nfs(5), acdirmax).
	traceSeenLimit = 70 * time.Second
	// traceQuiet is how long the size of traces must stay the same.
	traceQuiet = time.Second
)

// startTraces starts the profiler of every engine for a load, if the plan says so. An
// engine that refuses leaves no trace, which the record says; the load runs all the same.
func (j *Job) startTraces(ctx context.Context, p *plan.Plan, load string) error {
	if p.Tracing == nil {
		return nil
	}
	j.eachEngine(ctx, p, load, p.Tracing.Start, traceStartLimit)
	return j.event(Event{Event: TraceStarted, Load: load})
}

// stopTraces stops the profiler of every engine once the client that measures a load has ended,
// and waits until the traces are written. It fails if an engine without another of its kind
// ends meanwhile.
func (w *watch) stopTraces(ctx context.Context, client string) error {
	if w.plan.Tracing == nil {
		return nil
	}
	for i := range w.plan.Loads {
		l := &w.plan.Loads[i]
		if len(l.Clients) == 0 || l.Phase(l.Clients[0].Name) != client {
			continue
		}
		if load, at := w.job.tracing(); load != l.Name || at != TraceStarted {
			continue // the job ends, and Stop has stopped them
		}
		if err := w.job.stopTraces(ctx, w.plan, l.Name, time.Duration(w.plan.Tracing.Limit)); err != nil {
			return err
		}
		for _, proc := range w.procs {
			if !alive(proc.PID) && !w.lost[proc.Name] && !w.spared(proc.Name) {
				return w.job.died(proc.Name, "while the servers wrote their traces")
			}
		}
	}
	return nil
}

// tracing is the load whose profilers were started last, and the last event about them: one of
// TraceStarted, TraceStopping and TraceStopped, or "".
func (j *Job) tracing() (load, event string) {
	events, err := ReadEvents(j.Dir)
	if err != nil {
		j.logf("%v", err)
	}
	return lastTracing(events)
}

func lastTracing(events []Event) (load, event string) {
	for i := len(events) - 1; i >= 0; i-- {
		switch e := events[i]; e.Event {
		case TraceStarted, TraceStopping, TraceStopped:
			return e.Load, e.Event
		}
	}
	return "", ""
}

// endTraces stops the profilers of a load that the end of the job interrupts, so that the servers
// write what they have before they are stopped: a server that is stopped first leaves no trace.
// If they are already being stopped, it waits for that.
func (j *Job) endTraces(ctx context.Context) {
	p, err := run.ReadPlan(j.Dir)
	if err != nil || p.Tracing == nil {
		return
	}
	limit := min(time.Duration(p.Tracing.Limit), plan.ReportWait)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	load, at := j.tracing()
	switch at {
	case TraceStarted:
		if err := j.stopTraces(ctx, p, load, limit); err != nil {
			j.logf("%v", err)
		}
	case TraceStopping:
		for at == TraceStopping && sleep(ctx, poll) {
			_, at = j.tracing()
		}
	}
}

// stopTraces stops every profiler and waits up to limit for the traces. An event names each trace
// that the load has left.
func (j *Job) stopTraces(ctx context.Context, p *plan.Plan, load string, limit time.Duration) error {
	known, err := j.tracesOnRecord()
	if err == nil {
		err = j.event(Event{Event: TraceStopping, Load: load})
	}
	if err != nil {
		return err
	}
	began := time.Now()
	j.logf("the profilers stop; the servers have %s to write their traces", limit)
	stopped := j.eachEngine(ctx, p, load, p.Tracing.Stop, limit)
	var roles []*plan.Role
	for i := range p.Roles {
		if r := &p.Roles[i]; stopped[r.Name] && r.TraceDir != "" {
			roles = append(roles, r)
		}
	}
	j.awaitTraces(ctx, roles, known, min(traceSeenLimit, limit))
	total := 0
	for i := range p.Roles {
		r := &p.Roles[i]
		for _, file := range j.newTraces(r, known) {
			total++
			if err := j.event(Event{Event: TraceWritten, Role: r.Name, Load: load, File: file.path}); err != nil {
				return err
			}
		}
	}
	j.logf("%s after %s", quantity.Count(total, "trace"), time.Since(began).Round(time.Second))
	return j.event(Event{Event: TraceStopped, Load: load})
}

// eachEngine sends a POST to every traced engine at once and returns those that answered 200.
func (j *Job) eachEngine(ctx context.Context, p *plan.Plan, load, path string, limit time.Duration) map[string]bool {
	_, place, err := j.load()
	if err != nil {
		j.logf("%v", err)
		return nil
	}
	var mu sync.Mutex
	var asked sync.WaitGroup
	done := map[string]bool{}
	for i := range p.Roles {
		r := &p.Roles[i]
		if !p.Traces(r) {
			continue
		}
		asked.Go(func() {
			url, err := endpoint(p, place, r, path)
			if err == nil {
				err = ask(ctx, client(limit), http.MethodPost, url, io.Discard)
			}
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				done[r.Name] = true
				return
			}
			j.logf("%s: %v", r.Name, err)
			if err := j.event(Event{Event: TraceFailed, Role: r.Name, Load: load, Text: err.Error()}); err != nil {
				j.logf("%v", err)
			}
		})
	}
	asked.Wait()
	return done
}

// A trace is a file of an engine's profiler.
type trace struct {
	path string // below the run directory
	size int64
}

// newTraces lists the traces of a role that are not known.
func (j *Job) newTraces(r *plan.Role, known map[string]bool) (list []trace) {
	if r.TraceDir == "" {
		return nil
	}
	for _, t := range TracesBelow(j.Dir, r.TraceDir) {
		if !known[t] {
			if info, err := os.Stat(filepath.Join(j.Dir, t)); err == nil {
				list = append(list, trace{t, info.Size()})
			}
		}
	}
	return list
}

// TracesBelow lists PyTorch's traces in a folder of a run, by their paths below the run
// directory.
func TracesBelow(dir, folder string) (list []string) {
	_ = filepath.WalkDir(filepath.Join(dir, folder), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // what cannot be read is missing
		}
		for _, suffix := range plan.TraceSuffixes {
			if rel, err := filepath.Rel(dir, path); err == nil && strings.HasSuffix(path, suffix) {
				list = append(list, rel)
			}
		}
		return nil
	})
	return list
}

// awaitTraces waits until every role has a new trace and none of them grows any more.
func (j *Job) awaitTraces(ctx context.Context, roles []*plan.Role, known map[string]bool, limit time.Duration) {
	before := ""
	for end := time.Now().Add(limit); time.Now().Before(end); {
		state, all := "", true
		for _, r := range roles {
			list := j.newTraces(r, known)
			all = all && len(list) > 0
			state += fmt.Sprint(list)
		}
		if all && state == before || !sleep(ctx, traceQuiet) {
			return
		}
		before = state
	}
	j.logf("some servers have no finished trace %s after they said that it is written", limit)
}

// tracesOnRecord are the traces of earlier loads.
func (j *Job) tracesOnRecord() (map[string]bool, error) {
	events, err := ReadEvents(j.Dir)
	known := map[string]bool{}
	for _, e := range events {
		if e.Event == TraceWritten {
			known[e.File] = true
		}
	}
	return known, err
}
