package dynamo

import (
	"path"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/source"
)

// planes are how the processes of a service find each other and talk.
type planes struct {
	discovery, request, event string
	spoken                    bool   // the version has a choice, and is told
	variable                  string // by which it is told where processes find each other
	durable                   bool   // events are kept, by NATS
	simulated                 bool   // stand-ins, which find each other in the folder of "file" whatever is said
	dir                       string // of the run, where files of the control plane are
}

// planesSince is the version from which processes are told how to find each other.
const planesSince = "0.8.0"

// planes chooses what the test leaves open.
func (w *Workload) planes(cl plan.Cluster) planes {
	s := &w.service
	p := planes{discovery: s.Discovery, request: s.RequestPlane, event: s.EventPlane, spoken: !s.before(planesSince),
		dir: cl.Dir, variable: "DYN_DISCOVERY_BACKEND", durable: w.durable(), simulated: cl.Simulated}
	if s.before(modes) {
		p.variable = "DYN_STORE_KV"
	}
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
	requests := []string{"tcp", "nats"}
	if s.before(httpGone) {
		requests = append(requests, "http")
	} else if s.RequestPlane == "http" {
		c.Add(source.Errorf(w.table.PosOf("request_plane"), "Dynamo %s has no request_plane %q: %s was the first known "+
			"without it", s.Version, s.RequestPlane, httpGone).Hintf(`write request_plane = "tcp", or %s`, setVersion))
		requests = append(requests, "http") // said
	}
	for _, x := range []struct {
		key, value string
		known      []string
	}{
		{"discovery", s.Discovery, []string{"etcd", "file"}},
		{"request_plane", s.RequestPlane, requests},
		{"event_plane", s.EventPlane, []string{"zmq", "nats"}},
	} {
		if x.value != "" && !slices.Contains(x.known, x.value) {
			c.Add(source.Errorf(w.table.PosOf(x.key), "unknown %s %q", x.key, x.value).
				Hintf("%s", source.Suggest(x.value, x.known)))
		}
	}
}

// httpGone is the first release known to have no request plane over HTTP; 1.2.1 had it.
const httpGone = "1.3.1"

// nats reports whether a plane goes through NATS, or events are kept there.
func (p planes) nats() bool { return p.request == "nats" || p.event == "nats" || p.durable }

// env tells a process how to find the others.
func (p planes) env() []plan.Var {
	var env []plan.Var
	if p.spoken {
		env = append(env, plan.Var{Name: p.variable, Value: plan.Text(p.discovery)},
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

// natsOptions are those of NATS that profllm writes.
var natsOptions = []string{"-p", "--port", "-m", "--http_port", "-sd", "--store_dir"}

// own is the command of a service without the options that profllm writes, which a note names.
func (w *Workload) own(key, text string, options []string) []string {
	command, _ := words(text, source.Pos{}) // checkCommands complained
	rest := withoutOption(command, options...)
	if w.table.Has(key) && len(rest) < len(command) {
		var left []string
		for _, word := range command {
			if name, _, _ := strings.Cut(word, "="); slices.Contains(options, name) {
				left = append(left, name)
			}
		}
		w.note(w.table.PosOf(key), "%s: %s left out: profllm chooses ports, names and folders", key, strings.Join(left, ", "))
	}
	return rest
}

// idlePlanes notes keys of services that this test does not start.
func (w *Workload) idlePlanes(p planes) {
	for _, x := range []struct {
		starts bool
		keys   []string
		why    string
	}{
		{p.discovery == etcd, []string{"etcd_cmd", "etcd_port"}, "discovery is " + p.discovery + ", so that no etcd starts"},
		{p.nats(), []string{"nats_cmd", "nats_port"}, "requests go by " + p.request + " and events by " + p.event +
			", so that no NATS starts"},
	} {
		for _, key := range x.keys {
			if !x.starts && w.table.Has(key) {
				w.note(w.table.PosOf(key), "%s has no effect: %s", key, x.why)
			}
		}
	}
}

// addControl adds etcd and NATS where they are needed, on the first node. The workers start once
// they are ready.
func (w *Workload) addControl(s *plan.Service, cl plan.Cluster, p planes) {
	w.idlePlanes(p)
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
		command := w.own("etcd_cmd", w.service.EtcdCmd, etcdOptions)
		client, peer := port(etcd, etcd, w.service.EtcdPort), port("etcd_peer", etcd, w.service.EtcdPort+plan.Slots)
		argv := append(plan.Texts(command...),
			plan.Text("--data-dir"), plan.Text(path.Join(p.dir, etcd)),
			plan.Text("--listen-client-urls"), plan.Concat("http://0.0.0.0:", client),
			plan.Text("--advertise-client-urls"), plan.Concat("http://", plan.Addr(etcd), ":", client),
			plan.Text("--listen-peer-urls"), plan.Concat("http://127.0.0.1:", peer),
			plan.Text("--initial-advertise-peer-urls"), plan.Concat("http://127.0.0.1:", peer),
			plan.Text("--initial-cluster"), plan.Concat("default=http://127.0.0.1:", peer))
		helper(etcd, "/health", etcd, cl.Helper(argv, etcd, "etcd_peer"))
	}
	if p.nats() {
		command := w.own("nats_cmd", w.service.NATSCmd, natsOptions)
		client, monitor := port(nats, nats, w.service.NATSPort), port("nats_monitor", nats, w.service.NATSPort+4000)
		argv := append(plan.Texts(command...), plan.Text("-p"), client, plan.Text("-m"), monitor,
			plan.Text("-sd"), plan.Text(path.Join(p.dir, nats)))
		helper(nats, "/healthz", "nats_monitor", cl.Helper(argv, nats, "nats_monitor"))
	}
}
