package catalog_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/catalog"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/sweep"
)

// corpus holds CloudAI's own files.
const corpus = "testdata/cloudai/conf/"

// corpusPlans plans a sample of CloudAI on its sample site.
func corpusPlans(t *testing.T, file string) (*scenario.Scenario, []*plan.Plan, error) {
	t.Helper()
	file = filepath.FromSlash(corpus + file)
	s, err := corpusScenario(t, file)
	require.NoError(t, err)
	set, err := catalog.Plans(s, system(t, corpus+"common/system/example_slurm_cluster.toml"), options)
	if set == nil {
		return s, nil, err
	}
	return s, set.Plans, err
}

// corpusScenario loads a sample with the tests beside it and CloudAI's hooks.
func corpusScenario(t *testing.T, file string) (*scenario.Scenario, error) {
	t.Helper()
	return scenario.Load(scenario.File{Name: file, Data: read(t, file)}, files(t, filepath.Join(filepath.Dir(file), "../test")),
		scenario.HookFiles{Scenarios: files(t, corpus+"hook"), Tests: files(t, corpus+"hook/test")})
}

// Every scenario of the corpus, with what its README says CloudAI makes of it.
func TestCorpusLoads(t *testing.T) {
	for file, want := range map[string]struct {
		tests  int
		limit  string
		points int // of a sweep, 0 where there is none
	}{
		"common/test_scenario/dse_nccl_all_gather.toml":             {1, "01:00:00", 2},
		"common/test_scenario/dse_nemo_run_llama3_8b.toml":          {1, "01:00:00", 2},
		"common/test_scenario/fio.toml":                             {1, "00:05:00", 0},
		"common/test_scenario/fio_local.toml":                       {1, "00:05:00", 0},
		"common/test_scenario/nccl_test.toml":                       {5, "00:50:00", 0},
		"common/test_scenario/nemo_run_llama3_8b.toml":              {2, "01:00:00", 0},
		"common/test_scenario/sleep.toml":                           {4, "00:01:00", 0},
		"common/test_scenario/slurm_container.toml":                 {1, "00:20:00", 0},
		"common/test_scenario/ucc_generator_test.toml":              {1, "00:02:00", 0},
		"common/test_scenario/ucc_test.toml":                        {4, "00:20:00", 0},
		"experimental/vllm/test_scenario/vllm.toml":                 {5, "00:30:00", 0},
		"experimental/vllm/test_scenario/vllm-heavy.toml":           {1, "01:30:00", 0},
		"experimental/sglang/test_scenario/sglang.toml":             {5, "00:10:00", 0},
		"experimental/sglang/test_scenario/sglang-heavy.toml":       {1, "01:30:00", 0},
		"experimental/ai_dynamo/test_scenario/vllm_slurm.toml":      {3, "00:10:00", 0},
		"experimental/ai_dynamo/test_scenario/sglang_slurm.toml":    {2, "00:10:00", 0},
		"experimental/ai_dynamo/test_scenario/vllm_kvbm_slurm.toml": {1, "20:00:00", 0},
		"experimental/ai_dynamo/test_scenario/vllm_lmcache.toml":    {1, "00:10:00", 0},
		"experimental/ai_dynamo/test_scenario/sglang_hicache.toml":  {1, "00:10:00", 0},
		"experimental/ai_dynamo/test_scenario/vllm_k8s.toml":        {1, "", 0},
	} {
		t.Run(file, func(t *testing.T) {
			s, err := corpusScenario(t, corpus+file)
			require.NoError(t, err)
			require.Len(t, s.Tests, want.tests)
			limit := ""
			if d := s.Limit(s.Tests[0]); d > 0 {
				limit = scenario.FormatLimit(d)
			}
			require.Equal(t, want.limit, limit)
			sw, err := sweep.Load(s.Tests[0].Table, nil)
			require.NoError(t, err)
			points := 0
			if sw.Active() {
				points, err = sweep.Size(sw.Dimensions)
				require.NoError(t, err)
			}
			require.Equal(t, want.points, points)
			for _, test := range slices.Concat(s.PreTest, s.Tests, s.PostTest) {
				require.NoError(t, catalog.Check(test))
			}
		})
	}
}

// Every test file of the corpus can be checked by itself, also one that sweeps.
func TestCorpusOfTestFiles(t *testing.T) {
	checked := 0
	require.NoError(t, filepath.WalkDir(corpus, func(name string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Base(filepath.Dir(name)) != "test" {
			return err
		}
		test, err := scenario.LoadTest(scenario.File{Name: name, Data: read(t, name)})
		require.NoError(t, err)
		require.NoError(t, catalog.Check(*test))
		checked++
		return nil
	}))
	require.Greater(t, checked, 8)
}

