package stage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/durable"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/scenario"
)

func (s *Stager) stageRepository(ctx context.Context, item Item) (Outcome, error) {
	o := Outcome{Item: item, State: Present}
	git := *s
	// nobody is there to answer
	git.Environ = append(append([]string(nil), s.Environ...), "GIT_TERMINAL_PROMPT=0", "LC_ALL=C")
	done := func() (bool, error) {
		if _, err := os.Stat(item.Path); errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		var err error
		o.Digest, err = git.checkClone(ctx, item)
		return err == nil, err
	}
	err := s.alone(ctx, item.Path, done, func() error {
		o.State = Staged
		var err error
		o.Digest, err = git.clone(ctx, item)
		return err
	})
	return o, err
}

// clone makes the clone under a temporary name and renames it.
func (s *Stager) clone(ctx context.Context, item Item) (head string, err error) {
	temp := s.temp(item.Path)
	defer os.RemoveAll(temp)
	if _, err := s.execute(ctx, "", "git", "clone", "--quiet", "--no-checkout", "--", item.Repo.URL, temp); err != nil {
		return "", err
	}
	commit, err := s.resolve(ctx, temp, *item.Repo)
	if err != nil {
		return "", err
	}
	if _, err := s.execute(ctx, temp, "git", "checkout", "--quiet", "--detach", commit); err != nil {
		return "", err
	}
	if item.Repo.InitSubmodules {
		if _, err := s.execute(ctx, temp, "git", "submodule", "--quiet", "update", "--init",
			"--recursive"); err != nil {
			return "", err
		}
	}
	return commit, durable.Move(temp, item.Path)
}

// resolve finds the full hash of a commit, tag or branch of a clone.
func (s *Stager) resolve(ctx context.Context, dir string, r scenario.GitRepo) (string, error) {
	var first error
	for _, name := range []string{r.Commit, "refs/remotes/origin/" + r.Commit} {
		hash, err := s.execute(ctx, dir, "git", "rev-parse", "--quiet", "--verify", "--end-of-options",
			name+"^{commit}")
		if err == nil {
			return hash, nil
		}
		if ctx.Err() != nil {
			return "", err
		}
		first = errors.Join(first, err)
	}
	return "", fmt.Errorf("%s has no commit, tag or branch %q: %w", r.URL, r.Commit, first)
}

// checkClone accepts what is there if it is a clone at the wanted commit with
// nothing changed in it.
func (s *Stager) checkClone(ctx context.Context, item Item) (head string, err error) {
	mend := "\n\thint: rm -r " + paste([]string{item.Path}) + ", then stage again"
	top, err := s.execute(ctx, item.Path, "git", "rev-parse", "--show-cdup")
	if err != nil || top != "" {
		return "", errors.Join(fmt.Errorf("%s exists and is not a git clone%s", item.Path, mend), err)
	}
	if head, err = s.execute(ctx, item.Path, "git", "rev-parse", "HEAD"); err != nil {
		return "", err
	}
	want, err := s.resolve(ctx, item.Path, *item.Repo)
	if err != nil {
		return "", err
	}
	if head != want {
		return "", fmt.Errorf("%s is at commit %.12s, %s is %.12s%s", item.Path, head, item.Repo.Commit, want, mend)
	}
	changed, err := s.execute(ctx, item.Path, "git", "status", "--porcelain", "--untracked-files=no")
	if err == nil && changed != "" {
		err = fmt.Errorf("%s has uncommitted changes%s%s", item.Path, indented(changed), mend)
	}
	return head, err
}

// Head is the commit that is checked out in a folder, with the suffix -dirty if files
// differ from the commit: the files of the list, also if git does not know them, or
// without a list all files that git knows. Head is "" if the folder is not in a clone or
// git does not answer.
func Head(ctx context.Context, environ []string, dir string, files ...string) string {
	git := Stager{LookPath: exec.LookPath, Environ: append(ofGit(environ), "GIT_OPTIONAL_LOCKS=0", "LC_ALL=C"),
		Timeout: headLimit}
	head, err := git.execute(ctx, dir, "git", "rev-parse", "--verify", "HEAD")
	if err != nil {
		return ""
	}
	status := []string{"git", "status", "--porcelain", "--untracked-files=no"}
	if len(files) > 0 {
		status = append([]string{"git", "status", "--porcelain", "--"}, files...)
	}
	changed, err := git.execute(ctx, dir, status...)
	if err != nil {
		return ""
	}
	if changed != "" {
		head += "-dirty"
	}
	return head
}

// ofGit is what of an environment git is given: a shell's secrets are none of its business.
func ofGit(environ []string) []string {
	kept := run.Export{}.From(environ)
	for _, kv := range environ {
		if strings.HasPrefix(kv, "GIT_") {
			kept = append(kept, kv)
		}
	}
	return kept
}

// headLimit is for git on a slow file system: a plan does not wait longer for it.
const headLimit = 5 * time.Second
