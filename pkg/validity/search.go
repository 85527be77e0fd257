package validity

import (
	"fmt"

	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/search"
)

// WithoutNumbers reports whether the record's search explains why there are no numbers: no load was
// found that holds, or the search ended before its answer.
func WithoutNumbers(r *result.Result) bool {
	s := searchOf(r)
	return s != nil && (s.Measured == nil || s.Outcome == string(search.Interrupted))
}

// searchOf is the search whose best load gives the record its numbers, that of the first set of
// limits; nil without a search.
func searchOf(r *result.Result) *result.Search {
	for _, s := range r.Search {
		if s != nil {
			return s
		}
	}
	return nil
}

// unanswered reports whether a search ended without an answer. An interval with one known end is one.
func unanswered(s *result.Search) bool {
	switch search.Kind(s.Outcome) {
	case search.NoEvidence, search.Interrupted:
		return true
	}
	return s.Low == nil && s.High == nil && s.Measured == nil
}

// searchUnanswered fails a search that found nothing out.
func searchUnanswered(c *facts) answer {
	s := searchOf(c.r)
	if s == nil {
		return notPossible("no load was searched for")
	}
	return judged(unanswered(s), "%s", s.Sentence)
}

// noLoadHolds marks a search whose answer has no numbers: even the lowest load does not hold, or the search
// was stopped before it measured a load that does.
func noLoadHolds(c *facts) answer {
	s := searchOf(c.r)
	switch {
	case s == nil:
		return notPossible("no load was searched for")
	case unanswered(s):
		return notPossible("the search has no answer, see search-unanswered")
	case s.Measured != nil:
		return pass("%s %g was measured and holds", s.Variable, *s.Measured)
	}
	a := fail("%s", s.Sentence)
	if s.Outcome != string(search.LowestFails) { // a lower load may hold
		a.word = "search-stopped"
	}
	return a
}

// noAnswer is the exit code of `profllm bench search` whose measurements stay invalid.
const noAnswer = 6

// withoutAnswer says that a phase ended with the exit code of a search without an answer, which has a
// check of its own; "" if it did not.
func (c *facts) withoutAnswer(p Phase) string {
	s := searchOf(c.r)
	if s == nil || p.Exit == nil || *p.Exit != noAnswer || s.Outcome != string(search.NoEvidence) {
		return ""
	}
	return fmt.Sprintf("%s ended with %d: see search-unanswered", p.Name, noAnswer)
}
