package collect

import (
	"path/filepath"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
)

// Outside lists what the records of a run are made of and does not lie in its
// directory: the directories of loads, relative to it, and files, absolute.
func Outside(dir string, p *plan.Plan) (folders, files []string, err error) {
	if p == nil {
		return nil, nil, nil
	}
	for i := range p.Loads {
		at, err := filepath.Rel(p.Dir, p.Loads[i].Dir)
		if err != nil {
			return nil, nil, err
		}
		if !filepath.IsLocal(at) {
			folders = append(folders, at)
		}
	}
	for _, role := range p.Reporters(nil) {
		if !filepath.IsLocal(role.Report) {
			files = append(files, outsideReport(dir, &role))
		}
	}
	if hasSecrets(p) {
		secrets, err := run.SecretFiles(dir)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, secrets...)
	}
	return folders, files, nil
}

// outsideReport is the report of the first profiled rank of a role, by its name on the host that
// the rank ran on.
func outsideReport(dir string, role *plan.Role) string {
	first := 0
	if ranks := role.Profiled(); len(ranks) > 0 {
		first = ranks[0]
	}
	name := role.ReportStem(first)
	var place run.Placement
	node := role.Nodes.Offset + first/max(role.Step.TasksPerNode, 1)
	if run.ReadJSON(filepath.Join(dir, run.PlacementFile), &place) == nil && role.ReportKind == plan.NsysReport &&
		node < len(place.Nodes) {
		name += "-" + place.Nodes[node].Host
	}
	return name + role.ReportSuffix()
}

// hasSecrets reports whether a run may have been given secrets: those of hooks are in
// plans of their own.
func hasSecrets(p *plan.Plan) bool {
	return len(p.Secrets()) > 0 || len(p.PreTest)+len(p.PostTest) > 0
}
