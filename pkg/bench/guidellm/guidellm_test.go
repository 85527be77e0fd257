package guidellm_test

import (
	"bytes"
	"io"
	"io/fs"
	"math"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"

	"github.com/profllm/profllm/pkg/bench/guidellm"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/result/resulttest"
	"github.com/profllm/profllm/pkg/validity"
)

func sample(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	return string(data)
}

func parse(t testing.TB, text string) (result.Part, error) {
	t.Helper()
	return guidellm.Parser{Dir: "raw"}.Parse(fstest.MapFS{"raw/benchmarks.json": {Data: []byte(text)}})
}

func good(t testing.TB, text string) result.Part {
	t.Helper()
	p, err := parse(t, text)
	require.NoError(t, err)
	return p
}

func kinds(p result.Part) (list []result.WarningKind) {
	for _, w := range p.Warnings {
		list = append(list, w.Kind)
	}
	return list
}

func judge(p result.Part) *result.Validity {
	r := &result.Result{}
	r.Merge(p)
	return validity.Judge(r, validity.Evidence{Samples: p.Samples})
}

// The second benchmark of a sweep: its successful requests, in our units.
//
// covers: PL-I3, PL-I6
func TestSweep(t *testing.T) {
	p := good(t, sample(t, "v0.5-sweep.json"))
	m := p.Metrics
	require.Equal(t, "guidellm", p.Benchmark.Kind)
	require.Equal(t, "org/model", p.Model)
	require.Equal(t, []int{5, 1, 6}, []int{*m.CompletedRequests, *m.FailedRequests, *m.NumPrompts})
	require.Contains(t, m.Derived, "num_prompts")
	require.InDelta(t, 2, *m.Duration, 0)
	require.Equal(t, []int64{500, 51}, []int64{*m.TotalInputTokens, *m.TotalOutputTokens})
	require.InDelta(t, 2.5, *m.RequestThroughput, 1e-12)
	require.InDelta(t, 25.5, *m.OutputThroughput, 1e-12)
	require.InDelta(t, 275.5, *m.TotalTokenThroughput, 1e-12)
	require.InDelta(t, 250, *m.InputThroughput, 1e-12)
	require.InDelta(t, 2.5, float64(*m.RequestRate), 0)
	require.True(t, math.IsInf(float64(*p.Benchmark.Burstiness), 1), "evenly spaced")
	require.Nil(t, m.MaxConcurrency)
	require.InDelta(t, 5.0/3, *m.MeanConcurrentRequests, 1e-9)
	require.InDelta(t, 2, *m.CutRequests, 0)

	ttft := m.Latency[result.TTFT]
	require.InDelta(t, 87, *ttft.Mean, 1e-9)
	require.InDelta(t, 85, *ttft.Median, 1e-9)
	require.Equal(t, 5, *ttft.N)
	for rank, want := range map[float64]float64{0.1: 80, 1: 80, 5: 80, 50: 85, 95: 100, 99: 100, 99.9: 100} {
		require.InDelta(t, want, ttft.Percentiles[rank], 1e-9, "p001 is the 0.1th, p999 the 99.9th: %v", rank)
	}
	require.Len(t, ttft.Percentiles, 11)
	// Its inter-token latency is ours per output token, weighted by the gaps.
	tpot := m.Latency[result.TPOT]
	require.InDelta(t, (10*20+20*22+10*20+5*30+1*20)/46.0, *tpot.Mean, 1e-9)
	require.Equal(t, 5, *tpot.N, "requests, not tokens")
	// Its time per output token has the first token in it.
	require.InDelta(t, (280+530+285+230+120)/51.0, *m.Latency[result.NTPOT].Mean, 1e-9)
	require.InDelta(t, (0.28+0.53+0.285+0.23+0.12)/5*1000, *m.Latency[result.E2EL].Mean, 1e-9,
		"its request latency is in s")
	require.NotContains(t, m.Latency, result.ITL, "it measures no gaps between chunks")

	s := p.Samples
	require.Len(t, s.Start, 6)
	require.Equal(t, []string{"", "", "", "", "", "HTTP 500"}, s.Errors)
	require.Equal(t, []int{11, 21, 11, 6, 2, 0}, s.OutputLen)
	require.InDelta(t, 0.09, s.TTFT[1], 1e-12)
	require.Equal(t, []result.WarningKind{result.Appended, result.Incomplete}, kinds(p))
	require.Contains(t, p.Warnings[0].Text, "2 benchmarks in one file, number 2 was used: constant at 2.5/s")
	require.Equal(t, 1, p.UnknownKeys, "time_to_first_output_token_ms")
	require.Contains(t, judge(p).Words, "request-errors")
}

