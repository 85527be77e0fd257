package sim

import (
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// addressFlags are an address that nobody listens at, as the values of two options.
func addressFlags(t testing.TB, host, port string) []string {
	t.Helper()
	h, p, err := net.SplitHostPort(freeAddress(t))
	require.NoError(t, err)
	return []string{host, h, port, p}
}

// startNode starts one process of a server over several nodes.
func startNode(t testing.TB, settings map[string]string, flags ...string) *command {
	t.Helper()
	return start(t, settings, append([]string{"vllm", "serve", "m", "--host", "127.0.0.1", "--port", "0"}, flags...)...)
}

const apiServer = "Starting vLLM server"

// The head opens its port once every rank is there, and each worker brings the ranks from its
// first on. They may start in any order.
//
// covers: SRV-12
func TestHeadlessDataParallel(t *testing.T) {
	all := append(addressFlags(t, "--data-parallel-address", "--data-parallel-rpc-port"),
		"--data-parallel-size", "6", "--data-parallel-size-local", "2")
	worker := func(first string) *command {
		return startNode(t, nil, append(all, "--headless", "--data-parallel-start-rank", first)...)
	}
	last := worker("4")
	last.await(t, "Launching 2 data parallel engine.s. in headless mode, with head node address tcp://127.0.0.1:")
	head := startNode(t, nil, all...)
	require.NotContains(t, head.out.String(), apiServer)
	middle := worker("2")
	head.await(t, "2 local and 4 remote core engine proc.s. are connected")
	head.await(t, apiServer)
	for _, c := range []*command{head, middle, last} {
		c.cancel()
		require.Equal(t, 0, c.exit(t), &c.out)
	}
}

// With hybrid load balancing, every process opens a port of its own once its engines have met those
// of the first; with external load balancing, every process has one rank.
//
// covers: SRV-20
func TestBalancedDataParallel(t *testing.T) {
	for name, c := range map[string]struct {
		all  []string
		rank func(i string) []string
	}{
		"hybrid": {[]string{"--data-parallel-size", "6", "--data-parallel-size-local", "2", "--data-parallel-hybrid-lb"},
			func(i string) []string {
				return []string{"--data-parallel-start-rank", map[string]string{"0": "0", "1": "2", "2": "4"}[i]}
			}},
		"external": {[]string{"--data-parallel-size", "3", "--data-parallel-external-lb"},
			func(i string) []string { return []string{"--data-parallel-rank", i} }},
	} {
		t.Run(name, func(t *testing.T) {
			all := append(addressFlags(t, "--data-parallel-address", "--data-parallel-rpc-port"), c.all...)
			server := func(i string) *command { return startNode(t, nil, slices.Concat(all, c.rank(i))...) }
			last, first := server("2"), server("0")
			first.await(t, "simulated TTFT")
			require.NotContains(t, first.out.String(), apiServer)
			middle := server("1")
			for _, s := range []*command{first, middle, last} {
				s.await(t, apiServer)
			}
			for _, s := range []*command{first, middle, last} {
				s.cancel()
				require.Equal(t, 0, s.exit(t), &s.out)
			}
		})
	}
}

// A rank that is there already is none that the head knows.
func TestHeadlessRanksAreDifferent(t *testing.T) {
	all := append(addressFlags(t, "--data-parallel-address", "--data-parallel-rpc-port"),
		"--data-parallel-size", "3", "--data-parallel-size-local", "1")
	head := startNode(t, nil, all...)
	startNode(t, nil, append(all, "--headless", "--data-parallel-start-rank", "1")...)
	startNode(t, nil, append(all, "--headless", "--data-parallel-start-rank", "1")...)
	require.Equal(t, 1, head.exit(t))
	require.Contains(t, head.out.String(), "RuntimeError: Message from engine with unexpected data parallel rank: 1")
}

// The nodes of one engine meet at the master's address.
func TestEngineOverNodes(t *testing.T) {
	all := append(addressFlags(t, "--master-addr", "--master-port"),
		"--nnodes", "2", "--tensor-parallel-size", "8", "--distributed-executor-backend", "mp")
	worker := startNode(t, nil, append(all, "--node-rank", "1", "--headless")...)
	worker.await(t, "headless multiproc executor, with head node address 127.0.0.1:")
	head := startNode(t, nil, append(all, "--node-rank", "0")...)
	head.await(t, apiServer)
	for _, c := range []*command{head, worker} {
		c.cancel()
		require.Equal(t, 0, c.exit(t), &c.out)
	}
	code, _, errs := run(t, nil, "vllm", "serve", "m", "--nnodes", "2", "--node-rank", "2")
	require.Equal(t, 1, code)
	require.Contains(t, errs, "node_rank 2 is not below nnodes 2")
}

// A rank that is planted not to come keeps the head waiting.
func TestAbsentRank(t *testing.T) {
	all := append(addressFlags(t, "--data-parallel-address", "--data-parallel-rpc-port"),
		"--data-parallel-size", "2", "--data-parallel-size-local", "1")
	absent := func(rank string) map[string]string {
		return map[string]string{"PROFLLM_SIM_FAULTS": "*:absent=1", "SLURM_PROCID": rank}
	}
	worker := startNode(t, absent("1"), append(all, "--headless", "--data-parallel-start-rank", "1")...)
	worker.await(t, "rank 1 never joins the others")
	head := startNode(t, absent("0"), all...)
	head.await(t, "simulated TTFT")
	head.cancel()
	require.Equal(t, 0, head.exit(t))
	require.Contains(t, head.out.String(), "Shutting down before all nodes joined.")
	require.False(t, strings.Contains(head.out.String(), apiServer))
	worker.cancel()
	require.Equal(t, 0, worker.exit(t))
}
