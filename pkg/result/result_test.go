package result_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/result/resulttest"
	"github.com/profllm/profllm/pkg/validity"
)

func marshal(t *testing.T, r *result.Result) string {
	t.Helper()
	data, err := resulttest.Marshal(r)
	require.NoError(t, err)
	return string(data)
}

// covers: OUT-1, SCH-1, SCH-2, SCH-3, SCH-5, SCH-6, SCH-7, SCH-8, SCH-9, SCH-10, SCH-11, SCH-12, SCH-13,
// covers: SCH-14, SCH-15
func TestKeysOfTheDesign(t *testing.T) {
	r := resulttest.Good()
	r.Duration = new(130.0)
	r.Config.Server = map[string]any{"model": "m", "tensor_parallel_size": 4}
	r.Config.Benchmark = result.Benchmark{DatasetName: "random", NumPrompts: new(1000),
		RequestRate: new(result.Rate(math.Inf(1)))}
	r.System = &result.System{PeakGPUMemoryGB: new(71.5), AvgGPUUtilization: new(88.0),
		HardwareInfo: &result.Hardware{GPU: "H200"}}
	r.Profiling = &result.Profiling{TraceFilePath: "t.json", TraceFileSizeMB: new(3.0)}
	var doc map[string]any
	require.NoError(t, json.Unmarshal([]byte(marshal(t, r)), &doc))
	for path, want := range map[string]any{
		"schema": "profllm.result/1", "run_id": "exp_20261121_101500_ab12cd", "suite": "baseline",
		"timestamp": "2026-11-21T10:15:00Z", "duration": 130.0, "status": "completed",
		"config.server.model": "m", "config.server.tensor_parallel_size": 4.0,
		"config.benchmark.dataset_name": "random", "config.benchmark.num_prompts": 1000.0,
		"config.benchmark.request_rate": "inf", "config.benchmark.max_concurrency": nil,
		"results.request_throughput": 10.0, "results.output_throughput": 500.0,
		"results.median_ttft_ms": 58.8, "results.p95_ttft_ms": 72.0, "results.n_ttft": 1000.0,
		"results.median_tpot_ms": 9.8, "results.p95_tpot_ms": 12.0,
		"results.completed_requests": 1000.0, "results.failed_requests": 0.0,
		"system.peak_gpu_memory_gb": 71.5, "system.avg_gpu_utilization": 88.0, "system.hardware_info.gpu": "H200",
		"profiling.enabled": false, "profiling.trace_file_path": "t.json", "profiling.trace_file_size_mb": 3.0,
	} {
		var at any = doc
		for _, key := range strings.Split(path, ".") {
			object, ok := at.(map[string]any)
			require.True(t, ok, path)
			at, ok = object[key]
			require.True(t, ok, path)
		}
		require.Equal(t, want, at, path)
	}
}

func TestAbsentIsNotZero(t *testing.T) {
	r := resulttest.Good()
	r.Results = result.Metrics{Counts: result.Counts{CompletedRequests: new(0)}}
	r.Accuracy, r.Slurm, r.System = nil, nil, nil
	text := marshal(t, r)
	require.Contains(t, text, `"completed_requests": 0`)
	for _, key := range []string{"failed_requests", "output_throughput", "_ms", "accuracy", "slurm", "duration",
		"simulated", "system", `"n_`} {
		require.NotContains(t, text, key)
	}
}

func TestDecodeReadsWhatMarshalWrote(t *testing.T) {
	r := resulttest.Good()
	r.Simulated = true
	r.Config.Server = map[string]any{}
	r.Config.Benchmark.Burstiness = new(result.Rate(math.Inf(1)))
	r.Placement = &result.Placement{Nodes: []string{"n1", "n2"}, Roles: []result.PlacedRole{
		{Role: "decode", Slice: result.Slice{Offset: 1, Count: 1}, Hosts: []string{"n2"}, GPUsPerNode: 4, Ports: map[string]int{"http": 8100}},
	}}
	r.Failure = &result.Failure{Cause: "unknown", Next: "read on", Confidence: result.NoCause,
		Tail: []string{"<last & least>"}}
	r.Validity = validity.Judge(r, validity.Evidence{})
	ttft := r.Results.Latency[result.TTFT]
	ttft.Percentiles[99.9], ttft.Min = 123.25, new(0.5)
	r.Results.Latency[result.TTFT] = ttft
	text := marshal(t, r)
	require.Contains(t, text, `"p99.9_ttft_ms": 123.25`)
	require.Contains(t, text, "<last & least>")
	got, err := result.Decode([]byte(text))
	require.NoError(t, err)
	want := *r
	want.Schema = result.SchemaV1
	require.Equal(t, &want, got)
	require.Equal(t, text, marshal(t, got))
}

