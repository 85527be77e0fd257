package vllmoffline_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"

	"github.com/profllm/profllm/pkg/bench/vllmoffline"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/result/resulttest"
	"github.com/profllm/profllm/pkg/validity"
)

func sample(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(path.Join("testdata", name))
	require.NoError(t, err)
	return data
}

// folder makes one of sample files, by the name they get.
func folder(t testing.TB, names ...string) fstest.MapFS {
	out := fstest.MapFS{}
	for _, name := range names {
		out["raw/"+path.Base(name)] = &fstest.MapFile{Data: sample(t, name)}
	}
	return out
}

func kinds(p result.Part) (list []result.WarningKind) {
	for _, w := range p.Warnings {
		list = append(list, w.Kind)
	}
	return list
}

func parse(t *testing.T, out fs.FS) result.Part {
	t.Helper()
	p, err := vllmoffline.Parser{Dir: "raw"}.Parse(out)
	require.NoError(t, err)
	return p
}

func judge(p result.Part) *result.Validity {
	r := &result.Result{}
	r.Merge(p)
	return validity.Judge(r, validity.Evidence{})
}

// covers: PL-I3, PL-V8, PL-V24
func TestReal(t *testing.T) {
	p := parse(t, folder(t, "real/latency.json", "real/throughput.json", "real/startup.json"))
	require.Empty(t, p.Warnings)
	require.Zero(t, p.UnknownKeys)
	require.Equal(t, "/lab/tiny", p.Model)
	require.Equal(t, "vllm-offline", p.Benchmark.Kind)
	require.Nil(t, p.Metrics.CompletedRequests, "none of a load client's keys")
	require.Nil(t, p.Metrics.RequestThroughput)
	o := p.Metrics.Offline
	require.InDelta(t, 0.18828403660008916, *o.Batch.Latency.Mean, 0)
	require.Nil(t, o.Batch.Latency.Std, "this release does not say")
	require.Equal(t, 5, *o.Batch.Latency.N)
	require.InDelta(t, 0.18201876000011907, o.Batch.Latency.Percentiles["50"], 0)
	require.InDelta(t, 0.17617354300000443, o.Batch.Latency.Values[4], 0)
	require.InDelta(t, 0.31271574499987764, *o.Throughput.Duration, 0)
	require.Equal(t, []int64{16, 777}, []int64{*o.Throughput.Requests, *o.Throughput.TotalTokens})
	require.InDelta(t, 2484.6846134987672, *o.Throughput.TotalTokenThroughput, 0)
	require.Nil(t, o.Throughput.OutputThroughput, "the file never has it")
	require.InDelta(t, 20.98212895100005, *o.Startup.Cold.Mean, 0)
	require.InDelta(t, 7.050029909999921, o.Startup.Warm.Percentiles["99"], 0)
	require.InDelta(t, 0, *o.Startup.WarmCompilation.Mean, 0)
	require.Nil(t, o.Startup.ColdEncoder)
	v := judge(p)
	require.Equal(t, result.VerdictValid, v.Verdict)
	require.Contains(t, v.Withheld, "offline.batch.latency.percentiles_s.99", "five iterations have no 99th percentile")
	require.NotContains(t, v.Withheld, "offline.batch.latency.percentiles_s.50")
}

// covers: PL-I3
func TestComposed(t *testing.T) {
	p := parse(t, folder(t, "composed/latency.json", "composed/throughput.json", "composed/throughput.log",
		"composed/startup.json"))
	o := p.Metrics.Offline
	require.InDelta(t, 0.005498314396249073, *o.Batch.Latency.Std, 0)
	require.Equal(t, 10, *o.Batch.Latency.N)
	require.InDelta(t, 27.28882833333333, *o.Startup.ColdCompilation.Mean, 0)
	require.Len(t, o.Startup.Warm.Values, 3)
	require.InDelta(t, 4829.06, *o.Throughput.OutputThroughput, 0, "of the console text")
	require.Equal(t, []int64{219431, 201872, 421303},
		[]int64{*o.Throughput.InputTokens, *o.Throughput.OutputTokens, *o.Throughput.TotalTokens})
	require.InDelta(t, 23.921412228319735, *o.Throughput.RequestThroughput, 0, "of the file")
	require.Equal(t, []result.WarningKind{result.Recovered}, kinds(p))
	require.False(t, p.Metrics.FromLog)
	require.Equal(t, "latency.json, throughput.json, startup.json", p.Metrics.Source)
	require.Equal(t, result.VerdictValid, judge(p).Verdict)
}

