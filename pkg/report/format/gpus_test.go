package format_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/report/format"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/validity"
)

// watched is a record with two GPUs that served and one that did not, of which the
// samples reached so far.
func watched(coverage float64) *result.Result {
	r := recordOf(numbers{Throughput: 800, TTFT: 50})
	s := &result.GPUSamples{Begin: r.Timestamp, End: r.Timestamp.Add(32 * time.Second), From: "client", Interval: 1}
	for i, role := range []string{"serve", "serve", ""} {
		s.GPUs = append(s.GPUs, result.GPUUse{
			Node: "n1", Index: i, Role: role, Samples: 32, Utilization: new(90.0 + float64(i)), Energy: new(16000.0),
			PeakMemory: new(70.25), Slowed: new(0.01 * float64(i)),
			Coverage: coverage, LongestGap: 1,
		})
	}
	s.GPUs[2].Utilization = new(0.0)
	r.SetGPUs(s)
	r.Validity = validity.Judge(r, validity.Evidence{Planned: validity.Planned{GPUs: 2}})
	return r
}

// covers: PL-V33
func TestGPUs(t *testing.T) {
	inTemp(t)
	writeRecord(t, filepath.Join(root, "whole", "0"), watched(1))
	writeRecord(t, filepath.Join(root, "holes", "0"), watched(0.9))
	writeRecord(t, filepath.Join(root, "none", "0"), recordOf(numbers{Throughput: 800, TTFT: 50}))
	rep := report.Build(load(t, "results"), report.Options{})
	var out bytes.Buffer
	require.NoError(t, format.Text(&out, rep))
	_, text, _ := strings.Cut(out.String(), "== GPUs in the client's window\n\n")
	text, _, _ = strings.Cut(text, "\n\n")
	rows := strings.Split(text, "\n")
	require.Len(t, rows, 4)
	require.Equal(t, "case GPUs GPU use (%) GPU power (W) GPU energy (J) Energy/output token (J) peak memory (GB) slowed (% of samples)", strings.Join(strings.Fields(rows[0]), " "))
	require.Equal(t, "holes 2 90.5 withheld withheld withheld 70.2 1.0", strings.Join(strings.Fields(rows[2]), " "))
	require.Equal(t, "whole 2 90.5 1000 32000 1.250 70.2 1.0", strings.Join(strings.Fields(rows[3]), " "))

	out.Reset()
	require.NoError(t, format.CSV(&out, rep))
	head, _, _ := strings.Cut(out.String(), "\n")
	require.Contains(t, head, ",avg_gpu_utilization,gpu_power_w,gpu_energy_j,joules_per_output_token")
	m, err := metric.Find("joules_per_output_token")
	require.NoError(t, err)
	require.Equal(t, metric.Lower, m.Better)
}
