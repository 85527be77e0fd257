package dynamo

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/source"
)

// serveWith plans a service with variables of the test.
func serveWith(t *testing.T, args string, variables map[string]string, c plan.Cluster) plan.Service {
	t.Helper()
	s := test(t, args)
	s.Env = source.NewTable(source.Pos{File: "t.toml"})
	for name, value := range variables {
		s.Env.Set(name, &source.Value{Any: value})
	}
	w, err := New(s, false)
	require.NoError(t, err)
	c.Dir, c.RunID = "/run", "exp_1"
	service, err := w.Serve(c)
	require.NoError(t, err)
	return service
}

// Every worker with KVBM has its ports, its folder and cuFile's settings, on whichever node it
// stands.
//
// covers: U-6, U-33
func TestKVBM(t *testing.T) {
	for _, form := range []string{`"kvbm nixl"`, `["kvbm", "nixl"]`, `"kvbm,nixl"`} {
		s := serveWith(t, "storage_cache_dir = \"/mnt/fast\"\n[dynamo]\n[dynamo.prefill_worker]\nworkers_per_node = 2\n"+
			"[dynamo.prefill_worker.args]\nconnector = "+form,
			map[string]string{"DYN_KVBM_METRICS": "1", "CUFILE_LOG_LEVEL": "WARN",
				"DYN_KVBM_LEADER_ZMQ_PUB_PORT": "57001"}, plan.Cluster{Nodes: 2, GPUsPerNode: 2})
		p := roleOf(t, s, "prefill_1")
		require.Equal(t, 1, p.Nodes.Offset, "not on the frontend's node")
		require.Equal(t, "${port:prefill_1_kvbm_pub}", env(p, "DYN_KVBM_LEADER_ZMQ_PUB_PORT"))
		require.Equal(t, "${port:prefill_1_kvbm_ack}", env(p, "DYN_KVBM_LEADER_ZMQ_ACK_PORT"))
		require.Equal(t, "/mnt/fast/profllm-exp_1/kvbm", env(p, "DYN_KVBM_DISK_CACHE_DIR"))
		require.Equal(t, "/run/files/cufile.json", env(p, "CUFILE_ENV_PATH_JSON"))
		require.Equal(t, "${port:prefill_1_kvbm_metrics}", env(p, "DYN_KVBM_METRICS_PORT"))
		require.Contains(t, argv(p), `"kv_connector":"DynamoConnector"`)
		require.Empty(t, env(roleOf(t, s, "decode"), "DYN_KVBM_DISK_CACHE_DIR"), "decode has none")
		at := slices.IndexFunc(s.Setup, func(x plan.Step) bool { return x.Name == "kvbm_storage" })
		require.GreaterOrEqual(t, at, 0)
		require.Equal(t, plan.Slice{Count: 2}, s.Setup[at].Nodes, "the folder is made on every node")
		require.Contains(t, strings.Join(s.Notes, "\n"), "DYN_KVBM_LEADER_ZMQ_PUB_PORT has no effect")
		var pages []string
		for _, url := range s.MetricsURLs {
			pages = append(pages, url.String())
		}
		require.Contains(t, pages, "http://${addr:prefill_0}:${port:prefill_0_kvbm_metrics}/metrics")
		seen := map[int]string{}
		for _, x := range s.Ports {
			require.Empty(t, seen[x.Base], "%s and %s", x.Name, seen[x.Base])
			if x.Role != "decode" && x.Role != frontend {
				seen[x.Base] = x.Name
			}
		}
	}
	s, err := serve(t, "[dynamo]\n[dynamo.decode_worker.args.kv_transfer_config]\nkv_connector = \"DynamoConnector\"",
		plan.Cluster{Nodes: 2, GPUsPerNode: 1})
	require.NoError(t, err)
	require.NotEmpty(t, env(roleOf(t, s, "decode"), "DYN_KVBM_LEADER_ZMQ_PUB_PORT"), "vLLM's own words ask for it too")

	const both = "[dynamo.prefill_worker.args]\nconnector = \"kvbm nixl\"\nkv-transfer-config = '{\"kv_connector\":\"NixlConnector\"}'"
	w, err := read(test(t, both), false)
	require.NoError(t, err, "it can be read")
	require.Contains(t, w.NotRunnable(), "KVBM would not run")
	_, err = serve(t, both, plan.Cluster{Nodes: 2, GPUsPerNode: 1})
	require.ErrorContains(t, err, "connector names kvbm, but kv_transfer_config")
}

