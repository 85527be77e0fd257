package collect

import (
	"github.com/profllm/profllm/pkg/failure"
	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

// addAPICheck adds what came of the checks of the API before the first load.
func addAPICheck(e *evidence, d *draft) {
	for _, x := range e.events {
		if x.Event != job.APIPassed && x.Event != job.APIFailed {
			continue
		}
		if d.record.APICheck == nil {
			d.record.APICheck = &result.APICheck{}
		}
		a := d.record.APICheck
		if x.Event == job.APIPassed {
			a.Passed++
			continue
		}
		a.Failed = append(a.Failed, result.FailedCheck{Check: x.Check, Text: x.Text})
	}
}

// ofAPICheck is the cause of a run that a check of the API ended. What a log names as a root is
// why the server answers wrongly, and remains the cause.
func ofAPICheck(events []job.Event, f *result.Failure) *result.Failure {
	var wrong []job.Event
	for _, x := range events {
		switch x.Event {
		case job.APIFailed:
			wrong = append(wrong, x)
		case job.RoleDied:
			return f
		}
	}
	if len(wrong) == 0 || f != nil && f.Confidence == result.Exact {
		return f
	}
	said := &result.Failure{Cause: failure.APICheck.ID, Line: wrong[0].Check + ": " + wrong[0].Text,
		File: run.RawDir + "/" + job.APIFile, Next: failure.APICheck.Next, Confidence: result.Exact}
	for _, x := range wrong[1:] {
		said.Others = append(said.Others, result.OtherCause{Cause: failure.APICheck.ID, Line: x.Check + ": " + x.Text,
			File: said.File})
	}
	return said
}
