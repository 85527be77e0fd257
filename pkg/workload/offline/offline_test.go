package offline

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
)

// served is the service of a test with these cmd_args on nodes of four GPUs.
func served(t *testing.T, nodes int, args string) (plan.Service, error) {
	t.Helper()
	return servedOn(t, plan.Cluster{Nodes: nodes, GPUsPerNode: 4}, args)
}

func servedOn(t *testing.T, cl plan.Cluster, args string) (plan.Service, error) {
	t.Helper()
	table, err := source.Parse("s.toml", []byte("[cmd_args]\nmodel = 'm'\n"+args))
	require.NoError(t, err)
	test := scenario.Test{Table: table}
	test.ID, test.CmdArgs = "t", table.Table("cmd_args")
	w, err := New(test, false)
	if err != nil {
		return plan.Service{}, err
	}
	return w.Serve(cl)
}

// argv is the command of a service's only step.
func argv(s plan.Service) string {
	var words []string
	for _, w := range s.Steps[0].Argv {
		words = append(words, w.String())
	}
	return strings.Join(words, " ")
}

// One engine that fits a node is one process, also with all of its GPUs; several, or one on several
// nodes, have a process for each GPU.
//
// covers: OFF-1, OFF-3, OFF-5
func TestLayouts(t *testing.T) {
	for _, c := range []struct {
		name  string
		nodes int
		args  string
		tasks int // on each node; 0: one process
		each  string
		want  string
	}{
		{"one GPU", 1, "benchmark = 'latency'", 0, "", "vllm bench latency --model m"},
		{"all GPUs", 1, "benchmark = 'throughput'\n[cmd_args.engine]\ntensor_parallel_size = 4", 0, "",
			"vllm bench throughput --model m --tensor-parallel-size 4 --dataset-name random"},
		{"pipeline", 1, "benchmark = 'latency'\n[cmd_args.engine]\ntensor_parallel_size = 2\npipeline_parallel_size = 2", 0, "",
			"vllm bench latency --model m --tensor-parallel-size 2 --pipeline-parallel-size 2"},
		{"automatic", 1, "benchmark = 'throughput'\n[cmd_args.engine]\ntensor_parallel_size = 2\ndata_parallel_size = 'auto'", 4, "2",
			"--tensor-parallel-size 2 --data-parallel-size 2 --distributed-executor-backend external_launcher"},
		{"automatic with pipeline", 2, "benchmark = 'throughput'\n[cmd_args.engine]\ntensor_parallel_size = 2\npipeline_parallel_size = 2\ndata_parallel_size = 'auto'", 4, "4",
			"--data-parallel-size 2 "},
		{"processes", 2, "benchmark = 'throughput'\nprocesses = 4", 2, "1", "--data-parallel-size 4 "},
		{"processes win over auto", 1, "benchmark = 'throughput'\nprocesses = 2\n[cmd_args.engine]\ndata_parallel_size = 'auto'", 2, "1",
			"--data-parallel-size 2 "},
		{"one engine on two nodes", 2, "benchmark = 'latency'\n[cmd_args.engine]\ntensor_parallel_size = 8", 4, "8",
			"--tensor-parallel-size 8 --distributed-executor-backend external_launcher"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := served(t, c.nodes, c.args)
			require.NoError(t, err)
			require.Contains(t, argv(s), c.want)
			step := s.Steps[0]
			require.Equal(t, c.tasks, step.TasksPerNode)
			require.Equal(t, "--output-json", step.Result.Option)
			if c.tasks == 0 {
				require.NotContains(t, argv(s), "job rank")
				require.NotContains(t, step.Result.Name, "%t")
				require.Empty(t, s.Ports)
				return
			}
			require.True(t, strings.HasPrefix(argv(s), "profllm job rank --joined "+c.each+" --port ${port:rendezvous} -- vllm bench"), argv(s))
			require.Contains(t, step.Result.Name, "-%t.json")
			require.Equal(t, []plan.Port{{Name: "rendezvous", Base: 29500, Step: 1, Count: 1}}, s.Ports)
		})
	}
}