// The console text has the numbers of the file, some of them rounded.
//
// covers: PL-D15
func TestLogs(t *testing.T) {
	want := parse(t, folder(t, "composed/latency.json", "composed/throughput.json", "composed/startup.json")).
		Metrics.Offline
	p := parse(t, folder(t, "composed/latency.log", "composed/throughput.log", "composed/startup.log"))
	got := p.Metrics.Offline
	require.True(t, p.Metrics.FromLog)
	require.Equal(t, []result.WarningKind{result.Recovered, result.Recovered, result.Recovered}, kinds(p))
	require.InDelta(t, *want.Throughput.RequestThroughput, *got.Throughput.RequestThroughput, 0.00501)
	require.InDelta(t, *want.Throughput.TotalTokenThroughput, *got.Throughput.TotalTokenThroughput, 0.00501)
	require.Equal(t, *want.Throughput.TotalTokens, *got.Throughput.TotalTokens)
	a, b := want.Timings(), got.Timings()
	require.Len(t, b, len(a))
	for i := range a {
		require.Equal(t, a[i].Name, b[i].Name)
		require.InDelta(t, *a[i].Mean, *b[i].Mean, 0.00501, a[i].Name)
		require.Len(t, b[i].Percentiles, 6)
		for rank, v := range a[i].Percentiles {
			require.InDelta(t, v, b[i].Percentiles[rank], 0.00501, a[i].Name)
		}
		require.Nil(t, b[i].N, "the text does not say how many")
	}
	v := judge(p)
	require.Equal(t, result.VerdictSuspect, v.Verdict)
	require.Equal(t, []string{"from-log"}, v.Words)
}

// What a terminal gets: bars that write over themselves, colours, two runs in one
// text, an older release's words.
func TestOddLogs(t *testing.T) {
	text := "Warming up: 50%|##|\rAvg latency: 9 seconds\n99% percentile latency: 9.5 seconds\n" +
		"\x1b[1mAvg latency: 2.5 seconds\x1b[0m\r\n50% percentile latency: 2.25 seconds\n"
	p := parse(t, fstest.MapFS{"raw/latency.log": {Data: []byte(text)}})
	require.InDelta(t, 2.5, *p.Metrics.Offline.Batch.Latency.Mean, 0)
	require.Equal(t, map[string]float64{"50": 2.25}, p.Metrics.Offline.Batch.Latency.Percentiles,
		"none of the first run")

	p = parse(t, fstest.MapFS{"raw/throughput.log": {Data: []byte("Throughput: 1.50 requests/s, 300.25 tokens/s\n")}})
	require.InDelta(t, 300.25, *p.Metrics.Offline.Throughput.TotalTokenThroughput, 0)
	require.Nil(t, p.Metrics.Offline.Throughput.OutputThroughput)

	p = parse(t, fstest.MapFS{"raw/startup.log": {Data: []byte("STARTUP TIME BENCHMARK RESULTS\nWARM STARTUP:\nAvg total startup time: 3.25 seconds\n")}})
	require.InDelta(t, 3.25, *p.Metrics.Offline.Startup.Warm.Mean, 0)
}