// The samples with hooks, order and a sweep plan whole.
//
// covers: CD-28
func TestCorpusOfHooksAndOrder(t *testing.T) {
	_, plans, err := corpusPlans(t, "common/test_scenario/nccl_test.toml")
	require.NoError(t, err)
	require.Len(t, plans, 5)
	for _, p := range plans {
		require.Len(t, p.PreTest, 1)
		require.Len(t, p.PostTest, 1)
		require.Equal(t, "nvcr.io#nvidia/pytorch:25.06-py3", p.PreTest[0].Plan.Image)
	}
	require.Equal(t, []plan.After{{Type: "afterok", Dir: plans[0].Dir}}, plans[1].Job.After)

	_, plans, err = corpusPlans(t, "common/test_scenario/dse_nccl_all_gather.toml")
	require.NoError(t, err)
	require.Len(t, plans, 2)
	require.Contains(t, argv(plans[0]), "--warmup_iters 5 ")
	require.Contains(t, argv(plans[1]), "--warmup_iters 50 ")

	_, plans, err = corpusPlans(t, "common/test_scenario/sleep.toml")
	require.NoError(t, err)
	require.Len(t, plans, 4)
	require.Equal(t, "after", plans[1].Job.After[0].Type)
	require.Equal(t, []string{plans[0].Dir}, plans[3].Job.Until)
}

// argv shows what a plan runs.
func argv(p *plan.Plan) string {
	var words []string
	for _, w := range p.Loads[0].Clients[0].Argv {
		words = append(words, w.String())
	}
	return strings.Join(words, " ")
}

// The samples without hooks, order between tests or a sweep: on all nodes of the
// test, as many tasks as the site or the test says.
//
// covers: CD-44
func TestCorpusOfTools(t *testing.T) {
	for file, c := range map[string]struct {
		argv        string
		nodes, each int
		image       string
		mpi         string
	}{
		"fio.toml": {"fio --name=fio-smoke --filename=/tmp/cloudai-fio-test --rw=randwrite --bs=128k --size=80m --iodepth=1 --numjobs=1 --group_reporting --thread",
			2, 2, "openeuler/fio:3.42-oe2403sp3", ""},
		"fio_local.toml": {"fio --name=fio-smoke --filename=/tmp/cloudai-fio-test --rw=randwrite --bs=128k --size=80m --iodepth=1 --numjobs=1 --group_reporting --thread",
			1, 1, "", ""},
		"slurm_container.toml": {"bash -c alltoall_perf_mpi --nthreads 1 --ngpus 1 --minbytes 128 --maxbytes 4G --stepbytes 1M --op sum --datatype float --root 0 --iters 100 " +
			"--warmup_iters 50 --agg_iters 1 --average 1 --parallel_init 0 --check 1 --blocking 0 --cudagraph 0 --stepfactor 2",
			2, 8, "nvcr.io#nvidia/pytorch:25.12-py3", "--mpi=pmix"},
		"ucc_generator_test.toml": {"/opt/hpcx/ucc/bin/ucc_perftest -c alltoallv -b 1 -e 8M -m cuda -F --gen file:name=/opt/hpcx/ucc/tools/perf/generator/input_matrices.txt",
			2, 8, "nvcr.io/nvidia/pytorch:25.12-py3", "--mpi=pmix"},
	} {
		t.Run(file, func(t *testing.T) {
			_, plans, err := corpusPlans(t, "common/test_scenario/"+file)
			require.NoError(t, err)
			require.Len(t, plans, 1)
			p := plans[0]
			require.Empty(t, p.Roles)
			require.Empty(t, p.Ports)
			require.Empty(t, p.Loads[0].Client, "nobody measures")
			require.Equal(t, c.argv, argv(p))
			step := p.Loads[0].Clients[0]
			require.Equal(t, c.nodes, p.Job.Nodes)
			require.Equal(t, plan.Slice{Count: c.nodes}, step.Nodes)
			require.Equal(t, c.nodes*c.each, step.Tasks())
			require.Equal(t, 8, p.Job.NTasksPerNode, "the site's")
			require.Equal(t, c.image, p.Image)
			require.Equal(t, c.image != "", step.Container)
			var srun []string
			for _, w := range step.Srun {
				srun = append(srun, w.String())
			}
			require.Equal(t, c.mpi != "", slices.Contains(srun, c.mpi), "%v", srun)
			names := slices.ContainsFunc(srun, func(s string) bool { return strings.HasPrefix(s, "--container-env=NCCL_IB_GID_INDEX,") })
			require.Equal(t, c.image != "", names, "the test's variables win over the image's: %v", srun)
			require.Equal(t, []plan.Var{{Name: "CUDA_VISIBLE_DEVICES", Value: plan.Text("0,1,2,3,4,5,6,7")}}, step.Env)
		})
	}
}

// Slurm gives a job that asks for no tasks one processor on each node, and then
// has none for the tasks of a step.
func TestJobAsksForItsTasks(t *testing.T) {
	plans, err := inline(t, "launcher = \"bare\"\n", "[[Tests]]\nid = \"a\"\ntest_template_name = \"NcclTest\"\n"+
		"[[Tests]]\nid = \"b\"\ntest_template_name = \"Sleep\"\n", options)
	require.NoError(t, err)
	require.Equal(t, 4, plans[0].Job.NTasksPerNode, "one for each GPU")
	require.Zero(t, plans[1].Job.NTasksPerNode)
}

