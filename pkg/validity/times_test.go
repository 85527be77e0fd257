package validity_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/tier"
	"github.com/profllm/profllm/pkg/validity"
)

// A stream is one request of a client that saved all: 49 gaps behind a first token.
type stream struct {
	start, ttft float64
	gaps        []float64
	out         int
}

// streams adds requests with all their times, ten a second and five or six at a time,
// and sets the statistics to theirs. change may alter request i before it is added.
func (g *run) streams(change func(i int, q *stream)) {
	draw := rand.New(rand.NewPCG(7, 7))
	s := &result.Samples{}
	var all []float64
	for i := range 1000 {
		q := stream{start: 0.0995 * float64(i), ttft: 0.05 + 0.02*draw.Float64(), out: 50}
		for range 49 {
			q.gaps = append(q.gaps, 0.009+0.002*draw.Float64())
		}
		change(i, &q)
		latency := q.ttft
		for _, gap := range q.gaps {
			latency += gap
		}
		all = append(all, q.gaps...)
		s.Start, s.TTFT, s.ITL, s.Latency = append(s.Start, q.start), append(s.TTFT, q.ttft), append(s.ITL,
			q.gaps), append(s.Latency, latency)
		s.InputLen, s.OutputLen, s.Errors = append(s.InputLen, 100), append(s.OutputLen, q.out), append(s.Errors, "")
	}
	g.e.Samples = s
	g.sumUp()
	g.sumUpGaps(all)
}

func whole(int, *stream) {}

// misread adds requests and scales one percentile of theirs.
func (g *run) misread(f result.Family, rank, by float64) {
	g.streams(whole)
	g.latency(f, func(d *result.Distribution) { d.Percentiles[rank] *= by })
}

// good adds requests, ten a second, and how many of them are said to be within a limit
// of TTFT.
func (g *run) good(rate, limit float64) {
	g.streams(whole)
	g.r.Config.Benchmark.Goodput = map[string]float64{"ttft": limit, "e2el": 1000, "tpot": 100}
	g.r.Results.RequestGoodput = &rate
}

// sumUpGaps sets the statistics of ITL and TPOT to those of the gaps.
func (g *run) sumUpGaps(gaps []float64) {
	sorted := slices.Sorted(slices.Values(gaps))
	sum, square, n := 0.0, 0.0, float64(len(gaps))
	for _, x := range gaps {
		sum += 1000 * x
		square += 1e6 * x * x
	}
	g.latency(result.ITL, func(d *result.Distribution) {
		d.Mean, d.Median, d.N = new(sum/n), new(1000*sorted[len(sorted)/2]), new(len(gaps))
		d.Std = new(math.Sqrt(square/n - sum/n*sum/n))
		for p := range d.Percentiles {
			d.Percentiles[p] = 1000 * sorted[int(p/100*(n-1))]
		}
	})
	var each []float64
	mean, squares := 0.0, 0.0
	for i, out := range g.e.Samples.OutputLen {
		if out > 1 {
			each = append(each, 1000*(g.e.Samples.Latency[i]-g.e.Samples.TTFT[i])/float64(out-1))
			last := each[len(each)-1]
			mean, squares = mean+last, squares+last*last
		}
	}
	mean, squares = mean/float64(len(each)), squares/float64(len(each))
	slices.Sort(each)
	g.latency(result.TPOT, func(d *result.Distribution) {
		d.Mean, d.Median, d.Std = new(mean), new(each[len(each)/2]), new(math.Sqrt(squares-mean*mean))
		d.Percentiles = map[float64]float64{99: each[len(each)*99/100]}
	})
}

// summary forgets the single requests and how many gaps they had.
func (g *run) summary() {
	g.e.Samples = nil
	g.latency(result.ITL, func(d *result.Distribution) { d.N = nil })
}

