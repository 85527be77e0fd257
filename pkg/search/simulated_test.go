package search_test

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/search"
	"github.com/profllm/profllm/pkg/tier"
)

// A server is a model of one: the quantiles of a latency by load, and what differs between
// two runs. Its edge is where the true P99 equals the limit.
type server struct {
	rng     *rand.Rand
	edge    float64
	limit   float64                 // ms
	typical func(x float64) float64 // median of the latency, ms, of x = load/edge; its P99 at 1 is the limit
	tail    float64                 // standard deviation of ln(latency) within a run
	between float64                 // and of a run's factor
	n       int                     // requests of a run
}

const z99 = 2.3263478740408408

// curves are shapes of latency over load, each 1 at the edge.
var curves = map[string]func(x float64) float64{
	"queue":  func(x float64) float64 { return 0.25 / max(1-0.75*x, 0.01) },                   // of one server, at 75 % of its capacity
	"gentle": func(x float64) float64 { return 0.4 + 0.6*x },                                  // a batch that grows
	"steep":  func(x float64) float64 { return 0.7 + 0.3*math.Pow(x, 8) },                     // near its capacity
	"cliff":  func(x float64) float64 { return map[bool]float64{true: 0.5, false: 3}[x < 1] }, // a full KV cache
}

// measure is a run: a sample of latencies, and its P99 with what the neighbouring
// percentile says of its noise, as the client's file has them.
func (s *server) measure(load float64) search.Probe {
	factor := math.Exp(s.between * s.rng.NormFloat64())
	sample := make([]float64, s.n)
	middle := s.limit * s.typical(load/s.edge) * math.Exp(-z99*s.tail) * factor
	for i := range sample {
		sample[i] = middle * math.Exp(s.tail*s.rng.NormFloat64())
	}
	slices.Sort(sample)
	p95, p99 := quantile(sample, 0.95), quantile(sample, 0.99)
	tail := search.Tail{N: s.n, Rank: 99, Value: p99, Other: 95, Beside: p95}
	return search.Probe{Value: load, Margins: []search.Margin{{
		Log: math.Log(s.limit/p99) + tail.Bias(), Noise: tail.Noise(),
	}}}
}

// quantile interpolates as the clients do.
func quantile(sorted []float64, p float64) float64 {
	at := p * float64(len(sorted)-1)
	i := int(at)
	return sorted[i] + (at-float64(i))*(sorted[min(i+1, len(sorted)-1)]-sorted[i])
}

// outcome of a search.
type outcome struct {
	probes int
	answer *search.Answer
	inside bool
}

// seek searches a server, and compares the answer with its edge.
func seek(g search.Goal, s *server) outcome {
	var probes []search.Probe
	for {
		step := g.Next(probes)
		if a := step.Answer; a != nil {
			in := (a.Low == nil || *a.Low <= s.edge) && (a.High == nil || s.edge <= *a.High)
			return outcome{len(probes), a, in}
		}
		probes = append(probes, s.measure(step.Value))
	}
}

// goal is a span of three decades, to 5 %.
var goal = search.Goal{Span: search.Span{Min: 1, Max: 1000, Step: 0.1}, Start: 8}

// simulated are servers of all shapes, with edges anywhere in 2 to 400: 400 requests a run,
// whose latencies differ by 10 or 30 %, and runs that differ by 2 or 4 %.
func simulated(n int) []*server {
	var list []*server
	names := slices.Sorted(maps.Keys(curves))
	for i := range n {
		r := rand.New(rand.NewPCG(uint64(i), 11))
		s := &server{rng: r, edge: 2 * math.Pow(200, r.Float64()), limit: 500, n: 400, typical: curves[names[i%len(names)]],
			tail: 0.1, between: 0.02}
		if i/len(names)%2 == 1 {
			s.tail, s.between = 0.3, 0.04
		}
		list = append(list, s)
	}
	return list
}

// atMost is the chance of at most k of n, each with a chance p.
func atMost(k, n int, p float64) float64 {
	sum := 0.0
	for i := range k + 1 {
		a, _ := math.Lgamma(float64(n + 1))
		b, _ := math.Lgamma(float64(i + 1))
		c, _ := math.Lgamma(float64(n - i + 1))
		sum += math.Exp(a - b - c + float64(i)*math.Log(p) + float64(n-i)*math.Log1p(-p))
	}
	return sum
}

