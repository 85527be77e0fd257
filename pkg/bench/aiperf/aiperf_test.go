package aiperf_test

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/bench/aiperf"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/validity"
)

func parse(t *testing.T, name, text string) (result.Part, error) {
	t.Helper()
	return aiperf.Parser{Dir: "raw"}.Parse(fstest.MapFS{"raw/" + name: {Data: []byte(text)}})
}

func real(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	return string(data)
}

// What AIPerf 0.13.0 wrote against a real vLLM.
//
// covers: PL-I3
func TestRealJSON(t *testing.T) {
	p, err := parse(t, "profile_export_aiperf.json", real(t, "profile_export_aiperf.json"))
	require.NoError(t, err)
	m := p.Metrics
	require.Equal(t, 32, *m.CompletedRequests)
	require.Equal(t, 0, *m.FailedRequests)
	require.Equal(t, 32, *m.NumPrompts)
	require.Equal(t, 4, *m.MaxConcurrency)
	require.Equal(t, "tiny", p.Model)
	require.InDelta(t, 8.203024, *m.Duration, 1e-6, "the time of the rates: from start_time to end_time")
	require.Equal(t, int64(2048), *m.TotalInputTokens)
	require.Equal(t, int64(6144), *m.TotalOutputTokens)
	require.InDelta(t, 998.656, *m.TotalTokenThroughput, 1e-3)
	ttft := m.Latency[result.TTFT]
	require.Equal(t, 32, *ttft.N)
	require.InDelta(t, 167.1676, *ttft.Mean, 1e-4)
	require.InDelta(t, 67.5288, *ttft.Median, 1e-4)
	require.InDelta(t, 1606.36, ttft.Percentiles[99], 1e-2)
	require.InDelta(t, 4.1993, *m.Latency[result.TPOT].Mean, 1e-4, "its inter-token latency is that of a request")
	require.InDelta(t, 25.873, *m.Latency[result.ITL].Mean, 1e-3, "its inter-chunk latency lies between chunks")
	require.Equal(t, 992, *m.Latency[result.ITL].N)
	require.InDelta(t, 969.2312, *m.Latency[result.E2EL].Mean, 1e-4)
	require.Len(t, p.Warnings, 1)
	require.Equal(t, result.Retokenized, p.Warnings[0].Kind,
		"the tokenizer of the client finds six times what the server counted")
	require.Equal(t, int64(1024), *m.UsageOutputTokens)
	require.Positive(t, p.UnknownKeys)
}

// Which side counts the tokens decides what a difference is. What the client's own
// tokenizer finds contradicts nothing, but its rates of tokens are no others' rates.
//
// covers: PL-V7
func TestWhoCountsTheTokens(t *testing.T) {
	judge := func(text string) *result.Validity {
		p, err := parse(t, "profile_export_aiperf.json", text)
		require.NoError(t, err)
		r := &result.Result{}
		r.Merge(p)
		return validity.Judge(r, validity.Evidence{})
	}
	text := real(t, "profile_export_aiperf.json")
	own := judge(text)
	require.Equal(t, result.VerdictSuspect, own.Verdict, own.Words)
	require.Equal(t, result.Pass, own.Check("inconsistent").Outcome)
	require.Contains(t, own.Check("token-books").Detail,
		"6144 output tokens by the client's tokenizer, 1024 by the server's usage: +500.00 %")
	require.Equal(t, result.Pass, own.Check("itl-bundled").Outcome, "by the server's count a token came in each chunk")

	told := strings.Replace(text, `"streaming": true`, `"streaming": true, "use_server_token_count": true`, 1)
	require.NotEqual(t, text, told)
	require.Contains(t, judge(told).Words, "inconsistent")
	alike := strings.Replace(text, `"avg": 1024.0`, `"avg": 6140.0`, 1)
	require.NotEqual(t, text, alike)
	require.Equal(t, result.VerdictValid, judge(alike).Verdict)
}

// How requests arrive is in the phase.
func TestArrivals(t *testing.T) {
	for phase, want := range map[string]float64{`"type": "poisson"`: 1, `"type": "constant"`: math.Inf(1),
		`"type": "gamma", "smoothness": 0.25`: 0.25} {
		p, err := parse(t, "profile_export_aiperf.json",
			`{"request_count": {"unit": "requests", "avg": 3}, "input_config": {"phases": [{"kind": "profiling", "rate": 2, `+phase+`}]}}`)
		require.NoError(t, err)
		require.Equal(t, result.Drawn, p.Benchmark.Arrivals)
		require.InDelta(t, want, float64(*p.Benchmark.Burstiness), 0)
	}
}

