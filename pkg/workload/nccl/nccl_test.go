package nccl

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
)

func load(t *testing.T, args, extra string, needImage bool) (plan.Workload, error) {
	t.Helper()
	var test scenario.Test
	var err error
	test.ID = "a"
	test.CmdArgs, err = source.Parse("t.toml", []byte(args))
	require.NoError(t, err)
	test.ExtraCmdArgs, err = source.Parse("e.toml", []byte(extra))
	require.NoError(t, err)
	return New(test, needImage)
}

func step(t *testing.T, args, extra string, cl plan.Cluster) plan.Step {
	t.Helper()
	w, err := load(t, args, extra, false)
	require.NoError(t, err)
	s, err := w.Serve(cl)
	require.NoError(t, err)
	require.Empty(t, s.Roles)
	require.Len(t, s.Steps, 1)
	return s.Steps[0]
}

func argv(s plan.Step) string {
	words := make([]string, len(s.Argv))
	for i, w := range s.Argv {
		words[i] = w.String()
	}
	return strings.Join(words, " ")
}

// CloudAI's options in CloudAI's order, overridden where they stand; what it does
// not know follows.
func TestCommand(t *testing.T) {
	require.Equal(t, "all_reduce_perf_mpi --nthreads 1 --ngpus 1 --minbytes 32M --maxbytes 32M --stepbytes 1M --op sum --datatype float --root 0 "+
		"--iters 20 --warmup_iters 5 --agg_iters 1 --average 1 --parallel_init 0 --check 1 --blocking 0 --cudagraph 0", argv(step(t, "", "", plan.Cluster{Nodes: 1})))
	require.Equal(t, "scatter_perf --nthreads 1 --ngpus 1 --minbytes 128 --maxbytes 4G --stepbytes 1M --op sum --datatype float --root 0 "+
		"--iters 100 --warmup_iters 50 --agg_iters 1 --average 1 --parallel_init 0 --check 1 --blocking 0 --cudagraph 0 --stepfactor 2 -N 3 --report_cputime 1 -V",
		argv(step(t, "subtest_name = 'scatter_perf'\nminbytes = '128'\nmaxbytes = '4G'\niters = 100\nwarmup_iters = '50'\nstepfactor = 2\nN = 3\ndocker_image_url = 'i'\n",
			"\"--report_cputime\" = \"1\"\n\"-V\" = \"\"\n", plan.Cluster{Nodes: 1})))
}

// CloudAI reads true as the number 1 where an option has one, and writes a bare switch
// elsewhere; false leaves a switch out. Its own keys are no options.
func TestSwitches(t *testing.T) {
	s := step(t, "check = false\nblocking = true\nstepfactor = true\nfold = true\nspare = false\nQ = ''\ndepth = 1\nmin_busbw = 40.5\nalltoallv_matrix_container_path = '/m'\n"+
		"use_deepep_matrix = false\n", "", plan.Cluster{Nodes: 1})
	require.Contains(t, argv(s), " --check 0 --blocking 1 --cudagraph 0 --stepfactor 1 --fold -Q --depth 1")
	require.True(t, strings.HasSuffix(argv(s), " --depth 1"), argv(s))
	w, err := load(t, "min_busbw = 40.5", "", false)
	require.NoError(t, err)
	service, err := w.Serve(plan.Cluster{Nodes: 1})
	require.NoError(t, err)
	require.Equal(t, []string{"t.toml:1:1: min_busbw has no effect on an NcclTest test"}, service.Notes)
}

// The file is one that another workload leaves: the test can be read, and is refused
// when it is planned.
func TestTrafficMatrix(t *testing.T) {
	const args = "subtest_name = 'alltoallv_perf_mpi'\n"
	require.True(t, strings.HasPrefix(argv(step(t, args, "", plan.Cluster{Nodes: 1})),
		"/opt/nccl-tests/build/alltoallv_perf --nthreads 1 "))
	w, err := load(t, args+"use_deepep_matrix = true", "", false)
	require.NoError(t, err)
	_, err = w.Serve(plan.Cluster{Nodes: 2})
	require.ErrorContains(t, err,
		`t.toml:2:1: test "a": use_deepep_matrix takes the file nccl_matrix.txt of an earlier MoEBenchmark, which is not supported yet`)
}

