package interchange_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/profllm/profllm/pkg/interchange"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/validity"
)

func sample(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return data
}

// items reads a file of testdata that is whole.
func items(t *testing.T, name string, want interchange.Format) []interchange.Item {
	t.Helper()
	format, list, err := interchange.Read(name, sample(t, name))
	require.NoError(t, err)
	require.Equal(t, want, format)
	return list
}

// judged is the record's outcome of each check, by its word.
func judged(it interchange.Item) map[string]result.Outcome {
	outcomes := map[string]result.Outcome{}
	for _, c := range validity.Judge(it.Record, it.Evidence).Checks {
		outcomes[c.Word] = c.Outcome
	}
	return outcomes
}

func field(t *testing.T, fields map[string]any, path ...string) any {
	t.Helper()
	var v any = fields
	for _, key := range path {
		m, ok := v.(map[string]any)
		require.True(t, ok, "%v of %v", key, path)
		v = m[key]
	}
	return v
}

// covers: PL-I1, PL-I4
func TestLLMDObeysUnits(t *testing.T) {
	it := items(t, "report.yaml", interchange.LLMD)[0]
	r, m := it.Record, it.Record.Results
	require.Equal(t, "5f0c6d3e", it.ID)
	require.Equal(t, time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), r.Timestamp)
	require.InDelta(t, 600.5, *r.Duration, 1e-9)
	require.Equal(t, []int{500, 495, 5}, []int{*m.NumPrompts, *m.CompletedRequests, *m.FailedRequests})
	require.Equal(t, int64(1024*495), *m.TotalInputTokens)
	require.Equal(t, int64(62964), *m.TotalOutputTokens)
	require.Nil(t, m.Duration, "the report has no window")

	ttft := m.Latency[result.TTFT]
	require.InDelta(t, 50, *ttft.Mean, 1e-9, "it was in seconds")
	require.InDelta(t, 10, *ttft.Std, 1e-9)
	require.InDelta(t, 48, *ttft.Median, 1e-9)
	require.InDelta(t, 21, ttft.Percentiles[0.1], 1e-9)
	require.InDelta(t, 100, ttft.Percentiles[99.9], 1e-9)
	require.InDelta(t, 20, *ttft.Min, 1e-9)
	require.InDelta(t, 9.5, *m.Latency[result.TPOT].Mean, 1e-9, "and this in ms")
	require.InDelta(t, 9.5, *m.Latency[result.ITL].Mean, 1e-9)
	require.NotContains(t, m.Latency, result.E2EL, "ms/token is no unit of a request's latency")
	require.InDelta(t, 1260.5, *m.OutputThroughput, 0)
	require.InDelta(t, 9.9, *m.RequestThroughput, 0)
	require.Nil(t, m.InputThroughput)

	require.Equal(t, "NVIDIA H200", r.System.HardwareInfo.GPU)
	require.Equal(t, 4, *m.GPUs)
	require.Equal(t, []string{"vllm", "0.32.0"}, []string{r.Provenance.Engine, r.Provenance.EngineVersion})
	require.Equal(t, "example/model-8b", r.Config.Server["model"])
	require.Equal(t, 4, r.Config.Server["tensor_parallel_size"])
	require.Equal(t, json.Number("64"), r.Config.Server["max_num_seqs"])
	require.Equal(t, 1024, *r.Config.Benchmark.InputTokens)
	require.Nil(t, r.Config.Benchmark.OutputTokens, "a mean is no fixed length")
	require.Equal(t, 16, *m.MaxConcurrency)

	var warned []string
	for _, w := range r.Warnings {
		require.Positive(t, w.Line, w.Key)
		warned = append(warned, string(w.Kind)+" "+w.Key)
	}
	require.ElementsMatch(t, []string{"bad-value request_latency", "unknown-key throughput.tokens_per_joule"}, warned)
}

