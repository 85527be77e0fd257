package planner_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/catalog"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/planner"
	"github.com/profllm/profllm/pkg/scenario"
)

// format holds definitions of our own in CloudAI's format.
const format = "testdata/format/conf/"

// formatPlans plans one of them on the site beside it.
func formatPlans(t *testing.T, name string) (*scenario.Scenario, []*plan.Plan, error) {
	t.Helper()
	file := filepath.FromSlash(format + "test_scenario/" + name + ".toml")
	tests := files(t, format+"test")
	for _, below := range []string{"rack-a", "rack-b"} {
		for _, f := range files(t, format+"test/"+below) {
			f.Below = below
			tests = append(tests, f)
		}
	}
	s, err := scenario.Load(scenario.File{Name: file, Data: read(t, file)}, tests,
		scenario.HookFiles{Scenarios: files(t, format+"hook"), Tests: files(t, format+"hook/test")})
	if err != nil {
		return s, nil, err
	}
	for _, test := range s.All() {
		require.NoError(t, planner.Check(test))
	}
	set, err := planner.Plans(s, system(t, format+"system/foundry.toml"), options)
	if set == nil {
		return s, nil, err
	}
	return s, set.Plans, err
}

// byTest are the plans of each test.
func byTest(t *testing.T, name string) map[string][]*plan.Plan {
	t.Helper()
	_, plans, err := formatPlans(t, name)
	require.NoError(t, err)
	all := map[string][]*plan.Plan{}
	for _, p := range plans {
		all[p.Test] = append(all[p.Test], p)
	}
	return all
}

// Hooks, order, iterations and limits.
//
// covers: CD-28
func TestFormatOrder(t *testing.T) {
	s, plans, err := formatPlans(t, "order")
	require.NoError(t, err)
	require.True(t, s.GoOn)
	require.Equal(t, "00:14:00", scenario.FormatLimit(s.Limit(s.Tests[0])), "9 min of its own, 3 before and 2 behind")
	require.Len(t, plans, 6, "three iterations of the first test")
	for _, p := range plans {
		require.Len(t, p.PreTest, 1)
		require.Len(t, p.PostTest, 1)
		require.Contains(t, argv(p.PreTest[0].Plan), "all_gather_perf_mpi", "the hook's own test of that name")
		require.Equal(t, "rm -f \"/tmp/forge $SLURM_JOB_ID\"", p.PostTest[0].Plan.Loads[0].Clients[0].Argv[2].String())
	}
	first := []string{plans[0].Dir, plans[1].Dir, plans[2].Dir}
	require.Equal(t, []plan.After{{Type: "afterany", Dir: first[0]}}, plans[1].Job.After,
		"iterations follow each other")
	beside, ends, last := plans[3], plans[4], plans[5]
	require.Equal(t, []plan.After{{Type: "after", Dir: first[0]}}, beside.Job.After)
	require.Equal(t, []string{beside.Dir}, ends.Job.Until)
	require.Equal(t, []plan.After{{Type: "afterany", Dir: first[2]}, {Type: "afterany", Dir: beside.Dir}},
		last.Job.After)
	require.Equal(t, "sleep 4", argv(last))
}

// Every list is a dimension of the sweep, in CloudAI's order: arguments, variables,
// nodes.
func TestFormatSweeps(t *testing.T) {
	lists := byTest(t, "grid")["lists"]
	require.Len(t, lists, 8)
	for i, p := range lists {
		require.Equal(t, []string{"1", "8"}[i/4], after(argv(p), "--warmup_iters"), "point %d", i+1)
		require.Equal(t, []int{2, 3}[i%2], p.Job.Nodes, "point %d", i+1)
	}
	_, chosen, err := formatPlans(t, "draws")
	require.NoError(t, err)
	require.NotEmpty(t, chosen)
	for _, p := range chosen {
		require.Contains(t, roleArgv(p, "serve"), "--cuda-graph-sizes 1 2 4", "an excluded path is a value")
	}
}

func after(argv, option string) string {
	words := strings.Fields(argv)
	return words[slices.Index(words, option)+1]
}

func roleArgv(p *plan.Plan, name string) string {
	for _, r := range p.Roles {
		if r.Name == name {
			var words []string
			for _, w := range r.Step.Argv {
				words = append(words, w.String())
			}
			return strings.Join(words, " ")
		}
	}
	return ""
}

