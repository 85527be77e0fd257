package field_test

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/result/resulttest"
)

func TestValue(t *testing.T) {
	for text, number := range map[string]float64{
		"1": 1, "-5": -5, "1e3": 1000, ".5": 0.5, "3.50": 3.5, "0": 0, "-0": 0, "007": 7, "1e-400": 0,
	} {
		require.Equal(t, field.OfNumber(number), field.Read(text), text)
	}
	for _, text := range []string{
		"inf", "-inf", "nan", "0x10", "-0x1p4", "0X1P4", "1e999", "1_000", "1 ", " 1", "+1", "1.2.3", "v1", "auto", "true", "٣",
		"11111111111111111111111111111111111111111",
	} {
		require.Equal(t, field.OfText(text), field.Read(text), text)
	}
	require.False(t, field.Read("").Has())
	require.False(t, field.OfNumber(math.NaN()).Has())
	require.False(t, field.OfNumber(math.Inf(-1)).Has())
	require.False(t, field.OfTime(time.Time{}).Has())
	require.False(t, math.Signbit(field.OfNumber(math.Copysign(0, -1)).Number))
	require.Equal(t, "1e+06", field.OfNumber(1e6).String())
	require.Equal(t, "0.1", field.OfNumber(0.1).String())
}

func TestValueAsJSON(t *testing.T) {
	for text, want := range map[string]field.Value{
		`1.5`: field.OfNumber(1.5), `"1.5"`: field.OfText("1.5"), `null`: {}, `""`: {}, `true`: field.OfText("true"),
		`"\u00fc\n"`: field.OfText("ü\n"), `-0`: field.OfNumber(0), `1e400`: {},
	} {
		var v field.Value
		err := json.Unmarshal([]byte(text), &v)
		if text == "1e400" {
			require.Error(t, err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, want, v, text)
		data, err := json.Marshal(v)
		require.NoError(t, err)
		var again field.Value
		require.NoError(t, json.Unmarshal(data, &again))
		require.Equal(t, v, again)
	}
	for _, text := range []string{`{}`, `[1]`, `[{}]`} {
		var v field.Value
		require.ErrorContains(t, json.Unmarshal([]byte(text), &v), "not an object or array")
	}
}

func TestCompare(t *testing.T) {
	list := []field.Value{
		{}, field.OfText("b"), field.OfNumber(2), field.OfText("B"), field.OfNumber(-1), {}, field.OfText("10"), field.OfNumber(10),
	}
	slices.SortFunc(list, field.Compare)
	require.Equal(t, []field.Value{
		field.OfNumber(-1), field.OfNumber(2), field.OfNumber(10), field.OfText("10"), field.OfText("B"), field.OfText("b"), {}, {},
	}, list)
}

// covers: DASH-2, API-5
func TestFields(t *testing.T) {
	all := field.All()
	seen := map[string]bool{}
	for _, f := range all {
		require.False(t, seen[f.Name], f.Name)
		seen[f.Name] = true
		require.Contains(t, field.Groups(), f.Group, f.Name)
		require.Contains(t, []field.Kind{field.Text, field.Number, field.Time}, f.Kind, f.Name)
		require.False(t, f.Free)
		found, err := field.Find(f.Name)
		require.NoError(t, err)
		require.Same(t, f, found)
	}
	for name, want := range map[string]string{
		"tensor_parallel_size": "cmd_args.tensor_parallel_size", "max_concurrency": "bench_cmd_args.max_concurrency",
		"gpu": "gpu", "median_ttft_ms": "median_ttft_ms", "p99.9_ttft_ms": "p99.9_ttft_ms",
		"cmd_args.decode.tensor_parallel_size": "cmd_args.decode.tensor_parallel_size", "extra_env_vars.A": "extra_env_vars.A",
		"check.cold-start": "check.cold-start",
	} {
		f, err := field.Find(name)
		require.NoError(t, err, name)
		require.Equal(t, want, f.Name)
	}
	for _, name := range []string{"", "gpuu", "cmd_args.", "extra_env_vars.", "p101_ttft_ms", "results.", string(make([]byte, 1<<20))} {
		_, err := field.Find(name)
		require.ErrorContains(t, err, "unknown field", "%.20q", name)
		require.Less(t, len(err.Error()), 2000)
	}
	_, err := field.Find("median_tft_ms")
	require.ErrorContains(t, err, "median_ttft_ms")
}

// covers: DASH-2
func TestCauseLine(t *testing.T) {
	for want, f := range map[string]*result.Failure{
		"": nil, "CUDA out of memory": {Cause: "cuda-oom", Line: "CUDA out of memory", Tail: []string{"bye"}},
		"last": {Cause: "unknown", Tail: []string{"first", "last"}},
	} {
		r := resulttest.Good()
		r.Failure = f
		require.Equal(t, field.OfText(want), valueOf(field.Of(&records.Run{Result: r}), "cause_line"))
	}
}

func valueOf(cells []field.Cell, name string) field.Value {
	for _, c := range cells {
		if c.Field.Name == name {
			return c.Value
		}
	}
	return field.Value{}
}

// covers: DASH-2
func TestOf(t *testing.T) {
	r := resulttest.Good()
	r.Duration, r.Results.GPUs = new(1800.0), new(4)
	r.Validity = &result.Validity{Verdict: result.VerdictSuspect, Withheld: []string{"p99_ttft_ms"}, Checks: []result.Check{
		{Word: "throttled", Outcome: result.Fail, Severity: result.Suspect}, {Word: "stalled", Outcome: result.Pass, Severity: result.Suspect},
		{Word: "throttled", Outcome: result.Fail, Severity: result.Suspect},
	}}
	ttft := r.Results.Latency[result.TTFT]
	ttft.Percentiles[99.9] = 120
	r.Results.Latency[result.TTFT] = ttft
	run := records.Run{
		Dir: "results/x", Result: r, Case: records.Case{Scenario: "s", Test: "t", Step: 2, Point: "a=1"},
		Settings: map[string]string{
			"cmd_args.tensor_parallel_size": "4", "cmd_args.max_model_len": "auto", "cmd_args.model": "8", "cmd_args.own": "12",
			"bench_cmd_args.request_rate": "inf", "extra_env_vars.LEVEL": "", "other": "x",
		},
	}
	cells := field.Of(&run)
	for name, want := range map[string]field.Value{
		"run_id": field.OfText(r.RunID), "suite": field.OfText("baseline"), "case": field.OfText("t a=1"), "dir": field.OfText("results/x"),
		"timestamp": field.OfTime(r.Timestamp), "verdict": field.OfText("suspect"), "gpu": field.OfText("H200"),
		"median_ttft_ms": field.OfNumber(60 * 0.98), "p99_ttft_ms": {}, "p99.9_ttft_ms": field.OfNumber(120),
		"results.total_input_tokens": field.OfNumber(100_000), "results.failed_requests": field.OfNumber(0),
		"check.throttled": field.OfText("suspect"), "check.stalled": {}, "cmd_args.model": field.OfText("8"),
		"cmd_args.tensor_parallel_size": field.OfNumber(4), "cmd_args.max_model_len": field.OfText("auto"),
		"cmd_args.own": field.OfNumber(12), "bench_cmd_args.request_rate": field.OfText("inf"), "extra_env_vars.LEVEL": {},
		"other": {}, "accuracy": field.OfNumber(0.74),
		"gpu_hours": field.OfNumber(2),
	} {
		require.Equal(t, want, valueOf(cells, name), name)
	}
	seen, free := map[string]bool{}, ""
	for _, c := range cells {
		require.True(t, c.Value.Has(), c.Field.Name)
		require.False(t, seen[c.Field.Name], c.Field.Name)
		seen[c.Field.Name] = true
		require.False(t, free != "" && !c.Field.Free, "%s before %s", free, c.Field.Name)
		require.False(t, c.Field.Free && c.Field.Name < free)
		if c.Field.Free {
			free = c.Field.Name
		}
	}
	require.Equal(t, cells, field.Of(&run))
}

// A run that left no record has its settings.
func TestOfNoRecord(t *testing.T) {
	cells := field.Of(&records.Run{Dir: "d", Settings: map[string]string{"cmd_args.tensor_parallel_size": "2"}})
	require.Equal(t, field.OfNumber(2), valueOf(cells, "cmd_args.tensor_parallel_size"))
	require.Equal(t, field.OfText("d"), valueOf(cells, "dir"))
	require.Len(t, cells, 2)
	require.Empty(t, field.Of(&records.Run{}))
}

// Settings of a record are no other fields of it, and all can be asked for by their names.
//
// covers: DASH-2
func TestHostileSettings(t *testing.T) {
	runs, err := records.Load("../result/testdata/releases/2026-11-22/release/aggregated")
	require.NoError(t, err)
	r := runs[0]
	was := map[string]field.Value{}
	for _, c := range field.Of(&r) {
		was[c.Field.Name] = c.Value
	}
	r.Settings = maps.Clone(r.Settings)
	for _, key := range []string{
		"verdict", "status", "kind", "gpu", "output_throughput", "run_id", "timestamp", "check.", "check.x", "p99.9_ttft_ms", "env.x", "",
		"a b", "\x00",
	} {
		r.Settings[key] = "9"
	}
	seen := map[string]bool{}
	for _, c := range field.Of(&r) {
		require.False(t, seen[c.Field.Name], "%s twice", c.Field.Name)
		seen[c.Field.Name] = true
		found, err := field.Find(c.Field.Name)
		require.NoError(t, err)
		require.Equal(t, c.Field.Name, found.Name)
		if v, ok := was[c.Field.Name]; ok {
			require.Equal(t, v, c.Value, c.Field.Name)
		}
	}
}
