package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/bench/vllmserve"
	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/search"
	"github.com/profllm/profllm/pkg/search/runner"
)

func limits(t testing.TB, texts ...string) (list []metric.Limit) {
	t.Helper()
	for _, text := range texts {
		l, err := metric.ParseLimit(text)
		require.NoError(t, err)
		list = append(list, l)
	}
	return list
}

// writeResult is a client's file of a server whose TTFT is 50 ms up to an edge, and 900 beyond.
func writeResult(ask runner.Ask, edge float64) error {
	p99 := 50.0
	if ask.Value > edge {
		p99 = 900
	}
	n := ask.NumPrompts
	rate := min(ask.Value, 20)
	data := fmt.Sprintf(`{"num_prompts": %d, "completed": %d, "failed": 0, "duration": %g, "total_input_tokens": %d,
"total_output_tokens": %d, "request_throughput": %g, "output_throughput": %g, "mean_ttft_ms": %g, "median_ttft_ms": %g,
"p95_ttft_ms": %g, "p99_ttft_ms": %g, "mean_tpot_ms": 10, "median_tpot_ms": 10}`, n, n, float64(n)/rate, 10*n, 10*n,
		rate, 10*rate, p99*0.9, p99*0.9, p99*0.97, p99)
	return os.WriteFile(filepath.Join(ask.Dir, vllmserve.DefaultFile), []byte(data), 0o666)
}

func options(t *testing.T, edge float64) (o runner.Options, asked *[]float64) {
	asked = new([]float64)
	return runner.Options{
		Dir: t.TempDir(), Variable: runner.Rate, Limits: [][]metric.Limit{limits(t, "p99_ttft_ms=500")}, Now: time.Now,
		Goal: search.Goal{Span: search.Span{Min: 0.5, Max: 64, Step: 0.5}, Start: 4},
		Said: func(format string, args ...any) { t.Logf(format, args...) },
		Measure: func(_ context.Context, ask runner.Ask) error {
			*asked = append(*asked, ask.Value)
			return writeResult(ask, edge)
		},
	}, asked
}

func TestSearchKeepsEverything(t *testing.T) {
	o, asked := options(t, 10.2)
	doc, err := runner.Run(t.Context(), o)
	require.NoError(t, err)
	a := doc.Answers[0]
	require.Equal(t, "found", a.Outcome)
	require.Equal(t, 10.0, *a.Low)
	require.Equal(t, 10.5, *a.High)
	require.Equal(t, 10.0, *a.Measured)
	require.Contains(t, a.Sentence, "the highest request_rate within p99_ttft_ms <= 500 is 10: it holds at 10 and fails at 10.5")
	require.Len(t, doc.Probes, len(*asked))
	for i, p := range doc.Probes {
		require.GreaterOrEqual(t, p.NumPrompts, 299, "a P99 needs 299")
		require.Equal(t, int64(i), p.Seed, "other prompts than before")
		require.FileExists(t, filepath.Join(o.Dir, p.Name, vllmserve.DefaultFile))
	}
	var kept runner.Document
	data, err := os.ReadFile(filepath.Join(o.Dir, runner.File))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &kept))
	require.Equal(t, doc.Answers, kept.Answers)
	best, err := os.ReadFile(filepath.Join(o.Dir, vllmserve.DefaultFile))
	require.NoError(t, err)
	require.Contains(t, string(best), `"p99_ttft_ms": 50`, "the numbers at the highest load that holds")

	*asked = nil
	again, err := runner.Run(t.Context(), o)
	require.NoError(t, err)
	require.Empty(t, *asked, "everything was measured before")
	require.Equal(t, doc.Answers[0].Sentence, again.Answers[0].Sentence)

	o.Limits = [][]metric.Limit{limits(t, "p99_ttft_ms=501")}
	_, err = runner.Run(t.Context(), o)
	require.ErrorContains(t, err, "is of another search")
}

