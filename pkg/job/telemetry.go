package job

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/profllm/profllm/pkg/gpu"
	"github.com/profllm/profllm/pkg/host"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
)

// GPUFile is the name, below telemetry/ of the run directory, of the GPU samples of a
// node.
func GPUFile(host string) string { return "gpu-" + host + ".csv" }

// GPUNote is the name of the file beside it that says why a node has no samples, why they
// stopped, or why NVML did not take them.
func GPUNote(host string) string { return "gpu-" + host + ".txt" }

// HostFile is the name, beside GPUFile, of the samples of a node's CPUs, memory, network and disks.
func HostFile(host string) string { return "host-" + host + ".csv" }

// hostNote is the name of the file beside it that says why samples stopped.
func hostNote(host string) string { return "host-" + host + ".txt" }

// SimGPUs is the variable that gives a simulated run this many GPUs on each node. Such a
// run never looks at the GPUs of the machine, which are not its own.
const SimGPUs = "PROFLLM_SIM_GPUS"

// Bounds of what samples may cost.
const (
	samplesAgain = 10 * time.Second       // after an end of the driver's program that nobody asked for
	samplesEnd   = 500 * time.Millisecond // that the end of the job waits for the last line
)

// mostSamples bounds a node's file: four days of eight GPUs, once a second. A variable for tests.
var mostSamples = int64(256 << 20)

var errSamplesFull = errors.New("the file has reached its size limit")

// sampleGPUs writes what the GPUs of this node do until ctx ends or the function it
// returns is called, which waits no longer than samplesEnd. Whatever goes wrong is a
// note beside the file, and nothing else: no run fails of it.
func (j *Job) sampleGPUs(ctx context.Context, p *plan.Plan, name string) (stop func()) {
	reader := j.GPUs
	if p.Simulated {
		reader = gpu.Reader{View: reader.View} // the simulated nvidia-smi, and never the driver of this machine
	}
	if !j.samples(p) {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f := samples{path: j.path(run.TelemetryDir, GPUFile(name)), header: gpu.Header}
		defer f.close()
		note := func(why string) { j.noteSamples(GPUNote(name), "node "+name+": GPU samples", why) }
		for {
			err := reader.Watch(ctx, gpu.Watching{
				Interval: time.Duration(p.Telemetry.Interval), Now: j.Now, Take: f.takeGPUs, Note: note,
			})
			if ctx.Err() != nil {
				return
			}
			note(err.Error())
			if errors.Is(err, gpu.ErrNoDriver) || f.failed || !sleep(ctx, samplesAgain) {
				return
			}
		}
	}()
	return func() {
		cancel()
		select {
		case <-done:
		case <-time.After(samplesEnd): // the driver, or a file system, hangs
		}
	}
}

// samples reports whether this node is sampled. The nodes of a rehearsal are all this machine,
// whose numbers are not theirs, so that a rehearsal samples only where it is asked to.
func (j *Job) samples(p *plan.Plan) bool {
	return p.Telemetry != nil && (!p.Simulated || j.Env(SimGPUs) != "")
}

// sampleHost writes what the CPUs, the memory, the network and the disks of this node do, in the
// manner of sampleGPUs.
func (j *Job) sampleHost(ctx context.Context, p *plan.Plan, name string) (stop func()) {
	if !j.samples(p) {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := j.watchHost(ctx, time.Duration(p.Telemetry.Interval), name); err != nil {
			j.noteSamples(hostNote(name), "node "+name+": host samples", err.Error())
		}
	}()
	return func() {
		cancel()
		select {
		case <-done:
		case <-time.After(samplesEnd): // a file system hangs
		}
	}
}

// watchHost takes samples until ctx ends, which is no error. A tick that is late is left out, so
// that a busy node is asked less.
func (j *Job) watchHost(ctx context.Context, every time.Duration, name string) error {
	f := samples{path: j.path(run.TelemetryDir, HostFile(name)), header: host.Header}
	defer f.close()
	reader := host.Reader{Proc: proc, Sys: "/sys"}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for ctx.Err() == nil {
		s := reader.Sample(j.Now())
		if s.Empty() {
			return errors.New("nothing in " + proc + " can be read")
		}
		if err := f.write(s.Append(nil)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	return nil
}

// noteSamples says beside the samples why there are no more, or none of the counter of
// energy, replacing what was said before. of names them in the job's own log.
func (j *Job) noteSamples(file, of, why string) {
	path := j.path(run.TelemetryDir, file)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = run.WriteFile(path, fmt.Appendf(nil, "%s: %s\n", j.Now().UTC().Format(time.RFC3339), why), 0o644)
	}
	if err != nil {
		fmt.Fprintf(j.Stderr, "profllm: %s: %s; the note about this was not written: %v\n", of, why, err)
	}
}

// samples is the file of one node, made when there is a first sample.
type samples struct {
	path   string
	header string
	file   *os.File
	size   int64
	failed bool // cannot be written
}

// takeGPUs appends one look at the GPUs.
func (s *samples) takeGPUs(look []gpu.Sample) error {
	var lines []byte
	for _, x := range look {
		lines = x.Append(lines)
	}
	return s.write(lines)
}

// write appends lines, in a single write.
func (s *samples) write(lines []byte) error {
	var b []byte
	var err error
	if s.file == nil {
		b, err = s.open()
	}
	b = append(b, lines...)
	if s.size += int64(len(b)); err == nil && s.size > mostSamples {
		err = errSamplesFull
	}
	if err == nil {
		_, err = s.file.Write(b)
	}
	s.failed = err != nil
	return err
}

// open returns what goes before the first sample.
func (s *samples) open() (before []byte, err error) {
	if err := os.MkdirAll(filepath.Dir(s.path), 0o755); err != nil {
		return nil, err
	}
	if s.file, err = run.Append(s.path); err != nil {
		return nil, err
	}
	st, err := s.file.Stat()
	if err != nil {
		return nil, err
	}
	s.size = st.Size()
	switch {
	case s.size == 0:
		return []byte(s.header), nil
	case cut(s.file):
		return []byte("\n"), nil
	}
	return nil, nil
}

func (s *samples) close() {
	if s.file != nil {
		s.file.Close()
	}
}
