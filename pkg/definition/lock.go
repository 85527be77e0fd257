package definition

import (
	"fmt"
	"path"
	"strings"

	"github.com/profllm/profllm/pkg/lockfile"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/scenario"
)

// loadLock reads the definitions of a lock.
func loadLock(file string, data []byte) (*scenario.Scenario, *Files, error) {
	f, err := lockfile.Parse(file, data)
	if err != nil {
		return nil, nil, err
	}
	d := &Files{Lock: f}
	for _, x := range f.Files {
		in := scenario.File{Name: file + "/" + x.Name, Data: []byte(x.Text)}
		switch dir := path.Dir(x.Name); {
		case x.Name == run.ScenarioCopy:
			d.Top = in
		case x.Name == run.SystemCopy:
			d.System = in.Data
		case dir == "hook":
			d.Hooks.Scenarios = append(d.Hooks.Scenarios, in)
		default:
			if below, ok := belowIn(dir, "hook/test"); ok {
				in.Below = below
				d.Hooks.Tests = append(d.Hooks.Tests, in)
			} else if below, ok := belowIn(dir, "tests"); ok {
				in.Below = below
				d.Tests = append(d.Tests, in)
			}
		}
	}
	if d.Top.Name == "" {
		return nil, nil, fmt.Errorf("%s: the lock file has no %s\n\thint: write the lock file again: profllm lock RUN",
			file, run.ScenarioCopy)
	}
	s, err := scenario.Load(d.Top, d.Tests, d.Hooks)
	return s, d, err
}

// belowIn is the path of a folder relative to one that it is or lies in.
func belowIn(dir, in string) (below string, ok bool) {
	below, ok = strings.CutPrefix(dir+"/", in+"/")
	return strings.TrimSuffix(below, "/"), ok
}
