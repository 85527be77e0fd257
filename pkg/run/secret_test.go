package run_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/run"
)

// secretive is a run with secrets of the shell, of a file and of a hook.
func secretive(t *testing.T) (s *submitter, file string) {
	t.Helper()
	s = newSubmitter(t)
	file = filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("canary-of-a-file\n\n"), 0o600))
	p, err := run.ReadPlan(s.dir)
	require.NoError(t, err)
	step := func(secrets ...plan.Secret) []plan.Load {
		return []plan.Load{{RunID: "a-0", Dir: p.Dir, Clients: []plan.Step{{Name: "bench", Secrets: secrets}}}}
	}
	hook := *p
	hook.Dir, hook.Loads = filepath.Join(p.Dir, "pre_test/h"), step(plan.Secret{Name: "H", Env: "OTHER"})
	hook.Loads[0].Dir = hook.Dir
	p.Loads = step(plan.Secret{Name: "A", Env: "TOKEN"}, plan.Secret{Name: "B", Env: "TOKEN"},
		plan.Secret{Name: "F", File: file})
	p.PreTest = []plan.Hook{{Name: "h", Dir: hook.Dir, Plan: &hook}}
	require.NoError(t, run.Fill(s.dir, p, []byte("echo $MENTIONED ${ALSO:-x} '$QUOTED' $TOKEN $F\n"),
		[]byte("echo \"${#OF_HOOK}\"\n")))
	s.Lookup = func(name string) (string, bool) {
		value, ok := map[string]string{"TOKEN": "canary-of-a-token\nits second line", "OTHER": "canary-of-a-hook"}[name]
		return value, ok
	}
	return s, file
}

// The values are there before the job is, for its user alone, and only while a job
// may need them.
//
// covers: PL-D10
func TestSecretsAreKeptForTheJob(t *testing.T) {
	s, _ := secretive(t)
	answer := errors.New("lost")
	s.Scheduler = spy{submit: func(r run.Request) (run.Submission, error) {
		for name, want := range map[string]string{"secrets/TOKEN": "canary-of-a-token\nits second line",
			"pre_test/h/secrets/OTHER": "canary-of-a-hook"} {
			file := filepath.Join(s.dir, name)
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, want, string(data))
			for path, mode := range map[string]fs.FileMode{file: 0o600, filepath.Dir(file): fs.ModeDir | 0o700} {
				st, err := os.Stat(path)
				require.NoError(t, err)
				require.Equal(t, mode, st.Mode())
			}
		}
		require.FileExists(t, filepath.Join(s.dir, run.IntentFile),
			"a command that is killed now leaves word of what it did")
		require.Equal(t, run.Export{Names: []string{"ALSO", "F", "MENTIONED", "OF_HOOK", "QUOTED", "TOKEN"},
			Withheld: []string{"A", "B", "F", "H", "OTHER", "TOKEN"}}, r.Export)
		require.Empty(t, r.Export.From([]string{"F=another-than-that-of-the-file"}))
		return run.Submission{}, answer
	}}
	require.ErrorIs(t, s.Submit(t.Context(), s.dir).Err, answer)
	require.True(t, run.KeepsSecrets(s.dir), "there may be a job")

	answer = &run.RefusedError{Reason: "no"}
	s.intent(t, run.IntentFile)
	s.Sleep = func(context.Context, time.Duration) error { return nil }
	s.Scheduler = struct {
		spy
		run.Finder
	}{s.Scheduler.(spy), nobody{}}
	require.ErrorIs(t, s.Submit(t.Context(), s.dir).Err, answer)
	require.False(t, run.KeepsSecrets(s.dir), "there is no job")
	require.NoDirExists(t, filepath.Join(s.dir, "pre_test/h/secrets"))
}

// nobody finds no job.
type nobody struct{}

func (nobody) FindJob(context.Context, string, time.Time, ...string) (string, bool, error) {
	return "", false, nil
}

