package plan

import (
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/source"
)

// servers is the number of ranks of a role that are each a process of the server: one where
// something else, such as Ray, starts it.
func (r *Role) servers() int {
	if r.Step.Inner > 0 {
		return 1
	}
	return r.Step.Tasks()
}

// selected returns the ranks of each engine that nsys profiles, by the name of the role. It
// refuses what selects nothing.
func (p *Plan) selected(table *source.Table, n *nsys) (map[string][]int, error) {
	var c source.Complaints
	var known []string
	most, ranks := 0, map[string][]int{}
	for i := range p.Roles {
		r := &p.Roles[i]
		if !r.Engine {
			continue
		}
		known = union(known, []string{r.KindName(), r.Name})
		most = max(most, r.servers())
		if table.Has("roles") && !slices.Contains(n.Roles, r.Name) && !slices.Contains(n.Roles, r.KindName()) {
			continue
		}
		for rank := range r.servers() {
			node := r.Nodes.Offset + rank/max(r.Step.TasksPerNode, 1)
			if (!table.Has("ranks") || slices.Contains(n.Ranks, rank)) &&
				(!table.Has("nodes") || slices.Contains(n.Nodes, node)) {
				ranks[r.Name] = append(ranks[r.Name], rank)
			}
		}
	}
	for _, s := range p.profilable() {
		known, most = union(known, []string{s.Name}), max(most, s.Tasks())
		if own := selectRanks(s, table, n); len(own) > 0 && (!table.Has("roles") || slices.Contains(n.Roles, s.Name)) {
			ranks[s.Name] = own
		}
	}
	for _, name := range n.Roles {
		if !slices.Contains(known, name) {
			c.Add(source.Errorf(table.PosOf("roles"), "nsys.roles: there is no engine %q", name).
				Hintf("%s", source.Suggest(name, known)))
		}
	}
	refuseBeyond(&c, table, "ranks", n.Ranks, most)
	refuseBeyond(&c, table, "nodes", n.Nodes, p.Job.Nodes)
	keys := slices.DeleteFunc([]string{"roles", "ranks", "nodes"}, func(key string) bool { return !table.Has(key) })
	if c.Err() == nil && len(ranks) == 0 && len(keys) > 0 {
		c.Addf(table.PosOf(keys[0]), "nsys: %s select no rank of any engine", strings.Join(keys, ", "))
	}
	return ranks, c.Err()
}

func refuseBeyond(c *source.Complaints, table *source.Table, key string, list []int, most int) {
	for _, n := range list {
		if n < 0 || n >= most {
			c.Addf(table.PosOf(key), "nsys.%s: %d is not from 0 to %d", key, n, most-1)
		}
	}
}
