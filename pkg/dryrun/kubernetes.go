package dryrun

import (
	"fmt"
	"time"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/summary"
	"github.com/profllm/profllm/pkg/terminal"
)

// podTable is what a person checks before a run on Kubernetes is submitted.
func podTable(p *plan.Plan, s terminal.Screen) string {
	k := p.Kubernetes
	t := terminal.Table{Columns: []terminal.Column{
		{Name: "role"}, {Name: "replicas"}, {Name: "nodes each", Drop: 5}, {Name: "GPUs a pod"}, {Name: "TP x PP x DP",
			Drop: 4},
		{Name: "port", Drop: 3}, {Name: "ready at", Drop: 2}, {Name: "within", Drop: 1},
	}}
	for i := range p.Roles {
		r := &p.Roles[i]
		sizes := ""
		if r.Engine && len(r.GPUs) > 0 {
			sizes = fmt.Sprintf("%d x %d x %d", r.TP, r.PP, r.DP)
		}
		port := ""
		if x, ok := p.PortNamed(r.Health.Port); ok {
			port = x.String()
		}
		t.Row(summary.Cells(r.Name, r.Count(), r.Nodes.Count, len(r.GPUs), sizes, port, r.Health.Path,
			fmt.Sprintf("%gs", asSeconds(r.Timeout)))...)
	}
	for _, c := range clients(p) {
		t.Row(summary.Cells(c.name, 1, 1, 0, "", "", "", "")...)
	}
	what := "Deployment"
	if len(p.Roles) > 1 {
		what = "Deployments"
	}
	if k.Graph != "" {
		what = "DynamoGraphDeployment " + k.Graph
	}
	place := "namespace " + k.Namespace
	if k.Context != "" {
		place += " of context " + k.Context
	}
	return fmt.Sprintf("# %s: %s %s in %s, %s, run %s\n%s\n# the Job %s measures in %s, within %s\n", runTitle(p), what,
		k.Name, place,
		quantity.Count(p.GPUs(), "GPU"), p.RunID, t.Text(s), k.JobName(), k.ClientImage, time.Duration(k.Limit))
}