// TestIntervalsHoldTheEdge counts how often the interval of a simulated search holds the
// known edge: not significantly less often than is claimed.
func TestIntervalsHoldTheEdge(t *testing.T) {
	tier.Alone(t)
	inside, probes, found, claimed := 0, 0, 0, 0.0
	servers := simulated(tier.Of(t, 100, 40))
	for _, s := range servers {
		o := seek(goal, s)
		probes, claimed = probes+o.probes, claimed+o.answer.Probability
		if o.inside {
			inside++
		}
		if o.answer.Kind == search.Found {
			found++
		}
	}
	n := len(servers)
	p := claimed / float64(n)
	t.Logf("simulated: %d of %d intervals hold the edge, claimed %.1f %%; %d within 5 %%; %.1f probes each", inside, n,
		100*p, found, float64(probes)/float64(n))
	require.GreaterOrEqual(t, p, 0.95)
	require.Greater(t, atMost(inside, n, p), 0.01, "the intervals hold the edge less often than is claimed")
	require.Greater(t, found, n*3/4)
}

// Of two limits, each with an edge of its own, the interval holds the lower edge as often as is
// claimed.
func TestIntervalsOfTwoLimits(t *testing.T) {
	tier.Alone(t)
	servers := simulated(tier.Of(t, 120, 40))
	inside, n, claimed := 0, 0, 0.0
	for i := 0; i+1 < len(servers); i += 2 {
		a, b := servers[i], servers[i+1]
		var probes []search.Probe
		for {
			step := goal.Next(probes)
			if step.Answer != nil {
				edge := min(a.edge, b.edge)
				if (step.Answer.Low == nil || *step.Answer.Low <= edge) && (step.Answer.High == nil || edge <= *step.Answer.High) {
					inside++
				}
				n, claimed = n+1, claimed+step.Answer.Probability
				break
			}
			p := a.measure(step.Value)
			p.Margins = append(p.Margins, b.measure(step.Value).Margins...)
			probes = append(probes, p)
		}
	}
	t.Logf("simulated: %d of %d intervals hold the edge, claimed %.1f %%", inside, n, 100*claimed/float64(n))
	require.Greater(t, atMost(inside, n, claimed/float64(n)), 0.01)
}

// BenchmarkProbes counts the probes of simulated searches beside those of a scan with the same
// resolution, and beside the rule of a planner of AIPerf 0.13: doubling from the lowest load,
// then halving until the gap is below 5 % (its monotonic planner). That rule has one probe a load,
// and counts each as the truth.
func BenchmarkProbes(b *testing.B) {
	for b.Loop() {
		ours, doubled, right, inside := 0, 0, 0, 0
		servers := simulated(100)
		for _, s := range servers {
			o := seek(goal, s)
			ours += o.probes
			if o.inside {
				inside++
			}
			n, ok := doubleAndHalve(s)
			doubled += n
			if ok {
				right++
			}
		}
		n := float64(len(servers))
		scan := math.Log(goal.Max/goal.Min) / -math.Log(1-search.DefaultTolerance)
		b.ReportMetric(float64(ours)/n, "probes")
		b.ReportMetric(100*float64(inside)/n, "%-inside")
		b.ReportMetric(scan/(float64(ours)/n), "scan/probes")
		b.ReportMetric(float64(doubled)/n, "aiperf-rule-probes")
		b.ReportMetric(100*float64(right)/n, "aiperf-rule-%-inside")
	}
}

// doubleAndHalve is the rule of AIPerf 0.13's monotonic planner, in whole numbers from 1 to 1000.
func doubleAndHalve(s *server) (probes int, inside bool) {
	low, high, at := 0, 0, 1
	for high == 0 || high-low > 1 && float64(high-low)/float64(high) >= 0.05 {
		probes++
		p := s.measure(float64(at))
		switch holds := p.Holds(); {
		case holds && at == 1000, !holds && at == 1:
			return probes, false
		case holds:
			low = at
		default:
			high = at
		}
		at = min(at*2, 1000)
		if high > 0 {
			at = low + (high-low)/2
		}
	}
	return probes, float64(low) <= s.edge && s.edge <= float64(high)
}

// A server whose edge is surely below a rival's costs fewer probes than a whole search, and one above is
// never stopped.
func TestBeatenSearchesAreShort(t *testing.T) {
	tier.Alone(t)
	whole, short := 0, 0
	for i := range 12 {
		g := goal
		whole += seek(g, simulated(12)[i]).probes
		s := simulated(12)[i]
		g.AtLeast = s.edge / 0.7
		o := seek(g, s)
		short += o.probes
		require.Equal(t, search.Beaten, o.answer.Kind)
		s = simulated(12)[i]
		g.AtLeast = s.edge / 1.2
		require.NotEqual(t, search.Beaten, seek(g, s).answer.Kind)
	}
	t.Logf("%d probes, %d with a rival", whole, short)
	require.Less(t, short, whole/2)
}