// An engine that fits a node lies on one, and several nodes whose GPUs are not known share one engine.
func TestEnginesOnNodes(t *testing.T) {
	const tp = "benchmark = 'throughput'\n[cmd_args.engine]\ntensor_parallel_size = "
	for _, c := range []struct {
		nodes, gpus int
		args        string
		tasks       int
		want        string // of the command, or of the refusal if there are no tasks
	}{
		{2, 0, tp + "16", 8, "--joined 16 "},
		{2, 0, "benchmark = 'throughput'", 0, "its engine of 1 GPU fits on one"},
		{2, 0, tp + "2\ndata_parallel_size = 3", 0, "DP 3 on 2 nodes puts an engine of 2 GPUs on two nodes"},
		{2, 6, tp + "4\ndata_parallel_size = 'auto'", 4, "--data-parallel-size 2 "},
		{2, 6, tp + "4\ndata_parallel_size = 3", 0, "DP 3 on 2 nodes puts an engine of 4 GPUs on two nodes"},
		{2, 4, tp + "8\ndata_parallel_size = 'auto'", 4, "--data-parallel-size 1 "},
		{4, 4, tp + "8\ndata_parallel_size = 'auto'", 4, "--data-parallel-size 2 "},
	} {
		s, err := servedOn(t, plan.Cluster{Nodes: c.nodes, GPUsPerNode: c.gpus}, c.args)
		if c.tasks == 0 {
			require.ErrorContains(t, err, c.want)
			continue
		}
		require.NoError(t, err, c.args)
		require.Equal(t, c.tasks, s.Steps[0].TasksPerNode, c.args)
		require.Contains(t, argv(s), c.want)
	}
}

// A capture range needs the benchmark's own option, also where a test turns it off.
func TestRangeOpensProfile(t *testing.T) {
	for more, want := range map[string]bool{"": true, "profile = false": true, "profile = true": false} {
		s, err := served(t, 1, "benchmark = 'throughput'\n[cmd_args.options]\n"+more)
		require.NoError(t, err)
		words, _, err := s.Steps[0].Profile.Range()
		require.NoError(t, err)
		require.Equal(t, want, slices.ContainsFunc(words, func(w plan.Word) bool { return w.String() == "--profile" }), more)
		require.Equal(t, !want, strings.Contains(argv(s), "--profile"), more)
	}
}

// Prompts are distinct and seeded unless a dataset is named; startup always says how often.
//
// covers: OFF-6, OFF-11
func TestOptions(t *testing.T) {
	for args, want := range map[string]string{
		"benchmark = 'throughput'\n[cmd_args.engine]\nseed = 3": "vllm bench throughput --model m --seed 3 --dataset-name random",
		"benchmark = 'throughput'\n[cmd_args.engine]\nenforce_eager = true\nall2all_backend = 'deepep_low_latency'\n[cmd_args.options]\ndataset_path = 'ShareGPT.json'\nnum_prompts = 9": "vllm bench throughput --model m --enforce-eager --all2all-backend deepep_low_latency --dataset-path ShareGPT.json --num-prompts 9",
		"benchmark = 'startup'\n[cmd_args.options]\nnum_iters_cold = 5":                           "vllm bench startup --model m --num-iters-cold 5 --num-iters-warmup 1 --num-iters-warm 3",
		"benchmark = 'mm-processor'\n[cmd_args.options]\nnum_prompts = 8":                         "vllm bench mm-processor --model m --num-prompts 8 --metric-percentiles 50,90,95,99",
		"benchmark = 'latency'\n[cmd_args.options]\nuse_beam_search = true\nprofile = false":      "vllm bench latency --model m --use-beam-search",
		"benchmark = 'latency'\nunchecked_options = 'new_one'\n[cmd_args.options]\nnew_one = 'x'": "vllm bench latency --model m --new-one x",
	} {
		s, err := served(t, 1, args)
		require.NoError(t, err, args)
		require.Equal(t, want, argv(s))
	}
}

