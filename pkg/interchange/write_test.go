package interchange_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/interchange"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/validity"
)

// measured is a valid record of our own, with numbers that no binary fraction has.
func measured() *result.Result {
	latency := func(mean float64) result.Distribution {
		return result.Distribution{
			N: new(400), Mean: &mean, Median: new(mean * 0.97), Std: new(mean / 7), Min: new(mean / 3),
			Max:         new(mean * 3.3),
			Percentiles: map[float64]float64{90: mean * 1.23, 99: mean * 1.71},
		}
	}
	m := result.Metrics{
		Counts: result.Counts{
			NumPrompts: new(400), CompletedRequests: new(400), FailedRequests: new(0), Duration: new(101.3),
			TotalInputTokens: new(int64(400 * 1024)), TotalOutputTokens: new(int64(400*128 - 7)),
			MaxConcurrency: new(5), GPUs: new(4),
		},
		Latency: map[result.Family]result.Distribution{result.TTFT: latency(53.1), result.TPOT: latency(9.7),
			result.ITL: latency(9.9), result.E2EL: latency(1284.7)},
	}
	m.RequestThroughput, m.OutputThroughput = new(400/101.3), new(float64(400*128-7)/101.3)
	m.TotalTokenThroughput = new((400*1024 + float64(400*128-7)) / 101.3)
	r := &result.Result{
		RunID: "exp_20260102_030405_abcdef", Suite: "night/a", Timestamp: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Duration: new(240.5), Status: result.Completed,
		Config: result.Config{
			Server: map[string]any{"model": "example/model-8b", "tensor_parallel_size": 4.0, "quantization": "fp8"},
			Benchmark: result.Benchmark{Kind: "vllm-serve", DatasetName: "random", InputTokens: new(1024),
				OutputTokens: new(128), MaxConcurrency: new(5), NumPrompts: new(400)},
		},
		Results: m, System: &result.System{HardwareInfo: &result.Hardware{GPU: "NVIDIA H200"}},
		Provenance: &result.Provenance{Profllm: "v1", Engine: "vllm", EngineVersion: "0.32.0"},
		Placement: &result.Placement{Nodes: []string{"n1"},
			Roles: []result.PlacedRole{{Role: "serve", GPUsPerNode: 4, Slice: result.Slice{Count: 1}}}},
	}
	r.Validity = validity.Judge(r, validity.Evidence{})
	return r
}

func back(t *testing.T, f interchange.Format, r *result.Result, o interchange.Options) *result.Result {
	t.Helper()
	data, err := interchange.Write(f, []*result.Result{r}, o)
	require.NoError(t, err)
	format, list, err := interchange.Read("x.json", data)
	require.NoError(t, err)
	require.Equal(t, f, format)
	require.Len(t, list, 1)
	return list[0].Record
}

// same compares every statistic of the families that a format holds.
func same(t *testing.T, want, got *result.Result, stats func(result.Family, string) bool) {
	t.Helper()
	for _, f := range []result.Family{result.TTFT, result.TPOT, result.ITL, result.E2EL} {
		var held []result.Statistic
		for _, s := range want.Results.Latency[f].Statistics() {
			if stats(f, s.Name) && !want.Validity.Withholds(f.Key(s.Name)) {
				held = append(held, s)
			}
		}
		have := got.Results.Latency[f].Statistics()
		require.Len(t, have, len(held), f)
		for i, s := range held {
			require.Equal(t, s.Name, have[i].Name)
			require.InEpsilon(t, s.Value, have[i].Value, 1e-12, f.Key(s.Name))
		}
	}
}

func all(result.Family, string) bool { return true }

