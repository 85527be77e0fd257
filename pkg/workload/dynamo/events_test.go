package dynamo

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
)

// A KV router that waits for events which no worker publishes is noted, with what to do. One that
// asks for none gets none.
//
// covers: P-21, P-24
func TestEventsOfNobody(t *testing.T) {
	const frontendOf = "[dynamo]\ningress_cmd = \"python3 -m dynamo.frontend %s\"\nbackend = %q\n[dynamo.decode_worker]\n%s\n[dynamo.prefill_worker]\n%s\n"
	const off, args = "no worker of prefill_worker publishes any", "[dynamo.prefill_worker.args]\n"
	const config = `kv_events_config = { publisher = "zmq", endpoint = "tcp://*:5557", enable_kv_cache_events = true }`
	for _, c := range []struct {
		router, backend, prefill string
		note                     string // "": none
		added                    bool   // the option has a port of the plan
	}{
		{"--router-mode kv", "vllm", "", "", true},
		{"--router-mode=kv", "vllm", "", "", true},
		{"--router-mode kv --no-router-kv-events", "vllm", args + "enable_prefix_caching = false", "", false},
		{"--router-mode kv --no-kv-events --router-kv-events", "vllm", "", "", true},
		{"--router-mode kv --load-aware", "mocker", args + "enable_prefix_caching = false", "", false},
		{"--router-mode round-robin", "sglang", "", "", false},
		{"--router-mode kv", "vllm", args + "enable-prefix-caching = false", off + " (enable_prefix_caching is off)", false},
		{"--router-mode kv", "vllm", "extra_args = \"--no-enable-prefix-caching\"", off + " (enable_prefix_caching is off)", false},
		{"--router-mode kv", "vllm", args + config, "", true},
		{"--router-mode kv", "vllm", args + strings.Replace(config, "true", "false", 1), off + " (kv_events_config does not set enable", true},
		{"--router-mode kv", "sglang", "", "", true},
		{"--router-mode kv", "sglang", args + config, "", true},
		{"--router-mode kv", "sglang", args + "kv_events_config = '{\"publisher\":\"null\"}'", off + " (kv_events_config names no publisher)", false},
		{"--router-mode kv", "sglang", args + config + "\ndisable_radix_cache = true", off + " (disable_radix_cache leaves them none)", true},
		{"--router-mode kv", "mocker", "", "", false},
		{"--router-mode kv", "mocker", args + "no_enable_prefix_caching = true", off + " (enable_prefix_caching is off)", false},
	} {
		s, err := serve(t, fmt.Sprintf(frontendOf, c.router, c.backend, "", c.prefill), plan.Cluster{Nodes: 2, GPUsPerNode: 1})
		require.NoError(t, err, c)
		notes := strings.Join(s.Notes, "\n")
		if c.note == "" {
			require.NotContains(t, notes, "waits for events", c)
		} else {
			require.Contains(t, notes, c.note, c)
			require.Contains(t, notes, "or add --no-router-kv-events to ingress_cmd", c)
		}
		require.Equal(t, c.added, strings.Contains(argv(roleOf(t, s, "prefill")), "${port:prefill_events}"), c)
		require.NotContains(t, argv(roleOf(t, s, "decode")), "kv-events-config", c)
	}
	s := serveWith(t, "[dynamo]\nbackend = \"sglang\"\nversion = \"0.9.0\"", map[string]string{"DYN_ROUTER_MODE": "kv"}, plan.Cluster{Nodes: 2, GPUsPerNode: 1})
	require.Contains(t, strings.Join(s.Notes, "\n"), off+" (SGLang publishes nothing without kv_events_config)")
	s = serveWith(t, "[dynamo]\nbackend = \"sglang\"\nversion = \"0.9.0\"", map[string]string{"DYN_ROUTER_MODE": "kv", "DYN_ROUTER_USE_KV_EVENTS": "false"},
		plan.Cluster{Nodes: 2, GPUsPerNode: 1})
	require.NotContains(t, strings.Join(s.Notes, "\n"), off)

	s, err := serve(t, "[dynamo]\nbackend = \"sglang\"\ningress_cmd = \"python3 -m dynamo.frontend --router-mode kv\"\n[dynamo.prefill_worker]\nnum_nodes = 0\n"+
		"[dynamo.decode_worker]\nworkers_per_node = 2\n[dynamo.decode_worker.args]\ntp = 2\ndp = 2\nenable_dp_attention = true", plan.Cluster{Nodes: 1, GPUsPerNode: 4})
	require.NoError(t, err)
	require.Contains(t, argv(roleOf(t, s, "worker_1")), `--kv-events-config {"publisher":"zmq","topic":"kv-events","endpoint":"tcp://*:${port:worker_1_events}"}`)
	at := slices.IndexFunc(s.Ports, func(p plan.Port) bool { return p.Name == "worker_1_events" })
	require.Equal(t, 2, s.Ports[at].Count, "one for each rank")
}
