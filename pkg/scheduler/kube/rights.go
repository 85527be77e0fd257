package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	json "github.com/go-json-experiment/json/v1"

	"github.com/profllm/profllm/pkg/lazyregexp"
)

// right is one thing that an account may do in a namespace.
type right struct{ verb, resource string } // resource as on kubectl's command line: jobs.batch, pods/log

// attributes is the right as the API server is asked for it.
func (r right) attributes(namespace string) map[string]string {
	whole, sub, _ := strings.Cut(r.resource, "/")
	resource, group, _ := strings.Cut(whole, ".")
	return map[string]string{"namespace": namespace, "verb": r.verb, "group": group, "resource": resource,
		"subresource": sub}
}

// needs are the rights without which a run cannot be made, followed, fetched and deleted.
func (m *manifest) needs() (list []right) {
	for _, resource := range m.kinds() {
		for _, verb := range []string{"create", "get", "list", "delete"} {
			list = append(list, right{verb, resource})
		}
	}
	for _, r := range []right{{"list", resources[kindDeployment]}, {"get", resources[kindPod]}, {"list", resources[kindPod]},
		{"get", resources[kindPod] + "/log"}} {
		if !slices.Contains(list, r) {
			list = append(list, r)
		}
	}
	return list
}

// may makes sure that this account has the rights that a run needs, before anything is made: without
// the right to delete, for example, GPUs could not be freed. A cluster that does not say is believed to
// allow it.
func (k *Kube) may(ctx context.Context, at Place, m *manifest) error {
	needs := m.needs()
	var items []any
	for _, r := range needs {
		items = append(items, map[string]any{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
			"spec": map[string]any{"resourceAttributes": r.attributes(at.Namespace)}})
	}
	data, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	if err != nil {
		return err
	}
	out, err := k.kubectl(ctx, at, data, "create", "--validate=false", "--filename=-", "--output=json")
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return nil // the dry run says what is refused
	}
	denied, err := deniedOf(out, needs)
	if err != nil || len(denied) == 0 {
		return err
	}
	return lacking(at, denied)
}

// deniedOf are the rights that a series of answers denies, which are in the order of the questions.
func deniedOf(answers []byte, asked []right) (denied []right, err error) {
	d := json.NewDecoder(bytes.NewReader(answers))
	for _, r := range asked {
		var a struct {
			Status struct {
				Allowed *bool  `json:"allowed"`
				Unsure  string `json:"evaluationError"`
			} `json:"status"`
		}
		switch err := d.Decode(&a); {
		case errors.Is(err, io.EOF):
			return denied, nil
		case err != nil:
			return nil, fmt.Errorf("kubectl create: answers about rights: %w", err)
		}
		if yes := a.Status.Allowed; yes != nil && !*yes && a.Status.Unsure == "" {
			denied = append(denied, r)
		}
	}
	return denied, nil
}

// lacking says which rights an account lacks, and how it gets them.
func lacking(at Place, denied []right) error {
	var verbs, resources, parts []string
	of := map[string][]string{}
	for _, r := range denied {
		if len(of[r.resource]) == 0 {
			resources = append(resources, r.resource)
		}
		of[r.resource] = append(of[r.resource], r.verb)
		if !slices.Contains(verbs, r.verb) {
			verbs = append(verbs, r.verb)
		}
	}
	for _, resource := range resources {
		parts = append(parts, strings.Join(of[resource], ", ")+" "+resource)
	}
	return fmt.Errorf("this account may not %s in %s\n\thint: whoever runs the cluster can allow it: kubectl --namespace=%s create role profllm --verb=%s --resource=%s, and a rolebinding to this account (kubectl auth whoami)",
		strings.Join(parts, "; "), at, at.Namespace, strings.Join(verbs, ","), strings.Join(resources, ","))
}

// cannot is how an API server says that an account lacks a right
// (k8s.io/apiserver/pkg/endpoints/handlers/responsewriters).
var cannot = lazyregexp.New(`cannot ([a-z]+) resource "([a-z0-9./-]+)" in API group "([a-z0-9.-]*)"`)