// covers: PL-I4
func TestUnknownFieldsAreKept(t *testing.T) {
	i := items(t, "report.yaml", interchange.LLMD)[0].Record.Provenance.Imported
	require.Equal(t, []string{"llm-d-benchmark", "llm-d", "0.2.1"}, []string{i.From, i.Format, i.Version})
	require.Equal(t, "someone", field(t, i.Fields, "run", "user"))
	require.Equal(t, json.Number("0.5"), field(t, i.Fields, "results", "observability", "drop_rate", "mean"))
	aggregate := []string{"results", "request_performance", "aggregate"}
	require.Equal(t, json.Number("3"),
		field(t, i.Fields, append(aggregate, "throughput", "tokens_per_joule", "mean")...))
	require.Equal(t, json.Number("1250"),
		field(t, i.Fields, append(aggregate, "latency", "request_latency", "mean")...), "also what has a wrong unit")
	require.Equal(t, json.Number("1030"), field(t, i.Fields, append(aggregate, "requests", "input_length", "p99")...))
	require.Equal(t, json.Number("128"),
		field(t, i.Fields, "scenario", "load", "standardized", "output_seq_len", "value"))
	require.NotContains(t, field(t, i.Fields, append(aggregate, "latency")...), "time_to_first_token",
		"what was read is not kept twice")

	i = items(t, "agg_row.json", interchange.InferenceX)[0].Record.Provenance.Imported
	require.Equal(t, "none", i.Fields["spec_decoding"])
	require.NotContains(t, i.Fields, "conc")
}

// Only what the data allow is checked, and the word imported is there.
//
// covers: PL-I4
func TestOnlyPossibleChecks(t *testing.T) {
	row := judged(items(t, "agg_row.json", interchange.InferenceX)[0])
	for _, word := range []string{"result-missing", "no-success", "requests-missing", "request-errors", "output-length",
		"window-wrong", "token-books", "n-too-small", "wrong-server", "job-state"} {
		require.Equal(t, result.NotPossible, row[word], word)
	}
	require.Equal(t, result.Pass, row["inconsistent"])
	require.Equal(t, result.Fail, row["imported"])
	report := judged(items(t, "report.yaml", interchange.LLMD)[0])
	require.Equal(t, result.Pass, report["requests-missing"])
	require.Equal(t, result.Fail, report["request-errors"])
	require.Equal(t, result.NotPossible, report["window-wrong"], "no window is no window that is open")
	for _, it := range items(t, "sweep/SERVE--s16-BENCH--c4/run=0.json", interchange.VLLMServe) {
		require.Equal(t, result.Pass, judged(it)["inconsistent"])
		require.Equal(t, result.Fail, judged(it)["no-steady-state"], "16 requests of 4 at a time")
		require.False(t, validity.Judge(it.Record, it.Evidence).Baseline())
	}
}

// covers: PL-I5
func TestInferenceXRow(t *testing.T) {
	it := items(t, "agg_row.json", interchange.InferenceX)[0]
	r, m := it.Record, it.Record.Results
	require.InDelta(t, 120, *m.Latency[result.TTFT].Mean, 1e-9, "seconds became ms")
	require.InDelta(t, 20, m.Latency[result.TPOT].Percentiles[99], 1e-9)
	require.InDelta(t, 1300, *m.Latency[result.E2EL].Median, 1e-9)
	require.InDelta(t, 3600, *m.TotalTokenThroughput, 1e-9, "450 a GPU, divided by TP 8 alone")
	require.InDelta(t, 400, *m.OutputThroughput, 1e-9)
	require.Equal(t, []string{"input_throughput", "output_throughput", "total_token_throughput"},
		slices.DeleteFunc(slices.Clone(m.Derived), func(k string) bool { return strings.Contains(k, "per_user") }))
	require.Nil(t, m.GPUs, "TP is not said to be all GPUs")
	require.Nil(t, m.CompletedRequests)
	require.Equal(t, "h200", r.System.HardwareInfo.GPU)
	require.Equal(t, "fp8", r.Config.Server["quantization"])
	require.Equal(t, json.Number("8"), r.Config.Server["tensor_parallel_size"])
	require.Equal(t, []int{1024, 128, 16},
		[]int{*r.Config.Benchmark.InputTokens, *r.Config.Benchmark.OutputTokens, *r.Config.Benchmark.MaxConcurrency})
	require.NotContains(t, r.Provenance.Imported.Fields, "p99_intvty", "it says no more than p99_tpot")
	require.Empty(t, r.Warnings)
	require.Empty(t, it.Name)

	text := strings.Replace(string(sample(t, "agg_row.json")), `"p99_tpot": 0.02`, `"p99_tpot": 0.005`, 1)
	_, list, err := interchange.Read("agg.json", []byte(text))
	require.NoError(t, err)
	require.Len(t, list[0].Record.Warnings, 1)
	require.Equal(t, "p99_intvty", list[0].Record.Warnings[0].Key)
	require.Contains(t, list[0].Record.Provenance.Imported.Fields, "p99_intvty")
	require.Equal(t, result.Fail, judged(list[0])["inconsistent"])
}

