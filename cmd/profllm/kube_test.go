package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/kubetest"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

const kubeScenario = `name = "kube"
[[Tests]]
id = "a"
name = "a"
test_template_name = "AIDynamo"
time_limit = "1h"
[Tests.cmd_args]
docker_image_url = "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.6.1"
workloads = "aiperf"
[Tests.cmd_args.dynamo]
model = "tiny"
[Tests.cmd_args.dynamo.prefill_worker]
num-nodes = 0
[Tests.cmd_args.dynamo.decode_worker]
num-nodes = 1
[Tests.cmd_args.aiperf.args]
concurrency = 4
request-count = 32
synthetic-input-tokens-mean = 64
output-tokens-mean = 32
`

// kubeLab is a folder with a scenario and a system file of a cluster of its own.
type kubeLab struct {
	*kubetest.Cluster
	t   *testing.T
	dir string
}

func newKubeLab(t *testing.T) *kubeLab {
	t.Helper()
	l := &kubeLab{kubetest.New(t, os.Environ()), t, t.TempDir()}
	system := fmt.Sprintf(`name = "cluster"
scheduler = "kubernetes"
kube_config_path = %q
default_namespace = %q
install_path = "install"
output_path = "results"
gpus_per_node = 8
[kubernetes]
client_image = "registry.example/aiperf:0.13.0"
annotations = { "kube-lab/done-after" = "1h" }
`, l.Kubeconfig, l.Namespace)
	require.NoError(t, os.WriteFile(filepath.Join(l.dir, "cluster.toml"), []byte(system), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(l.dir, "kube.toml"), []byte(kubeScenario), 0o644))
	return l
}

func (l *kubeLab) profllm(args ...string) outcome { return profllm(l.t, l.dir, nil, args...) }

// submit submits the scenario, and returns the graph's name.
func (l *kubeLab) submit(more ...string) (graph string) {
	l.t.Helper()
	out := l.profllm(append([]string{"kube", "submit", "--system", "cluster.toml", "kube.toml"}, more...)...)
	require.Zero(l.t, out.code, out.stderr)
	return l.graph()
}

// graph is the name of the only graph, once it is there.
func (l *kubeLab) graph() (name string) {
	l.t.Helper()
	await.True(l.t, func() bool {
		name = l.Kubectl("get", "dynamographdeployments.nvidia.com", "--output=jsonpath={.items[*].metadata.name}")
		return name != ""
	}, "the service is made")
	return name
}

// client is the name of the Job's pod, once it runs.
func (l *kubeLab) client(graph string) (name string) {
	l.t.Helper()
	await.True(l.t, func() bool {
		name = l.Kubectl("get", "pods", "--selector=job-name="+graph+"-client", "--field-selector=status.phase=Running",
			"--output=jsonpath={.items[*].metadata.name}")
		return name != ""
	}, "the client's pod runs")
	return name
}

// serve plays the operator, until the service is ready.
func (l *kubeLab) serve(graph string) {
	l.t.Helper()
	for _, component := range []string{"frontend", "worker"} {
		l.Pod(graph, component, `{containers: [{name: main, image: "vllm-runtime:1.6.1"}]}`)
		l.Says(graph+"-"+component, component+" is up\n")
	}
	l.Ready(graph)
}

// end has the Job's pod end with an exit code.
func (l *kubeLab) end(pod string, code int) {
	l.t.Helper()
	phase := map[bool]string{true: "Succeeded", false: "Failed"}[code == 0]
	l.Kubectl("patch", "pod", pod, "--subresource=status", "--type=merge", "--patch="+fmt.Sprintf(
		`{"status":{"phase":%q,"containerStatuses":[{"name":"main","image":"x","imageID":"","ready":false,"restartCount":0,"state":{"terminated":{"exitCode":%d,"reason":"Error","startedAt":"2026-11-26T12:00:00Z","finishedAt":"2026-11-26T12:05:00Z"}}}]}}`,
		phase, code))
}

// results is the log of a Job that measured.
func (l *kubeLab) results() string {
	l.t.Helper()
	data, err := os.ReadFile("../../pkg/bench/aiperf/testdata/profile_export_aiperf.json")
	require.NoError(l.t, err)
	return "profllm: phase ready exit 0\nmeasuring\nprofllm: phase bench exit 0\n" + kubetest.Printed(kubetest.Packed(
		kubetest.Entry{Name: "raw/profile_export_aiperf.json", Text: string(data)},
		kubetest.Entry{Name: "logs/bench-0.log", Text: "measuring\n"}))
}

