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
	"github.com/profllm/profllm/pkg/run"
)

// BenchmarkStatus asks for 5,000 runs that this machine knows: 100 jobs in the
// queue, 900 that ended a while ago, and 4,000 of which the end has long been on
// disk. Slurm is a fake, whose own time is fake-ms; queries counts its programs.
func BenchmarkStatus(b *testing.B) {
	const runs, queued, recent = 5000, 100, 900
	f := slurmtest.New(b)
	binary, err := slurmtest.Build(b.TempDir(), os.Environ())
	require.NoError(b, err)
	root := b.TempDir()
	now := time.Now()
	for i := range runs {
		id := strconv.Itoa(100000 + i)
		j := slurmtest.Job{ID: id, Queue: "PENDING", Acct: "PENDING", Reason: "Priority", ExitCode: "0:0", Start: "Unknown", End: "Unknown"}
		if i >= queued {
			j.Queue, j.Acct, j.Start, j.End, j.NodeList = "", "COMPLETED", "2026-03-04T10:00:00", "2026-03-04T10:01:00", "n1"
		}
		known(b, filepath.Join(root, fmt.Sprintf("demo_%d", i/100), "test", strconv.Itoa(i%100)), id, i >= queued+recent, now)
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
	first := status() // writes 1,000 states
	before := len(f.Calls("squeue")) + len(f.Calls("sacct"))
	var took []time.Duration
	for b.Loop() {
		took = append(took, status())
	}
	queries := float64(len(f.Calls("squeue"))+len(f.Calls("sacct"))-before) / float64(len(took))
	slices.Sort(took)
	var fakes time.Duration
	for _, program := range []string{"squeue", "sacct"} {
		call := f.Calls(program)[0]
		cmd := exec.Command(filepath.Join(f.Dir(), "bin", program), call...)
		cmd.Env = f.Env(os.Environ())
		start := time.Now()
		require.NoError(b, cmd.Run())
		fakes += time.Since(start)
	}
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "median-ms")
	b.ReportMetric(float64(fakes.Microseconds())/1000, "fake-ms")
	b.ReportMetric(float64(first.Microseconds())/1000, "first-ms")
	b.ReportMetric(queries, "queries")
	require.LessOrEqual(b, queries, 2.0)
}

// known makes the directory of a run that was submitted as a job, and of which,
// if kept, the end was seen two hours ago.
func known(tb testing.TB, dir, id string, kept bool, now time.Time) {
	require.NoError(tb, os.MkdirAll(dir, 0o755))
	write := func(name string, v any) {
		if data, ok := v.(string); ok {
			require.NoError(tb, os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644))
			return
		}
		require.NoError(tb, run.WriteJSON(filepath.Join(dir, name), v))
	}
	write(run.PlanFile, "{}")
	write(run.IntentFile, fmt.Sprintf(`{"schema": "profllm.intent/1", "run_id": %q, "attempt": 1, "host": "h", "pid": 1}`, id))
	write(run.SubmitFile, fmt.Sprintf(`{"schema": "profllm.submit/1", "run_id": %q, "job_id": %q, "time": %q, "attempt": 1}`, id, id, now.Format(time.RFC3339)))
	write(run.SentinelFile, fmt.Sprintf(`{"schema": "profllm.finish/1", "job_id": %q, "code": 0}`, id))
	write(run.ClaimFile, fmt.Sprintf(`{"schema": "profllm.claim/1", "job_id": %q}`, id))
	if kept {
		write(run.StateFile, fmt.Sprintf(`{"schema": "profllm.state/1", "job_id": %q, "state": "succeeded", "raw": "COMPLETED", "exit_code": "0:0", "source": "sacct", "at": %q}`,
			id, now.Add(-2*time.Hour).Format(time.RFC3339)))
	}
}
