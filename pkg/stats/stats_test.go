package stats_test

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/stats"
	"github.com/profllm/profllm/pkg/tier"
)

// draw makes samples that are the same in every run of the tests.
type draw struct{ *rand.Rand }

func newDraw() draw { return draw{rand.New(rand.NewPCG(1, 2))} }

// sample is of n values around at; with few distinct ones if tied.
func (d draw) sample(n int, at float64, tied bool) []float64 {
	xs := make([]float64, n)
	for i := range xs {
		xs[i] = at + d.NormFloat64()
		if tied {
			xs[i] = math.Round(xs[i])
		}
	}
	return xs
}

func mapped(xs []float64, f func(float64) float64) []float64 {
	out := slices.Clone(xs)
	for i := range out {
		out[i] = f(out[i])
	}
	return out
}

// labelings calls f with every choice of n of the values as the first sample.
func labelings(all []float64, n int, f func(a, b []float64)) {
	for set := range 1 << len(all) {
		if bits.OnesCount(uint(set)) != n {
			continue
		}
		var a, b []float64
		for i, x := range all {
			if set>>i&1 == 1 {
				a = append(a, x)
			} else {
				b = append(b, x)
			}
		}
		f(a, b)
	}
}

// Counting one by one, in another way, gives the same.
//
// covers: PL-Q3, PL-Q4
func TestExactAgainstEnumeration(t *testing.T) {
	d := newDraw()
	u := func(a, b []float64) (u float64) {
		for _, x := range a {
			for _, y := range b {
				if x > y {
					u++
				} else if x == y {
					u += 0.5
				}
			}
		}
		return u
	}
	apart := func(a, b []float64) float64 { // of sums; scaled means
		sum := 0.0
		for _, x := range a {
			sum += x * float64(len(b))
		}
		for _, y := range b {
			sum -= y * float64(len(a))
		}
		return math.Abs(sum)
	}
	for range 60 {
		n, m := 4+d.IntN(4), 4+d.IntN(4)
		tied := d.IntN(2) == 0
		a, b := d.sample(n, 0, tied), d.sample(m, 1, tied)
		var all, below, above, far float64
		labelings(slices.Concat(a, b), n, func(x, y []float64) {
			all++
			if u(x, y) <= u(a, b) {
				below++
			}
			if u(x, y) >= u(a, b) {
				above++
			}
			if apart(x, y) >= apart(a, b)-1e-9 {
				far++
			}
		})
		p := ok[stats.Test](t)(stats.MannWhitney(a, b))
		require.Equal(t, u(a, b), p.U)
		require.InEpsilon(t, min(1, 2*min(below, above)/all), p.P, 1e-12, "%v %v", a, b)
		p = ok[stats.Test](t)(stats.Permutation(a, b))
		require.InEpsilon(t, far/all, p.P, 1e-12, "%v %v", a, b)
		require.Equal(t, u(a, b), p.U)

		k := 6 + d.IntN(6)
		pairs := d.sample(k, 0.5, tied)
		sum := func(set int) (s float64) {
			for i, x := range pairs {
				if set>>i&1 == 1 {
					x = -x
				}
				s += x
			}
			return math.Abs(s)
		}
		extreme := 0
		for set := range 1 << k {
			if sum(set) >= sum(0)-1e-9 {
				extreme++
			}
		}
		p = ok[stats.Test](t)(stats.SignFlip(pairs))
		require.InEpsilon(t, float64(extreme)/math.Exp2(float64(k)), p.P, 1e-12, "%v", pairs)
	}
}

