package stats_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/stats"
)

// The values of this file were computed by other programs and by hand; they are
// the definition of what the package says.

var (
	runsA  = []float64{101.2, 99.8, 100.5, 100.9, 99.4, 100.1}
	runsB  = []float64{98.7, 99.1, 97.9, 99.6, 98.4, 99.0}
	series = []float64{
		100.3, 99.6, 100.1, 99.9, 100.4, 99.7, 100.2, 99.8, 100.0, 100.5,
		93.1, 92.6, 93.4, 92.9, 93.2, 92.8, 93.0, 93.3, 92.7, 93.5,
	}
)

// near compares to the nine digits that a reference has.
func near(t *testing.T, want, got float64, msg ...any) {
	t.Helper()
	require.InDelta(t, want, got, 5e-9*max(1, math.Abs(want)), msg...)
}

// ok returns the value, or fails.
func ok[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		require.NoError(t, err)
		return v
	}
}

func tooFew(t *testing.T, err error, have, need int) {
	t.Helper()
	var few *stats.TooFewError
	require.ErrorAs(t, err, &few)
	require.Equal(t, []int{have, need}, []int{few.Have, few.Need}, few.Error())
}

// covers: PL-Q3
func TestLeastP(t *testing.T) {
	for sizes, want := range map[[2]int]float64{
		{2, 2}: 0.333333333, {3, 3}: 0.1, {3, 4}: 0.0571428571, {4, 4}: 0.0285714286, {3, 5}: 0.0357142857,
		{5, 5}: 0.00793650794, {4, 6}: 0.00952380952, {6, 6}: 0.00216450216, {16, 4}: 0.000412796698, {10, 10}: 1.08250882e-5,
	} {
		require.InEpsilon(t, want, stats.LeastP(sizes[0], sizes[1]), 5e-9)
		a, b := make([]float64, sizes[0]), make([]float64, sizes[1])
		for i := range a {
			a[i] = float64(i)
		}
		for i := range b {
			b[i] = float64(1000 + i)
		}
		for name, test := range map[string]func(a, b []float64) (stats.Test, error){"rank": stats.MannWhitney,
			"permutation": stats.Permutation} {
			p, err := test(a, b)
			if want >= stats.Alpha {
				tooFew(t, err, min(len(a), len(b)), 4)
				continue
			}
			require.NoError(t, err, name)
			if name == "rank" || len(a) == len(b) {
				require.InEpsilon(t, want, p.P, 5e-9, name)
			}
		}
	}
	require.Equal(t, 4, stats.LeastRuns(1))
	require.Equal(t, 5, stats.LeastRuns(6))
}

// covers: PL-Q3, PL-Q4, PL-Q5
func TestReferenceTests(t *testing.T) {
	p := ok[stats.Test](t)(stats.MannWhitney(runsA, runsB))
	require.Equal(t, 35.0, p.U)
	require.True(t, p.Exact)
	near(t, 1.0/231, p.P)
	near(t, 4.0/924, ok[stats.Test](t)(stats.Permutation(runsA, runsB)).P)
	s := ok[stats.Shift](t)(stats.HodgesLehmann(runsA, runsB))
	near(t, -1.5, s.Estimate)
	near(t, -2.5, s.Interval.Low)
	near(t, -0.7, s.Interval.High)
	near(t, 0.958874459, s.Interval.Coverage)
	near(t, -1.49551346, s.Percent(s.Estimate))
	require.True(t, s.Interval.Contains(-0.8) && !s.Interval.Contains(0))

	four := [][]float64{{10.0, 10.2, 10.1, 10.3}, {9.7, 9.9, 9.8, 9.6}}
	s = ok[stats.Shift](t)(stats.HodgesLehmann(four[0], four[1]))
	near(t, -0.4, s.Estimate)
	near(t, -0.7, s.Interval.Low)
	near(t, -0.1, s.Interval.High)
	near(t, 0.971428571, s.Interval.Coverage)
	s = ok[stats.Shift](t)(stats.HodgesLehmann(four[0][:3], four[1][:3]))
	require.Nil(t, s.Interval, "three against three have a shift and no interval")

	p = ok[stats.Test](t)(stats.MannWhitney([]float64{1, 2, 2, 3, 5}, []float64{2, 4, 6, 6, 7}))
	require.Equal(t, 4.0, p.U)
	near(t, 11.0/126, p.P)
	near(t, 23.0/35, ok[stats.Test](t)(stats.MannWhitney([]float64{5, 5, 6, 7}, []float64{5, 6, 6, 8})).P)
}

