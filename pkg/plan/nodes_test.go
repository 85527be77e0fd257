package plan_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/hostlist"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/source"
)

var at = source.Pos{File: "s.toml", Line: 2, Col: 3}

// groups is a site with a group whose declared order is not that of its names.
func groups(t *testing.T) *config.System {
	t.Helper()
	sys, err := config.Parse("site.toml", []byte(site+`
[[partitions]]
name = "gpu"
[[partitions.groups]]
name = "g"
nodes = ["n[5-6]", "n[1-4],n10", "n5"]
[[partitions.groups]]
name = "empty"
[[partitions]]
name = "small"
`))
	require.NoError(t, err)
	return sys
}

func inventory(state map[string]string) plan.Inventory {
	inv := plan.Inventory{}
	for list, s := range state {
		hosts, err := hostlist.Expand(list)
		if err != nil {
			panic(err)
		}
		for _, h := range hosts {
			inv[h] = s
		}
	}
	return inv
}

func set(hosts ...string) map[string]bool {
	m := map[string]bool{}
	for _, h := range hosts {
		m[h] = true
	}
	return m
}

// strange is the end of a note about hosts that no group of the site names.
const strange = ": spelt wrong, or left out there"

// covers: CD-1, CD-2
func TestResolveNodes(t *testing.T) {
	idle := inventory(map[string]string{"n[1-6,10]": "IDLE"})
	// n10: unknown
	mixed := inventory(map[string]string{"n5": "DOWN", "n6": "ALLOCATED", "n1": "RESERVED", "n2": "COMPLETING",
		"n3": "IDLE", "n4": "MIXED"})
	const unasked = "; node states are not known until submission"
	for name, c := range map[string]struct {
		items, exclude []string
		inv            plan.Inventory
		taken          map[string]bool
		want           string
		notes          []string // without the position
	}{
		"none":          {},
		"only excluded": {exclude: []string{"n[1-3]"}},
		"lists, order kept": {items: []string{"b[2-3],b10", "a1"}, want: "b2 b3 b10 a1",
			notes: []string{"no group of the system file names b[2-3,10]" + strange, "no group of the system file names a1" + strange}},
		"lists, first counts": {items: []string{"n[1-3]", "n2,n4"}, want: "n1 n2 n3 n4"},
		"lists, excluded":     {items: []string{"n[1-4]"}, exclude: []string{"n[2-3]", "x"}, want: "n1 n4"},
		"racks": {items: []string{"rack[1-2]n[1-2]-ib"}, exclude: []string{"rack1n1-ib"}, want: "rack1n2-ib rack2n1-ib rack2n2-ib",
			notes: []string{"no group of the system file names rack1n2-ib,rack2n1-ib,rack2n2-ib" + strange}},
		"declared order":          {items: []string{"gpu:g:3"}, inv: idle, want: "n5 n6 n1"},
		"max_avail":               {items: []string{"gpu:g:max_avail"}, inv: idle, want: "n5 n6 n1 n2 n3 n4 n10"},
		"excluded from the group": {items: []string{"gpu:g:2"}, exclude: []string{"n[5-6]"}, inv: idle, want: "n1 n2"},
		"idle first":              {items: []string{"gpu:g:1"}, inv: mixed, want: "n3"},
		"then completing":         {items: []string{"gpu:g:2"}, inv: mixed, want: "n2 n3"},
		"then allocated":          {items: []string{"gpu:g:3"}, inv: mixed, want: "n6 n2 n3", notes: []string{`nodes "gpu:g:3": the job waits for n6, which are allocated or reserved`}},
		"then reserved":           {items: []string{"gpu:g:4"}, inv: mixed, want: "n6 n1 n2 n3", notes: []string{`nodes "gpu:g:4": the job waits for n[6,1], which are allocated or reserved`}},
		"max_avail, mixed":        {items: []string{"gpu:g:max_avail"}, inv: mixed, want: "n1 n2 n3", notes: []string{`nodes "gpu:g:max_avail": the job waits for n1, which are allocated or reserved`}},
		"taken last":              {items: []string{"gpu:g:2"}, inv: idle, taken: set("n5", "n6", "n2"), want: "n1 n3"},
		"taken if it must be":     {items: []string{"gpu:g:5"}, inv: idle, taken: set("n5", "n6", "n1"), want: "n5 n2 n3 n4 n10", notes: []string{`nodes "gpu:g:5": the job waits for n5, which are allocated or reserved`}},
		"taken is no cure":        {items: []string{"gpu:g:1"}, inv: mixed, taken: set("n5", "n4", "n10"), want: "n3"},
		"after allocated":         {items: []string{"gpu:g:2"}, inv: mixed, taken: set("n3", "n2"), want: "n6 n1", notes: []string{`nodes "gpu:g:2": the job waits for n[6,1], which are allocated or reserved`}},
		"nobody asked":            {items: []string{"gpu:g:3"}, want: "n5 n6 n1", notes: []string{`nodes "gpu:g:3": n[5-6,1], in declared order` + unasked}},
		"nobody asked, all":       {items: []string{"gpu:g:max_avail"}, exclude: []string{"n1"}, want: "n5 n6 n2 n3 n4 n10", notes: []string{`nodes "gpu:g:max_avail": n[5-6,2-4,10], in declared order` + unasked}},
		"nobody asked, taken":     {items: []string{"gpu:g:6"}, taken: set("n5", "n6"), want: "n5 n1 n2 n3 n4 n10", notes: []string{`nodes "gpu:g:6": n[5,1-4,10], in declared order` + unasked}},
		"two of one group":        {items: []string{"gpu:g:2", "gpu:g:2"}, inv: idle, want: "n5 n6 n1 n2"},
		"a group around a list":   {items: []string{"gpu:g:2", "n6,x"}, inv: inventory(map[string]string{"n[1-6]": "IDLE", "x": "MIXED"}), want: "n5 n1 n6 x"},
		"an explicit dead host": {items: []string{"n5,n7,n3"}, inv: mixed, want: "n5 n7 n3",
			notes: []string{"node n5 is DOWN; the job waits until the node is available",
				"Slurm does not list node n7"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := plan.ResolveNodes(source.NewTable(at), c.items, c.exclude, groups(t), c.inv, c.taken)
			require.NoError(t, err)
			require.Equal(t, c.want, strings.Join(got.Hosts, " "))
			var notes []string
			for _, n := range c.notes {
				notes = append(notes, "s.toml:2:3: "+n)
			}
			require.Equal(t, notes, got.Notes)
		})
	}
}

