package vllmserve_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"

	"github.com/profllm/profllm/pkg/bench/vllmserve"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/result/resulttest"
	"github.com/profllm/profllm/pkg/validity"
)

// files makes a folder of name and text in turn.
func files(nameAndText ...string) fstest.MapFS {
	out := fstest.MapFS{}
	for i := 0; i < len(nameAndText); i += 2 {
		out[nameAndText[i]] = &fstest.MapFile{Data: []byte(nameAndText[i+1])}
	}
	return out
}

func sample(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(path.Join("testdata", name))
	require.NoError(t, err)
	return string(data)
}

func kinds(part result.Part) []result.WarningKind {
	var all []result.WarningKind
	for _, w := range part.Warnings {
		all = append(all, w.Kind)
	}
	return all
}

// covers: LBEN-1, SCH-7, SCH-8, SCH-9, SCH-10, SCH-11, SCH-12
func TestEveryEra(t *testing.T) {
	type want struct {
		completed, failed int
		derived           bool // failed is ours
		in, out           int64
		throughput        float64 // output tokens per s, 0 for none
		medianTTFT        float64 // ms, 0 for none
		p99TPOT           float64 // ms, 0 for none
		nTPOT             int     // 0 if the client does not say
		unknown           int
		samples           bool
		warnings          []result.WarningKind
	}
	for file, w := range map[string]want{
		"composed/serve-v0.6.json":            {6, 0, true, 173, 43, 208.80577663609037, 80.369, 13.655392857142855, 6, 1, true, nil},
		"composed/serve-v0.10.json":           {64, 0, true, 32788, 8122, 702.6301048711333, 148.2035, 17.686427666666663, 0, 2, false, nil},
		"composed/sweep-run.json":             {20, 0, false, 5120, 1280, 314.166478289501, 66.63, 12.093649206349209, 0, 5, false, nil},
		"composed/serve-latest.json":          {62, 2, false, 63488, 7898, 644.2227340150502, 161.984, 8.888854698817218, 0, 3, true, nil},
		"composed/serve-latest-detailed.json": {5, 0, false, 120, 38, 13.883854976558208, 56.498, 10.726093333333335, 5, 0, true, nil},
		"composed/serve-latest-pooling.json":  {12, 0, true, 1307, 0, 0, 0, 0, 0, 0, true, nil},
		"composed/serve-appended.json.txt": {64, 0, true, 32788, 8122, 879.004329004329, 148.2035, 17.686427666666663, 0, 2, false,
			[]result.WarningKind{result.Appended}},
		"real/serve.json":             {64, 0, false, 4157, 2048, 591.8271641635984, 18.79103600003873, 9.241502155487433, 0, 0, true, nil},
		"real/serve-chat.json":        {32, 0, false, 2112, 1024, 794.6836945983033, 59.818971000140664, 10.92953472193497, 0, 0, true, nil},
		"real/serve-detailed.json":    {32, 0, false, 2048, 1024, 606.6059169914779, 28.68818199999623, 15.08943972031639, 32, 0, true, nil},
		"real/serve-rust-0.33.0.json": {128, 0, false, 8192, 8192, 1559.612922928006, 51.9609785, 20.02409560968254, 0, 0, false, nil},
		"real/sweep-run.json":         {16, 0, false, 521, 256, 226.03261689863456, 169.83032200005255, 0.005740413319775446, 0, 3, true, nil},
		"real/serve-enginedead.json": {0, 64, false, 0, 0, 0, 0, 0, 0, 0, true,
			[]result.WarningKind{result.EmptySample, result.EmptySample, result.EmptySample, result.EmptySample}},
	} {
		t.Run(path.Base(file), func(t *testing.T) {
			part, err := vllmserve.Parser{File: file}.Parse(os.DirFS("testdata"))
			require.NoError(t, err)
			m := part.Metrics
			require.Equal(t, w.completed, *m.CompletedRequests)
			require.Equal(t, w.failed, *m.FailedRequests)
			require.Equal(t, w.derived, len(m.Derived) == 1 && m.Derived[0] == "failed_requests")
			require.Equal(t, w.in, *m.TotalInputTokens)
			if w.out == 0 && w.completed > 0 {
				require.Nil(t, m.TotalOutputTokens)
				require.Nil(t, m.OutputThroughput)
			} else {
				require.Equal(t, w.out, *m.TotalOutputTokens)
				require.Equal(t, w.throughput, *m.OutputThroughput)
			}
			median, ok := m.Latency[result.TTFT].Percentile(50)
			require.Equal(t, w.medianTTFT != 0, ok)
			require.Equal(t, w.medianTTFT, median)
			p99, ok := m.Latency[result.TPOT].Percentile(99)
			require.Equal(t, w.p99TPOT != 0, ok)
			require.Equal(t, w.p99TPOT, p99)
			if ok {
				require.Equal(t, w.completed, *m.Latency[result.TTFT].N)
			}
			if n := m.Latency[result.TPOT].N; w.nTPOT == 0 {
				require.Nil(t, n)
			} else {
				require.Equal(t, w.nTPOT, *n)
			}
			require.Equal(t, w.unknown, part.UnknownKeys)
			require.Equal(t, w.samples, part.Samples != nil)
			require.Equal(t, w.warnings, kinds(part))
			require.Equal(t, file, m.Source)
			require.False(t, m.FromLog)
		})
	}
}

