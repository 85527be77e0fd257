package plan

import (
	"path"
	"slices"
	"time"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/source"
)

// helper is [helpers.NAME]: a process beside the servers, such as a cache server. It starts
// before them, and they wait until it listens.
type helper struct {
	// Program and arguments; ${addr:ROLE}, ${port:PORT} and ${path:FILE} are filled in.
	Command []string `toml:"command,required"`
	// Base of the port at which it is waited for; its name is the helper's.
	Port int `toml:"port,required"`
	// Further ports, base by name; store's port "http" is called store_http.
	Ports *source.Table `toml:"ports"`
	// Path that answers an HTTP GET once it is ready; default: the port takes connections.
	Health string `toml:"health"`
	// Run one on every node of the job; default: on the first.
	EveryNode bool `toml:"every_node"`
	// Run in the container of the servers; default true.
	Container   *bool `toml:"container"`
	WaitSeconds *int  `toml:"wait_seconds"` // Time to become ready; default 300.
}

// helperWait is how long a helper may take to become ready, as servers may by default.
const helperWait = 300 * time.Second

var helperName = lazyregexp.New(`^[a-z][a-z0-9_]*$`)

// beside adds what a test has beside its servers.
func (p *Plan) beside(in Input) error {
	var c source.Complaints
	c.Add(p.helpers(in))
	c.Add(p.files(in.Test.Files))
	return c.Err()
}

// helpers puts the helpers before the roles, in the order of the file.
func (p *Plan) helpers(in Input) error {
	var c source.Complaints
	t := in.Test.Helpers
	if len(t.Keys()) > 0 && len(p.Roles) == 0 {
		return source.Errorf(t.Pos, "helpers stand beside servers, and a %s has none", p.Workload).Hintf("remove helpers")
	}
	var roles []Role
	for _, name := range t.Keys() {
		v := t.Get(name)
		table, ok := v.Any.(*source.Table)
		switch {
		case !helperName.MatchString(name):
			c.Add(source.Errorf(t.KeyPos(name), "helpers: %q cannot name a helper", name).
				Hintf("use small letters, digits and _"))
		case p.Role(name) != nil || name == "nodes" || name == "bench":
			c.Add(source.Errorf(t.KeyPos(name), "helpers.%s: the test has a role or a step of that name", name))
		case !ok:
			c.Add(source.Errorf(v.Pos, "helpers.%s must be a table with command and port, not %s", name, v.Describe()))
		default:
			r, err := p.helper(in, name, table)
			c.Add(err)
			roles = append(roles, r)
		}
	}
	p.Roles = append(roles, p.Roles...)
	return c.Err()
}

// helper reads one of them, and adds its ports.
func (p *Plan) helper(in Input, name string, t *source.Table) (Role, error) {
	var h helper
	var c source.Complaints
	if err := source.Decode(t, &h); err != nil {
		return Role{}, err
	}
	nodes, wait := Slice{0, 1}, helperWait
	if h.EveryNode {
		nodes.Count = p.Job.Nodes
	}
	if h.WaitSeconds != nil {
		if wait = time.Duration(*h.WaitSeconds) * time.Second; wait <= 0 {
			c.Addf(t.PosOf("wait_seconds"), "helpers.%s.wait_seconds is %d, must be 1 or more", name, *h.WaitSeconds)
		}
	}
	if h.Health != "" && h.Health[0] != '/' {
		c.Add(source.Errorf(t.PosOf("health"), "helpers.%s.health %q must begin with a slash", name, h.Health))
	}
	if len(h.Command) == 0 {
		c.Addf(t.PosOf("command"), "helpers.%s.command is empty", name)
	}
	added := []Port{{Name: name, Base: h.Port, Step: 1, Count: 1, Role: name}}
	for _, key := range h.Ports.Keys() {
		base, ok := h.Ports.Get(key).Int()
		if !ok || !helperName.MatchString(key) {
			c.Add(source.Errorf(h.Ports.PosOf(key), "helpers.%s.ports.%s must be the number of a port", name, key).
				Hintf("write ports = { http = 8080 }"))
			continue
		}
		added = append(added, Port{Name: name + "_" + key, Base: int(base), Step: 1, Count: 1, Role: name})
	}
	for _, port := range added {
		if most := 65535 - Slots; port.Base < 1024 || port.Base > most {
			c.Addf(t.PosOf("port"), "helpers.%s: port %s is %d, must be 1024 to %d: profllm adds the slot of the job", name,
				port.Name, port.Base, most)
		}
	}
	if slices.ContainsFunc(added, func(port Port) bool { _, taken := p.PortNamed(port.Name); return taken }) {
		c.Addf(t.Pos, "helpers.%s: the test has a port of that name", name)
	}
	p.Ports = append(p.Ports, added...)
	contained := (h.Container == nil || *h.Container) && !in.Simulated
	return Role{
		Name: name, Nodes: nodes, Helper: true, Health: Endpoint{Port: name, Path: h.Health}, Timeout: Seconds(wait),
		Step: Step{Name: name, Nodes: nodes, Container: contained, Argv: h.argv(in.Simulated, added),
			Log: path.Join("logs", name+"-%t.log"), Env: []Var{{Name: RoleVar, Value: Text(name)}}},
	}, c.Err()
}

// argv is the command; in a rehearsal a stand-in that listens at its ports.
func (h *helper) argv(simulated bool, ports []Port) []Word {
	names := make([]string, len(ports))
	for i, port := range ports {
		names[i] = port.Name
	}
	return Cluster{Simulated: simulated}.Helper(Texts(h.Command...), names...)
}

// Helper is the command of a process beside the servers; in a simulated run that of a stand-in that
// listens at its ports.
func (c Cluster) Helper(command []Word, ports ...string) []Word {
	if !c.Simulated {
		return command
	}
	argv := append([]Word{Self()}, Texts("sim", "helper")...)
	for _, name := range ports {
		argv = append(argv, Text("--port"), Word{PortNumber(name)})
	}
	return append(append(argv, Text("--")), command...)
}
