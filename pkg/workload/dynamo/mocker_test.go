package dynamo

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
)

const mockerArgs = `model_path = "org/m"
nats_cmd = "nats-server -js"
benchmark_tool = "aiperf"
[engine]
speedup_ratio = 2.0
enable_prefix_caching = true
[worker]
disaggregation_mode = "prefill_decode"
[worker.prefill_worker]
num_nodes = 2
worker_initialized_regex = "created and running"
[worker.prefill_worker.args]
max_num_seqs = 4
[worker.decode_worker]
num_nodes = 3
[frontend]
http_port = 8100
router_mode = "kv_router"
namespace = "a b"
[aiperf]
cmd = "/opt/aiperf"
input_tokens = 128
replay_concurrency = 10
replay_mode = "online"
random_seed = 42
`

// CloudAI's mocker is Dynamo's service with other names, on one node.
//
// covers: P-22
func TestMocker(t *testing.T) {
	in := test(t, mockerArgs)
	p, err := PreparedMocker(in)
	require.NoError(t, err)
	nodes, err := p.Nodes()
	require.NoError(t, err)
	require.Equal(t, 1, nodes)
	require.Equal(t, "aiperf", p.Client)
	require.Equal(t, []string{"/opt/aiperf"}, []string(p.ClientProgram))
	require.Equal(t, map[string]any{"synthetic_input_tokens_mean": int64(128), "output_tokens_mean": int64(500),
		"request_count": int64(1000), "request_rate": int64(10), "random_seed": int64(42), "use_server_token_count": true},
		p.BenchArgs.Plain())

	w, err := NewMocker(p, false)
	require.NoError(t, err)
	s, err := w.Serve(plan.Cluster{Nodes: 1, Dir: "/run"})
	require.NoError(t, err)
	require.Equal(t, "decode 0,0,0 prefill 0,0", workers(s))
	require.Equal(t, "python3 -m dynamo.mocker --model-path org/m --model-name org/m --disaggregation-mode prefill "+
		"--speedup-ratio 2 --enable-prefix-caching --max-num-seqs 4 --bootstrap-ports ${port:prefill_1_bootstrap}",
		argv(roleOf(t, s, "prefill_1")))
	require.Equal(t, "python3 -m dynamo.frontend --router-mode kv --namespace a b --http-port ${port:frontend}",
		argv(roleOf(t, s, frontend)))
	require.True(t, s.SimulatedEngine)
}

// Without prefill there is one process, which stands for several workers.
func TestMockerAggregated(t *testing.T) {
	p, err := PreparedMocker(test(t, "[worker]\nnum_workers = 3\n"))
	require.NoError(t, err)
	w, err := NewMocker(p, false)
	require.NoError(t, err)
	s, err := w.Serve(plan.Cluster{Nodes: 1, Dir: "/run"})
	require.NoError(t, err)
	require.Contains(t, argv(roleOf(t, s, "worker")), "--num-workers 3")
	require.Equal(t, map[string]int{"backend": 3}, roleOf(t, s, frontend).Health.Instances)
	require.Contains(t, argv(roleOf(t, s, frontend)), "--router-mode round-robin")
}

func TestMockerRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"[worker]\ndisaggregation_mode = \"both\"": `t.toml:2:1: unknown disaggregation_mode "both"`,
		"[frontend]\nrouter_mode = \"kv\"":         `t.toml:2:1: unknown router_mode "kv"`,
		"benchmark_tool = \"locust\"":              `t.toml:1:1: unknown benchmark_tool "locust"`,
		"[aiperf]\nreplay_mode = \"x\"":            `t.toml:2:1: unknown replay_mode "x"`,
		"nonsense = 1":                             `unknown key "nonsense"`,
	} {
		_, err := PreparedMocker(test(t, args))
		require.ErrorContains(t, err, want, args)
	}
}

// CloudAI's own test has ten requests at once and a prefill worker that takes four.
func TestMockerHandoffs(t *testing.T) {
	const head = "[worker]\ndisaggregation_mode = \"prefill_decode\"\n[worker.prefill_worker]\n"
	for args, want := range map[string]string{
		head + "num_nodes = 1\n[worker.prefill_worker.args]\nmax_num_seqs = 4\n[aiperf]\nreplay_concurrency = 10\n": "t.toml:6:1: prefill_worker.args.max_num_seqs is 4: the prefill workers of the " +
			"mocker take 4 requests at once and refuse any other, which the frontend answers with 503, but the load has 10; " +
			"raise max_num_seqs or lower the concurrency",
		head + "num_nodes = 3\n[worker.prefill_worker.args]\nmax_num_seqs = 4\n[aiperf]\nreplay_concurrency = 10\n": "",
		head + "num_nodes = 1\n[aiperf]\nreplay_concurrency = 10\n":                                                 "",
	} {
		p, err := PreparedMocker(test(t, args))
		require.NoError(t, err)
		w, err := NewMocker(p, false)
		require.NoError(t, err)
		s, err := w.Serve(plan.Cluster{Nodes: 1, Dir: "/run"})
		require.NoError(t, err)
		if want == "" {
			require.Empty(t, s.Notes, args)
		} else {
			require.Equal(t, []string{want}, s.Notes)
		}
	}
}
