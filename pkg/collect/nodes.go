package collect

import (
	"fmt"

	"github.com/profllm/profllm/pkg/failure"
	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/node"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/validity"
)

// addNodes adds what the nodes looked like before servers started, what they are, and
// what was left on them.
func addNodes(e *evidence, d *draft) {
	r, ev := d.record, &d.facts
	for _, x := range e.events {
		if x.Event == job.PreflightFailed || x.Event == job.PreflightWarned {
			r.Warnings = append(r.Warnings,
				result.Warning{Kind: result.NodeUnfit, Key: x.Node + "/" + x.Check, Text: x.Text})
		}
	}
	for _, l := range job.Leftovers(e.dir, e.events) {
		r.Warnings = append(r.Warnings, result.Warning{Kind: result.NodeUnclean, Key: l.Host, Text: l.Text})
	}
	if e.looked == nil {
		return
	}
	ev.Hardware = givenHardware(e)
	r.System = &result.System{Preflight: string(e.looked.Verdict)}
	r.System.HardwareInfo, r.System.Nodes = hardware(e.looked.Nodes)
	for _, n := range e.looked.Nodes {
		for _, c := range n.Checks {
			ev.Nodes = append(ev.Nodes, validity.NodeCheck{
				Node: n.Host, Check: c.Name, Seen: c.Seen, Made: c.Verdict != node.NotPossible,
				Bad: c.Verdict == node.Warn || c.Verdict == node.Fail,
			})
		}
	}
}

// unfit is the first check that ended the job before its servers started; nil if
// none did. The preflight is no log: its word is taken from the events. A rehearsal has one node.
func unfit(events []job.Event, rehearsed bool) *result.Failure {
	var f *result.Failure
	for _, x := range events {
		if x.Event != job.PreflightFailed {
			continue
		}
		cause := failure.OfPreflight(x.Check)
		if f == nil {
			f = &result.Failure{
				Cause: cause.ID, Line: x.Check + ": " + x.Text, File: run.PreflightFile, Node: x.Node,
				Next: cause.Next, Confidence: result.Exact,
			}
			if !rehearsed {
				f.Next += fmt.Sprintf("; to run without it: exclude_nodes = [%q]", x.Node)
			}
			continue
		}
		f.Others = append(f.Others,
			result.OtherCause{Cause: cause.ID, Line: x.Check + ": " + x.Text, File: run.PreflightFile, Node: x.Node})
	}
	return f
}
