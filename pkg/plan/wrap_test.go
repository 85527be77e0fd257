package plan_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/plan"
)

func joined(argv []plan.Word) string {
	words := make([]string, len(argv))
	for i, w := range argv {
		words[i] = w.String()
	}
	return strings.Join(words, " ")
}

// wrapped plans a server behind what forms its Ray cluster, and a proxy.
func wrapped(t *testing.T, more string, simulated bool) (*plan.Plan, error) {
	t.Helper()
	one := plan.Slice{Count: 1}
	serve, proxy := role("serve", one, 0), role("proxy", one)
	serve.Step.Argv, serve.Step.Inner = plan.Texts("ray", "--", "serve", "it's"), 2
	serve.Step.Env = []plan.Var{{Name: "ADDR", Value: plan.Word{plan.Addr("serve")}}}
	proxy.Engine, proxy.Step.Argv = false, plan.Texts("proxy")
	in := serving(input(t, "gpus_per_node = 4\n", "time_limit = \"30m\"\n"+more), nil, serve, proxy)
	in.Simulated = simulated
	return plan.Make(in)
}

// elsewhere mounts a folder outside of the run directory at its own path.
const elsewhere = "extra_container_mounts = [\"/elsewhere:/elsewhere\"]\n"

// covers: PL-V29, PRF-5
func TestNsys(t *testing.T) {
	all := `[Tests.nsys]
nsys_binary = "/opt/nsys"
task = "profile"
sample = "none"
output = "mine"
trace = "cuda,nvtx"
force_overwrite = true
capture_range = "cudaProfilerApi"
capture_range_end = "repeat"
cuda_graph_trace = "node"
gpu_metrics_devices = "all"
extra_args = ["--x", "y z"]
`
	p, err := wrapped(t, all, false)
	require.NoError(t, err)
	require.Equal(t, "ray -- profllm job profile --mark exp_1/serve -- /opt/nsys profile -s none -o /out/s/a/0/raw/mine-serve-0-%q{SLURMD_NODENAME} -t cuda,nvtx "+
		"--force-overwrite=true --capture-range=cudaProfilerApi --capture-range-end=repeat --cuda-graph-trace=node --gpu-metrics-devices=all --x y z "+
		"env PROFLLM_PROFILED=exp_1/serve serve it's", joined(p.Role("serve").Step.Argv))
	require.Equal(t, "raw/mine-serve-0", p.Role("serve").Report)
	require.Equal(t, "proxy", joined(p.Role("proxy").Step.Argv), "the proxy is no engine")
	require.True(t, strings.HasPrefix(joined(p.Loads[0].Clients[0].Argv), "measure "), "nor is the client")
	require.Equal(t, plan.Seconds(150*time.Second), p.Job.Grace, "time for the reports")
	require.Len(t, p.Notes, 2)
	require.Contains(t, p.Notes[0], "cannot be a baseline")
	require.Contains(t, p.Notes[1], "records nothing unless the servers call the CUDA profiler")

	p, err = wrapped(t, elsewhere+"[Tests.nsys]\nnsys_binary = \"/opt/nsys\"\noutput = \"/elsewhere/x\"", true)
	require.NoError(t, err)
	require.Contains(t, joined(p.Role("serve").Step.Argv),
		" -- nsys profile -o /elsewhere/x-serve-0-%q{SLURMD_NODENAME} env ",
		"a rehearsal has its own nsys")
	require.Equal(t, "/elsewhere/x-serve-0", p.Role("serve").Report)

	two := role("serve", plan.Slice{Count: 2}, 0)
	p, err = plan.Make(serving(input(t, "gpus_per_node = 4\n", "num_nodes = 2\n[Tests.nsys]\n"), nil, two))
	require.NoError(t, err)
	require.Contains(t, joined(p.Role("serve").Step.Argv),
		" -o /out/s/a/0/raw/nsys-serve-%q{SLURM_PROCID}-%q{SLURMD_NODENAME} ",
		"a report of each rank on each host, whose names are known there only")
	require.Equal(t, "raw/nsys-serve-0", p.Role("serve").Report)

	p, err = wrapped(t, "[Tests.nsys]\nenable = false\n", false)
	require.NoError(t, err)
	require.Equal(t, "ray -- serve it's", joined(p.Role("serve").Step.Argv))
	require.Empty(t, p.Role("serve").Report)
	require.Empty(t, p.Notes)

	for more, want := range map[string]string{
		"trase = \"cuda\"":   `s.toml:7:1: unknown key "trase"`,
		"trace = [\"cuda\"]": "trace must be a string, not a list",
		"enable = \"maybe\"": "enable must be a boolean",
	} {
		_, err := wrapped(t, "[Tests.nsys]\n"+more, false)
		require.ErrorContains(t, err, want)
	}
}

