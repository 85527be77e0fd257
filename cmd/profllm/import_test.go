package main

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/interchange"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/result"
)

const foreignFiles = "../../pkg/interchange/testdata"

// foreignTree copies files of other programs into a folder.
func foreignTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(dir, "theirs"), os.DirFS(foreignFiles)))
	return dir
}

// tree is every file below a folder with its content.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, dir)] = string(data)
		return err
	}))
	return files
}

// A folder of everything: one file that cannot be read spoils itself, what a program
// wrote twice is there once, and collecting again changes nothing.
//
// covers: PL-I1, PL-I3, PL-I4
func TestImport(t *testing.T) {
	t.Parallel()
	dir := foreignTree(t)
	theirs := filepath.Join(dir, "theirs")
	cut := filepath.Join(theirs, "sweep", "SERVE--s8-BENCH--c4", "run=1.json")
	data, err := os.ReadFile(cut)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(cut, data[:len(data)/2], 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(theirs, "values.yaml"), []byte("image: {{ .Values.image }}\n"),
		0o644))
	require.NoError(t, os.WriteFile(filepath.Join(theirs, "other.json"), []byte(`{"a": 1}`), 0o644))

	o := profllm(t, dir, nil, "import", "theirs", "--output", "ours")
	require.Equal(t, exitInvalid, o.code)
	require.Regexp(t, `theirs/sweep/SERVE--s8-BENCH--c4/run=1.json:\d+:\d+: the file ends inside`, o.stderr)
	require.Contains(t, o.stderr, "theirs/rows.json:42:3: want a row of InferenceX")
	require.Contains(t, o.stderr, "hint: copy the file again")
	require.NotContains(t, o.stderr, "values.yaml", "a file that never was a result is passed over")
	require.Contains(t, o.stderr, "unreadable 4, other files 2: ours",
		"with a row of a roll-up and PyTorch records of a latency benchmark")
	require.Contains(t, o.stdout, "valid (imported)")

	run := filepath.Join(dir, "ours", "theirs", "sweep", "SERVE--s8-BENCH--c4", "0")
	raw, err := os.ReadFile(filepath.Join(run, "raw", "run=0.json"))
	require.NoError(t, err)
	was, err := os.ReadFile(filepath.Join(theirs, "sweep", "SERVE--s8-BENCH--c4", "run=0.json"))
	require.NoError(t, err)
	require.Equal(t, was, raw, "the file is copied unchanged")
	r := readResult(t, run)
	i := r.Provenance.Imported
	require.Equal(t, []string{"vllm bench sweep serve", "vllm-serve", "run=0.json"}, []string{i.From, i.Format, i.File})
	require.Regexp(t, "^sha256:[0-9a-f]{64}$", i.Digest)
	require.Equal(t, "summary.json", readResult(t, filepath.Join(filepath.Dir(run), "1")).Provenance.Imported.File,
		"the cut run is whole in the summary")

	report := readResult(t, filepath.Join(dir, "ours", "theirs", "report"))
	require.Equal(t, "5f0c6d3e", report.RunID)
	text, err := os.ReadFile(filepath.Join(dir, "ours", "theirs", "report", "result.json"))
	require.NoError(t, err)
	require.NotContains(t, string(text), "hf_0123456789abcdef")
	require.NotContains(t, string(text), "plain-secret-value",
		"what is named like a secret is none of the record's business")
	require.Contains(t, string(text), `"UCX_TLS": "rc"`)

	before := tree(t, filepath.Join(dir, "ours"))
	again := profllm(t, dir, nil, "import", "theirs", "--output", "ours")
	require.Equal(t, o.code, again.code)
	require.Equal(t, o.stdout, again.stdout)
	require.Contains(t, again.stderr, "imported 0, already present")
	require.Equal(t, before, tree(t, filepath.Join(dir, "ours")), "importing twice changes nothing")
	profllm(t, dir, nil, "collect", "ours", "--offline")
	require.Equal(t, before, tree(t, filepath.Join(dir, "ours")), "collect makes the same records")
	require.Equal(t, exitUsage, profllm(t, dir, nil, "import", "ours", "--output", "more").code,
		"what was imported is not imported again")

	require.Zero(t, profllm(t, dir, nil, "archive", "ours/theirs/report").code, "it is over")
	require.NoError(t, os.WriteFile(filepath.Join(run, "raw", "run=0.json"), append(raw, ' '), 0o644))
	o = profllm(t, dir, nil, "collect", "ours/theirs/sweep/SERVE--s8-BENCH--c4/0", "--offline")
	require.NotZero(t, o.code)
	require.Contains(t, o.stderr, "changed since it was imported")
}