// covers: PL-Q4
func TestReferencePairs(t *testing.T) {
	near(t, 0.0625, ok[stats.Test](t)(stats.SignFlip([]float64{0.9, 1.4, -0.2, 1.1, 0.7, 1.6})).P)
	for k, want := range map[int]float64{4: 0.125, 5: 0.0625, 6: 0.03125, 7: 0.015625, 8: 0.0078125} {
		require.Equal(t, want, stats.LeastSignFlipP(k))
		d := make([]float64, k)
		for i := range d {
			d[i] = float64(i) + 1
		}
		p, err := stats.SignFlip(d)
		if k < 6 {
			tooFew(t, err, k, 6)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, want, p.P)
	}
}

// covers: PL-Q7
func TestReferenceAccuracy(t *testing.T) {
	for of, want := range map[[2]int][2]float64{
		{0, 10}: {0, 0.27753280}, {10, 10}: {0.72246720, 1}, {45, 50}: {0.78639769, 0.95652424},
		{188, 200}: {0.89806831, 0.96534781}, {1240, 1319}: {0.92597724, 0.95167896},
	} {
		i := ok[stats.Interval](t)(stats.Wilson(of[0], of[1]))
		near(t, want[0], i.Low)
		near(t, want[1], i.High)
	}
	for bc, want := range map[[2]int]float64{
		{5, 0}: 0.0625, {6, 0}: 0.03125, {10, 2}: 0.0385742188, {15, 5}: 0.0413894653, {20, 9}: 0.0614283457, {35, 18}: 0.0270083177, {0, 0}: 1,
	} {
		near(t, want, ok[float64](t)(stats.McNemar(bc[0], bc[1])))
		near(t, want, ok[float64](t)(stats.McNemar(bc[1], bc[0])))
	}
	require.InDelta(t, 8.39629, 100*ok[float64](t)(stats.LeastDrop(0.94, 200)), 5e-6)
	require.InDelta(t, 2.85650, 100*ok[float64](t)(stats.LeastDrop(0.94, 1319)), 5e-6)
}

// covers: PL-Q6
func TestReferenceMedian(t *testing.T) {
	for n, want := range map[int]struct {
		d        int
		coverage float64
	}{
		6: {1, 0.96875}, 7: {1, 0.984375}, 8: {1, 0.9921875}, 9: {2, 0.9609375}, 10: {2, 0.978515625},
		11: {2, 0.98828125},
		12: {3, 0.961425781}, 13: {3, 0.977539062}, 14: {3, 0.987060547}, 15: {4, 0.96484375}, 16: {4, 0.978729248},
		17: {5, 0.950958252},
		18: {5, 0.969116211}, 19: {5, 0.980789185}, 20: {6, 0.958610535},
	} {
		i := ok[stats.Interval](t)(stats.MedianInterval(upTo(n)))
		require.Equal(t, []float64{float64(want.d), float64(n + 1 - want.d)}, []float64{i.Low, i.High}, n)
		near(t, want.coverage, i.Coverage, n)
	}
	_, err := stats.MedianInterval(upTo(5))
	tooFew(t, err, 5, 6)
}

// upTo is 1 to n.
func upTo(n int) []float64 {
	xs := make([]float64, n)
	for i := range xs {
		xs[i] = float64(i + 1)
	}
	return xs
}

// covers: PL-Q2, PL-Q8
func TestReferencePercentiles(t *testing.T) {
	near(t, 99.01, ok[float64](t)(stats.Percentile(upTo(100), 0.99)))
	near(t, 9.91, ok[float64](t)(stats.Percentile(upTo(10), 0.99)))
	near(t, 3.85, ok[float64](t)(stats.Percentile(upTo(4), 0.95)))
}