// On all nodes of the test, as many tasks as the site or the test says.
//
// covers: CD-44
func TestFormatSteps(t *testing.T) {
	const fio = "/usr/bin/fio --rw=randread --bs=4k,64k --direct --time_based --runtime=20 --size=6g /forge/jobs/read.fio"
	all := byTest(t, "steps-of-every-kind")
	for id, c := range map[string]struct {
		argv        string
		nodes, each int
		image       string
		mpi         bool
	}{
		"collective": {"broadcast_perf_mpi --nthreads 1 --ngpus 2 --minbytes 64K --maxbytes 2G --stepbytes 3M --op max --datatype uint8 --root 1 --iters 30 --warmup_iters 6 " +
			"--agg_iters 2 --average 3 --parallel_init 1 --check 0 --blocking 0 --cudagraph 1 --stepfactor 4 --report_cputime --fold_ranks --memory 8 -V",
			3, 3, "registry.example#forge/nccl:3", true},
		"counts":           {"/opt/hpcx/ucc/bin/ucc_perftest -c gatherv -b 3 -e 5M -m cuda -F --gen exp:min=1@max=9 -w=4", 2, 3, "registry.example/forge/hpcx:1", true},
		"disk":             {fio, 2, 2, "registry.example/forge/fio:3", false},
		"disk.of.the.node": {fio, 1, 2, "", false},
		"in.a.container":   {`bash -c for n in 1 2; do echo "$SLURM_PROCID: $n"; done`, 2, 3, "registry.example#forge/tools:4", true},
		"shell":            {"bash -c printf '%s\\n' \"[[Tests]]\"\n", 1, 1, "", false},
	} {
		t.Run(id, func(t *testing.T) {
			require.Len(t, all[id], 1)
			p := all[id][0]
			require.Empty(t, p.Roles)
			require.Empty(t, p.Ports)
			require.Empty(t, p.Loads[0].Client, "nobody measures")
			require.Equal(t, c.argv, argv(p))
			step := p.Loads[0].Clients[0]
			require.Equal(t, c.nodes, p.Job.Nodes)
			require.Equal(t, plan.Slice{Count: c.nodes}, step.Nodes)
			require.Equal(t, c.nodes*c.each, step.Tasks())
			require.Equal(t, 3, p.Job.NTasksPerNode, "the site's")
			require.Equal(t, c.image, p.Image)
			require.Equal(t, c.image != "", step.Container)
			var srun []string
			for _, w := range step.Srun {
				srun = append(srun, w.String())
			}
			require.Equal(t, c.mpi, slices.Contains(srun, "--mpi=pmi2"), "%v", srun)
			names := slices.ContainsFunc(srun, func(s string) bool {
				return strings.HasPrefix(s, "--container-env=NCCL_DEBUG,UCX_LOG_LEVEL,TUYERE_COUNT,HOT,BLAST")
			})
			require.Equal(t, c.image != "", names, "the test's variables win over the image's: %v", srun)
			if id != "shell" {
				require.Equal(t, []plan.Var{{Name: "CUDA_VISIBLE_DEVICES", Value: plan.Text("0,1,2,3,4,5")}}, step.Env)
			}
			require.Contains(t, p.Env, plan.Var{Name: "TUYERE_COUNT", Value: plan.Text("4")},
				"a number of the site file")
			require.Contains(t, p.Env, plan.Var{Name: "HOT", Value: plan.Text("False")})
			require.Contains(t, p.Env, plan.Var{Name: "BLAST", Value: plan.Text("0.5")})
		})
	}
}

// A workload that is only read is refused when it is planned, not before.
func TestFormatOnlyRead(t *testing.T) {
	s, _, err := formatPlans(t, "only-read")
	require.Error(t, err)
	require.Len(t, s.Tests, 2)
	for _, test := range s.Tests {
		require.ErrorContains(t, err, test.PosOf("test_template_name").
			String()+": test \""+test.ID+"\": the workload "+test.Template+
			" is not supported yet\n\thint: remove the test")
	}
	sw, err := planner.Sweep(s.Tests[1])
	require.NoError(t, err)
	require.Len(t, sw.Dimensions, 2)
	_, _, err = formatPlans(t, "ambiguous")
	require.ErrorContains(t, err, "ambiguous.toml:6:1: 2 test files are named \"cast\"")
}

// Every test file is checked by itself too, also one that sweeps.
//
// covers: CD-8
func TestFormatTestFiles(t *testing.T) {
	for _, dir := range []string{"test", "test/rack-a", "test/rack-b", "hook/test"} {
		list := files(t, format+dir)
		require.NotEmpty(t, list, dir)
		for _, f := range list {
			test, err := scenario.LoadTest(f)
			require.NoError(t, err, f.Name)
			require.NoError(t, planner.Check(*test), f.Name)
			note, err := catalog.Template(test)
			require.NoError(t, err, f.Name)
			require.Equal(t, strings.HasPrefix(dir, "test/rack"), note != "", f.Name)
		}
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

// The list is CloudAI's, and holds every tool of ours but those that it has not.
func TestKnownTemplates(t *testing.T) {
	require.Len(t, catalog.Known, 28)
	require.True(t, slices.IsSorted(catalog.Known))
	for _, e := range slices.Concat(catalog.Workloads, catalog.Tools) {
		if e.Name != "vllm-offline" {
			require.Contains(t, catalog.Known, e.Name)
		}
		note, err := catalog.Template(templated(e.Name))
		require.NoError(t, err)
		require.Empty(t, note)
	}
	for name, hint := range map[string]string{"ncclTest": `did you mean "NcclTest"?`, "Slep": `did you mean "Sleep"?`,
		"": "known: ", "nothing-like-it": "known: "} {
		_, err := catalog.Template(templated(name))
		require.ErrorContains(t, err, "unknown workload", name)
		require.ErrorContains(t, err, hint, name)
	}
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
		`test "a": a Sleep test serves nothing, so client = "vllm" has no effect`,
		"s.toml:6:8: test \"a\": a Sleep test serves nothing, so bench_cmd_args has no effect",
		"s.toml:8:8: test \"a\": a Sleep test serves nothing, so semantic_eval_cmd_args has no effect", `unknown launcher "pixis"`, `unknown key "cmds"`,
	} {
		require.ErrorContains(t, err, want)
	}
}

// argv shows what a plan runs.
func argv(p *plan.Plan) string {
	var words []string
	for _, w := range p.Loads[0].Clients[0].Argv {
		words = append(words, w.String())
	}
	return strings.Join(words, " ")
}
