package report_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/report/format"
	"github.com/profllm/profllm/pkg/result"
)

// covers: PL-V30
func TestDiff(t *testing.T) {
	for name, c := range map[string]struct {
		edit  func(*result.Result)
		same  bool
		group string
		want  []report.Unlike
	}{
		"nothing": {func(r *result.Result) { r.RunID = "x"; r.Timestamp = r.Timestamp.AddDate(1, 0, 0) }, true, "", nil},
		"place":   {func(r *result.Result) { r.Provenance.Environment[0].Vars["VLLM_HOST_IP"] = "10.0.0.2" }, true, "", nil},
		"nodes": {func(r *result.Result) { r.Placement.Nodes = []string{"n9"} }, true, "placement",
			[]report.Unlike{{Field: "nodes", First: "n1", Second: "n9"}}},
		"driver": {func(r *result.Result) { r.System.HardwareInfo.Driver = "580" }, true, "hardware", []report.Unlike{{Field: "driver", Second: "580"}}},
		"package": {func(r *result.Result) { r.Provenance.Packages[0].Version = "2.9.0" }, true, "software",
			[]report.Unlike{{Field: "torch", First: "2.8.0", Second: "2.9.0"}}},
		"seen variable": {func(r *result.Result) { r.Provenance.Environment[0].Vars["NCCL_DEBUG"] = "WARN" }, true, "environment",
			[]report.Unlike{{Field: "serve NCCL_DEBUG", First: "INFO", Second: "WARN"}}},
		"flag": {func(r *result.Result) { r.Config.Settings["cmd_args.decode.max_num_seqs"] = "32" }, false, "flags of decode",
			[]report.Unlike{{Field: "max_num_seqs", First: "64", Second: "32"}}},
		"load":     {func(r *result.Result) { delete(r.Config.Settings, "bench_cmd_args.max_concurrency") }, false, "load", []report.Unlike{{Field: "max_concurrency", First: "16"}}},
		"variable": {func(r *result.Result) { r.Config.Settings["extra_env_vars.A"] = "2" }, false, "environment", []report.Unlike{{Field: "A", First: "1", Second: "2"}}},
		"version": {func(r *result.Result) { r.Provenance.EngineVersion = "0.12.0" }, false, "engine",
			[]report.Unlike{{Field: "version", First: "0.11.0", Second: "0.12.0"}}},
		"GPU": {func(r *result.Result) { r.System.HardwareInfo.GPU = "H200" }, false, "hardware", []report.Unlike{{Field: "gpu", First: "H100", Second: "H200"}}},
	} {
		t.Run(name, func(t *testing.T) {
			d := diff(t, c.edit)
			require.Equal(t, c.same, d.Same)
			for _, g := range d.Groups {
				if g.Name == c.group {
					require.Equal(t, c.want, g.Differs)
				} else {
					require.Empty(t, g.Differs, g.Name)
				}
			}
		})
	}
}

// A record with all that was asked knows that a setting is absent.
func TestSettingThatWasNotSet(t *testing.T) {
	d := diff(t, func(r *result.Result) { delete(r.Config.Settings, "extra_env_vars.A") })
	require.Equal(t, "one setting differs: extra_env_vars.A: 1 against not set", d.Causal)
}

// A record of an older version does not say what was asked: it is not taken for the
// same.
func TestDiffUnknown(t *testing.T) {
	d := diff(t, func(r *result.Result) { r.Config = result.Config{Server: map[string]any{}} })
	require.False(t, d.Same)
	inTemp(t)
	writeRecord(t, "old", recordOf(numbers{Throughput: 1, TTFT: 5}))
	_, err := report.Diff(&load(t, "old")[0], &records.Run{Dir: "x", Problem: "no result.json yet"})
	require.ErrorContains(t, err, "x: no result.json yet")
}