// covers: PL-Q9
func TestReferenceManyTests(t *testing.T) {
	got := ok[[]float64](t)(stats.BenjaminiHochberg([]float64{.001, .008, .039, .041, .042, .060, .074, .205, .212,
		.216}))
	want := []float64{.01, .04, .084, .084, .084, .1, .105714286, .216, .216, .216}
	pass := 0
	for i := range want {
		near(t, want[i], got[i])
		if got[i] <= stats.Alpha {
			pass++
		}
	}
	require.Equal(t, 2, pass)
	got = ok[[]float64](t)(stats.BenjaminiHochberg([]float64{.2, .001, .008}))
	require.Equal(t, []float64{.2, .003, .012}, got, "in the order asked")
}

// covers: PL-Q13, PL-Q15
func TestReferenceEffort(t *testing.T) {
	for n, want := range map[int]float64{3: 2.28748, 5: 1.77188, 6: 1.61750, 10: 1.25291} {
		got := ok[float64](t)(stats.LeastShift(1, n))
		require.InDelta(t, want, got, 5e-6)
		require.Equal(t, n, ok[int](t)(stats.RunsForShift(1, got*(1+1e-12))))
	}
}

// covers: PL-Q10
func TestReferenceChangePoints(t *testing.T) {
	c := ok[stats.Changes](t)(stats.ChangePoints(series))
	require.Len(t, c.Cuts, 1)
	cut := c.Cuts[0]
	require.Equal(t, []int{10, 13}, []int{cut.Index, cut.Places})
	near(t, 66.3333333, cut.Q)
	require.InEpsilon(t, 1.08250882e-5, cut.P, 5e-9)
	require.InEpsilon(t, 0.000140726147, cut.AdjustedP, 5e-9)
	near(t, -7.0, cut.Shift.Estimate)
	near(t, -7.3, cut.Shift.Interval.Low)
	near(t, -6.7, cut.Shift.Interval.High)
	require.False(t, c.Watch)

	c = ok[stats.Changes](t)(stats.ChangePoints(series[:14]))
	require.Len(t, c.Cuts, 1)
	cut = c.Cuts[0]
	require.Equal(t, []int{10, 7}, []int{cut.Index, cut.Places})
	near(t, 38, cut.Q)
	near(t, 0.013986014, cut.AdjustedP)
	near(t, -7.05, cut.Shift.Estimate)
	for _, n := range []int{13, 12, 7, 0} {
		require.Empty(t, ok[stats.Changes](t)(stats.ChangePoints(series[:n])).Cuts, "%d runs", n)
	}

	bump := append(append(append([]float64{}, series[:8]...), series[10:18]...), 100.25, 99.65, 100.15, 99.85, 100.35,
		99.75, 100.05, 99.95)
	c = ok[stats.Changes](t)(stats.ChangePoints(bump))
	require.Len(t, c.Cuts, 2)
	for i, at := range []int{8, 16} {
		require.Equal(t, []int{at, 9}, []int{c.Cuts[i].Index, c.Cuts[i].Places})
		near(t, 0.0013986014, c.Cuts[i].AdjustedP)
	}

	outlier := append(append([]float64{}, series[:8]...), 80.0, 100.0, 100.5, 99.5, 100.6, 99.4, 100.7, 99.3, 100.8)
	require.Empty(t, ok[stats.Changes](t)(stats.ChangePoints(outlier)).Cuts)

	c = ok[stats.Changes](t)(stats.ChangePoints([]float64{5, 5, 5, 5, 5, 5, 6, 6, 6, 6, 6, 6}))
	require.Len(t, c.Cuts, 1)
	cut = c.Cuts[0]
	require.Equal(t, []int{6, 5}, []int{cut.Index, cut.Places})
	near(t, 6, cut.Q)
	near(t, 0.0108225108, cut.AdjustedP)
	require.Empty(t, ok[stats.Changes](t)(stats.ChangePoints(make([]float64, 10))).Cuts)
}

// covers: PL-Q12
func TestReferenceNewRun(t *testing.T) {
	for x, want := range map[float64]struct {
		z   float64
		far stats.Far
	}{93.1: {-13.893053, stats.Changed}, 99.5: {-1.0994503, stats.Ok}} {
		d := ok[stats.Distance](t)(stats.NewRun(series[:10], x))
		near(t, 100.05, d.Median)
		near(t, 0.25, d.MAD)
		near(t, 0.50025, d.Scale)
		require.InDelta(t, want.z, d.Z, 5e-7)
		require.Equal(t, want.far, d.Far())
	}
	_, err := stats.NewRun(series[:3], 100)
	tooFew(t, err, 3, 4)
}
