package dynamo

import (
	"path"
	"slices"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/source"
)

// Ports of pods. Dynamo's operator chooses the first two (its component_frontend.go and
// component_worker.go, 1.5); the third is Dynamo's default of DYN_VLLM_KV_EVENT_PORT.
const (
	podFrontendPort = 8000
	podSystemPort   = 9090
	podEventPort    = 20080
)

// Deploy implements plan.Deployer: the service as a graph of Dynamo's operator, one role for each
// kind of worker, with replicas. The operator sets the names by which the processes find each
// other, their ports, and what watches over them.
func (w *Workload) Deploy(cl plan.Cluster) (plan.Service, error) {
	var c source.Complaints
	for _, e := range w.notYet() {
		c.Add(e)
	}
	w.refusePods(&c)
	c.Add(w.checkTag(cl))
	s := plan.Service{
		Image: w.cfg.DockerImageURL, Model: w.service.Model, Disaggregated: w.prefill.nodes > 0,
		Config: map[string]any{}, SimulatedEngine: w.backend.noGPU,
		ClientNodes: plan.Slice{Count: 1}, Endpoint: plan.Endpoint{Port: frontend}, EndpointRole: frontend,
		Graph: &plan.Graph{API: cl.API, Backend: w.service.Backend},
	}
	switch {
	case w.backend.noGPU:
		s.Graph.Backend = "" // the API has no name of the mocker
	case w.service.Backend == dsr1:
		s.Graph.Backend = "sglang"
	}
	if cl.API == config.V1Beta1 && !tagged.MatchString(s.Image) {
		s.Graph.RuntimeVersion = w.service.Version
	}
	expect := map[string]int{}
	for _, r := range []*role{&w.decode, &w.prefill} {
		if r.nodes == 0 {
			continue
		}
		if err := w.addPods(&s, r, cl); err != nil {
			c.Add(err)
			continue
		}
		expect[component(r.kind)] += w.registers(r) * s.Roles[len(s.Roles)-1].Count()
	}
	c.Add(w.addFrontendPod(&s, expect))
	s.Config[frontend] = map[string]any{"backend": w.service.Backend, "version": w.service.Version,
		"ingress_cmd": w.service.Ingress}
	s.MetricsURLs = podPages(s.Roles)
	w.noEffectOnPods()
	s.Notes = w.notes
	return s, c.Err()
}

// tagged is an image whose tag begins with a version, which is where the operator looks for it.
var tagged = lazyregexp.New(`:v?\d+\.\d+\.\d+[^/]*$`)

// fullVersion is the form that runtimeVersionOverride has.
var fullVersion = lazyregexp.New(`^\d+\.\d+\.\d+$`)

// checkTag refuses an image of which the operator would not know which Dynamo it has.
func (w *Workload) checkTag(cl plan.Cluster) error {
	image := w.cfg.DockerImageURL
	if cl.API != config.V1Beta1 || image == "" || tagged.MatchString(image) {
		return nil
	}
	if !w.table.Has("version") {
		return source.Errorf(w.args.PosOf("docker_image_url"),
			"the tag of %q has no version, and v1beta1 needs Dynamo's", image).
			Hintf("write dynamo.version = %q if the image has that, or name an image by its version", newest)
	}
	if !fullVersion.MatchString(w.service.Version) {
		return source.Errorf(w.table.PosOf("version"),
			"dynamo.version %q: without a version in the image's tag, v1beta1 needs all three numbers",
			w.service.Version).Hintf("write MAJOR.MINOR.PATCH, such as %q", newest)
	}
	return nil
}