func TestDetails(t *testing.T) {
	part, err := vllmserve.Parser{File: "serve-latest.json"}.Parse(os.DirFS("testdata/composed"))
	require.NoError(t, err)
	m := part.Metrics
	require.Equal(t, 4.241527243451837, *m.RequestGoodput)
	require.Equal(t, 2.3616636528028936, *m.AcceptanceLength)
	require.Len(t, m.PerPosition, 3)
	require.Equal(t, 379.0, *m.MaxOutputTokensPerS)
	require.Equal(t, 8, *m.MaxConcurrency)
	require.Equal(t, 62, *m.Latency[result.ClientQueue].N)
	p95, ok := m.Latency[result.E2ELIncludesQueue].Percentile(95)
	require.True(t, ok)
	require.Equal(t, 1575.2755000000002, p95)
	require.Equal(t, "openai-chat", part.Benchmark.Backend)
	require.Equal(t, "Qwen/Qwen3-32B", part.Model)
	require.Equal(t, result.Rate(6), *part.Benchmark.RequestRate)
	total, ok := part.Samples.TotalLatency()
	require.True(t, ok)
	require.InDelta(t, 62*1.146942693548387, total, 1e-9, "the two failed requests have no latency")

	part, err = vllmserve.Parser{File: "serve-rust-0.33.0.json"}.Parse(os.DirFS("testdata/real"))
	require.NoError(t, err)
	require.Equal(t, 98, *part.Metrics.SteadyState.RequestsStarted)
	require.Equal(t, 1554.6949206526433, *part.Metrics.SteadyState.OutputThroughput)
	require.Contains(t, part.Metrics.SteadyState.Warning, "may not be representative")
	require.True(t, math.IsInf(float64(*part.Benchmark.RequestRate), 1))

	part, err = vllmserve.Parser{File: "serve-detailed.json"}.Parse(os.DirFS("testdata/real"))
	require.NoError(t, err)
	gaps, ok := part.Samples.Gaps()
	require.True(t, ok)
	require.Equal(t, 992, gaps)
	require.Equal(t, 992, *part.Metrics.Latency[result.ITL].N)
}

// The console text of a run must give the numbers of its file, rounded.
// covers: PL-D15
func TestLogAgreesWithFile(t *testing.T) {
	for log, file := range map[string]string{
		"composed/serve-v0.10.log":   "composed/serve-v0.10.json",
		"composed/serve-latest.log":  "composed/serve-latest.json",
		"real/serve-bench.txt":       "real/serve-detailed.json",
		"real/serve-chat.txt":        "real/serve-chat.json",
		"real/serve-rust-0.33.0.txt": "real/serve-rust-0.33.0.json",
	} {
		t.Run(path.Base(log), func(t *testing.T) {
			want, err := vllmserve.Parser{File: file}.Parse(os.DirFS("testdata"))
			require.NoError(t, err)
			got, err := vllmserve.Parser{File: "none/none.json", Log: log}.Parse(os.DirFS("testdata"))
			require.NoError(t, err)
			require.True(t, got.Metrics.FromLog)
			require.Equal(t, []result.WarningKind{result.Recovered}, kinds(got))
			require.Equal(t, want.Metrics.Counts.CompletedRequests, got.Metrics.CompletedRequests)
			require.Equal(t, want.Metrics.TotalInputTokens, got.Metrics.TotalInputTokens)
			require.Equal(t, want.Metrics.TotalOutputTokens, got.Metrics.TotalOutputTokens)
			require.InDelta(t, *want.Metrics.Duration, *got.Metrics.Duration, 0.00501)
			require.InDelta(t, *want.Metrics.OutputThroughput, *got.Metrics.OutputThroughput, 0.00501)
			require.Equal(t, len(want.Metrics.PerPosition), len(got.Metrics.PerPosition))
			compared := 0
			for family, d := range got.Metrics.Latency {
				w := want.Metrics.Latency[family]
				for p, v := range d.Percentiles {
					exact, ok := w.Percentile(p)
					require.True(t, ok, "%s p%g", family, p)
					require.InDelta(t, exact, v, 0.00501, "%s p%g", family, p)
					compared++
				}
				require.InDelta(t, *w.Mean, *d.Mean, 0.00501)
				require.Nil(t, d.Std, "the console never prints it")
			}
			require.GreaterOrEqual(t, compared, 3)
		})
	}
}

