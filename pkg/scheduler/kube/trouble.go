package kube

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// trouble is why a run does not start; the zero value is nothing.
type trouble struct {
	why   string // in plain words, with what to do
	never bool   // it does not start without somebody's doing
}

const (
	// silence is how long Dynamo's operator may take to write its first status.
	silence = 2 * time.Minute
	// patience is how long something that is retried may fail before it counts as hopeless.
	patience = time.Minute
	// crashes is how often a container may be restarted before it counts as hopeless.
	crashes = 3
	// lastLines is how many lines of the log of a crashed container are shown.
	lastLines = 5
)

// trouble finds the cause that keeps a run from starting: the first hopeless one, else the first.
func (k *Kube) trouble(ctx context.Context, of known, job *object, have objects) trouble {
	now := k.now().Add(k.clockOffset(ctx, of.at))
	var first trouble
	add := func(t trouble) bool {
		if first.why == "" || t.never && !first.never {
			first = t
		}
		return first.never
	}
	for i := range have {
		switch o := &have[i]; o.Kind {
		case kindGraph:
			add(graphTrouble(o, now))
		case kindPod:
			add(k.podTrouble(ctx, of, o, now))
		case kindDeployment, kindJob:
			if c := o.condition("ReplicaFailure"); c.Status == "True" {
				add(refusedPods(o.String(), c.Message, of.at.Namespace))
			}
		}
		if first.never {
			return first
		}
	}
	none := len(clientPods(have, job)) == 0 // what refuses them, only events say
	if first.why == "" && (none || now.Sub(job.Metadata.Created) > patience) {
		add(k.byEvents(ctx, of, have, none))
	}
	return first
}

// graphTrouble is what the operator says, or does not say, of a DynamoGraphDeployment.
func graphTrouble(g *object, now time.Time) trouble {
	c, s := g.condition("Ready"), &g.Status
	age := now.Sub(g.Metadata.Created)
	message := oneLine(c.Message)
	switch {
	case s.State == "" && age > silence:
		return trouble{fmt.Sprintf("Dynamo's operator has written no status for %s: it is not running, or does not watch namespace %s; look for it with kubectl get pods --all-namespaces",
			age.Round(time.Second), g.Metadata.Namespace), true}
	case strings.Contains(c.Reason+message, "no_multinode_orchestrator_available"):
		return trouble{"the service has a worker over several nodes, and the cluster has neither Grove nor LWS, which the operator needs for that: install one of them, or use workers of one node", true}
	case s.State == "failed":
		return trouble{fmt.Sprintf("Dynamo's operator could not make the service (%s): %s", cmp.Or(c.Reason, "failed"), message),
			!c.Changed.IsZero() && now.Sub(c.Changed) > patience || age > silence}
	case c.Reason == "insufficient_capacity":
		return trouble{"the cluster has no room for the service: " + message, false}
	}
	return trouble{}
}

// podTrouble is why a pod does not run.
func (k *Kube) podTrouble(ctx context.Context, of known, p *object, now time.Time) trouble {
	if c := p.condition("PodScheduled"); c.Status == "False" {
		return k.unscheduled(ctx, of, p, now)
	}
	if p.Status.Phase == "Failed" && p.Status.Reason != "" {
		return trouble{fmt.Sprintf("pod %s failed (%s): %s", p.Metadata.Name, p.Status.Reason, oneLine(p.Status.Message)), false}
	}
	for _, c := range slices.Concat(p.Status.Init, p.Status.Containers) {
		if t := k.containerTrouble(ctx, of, p, &c); t.why != "" {
			return t
		}
	}
	return trouble{}
}

// unscheduled is why a pod has no node.
func (k *Kube) unscheduled(ctx context.Context, of known, p *object, now time.Time) trouble {
	c := p.condition("PodScheduled")
	name, message := p.Metadata.Name, oneLine(c.Message)
	switch {
	case c.Reason == "SchedulingGated":
		return trouble{fmt.Sprintf("pod %s is held by a scheduling gate: the gang scheduler (Grove, KAI or Kueue) has not admitted it; a queue may be full, or their versions do not match",
			name), now.Sub(p.Metadata.Created) > 5*patience}
	case strings.Contains(message, "persistentvolumeclaim") && strings.Contains(message, "not found"):
		return trouble{fmt.Sprintf("pod %s needs a volume claim that is not in namespace %s (%s): create it, or correct its name in the system file",
			name, of.at.Namespace, message), true}
	case strings.Contains(message, "Insufficient"):
		if lack := k.lacks(ctx, of.at, p); lack != "" {
			return trouble{fmt.Sprintf("pod %s fits no node of the cluster: %s", name, lack), true}
		}
		return trouble{fmt.Sprintf("pod %s waits for free resources (%s)", name, message), false}
	case strings.Contains(message, "didn't match Pod's node affinity/selector") && !strings.Contains(message, "Insufficient"):
		return trouble{fmt.Sprintf("pod %s asks for nodes that are not there or not free of taints (%s): check its node selector", name, message),
			true}
	}
	return trouble{fmt.Sprintf("pod %s is not scheduled: %s", name, cmp.Or(message, c.Reason)), false}
}