// VizTracer runs the server in its own process, which is the marked one. It has one file, so a
// server of several ranks is refused.
//
// covers: PRF-9
func TestVizTracer(t *testing.T) {
	p, err := wrapped(t, "[Tests.viztracer]\nbinary = \"/opt/viztracer\"\nextra_args = [\"--log_gc\"]\n", false)
	require.NoError(t, err)
	require.Equal(t, "ray -- profllm job profile --mark exp_1/serve -- env PROFLLM_PROFILED=exp_1/serve /opt/viztracer "+
		"-o /out/s/a/0/raw/viztracer-serve-0.json --log_gc -- serve it's", joined(p.Role("serve").Step.Argv))
	require.Equal(t, "raw/viztracer-serve-0.json", p.Role("serve").ReportStem(0)+p.Role("serve").ReportSuffix())
	require.Equal(t, "proxy", joined(p.Role("proxy").Step.Argv))
	require.Equal(t, plan.Seconds(150*time.Second), p.Job.Grace, "time for the traces")
	require.Len(t, p.Notes, 1)
	require.Contains(t, p.Notes[0], "viztracer profiles the servers, so the results cannot be a baseline")

	p, err = wrapped(t, elsewhere+"[Tests.viztracer]\nbinary = \"/opt/viztracer\"\noutput = \"/elsewhere/x\"", true)
	require.NoError(t, err)
	require.Contains(t, joined(p.Role("serve").Step.Argv), " viztracer -o /elsewhere/x-serve-0.json -- ")
	p, err = wrapped(t, "[Tests.viztracer]\nenable = false\n", false)
	require.NoError(t, err)
	require.Equal(t, "ray -- serve it's", joined(p.Role("serve").Step.Argv))

	_, err = wrapped(t, "[Tests.viztracer]\n[Tests.nsys]\n", false)
	require.ErrorContains(t, err, "nsys and viztracer both run before the server")
	_, err = wrapped(t, "[Tests.viztracer]\ntracer = 1\n", false)
	require.ErrorContains(t, err, `unknown key "tracer"`)
	two := role("serve", plan.Slice{Count: 2}, 0)
	_, err = plan.Make(serving(input(t, "gpus_per_node = 4\n", "num_nodes = 2\n[Tests.viztracer]\n"), nil, two))
	require.ErrorContains(t, err, "viztracer writes one file, but serve has a server on each of 2 nodes")
}