// runDir is the only run.
func (l *kubeLab) runDir() string {
	l.t.Helper()
	dirs, err := run.Find(filepath.Join(l.dir, "results"))
	require.NoError(l.t, err)
	require.Len(l.t, dirs, 1)
	return dirs[0]
}

func (l *kubeLab) record() *result.Result {
	l.t.Helper()
	data, err := os.ReadFile(filepath.Join(l.runDir(), run.ResultFile))
	require.NoError(l.t, err)
	r, err := result.Decode(data)
	require.NoError(l.t, err)
	return r
}

// submit --wait follows a run to its end, fetches, judges and cleans up.
//
// covers: P-18
func TestKubeWait(t *testing.T) {
	l := newKubeLab(t)
	l.Apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: bystander}, data: {}}")
	done := make(chan outcome)
	go func() {
		done <- profllm(t, l.dir, nil, "kube", "submit", "--watch", "--system", "cluster.toml", "kube.toml")
	}()
	graph := l.graph()
	pod := l.client(graph)
	l.Says(pod, l.results())
	l.serve(graph)
	await.True(t, func() bool {
		out := profllm(t, l.dir, nil, "kube", "status", "results")
		return out.code == 0 && strings.Contains(out.stdout, "running")
	}, "the run is under way")
	out := l.profllm("kube", "logs", "--role", "worker", "results")
	require.Zero(t, out.code)
	require.Contains(t, out.stdout, "worker is up")
	l.end(pod, 0)
	out = <-done
	t.Log(out.stdout, out.stderr)
	require.Zero(t, out.code)
	require.Contains(t, out.stderr, "fetched the logs and results")
	r := l.record()
	require.InDelta(t, 32, *r.Results.CompletedRequests, 0)
	require.Equal(t, result.Pass, r.Validity.Check("phase-failed").Outcome)
	require.Len(t, r.Placement.Roles, 2)
	require.NotEmpty(t, r.Placement.Roles[0].Hosts)
	require.Empty(t, l.Left("profllm.io/run"))
	require.Contains(t, l.Kubectl("get", "configmap", "bystander", "--output=name"), "bystander")
	again := l.profllm("kube", "status", "results")
	require.Zero(t, again.code, "what is known needs no objects")
	require.NotContains(t, again.stdout, "unknown")
	require.Contains(t, l.profllm("kube", "logs", "--role", "worker", "results").stdout, "worker is up")
}

// A pod that fails, and a run that was not waited for.
func TestKubeCollect(t *testing.T) {
	l := newKubeLab(t)
	graph := l.submit()
	pod := l.client(graph)
	l.Says(pod, strings.Replace(l.results(), "bench exit 0", "bench exit 7", 1))
	l.serve(graph)
	l.end(pod, 7)
	await.True(t, func() bool {
		return strings.Contains(l.profllm("kube", "status", "results").stdout, "failed")
	}, "the run has failed")
	require.FileExists(t, filepath.Join(l.runDir(), "logs/bench-0.log"))
	require.Equal(t, exitJobFailed, l.profllm("kube", "collect", "--keep", "results").code)
	require.NotEmpty(t, l.Left("profllm.io/run"))
	require.Equal(t, exitJobFailed, l.profllm("kube", "collect", "results").code)
	require.Empty(t, l.Left("profllm.io/run"))
	require.Equal(t, exitJobFailed, l.profllm("collect", "results").code)
	r := l.record()
	require.Equal(t, result.Fail, r.Validity.Check("phase-failed").Outcome)
}