// covers: PL-I1
func TestRoundTripLLMD(t *testing.T) {
	r := measured()
	got := back(t, interchange.LLMD, r, interchange.Options{})
	same(t, r, got, all)
	m, n := r.Results, got.Results
	require.Equal(t, []any{m.NumPrompts, m.CompletedRequests, m.FailedRequests, m.TotalInputTokens, m.TotalOutputTokens,
		m.MaxConcurrency, m.GPUs},
		[]any{n.NumPrompts, n.CompletedRequests, n.FailedRequests, n.TotalInputTokens, n.TotalOutputTokens,
			n.MaxConcurrency, n.GPUs})
	require.Equal(t, []*float64{m.RequestThroughput, m.OutputThroughput, m.TotalTokenThroughput},
		[]*float64{n.RequestThroughput, n.OutputThroughput, n.TotalTokenThroughput})
	require.Nil(t, n.Duration, "a report has no place for the window")
	require.Equal(t, r.Timestamp, got.Timestamp)
	require.Equal(t, r.Duration, got.Duration)
	require.Equal(t, r.Config.Benchmark.InputTokens, got.Config.Benchmark.InputTokens)
	require.Equal(t, "vllm-serve", got.Config.Benchmark.Kind)
	require.Equal(t, []any{"example/model-8b", "fp8"},
		[]any{got.Config.Server["model"], got.Config.Server["quantization"]})
	require.Equal(t, json.Number("4"), got.Config.Server["tensor_parallel_size"])
	require.Equal(t, "NVIDIA H200", got.System.HardwareInfo.GPU)
	require.Equal(t, []string{"vllm", "0.32.0"}, []string{got.Provenance.Engine, got.Provenance.EngineVersion})
	require.False(t, got.Simulated)
}

// covers: PL-I1, PL-I5
func TestRoundTripInferenceX(t *testing.T) {
	r := measured()
	got := back(t, interchange.InferenceX, r, interchange.Options{Set: map[string]string{"image": "x:1", "ep": "1"}})
	same(t, r, got, all)
	require.InEpsilon(t, *r.Results.TotalTokenThroughput, *got.Results.TotalTokenThroughput, 1e-12)
	require.InEpsilon(t, *r.Results.OutputThroughput, *got.Results.OutputThroughput, 1e-12)
	require.Nil(t, got.Results.CompletedRequests, "a row has no counts")
	require.Equal(t, "x:1", got.Provenance.Image)

	data, err := interchange.Write(interchange.InferenceX, []*result.Result{r}, interchange.Options{})
	require.NoError(t, err)
	var row map[string]any
	require.NoError(t, json.Unmarshal(data, &row))
	tpot := r.Results.Latency[result.TPOT]
	require.InEpsilon(t, tpot.Percentiles[90]/1000, row["p90_tpot"], 1e-12)
	require.InEpsilon(t, 1000/tpot.Percentiles[90], row["p90_intvty"], 1e-12)
	require.Less(t, row["p90_intvty"], row["median_intvty"], "its p90 is a slow user")
	require.NotContains(t, row, "p90_ttft_ms")
	require.InEpsilon(t, *r.Results.TotalTokenThroughput/4, row["tput_per_gpu"], 1e-12)
	require.Equal(t, false, row["disagg"])
}

// A disaggregated run is divided by the GPUs of each role.
//
// covers: PL-I5
func TestDisaggregatedRow(t *testing.T) {
	r := measured()
	r.Config.Server = map[string]any{"model": "m"}
	r.Config.Roles = []result.RoleConfig{{Role: "prefill", Server: map[string]any{"tensor_parallel_size": 2.0}},
		{Role: "decode", Server: map[string]any{"tensor_parallel_size": 4.0}}}
	r.Placement = &result.Placement{Nodes: []string{"n1", "n2"}, Roles: []result.PlacedRole{
		{Role: "prefill", GPUsPerNode: 2, Slice: result.Slice{Count: 1}}, {Role: "prefill", Replica: 1, GPUsPerNode: 2, Slice: result.Slice{Count: 1}},
		{Role: "decode", GPUsPerNode: 4, Slice: result.Slice{Count: 1}}, {Role: "proxy", Slice: result.Slice{Count: 1}},
	}}
	_, err := interchange.Write(interchange.InferenceX, []*result.Result{r}, interchange.Options{})
	require.ErrorContains(t, err, "the record does not say precision\n\thint: --set precision=…")
	got := back(t, interchange.InferenceX, r, interchange.Options{Set: map[string]string{"precision": "bf16"}})
	require.InEpsilon(t, *r.Results.OutputThroughput, *got.Results.OutputThroughput, 1e-12)
	require.InEpsilon(t, *r.Results.TotalTokenThroughput, *got.Results.TotalTokenThroughput, 1e-12)
	require.Equal(t, 8, *got.Results.GPUs)
	fields := got.Provenance.Imported.Fields
	require.Equal(t, []any{json.Number("2"), json.Number("2"), json.Number("4"), json.Number("1")},
		[]any{fields["prefill_num_workers"], fields["prefill_tp"], fields["decode_tp"], fields["decode_num_workers"]})

	r.Placement.Roles = []result.PlacedRole{{Role: "serve", GPUsPerNode: 4, Slice: result.Slice{Count: 2}}}
	r.Config.Server["tensor_parallel_size"] = 8.0
	_, err = interchange.Write(interchange.InferenceX, []*result.Result{r},
		interchange.Options{Set: map[string]string{"precision": "bf16"}})
	require.ErrorContains(t, err, "over several nodes")
}