// Which sample is called the first, in which order and unit the values come, and
// from where they are counted decides nothing.
//
// covers: PL-Q3, PL-Q4, PL-Q5
func TestInvariance(t *testing.T) {
	d := newDraw()
	tests := map[string]func(a, b []float64) (stats.Test, error){"rank": stats.MannWhitney,
		"permutation": stats.Permutation}
	for range 40 {
		a, b := d.sample(4+d.IntN(8), 100, false), d.sample(4+d.IntN(8), 100.7, false)
		for name, test := range tests {
			want := ok[stats.Test](t)(test(a, b)).P
			reversed := slices.Clone(a)
			slices.Reverse(reversed)
			for what, ab := range map[string][2][]float64{
				"swapped": {b, a}, "reordered": {reversed, b},
				"another unit": {mapped(a, func(x float64) float64 { return x * 1e6 }), mapped(b, func(x float64) float64 { return x * 1e6 })},
				"a small unit": {mapped(a, func(x float64) float64 { return x * 1e-9 }), mapped(b, func(x float64) float64 { return x * 1e-9 })},
				"mirrored":     {mapped(a, func(x float64) float64 { return 7 - x }), mapped(b, func(x float64) float64 { return 7 - x })},
			} {
				require.InEpsilon(t, want, ok[stats.Test](t)(test(ab[0], ab[1])).P, 1e-12, "%s: %s", name, what)
			}
		}
		want := ok[stats.Test](t)(stats.MannWhitney(a, b))
		require.Equal(t, want, ok[stats.Test](t)(stats.MannWhitney(mapped(a, math.Sqrt), mapped(b, math.Sqrt))),
			"ranks see the order only")

		s, back := ok[stats.Shift](t)(stats.HodgesLehmann(a, b)), ok[stats.Shift](t)(stats.HodgesLehmann(b, a))
		require.InDelta(t, s.Estimate, -back.Estimate, 1e-12)
		require.InDelta(t, s.Interval.Low, -back.Interval.High, 1e-12)
		require.True(t, s.Interval.Contains(s.Estimate))
		moved := ok[stats.Shift](t)(stats.HodgesLehmann(a, mapped(b, func(x float64) float64 { return x + 3 })))
		require.InDelta(t, s.Estimate+3, moved.Estimate, 1e-9)
		require.InDelta(t, s.Interval.Low+3, moved.Interval.Low, 1e-9)
	}
}

// A larger difference never has a larger p.
//
// covers: PL-Q3, PL-Q4
func TestMonotone(t *testing.T) {
	d := newDraw()
	for range 20 {
		a, b := d.sample(5+d.IntN(4), 0, false), d.sample(5+d.IntN(4), 0, false)
		for _, test := range []func(a, b []float64) (stats.Test, error){stats.MannWhitney, stats.Permutation} {
			last := 1.0
			for away := 6.0; away < 12; away += 0.5 { // beyond the values, so that no sign changes
				p := ok[stats.Test](t)(test(a, mapped(b, func(x float64) float64 { return x + away }))).P
				require.LessOrEqual(t, p, last+1e-12)
				last = p
			}
		}
	}
	last := math.Inf(1)
	for n := 1; n < 50; n++ {
		least := ok[float64](t)(stats.LeastShift(0.02, n))
		require.Less(t, least, last)
		last = least
	}
}

// A test at 5 % is wrong in at most one of twenty comparisons of like with like,
// and an interval holds the truth in 19 of 20.
//
// covers: PL-Q3, PL-Q4, PL-Q5, PL-Q6
func TestRisks(t *testing.T) {
	d := newDraw()
	const times = 4000
	var rank, permutation, missed, median int
	for range times {
		a, b := d.sample(6, 10, false), d.sample(6, 10, false)
		if ok[stats.Test](t)(stats.MannWhitney(a, b)).P < stats.Alpha {
			rank++
		}
		if ok[stats.Test](t)(stats.Permutation(a, b)).P < stats.Alpha {
			permutation++
		}
		if !ok[stats.Shift](t)(stats.HodgesLehmann(a, b)).Interval.Contains(0) {
			missed++
		}
		if !ok[stats.Interval](t)(stats.MedianInterval(a)).Contains(10) {
			median++
		}
	}
	const most = 0.05*times + 3*14 // three standard deviations
	for _, n := range []int{rank, permutation, missed, median} {
		require.LessOrEqual(t, n, int(most))
		require.Positive(t, n)
	}
}

// covers: PL-Q3, PL-Q4
func TestAllEqual(t *testing.T) {
	equal := make([]float64, 60)
	for name, p := range map[string]float64{
		"counted": ok[stats.Test](t)(stats.MannWhitney(equal[:9], equal[:9])).P, "approximated": ok[stats.Test](t)(stats.MannWhitney(equal, equal)).P,
		"permuted": ok[stats.Test](t)(stats.Permutation(equal[:9], equal[:9])).P, "flipped": ok[stats.Test](t)(stats.SignFlip(equal[:9])).P,
	} {
		require.Equal(t, 1.0, p, name)
	}
}