// cuFile's settings come with LMCache as with KVBM.
//
// covers: U-30
func TestCuFile(t *testing.T) {
	s := serveWith(t, lmcache, map[string]string{"CUFILE_LOG_LEVEL": "WARN"}, plan.Cluster{Nodes: 2, GPUsPerNode: 1})
	at := slices.IndexFunc(s.Files, func(f plan.File) bool { return f.Name == cuFile })
	require.GreaterOrEqual(t, at, 0)
	text, _ := s.Files[at].Text.Literal()
	var settings struct {
		Properties map[string]any
		Logging    map[string]string
	}
	require.NoError(t, json.Unmarshal([]byte(text), &settings))
	require.Equal(t, map[string]string{"dir": "/run/logs", "level": "WARN"}, settings.Logging)
	require.Equal(t, true, settings.Properties["allow_compat_mode"])
	require.EqualValues(t, 2097152, settings.Properties["max_device_cache_size_kb"])
	require.Equal(t, "/run/files/cufile.json", env(roleOf(t, s, "prefill"), "CUFILE_ENV_PATH_JSON"))
	s, err := serve(t, "[dynamo]", plan.Cluster{Nodes: 2, GPUsPerNode: 1})
	require.NoError(t, err)
	require.Empty(t, s.Files, "nobody asks for it")
}

// Placeholders in a file of the user's for LMCache are filled in on the node of each worker, and a
// file that the table makes wins over it. The engine must be told to use LMCache.
//
// covers: U-27, U-28, U-30, U-31
func TestLMCacheOfTheUser(t *testing.T) {
	own := map[string]string{"LMCACHE_CONFIG_FILE": "/etc/lmcache.yaml"}
	s := serveWith(t, "[dynamo]\n[lmcache_controller]\ncmd = \"lmcache_controller\"", own, plan.Cluster{Nodes: 2, GPUsPerNode: 1})
	decode := roleOf(t, s, "decode")
	require.Empty(t, env(decode, "LMCACHE_CONFIG_FILE"), "the job's own variable counts")
	require.True(t, strings.HasPrefix(argv(decode), "profllm job localize --run /run --fill LMCACHE_CONFIG_FILE "+
		"--value frontend_ip=${addr:frontend} --value frontend_node=${addr:frontend} --value results_dir=/run "+
		"--value storage_cache_dir=/tmp/profllm-exp_1/lmcache -- python3 -m dynamo.vllm "), argv(decode))
	require.NotContains(t, argv(roleOf(t, s, frontend)), "localize")
	require.Contains(t, strings.Join(s.Notes, "\n"), "no worker reads the file of LMCACHE_CONFIG_FILE")
	require.Equal(t, "/run/files/cufile.json", env(decode, "CUFILE_ENV_PATH_JSON"))
	require.Equal(t, []string{"/tmp:/tmp"}, s.Mounts)
	require.True(t, slices.ContainsFunc(s.Setup, func(x plan.Step) bool { return x.Name == "lmcache_storage" }))
	roleOf(t, s, "lmcache_controller")

	s = serveWith(t, "[dynamo]", map[string]string{"LMCACHE_CONFIG_FILE": ""}, plan.Cluster{Nodes: 2, GPUsPerNode: 1})
	require.NotContains(t, argv(roleOf(t, s, "decode")), "localize", "it names no file")

	s = serveWith(t, lmcache, own, plan.Cluster{Nodes: 2, GPUsPerNode: 1})
	require.Equal(t, "/run/files/lmcache-config.yaml", env(roleOf(t, s, "decode"), "LMCACHE_CONFIG_FILE"))
	require.NotContains(t, argv(roleOf(t, s, "decode")), "lmcache", "no option is passed")
	require.Contains(t, strings.Join(s.Notes, "\n"), "no worker reads the file of lmcache")
	for words, note := range map[string]string{
		`kv_transfer_config = '{"kv_connector":"LMCacheConnectorV1"}'`: "",
		`kv_offloading_backend = "lmcache"`:                            "",
		`kv_transfer_config = '{"kv_connector":"LMCacheMPConnector"}'`: "no worker reads the file of lmcache: LMCacheMPConnector asks `lmcache server`",
	} {
		s, err := serve(t, lmcache+"[dynamo.decode_worker.args]\n"+words+"\n", plan.Cluster{Nodes: 2, GPUsPerNode: 1})
		require.NoError(t, err)
		require.Equal(t, note != "", strings.Contains(strings.Join(s.Notes, "\n"), "no worker reads the file"), words)
		require.Contains(t, strings.Join(s.Notes, "\n"), note)
	}
}

