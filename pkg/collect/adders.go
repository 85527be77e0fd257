package collect

import (
	"slices"

	"github.com/profllm/profllm/pkg/job"
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
}

// An adder adds what it finds in the evidence to the draft.
type adder func(*evidence, *draft)

// adders are those of a record, in their order. A new fact of the record, or of its
// judgement, is a new adder here.
func (c *Collector) adders() []adder {
	return []adder{
		addIdentity(c.Version), addConfig, addCommands, addRepeats, addPlacement, addEvents, addTimes, addSlurm,
		addPlanned, addPhases, addServers, addJobEnd, addDeaths,
		addNodes, addProvenance, addReports,
		addBenchmark(c.Bench), addAccuracy(c.Eval), addForeign,
		addCounters, addEvaluated, addGPUs, addAgreement,
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
	r.Status = statusOf(e, r, d.facts.Planned.NoBenchmark)
	c.explain(e, d)
	redactRecord(e, r)
	return r, nil
}

// explain looks for the cause, where the run did not do what it should.
func (c *Collector) explain(e *evidence, d *draft) {
	r := d.record
	if r.Status == result.Completed || r.Status == result.Unknown {
		return
	}
	var unread error
	if r.Failure, unread = causeOf(e, c.table(e.plan)); unread != nil {
		r.Warnings = append(r.Warnings, result.Warning{Kind: result.Unreadable, File: run.LogDir, Text: unread.Error()})
	}
	if (d.facts.OverBefore || d.facts.Job.Judged == run.JudgedInvalid) && r.Failure != nil &&
		r.Failure.Cause == "unknown" {
		r.Failure = nil // nothing broke: the checks say what is wrong with the numbers
	}
}

// statusOf says how the run ended.
func statusOf(e *evidence, r *result.Result, noBenchmark bool) result.Status {
	numbers := r.Results.CompletedRequests != nil && *r.Results.CompletedRequests > 0 || r.Results.Offline != nil
	switch {
	case e.state != nil && e.state.State == run.Cancelled && !(numbers && r.Validity.Valid):
		return result.Cancelled
	case e.sentinel == nil && e.plan != nil && !e.over():
		return result.Unknown
	case numbers && r.Validity.Valid, noBenchmark && r.Validity.Valid:
		return result.Completed
	case job.EndedWithOthers(e.events):
		return result.Cancelled
	case numbers:
		return result.Partial
	}
	return result.Failed
}
