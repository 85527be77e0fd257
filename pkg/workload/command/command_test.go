package command

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
)

type newWorkload func(scenario.Test, bool) (plan.Workload, error)

func load(t *testing.T, newW newWorkload, args, extra string, needImage bool) (plan.Workload, error) {
	t.Helper()
	var test scenario.Test
	var err error
	test.CmdArgs, err = source.Parse("t.toml", []byte(args))
	require.NoError(t, err)
	test.ExtraCmdArgs, err = source.Parse("e.toml", []byte(extra))
	require.NoError(t, err)
	return newW(test, needImage)
}

func serve(t *testing.T, newW newWorkload, args, extra string, cl plan.Cluster) plan.Service {
	t.Helper()
	w, err := load(t, newW, args, extra, false)
	require.NoError(t, err)
	s, err := w.Serve(cl)
	require.NoError(t, err)
	require.Len(t, s.Steps, 1)
	return s
}

func argv(s plan.Service) string {
	words := make([]string, len(s.Steps[0].Argv))
	for i, w := range s.Steps[0].Argv {
		words[i] = w.String()
	}
	return strings.Join(words, " ")
}

func TestUCC(t *testing.T) {
	two := plan.Cluster{Nodes: 2, TasksPerNode: 8, MPI: "pmi2"}
	s := serve(t, NewUCC, "docker_image_url = 'i'", "", two)
	require.Equal(t, "/opt/hpcx/ucc/bin/ucc_perftest -c alltoall -b 1 -e 8M -m cuda -F", argv(s))
	require.Equal(t, "i", s.Image)
	require.True(t, s.Steps[0].Container)
	require.Equal(t, 16, s.Steps[0].Tasks())
	require.Equal(t, plan.Texts("--mpi=pmi2"), s.Steps[0].Srun)
	require.Equal(t, "/opt/hpcx/ucc/bin/ucc_perftest -c alltoallv -b 4 -e 4G -m cuda -F --gen file:name=/m.txt -n=5 -i",
		argv(serve(t, NewUCC, "docker_image_url = 'i'\ncollective = 'alltoallv'\nb = 4\ne = '4G'\ngen = 'file:name=/m.txt'", "'-n' = '5'\n'-i' = ''", two)))
	require.Equal(t, plan.Texts("--mpi=pmix"), serve(t, NewUCC, "", "", plan.Cluster{Nodes: 2}).Steps[0].Srun,
		"ranks must find each other")
	require.Empty(t, serve(t, NewUCC, "", "", plan.Cluster{Nodes: 1, MPI: "pmix"}).Steps[0].Srun,
		"one rank looks for nobody")
	require.True(t, strings.HasPrefix(argv(serve(t, NewUCC, "", "", plan.Cluster{Nodes: 1, Simulated: true})),
		"profllm sim /opt/hpcx/ucc/bin/ucc_perftest -c "))

	for args, want := range map[string]string{
		"":                       "cmd_args.docker_image_url is required",
		"collective = 'all2all'": "t.toml:1:1: unknown collective \"all2all\"",
		"collective = ''":        "t.toml:1:1: unknown collective \"\"",
		"e = ['1', '2']":         "t.toml:1:1: cmd_args.e must be one value, not a list",
		"begin = 1":              `t.toml:1:1: unknown key "begin"`,
	} {
		_, err := load(t, NewUCC, args, "", true)
		require.ErrorContains(t, err, want, args)
	}
	_, err := load(t, NewUCC, "", "'-n' = 5", false)
	require.ErrorContains(t, err, "e.toml:1:1: extra_cmd_args.-n must be a string")
}

func TestFio(t *testing.T) {
	const options = "[args]\nname = 'smoke test'\nrw = 'randwrite'\nbs = '128k'\niodepth = 1\nrate = 0.5\nthread = true\ndirect = false\n" +
		"cpus = [0, 2]\n'--eta' = 'never'\n[args.section]\na = 'x'\nb = true\n"
	s := serve(t, NewFio, "job_file = 'a.fio'\n"+options, "", plan.Cluster{Nodes: 2, TasksPerNode: 8, MPI: "pmix"})
	require.Equal(t, plan.Texts("fio", "--name=smoke test", "--rw=randwrite", "--bs=128k", "--iodepth=1", "--rate=0.5",
		"--thread", "--cpus=0,2", "--eta=never",
		"--section=x", "--section", "a.fio"), s.Steps[0].Argv)
	require.Equal(t, 2, s.Steps[0].Tasks(), "one on each node, whatever the site's ntasks_per_node")
	require.False(t, s.Steps[0].Container)
	require.Empty(t, s.Steps[0].Srun, "runs of fio do not look for each other")
	require.Empty(t, s.Notes)

	s = serve(t, NewFio, "docker_image_url = 'i'\nfio_binary = '/opt/fio/fio'\nnum_tasks_per_node = 2\nmetric_name = 'iops'\njob_file = 'j'\n", "", plan.Cluster{Nodes: 2})
	require.Equal(t, "/opt/fio/fio j", argv(s))
	require.Equal(t, 4, s.Steps[0].Tasks())
	require.True(t, s.Steps[0].Container)
	require.Equal(t, "i", s.Image)
	require.Equal(t, []string{"t.toml:4:1: metric_name has no effect: profllm reads no metric from fio's report"},
		s.Notes)

	success := regexp.MustCompile(s.Steps[0].Success)
	// as fio 3 prints it
	require.True(t, success.MatchString("  write: IOPS=274, BW=34.3MiB/s (35.9MB/s)(80.0MiB/2334msec)"))
	require.False(t, success.MatchString("fio-3.42"))

	for args, want := range map[string]string{
		"":                                       "fio has nothing to do",
		"job_file = 'j'\nnum_tasks_per_node = 0": "t.toml:2:1: cmd_args.num_tasks_per_node is 0, must be 1 or more",
		"job_file = 'j'\nfio_binary = ''":        "t.toml:2:1: cmd_args.fio_binary is empty",
		"[args]\n'a b' = 1":                      "t.toml:2:1: cmd_args.args: \"a b\" is not an option of fio",
		"[args]\na = [[1]]":                      "cmd_args.args.a: each element must be one value, not a list",
		"bs = '4k'":                              `t.toml:1:1: unknown key "bs"`,
	} {
		_, err := load(t, NewFio, args, "", true)
		require.ErrorContains(t, err, want, args)
	}
	_, err := load(t, NewFio, "job_file = 'j'", "a = ''", false)
	require.ErrorContains(t, err, "e.toml:1:1: extra_cmd_args.a has no effect on a Fio test")
}

// With a pattern of its own a test needs no file of another workload; without one it
// can be read, and is refused when it is planned.
func TestUCCTrafficMatrix(t *testing.T) {
	s := serve(t, NewUCC, "gen = 'file:name=/m'\nuse_deepep_matrix = true", "", plan.Cluster{Nodes: 1})
	require.Contains(t, argv(s), "--gen file:name=/m")
	require.Equal(t, []string{"t.toml:2:1: use_deepep_matrix has no effect, because gen sets the counts"}, s.Notes)
	require.Empty(t, serve(t, NewUCC, "use_deepep_matrix = false", "", plan.Cluster{Nodes: 1}).Notes)
	w, err := load(t, NewUCC, "use_deepep_matrix = true", "", false)
	require.NoError(t, err)
	_, err = w.Serve(plan.Cluster{Nodes: 1})
	require.ErrorContains(t, err,
		`t.toml:1:1: test "": use_deepep_matrix takes the file ucc_matrix.txt of an earlier MoEBenchmark`)
}
