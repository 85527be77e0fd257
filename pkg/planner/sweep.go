package planner

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/profllm/profllm/pkg/catalog"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/sweep"
)

// roleOrder is the order of a role's own keys, which decides the order of
// dimensions as CloudAI's schema does.
var roleOrder = []string{"gpu_ids", "num_nodes", "ray_head", "ray_worker", "nixl_threads"}

// schemaOrder lists the known keys of a table below cmd_args, in the order of
// CloudAI's schema of the serving workloads.
func schemaOrder(table string) []string {
	switch table {
	case "":
		return []string{"docker_image_url", "model", "port", "host", "bench_host", "healthcheck", "serve_healthcheck",
			"serve_wait_seconds",
			"prefill", "decode", "proxy_script", "proxy_healthcheck"}
	case "prefill", "decode":
		return roleOrder
	}
	return nil
}

// isJSON reports whether a table, by its keys from the test's down, is the value of an option that takes
// JSON: one of a server's, of a load client's or of an AI Dynamo worker's.
func isJSON(keys []string) bool {
	if keys[0] == "bench_cmd_args" {
		return len(keys) == 2
	}
	if keys[0] != "cmd_args" || len(keys) < 3 {
		return false
	}
	switch at := keys[1 : len(keys)-1]; at[0] {
	case "prefill", "decode":
		nested := len(at) == 2 && (at[1] == "ray_head" || at[1] == "ray_worker")
		return (len(at) == 1 || nested) && !slices.Contains(roleOrder, keys[len(keys)-1])
	default:
		return at[len(at)-1] == "args"
	}
}

// Sweep reads what a test says about its sweep; it is not Active if there is none. The
// metrics of a workload that is not supported are its own, and so are their rewards.
func Sweep(t scenario.Test) (*sweep.Sweep, error) {
	table := t.Table
	if !slices.Contains(catalog.Runnable(), t.Template) {
		table = table.Without("agent_metrics", "agent_reward_function")
	}
	if args := table.Table("cmd_args"); args != nil && noPhases(args.Get("aiperf_phases")) {
		table = table.Without()
		table.Set("cmd_args", &source.Value{Pos: args.Pos, Any: args.Without("aiperf_phases")})
	}
	return sweep.Load(table, schemaOrder, isJSON)
}

// noPhases reports whether the list of AIPerf's phases is empty: no dimension without points, but one load.
func noPhases(v *source.Value) bool {
	if v == nil {
		return false
	}
	list, ok := v.Any.([]*source.Value)
	return ok && len(list) == 0
}

// roundSize is how many points an agent that learns from results hands out at
// once: enough to use a cluster, few enough to learn.
const roundSize = 8

// dimensions are those of a sweep, by path.
type dimensions map[string]sweep.Dimension

// points lists the next points of a test's sweep, nil if it has none, and its
// dimensions.
func (b *builder) points(t scenario.Test) ([]sweep.Point, dimensions, error) {
	s, err := Sweep(t)
	if err != nil {
		return nil, nil, err
	}
	b.warnings = append(b.warnings, s.Warnings...)
	if !s.Active() {
		return nil, nil, notSwept(t)
	}
	dims := dimensions{}
	for _, d := range s.Dimensions {
		if d.Client && (len(t.Phases) > 0 || t.CmdArgs.Has("aiperf_phases")) {
			return nil, nil, source.Errorf(d.Pos, "test %q has phases, but also sweeps %s", t.ID, d.Path).
				Hintf("write the loads either as phases or as a sweep")
		}
		dims[d.Path] = d
	}
	n := sweep.MaxGrid
	if s.Agent == sweep.TPE {
		n = roundSize
	}
	points, err := s.Next(b.o.History[t.ID], n)
	return append([]sweep.Point{}, points...), dims, err // not nil: nothing may be left to try
}

// serverKey is the same for points that can share a server.
func serverKey(p sweep.Point, dims dimensions) string {
	server := sweep.Point{Env: p.Env}
	for _, v := range p.Values {
		if !dims[v.Path].Client {
			server.Values = append(server.Values, v)
		}
	}
	return server.Key()
}

// group is the points that share one start of the server.
type group struct {
	test   scenario.Test
	first  sweep.Point
	loads  []load
	points []sweep.Point
}

