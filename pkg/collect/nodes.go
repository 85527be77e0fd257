package collect

import (
	"fmt"
	"slices"

	"github.com/profllm/profllm/pkg/failure"
	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/node"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

// nodes adds what the nodes looked like before servers started, what they are, and
// what was left on them.
func (e *evidence) nodes(r *result.Result, ev *result.Evidence) {
	for _, x := range e.events {
		if x.Event == job.PreflightFailed || x.Event == job.PreflightWarned {
			r.Warnings = append(r.Warnings, result.Warning{Kind: result.NodeUnfit, Key: x.Node + "/" + x.Check, Text: x.Text})
		}
	}
	for _, l := range job.Leftovers(e.dir, e.events) {
		r.Warnings = append(r.Warnings, result.Warning{Kind: result.NodeUnclean, Key: l.Host, Text: l.Text})
	}
	if e.looked == nil {
		return
	}
	r.System = &result.System{Preflight: string(e.looked.Verdict), HardwareInfo: hardware(e.looked.Nodes)}
	ev.Hardware = e.hardware()
	for _, n := range e.looked.Nodes {
		for _, c := range n.Checks {
			ev.Nodes = append(ev.Nodes, result.NodeCheck{
				Node: n.Host, Check: c.Name, Seen: c.Seen, Made: c.Verdict != node.NotPossible, Bad: c.Verdict == node.Warn || c.Verdict == node.Fail,
			})
		}
	}
}

// hardware is what all GPUs of the nodes have in common, nil if nobody saw any.
func hardware(nodes []node.Report) *result.Hardware {
	var h result.Hardware
	var names, drivers []string
	var memory []int64
	var counts []int
	for _, n := range nodes {
		if len(n.GPUs) > 0 {
			counts = append(counts, len(n.GPUs))
		}
		for _, d := range n.GPUs {
			names, drivers, memory = append(names, d.Name), append(drivers, d.Driver), append(memory, d.Total)
		}
	}
	if len(counts) == 0 {
		return nil
	}
	h.GPU, _ = same(names)
	h.Driver, _ = same(drivers)
	if n, ok := same(counts); ok {
		h.GPUs = &n
	}
	if n, ok := same(memory); ok && n > 0 {
		gb := float64(n) / 1e9
		h.GPUMemoryGB = &gb
	}
	return &h
}

// same is the value that all of a list have; ok is false if they differ.
func same[T comparable](list []T) (value T, ok bool) {
	if slices.ContainsFunc(list, func(x T) bool { return x != list[0] }) {
		return value, false
	}
	return list[0], true
}

// unfit is the first check that ended the job before its servers started; nil if
// none did. The preflight is no log: its word is taken from the events.
func (e *evidence) unfit() *result.Failure {
	var f *result.Failure
	for _, x := range e.events {
		if x.Event != job.PreflightFailed {
			continue
		}
		cause := failure.OfPreflight(x.Check)
		if f == nil {
			f = &result.Failure{
				Cause: cause.ID, Line: x.Check + ": " + x.Text, File: run.PreflightFile, Node: x.Node,
				Next: fmt.Sprintf("%s; to run without it: exclude_nodes = [%q]", cause.Next, x.Node), Confidence: result.Exact,
			}
			continue
		}
		f.Others = append(f.Others, result.OtherCause{Cause: cause.ID, Line: x.Check + ": " + x.Text, File: run.PreflightFile, Node: x.Node})
	}
	return f
}