// covers: PL-D19
func TestDecodeRefusesWhatItDoesNotKnow(t *testing.T) {
	for data, want := range map[string]string{
		`{"schema": "profllm.result/9"}`: `unknown schema "profllm.result/9"`,
		`{}`:                             "no schema named",
		`{"schema": "profllm.result/1"`:  "decode result",
		`{"schema": "profllm.result/1", "results": {"p99_ttft_ms": "fast"}}`: "p99_ttft_ms",
		" \n": "the file is empty",
		"{\"schema\": \"profllm.result/1\",\n \"duration\": NaN}": "line 2, column 14: invalid character 'N'",
		"{\"schema\": \"profllm.result/1\",\n \"status\": 7}":     "line 2, column 12: ",
		"{\"schema\": \"profllm.res":                              "line 1, column 23: unexpected end",
	} {
		_, err := result.Decode([]byte(data))
		require.ErrorContains(t, err, want)
	}
	_, err := result.Decode([]byte(`{"schema": "other/1"}`))
	var schema *result.SchemaError
	require.ErrorAs(t, err, &schema)
	require.Equal(t, "other/1", schema.Got)
}

// covers: PL-D19, LIB-9
func TestValidateRefuses(t *testing.T) {
	r := resulttest.Good()
	r.Results.MaxConcurrency = new(8)
	text := marshal(t, r)
	require.NoError(t, result.Validate([]byte(text)))
	for name, replace := range map[string][2]string{
		"wrong schema":      {"profllm.result/1", "profllm.result/2"},
		"unknown key":       {`"suite"`, `"sweet"`},
		"unknown metric":    {`"mean_ttft_ms"`, `"mean_tttf_ms"`},
		"number as text":    {`"completed_requests": 1000`, `"completed_requests": "1000"`},
		"latency as text":   {`"p99_ttft_ms": 90`, `"p99_ttft_ms": "90"`},
		"unknown status":    {`"status": "completed"`, `"status": "fine"`},
		"local time":        {"10:15:00Z", "10:15:00+01:00"},
		"empty run id":      {"exp_20261121_101500_ab12cd", ""},
		"fraction of a run": {`"failed_requests": 0`, `"failed_requests": 0.5`},
		"infinite spelling": {`"max_concurrency": 8`, `"request_rate": "Infinity"`},
		"no JSON":           {"{", "["},
	} {
		broken := strings.Replace(text, replace[0], replace[1], 1)
		require.NotEqual(t, text, broken, name)
		require.Error(t, result.Validate([]byte(broken)), name)
	}
}

func TestMarshalRefusesAnIncompleteRecord(t *testing.T) {
	r := resulttest.Good()
	r.Status = "fine"
	_, err := resulttest.Marshal(r)
	require.ErrorContains(t, err, "status")
}

func TestSchemaIsAccepted(t *testing.T) {
	s, err := result.Schema()
	require.NoError(t, err)
	data, err := json.Marshal(s)
	require.NoError(t, err)
	require.Contains(t, string(data), `"https://json-schema.org/draft/2020-12/schema"`)
	require.Contains(t, string(data), "e2el_including_client_queue")
}

func TestSplitKey(t *testing.T) {
	for key, want := range map[string]string{
		"p99_ttft_ms": "p99 ttft", "p99.9_tpot_ms": "p99.9 tpot", "mean_itl_ms": "mean itl", "median_e2el_ms": "median e2el",
		"std_client_queue_time_ms": "std client_queue_time", "p50_e2el_including_client_queue_ms": "p50 e2el_including_client_queue",
		"p101_ttft_ms": "", "p-1_ttft_ms": "", "p_ttft_ms": "", "pp9_ttft_ms": "", "p1e1_ttft_ms": "", "mode_ttft_ms": "",
		"mean_ttft": "", "ttft_ms": "", "mean_x_ms": "", "probe_median_e2el_ms": "", "": "",
	} {
		f, stat, ok := result.SplitKey(key)
		require.Equal(t, want != "", ok, key)
		if ok {
			require.Equal(t, want, stat+" "+string(f))
			require.Equal(t, key, f.Key(stat))
		}
	}
}

