package manifest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/manifest"
	"github.com/profllm/profllm/pkg/plan"
)

// What planning never writes is refused all the same: a plan may come from elsewhere, and another
// workload may write one.
func TestCheckRefusesPlans(t *testing.T) {
	role := func(p *plan.Plan, name string) *plan.Role { return p.Role(name) }
	for name, c := range map[string]struct {
		system, scenario string
		spoil            func(*plan.Plan)
		want             string
	}{
		"26 components": {"cluster.toml", "aggregated", func(p *plan.Plan) {
			for i := range 24 {
				r := *role(p, "worker")
				r.Name, r.Kind = fmt.Sprint("worker-", i), "worker"
				p.Roles = append(p.Roles, r)
			}
		}, "it has 26 components, and 25 are allowed"},
		"names that differ in case": {"old.toml", "aggregated", func(p *plan.Plan) {
			r := *role(p, "worker")
			r.Name, r.Kind = "Worker", "worker"
			p.Roles = append(p.Roles, r)
		}, `the components "Worker" and "worker" have one name, since case does not count`},
		"a name with an underscore": {"cluster.toml", "aggregated", func(p *plan.Plan) {
			role(p, "worker").Kind, role(p, "worker").Name = "worker", "decode_0"
		}, `component "decode_0": the name must be 1 to 63 letters, digits and -`},
		"a Service with a long name": {"cluster.toml", "aggregated", func(p *plan.Plan) {
			p.Kubernetes.Name = "a" + strings.Repeat("b", 57)
		}, "has 67 characters, and 63 are allowed"},
		"a name that begins with a digit": {"cluster.toml", "vllm", func(p *plan.Plan) { p.Kubernetes.Name = "1exp" },
			"the name must be small letters, digits and -, and begin with a letter"},
		"an unknown type": {"cluster.toml", "aggregated", func(p *plan.Plan) { role(p, "worker").Kind = "planner" },
			`a graph has no component of type "planner"`},
		"an unknown API":     {"cluster.toml", "aggregated", func(p *plan.Plan) { p.Kubernetes.Graph = "v1" }, "unknown version of DynamoGraphDeployment"},
		"an unknown engine":  {"cluster.toml", "aggregated", func(p *plan.Plan) { p.Kubernetes.Pods.Backend = "mocker" }, `unknown backendFramework "mocker"`},
		"no version":         {"small.toml", "mocker", func(p *plan.Plan) { p.Kubernetes.Pods.RuntimeVersion = "" }, `the tag of the image "registry.example/dynamo:nightly" has no version`},
		"a version of two":   {"small.toml", "mocker", func(p *plan.Plan) { p.Kubernetes.Pods.RuntimeVersion = "1.6" }, `the version of Dynamo "1.6" is not MAJOR.MINOR.PATCH`},
		"a variable twice":   {"cluster.toml", "aggregated", func(p *plan.Plan) { p.Env = append(p.Env, p.Env[0]) }, "the variable NCCL_DEBUG is there twice"},
		"two mounts":         {"cluster.toml", "vllm", func(p *plan.Plan) { p.Kubernetes.ModelCache.Path = "/dev/shm" }, "two volumes are mounted at /dev/shm"},
		"a port":             {"cluster.toml", "vllm", func(p *plan.Plan) { p.Ports[0].Base = 0 }, "the port 0 is outside 1-65535"},
		"no client":          {"cluster.toml", "vllm", func(p *plan.Plan) { p.Kubernetes.ClientImage = "" }, "it has no image"},
		"memory in words":    {"old.toml", "vllm", func(p *plan.Plan) { p.Kubernetes.Pods.ClientMemory = "much" }, `memory "much" is no quantity`},
		"no time":            {"cluster.toml", "vllm", func(p *plan.Plan) { p.Kubernetes.Ready = 0 }, "the time to become ready is 0 s"},
		"a long argument":    {"cluster.toml", "vllm", func(p *plan.Plan) { p.Roles[0].Step.Argv[1] = plan.Text(strings.Repeat("x", 1<<17)) }, "one argument has 131072 bytes"},
		"profllm in a pod":   {"cluster.toml", "vllm", func(p *plan.Plan) { p.Roles[0].Step.Argv[0] = plan.Self() }, "no pod has profllm itself"},
		"an unknown role":    {"cluster.toml", "vllm", func(p *plan.Plan) { p.Roles[0].Step.Argv[1] = plan.Word{plan.Addr("router")} }, `there is no role "router"`},
		"an unknown port":    {"cluster.toml", "vllm", func(p *plan.Plan) { p.Roles[0].Step.Argv[1] = plan.Word{plan.PortNumber("x")} }, `there is no port "x"`},
		"a load elsewhere":   {"cluster.toml", "vllm", func(p *plan.Plan) { p.Loads[0].Dir = "/runs/other" }, "is outside of the run"},
		"nobody who answers": {"cluster.toml", "aggregated", func(p *plan.Plan) { role(p, "frontend").Router = false }, `a graph has no component of type "frontend"`},
		"the namespace":      {"cluster.toml", "vllm", func(p *plan.Plan) { p.Kubernetes.Namespace = "A" }, `the namespace "A" is no name of a namespace`},
		"a label":            {"cluster.toml", "vllm", func(p *plan.Plan) { p.RunID = strings.Repeat("r", 64) }, "the label profllm.io/run is"},
	} {
		t.Run(name, func(t *testing.T) {
			p := one(t, c.system, c.scenario)
			c.spoil(p)
			_, err := manifest.Render(p)
			require.ErrorContains(t, err, c.want)
		})
	}
}
