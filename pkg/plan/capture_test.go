package plan_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
)

// ranged plans prefill on one node and decode on two, whose engines can open a capture range.
func ranged(t *testing.T, nsys string, change func(*plan.Input)) (*plan.Plan, error) {
	t.Helper()
	in := serving(input(t, "gpus_per_node = 4\n",
		"num_nodes = 3\nextra_env_vars = { B = \"mine\" }\n[Tests.nsys]\n"+nsys), nil,
		role("prefill", plan.Slice{Count: 1}, 0), role("decode", plan.Slice{Offset: 1, Count: 2}, 0))
	w := in.Workload.(service)
	w.EndpointRole = "prefill"
	w.Torch = &plan.Torch{Start: "/begin", Stop: "/end",
		Range: func(time.Duration) ([]plan.Word, []plan.Var, error) {
			return plan.Texts("--range"),
				[]plan.Var{{Name: "A", Value: plan.Text("1")}, {Name: "B", Value: plan.Text("2")}}, nil
		}}
	in.Workload = w
	if change != nil {
		change(&in)
	}
	return plan.Make(in)
}

// The preset sets the options that record the loads, each of them may be written over, and further
// options and the adapters of AWS can be added.
//
// covers: PRF-3, PRF-11
func TestNsysPreset(t *testing.T) {
	options := func(nsys string) string {
		p, err := ranged(t, nsys, nil)
		require.NoError(t, err)
		_, line, _ := strings.Cut(joined(p.Role("prefill").Step.Argv), "%q{SLURMD_NODENAME} ")
		line, _, _ = strings.Cut(line, " env ")
		return line
	}
	const preset = "preset = \"loads\"\n"
	require.Equal(t, "-t cuda,nvtx,osrt,cudnn,cublas --force-overwrite=true --capture-range=cudaProfilerApi "+
		"--capture-range-end=repeat --cuda-graph-trace=node --trace-fork-before-exec=true --cuda-memory-usage=true "+
		"--cudabacktrace=true", options(preset))
	require.Equal(t, "-t nvtx --force-overwrite=false --capture-range=none --capture-range-end=stop "+
		"--cuda-graph-trace=graph --trace-fork-before-exec=false --cuda-memory-usage=false --cudabacktrace=kernel "+
		"--enable=efa_metrics --cpuctxsw=none",
		options(preset+"trace = \"nvtx\"\nforce_overwrite = false\ncapture_range = \"none\"\ncapture_range_end = \"stop\"\n"+
			"cuda_graph_trace = \"graph\"\ntrace_fork_before_exec = false\ncuda_memory_usage = false\n"+
			"cudabacktrace = \"kernel\"\nefa_metrics = true\nextra_args = [\"--cpuctxsw=none\"]\n"))
	_, err := ranged(t, "preset = \"load\"\n", nil)
	require.ErrorContains(t, err, `nsys.preset "load" is not known`)
	require.ErrorContains(t, err, `did you mean "loads"?`)
}

