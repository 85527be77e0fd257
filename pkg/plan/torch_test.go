package plan_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/source"
)

// traced plans two engines and a proxy under the torch profiler.
func traced(t *testing.T, site, more string, change func(*plan.Input)) (*plan.Plan, error) {
	t.Helper()
	one := plan.Slice{Count: 1}
	proxy := role("proxy", one)
	proxy.Engine, proxy.Step.Argv = false, plan.Texts("proxy")
	in := serving(input(t, "gpus_per_node = 4\n"+site, more), nil, role("prefill", one, 0), role("decode", one, 1),
		proxy)
	w := in.Workload.(service)
	w.EndpointRole = "proxy"
	w.Torch = &plan.Torch{Start: "/begin", Stop: "/end",
		Configure: func(config *source.Table, dir string, limit time.Duration) ([]plan.Word, []plan.Var, error) {
			argv := plan.Texts(append([]string{"--into", dir, "--limit", limit.String()}, config.Keys()...)...)
			return argv, []plan.Var{{Name: "A", Value: plan.Text("1")}, {Name: "B", Value: plan.Text("2")}}, nil
		}}
	in.Workload = w
	if change != nil {
		change(&in)
	}
	return plan.Make(in)
}

// Every engine writes into a folder of its own below the run, the proxy does not, and the user's
// variables stay.
//
// covers: PRF-1, PRF-2, PRF-12
func TestTorchProfiler(t *testing.T) {
	p, err := traced(t, "",
		"extra_env_vars = { B = \"mine\" }\n[Tests.torch_profiler]\nstop_limit = \"90s\"\nrecord_shapes = true\n", nil)
	require.NoError(t, err)
	require.Equal(t, &plan.Tracing{Start: "/begin", Stop: "/end", Limit: plan.Seconds(90 * time.Second)}, p.Tracing)
	for _, name := range []string{"prefill", "decode"} {
		r := p.Role(name)
		require.Equal(t, "raw/torch/"+name, r.TraceDir)
		require.Equal(t, "profllm job profile --mark exp_1/"+name+" --run /out/s/a/0 -- env PROFLLM_PROFILED=exp_1/"+name+
			" serve --into /out/s/a/0/raw/torch/"+name+" --limit 1m30s record_shapes", joined(r.Step.Argv))
		require.Equal(t, []plan.Var{{Name: "A", Value: plan.Text("1")}}, r.Step.Env)
	}
	require.Empty(t, p.Role("proxy").TraceDir)
	require.Equal(t, "proxy", joined(p.Role("proxy").Step.Argv))
	require.Len(t, p.Notes, 1)
	require.Contains(t, p.Notes[0], "the results cannot be a baseline")
	require.NoError(t, p.Sound())

	p, err = traced(t, "", "[Tests.torch_profiler]\n", func(in *plan.Input) { in.Loads[0].Expect.NumPrompts = 500 })
	require.NoError(t, err)
	require.Equal(t, plan.Seconds(30*time.Minute), p.Tracing.Limit)
	require.Contains(t, p.Notes[1], "500 requests make large traces")
	p.Roles[0].TraceDir = "../elsewhere"
	require.ErrorContains(t, p.Sound(), "roles[0].trace_dir is outside the run's directory")

	p, err = traced(t, "", "[Tests.torch_profiler]\nenable = false\n", nil)
	require.NoError(t, err)
	require.Nil(t, p.Tracing)
	require.Equal(t, "serve", joined(p.Role("decode").Step.Argv))
}

// measured is a client that also asks for a profile.
type measured struct{}

func (measured) Command(t plan.Target) (plan.Step, error) {
	s, err := client{}.Command(t)
	s.Argv = append(s.Argv, plan.Text("--profile"))
	return s, err
}

// covers: PRF-7
func TestTorchProfilerRefuses(t *testing.T) {
	own := func(in *plan.Input) {
		w := in.Workload.(service)
		w.Roles[1].Step.Argv = plan.Texts("serve", "--profiler-config.profiler", "torch")
	}
	for name, c := range map[string]struct {
		more   string
		change func(*plan.Input)
		want   string
	}{
		"a wrong value": {"enable = \"maybe\"\n", nil, "enable must be a boolean"},
		"no limit":      {"stop_limit = \"soon\"\n", nil, "\"soon\" is not understood"},
		"nsys":          {"[Tests.nsys]\n", nil, "nsys and torch_profiler both record the GPU"},
		"twice":         {"", own, "decode has a profiler_config of its own"},
		"the client": {"", func(in *plan.Input) { in.Loads[0].Clients = []plan.Client{measured{}} },
			"the client has profile = true"},
		"another engine": {"", func(in *plan.Input) {
			w := in.Workload.(service)
			w.Torch = nil
			in.Workload = w
		}, "torch_profiler works with vLLM servers only"},
	} {
		_, err := traced(t, "", "[Tests.torch_profiler]\n"+c.more, c.change)
		require.ErrorContains(t, err, c.want, name)
	}
	_, err := traced(t, "", "[Tests.torch_profiler]\n[Tests.nsys]\nenable = false\n", nil)
	require.NoError(t, err)
}
