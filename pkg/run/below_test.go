package run_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/usertest"
)

// marked makes the directory of a scenario with one run, a/0, and returns both.
func marked(t *testing.T) (root, dir string) {
	t.Helper()
	root = filepath.Join(t.TempDir(), "exp")
	dir = filepath.Join(root, "a/0")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, run.RawDir), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, run.ScenarioFile), []byte("{}"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, run.PlanFile), []byte("{}"), 0o644))
	return root, dir
}

// written are all ways to write below a run.
var written = map[string]func(path string) error{
	"WriteFile":     func(path string) error { return run.WriteFile(path, []byte("new"), 0o644) },
	"WriteUnsynced": func(path string) error { return run.WriteUnsynced(path, []byte("new")) },
	"WriteJSON":     func(path string) error { return run.WriteJSON(path, "new") },
	"CreateJSON":    func(path string) error { return run.CreateJSON(path, "new") },
	"Append": func(path string) error {
		f, err := run.Append(path)
		if err == nil {
			_, err = f.WriteString("new")
			f.Close()
		}
		return err
	},
}

// Nothing is written outside of a run through a link below it, whatever the link is in the place of.
func TestNothingLeavesTheRun(t *testing.T) {
	t.Parallel()
	for how, write := range written {
		t.Run(how, func(t *testing.T) {
			_, dir := marked(t)
			elsewhere := t.TempDir()
			victim := filepath.Join(elsewhere, "x.json")
			require.NoError(t, os.WriteFile(victim, []byte("mine"), 0o644))
			unchanged := func() {
				t.Helper()
				data, err := os.ReadFile(victim)
				require.NoError(t, err)
				require.Equal(t, "mine", string(data))
				entries, err := os.ReadDir(elsewhere)
				require.NoError(t, err)
				require.Len(t, entries, 1)
			}
			require.NoError(t, write(filepath.Join(dir, run.RawDir, "first.json")))

			require.NoError(t, os.Symlink(victim, filepath.Join(dir, "file.json")))
			_ = write(filepath.Join(dir, "file.json")) // the link may be replaced
			unchanged()
			require.NoError(t, os.Symlink(elsewhere, filepath.Join(dir, "folder")))
			require.ErrorContains(t, write(filepath.Join(dir, "folder/x.json")), "is no directory but a link")
			require.ErrorContains(t, write(filepath.Join(dir, "folder/y.json")), "is no directory but a link")
			require.NoError(t, os.Rename(filepath.Join(dir, run.RawDir), filepath.Join(elsewhere, "..", "was")))
			require.NoError(t, os.Symlink(elsewhere, filepath.Join(dir, run.RawDir)))
			require.Error(t, write(filepath.Join(dir, run.RawDir, "x.json")))
			unchanged()
		})
	}
}

// What somebody else owns is only read, and the link to a whole run is an own name of it.
func TestForeignDirectories(t *testing.T) {
	t.Parallel()
	for how, write := range written {
		t.Run(how, func(t *testing.T) {
			root, dir := marked(t)
			link := filepath.Join(t.TempDir(), "latest")
			require.NoError(t, os.Symlink(root, link))
			require.NoError(t, write(filepath.Join(link, "a/0/linked.json")))

			var foreign *run.ForeignError
			usertest.Give(t, dir)
			require.ErrorAs(t, write(filepath.Join(dir, "x.json")), &foreign)
			require.Equal(t, usertest.Other, foreign.Owner)
			require.NoError(t, write(filepath.Join(root, "x.json")), "the scenario's is ours")
			usertest.Give(t, root)
			require.ErrorAs(t, write(filepath.Join(root, "y.json")), &foreign)
			require.ErrorAs(t, write(filepath.Join(dir, run.RawDir, "y.json")), &foreign)
			require.NoFileExists(t, filepath.Join(dir, run.RawDir, "y.json"))
		})
	}
}

// A record that another user puts into a shared folder, such as /tmp, stops nobody.
func TestPlantedRecords(t *testing.T) {
	t.Parallel()
	shared := t.TempDir()
	require.NoError(t, os.Chmod(shared, 0o777|os.ModeSticky))
	plan := filepath.Join(shared, run.PlanFile)
	require.NoError(t, os.WriteFile(plan, []byte("{}"), 0o644))
	usertest.Give(t, plan)
	require.NoError(t, os.Mkdir(filepath.Join(shared, "own"), 0o755))
	require.NoError(t, os.Symlink(t.TempDir(), filepath.Join(shared, "own/link")))
	require.NoError(t, run.CheckDir(filepath.Join(shared, "own/link")))
}

func TestAppendNeverWaits(t *testing.T) {
	t.Parallel()
	_, dir := marked(t)
	pipe := filepath.Join(dir, run.EventFile)
	require.NoError(t, syscall.Mkfifo(pipe, 0o644))
	_, err := run.Append(pipe)
	require.ErrorContains(t, err, "not a regular file")
}

// The directories that a run's records name are the run's.
func TestDirectoriesOfLoads(t *testing.T) {
	t.Parallel()
	root, dir := marked(t)
	require.NoError(t, run.CheckLoad(dir, dir))
	require.NoError(t, run.CheckLoad(dir, filepath.Join(dir, "cold")))
	require.ErrorIs(t, run.CheckLoad(dir, filepath.Join(root, "a/1")), os.ErrNotExist)
	require.NoError(t, os.MkdirAll(filepath.Join(root, "a/1"), 0o755))
	require.NoError(t, run.WriteJSON(filepath.Join(root, "a/1", run.LoadFile), run.LoadMark{Run: "../0"}))
	require.NoError(t, run.CheckLoad(dir, filepath.Join(root, "a/1")))
	require.ErrorContains(t, run.CheckLoad(filepath.Join(root, "a/2"), filepath.Join(root, "a/1")), "not of")
}

// A scenario and a batch name directories of their own only.
func TestRunsOutsideAreRefused(t *testing.T) {
	t.Parallel()
	root, _ := marked(t)
	for _, text := range []string{`{"runs": ["../x"]}`, `{"runs": ["a/0"], "units": ["/etc"]}`} {
		require.NoError(t, os.WriteFile(filepath.Join(root, run.ScenarioFile), []byte(text), 0o644))
		_, err := run.ReadScenario(root)
		require.ErrorContains(t, err, "lies outside of the scenario's directory", text)
	}
}
