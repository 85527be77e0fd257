package plan

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/hostlist"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/source"
)

// Inventory says what Slurm says of each host: its base state, upper case and
// without flags ("IDLE"). A host that is not in it is unknown to Slurm. A nil
// Inventory means that nobody asked.
type Inventory map[string]string

// Chosen is what the nodes of a test come to.
type Chosen struct {
	Hosts []string // without duplicates, in declared order; nil: no nodes were asked for
	Notes []string // what a person should know, with positions
}

// maxAvail asks a group for every node that is free, or will be soon.
const maxAvail = "max_avail"

// Slurm's states that a group's node may be in to be picked, in the order in
// which a COUNT uses them up. Nodes in any other state are never picked.
var (
	countStates    = []string{"IDLE", "COMPLETING", "ALLOCATED", "RESERVED"}
	maxAvailStates = []string{"IDLE", "COMPLETING", "RESERVED"}
)

// waitStates are states of a node that a job gets sooner or later.
var waitStates = append([]string{"MIXED", "PLANNED"}, countStates...)

// ResolveNodes turns the nodes of a test, host lists and PARTITION:GROUP:COUNT
// with a number or "max_avail" for COUNT, less what exclude names, into hosts.
// It is called once for each run, and everything else uses its answer.
//
// taken are the hosts that earlier runs of the scenario have: they count as
// RESERVED, the last that a COUNT uses. A group never gives a host that another
// item of the same test names. Notes and complaints stand where the item stands in
// t, the test as it was written; with an error the Hosts are nil.
//
// The hosts keep the order in which the scenario and the site declare them.
// CloudAI sorts them as strings, n10 before n2; nothing is gained by that, since
// Slurm gives an allocation the order of its own node table.
func ResolveNodes(t *source.Table, items, exclude []string, sys *config.System, inv Inventory,
	taken map[string]bool) (Chosen, error) {
	r := resolver{pos: t.PosOf("nodes"), sys: sys, inv: inv, taken: taken, used: map[string]bool{},
		excluded: map[string]bool{}}
	for i, item := range exclude {
		r.pos = t.ElementPos("exclude_nodes", i)
		for _, h := range r.expand("exclude_nodes", item) {
			r.excluded[h] = true
		}
	}
	lists := make([][]string, len(items)) // explicit hosts first: a group must not take them
	for i, item := range items {
		r.pos = t.ElementPos("nodes", i)
		if !strings.Contains(item, ":") {
			lists[i] = r.explicit(item)
		}
	}
	for i, item := range items {
		r.pos = t.ElementPos("nodes", i)
		if strings.Contains(item, ":") {
			lists[i] = r.group(item)
		}
	}
	var hosts []string
	for _, list := range lists {
		hosts = append(hosts, list...)
	}
	if len(items) > 0 && len(hosts) == 0 && r.c.Err() == nil {
		r.c.Add(source.Errorf(t.PosOf("nodes"), "nodes %q has no node left after exclude_nodes %q", items, exclude).
			Hintf("name other nodes, or write num_nodes instead of nodes"))
	}
	if err := r.c.Err(); err != nil {
		return Chosen{}, err
	}
	return Chosen{Hosts: hosts, Notes: r.notes}, nil
}

// resolver is one call of ResolveNodes.
type resolver struct {
	pos      source.Pos
	sys      *config.System
	inv      Inventory
	taken    map[string]bool
	excluded map[string]bool
	used     map[string]bool // hosts that an item of this test has
	groups   map[string]bool // hosts that the site's groups name, nil: not yet read
	notes    []string
	c        source.Complaints
}

func (r *resolver) notef(format string, args ...any) {
	r.notes = append(r.notes, r.pos.String()+": "+fmt.Sprintf(format, args...))
}

func (r *resolver) expand(key, list string) []string {
	hosts, err := hostlist.Expand(list)
	if err != nil {
		r.c.Addf(r.pos, "%s: %v", key, err)
	}
	return hosts
}

