package collect_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/gpu"
	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/node"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/result/resulttest"
	"github.com/profllm/profllm/pkg/run"
)

// sampled is the recorded run, whose client measured from 04:56:00.629 on for 5.348 s,
// with two nodes of five GPUs, of which roles were given four each.
func sampled(t *testing.T) string {
	t.Helper()
	dir := recorded(t)
	file := filepath.Join(dir, run.PlanFile)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	text := strings.Replace(string(data), "{", `{"telemetry": {"interval_s": 0.5},`, 1)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	var all []node.Report
	begin := time.Date(2026, 11, 21, 4, 55, 58, 0, time.UTC)
	for _, host := range []string{"127.0.1.1", "127.0.1.2"} {
		var lines []byte
		n := node.Report{Host: host}
		for index := range 5 {
			n.GPUs = append(n.GPUs, gpu.Device{Index: index, Name: "H100", Driver: "570", Reader: "nvml 12.570"})
		}
		all = append(all, n)
		for look := range 24 {
			for index := range 5 {
				s := gpu.Sample{Time: begin.Add(time.Duration(look) * 500 * time.Millisecond), Index: index,
					UUID: fmt.Sprint("GPU-", index),
					Use:  new(90.0), Power: new(400.0), SM: new(1900.0), Reasons: new(gpu.Reasons(0)),
					Memory: new(70000.0)}
				if index == 4 {
					s.Use, s.Power = new(0.0), new(70.0)
				}
				lines = s.Append(lines)
			}
		}
		write(t, dir, "telemetry/"+job.GPUFile(host), gpu.Header+string(lines))
	}
	preflight(t, dir, all...)
	return dir
}

// covers: PL-V26, PL-V27, PL-V28, PL-V33
func TestGPUs(t *testing.T) {
	dir := sampled(t)
	r := only(t, collector(t), dir, completed())
	s := r.System.GPUSamples
	require.Equal(t, "client", s.From)
	require.Equal(t, "04:56:00.629 04:56:05.976", s.Begin.Format("15:04:05.000")+" "+s.End.Format("15:04:05.000"))
	require.Len(t, s.GPUs, 10)
	require.Equal(t, []string{"prefill", "prefill", "prefill", "prefill", "", "decode"}, []string{
		s.GPUs[0].Role, s.GPUs[1].Role, s.GPUs[2].Role, s.GPUs[3].Role, s.GPUs[4].Role, s.GPUs[5].Role})
	require.Equal(t, "127.0.1.2", s.GPUs[5].Node)
	require.InDelta(t, 8*400*5.34777696, *r.Results.GPUEnergy, 0.1, "of the eight that roles were given")
	require.InDelta(t, 8*400*5.34777696/4096, *r.Results.JoulesPerOutputToken, 1e-4)
	require.InDelta(t, 73.4, *r.System.PeakGPUMemoryGB, 0.01)
	for _, word := range []string{"gpu-idle", "throttled", "mixed-hardware", "power-gaps"} {
		require.Equal(t, "pass", outcome(t, r, word), word)
	}
	data, err := resulttest.Marshal(r)
	require.NoError(t, err)
	require.NoError(t, result.Validate(data))
	again, err := result.Decode(data)
	require.NoError(t, err)
	require.Equal(t, r.System, again.System)
}

// Where nvidia-smi took the samples, the record says why.
func TestGPUNotes(t *testing.T) {
	dir := sampled(t)
	r := only(t, collector(t), dir, completed())
	require.Equal(t, "nvml 12.570", r.System.HardwareInfo.GPUReader)
	require.Empty(t, r.System.GPUSamples.Notes)
	const why = "nvidia-smi is used, which has no energy counter: /x/profllm-nvml: it should have continued"
	for _, host := range []string{"127.0.1.1", "127.0.1.2"} {
		write(t, dir, "telemetry/"+job.GPUNote(host), "2026-11-21T04:55:58Z: "+why+"\n")
	}
	r = only(t, collector(t), dir, completed())
	require.Equal(t, []string{"127.0.1.1 and 1 more: " + why}, r.System.GPUSamples.Notes)
	require.NotNil(t, r.Results.GPUEnergy)
}