// FP8 of a BF16 model cuts text as the model does; another model does not.
//
// covers: PL-V30
func TestTokenizers(t *testing.T) {
	const digest = "sha256:1"
	for name, c := range map[string]struct {
		model, other   string
		digest, second string
		refused        bool
	}{
		"precision":               {"Qwen/Qwen3-8B", "Qwen/Qwen3-8B-FP8", "", "", false},
		"precision and publisher": {"meta-llama/Llama-3.1-8B-Instruct", "RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic", "", "", false},
		"words":                   {"nvidia/X-7B-NVFP4", "x/X-7B-bf16", "", "", false},
		"another place":           {"/a/Qwen3-8B", "/b/Qwen3-8B", "", "", false},
		"another model":           {"Qwen/Qwen3-8B", "Qwen/Qwen3-32B", "", "", true},
		"another family":          {"Qwen/Qwen3-8B", "meta-llama/Llama-3.1-8B", "", "", true},
		"same file":               {"Qwen/Qwen3-8B", "Qwen/Qwen3-32B", digest, digest, false},
		"another file":            {"Qwen/Qwen3-8B", "Qwen/Qwen3-8B-FP8", digest, "sha256:2", true},
		"half known":              {"Qwen/Qwen3-8B", "Qwen/Qwen3-32B", digest, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			inTemp(t)
			side := func(model, digest string) func(int, *result.Result) {
				return func(_ int,
					r *result.Result) {
					r.Config.Server["model"], r.Provenance.TokenizerDigest = model, digest
				}
			}
			runsOf(t, "one", 6, 1000, 50, 1, side(c.model, c.digest))
			runsOf(t, "two", 6, 1000, 50, 1, side(c.other, c.second))
			j := pair(t).Judgements[0]
			require.Equal(t, c.refused, len(j.NotComparable) > 0, texts(j.NotComparable))
			if !c.refused {
				require.Equal(t, []string{"cmd_args.model: " + c.model + " against " + c.other}, texts(j.Differs))
				require.False(t, j.NotCausal)
				var text bytes.Buffer
				r := pair(t)
				require.NoError(t, format.Text(&text, r))
				require.Contains(t, text.String(), "one setting differs: cmd_args.model: "+c.model+" against "+c.other)
			}
		})
	}
}

// Numbers whose meaning is another, or not known here, are not held against each
// other; nothing is left to be the same.
//
// covers: PL-D20
func TestRedefinedMetrics(t *testing.T) {
	inTemp(t)
	runsOf(t, "one", 6, 1000, 50, 1)
	runsOf(t, "two", 6, 900, 50, 1, func(_ int, r *result.Result) { r.MetricsVersion = result.MetricsVersion + 1 })
	r := pair(t)
	j := r.Judgements[0]
	require.Equal(t, report.NotComparable, j.Verdict)
	require.True(t, r.Bad())
	require.Empty(t, j.Metrics)
	require.NotEmpty(t, j.Redefined)
	var text bytes.Buffer
	require.NoError(t, format.Text(&text, r))
	require.Contains(t, text.String(),
		"left out: Throughput (tok/s): version 2 of the metrics' definitions is unknown to this profllm (the other record has 1); use the newer profllm")
	one, err := report.Pair(load(t, "one/a/0"), load(t, "two/a/0"), nil)
	require.NoError(t, err)
	for _, s := range one.Comparisons[0].Sections {
		for _, row := range s.Rows {
			require.Nil(t, row.Difference, row.Key)
		}
	}
}

// Of a run that another program measured nobody knows all that was asked, so that two
// of them are never called one configuration.
//
// covers: PL-I4
func TestDiffOfImportedRuns(t *testing.T) {
	inTemp(t)
	imported := func(r *result.Result) {
		r.Config.Settings = nil
		r.Provenance = &result.Provenance{Imported: &result.Imported{From: "vllm bench serve"}}
	}
	d, err := report.Diff(configured(t, "one", imported), configured(t, "two", imported))
	require.NoError(t, err)
	require.False(t, d.Same)
	require.Equal(t, [2]string{}, d.Fingerprints)
	var out bytes.Buffer
	require.NoError(t, format.Diff(&out, d, "text"))
	require.Contains(t, out.String(), "cannot tell whether the configurations are equal")
}