// stall stops all streams for seconds at a moment, 50 s after the first send.
func stall(seconds float64) func(int, *stream) {
	return func(_ int, q *stream) {
		const at = 50
		if begun := q.start + q.ttft; begun > at && q.start < at+seconds { // answered when it is over
			q.ttft += at + seconds - max(at, q.start)
			return
		}
		t := q.start + q.ttft
		for k := range q.gaps {
			if t <= at && t+q.gaps[k] > at {
				q.gaps[k] += seconds
			}
			t += q.gaps[k]
		}
	}
}

// slow is late where the median latency is a second, as one gap of every stream takes half of it.
func slow(i int, q *stream) {
	late(2.5)(i, q)
	q.gaps[20] += 0.5
}

// late lets ten requests in a row wait for their first tokens for so much longer.
func late(seconds float64) func(int, *stream) {
	return func(i int, q *stream) {
		if i >= 500 && i < 510 {
			q.ttft += seconds
		}
	}
}

// in sets gap 20 of one stream.
func in(request int, gap float64) func(int, *stream) {
	return func(i int, q *stream) {
		if i == request {
			q.gaps[20] = gap
		}
	}
}

// bundle brings n chunks of one token each at the time of the last.
func bundle(n int) func(int, *stream) {
	return func(_ int, q *stream) {
		for k := 0; k+n <= len(q.gaps); k += n {
			sum := 0.0
			for j := k; j < k+n-1; j++ {
				sum += q.gaps[j]
				q.gaps[j] = 1e-6 * (1 + q.gaps[j])
			}
			q.gaps[k+n-1] += sum
		}
	}
}

// chunks puts n tokens into each chunk.
func chunks(n int) func(int, *stream) {
	return func(_ int, q *stream) {
		var joined []float64
		for k := 0; k+n <= len(q.gaps); k += n {
			sum := 0.0
			for _, gap := range q.gaps[k : k+n] {
				sum += gap
			}
			joined = append(joined, sum)
		}
		q.gaps = joined
	}
}

// few makes it a load without a cap, whose requests may pile up.
func (g *run) few(rate float64) *run {
	g.e.Planned.Concurrency, g.r.Results.MaxConcurrency = 0, nil
	g.e.Planned.RequestRate = rate
	return g
}

// poisson sends at the rate; change may move a send.
func (g *run) poisson(change func(i int, at float64) float64) {
	draw, at := rand.New(rand.NewPCG(3, 3)), 0.0
	starts := make([]float64, 1000)
	for i := range starts {
		at += draw.ExpFloat64()
		starts[i] = at
	}
	g.few(10).streams(func(i int, q *stream) { q.start = change(i, 99*starts[i]/at) })
}

