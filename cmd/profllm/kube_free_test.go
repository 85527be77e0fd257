package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
)

const fourGPUs = `{containers: [{name: main, image: "x:1", resources: {limits: {nvidia.com/gpu: 4}}}]}`

// A service keeps its GPUs after the clients have ended: status says so, and collect --wait, as from
// cron, ends it once the results are here.
//
// covers: P-18
func TestKubeHolds(t *testing.T) {
	l := newKubeLab(t)
	graph := l.submit()
	out := l.profllm("kube", "collect", "--wait", "--timeout", "1ms", "results")
	require.Equal(t, exitNotOver, out.code)
	require.Contains(t, out.stderr, "some runs are not over")
	require.NotEmpty(t, l.Left("profllm.io/run"))
	pod := l.client(graph)
	l.Says(pod, l.results())
	l.Pod(graph, "worker", fourGPUs)
	l.Ready(graph)
	l.end(pod, 0)
	await.True(t, func() bool {
		out = l.profllm("kube", "status", "results")
		return strings.Contains(out.stdout, "succeeded")
	}, "the run is over")
	require.Contains(t, out.stderr, "has ended, and its service still holds 4 GPUs\n\thint: profllm kube collect "+l.named())
	out = l.profllm("kube", "collect", "--wait", "--timeout", "1h", "results")
	require.Zero(t, out.code, out.stderr)
	require.Empty(t, l.Left("profllm.io/run"))
	require.NotContains(t, l.profllm("kube", "status", "results").stderr, "holds")
	for _, args := range [][]string{{"--timeout", "1h"}, {"--wait", "--timeout", "-1s"}, {"--wait", "--offline"}} {
		require.Equal(t, exitUsage, l.profllm(append([]string{"kube", "collect", "results"}, args...)...).code)
	}
}

// named is the run as commands print it.
func (l *kubeLab) named() string {
	l.t.Helper()
	name, err := filepath.Rel(l.dir, l.runDir())
	require.NoError(l.t, err)
	return name
}

// --wait frees the GPUs of each run when that run ends: another may wait for them.
//
// covers: P-18
func TestKubeFreesEach(t *testing.T) {
	l := newKubeLab(t)
	swept := strings.Replace(kubeScenario, "num-nodes = 1\n", "num-nodes = 1\nargs = { max-num-seqs = [8, 16] }\n", 1)
	require.NoError(t, os.WriteFile(filepath.Join(l.dir, "kube.toml"), []byte(swept), 0o644))
	done := make(chan outcome)
	go func() {
		done <- profllm(t, l.dir, nil, "kube", "submit", "--wait", "--system", "cluster.toml", "kube.toml")
	}()
	var graphs []string
	await.True(t, func() bool {
		graphs = strings.Fields(l.Kubectl("get", "dynamographdeployments.nvidia.com", "--output=jsonpath={.items[*].metadata.name}"))
		return len(graphs) == 2
	}, "both services are made")
	for i, graph := range graphs {
		pod := l.client(graph)
		l.Says(pod, l.results())
		l.serve(graph)
		l.end(pod, 0)
		await.True(t, func() bool {
			return l.Kubectl("get", "pods,jobs,dynamographdeployments.nvidia.com", "--output=name") == "" || i == 0 &&
				!strings.Contains(l.Kubectl("get", "pods,jobs,dynamographdeployments.nvidia.com", "--output=name"), graph)
		}, "nothing is left of %s", graph)
	}
	out := <-done
	require.Zero(t, out.code, out.stderr)
}
