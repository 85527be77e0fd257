package kube_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	json "github.com/go-json-experiment/json/v1"
	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/scheduler/kube"
)

// kubeconfigVar names the cluster of the tests; .ci/test-kube sets it.
const kubeconfigVar = "PROFLLM_KUBECONFIG"

// cluster is a namespace of its own in a real cluster.
type cluster struct {
	*kube.Kube
	t          *testing.T
	kubeconfig string
	namespace  string
}

// lab makes a namespace, which goes with the test.
func lab(t *testing.T) *cluster {
	t.Helper()
	file := os.Getenv(kubeconfigVar)
	if file == "" {
		t.Skip("no cluster: " + kubeconfigVar + " is not set (make test-kube)")
	}
	c := &cluster{t: t, kubeconfig: file, namespace: fmt.Sprintf("profllm-%x", time.Now().UnixNano())}
	c.Kube = kube.New(os.Environ(), time.Now)
	c.kubectl("create", "namespace", c.namespace)
	t.Cleanup(func() {
		_, err := c.try(context.Background(), "", "delete", "namespace", c.namespace, "--wait=false")
		require.NoError(t, err)
	})
	return c
}

// try runs kubectl.
func (c *cluster) try(ctx context.Context, stdin string, args ...string) (string, error) {
	args = append([]string{"--kubeconfig=" + c.kubeconfig, "--namespace=" + c.namespace}, args...)
	cmd := exec.CommandContext(ctx, "kubectl", args...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, errs.String())
	}
	return out.String(), nil
}

func (c *cluster) kubectl(args ...string) string {
	c.t.Helper()
	out, err := c.try(c.t.Context(), "", args...)
	require.NoError(c.t, err)
	return out
}

func (c *cluster) apply(manifest string) {
	c.t.Helper()
	_, err := c.try(c.t.Context(), manifest, "apply", "--filename=-")
	require.NoError(c.t, err)
}

// oneRun is a run directory that was planned for the cluster.
type oneRun struct {
	*cluster
	dir  string
	plan *plan.Plan
}

// run makes a run directory. knobs change the manifest.
func (c *cluster) run(name string, knobs ...func(string) string) *oneRun {
	c.t.Helper()
	dir := filepath.Join(c.t.TempDir(), name)
	require.NoError(c.t, os.MkdirAll(filepath.Join(dir, run.RawDir), 0o755))
	p := &plan.Plan{
		Schema: plan.Schema, RunID: name + "-id", Created: time.Now().UTC(), Scenario: "s", Test: name, Name: name,
		Workload: "AIDynamo", Dir: dir,
		Job: plan.Job{Name: "s." + name + "-id", Comment: "profllm:" + name + "-id", Nodes: 1},
		Kubernetes: &plan.Kubernetes{Kubeconfig: c.kubeconfig, Namespace: c.namespace, Name: name, Graph: "v1beta1",
			ClientImage: "aiperf:1"},
		Roles: []plan.Role{
			{Name: "frontend", Nodes: plan.Slice{Offset: 0, Count: 1}},
			{Name: "decode", Nodes: plan.Slice{Offset: 1, Count: 1}, Engine: true},
		},
		Loads: []plan.Load{{RunID: name + "-id", Dir: dir, Clients: []plan.Step{{Name: "bench"}}, Client: "aiperf"}},
	}
	text := manifest
	for _, k := range knobs {
		text = k(text)
	}
	text = strings.NewReplacer("NAME", name, "RUN", p.RunID).Replace(text)
	r := &oneRun{cluster: c, dir: dir, plan: p}
	data, err := p.Encode()
	require.NoError(c.t, err)
	require.NoError(c.t, run.WriteFile(filepath.Join(dir, run.PlanFile), data, 0o644))
	require.NoError(c.t, run.WriteFile(filepath.Join(dir, run.ManifestFile), []byte(text), 0o644))
	return r
}

// without replaces a part of the manifest.
func replace(old, new string) func(string) string {
	return func(text string) string {
		if !strings.Contains(text, old) {
			panic(old)
		}
		return strings.ReplaceAll(text, old, new)
	}
}

