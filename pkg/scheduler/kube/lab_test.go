package kube_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/kubetest"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/scheduler/kube"
)

// cluster is a namespace of its own in a real cluster.
type cluster struct {
	*kube.Kube
	*kubetest.Cluster
	t *testing.T
}

// lab makes a namespace, which goes with the test.
func lab(t *testing.T) *cluster {
	t.Helper()
	return &cluster{kube.New(os.Environ(), time.Now), kubetest.New(t, os.Environ()), t}
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
		Kubernetes: &plan.Kubernetes{Kubeconfig: c.Kubeconfig, Namespace: c.Namespace, Name: name, Graph: "v1beta1",
			ClientImage: "aiperf:1"},
		Roles: []plan.Role{
			{Name: "frontend", Nodes: plan.Slice{Offset: 0, Count: 1}},
			{Name: "decode", Nodes: plan.Slice{Offset: 0, Count: 1}, Engine: true},
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

// replace replaces a part of the manifest.
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
	r.Pod(r.plan.Kubernetes.Name, component, spec, annotations...)
}

const oneContainer = `{containers: [{name: main, image: "dynamo/vllm-runtime:1.6.1"}]}`

// operator plays the operator: it writes the graph's status.
func (r *oneRun) operator(state, ready, reason, message string, generation int) {
	r.t.Helper()
	r.Operator(r.plan.Kubernetes.Name, state, ready, reason, message, generation)
}

func (r *oneRun) isReady() { r.Ready(r.plan.Kubernetes.Name) }

// clean deletes what the run has, of which nothing is somebody else's.
func (r *oneRun) clean(id string) {
	r.t.Helper()
	left, err := r.Clean(r.t.Context(), r.dir, r.plan, id)
	require.NoError(r.t, err)
	require.Empty(r.t, left)
}

// left lists what carries the run's label.
func (r *oneRun) left() string { return r.Left("profllm.io/run=" + r.plan.RunID) }
