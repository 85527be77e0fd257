package dynamo

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/source"
)

// What frontend.txt says can be read: releases in order, and lives that are among them.
func TestFrontendOptionsAreWhole(t *testing.T) {
	known := frontends()
	require.Greater(t, len(known.options), 100)
	require.True(t, slices.IsSortedFunc(known.releases, func(a, b string) int {
		if (&service{Version: a}).before(b) {
			return -1
		}
		return 1
	}))
	for name, o := range known.options {
		require.Contains(t, []string{"flag", "text", "int", "float"}, o.kind, name)
		lives := []lifetime{o.lifetime}
		for _, l := range o.values {
			lives = append(lives, l)
		}
		for _, l := range lives {
			for _, release := range []string{l.first, l.last} {
				require.True(t, release == "" || slices.Contains(known.releases, release), "%s: %s", name, release)
			}
		}
	}
	require.Equal(t, newest, known.releases[len(known.releases)-1])
}

// The frontend's options are checked for the declared version: names, values, and what the plan
// sets. Between two known releases, before the first and after the last, what is not known passes.
//
// covers: P-21, P-24
func TestFrontendOptions(t *testing.T) {
	for _, c := range []struct{ version, options, want string }{
		{"1.6.1", "--router-mode kvv", `t.toml:3:1: ingress_cmd: --router-mode does not take "kvv"`},
		{"1.6.1", "--router-mod kv", "did you mean --router-mode?"},
		{"1.6.1", "--router-mode", "--router-mode has no value"},
		{"0.9.1", "--router-mode least-loaded", "the frontend of Dynamo 0.9.1 has no --router-mode least-loaded: it came with 1.1.1"},
		{"1.6.1", "--router-mode=least-loaded", ""},
		{"1.6.1", "--router-temperature hot", `--router-temperature is "hot", must be a number`},
		{"1.6.1", "--router-queue-threshold None", ""},
		{"1.6.1", "--load-aware=1", "--load-aware is a flag, which takes no value"},
		{"1.1.1", "--load-aware", "the frontend of Dynamo 1.1.1 has no option --load-aware: it came with 1.2.1"},
		{"1.2.0", "--load-aware", ""}, // between 1.1.1 without it and 1.2.1 with it
		{"1.6.1", "--router-max-tree-size 5", "1.1.1 was the last known to have it"},
		{"1.6.1", "--http-port 9000", "remove it; on Slurm, dynamo.port sets the port"},
		{"1.6.1", "--http-port=9000", "remove it; on Slurm, dynamo.port sets the port"},
		{"1.6.1", "--discovery-backend mem", "write dynamo.discovery"},
		{"0.9.1", "--store-kv file", "write dynamo.discovery"},
		{"1.6.1", "--request-plane tcp", "write dynamo.request_plane"},
		{"1.6.1", "--event-plane=zmq", "write dynamo.event_plane"},
		{"1.3.1", "--router-reset-states --router-durable-kv-events", ""},
		{"1.4.0", "--router-durable-kv-events", "Dynamo 1.4.0 has no option --router-durable-kv-events"},
		{"1.6.1", "kv", `"kv" belongs to no option`},
		{"1.6.1", "--router-mode kv random", `"random" belongs to no option`},
		{"1.6.1", "--router-mode kv | tee x", "has |, which only a shell understands"},
		{"1.6.1", "--nothing", "set dynamo.version to that of the image"},
		{"1.6.1", "--dyn-chat-processor vllm --max-model-len 5", ""},
		{"2.0.0", "--nothing --router-mode new", ""},
		{"0.5.0", "--nothing", ""},
	} {
		_, err := serve(t, "[dynamo]\nversion = \""+c.version+"\"\ningress_cmd = \"python3 -m dynamo.frontend "+c.options+"\"\n",
			plan.Cluster{Nodes: 2, GPUsPerNode: 8})
		if c.want == "" {
			require.NoError(t, err, "%s %s", c.version, c.options)
			continue
		}
		require.ErrorContains(t, err, c.want, "%s %s", c.version, c.options)
		require.ErrorContains(t, err, "hint:", "%s %s", c.version, c.options)
	}
	_, err := serve(t, "[dynamo]\ningress_cmd = \"my-frontend --nothing\"\n", plan.Cluster{Nodes: 2, GPUsPerNode: 8})
	require.NoError(t, err, "another program has options of its own")
}