func TestFallbacks(t *testing.T) {
	good := string(sample(t, "composed/latency.json"))
	log := string(sample(t, "composed/latency.log"))
	for _, c := range []struct {
		name, json, log string
		want            []result.WarningKind
		err             string // of an error that is not "nothing there"
		none            bool
	}{
		{"truncated, with text", good[:100], log, []result.WarningKind{result.Truncated, result.Recovered}, "", false},
		{"truncated", good[:100], "", []result.WarningKind{result.Truncated}, "parse latency.json:4:19: the file ends inside a document", false},
		{"no JSON", "Traceback", "", []result.WarningKind{result.BadValue}, "parse latency.json:1:1: ", false},
		{"of another program", `{"latency": 5}`, "", nil, "", true},
		{"of another program, with text", `[1]`, log, []result.WarningKind{result.Recovered}, "", false},
		{"NaN", strings.Replace(good, "1.3139210000000001", "NaN", 1), log, []result.WarningKind{result.NotFinite, result.Recovered}, "", false},
		{"a text in the list", strings.Replace(good, "1.304291", `"slow"`, 1), "", []result.WarningKind{result.NoNumber}, "", false},
		{"empty list", `{"avg_latency": 0.0, "latencies": [], "percentiles": {}}`, "", []result.WarningKind{result.EmptySample}, "", true},
		{"nothing", "", "", []result.WarningKind{result.Truncated}, "the file ends", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := fstest.MapFS{"latency.json": {Data: []byte(c.json)}}
			if c.log != "" {
				out["latency.log"] = &fstest.MapFile{Data: []byte(c.log)}
			}
			p, err := vllmoffline.Parser{}.Parse(out)
			require.Equal(t, c.want, kinds(p))
			require.Equal(t, c.none, errors.Is(err, fs.ErrNotExist))
			switch {
			case c.err != "":
				require.ErrorContains(t, err, c.err)
			case !c.none:
				require.NoError(t, err)
				require.InDelta(t, 1.3139210000000001, *p.Metrics.Offline.Batch.Latency.Mean, 1e-9)
			}
		})
	}
	_, err := vllmoffline.Parser{}.Parse(fstest.MapFS{})
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// Of a file that is not whole JSON nothing is kept.
func TestTextBehind(t *testing.T) {
	out := folder(t, "composed/latency.json", "composed/throughput.json")
	out["raw/latency.json"].Data = append(out["raw/latency.json"].Data, '}')
	p := parse(t, out)
	require.Equal(t, []result.WarningKind{result.BadValue}, kinds(p))
	require.Nil(t, p.Metrics.Offline.Batch)
	require.NotNil(t, p.Metrics.Offline.Throughput)
	require.Equal(t, "vllm-throughput", p.Benchmark.Kind)
}

// Text of another run beside the file is told by its rate.
func TestTextOfAnotherRun(t *testing.T) {
	out := folder(t, "composed/throughput.json", "composed/throughput.log")
	out["raw/throughput.log"].Data = bytes.Replace(out["raw/throughput.log"].Data, []byte("23.92"), []byte("21.92"), 1)
	p := parse(t, out)
	require.Equal(t, []result.WarningKind{result.Contradicts}, kinds(p))
	require.Nil(t, p.Metrics.Offline.Throughput.OutputThroughput)
}

// covers: PL-V8
func TestContradictions(t *testing.T) {
	for name, change := range map[string][3]string{
		"rate":  {"throughput", `"requests_per_second": 23.9`, `"requests_per_second": 33.9`},
		"total": {"throughput", `"total_num_tokens": 421303`, `"total_num_tokens": 521303`},
		"mean":  {"latency", `"avg_latency": 1.3`, `"avg_latency": 1.9`},
		"order": {"latency", `"10": 1.3066598`, `"10": 1.4066598`},
		"sign":  {"startup", `61.482117,`, `-61.482117,`},
	} {
		out := folder(t, "composed/"+change[0]+".json")
		file := out["raw/"+change[0]+".json"]
		require.Equal(t, result.VerdictValid, judge(parse(t, out)).Verdict)
		require.Contains(t, string(file.Data), change[1])
		file.Data = bytes.Replace(file.Data, []byte(change[1]), []byte(change[2]), 1)
		require.Equal(t, []string{"inconsistent"}, judge(parse(t, out)).Words[:1], name)
	}
}

