package collect

import (
	"bytes"
	"cmp"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/node"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

// addProvenance adds what exactly ran: what the plan says, and what the nodes saw of the
// servers' processes.
func addProvenance(e *evidence, d *draft) {
	r, p := d.record, e.plan
	if p == nil {
		return
	}
	r.Config.Settings = p.Settings(e.load)
	if e.place != nil {
		for name, value := range e.place.Simulator { // as if the test had set them: they act alike
			r.Config.Settings[plan.EnvSetting+name] = value
		}
	}
	pr := r.Provenance
	pr.Launcher, pr.Git, pr.ModelRevision = p.Launcher, p.Source.Git, p.Source.ModelRevision
	for _, c := range p.Source.Repositories {
		pr.Repositories = append(pr.Repositories, result.Checkout{URL: c.URL, Commit: c.Commit})
	}
	if _, digest, ok := strings.Cut(pr.Image, "@sha256:"); ok && pr.ImageDigest == "" {
		pr.ImageDigest = "sha256:" + digest
	}
	pr.ImageDigest = cmp.Or(pr.ImageDigest, imageDigest(e))
	addProcesses(e, &d.late, pr)
}

// imageDigest is what the runtime said of the image of the roles, "" if it did not or
// said several things.
func imageDigest(e *evidence) string {
	digest := ""
	for _, role := range e.plan.Roles {
		var used job.ImageUsed
		if !role.Step.Container ||
			run.ReadJSON(filepath.Join(e.dir, run.RawDir, job.ImageFile(role.Step.Name)), &used) != nil {
			continue
		}
		if digest != "" && used.Digest != digest {
			return ""
		}
		digest = used.Digest
	}
	return digest
}

// addProcesses adds what the nodes said of the servers' processes; the first node of a role
// stands for the others where they have the same.
func addProcesses(e *evidence, w *warnings, pr *result.Provenance) {
	data, err := regular.ReadFile(filepath.Join(e.dir, run.NodesFile))
	if w.unread(run.NodesFile, err); err != nil || e.place == nil {
		return
	}
	var lines node.Lines
	for line := range bytes.Lines(data) {
		lines.Add(line)
	}
	revisions, tokenizers := map[string]bool{}, map[string]bool{}
	versions := map[string]map[string]bool{} // package → versions
	type at struct{ role, host string }
	packages := map[at]map[string]string{}
	for _, role := range e.plan.Roles {
		var first map[string]string
		for i := role.Nodes.Offset; i < role.Nodes.End() && i < len(e.place.Nodes); i++ {
			host := e.place.Nodes[i].Host
			report := lines.Reports[host]
			if report == nil {
				continue
			}
			vars := map[string]string{}
			for _, f := range report.Ran {
				if f.Step != role.Step.Name {
					continue
				}
				switch f.Kind {
				case node.Variable:
					vars[f.Name] = f.Value
				case node.Package:
					if packages[at{role.Name, host}] == nil {
						packages[at{role.Name, host}] = map[string]string{}
					}
					packages[at{role.Name, host}][f.Name] = f.Value
					if versions[f.Name] == nil {
						versions[f.Name] = map[string]bool{}
					}
					versions[f.Name][f.Value] = true
				case node.Revision:
					revisions[f.Value] = true
				case node.Tokenizer:
					tokenizers[f.Value] = true
				}
			}
			switch {
			case len(vars) == 0:
			case first == nil:
				first = vars
				pr.Environment = append(pr.Environment, result.RoleEnv{Role: role.Name, Vars: vars})
			default:
				maps.DeleteFunc(vars, func(name, value string) bool { return first[name] == value })
				if len(vars) > 0 {
					pr.Environment = append(pr.Environment, result.RoleEnv{Role: role.Name, Node: host, Vars: vars})
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(versions)) {
		if len(versions[name]) == 1 {
			pr.Packages = append(pr.Packages,
				result.Package{Name: name, Version: slices.Collect(maps.Keys(versions[name]))[0]})
			continue
		}
		for _, role := range e.plan.Roles {
			for _, n := range e.place.Nodes {
				if v := packages[at{role.Name, n.Host}][name]; v != "" {
					pr.Packages = append(pr.Packages,
						result.Package{Name: name, Version: v, Role: role.Name, Node: n.Host})
				}
			}
		}
	}
	if v := versions[pr.Engine]; len(v) == 1 {
		pr.EngineInstalled = slices.Collect(maps.Keys(v))[0]
	}
	if len(revisions) == 1 { // what the servers have counts, not what was there before
		pr.ModelRevision = slices.Collect(maps.Keys(revisions))[0]
	}
	if len(tokenizers) == 1 {
		pr.TokenizerDigest = slices.Collect(maps.Keys(tokenizers))[0]
	}
}
