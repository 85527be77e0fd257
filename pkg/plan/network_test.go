package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
)

// value is that of a variable of the job; ok is false for one that is not set.
func value(p *plan.Plan, name string) (text string, ok bool) {
	for _, v := range p.Env {
		if v.Name == name {
			text, _ = v.Value.Literal()
			return text, true
		}
	}
	return "", false
}

// The site's preset for EFA is below what the site and the test set, and a test can do without.
//
// covers: CTR-9
func TestNetwork(t *testing.T) {
	const set = "[global_env_vars]\nNCCL_BUFFSIZE = \"1\"\n"
	for _, c := range []struct {
		name, site, test string
		want             map[string]string
	}{
		{name: "none"},
		{name: "of the site", site: "network = \"efa\"\n", want: map[string]string{"FI_PROVIDER": "efa",
			"FI_EFA_USE_DEVICE_RDMA": "1", "FI_EFA_FORK_SAFE": "1", "RDMAV_FORK_SAFE": "1", "NCCL_BUFFSIZE": "8388608",
			"NCCL_P2P_NET_CHUNKSIZE": "524288", "NVSHMEM_REMOTE_TRANSPORT": "libfabric",
			"NVSHMEM_LIBFABRIC_PROVIDER": "efa", "NVSHMEM_DISABLE_CUDA_VMM": "1", "OMPI_MCA_pml": "^ucx",
			"OMPI_MCA_btl": "tcp,self", "OMPI_MCA_btl_tcp_if_exclude": "lo,docker0,veth_def_agent",
			"PMIX_MCA_gds": "hash"}},
		{name: "replaced", site: "network = \"efa\"\n" + set, test: "[Tests.extra_env_vars]\nFI_PROVIDER = \"tcp\"\n",
			want: map[string]string{"FI_PROVIDER": "tcp", "NCCL_BUFFSIZE": "1", "FI_EFA_FORK_SAFE": "1"}},
		{name: "dropped", site: "network = \"efa\"\n" + set, test: "network = \"none\"\n",
			want: map[string]string{"NCCL_BUFFSIZE": "1"}},
		{name: "of the test", test: "network = \"efa\"\n", want: map[string]string{"FI_PROVIDER": "efa"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := plan.Make(input(t, c.site, c.test))
			require.NoError(t, err)
			for name, want := range c.want {
				got, ok := value(p, name)
				require.True(t, ok, name)
				require.Equal(t, want, got, name)
			}
			if c.want["FI_EFA_FORK_SAFE"] == "" && c.want["FI_PROVIDER"] == "" {
				require.Len(t, p.Env, len(c.want), "nothing else is set")
			}
			require.Empty(t, p.Notes)
		})
	}
	_, err := plan.Make(input(t, "", "network = \"ena\"\n"))
	require.ErrorContains(t, err, "s.toml:5:1: unknown network \"ena\"\n\thint: did you mean \"efa\"? known: efa, none")
}

// A job of several nodes asks its nodes for their interface, and containers are given the
// variables.
func TestSocketInterface(t *testing.T) {
	const asked = "socket_interface = \"auto\"\n"
	for _, c := range []struct {
		site, test string
		simulated  bool
		want       string
	}{
		{test: "num_nodes = 2\n"}, {site: asked}, {site: asked, test: "num_nodes = 2\n", want: "auto"},
		{site: asked, test: "num_nodes = 2\n", simulated: true},
	} {
		in := input(t, c.site, c.test)
		in.Simulated = c.simulated
		var given []string
		in.Launcher = launcherFunc(func(s plan.Step, box plan.Container) (plan.Step, error) {
			given = box.Env
			return s, nil
		})
		p, err := plan.Make(in)
		require.NoError(t, err)
		require.Equal(t, c.want, p.SocketInterface)
		if c.want == "" {
			require.NotContains(t, given, plan.SocketVars[0])
		} else {
			require.Subset(t, given, plan.SocketVars)
		}
	}
}

// launcherFunc is a launcher that is a function.
type launcherFunc func(plan.Step, plan.Container) (plan.Step, error)

func (f launcherFunc) Wrap(s plan.Step, c plan.Container) (plan.Step, error) { return f(s, c) }
