package planner_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/planner"
	"github.com/profllm/profllm/pkg/scenario"
)

const site = "name = \"s\"\nscheduler = \"slurm\"\noutput_path = \"o\"\ninstall_path = \"i\"\ndefault_partition = \"p\"\ngpus_per_node = 4\nlauncher = \"bare\"\n"

// set plans a scenario written in the test.
func set(t *testing.T, text string, hooks scenario.HookFiles, o planner.Options) (*planner.Set, error) {
	t.Helper()
	sys, err := config.Parse("site.toml", []byte(site))
	require.NoError(t, err)
	s, err := scenario.Load(scenario.File{Name: "s.toml", Data: []byte("name = \"s\"\n" + text)}, nil, hooks)
	require.NoError(t, err)
	return planner.Plans(s, sys, o)
}

const grid = `[[Tests]]
id = "a"
test_template_name = "vllm"
time_limit = "10m"
  [Tests.cmd_args.decode]
  tensor_parallel_size = [1, 2, 8]
  [Tests.bench_cmd_args]
  max_concurrency = [2, 4]
`

func grouped(list []*plan.Plan) []string {
	var lines []string
	for _, p := range list {
		line := fmt.Sprint(p.Step, ":")
		for _, l := range p.Loads {
			line += fmt.Sprintf(" %s=%s/%d", l.Name, strings.TrimPrefix(l.Dir, "/out/s_2026-03-04_05-06-07/a/"),
				l.Expect.Concurrency)
			if l.Cache != "" {
				line += "," + l.Cache
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// Points that differ in the client only share a server; a point that needs more
// GPUs than there are is left out, and the others go on.
//
// covers: CD-29, CD-30, C.7
func TestSweepSharesServers(t *testing.T) {
	got, err := set(t, grid, scenario.HookFiles{}, options)
	require.NoError(t, err)
	require.Equal(t, []string{"1: 1=0/1/2 2=0/2/4,reset", "3: 3=0/3/2 4=0/4/4,reset"}, grouped(got.Plans))
	require.Equal(t, plan.Seconds(20*time.Minute), got.Plans[0].Job.TimeLimit, "ten minutes for each point")
	require.Len(t, got.Skipped, 2)
	require.Equal(t, 5, got.Skipped[0].Step)
	require.Equal(t, "decode.tensor_parallel_size=8 max_concurrency=2", got.Skipped[0].Label)
	require.ErrorContains(t, got.Skipped[0].Err, "needs 8 GPUs")
	require.Equal(t, "/reset_prefix_cache", got.Plans[0].CachePath)
	env := got.Plans[0].Roles[0].Step.Env
	require.Equal(t, "VLLM_SERVER_DEV_MODE", env[len(env)-1].Name)
	require.Equal(t, []plan.Assignment{{Path: "decode.tensor_parallel_size", Value: int64(1)},
		{Path: "bench_cmd_args.max_concurrency", Value: int64(4)}}, got.Plans[0].Loads[1].Values)

	require.Len(t, got.Batches, 1)
	b := got.Batches[0]
	require.Equal(t, plan.Array, b.Kind)
	require.Equal(t, []string{got.Plans[0].Dir, got.Plans[1].Dir}, b.Runs)
	require.Equal(t, got.Plans[0].Job.TimeLimit, b.Job.TimeLimit)

	got, err = set(t, grid+"  [Tests.sweep]\n  share_server = false\n  mode = \"jobs\"\n", scenario.HookFiles{},
		options)
	require.NoError(t, err)
	require.Equal(t, []string{"1: =0/1/2", "2: =0/2/4", "3: =0/3/2", "4: =0/4/4"}, grouped(got.Plans))
	require.Empty(t, got.Batches)
	require.Empty(t, got.Plans[0].CachePath)
}

// covers: CD-29
func TestSweepOfNodes(t *testing.T) {
	got, err := set(t, "[[Tests]]\nid = \"a\"\ntest_template_name = \"vllm\"\nnum_nodes = [1, 2, 4]\n",
		scenario.HookFiles{}, options)
	require.NoError(t, err)
	require.Len(t, got.Plans, 3)
	for i, n := range []int{1, 2, 4} {
		require.Equal(t, n, got.Plans[i].Job.Nodes)
	}
	require.Empty(t, got.Batches, "an array asks for one size only")
}

func TestSweepOfWhichNothingCanWork(t *testing.T) {
	_, err := set(t, "[[Tests]]\nid = \"a\"\ntest_template_name = \"vllm\"\n[Tests.cmd_args.decode]\ntensor_parallel_size = [8, 16]\n", scenario.HookFiles{}, options)
	require.ErrorContains(t, err, "needs 8 GPUs")
	require.ErrorContains(t, err, "needs 16 GPUs")
	_, err = set(t, "[[Tests]]\nid = \"a\"\ntest_template_name = \"vllm\"\n[Tests.cmd_args.decode]\ntensor_parallel_size = []\n", scenario.HookFiles{}, options)
	require.ErrorContains(t, err, "s.toml:6:1: ", "an empty list is no sweep of nothing")
}

func TestPhases(t *testing.T) {
	text := `[[Tests]]
id = "a"
test_template_name = "vllm"
  [Tests.bench_cmd_args]
  num_prompts = 7
  [Tests.semantic_eval_cmd_args]
  [[Tests.phases]]
  name = "cold"
  [Tests.phases.bench_cmd_args]
  max_concurrency = 1
  [[Tests.phases]]
  name = "warm"
  cache = "keep"
  [[Tests.phases]]
  name = "again"
  cache = "reset"
`
	got, err := set(t, text, scenario.HookFiles{}, options)
	require.NoError(t, err)
	require.Len(t, got.Plans, 1)
	require.Equal(t, []string{"0: cold=0/cold/1 warm=0/warm/16 again=0/again/16,reset"}, grouped(got.Plans))
	loads := got.Plans[0].Loads
	require.Equal(t, 7, loads[0].Expect.NumPrompts)
	require.False(t, loads[0].Expect.Accuracy)
	require.True(t, loads[2].Expect.Accuracy, "the evaluation runs once, last")
	require.NotNil(t, loads[0].Expect.SharedInput)
	require.Nil(t, loads[1].Expect.SharedInput, "a cache that was kept may be as warm as it is")
	require.NotNil(t, loads[2].Expect.SharedInput)
	require.Equal(t, "cold/logs/bench-%t.log", loads[0].Clients[0].Log)
	require.NotEqual(t, loads[0].RunID, loads[1].RunID)

	_, err = set(t, text+"[Tests.cmd_args.decode]\nmax_num_seqs = [1, 2]\n", scenario.HookFiles{}, options)
	require.NoError(t, err, "each server has the phases")
	_, err = set(t, strings.Replace(text, "num_prompts = 7", "num_prompts = [7, 8]", 1), scenario.HookFiles{}, options)
	require.ErrorContains(t, err, "write the loads either as phases or as a sweep")
}

// Prompts that a server has seen are refused unless the test says what becomes of its
// prefix cache.
//
// covers: PL-V12
func TestPromptsAreNotSentAgainUnawares(t *testing.T) {
	phases := func(engine, server, first, second string) string {
		return "[[Tests]]\nid = \"a\"\ntest_template_name = \"" + engine + "\"\n[Tests.cmd_args.decode]\n" + server +
			"\n[[Tests.phases]]\nname = \"one\"\n" + first + "\n[[Tests.phases]]\nname = \"two\"\n" + second + "\n"
	}
	const faster = "bench_cmd_args = { max_concurrency = 64, num_prompts = 640, random_output_len = 7 }"
	for name, c := range map[string]struct{ engine, server, first, second, err string }{
		"the same":              {"vllm", "", "", "", `s.toml:10:9: load "two" sends the prompts of "one" again to the same server`},
		"another pace":          {"vllm", "", "", faster, "in the phase, write cache = \"reset\""},
		"reset before":          {"vllm", "", "cache = \"reset\"", "", `load "two" sends the prompts of "one"`},
		"sglang":                {"sglang", "", "", "", "sends the prompts"},
		"reset":                 {"vllm", "", "", "cache = \"reset\"", ""},
		"keep":                  {"vllm", "", "", faster + "\ncache = \"keep\"", ""},
		"another seed":          {"vllm", "", "", "bench_cmd_args = { seed = 7 }", ""},
		"other lengths":         {"vllm", "", "", "bench_cmd_args = { random_input_len = 7 }", ""},
		"no cache":              {"vllm", "enable_prefix_caching = false", "", "", ""},
		"no cache, as a flag":   {"vllm", "no_enable_prefix_caching = true", "", "", ""},
		"no cache, sglang":      {"sglang", "disable_radix_cache = true", "", "", ""},
		"a cache, said aloud":   {"vllm", "enable_prefix_caching = true", "", "", "sends the prompts"},
		"each repeat its reset": {"vllm", "", "", "cache = \"reset\"\n[Tests.sweep]", ""},
	} {
		t.Run(name, func(t *testing.T) {
			text := phases(c.engine, c.server, c.first, c.second)
			if name == "each repeat its reset" {
				text = strings.Replace(text, "id = \"a\"", "id = \"a\"\nrepeat = 2", 1)
			}
			_, err := set(t, text, scenario.HookFiles{}, options)
			if c.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.err)
		})
	}
	third := phases("vllm", "", "",
		"cache = \"reset\"\nbench_cmd_args = { seed = 2 }") + "[[Tests.phases]]\nname = \"three\"\n"
	_, err := set(t, third, scenario.HookFiles{}, options)
	require.NoError(t, err, "the reset between them emptied the cache of the first's prompts")
}

func TestRepeat(t *testing.T) {
	got, err := set(t, "[[Tests]]\nid = \"a\"\ntest_template_name = \"vllm\"\nrepeat = 2\n", scenario.HookFiles{},
		options)
	require.NoError(t, err)
	require.Equal(t, []string{"0: r1=0/r1/16 r2=0/r2/16,reset"}, grouped(got.Plans))
	loads := got.Plans[0].Loads
	require.Equal(t, loads[0].Repeat.Group, loads[1].Repeat.Group)
	require.Equal(t, 1, loads[1].Repeat.Index)
	require.Equal(t, 2, loads[1].Repeat.Of)

	got, err = set(t, strings.Replace(grid, "id = \"a\"", "id = \"a\"\nrepeat = 2", 1), scenario.HookFiles{}, options)
	require.NoError(t, err)
	require.Equal(t, "1: 1.r1=0/1/r1/2 1.r2=0/1/r2/2,reset 2.r1=0/2/r1/4,reset 2.r2=0/2/r2/4,reset",
		grouped(got.Plans)[0])
}

const hook = "name = \"warm\"\n[[Tests]]\nid = \"h\"\ntest_name = \"base\"\ntime_limit = \"5m\"\n"

// A hook is a run below the one it belongs to; a hook file that nobody asks for may be broken.
func TestHooks(t *testing.T) {
	hooks := scenario.HookFiles{
		Scenarios: []scenario.File{{Name: "hook/broken.toml", Data: []byte("= 1")},
			{Name: "hook/h.toml", Data: []byte(hook)}},
		Tests: []scenario.File{{Name: "hook/test/t.toml",
			Data: []byte("name = \"base\"\ntest_template_name = \"vllm\"\n[cmd_args]\n")}},
	}
	text := "pre_test = \"warm\"\npost_test = \"warm\"\n[[Tests]]\nid = \"a\"\ntest_template_name = \"vllm\"\ntime_limit = \"10m\"\n"
	got, err := set(t, text, hooks, options)
	require.NoError(t, err)
	p := got.Plans[0]
	require.Equal(t, plan.Seconds(20*time.Minute), p.Job.TimeLimit, "its own and its hooks'")
	require.Equal(t, "h", p.PreTest[0].Name)
	require.Equal(t, p.Dir+"/pre_test/h", p.PreTest[0].Dir)
	require.Equal(t, p.PreTest[0].Dir, p.PreTest[0].Plan.Dir)
	require.Equal(t, p.Dir+"/post_test/h", p.PostTest[0].Plan.Dir)
	require.NotEqual(t, p.PreTest[0].Plan.RunID, p.PostTest[0].Plan.RunID)

	hooks.Scenarios[1].Data = []byte(strings.Replace(hook, "time_limit", "num_nodes = 2\ntime_limit", 1))
	_, err = set(t, text, hooks, options)
	require.ErrorContains(t, err, `test "a" has 1 node, but its hook "h" needs 2`)
}

const chain = `[[Tests]]
id = "c"
test_template_name = "vllm"
  [[Tests.dependencies]]
  type = "start_post_comp"
  id = "b"
  [[Tests.dependencies]]
  type = "start_post_comp"
  id = "a"
  [[Tests.dependencies]]
  type = "end_post_comp"
  id = "d"
[[Tests]]
id = "b"
test_template_name = "vllm"
iterations = 2
  [[Tests.dependencies]]
  type = "start_post_init"
  id = "a"
[[Tests]]
id = "a"
test_template_name = "vllm"
[[Tests]]
id = "d"
test_template_name = "vllm"
`

// covers: CD-6, CD-28, CD-42
func TestOrder(t *testing.T) {
	const root = "/out/s_2026-03-04_05-06-07/"
	got, err := set(t, chain, scenario.HookFiles{}, options)
	require.NoError(t, err)
	byDir := map[string]*plan.Plan{}
	var order []string
	for _, p := range got.Plans {
		dir := strings.TrimPrefix(p.Dir, root)
		byDir[dir] = p
		order = append(order, dir)
	}
	require.Equal(t, []string{"a/0", "b/0", "b/1", "c/0", "d/0"}, order, "no test before one it waits for")
	require.Equal(t, []plan.After{{Type: "after", Dir: root + "a/0"}}, byDir["b/0"].Job.After)
	require.Equal(t, []plan.After{{Type: "afterok", Dir: root + "b/0"}}, byDir["b/1"].Job.After,
		"iterations one after the other")
	require.Equal(t, []plan.After{{Type: "afterok", Dir: root + "b/1"}, {Type: "afterok", Dir: root + "a/0"}},
		byDir["c/0"].Job.After, "all of them")
	require.Equal(t, []string{root + "d/0"}, byDir["c/0"].Job.Until)

	got, err = set(t, "job_status_check = false\n"+chain, scenario.HookFiles{}, options)
	require.NoError(t, err)
	require.Equal(t, "afterany", got.Plans[2].Job.After[0].Type)

	got, err = set(t, chain+"[Tests.cmd_args.decode]\nmax_num_seqs = [4, 8]\n", scenario.HookFiles{}, options)
	require.NoError(t, err)
	require.Equal(t, root+"c/0", got.Plans[3].Dir)
	require.Equal(t, []string{root + "d/0/1", root + "d/0/2"}, got.Plans[3].Job.Until,
		"every run of a sweep that is planned later")
}

// covers: CD-22
func TestSingle(t *testing.T) {
	o := options
	o.Single = true
	got, err := set(t, chain, scenario.HookFiles{}, o)
	require.NoError(t, err)
	require.Len(t, got.Batches, 1)
	b := got.Batches[0]
	require.Equal(t, plan.Sequence, b.Kind)
	require.Len(t, b.Runs, 5)
	require.Empty(t, b.Job.After, "the order of the runs is the order of the tests")
	require.NotEqual(t, got.Plans[0].RunID, b.RunID)

	_, err = set(t, chain+"time_limit = \"5m\"\n", scenario.HookFiles{}, o)
	require.ErrorContains(t, err, "1 of 5 runs have a time limit")
}

// One allocation has what every run needs, and a run that would not get the nodes
// or the options that it asks for is refused.
//
// covers: CD-22
func TestSingleJoins(t *testing.T) {
	o := options
	o.Single = true
	test := func(id, keys string) string {
		return "[[Tests]]\nid = \"" + id + "\"\ntest_template_name = \"Sleep\"\n" + keys +
			"\n[Tests.cmd_args]\nseconds = 1\n"
	}
	nccl := "[[Tests]]\nid = \"n\"\ntest_template_name = \"NcclTest\"\nnum_nodes = 2\n[Tests.cmd_args]\nsubtest_name = \"all_reduce_perf_mpi\"\n"
	got, err := set(t, test("a", "exclude_nodes = [\"n1\"]")+test("b", "num_nodes = 3\nexclude_nodes = [\"n2\"]")+nccl,
		scenario.HookFiles{}, o)
	require.NoError(t, err)
	job := got.Batches[0].Job
	require.Equal(t, 3, job.Nodes)
	require.Equal(t, []string{"n1", "n2"}, job.Exclude)
	require.Equal(t, 4, job.NTasksPerNode, "a task for each GPU")

	for text, want := range map[string]string{
		test("a", "nodes = [\"n3\"]") + test("b",
			"nodes = [\"n1\"]"): `test "a" names the nodes n3, but the runs of the same allocation together name n3,n1`,
		test("a", "nodes = [\"n3\"]") + test("b",
			"num_nodes = 2"): "a run needs 2 nodes, but another run of the same allocation names n3",
		test("a", "nodes = [\"n3\"]") + test("b",
			"exclude_nodes = [\"n3\"]"): `test "a" names the node n3, but another run of the same allocation excludes it`,
		test("a", "") + test("b",
			"slurm = { sbatch_args = [\"--mem=1G\"] }"): `test "b" asks for sbatch_args "--mem=1G"`,
	} {
		_, err := set(t, text, scenario.HookFiles{}, o)
		require.ErrorContains(t, err, want)
	}
	both := "dependencies = [{ type = \"end_post_comp\", id = \"b\" }]"
	got, err = set(t, test("a", both)+test("b", ""), scenario.HookFiles{}, o)
	require.NoError(t, err)
	require.Contains(t, strings.Join(got.Plans[0].Notes, "\n"),
		`test "a" should end with test "b", but in one allocation the two do not run`)
	got, err = set(t, test("a", "")+test("b", "dependencies = [{ type = \"start_post_comp\", id = \"a\" }]"),
		scenario.HookFiles{}, o)
	require.NoError(t, err)
	require.Contains(t, strings.Join(got.Plans[0].Notes, "\n"),
		`test "b" waits for test "a"; in one allocation, it runs even if that test fails`)
}

// A hook's steps take the processors that its run asked for; a hook is one run.
//
// covers: CD-40
func TestHookTakesWhatItsRunHas(t *testing.T) {
	hooks := func(text string) scenario.HookFiles {
		return scenario.HookFiles{Scenarios: []scenario.File{{Name: "h.toml", Data: []byte("name = \"h\"\n" + text)}}}
	}
	const main = "post_test = \"h\"\n[[Tests]]\nid = \"a\"\ntest_template_name = \"vllm\"\n"
	const nccl = "[[Tests]]\nid = \"n\"\ntest_template_name = \"NcclTest\"\n[Tests.cmd_args]\nsubtest_name = \"all_reduce_perf_mpi\"\n"
	got, err := set(t, main, hooks(nccl), options)
	require.NoError(t, err)
	require.Equal(t, 4, got.Plans[0].Job.NTasksPerNode)

	_, err = set(t, main, hooks(nccl+"nthreads = [1, 2]\n"), options)
	require.ErrorContains(t, err, `h.toml:2:3: hook "n" is a sweep`)
}

// What max_parallel cannot hold is said.
//
// covers: CD-29
func TestMaxParallelOfSeveralArrays(t *testing.T) {
	got, err := set(t, "[[Tests]]\nid = \"a\"\ntest_template_name = \"vllm\"\nnum_nodes = [1, 2]\nsweep.max_parallel = 1\n", scenario.HookFiles{}, options)
	require.NoError(t, err)
	require.Contains(t, strings.Join(got.Plans[0].Notes, "\n"), "max_parallel = 1 applies within each job array")
}

// A thousand points, planned; the design page asks for less than a second with
// their scripts.
func BenchmarkPlanSweep(b *testing.B) {
	text := `name = "s"
[[Tests]]
id = "a"
test_template_name = "vllm"
  [Tests.cmd_args.decode]
  max_num_seqs = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
  gpu_memory_utilization = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9]
  max_model_len = [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]
`
	sys, err := config.Parse("site.toml", []byte(site))
	require.NoError(b, err)
	for b.Loop() {
		s, err := scenario.Load(scenario.File{Name: "s.toml", Data: []byte(text)}, nil, scenario.HookFiles{})
		require.NoError(b, err)
		set, err := planner.Plans(s, sys, options)
		require.NoError(b, err)
		require.Len(b, set.Plans, 1000)
	}
}
