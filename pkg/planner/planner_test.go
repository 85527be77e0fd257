package planner_test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"sort"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/catalog"
	"github.com/profllm/profllm/pkg/collect"
	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/planner"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/tier"
)

var options = planner.Options{
	Version: "v0", Created: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), Output: "/out", Binary: "/bin/profllm",
	WorkDir: "/home/u",
}

func load(t *testing.T, file string, data []byte, testsDir string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Load(scenario.File{Name: file, Data: data}, files(t, testsDir), scenario.HookFiles{})
	require.NoError(t, err)
	return s
}

// files reads the TOML files of a folder.
func files(t *testing.T, dir string) []scenario.File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.toml"))
	require.NoError(t, err)
	var list []scenario.File
	for _, name := range names {
		list = append(list, scenario.File{Name: name, Data: read(t, name)})
	}
	return list
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	return data
}

func system(t *testing.T, name string) *config.System {
	t.Helper()
	sys, err := config.Parse(name, read(t, name))
	require.NoError(t, err)
	return sys
}

// inline plans [[Tests]] written in the test, on a site of four GPUs a node.
func inline(t *testing.T, siteMore, tests string, o planner.Options) ([]*plan.Plan, error) {
	t.Helper()
	sys, err := config.Parse("site.toml",
		[]byte("name = \"s\"\nscheduler = \"slurm\"\noutput_path = \"o\"\ninstall_path = \"i\"\ndefault_partition = \"p\"\ngpus_per_node = 4\n"+siteMore))
	require.NoError(t, err)
	set, err := planner.Plans(load(t, "s.toml", []byte("name = \"s\"\n"+tests), ""), sys, o)
	if set == nil {
		return nil, err
	}
	return set.Plans, err
}

// folders are the packages below a folder of adapters; one without Go files of
// its own is not there.
func folders(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", dir, "*", "*.go"))
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, f := range files {
		if !strings.HasSuffix(f, "_test.go") {
			seen[filepath.Base(filepath.Dir(f))] = true
		}
	}
	names := make([]string, 0, len(seen))
	for n := range seen {
		names = append(names, n)
	}
	sort.Strings(names)
	require.NotEmpty(t, names, dir)
	return names
}

// An adapter is a folder and a line here: one without the other is a mistake.
func TestEveryFolderHasItsLine(t *testing.T) {
	var workloads, launchers, benches []string
	seen := map[string]bool{}
	for _, e := range slices.Concat(catalog.Workloads, catalog.Tools) {
		name := runtime.FuncForPC(reflect.ValueOf(e.New).Pointer()).Name() // …/pkg/workload/vllm.New
		if name = strings.Split(path.Base(name), ".")[0]; !seen[name] {
			seen[name] = true
			workloads = append(workloads, name)
		}
	}
	for _, e := range catalog.Launchers {
		launchers = append(launchers, e.Name)
		require.Equal(t, e.Name, filepath.Base(reflect.TypeOf(e.New()).PkgPath()),
			"a launcher has the name of its folder")
	}
	require.Equal(t, config.Launchers, launchers, "what files and flags accept")
	clear(seen)
	for _, p := range slices.Concat(catalog.Benches, catalog.Evals) {
		if of, ok := p.(collect.Of); ok {
			p = of.Parser
		}
		if name := filepath.Base(reflect.TypeOf(p).PkgPath()); !seen[name] {
			seen[name] = true
			benches = append(benches, name)
		}
	}
	for dir, listed := range map[string][]string{"workload": workloads, "launcher": launchers, "bench": benches} {
		require.ElementsMatch(t, folders(t, dir), listed, "pkg/%s and the catalog", dir)
	}
}

