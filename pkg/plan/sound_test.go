package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
)

// A plan.json that somebody edited is refused where it is read, by the key that is
// wrong; a plan with a load beside the run, as sweeps have, is not.
func TestSound(t *testing.T) {
	sound := func() *plan.Plan {
		return &plan.Plan{
			Dir: "/r/s/t/0/1", Job: plan.Job{Nodes: 2},
			Roles: []plan.Role{{Name: "serve", Nodes: plan.Slice{Offset: 1, Count: 1}, Report: "/tmp/report",
				Step: plan.Step{Log: "logs/serve-%t.log"}}},
			Loads: []plan.Load{
				{Dir: "/r/s/t/0/1/c8/r1", Clients: []plan.Step{{Name: "bench", Nodes: plan.Slice{Count: 1}, Log: "c8/r1/logs/bench-%t.log"}}},
				{Dir: "/r/s/t/0/2", Clients: []plan.Step{{Name: "bench", Log: "../2/logs/bench-%t.log"}}},
				{Dir: ""},
			},
			PreTest: []plan.Hook{{Name: "nccl"}},
		}
	}
	require.NoError(t, sound().Sound())
	for want, change := range map[string]func(*plan.Plan){
		"loads is empty":                                   func(p *plan.Plan) { p.Loads = nil },
		"job.nodes is -1":                                  func(p *plan.Plan) { p.Job.Nodes = -1 },
		"job.nodes is 2000000000":                          func(p *plan.Plan) { p.Job.Nodes = 2e9 },
		`roles[0].nodes, of "serve": offset 5`:             func(p *plan.Plan) { p.Roles[0].Nodes = plan.Slice{Offset: 5, Count: 3} },
		`roles[0].nodes, of "serve": offset 0 and cou`:     func(p *plan.Plan) { p.Roles[0].Nodes.Count, p.Roles[0].Nodes.Offset = 2e9, 0 },
		`roles[0].nodes, of "serve": offset -1`:            func(p *plan.Plan) { p.Roles[0].Nodes.Offset = -1 },
		`roles[0].name is not a file name: "../serve"`:     func(p *plan.Plan) { p.Roles[0].Name = "../serve" },
		"roles[0].report is outside the run's directory":   func(p *plan.Plan) { p.Roles[0].Report = "../report" },
		"roles[0].step.log is outside the run's directory": func(p *plan.Plan) { p.Roles[0].Step.Log = "/etc/passwd" },
		"loads[0].dir is neither inside nor":               func(p *plan.Plan) { p.Loads[0].Dir = "/tmp/escape" },
		"loads[1].clients[0].log is outside the run's":     func(p *plan.Plan) { p.Loads[1].Clients[0].Log = "../../x/logs/bench.log" },
		"loads[0].clients[0].name is not a file name":      func(p *plan.Plan) { p.Loads[0].Clients[0].Name = "a/b" },
		"loads[2].clients is empty, but bench should":      func(p *plan.Plan) { p.Loads[2].Client = "bench" },
		"loads[0].clients[0].nodes":                        func(p *plan.Plan) { p.Loads[0].Clients[0].Nodes.Offset = 9 },
		"the name of a hook is not a file name":            func(p *plan.Plan) { p.PreTest[0].Name = "../x" },
	} {
		p := sound()
		change(p)
		require.ErrorContains(t, p.Sound(), want)
	}
	// Older plans do not say how many nodes the job has.
	p := sound()
	p.Job.Nodes, p.Roles[0].Nodes.Count = 0, 1<<40
	require.ErrorContains(t, p.Sound(), "offset 1 and count 1099511627776")
}
