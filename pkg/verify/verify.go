// Package verify checks definition files, each by its kind: system files, tests, and scenarios
// with all files that they refer to.
//
//	files, err := verify.Files([]string{"conf"})
//	found := verify.Verifier{}.File(files[0]) // found.Err
package verify

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/profllm/profllm/pkg/campaign"
	"github.com/profllm/profllm/pkg/catalog"
	"github.com/profllm/profllm/pkg/definition"
	"github.com/profllm/profllm/pkg/planner"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
)

// Found is what was found in a file.
type Found struct {
	Kind        string   // system, scenario, experiment, test; file if that is not known
	NotRunnable string   // why it cannot run, "" if it can
	Tests       []string // that cannot run; nil if all or none can, or if it is not a scenario
	Err         error
}

// Files are the files named, and every TOML file below the folders named, except the definitions
// that are kept with runs: those are found if their own folder is named. The errors are of paths
// that have none.
func Files(paths []string) ([]string, []error) {
	var names []string
	var errs []error
	for _, path := range paths {
		found, runs := 0, 0
		err := filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && name != path && holdsRuns(name):
				runs++
				return fs.SkipDir
			case !d.IsDir() && (name == path || strings.HasSuffix(name, ".toml")):
				names = append(names, name)
				found++
			}
			return nil
		})
		switch {
		case err != nil:
			errs = append(errs, err)
		case found == 0 && runs > 0:
			errs = append(errs, fmt.Errorf("%s: there are only runs in this folder\n"+
				"\thint: to check the definitions of runs, name their folder, such as results/NAME_TIME", path))
		case found == 0:
			errs = append(errs, fmt.Errorf("%s: there is no TOML file in this folder", path))
		}
	}
	return names, errs
}

// holdsRuns reports whether a folder is one of a scenario's runs, not of files that a person keeps.
func holdsRuns(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, run.ScenarioFile))
	return err == nil
}

// Verifier checks files.
type Verifier struct {
	Folders definition.Folders
	Plan    func(file string) error // plans a scenario for a cluster; nil: sizes are not checked
}

// File checks a file by its kind: a system file has the key scheduler, a scenario [[Tests]], an
// experiment a server or a benchmark, and everything else is a test.
func (v Verifier) File(name string) Found {
	data, err := regular.ReadFile(name)
	if err != nil {
		return Found{Kind: "file", Err: err}
	}
	file := scenario.File{Name: name, Data: data}
	kind, err := definition.Kind(name, data)
	if err != nil {
		return Found{Kind: "file", Err: err}
	}
	found := Found{Kind: kind}
	var tests []scenario.Test
	if tests, found.Err = v.tests(kind, file); found.Err != nil {
		return found
	}
	if found.NotRunnable = planner.NotRunnable(tests...); found.NotRunnable != "" {
		found.name(tests)
	}
	var complaints source.Complaints
	if (kind == "scenario" || kind == "experiment") && v.Plan != nil && found.NotRunnable == "" {
		addEach(&complaints, v.Plan(name)) // it may end before what Check finds
	}
	for _, t := range tests {
		complaints.Add(planner.Check(t))
	}
	found.Err = complaints.Err()
	return found
}

// name adds the tests that cannot run, with the reason of each, unless that is so of all of them.
func (f *Found) name(tests []scenario.Test) {
	var reasons []string
	names := map[string][]string{} // by reason
	for _, t := range tests {
		why := planner.NotRunnable(t)
		if why == "" {
			continue
		}
		if names[why] == nil {
			reasons = append(reasons, why)
		}
		names[why] = append(names[why], fmt.Sprintf("%q", t.ID))
		f.Tests = append(f.Tests, t.ID)
	}
	if len(f.Tests) == len(tests) {
		f.Tests = nil
		return
	}
	var parts []string
	for _, why := range reasons {
		word := "test "
		if len(names[why]) > 1 {
			word = "tests "
		}
		parts = append(parts, word+strings.Join(names[why], ", ")+": "+why)
	}
	f.NotRunnable = fmt.Sprintf("%s (%d of %s)", strings.Join(parts, "; "), len(f.Tests),
		quantity.Count(len(tests), "test"))
}

// tests reads a file and returns its tests; a system file has none.
func (v Verifier) tests(kind string, file scenario.File) ([]scenario.Test, error) {
	switch kind {
	case "system":
		_, err := campaign.ParseSystem(file.Name, file.Data)
		return nil, err
	case "test":
		t, err := scenario.LoadTest(file)
		if err != nil {
			return nil, err
		}
		return []scenario.Test{*t}, nil
	}
	s, _, err := definition.Load(file.Name, v.Folders)
	if err != nil {
		return nil, explained(err)
	}
	return s.All(), nil
}

// addEach adds an error, or each error of a list that another wraps: what Check finds too is then
// told once.
func addEach(c *source.Complaints, err error) {
	var list interface{ WrappedErrors() []error }
	if !errors.As(err, &list) {
		c.Add(err)
		return
	}
	for _, e := range list.WrappedErrors() {
		c.Add(e)
	}
}

// explained adds to the hint at one of several test files that none of them can run.
func explained(err error) error {
	var list interface{ WrappedErrors() []error }
	if !errors.As(err, &list) {
		return err
	}
	var c source.Complaints
	for _, e := range list.WrappedErrors() {
		var files *scenario.AmbiguousError
		if errors.As(e, &files) {
			if why := unsupported(files.Templates); why != "" {
				e = files.At.Hintf("%s; the scenario can then be read, and cannot run: %s", files.At.Hint, why)
			}
		}
		c.Add(e)
	}
	return c.Err()
}

// unsupported says why none of some workloads can run, "" if one of them can or is unknown.
func unsupported(templates []string) string {
	tests := make([]scenario.Test, len(templates))
	for i, name := range templates {
		tests[i].Template = name
		if catalog.Unsupported(tests[i]) == "" {
			return ""
		}
	}
	return catalog.Unsupported(tests...)
}