// The CSV says the same, rounded, but not how large the samples were.
func TestRealCSV(t *testing.T) {
	want, err := parse(t, "profile_export_aiperf.json", real(t, "profile_export_aiperf.json"))
	require.NoError(t, err)
	for _, text := range []string{real(t, "profile_export_aiperf.csv"),
		strings.ReplaceAll(real(t, "profile_export_aiperf.csv"), "\r\n", "\n")} {
		got, err := parse(t, "profile_export_aiperf.csv", text)
		require.NoError(t, err)
		require.Equal(t, *want.Metrics.CompletedRequests, *got.Metrics.CompletedRequests)
		require.Equal(t, 0, *got.Metrics.FailedRequests)
		require.Equal(t, *want.Metrics.TotalOutputTokens, *got.Metrics.TotalOutputTokens)
		require.InDelta(t, *want.Metrics.Duration, *got.Metrics.Duration, 0.03, "the CSV has only the time of the requests")
		require.InDelta(t, *want.Metrics.OutputThroughput, *got.Metrics.OutputThroughput, 0.01)
		for family, d := range want.Metrics.Latency {
			require.InDelta(t, *d.Mean, *got.Metrics.Latency[family].Mean, 0.01, family)
			require.InDelta(t, d.Percentiles[99], got.Metrics.Latency[family].Percentiles[99], 0.01, family)
			require.Nil(t, got.Metrics.Latency[family].N)
		}
	}
}

// The two tables of a CSV are two tables: a scalar is the same under Value as under avg, as CloudAI's
// reader has it, columns go by their names, not their places, and telemetry of GPUs is no metric.
//
// covers: P-16
func TestTablesOfCSV(t *testing.T) {
	const statistics = "Metric,sum,avg,p99\nRequest Latency (ms),30,3,5\n"
	for name, text := range map[string]string{
		"two tables": statistics + "\nMetric,Value\nRequest Count,10\nRequest Throughput (requests/sec),2.5\n",
		"one table":  "Metric,avg,p99\nRequest Latency (ms),3,5\nRequest Count,10,\nRequest Throughput (requests/sec),2.5,\n",
		"telemetry": statistics + "\nMetric,Value\nRequest Count,10\nRequest Throughput (requests/sec),2.5\n\n\n" +
			"Endpoint,GPU_Index,GPU_Name,GPU_UUID,Metric,avg\nn1,0,H100,u,Request Count,99\n",
		"byte order mark": "\ufeff" + statistics + "\nMetric,Value\nRequest Count,10\nRequest Throughput (requests/sec),2.5\n",
	} {
		for _, ends := range []string{"\n", "\r\n"} {
			p, err := parse(t, "profile_export_aiperf.csv", strings.ReplaceAll(text, "\n", ends))
			require.NoError(t, err, name)
			require.Equal(t, 10, *p.Metrics.CompletedRequests, name)
			require.InDelta(t, 2.5, *p.Metrics.RequestThroughput, 1e-12, name)
			require.InDelta(t, 3, *p.Metrics.Latency[result.E2EL].Mean, 1e-12, name)
			require.InDelta(t, 5, p.Metrics.Latency[result.E2EL].Percentiles[99], 1e-12, name)
			require.Empty(t, p.Warnings, name)
		}
	}
}

// A load without streaming has no first token: its record lacks those latencies, and is no worse for it.
//
// covers: U-40
func TestWithoutStreaming(t *testing.T) {
	p, err := parse(t, "profile_export_aiperf.csv", "Metric,avg,min,max,p50,p99\nRequest Latency (ms),100,90,110,100,110\n\n"+
		"Metric,Value\nRequest Count,40\nOutput Token Throughput (tokens/sec),128\nRequest Throughput (requests/sec),8\nBenchmark Duration (sec),5\n")
	require.NoError(t, err)
	require.NotContains(t, p.Metrics.Latency, result.TTFT)
	require.NotContains(t, p.Metrics.Latency, result.ITL)
	require.InDelta(t, 100, *p.Metrics.Latency[result.E2EL].Median, 1e-12)
	r := &result.Result{}
	r.Merge(p)
	v := validity.Judge(r, validity.Evidence{Planned: validity.Planned{NumPrompts: 40}})
	require.NotContains(t, v.Words, "metrics-missing")
	require.NotContains(t, v.Words, "result-missing")
}

