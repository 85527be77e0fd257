package search_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/search"
)

// holdsBelow is a server without noise whose margins jump at an edge.
func holdsBelow(edge float64) func(load float64) search.Probe {
	return func(load float64) search.Probe {
		m := math.Log(2)
		if load > edge {
			m = -1
		}
		return search.Probe{Value: load, Margins: []search.Margin{{Log: m}, {Log: 3}}}
	}
}

func run(t *testing.T, g search.Goal, measure func(float64) search.Probe) ([]search.Probe, *search.Answer) {
	t.Helper()
	var probes []search.Probe
	for range 100 {
		step := g.Next(probes)
		if step.Answer != nil {
			return probes, step.Answer
		}
		require.InDelta(t, math.Round(step.Value/g.Step), step.Value/g.Step, 1e-6, "a multiple of the step")
		require.GreaterOrEqual(t, step.Value, g.Min)
		require.LessOrEqual(t, step.Value, g.Max)
		probes = append(probes, measure(step.Value))
	}
	require.Fail(t, "no answer after 100 probes")
	return nil, nil
}

func TestEachEndOfASearch(t *testing.T) {
	whole := search.Goal{Span: search.Span{Min: 1, Max: 256, Step: 1}}
	for _, c := range []struct {
		name       string
		edge       float64
		kind       search.Kind
		mostProbes int
	}{
		{"in the middle", 37.5, search.Found, 14},
		{"below the first", 3.5, search.Found, 14},
		{"at the lowest", 1.5, search.Found, 14},
		{"below the lowest", 0.5, search.LowestFails, 10},
		{"above the highest", 1000, search.NoLimit, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			probes, a := run(t, whole, holdsBelow(c.edge))
			require.Equal(t, c.kind, a.Kind)
			require.GreaterOrEqual(t, a.Probability, 0.95)
			require.LessOrEqual(t, len(probes), c.mostProbes)
			require.Equal(t, c.kind == search.LowestFails, a.Low == nil)
			require.Equal(t, c.kind == search.NoLimit, a.High == nil)
			if a.Low != nil {
				require.LessOrEqual(t, *a.Low, c.edge)
			}
			if a.High != nil {
				require.GreaterOrEqual(t, *a.High, c.edge)
			}
			if c.kind == search.Found {
				require.LessOrEqual(t, *a.High-*a.Low, max(1, 0.05**a.High))
			}
		})
	}
}

func TestRealLoads(t *testing.T) {
	_, a := run(t, search.Goal{Span: search.Span{Min: 0.25, Max: 50, Step: 0.25}}, holdsBelow(7.3))
	require.Equal(t, search.Found, a.Kind)
	require.Equal(t, 7.25, *a.Low)
	require.Equal(t, 7.5, *a.High)
}

// An invalid probe is no evidence: the search goes on as without it, and gives up a load
// whose results stay invalid.
func TestInvalidProbes(t *testing.T) {
	g := search.Goal{Span: search.Span{Min: 1, Max: 256, Step: 1}}
	server := holdsBelow(37)
	probes := []search.Probe{server(8), server(16)}
	next := g.Next(probes)
	require.Equal(t, next, g.Next(append(probes, search.Probe{Value: 32, Invalid: true})))

	_, a := run(t, g, func(load float64) search.Probe { // the client is the limit from 20 on
		p := server(load)
		p.Invalid = load >= 20
		return p
	})
	require.Equal(t, search.NoEvidence, a.Kind)

	_, a = run(t, g, func(load float64) search.Probe { return search.Probe{Value: load, Invalid: true} })
	require.Equal(t, search.NoEvidence, a.Kind)
	require.Less(t, a.At, 9.0)
}

func TestBudgetAndRivals(t *testing.T) {
	g := search.Goal{Span: search.Span{Min: 1, Max: 1024, Step: 1}, Probes: 4}
	probes, a := run(t, g, holdsBelow(37.5))
	require.Len(t, probes, 4)
	require.Equal(t, search.Spent, a.Kind)
	require.LessOrEqual(t, *a.Low, 37.0)
	require.GreaterOrEqual(t, *a.High, 37.0)

	g.Probes, g.AtLeast = 0, 100
	few, a := run(t, g, holdsBelow(37.5))
	require.Equal(t, search.Beaten, a.Kind)
	g.AtLeast = 0
	all, _ := run(t, g, holdsBelow(37.5))
	require.Less(t, len(few), len(all))

	require.Equal(t, search.NoEvidence, g.Conclude(nil).Kind)
	require.Equal(t, search.Spent, g.Conclude(all[:3]).Kind)
}

// Of several limits, the edge is that of the first to fail.
func TestLowestOfSeveralLimits(t *testing.T) {
	g := search.Goal{Span: search.Span{Min: 1, Max: 256, Step: 1}}
	_, a := run(t, g, func(load float64) search.Probe {
		p, other := holdsBelow(90)(load), holdsBelow(20.5)(load)
		p.Margins[1] = other.Margins[0]
		return p
	})
	require.Equal(t, search.Found, a.Kind)
	require.Equal(t, 20.0, *a.Low)
}

