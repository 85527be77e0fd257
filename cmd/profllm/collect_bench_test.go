package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/collect/index"
	"github.com/profllm/profllm/pkg/run"
)

// used is what a child process needed.
type used struct {
	wall, cpu time.Duration
	rss       float64 // peak, MB
}

// collectOnce runs the program over many runs, as cron does.
func collectOnce(b *testing.B, dir string, env ...string) used {
	b.Helper()
	cmd := exec.Command(binary, "collect", dir)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout = io.Discard
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	start := time.Now()
	err := cmd.Run()
	wall := time.Since(start)
	var exited *exec.ExitError
	require.True(b, errors.As(err, &exited) && exited.ExitCode() == exitJobFailed, "%v\n%s", err, stderr.String())
	u := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return used{wall, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), float64(u.Maxrss) / 1024}
}

// forget removes the records and the index of collected runs.
func forget(b *testing.B, f finished) {
	b.Helper()
	require.NoError(b, os.RemoveAll(filepath.Join(f.root, index.File)))
	for dir := range f.kinds {
		require.NoError(b, os.RemoveAll(filepath.Join(dir, run.ResultFile)))
	}
}

// readTree goes through every file once, on one core, and returns the time of the
// processor; each is handed to look.
func readTree(b *testing.B, dir string, look func(name string, data []byte)) time.Duration {
	b.Helper()
	start := cpuTime(b)
	require.NoError(b, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		look(path, data)
		return err
	}))
	return cpuTime(b) - start
}

// cpuTime is what this process has used of the processor.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// decode is the least that a reader does with a file: JSON becomes values, other text
// lines.
func decode(name string, data []byte) {
	if strings.HasSuffix(name, ".json") {
		var v any
		_ = json.Unmarshal(data, &v)
		return
	}
	for s := bufio.NewScanner(bytes.NewReader(data)); s.Scan(); {
	}
}

// BenchmarkCollect collects finished runs, first without records, then again with
// nothing changed; and both on one core, by the time of the processor, since other work
// on the machine lengthens every other. The design's aim is 3,000 runs/s at first, all
// in one second again, and less than 200 MB. cat reads the same files on one core.
func BenchmarkCollect(b *testing.B) {
	for _, size := range []struct {
		name string
		runs int
	}{{"1000", 1000}, {"10000", 10000}} {
		b.Run(size.name, func(b *testing.B) {
			f := finishedRuns(b, size.runs)
			// what follows finds the files in memory
			out, err := exec.Command("bash", "-c", `find "$1" -type f -print0 | xargs -0 cat | wc -c`, "-", f.root).
				Output()
			require.NoError(b, err)
			b.Logf("%d runs, %s bytes", size.runs, bytes.TrimSpace(out))
			for b.Loop() {
				cat := readTree(b, f.root, func(string, []byte) {})
				both := readTree(b, f.root, decode)
				first := collectOnce(b, f.root)
				again := collectOnce(b, f.root)
				forget(b, f)
				first1 := collectOnce(b, f.root, "GOMAXPROCS=1")
				again1 := collectOnce(b, f.root, "GOMAXPROCS=1")
				n := float64(size.runs)
				b.ReportMetric(n/cat.Seconds(), "cat-runs/s")
				b.ReportMetric(n/first.wall.Seconds(), "first-runs/s")
				b.ReportMetric(n/first1.cpu.Seconds(), "first-runs/cpu-s")
				b.ReportMetric(first1.cpu.Seconds()/cat.Seconds(), "first-cpu-ratio-to-cat")
				b.ReportMetric(first1.cpu.Seconds()/both.Seconds(), "first-cpu-ratio-to-cat+decode")
				b.ReportMetric(first.rss, "first-peak-MB")
				b.ReportMetric(again.wall.Seconds(), "again-s")
				b.ReportMetric(again1.cpu.Seconds(), "again-cpu-s")
				b.ReportMetric(again1.cpu.Seconds()/cat.Seconds(), "again-cpu-ratio-to-cat")
				b.ReportMetric(again.rss, "again-peak-MB")
			}
		})
	}
}
