package job

import (
	"context"
	"errors"
)

// APIFile is the name below raw/ of the checks of the API before the first load, as `profllm check
// --output json` prints them.
const APIFile = "api-check.json"

// An APIResult is what came of one check of the API.
type APIResult struct {
	Check  string
	Passed bool
	Text   string // of a failed check: the request, the expected answer, and what came
}

// CheckedAPI records the checks of the API that gate the first load. If all passed, it reads the
// engines' counters again, since the requests of the checks are not the load's.
func (j *Job) CheckedAPI(ctx context.Context, results []APIResult) error {
	p, _, err := j.load()
	if err != nil {
		return err
	}
	var errs []error
	failed := false
	for _, r := range results {
		e := Event{Event: APIPassed, Check: r.Check}
		if !r.Passed {
			failed, e = true, Event{Event: APIFailed, Check: r.Check, Text: r.Text}
			j.logf("%s failed: %s", r.Check, r.Text)
		}
		errs = append(errs, j.event(e))
	}
	if !failed && len(p.Loads) < 2 { // else each load reads them
		j.scrape(ctx, j.Dir, Before, nil)
	}
	return errors.Join(errs...)
}
