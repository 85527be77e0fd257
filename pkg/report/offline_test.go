package report_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/report/format"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/result/resulttest"
	"github.com/profllm/profllm/pkg/validity"
)

// offlineRecord is of vllm bench latency and throughput, found alone.
func offlineRecord(mean float64) *result.Result {
	p99 := 2 * mean
	r := &result.Result{RunID: "x", Status: result.Completed, Provenance: &result.Provenance{Foreign: "vllm-offline"}}
	r.Results.Offline = &result.Offline{
		Batch: &result.BatchLatency{Latency: &result.Timing{N: new(30), Mean: &mean,
			Percentiles: map[string]float64{"50": mean, "99": p99}}},
		Throughput: &result.OfflineThroughput{RequestThroughput: new(23.9), TotalTokenThroughput: new(10078.16),
			OutputThroughput: new(4829.06)},
	}
	r.Validity = validity.Judge(r, validity.Evidence{})
	return r
}

func save(t *testing.T, dir string, r *result.Result) {
	t.Helper()
	data, err := resulttest.Marshal(r)
	require.NoError(t, err)
	write(t, filepath.Join(dir, "result.json"), string(data))
}

func TestOffline(t *testing.T) {
	inTemp(t)
	save(t, "offline", offlineRecord(1.25))
	save(t, "served", recordOf(numbers{Throughput: 1000, TTFT: 50}))
	runs, err := records.Load(".")
	require.NoError(t, err)
	rep := report.Build(runs, report.Options{})
	var text bytes.Buffer
	require.NoError(t, format.Text(&text, rep))
	require.Contains(t, text.String(), "foreign, from vllm-offline · offline")
	require.Contains(t, text.String(), "== Benchmarks without a server")
	require.Regexp(t, `offline +valid \(foreign\) +batch latency +30 +1\.2500 +1\.2500 +withheld`, text.String(),
		"thirty iterations have no 99th percentile")
	require.Regexp(t, `offline +valid \(foreign\) +23\.90 +10078\.16 +4829\.06`, text.String())
	require.Len(t, rep.Comparisons, 1)
	require.Len(t, rep.Comparisons[0].Columns, 1, "a batch is not beside requests")

	data, err := json.Marshal(rep)
	require.NoError(t, err)
	var back report.Report
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, "vllm-offline", back.Runs[0].Foreign)
	require.InDelta(t, 1.25, *back.Runs[0].Metrics["offline.batch.latency.mean_s"].Number, 0)
	require.True(t, back.Runs[0].Metrics["offline.batch.latency.percentiles_s.99"].Withheld)
	m, err := metric.Find("offline.throughput.output_throughput")
	require.NoError(t, err)
	require.Equal(t, metric.Higher, m.Better)
}

// A report of nothing else has no empty table of served tests.
func TestOfflineAlone(t *testing.T) {
	inTemp(t)
	save(t, "offline", offlineRecord(1.25))
	runs, err := records.Load(".")
	require.NoError(t, err)
	var text bytes.Buffer
	require.NoError(t, format.Text(&text, report.Build(runs, report.Options{})))
	require.NotContains(t, text.String(), "Results of each test")
	require.NotContains(t, text.String(), "Comparison")
}
