package vllm

import (
	"slices"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/serving"
	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/workload/vllm/arguments"
)

// Deploy implements plan.Deployer: one server in one pod, with as many GPUs as its parallel sizes
// need. vLLM's images have no proxy and no profllm, so nothing there could stand before several.
func (w *Workload) Deploy(cl plan.Cluster) (plan.Service, error) {
	r := &w.Decode
	tp, pp, dp := r.Parallel()
	world := tp * pp * dp
	switch {
	case w.Disaggregated():
		return plan.Service{}, source.Errorf(w.PrefillArgs.Pos,
			"prefill and decode without Dynamo need a proxy, and the image of vLLM has "+
				"none that Kubernetes could start").
			Hintf("write the test as test_template_name = \"AIDynamo\" with backend = \"vllm\", whose frontend does it")
	case cl.Nodes > 1:
		return plan.Service{}, source.Errorf(w.NodesPos(),
			"a vLLM server over %s cannot work on Kubernetes: nothing there forms a cluster of Ray",
			quantity.Count(cl.Nodes,
				"node")).Hintf("set num_nodes = 1, or write the test as AIDynamo, whose operator spreads workers")
	case cl.GPUsPerNode > 0 && world > cl.GPUsPerNode:
		return plan.Service{}, source.Errorf(r.PosOf("tensor_parallel_size"),
			"the server needs %s (TP %d x PP %d x DP %d), and a node has %d",
			quantity.Count(world, "GPU"), tp, pp, dp, cl.GPUsPerNode).
			Hintf("lower the sizes, or write the test as AIDynamo, whose operator spreads workers over nodes")
	}
	one := serving.Instance{Role: *r, Name: "serve", Nodes: plan.Slice{Count: 1}, GPUs: plan.CountGPUs(world)}
	if key := balanced(one); key != "" {
		return plan.Service{}, source.Errorf(r.PosOf("data_parallel_size"),
			"servers with %s load balancing need profllm's proxy, "+
				"which no image on Kubernetes has", key).Hintf("remove the key: one API server serves all ranks")
	}
	s := w.Service(w.cfg.Model)
	s.Release = arguments.Serve.Nearest(w.release())
	if s.ClientHost != "" {
		s.ClientHost = ""
		s.Notes = append(s.Notes, "cmd_args.bench_host has no effect on Kubernetes: clients use the Service's name")
	}
	s.OwnOptions = append(serving.Names(w.UncheckedOptions), w.build.has()...)
	s.Cache = plan.Cache{Off: w.Every(cacheOff)}
	argv := append(w.serveFixed(), serving.Options(one.Options, serving.Negatable)...)
	argv = append(argv, plan.Text("--port"), plan.Word{plan.PortNumber(one.Name)})
	s.Ports = append(s.Ports, w.PortOf(one))
	w.addServer(&s, one, argv)
	server := &s.Roles[0]
	server.Step.Env = slices.DeleteFunc(server.Step.Env, func(v plan.Var) bool {
		return slices.Contains([]string{"PROFLLM_ROLE", "CUDA_VISIBLE_DEVICES", engine.HostIP}, v.Name)
	})
	if r.IDs != nil {
		s.Notes = append(s.Notes,
			r.PosOf("gpu_ids").String()+": gpu_ids has no effect on Kubernetes: the cluster chooses the GPUs of a pod")
	}
	return s, nil
}
