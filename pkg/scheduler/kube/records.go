package kube

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	json "github.com/go-json-experiment/json/v1"

	"github.com/profllm/profllm/pkg/run"
)

// The events that follow from the phases of the Job. Package job names them; it runs inside of
// allocations, and a scheduler knows nothing of it.
const (
	allReady     = "all-ready"
	notReady     = "not-ready"
	loadBegins   = "load-begins"
	clientBegins = "client-begins"
	clientEnded  = "client-ended"
)

// readyPhase is the phase that ends when the service has answered.
const readyPhase = "ready"

// happened is a line of the events of a run.
type happened struct {
	Time  time.Time `json:"time"`
	Event string    `json:"event"`
	Load  string    `json:"load,omitempty"`
	Text  string    `json:"text,omitempty"`
}

// records writes what a job on Slurm writes itself: its claim, its placement and its events.
func (f *fetch) records() error {
	at := func(name string) string { return filepath.Join(f.of.dir, name) }
	begin := f.begun()
	claim := run.Claim{Schema: "profllm.claim/1", JobID: f.id, Time: begin.UTC(), Node: f.clientNode()}
	if err := run.WriteJSON(at(run.ClaimFile), claim); err != nil {
		return err
	}
	// A claim that is newer than the end of its job would be that of a job that began again.
	if err := os.Chtimes(at(run.ClaimFile), begin, begin); err != nil {
		return err
	}
	if place := f.placement(); len(place.Nodes) > 0 {
		if err := run.WriteJSON(at(run.PlacementFile), place); err != nil {
			return err
		}
	}
	var lines bytes.Buffer
	for _, e := range f.happened() {
		line, err := json.Marshal(e)
		if err != nil {
			return err
		}
		lines.Write(append(line, '\n'))
	}
	if err := run.WriteFile(at(run.EventFile), lines.Bytes(), 0o644); err != nil {
		return err
	}
	return run.WriteJSON(at(FetchFile), f.done)
}

// begun is when the Job's container began, or the Job.
func (f *fetch) begun() time.Time {
	job := f.job()
	for _, t := range []time.Time{f.said.began, job.Status.StartTime, job.Metadata.Created} {
		if !t.IsZero() && t.After(job.Metadata.Created.Add(-slack)) {
			return t
		}
	}
	return f.now()
}

// end is when the Job ended.
func (f *fetch) end() time.Time {
	job := f.job()
	_, _, end := endOf(clientPods(f.have, job))
	for _, t := range []time.Time{end, job.Status.EndTime, job.condition("Failed").Changed, f.said.ended} {
		if !t.IsZero() && t.After(job.Metadata.Created.Add(-slack)) {
			return t
		}
	}
	return f.now()
}

// slack is how far the clock of a node may be from that of the API server.
const slack = time.Minute

func (f *fetch) clientNode() string {
	for _, p := range clientPods(f.have, f.job()) {
		if p.Spec.NodeName != "" {
			return p.Spec.NodeName
		}
	}
	return ""
}

// happened are the events of the Job, as far as its phases tell.
func (f *fetch) happened() []happened {
	var list []happened
	begin := f.begun()
	add := func(at time.Time, event, load, text string) {
		list = append(list, happened{at.UTC(), event, load, text})
	}
	if p := f.said.of(readyPhase); p != nil {
		event := allReady
		if p.code != 0 {
			event = notReady
		}
		add(p.at, event, "", "")
	}
	for i := range f.of.plan.Loads {
		l := &f.of.plan.Loads[i]
		for n, c := range l.Clients {
			ended := f.said.of(l.Phase(c.Name))
			if ended == nil {
				continue
			}
			from := begin
			for _, before := range f.said.phases { // the one that ended last before it
				if before.name == ended.name {
					break
				}
				from = before.at
			}
			if n == 0 {
				add(from, loadBegins, l.Name, "")
			}
			add(from, clientBegins, "", ended.name)
			add(ended.at, clientEnded, "", ended.name)
		}
	}
	return list
}

// sentinel is the end of the run: the exit code of the Job's container, or that of a phase that
// failed, of a time limit, or of results that are missing.
func (f *fetch) sentinel() run.Sentinel {
	code, _, _ := strings.Cut(f.st.ExitCode, ":")
	script, _ := strconv.Atoi(code)
	switch {
	case f.st.State == run.Timeout:
		script = run.TimedOut
	case f.st.State == run.Cancelled:
		script = run.Terminated
	case f.st.State != run.Succeeded && script == 0:
		script = 1
	}
	s := run.Sentinel{Schema: "profllm.finish/1", JobID: f.id, Time: f.end().UTC(), Code: script, Phases: []run.Phase{}}
	for _, p := range f.said.phases {
		s.Phases = append(s.Phases, run.Phase{Name: p.name, Code: p.code})
	}
	if f.done.Fault != "" {
		s.Phases = append(s.Phases, run.Phase{Name: resultsPhase, Code: 1})
	}
	if script == 0 && (f.said.first() != nil || f.done.Fault != "") {
		s.Code = run.PhaseFailed
	}
	s.Script = &script
	return s
}

// resultsPhase is the phase that fails if the results do not come out of the log whole.
const resultsPhase = "results"

// placement is where the pods of the roles were, and all their nodes in the order of the roles.
func (f *fetch) placement() run.Placement {
	place := run.Placement{Schema: "profllm.placement/1", JobID: f.id, Ports: map[string]int{},
		Roles: map[string][]string{}}
	for _, p := range ofKind(f.have, kindPod) {
		if host := p.Spec.NodeName; host != "" && !ownedBy(p, f.job()) {
			role := roleOf(p, f.of.plan)
			place.Roles[role] = append(place.Roles[role], host)
		}
	}
	for i := range f.of.plan.Roles {
		for _, host := range place.Roles[f.of.plan.Roles[i].Name] {
			node := run.Node{Host: host, Addr: host}
			if !slices.Contains(place.Nodes, node) {
				place.Nodes = append(place.Nodes, node)
			}
		}
	}
	return place
}
