package document

import (
	"fmt"

	"github.com/profllm/profllm/pkg/apicheck"
)

// Check is the answer of check.
type Check struct {
	Head
	URL    string       `json:"url"`    // of the server, to which /v1/models and the other paths are added
	Model  string       `json:"model"`  // that was asked
	Passed int          `json:"passed"` // checks that passed
	Failed int          `json:"failed"` // checks that failed
	Checks []CheckEntry `json:"checks"` // that were made, by number
}

// CheckEntry is one check of a server.
type CheckEntry struct {
	Number   int     `json:"number"`
	Name     string  `json:"name"`
	Passed   bool    `json:"passed"`
	Asked    string  `json:"asked"`    // the request
	Expected string  `json:"expected"` // what a passing answer has
	Came     string  `json:"came"`     // the answer, or what is wrong with it, shortened to one line
	Seconds  float64 `json:"seconds"`  // until the answer was read
}

// Failure says what a check that failed asked, what it expected, and what came.
func (c *CheckEntry) Failure() string {
	return fmt.Sprintf("asked %s; expected %s; got: %s", c.Asked, c.Expected, c.Came)
}

// NewCheck is the document of a server that answers.
func NewCheck(url, model string, outcomes []apicheck.Outcome) *Check {
	d := &Check{Head: NewHead("check"), URL: url, Model: model, Checks: []CheckEntry{}}
	for _, o := range outcomes {
		d.Checks = append(d.Checks, CheckEntry{Number: o.Check.Number, Name: o.Check.Name, Passed: o.Passed,
			Asked: o.Check.Asks, Expected: o.Check.Requires, Came: o.Came, Seconds: o.Took.Seconds()})
		if o.Passed {
			d.Passed++
		} else {
			d.Failed++
		}
	}
	return d
}