// However a router is told to go by caches, the workers of vLLM tell it what is in them, and only
// then.
func TestEventsFollowTheRouter(t *testing.T) {
	for said, events := range map[string]bool{
		"ingress_cmd = \"python3 -m dynamo.frontend --router-mode kv\"":                       true,
		"ingress_cmd = \"python3 -m dynamo.frontend --router-mode=kv\"":                       true,
		"ingress_cmd = \"python3 -m dynamo.frontend --router-mode   kv\"":                     true,
		"ingress_cmd = \"python3 -m dynamo.frontend --router-mode kv --no-router-kv-events\"": false,
		"ingress_cmd = \"python3 -m dynamo.frontend --router-mode kv --no-kv-events\"":        false,
		"ingress_cmd = \"python3 -m dynamo.frontend --router-mode kv --load-aware\"":          false,
		"ingress_cmd = \"python3 -m dynamo.frontend --router-mode random\"":                   false,
		"model = \"m\"": false,
	} {
		s, err := serve(t, "[dynamo]\nversion = \"1.6.1\"\n"+said+"\n", plan.Cluster{Nodes: 2, GPUsPerNode: 8})
		require.NoError(t, err, said)
		require.Equal(t, events, strings.Contains(argv(roleOf(t, s, "prefill")), "--kv-events-config"), said)
	}
}

// NATS starts where something needs it, with every version, and a key of a service that does not
// start says so.
//
// covers: P-19
func TestServicesThatAreNeeded(t *testing.T) {
	for _, c := range []struct {
		said       string
		nats, etcd bool
		note       string
	}{
		{"version = \"1.1.1\"\nevent_plane = \"zmq\"\n", false, true, ""},
		{"version = \"1.1.1\"\nevent_plane = \"zmq\"\ningress_cmd = \"python3 -m dynamo.frontend --router-durable-kv-events\"\n", true, true, ""},
		{"version = \"1.1.1\"\nevent_plane = \"zmq\"\nprefill_worker = { args = { durable-kv-events = true } }\n", true, true, ""},
		{"version = \"1.1.1\"\nevent_plane = \"zmq\"\nrequest_plane = \"http\"\n", false, true, ""},
		{"nats_cmd = \"nats-server\"\n", false, true, "nats_cmd has no effect: requests go by tcp and events by zmq"},
		{"discovery = \"file\"\netcd_port = 4000\n", false, false, "etcd_port has no effect: discovery is file"},
		{"request_plane = \"nats\"\nnats_cmd = \"nats-server -js -p 1 --store_dir=/x\"\n", true, true, "nats_cmd: -p, --store_dir left out"},
		{"ports = { bootstrap = 30000 }\n", false, true, "ports.bootstrap has no effect"},
	} {
		s, err := serve(t, "[dynamo]\n"+c.said, plan.Cluster{Nodes: 2, GPUsPerNode: 8})
		require.NoError(t, err, c.said)
		has := func(name string) bool {
			return slices.ContainsFunc(s.Roles, func(r plan.Role) bool { return r.Name == name })
		}
		require.Equal(t, c.nats, has("nats"), c.said)
		require.Equal(t, c.etcd, has("etcd"), c.said)
		require.Contains(t, strings.Join(s.Notes, "\n"), c.note, c.said)
	}
	_, err := serve(t, "[dynamo]\nversion = \"1.6.1\"\nrequest_plane = \"http\"\n", plan.Cluster{Nodes: 2, GPUsPerNode: 8})
	require.ErrorContains(t, err, `t.toml:3:1: Dynamo 1.6.1 has no request_plane "http"`)
}

