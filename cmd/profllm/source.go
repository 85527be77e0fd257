package main

import (
	"bytes"
	"path/filepath"
	"slices"

	"github.com/profllm/profllm/pkg/catalog"
	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/hub"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/stage"
)

// noteSources keeps in plans what is seen from here of the files that they come from. What
// cannot be seen is left out: a model or a clone may be on the nodes only.
func (a *app) noteSources(plans []*plan.Plan, s *scenario.Scenario, d *definitions, sys *config.System, o catalog.Options) {
	git := a.git(d)
	site := catalog.Site(sys, o)
	tests := map[string]plan.Source{} // by id
	heads := map[string]string{}      // by folder
	revisions := map[[2]string]string{}
	for _, t := range s.Tests {
		src := plan.Source{Git: git}
		repos := t.GitRepos
		if t.ProxyRepo != nil {
			repos = append(slices.Clone(repos), *t.ProxyRepo)
		}
		for _, r := range repos {
			dir := filepath.Join(site.Install(), r.Directory())
			if _, ok := heads[dir]; !ok {
				heads[dir] = stage.Head(a.ctx, a.environ, dir)
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
				key := [2]string{p.Config.Model, p.Config.Option(r, "revision")}
				if _, ok := revisions[key]; !ok {
					revisions[key] = hub.Model{Name: key[0], Ref: key[1], Caches: []string{filepath.Join(site.HFHome(), "hub")}}.Revision()
				}
				p.Source.ModelRevision = revisions[key]
				break
			}
		}
	}
}

// git is the commit of the definitions, "" if they are in none.
func (a *app) git(d *definitions) string {
	if d.lock != nil {
		return d.lock.Git
	}
	var files []string
	for _, f := range slices.Concat([]scenario.File{d.top}, d.tests, d.hooks.Scenarios, d.hooks.Tests) {
		name, err := filepath.Abs(f.Name)
		if have, e := regular.ReadFile(name); err != nil || e != nil || !bytes.Equal(have, f.Data) {
			return "" // built in
		}
		files = append(files, name)
	}
	return stage.Head(a.ctx, a.environ, filepath.Dir(files[0]), files...)
}