// timesTrips are the trips of the checks that look at times.
var timesTrips = []tripCase{
	{"times-impossible", result.Invalid, func(g *run) { g.streams(in(17, -0.001)) }, func(g *run) { g.streams(in(17, 0)) }},
	{"times-impossible", result.Invalid, func(g *run) { g.streams(whole); g.e.Samples.TTFT[3] = 0 }, func(g *run) { g.streams(whole); g.e.Samples.TTFT[3] -= 1e-7 }},
	{"times-impossible", result.Invalid, func(g *run) { g.streams(whole); g.e.Samples.TTFT[3] = g.e.Samples.Latency[3] + 0.01 },
		func(g *run) { g.streams(whole); g.e.Samples.ITL[3][2] += 0.0009 }},
	{"times-impossible", result.Invalid, func(g *run) { g.streams(whole); g.e.Samples.Latency[3] -= 0.01 }, func(g *run) { g.streams(whole); g.e.Samples.Latency[3] += 0.09 }},
	{"times-impossible", result.Invalid, func(g *run) { g.streams(whole); g.e.Samples.Latency[3] += 0.11 }, func(g *run) { g.streams(whole) }},
	{"times-impossible", result.Invalid, func(g *run) { g.streams(whole); g.e.Samples.Start[3] = math.NaN() }, func(g *run) { g.streams(whole) }},
	{"times-impossible", result.Invalid, func(g *run) { g.copied(11) }, func(g *run) { g.copied(10) }},
	{"times-impossible", result.Invalid, func(g *run) { g.e.Planned.Concurrency = 5 }, func(g *run) { g.e.Planned.Concurrency = 5; g.latency(result.E2EL, scaled(0.95)); g.anyLength() }},
	{"times-impossible", result.Invalid, func(g *run) { g.crowd(6, 2.1) }, func(g *run) { g.crowd(6, 0.9) }},
	{"times-impossible", result.Invalid, func(g *run) { g.latency(result.TTFT, func(d *result.Distribution) { d.Percentiles[99] = 826 }) },
		func(g *run) { g.latency(result.TTFT, func(d *result.Distribution) { d.Percentiles[99] = 824 }) }},
	{"times-impossible", result.Invalid, func(g *run) { g.latency(result.TTFT, func(d *result.Distribution) { d.Std = new(0.0) }) },
		func(g *run) {
			g.latency(result.TTFT,
				func(d *result.Distribution) { d.Std, d.Percentiles, d.N, d.Median = new(0.0), nil, new(19), d.Mean })
		}},
	{"times-impossible", result.Invalid, func(g *run) { g.latency(result.E2EL, func(d *result.Distribution) { d.Max = new(101_200.0) }) },
		func(g *run) { g.latency(result.E2EL, func(d *result.Distribution) { d.Max = new(101_000.0) }) }},
	{"times-impossible", result.Invalid, func(g *run) { g.latency(result.TTFT, scaled(0.96)) }, func(g *run) { g.latency(result.TTFT, scaled(0.97)) }}, // of 550 ms
	{"times-impossible", result.Invalid, func(g *run) { g.latency(result.TPOT, scaled(0.5)) }, func(g *run) { g.latency(result.TPOT, scaled(0.5)); g.anyLength() }},
	{"times-impossible", result.Invalid, func(g *run) { g.latency(result.ITL, scaled(0.74)) }, func(g *run) { g.latency(result.ITL, scaled(0.76)) }},
	{"times-impossible", result.Invalid, func(g *run) { g.latency(result.TTFT, func(d *result.Distribution) { d.Median = new(60.1) }) },
		func(g *run) { g.latency(result.TTFT, func(d *result.Distribution) { d.Median = new(59.9) }) }},
	{"times-impossible", result.Invalid, func(g *run) { g.latency(result.TTFT, func(d *result.Distribution) { d.Std = new(0.001) }) }, // mean and median 1.2 ms apart
		func(g *run) { g.latency(result.TTFT, func(d *result.Distribution) { d.Std = new(0.7) }) }},
	{"times-impossible", result.Invalid, func(g *run) { g.latency(result.TTFT, func(d *result.Distribution) { d.Std = new(103_000.0) }) },
		func(g *run) { g.latency(result.TTFT, func(d *result.Distribution) { d.Std = new(90_000.0) }) }},
	{"inconsistent", result.Invalid, func(g *run) { g.r.Results.MaxConcurrentRequests = new(1002.0) }, func(g *run) { g.r.Results.MaxConcurrentRequests = new(1001.0) }},
	{"inconsistent", result.Invalid, func(g *run) { g.r.Results.MaxOutputTokensPerS = new(160_000.0) }, func(g *run) { g.r.Results.MaxOutputTokensPerS = new(50_000.0) }},
	{"inconsistent", result.Invalid, func(g *run) { g.r.Results.RequestGoodput = new(10.2) }, func(g *run) { g.r.Results.RequestGoodput = new(10.0) }},
	{"inconsistent", result.Invalid, func(g *run) { g.r.Results.AcceptanceRate = new(101.0) }, func(g *run) { g.r.Results.AcceptanceRate = new(100.0) }},
	{"inconsistent", result.Invalid, func(g *run) { g.r.Results.AcceptedTokens, g.r.Results.DraftTokens = new(int64(11)), new(int64(10)) },
		func(g *run) { g.r.Results.AcceptedTokens, g.r.Results.DraftTokens = new(int64(10)), new(int64(10)) }},
	{"inconsistent", result.Invalid, func(g *run) { g.r.Results.PerPosition = []float64{0.9, 1.1} }, func(g *run) { g.r.Results.PerPosition = []float64{1, 0.9} }},
	{"summary-differs", result.Invalid, func(g *run) { g.streams(whole); g.latency(result.ITL, scaled(1.011)) },
		func(g *run) { g.streams(whole); g.latency(result.ITL, scaled(1.009)) }},
	{"summary-differs", result.Invalid, func(g *run) { g.streams(whole); g.latency(result.TPOT, scaled(0.98)) },
		func(g *run) { g.streams(whole); g.latency(result.TPOT, scaled(0.991)) }},
	{"summary-differs", result.Invalid, func(g *run) { g.good(5.4, 60) }, func(g *run) { g.good(5.1, 60) }}, // TTFT is from 50 to 70 ms
	{"summary-differs", result.Invalid, func(g *run) { g.misread(result.TTFT, 95, 0.98) }, func(g *run) { g.misread(result.TTFT, 95, 0.995) }},
	{"summary-differs", result.Invalid, func(g *run) { g.misread(result.TPOT, 99, 1.02) }, func(g *run) { g.misread(result.TPOT, 99, 1.005) }},
	{"summary-differs", result.Invalid, func(g *run) { g.misread(result.ITL, 99, 1.02) }, func(g *run) { g.misread(result.ITL, 99, 1.005) }},
	{"summary-differs", result.Invalid, func(g *run) { g.streams(whole); g.e.Samples.InputLen[0] = 2000 },
		func(g *run) { g.streams(whole); g.e.Samples.InputLen[0] = 1000 }},
	{"coarse-clock", result.Suspect, func(g *run) { g.steps(0.001) }, func(g *run) { g.steps(0.0004) }}, // of gaps of 10 ms
	{"coarse-clock", result.Suspect, func(g *run) { g.steps(0.015625) }, func(g *run) { g.steps(1e-6) }},
	{"sends-lumped", result.Suspect, func(g *run) { g.poisson(frozen(5)) }, func(g *run) { g.poisson(frozen(1.5)) }},
	{"sends-lumped", result.Suspect, func(g *run) { g.poisson(lumped(6, 0.6)) }, func(g *run) { g.poisson(func(_ int, at float64) float64 { return at }) }},
	{"sends-lumped", result.Suspect, func(g *run) { g.poisson(lumped(6, 0.6)) }, func(g *run) { g.poisson(lumped(6, 0.6)); g.e.Planned.Concurrency = 6 }},
	{"stalled", result.Suspect, func(g *run) { g.few(0).streams(stall(2.2)) }, func(g *run) { g.few(0).streams(stall(1.9)) }},
	{"stalled", result.Suspect, func(g *run) { g.few(0).streams(in(500, 5.1)) }, func(g *run) { g.few(0).streams(in(500, 4.9)) }},
	{"stalled", result.Suspect, func(g *run) { g.few(0).streams(in(500, 40)) }, func(g *run) { g.few(0).streams(in(500, 1)) }},
	{"stalled", result.Suspect, func(g *run) { g.few(0).streams(stall(10)); g.noGaps() }, func(g *run) { g.few(0).streams(stall(1)); g.noGaps() }},
	{"stalled", result.Suspect, func(g *run) { g.few(0).streams(stall(25)); g.summary() }, func(g *run) { g.few(0).streams(stall(1)); g.summary() }},
	// Of first tokens only, so that no gap shows it.
	{"stalled", result.Suspect, func(g *run) { g.streams(late(2.1)); g.summary() }, func(g *run) { g.streams(late(1.7)); g.summary() }},
	{"stalled", result.Suspect, func(g *run) { g.streams(late(2.1)); g.summary(); g.e.Planned.InputTokens = 100 },
		func(g *run) { g.streams(late(2.1)); g.summary(); g.e.Planned.InputTokens = 0 }}, // a long prompt
	{"stalled", result.Suspect, func(g *run) { g.few(0).streams(late(2.1)); g.summary(); g.peak(10) },
		func(g *run) { g.few(0).streams(late(2.1)); g.summary(); g.peak(20) }}, // a queue of prompts
	{"stalled", result.Suspect, func(g *run) { g.wide(12).streams(slow); g.summary(); g.engines(1) },
		func(g *run) { g.wide(12).streams(slow); g.summary(); g.engines(2) }}, // a queue for a seat
	{"stalled", result.Suspect, func(g *run) { g.latency(result.ITL, func(d *result.Distribution) { d.Max = new(5_100.0) }) },
		func(g *run) { g.latency(result.ITL, func(d *result.Distribution) { d.Max = new(4_900.0) }) }},
	{"output-length", result.Invalid, func(g *run) { g.streams(func(i int, q *stream) { q.cut(i, 24) }) }, func(g *run) { g.streams(func(i int, q *stream) { q.cut(i, 25) }) }},
	{"itl-bundled", result.Withheld, func(g *run) { g.streams(bundle(2)) }, func(g *run) { g.streams(whole) }},
	{"itl-bundled", result.Withheld, func(g *run) { g.streams(bundle(7)); g.summary() }, func(g *run) { g.streams(whole); g.summary() }},
	{"itl-bundled", result.Withheld, func(g *run) { g.streams(chunks(7)); g.summary() }, func(g *run) { g.streams(whole); g.summary() }},
	{"itl-bundled", result.Withheld, func(g *run) { g.streams(chunks(7)) }, func(g *run) {
		g.streams(chunks(7))
		g.r.Results.UsageOutputTokens = new(int64(8000))
		g.tokens(8000)
		g.e.Planned.OutputTokens = 8
	}},
	{"load-not-reached", result.Suspect, func(g *run) { g.both(20, 12) }, func(g *run) { g.both(20, 10) }},
	{"load-not-reached", result.Suspect, func(g *run) { g.both(8, 12) }, func(g *run) { g.both(6, 12) }},
	{"client-bound", result.Invalid, func(g *run) { g.sends(10.7); g.r.Config.Benchmark.Arrivals = result.Rescaled },
		func(g *run) { g.sends(10.7); g.r.Config.Benchmark.Arrivals = result.Drawn }},
	{"client-bound", result.Invalid, func(g *run) { g.few(10.7); g.r.Config.Benchmark.Arrivals = result.Rescaled },
		func(g *run) { g.few(10.4); g.r.Config.Benchmark.Arrivals = result.Rescaled }},
	{"token-books", result.Suspect, func(g *run) { g.r.Results.UsageOutputTokens = new(int64(49_000)) }, func(g *run) { g.r.Results.UsageOutputTokens = new(int64(49_500)) }},
}