// One bad row spoils itself; the others keep their places.
//
// covers: PL-I1
func TestInferenceXRows(t *testing.T) {
	format, list, err := interchange.Read("rows.json", sample(t, "rows.json"))
	require.Equal(t, interchange.InferenceX, format)
	var at *interchange.PlaceError
	require.ErrorAs(t, err, &at)
	require.Contains(t, at.Error(), "rows.json:42:3: want a row of InferenceX")
	require.Contains(t, at.Error(), "hint:")
	require.Len(t, list, 3)
	require.Equal(t, []int{0, 2, 3}, []int{list[0].Index, list[1].Index, list[2].Index})
	require.Equal(t, []string{"model8b-h200-vllm-fp8-isl1024-osl128-tp8-conc16"}, list[0].Name)
	disagg := list[1].Record.Results
	require.InDelta(t, 900*16, *disagg.TotalTokenThroughput, 1e-9)
	require.InDelta(t, 200*8, *disagg.OutputThroughput, 1e-9, "over the GPUs of decode")
	require.InDelta(t, 1600*8, *disagg.InputThroughput, 1e-9)
	require.Equal(t, 16, *disagg.GPUs)
	multi := list[2].Record
	require.Nil(t, multi.Results.TotalTokenThroughput, "several nodes and not disaggregated: divided by what?")
	require.Equal(t, json.Number("900.0"), multi.Provenance.Imported.Fields["tput_per_gpu"])
}

// covers: PL-I1
func TestPyTorchRecords(t *testing.T) {
	it := items(t, "serve-latest.pytorch.json", interchange.PyTorch)[0]
	m := it.Record.Results
	require.InDelta(t, 161.984, *m.Latency[result.TTFT].Median, 0)
	require.InDelta(t, 8.888854698817218, m.Latency[result.TPOT].Percentiles[99], 0)
	require.Equal(t, []int{64, 62, 2}, []int{*m.NumPrompts, *m.CompletedRequests, *m.FailedRequests})
	require.Equal(t, 4, it.Record.Config.Server["tensor_parallel_size"], "vLLM writes it as text")
	require.Equal(t, "Qwen/Qwen3-32B", it.Record.Config.Server["model"])
	require.Equal(t, time.Date(2026, 11, 19, 16, 42, 7, 0, time.UTC), it.Record.Timestamp)
	require.Equal(t, result.WarningKind("no-zone"), it.Record.Warnings[0].Kind)

	format, list, err := interchange.Read("offline.pytorch.json", sample(t, "offline.pytorch.json"))
	require.Equal(t, interchange.PyTorch, format)
	require.ErrorContains(t, err, "no metric that a record can hold: latency")
	require.Len(t, list, 1, "the records of one benchmark are one result")
	m = list[0].Record.Results
	require.InDelta(t, 4, *m.RequestThroughput, 0)
	require.InDelta(t, 4608, *m.TotalTokenThroughput, 0)
	require.InDelta(t, 25, *m.Duration, 0)
	require.Equal(t, 100, *m.NumPrompts)
	require.Nil(t, m.CompletedRequests, "the file does not say that all were served")
	require.Equal(t, "bfloat16", list[0].Record.Config.Server["dtype"])

	one := strings.Trim(strings.TrimSpace(string(sample(t, "serve-latest.pytorch.json"))), "[]")
	_, list, err = interchange.Read("two.pytorch.json", []byte("["+one+","+one+"]"))
	require.NoError(t, err)
	require.Len(t, list, 2, "a metric that comes again is of the next benchmark")
	require.Equal(t, [][]string{{"0"}, {"1"}}, [][]string{list[0].Name, list[1].Name})
}

