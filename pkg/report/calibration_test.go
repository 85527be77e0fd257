package report_test

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/tier"
)

// calibrate makes the simulations long, and with -v prints their table:
//
//	go test ./pkg/report -run TestNullCalibration -v -calibrate 10000
var calibrate = flag.Int("calibrate", 0,
	"null reports of each kind; 0: 10000 of comparisons and 2000 of series, 500 of either where what matters is the limit")

// update rewrites the table of TestPowerTable.
var update = flag.Bool("update", false, "rewrite the table of the documentation")

const claimed = 0.05 // of the reports on runs that are all alike, at most, find a change

// noises are what a run's number may vary by, with a spread of about 1.
var noises = []struct {
	name string
	draw func(*rand.Rand) float64
}{
	{"normal", (*rand.Rand).NormFloat64},
	{"lognormal", func(d *rand.Rand) float64 { return math.Exp(d.NormFloat64()) - 1 }},
	{"heavy tails", func(d *rand.Rand) float64 { return d.NormFloat64() / math.Sqrt(d.ExpFloat64()) }}, // Student's t, 2 degrees
	{"quantised", func(d *rand.Rand) float64 { return math.Round(d.NormFloat64()) }},
}

// machine draws runs: every metric varies by cv, in part with all others, and is
// shifted by so many percent.
type machine struct {
	d     *rand.Rand
	noise func(*rand.Rand) float64
	cv    float64 // percent
}

// runs draws n runs of each metric; shift is of the first, in percent.
func (m machine) runs(metrics, n int, shift float64) [][]float64 {
	out := make([][]float64, metrics)
	for i := range out {
		out[i] = make([]float64, n)
	}
	for k := range n {
		shared := m.noise(m.d)
		for i := range out {
			e := shared
			if m.d.IntN(2) == 0 {
				e = m.noise(m.d)
			}
			out[i][k] = 1000 * (1 + m.cv*e/100)
			if i == 0 {
				out[i][k] *= 1 + shift/100
			}
		}
	}
	return out
}

func judged(t *testing.T) []metric.Metric {
	t.Helper()
	var list []metric.Metric
	for _, key := range []string{"output_throughput", "median_ttft_ms", "p99_ttft_ms", "median_tpot_ms",
		"p99_tpot_ms"} {
		m, err := metric.Find(key)
		require.NoError(t, err)
		list = append(list, m)
	}
	return list
}

// question is what is asked of how many runs.
type question struct {
	name   string
	n      int // of each side, or of the series
	series bool
}

// answer asks it of runs whose first metric is shifted, of a series in the middle.
func (q question) answer(metrics []metric.Metric, m machine, shift float64) (all, first report.Outcome, err error) {
	if !q.series {
		j, err := report.Judge(metrics, m.runs(len(metrics), q.n, 0), m.runs(len(metrics), q.n, shift))
		if err != nil {
			return "", "", err
		}
		return j.Verdict, j.Metrics[0].Verdict, nil
	}
	before, behind := m.runs(len(metrics), q.n/2, 0), m.runs(len(metrics), q.n-q.n/2, shift)
	for i := range before {
		before[i] = append(before[i], behind[i]...)
	}
	x, err := report.Follow(metrics, before)
	if err != nil {
		return "", "", err
	}
	return x.Verdict, x.Metrics[0].Verdict, nil
}

// found reports whether a verdict claims a change.
func found(o report.Outcome) bool { return o == report.Regressed || o == report.Improved }

// allowance is how many of n a rate p may show by chance, three standard deviations
// of the binomial distribution: one cell in 740 has more.
func allowance(n int, p float64) int { return int(float64(n)*p + 3*math.Sqrt(float64(n)*p*(1-p))) }

// cells runs a simulation for each cell, beside each other, and each with its own
// seed.
func cells(n int, simulate func(cell int, d *rand.Rand)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, 4)
	for cell := range n {
		wg.Go(func() {
			slots <- struct{}{}
			simulate(cell, rand.New(rand.NewPCG(20261122, uint64(cell))))
			<-slots
		})
	}
	wg.Wait()
}

// Of reports on runs that are all alike at most one in twenty claims a change, whatever
// the noise is: all metrics together, as compare and trend judge them. At a CV of 50 %
// what matters is never the limit, so the tests alone hold the rate.
//
// covers: PL-Q3, PL-Q9, PL-Q10, PL-Q11, PL-Q15
func TestNullCalibration(t *testing.T) {
	tier.Alone(t)
	metrics := judged(t)
	kinds := []question{{"compare 5 v 5", 5, false}, {"compare 6 v 6", 6, false}, {"compare 10 v 10", 10, false},
		{"trend of 20", 20, true}, {"trend of 40", 40, true}}
	cvs := []float64{2, 50}
	per := len(noises) * len(cvs)
	alarms, times, errs := make([]int, len(kinds)*per), make([]int, len(kinds)*per), make([]error, len(kinds)*per)
	cells(len(alarms), func(cell int, d *rand.Rand) {
		k := kinds[cell/per]
		m := machine{d, noises[cell%per/len(cvs)].draw, cvs[cell%len(cvs)]}
		switch times[cell] = *calibrate; {
		case times[cell] > 0:
		case m.cv < 10: // what matters is the limit
			times[cell] = 500
		case k.series:
			times[cell] = 2000
		default:
			times[cell] = 10000
		}
		switch {
		case testing.Short():
			times[cell] /= 10
			t.Logf("in part: %d experiments with -short", times[cell])
		case *calibrate == 0:
			times[cell] = tier.Of(t, times[cell], times[cell]/3)
		}
		for range times[cell] {
			verdict, _, err := k.answer(metrics, m, 0)
			if err != nil {
				errs[cell] = err
				return
			}
			if found(verdict) {
				alarms[cell]++
			}
		}
	})
	for cell := range alarms {
		require.NoError(t, errs[cell])
		name := fmt.Sprintf("%s, %s, CV %g %%", kinds[cell/per].name, noises[cell%per/len(cvs)].name,
			cvs[cell%len(cvs)])
		t.Logf("%-40s %5d of %d: %.2f %%", name, alarms[cell], times[cell],
			100*float64(alarms[cell])/float64(times[cell]))
		require.LessOrEqual(t, alarms[cell], allowance(times[cell], claimed), name)
	}
}

