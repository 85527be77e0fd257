package manifest_test

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/profllm/profllm/pkg/cloudaitest"
	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/manifest"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/planner"
	"github.com/profllm/profllm/pkg/scenario"
)

var update = flag.Bool("update", false, "rewrite the golden manifests")

// planned are the plans of a scenario on a cluster, as dry-run makes them.
func planned(system, text []byte) ([]*plan.Plan, error) {
	sys, err := config.Parse("cluster.toml", system)
	if err != nil {
		return nil, err
	}
	s, err := scenario.Load(scenario.File{Name: "scenario.toml", Data: text}, nil, scenario.HookFiles{})
	if err != nil {
		return nil, err
	}
	set, err := planner.Plans(s, sys, planner.Options{Version: "v1.0.0", Created: time.Date(2026, 11, 26, 20, 0, 0, 0,
		time.UTC),
		Output: "/runs", Binary: "/bin/profllm", WorkDir: "/site"})
	if err != nil {
		return nil, err
	}
	return set.Plans, nil
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return data
}

// one is the plan of a scenario with one run.
func one(t *testing.T, system, name string) *plan.Plan {
	t.Helper()
	plans, err := planned(read(t, system), read(t, name+".toml"))
	require.NoError(t, err)
	require.Len(t, plans, 1)
	require.NoError(t, plans[0].Sound())
	return plans[0]
}

// goldens are the manifests that are kept: a scenario, and the cluster it is planned for.
var goldens = map[string]struct{ system, scenario string }{
	"aggregated":             {"cluster.toml", "aggregated"},
	"disaggregated":          {"cluster.toml", "disaggregated"},
	"disaggregated-v1alpha1": {"old.toml", "disaggregated"},
	"mocker":                 {"small.toml", "mocker"},
	"mocker-v1alpha1":        {"old.toml", "mocker"},
	"vllm":                   {"cluster.toml", "vllm"},
	"vllm-disaggregated":     {"cluster.toml", "vllm-disaggregated"},
}

// covers: P-18, P-22, U-03, U-41, U-42
func TestGolden(t *testing.T) {
	for name, g := range goldens {
		t.Run(name, func(t *testing.T) {
			p := one(t, g.system, g.scenario)
			got, err := manifest.Render(p)
			require.NoError(t, err)
			file := filepath.Join("testdata", name+".golden.yaml")
			if *update {
				require.NoError(t, os.WriteFile(file, got, 0o644))
			}
			require.Equal(t, string(read(t, filepath.Base(file))), string(got))

			again, err := manifest.Render(one(t, g.system, g.scenario))
			require.NoError(t, err)
			require.Equal(t, string(got), string(again), "the same input gives the same bytes")
			data, err := p.Encode()
			require.NoError(t, err)
			stored, err := plan.Decode(data)
			require.NoError(t, err)
			again, err = manifest.Render(stored)
			require.NoError(t, err)
			require.Equal(t, string(got), string(again), "plan.json has everything")
		})
	}
}

// documents are the objects of a manifest, read as any program reads them.
func documents(t *testing.T, data []byte) (list []map[string]any) {
	t.Helper()
	for d := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var m map[string]any
		err := d.Decode(&m)
		if err == io.EOF {
			return list
		}
		require.NoError(t, err)
		list = append(list, m)
	}
}

// at is a value below a path of keys and indices.
func at(v any, path ...any) any {
	for _, p := range path {
		switch k := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[k]
		case int:
			l, _ := v.([]any)
			if k >= len(l) {
				return nil
			}
			v = l[k]
		}
	}
	return v
}

// Everything that a run creates is found by its label, in an explicit namespace; a failed client is
// not started again; the token is in no manifest.
//
// covers: P-18
func TestEveryObject(t *testing.T) {
	for name := range goldens {
		data := read(t, name+".golden.yaml")
		list := documents(t, data)
		require.GreaterOrEqual(t, len(list), 2, name)
		for _, o := range list {
			require.Equal(t, "exp_20261126_200000", strings.Join(strings.Split(at(o, "metadata", "labels",
				plan.RunLabel).(string), "_")[:3], "_"))
			require.NotEmpty(t, at(o, "metadata", "namespace"), name)
		}
		job := list[len(list)-1]
		require.Equal(t, "Job", job["kind"])
		require.Equal(t, 0, at(job, "spec", "backoffLimit"))
		require.Equal(t, "Never", at(job, "spec", "template", "spec", "restartPolicy"))
		first := list[0]["metadata"].(map[string]any)["name"].(string)
		require.Equal(t, strings.TrimSuffix(first, "-prefill-0")+"-client", at(job, "metadata", "name"))
		require.NotContains(t, string(data), "HF_TOKEN")
	}
}