// With a capture range by the CUDA profiler, every profiled engine is configured for it, and the
// job opens and closes the range around each load. What the user has set stays.
//
// covers: PRF-4
func TestNsysCaptureRange(t *testing.T) {
	const capture = "capture_range = \"cudaProfilerApi\"\n"
	p, err := ranged(t, capture, nil)
	require.NoError(t, err)
	require.Equal(t, &plan.Tracing{Start: "/begin", Stop: "/end", Limit: plan.Seconds(5 * time.Minute)}, p.Tracing)
	for _, name := range []string{"prefill", "decode"} {
		r := p.Role(name)
		require.True(t, strings.HasSuffix(joined(r.Step.Argv), " serve --range"), joined(r.Step.Argv))
		require.Contains(t, joined(r.Step.Argv), "job profile --mark exp_1/"+name+" --run /out/s/a/0 -- nsys ")
		require.Equal(t, []plan.Var{{Name: "A", Value: plan.Text("1")}}, r.Step.Env)
		require.True(t, p.Traces(r))
	}
	require.Len(t, p.Notes, 1)
	require.Contains(t, joined(p.Role("decode").Step.Argv), "--capture-range-end=repeat",
		"nsys would end the server with the first range")

	p, err = ranged(t, capture+"roles = [\"prefill\"]\n", nil)
	require.NoError(t, err)
	require.Equal(t, "serve", joined(p.Role("decode").Step.Argv), "an engine that is not profiled is left alone")
	require.False(t, p.Traces(p.Role("decode")))

	p, err = ranged(t, "capture_range = \"none\"\n", nil)
	require.NoError(t, err)
	require.Nil(t, p.Tracing)

	for name, c := range map[string]struct {
		change func(*plan.Input, *plan.Service)
		traced bool
		note   string
	}{
		"the client asks": {func(in *plan.Input, _ *plan.Service) { in.Loads[0].Clients = []plan.Client{measured{}} }, false, ""},
		"own config": {func(_ *plan.Input, w *plan.Service) {
			w.Roles[0].Step.Argv = plan.Texts("serve", "--profiler-config", `{"profiler":"cuda"}`)
		}, true, ""},
		"another config": {func(_ *plan.Input, w *plan.Service) {
			w.Roles[0].Step.Argv = plan.Texts("serve", "--profiler-config.profiler", "torch")
		}, true, "records nothing of prefill, whose own profiler_config lacks"},
		"an old engine": {func(_ *plan.Input, w *plan.Service) {
			w.Torch.Range = func(time.Duration) ([]plan.Word, []plan.Var, error) {
				return nil, nil, errors.New("too old")
			}
		}, false, "records nothing: too old"},
		"another engine": {func(_ *plan.Input, w *plan.Service) { w.Torch = nil }, false, "profllm cannot have a vllm do"},
		"several loads": {func(in *plan.Input, _ *plan.Service) {
			second := in.Loads[0]
			in.Loads[0].Name, second.Name, second.Keeps = "1", "2", true
			in.Loads = append(in.Loads, second)
		}, true, "nsys records the first load only"},
	} {
		nsys := capture
		if name == "several loads" {
			nsys += "capture_range_end = \"stop\"\n"
		}
		p, err := ranged(t, nsys, func(in *plan.Input) {
			w := in.Workload.(service)
			c.change(in, &w.Service)
			in.Workload = w
		})
		require.NoError(t, err, name)
		require.Equal(t, c.traced, p.Tracing != nil, name)
		if c.note == "" {
			require.Len(t, p.Notes, 1, name)
			continue
		}
		require.Contains(t, p.Notes[1], "s.toml:8:1: ", name)
		require.Contains(t, p.Notes[1], c.note, name)
	}
}

// Roles, ranks and nodes select what nsys is put around; the others run without it.
//
// covers: PRF-10
func TestNsysSelects(t *testing.T) {
	for nsys, want := range map[string]map[string][]int{
		"":                        {"prefill": {0}, "decode": {0, 1}},
		"roles = [\"decode\"]":    {"decode": {0, 1}},
		"ranks = [0]":             {"prefill": {0}, "decode": {0}},
		"ranks = [1]":             {"decode": {1}},
		"nodes = [2]":             {"decode": {1}},
		"nodes = [0, 1]":          {"prefill": {0}, "decode": {0}},
		"roles=[]\nnodes=[0]\n":   nil,
		"nodes = [0]\nranks= [1]": nil,
	} {
		p, err := ranged(t, nsys, nil)
		if want == nil {
			require.ErrorContains(t, err, "select no rank of any engine", nsys)
			continue
		}
		require.NoError(t, err, nsys)
		for _, name := range []string{"prefill", "decode"} {
			r := p.Role(name)
			require.Equal(t, want[name], r.Profiled(), nsys)
			line := joined(r.Step.Argv)
			require.Equal(t, want[name] != nil, strings.Contains(line, " nsys profile "), nsys)
			some := name == "decode" && len(want[name]) == 1
			require.Equal(t, some, strings.Contains(line, " --ranks "), line)
		}
	}
	p, err := ranged(t, "ranks = [1]\n", nil)
	require.NoError(t, err)
	require.Contains(t, joined(p.Role("decode").Step.Argv),
		"job profile --mark exp_1/decode --ranks 1 -- nsys profile ")
	for nsys, want := range map[string]string{
		"roles = [\"decod\"]": `there is no engine "decod"`, "ranks = [2]": "nsys.ranks: 2 is not from 0 to 1",
		"nodes = [-1]": "nsys.nodes: -1 is not from 0 to 2",
	} {
		_, err := ranged(t, nsys, nil)
		require.ErrorContains(t, err, want)
	}
}

// The finished reports of a rank: of a host, of a capture range, and of runs before hosts were in
// the name.
//
// covers: PRF-5
func TestIsReport(t *testing.T) {
	r := plan.Role{Report: "raw/nsys-serve-0"}
	for name, want := range map[string]bool{"nsys-serve-1-n7.nsys-rep": true, "nsys-serve-1.nsys-rep": true,
		"nsys-serve-1-n7.2.nsys-rep": true, "nsys-serve-1.2.nsys-rep": true, "nsys-serve-10-n7.nsys-rep": false,
		"nsys-serve-0-n7.nsys-rep": false, "nsys-serve-1-n7.qdstrm": false, "nsys-serve_1-1-n7.nsys-rep": false} {
		require.Equal(t, want, r.IsReport(name, 1), name)
	}
}