// both asks for a cap and a rate of ten a second and a bit.
func (g *run) both(limit int, rate float64) {
	g.e.Planned.Concurrency, g.e.Planned.RequestRate, g.r.Results.MaxConcurrency = limit, rate, nil
	g.r.Config.Benchmark.Arrivals = result.Rescaled
	g.samples(asTheyAre)
}

// copied gives so many requests the times of the first.
func (g *run) copied(n int) {
	fine := rand.New(rand.NewPCG(1, 2)) // a clock finer than the steps of the sample
	g.samples(func(i int, _, ttft, latency *float64) {
		*ttft, *latency = *ttft+1e-5*fine.Float64(), *latency+1e-5*fine.Float64()
		if i == 0 || i > 400 && i <= 400+n {
			*ttft, *latency = 0.05, 0.55
		}
	})
}

// crowd has so many more requests at a time than the cap for some seconds.
func (g *run) crowd(n int, seconds float64) {
	g.samples(func(i int, start, _, latency *float64) {
		if i >= 500 && i < 500+n {
			*start, *latency = 50+0.00001*float64(i), seconds
		}
	})
}

// steps reads all times on a clock of that step, s.
func (g *run) steps(step float64) {
	read := func(x float64) float64 { return math.Floor(x/step) * step }
	g.streams(func(_ int, q *stream) {
		at, before := q.start+q.ttft, read(q.start+q.ttft)
		q.start = read(q.start)
		q.ttft = before - q.start
		for k := range q.gaps {
			at += q.gaps[k]
			q.gaps[k], before = read(at)-before, read(at)
		}
	})
}

