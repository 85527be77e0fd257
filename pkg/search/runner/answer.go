package runner

import (
	"fmt"
	"strings"

	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/search"
)

// answer keeps the answer for a set of limits.
func (r *runner) answer(set int, a *search.Answer) {
	s := &result.Search{
		Variable: r.Variable, Limits: r.question().Limits[set], Outcome: string(a.Kind), Low: a.Low, High: a.High,
		Probability: a.Probability, Edge: a.Edge, Probes: len(r.doc.Probes),
	}
	if a.Kind == search.NoEvidence {
		s.Edge = a.At
	}
	if s.Low == nil && s.High == nil { // nothing is said of the edge
		s.Probability = 0
	}
	if (s.Low == nil || s.High == nil) && a.Kind != search.NoEvidence { // the estimate is a guess
		s.Edge = 0
	}
	r.doc.Answers[set], r.edges[set] = s, a.Edge
	for i := range r.doc.Probes {
		p := &r.doc.Probes[i]
		s.Seconds += p.Seconds
		if e := r.evidence(set, p); e.Invalid {
			s.Invalid++
			if a.Kind == search.NoEvidence {
				s.Why = e.Why
			}
		}
	}
	if best := r.Best(set); best != nil {
		s.Measured = new(best.Value)
		if e := r.evidence(set, best); e.Low {
			s.Why = e.Why
		}
	}
	g := r.goal(set)
	if a.Kind == search.Beaten {
		s.AtLeast = &g.AtLeast
		if r.best[set].reach == g.AtLeast {
			s.Rival = r.best[set].name
		}
	}
	s.Sentence = sentence(g, s)
}

// sentence is the answer for a person.
func sentence(g search.Goal, s *result.Search) string {
	limits, cost := strings.Join(s.Limits, " and "), quantity.Count(s.Probes, "probe")
	chance := fmt.Sprintf("%.1f %%", 100*s.Probability)
	text := ""
	switch search.Kind(s.Outcome) {
	case search.LowestFails:
		text = fmt.Sprintf("even the lowest %s, %g, does not keep %s (%s sure, %s)", s.Variable, g.Min, limits, chance, cost)
	case search.NoLimit:
		text = fmt.Sprintf("%s is kept up to %s %g, the highest that was allowed (%s sure, %s)", limits, s.Variable, g.Max,
			chance, cost)
	case search.Interrupted:
		if s.Low == nil && s.High == nil {
			return fmt.Sprintf("no answer: the search for the highest %s within %s was interrupted (%s)", s.Variable, limits,
				cost)
		}
		return fmt.Sprintf("the highest %s within %s %s (%s sure, %s); the search was interrupted", s.Variable, limits,
			between(g, s), chance, cost)
	case search.NoEvidence:
		text = fmt.Sprintf("no answer: results at %s %g stay invalid (%s), %s", s.Variable, s.Edge, s.Why, cost)
		if s.Low != nil {
			text += fmt.Sprintf("; up to %g holds", *s.Low)
		}
		return text
	default:
		if s.Low == nil && s.High == nil {
			text = fmt.Sprintf("the highest %s within %s is not known (%s)", s.Variable, limits, cost)
			break
		}
		text = fmt.Sprintf("the highest %s within %s %s (%s sure, %s)", s.Variable, limits, between(g, s), chance, cost)
	}
	switch search.Kind(s.Outcome) {
	case search.Spent:
		text += "; the budget is spent before the interval is narrow"
	case search.Beaten:
		text += "; it was stopped because another configuration"
		if s.Rival != "" {
			text += " (" + s.Rival + ")"
		}
		text += fmt.Sprintf(" reaches %g", g.AtLeast)
	}
	if s.Why != "" {
		text += "; but " + s.Why
	}
	return text
}

// between is the interval of an answer that has an end. Only of two neighbouring loads, the lower is the
// highest that holds.
func between(g search.Goal, s *result.Search) string {
	switch {
	case s.Low == nil:
		return fmt.Sprintf("is below %g, and no load that was tried surely holds", *s.High)
	case s.High == nil:
		return fmt.Sprintf("is %g or more, and no load that was tried surely fails", *s.Low)
	case *s.High-*s.Low > g.Step*1.001:
		return fmt.Sprintf("lies between %g and %g: it holds at %g and fails at %g", *s.Low, *s.High, *s.Low, *s.High)
	}
	return fmt.Sprintf("is %g: it holds at %g and fails at %g", *s.Low, *s.Low, *s.High)
}