// One value is the same on every path to a pod: a kubelet would expand $(NAME), and profllm knows
// where the frontend is.
func TestWordsOfPods(t *testing.T) {
	list := documents(t, read(t, "disaggregated.golden.yaml"))
	env := at(list[0], "spec", "env").([]any)
	require.Contains(t, env, map[string]any{"name": "PRICE", "value": "$$(date) costs $$$5"})
	frontend := at(list[0], "spec", "components", 2, "podTemplate", "spec", "containers", 0, "env").([]any)
	require.Contains(t, frontend, map[string]any{"name": "FRONTEND", "value": at(list[0], "metadata",
		"name").(string) + "-frontend:8000"})
}

// The Kubernetes scenario of CloudAI's folder with its Kubernetes system: it is refused for what
// would have no effect there, a mount of the nodes' udev, and since no image of AIPerf is known.
// With both mended it plans, and the client is the one that workloads names, which CloudAI did not
// run there.
//
// covers: P-18, U-42
func TestCorpus(t *testing.T) {
	conf := cloudaitest.Conf(t, os.Environ())
	file := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(conf, filepath.FromSlash(name)))
		require.NoError(t, err)
		return data
	}
	make := func(system, test string) ([]*plan.Plan, error) {
		sys, err := config.Parse("kubernetes_cluster.toml", []byte(system))
		require.NoError(t, err)
		s, err := scenario.Load(
			scenario.File{Name: "vllm_k8s.toml", Data: file("experimental/ai_dynamo/test_scenario/vllm_k8s.toml")},
			[]scenario.File{{Name: "vllm.toml", Data: []byte(test)}}, scenario.HookFiles{})
		require.NoError(t, err)
		set, err := planner.Plans(s, sys, planner.Options{Version: "v1.0.0", Created: time.Unix(0, 0), Output: "/runs",
			Binary:  "/p",
			WorkDir: "/site"})
		if err != nil {
			return nil, err
		}
		return set.Plans, nil
	}
	system, test := string(file("common/system/kubernetes_cluster.toml")),
		string(file("experimental/ai_dynamo/test/vllm.toml"))
	_, err := make(system, test)
	require.ErrorContains(t, err,
		"kubernetes_cluster.toml:1:1: kubernetes.client_image is missing: the servers' image "+
			"nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.1.1 has no aiperf")
	require.ErrorContains(t, err,
		`vllm.toml:20:1: test "dynamo.vllm": extra_container_mounts cannot work on Kubernetes`)

	plans, err := make(system+"[kubernetes]\nclient_image = \"registry.example/aiperf:0.13.0\"\n",
		strings.Replace(test, `extra_container_mounts = ["/run/udev:/run/udev"]`, "", 1))
	require.NoError(t, err)
	require.Len(t, plans, 1)
	data, err := manifest.Render(plans[0])
	require.NoError(t, err)
	graph := documents(t, data)[0]
	for i, kind := range []string{"decode", "prefill"} {
		c := at(graph, "spec", "components", i)
		require.Equal(t, kind, at(c, "type"))
		require.Equal(t, "8", at(c, "podTemplate", "spec", "containers", 0, "resources", "limits", "nvidia.com/gpu"))
		args := fmt.Sprint(at(c, "podTemplate", "spec", "containers", 0, "args"))
		require.Equal(t, 1, strings.Count(args, "--model "), "once")
		require.Contains(t, args, "--disaggregation-mode "+kind)
		require.NotContains(t, args, "is-prefill-worker", "1.1 has another word for it")
		require.Contains(t, args, "--no-enable-expert-parallel")
	}
	require.Contains(t, string(data), "phase round_1/bench ")
	require.Contains(t, string(data), "phase round_2/eval ")
	require.NotContains(t, string(data), "genai")
	notes := strings.Join(plans[0].Notes, "\n")
	require.Contains(t, notes, "monitor_interval has no effect")
	require.Contains(t, notes, "DYNAMO_NODELIST is passed unchanged")
}

// A worker that is wider than a node has several, and nobody is told that a service has fewer GPUs
// than it has.
func TestGPUsOfPods(t *testing.T) {
	p := one(t, "cluster.toml", "disaggregated")
	require.Equal(t, 2*8+6*4, p.GPUs())
	require.Equal(t, p.GPUs(), p.Loads[0].Expect.GPUs)
	require.Equal(t, 6, p.Replicas("prefill"))
	require.Zero(t, p.Idle())
	require.Zero(t, p.Job.Nodes, "no nodes are asked for")
	p = one(t, "small.toml", "aggregated") // no gpus_per_node: a worker is one pod
	require.Equal(t, 1, p.Role("worker").Nodes.Count)
	p = one(t, "small.toml", "mocker")
	require.Zero(t, p.GPUs())
	require.True(t, p.SimulatedEngine)
}

