package sglang_test

import (
	"bytes"
	"io/fs"
	"math"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"

	"fmt"

	"github.com/profllm/profllm/pkg/bench/sglang"
	"github.com/profllm/profllm/pkg/result"
)

func parse(t *testing.T, text string) (result.Part, error) {
	t.Helper()
	return sglang.Parser{}.Parse(fstest.MapFS{sglang.DefaultFile: {Data: []byte(text)}})
}

func sample(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	return data
}

func kinds(p result.Part) (list []result.WarningKind) {
	for _, w := range p.Warnings {
		list = append(list, w.Kind)
	}
	return list
}

func TestDetailed(t *testing.T) {
	p, err := sglang.Parser{}.Parse(os.DirFS("testdata"))
	require.NoError(t, err)
	require.Empty(t, p.Warnings)
	require.Zero(t, p.UnknownKeys)
	m := p.Metrics
	require.Equal(t, "sglang-bench", p.Benchmark.Kind)
	require.Equal(t, "sglang", p.Benchmark.Backend)
	require.Equal(t, "random-ids", p.Benchmark.DatasetName)
	require.True(t, p.Simulated, "the client keeps what the server says of itself")
	require.True(t, math.IsInf(float64(*p.Benchmark.RequestRate), 1), "the bare word Infinity")
	require.Equal(t, []int{8, 5, 3, 1},
		[]int{*m.NumPrompts, *m.CompletedRequests, *m.FailedRequests, *m.MaxConcurrency})
	require.Equal(t, []string{"num_prompts"}, m.Derived, "the failures are the client's own list")
	require.InDelta(t, 0.9767156585843327, *m.MeanConcurrentRequests, 0,
		"concurrency is measured, max_concurrency asked for")
	require.InDelta(t, 0.306916730837472, *m.Latency[result.TTFT].Std, 0)
	require.InDelta(t, 22.799775597377447, m.Latency[result.ITL].Percentiles[99], 0)
	require.InDelta(t, 21.17151399943395, m.Latency[result.ITL].Percentiles[95], 0)
	require.Equal(t, []int64{80, 20}, []int64{*m.TotalInputTokens, *m.TotalOutputTokens})
	require.InDelta(t, 5 / *m.Duration, *m.RequestThroughput, 1e-9)
	require.Nil(t, m.TotalTokenThroughput, "0.5.5 does not say it")
	require.Equal(t, 5, *m.Latency[result.TPOT].N)
	require.Equal(t, 15, *m.Latency[result.ITL].N)
	p99, ok := m.Latency[result.E2EL].Percentile(99)
	require.True(t, ok, "e2e_latency is our e2el")
	require.InDelta(t, 112.331689435523, p99, 1e-9)
	const failed = "Internal Server Error"
	require.Equal(t, []string{"", failed, failed, "", failed, "", "", ""}, p.Samples.Errors)
	require.Len(t, p.Samples.InputLen, 8)
	require.InDelta(t, 0.05198443400149699, p.Samples.TTFT[0], 0)
	require.Zero(t, p.Samples.TTFT[1])
}

// The client knows more statistics since 0.5.14, and its lengths of single prompts are the server's
// count since 0.5.21: they and the total are of two tokenizers.
func TestSuccessor(t *testing.T) {
	p, err := sglang.Parser{File: "0.5.23.jsonl"}.Parse(os.DirFS("testdata"))
	require.NoError(t, err)
	require.Empty(t, p.Warnings)
	require.Zero(t, p.UnknownKeys)
	m := p.Metrics
	require.Equal(t, []int{8, 5, 3, 2},
		[]int{*m.NumPrompts, *m.CompletedRequests, *m.FailedRequests, *m.MaxConcurrency})
	require.EqualValues(t, 80, *m.TotalInputTokens)
	require.Nil(t, p.Samples.InputLen)
	require.Len(t, p.Samples.OutputLen, 8)
	require.InDelta(t, 14.682554537364537, *m.RequestGoodput, 0)
	require.InDelta(t, 293.6510907472907, *m.TotalTokenThroughput, 0)
	require.InDelta(t, 20, *m.MaxOutputTokensPerS, 0)
	for _, f := range []result.Family{result.TTFT, result.TPOT, result.ITL, result.E2EL} {
		for _, rank := range []float64{50, 90, 95, 99} {
			_, ok := m.Latency[f].Percentile(rank)
			require.True(t, ok, "p%v of %s", rank, f)
		}
	}
}