// Every argument of the offline program of pysheeet is a key; model, nsys and viztracer are keys of
// every test.
//
// covers: OFF-2
func TestRequests(t *testing.T) {
	s, err := served(t, 2, `benchmark = 'requests'
[cmd_args.engine]
max_model_len = 4096
gpu_memory_utilization = 0.9
tensor_parallel_size = 2
pipeline_parallel_size = 1
data_parallel_size = 4
enable_expert_parallel = true
seed = 3
enforce_eager = true
all2all_backend = 'deepep_low_latency'
[cmd_args.options]
num_prompts = 50
dataset_path = '/data/ShareGPT.json'
input_len = 512
output_len = 64
max_tokens = 128
temperature = 0.0
`)
	require.NoError(t, err)
	require.Equal(t, "profllm job rank --joined 2 --port ${port:rendezvous} -- profllm job requests -- --model m "+
		"--max-model-len 4096 --gpu-memory-utilization 0.9 --tensor-parallel-size 2 --pipeline-parallel-size 1 "+
		"--data-parallel-size 4 --enable-expert-parallel --seed 3 --enforce-eager --all2all-backend deepep_low_latency "+
		"--distributed-executor-backend external_launcher --num-prompts 50 --dataset-path /data/ShareGPT.json "+
		"--input-len 512 --output-len 64 --max-tokens 128 --temperature 0", argv(s))
	require.Equal(t, &plan.ResultFile{Option: "--output-json", Name: "requests-%t.json"}, s.Steps[0].Result)
	require.Equal(t, OwnClient, s.Client)

	_, err = served(t, 1, "benchmark = 'requests'\n[cmd_args.options]\ntemperature = 'hot'")
	require.ErrorContains(t, err, "options.temperature must be a number")
	_, err = served(t, 1, "benchmark = 'requests'\nprocesses = 4\n[cmd_args.options]\nnum_prompts = 3")
	require.ErrorContains(t, err, "3 prompts are fewer than the 4 engines that share them")
	_, err = servedOn(t, plan.Cluster{Nodes: 16, GPUsPerNode: 4}, "benchmark = 'requests'\nprocesses = 64")
	require.ErrorContains(t, err, "50 prompts are fewer than the 64 engines", "50 are its default")
}

// What vLLM would refuse on the GPUs, or would measure wrongly, is refused where it stands.
//
// covers: OFF-10
func TestRefuses(t *testing.T) {
	for _, c := range []struct {
		nodes      int
		args, want string
	}{
		{1, "", "benchmark is required"},
		{1, "benchmark = 'latncy'", "s.toml:3:1: unknown benchmark \"latncy\"\n\thint: did you mean \"latency\"?"},
		{1, "benchmark = 'latency'\n[cmd_args.engine]\ntensor_paralel_size = 2", "s.toml:5:1: engine.tensor_paralel_size is an option of no release"},
		{1, "benchmark = 'latency'\n[cmd_args.engine]\ndtype = 'float17'", "engine.dtype: vLLM"},
		{1, "benchmark = 'latency'\n[cmd_args.options]\nnum_prompts = 2", "options.num_prompts is no option of `vllm bench latency`"},
		{1, "benchmark = 'latency'\n[cmd_args.options]\ndtype = 'half'", "an option of the engine belongs into cmd_args.engine"},
		{1, "benchmark = 'latency'\n[cmd_args.options]\nbatch_size = 'many'", "options.batch_size must be a whole number"},
		{1, "benchmark = 'latency'\n[cmd_args.options]\nprofile = 3", "options.profile is a switch"},
		{1, "benchmark = 'latency'\n[cmd_args.options]\noutput_json = 'x'", "profllm sets this option itself"},
		{1, "benchmark = 'throughput'\n[cmd_args.engine]\ndata_parallel_size = 4\n[cmd_args.options]\nnum_prompts = 3",
			"s.toml:7:1: 3 prompts are fewer than the 4 engines that share them"},
		{1, "benchmark = 'latency'\n[cmd_args.engine]\ndata_parallel_size = 2", "`vllm bench latency` measures one engine, not 2"},
		{1, "benchmark = 'throughput'\n[cmd_args.engine]\ntensor_parallel_size = 8", "needs 8 GPUs on each of 1 node, but a node has 4"},
		{2, "benchmark = 'throughput'", "test \"t\" has 2 nodes, but its engine of 1 GPU fits on one"},
		{2, "benchmark = 'throughput'\n[cmd_args.engine]\ndata_parallel_size = 3", "which 2 nodes cannot share evenly"},
		{1, "benchmark = 'throughput'\nprocesses = 3\n[cmd_args.engine]\ntensor_parallel_size = 2", "3 processes are no whole number of engines"},
		{1, "benchmark = 'throughput'\nprocesses = 3\n[cmd_args.engine]\ndata_parallel_size = 2", "3 processes are not TP x PP x DP, which is 2"},
		{1, "benchmark = 'throughput'\n[cmd_args.engine]\ndata_parallel_size = 2\ndistributed_executor_backend = 'mp'", "several processes need \"external_launcher\""},
		{1, "benchmark = 'throughput'\n[cmd_args.engine]\ndata_parallel_size = 2\n[cmd_args.options]\nasync_engine = true", "options.async_engine does not go with data_parallel_size 2"},
	} {
		_, err := served(t, c.nodes, c.args)
		require.ErrorContains(t, err, c.want, c.args)
	}
}
