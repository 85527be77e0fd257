package scenario

import (
	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/suite"
)

// expandSuites puts the loads of suites in the places of the phases that name them, and says
// where each phase stands.
func (t *Test) expandSuites() error {
	var entries []*source.Value
	if v := t.Table.Get("phases"); v != nil {
		entries, _ = v.Any.([]*source.Value)
	}
	var list []Phase
	var c source.Complaints
	for i, p := range t.Phases {
		if i < len(entries) {
			p.Pos = entries[i].Pos
			p.keys, _ = entries[i].Any.(*source.Table)
		}
		if p.Suite == "" {
			if p.Parity {
				c.Add(source.Errorf(p.posOf("parity"), "phase %q has parity, but no suite", p.Name).Hintf("remove parity"))
			}
			list = append(list, p)
			continue
		}
		loads, err := p.expanded(t.BenchArgs, len(list) == 0)
		c.Add(err)
		list = append(list, loads...)
	}
	t.Phases = list
	return c.Err()
}

// posOf is where a key of the phase stands, else where the phase does.
func (p *Phase) posOf(key string) source.Pos {
	if p.keys.Has(key) {
		return p.keys.PosOf(key)
	}
	return p.Pos
}

// expanded are the loads of a phase that names suites. base are the arguments of the test; first
// says that nothing is measured before.
func (p Phase) expanded(base *source.Table, first bool) ([]Phase, error) {
	runs, unknown := suite.Expand(suite.Names(p.Suite))
	var c source.Complaints
	for _, name := range unknown {
		c.Add(source.Errorf(p.posOf("suite"), "unknown suite %q", name).Hintf("%s", suite.Suggest(name)))
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	if key, name := suite.Same(runs, p.BenchArgs); key != "" {
		return nil, source.Errorf(p.BenchArgs.PosOf(key),
			"bench_cmd_args.%s: the loads of suite %q differ in it, and would be the same", key, name).
			Hintf("remove it, or name one of the suite's runs in place of the suite")
	}
	var list []Phase
	for _, r := range runs {
		load := p
		load.Name, load.Suite = r.Name, r.Suite
		if p.Name != "" {
			load.Name = p.Name + "-" + r.Name
		}
		defaults := suite.Defaults(p.Pos).Without(base.Keys()...)
		load.BenchArgs = source.Merge(defaults, r.Merged(p.BenchArgs, p.Pos, suite.Prompts(p.Parity)))
		if p.Cache == "" && !(first && len(list) == 0) {
			load.Cache = "reset"
		}
		list = append(list, load)
	}
	return list, nil
}