// explicit takes the hosts of a list, in whatever state they are: whoever names
// a host means it.
func (r *resolver) explicit(list string) []string {
	var hosts, strange []string
	for _, h := range r.expand("nodes", list) {
		if r.excluded[h] || r.used[h] {
			continue
		}
		r.used[h] = true
		hosts = append(hosts, h)
		switch state, known := r.inv[h]; {
		case r.inv == nil:
			if !r.grouped(h) {
				strange = append(strange, h)
			}
		case !known:
			r.notef("Slurm does not list node %s", h)
		case !slices.Contains(waitStates, state):
			r.notef("node %s is %s; the job waits until the node is available", h, state)
		}
	}
	if len(strange) > 0 {
		r.notef("no group of the system file names %s: spelt wrong, or left out there", hostlist.Format(strange))
	}
	return hosts
}

// grouped reports whether a group of the site names a host, or no group names any.
func (r *resolver) grouped(host string) bool {
	if r.groups == nil {
		r.groups = map[string]bool{}
		for _, p := range r.sys.Partitions {
			for _, g := range p.Groups {
				for _, list := range g.Nodes {
					hosts, _ := hostlist.Expand(list) // what reads the system file complains
					for _, h := range hosts {
						r.groups[h] = true
					}
				}
			}
		}
	}
	return len(r.groups) == 0 || r.groups[host]
}

// group picks the nodes of PARTITION:GROUP:COUNT.
func (r *resolver) group(item string) []string {
	parts := strings.Split(item, ":")
	if len(parts) != 3 {
		r.c.Add(source.Errorf(r.pos, "nodes: %q has %d parts, but a node group has 3", item, len(parts)).
			Hintf("write PARTITION:GROUP:COUNT, such as \"main:group1:2\" or \"main:group1:max_avail\""))
		return nil
	}
	count := 0
	if parts[2] != maxAvail {
		var err error
		if count, err = strconv.Atoi(parts[2]); err != nil || count < 1 {
			r.c.Add(source.Errorf(r.pos, "nodes: %q: %q is not a number of nodes", item, parts[2]).
				Hintf("write a number from 1, or %s for all free nodes", maxAvail))
			return nil
		}
	}
	g := r.find(item, parts[0], parts[1])
	if g == nil {
		return nil
	}
	p := r.pool(g)
	picked := p.pick(count)
	if len(picked) == 0 || len(picked) < count {
		r.c.Add(p.short(r.pos, item, count, len(picked)))
		return nil
	}
	for _, h := range picked {
		r.used[h] = true
	}
	r.explain(item, p, picked)
	return picked
}

// find looks a group up in the site, and complains if it is not there.
func (r *resolver) find(item, partition, group string) *config.Group {
	var names []string
	for i := range r.sys.Partitions {
		p := &r.sys.Partitions[i]
		names = append(names, p.Name)
		if p.Name != partition {
			continue
		}
		var groups []string
		for j := range p.Groups {
			if p.Groups[j].Name == group {
				return &p.Groups[j]
			}
			groups = append(groups, p.Groups[j].Name)
		}
		r.c.Add(unknown(r.pos, fmt.Sprintf("nodes: %q: partition %q has no group %q", item, partition, group), group,
			groups))
		return nil
	}
	r.c.Add(unknown(r.pos, fmt.Sprintf("nodes: %q: the system file has no partition %q", item, partition), partition,
		names))
	return nil
}

// unknown is a complaint about a name that the site lacks.
func unknown(pos source.Pos, msg, name string, known []string) error {
	err := source.Errorf(pos, "%s", msg)
	if len(known) == 0 {
		return err.Hintf("add it to the system file, below [[partitions]]")
	}
	return err.Hintf("%s", source.Suggest(name, known))
}

// pool is what a group has left: its hosts in declared order, each with its state.
type pool struct {
	hosts    []string
	state    map[string]string // nil: nobody asked
	taken    map[string]bool
	size     int // of the group
	excluded int
	used     int // by other items of the same test
}

