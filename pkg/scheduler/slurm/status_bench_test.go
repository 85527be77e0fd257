package slurm

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/internal/slurmtest"
	"github.com/profllm/profllm/pkg/programtest"
	"github.com/profllm/profllm/pkg/run"
)

// BenchmarkStatus asks for 5,000 runs that this machine knows: all of them over
// for long, all pending, or mixed: 100 in the queue, 900 that ended a while
// ago, and 4,000 of which the end has long been on disk. The whole command is
// measured, its start and what it prints included; Slurm is a fake, whose own
// time is fake-ms, and queries counts its programs. x-floor compares the median
// with a loop that lists each run's folder and reads its two smallest records.
//
// covers: PL-S15
func BenchmarkStatus(b *testing.B) {
	const runs = 5000
	binary, err := programtest.Build(b.TempDir(), os.Getenv)
	require.NoError(b, err)
	for name, c := range map[string]struct{ queued, recent int }{
		"mixed": {100, 900}, "over": {0, 0}, "pending": {runs, 0},
	} {
		b.Run(name, func(b *testing.B) { benchmarkStatus(b, binary, runs, c.queued, c.recent) })
	}
}

func benchmarkStatus(b *testing.B, binary string, runs, queued, recent int) {
	f := slurmtest.New(b)
	root := b.TempDir()
	now := time.Now()
	var dirs []string
	for i := range runs {
		id := strconv.Itoa(100000 + i)
		j := slurmtest.Job{ID: id, Queue: "PENDING", Acct: "PENDING", Reason: "Priority", ExitCode: "0:0",
			Start: "Unknown", End: "Unknown"}
		if i >= queued {
			j.Queue, j.Acct, j.Start, j.End, j.NodeList = "", "COMPLETED", "2026-03-04T10:00:00", "2026-03-04T10:01:00", "n1"
		}
		dirs = append(dirs, filepath.Join(root, fmt.Sprintf("demo_%d", i/100), "test", strconv.Itoa(i%100)))
		known(b, dirs[i], id, i >= queued, i >= queued+recent, now)
		if i < queued+recent {
			f.Put(j)
		}
	}
	status := func() time.Duration {
		cmd := exec.Command(binary, "slurm", "status", root)
		cmd.Env = f.Env(os.Environ())
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		start := time.Now()
		require.NoError(b, cmd.Run(), stderr.String())
		took := time.Since(start)
		require.Equal(b, queued, bytes.Count(stdout.Bytes(), []byte("queued")))
		require.Equal(b, runs-queued, bytes.Count(stdout.Bytes(), []byte("succeeded")))
		return took
	}
	first := status() // writes the states that are new
	before := len(f.Calls("squeue")) + len(f.Calls("sacct"))
	var took, floor []time.Duration
	for b.Loop() {
		took = append(took, status())
		floor = append(floor, plainly(b, dirs))
	}
	queries := float64(len(f.Calls("squeue"))+len(f.Calls("sacct"))-before) / float64(len(took))
	slices.Sort(took)
	slices.Sort(floor)
	var fakes time.Duration
	for _, program := range []string{"squeue", "sacct"} {
		calls := f.Calls(program)
		if len(calls) == 0 {
			continue
		}
		cmd := exec.Command(filepath.Join(f.Dir(), "bin", program), calls[0]...)
		cmd.Env = f.Env(os.Environ())
		start := time.Now()
		require.NoError(b, cmd.Run())
		fakes += time.Since(start)
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.ReportMetric(ms(took[len(took)/2]), "median-ms")
	b.ReportMetric(ms(took[len(took)*95/100]), "p95-ms")
	b.ReportMetric(float64(took[len(took)/2])/float64(floor[len(floor)/2]), "x-floor")
	b.ReportMetric(ms(fakes), "fake-ms")
	b.ReportMetric(ms(first), "first-ms")
	b.ReportMetric(queries, "queries")
	require.LessOrEqual(b, queries, 2.0)
}

// plainly lists every folder and reads what decides about its run, one after the
// other, and understands nothing of it.
func plainly(b *testing.B, dirs []string) time.Duration {
	start := time.Now()
	for _, dir := range dirs {
		_, err := os.ReadDir(dir)
		require.NoError(b, err)
		for _, name := range []string{run.SubmitFile, run.StateFile} {
			_, err := os.ReadFile(filepath.Join(dir, name))
			require.NoError(b, err)
		}
	}
	return time.Since(start)
}

// known makes the directory of a run that was submitted as a job, with the files
// of one that is over, if it is, and of which, if kept, the end was seen two hours
// ago.
func known(tb testing.TB, dir, id string, over, kept bool, now time.Time) {
	for _, sub := range []string{run.RawDir, run.LogDir} {
		require.NoError(tb, os.MkdirAll(filepath.Join(dir, sub), 0o755))
	}
	write := func(name, data string) {
		require.NoError(tb, os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644))
	}
	write(run.PlanFile, "{}")
	write(run.ScriptFile, "#!/bin/bash\n")
	write(run.IntentFile, fmt.Sprintf(`{"schema": "profllm.intent/1", "run_id": %q, "attempt": 1, "host": "h", "pid": 1}`, id))
	write(run.SubmitFile, fmt.Sprintf(`{"schema": "profllm.submit/1", "run_id": %q, "job_id": %q, "time": %q, "attempt": 1}`, id, id, now.Format(time.RFC3339)))
	if over {
		write(run.SentinelFile, fmt.Sprintf(`{"schema": "profllm.finish/1", "job_id": %q, "code": 0}`, id))
		write(run.ClaimFile, fmt.Sprintf(`{"schema": "profllm.claim/1", "job_id": %q}`, id))
		began := now.Add(-3 * time.Hour)
		require.NoError(tb, os.Chtimes(filepath.Join(dir, run.ClaimFile), began, began))
		write(filepath.Join(run.LogDir, "serve-0.log"), "ready\n")
		write(filepath.Join(run.RawDir, "vllm-bench.json"), "{}")
	}
	if kept {
		write(run.StateFile, fmt.Sprintf(`{"schema": "profllm.state/1", "job_id": %q, "state": "succeeded", "raw": "COMPLETED", "exit_code": "0:0", "source": "sacct", "at": %q}`,
			id, now.Add(-2*time.Hour).Format(time.RFC3339)))
	}
}