// A report that its container would keep is refused; a mount, or no container, makes it good.
//
// covers: CTR-6
func TestReportsMounted(t *testing.T) {
	for profiler, file := range map[string]string{
		"nsys": "/elsewhere/x-serve-0*.nsys-rep", "viztracer": "/elsewhere/x-serve-0.json",
	} {
		output := "[Tests." + profiler + "]\noutput = \"/elsewhere/x\"\n"
		in := func(mounts string) plan.Input {
			in := input(t, "gpus_per_node = 4\n", mounts+output)
			w := in.Workload.(service)
			w.Image = "vllm/vllm-openai:v0.15"
			in.Workload = w
			return in
		}
		for _, mounts := range []string{"", "extra_container_mounts = [\"/elsewhere:/x\", \"/other:/elsewhere\"]\n"} {
			_, err := plan.Make(in(mounts))
			require.ErrorContains(t, err,
				"output: serve writes "+file+" in its container, where /elsewhere is not mounted at its own path")
			require.ErrorContains(t, err, `add "/elsewhere:/elsewhere" to extra_container_mounts`)
			require.Regexp(t, `^s\.toml:\d+:1: `, err.Error())
		}
		p, err := plan.Make(in("extra_container_mounts = [\"/elsewhere:/elsewhere\"]\n"))
		require.NoError(t, err)
		require.Contains(t, p.Mounts, "/elsewhere:/elsewhere")
		bare := in("")
		bare.LauncherName = config.Bare
		_, err = plan.Make(bare)
		require.NoError(t, err, "no container")
		inside := in("")
		inside.Test.Nsys, inside.Test.Viz = nil, nil
		_, err = plan.Make(inside)
		require.NoError(t, err)
	}
}

// The same holds for a folder that an engine's own profiler is told to write to.
//
// covers: CTR-6
func TestTracesMounted(t *testing.T) {
	const config = "--profiler-config"
	for name, c := range map[string]struct {
		argv    []string
		more    string
		refused bool
	}{
		"JSON":          {argv: []string{config, `{"profiler":"torch","torch_profiler_dir":"/traces"}`}, refused: true},
		"JSON, joined":  {argv: []string{config + `={"torch_profiler_dir":"/traces"}`}, refused: true},
		"a key":         {argv: []string{config + ".torch_profiler_dir", "/traces"}, refused: true},
		"a key, joined": {argv: []string{config + ".torch_profiler_dir=/traces"}, refused: true},
		"a variable":    {more: "[Tests.extra_env_vars]\nVLLM_TORCH_PROFILER_DIR = \"/traces\"\n", refused: true},
		"mounted":       {more: "extra_container_mounts = [\"/host:/traces\"]\n", argv: []string{config, `{"torch_profiler_dir":"/traces/a"}`}},
		"in the run":    {argv: []string{config, `{"torch_profiler_dir":"/out/s/a/0/raw"}`}},
		"a bucket":      {argv: []string{config, `{"torch_profiler_dir":"gs://traces"}`}},
		"no folder":     {argv: []string{config, `{"profiler":"cuda"}`}},
		"no JSON":       {argv: []string{config, "/traces"}},
		"no value":      {argv: []string{config}},
	} {
		serve := role("serve", plan.Slice{Count: 1}, 0)
		serve.Step.Argv = append(serve.Step.Argv, plan.Texts(c.argv...)...)
		_, err := plan.Make(serving(input(t, "gpus_per_node = 4\n", c.more), nil, serve))
		if !c.refused {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err,
			"s.toml:2:3: serve writes its traces to /traces in its container, where this folder is not mounted", name)
		require.ErrorContains(t, err, `add "/traces:/traces" to extra_container_mounts`)
	}
}

// A plan does not read the mounts in options of runtimes: where there are such options, it only
// notes that a folder may not be mounted.
func TestMountsUnread(t *testing.T) {
	const report = "[Tests.nsys]\noutput = \"/elsewhere/x\"\n"
	const traces = "[Tests.extra_env_vars]\nVLLM_TORCH_PROFILER_DIR = \"/elsewhere\"\n"
	for _, c := range []struct{ site, test string }{
		{"container_args = \"-v /elsewhere:/elsewhere\"\n", ""}, {"container_mount_home = true\n", ""},
		{"extra_srun_args = \"--container-mounts=/elsewhere\"\n", ""}, {"", "extra_srun_args = \"--container-mounts=/elsewhere\"\n"},
	} {
		for _, more := range []string{report, traces} {
			p, err := plan.Make(input(t, "gpus_per_node = 4\n"+c.site, c.test+more))
			require.NoError(t, err)
			require.Regexp(t, `s\.toml:\d+:\d+: .*serve writes .*/elsewhere.* mounted.*: .*`+
				`, unless container_args, extra_srun_args or container_mount_home mount it`,
				strings.Join(p.Notes, "\n"))
			require.NotContains(t, strings.Join(p.Notes, "\n"), "extra_container_mounts")
		}
	}
}