// The run files, the summary of a combination and the table of all say the same.
//
// covers: PL-I3
func TestSweep(t *testing.T) {
	byRun := map[string]result.Metrics{}
	for _, combination := range []string{"s16-BENCH--c4", "s16-BENCH--c8", "s8-BENCH--c4", "s8-BENCH--c8"} {
		dir := "sweep/SERVE--" + combination
		summary := items(t, dir+"/summary.json", interchange.VLLMServe)
		require.Len(t, summary, 2)
		for i, number := range []string{"0", "1"} {
			it := items(t, dir+"/run="+number+".json", interchange.VLLMServe)[0]
			require.Equal(t, "vllm bench sweep serve", it.Record.Provenance.Imported.From)
			seqs, _, _ := strings.Cut(combination, "-")
			require.Equal(t, json.Number(seqs[1:]), it.Record.Config.Server["max_num_seqs"], "an option of the server")
			require.Equal(t, combination[len(combination)-2:], it.Record.Provenance.Imported.Fields["_benchmark_name"])
			require.Equal(t, it.Record.Results.Latency, summary[i].Record.Results.Latency)
			require.Equal(t, it.Record.Config, summary[i].Record.Config)
			byRun[seqs+combination[len(combination)-3:]+number] = it.Record.Results
		}
	}
	table := items(t, "sweep/summary.csv", interchange.VLLMServe)
	require.Len(t, table, 8)
	for _, it := range table {
		load, seqs, _ := strings.Cut(it.Name[0], "-max_num_seqs=")
		key := "s" + seqs + "-" + load + it.Name[1]
		want, ok := byRun[key]
		require.True(t, ok, key)
		require.Equal(t, want.Latency, it.Record.Results.Latency, key)
		require.Equal(t, want.OutputThroughput, it.Record.Results.OutputThroughput)
		require.Len(t, it.Evidence.Samples.Latency, 16, "lists stand in the cells")
	}
}

// covers: PL-I3
func TestSweepParameters(t *testing.T) {
	rows := items(t, "composed-summary.csv", interchange.VLLMServe)
	require.Len(t, rows, 8)
	r := rows[0].Record
	require.Equal(t, json.Number("1"), r.Config.Server["tensor_parallel_size"])
	require.Equal(t, json.Number("32"), r.Config.Server["max_num_seqs"])
	require.Equal(t, 256, *r.Config.Benchmark.InputTokens)
	require.Equal(t, 64, *r.Config.Benchmark.OutputTokens)
	require.Equal(t, "tensor_parallel_size=1-max_num_seqs=32-random_input_len=256-random_output_len=64",
		rows[0].Name[0])

	text := strings.Replace(string(sample(t, "sweep/SERVE--s8-BENCH--c4/run=0.json")), `"max_num_seqs": 8`,
		`"max_num_seqs": 8, "random_range_ratio": 0.5, "temperature": 0.5, "enforce-eager": true`, 1)
	_, list, err := interchange.Read("x/SERVE--temperature=0.5-BENCH--random_range_ratio=0.5/run=0.json", []byte(text))
	require.NoError(t, err)
	require.Equal(t, map[string]any{"model": "tiny", "max_num_seqs": json.Number("8"),
		"temperature": json.Number("0.5"), "enforce_eager": true}, list[0].Record.Config.Server,
		"the folder's name says whose they are")
	require.Equal(t, json.Number("0.5"), list[0].Record.Provenance.Imported.Fields["random_range_ratio"])
}