// Wherever a search is stopped, it goes on from the probes on disk and asks for the same loads.
func TestSearchResumes(t *testing.T) {
	whole, want := options(t, 10.2)
	_, err := runner.Run(t.Context(), whole)
	require.NoError(t, err)
	for stop := range *want {
		o, asked := options(t, 10.2)
		measure := o.Measure
		ctx, cancel := context.WithCancelCause(t.Context())
		o.Measure = func(ctx context.Context, ask runner.Ask) error {
			if len(*asked) == stop {
				cancel(errors.New("killed"))
				return ctx.Err() // and no file
			}
			return measure(ctx, ask)
		}
		doc, err := runner.Run(ctx, o)
		require.ErrorContains(t, err, "killed")
		require.True(t, doc.Unfinished)
		require.Equal(t, "interrupted", doc.Answers[0].Outcome)
		require.Contains(t, doc.Answers[0].Sentence, "interrupted")
		o.Measure = measure
		_, err = runner.Run(t.Context(), o)
		require.NoError(t, err)
		require.Equal(t, *want, *asked)
	}
}

// At every moment search.json has an answer for each set of limits, since a killed search writes
// nothing more.
func TestAnswersBeforeTheEnd(t *testing.T) {
	o, _ := options(t, 10.2)
	o.Limits = append(o.Limits, limits(t, "median_ttft_ms=500"))
	measure, seen := o.Measure, 0
	o.Measure = func(ctx context.Context, ask runner.Ask) error {
		doc := readDocument(t, o.Dir)
		require.True(t, doc.Unfinished)
		require.Len(t, doc.Answers, 2)
		require.NotNil(t, doc.Answers[0])
		require.NotNil(t, doc.Answers[1])
		require.Equal(t, "interrupted", doc.Answers[1].Outcome)
		if seen == 0 {
			require.Equal(t, "no answer: the search for the highest request_rate within p99_ttft_ms <= 500 was interrupted "+
				"(0 probes)", doc.Answers[0].Sentence)
		}
		seen++
		return measure(ctx, ask)
	}
	doc, err := runner.Run(t.Context(), o)
	require.NoError(t, err)
	require.False(t, doc.Unfinished)
	require.False(t, readDocument(t, o.Dir).Unfinished)
	require.Equal(t, "found", doc.Answers[1].Outcome)
}

func readDocument(t *testing.T, dir string) (d runner.Document) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, runner.File))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &d))
	return d
}

// A client that leaves no result is no evidence, and is asked again.
func TestFailedProbes(t *testing.T) {
	o, asked := options(t, 10.2)
	measure, failed := o.Measure, false
	o.Measure = func(ctx context.Context, ask runner.Ask) error {
		if len(*asked) == 2 && !failed {
			failed = true
			return errors.New("the client broke")
		}
		return measure(ctx, ask)
	}
	doc, err := runner.Run(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, "found", doc.Answers[0].Outcome)
	require.Equal(t, 1, doc.Answers[0].Invalid)
	require.Equal(t, "the client broke", doc.Probes[2].Error)
	require.Equal(t, doc.Probes[2].Value, doc.Probes[3].Value)
}

func TestSpanOfRates(t *testing.T) {
	o, asked := options(t, 10.2)
	o.Goal = search.Goal{}
	doc, err := runner.Run(t.Context(), o)
	require.NoError(t, err)
	require.True(t, math.IsInf((*asked)[0], 1))
	require.Equal(t, 10.0, (*asked)[1], "half of what the server can")
	q := doc.Question
	require.Equal(t, []float64{1, 30, 0.2}, []float64{q.Min, q.Max, q.Resolution})
	*asked = nil
	_, err = runner.Run(t.Context(), o)
	require.NoError(t, err)
	require.Empty(t, *asked, "the capacity is measured once")
}

