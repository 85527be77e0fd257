package job_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/run"
)

// The digest is asked of the runtime while the container runs, by the first rank
// alone, and a runtime that does not answer costs nothing.
//
// covers: PL-V25
func TestImageUsed(t *testing.T) {
	const answers = `case $1$2 in run*) sleep 1;; inspect*) echo 00ff;; imageinspect) echo ' host/x@sha256:aa host/y@sha256:aa';; esac`
	for _, c := range []struct {
		body, rank string
		want       job.ImageUsed
	}{
		{answers, "0", job.ImageUsed{ID: "sha256:00ff", Digest: "sha256:aa"}},
		{`case $1$2 in run*) sleep 1;; inspect*) echo sha256:00ff;; imageinspect) echo ' ';; esac`, "0", job.ImageUsed{ID: "sha256:00ff", Digest: "sha256:00ff"}},
		{`case $1 in run) sleep 1;; inspect) exit 1;; esac`, "0", job.ImageUsed{}},
		{answers, "1", job.ImageUsed{}},
	} {
		t.Run("", func(t *testing.T) {
			bin, dir := t.TempDir(), t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(bin, "docker"), []byte("#!/bin/bash\n"+c.body+"\n"), 0o755))
			require.NoError(t, os.Mkdir(filepath.Join(dir, run.RawDir), 0o755))
			env := map[string]string{"SLURM_JOB_ID": "4711", "SLURM_PROCID": c.rank, "TMPDIR": t.TempDir()}
			out, err := os.Create(filepath.Join(bin, "out"))
			require.NoError(t, err)
			defer out.Close()
			j := &job.Job{Env: func(name string) string { return env[name] }, Stdout: out, Stderr: out, Now: time.Now}
			t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
			code, err := j.RunContain(t.Context(),
				job.Contain{Runtime: "docker", Step: "serve", Dir: dir, Args: []string{"x"}}, os.Environ())
			require.NoError(t, err)
			require.Zero(t, code)
			var got job.ImageUsed
			_ = run.ReadJSON(filepath.Join(dir, run.RawDir, job.ImageFile("serve")), &got)
			require.Equal(t, c.want, got)
		})
	}
}
