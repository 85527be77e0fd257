package validity_test

import (
	"container/heap"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/tier"
	"github.com/profllm/profllm/pkg/validity"
)

// honest makes the calibration longer, and with -v prints its table:
//
//	go test ./pkg/result -run TestHonestTimes -v -honest 5000
var honest = flag.Int("honest", 400, "generated honest loads")

// A service is an honest engine: it computes prompts in turn and lets every running
// stream have a token a step. A prompt is computed in chunks between the steps, or
// whole, and then all streams wait for it.
type service struct {
	step     float64 // s
	prefill  float64 // s per prompt token
	chunk    int     // prompt tokens a step; 0: whole prompts
	slots    int
	jitter   float64 // share of a step
	tail     float64 // chance of a step ten times as long
	pause    float64 // chance per step of one of about a second
	together float64 // chance that the client reads a token with the one before
}

// A request of a load on its way.
type flight struct {
	start       float64
	input, left int // prompt tokens left to compute
	out         int
	tokens      []float64
}

// A load is what a client asks for.
type honestLoad struct {
	requests, limit int
	rate, shape     float64
	input, output   func(*rand.Rand) int
}

type ends []float64

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return e[i] < e[j] }
func (e ends) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(x any)        { *e = append(*e, x.(float64)) }
func (e *ends) Pop() any          { old := *e; x := old[len(old)-1]; *e = old[:len(old)-1]; return x }

// serve runs the load to its end and returns its requests.
func (s service) serve(l honestLoad, d *rand.Rand) []*flight {
	var all, waiting, running []*flight
	due := make([]float64, l.requests)
	if l.rate > 0 {
		sum := 0.0
		for i := range due {
			sum += gammaGap(d, l.shape)
			due[i] = sum
		}
		for i := range due { // rescaled, as vLLM's client and profllm's do
			due[i] *= float64(l.requests) / l.rate / sum
		}
	}
	freed := &ends{}
	for range l.limit {
		heap.Push(freed, 0.0)
	}
	now, next, done := 0.0, 0, 0
	for done < l.requests {
		for next < l.requests && freed.Len() > 0 && max(due[next], (*freed)[0]) <= now {
			at := max(due[next], heap.Pop(freed).(float64))
			q := &flight{start: at + 2e-4*d.Float64(), input: l.input(d), out: l.output(d)}
			q.left = q.input
			all, waiting, next = append(all, q), append(waiting, q), next+1
		}
		if len(waiting)+len(running) == 0 {
			now = max(due[next], (*freed)[0])
			continue
		}
		now += s.took(d, len(running))
		now += s.compute(d, &waiting, &running, now)
		for _, q := range running {
			at := now + 3e-4*d.Float64()
			if n := len(q.tokens); n > 0 && at <= q.tokens[n-1] || n > 1 && d.Float64() < s.together {
				at = max(at, q.tokens[n-1]) + 1e-5*d.Float64()
			}
			q.tokens = append(q.tokens, at)
		}
		running = slices.DeleteFunc(running, func(q *flight) bool {
			if len(q.tokens) < q.out {
				return false
			}
			heap.Push(freed, q.tokens[len(q.tokens)-1]+1e-4*d.Float64())
			done++
			return true
		})
	}
	return all
}

// took is how long a step takes.
func (s service) took(d *rand.Rand, running int) float64 {
	t := s.step * (1 + 0.01*float64(running)) * (1 + s.jitter*(2*d.Float64()-1))
	if d.Float64() < s.tail {
		t *= 10
	}
	if d.Float64() < s.pause {
		t += 0.5 + 0.5*d.Float64()
	}
	return t
}

// compute works on the prompts that wait, and returns what it adds to the step.
func (s service) compute(d *rand.Rand, waiting, running *[]*flight, now float64) (more float64) {
	budget := s.chunk
	if budget == 0 {
		budget = math.MaxInt
	}
	for len(*waiting) > 0 && len(*running) < s.slots && budget > 0 {
		q := (*waiting)[0]
		n := min(q.left, budget)
		q.left, budget = q.left-n, budget-n
		more += float64(n) * s.prefill * (0.9 + 0.2*d.Float64())
		if q.left > 0 {
			break
		}
		*waiting, *running = (*waiting)[1:], append(*running, q)
	}
	return more
}

