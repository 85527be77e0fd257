package report

import (
	"fmt"

	"github.com/profllm/profllm/pkg/search"
	"github.com/profllm/profllm/pkg/search/runner"
)

// Edge is where the load lies at which the first limit is reached, by the same reckoning as of
// `profllm bench search`.
type Edge struct {
	Low         *float64 `json:"low,omitempty"`  // highest measured load that holds; nil if none does
	High        *float64 `json:"high,omitempty"` // lowest measured load that fails; nil if none does
	Probability float64  `json:"probability"`    // that the edge lies between them
}

// edge finds it from the believable runs of a room; nil if none says anything.
func (r *Room) edge(limits []Limit) *Edge {
	g := search.Goal{Span: search.Span{Min: r.Levels[0].number(), Max: r.Levels[len(r.Levels)-1].number(), Step: 1}}
	if g.Min <= 0 {
		return nil
	}
	var probes []search.Probe
	for i := range r.Levels {
		for _, e := range r.Levels[i].entries {
			if e.Best() {
				probes = append(probes, runner.Of(limits, r.Levels[i].number(), e.Run.Result).Probe)
			}
		}
	}
	low, high, chance, ok := g.Bracket(probes)
	if !ok {
		return nil
	}
	return &Edge{low, high, chance}
}

// String says where the edge is.
func (e *Edge) String() string {
	chance := fmt.Sprintf("%.1f %% sure", 100*e.Probability)
	switch {
	case e.Low == nil:
		return fmt.Sprintf("below %g (%s)", *e.High, chance)
	case e.High == nil:
		return fmt.Sprintf("above %g (%s)", *e.Low, chance)
	}
	return fmt.Sprintf("between %g and %g (%s)", *e.Low, *e.High, chance)
}
