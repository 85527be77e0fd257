package result

import (
	"slices"
)

// Validity is the judgement on a record's numbers. Every check is listed,
// also those that passed and those that could not be made.
type Validity struct {
	Valid    bool     `json:"valid" jsonschema:"true if no check of severity invalid failed"`
	Verdict  Verdict  `json:"verdict"`
	Words    []string `json:"words,omitempty" jsonschema:"words of the failed checks, worst first"`
	Withheld []string `json:"withheld,omitempty" jsonschema:"keys of results that must not be shown as numbers, sorted"`
	Set      []string `json:"set,omitempty" jsonschema:"thresholds that the test set, and how they differ from the defaults"`
	Checks   []Check  `json:"checks"`
}

// Verdict sums up the checks in a word.
type Verdict string

// The verdicts, best first. Only a valid run may become a baseline.
const (
	VerdictValid   Verdict = "valid"
	VerdictSuspect Verdict = "suspect"
	VerdictInvalid Verdict = "invalid"
)

// Check is one question put to a record, and its answer.
type Check struct {
	OldID    string   `json:"id,omitempty" jsonschema:"only in records of releases before 2026-11-25; the word identifies the check"`
	Word     string   `json:"word" jsonschema:"name of the check; says what is wrong if the check failed"`
	Outcome  Outcome  `json:"outcome"`
	Severity Severity `json:"severity" jsonschema:"effect of a failure on the result"`
	Detail   string   `json:"detail" jsonschema:"the numbers compared, or why the check was not possible"`
	Why      string   `json:"why" jsonschema:"reason for the check"`
}

// Outcome is a check's answer.
type Outcome string

// The outcomes.
const (
	Pass        Outcome = "pass"
	Fail        Outcome = "fail"
	NotPossible Outcome = "not-possible" // something it needs was not recorded
)

// Severity is what a failed check means for the numbers.
type Severity string

// The severities, worst first.
const (
	Invalid  Severity = "invalid"  // never a baseline, never in charts by default
	Suspect  Severity = "suspect"  // shown with its word, never a baseline
	Withheld Severity = "withheld" // the named metrics are not shown, the rest stands
	Note     Severity = "note"     // says what kind of run it was; never compared with others
)

// Failed reports whether a check of that severity failed.
func (v *Validity) Failed(s Severity) bool {
	return slices.ContainsFunc(v.Checks, func(c Check) bool { return c.Outcome == Fail && c.Severity == s })
}

// Baseline reports whether other runs may be compared with this one: valid,
// not suspect, neither simulated nor profiled.
func (v *Validity) Baseline() bool {
	return v.Verdict == VerdictValid && !v.Failed(Note)
}

// Withholds reports whether the number under a key of results must not be shown.
func (v *Validity) Withholds(key string) bool { return v != nil && slices.Contains(v.Withheld, key) }

// Check returns the check of that word, nil if there is none.
func (v *Validity) Check(word string) *Check {
	for i := range v.Checks {
		if v.Checks[i].Word == word {
			return &v.Checks[i]
		}
	}
	return nil
}
