package story

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/profllm/profllm/pkg/run"
)

// apart says why the job and its numbers are judged differently, "" if they are not.
func (e *Evidence) apart(s Story) string {
	why := e.jobFailure()
	switch {
	case s.Valid() && why != "":
		return "the numbers are valid, and the job failed: " + why
	case s.Verdict == failed && e.Result.Validity != nil && e.Result.Validity.Valid:
		return "no check of the numbers failed; the run failed: " + cmp.Or(why, "its record says so")
	}
	return ""
}

// jobFailure is what says that the job failed, "" if nothing does.
func (e *Evidence) jobFailure() string {
	var parts []string
	if e.Sentinel != nil && e.Sentinel.Code == judgedInvalid {
		return "" // of another load of the job: only its numbers are bad
	}
	if e.Sentinel != nil && e.Sentinel.Code != 0 {
		parts = append(parts, fmt.Sprintf("it ended with code %d", e.Sentinel.Code))
	}
	for _, ph := range e.failedPhases() {
		if ph.Code > 0 {
			parts = append(parts, fmt.Sprintf("phase %s failed%s", ph.Name, ending(ph.Code)))
		}
	}
	if st := e.State; st != nil && st.Final() && st.State != run.Succeeded {
		parts = append(parts, fmt.Sprintf("%s says %s%s", cmp.Or(st.Source, "the scheduler"), st.State, exitCode(st)))
	}
	return strings.Join(parts, "; ")
}

func exitCode(st *run.State) string {
	if st.ExitCode == "" || st.ExitCode == "0:0" {
		return ""
	}
	return ", exit code " + st.ExitCode
}
