package report

import (
	"fmt"
	"math"

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

// edge finds it from the believable runs of a room; nil if none says anything. A level without a
// finite load, such as request_rate = inf, has no place on the scale.
func (r *Room) edge(limits []Limit) *Edge {
	g := search.Goal{Span: search.Span{Min: math.Inf(1), Step: 1}}
	var probes []search.Probe
	for i := range r.Levels {
		load := r.Levels[i].number()
		if !(load > 0) || math.IsInf(load, 1) {
			continue
		}
		g.Min, g.Max = min(g.Min, load), max(g.Max, load)
		for _, e := range r.Levels[i].entries {
			if e.Best() {
				probes = append(probes, runner.Of(limits, load, e.Run.Result).Probe)
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