// covers: CD-45
func TestResolveNodesRefuses(t *testing.T) {
	inv := inventory(map[string]string{"n5": "DOWN", "n6": "ALLOCATED", "n1": "DRAINED", "n2": "IDLE", "n3": "DRAINED"})
	for name, c := range map[string]struct {
		items, exclude []string
		inv            plan.Inventory
		want           string
	}{
		"two parts":         {[]string{"gpu:g"}, nil, inv, `nodes: "gpu:g" has 2 parts, but a node group has 3` + "\n\thint: write PARTITION:GROUP:COUNT, such as \"main:group1:2\" or \"main:group1:max_avail\""},
		"four parts":        {[]string{"a:b:c:d"}, nil, inv, `nodes: "a:b:c:d" has 4 parts`},
		"no count":          {[]string{"gpu:g:all"}, nil, inv, `nodes: "gpu:g:all": "all" is not a number of nodes` + "\n\thint: write a number from 1, or max_avail for all free nodes"},
		"zero":              {[]string{"gpu:g:0"}, nil, inv, `nodes: "gpu:g:0": "0" is not a number of nodes`},
		"negative":          {[]string{"gpu:g:-1"}, nil, inv, `"-1" is not a number of nodes`},
		"unknown partition": {[]string{"gpus:g:1"}, nil, inv, `nodes: "gpus:g:1": the system file has no partition "gpus"` + "\n\thint: did you mean \"gpu\"? known: gpu, small"},
		"unknown group":     {[]string{"gpu:emty:1"}, nil, inv, `nodes: "gpu:emty:1": partition "gpu" has no group "emty"` + "\n\thint: did you mean \"empty\"? known: empty, g"},
		"no groups":         {[]string{"small:g:1"}, nil, inv, `partition "small" has no group "g"` + "\n\thint: add it to the system file, below [[partitions]]"},
		"too few": {[]string{"gpu:g:3"}, []string{"n4"}, inv,
			`nodes: "gpu:g:3" needs 3 nodes, but 2 of the group's 7 can be used (1 ALLOCATED, 1 DOWN, 1 IDLE, 1 UNKNOWN, 2 DRAINED, 1 excluded)` +
				"\n\thint: lower the count, or wait; sinfo -N -p gpu shows the states of the nodes"},
		"none free":               {[]string{"gpu:g:max_avail"}, []string{"n2"}, inv, `nodes: "gpu:g:max_avail" needs at least 1 node, but 0 of the group's 7 can be used (`},
		"too few, nobody asked":   {[]string{"gpu:g:8"}, nil, nil, `needs 8 nodes, but 7 of the group's 7 can be used` + "\n\thint: lower the count, or give the group more nodes in the system file"},
		"used by the same test":   {[]string{"n[1-6]", "gpu:g:2"}, nil, nil, `needs 2 nodes, but 1 of the group's 7 can be used (6 named by another item of nodes)`},
		"an empty group":          {[]string{"gpu:empty:1"}, nil, nil, `needs 1 node, but 0 of the group's 0 can be used`},
		"nothing left":            {[]string{"n[1-2]"}, []string{"n[1-3]"}, nil, `nodes ["n[1-2]"] has no node left after exclude_nodes ["n[1-3]"]` + "\n\thint: name other nodes, or write num_nodes instead of nodes"},
		"nothing said":            {[]string{""}, nil, nil, `nodes [""] has no node left after exclude_nodes []`},
		"a bad list":              {[]string{"n[1-"}, nil, nil, `nodes: host list "n[1-": "[1-" has no closing bracket`},
		"a bad exclusion, no use": {nil, []string{"n[3-1]"}, nil, `exclude_nodes: host list "n[3-1]": range "3-1" runs backwards`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := plan.ResolveNodes(source.NewTable(at), c.items, c.exclude, groups(t), c.inv, nil)
			require.ErrorContains(t, err, c.want)
			require.Regexp(t, "^s.toml:2:3: ", err.Error())
			require.Empty(t, got)
		})
	}
	_, err := plan.ResolveNodes(source.NewTable(at), []string{"gpu:g:9", "gpux:g:1", "n["}, []string{"m]"}, groups(t),
		inv, nil)
	require.Equal(t, 4, strings.Count(err.Error(), "s.toml:2:3: "), "every complaint at once: %v", err)
}