// frozen holds sends back for seconds, 50 s after the first, and makes them together.
func frozen(seconds float64) func(int, float64) float64 {
	return func(i int, at float64) float64 {
		if at > 50 && at < 50+seconds {
			return 50 + seconds + 0.0001*float64(i%100)
		}
		return at
	}
}

// lumped makes n sends at a time, every so many seconds.
func lumped(n int, every float64) func(int, float64) float64 {
	return func(i int, _ float64) float64 { return every*float64(i/n) + 0.0003*float64(i%n) }
}

// peak is the most requests that the client had in flight.
func (g *run) peak(n float64) { g.r.Results.MaxConcurrentRequests = &n }

// wide sets the cap.
func (g *run) wide(limit int) *run {
	g.e.Planned.Concurrency, g.r.Results.MaxConcurrency = limit, &limit
	return g
}

// engines places so many servers.
func (g *run) engines(n int) {
	g.r.Placement = &result.Placement{}
	for i := range n {
		g.r.Placement.Roles = append(g.r.Placement.Roles, result.PlacedRole{Role: "serve", Replica: i})
	}
}

func (g *run) noGaps() { g.e.Samples.ITL = nil }

// cut ends one answer in a hundred at that many tokens.
func (q *stream) cut(i, tokens int) {
	if i == 100 {
		q.gaps, q.out = q.gaps[:tokens-1], tokens
	}
}