// Both tables of GenAI-Perf's report are read, with the separators in its numbers.
//
// covers: U-39
func TestGenAIPerfCSV(t *testing.T) {
	p, err := parse(t, "profile_export_genai_perf.csv", "Metric,avg,min,max,p99,p95,p90,p75,p50,p25\r\n"+
		"Time To First Token (ms),\"1,250.50\",10.00,\"2,000.00\",\"1,990.00\",1,1,1,900.00,1\r\n"+
		"Inter Token Latency (ms),20.00,19.00,21.00,21.00,21.00,21.00,20.50,20.00,19.50\r\n"+
		"Request Latency (ms),\"3,000.00\",1,1,1,1,1,1,1,1\r\n\r\nMetric,Value\r\n"+
		"Output Token Throughput (tokens/sec),\"1,234.50\"\r\nRequest Throughput (per sec),2.50\r\nRequest Count (count),100.00\r\n")
	require.NoError(t, err)
	require.Equal(t, 1250.5, *p.Metrics.Latency[result.TTFT].Mean)
	require.Equal(t, 1990.0, p.Metrics.Latency[result.TTFT].Percentiles[99])
	require.Equal(t, 1234.5, *p.Metrics.OutputThroughput)
	require.Equal(t, 2.5, *p.Metrics.RequestThroughput)
	require.Equal(t, 100, *p.Metrics.CompletedRequests)
	require.Nil(t, p.Metrics.FailedRequests, "it does not say")
}

func TestErrorsAreCounted(t *testing.T) {
	p, err := parse(t, "profile_export_aiperf.json",
		`{"request_count": {"unit": "requests", "avg": 30}, "was_cancelled": true,
		"error_summary": [{"error_details": {"code": 500, "type": "HTTPError", "message": "boom"}, "count": 2}],
		"time_to_first_token": {"unit": "fortnights", "avg": 1}, "request_latency": {"unit": "sec", "avg": 2}, "input_config": {"loadgen": {"concurrency": 8, "request_rate": 3.5}}}`)
	require.NoError(t, err)
	require.Equal(t, 2, *p.Metrics.FailedRequests)
	require.Equal(t, 2000.0, *p.Metrics.Latency[result.E2EL].Mean)
	require.Equal(t, 8, *p.Metrics.MaxConcurrency)
	require.InDelta(t, 3.5, float64(*p.Metrics.RequestRate), 0)
	require.NotContains(t, p.Metrics.Latency, result.TTFT)
	var kinds []result.WarningKind
	for _, w := range p.Warnings {
		kinds = append(kinds, w.Kind)
	}
	require.ElementsMatch(t, []result.WarningKind{"client-error", result.NoNumber, result.CutShort}, kinds)
}

// The first five requests of the same run, behind a summary of five.
//
// covers: PL-I3
func TestRequests(t *testing.T) {
	const summary = `{"request_count": {"unit": "requests", "avg": 5}, "error_request_count": {"unit": "requests", "avg": 0}}`
	lines := real(t, "profile_export.head.jsonl")
	with := func(lines string) result.Part {
		p, err := aiperf.Parser{}.Parse(fstest.MapFS{"profile_export_aiperf.json": {Data: []byte(summary)},
			aiperf.RequestsFile: {Data: []byte(lines)}})
		require.NoError(t, err)
		require.Equal(t, 5, *p.Metrics.CompletedRequests)
		return p
	}
	s := with(lines).Samples
	require.Len(t, s.Start, 5)
	require.InDelta(t, 0.266047648, s.TTFT[0], 1e-12)
	require.InDelta(t, 0.46276245, s.Latency[0], 1e-12)
	require.InDelta(t, 1795227981.352059, s.Start[0], 1e-5)
	require.InDelta(t, 0.000652504, s.ITL[0][0], 1e-12)
	require.Equal(t, []int{64, 192}, []int{s.InputLen[0], s.OutputLen[0]})
	require.Equal(t, []string{"", "", "", "", ""}, s.Errors)

	first, rest, _ := strings.Cut(lines, "\n")
	require.Nil(t, with(rest).Samples, "one is missing")
	require.NotNil(t, with(strings.Replace(first, `"benchmark_phase":"profiling"`, `"benchmark_phase":"warmup"`,
		1)+"\n"+lines).Samples, "a warm-up is none of them")
	p := with(lines[:len(lines)-100])
	require.Nil(t, p.Samples)
	require.Equal(t, result.Truncated, p.Warnings[0].Kind)
	require.Equal(t, 5, p.Warnings[0].Line)
}

