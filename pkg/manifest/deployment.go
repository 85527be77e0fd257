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

// newDeployment is a service without Dynamo: a Deployment of its server, and the Service before it.
func newDeployment(p *plan.Plan) ([]object, error) {
	k := p.Kubernetes
	if len(p.Roles) != 1 {
		return nil, fmt.Errorf("a service without Dynamo has one role on Kubernetes, not %d", len(p.Roles))
	}
	r := &p.Roles[0]
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
	c.Mounts = append(c.Mounts, mount{memoryVolume, "/dev/shm"})
	spec := podOf(p, c)
	spec.Account = new(false) // only Dynamo asks the API
	spec.Volumes = append(spec.Volumes, volume{Name: memoryVolume,
		Empty: &emptyDir{Medium: "Memory", Limit: cmp.Or(k.Pods.SharedMemory, defaultMemory)}})
	match := map[string]string{plan.RunLabel: p.RunID, roleLabel: r.Name}
	d := deployment{Replicas: r.Count(), Deadline: seconds(k.Ready), Strategy: typed{"Recreate"},
		Selector: selector{match},
		Template: pod{Metadata: &meta{Labels: roleLabels(p, r.Name), Annotations: k.Pods.Annotations}, Spec: spec}}
	s := clusterService{Selector: match, Ports: []servicePort{{httpPort, port.Base}}}
	return []object{{"apps/v1", "Deployment", newMeta(p, k.Name), d}, {"v1", "Service", newMeta(p, k.Name), s}}, nil
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
