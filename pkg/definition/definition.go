// Package definition reads a scenario with every file that it is made of: from the folders
// beside it, from the copies that are kept with results, or from a lock file.
package definition

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/profllm/profllm/pkg/experiment"
	"github.com/profllm/profllm/pkg/lockfile"
	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/scenarios"
)

// Folders say where the files are that a scenario refers to. "" means beside the scenario:
// tests, test or ../test, and hook, ../hook or ../../hook after conf/hook here.
type Folders struct{ TestsDir, HookDir string }

// KeptFolders are the folders of the copies that are kept with results.
func KeptFolders(kept string) Folders {
	return Folders{TestsDir: filepath.Join(kept, "tests"), HookDir: filepath.Join(kept, "hook")}
}

// Load reads a scenario, its test files and its hooks, or the lock file of one. The name
// "demo" is the built-in scenario unless a file has that name.
func Load(file string, in Folders) (*scenario.Scenario, *Files, error) {
	data, err := ReadFile("scenario", file)
	if errors.Is(err, fs.ErrNotExist) && file == scenarios.Demo {
		data, err = fs.ReadFile(scenarios.FS, scenarios.Demo+".toml")
		file = "scenarios/" + scenarios.Demo + ".toml"
	}
	if errors.Is(err, fs.ErrNotExist) && source.Nearest(file, []string{scenarios.Demo}) != "" {
		err = fmt.Errorf("%s: %w\n\thint: did you mean %s, the built-in demonstration?", file, syscall.ENOENT,
			scenarios.Demo)
	}
	if err != nil {
		return nil, nil, err
	}
	if lockfile.Is(data) {
		return loadLock(file, data)
	}
	d := &Files{}
	if d.Top, err = top(file, data); err != nil {
		return nil, nil, err
	}
	beside := filepath.Dir(file)
	testsDir := cmp.Or(in.TestsDir, folder(beside, "tests", "test", "../test"))
	if d.Tests, err = readTOML(testsDir); err != nil {
		return nil, nil, err
	}
	hookDir := cmp.Or(in.HookDir, folder(".", "conf/hook"), folder(beside, "hook", "../hook", "../../hook"))
	hookTests := ""
	if hookDir != "" {
		if d.Hooks.Scenarios, err = readTOML(hookDir); err != nil {
			return nil, nil, err
		}
		hookTests = folder(hookDir, "test", "tests")
		if d.Hooks.Tests, err = readTOML(hookTests); err != nil {
			return nil, nil, err
		}
	}
	s, err := scenario.Load(d.Top, d.Tests, d.Hooks)
	if err != nil { // a test may lie in a subfolder; most scenarios need no look there
		if s, err = d.loadBelow(testsDir, hookTests); err != nil {
			return nil, nil, err
		}
	}
	return s, d, checkMetrics(s)
}

// Made is a scenario that no file has: f holds what its file would hold, under the name that
// messages have.
func Made(f scenario.File) (*scenario.Scenario, *Files, error) {
	d := &Files{Top: f}
	s, err := scenario.Load(d.Top, nil, scenario.HookFiles{})
	if err != nil {
		return nil, nil, err
	}
	return s, d, checkMetrics(s)
}

// top is the file of a scenario, which may be that of an experiment. What is kept of one is the
// scenario that it stands for.
func top(file string, data []byte) (scenario.File, error) {
	f := scenario.File{Name: file, Data: data}
	t, err := experiment.Parse(file, data)
	switch {
	case err != nil && !experiment.OnlyExperiments(file):
		return f, nil // the scenario's own complaints include it
	case err != nil:
		return f, err
	case !experiment.Is(t):
		f.Table = t
		return f, nil
	}
	if f.Table, err = experiment.Scenario(t); err == nil {
		f.Data, err = experiment.TOML(f.Table)
	}
	return f, err
}

