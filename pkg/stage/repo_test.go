package stage_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/stage"
)

// git runs the real git, without the user's settings.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git",
		append([]string{"-c", "user.name=n", "-c", "user.email=e@e", "-c", "protocol.file.allow=always", "-c",
			"init.defaultBranch=main"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "git %s: %s", strings.Join(args, " "), out)
	return strings.TrimSpace(string(out))
}

// upstream makes a bare repository with two commits on main, a tag and a branch with
// a slash, and a submodule.
func upstream(t *testing.T) (url, first, second string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	dir := t.TempDir()
	sub, work := filepath.Join(dir, "sub"), filepath.Join(dir, "work")
	for _, d := range []string{sub, work} {
		require.NoError(t, os.Mkdir(d, 0o755))
		git(t, d, "init", "-q")
		require.NoError(t, os.WriteFile(filepath.Join(d, "file"), []byte(filepath.Base(d)), 0o644))
		git(t, d, "add", ".")
		git(t, d, "commit", "-q", "-m", "1")
	}
	first = git(t, work, "rev-parse", "HEAD")
	git(t, work, "tag", "v1")
	git(t, work, "submodule", "--quiet", "add", sub, "sub")
	git(t, work, "commit", "-q", "-m", "2")
	second = git(t, work, "rev-parse", "HEAD")
	git(t, work, "branch", "feature/x", first)
	url = filepath.Join(dir, "repo.git")
	git(t, dir, "clone", "-q", "--bare", work, url)
	return url, first, second
}

func repository(w *world, r scenario.GitRepo) stage.Item {
	return stage.Item{Kind: stage.Repository, Name: r.URL + "@" + r.Commit,
		Path: filepath.Join(w.stager.Install(), r.Directory()), Repo: &r}
}

// covers: CD-4
func TestRepository(t *testing.T) {
	url, first, second := upstream(t)
	w := newWorld(t)
	w.stager.Environ = append(w.stager.Environ, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_COUNT=1",
		"GIT_CONFIG_KEY_0=protocol.file.allow", "GIT_CONFIG_VALUE_0=always")
	for _, c := range []struct{ commit, head, dir string }{
		{first, first, "repo__" + first}, {"v1", first, "repo__v1"}, {"main", second, "repo__main"}, {"feature/x", first, "repo__feature_x"},
	} {
		item := repository(w, scenario.GitRepo{URL: url, Commit: c.commit})
		o, err := w.stager.Stage(t.Context(), item)
		require.NoError(t, err)
		require.Equal(t, stage.Staged, o.State)
		require.Equal(t, c.head, o.Digest)
		require.Equal(t, c.dir, filepath.Base(o.Path))
		data, err := os.ReadFile(filepath.Join(o.Path, "file"))
		require.NoError(t, err)
		require.Equal(t, "work", string(data))
		require.NoFileExists(t, filepath.Join(o.Path, "sub", "file"), "submodules only when asked for")
		o, err = w.stager.Stage(t.Context(), item)
		require.NoError(t, err)
		require.Equal(t, stage.Present, o.State)
		require.Equal(t, c.head, o.Digest)
	}
	o, err := w.stager.Stage(t.Context(),
		repository(w, scenario.GitRepo{URL: url, Commit: second, InitSubmodules: true}))
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(o.Path, "sub", "file"))

	t.Run("another commit", func(t *testing.T) {
		item := repository(w, scenario.GitRepo{URL: url, Commit: "v1"})
		git(t, item.Path, "checkout", "-q", second)
		_, err := w.stager.Stage(t.Context(), item)
		require.ErrorContains(t, err, "is at commit "+second[:12]+", v1 is "+first[:12]+"\n\thint: rm -r ")
	})
	t.Run("changed files", func(t *testing.T) {
		item := repository(w, scenario.GitRepo{URL: url, Commit: "main"})
		require.NoError(t, os.WriteFile(filepath.Join(item.Path, "file"), []byte("edited"), 0o644))
		_, err := w.stager.Stage(t.Context(), item)
		require.ErrorContains(t, err, "has uncommitted changes\n\t| M file")
	})
	t.Run("no clone", func(t *testing.T) {
		item := repository(w, scenario.GitRepo{URL: url, Commit: "other"})
		require.NoError(t, os.Mkdir(item.Path, 0o755))
		_, err := w.stager.Stage(t.Context(), item)
		require.ErrorContains(t, err, "exists and is not a git clone")
	})
	t.Run("no such commit", func(t *testing.T) {
		item := repository(w, scenario.GitRepo{URL: url, Commit: "nowhere"})
		_, err := w.stager.Stage(t.Context(), item)
		require.ErrorContains(t, err, `has no commit, tag or branch "nowhere"`)
		require.NoDirExists(t, item.Path)
	})
	t.Run("no such repository", func(t *testing.T) {
		_, err := w.stager.Stage(t.Context(),
			repository(w, scenario.GitRepo{URL: filepath.Join(t.TempDir(), "none"), Commit: "1"}))
		require.ErrorContains(t, err, "git clone")
	})
	for _, name := range w.files() {
		require.False(t, strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".lock"), "%s is left", name)
	}
}

// covers: PL-V25
func TestHead(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) string {
		cmd := exec.Command("git", append([]string{"-c", "user.name=n", "-c", "user.email=e"}, args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		return strings.TrimSpace(string(out))
	}
	head := func(files ...string) string { return stage.Head(t.Context(), os.Environ(), dir, files...) }
	require.Empty(t, head(), "no clone")
	git("init", "--quiet")
	require.Empty(t, head(), "no commit")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), []byte("1"), 0o644))
	git("add", "a")
	git("commit", "--quiet", "-m", "m")
	commit := git("rev-parse", "HEAD")
	require.Len(t, commit, 40)
	require.Equal(t, commit, head("a"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "b"), []byte("1"), 0o644))
	require.Equal(t, commit, head(), "a result beside a clone's files is no change of it")
	require.Equal(t, commit, head("a"))
	require.Equal(t, commit+"-dirty", head("a", "b"), "a definition that git does not know")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), []byte("2"), 0o644))
	require.Equal(t, commit+"-dirty", head())
	require.Empty(t, stage.Head(t.Context(), os.Environ(), filepath.Join(dir, "none")))
}

// The git that says a commit sees nothing of the shell but what it needs.
func TestHeadSeesNoSecret(t *testing.T) {
	bin := t.TempDir()
	seen := filepath.Join(bin, "seen")
	require.NoError(t, os.WriteFile(filepath.Join(bin, "git"), []byte("#!/bin/sh\nenv >"+seen+"\necho 00ff\n"), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	require.NotEmpty(t, stage.Head(t.Context(), append(os.Environ(), "TOKEN=canary", "GIT_CEILING_DIRECTORIES=/x"),
		bin))
	env, err := os.ReadFile(seen)
	require.NoError(t, err)
	require.NotContains(t, string(env), "canary")
	require.Contains(t, string(env), "GIT_CEILING_DIRECTORIES=/x\n")
	require.Contains(t, string(env), "\nHOME=")
}
