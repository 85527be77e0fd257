package interchange_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/interchange"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/validity"
)

func file(t testing.TB, path, name string) interchange.File {
	t.Helper()
	format, list, _ := interchange.Read(path, sample(t, name))
	require.NotEmpty(t, list)
	return interchange.File{Path: path, Format: format, Items: list}
}

// What a program wrote twice is taken once; what is missing of the first is taken
// from the second.
//
// covers: PL-I3
func TestOnce(t *testing.T) {
	const c = "sweep/SERVE--s8-BENCH--c4/"
	one, both, table := file(t, c+"run=1.json", c+"run=1.json"), file(t, c+"summary.json", c+"summary.json"), file(t,
		"sweep/summary.csv", "sweep/summary.csv")
	paths := func(files ...interchange.File) (list []string, left []string) {
		kept, left := interchange.Once(files)
		for _, f := range kept {
			for _, it := range f.Items {
				list = append(list, f.Path+" "+strings.Join(it.Name, "/"))
			}
		}
		return list, left
	}
	list, left := paths(one, both, table)
	require.Equal(t, []string{c + "run=1.json c4-max_num_seqs=8/1", c + "summary.json c4-max_num_seqs=8/0"}, list,
		"run 0 has no file of its own")
	require.Empty(t, left)
	list, _ = paths(file(t, c+"run=0.json", c+"run=0.json"), one, both, table)
	require.Len(t, list, 2)
	list, _ = paths(table)
	require.Len(t, list, 8, "the table alone")
	alone := both
	alone.Alone = true
	list, _ = paths(one, alone)
	require.Len(t, list, 3, "what was named is taken")

	rollup := file(t, "job/logs/benchmark-rollup.json", "benchmark-rollup.json")
	detail := file(t, "job/logs/sa-bench_isl_1024_osl_128/results_concurrency_4.json", c+"run=0.json")
	list, left = paths(rollup, detail)
	require.Len(t, list, 2)
	require.Equal(t, []string{detail.Path +
		": included in the roll-up above it; name this file to import more of its numbers"}, left)

	records := file(t, "x/a.pytorch.json", "serve-latest.pytorch.json")
	list, left = paths(file(t, "x/a.json", c+"run=0.json"), records)
	require.Len(t, list, 1)
	require.Contains(t, left[0], "the same benchmark as the result beside it")
	list, _ = paths(records)
	require.Len(t, list, 1)
	for _, name := range []string{"warmup.json", "SLA--p99_e2el_ms<=500.json"} {
		list, left = paths(file(t, c+name, c+"run=0.json"))
		require.Empty(t, list)
		require.Len(t, left, 1)
	}
}

func TestPlace(t *testing.T) {
	const c = "sweep/SERVE--s8-BENCH--c4/"
	place := func(f interchange.File) string { return strings.Join(f.Place(f.Items[0]), "/") }
	require.Equal(t, "sweep/SERVE--s8-BENCH--c4/1", place(file(t, c+"run=1.json", c+"run=1.json")))
	require.Equal(t, "sweep/SERVE--s8-BENCH--c4/0", place(file(t, c+"summary.json", c+"summary.json")))
	require.Equal(t, "sweep/c4-max_num_seqs=16/0", place(file(t, "sweep/summary.csv", "sweep/summary.csv")))
	alone := file(t, "SERVE--s8-BENCH--c4/run=1.json", c+"run=1.json")
	alone.Alone = true
	require.Equal(t, "SERVE--s8-BENCH--c4/1", place(alone))
	require.Equal(t, "serve-latest",
		place(interchange.File{Path: "x/serve-latest.pytorch.json", Alone: true,
			Items: file(t, "a.json", "serve-latest.pytorch.json").Items}))
	require.Equal(t, "x/r/conc-4", place(file(t, "x/r.json", "benchmark-rollup.json")))
	for name, want := range map[string]string{
		"raw": "raw_", ".hidden": "_hidden", "a.partial-b": "a_partial-b", "a\nb\x00": "a_b_", "..": "_.", " ": "_",
	} {
		require.Equal(t, want,
			place(interchange.File{Path: name + ".json", Alone: true, Items: file(t, "a.json", "agg_row.json").Items}),
			"%q", name)
	}
	long := place(interchange.File{Path: strings.Repeat("é", 200) + ".json", Alone: true,
		Items: file(t, "a.json", "agg_row.json").Items})
	require.LessOrEqual(t, len(long), 120)
	require.NotContains(t, long, "\ufffd")

	it := file(t, "r.yaml", "report.yaml").Items[0]
	require.Equal(t, "5f0c6d3e", it.RunID("sha256:00112233445566"))
	it.ID = "../../etc"
	require.Equal(t, "import_001122334455_0", it.RunID("sha256:00112233445566"), "a hostile name names nothing")
}

// fuzz reads bytes as a file; whatever is read can be judged and written.
func fuzz(f *testing.F, name string, seeds ...string) {
	for _, s := range seeds {
		data := sample(f, s)
		f.Add(data)
		f.Add(data[:len(data)*2/3])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		have, list, err := interchange.Read(name, data)
		if err == nil {
			require.NotEmpty(t, have)
		}
		interchange.Once([]interchange.File{{Path: "d/" + name, Format: have, Items: list}})
		for _, it := range list {
			r := it.Record
			r.RunID, r.Suite, r.Status = it.RunID("sha256:0123456789abcdef"), "s", result.Completed
			for _, e := range (interchange.File{Path: "d/" + name}).Place(it) {
				require.NotContains(t, e, "/")
				require.NotEmpty(t, e)
			}
			r.Derive()
			r.Validity = validity.Judge(r, it.Evidence)
			data, err := result.Encode(r)
			require.NoError(t, err)
			require.NoError(t, result.Validate(data), "whatever was read can be written")
			for _, w := range interchange.Writable() {
				if data, err := interchange.Write(w, []*result.Result{r},
					interchange.Options{Invalid: true}); err == nil {
					require.True(t, json.Valid(data))
				}
			}
		}
	})
}

func FuzzLLMD(f *testing.F) { fuzz(f, "report.yaml", "report.yaml") }

func FuzzInferenceX(f *testing.F) {
	fuzz(f, "agg.json", "agg_row.json", "rows.json")
}

func FuzzPyTorch(f *testing.F) {
	fuzz(f, "a.pytorch.json", "serve-latest.pytorch.json", "offline.pytorch.json")
}

func FuzzOffline(f *testing.F) {
	fuzz(f, "offline.log", "../../bench/vllmoffline/testdata/composed/requests.log")
}

func FuzzSRTSlurm(f *testing.F) {
	fuzz(f, "benchmark-rollup.json", "benchmark-rollup.json", "rollup-aiperf.json", "rollup-mlperf.json")
}

func FuzzServe(f *testing.F) {
	fuzz(f, "SERVE--a=1-BENCH--b=2/run=0.json", "sweep/SERVE--s8-BENCH--c4/run=0.json",
		"sweep/SERVE--s8-BENCH--c4/summary.json")
}

func FuzzServeCSV(f *testing.F) {
	fuzz(f, "summary.csv", "sweep/summary.csv", "composed-summary.csv")
}