// The strategy, the counts and the details lie elsewhere in older and newer reports.
//
// covers: PL-I3
func TestEveryForm(t *testing.T) {
	old := good(t, sample(t, "v0.3.json"))
	require.Equal(t, 2, *old.Metrics.MaxConcurrency)
	require.Equal(t, "org/model", old.Model)
	require.Equal(t, 5, *old.Metrics.CompletedRequests)
	require.NotContains(t, old.Metrics.Latency, result.NTPOT, "it was computed otherwise until 0.3")
	require.InDelta(t, 87, *old.Metrics.Latency[result.TTFT].Mean, 1e-9)
	require.Nil(t, old.Samples, "three of five requests")
	require.Empty(t, old.Warnings)

	late := good(t, sample(t, "v0.7.json"))
	require.Equal(t, "org/model", late.Model)
	require.InDelta(t, 1, float64(*late.Benchmark.Burstiness), 0)
	require.InDelta(t, 1.5, *late.Metrics.RequestGoodput, 1e-12)
	require.Equal(t, 2, late.UnknownKeys)
	for _, p := range []result.Part{old, late} {
		v := judge(p)
		require.True(t, v.Valid, "%v", v.Words)
	}
}

// A window that ends while requests run: they are counted, their tokens only in part.
//
// covers: PL-V8
func TestWindowThatCuts(t *testing.T) {
	text := sample(t, "v0.7.json")
	v := judge(good(t, text))
	require.Equal(t, result.Pass, v.Check("inconsistent").Outcome)
	// Two of five requests may be cut: 1.6 requests/s x 2 s are 3.2 of 5, 0.9 are too few.
	for rate, want := range map[string]result.Outcome{"1.6": result.Pass, "1.4": result.Fail} {
		changed := strings.Replace(text, `"requests_per_second": {"successful": {"mean": 2.5`,
			`"requests_per_second": {"successful": {"mean": `+rate, 1)
		require.NotEqual(t, text, changed)
		require.Equal(t, want, judge(good(t, changed)).Check("inconsistent").Outcome, rate)
	}
}

func TestTakesTheLastThatServed(t *testing.T) {
	text := strings.Replace(sample(t, "v0.5-sweep.json"), `"request_totals": {"successful": 5,`,
		`"request_totals": {"successful": 0,`, 1)
	p := good(t, text)
	require.Equal(t, 4, *p.Metrics.CompletedRequests)
	require.Equal(t, 1, *p.Metrics.MaxConcurrency, "synchronous")
	require.Contains(t, p.Warnings[0].Text, "number 1 was used: synchronous")

	none := strings.Replace(sample(t, "v0.7.json"), `"request_totals": {"successful": 5, "errored": 0`,
		`"request_totals": {"successful": 0, "errored": 5`, 1)
	p = good(t, none)
	require.Equal(t, []int{0, 5}, []int{*p.Metrics.CompletedRequests, *p.Metrics.FailedRequests})
	require.Empty(t, p.Metrics.Latency)
	require.False(t, judge(p).Valid)
}

func TestOddFiles(t *testing.T) {
	text := sample(t, "v0.7.json")
	for _, c := range []struct {
		name, text string
		want       []result.WarningKind
		err        string
		none       bool
	}{
		{"cut short", text[:9000], []result.WarningKind{result.Truncated}, "parse benchmarks.json:1:9001: the file ends inside a document: the client was stopped", false},
		{"cut behind a benchmark", sample(t, "v0.5-sweep.json")[:24000], []result.WarningKind{result.Truncated}, "the file ends", false},
		{"no JSON", "Traceback", []result.WarningKind{result.BadValue}, "benchmarks.json:1:1", false},
		{"empty", "", []result.WarningKind{result.Truncated}, "the file ends", false},
		{"of another program", `{"context": {"num_cpus": 4}, "benchmarks": [{"name": "BM_Sort/8", "cpu_time": 3}]}`, nil, "", true},
		{"a list", "[1]", nil, "", true},
		{"no benchmarks", `{"benchmarks": []}`, nil, "", true},
		{"NaN", strings.Replace(text, `"time_to_first_token_ms": {"successful": {"mean": 87.0`, `"time_to_first_token_ms": {"successful": {"mean": NaN`, 1), []result.WarningKind{result.NotFinite}, "", false},
		{"text", strings.Replace(text, `"duration": 2.0`, `"duration": "two"`, 1), []result.WarningKind{result.NoNumber}, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := parse(t, c.text)
			require.Equal(t, c.want, kinds(p))
			switch {
			case c.none:
				require.ErrorIs(t, err, fs.ErrNotExist)
			case c.err != "":
				require.ErrorContains(t, err, c.err)
				require.NotErrorIs(t, err, fs.ErrNotExist)
				require.Nil(t, p.Metrics)
			default:
				require.NoError(t, err)
				require.Equal(t, 5, *p.Metrics.CompletedRequests)
				require.Positive(t, p.Warnings[0].Col)
			}
		})
	}
}