// A start-up command can say what each node's workers shall read in their files.
//
// covers: U-29
func TestRuntimeFile(t *testing.T) {
	s, err := serve(t, "startup_cmd = \"probe > $CLOUDAI_RUNTIME_FILE\"\n"+lmcache,
		plan.Cluster{Nodes: 2, GPUsPerNode: 1})
	require.NoError(t, err)
	require.Equal(t, "startup", s.Setup[0].Name)
	require.Equal(t, "mkdir -p /run/runtime && export CLOUDAI_RUNTIME_FILE=/run/runtime/\"${SLURMD_NODENAME:-$(hostname)}\".json || exit\n"+
		"probe > $CLOUDAI_RUNTIME_FILE", s.Setup[0].Argv[2].String())
	require.True(t, strings.HasPrefix(argv(roleOf(t, s, "decode")),
		"profllm job localize --run /run -- python3 -m dynamo.vllm "))
	require.NotContains(t, argv(roleOf(t, s, frontend)), "localize")

	s, err = serve(t, "startup_cmd = \"mount /x\"\n[dynamo]", plan.Cluster{Nodes: 2, GPUsPerNode: 1})
	require.NoError(t, err)
	require.Contains(t, argv(roleOf(t, s, "decode")), "localize", "a program that it calls may write the file")
	s, err = serve(t, "startup_cmd = \"\"\n[dynamo]", plan.Cluster{Nodes: 2, GPUsPerNode: 1})
	require.NoError(t, err)
	require.NotContains(t, argv(roleOf(t, s, "decode")), "localize", "nothing runs before")
}

// Connectors in extra_args count as those in args do.
//
// covers: U-6, U-31
func TestConnectorsInExtraArgs(t *testing.T) {
	two := plan.Cluster{Nodes: 2, GPUsPerNode: 1}
	const head = "[dynamo.decode_worker]\nextra_args = "
	for _, extra := range []string{
		`'--kv-transfer-config {"kv_connector":"DynamoConnector","kv_role":"kv_both"}'`,
		`["--kv-transfer-config", '{"kv_connector":"DynamoConnector"}']`,
		`"--kv_transfer_config.kv_connector=DynamoConnector"`,
	} {
		s, err := serve(t, head+extra, two)
		require.NoError(t, err, extra)
		require.Equal(t, "/tmp/profllm-exp_1/kvbm", env(roleOf(t, s, "decode"), "DYN_KVBM_DISK_CACHE_DIR"), extra)
	}
	nixl := `'--kv-transfer-config {"kv_connector":"NixlConnector"}'`
	_, err := serve(t, head+nixl+"\n[dynamo.decode_worker.args]\nconnector = \"kvbm\"", two)
	require.ErrorContains(t, err, "connector names kvbm, but kv_transfer_config (t.toml:2:")
	s, err := serve(t, head+nixl+"\n[dynamo.decode_worker.args.kv_transfer_config]\nkv_connector = \"DynamoConnector\"",
		two)
	require.NoError(t, err)
	require.Empty(t, env(roleOf(t, s, "decode"), "DYN_KVBM_DISK_CACHE_DIR"), "vLLM takes the last")
	for extra, noted := range map[string]bool{
		nixl: true, strings.ReplaceAll(nixl, "NixlConnector", "LMCacheConnectorV1"): false,
	} {
		s, err := serve(t, lmcache+"[dynamo.decode_worker]\nextra_args = "+extra, two)
		require.NoError(t, err)
		require.Equal(t, noted, strings.Contains(strings.Join(s.Notes, "\n"), "no worker reads the file of lmcache"),
			extra)
	}
}