// What is missing is said before anything is on record.
func TestMissingSecrets(t *testing.T) {
	s, _ := secretive(t)
	s.Scheduler = spy{submit: func(run.Request) (run.Submission, error) {
		t.Error("submitted without its secrets")
		return run.Submission{}, nil
	}}
	for want, lookup := range map[string]func(string) (string, bool){
		"a secret is not set in this shell: OTHER, TOKEN\n\thint: export OTHER=…, or use { file = … }": nil,
		"a secret is not set in this shell: TOKEN\n\thint: export TOKEN=…":                             func(name string) (string, bool) { return "x", name == "OTHER" },
		"a secret is not set in this shell: OTHER\n": func(name string) (string, bool) {
			return map[string]string{"TOKEN": "x"}[name], true // empty is not set
		},
	} {
		s.Lookup = lookup
		err := s.Submit(t.Context(), s.dir).Err
		var missing *run.MissingSecretError
		require.ErrorAs(t, err, &missing)
		require.ErrorContains(t, err, want)
	}
	require.NoFileExists(t, filepath.Join(s.dir, run.IntentFile))
	require.False(t, run.KeepsSecrets(s.dir))
}

func TestReadSecret(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	for want, s := range map[string]plan.Secret{
		" a b\n\nc \t": {Name: "F", File: file("f", " a b\n\nc \t\r\n\n")},
		"a\n":          {Name: "E", Env: "E"},
	} {
		file("secrets/E", "a\n")
		got, err := run.ReadSecret(dir, s)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for want, s := range map[string]plan.Secret{
		"the secret A is missing": {Name: "A", Env: "GONE"},
		"hint: profllm slurm resume --failed " + dir + ", in a shell that": {Name: "A", Env: "GONE"},
		"the secret A: open ": {Name: "A", File: "/not/here"},
		"is empty":            {Name: "A", File: file("empty", "\n")},
		"contains a NUL byte": {Name: "A", File: file("nul", "canary\x00")},
		"has 200000 bytes":    {Name: "A", File: file("long", strings.Repeat("c", 200000))},
	} {
		_, err := run.ReadSecret(dir, s)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "canary")
	}
}

// What processes wrote of secrets is overwritten, in the directories of the run and
// of its loads; profllm's own records are not touched.
//
// covers: PL-D10
func TestForget(t *testing.T) {
	s, file := secretive(t)
	s.Scheduler = spy{submit: func(run.Request) (run.Submission, error) { return run.Submission{JobID: "5"}, nil }}
	require.NoError(t, s.Submit(t.Context(), s.dir).Err)
	p, err := run.ReadPlan(s.dir)
	require.NoError(t, err)
	p.Loads[0].Dir = filepath.Join(filepath.Dir(p.Dir), "beside")
	p.Loads = append(p.Loads, p.Loads[0]) // a folder of somebody who never made it for this run
	p.Loads[1].Dir = filepath.Join(filepath.Dir(p.Dir), "not-of-this-run")
	data, err := p.Encode()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, run.PlanFile), data, 0o644))
	write := func(name, text string) {
		path := filepath.Join(s.dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	written := map[string]string{
		"logs/bench-0.log": "one\nTOKEN=canary-of-a-token\nits second line\n", "raw/x.json": `{"k": "canary-of-a-token\nits second line"}`, "stdout.txt": "canary-of-a-file",
		"attempts/1/logs/a.log": "canary-of-a-hook", "pre_test/h/logs/h.log": "canary-of-a-hook canary-of-a-hook", "../beside/logs/b.log": "its second line", "logs/other.log": "nothing",
	}
	for name, text := range written {
		write(name, text)
	}
	write(run.EventFile, `{"text": "canary-of-a-file"}`)
	write("../not-of-this-run/notes", "canary-of-a-file")
	t.Cleanup(func() {
		text, err := os.ReadFile(filepath.Join(s.dir, "../not-of-this-run/notes"))
		require.NoError(t, err)
		require.Equal(t, "canary-of-a-file", string(text))
	})
	back, err := filepath.Rel(filepath.Join(s.dir, "../beside"), s.dir)
	require.NoError(t, err)
	require.NoError(t, run.WriteJSON(filepath.Join(s.dir, "../beside", run.LoadFile), run.LoadMark{Run: back}))
	require.NoError(t, os.Symlink(file, filepath.Join(s.dir, "raw/link")))

	for _, stays := range []bool{true, false, false} {
		kept := run.KeepsSecrets(s.dir)
		for name, text := range written {
			write(name, text)
		}
		hook, err := run.ForgetSecrets(filepath.Join(s.dir, "pre_test/h"), false)
		require.NoError(t, err)
		if kept {
			require.Equal(t, []run.Masked{{File: "logs/h.log", Line: 1, Count: 2}}, hook)
			require.FileExists(t, filepath.Join(s.dir, "pre_test/h/secrets/OTHER"), "its run forgets it")
		}
		found, err := run.ForgetSecrets(s.dir, stays)
		require.NoError(t, err)
		if !kept {
			require.Empty(t, found)
			continue
		}
		require.ElementsMatch(t, []run.Masked{
			{File: "logs/bench-0.log", Line: 2, Count: 1}, {File: "raw/x.json", Line: 1, Count: 1}, {File: "stdout.txt", Line: 1, Count: 1},
			{File: "attempts/1/logs/a.log", Line: 1, Count: 1}, {File: "../beside/logs/b.log", Line: 1, Count: 1},
		}, found)
		require.Equal(t, stays, run.KeepsSecrets(s.dir))
		for name, text := range written {
			data, err := os.ReadFile(filepath.Join(s.dir, name))
			require.NoError(t, err)
			require.Len(t, data, len(text))
			require.NotRegexp(t, "canary|second line", string(data))
		}
	}
	data, err = os.ReadFile(filepath.Join(s.dir, run.EventFile))
	require.NoError(t, err)
	require.Contains(t, string(data), "canary", "a record")
	data, err = os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "canary-of-a-file\n\n", string(data), "the user's own file, behind a link")
}