// What this account may not do keeps a run and its objects, and collect says why.
//
// covers: P-18
func TestKubeCollectForbidden(t *testing.T) {
	l := newKubeLab(t)
	graph := l.submit()
	pod := l.client(graph)
	l.Says(pod, l.results())
	l.serve(graph)
	l.end(pod, 0)
	kubectl, err := exec.LookPath("kubectl")
	require.NoError(t, err)
	bin := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(bin, "kubectl"), []byte(`#!/bin/bash
for word in logs delete; do
  if [[ " $* " == *" $word "* && -e `+bin+`/no-$word ]]; then
    echo "Error from server (Forbidden): you cannot use $word" >&2
    exit 1
  fi
done
exec `+kubectl+` "$@"
`), 0o755))
	for _, word := range []string{"logs", "delete"} {
		require.NoError(t, os.WriteFile(filepath.Join(bin, "no-"+word), nil, 0o644))
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	var out outcome
	await.True(t, func() bool {
		out = l.profllm("kube", "collect", "results")
		return strings.Contains(out.stderr, "has ended, and its results are not fetched")
	}, "the run has ended; last: %v", &out)
	require.Equal(t, exitNotOver, out.code)
	require.Contains(t, out.stderr, "you cannot use logs")
	require.NoFileExists(t, filepath.Join(l.runDir(), run.SentinelFile))
	require.NotEmpty(t, l.Left("profllm.io/run"))

	require.NoError(t, os.Remove(filepath.Join(bin, "no-logs")))
	out = l.profllm("kube", "collect", "results")
	require.Equal(t, exitNotOver, out.code)
	require.Contains(t, out.stderr, "its objects are not deleted: this account may not do that")
	require.NotEmpty(t, l.Left("profllm.io/run"))
	require.NoError(t, os.Remove(filepath.Join(bin, "no-delete")))
	require.Zero(t, l.profllm("kube", "collect", "results").code)
	require.Empty(t, l.Left("profllm.io/run"))
	require.Equal(t, result.Pass, l.record().Validity.Check("phase-failed").Outcome)
}

// A log that was cut makes the run invalid, for that reason.
func TestKubeCutLog(t *testing.T) {
	l := newKubeLab(t)
	graph := l.submit()
	pod := l.client(graph)
	text := l.results()
	l.Says(pod, text[:len(text)/2])
	l.serve(graph)
	l.end(pod, 0)
	var out outcome
	await.True(t, func() bool {
		out = l.profllm("kube", "collect", "results")
		return out.code != exitNotOver
	}, "the run is over")
	require.Equal(t, exitJobFailed, out.code)
	r := l.record()
	require.NotNil(t, r.Failure)
	require.Equal(t, "results-cut", r.Failure.Cause)
}

// --wait ends early for a run that does not start, and says why and what to do; cancel ends it.
//
// covers: P-18
func TestKubeWaitForNothing(t *testing.T) {
	l := newKubeLab(t)
	done := make(chan outcome)
	go func() {
		done <- profllm(t, l.dir, nil, "kube", "submit", "--wait", "--system", "cluster.toml", "kube.toml")
	}()
	graph := l.graph()
	l.Pod(graph, "worker", `{containers: [{name: main, image: "x:1", resources: {limits: {nvidia.com/gpu: 9}}}]}`)
	l.Operator(graph, "pending", "False", "some_resources_are_not_ready", "Resources not ready", 1)
	out := <-done
	require.Equal(t, exitNotSubmit, out.code)
	require.Contains(t, out.stderr, "asks for 9 of nvidia.com/gpu, and the largest node has 8")
	require.Contains(t, out.stderr, "hint: profllm kube cancel")
	require.NotEmpty(t, l.Left("profllm.io/run"), "the run may start yet")
	out = l.profllm("kube", "cancel", "results")
	require.Zero(t, out.code)
	require.Contains(t, out.stdout, "cancelled")
	require.Empty(t, l.Left("profllm.io/run"))
	require.Contains(t, l.profllm("kube", "status", "results").stdout, "cancelled")
}

// A service without Dynamo is a Deployment, of which Kubernetes itself says whether it is ready; cancel
// deletes what a run that is over has, too.
//
// covers: P-18
func TestKubeDeployment(t *testing.T) {
	l := newKubeLab(t)
	require.NoError(t, os.WriteFile(filepath.Join(l.dir, "vllm.toml"), []byte(`name = "vllm"
[[Tests]]
id = "serve"
name = "serve"
test_template_name = "vllm"
time_limit = "30m"
[Tests.cmd_args]
docker_image_url = "vllm/vllm-openai:v0.11.0"
model = "Qwen/Qwen3-0.6B"
[Tests.cmd_args.decode]
tensor_parallel_size = 2
[Tests.bench_cmd_args]
random_input_len = 512
random_output_len = 64
max_concurrency = 8
num_prompts = 80
`), 0o644))
	require.Zero(t, l.profllm("kube", "submit", "--system", "cluster.toml", "vllm.toml").code)
	await.True(t, func() bool {
		return strings.Contains(l.profllm("kube", "status", "results").stdout, "running")
	}, "the run is under way")
	pod := strings.TrimSpace(l.Kubectl("get", "pods", "--selector=profllm.io/role=client", "--output=jsonpath={.items[0].metadata.name}"))
	l.Says(pod, "profllm: phase ready exit 1\n"+kubetest.Printed(kubetest.Packed()))
	l.end(pod, 1)
	await.True(t, func() bool {
		return strings.Contains(l.profllm("kube", "status", "results").stdout, "failed")
	}, "the run is over")
	require.FileExists(t, filepath.Join(l.runDir(), "logs/serve-0.log"))
	require.NotEmpty(t, l.Left("profllm.io/run"))
	out := l.profllm("kube", "cancel", "results")
	require.Zero(t, out.code)
	require.Contains(t, out.stderr, l.named()+" had ended before (failed")
	require.Contains(t, out.stderr, "hint: profllm kube collect "+l.named())
	require.Empty(t, l.Left("profllm.io/run"))
	require.Equal(t, exitJobFailed, l.profllm("kube", "collect", "results").code)
	require.NotContains(t, l.profllm("kube", "cancel", "results").stderr, "had ended before")
}