// covers: PL-I1
func TestRoundTripPyTorch(t *testing.T) {
	r := measured()
	got := back(t, interchange.PyTorch, r, interchange.Options{})
	same(t, r, got, all)
	m, n := r.Results, got.Results
	require.Equal(t, m.Counts.Duration, n.Duration)
	require.Equal(t, []any{m.NumPrompts, m.CompletedRequests, m.FailedRequests, m.TotalInputTokens, m.TotalOutputTokens,
		m.MaxConcurrency},
		[]any{n.NumPrompts, n.CompletedRequests, n.FailedRequests, n.TotalInputTokens, n.TotalOutputTokens,
			n.MaxConcurrency})
	require.Equal(t, m.OutputThroughput, n.OutputThroughput)
	require.Equal(t, 4, got.Config.Server["tensor_parallel_size"])
	require.Equal(t, 1024, *got.Config.Benchmark.InputTokens)

	data, err := interchange.Write(interchange.PyTorch, []*result.Result{r, r}, interchange.Options{})
	require.NoError(t, err)
	var records []struct {
		Metric struct {
			Name   string    `json:"name"`
			Values []float64 `json:"benchmark_values"`
		} `json:"metric"`
	}
	require.NoError(t, json.Unmarshal(data, &records))
	require.Equal(t, "mean_ttft_ms", records[0].Metric.Name)
	require.Equal(t, []float64{*r.Results.Latency[result.TTFT].Mean}, records[0].Metric.Values)
	var names []string
	for _, x := range records[:len(records)/2] {
		names = append(names, x.Metric.Name)
	}
	for _, f := range []string{"ttft", "tpot", "itl"} {
		for _, stat := range []string{"mean", "median", "std", "p99"} {
			key := stat + "_" + f + "_ms"
			require.Equal(t, !r.Validity.Withholds(key), slices.Contains(names, key), key)
		}
	}
	_, list, err := interchange.Read("two.json", data)
	require.NoError(t, err)
	require.Len(t, list, 2)
}

// What the checks withhold never leaves.
func TestWithheldStays(t *testing.T) {
	r := measured()
	r.Results.CompletedRequests, r.Results.NumPrompts = new(400), new(400)
	r.Validity.Withheld = []string{"output_throughput", "p99_ttft_ms"}
	for _, f := range interchange.Writable() {
		data, err := interchange.Write(f, []*result.Result{r}, interchange.Options{})
		require.NoError(t, err)
		got := back(t, f, r, interchange.Options{})
		require.NotContains(t, got.Results.Latency[result.TTFT].Percentiles, 99.0, f)
		require.Nil(t, got.Results.OutputThroughput, f)
		require.NotContains(t, string(data), "p99_ttft")
	}
}

