package manifest

import (
	"github.com/profllm/profllm/pkg/plan"
)

const (
	// afterLimit is how long the Job's pod may exist beside the limit of its script, s: for its
	// image, and for printing its files. At the Job's own deadline the pod is deleted, and its log
	// with it.
	afterLimit = 900
	// keptFor is how long a finished Job stays, s: its log is the way to its results.
	keptFor = 86400
	// grace is how long the script has to print its files once it is told to end, s.
	grace = 120

	runVolume = "run"
	clientJob = "client"
)

// newJob is the Job that measures.
func newJob(p *plan.Plan) (object, error) {
	k := p.Kubernetes
	text, err := Script(p, plan.RunVolume)
	if err != nil {
		return object{}, err
	}
	c := newContainer(p, k.ClientImage)
	if c.Env, err = shared(p); err != nil {
		return object{}, err
	}
	c.Dir, c.Command, c.Args = plan.RunVolume, []string{"bash", "-c"}, []string{escaped(string(text))}
	c.Resources = &resources{Requests: map[string]string{"cpu": k.Pods.ClientCPU, "memory": k.Pods.ClientMemory}}
	c.Mounts = append(c.Mounts, mount{runVolume, plan.RunVolume})
	spec := podSpec{RestartPolicy: "Never", Account: new(false), Grace: grace, PullSecrets: pullSecrets(k),
		Containers: []container{c}}
	if k.ModelCache != nil {
		spec.Volumes = append(spec.Volumes, volume{Name: cacheVolume, Claim: &claim{k.ModelCache.Name}})
	}
	spec.Volumes = append(spec.Volumes, volume{Name: runVolume, Empty: &emptyDir{}})
	j := job{Deadline: seconds(k.Limit) + afterLimit, TTL: keptFor,
		Template: pod{Metadata: &meta{Labels: roleLabels(p, clientJob), Annotations: k.Pods.Annotations}, Spec: spec}}
	return object{"batch/v1", "Job", newMeta(p, k.JobName()), j}, nil
}