// Each of the results that were appended to one file is a run.
//
// covers: PL-I3
func TestAppended(t *testing.T) {
	one := string(sample(t, "sweep/SERVE--s8-BENCH--c4/run=0.json"))
	one = strings.Replace(one, `"run_number": 0,`, "", 1)
	_, list, err := interchange.Read("marked.json", []byte("\ufeff"+one))
	require.NoError(t, err)
	require.Len(t, list, 1, "an editor's byte order mark is no part of the document")
	_, list, err = interchange.Read("results.json",
		[]byte(one+"\n"+strings.Replace(one, `"completed": 16`, `"completed": 15`, 1)))
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, 15, *list[1].Record.Results.CompletedRequests)
	require.Equal(t, "vllm bench serve", list[0].Record.Provenance.Imported.From)
}

// covers: PL-I3
func TestRollups(t *testing.T) {
	format, list, err := interchange.Read("benchmark-rollup.json", sample(t, "benchmark-rollup.json"))
	require.Equal(t, interchange.SRTSlurm, format)
	require.ErrorContains(t, err, "no latency and no throughput in this run")
	require.Len(t, list, 2)
	require.Equal(t, []string{"conc-4"}, list[0].Name)
	m := list[1].Record.Results
	require.InDelta(t, 800, *m.OutputThroughput, 0)
	require.InDelta(t, 58, *m.Latency[result.TTFT].Mean, 0)
	require.InDelta(t, 11, m.Latency[result.ITL].Percentiles[99], 0)
	require.Equal(t, 400, *m.CompletedRequests)
	require.Nil(t, m.FailedRequests)
	require.Equal(t, "sa-bench", list[0].Record.Config.Benchmark.Kind)
	require.Equal(t, 128, *list[0].Record.Config.Benchmark.OutputTokens)

	m = items(t, "rollup-aiperf.json", interchange.SRTSlurm)[0].Record.Results
	require.NotContains(t, m.Latency, result.ITL, "AIPerf's is the time per token of a request")
	require.InDelta(t, 9, *m.Latency[result.TPOT].Mean, 0)

	it := items(t, "rollup-mlperf.json", interchange.SRTSlurm)[0]
	require.InDelta(t, 5000, *it.Record.Results.OutputThroughput, 0)
	require.Equal(t, "INVALID", it.Record.Provenance.Imported.Fields["result"])
	require.Equal(t, result.Fail, judged(it)["inconsistent"],
		"what says of itself that it is invalid is not valid here")
}

// A file that cannot be read is named with its place and what to do.
// Numbers that contradict each other although no window is known.
func TestContradictionsWithoutWindow(t *testing.T) {
	for name, c := range map[string]struct {
		file     string
		old, new []string
		bad      bool
	}{
		"row":                       {"agg_row.json", nil, nil, false},
		"another sum":               {"agg_row.json", []string{`"tput_per_gpu": 450.0`}, []string{`"tput_per_gpu": 900.0`}, true},
		"beyond Little's law":       {"agg_row.json", []string{`"tput_per_gpu": 450.0`, `"output_tput_per_gpu": 50.0`}, []string{`"tput_per_gpu": 5400.0`, `"output_tput_per_gpu": 5000.0`}, true},
		"latencies in another unit": {"agg_row.json", []string{`"mean_ttft": 0.12`, `"mean_e2el": 1.4`}, []string{`"mean_ttft": 120`, `"mean_e2el": 1400`}, true},
		"no GPUs":                   {"agg_row.json", []string{`"tp": 8`}, []string{`"tp": 0`}, true},
		"latency above its parts":   {"agg_row.json", []string{`"mean_e2el": 1.4`}, []string{`"mean_e2el": 1.9`}, true},
		"shorter answers":           {"agg_row.json", []string{`"mean_e2el": 1.4`}, []string{`"mean_e2el": 0.9`}, false},
		"rollup":                    {"benchmark-rollup.json", nil, nil, false},
		"ten times the tokens":      {"benchmark-rollup.json", []string{`"throughput_toks": 400.0`}, []string{`"throughput_toks": 4000.0`}, true},
		"latency below its parts":   {"benchmark-rollup.json", []string{`"ttft_mean_ms": 54.0`}, []string{`"ttft_mean_ms": 486.0`}, true},
	} {
		t.Run(name, func(t *testing.T) {
			text := string(sample(t, c.file))
			for i, old := range c.old {
				require.Contains(t, text, old)
				text = strings.Replace(text, old, c.new[i], 1)
			}
			_, list, _ := interchange.Read(c.file, []byte(text))
			require.Equal(t, c.bad, judged(list[0])["inconsistent"] == result.Fail)
		})
	}
}

