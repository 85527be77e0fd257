package vllmoffline_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/bench/vllmoffline"
	"github.com/profllm/profllm/pkg/result"
)

// columns is the file of an engine with n requests, whose TTFT is the same.
func columns(n int, ttft, elapsed float64) *fstest.MapFile {
	list := func(x any) string { return strings.TrimSuffix(strings.Repeat(fmt.Sprintf("%v, ", x), n), ", ") }
	return &fstest.MapFile{Data: fmt.Appendf(nil, `{"model_id": "m", "elapsed_time": %v, "num_requests": %d,
		"ttft_from": "scheduled", "input_lens": [%s], "output_lens": [%s], "queue_times": [%s], "ttfts": [%s],
		"decode_times": [%s]}`, elapsed, n, list(10), list(5), list(0.5), list(ttft), list(0.4))}
}

// Percentiles are those of the requests of all engines together. A mean of medians would be 2.5 s
// here, and the largest P90 4 s. What TTFT counts from is in the record.
//
// covers: OFF-9
func TestRequestsArePooled(t *testing.T) {
	p := parse(t, fstest.MapFS{"raw/requests-0.json": columns(95, 1, 8), "raw/requests-4.json": columns(5, 4, 10),
		"raw/requests-1.worker.json": columns(1000, 99, 99)})
	require.Empty(t, p.Warnings)
	require.Equal(t, "vllm-requests", p.Benchmark.Kind)
	require.Equal(t, "m", p.Model)
	r := p.Metrics.Offline.Requests
	require.Equal(t, result.FromScheduled, r.TTFTFrom)
	require.Equal(t, 100, *r.TTFT.N)
	require.InDelta(t, 1.15, *r.TTFT.Mean, 1e-9)
	require.Equal(t, map[string]float64{"50": 1, "90": 1, "95": 1.15, "99": 4}, rounded(r.TTFT.Percentiles))
	require.InDelta(t, 0.1, *r.TPOT.Mean, 1e-9, "five tokens have four gaps")
	require.InDelta(t, 0.5, *r.Queue.Mean, 1e-9)
	require.InDelta(t, 0.5+1.15+0.4, *r.E2EL.Mean, 1e-9, "with the queue")
	o := p.Metrics.Offline.Throughput
	require.Equal(t, []int64{100, 1000, 500, 1500}, []int64{*o.Requests, *o.InputTokens, *o.OutputTokens, *o.TotalTokens})
	require.InDelta(t, 10, *o.Duration, 0, "of the slowest engine")
	require.InDelta(t, 50, *o.OutputThroughput, 1e-9)
	v := judge(p)
	require.Equal(t, result.VerdictValid, v.Verdict, v.Words)
	require.Contains(t, v.Withheld, "offline.requests.ttft.percentiles_s.99", "100 requests have no 99th percentile")
}

func rounded(m map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for k, v := range m {
		out[k] = float64(int(v*1e6+0.5)) / 1e6
	}
	return out
}

// Beside a result of vllm bench throughput, its rates are kept.
func TestRequestsBesideThroughput(t *testing.T) {
	out := folder(t, "composed/throughput.json")
	out["raw/requests-0.json"], out["raw/requests-1.json"] = columns(2, 1, 1), columns(2, 1, 1)
	o := parse(t, out).Metrics.Offline
	require.InDelta(t, 23.921412228319735, *o.Throughput.RequestThroughput, 0)
	require.Equal(t, 4, *o.Requests.TTFT.N)
}

func TestRequestsUnreadable(t *testing.T) {
	good := string(columns(2, 1, 1).Data)
	for name, c := range map[string]struct {
		old, with string
		err       string // "": not of the benchmark
		warns     []result.WarningKind
	}{
		"a column is short": {`"ttfts": [1, 1]`, `"ttfts": [1]`, "not of the same requests", nil},
		"a text":            {`"ttfts": [1, 1]`, `"ttfts": [1, "x"]`, "not of the same requests", []result.WarningKind{result.NoNumber}},
		"below zero":        {`"ttfts": [1, 1]`, `"ttfts": [1, -1]`, "not of the same requests", []result.WarningKind{result.NoNumber}},
		"no moment":         {`"ttft_from": "scheduled"`, `"ttft_from": 1`, "", nil},
	} {
		require.Contains(t, good, c.old)
		p, err := vllmoffline.Parser{}.Parse(fstest.MapFS{"requests.json": {Data: []byte(strings.Replace(good, c.old, c.with, 1))}})
		require.Equal(t, c.warns, kinds(p), name)
		require.Equal(t, c.err == "", errors.Is(err, fs.ErrNotExist), name)
		require.ErrorContains(t, err, c.err, name)
	}
	other := &fstest.MapFile{Data: []byte(strings.Replace(good, `"scheduled"`, `"arrival"`, 1))}
	_, err := vllmoffline.Parser{}.Parse(fstest.MapFS{"requests-0.json": columns(2, 1, 1), "requests-1.json": other})
	require.ErrorContains(t, err, `TTFT counts from "arrival", in another file from "scheduled"`)
}