// An option that the plan must know is refused wherever it is written: in the command, in a text or
// a list of words behind it, or in the table, where it can be.
//
// covers: P-21, U-6
func TestOptionsOfThePlanInWords(t *testing.T) {
	for backend, options := range map[string]map[string]string{
		"vllm": {
			"--tensor-parallel-size 4": "args]", "--data-parallel-size=2": "args]", "-tp 4": "args]", "-dp=2": "",
			"--model x": "dynamo.model", "--nnodes 2": "nodes_per_worker", "--headless": "nodes_per_worker",
			"--request-plane nats": "write dynamo.request_plane", "--store-kv=file": "write dynamo.discovery",
			"--event-plane zmq": "write dynamo.event_plane", "--discovery-backend file": "write dynamo.discovery",
			"--disaggregation-mode decode": "remove it",
			"--is-decode-worker":           "says what these workers are", "--durable-kv-events": "set dynamo.version",
		},
		"sglang": {
			"--port 30000": "args]", "--disaggregation-bootstrap-port 8998": "args]", "--node-rank 1": "nodes_per_worker",
			"--tp 4": "args]", "--request-plane nats": "write dynamo.request_plane", "--is-decode-worker": "says what these",
		},
		"mocker": {"--model-name x": "dynamo.model", "--request-plane=nats": "write dynamo.request_plane"},
	} {
		for option, hint := range options {
			name, value, _ := strings.Cut(strings.Replace(option, " ", "\x00", 1), "\x00")
			list := "[\"" + name + "\"]"
			if value != "" {
				list = "[\"" + name + "\", \"" + value + "\"]"
			}
			for _, worker := range []string{"cmd = \"python3 -m x " + option + "\"", "extra_args = \"" + option + "\"",
				"extra_args = " + list} {
				_, err := serve(t, "[dynamo]\nversion = \"1.6.1\"\nbackend = \""+backend+"\"\n[dynamo.prefill_worker]\n"+worker+"\n",
					plan.Cluster{Nodes: 2, GPUsPerNode: 8})
				if hint == "" {
					hint = "args]"
				}
				require.ErrorContains(t, err, "t.toml:5:1: ", "%s: %s", backend, worker)
				require.ErrorContains(t, err, strings.Fields(strings.ReplaceAll(option, "=", " "))[0], "%s: %s", backend, worker)
				require.ErrorContains(t, err, hint, "%s: %s", backend, worker)
			}
		}
	}
	_, err := serve(t, "[dynamo]\n[dynamo.prefill_worker.args]\nrequest_plane = \"nats\"\n", plan.Cluster{Nodes: 2, GPUsPerNode: 8})
	require.ErrorContains(t, err, "write dynamo.request_plane for all processes")
	_, err = serve(t, "[dynamo]\nversion = \"1.4.0\"\n[dynamo.prefill_worker.args]\ndurable-kv-events = true\n",
		plan.Cluster{Nodes: 2, GPUsPerNode: 8})
	require.ErrorContains(t, err, "Dynamo 1.4.0 has no option --durable-kv-events")
}

// Words of JSON keep their quotes and blanks, wherever the shell would not have kept them.
func TestWordsOfJSON(t *testing.T) {
	for text, want := range map[string]string{
		`--a {"b": "c d", "e": [1, 2]} --f`: `--a|{"b": "c d", "e": [1, 2]}|--f`,
		`--a {"b":"it's"}`:                  `--a|{"b":"it's"}`,
		`--a '{"b": "c"}' "{ x"`:            `--a|{"b": "c"}|{ x`,
		`'--x y {"b": 1}' z`:                `--x y {"b": 1}|z`,
		`--a {"b": 1}x`:                     `--a|{b:|1}x`, // no word of JSON alone
		`--a \{"b": 1}`:                     `--a|{b:|1}`,
		"--a {\"b\":\n1}\t--c":              "--a|{\"b\":\n1}|--c",
	} {
		list, err := words(text, source.Pos{})
		require.NoError(t, err, text)
		require.Equal(t, want, strings.Join(list, "|"), text)
	}
}

