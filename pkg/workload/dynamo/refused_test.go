package dynamo

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
)

// The node of the frontend and every port can be chosen: no port is left that a test cannot move.
//
// covers: P-2, U-7
func TestPlacesAndPortsAreChosen(t *testing.T) {
	const head = `[dynamo]
frontend_node = 4
port = 9000
etcd_port = 9100
nats_port = 9400
request_plane = "nats"
dcgm_exporter = { enabled = true, port = 9300 }
ports = { system = 30000, nixl = 31000, events = 32000, bootstrap = 33000, meet = 34000, kvbm-pub = 35000, kvbm_ack = 36000, kvbm_metrics = 37000 }
`
	chosen := map[string]int{"frontend": 9000, "etcd": 9100, "nats": 9400, "nats_monitor": 13400,
		"etcd_peer": 9100 + plan.Slots, "dcgm_exporter": 9300, "": 30000, "nixl": 31000,
		"events": 32000, "bootstrap": 33000, "meet": 34000, "kvbm_pub": 35000, "kvbm_ack": 36000, "kvbm_metrics": 37000}
	kinds := map[string]bool{}
	for _, more := range []string{"connector = \"kvbm\"\n", "backend = \"sglang\"\n"} {
		cl := plan.Cluster{Nodes: 5, GPUsPerNode: 2}
		s, err := serve(t, head+more+"[dynamo.prefill_worker]\nnum_nodes = 2\nnodes_per_worker = 2\nargs = { tensor-parallel-size = 4 }\n"+
			"[dynamo.decode_worker]\nnum_nodes = 2\nnodes_per_worker = 2\nargs = { tensor-parallel-size = 4 }\n", cl)
		require.NoError(t, err)
		require.Equal(t, plan.Slice{Offset: 4, Count: 1}, roleOf(t, s, frontend).Step.Nodes)
		for _, p := range s.Ports {
			kind := strings.TrimPrefix(regexp.MustCompile(`^(prefill|decode)(_|$)`).ReplaceAllString(p.Name, ""), "_")
			require.Contains(t, chosen, kind, p.Name)
			require.Equal(t, chosen[kind], p.Base, p.Name)
			kinds[kind] = true
		}
	}
	delete(chosen, "kvbm_metrics") // those only if the environment asks for counters
	for kind := range chosen {
		require.True(t, kinds[kind], "no port of the kind %q", kind)
	}
}

// What cannot be is refused where it stands, before it becomes a plan.
func TestRefusedWhereItStands(t *testing.T) {
	for args, want := range map[string]string{
		"[dynamo]\nport = 99999999":                                               "t.toml:2:1: port is 99999999, must be 1024 to 65535",
		"[dynamo]\nport = -1":                                                     "t.toml:2:1: port is -1, must be",
		"[dynamo]\netcd-port = 65536":                                             "t.toml:2:1: etcd_port is 65536, must be",
		"[dynamo]\nnats_port = 80":                                                "t.toml:2:1: nats_port is 80, must be",
		"[dynamo.dcgm_exporter]\nenabled = true\nport = 70000":                    "t.toml:3:1: port is 70000, must be",
		"[dynamo.ports]\nsystem = 0":                                              "t.toml:2:1: system is 0, must be",
		"[dynamo.ports]\nnixel = 5000":                                            `t.toml:2:1: unknown key "nixel"`,
		"[dynamo.ports]\nnixl = \"a\"":                                            "t.toml:2:1: nixl must be an integer",
		"[dynamo]\nports = [1]":                                                   "t.toml:2:",
		"[dynamo]\nserve_wait_seconds = -1":                                       "t.toml:2:1: serve_wait_seconds is -1, must be 1 to 2592000",
		"[dynamo]\nserve_wait_seconds = 0":                                        "t.toml:2:1: serve_wait_seconds is 0, must be",
		"[dynamo]\nserve_wait_seconds = 9223372036854775807":                      "t.toml:2:1: serve_wait_seconds is 9223372036854775807, must be",
		"[dynamo.prefill_worker.args]\nkv-transfer-config = \"{not json\"":        "t.toml:2:1: prefill_worker.args.kv_transfer_config is no JSON",
		"[dynamo.decode_worker.args]\nkv_events_config = \"\"":                    "t.toml:2:1: decode_worker.args.kv_events_config is no JSON",
		"[dynamo]\nfrontend_node = -3":                                            "t.toml:2:1: frontend_node is -3, but the job has 2 nodes",
		"[dynamo.decode_worker]\nnum_nodes = 1.5":                                 "t.toml:2:1: decode_worker.num_nodes must be a number of nodes",
		"[dynamo.decode_worker]\nnodes_per_worker = 0":                            "t.toml:2:1: decode_worker.nodes_per_worker is 0, must be 1",
		"[dynamo.decode_worker]\nnodes = \"n[1-99999999]\"":                       "t.toml:2:1: decode_worker.nodes: host list",
		"[dynamo.decode_worker]\nnodes = \"nöde1\"":                               "t.toml:2:1: decode_worker.nodes: host list",
		"[dynamo.decode_worker.args.tensor-parallel-size]\na = 1":                 "is a table, must be 1 to 65536",
		"[dynamo]\nversion = \"１.６.１\"":                                           "t.toml:2:1: dynamo.version",
		"[dynamo]\nbackend = \"vllм\"":                                            `t.toml:2:1: unknown backend "vllм"`,
		"[dynamo]\nconnector = [1]":                                               "t.toml:2:14: connector must be a text",
		"[dynamo.connector]\na = 1":                                               "connector must be a text, not a table",
		"lmcache = [1]\n[dynamo]":                                                 "lmcache must be a table",
		"[dynamo]\n[lmcache_controller]":                                          "cmd is required",
		"[dynamo]\ndiscovery = \"zookeeper\"":                                     `t.toml:2:1: unknown discovery "zookeeper"`,
		"dynamo = \"x\"":                                                          "t.toml:1:1: dynamo must be a table",
		"docker_image_url = \"x:1.6.1\"":                                          "dynamo is required",
		"[dynamo.decode_worker]\nextra-args = \"--a \\\"b\"":                      "is not closed",
		"[dynamo.decode_worker.args]\ntensor-parallel-size = 9223372036854775807": "must be 1 to 65536",
	} {
		_, err := serve(t, args, plan.Cluster{Nodes: 2, GPUsPerNode: 8})
		require.ErrorContains(t, err, want, args)
		require.Regexp(t, `^t\.toml:\d+:\d+: `, err.Error(), args)
	}
}

// Keys of places and of ports say on Kubernetes that they do nothing there.
func TestNoEffectOnPods(t *testing.T) {
	w, err := read(test(t, "docker_image_url = \"x:1.6.1\"\n[dynamo]\nfrontend_node = 7\nports = { nixl = 5600 }\n"),
		true)
	require.NoError(t, err)
	s, err := w.Deploy(plan.Cluster{GPUsPerNode: 8, API: "v1beta1", Dir: "/run", RunID: "exp_1"})
	require.NoError(t, err)
	notes := strings.Join(s.Notes, "\n")
	require.Contains(t, notes, "t.toml:3:1: frontend_node has no effect on Kubernetes")
	require.Contains(t, notes, "t.toml:4:1: ports has no effect on Kubernetes")
}
