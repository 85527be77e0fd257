package planner_test

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/planner"
	"github.com/profllm/profllm/pkg/scenario"
)

// dynamoTest is a test of a service of Dynamo, with keys of the test and of cmd_args.
func dynamoTest(keys, args string) string {
	return fmt.Sprintf("[[Tests]]\nid = \"a\"\ntest_template_name = \"AIDynamo\"\n%s\n[Tests.cmd_args]\ndocker_image_url = \"x\"\n%s\n",
		keys, args)
}

// A list below the table of LMCache is a dimension of a sweep, unless the test says that it is a value.
//
// covers: U-32
func TestDynamoSweepsCaches(t *testing.T) {
	const args = `[Tests.cmd_args.dynamo]
[Tests.cmd_args.lmcache]
chunk_size = [256, 512]
lmcache_worker_ports = [8788, 8789]`
	for keys, want := range map[string][]string{
		"": {"lmcache.chunk_size", "lmcache.lmcache_worker_ports"},
		`dse_excluded_args = ["cmd_args.lmcache.lmcache_worker_ports"]`: {"lmcache.chunk_size"},
		`dse_excluded_args = "cmd_args.lmcache"`:                        nil,
	} {
		s := load(t, "s.toml", []byte("name = \"s\"\n"+dynamoTest(keys, args)), "testdata/none")
		sw, err := planner.Sweep(s.Tests[0])
		require.NoError(t, err)
		var got []string
		for _, d := range sw.Dimensions {
			got = append(got, d.Path)
		}
		require.Equal(t, want, got, keys)
	}
	plans, err := inline(t, "", dynamoTest(`dse_excluded_args = ["cmd_args.lmcache.lmcache_worker_ports"]`, args), options)
	require.NoError(t, err)
	require.Len(t, plans, 2, "each has a file of its own")
	for i, size := range []string{"256", "512"} {
		at := slices.IndexFunc(plans[i].Files, func(f plan.File) bool { return f.Name == "lmcache-config.yaml" })
		text, _ := plans[i].Files[at].Text.Literal()
		require.Contains(t, text, "chunk_size: "+size+"\n")
		require.Contains(t, text, "lmcache_worker_ports:\n  - 8788\n  - 8789\n")
	}
}

// A scenario that says one argument of a worker keeps the test's others; its list of phases replaces the test's. An empty
// list is one load.
func TestDynamoOverrides(t *testing.T) {
	const definition = `name = "base"
description = "d"
test_template_name = "AIDynamo"
[cmd_args]
docker_image_url = "x"
[cmd_args.dynamo.prefill_worker]
num_nodes = 0
[cmd_args.dynamo.decode_worker.args]
max-model-len = 100
block-size = 16
[[cmd_args.aiperf_phases]]
name = "one"
[[cmd_args.aiperf_phases]]
name = "two"
`
	plans := func(over string) []*plan.Plan {
		s, err := scenario.Load(scenario.File{Name: "s.toml", Data: []byte("name = \"s\"\n[[Tests]]\nid = \"a\"\ntest_name = \"base\"\n" + over)},
			[]scenario.File{{Name: "base.toml", Data: []byte(definition)}}, scenario.HookFiles{})
		require.NoError(t, err)
		sys, err := config.Parse("site.toml", []byte("name = \"s\"\nscheduler = \"slurm\"\noutput_path = \"o\"\ninstall_path = \"i\"\n"+
			"default_partition = \"p\"\ngpus_per_node = 4\n"))
		require.NoError(t, err)
		set, err := planner.Plans(s, sys, options)
		require.NoError(t, err)
		return set.Plans
	}
	names := func(p *plan.Plan) (list []string) {
		for i := range p.Loads {
			list = append(list, p.Loads[i].Name)
		}
		return list
	}
	all := plans("[Tests.cmd_args.dynamo.decode_worker.args]\nblock-size = 32\n")
	require.Len(t, all, 1)
	require.Equal(t, []string{"one", "two"}, names(all[0]))
	var words []string
	for _, w := range all[0].Role("worker").Step.Argv {
		words = append(words, w.String())
	}
	require.Contains(t, strings.Join(words, " "), "--max-model-len 100 --block-size 32")
	require.Equal(t, []string{"three"}, names(plans("[[Tests.cmd_args.aiperf_phases]]\nname = \"three\"\n")[0]))
	require.Equal(t, []string{""}, names(plans("[Tests.cmd_args]\naiperf_phases = []\n")[0]))
}

// Each phase has a folder, a record and a report of its own, whatever the report is called. Whether a failure is the last
// thing of the job each says for itself.
//
// covers: U-36
func TestDynamoPhasesAreApart(t *testing.T) {
	plans, err := inline(t, "", dynamoTest("", `[Tests.cmd_args.dynamo]
[Tests.cmd_args.aiperf]
report-name = "mine.csv"
cmd = "/opt/a/aiperf profile"
[[Tests.cmd_args.aiperf_phases]]
name = "one"
continue-on-phase-failure = true
[[Tests.cmd_args.aiperf_phases]]
name = "two"
cmd = "/opt/b/aiperf profile"
`), options)
	require.NoError(t, err)
	require.Len(t, plans, 1)
	p := plans[0]
	require.Contains(t, strings.Join(p.Notes, "\n"), "report_name has no effect")
	require.Len(t, p.Loads, 2)
	ids := map[string]bool{}
	for i, name := range []string{"one", "two"} {
		l := p.Loads[i]
		require.Equal(t, path.Join(p.Dir, name), l.Dir)
		require.Contains(t, clientOf(l), "--artifact-dir "+l.Dir+"/raw")
		require.Equal(t, name == "two", l.StopOnFailure)
		require.True(t, strings.HasPrefix(clientOf(l), map[string]string{"one": "/opt/a/aiperf ", "two": "/opt/b/aiperf "}[name]))
		ids[l.RunID] = true
	}
	require.Len(t, ids, 2)
}