func TestLogTakesTheLastTable(t *testing.T) {
	text := sample(t, "composed/serve-v0.10.log") + "next\n" + sample(t, "composed/serve-latest.log")
	part, err := vllmserve.Parser{}.Parse(files("vllm-bench.log", text))
	require.NoError(t, err)
	require.Equal(t, 62, *part.Metrics.CompletedRequests)
	require.Equal(t, 2, *part.Metrics.FailedRequests)
}

func TestLogWithTerminalCodes(t *testing.T) {
	text := "\x1b[32m100%|##|\r============ Serving Benchmark Result ============\x1b[0m\r\n" +
		"\x1b[1mSuccessful requests:\x1b[0m                     7         \r\nBenchmark duration (s):                  2.00      \r\n"
	part, err := vllmserve.Parser{}.Parse(files("vllm-bench.log", text))
	require.NoError(t, err)
	require.Equal(t, 7, *part.Metrics.CompletedRequests)
	require.Equal(t, []result.WarningKind{result.Recovered, result.Truncated}, kinds(part))
}

const small = `{"num_prompts": 4, "duration": 2.0, "completed": 3, "failed": 1, "total_input_tokens": 30, "total_output_tokens": 12,
 "request_throughput": 1.5, "mean_ttft_ms": 10.5}`

const smallLog = "============ Serving Benchmark Result ============\nSuccessful requests:    9   \nBenchmark duration (s):   3.00 \n" +
	"==================================================\n"

func TestFallbacks(t *testing.T) {
	tests := []struct {
		name      string
		out       fstest.MapFS
		completed int
		source    string
		warnings  []result.WarningKind
	}{
		{"file", files("vllm-bench.json", small, "vllm-bench.log", smallLog), 3, "vllm-bench.json", nil},
		{"log", files("vllm-bench.log", smallLog), 9, "vllm-bench.log", []result.WarningKind{result.Recovered}},
		{"truncated", files("vllm-bench.json", small[:150], "vllm-bench.log", smallLog), 9, "vllm-bench.log",
			[]result.WarningKind{result.Truncated, result.Recovered}},
		{"empty", files("vllm-bench.json", "", "vllm-bench.log", smallLog), 9, "vllm-bench.log",
			[]result.WarningKind{result.Truncated, result.Recovered}},
		{"second document truncated", files("vllm-bench.json", small+"\n"+small[:90], "vllm-bench.log", smallLog), 9, "vllm-bench.log",
			[]result.WarningKind{result.Truncated, result.Recovered}},
		{"no JSON", files("vllm-bench.json", "Traceback", "vllm-bench.log", smallLog), 9, "vllm-bench.log",
			[]result.WarningKind{result.BadValue, result.Recovered}},
		{"another object", files("vllm-bench.json", `{"a": 1}`, "vllm-bench.log", smallLog), 9, "vllm-bench.log",
			[]result.WarningKind{result.BadValue, result.Recovered}},
		{"other name", files("openai-infqps.json", small, "a.pytorch.json", small, "b.json", `{"x": 1}`, "vllm-bench.log", smallLog), 3,
			"openai-infqps.json", []result.WarningKind{result.OtherFile}},
		{"appended", files("vllm-bench.json", strings.Replace(small, "3,", "2,", 1)+"\n"+small), 3, "vllm-bench.json",
			[]result.WarningKind{result.Appended}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			part, err := vllmserve.Parser{}.Parse(tt.out)
			require.NoError(t, err)
			require.Equal(t, tt.completed, *part.Metrics.CompletedRequests)
			require.Equal(t, tt.source, part.Metrics.Source)
			require.Equal(t, tt.warnings, kinds(part))
		})
	}
}

