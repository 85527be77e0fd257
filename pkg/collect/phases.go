package collect

import (
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

// apart reports whether this load was over whatever became of the job: all its
// phases ended with 0, and then the job went on with other loads, or with the hooks
// after them, or failed for no more than this judgement.
func (e *evidence) apart(phases []result.Phase) bool {
	if e.plan == nil || e.sentinel == nil || len(phases) == 0 {
		return false
	}
	if len(e.plan.Loads) < 2 && len(e.failedPostTests()) == 0 && e.sentinel.Code != run.JudgedInvalid {
		return false
	}
	return !slices.ContainsFunc(phases, func(p result.Phase) bool { return p.Exit == nil || *p.Exit != 0 })
}

// failedPostTests lists the hooks after the run that failed, with their codes.
// They say something about the nodes, not about the numbers before them.
func (e *evidence) failedPostTests() []run.Phase {
	if e.sentinel == nil {
		return nil
	}
	var failed []run.Phase
	for _, ph := range e.sentinel.Phases {
		if strings.HasPrefix(ph.Name, run.PostTestDir+"/") && ph.Code != 0 {
			failed = append(failed, ph)
		}
	}
	return failed
}

// phases lists what the script did of this load, and what it should have done.
func (e *evidence) phases(ev *result.Evidence) {
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
			ev.Phases = append(ev.Phases, result.Phase{Name: n, Exit: &code})
		case ok || e.sentinel != nil || e.over():
			ev.Phases = append(ev.Phases, result.Phase{Name: n})
		}
	}
}

// concerns reports whether what happened at that time can have touched this
// load: no later load had begun.
func (e *evidence) concerns(at time.Time) bool {
	mine := false
	for _, x := range e.events {
		if x.Event != job.LoadBegins || e.load == nil {
			continue
		}
		if mine && !x.Time.After(at) {
			return false
		}
		mine = mine || x.Load == e.load.Name
	}
	return true
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

func (e *evidence) over() bool { return e.state != nil && e.state.Final() }

func (e *evidence) host(role string) string {
	if e.plan == nil || e.place == nil {
		return ""
	}
	if r := e.plan.Role(role); r != nil && r.Nodes.Offset < len(e.place.Nodes) {
		return e.place.Nodes[r.Nodes.Offset].Host
	}
	return ""
}
