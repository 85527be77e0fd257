package collect

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/packed"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/startlog"
)

// mostStarts bounds how many logs of a run are read for what its engines said at their start.
const mostStarts = 4096

// addCapacity adds what the engines said at their start. A log that cannot be read to its end is
// no fault of the record: explain reads logs, and says so, where they matter.
func addCapacity(e *evidence, d *draft) { d.record.Capacity = slices.Clone(e.starts()) }

// startsOf reads what the logs of each engine say about its start. A run of CloudAI has no plan:
// there, every log is asked.
func startsOf(dir string, p *plan.Plan) []result.Capacity {
	logs := filepath.Join(dir, run.LogDir)
	if p == nil {
		logs = dir
	}
	tree := regular.DirFS(logs)
	entries, _ := fs.ReadDir(tree, ".")
	files := map[string][]string{} // by role
	var roles []string
	for _, f := range entries[:min(len(entries), mostStarts)] {
		if !f.Type().IsRegular() || !strings.HasSuffix(strings.TrimSuffix(f.Name(), ".xz"), ".log") {
			continue
		}
		role, _ := roleOf(f.Name())
		if files[role] == nil {
			roles = append(roles, role)
		}
		files[role] = append(files[role], f.Name())
	}
	if p != nil {
		roles = enginesOf(p)
	}
	var list []result.Capacity
	for _, name := range roles {
		c := startOf(tree, files[name])
		if c == nil {
			continue
		}
		if c.Role = name; p != nil {
			c.Role, c.Replica = p.Role(name).KindName(), p.Role(name).Replica
		}
		list = append(list, *c)
	}
	return list
}

// enginesOf are the names of the roles that are engines.
func enginesOf(p *plan.Plan) []string {
	var names []string
	for i := range p.Roles {
		if p.Roles[i].Engine {
			names = append(names, p.Roles[i].Name)
		}
	}
	return names
}

// startOf reads the logs of one instance, nil if they say nothing.
func startOf(dir fs.FS, names []string) *result.Capacity {
	var s startlog.Start
	for _, name := range names {
		f, _, err := packed.Open(dir, name)
		if err != nil {
			continue
		}
		err = s.Add(f)
		if errors.Join(err, f.Close()) != nil {
			continue // what came before the damage stays
		}
	}
	return s.Capacity()
}
