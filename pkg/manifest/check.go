package manifest

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/plan"
)

// Bounds of the API: of a name that is a label or a Service's, of components (CRD of
// DynamoGraphDeployment, 1.5), and of one argument of a process (Linux, MAX_ARG_STRLEN).
const (
	maxName       = 63
	maxComponents = 25
	maxArgument   = 128 << 10
)

var (
	serviceName   = lazyregexp.New(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)
	componentName = lazyregexp.New(`^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?$`)
	variable      = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)
	release       = lazyregexp.New(`^(0|[1-9][0-9]{0,3})(\.(0|[1-9][0-9]{0,3})){2}$`)
	taggedImage   = lazyregexp.New(`:v?[0-9]+\.[0-9]+\.[0-9]+[^/]*$`)
	count         = lazyregexp.New(`^[1-9][0-9]*$`)
	size          = lazyregexp.New(`^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$`)
)

// checker collects what an API server or a kubelet would refuse.
type checker struct {
	at   string // the object, and what of it
	errs []error
}

func (c *checker) sayf(is bool, format string, args ...any) {
	if is {
		c.errs = append(c.errs, fmt.Errorf("%s: %s", c.at, fmt.Sprintf(format, args...)))
	}
}

// in checks a part of what c checks.
func (c *checker) in(what string, check func()) {
	at := c.at
	c.at += ": " + what
	check()
	c.at = at
}

// check refuses objects that an API server would refuse, or with which pods would wait for ever.
func check(list []object) error {
	c := &checker{}
	seen := map[string]bool{}
	for i := range list {
		o := &list[i]
		c.at = o.Kind + " " + o.Metadata.Name
		c.sayf(seen[c.at], "there are two")
		seen[c.at] = true
		c.sayf(len(o.Metadata.Name) > maxName, "the name has %d characters, and %d are allowed", len(o.Metadata.Name),
			maxName)
		c.sayf(!serviceName.MatchString(o.Metadata.Name),
			"the name must be small letters, digits and -, and begin with a letter")
		if why := config.CheckNamespace(o.Metadata.Namespace); why != "" {
			c.sayf(true, "the namespace %q %s", o.Metadata.Namespace, why)
		}
		c.sayf(o.Metadata.Labels[plan.RunLabel] == "", "it has no label %s, by which it would be found", plan.RunLabel)
		c.labels(o.Metadata.Labels)
		switch spec := o.Spec.(type) {
		case graph:
			c.graph(o.Metadata.Name, &spec)
		case oldGraph:
			c.oldGraph(o.Metadata.Name, &spec)
		case deployment:
			c.sayf(spec.Replicas < 1, "replicas is %d, must be 1 or more", spec.Replicas)
			c.sayf(spec.Deadline < 1, "the time to become ready is %d s", spec.Deadline)
			c.pod(&spec.Template)
		case clusterService:
			for _, p := range spec.Ports {
				c.port(p.Port)
			}
		case job:
			c.job(&spec)
		}
	}
	return errors.Join(c.errs...)
}

func (c *checker) labels(m map[string]string) {
	for key, value := range m {
		if why := config.CheckLabel(value); why != "" {
			c.sayf(true, "the label %s is %q, which %s", key, value, why)
		}
	}
}

func (c *checker) port(n int) { c.sayf(n < 1 || n > 65535, "the port %d is outside 1-65535", n) }

// names checks the names of components, and those of the Services that the operator makes of them.
func (c *checker) names(graph string, names []string) {
	c.sayf(len(names) == 0, "it has no component")
	c.sayf(len(names) > maxComponents, "it has %d components, and %d are allowed", len(names), maxComponents)
	seen := map[string]string{}
	for _, name := range names {
		low := strings.ToLower(name)
		c.sayf(seen[low] != "", "the components %q and %q have one name, since case does not count", seen[low], name)
		seen[low] = name
		c.sayf(len(name) > maxName || !componentName.MatchString(name),
			"component %q: the name must be 1 to %d letters, digits and -",
			name, maxName)
		all := len(graph) + 1 + len(name)
		c.sayf(all > maxName, "component %q: the name of its Service, %s-%s, has %d characters, and %d are allowed",
			name, graph, low, all,
			maxName)
	}
}

func (c *checker) graph(name string, g *graph) {
	var names []string
	c.backend(g.Backend)
	c.env(g.Env)
	for i := range g.Components {
		x := &g.Components[i]
		names = append(names, x.Name)
		c.in(fmt.Sprintf("component %q", x.Name), func() {
			c.sayf(!slices.Contains([]string{frontendType, workerType, prefillType, decodeType}, x.Type),
				"unknown type %q", x.Type)
			c.sayf(x.Replicas < 1, "replicas is %d, must be 1 or more", x.Replicas)
			c.multinode(x.Multinode)
			c.quantity("sharedMemorySize", x.SharedMemory)
			c.sayf(x.RuntimeVersion != "" && !release.MatchString(x.RuntimeVersion),
				"the version of Dynamo %q is not MAJOR.MINOR.PATCH", x.RuntimeVersion)
			for _, k := range x.PodTemplate.Spec.Containers {
				c.sayf(k.Name == mainContainer && x.RuntimeVersion == "" && !taggedImage.MatchString(k.Image),
					"the tag of the image %q has no version: set dynamo.version", k.Image)
			}
			c.pod(&x.PodTemplate)
		})
	}
	c.names(name, names)
}