// What the run says of its place, for the commands that follow it.
func TestPlace(t *testing.T) {
	k := one(t, "cluster.toml", "aggregated").Kubernetes
	require.Equal(t, "/site/kubeconfig", k.Kubeconfig)
	require.Equal(t, "lab", k.Context)
	require.Equal(t, "bench", k.Namespace)
	require.Equal(t, "v1beta1", k.Graph)
	require.Equal(t, plan.Seconds(time.Hour), k.Limit)
	require.Equal(t, plan.Seconds(30*time.Minute), k.Ready)
	require.Equal(t, &plan.Claim{Name: "model-cache", Path: "/models"}, k.ModelCache)
	require.Equal(t, k.Name+"-client", k.JobName())
	k = one(t, "cluster.toml", "vllm").Kubernetes
	require.Empty(t, k.Graph)
	require.Equal(t, "vllm/vllm-openai:v0.11.0", k.ClientImage, "vLLM's client is in the servers' image")
}

// Prefill and decode without Dynamo: a Deployment and a Service for each server, and for the proxy, which
// is profllm's of proxy_image, or a script of the servers' image. A server listens for KV transfers at
// the address of its pod.
//
// covers: P-18
func TestPrefillAndDecode(t *testing.T) {
	p := one(t, "cluster.toml", "vllm-disaggregated")
	require.Equal(t, 2*2+4, p.GPUs())
	require.Equal(t, 2, p.Replicas("prefill"))
	list := documents(t, read(t, "vllm-disaggregated.golden.yaml"))
	require.Len(t, list, 2*4+1)
	for i := 0; i < 8; i += 2 {
		require.Equal(t, "Deployment", list[i]["kind"])
		require.Equal(t, "Service", list[i+1]["kind"])
		require.Equal(t, at(list[i], "metadata", "name"), at(list[i+1], "metadata", "name"))
		require.Equal(t, at(list[i], "spec", "selector", "matchLabels"), at(list[i+1], "spec", "selector"))
		c := at(list[i], "spec", "template", "spec", "containers", 0)
		require.Equal(t, at(c, "ports", 0, "containerPort"), at(list[i+1], "spec", "ports", 0, "port"))
		if i < 6 {
			require.Contains(t, at(c, "env"), map[string]any{"name": "VLLM_NIXL_SIDE_CHANNEL_HOST",
				"valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": "status.podIP"}}})
			continue
		}
		require.Equal(t, "registry.example/profllm:1.0.0", at(c, "image"))
		require.Equal(t, []any{"profllm"}, at(c, "command"))
		require.Nil(t, at(c, "resources", "limits"), "no GPU")
		require.Equal(t, "/healthcheck", at(c, "readinessProbe", "httpGet", "path"))
	}

	plans, err := planned([]byte(strings.Replace(string(read(t, "cluster.toml")), "proxy_image", "# ", 1)),
		[]byte(strings.Replace(string(read(t, "vllm-disaggregated.toml")), "prefill =", "proxy_script = \"/opt/toy_proxy_server.py\"\nprefill =", 1)))
	require.NoError(t, err)
	data, err := manifest.Render(plans[0])
	require.NoError(t, err)
	c := at(documents(t, data)[6], "spec", "template", "spec", "containers", 0)
	require.Equal(t, "vllm/vllm-openai:v0.11.0", at(c, "image"))
	require.Equal(t, []any{"python3"}, at(c, "command"))
	name := plans[0].Kubernetes.Name
	require.Subset(t, at(c, "args"), []any{"/opt/toy_proxy_server.py", "--prefiller-hosts", name + "-prefill-0", name + "-prefill-1",
		"--decoder-hosts", name + "-decode"})
}

// The same scenario plans on Slurm: only the system file changes. Points of a sweep have a service
// each.
func TestSameScenarioOnSlurm(t *testing.T) {
	const slurm = "name='c'\nscheduler='slurm'\ninstall_path='i'\noutput_path='o'\ndefault_partition='p'\ngpus_per_node=8\n"
	for _, name := range []string{"aggregated", "mocker", "vllm", "vllm-disaggregated"} {
		plans, err := planned([]byte(slurm), read(t, name+".toml"))
		require.NoError(t, err, name)
		require.Nil(t, plans[0].Kubernetes)
		_, err = manifest.Render(plans[0])
		require.ErrorContains(t, err, "is not planned for Kubernetes")
	}
	swept := strings.Replace(string(read(t, "aggregated.toml")), "concurrency = 2", "concurrency = [2, 4]", 1)
	plans, err := planned(read(t, "cluster.toml"), []byte(swept))
	require.NoError(t, err)
	require.Len(t, plans, 2)
	require.NotEqual(t, plans[0].Kubernetes.Name, plans[1].Kubernetes.Name)
}
