package collect

import (
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/validity"
)

// apart reports whether this load was over whatever became of the job: all its
// phasesOf ended with 0, and then the job went on with another load, or was ended during
// the hooks after them.
func apart(e *evidence, phases []validity.Phase) bool {
	if e.plan == nil || e.sentinel == nil || len(phases) == 0 ||
		slices.ContainsFunc(phases, func(p validity.Phase) bool { return p.Exit == nil || *p.Exit != 0 }) {
		return false
	}
	if _, followed := e.nextLoad(); followed {
		return true
	}
	return len(failedPostTests(e.sentinel)) > 0 && run.EndedFromOutside(e.sentinel.ScriptCode())
}

// addJobEnd adds how the job ended, and whether this load was over before.
func addJobEnd(e *evidence, d *draft) {
	d.facts.OverBefore, d.facts.Job = apart(e, d.facts.Phases), jobEnd(e.sentinel, e.state)
	d.facts.EndedWithOthers = job.EndedWithOthers(e.events)
}

// jobEnd is what the sentinel and a scheduler other than Slurm say of the job's end.
func jobEnd(sentinel *run.Sentinel, state *run.State) *result.JobEnd {
	end := &result.JobEnd{}
	if s := sentinel; s != nil {
		script := s.ScriptCode()
		end.Script = &script
		switch {
		case script != 0:
		case s.Code == run.PhaseFailed:
			end.Judged, end.For = s.Code, "a failed phase"
		case s.Code == run.JudgedInvalid:
			end.Judged, end.For = s.Code, "an invalid result"
		default: // no judgement gives another code
			end.Script = &s.Code
		}
	}
	if s := state; s != nil {
		end.Source = s.Source
		if s.Source == "local" || strings.HasPrefix(s.JobID, run.KubePrefix) {
			end.Local = &result.Slurm{JobID: s.JobID, State: slurmState(s), ExitCode: s.ExitCode}
		}
	}
	return end
}

// slurmState is the state of a job of another scheduler as Slurm would call it.
func slurmState(s *run.State) string {
	switch s.State {
	case run.Succeeded:
		return "COMPLETED"
	case run.Failed, run.Cancelled, run.Timeout:
		return strings.ToUpper(s.State)
	case run.OOM:
		return "OUT_OF_MEMORY"
	}
	return "UNKNOWN"
}

// failedPostTests lists the hooks after the run that failed, with their codes.
// They say something about the nodes, not about the numbers before them.
func failedPostTests(s *run.Sentinel) []run.Phase {
	if s == nil {
		return nil
	}
	var failed []run.Phase
	for _, ph := range s.Phases {
		if strings.HasPrefix(ph.Name, run.PostTestDir+"/") && ph.Code != 0 {
			failed = append(failed, ph)
		}
	}
	return failed
}

// addPhases lists what the script did of this load, and what it should have done.
func addPhases(e *evidence, d *draft) {
	if e.plan == nil {
		return
	}
	var names []string
	for _, h := range e.plan.PreTest {
		names = append(names, run.PreTestDir+"/"+h.Name)
	}
	if len(e.plan.Roles) > 0 {
		names = append(names, "ready")
	}
	if e.plan.APICheck != nil {
		names = append(names, e.plan.APICheck.Name)
	}
	ended := map[string]int{}
	if e.sentinel != nil {
		for _, ph := range e.sentinel.Phases {
			ended[ph.Name] = ph.Code
		}
	}
	if _, prepared := ended[e.load.Phase("load")]; prepared {
		names = append(names, e.load.Phase("load"))
	}
	for _, c := range e.load.Clients {
		names = append(names, e.load.Phase(c.Name))
	}
	for _, n := range names {
		switch code, ok := ended[n]; {
		case ok && code >= 0:
			d.facts.Phases = append(d.facts.Phases, validity.Phase{Name: n, Exit: &code, Begun: true})
		case ok || e.sentinel != nil || e.over():
			d.facts.Phases = append(d.facts.Phases, validity.Phase{Name: n, Begun: ok || e.began(n), Lost: ok})
		}
	}
}

// began reports whether a client is known to have begun.
func (e *evidence) began(phase string) bool {
	return slices.ContainsFunc(e.events, func(x job.Event) bool {
		return x.Event == job.ClientBegins && x.Text == phase
	})
}

// concerns reports whether what happened at that time can have touched this
// load: no later load had begun.
func (e *evidence) concerns(at time.Time) bool {
	next, ok := e.nextLoad()
	return !ok || next.After(at)
}

// nextLoad is when the load after this one began; ok is false if none did.
func (e *evidence) nextLoad() (at time.Time, ok bool) {
	mine := false
	for _, x := range e.events {
		if x.Event != job.LoadBegins || e.load == nil {
			continue
		}
		if mine && x.Load != e.load.Name {
			return x.Time, true
		}
		mine = mine || x.Load == e.load.Name
	}
	return time.Time{}, false
}

// exitOf is the exit code of a role's step, -1 if nobody saw it.
func (e *evidence) exitOf(role string) int {
	if e.sentinel != nil {
		for _, r := range e.sentinel.Roles {
			if r.Name == role {
				return r.Code
			}
		}
	}
	return -1
}

func (e *evidence) host(role string) string {
	if e.plan == nil || e.place == nil {
		return ""
	}
	if hosts := e.place.Roles[role]; len(hosts) > 0 {
		return hosts[0]
	}
	if r := e.plan.Role(role); r != nil && r.Nodes.Offset < len(e.place.Nodes) {
		return e.place.Nodes[r.Nodes.Offset].Host
	}
	return ""
}