// A search keeps others out of its folder, whose running probe would look like a killed one.
func TestOneSearchAtATime(t *testing.T) {
	o, asked := options(t, 10.2)
	measure, tried := o.Measure, false
	o.Measure = func(ctx context.Context, ask runner.Ask) error {
		if !tried {
			tried = true
			doc, err := runner.Run(ctx, o)
			require.Nil(t, doc)
			require.ErrorAs(t, err, new(runner.Refusal))
			require.ErrorContains(t, err, fmt.Sprintf("process %d on ", os.Getpid()))
			require.Empty(t, *asked)
			require.DirExists(t, ask.Dir)
		}
		return measure(ctx, ask)
	}
	_, err := runner.Run(t.Context(), o)
	require.NoError(t, err)
	_, err = runner.Run(t.Context(), o)
	require.NoError(t, err, "the folder is free again")
}

// Another load is another search. That is said before its capacity is measured or reused.
func TestAnotherQuestion(t *testing.T) {
	o, _ := options(t, 10.2)
	o.Goal, o.Load, o.Command = search.Goal{}, "input 128", []string{"client"}
	measure := o.Measure
	ctx, cancel := context.WithCancel(t.Context())
	o.Measure = func(ctx context.Context, ask runner.Ask) error {
		if !math.IsInf(ask.Value, 1) {
			cancel()
			return errors.New("killed")
		}
		return measure(ctx, ask)
	}
	_, err := runner.Run(ctx, o)
	require.Error(t, err)
	for name, change := range map[string]func(*runner.Options){
		"load": func(o *runner.Options) { o.Load = "input 4096" }, "speed": func(o *runner.Options) { o.Speed = 10 },
		"simulated": func(o *runner.Options) { o.Simulated = true },
		"command":   func(o *runner.Options) { o.Command = []string{"other"} },
		"max":       func(o *runner.Options) { o.Goal.Max = 7 },
	} {
		other := o
		other.Measure = func(context.Context, runner.Ask) error {
			require.Fail(t, "measured", name)
			return nil
		}
		change(&other)
		_, err := runner.Run(t.Context(), other)
		require.ErrorContains(t, err, "is of another search", name)
		require.ErrorAs(t, err, new(runner.Refusal))
	}
	o.Measure = measure
	doc, err := runner.Run(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, "found", doc.Answers[0].Outcome)
}

// A lowest rate above what the server can serve is refused once that is known.
func TestSpanAboveTheCapacity(t *testing.T) {
	o, asked := options(t, 10.2)
	o.Goal = search.Goal{Span: search.Span{Min: 100}}
	_, err := runner.Run(t.Context(), o)
	require.ErrorAs(t, err, new(runner.Refusal))
	require.ErrorContains(t, err, "max is 30, but min is 100")
	require.Len(t, *asked, 1)
}

func TestReadSLA(t *testing.T) {
	sets, err := runner.ReadSLA([]byte(`[{"p99_ttft_ms": "<=500", "p99_itl_ms": "< 40"}, {"request_goodput": ">=3.5"}]`))
	require.NoError(t, err)
	require.Len(t, sets, 2)
	require.Equal(t, "p99_itl_ms <= 40", sets[0][0].String())
	require.Equal(t, "p99_ttft_ms <= 500", sets[0][1].String())
	require.Equal(t, "request_goodput >= 3.5", sets[1][0].String())
	for text, want := range map[string]string{
		`{}`: "want a list", `[]`: "empty", `[{}]`: "object 1 has no limit", `[{"p99_ttft_ms": "500"}]`: "operator and a number",
		`[{"p99_ttft_ms": ">=500"}]`: "lower is better", `[{"p99_ttfft": "<=1"}]`: "p99_ttfft",
	} {
		_, err := runner.ReadSLA([]byte(text))
		require.ErrorContains(t, err, want, text)
	}
}

