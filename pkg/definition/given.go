package definition

import (
	"cmp"
	"fmt"
	"path/filepath"

	"github.com/profllm/profllm/pkg/experiment"
	"github.com/profllm/profllm/pkg/lockfile"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/scenario"
)

// RefuseFiles refuses a definition file where runs or logs are expected, such as the
// scenario that the runs are of.
func RefuseFiles(paths ...string) error {
	for _, path := range paths {
		if filepath.Ext(path) != ".toml" && !experiment.OnlyExperiments(path) {
			continue
		}
		if data, err := regular.ReadFile(path); err == nil { // else its reader says what is wrong with it
			what, hint := describe(path, data)
			return fmt.Errorf("%s is %s file and holds neither runs nor logs\n\thint: %s", path, what, hint)
		}
	}
	return nil
}

// Kind says what a definition file is: "experiment", or a kind of [scenario.Kind].
func Kind(name string, data []byte) (string, error) {
	if t, err := experiment.Parse(name, data); err != nil && experiment.OnlyExperiments(name) {
		return "", err
	} else if err == nil && experiment.Is(t) {
		return "experiment", nil
	}
	return scenario.Kind(scenario.File{Name: name, Data: data})
}

// describe says what a definition file is, and what to type instead of its name.
func describe(path string, data []byte) (what, hint string) {
	check := "profllm verify " + path + " checks the file"
	if filepath.Ext(path) != ".toml" {
		return "a JSON", "profllm import " + path + " makes runs of a load client's results; " + check + " if it is an experiment"
	}
	t, err := experiment.Parse(path, data)
	if err != nil {
		return "a TOML", check
	}
	if schema, _ := t.Get("schema").Text(); schema == lockfile.Schema {
		return "a lock", "name the directory of its runs"
	}
	kind, err := Kind(path, data)
	switch {
	case err != nil || kind == "":
		return "a TOML", check
	case kind == "experiment":
		return "an experiment", check
	case kind != "scenario":
		return "a " + kind, check
	}
	name, _ := t.Get("name").Text()
	return "a scenario", fmt.Sprintf("name the directory of its runs, such as results/%s_TIME; %s", cmp.Or(name, "NAME"), check)
}
