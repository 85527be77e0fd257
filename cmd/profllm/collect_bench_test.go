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
)

// used is what a child process needed.
type used struct {
	wall, cpu time.Duration
	rss       float64 // peak, MB
}

// collectOnce runs the program over many runs, as cron does.
func collectOnce(b *testing.B, dir string) used {
	b.Helper()
	cmd := exec.Command(binary, "collect", dir)
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

// read goes through every file once, on one core; each is handed to look.
func readTree(b *testing.B, dir string, look func(name string, data []byte)) time.Duration {
	b.Helper()
	start := time.Now()
	require.NoError(b, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		look(path, data)
		return err
	}))
	return time.Since(start)
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

// BenchmarkCollect collects finished runs, first without records, then again. The
// design's aim is 5,000 runs/s, at most three times what one core needs to read the
// same files and decode them for each core used, and memory that does not grow
// with the number of runs.
func BenchmarkCollect(b *testing.B) {
	for _, size := range []struct {
		name string
		runs int
	}{{"1000", 1000}, {"10000", 10000}} {
		b.Run(size.name, func(b *testing.B) {
			f := finishedRuns(b, size.runs)
			out, err := exec.Command("bash", "-c", `find "$1" -type f -print0 | xargs -0 cat | wc -c`, "-", f.root).Output() // what follows finds the files in memory
			require.NoError(b, err)
			b.Logf("%d runs, %s bytes", size.runs, bytes.TrimSpace(out))
			for b.Loop() {
				cat := readTree(b, f.root, func(string, []byte) {})
				both := readTree(b, f.root, decode)
				first := collectOnce(b, f.root)
				again := collectOnce(b, f.root)
				n := float64(size.runs)
				b.ReportMetric(n/first.wall.Seconds(), "first-runs/s")
				b.ReportMetric(n/again.wall.Seconds(), "again-runs/s")
				b.ReportMetric(n/cat.Seconds(), "cat-runs/s")
				b.ReportMetric(again.wall.Seconds()/cat.Seconds(), "ratio-to-cat")
				b.ReportMetric(again.cpu.Seconds()/cat.Seconds(), "cpu-ratio-to-cat")
				b.ReportMetric(again.cpu.Seconds()/both.Seconds(), "cpu-ratio-to-cat+decode")
				b.ReportMetric(again.cpu.Seconds()/again.wall.Seconds(), "cores")
				b.ReportMetric(first.rss, "first-peak-MB")
				b.ReportMetric(again.rss, "again-peak-MB")
			}
		})
	}
}
