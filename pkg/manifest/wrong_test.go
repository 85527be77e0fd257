package manifest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/manifest"
)

// an edit replaces a text of a definition, which must be there; "" adds one behind the last line.
type edit struct{ old, new string }

func (e edit) of(t *testing.T, text string) string {
	t.Helper()
	if e.old == "" {
		return text + e.new + "\n"
	}
	require.Contains(t, text, e.old)
	return strings.Replace(text, e.old, e.new, 1)
}

// wrong are definitions that an API server, the operator's webhook or a kubelet would refuse, or
// with which pods would wait for ever, and what profllm says of them before kubectl is called.
var wrong = []struct {
	name     string
	scenario string // of testdata
	edits    []edit // of the scenario
	system   []edit // of cluster.toml
	want     string
}{
	{"no namespace", "aggregated", nil, []edit{{`default_namespace = "bench"`, ""}},
		"cluster.toml:1:1: default_namespace is required: no namespace is assumed\n\thint: write default_namespace = \"NAME\", also if it is \"default\""},
	{"a namespace in capitals", "aggregated", nil, []edit{{`"bench"`, `"Bench"`}},
		"cluster.toml:5:1: default_namespace \"Bench\" is no name of a namespace: small letters, digits and - only"},
	{"a namespace with a dot", "aggregated", nil, []edit{{`"bench"`, `"my.bench"`}}, "cluster.toml:5:1: default_namespace \"my.bench\" is no name of a namespace"},
	{"a long namespace", "aggregated", nil, []edit{{`"bench"`, `"` + strings.Repeat("b", 64) + `"`}}, "is too long: a namespace has 63 characters at most"},
	{"an unknown version of the API", "aggregated", nil, []edit{{`"v1beta1"`, `"v1beta2"`}}, "cluster.toml:13:1: unknown dynamo_api \"v1beta2\"\n\thint: did you mean \"v1beta1\"?"},
	{"an option in place of a context", "aggregated", nil, []edit{{`"lab"`, `"--all"`}}, "cluster.toml:12:1: context \"--all\" is no name of a context\n\thint: kubectl config get-contexts"},
	{"a secret with an underscore", "aggregated", nil, []edit{{`"hf-token-secret"`, `"hf_token"`}}, "cluster.toml:18:1: token_secret names no Secret: what it says is no name of an object"},
	{"a token in place of a secret", "aggregated", nil, []edit{{`"hf-token-secret"`, `"hf_AbCdEfGh"`}}, "the token itself stands in no file of profllm"},
	{"a pull secret in capitals", "aggregated", nil, []edit{{`"registry-login"`, `"ok", "Login"`}}, "cluster.toml:17:29: image_pull_secrets: \"Login\" is no name of an object"},
	{"a claim with a slash", "aggregated", nil, []edit{{`claim = "model-cache"`, `claim = "pvc/models"`}}, "cluster.toml:19:17: model_cache.claim \"pvc/models\" is no name of an object"},
	{"no claim", "aggregated", nil, []edit{{`claim = "model-cache", `, ""}}, "cluster.toml:19:1: kubernetes.model_cache.claim is required"},
	{"a relative mount", "aggregated", nil, []edit{{`"/models"`, `"models"`}}, "model_cache.path \"models\" is no absolute path without a colon\n\thint: write path = \"/models\""},
	{"a mount over the system", "aggregated", nil, []edit{{`"/models"`, `"/usr"`}}, "model_cache.path \"/usr\" would hide what containers need"},
	{"a mount over the run", "aggregated", nil, []edit{{`"/models"`, `"/profllm/"`}}, "model_cache.path \"/profllm/\" would hide what containers need"},
	{"memory in words", "aggregated", nil, []edit{{`"16Gi"`, `"16 GB"`}}, "cluster.toml:16:1: client_memory \"16 GB\" is no quantity of Kubernetes\n\thint: write it as Kubernetes does"},
	{"negative processors", "aggregated", nil, []edit{{`client_cpu = "8"`, `client_cpu = "-8"`}}, "client_cpu \"-8\" is no quantity"},
	{"no processor", "aggregated", nil, []edit{{`client_cpu = "8"`, `client_cpu = "0m"`}}, "client_cpu \"0m\" must be above 0"},
	{"shared memory in megabytes", "aggregated", nil, []edit{{`shared_memory = "16Gi"`, `shared_memory = "16GiB"`}}, "shared_memory \"16GiB\" is no quantity"},
	{"a GPU without a domain", "aggregated", nil, []edit{{`"nvidia.com/gpu"`, `"gpu"`}}, "gpu_resource \"gpu\" has no domain"},
	{"a long label", "aggregated", nil, []edit{{`"inference"`, `"` + strings.Repeat("i", 64) + `"`}}, "labels.example.org/team: the value \"iiii"},
	{"a label with a blank", "aggregated", nil, []edit{{`"inference"`, `"my team"`}}, "is no value of a label: letters, digits, -, _ and . only"},
	{"a label of profllm", "aggregated", nil, []edit{{`"example.org/team"`, `"profllm.io/run"`}}, "labels.profllm.io/run: such labels are set by profllm, Kubernetes or Dynamo's operator"},
	{"a selector with a number", "aggregated", nil, []edit{{`"NVIDIA-H100-80GB-HBM3"`, `80`}}, "node_selector.nvidia.com/gpu.product must be a text, not"},
	{"an unknown effect", "aggregated", nil, []edit{{`"NoSchedule"`, `"NoSchedul"`}}, "tolerations: unknown effect \"NoSchedul\"\n\thint: did you mean \"NoSchedule\"?"},
	{"a value that goes nowhere", "aggregated", nil, []edit{{`operator = "Exists"`, `operator = "Exists", value = "x"`}}, "tolerations: operator Exists takes no value"},
	{"a client image of enroot", "disaggregated", nil, []edit{{`"registry.example/aiperf:0.13.0"`, `"registry.example#aiperf:0.13.0"`}}, "cluster.toml:14:1: client_image \"registry.example#aiperf:0.13.0\" has the # of enroot"},
	{"no client image", "aggregated", nil, []edit{{`client_image = "registry.example/aiperf:0.13.0"`, ""}}, "cluster.toml:11:2: kubernetes.client_image is missing: the servers' image nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.6.1 has no aiperf"},
	{"a key of Slurm", "aggregated", nil, []edit{{`monitor_interval = 1`, `default_partition = "gpu"`}}, "cluster.toml:8:1: default_partition means nothing to Kubernetes\n\thint: remove it"},
	{"the host's network", "aggregated", nil, []edit{{`monitor_interval = 1`, `use_host_network = true`}}, "cluster.toml:8:1: use_host_network is not supported"},

	{"an image without a version", "aggregated", []edit{{":1.6.1", ":latest"}}, nil, "scenario.toml:11:1: the tag of \"nvcr.io#nvidia/ai-dynamo/vllm-runtime:latest\" has no version, and v1beta1 needs Dynamo's\n\thint: write dynamo.version = \"1.6.1\""},
	{"an image without a tag", "mocker", []edit{{":nightly", ""}, {"version = \"1.6.1\"\n", ""}}, nil, "has no version, and v1beta1 needs Dynamo's"},
	{"half a version", "mocker", []edit{{`version = "1.6.1"`, `version = "1.6"`}}, nil, "scenario.toml:16:1: dynamo.version \"1.6\": without a version in the image's tag, v1beta1 needs all three numbers"},
	{"no image", "aggregated", []edit{{`docker_image_url = "nvcr.io#nvidia/ai-dynamo/vllm-runtime:1.6.1"`, ""}}, nil, "cmd_args.docker_image_url is required"},
	{"an image file", "aggregated", []edit{{`nvcr.io#nvidia/ai-dynamo/vllm-runtime:1.6.1`, `/images/vllm-runtime:1.6.1.sqsh`}}, nil, "scenario.toml:11:1: docker_image_url \"/images/vllm-runtime:1.6.1.sqsh\" is a file, and no kubelet can pull it"},
	{"an image in capitals", "aggregated", []edit{{`nvidia/ai-dynamo`, `NVIDIA/ai-dynamo`}}, nil, "is no reference of an image, and no kubelet can pull it"},
	{"no workers", "aggregated", []edit{{"num-nodes = 2", "num-nodes = 0"}}, nil, "decode_worker.num_nodes is 0: nobody would answer"},
	{"negative workers", "aggregated", []edit{{"num-nodes = 2", "num-nodes = -1"}}, nil, "num_nodes must be a number of nodes, 0 to"},
	{"too many workers on a node", "mocker", []edit{{"workers_per_node = 3", "workers_per_node = 100"}}, nil, "decode_worker.workers_per_node is 100, must be 1 to 16"},
	{"a worker of a node and a half", "aggregated", []edit{{"tensor-parallel-size = 2", "tensor-parallel-size = 12"}}, nil, "scenario.toml:22:10: each worker of decode_worker needs 12 GPUs (TP 12 x PP 1 x DP 1), which are no whole number of nodes with 8 GPUs"},
	{"the operator's variable", "aggregated", []edit{{"", "[Tests.extra_env_vars]\nDYN_NAMESPACE = \"mine\""}}, nil, "scenario.toml:29:1: DYN_NAMESPACE is set by Dynamo's operator or by Kubernetes itself"},
	{"the operator's variable in the site", "aggregated", nil, []edit{{"", "DYN_SYSTEM_PORT = \"9091\""}}, "cluster.toml:31:1: DYN_SYSTEM_PORT is set by Dynamo's operator"},
	{"a variable that is none", "aggregated", []edit{{"", "[Tests.extra_env_vars]\n\"A-B\" = \"1\""}}, nil, "\"A-B\" cannot name an environment variable"},
	{"shell text", "aggregated", []edit{{"", "[Tests.extra_env_vars]\nHOST = { shell = \"$(hostname)\" }"}}, nil, "scenario.toml:29:1: HOST is shell text, and no shell expands the variables of a pod"},
	{"a secret of the shell", "aggregated", []edit{{"", "[Tests.extra_env_vars]\nAPI_KEY = { env = \"API_KEY\" }"}}, nil, "API_KEY: a secret of the submitting shell or of a file cannot be given to pods\n\thint: add it as a key of the Secret that token_secret names"},
	{"a token without a secret", "disaggregated", nil, []edit{{`token_secret = "hf-token-secret"`, ""}}, "HF_TOKEN: a pod has the token of a Secret only\n\thint: kubectl create secret generic"},
	{"another home of models", "aggregated", []edit{{"", "[Tests.extra_env_vars]\nHF_HOME = \"/hf\""}}, nil, "HF_HOME is \"/hf\", but the model cache is mounted at /models"},
	{"the frontend's port", "disaggregated", []edit{{"--router-mode kv", "--http-port 8080"}}, nil, "ingress_cmd has --http-port, which the plan sets"},
	{"a command on nodes", "aggregated", []edit{{"workloads = \"aiperf\"", "startup_cmd = \"modprobe x\""}}, nil, "scenario.toml:12:1: startup_cmd cannot work on Kubernetes: nothing runs on the nodes before the service"},
	{"an exporter", "aggregated", []edit{{"[Tests.cmd_args.dynamo.prefill_worker]", "[Tests.cmd_args.dynamo.dcgm_exporter]\nenabled = true\n[Tests.cmd_args.dynamo.prefill_worker]"}}, nil, "dynamo.dcgm_exporter cannot work on Kubernetes: a cluster has an exporter of its own on each node\n\thint: set enabled = false"},
	{"LMCache's file", "aggregated", []edit{{"[Tests.cmd_args.aiperf.args]", "[Tests.cmd_args.lmcache]\nlocal_cpu = true\n[Tests.cmd_args.aiperf.args]"}}, nil, "lmcache cannot work on Kubernetes: pods of one run have no folder in common"},
	{"KVBM", "aggregated", []edit{{"args = { tensor-parallel-size = 2 }", "args = { connector = \"kvbm nixl\" }"}}, nil, "the connector kvbm cannot work on Kubernetes: pods of one run have no folder in common for its blocks\n\thint: write connector = \"nixl\""},
	{"hosts", "aggregated", []edit{{"args = { tensor-parallel-size = 2 }", "nodes = \"n[1-2]\"\nargs = { tensor-parallel-size = 2 }"}}, nil, "nodes cannot work on Kubernetes: the cluster chooses nodes"},
	{"a folder of the nodes", "aggregated", []edit{{`time_limit = "1h"`, `extra_container_mounts = ["/data:/data"]`}}, nil, "scenario.toml:8:1: test \"agg\": extra_container_mounts cannot work on Kubernetes: pods see no folder of the nodes"},
	{"profiles", "aggregated", []edit{{"", "[Tests.nsys]\nenable = true"}}, nil, "nsys cannot work on Kubernetes: profllm does not run beside the servers there"},
	{"checks of the API", "aggregated", []edit{{`time_limit = "1h"`, `api_check = true`}}, nil, "scenario.toml:8:1: test \"agg\": api_check cannot work on Kubernetes"},
	{"nodes for the client", "aggregated", []edit{{`time_limit = "1h"`, `client_nodes = 1`}}, nil, "client_nodes cannot work on Kubernetes: the client has a pod of its own already"},
	{"repeats", "aggregated", []edit{{`time_limit = "1h"`, `repeat = 3`}}, nil, "repeat cannot work on Kubernetes: the prefix cache cannot be emptied between two loads"},
	{"a reset cache", "vllm", []edit{{"", "[[Tests.phases]]\nname = \"a\"\n[[Tests.phases]]\nname = \"b\"\ncache = \"reset\""}}, nil, "load \"b\": cache = \"reset\" cannot work on Kubernetes"},
	{"profllm's own client", "vllm", []edit{{`time_limit = "30m"`, `client = "profllm"`}}, nil, "scenario.toml:8:1: bench is profllm itself, which no image on Kubernetes has\n\thint: set client = \"aiperf\""},
	{"prefill and decode without Dynamo", "vllm", []edit{{"decode = {", "prefill = { tensor_parallel_size = 2 }\ndecode = {"}}, []edit{{"proxy_image = \"registry.example/profllm:1.0.0\"", ""}}, "prefill and decode without Dynamo need a proxy, and the image of vLLM has none\n\thint: set proxy_image in [kubernetes] of the system file"},
	{"an image that is none", "vllm", nil, []edit{{"registry.example/profllm:1.0.0", "docker://profllm"}}, "cluster.toml:26:1: proxy_image \"docker://profllm\""},
	{"prefill over nodes", "vllm-disaggregated", []edit{{"replicas = 2", "num_nodes = 2"}}, nil, "scenario.toml:14:39: a vLLM server over 2 nodes cannot work on Kubernetes"},
	{"prefill wider than a node", "vllm-disaggregated", []edit{{"prefill = { tensor_parallel_size = 2", "prefill = { tensor_parallel_size = 16"}}, nil, "scenario.toml:14:13: the server needs 16 GPUs"},
	{"a server for each rank", "vllm-disaggregated", []edit{{"v0.11.0", "v0.12.0"}, {"tensor_parallel_size = 4", "tensor_parallel_size = 4, data_parallel_external_lb = true, data_parallel_size = 2"}}, nil, "servers with external load balancing cannot work on Kubernetes"},
	{"Ray over nodes", "vllm", []edit{{`time_limit = "30m"`, `num_nodes = 2`}}, nil, "scenario.toml:8:1: a vLLM server over 2 nodes cannot work on Kubernetes: nothing there forms a cluster of Ray"},
	{"a server wider than a node", "vllm", []edit{{"tensor_parallel_size = 2", "tensor_parallel_size = 16"}}, nil, "the server needs 16 GPUs (TP 16 x PP 1 x DP 1), and a node has 8"},
	{"a port out of range", "vllm", []edit{{`model = "Qwen/Qwen3-0.6B"`, `port = 70000`}}, nil, "scenario.toml:12:1: cmd_args.port is 70000, must be 1024 to 65235"},
	{"another workload", "vllm", []edit{{`test_template_name = "vllm"`, `test_template_name = "sglang"`}, {"decode = { tensor_parallel_size = 2, max_model_len = 4096 }", ""}}, nil, "a sglang cannot run on Kubernetes\n\thint: AIDynamo, DynamoMocker and vllm can"},
	{"a sweep in one allocation", "aggregated", []edit{{"concurrency = 2", "concurrency = [2, 4]"}, {"", "[Tests.sweep]\nmode = \"single\""}}, nil, "Kubernetes has no allocation for several runs\n\thint: write mode = \"jobs\""},
}

// covers: P-18, U-41
func TestWrong(t *testing.T) {
	require.GreaterOrEqual(t, len(wrong), 30)
	for _, c := range wrong {
		t.Run(c.name, func(t *testing.T) {
			system, text := string(read(t, "cluster.toml")), string(read(t, c.scenario+".toml"))
			for _, e := range c.system {
				system = e.of(t, system)
			}
			for _, e := range c.edits {
				text = e.of(t, text)
			}
			plans, err := planned([]byte(system), []byte(text))
			for _, p := range plans {
				_, err = manifest.Render(p)
			}
			require.Error(t, err)
			require.Contains(t, err.Error(), c.want)
			require.True(t, strings.Contains(err.Error(), ".toml:") || strings.Contains(err.Error(), "exp-"), "it says where: %v", err)
		})
	}
}
