package campaign

import (
	"bytes"
	"cmp"
	"context"
	"path/filepath"
	"slices"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/definition"
	"github.com/profllm/profllm/pkg/hub"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/planner"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/stage"
)

// noteSources keeps in plans what is seen from here of the files that they come from. What
// cannot be seen is left out: a model or a clone may be on the nodes only.
func (c *Client) noteSources(ctx context.Context, plans []*plan.Plan, s *scenario.Scenario, d *definition.Files,
	sys *config.System, o planner.Options) {
	git := c.git(ctx, d)
	site := planner.Site(sys, o)
	tests := map[string]plan.Source{} // by id
	heads := map[string]string{}      // by folder
	revisions := map[hub.Model]string{}
	for _, t := range s.Tests {
		src := plan.Source{Git: git}
		repos := t.GitRepos
		if t.ProxyRepo != nil {
			repos = append(slices.Clone(repos), *t.ProxyRepo)
		}
		for _, r := range repos {
			dir := filepath.Join(site.Install(), r.Directory())
			if _, ok := heads[dir]; !ok {
				heads[dir] = stage.Head(ctx, c.Environ, dir)
			}
			if heads[dir] != "" {
				src.Repositories = append(src.Repositories, plan.Checkout{URL: r.URL, Commit: heads[dir]})
			}
		}
		tests[t.ID] = src
	}
	for _, p := range plans {
		p.Source = tests[p.Test]
		for i := range p.Roles {
			if r := &p.Roles[i]; r.Engine && !p.Simulated {
				model := hub.Model{Name: p.Config.Model, Ref: p.Config.Option(r, "revision"),
					Cache: p.Config.Option(r, "download_dir")}
				model.Cache = p.OnHost(cmp.Or(model.Cache, hub.Cache(p.StepEnv(c.env))))
				if _, ok := revisions[model]; !ok {
					revisions[model] = model.Revision()
				}
				p.Source.ModelRevision = revisions[model]
				break
			}
		}
	}
}

// git is the commit of the definitions, "" if they are in none.
func (c *Client) git(ctx context.Context, d *definition.Files) string {
	if d.Lock != nil {
		return d.Lock.Git
	}
	var files []string
	for _, f := range slices.Concat([]scenario.File{d.Top}, d.Tests, d.Hooks.Scenarios, d.Hooks.Tests) {
		name, err := filepath.Abs(f.Name)
		if have, e := regular.ReadFile(name); err != nil || e != nil || !bytes.Equal(have, f.Data) {
			return "" // built in
		}
		files = append(files, name)
	}
	return stage.Head(ctx, c.Environ, filepath.Dir(files[0]), files...)
}