// covers: PL-Q2
func TestPercentileFromBelow(t *testing.T) {
	tests := map[string]struct {
		values []float64
		q      float64
		want   float64
	}{
		"nothing":      {nil, 0.99, 0},
		"one":          {[]float64{7}, 0.99, 7},
		"between":      {[]float64{1, 2}, 0.25, 1.25},
		"median even":  {[]float64{1, 2, 3, 4}, 0.5, 2.5},
		"p99 of three": {[]float64{1, 2, 10}, 0.99, 9.84},
		"lowest":       {[]float64{3, 4}, 0, 3},
		"highest":      {[]float64{3, 4}, 1, 4},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			require.InDelta(t, tt.want, stats.PercentileFromBelow(tt.values, tt.q),
				1e-12)
		})
	}
}

// covers: PL-Q1, PL-Q2, PL-Q18
func TestMoments(t *testing.T) {
	xs := []float64{2, 4, 4, 4, 5, 5, 7, 9}
	require.InDelta(t, math.Sqrt(32.0/7), ok[float64](t)(stats.SD(xs)), 1e-15)
	require.InDelta(t, math.Sqrt(32.0/7)/5, ok[float64](t)(stats.CV(xs)), 1e-15)
	require.Equal(t, 4.5, ok[float64](t)(stats.Median(xs)))
	require.Equal(t, 0.5, ok[float64](t)(stats.MAD(xs)))
	require.Equal(t, 4.5, stats.MiddleMean(xs))
	require.Equal(t, 4.0, stats.MiddleMean(xs[:5]))
	require.Equal(t, 5.0, stats.UpperMedian(xs), "the higher of the middle two")
	require.Equal(t, 1, stats.MedianRun(xs), "the lower of the middle two, the first of equals")
	require.Equal(t, 2, stats.MedianRun([]float64{9, 1, 5}))
	require.Equal(t, -1, stats.MedianRun(nil))
	for p, want := range map[float64]float64{0: 2, 1: 9, 0.5: 4.5} {
		require.Equal(t, want, ok[float64](t)(stats.Percentile(xs, p)))
	}
	require.Equal(t, []float64{2, 4, 4, 4, 5, 5, 7, 9}, xs, "arguments are left alone")

	one := []float64{3}
	for name, f := range map[string]func([]float64) (float64, error){"median": stats.Median, "mad": stats.MAD} {
		require.NoError(t, second(f(one)), name)
		tooFew(t, second(f(nil)), 0, 1)
		require.ErrorIs(t, second(f([]float64{1, math.NaN()})), stats.ErrNotFinite, name)
		require.ErrorIs(t, second(f([]float64{1, math.Inf(1)})), stats.ErrNotFinite, name)
	}
	tooFew(t, second(stats.SD(one)), 1, 2)
	tooFew(t, second(stats.CV(one)), 1, 2)
	require.ErrorIs(t, second(stats.CV([]float64{-1, 1})), stats.ErrRange)
}

func second[T any](_ T, err error) error { return err }