// Whatever is missing in a file, null, a list or a text: it is read, or refused with a reason.
func TestAnythingMayBeMissing(t *testing.T) {
	for _, name := range []string{
		"report.yaml", "agg_row.json", "rows.json", "benchmark-rollup.json", "rollup-aiperf.json", "rollup-mlperf.json",
		"serve-latest.pytorch.json", "offline.pytorch.json", "sweep/SERVE--s8-BENCH--c4/run=0.json",
	} {
		var whole any
		require.NoError(t, yaml.Unmarshal(sample(t, name), &whole), name) // which is JSON too
		tried := 0
		try := func(what string) {
			tried++
			data, err := json.Marshal(whole)
			require.NoError(t, err)
			require.NotPanics(t, func() { interchange.Read(name, data) }, "%s: %s", name, what)
		}
		var walk func(at string, x any)
		walk = func(at string, x any) {
			switch x := x.(type) {
			case map[string]any:
				for _, key := range slices.Sorted(maps.Keys(x)) {
					at, was := at+"."+key, x[key]
					walk(at, was)
					for _, other := range []any{nil, []any{}, "x", map[string]any{}} {
						x[key] = other
						try(fmt.Sprintf("%s is %v", at, other))
					}
					delete(x, key)
					try(at + " is missing")
					x[key] = was
				}
			case []any:
				for i, was := range x {
					at := fmt.Sprintf("%s[%d]", at, i)
					walk(at, was)
					x[i] = nil
					try(at + " is null")
					x[i] = was
				}
			}
		}
		walk("", whole)
		require.Greater(t, tried, 50, name)
	}
}