// The text of pysheeet's offline benchmark has the table of a served load; the lines before say
// that it is none.
func TestRequestsOfText(t *testing.T) {
	p := parse(t, folder(t, "composed/requests.log"))
	require.Equal(t, "vllm-requests", p.Benchmark.Kind)
	require.True(t, p.Metrics.FromLog)
	require.Nil(t, p.Metrics.CompletedRequests, "it is no served load")
	require.Equal(t, []result.WarningKind{result.Recovered, result.Recovered}, kinds(p))
	require.Contains(t, p.Warnings[1].Text, "means over 2 engines")
	o := p.Metrics.Offline
	require.Equal(t, []int64{64, 8192, 2048, 10240},
		[]int64{*o.Throughput.Requests, *o.Throughput.InputTokens, *o.Throughput.OutputTokens, *o.Throughput.TotalTokens})
	require.InDelta(t, 512, *o.Throughput.OutputThroughput, 0)
	require.Equal(t, result.FromScheduled, o.Requests.TTFTFrom)
	require.InDelta(t, 0.0315, *o.Requests.TTFT.Mean, 1e-12)
	require.InDelta(t, 0.03025, o.Requests.TTFT.Percentiles["50"], 1e-12)
	require.InDelta(t, 0.0155, o.Requests.TPOT.Percentiles["99"], 1e-12)
	require.Equal(t, []string{"from-log"}, judge(p).Words)

	text := string(sample(t, "composed/requests.log"))
	p = parse(t, fstest.MapFS{"raw/requests.log": {Data: []byte(strings.Replace(text, "Failed requests:                         0",
		"Failed requests:                         3", 1))}})
	require.Equal(t, []result.WarningKind{result.Recovered, result.Incomplete, result.Recovered}, kinds(p))
	require.Contains(t, p.Warnings[1].Text, "3 requests failed")
	for name, cut := range map[string]string{
		"of a client":  strings.Replace(text, "Running benchmark with", "Benchmarking with", 1),
		"not finished": text[:strings.Index(text, "Mean TPOT")],
	} {
		_, err := vllmoffline.Parser{}.Parse(fstest.MapFS{"requests.log": {Data: []byte(cut)}})
		require.ErrorIs(t, err, fs.ErrNotExist, name)
	}
}

// The file of vLLM's benchmark of its multimodal processor, in ms, becomes timings in s.
func TestProcessor(t *testing.T) {
	const file = `{"completed": 10, "failed": 1, "mean_e2el_ms": 40.5, "median_e2el_ms": 40.0, "std_e2el_ms": 2.0,
		"percentiles_e2el_ms": [[90.0, 44.0], [99.0, 50.0]],
		"mm_processor_stats": {
			"preprocessor_total_ms": {"mean": 20.0, "median": 19.0, "std": 1.0, "p90.0": 24.0, "p99.0": 25.0},
			"encoder_forward_ms": {"mean": 10.0, "median": 9.0, "std": 1.0, "p90.0": 14.0, "p99.0": 15.0},
			"num_encoder_calls": {"mean": 1.0, "median": 1.0, "std": 0.0, "p90.0": 1.0, "p99.0": 1.0}},
		"encoder_summary": {"total_encoder_calls": 12, "num_requests_with_encoder_calls": 10},
		"config": {"model": "m", "num_prompts": 11}, "timestamp": "2026-01-02T03:04:05"}`
	p := parse(t, fstest.MapFS{"raw/mm-processor.json": {Data: []byte(file)}})
	require.Empty(t, p.Warnings)
	require.Zero(t, p.UnknownKeys)
	require.Equal(t, "vllm-mm-processor", p.Benchmark.Kind)
	require.Equal(t, "m", p.Model)
	o := p.Metrics.Offline.Processor
	require.Equal(t, []int{10, 1}, []int{*o.Completed, *o.Failed})
	require.EqualValues(t, 12, *o.EncoderCalls)
	require.InDelta(t, 0.0405, *o.E2EL.Mean, 1e-12)
	require.Equal(t, map[string]float64{"50": 0.040, "90": 0.044, "99": 0.050}, rounded(o.E2EL.Percentiles))
	require.Equal(t, map[string]float64{"50": 0.019, "90": 0.024, "99": 0.025}, rounded(o.Preprocessing.Percentiles))
	require.InDelta(t, 0.010, *o.Encoder.Mean, 1e-12)
	require.Equal(t, 10, *o.Encoder.N)
	require.Nil(t, o.Hashing)
	require.Equal(t, result.VerdictValid, judge(p).Verdict)

	_, err := vllmoffline.Parser{}.Parse(fstest.MapFS{"mm-processor.json": {Data: []byte(`{"completed": 3}`)}})
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// What the real vLLM wrote: every stage has a time of each request. That of the encoder is the batch's
// time divided by its requests, so the eight have the same.
func TestRealProcessor(t *testing.T) {
	p := parse(t, folder(t, "real/mm-processor.json"))
	require.Empty(t, p.Warnings)
	require.Zero(t, p.UnknownKeys)
	require.Equal(t, "/models/llava", p.Model)
	o := p.Metrics.Offline.Processor
	require.Equal(t, []int{8, 0, 8}, []int{*o.Completed, *o.Failed, int(*o.EncoderCalls)})
	require.InDelta(t, 0.420168850076152, *o.E2EL.Mean, 1e-12)
	require.InDelta(t, 0.5033780750154983, o.E2EL.Percentiles["99"], 1e-12)
	require.InDelta(t, 0.007651253117728629, *o.Preprocessing.Mean, 1e-12)
	require.InDelta(t, 0.008375344250453054, o.Encoder.Percentiles["50"], 1e-12)
	require.Zero(t, *o.Encoder.Std)
	for _, x := range []*result.Timing{o.Hashing, o.CacheLookup, o.HFProcessor, o.Merging, o.PromptUpdates} {
		require.Equal(t, 8, *x.N)
		require.Len(t, x.Percentiles, 4)
	}
	require.Equal(t, result.VerdictValid, judge(p).Verdict)
}
