package dynamo

import (
	"path"
	"time"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/source"
)

// planes are how the processes of a service find each other and talk.
type planes struct {
	discovery, request, event string
	spoken                    bool   // the version has a choice, and is told
	simulated                 bool   // stand-ins, which find each other in the folder of "file" whatever is said
	dir                       string // of the run, where files of the control plane are
}

// planesSince is the version from which processes are told how to find each other.
const planesSince = "0.8.0"

// planes chooses what the test leaves open.
func (w *Workload) planes(cl plan.Cluster) planes {
	s := &w.service
	p := planes{discovery: s.Discovery, request: s.RequestPlane, event: s.EventPlane, spoken: !s.before(planesSince),
		dir: cl.Dir, simulated: cl.Simulated}
	old := s.before(zmqEvents)
	if p.discovery == "" {
		if p.discovery = "file"; cl.Nodes > 1 || old {
			p.discovery = "etcd"
		}
	}
	if p.request == "" {
		if p.request = "tcp"; !p.spoken {
			p.request = "nats"
		}
	}
	if p.event == "" {
		if p.event = "zmq"; old {
			p.event = "nats"
		}
	}
	return p
}

// checkPlanes refuses a plane that Dynamo does not have.
func (w *Workload) checkPlanes(c *source.Complaints) {
	s := &w.service
	if s.before(planesSince) {
		for _, key := range []string{"discovery", "request_plane", "event_plane"} {
			if w.table.Has(key) {
				c.Add(source.Errorf(w.table.PosOf(key), "Dynamo %s has no choice of %s", s.Version, key).Hintf("remove it"))
			}
		}
	}
	for _, x := range []struct {
		key, value string
		known      []string
	}{
		{"discovery", s.Discovery, []string{"etcd", "file"}},
		{"request_plane", s.RequestPlane, []string{"tcp", "nats"}},
		{"event_plane", s.EventPlane, []string{"zmq", "nats"}},
	} {
		if x.value != "" && x.value != x.known[0] && x.value != x.known[1] {
			c.Add(source.Errorf(w.table.PosOf(x.key), "unknown %s %q", x.key, x.value).
				Hintf("%s", source.Suggest(x.value, x.known)))
		}
	}
}

// nats reports whether a plane goes through NATS.
func (p planes) nats() bool { return p.request == "nats" || p.event == "nats" }

// env tells a process how to find the others.
func (p planes) env() []plan.Var {
	var env []plan.Var
	if p.spoken {
		env = append(env, plan.Var{Name: "DYN_DISCOVERY_BACKEND", Value: plan.Text(p.discovery)},
			plan.Var{Name: "DYN_REQUEST_PLANE", Value: plan.Text(p.request)},
			plan.Var{Name: "DYN_EVENT_PLANE", Value: plan.Text(p.event)})
	}
	if p.discovery == "file" || p.simulated {
		env = append(env, plan.Var{Name: "DYN_FILE_KV", Value: plan.Text(path.Join(p.dir, "discovery"))})
	}
	if p.discovery != "file" {
		env = append(env, plan.Var{Name: "ETCD_ENDPOINTS",
			Value: plan.Concat("http://", plan.Addr(etcd), ":", plan.PortNumber(etcd))})
	}
	if p.nats() {
		env = append(env, plan.Var{Name: "NATS_SERVER",
			Value: plan.Concat("nats://", plan.Addr(nats), ":", plan.PortNumber(nats))})
	}
	return env
}

// controlWait is how long etcd and NATS may take to start.
const controlWait = time.Minute

// Names of the roles of the control plane.
const (
	etcd = "etcd"
	nats = "nats"
)

// etcdOptions are those that profllm writes.
var etcdOptions = []string{"--name", "--data-dir", "--listen-client-urls", "--advertise-client-urls",
	"--listen-peer-urls", "--initial-advertise-peer-urls", "--initial-cluster"}

// addControl adds etcd and NATS where they are needed, on the first node. The workers start once
// they are ready.
func (w *Workload) addControl(s *plan.Service, cl plan.Cluster, p planes) {
	first := plan.Slice{Offset: 0, Count: 1}
	helper := func(name, health string, port string, argv []plan.Word) {
		s.Roles = append(s.Roles, plan.Role{
			Name: name, Nodes: first, Helper: true, Timeout: plan.Seconds(controlWait),
			Health: plan.Endpoint{Port: port, Path: health},
			Step: plan.Step{Name: name, Nodes: first, Container: true, Argv: argv, Log: path.Join("logs", name+"-%t.log"),
				Env: []plan.Var{{Name: "PROFLLM_ROLE", Value: plan.Text(name)}}},
		})
	}
	port := func(name, role string, base int) plan.Word {
		s.Ports = append(s.Ports, plan.Port{Name: name, Base: base, Step: 1, Count: 1, Role: role})
		return plan.Word{plan.PortNumber(name)}
	}
	if p.discovery == etcd {
		command, _ := words(w.service.EtcdCmd, source.Pos{}) // checkCommands complained
		client, peer := port(etcd, etcd, w.service.EtcdPort), port("etcd_peer", etcd, w.service.EtcdPort+plan.Slots)
		argv := append(plan.Texts(withoutOption(command, etcdOptions...)...),
			plan.Text("--data-dir"), plan.Text(path.Join(p.dir, etcd)),
			plan.Text("--listen-client-urls"), plan.Concat("http://0.0.0.0:", client),
			plan.Text("--advertise-client-urls"), plan.Concat("http://", plan.Addr(etcd), ":", client),
			plan.Text("--listen-peer-urls"), plan.Concat("http://127.0.0.1:", peer),
			plan.Text("--initial-advertise-peer-urls"), plan.Concat("http://127.0.0.1:", peer),
			plan.Text("--initial-cluster"), plan.Concat("default=http://127.0.0.1:", peer))
		helper(etcd, "/health", etcd, cl.Helper(argv, etcd, "etcd_peer"))
	}
	if p.nats() {
		command, _ := words(w.service.NATSCmd, source.Pos{})
		client, monitor := port(nats, nats, w.service.NATSPort), port("nats_monitor", nats, w.service.NATSPort+4000)
		argv := append(plan.Texts(command...), plan.Text("-p"), client, plan.Text("-m"), monitor,
			plan.Text("-sd"), plan.Text(path.Join(p.dir, nats)))
		helper(nats, "/healthz", "nats_monitor", cl.Helper(argv, nats, "nats_monitor"))
	}
}