func FuzzReadSLA(f *testing.F) {
	f.Add([]byte(`[{"p99_e2el_ms": "<=500"}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		sets, err := runner.ReadSLA(data)
		if err == nil {
			require.NotEmpty(t, sets)
		}
	})
}

// takeOver has another command take the lease of a search, and its files.
func takeOver(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, ".lease", "lease-*.json"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".lease", "lease-99.json"), []byte("{}"), 0o666))
	require.NoError(t, os.WriteFile(filepath.Join(dir, runner.File), []byte("the other's"), 0o666))
}

// A search whose lease was lost leaves the files to the new owner, in a probe and before the first.
func TestLostLease(t *testing.T) {
	for name, goal := range map[string]search.Goal{
		"probe": {Span: search.Span{Min: 0.5, Max: 64, Step: 0.5}, Start: 4}, "capacity": {},
	} {
		t.Run(name, func(t *testing.T) {
			o, _ := options(t, 10.2)
			o.Goal, o.Renew = goal, time.Millisecond
			var dir string
			o.MeasureBy(func(ctx context.Context, args []string, _ io.Writer) error {
				dir = args[slices.Index(args, "--result-dir")+1]
				takeOver(t, o.Dir)
				<-ctx.Done()
				return os.WriteFile(filepath.Join(dir, vllmserve.DefaultFile), []byte("the other's"), 0o666)
			})
			_, err := runner.Run(t.Context(), o)
			require.EqualError(t, err, map[string]string{"capacity": "measure the capacity: "}[name]+
				o.Dir+": another command has taken over this lease")
			for _, path := range []string{o.Dir + "/" + runner.File, filepath.Join(dir, vllmserve.DefaultFile)} {
				data, err := os.ReadFile(path)
				require.NoError(t, err)
				require.Equal(t, "the other's", string(data))
			}
		})
	}
}

// A run of requests that failed is no capacity: the next search measures it again.
func TestCapacityIsMeasuredAgain(t *testing.T) {
	o, asked := options(t, 10.2)
	o.Goal = search.Goal{}
	well := o.Measure
	none := func(_ context.Context, ask runner.Ask) error {
		return os.WriteFile(filepath.Join(ask.Dir, vllmserve.DefaultFile), []byte(`{"num_prompts": 9, "completed": 0,
"failed": 9, "duration": 1, "request_throughput": 0, "mean_ttft_ms": 0}`), 0o666)
	}
	broken := func(ctx context.Context, ask runner.Ask) error {
		log := filepath.Join(ask.Dir, vllmserve.DefaultLog)
		return errors.Join(errors.New("exit status 1"), well(ctx, ask), os.WriteFile(log, nil, 0o666))
	}
	for want, measure := range map[string]func(context.Context, runner.Ask) error{
		"no request was answered": none,
		"exit status 1\n\thint: the client's log is " + filepath.Join(o.Dir, "capacity-failed/vllm-bench.log"): broken,
	} {
		o.Measure = measure
		_, err := runner.Run(t.Context(), o)
		require.EqualError(t, err, "measure the capacity: "+want)
	}
	*asked, o.Measure = nil, well
	doc, err := runner.Run(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, "found", doc.Answers[0].Outcome)
	require.True(t, math.IsInf((*asked)[0], 1))
}

// An interruption as the client ends is the error, not what its result lacks.
// The servers of a job that is cancelled may end before the search is told: it is interrupted, not without results.
func TestServersThatEndBeforeTheSearch(t *testing.T) {
	o, _ := options(t, 10.2)
	ctx, cancel := context.WithCancel(t.Context())
	o.Patience = time.Hour
	o.Measure = func(context.Context, runner.Ask) error {
		time.AfterFunc(time.Millisecond, cancel)
		return errors.New("no request completed")
	}
	doc, err := runner.Run(ctx, o)
	require.Error(t, err)
	require.Empty(t, doc.Probes)
	require.NotEqual(t, string(search.NoEvidence), doc.Answers[0].Outcome)
}

func TestInterruptedCapacity(t *testing.T) {
	o, _ := options(t, 10.2)
	o.Goal = search.Goal{}
	ctx, cancel := context.WithCancelCause(t.Context())
	o.MeasureBy(func(context.Context, []string, io.Writer) error {
		cancel(errors.New("killed"))
		return nil
	})
	_, err := runner.Run(ctx, o)
	require.EqualError(t, err, "measure the capacity: killed")
}

// A search that was stopped below the edge says that the interval has an open end, and makes no guess.
func TestOpenEnd(t *testing.T) {
	for start, want := range map[float64]string{
		1:  "the highest request_rate within p99_ttft_ms <= 500 is 2 or more, and no load that was tried surely fails (",
		60: "the highest request_rate within p99_ttft_ms <= 500 is below 30, and no load that was tried surely holds (",
	} {
		o, _ := options(t, 10.2)
		o.Goal.Start, o.Goal.Probes = start, 2
		doc, err := runner.Run(t.Context(), o)
		require.NoError(t, err)
		require.Contains(t, doc.Answers[0].Sentence, want)
		require.Zero(t, doc.Answers[0].Edge)
	}
}

// An interval between loads that are no neighbours has the edge anywhere.
func TestSentenceOfAWideInterval(t *testing.T) {
	o, asked := options(t, 10.2)
	o.Variable, o.Goal = runner.Concurrency, search.Goal{Start: 8, Span: search.Span{Max: 16}, Probes: 2}
	doc, err := runner.Run(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, []float64{8, 16}, *asked)
	require.Contains(t, doc.Answers[0].Sentence,
		"the highest max_concurrency within p99_ttft_ms <= 500 lies between 8 and 16: it holds at 8 and fails at 16 (")
}

// A probe whose result is gone when the search goes on has no numbers, whatever its own file says.
func TestProbeWhoseResultIsGone(t *testing.T) {
	o, _ := options(t, 10.2)
	o.Goal.Probes = 2
	doc, err := runner.Run(t.Context(), o)
	require.NoError(t, err)
	require.NotEmpty(t, doc.Probes[0].Metrics)
	require.NoError(t, os.Remove(filepath.Join(o.Dir, doc.Probes[0].Name, vllmserve.DefaultFile)))
	doc, err = runner.Run(t.Context(), o)
	require.NoError(t, err)
	p := doc.Probes[0]
	require.Equal(t, "the client left no result", p.Error)
	require.Empty(t, p.Metrics)
	require.Empty(t, p.Verdict)
	require.Empty(t, p.Words)
	require.Empty(t, p.Holds)
	require.Equal(t, 1, doc.Answers[0].Invalid)
}

// The lowest rate is by default a tenth of the first, also where no capacity is measured.
func TestLowestRate(t *testing.T) {
	for start, want := range map[float64]float64{16: 1.5, 4: 0.5, 1: 0.5, 100: 6.5} {
		o, _ := options(t, 10.2)
		o.Goal.Min, o.Goal.Start = 0, start
		doc, err := runner.Run(t.Context(), o)
		require.NoError(t, err)
		require.Equal(t, want, doc.Question.Min)
	}
}

// A search that was stopped after its last probe, for so long that another took over, writes nothing
// more: neither the probe's answer nor the last, although its lease was not renewed meanwhile.
func TestLostLeaseBeforeASave(t *testing.T) {
	for _, last := range []bool{false, true} {
		o, asked := options(t, 10.2)
		o.Time = time.Hour
		said, over := 0, false
		o.Said = func(string, ...any) {
			if said++; said != 6 { // the result of the third probe
				return
			}
			if over = last; !last {
				takeOver(t, o.Dir)
			}
		}
		o.Now = func() time.Time {
			if !over {
				return time.Now()
			}
			takeOver(t, o.Dir)
			return time.Now().Add(2 * o.Time) // no further probe begins
		}
		_, err := runner.Run(t.Context(), o)
		require.EqualError(t, err, o.Dir+": another command has taken over this lease")
		require.Len(t, *asked, 3)
		data, err := os.ReadFile(filepath.Join(o.Dir, runner.File))
		require.NoError(t, err)
		require.Equal(t, "the other's", string(data))
		require.NoFileExists(t, filepath.Join(o.Dir, vllmserve.DefaultFile))
	}
}

// table is what a client prints before it writes its result.
const table = `============ Serving Benchmark Result ============
Successful requests:                     299
Benchmark duration (s):                  14.95
Total input tokens:                      2990
Total generated tokens:                  2990
Request throughput (req/s):              20.00
Output token throughput (tok/s):         200.00
---------------Time to First Token----------------
Mean TTFT (ms):                          45.00
Median TTFT (ms):                        45.00
P99 TTFT (ms):                           50.00
==================================================
`

// A run of which only a log with numbers is left did not finish: a capacity is measured again, also if the
// command died with its client.
func TestCapacityOfAKilledClient(t *testing.T) {
	o, asked := options(t, 10.2)
	o.Goal = search.Goal{}
	well := o.Measure
	killed := func(_ context.Context, ask runner.Ask) error {
		return errors.Join(errors.New("signal: killed"), os.WriteFile(filepath.Join(ask.Dir, vllmserve.DefaultLog), []byte(table), 0o666))
	}
	o.Measure = killed
	_, err := runner.Run(t.Context(), o)
	require.ErrorContains(t, err, "measure the capacity: signal: killed")
	o.Measure = func(ctx context.Context, ask runner.Ask) error {
		_ = killed(ctx, ask)
		return nil
	}
	_, err = runner.Run(t.Context(), o)
	require.ErrorContains(t, err, "measure the capacity: the client left no result")

	dir := filepath.Join(o.Dir, "capacity")
	require.NoError(t, os.Mkdir(dir, 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(dir, vllmserve.DefaultLog), []byte(table), 0o666))
	o.Measure = well
	doc, err := runner.Run(t.Context(), o)
	require.NoError(t, err)
	require.True(t, math.IsInf((*asked)[0], 1), "the capacity is measured first")
	require.Equal(t, "found", doc.Answers[0].Outcome)
	require.NoFileExists(t, filepath.Join(dir, vllmserve.DefaultLog))
}

// A probe whose client failed, or wrote the result of a part of the load, has no numbers, now and when the
// search goes on.
func TestProbeOfAKilledClient(t *testing.T) {
	type measure func(ctx context.Context, ask runner.Ask) error
	killed := errors.New("signal: killed")
	put := func(name, text string, err error) func(measure) measure {
		return func(measure) measure {
			return func(_ context.Context, ask runner.Ask) error {
				return errors.Join(os.WriteFile(filepath.Join(ask.Dir, name), []byte(text), 0o666), err)
			}
		}
	}
	const left, part = "the client left no result", `{"num_prompts": 299, "completed": 10, "duration": 1, "request_throughput": 4,
"mean_ttft_ms": 1, "median_ttft_ms": 1, "p99_ttft_ms": 1, "profllm": {"client": "profllm", "partial": true}}`
	for name, c := range map[string]struct {
		want string
		bad  func(well measure) measure
	}{
		"log":       {killed.Error(), put(vllmserve.DefaultLog, table, killed)},
		"log alone": {left, put(vllmserve.DefaultLog, table, nil)},
		"part":      {left + " of the whole load", put(vllmserve.DefaultFile, part, nil)},
		"result": {killed.Error(), func(well measure) measure {
			return func(ctx context.Context, ask runner.Ask) error { return errors.Join(well(ctx, ask), killed) }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			o, asked := options(t, 10.2)
			o.Goal.Probes = 2
			well, n := o.Measure, 0
			bad := c.bad(well)
			o.Measure = func(ctx context.Context, ask runner.Ask) error {
				if n++; n == 1 {
					return bad(ctx, ask)
				}
				return well(ctx, ask)
			}
			for range 2 {
				doc, err := runner.Run(t.Context(), o)
				require.NoError(t, err)
				require.Equal(t, c.want, doc.Probes[0].Error)
				require.Empty(t, doc.Probes[0].Metrics)
				require.Empty(t, doc.Probes[0].Verdict)
				require.Empty(t, doc.Probes[1].Error)
				require.Equal(t, 1, doc.Answers[0].Invalid)
			}
			require.Equal(t, 2, n)
			require.NotEmpty(t, *asked)
		})
	}
}