// Every file of CloudAI's corpus is read; the workload of each test is known, and
// one that is not run is refused when it is planned, not before.
func TestCorpusOfOtherWorkloads(t *testing.T) {
	seen := map[string]bool{}
	require.NoError(t, filepath.WalkDir(corpus, func(name string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(name) != ".toml" {
			return err
		}
		if filepath.Base(filepath.Dir(name)) != "test" {
			return nil
		}
		test, err := scenario.LoadTest(scenario.File{Name: name, Data: read(t, name)})
		require.NoError(t, err, name)
		note, err := catalog.Template(test)
		require.NoError(t, err, name)
		seen[test.Template] = true
		if note != "" {
			require.Contains(t, note, name+":")
			require.Contains(t, note, "the workload "+test.Template+" can be read and is not run yet")
		}
		return nil
	}))
	for _, name := range []string{"NcclTest", "Fio", "Sleep", "UCCTest", "NeMoRun", "AIDynamo", "vllm", "sglang"} {
		require.True(t, seen[name], name)
	}

	for _, file := range []string{"common/test_scenario/nemo_run_llama3_8b.toml", "experimental/ai_dynamo/test_scenario/vllm_slurm.toml",
		"experimental/ai_dynamo/test_scenario/sglang_slurm.toml", "experimental/ai_dynamo/test_scenario/vllm_kvbm_slurm.toml",
		"experimental/ai_dynamo/test_scenario/vllm_lmcache.toml", "experimental/ai_dynamo/test_scenario/sglang_hicache.toml"} {
		s, _, err := corpusPlans(t, file)
		require.Error(t, err, file)
		for _, test := range s.Tests {
			require.ErrorContains(t, err, test.Pos.String()+": test \""+test.ID+"\": the workload "+test.Template+" is not run yet\n\thint: remove the test")
		}
	}
}

// The list is CloudAI's, and holds every tool of ours.
func TestKnownTemplates(t *testing.T) {
	require.Len(t, catalog.Known, 28)
	require.True(t, slices.IsSorted(catalog.Known))
	for _, e := range slices.Concat(catalog.Workloads, catalog.Tools) {
		require.Contains(t, catalog.Known, e.Name)
		note, err := catalog.Template(templated(e.Name))
		require.NoError(t, err)
		require.Empty(t, note)
	}
	for name, hint := range map[string]string{"ncclTest": `did you mean "NcclTest"?`, "Slep": `did you mean "Sleep"?`, "": "known: ", "nothing-like-it": "known: "} {
		_, err := catalog.Template(templated(name))
		require.ErrorContains(t, err, "unknown workload", name)
		require.ErrorContains(t, err, hint, name)
	}
	_, err := os.Stat("../../LICENSE")
	require.False(t, errors.Is(err, fs.ErrNotExist), "the corpus' README names it")
}

func templated(name string) *scenario.Test {
	var t scenario.Test
	t.Template = name
	return &t
}

// What asks for a server has no place where none is.
func TestToolsServeNothing(t *testing.T) {
	_, err := inline(t, "", "[[Tests]]\nid = \"a\"\ntest_template_name = \"Sleep\"\nclient = \"vllm\"\n[Tests.bench_cmd_args]\nnum_prompts = 1\n[Tests.semantic_eval_cmd_args]\n"+
		"[[Tests]]\nid = \"b\"\ntest_template_name = \"BashCmd\"\nlauncher = \"pixis\"\n[Tests.cmd_args]\ncmds = \"x\"\n", options)
	for _, want := range []string{
		`test "a": a Sleep test serves nothing, so client = "vllm" has no effect`, "s.toml:6:8: test \"a\": a Sleep test serves nothing, so bench_cmd_args has no effect",
		"s.toml:8:8: test \"a\": a Sleep test serves nothing, so semantic_eval_cmd_args has no effect", `unknown launcher "pixis"`, `unknown key "cmds"`,
	} {
		require.ErrorContains(t, err, want)
	}
}

// A test file is checked by itself, one that is a sweep too.
//
// covers: CD-8
func TestCorpusTestFiles(t *testing.T) {
	names, err := filepath.Glob(filepath.FromSlash(corpus + "*/*/test/*.toml"))
	require.NoError(t, err)
	more, err := filepath.Glob(filepath.FromSlash(corpus + "*/test/*.toml"))
	require.NoError(t, err)
	names = append(names, more...)
	require.GreaterOrEqual(t, len(names), 10)
	for _, name := range names {
		test, err := scenario.LoadTest(scenario.File{Name: name, Data: read(t, name)})
		require.NoError(t, err, name)
		require.NoError(t, catalog.Check(*test), name)
	}
}