// gammaGap draws a gap of mean 1: sums of exponential gaps for shapes of at least 1,
// else a mixture of bursts and pauses with that coefficient of variation.
func gammaGap(d *rand.Rand, shape float64) float64 {
	if shape < 1 { // Johnk's generator
		for {
			x, y := math.Pow(d.Float64(), 1/shape), math.Pow(d.Float64(), 1/(1-shape))
			if x+y <= 1 && x+y > 0 {
				return x / (x + y) * d.ExpFloat64() / shape
			}
		}
	}
	n, sum := int(shape), 0.0
	for range n {
		sum += d.ExpFloat64()
	}
	return sum / float64(n)
}

// measured is the record and the evidence of a client that measured the load.
func measured(l honestLoad, all []*flight, detailed bool) (*result.Result, validity.Evidence) {
	s := &result.Samples{}
	end, in, out := 0.0, int64(0), int64(0)
	var tpot, gaps []float64
	for _, q := range all {
		last := q.tokens[len(q.tokens)-1]
		end, in, out = max(end, last), in+int64(q.input), out+int64(q.out)
		s.Start, s.TTFT, s.Latency = append(s.Start, q.start), append(s.TTFT, q.tokens[0]-q.start), append(s.Latency,
			last-q.start)
		var itl []float64
		for i := 1; i < len(q.tokens); i++ {
			itl = append(itl, q.tokens[i]-q.tokens[i-1])
		}
		if q.out > 1 {
			tpot = append(tpot, (last-q.tokens[0])/float64(q.out-1))
		}
		s.ITL, gaps = append(s.ITL, itl), append(gaps, itl...)
		s.InputLen, s.OutputLen, s.Errors = append(s.InputLen, q.input), append(s.OutputLen,
			q.out), append(s.Errors, "")
	}
	n := len(all)
	m := &result.Metrics{Latency: map[result.Family]result.Distribution{
		result.TTFT: stats(s.TTFT), result.E2EL: stats(s.Latency), result.ITL: stats(gaps), result.TPOT: stats(tpot),
	}}
	m.CompletedRequests, m.FailedRequests, m.NumPrompts, m.Duration = &n, new(0), &n, &end
	m.TotalInputTokens, m.TotalOutputTokens = &in, &out
	m.RequestThroughput, m.OutputThroughput = new(float64(n)/end), new(float64(out)/end)
	p := result.Part{Metrics: m, Samples: s, Benchmark: result.Benchmark{Arrivals: result.Rescaled}}
	if l.rate > 0 {
		m.RequestRate = new(result.Rate(l.rate))
		p.Benchmark.Burstiness = new(result.Rate(l.shape))
	}
	if l.limit < n {
		m.MaxConcurrency = &l.limit
	}
	if !detailed {
		p.Samples = nil
	}
	p.Finish()
	r := &result.Result{}
	r.Merge(p)
	e := validity.Evidence{Samples: p.Samples}
	if slices.Min(s.InputLen) == slices.Max(s.InputLen) {
		e.Planned.InputTokens = s.InputLen[0]
		r.Placement = &result.Placement{Roles: []result.PlacedRole{{Role: "serve"}}}
		if slices.Min(s.OutputLen) == slices.Max(s.OutputLen) {
			e.Planned.OutputTokens, e.Planned.IgnoreEOS = s.OutputLen[0], true
		}
	}
	return r, e
}

// stats are vLLM's statistics of values in s.
func stats(values []float64) result.Distribution {
	sorted, sum, square := slices.Sorted(slices.Values(values)), 0.0, 0.0
	if len(sorted) == 0 {
		return result.Distribution{}
	}
	n := float64(len(sorted))
	for _, v := range sorted {
		sum += 1000 * v
	}
	for _, v := range sorted {
		square += (1000*v - sum/n) * (1000*v - sum/n)
	}
	rank := func(p float64) float64 {
		at := p / 100 * (n - 1)
		i := int(at)
		return 1000 * (sorted[i] + (at-float64(i))*(sorted[min(i+1, len(sorted)-1)]-sorted[i]))
	}
	d := result.Distribution{Mean: new(sum / n), Median: new(rank(50)), Std: new(math.Sqrt(square / n)),
		Percentiles: map[float64]float64{}}
	for _, p := range []float64{50, 90, 95, 99} {
		d.Percentiles[p] = rank(p)
	}
	return d
}