// Without an interval that holds the edge with the confidence, the likeliest between neighbours is
// said with its own chance: one load near its limit says little.
func TestBracketNearALimit(t *testing.T) {
	g := search.Goal{Span: search.Span{Min: 1, Max: 16, Step: 1}}
	near := func(load, log float64) search.Probe {
		return search.Probe{Value: load, Margins: []search.Margin{{Log: log, Noise: 0.05}}}
	}
	for name, probes := range map[string][]search.Probe{
		"one load": {near(8, 0.01)}, "a load that fails": {near(8, -0.01)}, "two loads": {near(8, 0.01), near(9, 0.005)},
	} {
		low, high, chance, ok := g.Bracket(probes)
		require.True(t, ok, name)
		require.True(t, low != nil || high != nil, name)
		require.Greater(t, chance, 0.2, name)
		require.Less(t, chance, 0.95, name)
	}
	holds, fails := slices.Repeat([]search.Probe{near(4, 1)}, 6), slices.Repeat([]search.Probe{near(8, -1)}, 6)
	low, high, chance, ok := g.Bracket(slices.Concat(holds, fails))
	require.True(t, ok)
	require.Equal(t, []float64{4, 8}, []float64{*low, *high})
	require.Greater(t, chance, 0.95)
	_, _, _, ok = g.Bracket(nil)
	require.False(t, ok)
}

// What is thought of the edge before the first probe is the same however many limits there are.
func TestPriorOfSeveralLimits(t *testing.T) {
	g := search.Goal{Span: search.Span{Min: 1, Max: 256, Step: 1}}
	guess := func(n int) float64 { // from a probe that says nothing
		margins := slices.Repeat([]search.Margin{{Noise: 1e30}}, n)
		return g.Conclude([]search.Probe{{Value: 16, Margins: margins}}).Edge
	}
	require.InDelta(t, 16, guess(1), 1, "the middle of the span")
	for _, n := range []int{2, 5} {
		require.InDelta(t, guess(1), guess(n), 0.5, "%d limits", n)
	}
}

// An answer after a few probes on one side of the edge has an open end on the other. The span's own ends
// are known to fail or to hold only once they were measured.
func TestOpenEnds(t *testing.T) {
	g := search.Goal{Span: search.Span{Min: 1, Max: 1024, Step: 1}}
	server := holdsBelow(40)
	for name, c := range map[string]struct{ loads, low, high []float64 }{
		"one that holds": {loads: []float64{8}, low: []float64{8}},
		"all hold":       {loads: []float64{8, 16, 32}, low: []float64{32}},
		"one that fails": {loads: []float64{64}, high: []float64{64}},
		"all fail":       {loads: []float64{512, 256}, high: []float64{256}},
	} {
		var probes []search.Probe
		for _, load := range c.loads {
			probes = append(probes, server(load))
		}
		a := g.Conclude(probes)
		require.Equal(t, search.Spent, a.Kind, name)
		require.Equal(t, c.low, values(a.Low), name)
		require.Equal(t, c.high, values(a.High), name)
	}
	flat := func(load, log float64) search.Probe {
		return search.Probe{Value: load, Margins: []search.Margin{{Log: log, Noise: 0.01}}}
	}
	falling := []search.Probe{flat(4, -0.15), flat(8, -0.151), flat(16, -0.152), flat(32, -0.153), flat(64, -0.154)}
	require.Equal(t, search.Spent, g.Conclude(falling).Kind, "the lowest load was not measured")
}

func values(p *float64) []float64 {
	if p == nil {
		return nil
	}
	return []float64{*p}
}

// three are probes at 30, 48 and 64 with little noise.
func three(margins ...float64) (probes []search.Probe) {
	for i, load := range []float64{30, 48, 64} {
		probes = append(probes, search.Probe{Value: load, Margins: []search.Margin{{Log: margins[i], Noise: 0.02}}})
	}
	return probes
}

// An answer and the bracket of a report are one: an open interval that has the confidence is said by both.
func TestAnswerIsTheBracket(t *testing.T) {
	g := search.Goal{Span: search.Span{Min: 1, Max: 1024, Step: 1}}
	for _, c := range []struct{ margins, low, high []float64 }{
		{margins: []float64{0.12, -0.05, -0.4}, low: []float64{30}},
		{margins: []float64{0.05, -0.05, -0.45}, high: []float64{64}}, // each end would do alone: the likelier
		{margins: []float64{0.4, -0.2, -0.6}, low: []float64{30}, high: []float64{48}},
	} {
		low, high, chance, ok := g.Bracket(three(c.margins...))
		require.True(t, ok)
		a := g.Conclude(three(c.margins...))
		require.Equal(t, c.low, values(a.Low), c.margins)
		require.Equal(t, c.high, values(a.High), c.margins)
		require.GreaterOrEqual(t, a.Probability, 0.95)
		require.Equal(t, chance, a.Probability)
		require.Equal(t, values(a.Low), values(low))
		require.Equal(t, values(a.High), values(high))
	}
}

// What is beaten is surely below the rival's load by its own answer.
func TestBeatenIsBelowTheRival(t *testing.T) {
	g := search.Goal{Span: search.Span{Min: 1, Max: 1024, Step: 1}, AtLeast: 50}
	for _, c := range []struct {
		fails float64 // margin at 48
		kind  search.Kind
		high  float64
	}{{-0.05, search.Spent, 64}, {-0.08, search.Beaten, 48}, {-0.1, search.Beaten, 48}} {
		a := g.Conclude(three(0.05, c.fails, c.fails-0.4))
		require.Equal(t, c.kind, a.Kind, c.fails)
		require.Equal(t, []float64{c.high}, values(a.High), c.fails)
		require.GreaterOrEqual(t, a.Probability, 0.95)
	}
}