// The runs of one scenario go to different nodes of a group while there are some.
//
// covers: CD-3
func TestRunsShareNodesLast(t *testing.T) {
	const group = "[[partitions]]\nname = \"p\"\n[[partitions.groups]]\nname = \"g\"\nnodes = [\"n[1-3]\"]\n"
	const test = "[[Tests]]\nid = \"%s\"\ntest_template_name = \"vllm\"\niterations = %d\nnodes = [\"p:g:1\"]\n"
	o := options
	o.Inventory = plan.Inventory{"n1": "DOWN", "n2": "IDLE", "n3": "IDLE"}
	plans, err := inline(t, group, fmt.Sprintf(test, "a", 1)+fmt.Sprintf(test, "b", 2), o)
	require.NoError(t, err)
	var hosts []string
	for _, p := range plans {
		hosts = append(hosts, p.Job.NodeList...)
	}
	require.Equal(t, []string{"n2", "n3", "n3"}, hosts, "iterations follow each other, on the same node")

	plans, err = inline(t, group, fmt.Sprintf(test, "a", 1)+"[Tests.cmd_args.decode]\nmax_num_seqs = [4, 8, 16]\n", o)
	require.NoError(t, err)
	hosts = nil
	for _, p := range plans {
		hosts = append(hosts, p.Job.NodeList...)
	}
	require.Equal(t, []string{"n2", "n2", "n2"}, hosts, "the points of a sweep are one array, on the same node")
}

func serves(workload string) bool {
	return slices.ContainsFunc(catalog.Workloads,
		func(e catalog.Entry[func(scenario.Test, bool) (plan.Workload, error)]) bool {
			return e.Name == workload
		})
}