// What does not fit says all sizes, stands at the key that is to blame, and offers what can mend it.
//
// covers: P-8, P-9
func TestTooLarge(t *testing.T) {
	for _, c := range []struct {
		args, want string
		cl         plan.Cluster
	}{
		{"[dynamo.decode_worker]\nworkers_per_node = 5\nargs = { tensor-parallel-size = 2 }\n",
			"t.toml:2:1: decode needs 10 GPUs on each node (5 workers with TP 2 x PP 1 x DP 1), but 8 of 8 are free\n" +
				"\thint: set workers_per_node = 4 or fewer, or lower the sizes", plan.Cluster{Nodes: 2, GPUsPerNode: 8}},
		{"[dynamo.decode_worker]\nargs = { tensor-parallel-size = 2, data-parallel-size = 8 }\n",
			"decode needs 16 GPUs on each node (1 worker with TP 2 x PP 1 x DP 8), but 8 of 8 are free\n" +
				"\thint: lower the sizes, or set nodes_per_worker", plan.Cluster{Nodes: 2, GPUsPerNode: 8}},
		{"[dynamo.decode_worker]\nargs = { tensor-parallel-size = 8 }\n",
			"prefill needs 1 GPU on each node (1 worker with TP 1 x PP 1 x DP 1), but 0 of 8 are free\n" +
				"\thint: lower the sizes, or give each role nodes of its own", plan.Cluster{Nodes: 1, GPUsPerNode: 8}},
		{"[dynamo.decode_worker]\nargs = { tensor-parallel-size = 2 }\n", "set gpus_per_node in the system file",
			plan.Cluster{Nodes: 2}},
	} {
		_, err := serve(t, c.args, c.cl)
		require.ErrorContains(t, err, c.want)
	}
}

// A host that a role names and the test excludes is refused, before it is missing in the plan.
//
// covers: P-7
func TestHostsThatAreExcluded(t *testing.T) {
	one := test(t, "[dynamo]\n[dynamo.decode_worker]\nnodes = \"n[1-2]\"\n")
	one.ExcludeNodes = []string{"n[2-4]"}
	_, err := Prepared(one)
	require.ErrorContains(t, err, "t.toml:3:1: decode_worker.nodes names n2, which exclude_nodes")
}

// The port in kv_events_config is a base, so that workers of one node publish at ports of their own,
// however the option is written; vLLM takes one for each of its data parallel ranks.
//
// covers: P-2
func TestPortsOfEvents(t *testing.T) {
	const config = `{"publisher":"zmq","endpoint":"tcp://*:20080"}`
	for _, backend := range []string{"vllm", "sglang"} {
		for _, said := range []string{
			"args = { kv_events_config = '" + config + "' }",
			"args = { kv_events_config = { publisher = \"zmq\", endpoint = \"tcp://*:20080\" } }",
			"extra_args = '''--kv-events-config " + config + "'''",
			"extra_args = '''--kv-events-config='" + config + "\\n'''",
		} {
			said = strings.Replace(said, "\\n", "'", 1)
			s, err := serve(t, "[dynamo]\nbackend = \""+backend+"\"\n[dynamo.prefill_worker]\nworkers_per_node = 2\n"+said+"\n",
				plan.Cluster{Nodes: 1, GPUsPerNode: 8})
			require.NoError(t, err, said)
			for i, base := range []int{20080 + plan.Slots, 20080 + 2*plan.Slots} { // behind the worker of decode
				name := fmt.Sprintf("prefill_%d_events", i)
				k := slices.IndexFunc(s.Ports, func(p plan.Port) bool { return p.Name == name })
				require.GreaterOrEqual(t, k, 0, said)
				require.Equal(t, base, s.Ports[k].Base, said)
				require.Contains(t, argv(roleOf(t, s, fmt.Sprintf("prefill_%d", i))), "tcp://*:${port:"+name+"}", said)
			}
		}
	}
	s, err := serve(t, "[dynamo]\n[dynamo.decode_worker]\nargs = { data-parallel-size = 4, tensor-parallel-size = 2 }\n",
		plan.Cluster{Nodes: 2, GPUsPerNode: 8})
	require.NoError(t, err)
	for _, p := range s.Ports {
		if want := map[string]int{"decode_nixl": 8, "decode_events": 4}[p.Name]; want > 0 {
			require.Equal(t, want, p.Count, p.Name)
		}
	}
}

