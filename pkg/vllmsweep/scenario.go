package vllmsweep

import (
	"fmt"
	"slices"

	"github.com/profllm/profllm/pkg/shell"
	"github.com/profllm/profllm/pkg/source"
)

// Scenario is a scenario with a test for each server and a phase for each load on it, for the runs
// that are missing. It is nil if none is.
func (s *Sweep) Scenario(missing func(p *Point, run int) bool) *source.Table {
	top := source.NewTable(source.Pos{File: "--serve-cmd"})
	var tests []*source.Value
	if s.startup {
		tests = s.startupTests(missing)
	}
	for _, server := range s.Servers {
		if s.startup {
			break
		}
		if t := s.test(server, missing); t != nil {
			tests = append(tests, &source.Value{Pos: t.Pos, Any: t})
		}
	}
	if len(tests) == 0 {
		return nil
	}
	set(top, "name", names{}.id(s.Name, "sweep"))
	set(top, "Tests", tests)
	return top
}

// set puts a value at the place of its table.
func set(t *source.Table, key string, value any) {
	t.Set(key, &source.Value{Pos: t.Pos, Any: value})
}

// test is that of one server; nil if no run is missing.
func (s *Sweep) test(server *Server, missing func(p *Point, run int) bool) *source.Table {
	t := source.NewTable(server.Pos)
	if t.Pos == (source.Pos{}) {
		t.Pos.File = "--serve-cmd"
	}
	phases, repeat := s.phases(server, missing)
	if phases == nil {
		return nil
	}
	set(t, "id", server.ID)
	description := "server of a sweep"
	if !server.empty() {
		description = "server " + server.Name
	}
	set(t, "description", description)
	set(t, "test_template_name", "vllm")
	if s.Client != "" {
		set(t, "client", s.Client)
	}
	if s.Nodes > 0 {
		set(t, "num_nodes", int64(s.Nodes))
	}
	if s.TimeLimit != "" {
		set(t, "time_limit", s.TimeLimit)
	}
	if repeat > 1 {
		set(t, "repeat", int64(repeat))
	}
	if dir := s.serve.dir; dir != "" {
		set(t, "custom_bash", pathText(dir))
	}
	if s.AfterLoad != "" {
		set(t, "after_load", s.AfterLoad)
	}
	set(t, "cmd_args", server.args)
	base := s.base()
	set(t, "bench_cmd_args", base)
	if lists := s.values(server, base); lists != nil {
		set(t, "dse_excluded_args", lists)
	}
	set(t, "phases", phases)
	return t
}

// pathText is shell text by which a folder's programs are found first.
func pathText(dir string) string { return "export PATH=" + shell.Quote(dir) + `:"$PATH"` }

// values are the lists of a test that are no dimensions of a sweep.
func (s *Sweep) values(server *Server, base *source.Table) (list []*source.Value) {
	add := func(path string) { list = append(list, &source.Value{Pos: server.Pos, Any: path}) }
	for _, key := range server.lists {
		add("cmd_args.decode." + key)
	}
	for _, key := range base.Keys() {
		if _, ok := base.Get(key).Any.([]*source.Value); ok {
			add("bench_cmd_args." + key)
		}
	}
	return list
}

// phases are the loads on a server. If every run of each is missing they are repeated, else each
// missing run is a phase of its own.
func (s *Sweep) phases(server *Server, missing func(p *Point, run int) bool) (list []*source.Value, repeat int) {
	whole := s.Warmup == 0
	var runs [][]int
	some := 0
	for _, p := range server.Points {
		var those []int
		for n := range s.Runs {
			if missing == nil || missing(p, n) {
				those = append(those, n)
			}
		}
		whole = whole && (len(those) == 0 || len(those) == s.Runs)
		runs, some = append(runs, those), some+len(those)
	}
	if some == 0 {
		return nil, 0
	}
	for i, p := range server.Points {
		switch {
		case len(runs[i]) == 0:
		case whole:
			list = append(list, s.phase(p, p.ID, 0))
		default:
			if s.Warmup > 0 {
				list = append(list, s.phase(p, p.warmupID(), s.Warmup))
			}
			for _, n := range runs[i] {
				list = append(list, s.phase(p, p.runID(n), 0))
			}
		}
	}
	if whole {
		return list, s.Runs
	}
	return list, 1
}

func (p *Point) runID(n int) string { return fmt.Sprintf("%s.run%d", p.ID, n) }
func (p *Point) warmupID() string   { return p.ID + ".warmup" }

// phase is one load; prompts replaces num_prompts unless it is 0.
func (s *Sweep) phase(p *Point, name string, prompts int) *source.Value {
	t := source.NewTable(p.Pos)
	if t.Pos == (source.Pos{}) {
		t.Pos.File = "--bench-cmd"
	}
	set(t, "name", name)
	args := s.args(p)
	if prompts > 0 {
		over := source.NewTable(t.Pos)
		set(over, "num_prompts", int64(prompts))
		args = source.Merge(args, over)
	}
	if len(args.Keys()) > 0 {
		set(t, "bench_cmd_args", args)
	}
	if s.AfterLoad == "" {
		set(t, "cache", "reset")
	} else {
		set(t, "cache", "keep")
	}
	return &source.Value{Pos: t.Pos, Any: t}
}

// Missing is how many runs are missing, and how many points they are of.
func (s *Sweep) Missing(missing func(p *Point, run int) bool) (runs, points, servers int) {
	for _, server := range s.Servers {
		var of []*Point
		for _, p := range server.Points {
			for n := range s.Runs {
				if !missing(p, n) {
					continue
				}
				runs++
				if !slices.Contains(of, p) {
					of = append(of, p)
				}
			}
		}
		points += len(of)
		if len(of) > 0 {
			servers++
		}
	}
	return runs, points, servers
}