// schema is what a report may hold, by path; "*" stands for any key of free tables.
// After schema_v0_2.py of llmd-benchmark-report 0.2.1.
var schema = []string{
	"version", "run.uid", "run.eid", "run.time.start", "run.time.end", "run.time.duration", "run.description", "run.keywords",
	"scenario.stack.metadata.label", "scenario.stack.metadata.cfg_id", "scenario.stack.native.args.*",
	"scenario.stack.standardized.kind", "scenario.stack.standardized.tool", "scenario.stack.standardized.tool_version", "scenario.stack.standardized.role",
	"scenario.stack.standardized.replicas", "scenario.stack.standardized.model.name", "scenario.stack.standardized.accelerator.model",
	"scenario.stack.standardized.accelerator.count", "scenario.stack.standardized.accelerator.parallelism.tp",
	"scenario.stack.standardized.accelerator.parallelism.pp", "scenario.stack.standardized.accelerator.parallelism.dp",
	"scenario.load.metadata.cfg_id", "scenario.load.native.args.*",
	"scenario.load.standardized.tool", "scenario.load.standardized.tool_version", "scenario.load.standardized.source", "scenario.load.standardized.rate_qps",
	"scenario.load.standardized.concurrency", "scenario.load.standardized.input_seq_len.distribution", "scenario.load.standardized.input_seq_len.value",
	"scenario.load.standardized.output_seq_len.distribution", "scenario.load.standardized.output_seq_len.value",
	"results.request_performance.aggregate.requests.total", "results.request_performance.aggregate.requests.failures", "results.request_performance.aggregate.requests.incomplete",
}

// units are those that the schema allows for each statistic, below aggregate.
var units = map[string][]string{
	"requests.input_length": {"count"}, "requests.output_length": {"count"},
	"latency.time_to_first_token": {"ms", "s"}, "latency.request_latency": {"ms", "s"},
	"latency.time_per_output_token": {"ms/token", "s/token"}, "latency.inter_token_latency": {"ms/token", "s/token"},
	"throughput.input_token_rate": {"tokens/s"}, "throughput.output_token_rate": {"tokens/s"}, "throughput.total_token_rate": {"tokens/s"}, "throughput.request_rate": {"queries/s"},
}

var statistics = []string{"units", "mean", "mode", "stddev", "min", "p0p1", "p1", "p5", "p10", "p25", "p50", "p75",
	"p90", "p95", "p99", "p99p9", "max"}

// The schema forbids keys that it does not know, and statistics without a unit and a
// mean.
//
// covers: PL-I1
func TestLLMDIsValid(t *testing.T) {
	generic := measured()
	generic.System, generic.Placement, generic.Config.Benchmark.Kind, generic.Config.Benchmark.InputTokens = nil, nil, "", nil
	suspect := measured()
	suspect.Config.Benchmark.NumPrompts, suspect.Results.FailedRequests, suspect.Results.CompletedRequests = nil, new(3), new(390)
	rowOnly := &result.Result{RunID: "x", Status: result.Completed,
		Results: result.Metrics{Rates: result.Rates{OutputThroughput: new(1.5)}}}
	for name, r := range map[string]*result.Result{"whole": measured(), "without GPU": generic,
		"lost requests": suspect, "little": rowOnly} {
		data, err := interchange.Write(interchange.LLMD, []*result.Result{r}, interchange.Options{Invalid: true})
		require.NoError(t, err, name)
		var doc map[string]any
		require.NoError(t, json.Unmarshal(data, &doc))
		require.Equal(t, "0.2.1", doc["version"])
		check(t, name, "", doc)
	}
	data, err := interchange.Write(interchange.LLMD, []*result.Result{suspect}, interchange.Options{Invalid: true})
	require.NoError(t, err)
	require.Contains(t, string(data), `"failures": 3`)
	require.Contains(t, string(data), `"incomplete": 7`, "390 of 400 completed, 3 failed")
}

func check(t *testing.T, name, path string, v any) {
	t.Helper()
	switch x := v.(type) {
	case []any:
		for _, y := range x {
			if _, ok := y.(map[string]any); ok {
				check(t, name, path, y)
			}
		}
	case map[string]any:
		if below, ok := strings.CutPrefix(path, "results.request_performance.aggregate."); ok && units[below] != nil {
			require.Contains(t, units[below], x["units"], "%s: %s", name, path)
			require.IsType(t, 1.0, x["mean"], "%s: %s", name, path)
			for key := range x {
				require.Contains(t, statistics, key, "%s: %s", name, path)
			}
			return
		}
		for key, y := range x {
			at := strings.TrimPrefix(path+"."+key, ".")
			switch y.(type) {
			case map[string]any, []any:
				check(t, name, at, y)
				if _, ok := y.([]any); !ok || at != "run.keywords" {
					continue
				}
			}
			free := path + ".*"
			require.True(t, slices.Contains(schema, at) || slices.Contains(schema, free), "%s: the schema has no %s",
				name, at)
		}
	}
}