// The client's count is judged, with its single answers, wherever it fits the plan or nothing is planned. The
// server's is judged where it alone fits.
func TestWhoseAnswersAreShort(t *testing.T) {
	const planned = 1000 * 50
	for name, c := range map[string]struct {
		short         int // tokens of one answer in a thousand; 0: of full length
		client, usage int64
		length        int // planned; 0: none
		want          result.Outcome
		detail        string
	}{
		"alike":                  {0, planned, planned, 50, result.Pass, "; 0 of 1000 answers have less than half"},
		"short, by both alike":   {24, planned - 26, planned - 26, 50, result.Fail, "; 1 of 1000 answers have less than half"},
		"short, usage is nearer": {24, planned - 26, planned, 50, result.Fail, "49.97 tokens per request, 50 planned"},
		"another tokenizer":      {24, 6 * planned, planned, 50, result.Pass, "50.00 tokens per request by the server's usage, 50 planned"},
		"neither fits":           {0, 2 * planned, planned / 2, 50, result.Fail, "100.00 tokens per request, 50 planned"},
		"no plan, usage lower":   {0, planned, 1000, 0, result.Pass, "50.00 tokens per request (accepted"},
		"no plan, usage higher":  {0, 1000, planned, 0, result.Fail, "1.00 tokens per request (accepted"},
	} {
		t.Run(name, func(t *testing.T) {
			g := good()
			g.streams(func(i int, q *stream) {
				if c.short > 0 {
					q.cut(i, c.short)
				}
			})
			g.r.Results.TotalOutputTokens, g.r.Results.UsageOutputTokens = &c.client, &c.usage
			g.e.Planned.OutputTokens, g.e.Planned.IgnoreEOS = c.length, c.length > 0
			check := validity.Judge(&g.r, g.e).Check("output-length")
			require.Equal(t, c.want, check.Outcome, check.Detail)
			require.Contains(t, check.Detail, c.detail)
		})
	}
}