// The first pattern of the file that the whole command matches counts; what only
// starts a server is not wrapped.
//
// covers: CD-19
func TestCustomBash(t *testing.T) {
	const tail = "\nexec \"$@\" "
	for _, c := range []struct{ name, more, serve, proxy, bench string }{
		{"one text", `custom_bash = "cd '/a b'; ls # x"`, "ray -- bash -c cd '/a b'; ls # x" + tail + "serve serve it's", "bash -c cd '/a b'; ls # x" + tail + "proxy proxy",
			"bash -c cd '/a b'; ls # x" + tail + "bench measure "},
		{"no text", `custom_bash = ""`, "ray -- serve it's", "proxy", "measure "},
		{"in the order of the file", "[Tests.custom_bash]\n\"^prox\" = \"\"\n\"prox|measure\" = \"b\"\n\"m\" = \"c\"", "ray -- serve it's", "proxy", "bash -c b" + tail + "bench measure "},
		{"the environment is looked at", "[Tests.custom_bash]\n\"^env ADDR=\\\\$.addr:serve. serve\" = \"e\"\n", "ray -- bash -c e" + tail + "serve serve it's", "proxy", "measure "},
		{"what starts it is not", "[Tests.custom_bash]\n\"ray\" = \"e\"\n", "ray -- serve it's", "proxy", "measure "},
		{"around the profiler", "[Tests.custom_bash]\n\"nsys\" = \"e\"\n[Tests.nsys]\n", "ray -- bash -c e" + tail + "serve profllm job profile --mark exp_1/serve -- " +
			"nsys profile -o /out/s/a/0/raw/nsys-serve-0-%q{SLURMD_NODENAME} env PROFLLM_PROFILED=exp_1/serve serve it's", "proxy", "measure "},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := wrapped(t, c.more, false)
			require.NoError(t, err)
			require.Equal(t, c.serve, joined(p.Role("serve").Step.Argv))
			require.Equal(t, c.proxy, joined(p.Role("proxy").Step.Argv))
			require.True(t, strings.HasPrefix(joined(p.Loads[0].Clients[0].Argv), c.bench),
				joined(p.Loads[0].Clients[0].Argv))
		})
	}
	_, err := wrapped(t, "[Tests.custom_bash]\n\"a(\" = \"x\"\n\"b\" = 1\n", false)
	require.ErrorContains(t, err, `s.toml:7:1: custom_bash: "a(" is not a regular expression`)
	require.ErrorContains(t, err, `s.toml:8:1: custom_bash: the text for "b" must be a string`)
	_, err = wrapped(t, "custom_bash = [\"x\"]\n", false)
	require.ErrorContains(t, err, "custom_bash must be a string or a table, not a list")
}

// Two nodes may have one number; one node may not.
//
// covers: CD-14
func TestPortsAreOfANode(t *testing.T) {
	ports := []plan.Port{{Name: "a", Base: 8300, Step: 1, Count: 1, Role: "x"},
		{Name: "b", Base: 8300, Step: 1, Count: 1, Role: "y"}}
	for nodes, want := range map[plan.Slice]bool{{Offset: 2, Count: 1}: true, {Offset: 1, Count: 1}: false,
		{Offset: 0, Count: 3}: false} {
		p := plan.Plan{Ports: ports,
			Roles: []plan.Role{{Name: "x", Nodes: plan.Slice{Count: 2}}, {Name: "y", Nodes: nodes}}}
		require.Equal(t, want, p.UsableSlot(0) == nil, nodes)
	}
}
