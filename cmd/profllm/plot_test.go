package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/report/reporttest"
)

// The sweep of vLLM itself is drawn as vLLM draws it, into files whose names say what is in them. A
// file of another kind is not overwritten.
func TestPlotSweepOfVLLM(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	copyTree(t, "../../pkg/interchange/testdata/sweep", filepath.Join(dir, "sweep"))
	plot := func(args ...string) outcome { return profllm(t, dir, nil, append([]string{"plot"}, args...)...) }
	o := plot("sweep", "--fig-by", "max_concurrency", "--curve-by", "max_num_seqs", "--dry-run", "--format", "png,svg")
	require.Zero(t, o.code, o.stderr)
	require.Contains(t, o.stdout, "sweep/FIGURE-max_concurrency=4.png: 2 curves, 4 runs")
	require.Contains(t, o.stdout, "sweep/FIGURE-max_concurrency=8.svg")
	require.NoFileExists(t, filepath.Join(dir, "sweep/FIGURE-max_concurrency=4.png"))

	for range 2 { // an older picture is replaced
		o = plot("pareto", "sweep", "--fig-dir", "pictures", "--format", "svg", "--label-by", "max_num_seqs")
		require.Zero(t, o.code, o.stderr)
	}
	require.Contains(t, readText(t, filepath.Join(dir, "sweep/pictures/PARETO.svg")), "Output tokens/s per user")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sweep/mine.png"), []byte("my notes"), 0o644))
	o = plot("sweep", "--fig-name", "mine", "--fig-dpi", "50")
	require.Equal(t, exitUsage, o.code)
	require.Contains(t, o.stderr, "the file exists and is not a picture in the form png")
	require.Equal(t, "my notes", readText(t, filepath.Join(dir, "sweep/mine.png")))

	o = plot("sweep", "--var-x", "max_concurency")
	require.Equal(t, exitUsage, o.code)
	require.Contains(t, o.stderr, `plot metrics: --var-x: no run has "max_concurency"`)
	require.Contains(t, o.stderr, "max_num_seqs, max_output_tokens_per_s", "what there is")
	for args, want := range map[string]string{
		"--filter-by=max_concurrency~4": "--filter-by: condition", "--filter-by=max_concurrency>99": "no run meets the conditions",
		"--bin-by=x": "--bin-by: bin", "--scale-x=logit": "--scale-x: unknown scale", "--fig-height=900": "want 1.2 to 60",
		"--fig-dpi=9999": "million pixels", "--gpu-hour-usd=-1": "want 0 to 1000000",
	} {
		o = plot("sweep", args)
		require.Equal(t, exitUsage, o.code, args)
		require.Contains(t, o.stderr, want, args)
	}
	o = plot("timeline", "sweep")
	require.Equal(t, exitUsage, o.code)
	require.Contains(t, o.stderr, "no run of profllm")
	o = plot("empty")
	require.Equal(t, exitUsage, o.code)
}

// Records are drawn on the terminal, with the costs of a price that is given.
func TestPlotRecords(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i, throughput := range []float64{1000, 2000} {
		r := reporttest.Record(reporttest.Numbers{Throughput: throughput, TTFT: 20, Simulated: true})
		r.RunID = "exp_20260102_030405_00000" + strconv.Itoa(i)
		reporttest.WriteRecord(t, filepath.Join(dir, "results/night_2026-01-02_03-04-05/a", strconv.Itoa(i)), r)
	}
	o := profllm(t, dir, nil, "plot", "metrics", "--terminal", "--gpu-hour-usd", "9",
		"--var-x", "output_throughput", "--var-y", "usd_per_million_output_tokens")
	require.Zero(t, o.code, o.stderr)
	require.Contains(t, o.stdout, "Cost/1M output tokens by Throughput: night (simulated)")
	require.Contains(t, o.stdout, "Simulated engine: the numbers are no measurements.")
	require.Contains(t, o.stdout, "10 ┤", "4 GPUs, 9 USD, 1000 tok/s")
	require.NotContains(t, o.stdout, "\x1b")
	o = profllm(t, dir, nil, "report", "results", "--gpu-hour-usd", "9", "--output", "csv")
	require.Zero(t, o.code, o.stderr)
	require.Contains(t, o.stdout, "usd_per_million_output_tokens")
	require.Contains(t, o.stdout, ",10,")
	o = profllm(t, dir, nil, "plot", "latency", "results")
	require.Zero(t, o.code, o.stderr)
	require.FileExists(t, filepath.Join(dir, "results/LATENCY.png"))
}

// A PNG has no Chinese: one warning names a label and the remedy. An SVG and a terminal show it.
func TestPlotWarnsOfBoxes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i, name := range []string{"推理/甲", "推理/乙"} {
		r := reporttest.Record(reporttest.Numbers{Throughput: 1000, TTFT: 20})
		r.RunID = "exp_20260102_030405_00000" + strconv.Itoa(i)
		reporttest.WriteRecord(t, filepath.Join(dir, "results", name), r)
	}
	plot := func(args ...string) outcome {
		return profllm(t, dir, nil, append([]string{"plot", "metrics", "results", "--var-y", "median_ttft_ms",
			"--fig-dpi", "50", "--fig-by", "test"}, args...)...)
	}
	o := plot()
	require.Zero(t, o.code, o.stderr)
	require.Equal(t, 1, strings.Count(o.stderr, "warning: the PNG shows boxes in "), o.stderr)
	require.Contains(t, o.stderr, "乙")
	require.Contains(t, o.stderr, "hint: --format svg")
	for _, args := range [][]string{{"--format", "svg"}, {"--terminal"}, {"--dry-run"}} {
		require.NotContains(t, plot(args...).stderr, "boxes", args)
	}
}