// lacks says what a pod asks of a node that no node has, "" if one has it, or nobody may look.
func (k *Kube) lacks(ctx context.Context, at Place, p *object) string {
	nodes, err := k.get(ctx, Place{Kubeconfig: at.Kubeconfig, Context: at.Context}, []string{"nodes"}, "")
	if err != nil || len(nodes) == 0 {
		return ""
	}
	want := map[string]float64{}
	for _, c := range p.Spec.Containers {
		for name, q := range c.Resources.Limits {
			if v, ok := q.value(); ok && c.Resources.Requests[name] == "" {
				want[name] += v
			}
		}
		for name, q := range c.Resources.Requests {
			if v, ok := q.value(); ok {
				want[name] += v
			}
		}
	}
	var names []string
	for name := range want {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		most := 0.0
		for _, n := range nodes {
			if v, ok := n.Status.Allocatable[name].value(); ok {
				most = max(most, v)
			}
		}
		if want[name] > most {
			return fmt.Sprintf("it asks for %g of %s, and the largest node has %g", want[name], name, most)
		}
	}
	return ""
}

// containerTrouble is why a container does not start, or does not stay up.
func (k *Kube) containerTrouble(ctx context.Context, of known, p *object, c *containerStatus) trouble {
	w := c.State.Waiting
	if w == nil {
		return trouble{}
	}
	name, message := p.Metadata.Name, oneLine(w.Message)
	switch w.Reason {
	case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable":
		return trouble{fmt.Sprintf("pod %s cannot pull its image %s (%s: %s): check the image's name, and the pull secret for its registry",
			name, c.Image, w.Reason, message), w.Reason != "ErrImagePull" && w.Reason != "RegistryUnavailable"}
	case "CreateContainerConfigError":
		return trouble{fmt.Sprintf("container %s of pod %s cannot be made: %s; create what is missing in namespace %s, or correct its name in the system file",
			c.Name, name, message, of.at.Namespace), true}
	case "CreateContainerError", "RunContainerError", "StartError":
		return trouble{fmt.Sprintf("container %s of pod %s cannot be started: %s", c.Name, name, message), c.Restarts >= crashes}
	case "CrashLoopBackOff":
		how := ""
		if t := c.Last.Terminated; t != nil {
			how = fmt.Sprintf(" with exit code %d (%s)", t.ExitCode, t.Reason)
		}
		said := ""
		if c.Restarts >= crashes {
			said = k.lastWords(ctx, of.at, name, c.Name)
		}
		return trouble{fmt.Sprintf("container %s of pod %s has ended%s and was restarted %d times%s", c.Name, name, how,
			c.Restarts, said), c.Restarts >= crashes}
	}
	return trouble{}
}

// lastWords are the last lines of a container that crashed.
func (k *Kube) lastWords(ctx context.Context, at Place, pod, container string) string {
	out, err := k.kubectl(ctx, at, nil, "logs", pod, "--container="+container, "--previous",
		fmt.Sprintf("--tail=%d", lastLines), "--limit-bytes=4096")
	if text := strings.TrimSpace(string(out)); err == nil && text != "" {
		var lines []string
		for line := range strings.Lines(text) {
			lines = append(lines, oneLine(line))
		}
		return "; its last lines: " + strings.Join(lines, " | ")
	}
	return ""
}

// byEvents finds what only events say: volumes that cannot be mounted, and, if the Job has none, that
// its pods are refused.
func (k *Kube) byEvents(ctx context.Context, of known, have objects, none bool) trouble {
	mine := map[string]bool{}
	for _, o := range have {
		mine[o.Metadata.UID] = true
	}
	events, err := k.events(ctx, of.at)
	if err != nil {
		return trouble{}
	}
	var last trouble
	for _, e := range events {
		on := e.Object
		if e.Type != "Warning" || !mine[on.UID] {
			continue
		}
		switch {
		case e.Reason == "FailedMount", e.Reason == "FailedAttachVolume":
			last = trouble{fmt.Sprintf("pod %s cannot mount a volume: %s", on.Name, oneLine(e.Message)), false}
		case e.Reason == "FailedCreate" && (none || on.Kind != kindJob):
			last = refusedPods(strings.ToLower(on.Kind)+" "+on.Name, e.Message, of.at.Namespace)
		}
	}
	return last
}
