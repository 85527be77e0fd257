package dynamo

import (
	"fmt"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/source"
)

// bases is [cmd_args.dynamo.ports]. The ports of one node lie plan.Slots apart, since every port
// moves with the job's slot; the defaults leave room for maxWorkers of each role.
type bases struct {
	System      int `toml:"system"`       // Health and metrics of a worker; default 15000.
	NIXL        int `toml:"nixl"`         // NIXL's side channel; default 18300.
	Events      int `toml:"events"`       // KV events; default 21600.
	Bootstrap   int `toml:"bootstrap"`    // Where decode finds prefill, of SGLang and the mocker; default 24900.
	Meet        int `toml:"meet"`         // Where the processes of a worker over several nodes meet; default 28200.
	KVBMPub     int `toml:"kvbm_pub"`     // KVBM's leader, which no worker with a bootstrap port has; default 24900.
	KVBMAck     int `toml:"kvbm_ack"`     // Answers to it; default 11700.
	KVBMMetrics int `toml:"kvbm_metrics"` // KVBM's counters; default 6880.
}

// readBases reads the bases of the workers' ports.
func (w *Workload) readBases(c *source.Complaints) {
	w.bases = bases{System: 15000, NIXL: 18300, Events: 21600, Bootstrap: 24900, Meet: 28200, KVBMPub: 24900,
		KVBMAck: 11700, KVBMMetrics: 6880}
	if w.service.Ports == nil {
		return
	}
	t := decode(w.service.Ports, &w.bases, c)
	for _, key := range t.Keys() {
		if n, ok := intOf(t.Get(key)); ok && !usable(n) {
			c.Add(badPort(t, key, n))
		}
	}
}

// nameKeys says of each port which key sets its base, and where, so that a complaint can name it.
// Ports that nobody wrote a key for name none, unless no port has one.
func (w *Workload) nameKeys(s *plan.Service) {
	for i := range s.Ports {
		p := &s.Ports[i]
		table, key, label := w.table, "", "dynamo."
		switch p.Name {
		case frontend:
			key = "port"
		case etcd, "etcd_peer":
			key = "etcd_port"
		case nats, "nats_monitor":
			key = "nats_port"
		case exporterName:
			table, key, label = w.service.Exporter, "port", "dynamo.dcgm_exporter."
		default:
			if table, label = spelled(w.service.Ports, nil), "dynamo.ports."; w.service.Ports == nil {
				continue
			}
			key = "system"
			for _, k := range source.Fields(w.bases) {
				if strings.HasSuffix(p.Name, "_"+k) || strings.Contains(p.Name, "_"+k+"_") {
					key = k
				}
			}
		}
		if table.Has(key) {
			p.Key, p.Pos = label+key, table.PosOf(key)
		}
	}
}

// idlePorts notes bases of ports that no process of this test has.
func (w *Workload) idlePorts(s *plan.Service) {
	if w.service.Ports == nil {
		return
	}
	t := spelled(w.service.Ports, nil)
	for _, key := range t.Keys() {
		end := "_" + key
		if key == "system" || slices.ContainsFunc(s.Ports, func(p plan.Port) bool {
			return strings.HasSuffix(p.Name, end) || strings.Contains(p.Name, end+"_")
		}) {
			continue
		}
		w.note(t.PosOf(key), "ports.%s has no effect: no process of this test has such a port", key)
	}
}

func usable(port int) bool { return port >= 1024 && port <= 65535 }

func badPort(t *source.Table, key string, n int) error {
	return source.Errorf(t.PosOf(key), "%s is %d, must be 1024 to 65535", key, n).Hintf("leave it out for the default")
}

// checkPorts refuses bases of ports that no process of a user can listen on.
func (w *Workload) checkPorts(c *source.Complaints) {
	for _, x := range []struct {
		table *source.Table
		key   string
		base  int
	}{
		{w.table, "port", w.service.Port}, {w.table, "etcd_port", w.service.EtcdPort},
		{w.table, "nats_port", w.service.NATSPort}, {w.service.Exporter, "port", w.exporter.Port},
	} {
		if !usable(x.base) {
			c.Add(badPort(x.table, x.key, x.base))
		}
	}
}

// port is a port of a worker. Those of the workers of one node lie apart.
func (i instance) port(name string, base, count int) plan.Port {
	return plan.Port{Name: name, Base: base + i.place*plan.Slots, Step: 1, Count: count, Role: i.name}
}

// vllmEnv are the variables that tell a worker of vLLM the ports that it shares with nobody.
func (w *Workload) vllmEnv(s *plan.Service, one instance) []plan.Var {
	side := one.port(one.name+"_nixl", w.bases.NIXL, min(one.role.tp*one.role.dp, plan.Slots)) // one for each rank
	events := one.port(one.name+"_events", w.bases.Events, w.ranks(one.role))                  // as many as DP ranks
	s.Ports = append(s.Ports, side, events)
	return []plan.Var{
		{Name: "VLLM_NIXL_SIDE_CHANNEL_HOST", Value: plan.Word{plan.Addr(one.name)}},
		{Name: "VLLM_NIXL_SIDE_CHANNEL_PORT", Value: plan.Word{plan.PortNumber(side.Name)}},
		{Name: "DYN_VLLM_KV_EVENT_PORT", Value: plan.Word{plan.PortNumber(events.Name)}},
	}
}

// bootstrap is the option by which a worker of prefill is found, where the backend has one.
func (w *Workload) bootstrap(s *plan.Service, one instance) []plan.Word {
	if one.role.kind != prefill || w.backend.bootstrap == "" {
		return nil
	}
	base := w.bases.Bootstrap
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