func (c *checker) oldGraph(name string, g *oldGraph) {
	var names []string
	c.backend(g.Backend)
	c.env(g.Envs)
	for _, x := range g.PVCs {
		if why := config.CheckObject(x.Name); why != "" {
			c.sayf(true, "the claim %q %s", x.Name, why)
		}
	}
	for key, x := range g.Services {
		names = append(names, key)
		c.in(fmt.Sprintf("service %q", key), func() {
			c.sayf(x.Type != frontendType && x.Type != workerType, "unknown componentType %q", x.Type)
			c.sayf(x.SubType != "" && x.SubType != prefillType && x.SubType != decodeType,
				"unknown subComponentType %q", x.SubType)
			c.sayf(x.Replicas < 1, "replicas is %d, must be 1 or more", x.Replicas)
			c.multinode(x.Multinode)
			c.sayf(x.Resources != nil && !count.MatchString(x.Resources.Limits.GPU), "it has no GPU, and asks for %q",
				gpusOf(x.Resources))
			for _, m := range x.Mounts {
				c.mountPath(m.Point)
			}
			if x.EnvFrom != "" {
				c.secret(x.EnvFrom)
			}
			c.secrets(x.PodSpec.PullSecrets)
			c.container(&x.PodSpec.MainContainer)
		})
	}
	slices.Sort(names)
	c.names(name, names)
}

func gpusOf(r *oldResources) string {
	if r == nil {
		return ""
	}
	return r.Limits.GPU
}

func (c *checker) backend(name string) {
	c.sayf(name != "" && !slices.Contains([]string{"vllm", "sglang", "trtllm"}, name), "unknown backendFramework %q",
		name)
}

func (c *checker) multinode(m *multinode) {
	c.sayf(m != nil && m.NodeCount < 2, "multinode has %d nodes, must be 2 or more", countOf(m))
}

func countOf(m *multinode) int {
	if m == nil {
		return 0
	}
	return m.NodeCount
}

func (c *checker) job(j *job) {
	c.sayf(j.BackoffLimit != 0, "a failed client would be started %d more times", j.BackoffLimit)
	c.sayf(j.Deadline < 1, "the deadline is %d s", j.Deadline)
	c.sayf(j.Template.Spec.RestartPolicy != "Never", "restartPolicy is %q: a failed client would run again",
		j.Template.Spec.RestartPolicy)
	c.pod(&j.Template)
}

func (c *checker) pod(p *pod) {
	if p.Metadata != nil {
		c.labels(p.Metadata.Labels)
	}
	s := &p.Spec
	c.sayf(!slices.ContainsFunc(s.Containers, func(x container) bool { return x.Name == mainContainer }),
		"there is no container named %s",
		mainContainer)
	c.secrets(s.PullSecrets)
	volumes := map[string]bool{}
	for _, v := range s.Volumes {
		c.sayf(volumes[v.Name], "there are two volumes %q", v.Name)
		volumes[v.Name] = true
		if v.Claim != nil {
			if why := config.CheckObject(v.Claim.Name); why != "" {
				c.sayf(true, "the claim %q %s", v.Claim.Name, why)
			}
		}
		if v.Empty != nil {
			c.quantity("sizeLimit", v.Empty.Limit)
		}
	}
	for i := range s.Containers {
		x := &s.Containers[i]
		c.container(x)
		at := map[string]bool{}
		for _, m := range x.Mounts {
			c.sayf(!volumes[m.Name], "there is no volume %q", m.Name)
			c.sayf(at[m.Path], "two volumes are mounted at %s", m.Path)
			at[m.Path] = true
			c.mountPath(m.Path)
		}
	}
}

func (c *checker) mountPath(at string) {
	c.sayf(!path.IsAbs(at) || strings.Contains(at, ":"),
		"a volume is mounted at %q, which must be an absolute path without a colon", at)
}

func (c *checker) secrets(list []named) {
	for _, s := range list {
		c.secret(s.Name)
	}
}

func (c *checker) secret(name string) {
	if why := config.CheckObject(name); why != "" {
		c.sayf(true, "the secret %q %s", name, why)
	}
}

func (c *checker) container(x *container) {
	why := config.CheckImage(x.Image)
	c.sayf(x.Image == "", "it has no image")
	c.sayf(x.Image != "" && why != "", "the image %q %s", x.Image, why)
	c.sayf(x.Dir != "" && !path.IsAbs(x.Dir), "workingDir %q is not absolute", x.Dir)
	c.sayf(len(x.Command) == 0, "it has no command")
	for _, word := range slices.Concat(x.Command, x.Args) {
		c.sayf(len(word) >= maxArgument, "one argument has %d bytes, and Linux takes %d", len(word), maxArgument-1)
		c.sayf(strings.ContainsRune(word, 0), "an argument holds a NUL byte")
	}
	for _, p := range x.Ports {
		c.port(p.Port)
	}
	c.env(x.Env)
	for _, f := range x.EnvFrom {
		c.secret(f.Secret.Name)
	}
	if r := x.Resources; r != nil {
		for name, text := range r.Limits {
			c.sayf(!count.MatchString(text), "it has no GPU, and asks for %q of %s", text, name)
		}
		for name, text := range r.Requests {
			c.quantity(name, text)
		}
	}
}

func (c *checker) env(list []envVar) {
	seen := map[string]bool{}
	for _, v := range list {
		c.sayf(!variable.MatchString(v.Name), "%q cannot name an environment variable", v.Name)
		c.sayf(seen[v.Name], "the variable %s is there twice", v.Name)
		seen[v.Name] = true
	}
}

func (c *checker) quantity(what, text string) {
	c.sayf(text != "" && !size.MatchString(text), "%s %q is no quantity", what, text)
}
