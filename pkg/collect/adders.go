package collect

import (
	"cmp"
	"slices"

	"github.com/profllm/profllm/pkg/failure"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/validity"
)

// A draft is a record in the making, with what its judgement needs beside it.
type draft struct {
	record *result.Result
	facts  validity.Evidence
	late   warnings // appended to the record's own behind all adders
	empty  bool     // no benchmark left a result, and none could not be read

	searched bool // a load was searched for
}

// An adder adds what it finds in the evidence to the draft.
type adder func(*evidence, *draft)

// adders are those of a record, in their order. A new fact of the record, or of its
// judgement, is a new adder here.
func (c *Collector) adders() []adder {
	return []adder{
		addIdentity(c.Version), addConfig, addCommands, addRepeats, addPlacement, addEvents, addAPICheck, addTimes, addSlurm,
		addPlanned, addPhases, addServers, addCapacity, addJobEnd, addDeaths,
		addNodes, addProvenance, addTraces,
		addSearch, addBenchmark(c.Bench), addAccuracy(c.Eval), addForeign,
		addCounters, addSearchShare, addEvaluated, addGPUs, addHosts, addAgreement,
	}
}

// load makes and judges the record of one load.
func (c *Collector) load(e *evidence) (*result.Result, error) {
	d := &draft{record: &result.Result{Schema: result.SchemaV1}, late: slices.Clone(e.unread)}
	for _, add := range c.adders() {
		add(e, d)
	}
	r := d.record
	r.FindProfiler()
	r.Warnings = append(r.Warnings, d.late...)
	r.Redact()
	r.Derive()
	r.Provenance.EngineVersion = d.facts.EngineVersion()
	r.MetricsVersion = result.MetricsVersion
	r.Validity = validity.Judge(r, d.facts)
	dropNotFinite(r)
	if e.plan != nil {
		var err error
		if r.Provenance.Fingerprint, err = r.Fingerprint(); err != nil {
			return nil, err
		}
		r.Provenance.Series = result.SeriesKey(r.Config.Settings, r)
	}
	r.Status = statusOf(e, d)
	c.explain(e, d)
	redactRecord(e, r)
	return r, nil
}

// explain looks for the cause, where the run did not do what it should.
func (c *Collector) explain(e *evidence, d *draft) {
	r := d.record
	if r.Status == result.Completed || r.Status == result.Ended || r.Status == result.Unknown {
		return
	}
	var unread error
	if r.Failure, unread = c.causeOf(e); unread != nil {
		r.Warnings = append(r.Warnings, result.Warning{Kind: result.Unreadable, File: run.LogDir, Text: unread.Error()})
	}
	judged := d.facts.OverBefore || d.facts.Job.Judged == run.JudgedInvalid || unanswered(r)
	if judged && r.Failure != nil &&
		(r.Failure.Cause == "unknown" || failure.OfRequests(r.Failure.Cause) && !tooManyFailed(r)) {
		r.Failure = nil // nothing broke: the checks say what is wrong with the numbers
	}
	if f := r.Failure; f != nil {
		if f.Cause == timeLimit && d.searched {
			f.Next = shorterSearch
		}
		var a Again
		if e.plan != nil {
			a = AgainOf(e.dir, cmp.Or(e.shown, e.plan.Dir))
		}
		f.Next = NextStep(f.Next, f.Command, a, jobOf(e))
	}
}

// unanswered reports whether a check refuses a search because its measurements stay invalid, and nothing
// else is wrong with the run.
func unanswered(r *result.Result) bool {
	return r.Validity.Check("search-unanswered").Outcome == result.Fail &&
		r.Validity.Check("phase-failed").Outcome != result.Fail
}

// tooManyFailed reports whether a check refuses the numbers for requests that failed.
func tooManyFailed(r *result.Result) bool {
	return r.Validity != nil && slices.ContainsFunc(r.Validity.Words, func(word string) bool {
		return slices.Contains([]string{"request-errors", "no-success", "proxy-errors", "accuracy-invalid"}, word)
	})
}

// statusOf says how the run ended.
func statusOf(e *evidence, d *draft) result.Status {
	r, noBenchmark := d.record, d.facts.Planned.NoBenchmark
	answered := validity.WithoutNumbers(r) // no load holds
	numbers := r.Results.CompletedRequests != nil && *r.Results.CompletedRequests > 0 || r.Results.Offline != nil
	done := (numbers || answered) && r.Validity.Valid
	switch {
	case e.state != nil && e.state.State == run.Cancelled && !done:
		return result.Cancelled
	case e.sentinel == nil && e.plan != nil && !e.over():
		return result.Unknown
	case cutShort(d) && !done:
		return result.Ended
	case done || noBenchmark && r.Validity.Valid:
		return result.Completed
	case numbers:
		return result.Partial
	}
	return result.Failed
}

// cutShort reports whether the run was ended before its own end, as planned, because the runs
// that it accompanied were over, and nothing of it had failed by then.
func cutShort(d *draft) bool {
	open := func(p validity.Phase) bool { return p.Exit == nil }
	return d.facts.EndedWithOthers && slices.ContainsFunc(d.facts.Phases, open) && !d.record.JobFailed()
}