func TestNothingThere(t *testing.T) {
	for name, out := range map[string]fstest.MapFS{
		"empty folder": {},
		"useless log":  files("vllm-bench.log", "Starting main benchmark run...\n"),
		"table begun":  files("vllm-bench.log", strings.SplitAfter(smallLog, "\n")[0]),
		"truncated":    files("vllm-bench.json", `{"comp`),
	} {
		t.Run(name, func(t *testing.T) {
			part, err := vllmserve.Parser{}.Parse(out)
			require.ErrorIs(t, err, fs.ErrNotExist)
			require.ErrorContains(t, err, "vllm-bench")
			require.Nil(t, part.Metrics)
		})
	}
}

func pack(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := xz.NewWriter(&b)
	require.NoError(t, err)
	_, err = w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

func TestCompressed(t *testing.T) {
	out := fstest.MapFS{"vllm-bench.json.xz": {Data: pack(t, sample(t, "real/serve.json"))},
		"vllm-bench.log.xz": {Data: pack(t, smallLog)}}
	part, err := vllmserve.Parser{}.Parse(out)
	require.NoError(t, err)
	require.Equal(t, 64, *part.Metrics.CompletedRequests)
	require.Equal(t, "vllm-bench.json.xz", part.Metrics.Source)

	whole := out["vllm-bench.json.xz"].Data
	out["vllm-bench.json.xz"] = &fstest.MapFile{Data: whole[:len(whole)/2]}
	part, err = vllmserve.Parser{}.Parse(out)
	require.NoError(t, err)
	require.Equal(t, "vllm-bench.log.xz", part.Metrics.Source)
	require.Equal(t, []result.WarningKind{result.Truncated, result.Recovered}, kinds(part))
}

func TestBadValuesAreAbsentAndHaveAPosition(t *testing.T) {
	tests := []struct {
		name, from, to string
		kind           result.WarningKind
		line, col      int
		check          func(*testing.T, *result.Metrics)
	}{
		{"NaN", `10.5`, `NaN`, result.NotFinite, 2, 45, func(t *testing.T, m *result.Metrics) { require.Nil(t, m.Latency[result.TTFT].Mean) }},
		{"infinity", `1.5`, `Infinity`, result.NotFinite, 2, 24, func(t *testing.T, m *result.Metrics) { require.Nil(t, m.RequestThroughput) }},
		{"minus infinity", `1.5`, `-Infinity`, result.NotFinite, 2, 24, func(t *testing.T, m *result.Metrics) { require.Nil(t, m.RequestThroughput) }},
		{"text", `1.5`, `"fast"`, result.NoNumber, 2, 24, func(t *testing.T, m *result.Metrics) { require.Nil(t, m.RequestThroughput) }},
		{"list", `1.5`, `[1.5]`, result.NoNumber, 2, 24, func(t *testing.T, m *result.Metrics) { require.Nil(t, m.RequestThroughput) }},
		{"fraction", `12,`, `12.5,`, result.NoNumber, 1, 115, func(t *testing.T, m *result.Metrics) { require.Nil(t, m.TotalOutputTokens) }},
		{"bare word", `1.5`, `fast`, result.NoNumber, 2, 24, func(t *testing.T, m *result.Metrics) { require.Nil(t, m.RequestThroughput) }},
		{"hexadecimal", `1.5`, `0x10`, result.NoNumber, 2, 24, func(t *testing.T, m *result.Metrics) { require.Nil(t, m.RequestThroughput) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.Replace(small, tt.from, tt.to, 1)
			part, err := vllmserve.Parser{}.Parse(files("vllm-bench.json", text))
			require.NoError(t, err)
			require.Len(t, part.Warnings, 1)
			w := part.Warnings[0]
			require.Equal(t, tt.kind, w.Kind)
			require.Equal(t, fmt.Sprintf("%d:%d", tt.line, tt.col), fmt.Sprintf("%d:%d", w.Line, w.Col))
			require.NotEmpty(t, w.Key)
			tt.check(t, part.Metrics)
			require.Equal(t, 3, *part.Metrics.CompletedRequests, "the rest is read")
		})
	}
}

func TestTokensInsideTextAreText(t *testing.T) {
	text := strings.Replace(small, `{`,
		`{"burstiness": Infinity, "label": "NaN, Infinity }\" {", "generated_texts": ["Infinity]", "\\"],`, 1)
	part, err := vllmserve.Parser{}.Parse(files("vllm-bench.json", text))
	require.NoError(t, err)
	require.Empty(t, part.Warnings)
	require.True(t, math.IsInf(float64(*part.Benchmark.Burstiness), 1))
	require.Equal(t, 3, *part.Metrics.CompletedRequests)
}

func TestNullIsAbsent(t *testing.T) {
	part, err := vllmserve.Parser{}.Parse(files("vllm-bench.json", strings.Replace(small, "1.5", "null", 1)))
	require.NoError(t, err)
	require.Empty(t, part.Warnings)
	require.Nil(t, part.Metrics.RequestThroughput)
}

// covers: PL-V3
func TestFailuresAreDerivedOnlyIfNotReported(t *testing.T) {
	part, err := vllmserve.Parser{}.Parse(files("vllm-bench.json", strings.Replace(small, `"failed": 1, `, "", 1)))
	require.NoError(t, err)
	require.Equal(t, 1, *part.Metrics.FailedRequests)
	require.Equal(t, []string{"failed_requests"}, part.Metrics.Derived)

	part, err = vllmserve.Parser{}.Parse(files("vllm-bench.json",
		strings.Replace(strings.Replace(small, `"failed": 1, `, "", 1), `"num_prompts": 4, `, "", 1)))
	require.NoError(t, err)
	require.Nil(t, part.Metrics.FailedRequests)
}

// covers: PL-V8
func TestContradictionsBetweenSumsAndLists(t *testing.T) {
	const lists = `"output_lens": [4, 4, 4, 0], "errors": ["", "", "", "refused"], "ttfts": [0.01, 0.01, 0.01, 0]`
	with := func(text string) result.Part {
		t.Helper()
		part, err := vllmserve.Parser{}.Parse(files("vllm-bench.json", text))
		require.NoError(t, err)
		return part
	}
	detailed := strings.Replace(small, "{", "{"+lists+",", 1)
	require.Empty(t, with(detailed).Warnings)
	for name, change := range map[string][2]string{
		"completed":           {`"completed": 3`, `"completed": 2`},
		"failed":              {`"failed": 1`, `"failed": 0`},
		"total_output_tokens": {`"total_output_tokens": 12`, `"total_output_tokens": 13`},
		"samples":             {`[0.01, 0.01, 0.01, 0]`, `[0.01]`},
	} {
		part := with(strings.Replace(detailed, change[0], change[1], 1))
		require.Len(t, part.Warnings, 1, name)
		require.Equal(t, result.Contradicts, part.Warnings[0].Kind)
		require.Equal(t, name, part.Warnings[0].Key)
	}
}

// covers: PL-V10
func TestOneTokenAnswersHaveNoTPOT(t *testing.T) {
	text := strings.Replace(small, `"total_output_tokens": 12`,
		`"total_output_tokens": 3, "mean_tpot_ms": 0.0, "median_tpot_ms": 0.0`, 1)
	part, err := vllmserve.Parser{}.Parse(files("vllm-bench.json", text))
	require.NoError(t, err)
	require.NotContains(t, part.Metrics.Latency, result.TPOT)
	require.Equal(t, []result.WarningKind{result.EmptySample}, kinds(part))
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{
		"composed/serve-v0.6.json", "composed/serve-latest-detailed.json", "composed/serve-appended.json.txt", "real/serve-rust-0.33.0.json",
	} {
		f.Add([]byte(sample(f, name)), []byte(""))
	}
	f.Add([]byte(small[:90]), []byte(sample(f, "composed/serve-latest.log")))
	f.Add([]byte(`{"duration": 1, "completed": 1, "itls": [[], [0.1, NaN]], "p99.9_ttft_ms": 1e999}`), []byte(smallLog))
	f.Fuzz(func(t *testing.T, file, log []byte) {
		part, err := vllmserve.Parser{}.Parse(fstest.MapFS{"vllm-bench.json": {Data: file},
			"vllm-bench.log": {Data: log}})
		require.Equal(t, err == nil, part.Metrics != nil)
		if err != nil {
			return
		}
		require.NotNil(t, part.Metrics.CompletedRequests)
		r := &result.Result{RunID: "x", Status: result.Completed}
		r.Merge(part)
		r.Validity = validity.Judge(r, validity.Evidence{Samples: part.Samples})
		_, err = resulttest.Marshal(r)
		require.NoError(t, err, "whatever was read can be written")
	})
}

func BenchmarkParse(b *testing.B) {
	for _, name := range []string{"real/serve.json", "real/serve-detailed.json", "real/serve-enginedead.json"} {
		b.Run(path.Base(name), func(b *testing.B) {
			text := sample(b, name)
			out := files("vllm-bench.json", text)
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := (vllmserve.Parser{}).Parse(out); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// covers: PL-V13
func TestWhatTheClientSaysOfItself(t *testing.T) {
	part, err := vllmserve.Read("r.json",
		[]byte(`{"completed": 3, "failed": 1, "duration": 2.0, "profllm": {"client": "profllm bench serve", "loops": 1,
		"retried": 2, "retried_requests": [0, 3], "usage_missing": 1, "warmups_failed": 4}}`))
	require.NoError(t, err)
	c := part.Metrics.Client
	require.Equal(t, []int{1, 2, 1, 4}, []int{*c.Threads, *c.Resent, *c.UsageMissing, *c.WarmUpsFailed})

	part, err = vllmserve.Read("r.json",
		[]byte(`{"completed": 3, "duration": 2.0, "profllm": {"retried": "no", "usage_missing": 1.5}}`))
	require.NoError(t, err)
	require.Nil(t, part.Metrics.Client.Resent)
	require.Nil(t, part.Metrics.Client.UsageMissing)
	require.Nil(t, part.Metrics.Client.WarmUpsFailed, "an older client did not count them")

	part, err = vllmserve.Read("r.json", []byte(`{"completed": 3, "duration": 2.0, "profllm": {"warnings": ["3 answers: odd"]}}`))
	require.NoError(t, err)
	require.Equal(t, []result.Warning{{Kind: result.Lenient, File: "r.json", Line: 1, Col: 59, Key: "warnings", Text: "3 answers: odd"}}, part.Warnings)
}

// num_prompts of a load with several inputs in a request counts inputs, which are no requests.
func TestInputsAreNoRequests(t *testing.T) {
	parse := func(sequences string) *result.Metrics {
		part, err := vllmserve.Parser{File: "r.json"}.Parse(files("r.json", `{"backend": "openai-embeddings", "num_prompts": 40, "duration": 1.0,
			"completed": 5, "total_input_tokens": 100, "total_input_sequences": `+sequences+`, "mean_e2el_ms": 3.0}`))
		require.NoError(t, err)
		return part.Metrics
	}
	m := parse("40")
	require.Nil(t, m.NumPrompts)
	require.Nil(t, m.FailedRequests, "35 requests are not missing")
	m = parse("5")
	require.Equal(t, 40, *m.NumPrompts)
	require.Equal(t, 35, *m.FailedRequests)
}

func TestSteadyPartOfOurClient(t *testing.T) {
	part, err := vllmserve.Read("r.json", []byte(`{"completed": 3, "duration": 2.0, "profllm": {"client": "profllm bench serve",
		"steady": {"rule": "concurrency", "level": 2, "begin_s": 0.5, "end_s": 1.75, "share": 0.625, "sent": 4, "completed": 3,
		"request_throughput": 2.4, "output_throughput": 9, "total_token_throughput": 11.5, "latencies": {"ttft": {"n": 4}}}}}`))
	require.NoError(t, err)
	require.Empty(t, part.Warnings)
	require.Equal(t, &result.SteadyState{Duration: new(1.25), RequestsStarted: new(4), RequestsCompleted: new(3),
		RequestThroughput: new(2.4), OutputThroughput: new(9.0), TotalTokenThroughput: new(11.5)}, part.Metrics.SteadyState)

	part, err = vllmserve.Read("r.json", []byte(`{"completed": 3, "duration": 2.0, "profllm": {"client": "profllm bench serve",
		"steady": {"none": "the rate rises during the run"}}}`))
	require.NoError(t, err)
	require.Nil(t, part.Metrics.SteadyState)
}