// An invalid run leaves only when asked, with its words; a simulated one never
// without its label.
func TestRefused(t *testing.T) {
	with := func(f func(*result.Result)) *result.Result {
		r := measured()
		f(r)
		r.Validity = validity.Judge(r, validity.Evidence{})
		return r
	}
	invalid := with(func(r *result.Result) {
		r.Results.CompletedRequests, r.Results.FailedRequests = new(396), new(4)
		r.Results.RequestThroughput = new(396 / 101.3)
	})
	suspect := with(func(r *result.Result) { r.Results.FromLog = true })
	simulated := with(func(r *result.Result) { r.Simulated = true })
	profiled := with(func(r *result.Result) { r.Profiling = &result.Profiling{Enabled: true} })
	unjudged := measured()
	unjudged.Validity = nil
	open := with(func(r *result.Result) { r.Status = result.Unknown })
	for _, c := range []struct {
		name           string
		r              *result.Result
		why            string // of llm-d; "" if it is written
		row            string // of inferencex
		evenIfAsked    string // of inferencex
		wantInTheirOwn string
	}{
		{"invalid", invalid, "invalid: request-errors", "invalid: request-errors", "", "request-errors"},
		{"suspect", suspect, "", "suspect: from-log", "", "from-log"},
		{"simulated", simulated, "", "simulated, but a row", "simulated, but a row", "simulated"},
		{"profiled", profiled, "", "profiled, but a row", "profiled, but a row", "profiled"},
		{"not judged", unjudged, "not judged", "not judged", "", "not judged"},
		{"open", open, "not over", "not over", "not over", ""},
	} {
		says := func(f interchange.Format, asked bool, want string) {
			_, err := interchange.Write(f, []*result.Result{c.r}, interchange.Options{Invalid: asked})
			if want == "" {
				require.NoError(t, err, "%s %s", c.name, f)
				return
			}
			var refused *interchange.RefusedError
			require.ErrorAs(t, err, &refused, "%s %s", c.name, f)
			require.ErrorContains(t, err, want)
			require.Equal(t, !refused.Never, strings.Contains(err.Error(), "--include-invalid"))
		}
		says(interchange.LLMD, false, c.why)
		says(interchange.PyTorch, false, c.why)
		says(interchange.InferenceX, false, c.row)
		says(interchange.InferenceX, true, c.evenIfAsked)
		if c.wantInTheirOwn == "" {
			continue
		}
		for _, f := range []interchange.Format{interchange.LLMD, interchange.PyTorch} {
			data, err := interchange.Write(f, []*result.Result{c.r}, interchange.Options{Invalid: true})
			require.NoError(t, err)
			require.Contains(t, string(data), c.wantInTheirOwn, "%s: the word goes with the numbers", f)
			_, list, err := interchange.Read("x.json", data)
			require.NoError(t, err)
			require.Equal(t, c.r.Simulated, list[0].Record.Simulated, "and comes back")
		}
	}
}

func TestSet(t *testing.T) {
	for set, want := range map[string]string{
		"hw=b200": "contradicts the record, which says NVIDIA H200", "tput_per_gpu=1e9": "does not describe the run", "isl=many": "not a whole number", "tp=8": "contradicts the record",
	} {
		key, value, _ := strings.Cut(set, "=")
		_, err := interchange.Write(interchange.InferenceX, []*result.Result{measured()},
			interchange.Options{Set: map[string]string{key: value}})
		require.ErrorContains(t, err, want, set)
	}
	_, err := interchange.Write(interchange.LLMD, []*result.Result{measured(), measured()}, interchange.Options{})
	require.ErrorContains(t, err, "2 records in one file of llm-d")
	_, err = interchange.Write(interchange.SRTSlurm, []*result.Result{measured()}, interchange.Options{})
	require.ErrorContains(t, err, "not exported")
}