// The requests of all statuses are all requests.
func TestTotals(t *testing.T) {
	text := sample(t, "v0.7.json")
	require.NotContains(t, kinds(good(t, text)), result.Contradicts)
	other := regexp.MustCompile(`("request_totals": \{[^}]*"total": )\d+`).ReplaceAllString(text, "${1}999")
	require.NotEqual(t, text, other)
	require.Contains(t, kinds(good(t, other)), result.Contradicts)
}

func TestNames(t *testing.T) {
	var b bytes.Buffer
	w, err := xz.NewWriter(&b)
	require.NoError(t, err)
	_, err = io.WriteString(w, sample(t, "v0.7.json"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	p, err := guidellm.Parser{}.Parse(fstest.MapFS{"poisson-benchmarks.json.xz": {Data: b.Bytes()}})
	require.NoError(t, err)
	require.Equal(t, "poisson-benchmarks.json.xz", p.Metrics.Source)
	require.Equal(t, []result.WarningKind{result.OtherFile}, kinds(p))
	_, err = guidellm.Parser{}.Parse(fstest.MapFS{})
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// long is a report whose list of requests is made while it is read.
type long struct {
	left int
	one  []byte
	part []byte
	end  []byte
}

func (l *long) Read(p []byte) (int, error) {
	for len(l.part) == 0 {
		switch {
		case l.left > 0:
			l.left--
			l.part = l.one
		case l.end != nil:
			l.part, l.end = l.end, nil
		default:
			return 0, io.EOF
		}
	}
	n := copy(p, l.part)
	l.part = l.part[n:]
	return n, nil
}

func (l *long) Stat() (fs.FileInfo, error) { return nil, fs.ErrInvalid }
func (l *long) Close() error               { return nil }
func (l *long) ModTime() time.Time         { return time.Time{} }

type onlyFile struct{ *long }

func (o onlyFile) Open(name string) (fs.File, error) {
	if name != "benchmarks.json" {
		return nil, fs.ErrNotExist
	}
	return o.long, nil
}

// A hundred megabytes of requests need no more than their numbers.
func TestMemory(t *testing.T) {
	const requests = 20_000
	text := sample(t, "v0.7.json")
	head, rest, ok := strings.Cut(text, `"requests": {"successful": [`)
	require.True(t, ok)
	head = strings.Replace(head, `"request_totals": {"successful": 5`, `"request_totals": {"successful": 20001`, 1)
	one := `{"request_args": "` + strings.Repeat("some prompt ",
		400) + `", "info": {"error": null}, "request_start_time": 1.5, "request_latency": 0.5,
		"time_to_first_token_ms": 50.0, "prompt_tokens": 100, "output_tokens": 10}`
	_, end, ok := strings.Cut(rest, `], "errored"`)
	require.True(t, ok)
	l := &long{left: requests, one: []byte(one + ","), part: []byte(head + `"requests": {"successful": [`),
		end: []byte(one + `], "errored"` + end)}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p, err := guidellm.Parser{}.Parse(onlyFile{l})
	require.NoError(t, err)
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Len(t, p.Samples.Start, requests+1)
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(16<<20), "of 100 MB")
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"v0.3.json", "v0.7.json"} {
		text := sample(f, name)
		f.Add([]byte(text))
		f.Add([]byte(text[:len(text)-3000]))
	}
	f.Add([]byte(`{"benchmarks":[{"metrics":{"request_totals":{"successful":1e300},"request_latency":{"successful":{"mean":1e308,"count":-1,"percentiles":{"p1":0,"p999999":1}}}},"duration":-Infinity}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := guidellm.Parser{}.Parse(fstest.MapFS{"benchmarks.json": {Data: data}})
		require.Equal(t, err == nil, p.Metrics != nil)
		if err != nil {
			return
		}
		r := &result.Result{RunID: "x", Status: result.Completed}
		r.Merge(p)
		r.Validity = validity.Judge(r, validity.Evidence{Samples: p.Samples})
		_, err = resulttest.Marshal(r)
		require.NoError(t, err, "whatever was read can be written")
	})
}
