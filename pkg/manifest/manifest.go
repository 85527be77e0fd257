// Package manifest prints the plan of a run as objects of Kubernetes: the service, which is a graph
// of NVIDIA Dynamo's operator or a Deployment with its Service, and the Job that measures it.
//
// The objects are typed values; only the Job's script has a template. Every object is checked as an
// API server would check it, and with the words of who wrote the definitions. The package runs
// nothing.
package manifest

import (
	"bytes"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/quantity"
)

// Render prints the manifest of a plan.
func Render(p *plan.Plan) ([]byte, error) {
	list, err := objects(p)
	if err != nil {
		return nil, err
	}
	if err := check(list); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.WriteString(head(p))
	for _, o := range list {
		out.WriteString("---\n")
		enc := yaml.NewEncoder(&out)
		enc.SetIndent(2)
		if err := enc.Encode(o); err != nil {
			return nil, fmt.Errorf("encode %s %s: %w", o.Kind, o.Metadata.Name, err)
		}
	}
	return out.Bytes(), nil
}

// objects are those of a plan: the service, then the Job.
func objects(p *plan.Plan) ([]object, error) {
	k := p.Kubernetes
	if k == nil {
		return nil, fmt.Errorf("run %s is not planned for Kubernetes", p.RunID)
	}
	var list []object
	var err error
	switch k.Graph {
	case config.V1Beta1:
		list, err = newGraph(p)
	case config.V1Alpha1:
		list, err = newOldGraph(p)
	case "":
		list, err = newDeployments(p)
	default:
		err = fmt.Errorf("unknown version of DynamoGraphDeployment: %q", k.Graph)
	}
	if err != nil {
		return nil, err
	}
	measure, err := newJob(p)
	return append(list, measure), err
}

// head is a comment for a person who reads or applies the manifest by hand.
func head(p *plan.Plan) string {
	k := p.Kubernetes
	var b strings.Builder
	fmt.Fprintf(&b, "# profllm %s: scenario %s, test %s, iteration %d, run %s.\n", p.Version, p.Scenario, p.Test,
		p.Iteration, p.RunID)
	what := "a Deployment"
	if len(p.Roles) > 1 {
		what += " of each role"
	}
	if k.Graph != "" {
		what = "a DynamoGraphDeployment (" + k.Graph + ")"
	}
	fmt.Fprintf(&b, "# Namespace %s: %s, and the Job %s, which measures it; plan.json has every decision.\n",
		k.Namespace, what, k.JobName())
	for i := range p.Roles {
		fmt.Fprintf(&b, "#   %s\n", Summary(&p.Roles[i]))
	}
	fmt.Fprintf(&b, "# Everything has the label %s=%s.\n", plan.RunLabel, p.RunID)
	return oneLines(b.String())
}

// oneLines keeps a comment one: names stand in it.
func oneLines(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r >= ' ' && r != 0x7f && r != 0x85 && r != 0x2028 && r != 0x2029 && r != 0xfeff {
			return r
		}
		return '?'
	}, s)
}

// Summary is one line about a role.
func Summary(r *plan.Role) string {
	s := fmt.Sprintf("%s: %s", r.Name, quantity.Count(r.Count(), "replica"))
	if r.Nodes.Count > 1 {
		s += " on " + quantity.Count(r.Nodes.Count, "node")
	}
	if len(r.GPUs) > 0 {
		s += ", " + quantity.Count(len(r.GPUs), "GPU") + " a pod"
	}
	return s
}

// roleLabel is the label of profllm's own pods that says which part they play.
const roleLabel = "profllm.io/role"

// labels are those of everything that a run creates.
func labels(p *plan.Plan) map[string]string {
	m := map[string]string{"app.kubernetes.io/managed-by": "profllm", plan.RunLabel: p.RunID}
	for key, value := range p.Kubernetes.Pods.Labels {
		m[key] = value
	}
	return m
}

// roleLabels are those of the pods of a role that profllm makes itself.
func roleLabels(p *plan.Plan, role string) map[string]string {
	m := labels(p)
	m[roleLabel] = role
	return m
}

func newMeta(p *plan.Plan, name string) meta {
	return meta{Name: name, Namespace: p.Kubernetes.Namespace, Labels: labels(p)}
}

// vars are variables as a pod has them.
func vars(p *plan.Plan, list []plan.Var) ([]envVar, error) {
	var env []envVar
	for _, v := range list {
		text, err := resolve(p, v.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v.Name, err)
		}
		env = append(env, envVar{Name: v.Name, Value: escaped(text)})
	}
	return env, nil
}

// shared are the variables of every pod.
func shared(p *plan.Plan) ([]envVar, error) {
	env, err := vars(p, p.Env)
	if m := p.Kubernetes.ModelCache; m != nil {
		env = append(env, envVar{Name: "HF_HOME", Value: m.Path})
	}
	return env, err
}

const (
	mainContainer = "main"
	cacheVolume   = "models"
)

// newContainer is what the servers and the client have in common.
func newContainer(p *plan.Plan, image string) container {
	c := container{Name: mainContainer, Image: image}
	if s := p.Kubernetes.TokenSecret; s != "" {
		c.EnvFrom = []envFrom{{named{s}}}
	}
	if m := p.Kubernetes.ModelCache; m != nil {
		c.Mounts = []mount{{cacheVolume, m.Path}}
	}
	return c
}

// newServer is the container of a role.
func newServer(p *plan.Plan, r *plan.Role) (container, error) {
	image := p.Image
	if r.Step.Image != "" {
		image = r.Step.Image
	}
	c := newContainer(p, image)
	words, err := resolveAll(p, r.Step.Argv)
	if err != nil {
		return c, fmt.Errorf("role %q: %w", r.Name, err)
	}
	c.Command, c.Args = divided(escapedAll(words))
	for _, v := range r.Step.Env {
		if p.Kubernetes.Graph == "" && ofOwnPod(v.Value, r.Name) {
			c.Env = append(c.Env, envVar{Name: v.Name, From: &envSource{fieldRef{podIP}}})
			continue
		}
		one, err := vars(p, []plan.Var{v})
		if err != nil {
			return c, fmt.Errorf("role %q: %w", r.Name, err)
		}
		c.Env = append(c.Env, one...)
	}
	if n := len(r.GPUs); n > 0 {
		c.Resources = &resources{Limits: map[string]string{p.Kubernetes.Pods.GPUResource: fmt.Sprint(n)}}
	}
	return c, nil
}

// divided is a command as its program and its arguments.
func divided(argv []string) (command, args []string) {
	n := min(1, len(argv))
	if len(argv) > 2 && argv[1] == "-m" {
		n = 3
	}
	return argv[:n], argv[n:]
}

// podOf is the pod of a role with one container.
func podOf(p *plan.Plan, c container) podSpec {
	k := p.Kubernetes
	s := podSpec{NodeSelector: k.Pods.NodeSelector, Containers: []container{c}, PullSecrets: pullSecrets(k),
		Tolerations: tolerations(k)}
	if k.ModelCache != nil {
		s.Volumes = []volume{{Name: cacheVolume, Claim: &claim{k.ModelCache.Name}}}
	}
	return s
}

func pullSecrets(k *plan.Kubernetes) (list []named) {
	for _, name := range k.PullSecrets {
		list = append(list, named{name})
	}
	return list
}

func tolerations(k *plan.Kubernetes) (list []toleration) {
	for _, t := range k.Pods.Tolerations {
		list = append(list, toleration(t))
	}
	return list
}