func (r *resolver) pool(g *config.Group) *pool {
	p := &pool{taken: r.taken}
	if r.inv != nil {
		p.state = map[string]string{}
	}
	seen := map[string]bool{}
	for _, list := range g.Nodes {
		for _, h := range r.expand(fmt.Sprintf("group %q", g.Name), list) {
			if seen[h] {
				continue
			}
			seen[h] = true
			p.add(r, h)
		}
	}
	return p
}

func (p *pool) add(r *resolver, host string) {
	p.size++
	switch {
	case r.excluded[host]:
		p.excluded++
		return
	case r.used[host]:
		p.used++
		return
	}
	p.hosts = append(p.hosts, host)
	if p.state == nil {
		return
	}
	state := r.inv[host]
	switch {
	case state == "":
		state = "UNKNOWN"
	case r.taken[host] && slices.Contains(countStates, state):
		state = "RESERVED"
	}
	p.state[host] = state
}

// pick chooses count hosts, or with 0 all that max_avail may have. They come in
// declared order. Too few come where there are too few.
func (p *pool) pick(count int) []string {
	order, most := countStates, count
	if count == 0 {
		order, most = maxAvailStates, len(p.hosts)
	}
	chosen := map[string]bool{}
	take := func(fits func(host string) bool) {
		for _, h := range p.hosts {
			if len(chosen) < most && !chosen[h] && fits(h) {
				chosen[h] = true
			}
		}
	}
	if p.state == nil {
		take(func(h string) bool { return !p.taken[h] })
		take(func(string) bool { return true })
	} else {
		for _, state := range order {
			take(func(h string) bool { return p.state[h] == state })
		}
	}
	var picked []string
	for _, h := range p.hosts {
		if chosen[h] {
			picked = append(picked, h)
		}
	}
	return picked
}

// short is the complaint about a group that has too little, with the numbers.
func (p *pool) short(pos source.Pos, item string, count, can int) error {
	needs := "at least 1 node"
	if count > 0 {
		needs = quantity.Count(count, "node")
	}
	number := map[string]int{}
	for _, state := range p.state {
		number[state]++
	}
	var what []string
	for state, n := range number {
		what = append(what, fmt.Sprintf("%d %s", n, state))
	}
	sort.Strings(what)
	if p.excluded > 0 {
		what = append(what, fmt.Sprintf("%d excluded", p.excluded))
	}
	if p.used > 0 {
		what = append(what, fmt.Sprintf("%d named by another item of nodes", p.used))
	}
	text := fmt.Sprintf("nodes: %q needs %s, but %d of the group's %d can be used", item, needs, can, p.size)
	if len(what) > 0 {
		text += " (" + strings.Join(what, ", ") + ")"
	}
	err := source.Errorf(pos, "%s", text)
	if p.state == nil {
		return err.Hintf("lower the count, or give the group more nodes in the system file")
	}
	return err.Hintf("lower the count, or wait; sinfo -N -p %s shows the states of the nodes",
		strings.Split(item, ":")[0])
}

// explain notes what a reader of the plan could not see.
func (r *resolver) explain(item string, p *pool, picked []string) {
	if p.state == nil {
		r.notef("nodes %q: %s, in declared order; node states are not known until submission", item,
			hostlist.Format(picked))
		return
	}
	var busy []string
	for _, h := range picked {
		if s := p.state[h]; s == "ALLOCATED" || s == "RESERVED" {
			busy = append(busy, h)
		}
	}
	if len(busy) > 0 {
		r.notef("nodes %q: the job waits for %s, which are allocated or reserved", item, hostlist.Format(busy))
	}
}

// excludeLists writes exclude_nodes as Slurm reads it: one host list for each
// item, where text behind a bracket is no longer there.
func excludeLists(items []string) []string {
	var lists []string
	for _, item := range items {
		if hosts, err := hostlist.Expand(item); err == nil && len(hosts) > 0 { // else ResolveNodes complains
			lists = append(lists, hostlist.Format(hosts))
		}
	}
	return lists
}