// refusePods refuses what a graph has no place for.
func (w *Workload) refusePods(c *source.Complaints) {
	const noFolder = "pods of one run have no folder in common"
	for _, x := range []struct {
		is        bool
		pos       source.Pos
		what, why string
		mend      string
	}{
		{given(w.cfg.StartupCmd), w.args.PosOf("startup_cmd"), "startup_cmd",
			"nothing runs on the nodes before the service",
			"put it into the image"},
		{given(w.service.NodeSetup), w.table.PosOf("node_setup_cmd"), "dynamo.node_setup_cmd",
			"nothing runs on the nodes before the service",
			"put it into the image"},
		{w.exporter.Enabled, w.table.PosOf("dcgm_exporter"), "dynamo.dcgm_exporter",
			"a cluster has an exporter of its own on each node",
			"set enabled = false"},
		{w.cfg.LMCache != nil, w.args.PosOf("lmcache"), "lmcache", noFolder + " for its file",
			"put the file into the image, and write LMCACHE_CONFIG_FILE in extra_env_vars"},
		{w.cfg.HiCache != nil, w.args.PosOf("hicache"), "hicache", noFolder + " for its file",
			"write SGLang's own options in args"},
	} {
		if x.is {
			c.Add(source.Errorf(x.pos, "%s cannot work on Kubernetes: %s", x.what, x.why).Hintf("%s", x.mend))
		}
	}
	for _, r := range []*role{&w.prefill, &w.decode} {
		if len(r.hosts) > 0 {
			c.Add(source.Errorf(r.pos("nodes"), "%s.nodes cannot work on Kubernetes: the cluster chooses nodes",
				r.label()).Hintf("write num_nodes, and node_selector in the system file"))
		}
		if w.kvbm(r) {
			c.Add(source.Errorf(r.connectorPos(w), "the connector kvbm cannot work on Kubernetes: %s for its blocks",
				noFolder).Hintf("write connector = \"nixl\""))
		}
	}
	if w.decode.nodes == 0 {
		c.Add(source.Errorf(w.decode.pos("num_nodes"), "decode_worker.num_nodes is 0: nobody would answer").
			Hintf("set 1 or more; for aggregated serving set prefill_worker.num-nodes = 0"))
	}
}

func given(text *string) bool { return text != nil && *text != "" }

// noEffectOnPods notes keys of places and of the control plane.
func (w *Workload) noEffectOnPods() {
	for _, key := range []string{"etcd_cmd", "etcd_port", "nats_cmd", "nats_port", "discovery"} {
		if w.table.Has(key) {
			w.note(w.table.PosOf(key),
				"%s has no effect on Kubernetes: Dynamo's operator says how processes find each other", key)
		}
	}
	if w.table.Has("ports") {
		w.note(w.table.PosOf("ports"), "ports has no effect on Kubernetes: each pod has an address of its own")
	}
	if w.table.Has("frontend_node") {
		w.note(w.table.PosOf("frontend_node"), "frontend_node has no effect on Kubernetes: the cluster chooses nodes")
	}
	if w.table.Has("port") && w.service.Port != podFrontendPort {
		w.note(w.table.PosOf("port"), "port has no effect on Kubernetes: the frontend listens on %d there",
			podFrontendPort)
	}
	if w.ownLMCache() {
		w.note(w.env.PosOf(lmcacheVariable), "the file of %s is read as it is: on Kubernetes nothing fills placeholders "+
			"in", lmcacheVariable)
	}
	if w.service.RequestPlane == nats || w.service.EventPlane == nats {
		w.note(w.table.Pos, "NATS must be known to Dynamo's operator: the run starts none")
	}
}

// shape is how many pods a worker has, and how many GPUs each.
func (r *role) shape(perNode int) (pods, gpus int, err error) {
	world := r.world()
	if r.span > 1 {
		return r.span, r.each(), nil
	}
	if perNode == 0 || world <= perNode {
		return 1, world, nil
	}
	if world%perNode != 0 {
		return 0, 0, source.Errorf(r.sizePos(),
			"each worker of %s needs %s (TP %d x PP %d x DP %d), which are no whole number of nodes with %s",
			r.label(), quantity.Count(world, "GPU"), r.tp, r.pp, r.dp, quantity.Count(perNode, "GPU")).
			Hintf("choose sizes whose product is at most %d, or a multiple of it", perNode)
	}
	return world / perNode, perNode, nil
}

// workers is how many workers a role has.
func (r *role) workers(perNode int) int {
	if r.span > 1 {
		return r.nodes / r.span
	}
	each := r.perNode
	if each == 0 {
		each = 1
		if r.multi && perNode > r.world() {
			each = perNode / r.world()
		}
	}
	return r.nodes * each
}