// What holds for any states: the same answer again, only hosts of the group in
// declared order, none that is excluded or in another state, the first states
// used up before the next, and exactly COUNT or a complaint.
//
// covers: CD-2, CD-3
func TestResolveNodesProperties(t *testing.T) {
	sys := groups(t)
	declared := []string{"n5", "n6", "n1", "n2", "n3", "n4", "n10"}
	order := []string{"IDLE", "COMPLETING", "ALLOCATED", "RESERVED"}
	states := append([]string{"MIXED", "DOWN", "PLANNED", ""}, order...)
	r := rand.New(rand.NewPCG(7, 8))
	index := func(list []string, s string) int {
		for i, e := range list {
			if e == s {
				return i
			}
		}
		return len(list)
	}
	picked := 0
	for range 2000 {
		inv, excluded := plan.Inventory{}, []string{}
		usable, rank := 0, map[string]int{}
		for _, h := range declared {
			state := states[r.IntN(len(states))]
			if state != "" {
				inv[h] = state
			}
			if r.IntN(5) == 0 {
				excluded = append(excluded, h)
			} else if rank[h] = index(order, state); rank[h] < len(order) {
				usable++
			}
		}
		count := 1 + r.IntN(4)
		item := "gpu:g:" + string(rune('0'+count))
		got, err := plan.ResolveNodes(source.NewTable(at), []string{item}, excluded, sys, inv, nil)
		again, errAgain := plan.ResolveNodes(source.NewTable(at), []string{item}, excluded, sys, inv, nil)
		require.Equal(t, got, again)
		require.Equal(t, err == nil, errAgain == nil)
		if usable < count {
			require.ErrorContains(t, err, "needs")
			continue
		}
		require.NoError(t, err)
		require.Len(t, got.Hosts, count)
		picked++
		worst, place := -1, -1
		for _, h := range got.Hosts {
			require.Greater(t, index(declared, h), place)
			place = index(declared, h)
			require.NotContains(t, excluded, h)
			require.Less(t, rank[h], len(order))
			worst = max(worst, rank[h])
		}
		for h, n := range rank {
			require.False(t, n < worst && index(got.Hosts, h) == len(got.Hosts),
				"%s was better than what was picked", h)
		}
	}
	require.Greater(t, picked, 500)
}

