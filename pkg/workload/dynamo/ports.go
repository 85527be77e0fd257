package dynamo

import (
	"fmt"
	"strings"

	"github.com/profllm/profllm/pkg/plan"
)

// Bases of the ports of workers. Those of one node lie plan.Slots apart, since every port moves
// with the job's slot, and there is room for maxWorkers of each role.
const (
	systemPort    = 15000 // health and metrics of a worker
	nixlPort      = 18300 // NIXL's side channel
	eventPort     = 21600 // KV events
	bootstrapPort = 24900 // where decode finds prefill, of SGLang and the mocker
)

// port is a port of a worker. Those of the workers of one node lie apart.
func (i instance) port(name string, base, count int) plan.Port {
	return plan.Port{Name: name, Base: base + i.place*plan.Slots, Step: 1, Count: count, Role: i.name}
}

// vllmEnv are the variables that tell a worker of vLLM the ports that it shares with nobody.
func vllmEnv(s *plan.Service, one instance) []plan.Var {
	side, events := one.port(one.name+"_nixl", nixlPort, one.role.tp), one.port(one.name+"_events", eventPort, 1)
	s.Ports = append(s.Ports, side, events)
	return []plan.Var{
		{Name: "VLLM_NIXL_SIDE_CHANNEL_HOST", Value: plan.Word{plan.Addr(one.name)}},
		{Name: "VLLM_NIXL_SIDE_CHANNEL_PORT", Value: plan.Word{plan.PortNumber(side.Name)}},
		{Name: "DYN_VLLM_KV_EVENT_PORT", Value: plan.Word{plan.PortNumber(events.Name)}},
	}
}

// events is the option by which a worker of vLLM publishes what its cache holds, for a router that
// asks. Since 1.0 nothing else makes it do so.
func (w *Workload) events(one instance) []plan.Word {
	r := one.role
	if w.service.Backend != "vllm" || w.service.before(modes) || r.kind == decodeRole || r.args.Has("kv_events_config") ||
		hasOption(r.extra, "--kv-events-config") || !strings.Contains(w.service.Ingress, "--router-mode kv") {
		return nil
	}
	return []plan.Word{plan.Text("--kv-events-config"), plan.Concat(`{"publisher":"zmq","topic":"kv-events",`+
		`"endpoint":"tcp://*:`, plan.PortNumber(one.name+"_events"), `","enable_kv_cache_events":true}`)}
}

// bootstrap is the option by which a worker of prefill is found, where the backend has one.
func (w *Workload) bootstrap(s *plan.Service, one instance) []plan.Word {
	if one.role.kind != prefill || w.backend.bootstrap == "" {
		return nil
	}
	base := bootstrapPort
	if n, ok := intOf(one.role.args.Get(w.backend.bootstrap)); ok {
		base = n
	}
	var ports plan.Word
	for k := range w.registers(one.role) {
		name := one.name + "_bootstrap"
		if k > 0 {
			name += fmt.Sprint("_", k)
		}
		port := one.port(name, base+k*maxWorkers*plan.Slots, 1)
		s.Ports = append(s.Ports, port)
		if k > 0 {
			ports = plan.Concat(ports, ",")
		}
		ports = plan.Concat(ports, plan.PortNumber(name))
	}
	return []plan.Word{plan.Text("--" + strings.ReplaceAll(w.backend.bootstrap, "_", "-")), ports}
}

// ownPort is the option with a port that no two workers of a node can share, if the test names one.
func (w *Workload) ownPort(s *plan.Service, one instance) []plan.Word {
	base, ok := intOf(one.role.args.Get(w.backend.port))
	if !ok {
		return nil
	}
	port := one.port(one.name+"_own", base, 1)
	s.Ports = append(s.Ports, port)
	return []plan.Word{plan.Text("--" + w.backend.port), {plan.PortNumber(port.Name)}}
}