// logs --follow prints what pods print until the run is over, each line once.
//
// covers: P-18
func TestKubeLogsFollow(t *testing.T) {
	l := newKubeLab(t)
	graph := l.submit()
	require.Equal(t, exitUsage, l.profllm("kube", "logs", "--follow", "--role", "nobody", "results").code)
	require.Equal(t, exitUsage, l.profllm("kube", "logs", "--follow", "--output", "json", "results").code)
	done := make(chan outcome)
	go func() { done <- profllm(t, l.dir, nil, "kube", "logs", "--follow", "--lines=500", "results") }()
	pod := l.client(graph)
	l.Says(pod, l.results())
	l.serve(graph)
	l.end(pod, 0)
	out := <-done
	require.Zero(t, out.code, out.stderr)
	for _, line := range []string{"worker-0: worker is up", "frontend-0: frontend is up", "job: measuring"} {
		require.Equal(t, 1, strings.Count(out.stdout, line), out.stdout)
	}
	require.NotContains(t, out.stdout, "H4sI")
	require.FileExists(t, filepath.Join(l.runDir(), run.SentinelFile), "it was fetched")
}

// vLLM with prefill and decode, and the proxy before them, without Dynamo.
//
// covers: P-18
func TestKubePrefillDecode(t *testing.T) {
	l := newKubeLab(t)
	system := filepath.Join(l.dir, "cluster.toml")
	data, err := os.ReadFile(system)
	require.NoError(t, err)
	text, err := os.ReadFile("../../pkg/manifest/testdata/vllm-disaggregated.toml")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(l.dir, "vllm.toml"), text, 0o644))
	out := l.profllm("kube", "submit", "--system", "cluster.toml", "vllm.toml")
	require.Equal(t, exitDefinition, out.code)
	require.Contains(t, out.stderr, "hint: set proxy_image in [kubernetes] of the system file")
	require.NoError(t, os.WriteFile(system, append(data, "proxy_image = \"registry.example/profllm:1\"\n"...), 0o644))
	out = l.profllm("kube", "submit", "--system", "cluster.toml", "vllm.toml")
	require.Zero(t, out.code, out.stderr)
	await.True(t, func() bool {
		return strings.Contains(l.profllm("kube", "status", "results").stdout, "running")
	}, "the run is under way")
	require.Len(t, strings.Fields(l.Kubectl("get", "deployments,services", "--output=name")), 2*4)
	for _, role := range []string{"prefill_0", "prefill_1", "decode", "proxy"} {
		require.Len(t, strings.Fields(l.Kubectl("get", "pods", "--selector=profllm.io/role="+role, "--output=name")), 1, role)
	}
	pod := strings.TrimSpace(l.Kubectl("get", "pods", "--selector=profllm.io/role=client", "--output=jsonpath={.items[0].metadata.name}"))
	l.Says(pod, "profllm: phase ready exit 1\n"+kubetest.Printed(kubetest.Packed()))
	l.end(pod, 1)
	await.True(t, func() bool {
		out = l.profllm("kube", "status", "results")
		return strings.Contains(out.stdout, "failed")
	}, "the run is over")
	require.Contains(t, out.stderr, "its service still holds 8 GPUs")
	for _, name := range []string{"prefill_0-0", "prefill_1-0", "decode-0", "proxy-0"} {
		require.FileExists(t, filepath.Join(l.runDir(), "logs", name+".log"))
	}
	require.Equal(t, exitJobFailed, l.profllm("kube", "collect", "results").code)
	require.Empty(t, l.Left("profllm.io/run"))
}