// --connector among the words of a worker is what connector is: KVBM has its ports and its folder,
// and the worker is told in the words of its version, once. The last of several counts.
//
// covers: U-6, P-24
func TestConnectorAmongWords(t *testing.T) {
	two := plan.Cluster{Nodes: 2, GPUsPerNode: 1}
	const dynamo = `{"kv_connector":"DynamoConnector","kv_connector_module_path":"kvbm.vllm_integration.connector","kv_role":"kv_both"}`
	for _, version := range []string{"0.9.0", "1.6.1"} {
		for _, words := range []string{
			`extra_args = "--connector kvbm nixl --enforce-eager"`, `extra_args = "--connector=kvbm,nixl --enforce-eager"`,
			`extra_args = ["--connector", "kvbm", "nixl", "--enforce-eager"]`,
			`cmd = "python3 -m dynamo.vllm --connector kvbm nixl --enforce-eager"`,
			"cmd = \"python3 -m dynamo.vllm --connector lmcache\"\nextra_args = \"--connector nixl --connector kvbm nixl --enforce-eager\"",
		} {
			s, err := serve(t, fmt.Sprintf("[dynamo]\nversion = %q\nconnector = \"none\"\n[dynamo.decode_worker]\n%s", version, words), two)
			require.NoError(t, err, words)
			decode := roleOf(t, s, "decode")
			require.Equal(t, "/tmp/profllm-exp_1/kvbm", env(decode, "DYN_KVBM_DISK_CACHE_DIR"), words)
			require.Empty(t, env(roleOf(t, s, "prefill"), "DYN_KVBM_DISK_CACHE_DIR"))
			require.Contains(t, argv(decode), "--enforce-eager")
			require.Equal(t, version == "0.9.0", strings.Contains(argv(decode), "--connector kvbm nixl"), argv(decode))
			require.Equal(t, version == "1.6.1", strings.Contains(argv(decode), `{"connectors":[`+dynamo), argv(decode))
			require.LessOrEqual(t, strings.Count(argv(decode), "--connector"), 1)
		}
	}
	s, err := serve(t, lmcache+"[dynamo.decode_worker]\nextra_args = \"--connector lmcache\"", two)
	require.NoError(t, err)
	require.NotContains(t, strings.Join(s.Notes, "\n"), "no worker reads the file of lmcache")
	s, err = serve(t, "[dynamo]\nbackend = \"sglang\"\n[dynamo.decode_worker]\nextra_args = \"--connector nixl\"", two)
	require.NoError(t, err)
	require.NotContains(t, argv(roleOf(t, s, "decode")), "--connector")
	require.Contains(t, strings.Join(s.Notes, "\n"), "decode_worker: connector has no effect: it is an option of vLLM's worker")
}

// Connectors that are not known, or that the plan would not see, are refused.
//
// covers: U-6, P-24
func TestConnectorsRefused(t *testing.T) {
	two := plan.Cluster{Nodes: 2, GPUsPerNode: 1}
	for words, want := range map[string]string{
		`extra_args = "--connector kvmb"`: `t.toml:2:1: unknown connector "kvmb"`,
		`extra_args = "--connector"`:      "t.toml:2:1: decode_worker.extra_args: --connector names no connector",
	} {
		_, err := serve(t, "[dynamo.decode_worker]\n"+words, two)
		require.ErrorContains(t, err, want)
	}
	x := test(t, "[dynamo]")
	x.Env = source.NewTable(source.Pos{File: "t.toml"})
	x.Env.Set("DYN_CONNECTOR", &source.Value{Any: "kvbm"})
	_, err := New(x, false)
	require.ErrorContains(t, err, "DYN_CONNECTOR names connectors, but the plan must know them")
}

// The folder of blocks is on the nodes, and where it is the plan says, not a variable of the test.
func TestStorageOfBlocks(t *testing.T) {
	const args = "[dynamo.decode_worker.args]\nconnector = \"kvbm\""
	names := map[string]string{"DYN_KVBM_DISK_CACHE_DIR": "/x", "DYN_KVBM_METRICS_PORT": "1", "DYN_KVBM_METRICS": "1",
		"CUFILE_ENV_PATH_JSON": "/y"}
	s := serveWith(t, args, names, plan.Cluster{Nodes: 2, GPUsPerNode: 1})
	none := serveWith(t, "[dynamo]", names, plan.Cluster{Nodes: 2, GPUsPerNode: 1})
	require.Contains(t, strings.Join(s.Notes, "\n"), "the run's folder below /tmp stays on the nodes")
	for _, name := range []string{"DYN_KVBM_DISK_CACHE_DIR", "DYN_KVBM_METRICS_PORT", "CUFILE_ENV_PATH_JSON"} {
		require.Contains(t, strings.Join(s.Notes, "\n"), name+" has no effect")
		require.NotContains(t, strings.Join(none.Notes, "\n"), name+" has no effect", "without KVBM it counts")
	}
	require.Equal(t, []string{"/tmp:/tmp"}, s.Mounts, "containers see it")
	require.Empty(t, none.Mounts)
	for _, dir := range []string{"", "cache", "/", "/x/..", "/a:b", "/a,b"} {
		_, err := serve(t, "storage_cache_dir = \""+dir+"\"\n"+args, plan.Cluster{Nodes: 2, GPUsPerNode: 1})
		require.ErrorContains(t, err, "t.toml:1:1: storage_cache_dir is \""+dir+"\", must be an absolute path", dir)
	}
}