func TestPercentileFallsBackToTheMedian(t *testing.T) {
	d := result.Distribution{Median: new(7.0), Percentiles: map[float64]float64{99: 9}}
	v, ok := d.Percentile(50)
	require.True(t, ok)
	require.Equal(t, 7.0, v)
	_, ok = d.Percentile(95)
	require.False(t, ok)
}

// covers: CD-32, CD-33, MET-2
func TestMergeDerivesRatesPerGPUAndUser(t *testing.T) {
	r := &result.Result{Placement: &result.Placement{Roles: []result.PlacedRole{
		{Role: "prefill", Slice: result.Slice{Offset: 0, Count: 4}, GPUsPerNode: 4},
		{Role: "decode", Slice: result.Slice{Offset: 4, Count: 4}, GPUsPerNode: 4},
		{Role: "proxy", Slice: result.Slice{Offset: 0, Count: 1}},
	}}}
	good := resulttest.Good()
	good.Results.MaxConcurrency = new(8)
	r.Merge(result.Part{Metrics: &good.Results})
	require.Equal(t, 32, *r.Results.GPUs)
	require.Equal(t, 500.0/32, *r.Results.OutputPerGPU)
	require.Equal(t, 500.0/8, *r.Results.OutputPerUser)
	require.Equal(t, []string{"output_throughput_per_gpu", "output_throughput_per_user",
		"total_token_throughput_per_gpu"}, r.Results.Derived)
	require.Nil(t, good.Results.OutputPerGPU, "the part is not changed")

	alone := &result.Result{}
	alone.Merge(result.Part{Metrics: &result.Metrics{Rates: result.Rates{OutputThroughput: new(5.0)}}})
	require.Nil(t, alone.Results.OutputPerGPU)
	require.Nil(t, alone.Results.OutputPerUser)
}

func TestMergeKeepsWhatOthersFound(t *testing.T) {
	good := resulttest.Good()
	r := &result.Result{}
	r.Merge(result.Part{Server: good.Results.Server})
	require.Equal(t, 1e9, *r.Results.KVTransfer.Bytes)
	require.Equal(t, int64(1000), *r.Results.KVTransfer.Transfers)
	require.Equal(t, int64(0), *r.Results.KVTransfer.FailedTransfers)
	require.Nil(t, r.Results.KVTransfer.MeanTransferMS)

	m := good.Results
	m.Server = nil
	r.Merge(result.Part{Metrics: &m, Warnings: []result.Warning{{Kind: result.Appended}}})
	r.Merge(result.Part{Accuracy: good.Accuracy, Warnings: []result.Warning{{Kind: result.Recovered}}})
	require.NotNil(t, r.Results.KVTransfer)
	require.Len(t, r.Results.Server, 2)
	require.Equal(t, 0.74, r.Accuracy.Value)
	require.Equal(t, 1000, *r.Results.CompletedRequests)
	require.Len(t, r.Warnings, 2)
}

func TestPlanWinsOverWhatTheClientSays(t *testing.T) {
	r := &result.Result{}
	r.Config.Benchmark.NumPrompts = new(64)
	r.Merge(result.Part{Benchmark: result.Benchmark{NumPrompts: new(32), Backend: "openai"}})
	require.Equal(t, 64, *r.Config.Benchmark.NumPrompts)
	require.Equal(t, "openai", r.Config.Benchmark.Backend)
}

func FuzzDecode(f *testing.F) {
	r := resulttest.Good()
	data, err := resulttest.Marshal(r)
	require.NoError(f, err)
	f.Add(data)
	f.Add([]byte(`{"schema": "profllm.result/1", "results": {"p50_ttft_ms": 1e400, "n_ttft": -1}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := result.Decode(data)
		if err != nil {
			return
		}
		validity.Judge(r, validity.Evidence{})
		if text, err := resulttest.Marshal(r); err == nil {
			_, err = result.Decode(text)
			require.NoError(t, err)
		}
	})
}

func BenchmarkMarshal(b *testing.B) {
	r := resulttest.Good()
	r.Validity = validity.Judge(r, validity.Evidence{})
	for b.Loop() {
		if _, err := resulttest.Marshal(r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	r := resulttest.Good()
	r.Validity = validity.Judge(r, validity.Evidence{})
	data, err := resulttest.Marshal(r)
	require.NoError(b, err)
	for b.Loop() {
		if _, err := result.Decode(data); err != nil {
			b.Fatal(err)
		}
	}
}
