package job

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/run"
)

// Every node says by which interface the others reach it; the job names it to NCCL, Gloo and
// TensorPipe, but never over what the site, the test or the shell has set.
//
// covers: CTR-7
func TestSocketInterface(t *testing.T) {
	const same = "node n1 10.0.0.1 interface=bond0\nnode n2 10.0.0.2 3:20030 interface=bond0\n"
	for name, c := range map[string]struct {
		asked, nodes string
		set          []string // variables of the job's script
		want         []string
		said, err    string
	}{
		"alike": {asked: "auto", nodes: same,
			want: []string{"GLOO_SOCKET_IFNAME=bond0", "NCCL_SOCKET_IFNAME==bond0", "TP_SOCKET_IFNAME=bond0"}},
		"set by the test": {asked: "auto", nodes: same, set: []string{"NCCL_SOCKET_IFNAME=^lo", "TP_SOCKET_IFNAME="},
			want: []string{"GLOO_SOCKET_IFNAME=bond0", "NCCL_SOCKET_IFNAME=^lo", "TP_SOCKET_IFNAME="}},
		"named": {asked: "bond0", nodes: same,
			want: []string{"GLOO_SOCKET_IFNAME=bond0", "NCCL_SOCKET_IFNAME==bond0", "TP_SOCKET_IFNAME=bond0"}},
		"different": {asked: "auto", nodes: "node n1 10.0.0.1 interface=ens5\nnode n2 10.0.0.2 interface=eth0\n",
			want: []string{"NCCL_SOCKET_IFNAME==ens5,eth0"}, said: "different names (ens5, eth0)"},
		"not known": {asked: "auto", nodes: "node n1 10.0.0.1 interface=$(reboot)\nnode n2 10.0.0.2 interface=eth0\n",
			said: "cannot tell by which interface n1 reaches the others"},
		"missing":   {asked: "ib0", nodes: "node n1 10.0.0.1 interface=ib0\nnode n2 10.0.0.2\n", err: `node n2 has no interface "ib0"`},
		"not asked": {nodes: same},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJob(t)
			j.plan.SocketInterface = c.asked
			j.save(t)
			err := j.Place(t.Context(), strings.NewReader(c.nodes), time.Time{})
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.NoFileExists(t, j.path(run.PlacementFile))
				return
			}
			require.NoError(t, err)
			require.Contains(t, j.stdout.String(), c.said)
			cmd := exec.Command("bash", "-c", ". ./job.env && env | grep IFNAME | sort || true")
			cmd.Dir, cmd.Env = j.Dir, append([]string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}, c.set...)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Equal(t, strings.Join(c.want, "\n"), strings.TrimSpace(string(out)))
		})
	}
}

// A node finds its interface by the address that the other nodes reach, else by its default route.
func TestInterfaceOf(t *testing.T) {
	require.Empty(t, interfaceOf("", "10.0.0.1"))
	require.Empty(t, interfaceOf("no-such-if", "10.0.0.1"))
	all, err := net.Interfaces()
	require.NoError(t, err)
	require.Equal(t, all[0].Name, interfaceOf(all[0].Name, ""))
	for _, i := range all {
		addrs, err := i.Addrs()
		require.NoError(t, err)
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && n.IP.To4() != nil {
				require.Equal(t, i.Name, interfaceOf(config.AutoInterface, n.IP.String()))
			}
		}
	}
	const header = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
	const lan = "eth1\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0\n"
	const out = "eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
	require.Equal(t, "eth0", defaultRoute([]byte(header+lan+out)))
	require.Empty(t, defaultRoute([]byte(header+lan)))
	require.Empty(t, defaultRoute(nil))
}

// What a node says of its interface is a word of its line.
func TestNodeNamesItsInterface(t *testing.T) {
	all, err := net.Interfaces()
	require.NoError(t, err)
	j := newJob(t)
	j.plan.SocketInterface = all[0].Name
	j.save(t)
	require.NoError(t, j.Node(t.Context()))
	require.Contains(t, j.stdout.String(), " interface="+all[0].Name)
}