// Imported runs stand in reports with their word, and others are held against them
// only when that is asked for.
//
// covers: PL-I4
func TestImportedIsNoBaseline(t *testing.T) {
	t.Parallel()
	dir := foreignTree(t)
	profllm(t, dir, nil, "import", "theirs/composed-summary.csv", "--output", "ours")
	o := profllm(t, dir, nil, "report", "ours", "--output", "json")
	require.Zero(t, o.code)
	var rep report.Report
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &rep))
	require.Len(t, rep.Runs, 8)
	require.Equal(t, "vllm bench sweep serve", rep.Runs[0].Imported)
	require.Equal(t, "256", rep.Runs[0].Settings["bench_cmd_args.input_tokens"])
	require.Equal(t, "1", rep.Runs[0].Settings["cmd_args.decode.tensor_parallel_size"])
	require.Contains(t, profllm(t, dir, nil, "report", "ours").stdout, "valid (imported)")

	records, err := records.Load(filepath.Join(dir, "ours"))
	require.NoError(t, err)
	require.Equal(t, result.MetricsVersion, records[0].Result.MetricsVersion)

	combinations, err := filepath.Glob(filepath.Join(dir, "ours", "tensor_parallel_size=*"))
	require.NoError(t, err)
	require.Len(t, combinations, 4-2, "a combination's name lacks the cap, which stands among the numbers")
	one, two := combinations[0], combinations[1]
	o = profllm(t, dir, nil, "compare", one, two)
	require.Equal(t, exitInvalid, o.code)
	require.Contains(t, o.stdout, "imported from vllm bench sweep serve, so not a baseline")
	o = profllm(t, dir, nil, "compare", one, two, "--imported-baseline")
	require.NotContains(t, o.stdout, "so not a baseline without")
}

// Several commands at once make one directory of each result.
func TestImportAtOnce(t *testing.T) {
	t.Parallel()
	dir := foreignTree(t)
	alone := profllm(t, dir, nil, "import", "theirs", "--output", "alone")
	outcomes := make([]outcome, 4)
	var all sync.WaitGroup
	for i := range outcomes {
		all.Go(func() { outcomes[i] = profllm(t, dir, nil, "import", "theirs", "--output", "together") })
	}
	all.Wait()
	for _, o := range outcomes {
		require.Equal(t, alone.code, o.code)
		require.NotContains(t, o.stderr, "has other content")
	}
	require.Equal(t, tree(t, filepath.Join(dir, "alone")), tree(t, filepath.Join(dir, "together")))
}

// Other results of one name, runs of our own, and files of nobody.
func TestImportNames(t *testing.T) {
	t.Parallel()
	dir := foreignTree(t)
	for _, sub := range []string{"a", "b"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, sub), 0o755))
	}
	row, err := os.ReadFile(filepath.Join(dir, "theirs", "agg_row.json"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a", "agg.json"), row, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "b", "agg.json"),
		bytes.ReplaceAll(row, []byte(`"conc": 16`), []byte(`"conc": 32`)), 0o644))
	for range 2 {
		require.Zero(t, profllm(t, dir, nil, "import", "a/agg.json", "b/agg.json", "--output", "ours").code)
		names, err := filepath.Glob(filepath.Join(dir, "ours", "*"))
		require.NoError(t, err)
		require.Len(t, names, 2)
		require.Regexp(t, `/agg-[0-9a-f]{8}$`, names[1])
		require.Equal(t, 32, *readResult(t, names[1]).Config.Benchmark.MaxConcurrency)
	}
	for i, sub := range []string{"one/sweep/c4", "two/sweep/c4"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, sub), 0o755))
		name := []string{"run=0.json", "summary.json"}[i]
		data, err := os.ReadFile(filepath.Join(dir, "theirs", "sweep", "SERVE--s8-BENCH--c4", name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, sub, name), data, 0o644))
	}
	require.Zero(t, profllm(t, dir, nil, "import", "one/sweep", "two/sweep", "--output", "same").code)
	names, err := filepath.Glob(filepath.Join(dir, "same", "sweep", "c4", "*"))
	require.NoError(t, err)
	require.Len(t, names, 3, "one run of the first, two of the second")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "other.json"), []byte(`{"a": 1}`), 0o644))
	o := profllm(t, dir, nil, "import", "other.json", "--output", "ours")
	require.Equal(t, exitUsage, o.code)
	require.Contains(t, o.stderr,
		"other.json: unknown format; known are llm-d, inferencex, offline, pytorch, srt-slurm, vllm-serve")
	o = profllm(t, dir, nil, "import", "ours/agg/raw/agg.json", "--output", "more")
	require.Equal(t, exitUsage, o.code)
	require.Contains(t, o.stderr, "belongs to the run ours/agg\n\thint: profllm collect ours/agg")
	require.Equal(t, exitUsage, profllm(t, dir, nil, "import", "gone.json", "--output", "more").code)
	require.Equal(t, exitUsage, profllm(t, dir, nil, "import", "theirs").code, "the output is named")
	require.NoFileExists(t, filepath.Join(dir, "more"))
}

