package vllm

import (
	"slices"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/serving"
	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/workload/vllm/arguments"
)

// profllmProgram is profllm in an image of its own.
const profllmProgram = "profllm"

// Deploy implements plan.Deployer: each server has a pod with as many GPUs as its parallel sizes
// need, and prefill and decode have a proxy before them. vLLM's images have no profllm, so that
// profllm's proxy has an image of its own; a proxy_script is one of the servers' image.
func (w *Workload) Deploy(cl plan.Cluster) (plan.Service, error) {
	list := w.Pods()
	if err := w.deployable(cl, list); err != nil {
		return plan.Service{}, err
	}
	s := w.Service(w.cfg.Model)
	s.Release = arguments.Serve.Nearest(w.release())
	if s.ClientHost != "" {
		s.ClientHost = ""
		s.Notes = append(s.Notes, "cmd_args.bench_host has no effect on Kubernetes: clients use the Service's name")
	}
	s.OwnOptions = append(serving.Names(w.UncheckedOptions), w.build.has()...)
	s.Cache = plan.Cache{Off: w.Every(cacheOff)}
	if w.Disaggregated() {
		w.addPrefillDecode(&s, list, 1)
		w.proxyPod(&s.Roles[len(s.Roles)-1], cl.ProxyImage)
	} else {
		one := list[0]
		argv := append(w.serveFixed(), serving.Options(one.Options, serving.Negatable)...)
		argv = append(argv, plan.Text("--port"), plan.Word{plan.PortNumber(one.Name)})
		s.Ports = append(s.Ports, w.PortOf(one))
		w.addServer(&s, one, argv)
	}
	for i := range s.Roles {
		step := &s.Roles[i].Step
		step.Env = slices.DeleteFunc(step.Env, func(v plan.Var) bool {
			return slices.Contains([]string{"PROFLLM_ROLE", "CUDA_VISIBLE_DEVICES", engine.HostIP}, v.Name)
		})
	}
	for _, r := range []*serving.Role{&w.Prefill, &w.Decode} {
		if r.IDs != nil {
			s.Notes = append(s.Notes, r.PosOf("gpu_ids").String()+
				": gpu_ids has no effect on Kubernetes: the cluster chooses the GPUs of a pod")
		}
	}
	return s, nil
}

// proxyPod is the proxy in a pod.
func (w *Workload) proxyPod(r *plan.Role, image string) {
	r.Step.Container = true
	if w.cfg.ProxyScript == nil {
		r.Step.Image, r.Step.Argv[0] = image, plan.Text(profllmProgram)
	}
}

// deployable refuses what no pods can do.
func (w *Workload) deployable(cl plan.Cluster, list []serving.Instance) error {
	if w.Disaggregated() && w.cfg.ProxyScript == nil && cl.ProxyImage == "" {
		return source.Errorf(w.PrefillArgs.Pos,
			"prefill and decode without Dynamo need a proxy, and the image of vLLM has none").
			Hintf("set proxy_image in [kubernetes] of the system file to an image with profllm, or proxy_script to a proxy in the servers' image; AIDynamo with backend = \"vllm\" needs neither")
	}
	if cl.Nodes > 1 && !w.Disaggregated() {
		return source.Errorf(w.NodesPos(),
			"a vLLM server over %s cannot work on Kubernetes: nothing there forms a cluster of Ray",
			quantity.Count(cl.Nodes, "node")).
			Hintf("set num_nodes = 1, or write the test as AIDynamo, whose operator spreads workers")
	}
	for _, one := range list {
		tp, pp, dp := one.Parallel()
		switch key := balanced(one); {
		case one.Nodes.Count > 1:
			return source.Errorf(one.PosOf("num_nodes"),
				"a vLLM server over %s cannot work on Kubernetes: nothing there forms a cluster of Ray",
				quantity.Count(one.Nodes.Count, "node")).
				Hintf("set num_nodes = 1, or write the test as AIDynamo, whose operator spreads workers")
		case cl.GPUsPerNode > 0 && len(one.GPUs) > cl.GPUsPerNode:
			return source.Errorf(one.PosOf("tensor_parallel_size"),
				"the server needs %s (TP %d x PP %d x DP %d), and a node has %d",
				quantity.Count(len(one.GPUs), "GPU"), tp, pp, dp, cl.GPUsPerNode).
				Hintf("lower the sizes, or write the test as AIDynamo, whose operator spreads workers over nodes")
		case key != "":
			return source.Errorf(one.PosOf("data_parallel_size"),
				"servers with %s load balancing cannot work on Kubernetes: each pod has one server", key).
				Hintf("remove the key: one API server serves all ranks")
		}
	}
	return nil
}