// A plan has the resolved hosts once, and everything reads them there.
//
// covers: CD-3
func TestMakeResolvesGroups(t *testing.T) {
	in := input(t, "[[partitions]]\nname = \"gpu\"\n[[partitions.groups]]\nname = \"g\"\nnodes = [\"n[8-10]\"]\n",
		"nodes = [\"gpu:g:2\"]\nexclude_nodes = [\"n9\"]\n")
	in.Inventory = inventory(map[string]string{"n[8-10]": "IDLE"})
	p, err := plan.Make(in)
	require.NoError(t, err)
	require.Equal(t, []string{"n8", "n10"}, p.Job.NodeList)
	require.Equal(t, 2, p.Job.Nodes)
	require.Empty(t, p.Job.Exclude)
	require.Empty(t, p.Notes)

	in.Inventory = nil
	p, err = plan.Make(in)
	require.NoError(t, err)
	require.Equal(t, []string{`s.toml:5:10: nodes "gpu:g:2": n[8,10], in declared order; node states are not known until submission`}, p.Notes)

	in.Inventory = inventory(map[string]string{"n8": "IDLE", "n10": "DOWN"})
	_, err = plan.Make(in)
	require.ErrorContains(t, err,
		`s.toml:5:10: nodes: "gpu:g:2" needs 2 nodes, but 1 of the group's 3 can be used (1 DOWN, 1 IDLE, 1 excluded)`)

	in = input(t, "", "exclude_nodes = [\"a, b[1-2]\", \"c[1-2]-ib\"]\n")
	p, err = plan.Make(in)
	require.NoError(t, err)
	require.Equal(t, []string{"a,b[1-2]", "c1-ib,c2-ib"}, p.Job.Exclude, "as Slurm reads it")
}

// 4,608 nodes, of which 1,000 are asked for.
func BenchmarkResolveNodes(b *testing.B) {
	sys := &config.System{Partitions: []config.Partition{{Name: "p",
		Groups: []config.Group{{Name: "g", Nodes: []string{"r[01-48]c[1-8]n[01-12]"}}}}}}
	inv := inventory(map[string]string{"r[01-48]c[1-8]n[01-12]": "IDLE"})
	for b.Loop() {
		if c, err := plan.ResolveNodes(source.NewTable(at), []string{"p:g:1000"}, nil, sys, inv, nil); err != nil ||
			len(c.Hosts) != 1000 {
			b.Fatal(err)
		}
	}
}