// covers: PL-V8
func TestOneWaitOfTheFirstTokenIsNoStall(t *testing.T) {
	g := good()
	g.few(0).streams(func(i int, q *stream) {
		if i == 999 { // alone at the end, behind a long prompt
			q.ttft = 0.5
		}
	})
	require.Equal(t, result.Pass, validity.Judge(&g.r, g.e).Check("stalled").Outcome)
}

// BenchmarkJudgeTimes is what a judgement costs with 1,000 requests of 50 tokens, and
// without them.
func BenchmarkJudgeTimes(b *testing.B) {
	for _, detailed := range []bool{true, false} {
		g := good()
		if g.streams(whole); !detailed {
			g.summary()
		}
		b.Run(map[bool]string{true: "requests", false: "summary"}[detailed], func(b *testing.B) {
			for b.Loop() {
				validity.Judge(&g.r, g.e)
			}
		})
	}
}

// Equal times of different requests are a coarse clock's doing, not copies: also where the
// latency follows from the TTFT.
func TestEqualTimesOfCoarseClocks(t *testing.T) {
	tier.Alone(t)
	for _, step := range []float64{1e-6, 1e-4, 1e-3, 1e-2} {
		for name, latency := range map[string]func(ttft float64, d *rand.Rand) float64{
			"follows": func(ttft float64, _ *rand.Rand) float64 { return ttft + 0.5 },
			"free":    func(_ float64, d *rand.Rand) float64 { return 0.5 + 0.1*d.Float64() },
		} {
			for _, n := range []int{30, 300, 3000} {
				for seed := range uint64(20) {
					d := rand.New(rand.NewPCG(20261123, seed))
					g := good()
					s := &result.Samples{}
					for i := range n {
						ttft := math.Exp(math.Log(0.03) + 0.3*d.NormFloat64())
						s.Start = append(s.Start, 100*float64(i)/float64(n))
						s.TTFT = append(s.TTFT, step*math.Ceil(ttft/step))
						s.Latency = append(s.Latency, step*math.Ceil(latency(ttft, d)/step))
					}
					g.e.Samples = s
					c := validity.Judge(&g.r, g.e).Check("times-impossible")
					require.NotContains(t, c.Detail, "of another to the last digit",
						"clock of %g s, latency %s, %d requests, seed %d", step, name, n, seed)
				}
			}
		}
	}
}

// A rate of which nobody knows whether it was reached is no answer, where the cap was not
// reached either.
func TestRateThatIsNotKnown(t *testing.T) {
	g := good()
	g.e.Samples, g.r.Results.Client = nil, nil
	g.e.Planned.Concurrency, g.e.Planned.RequestRate, g.r.Results.MaxConcurrency = 20, 12, nil
	g.latency(result.E2EL, func(d *result.Distribution) { d.Max = new(20_000.0) })
	c := validity.Judge(&g.r, g.e).Check("load-not-reached")
	require.Equal(t, result.NotPossible, c.Outcome, c.Detail)
	require.Contains(t, c.Detail, "it is not known whether the rate was reached")
	g.e.Planned.Concurrency = 6
	require.Equal(t, result.Pass, validity.Judge(&g.r, g.e).Check("load-not-reached").Outcome)
}

// Answers of one token, or that were not streamed, have no gaps: a client then writes zeros.
func TestNoGapsAreNoImpossibleTimes(t *testing.T) {
	g := good()
	zeros := result.Distribution{Mean: new(0.0), Median: new(0.0), Std: new(0.0),
		Percentiles: map[float64]float64{50: 0, 99: 0}}
	g.r.Results.Latency[result.ITL], g.r.Results.Latency[result.TPOT] = zeros, zeros
	c := validity.Judge(&g.r, g.e).Check("times-impossible")
	require.Equal(t, result.Pass, c.Outcome, c.Detail)
	zeros.Mean = new(10.0)
	g.r.Results.Latency[result.ITL] = zeros
	require.Equal(t, result.Fail, validity.Judge(&g.r, g.e).Check("times-impossible").Outcome)
}
