package inferenceperf_test

import (
	"io/fs"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/bench/inferenceperf"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/result/resulttest"
	"github.com/profllm/profllm/pkg/validity"
)

func folder(t testing.TB, name string, files ...string) fstest.MapFS {
	t.Helper()
	out := fstest.MapFS{}
	for _, file := range files {
		data, err := os.ReadFile("testdata/" + name + "/" + file)
		require.NoError(t, err)
		out["raw/"+file] = &fstest.MapFile{Data: data}
	}
	return out
}

const (
	stage0  = "stage_0_lifecycle_metrics.json"
	stage10 = "stage_10_lifecycle_metrics.json"
	summary = inferenceperf.SummaryFile
	details = inferenceperf.PerRequestFile
)

func parse(t testing.TB, out fs.FS) (result.Part, error) {
	t.Helper()
	return inferenceperf.Parser{Dir: "raw"}.Parse(out)
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

// The last of two stages, by number and not by name, in the form without a duration.
//
// covers: PL-I3
func TestStages(t *testing.T) {
	p, err := parse(t, folder(t, "stages", stage0, stage10, summary))
	require.NoError(t, err)
	m := p.Metrics
	require.Equal(t, "inference-perf", p.Benchmark.Kind)
	require.Equal(t, stage10, m.Source)
	require.Equal(t, []result.WarningKind{result.Appended}, kinds(p))
	require.Equal(t, "2 stages, this one was used", p.Warnings[0].Text)
	require.Equal(t, []int{8, 0, 8}, []int{*m.CompletedRequests, *m.FailedRequests, *m.NumPrompts})
	require.InDelta(t, 7*0.25+0.06+0.003*7+9*0.012+0.02, *m.Duration, 1e-9, "requests over their rate")
	require.Equal(t, []int64{8*130 + 28, 88}, []int64{*m.TotalInputTokens, *m.TotalOutputTokens},
		"a mean times the requests")
	require.Equal(t, []string{"duration_s", "total_input_tokens", "total_output_tokens"}, m.Derived)
	require.InDelta(t, 4, float64(*m.RequestRate), 0)
	require.InDelta(t, 60+3*3.5, *m.Latency[result.TTFT].Mean, 1e-6, "its times are in s")
	require.InDelta(t, 60, *m.Latency[result.TTFT].Min, 1e-6)
	require.InDelta(t, (9*12.0+20)/10, *m.Latency[result.TPOT].Mean, 1e-6)
	median, ok := m.Latency[result.ITL].Percentile(50)
	require.True(t, ok)
	require.InDelta(t, 12, median, 1e-6)
	require.Contains(t, m.Latency[result.ITL].Percentiles, 99.9)
	require.InDelta(t, (60+10.5+128)/11, *m.Latency[result.NTPOT].Mean, 1e-6)
	require.InDelta(t, 0.5, *m.Client.SendDelayP99, 1e-9, "schedule_delay in ms")
	require.InDelta(t, 1.75, *m.Client.LastSend, 1e-9)
	require.Zero(t, p.UnknownKeys)
	require.Nil(t, p.Samples)
	v := judge(p)
	require.Equal(t, result.Pass, v.Check("inconsistent").Outcome)
	require.Equal(t, result.Pass, v.Check("client-bound").Outcome)
}

// One stage, with all that the form of 2026 has.
//
// covers: PL-I3
func TestSingle(t *testing.T) {
	p, err := parse(t, folder(t, "single", stage0, summary, details))
	require.NoError(t, err)
	require.Empty(t, p.Warnings)
	m := p.Metrics
	require.Equal(t, []int{4, 1, 5, 3},
		[]int{*m.CompletedRequests, *m.FailedRequests, *m.NumPrompts, *m.MaxConcurrency})
	require.InDelta(t, 2.1, *m.Duration, 1e-9, "to the end of the failed request")
	require.Equal(t, []string{"total_output_tokens"}, m.Derived, "the others are its own")
	require.InDelta(t, 3/2.1, *m.RequestGoodput, 1e-9)
	require.Nil(t, m.Client, "under a cap the server delays the sends")
	require.Equal(t, 2, p.UnknownKeys, "token_count_mismatches, client_fallback_requests")
	s := p.Samples
	require.Equal(t, []string{"", "", "", "", "HTTP Error 500: boom"}, s.Errors)
	require.Equal(t, []int{5, 5, 5, 5, 0}, s.OutputLen)
	require.InDelta(t, 0.052, s.TTFT[2], 1e-9)
	require.Len(t, s.ITL[0], 4)
	require.InDelta(t, 0.02, s.ITL[0][2], 1e-9)
	require.Equal(t, 16, *m.Latency[result.ITL].N)
	require.Equal(t, 4, *m.Latency[result.TPOT].N)
	require.Contains(t, judge(p).Words, "request-errors")
}

// Details of the older form, of a load of several stages, and cut short.
func TestDetails(t *testing.T) {
	out := folder(t, "single", stage0, details)
	text := string(out["raw/"+details].Data)
	old := strings.NewReplacer(`"request_metrics": {"text": {"input_tokens": 100}}, "response_metrics": {`, "",
		`"chunk_times"`, `"other"`, `}, "extra_info": {}, "labels": {}, "input_tokens"`, `, "input_tokens"`).
		Replace(text)
	require.NotContains(t, old, `"response_metrics": {`)
	out["raw/"+details].Data = []byte(old)
	p, err := parse(t, out)
	require.NoError(t, err)
	require.Equal(t, []int{5, 5, 5, 5, 0}, p.Samples.OutputLen)
	require.Equal(t, []int{100, 100, 100, 100, 100}, p.Samples.InputLen)

	out["raw/"+details].Data = []byte(text[:len(text)-500])
	p, err = parse(t, out)
	require.NoError(t, err, "the statistics stand without them")
	require.Nil(t, p.Samples)
	require.Equal(t, []result.WarningKind{result.Truncated}, kinds(p))
	require.Equal(t, details, p.Warnings[0].File)
	require.Positive(t, p.Warnings[0].Col)

	out["raw/"+details].Data = []byte("[]")
	p, err = parse(t, out)
	require.NoError(t, err)
	require.Nil(t, p.Samples, "of another run")
}

// A client that cannot send as fast as it should says so in its delays.
//
// covers: PL-V13
func TestLateClient(t *testing.T) {
	out := folder(t, "stages", stage0)
	p, err := parse(t, out)
	require.NoError(t, err)
	require.Equal(t, result.Pass, judge(p).Check("client-bound").Outcome)
	file := out["raw/"+stage0]
	file.Data = []byte(strings.Replace(string(file.Data), `"p99": 0.0005`, `"p99": 63.25`, 1))
	p, err = parse(t, out)
	require.NoError(t, err)
	v := judge(p)
	require.Equal(t, result.Fail, v.Check("client-bound").Outcome)
	require.Contains(t, v.Check("client-bound").Detail, "63250.00 ms")
}

func TestOddFiles(t *testing.T) {
	good := string(folder(t, "single", summary)["raw/"+summary].Data)
	for _, c := range []struct {
		name, text string
		want       []result.WarningKind
		err        string
		none       bool
	}{
		{"the summary alone", good, nil, "", false},
		{"cut short", good[:700], []result.WarningKind{result.Truncated}, "parse " + summary + ":1:701: the file ends", false},
		{"no JSON", "oops", []result.WarningKind{result.BadValue}, "parse " + summary + ":1:1", false},
		{"of another program", `{"a": 1}`, nil, "", true},
		{"NaN", strings.Replace(good, `"requests_per_sec": `, `"requests_per_sec": NaN, "x": `, 1), []result.WarningKind{result.NotFinite}, "", false},
		{"not streamed", strings.Replace(good, `"time_to_first_token": {`, `"time_to_first_token": null, "x": {`, 1), nil, "", false},
		{"another tokenizer", strings.Replace(good, `"output_tokens": {"total": 20.0`, `"output_tokens": {"total": 10.0`, 1), []result.WarningKind{result.Contradicts}, "", false},
		{"half a request", strings.Replace(good, `"count": 4`, `"count": 4.5`, 1), []result.WarningKind{result.NoNumber}, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := parse(t, fstest.MapFS{"raw/" + summary: {Data: []byte(c.text)}})
			switch {
			case c.none:
				require.ErrorIs(t, err, fs.ErrNotExist)
			case c.err != "":
				require.ErrorContains(t, err, c.err)
				require.NotErrorIs(t, err, fs.ErrNotExist)
			default:
				require.NoError(t, err)
				require.NotNil(t, p.Metrics.CompletedRequests)
			}
			require.Subset(t, append(kinds(p), ""), append(c.want, ""))
			if c.want == nil {
				require.Empty(t, p.Warnings)
			}
		})
	}
	_, err := parse(t, fstest.MapFS{"raw/x": {}})
	require.ErrorIs(t, err, fs.ErrNotExist)
	out := folder(t, "stages", stage0, stage10)
	out["raw/"+stage10].Data = out["raw/"+stage10].Data[:100]
	_, err = parse(t, out)
	require.ErrorContains(t, err, "stage_10_lifecycle_metrics.json:1:101")
}

