package job

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/gpu"
	"github.com/profllm/profllm/pkg/host"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
)

// sampling is a job on a node with an nvidia-smi that is this script.
func sampling(t *testing.T, script string) *testJob {
	t.Helper()
	j := newJob(t)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte("#!/bin/sh\n"+script), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	j.plan.Telemetry = &plan.Telemetry{Interval: plan.Seconds(time.Second)}
	j.plan.Simulated = true // so that the driver of this machine, if it has one, is not asked
	j.env[SimGPUs] = "1"
	return j
}

const (
	line    = "2026/11/22 16:15:00.000, 0, GPU-a, 97, 70123, 689.25, 1980, 2619, 61, 0x0000000000000004"
	oneLook = "echo '" + line + "'\nexec sleep 7200\n"
)

func (j *testJob) file(name string) string {
	data, _ := os.ReadFile(j.path(run.TelemetryDir, name))
	return string(data)
}

// arrive makes it the time at which the lines of the script arrive: a line from
// another day is no sample.
func (j *testJob) arrive() {
	j.Now = func() time.Time { return time.Date(2026, 11, 22, 16, 15, 1, 0, time.UTC) }
}

// covers: PL-V26, PL-V27, PL-V33
func TestSampleGPUs(t *testing.T) {
	j := sampling(t, oneLook)
	j.arrive()
	stop := j.sampleGPUs(t.Context(), j.plan, "n1")
	want := gpu.Header + "1795364100000,0,GPU-a,97,70123,689.25,,1980,2619,61,0x4\n"
	await.True(t, func() bool { return j.file(GPUFile("n1")) == want }, "while the job runs")
	stop()
	require.Equal(t, want, j.file(GPUFile("n1")))
	require.NoFileExists(t, j.path(run.TelemetryDir, GPUNote("n1")))

	// A guard that was killed has left half a line.
	require.NoError(t, os.WriteFile(j.path(run.TelemetryDir, GPUFile("n1")), []byte(want[:len(want)-5]), 0o644))
	stop = j.sampleGPUs(t.Context(), j.plan, "n1")
	await.True(t, func() bool {
		return strings.HasSuffix(j.file(GPUFile("n1")), "61\n1795364100000,0,GPU-a,97,70123,689.25,,1980,2619,61,0x4\n")
	}, "the samples go on behind half a line")
	stop()
}

// Samples of NVML have the counter of energy. Where its reader ends, nvidia-smi goes on,
// and one note says why.
//
// covers: PL-V26, PL-V33
func TestSampleByReader(t *testing.T) {
	j := sampling(t, oneLook)
	j.arrive()
	j.plan.Simulated = false
	file := filepath.Join(t.TempDir(), gpu.Program)
	ended := filepath.Join(t.TempDir(), "ended")
	script := "#!/bin/sh\necho '{\"profllm_nvml\":1,\"nvml\":\"12.570\",\"driver\":\"570\",\"gpus\":1}'\necho 1795364099000,0,GPU-a,97,70123,689.25,1234,1980,2619,61,0x4\n" +
		"while [ ! -e " + ended + " ]; do sleep 0.02; done\nexit 7\n"
	require.NoError(t, os.WriteFile(file, []byte(script), 0o755))
	j.GPUs = gpu.Reader{NVML: file}
	stop := j.sampleGPUs(t.Context(), j.plan, "n1")
	want := gpu.Header + "1795364099000,0,GPU-a,97,70123,689.25,1234,1980,2619,61,0x4\n"
	await.True(t, func() bool { return j.file(GPUFile("n1")) == want }, "the sample of NVML")
	require.NoFileExists(t, j.path(run.TelemetryDir, GPUNote("n1")))
	require.NoError(t, os.WriteFile(ended, nil, 0o644))
	want += "1795364100000,0,GPU-a,97,70123,689.25,,1980,2619,61,0x4\n"
	await.True(t, func() bool { return j.file(GPUFile("n1")) == want }, "nvidia-smi goes on")
	stop()
	require.Equal(t, "2026-11-22T16:15:01Z: nvidia-smi is used, which has no energy counter: "+file+
		": it should have continued (exit status 7)\n", j.file(GPUNote("n1")))
}

// Nothing is started, and no file is made, where nothing is to be sampled.
func TestSampleNoGPUs(t *testing.T) {
	for name, change := range map[string]func(*testJob){
		"off":         func(j *testJob) { j.plan.Telemetry = nil },
		"a demo":      func(j *testJob) { delete(j.env, SimGPUs) },
		"job is over": func(*testJob) {},
	} {
		t.Run(name, func(t *testing.T) {
			j := sampling(t, "touch $0.ran\n"+oneLook)
			change(j)
			ctx, cancel := context.WithCancel(t.Context())
			if name == "job is over" {
				cancel()
			}
			j.sampleGPUs(ctx, j.plan, "n1")()
			cancel()
			require.NoDirExists(t, j.path(run.TelemetryDir))
		})
	}
}

