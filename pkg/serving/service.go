package serving

import (
	"path"

	"github.com/profllm/profllm/pkg/plan"
)

// Service is a service without roles yet.
func (s *Test) Service(model string) plan.Service {
	return plan.Service{
		Image: s.DockerImageURL, Model: model, Served: s.served, EngineVersion: s.EngineVersion, Disaggregated: s.Disaggregated(),
		ClientHost: s.BenchHost, ClientNodes: plan.Slice{Offset: 0, Count: 1}, Config: map[string]any{}, Notes: s.Notes,
	}
}

// PortOf is where an instance serves. Instances on different nodes have the same
// port; those that share one lie behind each other.
func (s *Test) PortOf(one Instance) plan.Port {
	port := plan.Port{Name: one.Name, Base: s.Port, Step: 1, Count: 1, Role: one.Name}
	if s.Disaggregated() || one.Balanced {
		port.Base += (one.Order+1)*stride + one.Place*2*stride
	}
	return port
}

// AddServer adds the role of an instance. The part of argv before inner is ours.
func (s *Test) AddServer(to *plan.Service, one Instance, argv []plan.Word, inner int, env ...plan.Var) {
	env = append([]plan.Var{
		{Name: plan.RoleVar, Value: plan.Text(one.Name)},
		{Name: "CUDA_VISIBLE_DEVICES", Value: plan.Text(plan.FormatGPUs(one.GPUs))},
	}, env...)
	if one.Nodes.Count == 1 {
		env = append(env, plan.Var{Name: s.engine.HostIP, Value: plan.Word{plan.Addr(one.Name)}})
	}
	r := plan.Role{
		Name: one.Name, Replica: one.Replica, Nodes: one.Nodes, GPUs: one.GPUs, Engine: true,
		Health: plan.Endpoint{Port: one.Name, Path: s.health()}, Timeout: plan.Seconds(s.Wait), Poll: s.poll(),
		Step: plan.Step{Name: one.Name, Nodes: one.Nodes, Container: true, Env: env, Argv: argv, Inner: inner,
			Log: path.Join("logs", one.Name+"-%t.log")},
	}
	r.TP, r.PP, r.DP = one.Parallel()
	r.Sizes, r.IDs = one.sizes(), one.idsKey()
	switch {
	case one.Balanced:
		r.Kind = single
	case s.Disaggregated() && one.Kind != one.Name:
		r.Kind = one.Kind
	}
	to.Config[r.KindName()] = one.Options.Plain()
	to.Roles = append(to.Roles, r)
	if !s.Disaggregated() {
		to.Endpoint, to.EndpointRole = plan.Endpoint{Port: one.Name}, one.Name
	}
}

// AddProxy adds what stands before prefill and decode, or before several servers, on the node of
// the first.
// Its port is called proxy. What runs outside the container is profllm's own.
func (s *Test) AddProxy(to *plan.Service, first Instance, health string, argv []plan.Word, container bool) {
	node := plan.Slice{Offset: first.Nodes.Offset, Count: 1}
	to.Roles = append(to.Roles, plan.Role{
		Name: "proxy", Nodes: node, Health: plan.Endpoint{Port: "proxy", Path: health}, Timeout: plan.Seconds(s.Wait),
		Poll: s.poll(), Proxy: !container,
		Step: plan.Step{
			Name: "proxy", Nodes: node, Container: container, Log: "logs/proxy-%t.log", Argv: argv,
			Env: []plan.Var{{Name: plan.RoleVar, Value: plan.Text("proxy")}},
		},
	})
	to.Endpoint, to.EndpointRole = plan.Endpoint{Port: "proxy"}, "proxy"
}

// ProxyPort is where the proxy serves.
func (s *Test) ProxyPort(first Instance) plan.Port {
	return plan.Port{Name: "proxy", Base: s.Port, Step: 1, Count: 1, Role: first.Name}
}