// covers: PL-D5
func TestShippedScenariosPlanEverywhere(t *testing.T) {
	tier.Alone(t)
	files, err := filepath.Glob("../../scenarios/*.toml")
	require.NoError(t, err)
	sites, err := filepath.Glob("../../conf/*.toml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	require.GreaterOrEqual(t, len(sites), 3)
	for _, file := range files {
		for _, site := range sites {
			for _, simulated := range []bool{false, true} {
				name := fmt.Sprintf("%s on %s, simulated %v", filepath.Base(file), filepath.Base(site), simulated)
				s, o := load(t, file, read(t, file), "../../scenarios/tests"), options
				o.Simulated = simulated
				sys := system(t, site)
				sys.GPUsPerNode = max(sys.GPUsPerNode, 4) // of one machine, that it has
				set, err := planner.Plans(s, sys, o)
				require.NoError(t, err, name)
				plans := set.Plans
				require.GreaterOrEqual(t, len(plans), len(s.Tests), name)
				for _, p := range plans {
					require.Equal(t, simulated, p.Simulated)
					require.Equal(t, serves(p.Workload), len(p.Roles) > 0, name)
					require.NotEmpty(t, p.Loads[0].Clients, name)
					switch {
					case p.Workload == "BashCmd" && simulated: // which says that the text is run
					case p.Roles != nil && p.Roles[0].Group: // which says that the proxy is measured
						require.Contains(t, p.Notes[0], "so the proxy is part of what is measured", name)
					default:
						require.Empty(t, p.Notes, "%s %s: a shipped scenario has nothing without effect", name, p.Test)
					}
					data, err := p.Encode()
					require.NoError(t, err)
					back, err := plan.Decode(data)
					require.NoError(t, err)
					again, err := back.Encode()
					require.NoError(t, err)
					require.Equal(t, string(data), string(again), "plan.json of %s %s", name, p.Test)
				}
			}
		}
	}
}

func TestSameInputSameBytes(t *testing.T) {
	const file = "../../scenarios/topologies.toml"
	var first string
	for i := range 5 {
		set, err := planner.Plans(load(t, file, read(t, file), "../../scenarios/tests"),
			system(t, "../../conf/slurm-pyxis.toml"), options)
		require.NoError(t, err)
		plans := set.Plans
		var all strings.Builder
		for _, p := range plans {
			data, err := p.Encode()
			require.NoError(t, err)
			all.Write(data)
		}
		if i == 0 {
			first = all.String()
		}
		require.Equal(t, first, all.String())
	}
}

const minimal = "[[Tests]]\nid = %q\ntest_template_name = \"vllm\"\n%s\n"

func TestIterationsAreRunsOfTheirOwn(t *testing.T) {
	plans, err := inline(t, "launcher = \"bare\"\n",
		fmt.Sprintf(minimal, "a", "iterations = 3")+fmt.Sprintf(minimal, "b", "iterations = 2"), options)
	require.NoError(t, err)
	require.Len(t, plans, 5)
	dirs, ids := map[string]bool{}, map[string]bool{}
	for i, want := range []string{"a/0", "a/1", "a/2", "b/0", "b/1"} {
		p := plans[i]
		require.Equal(t, "/out/s_2026-03-04_05-06-07/"+want, p.Dir)
		require.Equal(t, want, fmt.Sprintf("%s/%d", p.Test, p.Iteration))
		require.Regexp(t, `^exp_20260304_050607_[0-9a-f]{6}$`, p.RunID)
		require.True(t, strings.HasSuffix(p.Job.Name, "."+p.RunID), p.Job.Name)
		require.Equal(t, "profllm:"+p.RunID, p.Job.Comment)
		dirs[p.Dir], ids[p.RunID] = true, true
	}
	require.Len(t, dirs, 5)
	require.Len(t, ids, 5)

	later := options
	later.Created = later.Created.Add(time.Second)
	again, err := inline(t, "launcher = \"bare\"\n", fmt.Sprintf(minimal, "a", ""), later)
	require.NoError(t, err)
	require.False(t, ids[again[0].RunID] || dirs[again[0].Dir])
}

// The rehearsal, then the command line, the test, the site, and else pyxis for a
// test that names an image.
func TestLauncherPrecedence(t *testing.T) {
	image := "[Tests.cmd_args]\ndocker_image_url = \"i\"\n"
	for _, c := range []struct {
		name, site, test, option string
		simulated                bool
		want                     string
	}{
		{name: "nothing said", want: "bare"},
		{name: "an image", test: image, want: "pyxis"},
		{name: "the site over the image", site: "bare", test: image, want: "bare"},
		{name: "the test over the site", site: "bare", test: "launcher = \"pyxis\"\n" + image, want: "pyxis"},
		{name: "the command line over the test", site: "pyxis", test: "launcher = \"pyxis\"\n" + image, option: "bare", want: "bare"},
		{name: "a rehearsal over all", site: "pyxis", test: "launcher = \"pyxis\"\n" + image, option: "pyxis", simulated: true, want: "bare"},
	} {
		t.Run(c.name, func(t *testing.T) {
			site := ""
			if c.site != "" {
				site = fmt.Sprintf("launcher = %q\n", c.site)
			}
			o := options
			o.Launcher, o.Simulated = c.option, c.simulated
			plans, err := inline(t, site, fmt.Sprintf(minimal, "a", c.test), o)
			require.NoError(t, err)
			require.Equal(t, c.want, plans[0].Launcher)
			boxed := false
			for _, w := range plans[0].Roles[0].Step.Srun {
				boxed = boxed || strings.HasPrefix(w.String(), "--container-image=")
			}
			require.Equal(t, c.want == "pyxis", boxed, "and the launcher has wrapped the step")
		})
	}
}

// covers: CD-45
func TestComplaintsOfEveryTest(t *testing.T) {
	_, err := inline(t, "", `[[Tests]]
id = "a"
test_template_name = "vlm"
[[Tests]]
id = "b"
test_template_name = "vllm"
launcher = "pixis"
client = "vlm"
[Tests.bench_cmd_args]
num_prompts = 0
max_concurrency = [1, 2]
[Tests.semantic_eval_cmd_args]
cli = "'"
[Tests.cmd_args]
port = 80
modle = "x"
[[Tests]]
id = "c"
test_template_name = "vllm"
launcher = "pyxis"
[[Tests]]
id = "d"
test_template_name = "vllm"
iterations = 5
[Tests.cmd_args.decode]
gpu_ids = "0-7"
tensor_parallel_size = 16
`, options)
	require.Error(t, err)
	text := err.Error()
	for _, want := range []string{
		"s.toml:4:1: test \"a\": unknown workload \"vlm\"\n\thint: did you mean \"vllm\"",
		"test \"b\": unknown launcher \"pixis\"\n\thint: did you mean \"pyxis\"", "unknown client \"vlm\"\n\thint: did you mean \"vllm\"",
		"s.toml:11:1: bench_cmd_args.num_prompts is 0, must be 1 or more",
		"s.toml:14:1: semantic_eval_cmd_args.cli: a quote is not closed", "s.toml:16:1: cmd_args.port is 80", `s.toml:17:1: unknown key "modle"`,
		"cmd_args.docker_image_url is required", `decode.gpu_ids names GPU 4, but a node has 4 GPUs (0-3)`,
		`role "serve" needs 16 GPUs (tensor_parallel_size 16), but has 8 (1 node with 8 GPUs)`,
	} {
		require.Contains(t, text, want)
	}
	require.Equal(t, 1, strings.Count(text, "needs 16 GPUs"), "once, not for each iteration: %s", text)
	last := 0
	for _, line := range strings.Split(text, "\n") {
		var at int
		if _, err := fmt.Sscanf(line, "s.toml:%d:", &at); err == nil {
			require.GreaterOrEqual(t, at, last, "in the order of the file: %s", text)
			last = at
		}
	}
}

// An engine brings its client and its evaluation; the test may name another client.
func TestClientOfTheEngine(t *testing.T) {
	for _, c := range []struct{ template, client, want string }{
		{"vllm", "", "vllm bench serve"}, {"vllm", "profllm", "profllm bench serve"}, {"vllm", "sglang", "sglang.bench_serving"},
		{"sglang", "", "sglang.bench_serving"}, {"sglang", "sglang", "sglang.bench_serving"}, {"sglang", "profllm", "profllm bench serve"},
	} {
		text := fmt.Sprintf("[[Tests]]\nid = \"a\"\ntest_template_name = %q\n[Tests.semantic_eval_cmd_args]\n",
			c.template)
		if c.client != "" {
			text = strings.Replace(text, "[Tests.sem", fmt.Sprintf("client = %q\n[Tests.sem", c.client), 1)
		}
		plans, err := inline(t, "launcher = \"bare\"\n", text, options)
		require.NoError(t, err)
		load := plans[0].Loads[0]
		require.Equal(t, c.want, load.Client, "%s %s", c.template, c.client)
		require.Len(t, load.Clients, 2)
		eval := ""
		for _, w := range load.Clients[1].Argv {
			eval += w.String() + " "
		}
		require.Equal(t, c.template == "sglang", strings.Contains(eval, "sglang.test.run_eval --host ${addr:serve} "),
			eval)
	}
}

// CloudAI's SGLang runs, and ours, whose console table looks like vLLM's.
func TestSGLangResults(t *testing.T) {
	const line = `{"completed": 3, "duration": 2.0, "backend": "sglang"}` + "\n"
	const table = "============ Serving Benchmark Result ============\nBackend: sglang\nSuccessful requests: 9\nBenchmark duration (s): 1.00\n" +
		"==================================================\n"
	for _, files := range []fstest.MapFS{
		{"sglang-bench.jsonl": {Data: []byte(line)}, "sglang-semantic-eval.log": {Data: []byte("Score: 0.5\n")}},
		{"raw/sglang-bench.jsonl": {Data: []byte(line)}, "logs/bench-0.log": {Data: []byte(table)}, "logs/eval-0.log": {Data: []byte("Score: 0.5\n")}},
	} {
		first := func(parsers []collect.Parser) result.Part {
			for _, p := range parsers {
				if part, err := p.Parse(files); err == nil {
					return part
				}
			}
			t.Fatal("nothing was found")
			return result.Part{}
		}
		bench := first(catalog.Benches)
		require.Equal(t, "sglang-bench", bench.Benchmark.Kind)
		require.Equal(t, 3, *bench.Metrics.CompletedRequests)
		require.Equal(t, 0.5, first(catalog.Evals).Accuracy.Value)
	}
}

// Every client is told the address of the server's node and the port the job
// chose, wherever it runs itself.
//
// covers: PL-D6
func TestClientsAskTheNodeOfTheServer(t *testing.T) {
	files, err := filepath.Glob("../../scenarios/*.toml")
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, file := range files {
		set, err := planner.Plans(load(t, file, read(t, file), "../../scenarios/tests"),
			system(t, "../../conf/slurm-bare.toml"), options)
		require.NoError(t, err)
		for _, p := range set.Plans {
			if len(p.Roles) == 0 {
				continue
			}
			end := p.Roles[slices.IndexFunc(p.Roles, func(r plan.Role) bool { return !r.Helper })].Name
			if p.Role("proxy") != nil {
				end = "proxy"
			}
			for _, c := range p.Loads[0].Clients {
				words := ""
				for _, w := range c.Argv {
					words += " " + w.String()
				}
				require.Contains(t, words, "${addr:"+end+"}", "%s %s", p.Test, c.Name)
				require.NotRegexp(t, `localhost|127\.0\.0\.1|0\.0\.0\.0`, words, "%s %s", p.Test, c.Name)
				seen[p.Workload+" "+end+" "+c.Name] = true
			}
		}
	}
	require.Greater(t, len(seen), 6, "%v", seen)
}

// A model that lies in a folder reaches every server and every client of each
// engine as that folder.
//
// covers: PL-D7
func TestModelReachesEveryEngine(t *testing.T) {
	const model = "/models/a b"
	for _, engine := range []string{"vllm", "sglang"} {
		for _, more := range []string{"", "[Tests.cmd_args.prefill]\n"} {
			plans, err := inline(t, "",
				"[[Tests]]\nid = \"a\"\ntest_template_name = \""+engine+"\"\nlauncher = \"bare\"\n[Tests.cmd_args]\nmodel = \""+model+"\"\n"+more, options)
			require.NoError(t, err)
			p := plans[0]
			for i := range p.Roles {
				if p.Roles[i].Engine {
					require.Contains(t, p.Roles[i].Step.Argv, plan.Text(model), "%s %s", engine, p.Roles[i].Name)
				}
			}
			require.Contains(t, p.Loads[0].Clients[0].Argv, plan.Text(model), engine)
		}
	}
}

// Shell text runs behind the clients of each load, in the place of the clients.
func TestAfterLoad(t *testing.T) {
	const more = "after_load = \"curl -X POST http://localhost/flush\"\n"
	plans, err := inline(t, "launcher = \"bare\"\n", "[[Tests]]\nid = \"a\"\ntest_template_name = \"vllm\"\n"+more+
		"[[Tests.phases]]\nname = \"x\"\n[[Tests.phases]]\nname = \"y\"\ncache = \"keep\"\n", options)
	require.NoError(t, err)
	require.Len(t, plans[0].Loads, 2)
	for _, l := range plans[0].Loads {
		require.Len(t, l.Clients, 2)
		after := l.Clients[1]
		require.Equal(t, plan.AfterLoadStep, after.Name)
		require.Equal(t, "curl -X POST http://localhost/flush", after.Argv[2].String())
		require.Equal(t, l.Name+"/logs/after-load-%t.log", after.Log)
		require.Equal(t, l.Clients[0].Nodes, after.Nodes)
	}
	plans, err = inline(t, "launcher = \"bare\"\n", "[[Tests]]\nid = \"a\"\ntest_template_name = \"vllm\"\n"+more+
		"[Tests.semantic_eval_cmd_args]\n", options)
	require.NoError(t, err)
	var names []string
	for _, s := range plans[0].Loads[0].Clients {
		names = append(names, s.Name)
	}
	require.Equal(t, []string{"bench", plan.EvalStep, plan.AfterLoadStep}, names)
	_, err = inline(t, "launcher = \"bare\"\n", "[[Tests]]\nid = \"a\"\ntest_template_name = \"Sleep\"\n"+more, options)
	require.ErrorContains(t, err, "a Sleep test serves nothing, so after_load has no effect")
}
