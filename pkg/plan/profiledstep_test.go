package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
)

// Variables that the test sets itself win over those that a step needs to open a capture range.
func TestCaptureStepsVariables(t *testing.T) {
	in := input(t, "gpus_per_node = 4\n", "extra_env_vars = { B = \"mine\" }\n[Tests.nsys]\npreset = \"loads\"\n")
	w := in.Workload.(service)
	w.Service = plan.Service{Image: w.Image, Model: "m", Steps: []plan.Step{{Name: "step", Nodes: plan.Slice{Count: 1},
		Argv: plan.Texts("measure"), Profile: &plan.Profilable{Range: func() ([]plan.Word, []plan.Var, error) {
			return plan.Texts("--range"),
				[]plan.Var{{Name: "A", Value: plan.Text("1")}, {Name: "B", Value: plan.Text("2")}}, nil
		}}}}}
	in.Workload = w
	p, err := plan.Make(in)
	require.NoError(t, err)
	step := p.Loads[0].Clients[0]
	require.Contains(t, joined(step.Argv), "measure --range")
	var names []string
	for _, v := range step.Env {
		names = append(names, v.Name)
	}
	require.Contains(t, names, "A")
	require.NotContains(t, names, "B")
}