// Numbers of the summary that contradict each other, and units that are not a second's.
func TestContradictions(t *testing.T) {
	whole := real(t, "profile_export_aiperf.json")
	for name, c := range map[string]struct {
		old, new string
		want     int
	}{
		"as it is":      {"", "", 0},
		"sum":           {`"count": 32,\s*"sum": 31015`, `"count": 32, "sum": 41015`, 1},
		"count":         {`"count": 32,\s*"sum": 5349`, `"count": 5, "sum": 5349`, 1},
		"of fewer":      {`"count": 32,\s*"sum": 31015[.0-9]*`, `"count": 16, "sum": 15507.69`, 1},
		"little, round": {`"count": 32,\s*"sum": 31015[.0-9]*`, `"count": 32, "sum": 31100`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			text := whole
			if c.old != "" {
				text = regexp.MustCompile(c.old).ReplaceAllString(whole, c.new)
				require.NotEqual(t, whole, text)
			}
			p, err := parse(t, "profile_export_aiperf.json", text)
			require.NoError(t, err)
			got := 0
			for _, w := range p.Warnings {
				if w.Kind == result.Contradicts {
					got++
				}
			}
			require.Equal(t, c.want, got, p.Warnings)
		})
	}
	for unit, want := range map[string]float64{"requests/sec": 120, "requests/min": 2, "requests/hour": 1. / 30,
		"": 120} {
		p, err := parse(t, "profile_export_aiperf.json", `{"request_throughput": {"unit": "`+unit+`", "avg": 120}}`)
		require.NoError(t, err)
		require.InDelta(t, want, *p.Metrics.RequestThroughput, 1e-12)
	}
}

