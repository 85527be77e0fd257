package manifest

import (
	"fmt"

	"github.com/profllm/profllm/pkg/plan"
)

// The types of components, which the API knows.
const (
	frontendType = "frontend"
	workerType   = "worker"
	prefillType  = "prefill"
	decodeType   = "decode"
)

// componentType is the type of a role.
func componentType(r *plan.Role) (string, error) {
	switch kind := r.KindName(); {
	case r.Router:
		return frontendType, nil
	case kind == workerType || kind == prefillType || kind == decodeType:
		return kind, nil
	default:
		return "", fmt.Errorf("role %q: a graph has no component of type %q", r.Name, kind)
	}
}

// newGraph is the service as a graph of v1beta1.
func newGraph(p *plan.Plan) ([]object, error) {
	k := p.Kubernetes
	env, err := shared(p)
	if err != nil {
		return nil, err
	}
	g := graph{Backend: k.Pods.Backend, Labels: labels(p), Annotations: k.Pods.Annotations, Env: env}
	for i := range p.Roles {
		r := &p.Roles[i]
		server, err := newServer(p, r)
		if err != nil {
			return nil, err
		}
		c := component{Name: r.Name, Replicas: r.Count(), RuntimeVersion: k.Pods.RuntimeVersion,
			PodTemplate: pod{Spec: podOf(p, server)}}
		if c.Type, err = componentType(r); err != nil {
			return nil, err
		}
		if c.Type != frontendType {
			c.SharedMemory = k.Pods.SharedMemory
		}
		if r.Nodes.Count > 1 {
			c.Multinode = &multinode{r.Nodes.Count}
		}
		g.Components = append(g.Components, c)
	}
	return []object{{"nvidia.com/v1beta1", "DynamoGraphDeployment", newMeta(p, k.Name), g}}, nil
}

// newOldGraph is the service as a graph of v1alpha1.
func newOldGraph(p *plan.Plan) ([]object, error) {
	k := p.Kubernetes
	env, err := shared(p)
	if err != nil {
		return nil, err
	}
	g := oldGraph{Backend: k.Pods.Backend, Envs: env, Services: map[string]service{}}
	if k.ModelCache != nil {
		g.PVCs = []oldClaim{{Name: k.ModelCache.Name}}
	}
	for i := range p.Roles {
		s, err := oldService(p, &p.Roles[i])
		if err != nil {
			return nil, err
		}
		g.Services[p.Roles[i].Name] = s
	}
	return []object{{"nvidia.com/v1alpha1", "DynamoGraphDeployment", newMeta(p, k.Name), g}}, nil
}

// oldService is a role of v1alpha1: what v1beta1 has in the pod is spread over fields of its own
// there.
func oldService(p *plan.Plan, r *plan.Role) (service, error) {
	k := p.Kubernetes
	server, err := newServer(p, r)
	if err != nil {
		return service{}, err
	}
	s := service{Replicas: r.Count(), EnvFrom: k.TokenSecret, PodMetadata: &meta{Labels: labels(p),
		Annotations: k.Pods.Annotations}}
	if s.Type, err = componentType(r); err != nil {
		return s, err
	}
	if s.Type == prefillType || s.Type == decodeType {
		s.Type, s.SubType = workerType, s.Type
	}
	if r.Nodes.Count > 1 {
		s.Multinode = &multinode{r.Nodes.Count}
	}
	if n := len(r.GPUs); n > 0 {
		s.Resources = &oldResources{oldLimits{GPU: fmt.Sprint(n)}}
		if k.Pods.GPUResource != "nvidia.com/gpu" {
			s.Resources.Limits.GPUType = k.Pods.GPUResource
		}
	}
	if k.Pods.SharedMemory != "" && s.Type != frontendType {
		s.SharedMemory = &oldMemory{k.Pods.SharedMemory}
	}
	if k.ModelCache != nil {
		s.Mounts = []oldMount{{k.ModelCache.Name, k.ModelCache.Path}}
	}
	server.Name, server.EnvFrom, server.Mounts, server.Resources = "", nil, nil, nil
	s.PodSpec = oldPodSpec{PullSecrets: pullSecrets(k), NodeSelector: k.Pods.NodeSelector, Tolerations: tolerations(k),
		MainContainer: server}
	return s, nil
}
