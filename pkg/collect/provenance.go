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
	s := seen{revisions: map[string]bool{}, tokenizers: map[string]bool{}, versions: map[string]map[string]bool{},
		packages: map[roleOn]map[string]string{}}
	for _, role := range e.plan.Roles {
		var first map[string]string
		for i := role.Nodes.Offset; i < role.Nodes.End() && i < len(e.place.Nodes); i++ {
			host := e.place.Nodes[i].Host
			if lines.Reports[host] == nil {
				continue
			}
			vars := s.add(role.Step.Name, roleOn{role.Name, host}, lines.Reports[host].Ran)
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
	s.addPackages(e, pr)
	if len(s.revisions) == 1 { // what the servers have counts, not what was there before
		pr.ModelRevision = slices.Collect(maps.Keys(s.revisions))[0]
	}
	if len(s.tokenizers) == 1 {
		pr.TokenizerDigest = slices.Collect(maps.Keys(s.tokenizers))[0]
	}
}

// roleOn is a role on one of its nodes.
type roleOn struct{ role, host string }

// seen is what the nodes said of all servers.
type seen struct {
	revisions, tokenizers map[string]bool
	versions              map[string]map[string]bool   // package → versions
	packages              map[roleOn]map[string]string // package → version
}

// add adds what a node said of the processes of a role, and returns their variables.
func (s *seen) add(step string, at roleOn, ran []node.Ran) map[string]string {
	vars := map[string]string{}
	for _, f := range ran {
		if f.Step != step {
			continue
		}
		switch f.Kind {
		case node.Variable:
			vars[f.Name] = f.Value
		case node.Package:
			if s.packages[at] == nil {
				s.packages[at] = map[string]string{}
			}
			s.packages[at][f.Name] = f.Value
			if s.versions[f.Name] == nil {
				s.versions[f.Name] = map[string]bool{}
			}
			s.versions[f.Name][f.Value] = true
		case node.Revision:
			s.revisions[f.Value] = true
		case node.Tokenizer:
			s.tokenizers[f.Value] = true
		}
	}
	return vars
}

// addPackages adds the packages: those of several versions with the places of each.
func (s *seen) addPackages(e *evidence, pr *result.Provenance) {
	for _, name := range slices.Sorted(maps.Keys(s.versions)) {
		if len(s.versions[name]) == 1 {
			pr.Packages = append(pr.Packages,
				result.Package{Name: name, Version: slices.Collect(maps.Keys(s.versions[name]))[0]})
			continue
		}
		for _, role := range e.plan.Roles {
			for _, n := range e.place.Nodes {
				if v := s.packages[roleOn{role.Name, n.Host}][name]; v != "" {
					pr.Packages = append(pr.Packages,
						result.Package{Name: name, Version: v, Role: role.Name, Node: n.Host})
				}
			}
		}
	}
	if v := s.versions[pr.Engine]; len(v) == 1 {
		pr.EngineInstalled = slices.Collect(maps.Keys(v))[0]
	}
}