// covers: PL-Q3, PL-Q4, PL-Q7, PL-Q8, PL-Q9, PL-Q13, PL-Q14
func TestRefusals(t *testing.T) {
	nan := []float64{1, 2, 3, math.NaN()}
	for name, err := range map[string]error{
		"rank": second(stats.MannWhitney(nan, upTo(4))), "permutation": second(stats.Permutation(upTo(4), nan)),
		"shift": second(stats.HodgesLehmann(nan, nan)), "changes": second(stats.ChangePoints(nan)), "new": second(stats.NewRun(upTo(4), math.NaN())),
		"pairs": second(stats.SignFlip(append(upTo(6), math.NaN()))), "repeats": second(stats.Repeat(nan, 1, 9)),
	} {
		require.ErrorIs(t, err, stats.ErrNotFinite, name)
	}
	for name, err := range map[string]error{
		"percentile": second(stats.Percentile(upTo(4), 1.1)), "no percentile": second(stats.Percentile(upTo(4), math.NaN())),
		"share": second(stats.Wilson(3, 2)), "less than none": second(stats.McNemar(-1, 2)), "drop": second(stats.LeastDrop(1, 5)),
		"p":    second(stats.BenjaminiHochberg([]float64{1.1})),
		"no p": second(stats.BenjaminiHochberg([]float64{math.NaN()})), "cv": second(stats.LeastShift(-1, 3)), "runs": second(stats.RunsForShift(1, 0)),
		"precision": second(stats.Repeat(upTo(6), 0, 9)), "budget": second(stats.Repeat(upTo(6), 1, 0)),
	} {
		require.ErrorIs(t, err, stats.ErrRange, name)
	}
	require.ErrorIs(t, second(stats.Permutation(upTo(19), upTo(18))), stats.ErrTooMany)
	require.ErrorIs(t, second(stats.SignFlip(upTo(31))), stats.ErrTooMany)
	tooFew(t, second(stats.Wilson(0, 0)), 0, 1)
	require.EqualError(t, second(stats.MannWhitney(upTo(3), upTo(3))),
		"too little data: a Mann-Whitney test needs 4, have 3")
}

// covers: PL-Q14
func TestRepeat(t *testing.T) {
	wide := func(n int) []float64 {
		xs := make([]float64, n)
		for i := range xs {
			xs[i] = 100 + 10*float64(i%2)
		}
		return xs
	}
	for name, c := range map[string]struct {
		runs   []float64
		budget int
		want   stats.Look
	}{
		"too few for an interval": {wide(5), 20, stats.Look{HalfWidth: math.Inf(1), Next: 6}},
		"wide":                    {wide(6), 20, stats.Look{HalfWidth: 100 * 5 / 105.0, Next: 9}},
		"narrow":                  {[]float64{100, 101, 100, 101, 100, 101}, 20, stats.Look{Enough: true, Precise: true, HalfWidth: 100 * 0.5 / 100.5}},
		"narrow between looks":    {[]float64{100, 101, 100, 101, 100, 101, 100}, 20, stats.Look{HalfWidth: 0.5, Next: 9}},
		"the budget is used up":   {wide(8), 8, stats.Look{Enough: true, HalfWidth: 100 * 5 / 105.0}},
		"up to the budget":        {wide(7), 8, stats.Look{HalfWidth: 5, Next: 8}},
		"never more than twenty":  {wide(20), 100, stats.Look{Enough: true, HalfWidth: 100 * 5 / 105.0}},
	} {
		got := ok[stats.Look](t)(stats.Repeat(c.runs, 1, c.budget))
		if !math.IsInf(c.want.HalfWidth, 0) {
			require.InDelta(t, c.want.HalfWidth, got.HalfWidth, 1e-9, name)
			got.HalfWidth = c.want.HalfWidth
		}
		require.Equal(t, c.want, got, name)
	}
}