// What goes wrong is a note, and the job goes on.
func TestSampleTroubles(t *testing.T) {
	for name, c := range map[string]struct {
		script, note string
		change       func(*testing.T, *testJob)
	}{
		"no GPU": {"echo 'No devices were found'; exit 6\n", "no NVIDIA driver", nil},
		"broken": {"echo 'GPU is lost'; exit 15\n", "exit status 15", nil},
		"too long": {"echo '" + line + "'; echo '" + line + "'\nexec sleep 7200\n", "the file has reached its size limit", func(t *testing.T, _ *testJob) {
			old := mostSamples
			mostSamples = 100
			t.Cleanup(func() { mostSamples = old })
		}},
		"cannot write": {oneLook, "is a directory", func(t *testing.T, j *testJob) {
			require.NoError(t, os.MkdirAll(j.path(run.TelemetryDir, GPUFile("n1")), 0o755))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			j := sampling(t, c.script)
			j.arrive()
			if c.change != nil {
				c.change(t, j)
			}
			stop := j.sampleGPUs(t.Context(), j.plan, "n1")
			await.True(t, func() bool { return j.file(GPUNote("n1")) != "" }, "the note says why there are no samples")
			stop()
			require.Regexp(t, `^2026-11-22T16:15:01Z: .*`+c.note, j.file(GPUNote("n1")))
		})
	}
	j := sampling(t, "echo 'No devices were found'; exit 6\n")
	said, err := os.Create(j.path("stderr.txt"))
	require.NoError(t, err)
	defer said.Close()
	j.Stderr = said
	require.NoError(t, os.WriteFile(j.path(run.TelemetryDir), nil, 0o644))
	stop := j.sampleGPUs(t.Context(), j.plan, "n1")
	await.True(t, func() bool {
		text, err := os.ReadFile(said.Name())
		return err == nil && strings.HasPrefix(string(text),
			"profllm: node n1: GPU samples: no NVIDIA driver; the note about this was not written: ")
	}, "the job says that there can be no note")
	stop()
}

// A driver that hangs does not keep the job.
func TestSampleHangs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	j := sampling(t, "trap '' TERM\nsleep 7200 &\necho $! >"+file+".part; mv "+file+".part "+file+"; wait\n")
	stop := j.sampleGPUs(t.Context(), j.plan, "n1")
	await.File(t, file)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	t.Cleanup(func() { syscall.Kill(pid, syscall.SIGKILL) })
	stop()
	require.True(t, alive(pid), "it was not waited for")
}

// covers: PL-V26
func TestGuardSamples(t *testing.T) {
	j := sampling(t, `case $* in *lms*) echo '`+line+
		"'; exec sleep 7200;; *--query-gpu*) echo '0, GPU-a, A, 1, 80000, 7';; esac\n")
	j.arrive()
	j.env["SLURMD_NODENAME"], j.env["PROFLLM_LOCAL_JOB"] = "n1", "x"
	j.save(t)
	end, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- j.Guard(t.Context(), end) }()
	await.True(t, func() bool { return strings.Contains(j.file(GPUFile("n1")), ",GPU-a,97,") },
		"the guard takes samples")
	close(end)
	require.NoError(t, <-done)
}

// The guard samples its node beside the GPUs, and goes on behind half a line.
//
// covers: OUT-4, PERF-4
func TestSampleHost(t *testing.T) {
	j := sampling(t, oneLook)
	j.arrive()
	j.plan.Telemetry.Interval = plan.Seconds(10 * time.Millisecond)
	require.NoError(t, os.MkdirAll(j.path(run.TelemetryDir), 0o755))
	half := host.Header + "1795364099000,1,2"
	require.NoError(t, os.WriteFile(j.path(run.TelemetryDir, HostFile("n1")), []byte(half), 0o644))
	stop := j.sampleHost(t.Context(), j.plan, "n1")
	await.True(t, func() bool { return strings.Count(j.file(HostFile("n1")), "\n1795364101000,") > 2 }, "samples")
	stop()
	var seen []host.Sample
	require.ErrorContains(t, host.Read(strings.NewReader(j.file(HostFile("n1"))),
		func(s host.Sample) { seen = append(seen, s) }), "line 2: 3 fields")
	require.Greater(t, len(seen), 2)
	require.NotNil(t, seen[0].Busy)
	require.NotNil(t, seen[0].Used)
	require.NoFileExists(t, j.path(run.TelemetryDir, hostNote("n1")))
}

// Without samples of GPUs there are none of the host, and a file that cannot be written is a note.
func TestSampleNoHost(t *testing.T) {
	j := sampling(t, oneLook)
	j.plan.Telemetry = nil
	j.sampleHost(t.Context(), j.plan, "n1")()
	require.NoDirExists(t, j.path(run.TelemetryDir))

	j = sampling(t, oneLook)
	j.arrive()
	require.NoError(t, os.MkdirAll(j.path(run.TelemetryDir, HostFile("n1")), 0o755))
	stop := j.sampleHost(t.Context(), j.plan, "n1")
	await.True(t, func() bool { return j.file(hostNote("n1")) != "" }, "the note")
	stop()
	require.Contains(t, j.file(hostNote("n1")), "is a directory")
}
