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
	for _, role := range p.Roles {
		if role.Report != "" && !filepath.IsLocal(role.Report) {
			files = append(files, role.ReportFile(0))
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

// hasSecrets reports whether a run may have been given secrets: those of hooks are in
// plans of their own.
func hasSecrets(p *plan.Plan) bool {
	return len(p.Secrets()) > 0 || len(p.PreTest)+len(p.PostTest) > 0
}