// Runs of a pair have the drift in common, and each of the others with it. The least
// number of pairs is that of the reference table.
//
// covers: PL-Q4, PL-Q13
func TestPairs(t *testing.T) {
	require.Equal(t, []int{6, 6, 7, 8, 9},
		[]int{stats.LeastPairs(0), stats.LeastPairs(1), stats.LeastPairs(2), stats.LeastPairs(6), stats.LeastPairs(7)})
	for tests := range 40 {
		k := stats.LeastPairs(tests)
		require.Less(t, stats.LeastSignFlipP(k)*float64(tests), stats.Alpha)
		require.True(t, k == 6 || stats.LeastSignFlipP(k-1)*float64(tests) >= stats.Alpha, "%d is not the least", k)
	}
	var a, b []float64
	for i := range 8 { // A B B A …, each 2 more than the one before; B is 3 larger
		early, late := 100+float64(4*i), 102+float64(4*i)
		if i%2 == 1 {
			early, late = late, early
		}
		a, b = append(a, early), append(b, late+3)
	}
	s := ok[stats.Shift](t)(stats.PairedShift(a, b))
	require.InDelta(t, 3, s.Estimate, 1e-9, "the drift is not in it")
	require.Equal(t, stats.Interval{Low: 1, High: 5, Coverage: s.Interval.Coverage}, *s.Interval)
	require.InDelta(t, 0.9921875, s.Interval.Coverage, 1e-12)
	require.InDelta(t, 115, s.Base, 1e-9)
	unpaired := ok[stats.Shift](t)(stats.HodgesLehmann(a, b))
	require.Less(t, unpaired.Interval.Low, -5.0)
	require.InDelta(t, math.Sqrt(32.0/7)/math.Sqrt2/115, ok[float64](t)(stats.PairedCV(a, b)), 1e-12)

	var few *stats.TooFewError
	require.ErrorAs(t, second(stats.PairedShift(nil, nil)), &few)
	require.ErrorAs(t, second(stats.PairedCV([]float64{1}, []float64{2})), &few)
	require.ErrorIs(t, second(stats.PairedShift(a, b[1:])), stats.ErrRange)
	require.ErrorIs(t, second(stats.PairedCV(a[1:], b)), stats.ErrRange)
	require.ErrorIs(t, second(stats.PairedCV([]float64{0, 0}, []float64{1, 2})), stats.ErrRange)
	require.Nil(t, ok[stats.Shift](t)(stats.PairedShift(a[:5], b[:5])).Interval)
}

// Of series of a known noise the projection is right in the middle, and twice the
// budget is asked for by few of those that the budget is enough for.
//
// covers: PL-Q14
func TestProject(t *testing.T) {
	r := newDraw()
	const series = 2000
	for _, percent := range []float64{0.6, 0.75} { // of runs with a CV of 1 %, some 20 and 15 runs
		var projected []float64
		hopeless := 0.0
		for range series {
			runs := make([]float64, 6)
			for i := range runs {
				runs[i] = 100 + r.NormFloat64()
			}
			n := ok[int](t)(stats.Project(runs, percent))
			projected = append(projected, float64(n))
			if n > 2*stats.MostRepeats {
				hopeless++
			}
		}
		middle := ok[float64](t)(stats.Median(projected))
		if percent == 0.6 {
			require.InDelta(t, 20, middle, 3)
		} else {
			require.InDelta(t, 14, middle, 3)
			require.Less(t, hopeless/series, 0.05)
		}
	}
	narrow := []float64{100, 100, 100, 100, 100, 101}
	require.Equal(t, 6, ok[int](t)(stats.Project(narrow, 1)))
	require.Equal(t, stats.MaxProjected, ok[int](t)(stats.Project(narrow, 1e-9)))
	require.Equal(t, stats.MaxProjected, ok[int](t)(stats.Project([]float64{-1, 1, -1, 1, -1, 1}, 5)), "a median of 0")
	var few *stats.TooFewError
	require.ErrorAs(t, second(stats.Project(narrow[:5], 1)), &few)
	require.ErrorIs(t, second(stats.Project(narrow, 0)), stats.ErrRange)
	require.True(t, stats.Looks(9))
	require.False(t, stats.Looks(8))
}

// covers: PL-Q12
func TestNewRun(t *testing.T) {
	d := ok[stats.Distance](t)(stats.NewRun([]float64{10, 10, 10, 10}, 10.15))
	require.InDelta(t, 3, d.Z, 1e-9, "0.5 % of the median stands in for no spread")
	require.InDelta(t, 1.5, d.Percent, 1e-9)
	require.Equal(t, stats.Watch, d.Far())
	d = ok[stats.Distance](t)(stats.NewRun(make([]float64, 4), 1))
	require.Equal(t, math.Inf(1), d.Z)
	require.True(t, math.IsNaN(d.Percent))
	d = ok[stats.Distance](t)(stats.NewRun(make([]float64, 4), 0))
	require.Zero(t, d.Z)
}