// Exported and imported again, records have the same numbers; what must not be
// believed stays, and simulated numbers leave with their label only.
//
// covers: PL-I1, PL-I5
func TestExport(t *testing.T) {
	t.Parallel()
	dir := foreignTree(t)
	require.Zero(t, profllm(t, dir, nil, "import", "theirs/agg_row.json", "--output", "ours").code)
	for _, format := range interchange.Writable() {
		o := profllm(t, dir, nil, "export", string(format), "ours", "--output", string(format)+".json")
		require.Zero(t, o.code, o.stderr)
		require.Equal(t, profllm(t, dir, nil, "export", string(format), "ours").stdout,
			tree(t, dir)["/"+string(format)+".json"])
		require.Zero(t, profllm(t, dir, nil, "export", string(format), "ours", "--output", string(format)+".json").code,
			"an older export is replaced")
		for _, other := range interchange.Writable() {
			require.Equal(t, other == format,
				interchange.Wrote(other, []byte(tree(t, dir)["/"+string(format)+".json"])))
		}
		require.Zero(t, profllm(t, dir, nil, "import", string(format)+".json", "--output", "back").code)
		one, two := readResult(t, filepath.Join(dir, "ours", "agg_row")), readResult(t,
			filepath.Join(dir, "back", string(format)))
		for _, f := range []result.Family{result.TTFT, result.TPOT, result.ITL, result.E2EL} {
			require.InEpsilon(t, *one.Results.Latency[f].Mean, *two.Results.Latency[f].Mean, 1e-12, format)
		}
		require.InEpsilon(t, *one.Results.OutputThroughput, *two.Results.OutputThroughput, 1e-12, format)
	}

	profllm(t, dir, nil, "import", "theirs/report.yaml", "theirs/sweep", "--output", "more")
	o := profllm(t, dir, nil, "export", "llm-d", "more/report")
	require.Equal(t, exitInvalid, o.code)
	require.Contains(t, o.stderr, "more/report: not exported: invalid: request-errors")
	require.Contains(t, o.stderr, "--include-invalid")
	require.Empty(t, o.stdout)
	o = profllm(t, dir, nil, "export", "llm-d", "more/report", "--include-invalid")
	require.Zero(t, o.code)
	require.Contains(t, o.stdout, `"request-errors"`)
	require.Equal(t, exitUsage, profllm(t, dir, nil, "export", "llm-d", "more/sweep").code, "a report is of one run")
	o = profllm(t, dir, nil, "export", "llm-d", "more/sweep", "--output", "reports/")
	require.Zero(t, o.code)
	require.Len(t, strings.Fields(o.stdout), 8)
	require.FileExists(t, filepath.Join(dir, "reports", "SERVE--s16-BENCH--c4.json"))

	one := filepath.Join(rehearsedPair.copyTo(t, dir), "tp1")
	o = profllm(t, dir, nil, "export", "inferencex", one, "--set", "hw=h200", "--include-invalid")
	require.Equal(t, exitInvalid, o.code)
	require.Contains(t, o.stderr, "simulated, but a row of InferenceX cannot say so")
	require.Empty(t, o.stdout)
	for _, format := range []string{"llm-d", "pytorch"} {
		o = profllm(t, dir, nil, "export", format, one, "--output", "sim-"+format+".json")
		require.Zero(t, o.code)
		profllm(t, dir, nil, "import", "sim-"+format+".json", "--output", "sim")
		r := readResult(t, filepath.Join(dir, "sim", "sim-"+format))
		require.True(t, r.Simulated, "the label comes back")
		require.Equal(t, result.Fail, r.Validity.Check("simulated").Outcome)
	}
	require.Equal(t, exitUsage, profllm(t, dir, nil, "export", "csv", one).code)
}

// A file that is larger than any result is not read: if it was named itself, it is an error,
// below a folder a file of no known format.
func TestImportLarge(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "in"), 0o755))
	large(t, filepath.Join(dir, "in", "big.json"), "{", interchange.MaxSize+1)
	o := profllm(t, dir, nil, "import", "in/big.json", "--output", "out")
	require.Equal(t, exitInvalid, o.code)
	require.Contains(t, o.stderr, "unreadable 1")
	require.Contains(t, o.stderr, "in/big.json: the file is too large: more than 32 MiB")
	o = profllm(t, dir, nil, "import", "in", "--output", "out")
	require.Equal(t, exitUsage, o.code)
	require.Contains(t, o.stderr, "no result of a known format in in")
}