// deniedBy is the right that an answer of the API server denies.
func deniedBy(said string) (right, bool) {
	m := cannot.FindStringSubmatch(said)
	if m == nil {
		return right{}, false
	}
	resource, sub, _ := strings.Cut(m[2], "/")
	if m[3] != "" {
		resource += "." + m[3]
	}
	if sub != "" {
		resource += "/" + sub
	}
	return right{m[1], resource}, true
}

// policy says in plain words why the cluster refuses an object that the account may make: the
// namespace is going, a quota or a limit is in the way, or a policy. ok is false for anything else.
func policy(said, namespace string) (text, hint string, ok bool) {
	const system = "[kubernetes] of the system file sets labels, annotations and the client's requests"
	describe := func(what string) string { return "kubectl describe " + what + " --namespace=" + namespace }
	switch {
	case strings.Contains(said, "because it is being terminated"):
		return "namespace " + namespace + " is being deleted",
			"wait until it is gone and create it again, or name another as default_namespace of the system file", true
	case strings.Contains(said, "exceeded quota"):
		return "the namespace's quota is used up", describe("quota"), true
	case strings.Contains(said, "failed quota"):
		return "the namespace's quota wants requests or limits that the manifest does not set", describe("quota"), true
	case strings.Contains(said, "ValidatingAdmissionPolicy"), strings.Contains(said, "MutatingAdmissionPolicy"):
		return "a policy of the cluster refuses it", system + "; else ask whoever runs the cluster", true
	case strings.Contains(said, "admission webhook") && strings.Contains(said, "denied the request"):
		return "an admission webhook of the cluster refuses it", system + "; else ask whoever runs the cluster", true
	case strings.Contains(said, "violates PodSecurity"):
		return "the namespace's pod security level refuses it", "use a namespace with the level baseline: kubectl get namespace " +
			namespace + " --show-labels", true
	case limitRange.MatchString(said):
		return "a limit range of the namespace refuses it", describe("limitrange"), true
	}
	return "", "", false
}

// limitRange matches what the admission plugin LimitRanger says, and what follows from the limits
// that it sets by itself.
var limitRange = lazyregexp.New(`(?:maximum|minimum) [a-z./-]+ usage per |max limit to request ratio per |must be less than or equal to [a-z./-]+ limit`)

// refusedPods is why a controller cannot make pods.
func refusedPods(what, message, namespace string) trouble {
	text, hint, ok := policy(message, namespace)
	if !ok {
		return trouble{fmt.Sprintf("the pods of %s are refused: %s", what, oneLine(message)), true}
	}
	return trouble{fmt.Sprintf("the pods of %s are refused, because %s: %s; %s", what, text, oneLine(message), hint),
		!quotaMayBeFreed(message)}
}

// quotaMayBeFreed reports whether a quota that is exceeded has room for what was asked once others have
// ended. The quota's plugin prints "requested: a=1,b=2, used: a=3,b=4, limited: a=3,b=9".
func quotaMayBeFreed(message string) bool {
	_, rest, ok := strings.Cut(message, "exceeded quota: ")
	_, rest, isList := strings.Cut(rest, "requested: ")
	asked, rest, _ := strings.Cut(rest, ", used: ")
	_, limited, isLimited := strings.Cut(rest, ", limited: ")
	if !ok || !isList || !isLimited {
		return false
	}
	limits := amounts(limited)
	for name, n := range amounts(asked) {
		if n > limits[name] {
			return false
		}
	}
	return true
}

// amounts reads a=1,b=2Gi.
func amounts(text string) map[string]float64 {
	list := map[string]float64{}
	for _, one := range strings.Split(text, ",") {
		name, amount, _ := strings.Cut(strings.TrimSpace(one), "=")
		list[name], _ = quantity(amount).value()
	}
	return list
}