// A run whose files could not be overwritten keeps its secrets: the next look may
// do it.
func TestForgetIsNotHalfDone(t *testing.T) {
	s, _ := secretive(t)
	s.Scheduler = spy{submit: func(run.Request) (run.Submission, error) { return run.Submission{JobID: "5"}, nil }}
	require.NoError(t, s.Submit(t.Context(), s.dir).Err)
	log := filepath.Join(s.dir, "logs/a.log")
	require.NoError(t, os.WriteFile(log, append(make([]byte, 2<<20), "canary-of-a-token"...), 0o644))
	withLimitedFiles(t, func() { // of 1 MiB
		_, err := run.ForgetSecrets(s.dir, false)
		require.ErrorIs(t, err, syscall.EFBIG)
		require.FileExists(t, filepath.Join(s.dir, "secrets/TOKEN"))
	})
	_, err := run.ForgetSecrets(s.dir, false)
	if os.Getenv(limitedVar) == "" {
		require.NoError(t, err)
		require.False(t, run.KeepsSecrets(s.dir))
	}
}

// So does one of whose secrets one cannot be read: nobody could look for it.
func TestForgetReadsEverySecret(t *testing.T) {
	s, _ := secretive(t)
	s.Scheduler = spy{submit: func(run.Request) (run.Submission, error) { return run.Submission{JobID: "5"}, nil }}
	require.NoError(t, s.Submit(t.Context(), s.dir).Err)
	kept := filepath.Join(s.dir, "secrets/TOKEN")
	require.NoError(t, os.Remove(kept))
	require.NoError(t, os.Mkdir(kept, 0o700))
	_, err := run.ForgetSecrets(s.dir, false)
	require.ErrorIs(t, err, regular.ErrKind)
	require.DirExists(t, kept)
	require.NoError(t, os.Remove(kept)) // as a command that was overtaken may leave it
	_, err = run.ForgetSecrets(s.dir, false)
	require.NoError(t, err)
	require.False(t, run.KeepsSecrets(s.dir))
}

// A test may be named as the folder of hooks is.
func TestForgetOfATestNamedLikeHooks(t *testing.T) {
	dir := filepath.Join(create(t, "pre_test/0"), "pre_test/0")
	require.NoError(t, os.Mkdir(filepath.Join(dir, run.SecretDir), 0o700))
	_, hook := run.HookOf(dir)
	require.False(t, hook)
	_, err := run.ForgetSecrets(dir, false)
	require.NoError(t, err)
	require.False(t, run.KeepsSecrets(dir))
	parent, hook := run.HookOf(filepath.Join(dir, run.PreTestDir, "h"))
	require.True(t, hook)
	require.Equal(t, dir, parent)
}