func TestNothingThere(t *testing.T) {
	_, err := aiperf.Parser{}.Parse(fstest.MapFS{})
	require.ErrorIs(t, err, fs.ErrNotExist)
	for name, text := range map[string]string{
		"profile_export_aiperf.json": `{"input_config": {}}`, "profile_export_aiperf.csv": "", "profile_export_genai_perf.csv": "Metric,avg\nx,y\n",
	} {
		_, err := parse(t, name, text)
		require.Error(t, err, "an empty set of results writes an empty file: %s", name)
		require.NotErrorIs(t, err, fs.ErrNotExist)
	}
	_, err = parse(t, "profile_export_aiperf.json", real(t, "profile_export_aiperf.json")[:5000])
	require.Error(t, err, "cut short")
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"profile_export_aiperf.json", "profile_export_aiperf.csv"} {
		data, err := os.ReadFile("testdata/" + name)
		require.NoError(f, err)
		f.Add(string(data[:min(len(data), 6000)]))
	}
	lines, err := os.ReadFile("testdata/profile_export.head.jsonl")
	require.NoError(f, err)
	f.Add(string(lines[:4000]))
	f.Add(`{"request_count":{"avg":1e300},"error_summary":[{"count":-1}],"input_config":{"phases":[{"kind":"profiling"}]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, name := range []string{"profile_export_aiperf.json", "profile_export_aiperf.csv"} {
			p, err := aiperf.Parser{}.Parse(fstest.MapFS{name: {Data: []byte(text)},
				aiperf.RequestsFile: {Data: []byte(text)}})
			if err != nil {
				continue
			}
			r := &result.Result{}
			r.Merge(p)
			r.Validity = validity.Judge(r, validity.Evidence{})
			require.NotNil(t, p.Metrics)
		}
	})
}

// AIPerf 0.13.0 writes no summary if all requests fail: the requests say so, each error once.
func TestAllRequestsFailed(t *testing.T) {
	const line = `{"metadata":{"benchmark_phase":"profiling","request_start_ns":1},"metrics":{"error_isl":{"value":64,"unit":"tokens"}},` +
		`"error":{"code":404,"type":"Not Found","message":"no such path"}}` + "\n"
	warmup := strings.Replace(line, "profiling", "warmup", 1)
	other := strings.Replace(line, "Not Found", "Timeout", 1)
	p, err := parse(t, aiperf.RequestsFile, warmup+line+other+line)
	require.NoError(t, err)
	require.Equal(t, []int{0, 3}, []int{*p.Metrics.CompletedRequests, *p.Metrics.FailedRequests})
	require.Len(t, p.Warnings, 2)
	require.Equal(t, "2 requests", p.Warnings[0].Key)
	require.Equal(t, "Not Found: no such path", p.Warnings[0].Text)
	r := &result.Result{}
	r.Merge(p)
	v := validity.Judge(r, validity.Evidence{})
	require.Equal(t, result.VerdictInvalid, v.Verdict, v.Words)
	require.Contains(t, v.Words, "no-success")

	var many strings.Builder
	for i := range 1000 {
		many.WriteString(strings.Replace(line, "such path", fmt.Sprint("path ", i%500, strings.Repeat("é", 400)), 1))
	}
	p, err = parse(t, aiperf.RequestsFile, many.String())
	require.NoError(t, err)
	require.Len(t, p.Warnings, 6, "five errors, and how many requests have another")
	require.Equal(t, "2 requests", p.Warnings[4].Key)
	require.Len(t, []rune(p.Warnings[4].Text), 300)
	require.Equal(t, []string{"990 requests", "other errors"}, []string{p.Warnings[5].Key, p.Warnings[5].Text})

	_, err = parse(t, aiperf.RequestsFile, line+real(t, "profile_export.head.jsonl"))
	require.ErrorIs(t, err, fs.ErrNotExist, "a part of a load, without a summary")
	_, err = parse(t, aiperf.RequestsFile, line[:40])
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// The last releases of GenAI-Perf make a folder for each load.
func TestGenAIPerfFolder(t *testing.T) {
	const name = "org_m-openai-chat-concurrency2/profile_export_genai_perf.csv"
	p, err := parse(t, name, "Metric,avg\nRequest Latency (ms),5\n\nMetric,Value\nRequest Count (count),7\n")
	require.NoError(t, err)
	require.Equal(t, name, p.Metrics.Source)
	require.Equal(t, 7, *p.Metrics.CompletedRequests)
	_, err = aiperf.Parser{}.Parse(fstest.MapFS{name: {Data: []byte("Metric,avg\nx,1\n")}})
	require.ErrorIs(t, err, fs.ErrNotExist, "an imported folder is not searched")
}

// AIPerf's exit code says nothing about the requests: the record is judged by failed requests, by
// fewer than were asked for, and by an end before its time.
//
// covers: P-14
func TestVerdictOfRequests(t *testing.T) {
	text := real(t, "profile_export_aiperf.json")
	for want, c := range map[string]struct {
		old, new string
		planned  int
	}{
		"":                 {planned: 32},
		"requests-missing": {planned: 40},
		"request-errors":   {`"request_count": {`, `"error_request_count": {"unit": "requests", "avg": 8.0}, "request_count": {`, 40},
	} {
		changed := strings.Replace(text, c.old, c.new, 1)
		p, err := parse(t, "profile_export_aiperf.json", changed)
		require.NoError(t, err)
		r := &result.Result{}
		r.Merge(p)
		v := validity.Judge(r, validity.Evidence{Planned: validity.Planned{NumPrompts: c.planned, Concurrency: 4}})
		require.Equal(t, want != "", v.Verdict == result.VerdictInvalid, "%s: %v", want, v.Words)
		if want != "" {
			require.Contains(t, v.Words, want)
		}
	}
	p, err := parse(t, "profile_export_aiperf.json", strings.Replace(text, `"was_cancelled": false`, `"was_cancelled": true`, 1))
	require.NoError(t, err)
	r := &result.Result{}
	r.Merge(p)
	require.Contains(t, validity.Judge(r, validity.Evidence{}).Words, "requests-missing", "it was cancelled")
}

// Each refusal of an option says what to write instead, once.
func TestRefusedOptionsHaveAMend(t *testing.T) {
	for _, line := range []string{"concurrency = [1, 2]", "concurrency = -1", "request_count = 0", "concurrency = false",
		"streaming = 3", "request_count = 1.5"} {
		table, err := source.Parse("t.toml", []byte(line))
		require.NoError(t, err)
		_, err = aiperf.New(aiperf.Client{Name: aiperf.Name}, source.Pos{}, table)
		require.ErrorContains(t, err, "t.toml:1:1: ", line)
		require.ErrorContains(t, err, "hint: write", line)
	}
}