// loadBelow loads the scenario with the tests in subfolders too, and keeps of these
// what it refers to.
func (d *Files) loadBelow(testsDir, hookTests string) (*scenario.Scenario, error) {
	tests, err := readBelow(testsDir)
	if err != nil {
		return nil, err
	}
	hooks, err := readBelow(hookTests)
	if err != nil {
		return nil, err
	}
	d.Tests, d.Hooks.Tests = append(d.Tests, tests...), append(d.Hooks.Tests, hooks...)
	s, err := scenario.Load(d.Top, d.Tests, d.Hooks)
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for _, t := range s.All() {
		used[t.Table.PosOf("test_template_name").File] = true
	}
	idle := func(f scenario.File) bool { return f.Below != "" && !used[f.Name] }
	d.Tests, d.Hooks.Tests = slices.DeleteFunc(d.Tests, idle), slices.DeleteFunc(d.Hooks.Tests, idle)
	return s, nil
}

// checkMetrics looks for the metrics that repeats are to be precise in.
func checkMetrics(s *scenario.Scenario) error {
	var c source.Complaints
	for _, t := range s.All() {
		if t.Repeat.Until == nil {
			continue
		}
		for i, name := range t.Repeat.Until.Metrics {
			if _, err := metric.Find(name); err != nil {
				pos, of := t.Repeat.Pos, new(source.Error)
				if keys := t.Table.Table("repeat"); keys.Has("metrics") {
					pos = keys.ElementPos("metrics", i)
				}
				if !errors.As(err, &of) {
					of.Msg = err.Error()
				}
				c.Add(source.Errorf(pos, "test %q: repeat.metrics: %s", t.ID, of.Msg).Hintf("%s", of.Hint))
			}
		}
	}
	return c.Err()
}

// Files are the files that a scenario was read from.
type Files struct {
	Top    scenario.File
	Tests  []scenario.File
	Hooks  scenario.HookFiles
	Lock   *lockfile.File // the lock file that holds them, nil for files
	System []byte         // the lock file's system file
}

// Digest tells one version of the files from another.
func (d *Files) Digest() string {
	h := sha256.New()
	for _, f := range slices.Concat(d.Tests, d.Hooks.Scenarios, d.Hooks.Tests, []scenario.File{d.Top}) {
		fmt.Fprintf(h, "%s\x00%d\x00", f.Name, len(f.Data))
		h.Write(f.Data)
	}
	return fmt.Sprintf("sha256:%x", h.Sum(nil))
}

// Copies are the files as they are kept with the results, by path below the folder.
func (d *Files) Copies(system scenario.File) map[string]run.Copy {
	files := map[string]run.Copy{run.ScenarioCopy: copyOf(d.Top), run.SystemCopy: copyOf(system)}
	for dir, list := range map[string][]scenario.File{"tests": d.Tests, "hook": d.Hooks.Scenarios,
		"hook/test": d.Hooks.Tests} {
		for _, f := range list {
			files[path.Join(dir, f.Below, filepath.Base(f.Name))] = copyOf(f)
		}
	}
	return files
}

// copyOf is a file for a run, which nobody can read there who cannot read it here.
func copyOf(f scenario.File) run.Copy {
	c := run.Copy{Data: f.Data, Mode: 0o644}
	if info, err := os.Stat(f.Name); err == nil && info.Mode().IsRegular() {
		c.Mode &= info.Mode().Perm() | 0o600
	}
	return c
}

// folder is the first of the names below dir that is a folder, or "".
func folder(dir string, names ...string) string {
	for _, name := range names {
		path := filepath.Join(dir, name)
		if st, err := os.Stat(path); err == nil && st.IsDir() {
			return path
		}
	}
	return ""
}

// readTOML reads the TOML files of a folder; none for "".
func readTOML(dir string) ([]scenario.File, error) {
	if dir == "" {
		return nil, nil
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.toml"))
	if err != nil {
		return nil, err
	}
	files := make([]scenario.File, len(names))
	for i, name := range names {
		data, err := regular.ReadFile(name)
		if err != nil {
			return nil, err
		}
		files[i] = scenario.File{Name: name, Data: data}
	}
	return files, nil
}

// readBelow reads the TOML files in subfolders of a folder: a folder for each kind of
// GPU is common. Folders with a leading dot are editors' and git's.
func readBelow(dir string) ([]scenario.File, error) {
	if dir == "" {
		return nil, nil
	}
	var files []scenario.File
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || name == dir || !d.IsDir():
			return err
		case strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		}
		below, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		more, err := readTOML(name)
		for i := range more {
			more[i].Below = filepath.ToSlash(below)
		}
		files = append(files, more...)
		return err
	})
	return files, err
}