// sweep plans the points of a sweep. Points that differ only in what the client
// does share a server, each with a directory of its own.
func (b *builder) sweep(t scenario.Test, points []sweep.Point, dims dimensions,
	after []plan.After) ([]*plan.Plan, error) {
	if t.Iterations > 1 {
		return nil, source.Errorf(t.Table.PosOf("iterations"), "test %q is a sweep, but has %d iterations", t.ID,
			t.Iterations).Hintf("remove the lists or the iterations")
	}
	groups, err := b.groups(t, points, dims)
	if err != nil {
		return nil, err
	}
	before := maps.Clone(b.taken) // points are compared, so they have the same nodes
	var plans []*plan.Plan
	var c source.Complaints
	for _, g := range groups {
		in := b.input(g.test, b.stepDir(t, g.first.Step))
		in.Step, in.After, in.Taken = g.first.Step, after, before
		in.Limit *= time.Duration(len(g.points)) // each point has the time of one
		p, err := b.run(g.test, in, g.loads)
		if err != nil {
			c.Add(err)
			for _, point := range g.points {
				b.skip(t, point, dims, err)
			}
			continue
		}
		plans = append(plans, p)
	}
	if len(plans) == 0 && len(points) > 0 {
		return nil, c.Err() // complaints of all points are one where they are the same
	}
	return plans, nil
}

func (b *builder) skip(t scenario.Test, p sweep.Point, dims dimensions, err error) {
	b.set.Skipped = append(b.set.Skipped,
		Skipped{Test: t.ID, Step: p.Step, Label: p.Label(), Values: assignments(p, dims), Err: err})
}

func (b *builder) stepDir(t scenario.Test, step int) string {
	return path.Join(b.root, t.ID, "0", fmt.Sprint(step))
}

// groups puts points with the same server together, in the order of the points.
func (b *builder) groups(t scenario.Test, points []sweep.Point, dims dimensions) ([]*group, error) {
	var groups []*group
	byServer := map[string]*group{}
	var c source.Complaints

	for _, point := range points {
		table, err := sweep.Apply(t.Table, point)
		if err != nil {
			return nil, err
		}
		variant, err := variant(t, table)
		if err != nil {
			c.Add(err)
			b.skip(t, point, dims, err)
			continue
		}
		key := serverKey(point, dims)
		g := byServer[key]
		if share := variant.Sweep.ShareServer; g == nil || share != nil && !*share || b.system.Kube() != nil {
			g = &group{first: point, test: variant}
			byServer[key] = g
			groups = append(groups, g)
		}
		g.points = append(g.points, point)
		loads := phases(variant)
		for i := range loads {
			loads[i].step, loads[i].values = point.Step, assignments(point, dims)
		}
		g.loads = append(g.loads, b.placed(t, g, point, loads)...)
	}
	if len(groups) == 0 && len(points) > 0 {
		return nil, c.Err()
	}
	for _, g := range groups {
		g.loads[0].cache = "" // a server that has just started has an empty one
		if len(g.loads) == 1 {
			g.loads[0].name, g.loads[0].dir = "", ""
		}
	}
	return groups, nil
}

// variant is a point of a test, as its workload has it.
func variant(t scenario.Test, table *source.Table) (scenario.Test, error) {
	v, err := t.Variant(table)
	if err != nil {
		return v, err
	}
	return catalog.Prepared(v)
}

// placed gives the loads of one point their directories: that of the step, or
// below it one for each phase.
func (b *builder) placed(t scenario.Test, g *group, point sweep.Point, loads []load) []load {
	step := b.stepDir(t, point.Step)
	for i := range loads {
		l := &loads[i]
		if len(g.test.Phases) > 0 {
			l.dir = path.Join(step, l.name)
			l.name = fmt.Sprintf("%d.%s", point.Step, l.name)
			continue
		}
		l.name, l.dir = fmt.Sprint(point.Step), step
		if l.keeps = t.Sweep.Cache == "keep"; !l.keeps {
			l.cache = plan.CacheReset
		}
	}
	return loads
}

func assignments(p sweep.Point, dims dimensions) []plan.Assignment {
	var list []plan.Assignment
	for _, v := range slices.Concat(p.Values, p.Env) {
		list = append(list, plan.Assignment{Path: v.Path, Value: v.Value.Plain(), Zip: dims[v.Path].Zip})
	}
	return list
}
