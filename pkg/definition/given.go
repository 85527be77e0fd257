package definition

import (
	"cmp"
	"fmt"
	"path/filepath"

	"github.com/profllm/profllm/pkg/lockfile"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
)

// RefuseFiles refuses a definition file where runs or logs are expected, such as the
// scenario that the runs are of.
func RefuseFiles(paths ...string) error {
	for _, path := range paths {
		if filepath.Ext(path) != ".toml" {
			continue
		}
		if data, err := regular.ReadFile(path); err == nil { // else its reader says what is wrong with it
			what, hint := describe(path, data)
			return fmt.Errorf("%s is a %s file and holds neither runs nor logs\n\thint: %s", path, what, hint)
		}
	}
	return nil
}

// describe says what a TOML file is, and what to type instead of its name.
func describe(path string, data []byte) (what, hint string) {
	check := "profllm verify " + path + " checks the file"
	t, err := source.Parse(path, data)
	if err != nil {
		return "TOML", check
	}
	if schema, _ := t.Get("schema").Text(); schema == lockfile.Schema {
		return "lock", "name the directory of its runs"
	}
	kind, err := scenario.Kind(scenario.File{Name: path, Data: data})
	if err != nil || kind != "scenario" {
		return cmp.Or(kind, "TOML"), check
	}
	name, _ := t.Get("name").Text()
	return kind, fmt.Sprintf("name the directory of its runs, such as results/%s_TIME; %s", cmp.Or(name, "NAME"), check)
}
