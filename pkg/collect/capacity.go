package collect

import (
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
func addCapacity(e *evidence, d *draft) {
	for _, s := range e.starts() {
		if s.said {
			d.record.Capacity = append(d.record.Capacity, s.Capacity)
		}
		same := func(r result.RoleConfig) bool { return r.Role == s.Role }
		if of := &d.record.Config.Resolved; s.resolved != nil && !slices.ContainsFunc(*of, same) {
			*of = append(*of, result.RoleConfig{Role: s.Role, Server: s.resolved})
		}
	}
}

// start is what the logs of one engine say about its start.
type start struct {
	result.Capacity
	said     bool           // something about its capacity
	resolved map[string]any // what its options came to; nil if it does not say so
}

// startsOf reads what the logs of each engine say about its start. A run of CloudAI has no plan:
// there, every log is asked.
func startsOf(dir string, p *plan.Plan) []start {
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
	var list []start
	for _, name := range roles {
		s := startOf(tree, files[name])
		if !s.said && s.resolved == nil {
			continue
		}
		if s.Role = name; p != nil {
			s.Role, s.Replica = p.Role(name).KindName(), p.Role(name).Replica
		}
		list = append(list, s)
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

// startOf reads the logs of one instance.
func startOf(dir fs.FS, names []string) start {
	var s startlog.Start
	for _, name := range names {
		f, _, err := packed.Open(dir, name)
		if err != nil {
			continue
		}
		_, _ = s.Add(f), f.Close() // what came before a damage stays
	}
	of := start{resolved: s.Resolved()}
	if c := s.Capacity(); c != nil {
		of.Capacity, of.said = *c, true
	}
	return of
}