func TestPlaces(t *testing.T) {
	deep := strings.Repeat("[", 300)
	for name, c := range map[string]struct{ file, text, want string }{
		"cut off":        {"a.json", "{\n \"hw\": 1,\n \"conc\": [1,", "a.json:3:13: the file ends inside a document"},
		"no value":       {"a.json", "{\"a\": nope}", "a.json:1:7: not a value: \"nope\""},
		"bare text":      {"a.json", "{\"a\": \"\\x\"}", "a.json:1:7: bad string"},
		"empty":          {"a.json", " \n", "a.json: the file is empty"},
		"deep":           {"a.json", deep, "a.json:1:201: nested more than 200 deep"},
		"behind":         {"a.json", "{} x", "a.json:1:4: text after the end of the document"},
		"bad YAML":       {"a.yaml", "version: 1\nrun: [a\n", "did not find expected"},
		"two documents":  {"a.yaml", "version: 1\n---\nrun: 2\n", "a.yaml:2:1: more than one document"},
		"old report":     {"a.yaml", "run: {}\nresults: {}\nversion: '0.1'\n", "a.yaml:3:10: benchmark report of version \"0.1\"; 0.2 and 0.2.1 are read"},
		"no report":      {"a.yaml", "run: {}\nresults:\nversion: 0.2\n", "a.yaml: no results.request_performance.aggregate"},
		"no version":     {"a.yaml", "run: {}\nresults: {}\nversion:\n", "a.yaml: benchmark report of version \"\"; 0.2 and 0.2.1 are read"},
		"empty report":   {"a.yaml", "run: {}\nresults: {observability: {}}\nversion: 0.2\n", "a.yaml:2:10: no results.request_performance.aggregate"},
		"short row":      {"a.csv", "duration,completed,run_number\n1,2,3\n1\n", "a.csv:3:1: wrong number of fields"},
		"no run number":  {"a.json", `{"duration": 1, "completed": 1, "run_number": "x"}`, "a.json:1:47: run_number is not a number, 0 or more"},
		"rollup of text": {"a.json", `{"benchmark_type": "x", "runs": "y"}`, "a.json:1:1: runs is not a list"},
	} {
		_, _, err := interchange.Read(c.file, []byte(c.text))
		require.ErrorContains(t, err, c.want, name)
		require.ErrorContains(t, err, "hint:", name)
	}
	for file, text := range map[string]string{"a.json": `{"schema": "x"}`, "a.csv": "a,b\n1,2\n", "a.yaml": "just text",
		"b.json": "[]"} {
		_, _, err := interchange.Read(file, []byte(text))
		require.ErrorIs(t, err, interchange.ErrUnknown, file)
	}
	bomb := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += string(c) + ": &" + string(c) + " [" + strings.TrimSuffix(strings.Repeat("*"+string(c-1)+", ", 10),
			", ") + "]\n"
	}
	_, _, err := interchange.Read("bomb.yaml", []byte(bomb))
	require.ErrorContains(t, err, "more than")
	require.False(t, errors.Is(err, interchange.ErrUnknown))
	_, _, err = interchange.Read("big.yaml", []byte(strings.Repeat("# nothing\n", 1<<20)))
	require.ErrorContains(t, err, "at most 8 MiB are read")
}

func TestSuspected(t *testing.T) {
	require.True(t, interchange.Suspected("x/run=1.json", nil))
	require.True(t, interchange.Suspected("x/agg_one.json", nil))
	require.True(t, interchange.Suspected("x.json", []byte(`{"hw": "h200", "tput_per_gpu": 4`)))
	require.True(t, interchange.Suspected("x.yaml", []byte("results:\n  request_performance: [")))
	require.False(t, interchange.Suspected("values.yaml", []byte("image: {{ .Values.image }}")))
}

// Python writes NaN; a number that is none is left out and makes the record
// inconsistent.
func TestNotFinite(t *testing.T) {
	text := strings.Replace(string(sample(t, "sweep/SERVE--s8-BENCH--c4/run=0.json")),
		`"mean_ttft_ms": 105.76770406251512`, `"mean_ttft_ms": NaN`, 1)
	_, list, err := interchange.Read("run=0.json", []byte(text))
	require.NoError(t, err)
	require.Nil(t, list[0].Record.Results.Latency[result.TTFT].Mean)
	require.Equal(t, result.Fail, judged(list[0])["inconsistent"])
	text = strings.Replace(string(sample(t, "report.yaml")), "mean: 0.05,", "mean: .nan,", 1)
	_, list, err = interchange.Read("r.yaml", []byte(text))
	require.NoError(t, err)
	require.Equal(t, result.Fail, judged(list[0])["inconsistent"])
	text = strings.NewReplacer(`"conc": 16`, `"conc": 1e99999`, `"mean_ttft": 0.12`, `"mean_ttft": 1e308`).
		Replace(string(sample(t, "agg_row.json")))
	_, list, err = interchange.Read("agg.json", []byte(text))
	require.NoError(t, err)
	require.Equal(t, "1e99999", list[0].Record.Provenance.Imported.Fields["conc"],
		"as text, which every reader of JSON takes")
	require.Nil(t, list[0].Record.Results.Latency[result.TTFT].Mean, "more than a number holds, in ms")
}
