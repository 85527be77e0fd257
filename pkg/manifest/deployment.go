package manifest

import (
	"cmp"
	"fmt"

	"github.com/profllm/profllm/pkg/plan"
)

// defaultMemory is /dev/shm of a server without Dynamo, as Dynamo's operator has it: NCCL needs
// more than the 64 MiB of container runtimes.
const defaultMemory = "8Gi"

const (
	memoryVolume = "shm"
	httpPort     = "http"
)

// newDeployments are a service without Dynamo: a Deployment of each role, and the Service before it.
func newDeployments(p *plan.Plan) ([]object, error) {
	if frontOf(p) == nil {
		return nil, fmt.Errorf("%d roles without Dynamo have nothing that answers clients", len(p.Roles))
	}
	var list []object
	for i := range p.Roles {
		pair, err := newDeployment(p, &p.Roles[i])
		if err != nil {
			return nil, err
		}
		list = append(list, pair...)
	}
	return list, nil
}

func newDeployment(p *plan.Plan, r *plan.Role) ([]object, error) {
	k := p.Kubernetes
	port, ok := p.PortNamed(r.Health.Port)
	if !ok {
		return nil, fmt.Errorf("role %q has no port", r.Name)
	}
	c, err := newServer(p, r)
	if err != nil {
		return nil, err
	}
	env, err := shared(p)
	if err != nil {
		return nil, err
	}
	c.Env = merged(env, c.Env)
	c.Ports = []containerPort{{httpPort, port.Base}}
	c.Ready = &probe{HTTP: httpGet{cmp.Or(r.Health.Path, "/"), httpPort}, Period: 5, Threshold: 3}
	if !r.Engine { // a proxy without processors would be what is measured
		c.Resources = &resources{Requests: map[string]string{"cpu": k.Pods.ClientCPU, "memory": k.Pods.ClientMemory}}
	} else {
		c.Mounts = append(c.Mounts, mount{memoryVolume, "/dev/shm"})
	}
	spec := podOf(p, c)
	spec.Account = new(false) // only Dynamo asks the API
	if r.Engine {
		spec.Volumes = append(spec.Volumes, volume{Name: memoryVolume,
			Empty: &emptyDir{Medium: "Memory", Limit: cmp.Or(k.Pods.SharedMemory, defaultMemory)}})
	}
	match := map[string]string{plan.RunLabel: p.RunID, roleLabel: r.Name}
	d := deployment{Replicas: r.Count(), Deadline: seconds(k.Ready), Strategy: typed{"Recreate"},
		Selector: selector{match},
		Template: pod{Metadata: &meta{Labels: roleLabels(p, r.Name), Annotations: k.Pods.Annotations}, Spec: spec}}
	s := clusterService{Selector: match, Ports: []servicePort{{httpPort, port.Base}}}
	name := host(p, r.Name)
	return []object{{"apps/v1", "Deployment", newMeta(p, name), d}, {"v1", "Service", newMeta(p, name), s}}, nil
}

// merged is one list of variables; those of own win.
func merged(all, own []envVar) []envVar {
	list := append([]envVar(nil), all...)
	for _, v := range own {
		found := false
		for i := range list {
			if list[i].Name == v.Name {
				list[i], found = v, true
			}
		}
		if !found {
			list = append(list, v)
		}
	}
	return list
}