// What is missing is said, not taken for zero.
//
// covers: PL-V26, PL-V33
func TestGPUsThatNobodySaw(t *testing.T) {
	first, second := "telemetry/"+job.GPUFile("127.0.1.1"), "telemetry/"+job.GPUFile("127.0.1.2")
	for name, c := range map[string]struct {
		change                func(*testing.T, string)
		idle, power, gaps, es string
	}{
		"one node has no driver": {func(t *testing.T, dir string) {
			remove(t, dir, second)
		}, "the client's window has no sample of the use of 4 of 8 planned GPUs", "127.0.1.2 GPU 0: longest gap 5.3 s",
			"fail", ""},
		"none": {func(t *testing.T, dir string) {
			remove(t, dir, first, second)
			write(t, dir, "telemetry/"+job.GPUNote("127.0.1.1"), "2026-11-21T04:55:58Z: no NVIDIA driver\n")
		}, "127.0.1.1: no NVIDIA driver; 127.0.1.2: the simulated engine needs no GPU", "127.0.1.1: no NVIDIA driver",
			"not-possible", ""},
		"a line nobody understands": {func(t *testing.T, dir string) {
			data, err := os.ReadFile(filepath.Join(dir, first))
			require.NoError(t, err)
			write(t, dir, first, "what is this\n"+string(data)+"1795")
		}, "each of 8 planned GPUs was in use at least 90.0 %", "longest gap 0.5 s", "pass",
			"line 1: 1 fields instead of 11"},
		"off": {func(t *testing.T, dir string) {
			data, err := os.ReadFile(filepath.Join(dir, run.PlanFile))
			require.NoError(t, err)
			write(t, dir, run.PlanFile, strings.Replace(string(data), `"telemetry": {"interval_s": 0.5},`, "", 1))
		}, "enabled = false in [Tests.telemetry]", "enabled = false", "not-possible", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := sampled(t)
			c.change(t, dir)
			r := only(t, collector(t), dir, completed())
			require.Contains(t, r.Validity.Check("gpu-idle").Detail, c.idle)
			require.Contains(t, r.Validity.Check("power-gaps").Detail, c.power)
			require.Equal(t, c.gaps, outcome(t, r, "power-gaps"))
			said := ""
			for _, w := range r.Warnings {
				if w.File == first {
					said = w.Text
				}
			}
			require.Equal(t, c.es, said)
			require.Equal(t, c.gaps == "pass", r.Results.GPUEnergy != nil)
		})
	}
}

// A client that does not say when it measured was busy while the engines were.
func TestWindowOfTheClient(t *testing.T) {
	dir := sampled(t)
	data, err := os.ReadFile(filepath.Join(dir, "raw/vllm-bench.json"))
	require.NoError(t, err)
	_, own, _ := strings.Cut(string(data), `,"profllm":{`)
	write(t, dir, "raw/vllm-bench.json",
		strings.TrimSuffix(strings.TrimSpace(strings.Replace(string(data), `,"profllm":{`+own, "", 1)), "}")+"}")
	window := func() string {
		s := only(t, collector(t), dir, completed()).System.GPUSamples
		return s.From + " " + s.Begin.Format("04:05.0") + " " + s.End.Format("04:05.0")
	}
	require.Equal(t, "the client's window is not known", only(t, collector(t), dir, completed()).
		Validity.Check("gpu-idle").Detail)
	addEvents(t, dir, `{"time":"2026-11-21T04:56:06.5Z","event":"client-ended","text":"bench"}`)
	require.Equal(t, "job 56:01.1 56:06.5", window())
	at := time.Date(2026, 11, 21, 4, 56, 6, 0, time.UTC).Unix()
	write(t, dir, "telemetry/engines-bench.csv",
		fmt.Sprintf("time_s,role,running,waiting,kv_cache\n%d.000,decode,4,0,0.1\n%d.000,decode,4,0,0.1\n%d.000,decode,0,0,0.1\n", at-1, at, at+1))
	require.Equal(t, "engines 56:00.6 56:06.0", window())
}
