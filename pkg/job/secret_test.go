package job

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
)

// keep gives a job secrets, as a submission does.
func (j *testJob) keep(t *testing.T) {
	t.Helper()
	j.plan.Roles[0].Step.Secrets = []plan.Secret{{Name: "A", Env: "TOKEN"}}
	j.save(t)
	require.NoError(t, os.Mkdir(filepath.Join(j.Dir, run.SecretDir), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(j.Dir, run.SecretDir, "TOKEN"), []byte("canary\nof $(x)\n"), 0o600))
}

func TestGive(t *testing.T) {
	j := newJob(t)
	j.keep(t)
	file := filepath.Join(t.TempDir(), "f=g")
	require.NoError(t, os.WriteFile(file, []byte("of a file\n"), 0o600))
	secrets, err := ParseSecrets([]string{"A=TOKEN", "B=TOKEN"}, []string{"F=" + file})
	require.NoError(t, err)
	require.Equal(t, []plan.Secret{{Name: "A", Env: "TOKEN"}, {Name: "B", Env: "TOKEN"}, {Name: "F", File: file}},
		secrets)
	env, err := j.EnvironWithSecrets(Exec{Secrets: secrets, Command: []string{"x"}},
		[]string{"A=old", "AB=kept", "PATH=/bin"})
	require.NoError(t, err)
	require.Equal(t, []string{"AB=kept", "PATH=/bin", "A=canary\nof $(x)\n", "B=canary\nof $(x)\n", "F=of a file"}, env)

	for _, bad := range [][]string{{"A"}, {"=A"}, {"A="}} {
		_, err := ParseSecrets(bad, nil)
		require.ErrorContains(t, err, "is not NAME=VARIABLE or NAME=FILE")
	}
	_, err = j.EnvironWithSecrets(Exec{Secrets: secrets}, nil)
	require.EqualError(t, err, "no command")
	_, err = j.EnvironWithSecrets(Exec{Secrets: []plan.Secret{{Name: "A", Env: "GONE"}, {Name: "F", File: "/not/here"}},
		Command: []string{"x"}}, nil)
	require.ErrorContains(t, err, "the secret A is missing")
	require.ErrorContains(t, err, "the secret F: open /not/here")
}

// A job without its secrets ends before it takes the nodes for anything.
func TestStartWantsSecrets(t *testing.T) {
	j := newJob(t)
	j.keep(t)
	require.NoError(t, j.Start())
	require.NoError(t, os.Remove(filepath.Join(j.Dir, run.SecretDir, "TOKEN")))
	err := j.Start() // queued again
	require.ErrorContains(t, err, "the secret A is missing")
	require.ErrorContains(t, err, "profllm slurm resume --failed "+j.Dir+", in a shell that sets TOKEN")
}

// A sequence that is queued again begins with runs that were over, whose secrets are
// gone: what they measured stays where it is.
//
// covers: PL-S12
func TestStartWithoutSecretsKeepsTheResult(t *testing.T) {
	j := newJob(t)
	j.keep(t)
	require.NoError(t, j.Start())
	require.NoError(t, j.Finish(0, nil, nil))
	require.NoError(t, j.ForgetSecrets(false))
	require.ErrorContains(t, j.Start(), "the secret A is missing")
	require.FileExists(t, j.path(run.SentinelFile))
	require.NoDirExists(t, j.path(run.AttemptDir, "1"))
}

// What a job wrote after it was queued again is looked through as well, whatever its
// first end has removed.
//
// covers: PL-D10
func TestForgetAfterRequeue(t *testing.T) {
	j := newJob(t)
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("canary-of-a-file\n"), 0o600))
	j.plan.Roles[0].Step.Secrets = []plan.Secret{{Name: "F", File: file}}
	j.save(t)
	for range 2 {
		require.NoError(t, j.Start())
		require.NoError(t, os.WriteFile(j.path("logs/a.log"), []byte("canary-of-a-file"), 0o644))
		require.NoError(t, j.Finish(0, nil, nil))
		require.NoError(t, j.ForgetSecrets(false))
		require.NotContains(t, readFile(t, j.path("logs/a.log")), "canary")
		require.NoDirExists(t, j.path(run.SecretDir))
	}
}

// covers: PL-D10
func TestForgetIsAnEvent(t *testing.T) {
	j := newJob(t)
	j.keep(t)
	log := filepath.Join(j.Dir, "logs/serve-0.log")
	require.NoError(t, os.WriteFile(log, []byte("a\ncanary\nof $(x)\n"), 0o644))
	require.NoError(t, j.ForgetSecrets(true))
	require.FileExists(t, filepath.Join(j.Dir, run.SecretDir, "TOKEN"), "Slurm may queue the job again")
	require.NoError(t, j.ForgetSecrets(false))
	require.NoDirExists(t, filepath.Join(j.Dir, run.SecretDir))
	data, err := os.ReadFile(log)
	require.NoError(t, err)
	require.Equal(t, "a\nxxxxxx\nxxxxxxx\n", string(data))
	events, err := ReadEvents(j.Dir)
	require.NoError(t, err)
	require.Len(t, events, 1)
	require.Equal(t, Event{Time: events[0].Time, Event: SecretMasked, File: "logs/serve-0.log", Line: 2,
		Text: "a secret was found here"}, events[0])
	require.Contains(t, j.stdout.String(), "logs/serve-0.log:2: a secret was found here; overwritten with xxx")
	require.NotContains(t, j.stdout.String(), "canary")
}