func TestWithoutDetails(t *testing.T) {
	p, err := sglang.Parser{File: "0.4.3.jsonl"}.Parse(os.DirFS("testdata"))
	require.NoError(t, err)
	require.Empty(t, p.Warnings)
	require.Zero(t, p.UnknownKeys)
	require.Nil(t, p.Samples)
	require.Nil(t, p.Metrics.NumPrompts, "the client does not say, and nothing was counted")
	require.Nil(t, p.Metrics.FailedRequests)
	require.Nil(t, p.Metrics.AcceptanceLength)
	p, err = parse(t, `{"completed": 1, "duration": 2.0, "accept_length": 2.5}`)
	require.NoError(t, err)
	require.Equal(t, 2.5, *p.Metrics.AcceptanceLength)
}

// The first line with a completed request, in a file of several and cut-off ones.
func TestAppended(t *testing.T) {
	p, err := sglang.Parser{File: "appended.jsonl"}.Parse(os.DirFS("testdata"))
	require.NoError(t, err)
	require.Equal(t, []result.WarningKind{result.Truncated, result.Appended}, kinds(p))
	require.Equal(t, 4, p.Warnings[0].Line)
	require.Equal(t, 713, p.Warnings[0].Col, "where the text ends, which holds bare words")
	require.Equal(t, 2, p.Warnings[1].Line)
	require.Contains(t, p.Warnings[1].Text, "3 results in one file, the one in line 2 was used")
	require.Equal(t, 3, *p.Metrics.CompletedRequests)
}

func TestNothingCompleted(t *testing.T) {
	first, _, _ := strings.Cut(string(sample(t, "appended.jsonl")), "\n")
	p, err := parse(t, first)
	require.NoError(t, err, "the record shall say that nothing succeeded")
	require.Equal(t, 0, *p.Metrics.CompletedRequests)
	require.Equal(t, 4, *p.Metrics.FailedRequests)
	require.Empty(t, p.Metrics.Latency, "statistics over nothing")
	require.Contains(t, kinds(p), result.NotFinite)
	require.Contains(t, kinds(p), result.EmptySample)
	var col int
	for _, w := range p.Warnings {
		if w.Key == "median_e2e_latency_ms" {
			col = w.Col
		}
	}
	require.Equal(t, "NaN", first[col-1:col+2], "the column of the value, behind other bare words")
}

func TestOddLines(t *testing.T) {
	const good = `{"completed": 1, "duration": 2.0}`
	for _, c := range []struct {
		name, text string
		want       []result.WarningKind
		err        bool
	}{
		{"one", good, nil, false},
		{"blank lines", "\n\r\n" + good + "\n\n", nil, false},
		{"text before", "Traceback\n" + good, []result.WarningKind{result.BadValue}, false},
		{"a list", "[1]\n" + good, []result.WarningKind{result.BadValue}, false},
		{"cut before the end", `{"completed": 1, "dur` + "\n" + good, []result.WarningKind{result.BadValue}, false},
		{"cut at the end", good + "\n" + `{"completed": 1, "duration": 2.`, []result.WarningKind{result.Truncated}, false},
		{"cut in a string", good + "\n" + `{"comp`, []result.WarningKind{result.Truncated}, false},
		{"two in a line", good + good, []result.WarningKind{result.BadValue}, true},
		{"no duration", `{"completed": 1}`, []result.WarningKind{result.BadValue}, true},
		{"only cut", `{"completed": 1, "duration": 2.0`, []result.WarningKind{result.Truncated}, true},
		{"nothing", "", nil, true},
		{"bad values", `{"completed": 1, "duration": 2, "max_concurrency": 1.5, "mean_ttft_ms": "x", "ttfts": [1, "NaN"], "backend": 3, "request_rate": []}`,
			[]result.WarningKind{result.NoNumber, result.NoNumber, result.NotFinite, result.BadValue, result.BadValue},
			false},
		{"a trace", `{"completed": 1, "duration": 2, "request_rate": "trace", "new_key": {"a": NaN}}`, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := parse(t, c.text)
			require.Equal(t, c.err, err != nil, "%v", err)
			if err != nil {
				require.ErrorIs(t, err, fs.ErrNotExist)
			}
			require.Equal(t, c.want, kinds(p), "%v", p.Warnings)
			for _, w := range p.Warnings {
				require.Positive(t, w.Line)
			}
		})
	}
}

