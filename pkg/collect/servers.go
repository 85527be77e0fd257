package collect

import (
	"cmp"
	"path/filepath"
	"slices"

	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/sim/program"
	"github.com/profllm/profllm/pkg/validity"
)

// addServers adds what the engines said of themselves.
// An engine that says that it is simulated makes the record one of a simulation, whoever started it.
func addServers(e *evidence, d *draft) {
	list, simulated := serversOf(e, &d.late)
	d.facts.Servers = list
	if simulated {
		d.record.Simulated, d.record.Provenance.Simulated = true, true
	}
}

// serversOf is what the engines said of themselves, all of them planned, and whether one of them said
// that it is simulated.
func serversOf(e *evidence, w *warnings) (list []validity.Server, simulated bool) {
	if e.plan == nil {
		return nil, false
	}
	for i := range e.plan.Roles {
		role := &e.plan.Roles[i]
		if !role.Engine && !role.Router || role.Health.Serves != "" { // a worker of Dynamo leaves that to its frontend
			continue
		}
		s := validity.Server{Role: role.Name, Wanted: servedNames(e.plan, role)}
		var id job.Identity
		name := filepath.Join(run.RawDir, job.IdentityFile(role.Name))
		err := run.ReadJSON(filepath.Join(e.dir, name), &id)
		w.unread(name, err)
		if err == nil {
			s.Version, s.Names = id.Version, []string{}
			for _, m := range id.Models {
				simulated = simulated || program.Owns(m.Owner)
				s.Names = append(s.Names, m.ID)
				if s.Model == "" && slices.Contains(s.Wanted, m.ID) {
					s.Model = m.Root
				}
			}
			s.Model = cmp.Or(id.ModelPath, s.Model)
		}
		list = append(list, s)
	}
	return list, simulated
}

// servedNames are the names that clients may ask a role for: its option, or else the
// model itself.
func servedNames(p *plan.Plan, role *plan.Role) []string {
	args, _ := p.Config.Server[role.KindName()].(map[string]any)
	var names []string
	switch x := cmp.Or(args["served_model_name"], args["served-model-name"]).(type) {
	case string:
		names = []string{x}
	case []any:
		for _, name := range x {
			if text, ok := name.(string); ok {
				names = append(names, text)
			}
		}
	}
	if len(names) == 0 {
		names = []string{p.Config.Model}
	}
	return names
}
