package dryrun

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/stats"
	"github.com/profllm/profllm/pkg/summary"
	"github.com/profllm/profllm/pkg/terminal"
)

// planTable is what a person checks before the run is submitted.
func planTable(p *plan.Plan, s terminal.Screen) string {
	if p.Kubernetes != nil {
		return podTable(p, s)
	}
	t := terminal.Table{Columns: []terminal.Column{
		{Name: "role"}, {Name: "nodes"}, {Name: "GPUs on each"}, {Name: "TP x PP x DP", Drop: 4},
		{Name: "port", Drop: 3},
		{Name: "ready at", Drop: 2}, {Name: "within", Drop: 1},
	}}
	port := func(name string) string {
		if x, ok := p.PortNamed(name); ok {
			return x.String()
		}
		return ""
	}
	for _, r := range p.Roles {
		sizes := ""
		if r.Engine {
			sizes = fmt.Sprintf("%d x %d x %d", r.TP, r.PP, r.DP)
		}
		t.Row(summary.Cells(r.Name, r.Nodes, plan.FormatGPUs(r.GPUs), sizes, port(r.Health.Port), r.Health.Path,
			fmt.Sprintf("%gs", asSeconds(r.Timeout)))...)
	}
	for _, c := range clients(p) {
		t.Row(summary.Cells(c.name, c.nodes, "", "", "", "", "")...)
	}
	simulated := ""
	if p.Simulated {
		simulated = ", SIMULATED engine"
	}
	slot := ""
	if len(p.Ports) > 0 {
		slot = fmt.Sprintf("slot: a number from 0 to %d that the job takes when it starts, so that its ports are free\n", plan.Slots-1)
	}
	return fmt.Sprintf("# %s: %s%s, launcher %s%s, run %s\n%s\n%s%s%s", runTitle(p),
		quantity.Count(p.Job.Nodes, "node"), allocation(p), p.Launcher, simulated, p.RunID, t.Text(s), slot,
		executors(p), seriesLines(p))
}

// executors says how each kind of role uses its nodes, if it has several, and over how many GPUs it
// spreads its experts.
func executors(p *plan.Plan) string {
	var b strings.Builder
	var seen []string
	for _, r := range p.Roles {
		if r.Executor != "" && !slices.Contains(seen, r.KindName()) {
			seen = append(seen, r.KindName())
			fmt.Fprintf(&b, "executor of %s: %s\n", r.KindName(), r.Executor)
		}
		if r.EP > 0 && r.Replica == 0 {
			fmt.Fprintf(&b, "experts of %s: EP %d, which the engine computes of TP and DP\n", r.KindName(), r.EP)
		}
	}
	return b.String()
}

// runTitle is the test of a run, with its iteration or the points of its sweep.
func runTitle(p *plan.Plan) string {
	switch steps := p.Steps(); {
	case len(steps) == 1:
		return fmt.Sprintf("%s, point %d", p.Test, steps[0])
	case len(steps) > 1:
		return fmt.Sprintf("%s, points %s", p.Test, quantity.Ranges(steps))
	case p.Iteration > 0:
		return fmt.Sprintf("%s, iteration %d", p.Test, p.Iteration)
	}
	return p.Test
}

// allocation says how many GPUs a job gets, and how many of them its roles make use of.
func allocation(p *plan.Plan) string {
	switch {
	case len(p.Roles) == 0:
		return ""
	case p.Allocated() > 0:
		return fmt.Sprintf(", %s allocated, %d used", quantity.Count(p.Allocated(), "GPU"), p.Used())
	}
	return fmt.Sprintf(", %s used", quantity.Count(p.Used(), "GPU"))
}

type clientRow struct{ name, nodes string }

// clients are the clients of all loads, each once.
func clients(p *plan.Plan) []clientRow {
	var list []clientRow
	times := map[string]int{}
	for _, l := range p.Loads {
		for _, c := range l.Clients {
			if times[c.Name]++; times[c.Name] == 1 {
				list = append(list, clientRow{c.Name, c.Nodes.String()})
			}
		}
	}
	for i, c := range list {
		if n := times[c.name]; n > 1 {
			list[i].name = fmt.Sprintf("%s (%d loads)", c.name, n)
		}
	}
	return list
}

func asSeconds(s plan.Seconds) float64 {
	data, _ := s.MarshalJSON()
	f, _ := strconv.ParseFloat(string(data), 64)
	return f
}

// seriesLines say, for a person, what the series of a plan may come to.
func seriesLines(p *plan.Plan) string {
	var b strings.Builder
	var seen []string
	for _, l := range p.Loads {
		if l.Repeat == nil || l.Repeat.Until == nil || slices.Contains(seen, l.Repeat.Group) {
			continue
		}
		seen = append(seen, l.Repeat.Group)
		u := l.Repeat.Until
		series := strings.TrimSuffix(strings.TrimSuffix(l.Name, "r1"), ".")
		fmt.Fprintf(&b, "# %s: repeats until the median of %s is known to ±%g %%: %d at least, %d at most",
			cmp.Or(series, p.Test), strings.Join(u.Metrics, ", "), u.Percent, stats.LeastRepeats, l.Repeat.Of)
		if u.Time > 0 {
			fmt.Fprintf(&b, ", no repeat that would end after %s", time.Duration(u.Time))
		}
		b.WriteString("\n")
	}
	if len(seen) == 0 {
		return ""
	}
	if limit := time.Duration(p.Job.TimeLimit); limit > 0 {
		fmt.Fprintf(&b, "# the job's time limit is %s on %s, %s; all repeats have to fit into it\n",
			limit, quantity.Count(p.Job.Nodes, "node"), quantity.NodeHours(limit.Hours()*float64(p.Job.Nodes)))
	} else {
		b.WriteString("# the job has no time limit\n")
	}
	return b.String()
}