// pick draws one of a list.
func pick[T any](d *rand.Rand, list ...T) T { return list[d.IntN(len(list))] }

// drawn is an honest service and a load that it can serve.
func drawn(d *rand.Rand) (service, honestLoad) {
	s := service{
		step: pick(d, 0.005, 0.01, 0.02, 0.05), prefill: pick(d, 2e-5, 1e-4, 3e-4), chunk: pick(d, 0, 512, 2048),
		slots:  pick(d, 16, 64, 256),
		jitter: pick(d, 0.02, 0.1, 0.5), tail: pick(d, 0, 0.001, 0.01), pause: pick(d, 0, 0, 2e-4),
		together: pick(d, 0, 0.02, 0.1),
	}
	longest, answer := pick(d, 30, 200, 1000, 2000), pick(d, 16, 64, 128)
	l := honestLoad{requests: pick(d, 100, 200, 400), limit: pick(d, 1, 4, 8, 16, 32), shape: 1}
	l.input = pick(d,
		func(*rand.Rand) int { return longest },
		func(d *rand.Rand) int { return 1 + d.IntN(2*longest) },
		func(d *rand.Rand) int { return min(2000, 1+int(float64(longest)/2*math.Exp(d.NormFloat64()))) })
	l.output = pick(d,
		func(*rand.Rand) int { return answer },
		func(d *rand.Rand) int { return 2 + d.IntN(2*answer) },
		func(d *rand.Rand) int { return min(1000, 2+int(float64(answer)/2*math.Exp(d.NormFloat64()))) })
	if d.IntN(2) == 0 { // a rate at about half of what the service can do
		l.limit, l.shape = l.requests, pick(d, 0.3, 1.0, 4.0)
		each := float64(longest)*s.prefill + float64(answer)*s.step*1.3/float64(min(s.slots, 16))
		l.rate = pick(d, 0.2, 0.5) / each
	}
	return s, l
}

// ofTimes are the checks that look at times.
var ofTimes = []string{"times-impossible", "summary-differs", "coarse-clock", "stalled", "sends-lumped", "itl-bundled",
	"output-length", "client-bound"}

// Of honest loads, at many concurrencies, rates and burstinesses, with prompts of up to
// 2,000 tokens, chunked prefill or none, heavy tails, and pauses of a second, at most
// one in a hundred is doubted by a check of the times: with the single requests and
// without. Queues behind the first requests that look like cold starts are one in twenty.
//
// covers: PL-V8, PL-V10, PL-V14, PL-V22
func TestHonestTimes(t *testing.T) {
	tier.Alone(t)
	times := *honest
	if testing.Short() {
		times /= 4
		t.Logf("in part: %d loads of each kind with -short", times)
	}
	for _, detailed := range []bool{true, false} {
		alarms, first, doubted := map[string]int{}, map[string]string{}, 0
		for seed := range times {
			d := rand.New(rand.NewPCG(20261123, uint64(seed)))
			s, l := drawn(d)
			r, e := measured(l, s.serve(l, d), detailed)
			v, bad := validity.Judge(r, e), false
			for _, word := range append([]string{"cold-start"}, ofTimes...) {
				if c := v.Check(word); c.Outcome == result.Fail {
					alarms[word]++
					bad = bad || word != "cold-start"
					if first[word] == "" {
						first[word] = fmt.Sprintf("seed %d, %+v, %d requests, cap %d, rate %.2f, shape %.1f: %s", seed,
							s, l.requests, l.limit, l.rate, l.shape, c.Detail)
					}
				}
			}
			if bad {
				doubted++
			}
		}
		t.Logf("single requests saved: %v; %d of %d loads doubted, by check %v", detailed, doubted, times, alarms)
		for word, text := range first {
			t.Logf("%s: %s", word, text)
		}
		require.LessOrEqual(t, doubted, times/100)
		require.LessOrEqual(t, alarms["cold-start"], times/20)
	}
}