// What was measured against what was asked for, and against itself.
func TestContradictions(t *testing.T) {
	for name, c := range map[string]struct {
		dataset        string
		in, out, ratio float64 // asked
		input, output  int     // of 200 requests
		concurrency    float64
		want           int
	}{
		"as asked":                  {"random", 16, 4, 1, 3200, 800, 2, 0},
		"longer answers asked":      {"random", 16, 40, 1, 3200, 800, 2, 1},
		"answers end by themselves": {"random", 16, 40, 1, 3200, 801, 2, 0},
		"longer than asked":         {"random", 16, 4, 1, 3200, 20000, 2, 1},
		"longer prompts asked":      {"random", 1600, 4, 1, 3200, 800, 2, 1},
		"a chat template":           {"random", 16, 4, 1, 8000, 800, 2, 0},
		"drawn lengths":             {"random", 1600, 4, 0, 160000, 400, 2, 0},
		"drawn lengths, too short":  {"random", 1600, 4, 0, 80000, 400, 2, 1},
		"another data set":          {"sharegpt", 1600, 40, 1, 3200, 800, 2, 0},
		"other concurrency":         {"random", 16, 4, 1, 3200, 800, 30, 1},
	} {
		t.Run(name, func(t *testing.T) {
			text := fmt.Sprintf(`{"dataset_name": %q, "random_input_len": %g, "random_output_len": %g, "random_range_ratio": %g, "completed": 200, "duration": 10,
				"total_input_tokens": %d, "total_output_tokens": %d, "mean_e2e_latency_ms": 100, "concurrency": %g`, c.dataset, c.in, c.out, c.ratio, c.input, c.output, c.concurrency)
			p, err := parse(t, strings.ReplaceAll(text, "\n", " ")+"}")
			require.NoError(t, err)
			require.Len(t, p.Warnings, c.want)
			for _, k := range kinds(p) {
				require.Equal(t, result.Contradicts, k)
			}
		})
	}
}

func TestCompressed(t *testing.T) {
	var b bytes.Buffer
	w, err := xz.NewWriter(&b)
	require.NoError(t, err)
	_, err = w.Write(sample(t, "0.4.3.jsonl"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	p, err := sglang.Parser{}.Parse(fstest.MapFS{sglang.DefaultFile + ".xz": {Data: b.Bytes()}})
	require.NoError(t, err)
	require.Equal(t, sglang.DefaultFile+".xz", p.Metrics.Source)
	_, err = sglang.Parser{}.Parse(fstest.MapFS{})
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{sglang.DefaultFile, "0.4.3.jsonl", "0.5.23.jsonl", "appended.jsonl"} {
		f.Add(sample(f, name))
	}
	f.Add([]byte(`{"completed": -Infinity, "duration": NaN, "x\"": "\\"}` + "\n{"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := sglang.Parser{}.Parse(fstest.MapFS{sglang.DefaultFile: {Data: data}})
		require.Equal(t, err == nil, p.Metrics != nil)
		if err != nil {
			require.ErrorIs(t, err, fs.ErrNotExist)
			return
		}
		require.NotNil(t, p.Metrics.CompletedRequests)
		lines := bytes.Count(data, []byte("\n")) + 1
		for _, w := range p.Warnings {
			require.LessOrEqual(t, w.Line, lines)
			require.LessOrEqual(t, w.Col, len(data)+1)
			require.GreaterOrEqual(t, w.Col, 0)
		}
		_, err = p.Metrics.MarshalJSON()
		require.NoError(t, err, "nothing without a place in JSON was kept")
	})
}