// A command of the client ends with profile; what profllm would put elsewhere is refused.
func TestCommandOfTheClient(t *testing.T) {
	for cmd, want := range map[string]string{
		"aiperf profile": "", "uvx aiperf==0.8.0 profile": "", "/opt/aiperf": "", "": "",
		"aiperf profile --verbose": "has options behind profile", "X=1 aiperf profile": "has no program",
		"--x profile": "has no program", "aiperf 'profile": "is not closed",
	} {
		one := test(t, "[dynamo]\n[aiperf]\ncmd = \""+cmd+"\"\n")
		_, err := Prepared(one)
		if want == "" {
			require.NoError(t, err, cmd)
			continue
		}
		require.ErrorContains(t, err, "t.toml:3:1: ", cmd)
		require.ErrorContains(t, err, want, cmd)
		require.ErrorContains(t, err, "hint:", cmd)
	}
}

// An option of a release that profllm does not know can be named to pass.
func TestUncheckedOptions(t *testing.T) {
	const ingress = "[dynamo]\ningress_cmd = \"python3 -m dynamo.frontend --router-new 1 --router-newer\"\n"
	_, err := serve(t, ingress, plan.Cluster{Nodes: 2, GPUsPerNode: 8})
	require.ErrorContains(t, err, "cmd_args.unchecked_options")
	_, err = serve(t, "unchecked_options = \"router_new, --router-newer\"\n"+ingress, plan.Cluster{Nodes: 2, GPUsPerNode: 8})
	require.NoError(t, err)
}

// Processes are told where they find each other by the variable that their version reads.
//
// covers: P-19
func TestVariableOfDiscovery(t *testing.T) {
	for version, want := range map[string]string{"0.7.0": "", "0.8.1": "DYN_STORE_KV", "0.9.1": "DYN_STORE_KV",
		"1.0.0": "DYN_DISCOVERY_BACKEND", "1.6.1": "DYN_DISCOVERY_BACKEND"} {
		s, err := serve(t, "[dynamo]\nversion = \""+version+"\"\n", plan.Cluster{Nodes: 2, GPUsPerNode: 8})
		require.NoError(t, err, version)
		for _, role := range []string{"prefill", "decode", frontend} {
			for _, name := range []string{"DYN_STORE_KV", "DYN_DISCOVERY_BACKEND"} {
				told := ""
				if name == want {
					told = "etcd"
				}
				require.Equal(t, told, env(roleOf(t, s, role), name), "%s %s %s", version, role, name)
			}
		}
	}
}

// A command that starts another of Dynamo's programs than its options are written for is refused,
// and so is one that only a shell understands.
//
// covers: P-26
func TestProgramsOfCommands(t *testing.T) {
	for _, c := range []struct{ backend, key, command, want string }{
		{"vllm", "cmd", "python3 -m dynamo.sglang", `decode_worker.cmd starts dynamo.sglang, but dynamo.vllm is needed with backend "vllm"`},
		{"sglang", "cmd", "python3 -m dynamo.vllm", "dynamo.sglang is needed"},
		{"mocker", "cmd", "python3 -m dynamo.trtllm", "dynamo.mocker is needed"},
		{"vllm", "cmd", "python3 -m dynamo.vlm", "did you mean dynamo.vllm?"},
		{"vllm", "cmd", "python3 -m dynamo.vllm && echo", "has &&, which only a shell understands"},
		{"vllm", "extra_args", "--x > out", "has >, which only a shell understands"},
		{"vllm", "cmd", "-m dynamo.vllm", "has no program"},
		{"vllm", "cmd", "python3 -m mine.worker", ""},
		{"vllm", "cmd", "bash -c 'python3 -m dynamo.vllm \"$@\" | tee x' worker", ""},
		{"sglang_dsr1", "cmd", "python3 -m dynamo.sglang", ""},
	} {
		_, err := serve(t, "[dynamo]\nbackend = \""+c.backend+"\"\n[dynamo.decode_worker]\n"+c.key+" = '''"+c.command+"'''\n",
			plan.Cluster{Nodes: 2, GPUsPerNode: 8})
		if c.want == "" {
			require.NoError(t, err, c)
			continue
		}
		require.ErrorContains(t, err, "t.toml:4:1: ", c)
		require.ErrorContains(t, err, c.want, c)
		require.ErrorContains(t, err, "hint:", c)
	}
	_, err := serve(t, "[dynamo]\ningress_cmd = \"python3 -m dynamo.fronted\"\n", plan.Cluster{Nodes: 2, GPUsPerNode: 8})
	require.ErrorContains(t, err, "did you mean dynamo.frontend?")
}