// How often a run like those before it is called changed, and by more than 2 %: the
// MAD of few runs is small by luck. The documentation says so.
//
// covers: PL-Q12
func TestNewRunFalseAlarms(t *testing.T) {
	d := newDraw()
	for _, c := range []struct {
		n    int
		cv   float64 // percent
		want float64
	}{{4, 1, 0.04}, {4, 2, 0.11}, {7, 0.5, 0}, {7, 1, 0.023}, {7, 2, 0.062}, {14, 1, 0.011}, {14, 2, 0.019}} {
		const times = 10000
		alarms := 0
		for range times {
			xs := mapped(d.sample(c.n+1, 0, false), func(x float64) float64 { return 100 + c.cv*x })
			x := ok[stats.Distance](t)(stats.NewRun(xs[:c.n], xs[c.n]))
			if x.Far() == stats.Changed && math.Abs(x.Percent) > stats.FloorThroughput {
				alarms++
			}
		}
		require.InDelta(t, c.want, float64(alarms)/times, 0.01, "%d nights, CV %g %%", c.n, c.cv)
	}
}

// What series of noise and of planted changes give, in shares: the numbers of the
// method's description.
//
// covers: PL-Q10, PL-Q11
func TestChangePointsOnNoise(t *testing.T) {
	d := newDraw()
	found := func(series func() []float64, is func(stats.Changes) bool) float64 {
		n := 0
		for range 400 {
			if is(ok[stats.Changes](t)(stats.ChangePoints(series()))) {
				n++
			}
		}
		return float64(n) / 400
	}
	cut := func(c stats.Changes) bool { return len(c.Cuts) > 0 }
	believed := func(c stats.Changes) bool { return len(c.Cuts) > 0 && !c.Watch }
	noise := func() []float64 { return d.sample(40, 100, false) }
	dependent := func(r float64) func() []float64 {
		return func() []float64 {
			xs := d.sample(40, 0, false)
			for i := range xs[1:] {
				xs[i+1] += r * xs[i]
			}
			return xs
		}
	}
	bump := func() []float64 {
		xs := d.sample(40, 100, false)
		for i := range xs[14:26] {
			xs[14+i] += 2
		}
		return xs
	}
	require.InDelta(t, 0.04, found(noise, cut), 0.03, "3 to 5 % of series of 40 have a false cut")
	require.Greater(t, found(bump, believed), 0.8,
		"pruning from all splits finds bumps that stopping at the first does not")
	require.InDelta(t, 0.26, found(dependent(0.3), cut), 0.07)
	require.InDelta(t, 0.72, found(dependent(0.6), cut), 0.07)
	require.Less(t, found(dependent(0.6), believed), 0.25, "the rest is to be watched only")
}

// A shift that is far larger than the noise is believed also where the runs seem to
// depend on each other; dependence alone hardly makes one.
//
// covers: PL-Q11
func TestWatchedCuts(t *testing.T) {
	d := newDraw()
	series := func(n int, r, step float64) []float64 {
		xs, x := make([]float64, n), d.NormFloat64()
		for i := range xs {
			if xs[i] = x; i >= n/2 {
				xs[i] += step
			}
			x = r*x + math.Sqrt(1-r*r)*d.NormFloat64()
		}
		return xs
	}
	count := func(r, step float64) (watched, believed, clear int) {
		for range 1000 {
			c := ok[stats.Changes](t)(stats.ChangePoints(series(20, r, step)))
			if some := len(c.Cuts) > 0; some && c.Watch {
				watched++
				if slices.ContainsFunc(c.Cuts, func(x stats.Cut) bool { return !x.Watch }) {
					clear++
				}
			} else if some {
				believed++
			}
		}
		return watched, believed, clear
	}
	watched, believed, clear := count(0, 20)
	require.Equal(t, 1000, watched+believed)
	require.Equal(t, watched, clear, "every one of %d", watched)
	require.Greater(t, watched, 50, "by chance")
	watched, _, clear = count(0.6, 0)
	require.Greater(t, watched, 100)
	require.Less(t, clear, 20)
}

