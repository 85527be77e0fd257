package collect

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/go-multierror"

	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/packed"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/promtext"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/validity"
)

// addCounters adds the counters of the engines and of the proxy, and the engines'
// gauges, over the time of the client that measured, which comes first. Where its end
// was not kept, the counters are those of all clients.
func addCounters(e *evidence, d *draft) {
	if e.plan == nil || len(e.load.Clients) == 0 {
		return
	}
	r, w := d.record, &d.late
	var part result.Part
	for _, role := range e.plan.Roles {
		c, others := difference(e, w, role.Name, job.Before, e.load.Clients[0].Name), false
		if c == nil {
			c, others = difference(e, w, role.Name, job.Before, job.After), len(e.load.Clients) > 1
		}
		if c == nil {
			continue
		}
		if role.Proxy {
			r.Results.Proxy = proxy(c, others)
			continue
		}
		if role.Router {
			r.Results.Routing = routing(c, others)
		}
		part.Server = append(part.Server, result.ServerDelta{
			Role: role.KindName(), Replica: role.Replica, Reset: c.Reset(), Others: others,
			BrokenOff: brokenOff(c),
			Counters:  c.Totals(counted),
		})
	}
	r.Merge(part)
	window := 0.0
	if took := r.Results.Duration; took != nil {
		window = *took
	}
	r.Results.Load = serverLoad(busyOf(e, w), window)
}

// addEvaluated adds how many requests the evaluation made, by the engines' count.
func addEvaluated(e *evidence, d *draft) { d.facts.Evaluated = evaluated(e, &d.late) }

// evaluated is how many requests the engines that answer ended while the evaluation
// ran; nil where they did not count them to the end.
func evaluated(e *evidence, w *warnings) *float64 {
	if e.plan == nil || !e.load.Expect.Accuracy {
		return nil
	}
	at := slices.IndexFunc(e.load.Clients, func(s plan.Step) bool { return s.Name == plan.EvalStep })
	if at < 0 {
		return nil
	}
	from, to := job.Before, plan.EvalStep
	if at > 0 {
		from = e.load.Clients[at-1].Name
	}
	sum := 0.0
	for _, role := range e.plan.Roles {
		if !role.Engine || e.load.Expect.Disaggregated && role.KindName() != "decode" {
			continue
		}
		d := difference(e, w, role.Name, from, to)
		if d == nil || d.Reset() {
			return nil
		}
		n, ok := d.Sum(validity.FinishedRequests)
		if !ok {
			return nil
		}
		sum += n
	}
	return &sum
}

// brokenOff is how many requests an engine ended as aborted or failed, nil where it
// does not say how its requests ended.
func brokenOff(d *change) *float64 {
	var sum *float64
	for _, reason := range []string{"abort", "error"} {
		if n, ok := d.Sum(validity.FinishedRequests, promtext.Label{Name: "finished_reason", Value: reason}); ok {
			sum = new(n + *cmp.Or(sum, new(0.0)))
		}
	}
	return sum
}

// difference is what a role's counters did between two pages, nil if one of
// them is missing.
func difference(e *evidence, w *warnings, role, from, to string) *change {
	before, err := pageOf(e, w, role, from)
	if err != nil {
		return nil
	}
	after, err := pageOf(e, w, role, to)
	if err != nil {
		return nil
	}
	c := finite(promtext.Sub(before, after))
	for _, name := range slices.Sorted(maps.Keys(c.wrong)) {
		w.add(result.Warning{
			Kind: result.BadValue, File: run.RawDir + "/" + job.MetricsFile(role, to), Key: name,
			Text: fmt.Sprintf("the counter is not a finite number there or in %s, and was left out",
				job.MetricsFile(role, from)),
		})
	}
	return c
}

func pageOf(e *evidence, w *warnings, role, when string) (*promtext.Snapshot, error) {
	data, name, err := readRaw(e, job.MetricsFile(role, when))
	if err != nil {
		w.unread(name, err)
		return nil, err
	}
	// Of a number that is cut short nobody can tell.
	whole := data[:bytes.LastIndexByte(data, '\n')+1]
	page, err := promtext.Some(whole, counts)
	// Lines that it does not understand are no reason to drop the rest.
	var lines *multierror.Error
	switch {
	case errors.As(err, &lines):
		w.add(result.Warning{Kind: result.Unreadable, File: name,
			Text: fmt.Sprintf("lines are left out, the first of %d: %v", len(lines.Errors), lines.Errors[0])})
	case len(whole) < len(data):
		w.add(result.Warning{Kind: result.Unreadable, File: name,
			Text: "the file ends within a line, which is left out"})
	}
	return page, nil
}

// maxRaw bounds what is read of a page of counters or of samples, also when it was
// packed. The page of a vLLM server has 60 kB.
const maxRaw = 64 << 20

// readRaw reads a file of raw/, or the same file packed by xz, and says which.
func readRaw(e *evidence, name string) ([]byte, string, error) {
	data, name, err := packed.Read(e.files, run.RawDir+"/"+name, maxRaw)
	if errors.Is(err, packed.ErrDamaged) && len(data) > 0 {
		err = nil // what came out before damage ends within a line
	}
	return data, name, err
}

// counts leaves out the buckets of histograms, which are most of a page: nothing is
// asked of them, and what fell in one fell in their count as well.
func counts(name []byte) bool { return !bytes.HasSuffix(name, []byte("_bucket")) }
