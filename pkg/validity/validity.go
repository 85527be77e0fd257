// Package validity judges a record: which of its numbers can be believed, and why not.
//
// Every check is a function of the record and of the evidence beside it, in one list
// (checks.go). A check answers pass, fail or not-possible, with the numbers that it
// compared. Thresholds lists what a test may set.
//
//	v := validity.Judge(r, evidence)
//	if !v.Baseline() {
//		fmt.Println(v.Verdict, v.Words)
//	}
//
// The package is pure: it reads no file, no clock and no environment, and changes
// neither the record nor the evidence.
package validity

import (
	"fmt"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/result"
)

// Judge applies every check to the record. It changes neither argument; the checks also
// read the record's warnings.
func Judge(r *result.Result, e Evidence) *result.Validity {
	c := &facts{r: r, m: &r.Results, e: e}
	v := &result.Validity{Verdict: result.VerdictValid, Set: e.Limits.set()}
	for _, q := range questions {
		c.asked = nil
		a := q.ask(c)
		check := result.Check{Word: q.word, Severity: q.severity, Why: q.why, Outcome: a.outcome,
			Detail: a.detail + c.set()}
		if a.word != "" {
			check.Word = a.word
		}
		v.Checks = append(v.Checks, check)
		if a.outcome == result.Fail {
			v.Withheld = append(v.Withheld, a.withheld...)
		}
	}
	for _, s := range []result.Severity{result.Invalid, result.Suspect, result.Withheld, result.Note} {
		for _, check := range v.Checks {
			if check.Outcome == result.Fail && check.Severity == s && !slices.Contains(v.Words, check.Word) {
				v.Words = append(v.Words, check.Word)
			}
		}
	}
	switch {
	case v.Failed(result.Invalid):
		v.Verdict = result.VerdictInvalid
	case v.Failed(result.Suspect):
		v.Verdict = result.VerdictSuspect
	}
	v.Valid = v.Verdict != result.VerdictInvalid
	slices.Sort(v.Withheld)
	v.Withheld = slices.Compact(v.Withheld)
	return v
}

// facts is what the questions are put to.
type facts struct {
	r     *result.Result
	m     *result.Metrics
	e     Evidence
	asked []*Threshold // by the check, of those that the test has set
}

// An answer to one question.
type answer struct {
	outcome  result.Outcome
	detail   string
	word     string   // in place of the question's
	withheld []string // keys of results, if failed
}

func pass(format string, args ...any) answer {
	return answer{outcome: result.Pass, detail: fmt.Sprintf(format, args...)}
}

func fail(format string, args ...any) answer {
	return answer{outcome: result.Fail, detail: fmt.Sprintf(format, args...)}
}

func notPossible(format string, args ...any) answer {
	return answer{outcome: result.NotPossible, detail: fmt.Sprintf(format, args...)}
}

// judged answers fail if bad, else pass, with the same detail.
func judged(bad bool, format string, args ...any) answer {
	if bad {
		return fail(format, args...)
	}
	return pass(format, args...)
}

// completed returns the number of completed requests, or why it is of no use.
func (c *facts) completed() (n int, why string) {
	switch {
	case c.e.Planned.NoBenchmark:
		return 0, "no benchmark was planned"
	case c.m.CompletedRequests == nil:
		return 0, "the client did not report the number of completed requests"
	case *c.m.CompletedRequests == 0:
		return 0, "no request completed, see no-success"
	}
	return *c.m.CompletedRequests, ""
}

// planned returns the number of requests asked for, 0 if unknown.
func (c *facts) planned() int {
	if n := c.e.Planned.NumPrompts; n > 0 {
		return n
	}
	if c.m.NumPrompts != nil {
		return *c.m.NumPrompts
	}
	return 0
}

// warnings returns the texts of the record's warnings of one kind.
func (c *facts) warnings(kind result.WarningKind) []string {
	var texts []string
	for _, w := range c.r.Warnings {
		if w.Kind == kind {
			texts = append(texts, fmt.Sprintf("%s: %s", w.Key, w.Text))
		}
	}
	return texts
}

func list(items []string) string {
	const most = 5
	if len(items) > most {
		return strings.Join(items[:most], ", ") + fmt.Sprintf(" and %d more", len(items)-most)
	}
	return strings.Join(items, ", ")
}
