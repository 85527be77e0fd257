package kube_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/run"
)

// enough are the rights that the documentation asks for, by resource.
var enough = []struct{ group, resource, verbs string }{
	{"batch", "jobs", "get list create delete"}, {"nvidia.com", "dynamographdeployments", "get list create delete"},
	{"apps", "deployments", "list"}, {"", "pods", "get list"}, {"", "pods/log", "get"}, {"", "events", "list"},
}

// account makes an account with the rights that are enough, but one, and its kubeconfig.
func (c *cluster) account(without string) (kubeconfig string) {
	c.t.Helper()
	var rules []string
	for _, r := range enough {
		for _, verb := range strings.Fields(r.verbs) {
			if verb+" "+r.resource != without {
				rules = append(rules, fmt.Sprintf(`{apiGroups: [%q], resources: [%q], verbs: [%q]}`, r.group, r.resource, verb))
			}
		}
	}
	c.Apply(fmt.Sprintf(`apiVersion: v1
kind: ServiceAccount
metadata: {name: bench}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: bench}
rules: [%s]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: bench}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: bench}
subjects: [{kind: ServiceAccount, name: bench}]
`, strings.Join(rules, ", ")))
	token := strings.TrimSpace(c.Kubectl("create", "token", "bench"))
	view := c.Kubectl("config", "view", "--minify", "--flatten", "--output=jsonpath={.clusters[0].cluster.server} {.clusters[0].cluster.certificate-authority-data}")
	server, ca, _ := strings.Cut(view, " ")
	kubeconfig = filepath.Join(c.t.TempDir(), "kubeconfig")
	require.NoError(c.t, os.WriteFile(kubeconfig, []byte(fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: kube-lab
clusters: [{name: kube-lab, cluster: {server: %q, certificate-authority-data: %q}}]
users: [{name: bench, user: {token: %q}}]
contexts: [{name: kube-lab, context: {cluster: kube-lab, user: bench}}]
`, server, ca, token)), 0o600))
	return kubeconfig
}

// as has a run use another account.
func (r *oneRun) as(kubeconfig string) {
	r.t.Helper()
	r.plan.Kubernetes.Kubeconfig = kubeconfig
	data, err := r.plan.Encode()
	require.NoError(r.t, err)
	require.NoError(r.t, os.WriteFile(filepath.Join(r.dir, run.PlanFile), data, 0o644))
}

// refused submits a run that the cluster refuses, of which nothing is left.
func (r *oneRun) refused() string {
	r.t.Helper()
	_, err := r.Submit(r.t.Context(), r.request())
	var refused *run.RefusedError
	require.ErrorAs(r.t, err, &refused)
	require.Empty(r.t, r.left())
	return refused.Reason
}

// Each right that is missing is named before anything is made, with what gives it.
//
// covers: P-18
func TestKubeRights(t *testing.T) {
	for _, of := range enough {
		for _, verb := range strings.Fields(of.verbs) {
			right := verb + " " + of.resource
			if of.resource == "events" {
				continue // only some causes are not known without them
			}
			t.Run(right, func(t *testing.T) {
				r := lab(t).run("rig")
				r.as(r.account(right))
				resource, sub, _ := strings.Cut(of.resource, "/")
				if of.group != "" {
					resource += "." + of.group
				}
				if sub != "" {
					resource += "/" + sub
				}
				said := r.refused()
				require.Contains(t, said, "this account may not "+verb+" "+resource+" in namespace "+r.Namespace)
				require.Contains(t, said, "create role profllm --verb="+verb+" --resource="+resource+",")
			})
		}
	}
}

// The rights that are asked for are enough, from submission to deletion.
//
// covers: P-18
func TestKubeRightsAreEnough(t *testing.T) {
	r := lab(t).run("eno", replace("kube-lab/done-after: 1h", "kube-lab/done-after: 1s"))
	r.as(r.account(""))
	id := r.submit()
	r.pod("frontend", oneContainer)
	r.isReady()
	st := r.until(id, run.State.Final, "the Job ends")
	fetched, err := r.Fetch(t.Context(), id, st)
	require.NoError(t, err)
	require.True(t, fetched)
	_, err = r.Held(t.Context(), []string{id})
	require.NoError(t, err)
	r.clean(id)
	require.Empty(t, r.left())
	again := r.submit()
	require.NoError(t, r.Cancel(t.Context(), again))
}

// What a quota, a policy of the cluster or the end of a namespace refuses is said in plain words, and
// leaves nothing.
//
// covers: P-18
func TestKubePolicies(t *testing.T) {
	t.Run("quota", func(t *testing.T) {
		r := lab(t).run("pol")
		r.Kubectl("create", "quota", "few", "--hard=count/jobs.batch=0")
		await.True(t, func() bool {
			return r.Kubectl("get", "quota", "few", "--output=jsonpath={.status.hard}") != ""
		}, "the quota counts")
		require.Contains(t, r.refused(), "the namespace's quota is used up")
	})
	t.Run("policy", func(t *testing.T) {
		r := lab(t).run("pol")
		r.policy("batch", "jobs", "every container needs limits")
		await.True(t, func() bool {
			_, err := r.Try(t.Context(), strings.NewReplacer("NAME", "try", "RUN", "try").Replace(manifest), "create", "--dry-run=server", "--filename=-")
			return err != nil
		}, "the policy is known")
		said := r.refused()
		require.Contains(t, said, "a policy of the cluster refuses it: ")
		require.Contains(t, said, "denied request: every container needs limits")
		require.Contains(t, said, "hint: [kubernetes] of the system file sets labels")
	})
	t.Run("namespace", func(t *testing.T) {
		r := lab(t).run("pol")
		r.Apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: stays, finalizers: [example.org/x]}}")
		r.Kubectl("delete", "namespace", r.Namespace, "--wait=false")
		require.Contains(t, r.refused(), "namespace "+r.Namespace+" is being deleted: ")
		r.Kubectl("patch", "configmap", "stays", "--type=merge", `--patch={"metadata":{"finalizers":null}}`)
	})
}

// policy makes a policy that refuses objects of the namespace.
func (c *cluster) policy(group, resource, message string) {
	c.t.Helper()
	c.Apply(fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}
    resourceRules: [{apiGroups: [%[2]q], apiVersions: [v1], operations: [CREATE], resources: [%[3]q]}]
  validations: [{expression: "false", message: %[4]q}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s, validationActions: [Deny]}
`, c.Namespace, group, resource, message))
	c.t.Cleanup(func() {
		_, err := c.Try(context.Background(), "", "delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", c.Namespace)
		require.NoError(c.t, err)
	})
}

// Pods that are refused are explained at the first look, also those of the Job.
//
// covers: P-18
func TestKubeRefusedPods(t *testing.T) {
	requests := replace(`image: "aiperf:1"`, `image: "aiperf:1", resources: {requests: {cpu: "4"}}`)
	for name, c := range map[string]struct {
		make  func(*cluster)
		want  string
		never bool
	}{
		"quota": {func(c *cluster) { c.Kubectl("create", "quota", "few", "--hard=requests.cpu=1") },
			"the pods of job ref-client are refused, because the namespace's quota is used up: ", true},
		"quota of others": {func(c *cluster) {
			c.Kubectl("create", "quota", "few", "--hard=pods=1")
			c.Kubectl("run", "other", "--image=x:1")
		}, "the namespace's quota is used up: ", false},
		"limits": {func(c *cluster) {
			c.Apply(`{apiVersion: v1, kind: LimitRange, metadata: {name: few}, spec: {limits: [{type: Container, max: {cpu: "1"}}]}}`)
		}, "a limit range of the namespace refuses it: ", true},
		"policy": {func(c *cluster) { c.policy("", "pods", "no pods today") }, "a policy of the cluster refuses it: ", true},
	} {
		t.Run(name, func(t *testing.T) {
			l := lab(t)
			c.make(l)
			r := l.run("ref", requests)
			pod := `{apiVersion: v1, kind: Pod, metadata: {name: try}, spec: {containers: [{name: main, image: "x:1", resources: {requests: {cpu: "4"}}}]}}`
			await.True(t, func() bool {
				_, err := r.Try(t.Context(), pod, "create", "--dry-run=server", "--filename=-")
				return err != nil
			}, "pods are refused")
			id := r.submit()
			st := r.until(id, func(st run.State) bool { return strings.Contains(st.Reason, c.want) }, c.want)
			require.Equal(t, run.Queued, st.State)
			require.Equal(t, c.never, st.Note == run.NeverStarts, st.Reason)
			require.NoError(t, r.Cancel(t.Context(), id))
			r.until(id, run.State.Final, "the run is cancelled")
			require.Empty(t, r.left())
		})
	}
}