func TestExported(t *testing.T) {
	module := "BASH_FUNC_module%%=() {  echo $*\n}" // what many sites have instead of BASH_ENV
	require.Equal(t, []string{module}, run.Export{}.From([]string{module, "BASH_FUNC_other%%=() {  :\n}"}))
	require.Empty(t, run.Export{Names: []string{"ALL"}}.From([]string{run.HeldVar + "=local-1"}), "of another job")
	environ := []string{"PATH=/bin", "HF_TOKEN=canary", "A=1\n2", "PROFLLM_X=", "SLURM_CONF=/c", "PATHS=x", "MALFORMED"}
	require.Equal(t, []string{"PATH=/bin", "PROFLLM_X=", "SLURM_CONF=/c"}, run.Export{}.From(environ))
	require.Equal(t, []string{"PATH=/bin", "A=1\n2", "PROFLLM_X=", "SLURM_CONF=/c"},
		run.Export{Names: []string{"A", "B"}}.From(environ))
	require.Equal(t, environ, run.Export{Names: []string{"B", "ALL"}}.From(environ))
	require.Equal(t, append([]string{"PATH=/bin"}, environ[2:]...),
		run.Export{Names: []string{"HF_TOKEN", "ALL"}, Withheld: []string{"HF_TOKEN"}}.From(environ))
}

// What tunes communication in a shell and stays there is known before the job is
// submitted: not what the definitions set, ask for, or read in a step.
//
// covers: PL-S33
func TestUnexported(t *testing.T) {
	environ := []string{"PATH=/bin", "UCX_TLS=rc", "NCCL_DEBUG=INFO", "NCCL_IB_HCA=", "NCCLX=1", "HF_TOKEN=x",
		"UCX_TLS=tcp"}
	p := &plan.Plan{}
	r := run.Printed{Plan: p, Script: []byte("echo $OTHER")}
	require.Equal(t, []string{"NCCL_DEBUG", "NCCL_IB_HCA", "UCX_TLS"}, r.Unexported(&p.Job, environ))
	require.Equal(t, []string{"UCX_TLS"},
		r.Unexported(&plan.Job{Export: []string{"NCCL_DEBUG", "NCCL_IB_HCA"}}, environ))
	for _, all := range []plan.Job{{Export: []string{"ALL"}}, {SbatchArgs: []string{"--export=ALL"}}} {
		require.Empty(t, r.Unexported(&all, environ))
	}
	require.Empty(t, r.Unexported(&p.Job, environ[:1]))

	p.Env = []plan.Var{{Name: "NCCL_DEBUG", Value: plan.Text("WARN")}}
	p.Roles = []plan.Role{{Step: plan.Step{Secrets: []plan.Secret{{Name: "NCCL_IB_HCA", Env: "NCCL_IB_HCA"}}}}}
	r.Script = []byte("echo ${UCX_TLS:-}")
	require.Empty(t, r.Unexported(&p.Job, environ))
}

// An --export of the user's own is about the whole environment of sbatch.
func TestExportOfTheUser(t *testing.T) {
	for _, args := range [][]string{nil, {"--mail-type=END"}, {"--export=ALL,X=1"}, {"--export-file=/x"}} {
		s := newSubmitter(t)
		p, err := run.ReadPlan(s.dir)
		require.NoError(t, err)
		p.Job.SbatchArgs, p.Job.Export = args, []string{"ASKED"}
		require.NoError(t, run.Fill(s.dir, p, nil))
		want := []string{"ASKED"}
		if len(args) > 0 && strings.HasPrefix(args[0], "--export") {
			want = []string{"ALL", "ASKED"}
		}
		s.Scheduler = spy{submit: func(r run.Request) (run.Submission, error) {
			require.Equal(t, run.Export{Names: want}, r.Export)
			return run.Submission{JobID: "5"}, nil
		}}
		require.NoError(t, s.Submit(t.Context(), s.dir).Err)
	}
}