// Of series without a change a share x has a cut with a SearchedP of x, at most and at
// every x: only so may it be adjusted for many series.
//
// covers: PL-Q9, PL-Q10
func TestSearchedP(t *testing.T) {
	tier.Alone(t)
	d := newDraw()
	for n, times := range map[int]int{20: 4000, 40: 2000, 80: 600} {
		levels := []float64{0.05, 0.01, 0.002}
		below := make([]int, len(levels))
		for range times {
			c := ok[stats.Changes](t)(stats.ChangePoints(d.sample(n, 100, false)))
			least := 1.0
			for _, cut := range c.Cuts {
				require.GreaterOrEqual(t, cut.SearchedP, cut.AdjustedP*(1-1e-12))
				if len(c.Cuts) == 1 {
					require.InDelta(t, cut.AdjustedP, cut.SearchedP, 1e-12)
				}
				least = min(least, cut.SearchedP)
			}
			for i, x := range levels {
				if least <= x {
					below[i]++
				}
			}
		}
		for i, x := range levels {
			most := float64(times)*x + 3*math.Sqrt(float64(times)*x*(1-x))
			require.LessOrEqual(t, float64(below[i]), most, "%d runs, %g", n, x)
		}
	}
}

// A cut beside one that is certain counts for the places between that one and the end;
// two that are only certain together count for all places of both.
//
// covers: PL-Q10
func TestSearchedPlaces(t *testing.T) {
	xs := make([]float64, 40)
	for i := range xs {
		xs[i] = float64(i * 7 % 5)
		if i >= 20 {
			xs[i] += 100
		}
		if i >= 32 {
			xs[i] += 50
		}
	}
	c := ok[stats.Changes](t)(stats.ChangePoints(xs))
	require.Equal(t, []int{20, 32}, []int{c.Cuts[0].Index, c.Cuts[1].Index})
	require.InDelta(t, c.Cuts[1].P*13, c.Cuts[1].SearchedP, 1e-9, "20 runs behind the first cut")
	for i := range xs {
		xs[i] = float64(i * 7 % 5)
		if i >= 14 && i < 26 {
			xs[i] += 100
		}
	}
	c = ok[stats.Changes](t)(stats.ChangePoints(xs))
	require.Equal(t, []int{14, 26}, []int{c.Cuts[0].Index, c.Cuts[1].Index})
	require.InDelta(t, min(c.Cuts[0].P, c.Cuts[1].P)*30*29/2, c.Cuts[0].SearchedP, 1e-9)
	require.Equal(t, c.Cuts[0].SearchedP, c.Cuts[1].SearchedP, "the second is as certain as the first at best")
}

// covers: PL-Q10
func TestChangePointsInvariance(t *testing.T) {
	d := newDraw()
	indexes := func(xs []float64) []int {
		var at []int
		for _, c := range ok[stats.Changes](t)(stats.ChangePoints(xs)).Cuts {
			at = append(at, c.Index)
		}
		return at
	}
	for range 40 {
		xs := slices.Concat(d.sample(8+d.IntN(20), 100, false), d.sample(8+d.IntN(20), 103, false))
		want := indexes(xs)
		require.Equal(t, want, indexes(mapped(xs, func(x float64) float64 { return -x })))
		require.Equal(t, want, indexes(mapped(xs, func(x float64) float64 { return x*1e5 + 7 })))
	}
}

func BenchmarkMannWhitney2500(b *testing.B) {
	for _, tied := range []bool{false, true} {
		d := newDraw()
		x, y := d.sample(50, 0, tied), d.sample(50, 0, tied)
		b.Run(fmt.Sprintf("tied=%t", tied), func(b *testing.B) {
			for b.Loop() {
				if _, err := stats.MannWhitney(x, y); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkHodgesLehmann2500(b *testing.B) {
	d := newDraw()
	x, y := d.sample(50, 0, false), d.sample(50, 0, false)
	for b.Loop() {
		if _, err := stats.HodgesLehmann(x, y); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPermutation18v18(b *testing.B) {
	d := newDraw()
	x, y := d.sample(18, 0, false), d.sample(18, 0, false)
	for b.Loop() {
		if _, err := stats.Permutation(x, y); err != nil {
			b.Fatal(err)
		}
	}
}

// A year of nights.
func BenchmarkChangePoints365(b *testing.B) {
	d := newDraw()
	xs := slices.Concat(d.sample(200, 100, false), d.sample(165, 103, false))
	for b.Loop() {
		if _, err := stats.ChangePoints(xs); err != nil {
			b.Fatal(err)
		}
	}
}
