package vllmsweep

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/workload/vllm/arguments"
)

// Startup is a sweep as `vllm bench sweep startup` is told of it.
type Startup struct {
	Name       string // of the experiment
	StartupCmd string // "" is vllm bench startup

	ServeParams, StartupParams []Item
	Strict                     bool // a parameter that the benchmark lacks is an error; else it is left out
	Runs                       int  // of each point

	Image     string // of the container; "" for none
	TimeLimit string // of each run; "": none
	Simulate  bool   // the engine
}

// startupOptions are those of `vllm bench startup` beside the engine's.
var startupOptions = []string{"num_iters_cold", "num_iters_warmup", "num_iters_warm"}

// Sweep plans the points: a test for each run. ignored are the parameters that are left out, each
// in words.
func (in Startup) Sweep() (s *Sweep, ignored []string, err error) {
	line := cmp.Or(in.StartupCmd, "vllm bench startup")
	s = &Sweep{startup: true, Serve: Serve{
		Name: in.Name, ServeCmd: line, BenchCmd: line, Runs: in.Runs, Image: in.Image, TimeLimit: in.TimeLimit,
		Simulate: in.Simulate,
	}}
	cmd, err := parse("--startup-cmd", line, []string{"vllm", "bench", "startup"}, arguments.Serve)
	if err != nil {
		return nil, nil, err
	}
	s.serve = cmd
	s.serve.options = cmd.options.Without("output_json")
	var c source.Complaints
	keep := func(items []Item) (kept []Item) {
		for _, i := range items {
			one, notes, err := i.startable(in.Strict)
			c.Add(err)
			ignored = append(ignored, notes...)
			kept = append(kept, one)
		}
		c.Add(distinct(kept))
		return kept
	}
	servers, loads := keep(in.ServeParams), keep(in.StartupParams)
	taken := names{}
	for _, server := range servers {
		one := &Server{Item: server}
		for _, load := range loads {
			set, unset, err := s.serve.set(server.over(load))
			c.Add(err)
			p := &Point{Item: load, Server: one, ID: taken.id(strings.Trim(server.Name+"-"+load.Name, "-"), "startup"),
				Folder: Folder(server, "STARTUP", load), bench: set, unset: unset}
			one.Points = append(one.Points, p)
		}
		s.Servers = append(s.Servers, one)
	}
	c.Add(s.folders())
	return s, ignored, c.Err()
}

// over is an entry with what another one sets over it.
func (i Item) over(other Item) Item {
	i.Params = source.Merge(i.Params, other.Params)
	return i
}

// startable is an entry without what the startup benchmark lacks: options of the HTTP server, and
// those that nobody knows.
func (i Item) startable(strict bool) (kept Item, ignored []string, err error) {
	var c source.Complaints
	var dropped []string
	for _, key := range i.Params.Keys() {
		prefix, _, _ := strings.Cut(key, ".")
		plain := strings.ReplaceAll(prefix, "-", "_")
		o, known := arguments.Serve.Find(plain)
		if slices.Contains(startupOptions, plain) || known && o.Group != "Frontend" && o.Group != "" {
			continue
		}
		at := i.Params.Get(key).Pos
		e := source.Errorf(at, "%s is no option of `vllm bench startup`", key)
		if near := source.Nearest(plain, append(arguments.Serve.Names(), startupOptions...)); !known && near != "" {
			c.Add(e.Hintf("did you mean %q?", near)) // a slip of the pen is never ignored
		} else if strict {
			c.Add(e.Hintf("remove it, or leave --strict-params out"))
		}
		dropped = append(dropped, key)
		ignored = append(ignored, fmt.Sprintf("%s: %s is no option of the startup benchmark and is left out", at, key))
	}
	i.Params = i.Params.Without(dropped...)
	if !i.Named {
		i.Name = label(i.Params)
	}
	return i, ignored, c.Err()
}

// startupTests are those of the missing runs.
func (s *Sweep) startupTests(missing func(p *Point, run int) bool) (tests []*source.Value) {
	for _, p := range s.Points() {
		for n := range s.Runs {
			if missing == nil || missing(p, n) {
				t := s.startupTest(p, n)
				tests = append(tests, &source.Value{Pos: t.Pos, Any: t})
			}
		}
	}
	return tests
}

func (s *Sweep) startupTest(p *Point, n int) *source.Table {
	t := source.NewTable(p.Pos)
	if t.Pos == (source.Pos{}) {
		t.Pos = s.serve.Pos
	}
	set(t, "id", p.runID(n))
	set(t, "test_template_name", "vllm-offline")
	if s.TimeLimit != "" {
		set(t, "time_limit", s.TimeLimit)
	}
	if dir := s.serve.dir; dir != "" {
		set(t, "custom_bash", pathText(dir))
	}
	all := source.Merge(s.serve.options, p.bench).Without(p.unset...)
	args, options := source.NewTable(t.Pos), source.NewTable(t.Pos)
	set(args, "benchmark", "startup")
	if s.Image != "" {
		set(args, "docker_image_url", s.Image)
	}
	model := s.serve.model
	if v := all.Get("model"); v != nil {
		model = v
	}
	if model != nil {
		args.Set("model", model)
	}
	var lists []*source.Value
	for _, key := range all.Keys() {
		if slices.Contains(startupOptions, key) {
			options.Set(key, all.Get(key))
		} else if _, ok := all.Get(key).Any.([]*source.Value); ok {
			lists = append(lists, &source.Value{Pos: t.Pos, Any: "cmd_args.engine." + key})
		}
	}
	set(args, "engine", all.Without(append([]string{"model"}, startupOptions...)...))
	set(args, "options", options)
	set(t, "cmd_args", args)
	if lists != nil {
		set(t, "dse_excluded_args", lists)
	}
	return t
}

// startupDir is the directory of a run in an execution.
func startupDir(root string, p *Point, n int) string { return filepath.Join(root, p.runID(n), "0") }