// Who says "same within noise" of a shift just beyond what matters is wrong at most
// once in forty times: one end of an interval of 95 %.
//
// covers: PL-Q5, PL-Q15
func TestFalseSame(t *testing.T) {
	tier.Alone(t)
	metrics := judged(t)
	sizes, cvs := []int{5, 6, 10}, []float64{0.2, 0.5, 1}
	const times = 4000
	same, errs := make([]int, len(noises)*len(sizes)*len(cvs)), make([]error, len(noises)*len(sizes)*len(cvs))
	name := func(cell int) (string, question, machine) {
		n, cv, noise := sizes[cell%len(sizes)], cvs[cell/len(sizes)%len(cvs)], noises[cell/len(sizes)/len(cvs)]
		return fmt.Sprintf("%d v %d, %s, CV %g %%", n, n, noise.name, cv), question{n: n},
			machine{noise: noise.draw, cv: cv}
	}
	cells(len(same), func(cell int, d *rand.Rand) {
		_, q, m := name(cell)
		m.d = d
		for range times {
			_, first, err := q.answer(metrics[:1], m, -2.000001)
			if err != nil {
				errs[cell] = err
				return
			}
			if first == report.Same {
				same[cell]++
			}
		}
	})
	for cell, n := range same {
		require.NoError(t, errs[cell])
		what, _, _ := name(cell)
		t.Logf("%-40s %d of %d", what, n, times)
		require.LessOrEqual(t, n, allowance(times, 0.025), what)
	}
}

const powerPage = "../../docs/explanation/statistics.md"

// The documentation's table of what is found is what is found.
//
// covers: PL-Q5, PL-Q9, PL-Q10, PL-Q15
func TestPowerTable(t *testing.T) {
	if testing.Short() {
		t.Skip("makes 64,000 reports")
	}
	page, err := filepath.Abs(powerPage)
	require.NoError(t, err)
	data, err := os.ReadFile(page)
	require.NoError(t, err)
	head, rest, ok := strings.Cut(string(data), "<!-- power -->\n")
	require.True(t, ok)
	_, tail, ok := strings.Cut(rest, "<!-- /power -->\n")
	require.True(t, ok)
	text := head + "<!-- power -->\n" + powerTable(t) + "<!-- /power -->\n" + tail
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(text), 0o644))
		return
	}
	require.Equal(t, string(data), text, "%s is not current: go test ./pkg/report -run TestPowerTable -update",
		powerPage)
}

// powerTable is how often of a hundred times a throughput that falls, while the other
// four metrics stay, is called a regression.
func powerTable(t *testing.T) string {
	metrics := judged(t)
	shifts, cvs := []float64{1, 2, 5, 10}, []float64{0.5, 1, 2, 5}
	questions := []question{{"compare 5 v 5", 5, false}, {"compare 6 v 6", 6, false}, {"compare 10 v 10", 10, false},
		{"trend, 10 and 10", 20, true}}
	const times = 1000
	share, errs := make([]int, len(shifts)*len(cvs)*len(questions)), make([]error, len(shifts)*len(cvs)*len(questions))
	cells(len(share), func(cell int, d *rand.Rand) {
		q, shift := questions[cell/len(cvs)%len(questions)], shifts[cell/len(cvs)/len(questions)]
		m := machine{d, noises[0].draw, cvs[cell%len(cvs)]}
		for range times {
			_, first, err := q.answer(metrics, m, -shift)
			if err != nil {
				errs[cell] = err
				return
			}
			if first == report.Regressed {
				share[cell]++
			}
		}
	})
	var b strings.Builder
	b.WriteString("| throughput falls by | asked | CV 0.5 % | CV 1 % | CV 2 % | CV 5 % |\n|---|---|---|---|---|---|\n")
	for row := range len(shifts) * len(questions) {
		fmt.Fprintf(&b, "| %g %% | %s |", shifts[row/len(questions)], questions[row%len(questions)].name)
		for i := range cvs {
			cell := row*len(cvs) + i
			require.NoError(t, errs[cell])
			fmt.Fprintf(&b, " %.0f |", 100*float64(share[cell])/times)
		}
		b.WriteString("\n")
	}
	return b.String()
}