// One task for each GPU; --mpi where ranks must find each other, the site's
// before CloudAI's default.
//
// covers: CD-44
func TestTasks(t *testing.T) {
	for _, c := range []struct {
		name    string
		args    string
		cluster plan.Cluster
		tasks   int // on each node
		mpi     string
	}{
		{name: "nothing known", cluster: plan.Cluster{Nodes: 1}, tasks: 1},
		{name: "nothing known, two nodes", cluster: plan.Cluster{Nodes: 2}, tasks: 1, mpi: "pmix"},
		{name: "a task for each GPU", cluster: plan.Cluster{Nodes: 2, GPUsPerNode: 8}, tasks: 8, mpi: "pmix"},
		{name: "tasks of two GPUs", args: "ngpus = 2", cluster: plan.Cluster{Nodes: 1, GPUsPerNode: 8}, tasks: 4, mpi: "pmix"},
		{name: "two threads of two GPUs", args: "ngpus = 2\nnthreads = 2", cluster: plan.Cluster{Nodes: 1, GPUsPerNode: 8}, tasks: 2, mpi: "pmix"},
		{name: "one task of all", args: "ngpus = 8", cluster: plan.Cluster{Nodes: 1, GPUsPerNode: 8}, tasks: 1},
		{name: "the site says how many", cluster: plan.Cluster{Nodes: 1, GPUsPerNode: 8, TasksPerNode: 4, MPI: "pmi2"}, tasks: 4, mpi: "pmi2"},
		{name: "stand-ins look for nobody", cluster: plan.Cluster{Nodes: 2, GPUsPerNode: 4, MPI: "pmix", Simulated: true}, tasks: 4},
		{name: "visible GPUs only", cluster: plan.Cluster{Nodes: 1, GPUsPerNode: 8, VisibleGPUs: []int{1, 3}}, tasks: 2, mpi: "pmix"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := step(t, c.args, "", c.cluster)
			require.Equal(t, c.tasks, max(s.TasksPerNode, 1))
			require.Equal(t, c.cluster.Nodes, s.Nodes.Count)
			require.True(t, s.Container)
			if c.mpi == "" {
				require.Empty(t, s.Srun)
			} else {
				require.Equal(t, plan.Texts("--mpi="+c.mpi), s.Srun)
			}
			require.Equal(t, c.cluster.VisibleGPUs != nil, len(s.Env) == 1)
		})
	}
}

func TestSuccess(t *testing.T) {
	success := regexp.MustCompile(step(t, "", "", plan.Cluster{Nodes: 1}).Success)
	// as nccl-tests print it
	for _, line := range []string{"# Avg bus bandwidth    : 135.455 ", "# Avg bus bandwidth    : 0"} {
		require.True(t, success.MatchString(line), line)
	}
	for _, line := range []string{"# Avg bus bandwidth    : ", "# Avg bus bandwidth    : nan",
		"echo '# Avg bus bandwidth    : 1'", "# Out of bounds values : 0 OK"} {
		require.False(t, success.MatchString(line), line)
	}
}

func TestRefused(t *testing.T) {
	for args, want := range map[string]string{
		"":                                    "cmd_args.docker_image_url is required",
		"subtest_name = 'all_reduce'":         "t.toml:1:1: unknown subtest_name \"all_reduce\"\n\thint: ",
		"subtest_name = 'allreduce_perf_mpi'": "did you mean \"all_reduce_perf_mpi\"?",
		"ngpus = 0":                           "t.toml:1:1: cmd_args.ngpus is 0, must be 1 or more",
		"nthreads = -2":                       "t.toml:1:1: cmd_args.nthreads is -2, must be 1 or more",
		"ngpus = 'x'":                         "t.toml:1:1: ngpus must be an integer",
		"warmup_iters = ['5', '50']":          "t.toml:1:1: cmd_args.warmup_iters is a list, but one value is needed",
		"op = true":                           "t.toml:1:1: cmd_args.op is \"true\", but this option of nccl-tests needs a value",
		"stepfactor = ''":                     "t.toml:1:1: cmd_args.stepfactor is \"\"",
		"use_deepep_matrix = 'maybe'":         "t.toml:1:1: use_deepep_matrix must be",
		"'a b' = 1":                           "t.toml:1:1: cmd_args.\"a b\" is not an option of nccl-tests",
		"'--iters' = 1":                       "is not an option of nccl-tests",
		"[x]\ny = 1":                          "cmd_args.x must be one value, not a table",
	} {
		_, err := load(t, args, "", true)
		require.ErrorContains(t, err, want, args)
	}
	_, err := load(t, "", "'--a' = 2", false)
	require.ErrorContains(t, err, "e.toml:1:1: extra_cmd_args.--a must be a string, not the integer 2")

	w, err := load(t, "ngpus = 2", "", false)
	require.NoError(t, err)
	_, err = w.Serve(plan.Cluster{Nodes: 1, GPUsPerNode: 8, TasksPerNode: 8})
	require.ErrorContains(t, err,
		`t.toml:1:1: test "a": 8 tasks per node with 2 GPUs each (nthreads x ngpus) need 16 GPUs, but a node has 8`)
}