// Texts and chunks of many requests are passed, not kept.
func TestMemory(t *testing.T) {
	const requests = 10_000
	var b strings.Builder
	b.WriteString("[")
	entry := `{"start_time": 1.0, "end_time": 1.5, "request": "` + strings.Repeat("prompt ",
		500) + `", "info": {"response_metrics": {"output_tokens": 3, "response_chunks": ["` +
		strings.Repeat("data ", 400) + `"], "output_token_times": [1.1, 1.2, 1.5]}, "input_tokens": 4}, "error": null}`
	for i := range requests {
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString(entry)
	}
	b.WriteString("]")
	text := strings.NewReplacer(`"count": 5, "schedule_delay"`, `"count": 10000, "schedule_delay"`).
		Replace(string(folder(t, "single", summary)["raw/"+summary].Data))
	out := fstest.MapFS{"raw/" + summary: {Data: []byte(text)}, "raw/" + details: {Data: []byte(b.String())}}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p, err := parse(t, out)
	require.NoError(t, err)
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(8<<20), "of 55 MB")
	require.Contains(t, kinds(p), result.Contradicts, "they are not four of five")
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{stage0, stage10} {
		f.Add(folder(f, "stages", name)["raw/"+name].Data, []byte("[]"))
	}
	single := folder(f, "single", summary, details)
	f.Add(single["raw/"+summary].Data, single["raw/"+details].Data)
	f.Add([]byte(`{"load_summary":{"count":1,"requested_rate":1e-300},"successes":{"count":1e9,"throughput":{"requests_per_sec":1e-300},"output_len":{"mean":1e300},"latency":{"request_latency":{"p100":NaN,"p1e3":2}}}}`), []byte(`[{"info":{"output_token_times":[1e308,-1e308]}}]`))
	f.Fuzz(func(t *testing.T, data, requests []byte) {
		p, err := inferenceperf.Parser{}.Parse(fstest.MapFS{summary: {Data: data}, details: {Data: requests}})
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
