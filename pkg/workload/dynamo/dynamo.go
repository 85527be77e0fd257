// Package dynamo turns a test of NVIDIA Dynamo into roles: workers, aggregated or apart as prefill
// and decode, the frontend that routes to them, and the services by which they find each other.
//
// It writes commands for the version that the test declares, and decides places, ports and
// readiness. It measures nothing and knows no scheduler.
package dynamo

import (
	"cmp"
	"path"
	"slices"
	"time"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
)

// Template is the value of test_template_name.
const Template = "AIDynamo"

// Workload is a decoded test.
type Workload struct {
	cfg             Config
	service         service
	backend         *backend
	prefill, decode role
	written         *source.Table // the whole test
	args            *source.Table // cmd_args
	table           *source.Table // of the service
	env             *source.Table // extra_env_vars
	allocated       int           // nodes
	front           plan.Slice    // node of the frontend
	frugal          bool          // others use the GPUs too: a worker takes no more than it needs
	noCount         bool          // nobody says how many GPUs a node has
	controller      controller
	exporter        exporter
	bases           bases // of the workers' ports
	anyOrder        bool  // of the tensor parallel sizes of the roles
	notes           []string
}

// New decodes the test's cmd_args. needImage is false where steps run without a
// container.
func New(t scenario.Test, needImage bool) (plan.Workload, error) { return read(t, needImage) }

func read(t scenario.Test, needImage bool) (*Workload, error) {
	var c source.Complaints
	w := &Workload{written: t.Table, env: t.Env}
	c.Add(source.Decode(t.CmdArgs, &w.cfg))
	w.args = t.CmdArgs
	if w.cfg.Dynamo == nil {
		return w, c.Err()
	}
	w.table = decode(w.cfg.Dynamo, &w.service, &c)
	w.service.defaults(w.cfg.DockerImageURL)
	w.checkModel(&c)
	w.checkVersion(&c)
	if w.backend = backends[w.service.Backend]; w.backend == nil {
		c.Add(source.Errorf(w.table.PosOf("backend"), "unknown backend %q", w.service.Backend).
			Hintf("%s", source.Suggest(w.service.Backend, names(backends))))
		return w, c.Err()
	}
	if w.cfg.DockerImageURL == "" && needImage {
		c.Add(source.Errorf(w.args.Pos, "cmd_args.docker_image_url is required").
			Hintf("name the image, or set launcher = \"bare\" to run without a container"))
	}
	w.prefill = w.readRole(prefill, w.service.Prefill, &c)
	kind := decodeRole
	if w.prefill.nodes == 0 {
		kind = aggregated
	}
	w.decode = w.readRole(kind, w.service.Decode, &c)
	w.checkPlanes(&c)
	w.checkCommands(&c)
	w.checkConnectors(&c)
	w.checkValues(&c)
	w.checkCaches(&c)
	w.checkExporter(&c)
	w.checkWait(&c)
	w.readBases(&c)
	w.checkConstraints(t.Constraints, &c)
	for _, key := range t.ExtraCmdArgs.Keys() {
		c.Add(source.Errorf(t.ExtraCmdArgs.PosOf(key), "extra_cmd_args.%s has no effect on a test of Dynamo", key).
			Hintf("write options of workers in their args, of the frontend in ingress_cmd, of the client in aiperf.args"))
	}
	w.noEffect()
	w.noteEvents()
	w.noteHandoffs(t)
	return w, c.Err()
}