// addPods adds a role that is all workers of a kind.
func (w *Workload) addPods(s *plan.Service, r *role, cl plan.Cluster) error {
	r.wide(cl.GPUsPerNode)
	if r.kind == prefill { // decode came before
		if err := w.checkOrder(); err != nil {
			return err
		}
	}
	if err := w.checkSpan(r, upTo(0, r.nodes)); err != nil {
		return err
	}
	argv, err := w.workerCommand(r)
	if err != nil {
		return err
	}
	for _, option := range w.backend.model {
		argv = append(argv, plan.Texts(option, w.service.Model)...)
	}
	out := plan.Role{Name: r.kind, Replicas: r.workers(cl.GPUsPerNode), Nodes: plan.Slice{Count: 1}, Engine: true,
		Timeout: w.wait(),
		Health:  plan.Endpoint{Port: r.kind, Path: "/health"}}
	one := instance{role: r, name: r.kind, nodes: out.Nodes}
	if !w.backend.noGPU {
		pods, gpus, err := r.shape(cl.GPUsPerNode)
		if err != nil {
			return err
		}
		out.Nodes.Count, out.GPUs = pods, plan.CountGPUs(gpus)
		out.TP, out.PP, out.DP = r.tp, r.pp, r.dp
	}
	s.Ports = append(s.Ports, plan.Port{Name: r.kind, Base: podSystemPort, Count: 1, Role: r.kind})
	events := w.events(one)
	if events != nil {
		s.Ports = append(s.Ports, plan.Port{Name: r.kind + "_events", Base: podEventPort, Count: r.dp, Role: r.kind})
	}
	argv = slices.Concat(argv, w.backend.role(&w.service, r.kind), w.bootstrap(s, one), w.options(r), w.transfer(r),
		events, r.extra)
	out.Step = plan.Step{Name: r.kind, Nodes: out.Nodes, Container: true, Argv: argv, Env: w.planesOnPods(),
		Log: path.Join("logs", r.kind+"-%t.log")}
	s.Config[r.kind] = r.settings()
	s.Roles = append(s.Roles, out)
	return nil
}

// planesOnPods are the planes that the test chooses; the operator and Dynamo choose the others.
func (w *Workload) planesOnPods() (env []plan.Var) {
	if w.service.RequestPlane != "" {
		env = append(env, plan.Var{Name: "DYN_REQUEST_PLANE", Value: plan.Text(w.service.RequestPlane)})
	}
	if w.service.EventPlane != "" {
		env = append(env, plan.Var{Name: "DYN_EVENT_PLANE", Value: plan.Text(w.service.EventPlane)})
	}
	return env
}

// addFrontendPod adds what routes requests to the workers.
func (w *Workload) addFrontendPod(s *plan.Service, expect map[string]int) error {
	argv, err := w.command(w.service.Ingress, w.table.PosOf("ingress_cmd"), "python3", "-m", "dynamo.frontend")
	if err != nil {
		return err
	}
	s.Ports = append(s.Ports, plan.Port{Name: frontend, Base: podFrontendPort, Count: 1, Role: frontend})
	s.Roles = append(s.Roles, plan.Role{
		Name: frontend, Nodes: plan.Slice{Count: 1}, Router: true, Timeout: w.wait(),
		Health: plan.Endpoint{Port: frontend, Path: "/health", Instances: expect, Model: w.service.Model},
		Step: plan.Step{Name: frontend, Nodes: plan.Slice{Count: 1}, Container: true, Argv: argv, Env: w.planesOnPods(),
			Log: "logs/frontend-%t.log"},
	})
	return nil
}

// podPages are the pages of counters: the frontend's, and that of each worker that is the only one
// behind its Service.
func podPages(roles []plan.Role) []plan.Word {
	page := func(role string) plan.Word {
		return plan.Concat("http://", plan.Addr(role), ":", plan.PortNumber(role), "/metrics")
	}
	urls := []plan.Word{page(frontend)}
	for i := range roles {
		if r := &roles[i]; r.Engine && r.Count() == 1 && r.Nodes.Count == 1 {
			urls = append(urls, page(r.Name))
		}
	}
	return urls
}