func TestCompressed(t *testing.T) {
	var b bytes.Buffer
	w, err := xz.NewWriter(&b)
	require.NoError(t, err)
	_, err = w.Write(sample(t, "real/startup.json"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	p := parse(t, fstest.MapFS{"raw/startup.json.xz": {Data: b.Bytes()}})
	require.Equal(t, "startup.json.xz", p.Metrics.Source)
	require.Equal(t, "vllm-startup", p.Benchmark.Kind)
	_, err = vllmoffline.Parser{Dir: "raw"}.Parse(fstest.MapFS{"raw/startup.json.xz": {Data: b.Bytes()[:b.Len()/2]}})
	require.Error(t, err)
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"latency", "throughput", "startup"} {
		f.Add(sample(f, "composed/"+name+".json"), sample(f, "composed/"+name+".log"))
	}
	f.Add(columns(3, 0.5, 2).Data, sample(f, "composed/requests.log"))
	f.Add([]byte(`{"avg_latency": 1e999, "latencies": [NaN], "percentiles": {"1e5": 3}}`),
		[]byte("Throughput: 1 requests/s, 2 tokens/s, 3 output tokens/s"))
	f.Fuzz(func(t *testing.T, file, log []byte) {
		out := fstest.MapFS{}
		for _, name := range []string{"latency", "throughput", "startup", "requests", "mm-processor"} {
			out[name+".json"], out[name+".log"] = &fstest.MapFile{Data: file}, &fstest.MapFile{Data: log}
		}
		p, err := vllmoffline.Parser{}.Parse(out)
		require.Equal(t, err == nil, p.Metrics != nil)
		if err != nil {
			return
		}
		r := &result.Result{RunID: "x", Status: result.Completed}
		r.Merge(p)
		r.Validity = validity.Judge(r, validity.Evidence{})
		_, err = resulttest.Marshal(r)
		require.NoError(t, err, "whatever was read can be written")
	})
}

// What engines shared is added up; the time is that of the slowest. Files of processes that do not
// lead an engine are not read.
//
// covers: OFF-8
func TestShared(t *testing.T) {
	one := `{"model_id": "m", "elapsed_time": %s, "num_requests": 10, "total_num_tokens": 100, "requests_per_second": 1, "tokens_per_second": 2}`
	file := func(elapsed string) *fstest.MapFile { return &fstest.MapFile{Data: fmt.Appendf(nil, one, elapsed)} }
	dir := fstest.MapFS{"raw/throughput-0.json": file("2.0"), "raw/throughput-4.json": file("4.0"),
		"raw/throughput-1.worker.json": file("99")}
	part, err := vllmoffline.Parser{Dir: "raw", Logs: "logs"}.Parse(dir)
	require.NoError(t, err)
	got := part.Metrics.Offline.Throughput
	require.EqualValues(t, 20, *got.Requests)
	require.EqualValues(t, 200, *got.TotalTokens)
	require.Equal(t, 4.0, *got.Duration)
	require.Equal(t, 5.0, *got.RequestThroughput)
	require.Equal(t, 50.0, *got.TotalTokenThroughput)
	require.Equal(t, "throughput-0.json, throughput-4.json", part.Metrics.Source)

	// The output tokens of one engine are in the log of its process.
	dir = fstest.MapFS{"raw/throughput.json": file("2.0"), "logs/throughput-0.log": {Data: []byte(
		"Throughput: 1.00 requests/s, 50.00 total tokens/s, 20.00 output tokens/s\nTotal num prompt tokens:  60\nTotal num output tokens:  40\n")}}
	part, err = vllmoffline.Parser{Dir: "raw", Logs: "logs"}.Parse(dir)
	require.NoError(t, err)
	require.Equal(t, 20.0, *part.Metrics.Offline.Throughput.OutputThroughput)
	require.EqualValues(t, 40, *part.Metrics.Offline.Throughput.OutputTokens)
}
