package job

import (
	"fmt"
	"strings"

	"github.com/profllm/profllm/pkg/hostlist"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/run"
)

// banner says at the beginning of a job's log what starts where. The commands themselves are in the
// script.
func (j *Job) banner(p *plan.Plan, place *run.Placement) {
	if len(p.Roles) == 0 {
		return
	}
	image := p.Image
	if image == "" {
		image = "no image"
	}
	j.logf("%s, launcher %s, %s of %s", image, p.Launcher, quantity.Count(p.GPUs(), "GPU"),
		quantity.Count(p.Job.Nodes, "node"))
	for i := range p.Roles {
		j.logf("%s", describe(p, &p.Roles[i], place))
	}
}

// describe says where a role runs, and how an engine is divided.
func describe(p *plan.Plan, r *plan.Role, place *run.Placement) string {
	var hosts []string
	for _, n := range place.Nodes[r.Nodes.Offset:r.Nodes.End()] {
		hosts = append(hosts, n.Host)
	}
	words := []string{fmt.Sprintf("%s on %s", r.Name, hostlist.Format(hosts))}
	if len(hosts) > 1 {
		words = append(words, "head "+hosts[0])
	}
	if len(r.GPUs) > 0 {
		words = append(words, "GPUs "+plan.FormatGPUs(r.GPUs)+" on each")
	}
	if r.Engine {
		words = append(words, sizes(p, r))
	}
	if r.Executor != "" {
		executor, _, _ := strings.Cut(r.Executor, ",")
		words = append(words, executor)
	}
	if r.Health.Port != "" {
		words = append(words, fmt.Sprintf("port %d", place.Ports[r.Health.Port]))
	}
	return strings.Join(words, ", ")
}

// sizes are the parallel sizes of an engine.
func sizes(p *plan.Plan, r *plan.Role) string {
	all, local := max(r.DP, 1), 0
	switch {
	case r.Group:
		local, all = all, all*p.Replicas(r.KindName())
	case r.Nodes.Count > 1 && all%r.Nodes.Count == 0:
		local = all / r.Nodes.Count
	}
	text := fmt.Sprintf("TP %d x PP %d x DP %d", max(r.TP, 1), max(r.PP, 1), all)
	if local > 0 {
		text += fmt.Sprintf(" (%d here)", local)
		if !r.Group {
			text = strings.Replace(text, "here", "on each node", 1)
		}
	}
	if r.EP > 0 {
		text += fmt.Sprintf(", EP %d", r.EP)
	}
	return text
}