// manifest is a run of one frontend and one worker, and its client.
const manifest = `apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
metadata:
  name: NAME
  labels: {profllm.io/run: RUN}
spec:
  backendFramework: vllm
  labels: {profllm.io/run: RUN}
  components:
  - name: frontend
    type: frontend
    replicas: 1
    podTemplate:
      spec: {containers: [{name: main, image: "dynamo/vllm-runtime:1.6.1"}]}
  - name: decode
    type: decode
    replicas: 1
    podTemplate:
      spec: {containers: [{name: main, image: "dynamo/vllm-runtime:1.6.1", resources: {limits: {nvidia.com/gpu: "1"}}}]}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: NAME-client
  labels: {profllm.io/run: RUN}
spec:
  backoffLimit: 0
  activeDeadlineSeconds: 3600
  ttlSecondsAfterFinished: 3600
  template:
    metadata:
      labels: {profllm.io/run: RUN}
      annotations: {kube-lab/done-after: 1h}
    spec:
      restartPolicy: Never
      containers: [{name: main, image: "aiperf:1"}]
`

func (r *oneRun) request() run.Request {
	return run.Request{Script: filepath.Join(r.dir, run.ManifestFile), Name: r.plan.Job.Name, Dir: r.dir}
}

// submit submits the run, and returns its id.
func (r *oneRun) submit() string {
	r.t.Helper()
	sub, err := r.Submit(r.t.Context(), r.request())
	require.NoError(r.t, err)
	return sub.JobID
}

// state asks for the state of a job.
func (r *oneRun) state(id string) run.State {
	r.t.Helper()
	require.NoError(r.t, r.Know(r.dir, r.plan, id))
	states, err := r.States(r.t.Context(), []string{id})
	require.NoError(r.t, err)
	return states[id]
}

// until waits until the state is as wanted.
func (r *oneRun) until(id string, want func(run.State) bool, what string) run.State {
	r.t.Helper()
	var st run.State
	await.True(r.t, func() bool { st = r.state(id); return want(st) }, what)
	return st
}

// pod makes a pod of the service, as the operator would.
func (r *oneRun) pod(component, spec string, annotations ...string) {
	r.t.Helper()
	owner := r.kubectl("get", "dynamographdeployments.nvidia.com", r.plan.Kubernetes.Name, "--output=jsonpath={.metadata.uid}")
	r.apply(fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  name: %s-%s
  ownerReferences: [{apiVersion: nvidia.com/v1beta1, kind: DynamoGraphDeployment, name: %s, uid: %s}]
  labels: {profllm.io/run: %s, nvidia.com/dynamo-component: %s}
  annotations: {%s}
spec: %s
`, r.plan.Kubernetes.Name, component, r.plan.Kubernetes.Name, owner, r.plan.RunID, component, strings.Join(annotations, ", "), spec))
}

const oneContainer = `{containers: [{name: main, image: "dynamo/vllm-runtime:1.6.1"}]}`

// operator plays the operator: it writes the graph's status.
func (r *oneRun) operator(state, ready, reason, message string, generation int) {
	r.t.Helper()
	status, err := json.Marshal(map[string]any{"status": map[string]any{
		"state": state, "observedGeneration": generation,
		"conditions": []any{map[string]any{"type": "Ready", "status": ready, "reason": reason, "message": message,
			"observedGeneration": generation, "lastTransitionTime": time.Now().UTC().Format(time.RFC3339)}},
	}})
	require.NoError(r.t, err)
	r.kubectl("patch", "dynamographdeployments.nvidia.com", r.plan.Kubernetes.Name, "--subresource=status",
		"--type=merge", "--patch="+string(status))
}

func (r *oneRun) isReady() {
	r.operator("successful", "True", "all_resources_are_ready", "All resources are ready", 1)
}

// left lists what carries the run's label.
func (r *oneRun) left() string {
	return r.kubectl("get", "all,dynamographdeployments.nvidia.com,jobs,secrets,configmaps", "--selector=profllm.io/run="+r.plan.RunID,
		"--output=name")
}

// saying gives a pod a log of its own.
func (c *cluster) saying(pod, text string, previous ...string) {
	c.t.Helper()
	file := filepath.Join(c.t.TempDir(), pod+".log")
	var lines strings.Builder
	at := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	for line := range strings.Lines(text) {
		fmt.Fprintf(&lines, "%s stdout F %s\n", at.Format("2006-01-02T15:04:05.000000000Z"), strings.TrimSuffix(line, "\n"))
		at = at.Add(time.Second)
	}
	require.NoError(c.t, os.WriteFile(file, []byte(lines.String()), 0o644))
	c.apply(fmt.Sprintf(`apiVersion: kwok.x-k8s.io/v1alpha1
kind: Logs
metadata: {name: %q}
spec: {logs: [{logsFile: %q, previousLogsFile: %[2]q, follow: false}]}
`, pod, file))
}