func names[V any](m map[string]V) []string {
	var list []string
	for name := range m {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// Serve implements plan.Workload.
func (w *Workload) Serve(cl plan.Cluster) (plan.Service, error) {
	var c source.Complaints
	for _, e := range w.notYet() {
		c.Add(e)
	}
	w.checkPorts(&c)
	if c.Err() != nil {
		return plan.Service{}, c.Err()
	}
	w.allocated = cl.Nodes
	list, err := w.place(cl)
	if err != nil {
		return plan.Service{}, err
	}
	s := plan.Service{
		Image: w.cfg.DockerImageURL, Model: w.service.Model, Disaggregated: w.prefill.nodes > 0,
		Config: map[string]any{}, SimulatedEngine: w.backend.noGPU,
		ClientNodes: plan.Slice{Offset: 0, Count: 1},
		Endpoint:    plan.Endpoint{Port: frontend}, EndpointRole: frontend,
	}
	if err := w.placeFrontend(cl.Nodes, list); err != nil {
		return s, err
	}
	if note := w.idle(cl.Nodes, list); note != "" {
		w.notes = append(w.notes, note)
	}
	w.addOrder(&s, cl)
	w.addSetup(&s, cl)
	planes := w.planes(cl)
	w.addControl(&s, cl, planes)
	w.addExporter(&s, cl)
	if err := w.addCaches(&s, cl); err != nil {
		return s, err
	}
	for _, one := range list {
		if err := w.addWorker(&s, one, cl, planes); err != nil {
			return s, err
		}
	}
	err = w.addFrontend(&s, list, planes, cl)
	s.Config[frontend] = w.settings(planes)
	w.nameKeys(&s)
	w.idlePorts(&s)
	s.MetricsURLs = w.metricsURLs(list)
	w.noteRehearsal(cl)
	s.Notes = w.notes
	return s, err
}

// settings are what the record says of the service beside its workers.
func (w *Workload) settings(p planes) map[string]any {
	m := map[string]any{"backend": w.service.Backend, "version": w.service.Version, "ingress_cmd": w.service.Ingress,
		"discovery": p.discovery, "request_plane": p.request, "event_plane": p.event}
	if w.cfg.LMCache != nil {
		m["lmcache"] = w.cfg.LMCache.Plain()
	}
	if w.cfg.HiCache != nil {
		m["hicache"] = w.cfg.HiCache.Plain()
	}
	return m
}

// settings are the options of a role's workers, and what else tells them apart.
func (r *role) settings() map[string]any {
	m := r.args.Plain()
	for key, v := range map[string]*source.Value{"extra_args": r.Extra,
		"workers_per_node": r.table.Get("workers_per_node"), "cmd": r.table.Get("cmd")} {
		if v != nil {
			m[key] = v.Plain()
		}
	}
	return m
}

// metricsURLs are the pages of counters: the frontend's, those of the workers, and those of the
// exporters of their nodes.
func (w *Workload) metricsURLs(list []instance) []plan.Word {
	page := func(role, port string) plan.Word {
		return plan.Concat("http://", plan.Addr(role), ":", plan.PortNumber(port), "/metrics")
	}
	urls := []plan.Word{page(frontend, frontend)}
	for _, one := range list {
		urls = append(urls, page(one.name, one.name))
		if w.kvbm(one.role) && w.kvbmMeasured() {
			urls = append(urls, page(one.name, one.kvbmMetrics()))
		}
	}
	if !w.exporter.Enabled {
		return urls
	}
	seen := map[int]bool{}
	for _, one := range list {
		for node := one.nodes.Offset; node < one.nodes.End(); node++ { // the exporter's nodes are all
			if !seen[node] {
				seen[node] = true
				urls = append(urls, plan.Concat("http://", plan.AddrOf(exporterName, node), ":", plan.PortNumber(exporterName),
					"/metrics"))
			}
		}
	}
	return urls
}

// wait is how long the workers have to become ready.
func (w *Workload) wait() plan.Seconds {
	if n := w.service.WaitSeconds; n != nil {
		return plan.Seconds(time.Duration(*n) * time.Second)
	}
	return plan.Seconds(defaultWait * time.Second)
}

// longestWait is far above what any service needs, s: 30 days.
const longestWait = 30 * 24 * 3600

// checkWait refuses a time in which nothing could become ready.
func (w *Workload) checkWait(c *source.Complaints) {
	if n := w.service.WaitSeconds; n != nil && (*n < 1 || *n > longestWait) {
		c.Add(source.Errorf(w.table.PosOf("serve_wait_seconds"), "serve_wait_seconds is %d, must be 1 to %d", *n,
			longestWait).Hintf("leave it out for %d", defaultWait))
	}
}

// addWorker adds a role that runs one worker.
func (w *Workload) addWorker(s *plan.Service, one instance, cl plan.Cluster, planes planes) error {
	r := one.role
	argv, err := w.workerCommand(r)
	if err != nil {
		return err
	}
	for _, option := range w.backend.model {
		argv = append(argv, plan.Texts(option, w.service.Model)...)
	}
	s.Ports = append(s.Ports, one.port(one.name, w.bases.System, 1))
	env := []plan.Var{ // what differs between workers comes first, so that the script says the rest once
		{Name: "PROFLLM_ROLE", Value: plan.Text(one.name)},
		{Name: "DYN_SYSTEM_PORT", Value: plan.Word{plan.PortNumber(one.name)}},
	}
	if w.service.Backend == "vllm" {
		env = append(env, w.vllmEnv(s, one)...)
	}
	w.sglangEvents(s, one)
	if !w.backend.noGPU {
		env = append(env, plan.Var{Name: "CUDA_VISIBLE_DEVICES", Value: plan.Text(plan.FormatGPUs(one.gpus))})
	}
	enabled := []plan.Var{{Name: "DYN_SYSTEM_ENABLED", Value: plan.Text("true")}} // before the port alone did it
	env = slices.Concat(env, enabled,
		planes.env(), w.cacheEnv(cl), w.kvbmEnv(s, one, cl))
	argv = slices.Concat(argv, w.backend.role(&w.service, r.kind), w.options(r), w.wideOptions(r), w.transfer(r),
		w.cacheArgs(cl), r.extra, w.bootstrap(s, one), w.ownPort(s, one), w.events(one))
	argv = w.eventPorts(s, one, argv)
	argv = w.overNodes(s, one, w.localized(cl, cl.Program(argv)))
	out := plan.Role{
		Name: one.name, Replica: one.index, Nodes: one.nodes, GPUs: one.gpus, Engine: true, Timeout: w.wait(),
		Health: plan.Endpoint{Port: one.name, Path: "/health", Serves: "generate"},
		Step: plan.Step{Name: one.name, Nodes: one.nodes, Container: true, Env: env, Argv: argv,
			Log: path.Join("logs", one.name+"-%t.log")},
	}
	if one.name != r.kind {
		out.Kind = r.kind
	}
	if !w.backend.noGPU {
		out.TP, out.PP, out.DP = r.tp, r.pp, r.dp
	}
	if r.span > 1 {
		out.Executor = w.executor(r)
	}
	s.Config[r.kind] = r.settings()
	s.Roles = append(s.Roles, out)
	return nil
}

// frontend is the role that clients ask.
const frontend = "frontend"

// addFrontend adds what routes requests to the workers. It is ready once every worker has
// registered there.
func (w *Workload) addFrontend(s *plan.Service, list []instance, planes planes, cl plan.Cluster) error {
	argv, err := w.command(w.service.Ingress, w.table.PosOf("ingress_cmd"), "python3", "-m", "dynamo.frontend")
	if err != nil {
		return err
	}
	argv = cl.Program(append(argv, plan.Text("--http-port"), plan.Word{plan.PortNumber(frontend)}))
	expect := map[string]int{}
	for _, one := range list {
		expect[component(one.role.kind)] += w.registers(one.role)
	}
	s.Ports = append(s.Ports, plan.Port{Name: frontend, Base: w.service.Port, Step: 1, Count: 1, Role: frontend})
	s.Roles = append(s.Roles, plan.Role{
		Name: frontend, Nodes: w.front, Router: true, Timeout: w.wait(),
		Health: plan.Endpoint{Port: frontend, Path: "/health", Instances: expect,
			Model: w.service.Model},
		Step: plan.Step{Name: frontend, Nodes: w.front, Container: true, Argv: argv, Log: "logs/frontend-%t.log",
			Env: append([]plan.Var{{Name: "PROFLLM_ROLE", Value: plan.Text(frontend)}}, planes.env()...)},
	})
	return nil
}

// registers is how many instances a worker of a role registers.
func (w *Workload) registers(r *role) int {
	if n, ok := intOf(r.args.Get(w.backend.registers)); ok {
		return max(n, 1)
	}
	return 1
}

// Model is what a test serves.
func Model(t scenario.Test) string {
	service := t.CmdArgs.Table("dynamo")
	model, _ := service.Get("model").Text()
	return cmp.Or(model, defaultModel)
}
