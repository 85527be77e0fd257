package plan_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
)

const withStore = `num_nodes = 2
[Tests.extra_env_vars]
CONFIG = "${path:cache.yaml}"
PLAIN = "x"
[Tests.files]
"cache.yaml" = "url: tcp://${addr:store}:${port:store}\nweb: ${port:store_http}\nprice: ${HOME}\n"
[Tests.helpers.store]
command = ["cache", "--port", "${port:store}", "--server=${addr:serve}"]
port = 5555
ports = { http = 8080 }
every_node = true
`

// A helper comes before the servers, and what only the job knows is filled in everywhere.
func TestHelpersAndFiles(t *testing.T) {
	p, err := plan.Make(input(t, "gpus_per_node = 4\n", withStore))
	require.NoError(t, err)
	require.Equal(t, "store", p.Roles[0].Name)
	store := p.Role("store")
	require.True(t, store.Helper)
	require.False(t, store.Engine)
	require.Equal(t, plan.Slice{Count: 2}, store.Nodes)
	require.Equal(t, plan.Endpoint{Port: "store"}, store.Health, "it only needs to listen")
	require.Equal(t, "cache --port ${port:store} --server=${addr:serve}", joined(store.Step.Argv))
	port, ok := p.PortNamed("store_http")
	require.True(t, ok)
	require.Equal(t, plan.Port{Name: "store_http", Base: 8080, Step: 1, Count: 1, Role: "store"}, port)
	require.Equal(t, []plan.File{{Name: "cache.yaml", Text: plan.Concat("url: tcp://", plan.Addr("store"), ":",
		plan.PortNumber("store"), "\nweb: ", plan.PortNumber("store_http"), "\nprice: ${HOME}\n")}}, p.Files)
	require.Equal(t, []plan.Var{{Name: "PLAIN", Value: plan.Text("x")}}, p.Env,
		"addresses are not known where the job's environment is set")
	for _, s := range []*plan.Step{&store.Step, &p.Role("serve").Step, &p.Loads[0].Clients[0]} {
		require.Contains(t, s.Env, plan.Var{Name: "CONFIG", Value: plan.Text("/out/s/a/0/files/cache.yaml")}, s.Name)
	}
	require.Empty(t, p.Notes)
	require.NoError(t, p.Sound())
	data, err := p.Encode()
	require.NoError(t, err)
	back, err := plan.Decode(data)
	require.NoError(t, err)
	require.Equal(t, p.Files, back.Files)
	p.Files[0].Name = "../../x"
	require.ErrorContains(t, p.Sound(), "files[0].name is not a file name")

	in := input(t, "gpus_per_node = 4\n", withStore)
	in.Simulated = true
	p, err = plan.Make(in)
	require.NoError(t, err)
	require.Equal(t, "profllm sim helper --port ${port:store} --port ${port:store_http} -- cache --port ${port:store} --server=${addr:serve}",
		joined(p.Role("store").Step.Argv))
}

// Shell text that looks like a mark stays as it is.
func TestShellTextIsNoMark(t *testing.T) {
	for _, text := range []string{"${port:-8000}", "${path:?}", "${addr:=a}", "${path:1}", "${path:offset}",
		"${path: -3}"} {
		p, err := plan.Make(input(t, "gpus_per_node = 4\n", "[Tests.extra_env_vars]\nA = \""+text+"\"\n"))
		require.NoError(t, err, text)
		i := slices.IndexFunc(p.Env, func(v plan.Var) bool { return v.Name == "A" })
		require.GreaterOrEqual(t, i, 0)
		got, ok := p.Env[i].Value.Literal()
		require.True(t, ok)
		require.Equal(t, text, got)
	}
}

func TestHelpersAndFilesRefuse(t *testing.T) {
	for test, want := range map[string]string{
		"[Tests.helpers.Store]\ncommand = [\"x\"]\nport = 5555\n":                             `helpers: "Store" cannot name a helper`,
		"[Tests.helpers.serve]\ncommand = [\"x\"]\nport = 5555\n":                             "helpers.serve: the test has a role or a step of that name",
		"[Tests.helpers.http]\ncommand = [\"x\"]\nport = 5555\n":                              "helpers.http: the test has a port of that name",
		"[Tests.helpers.store]\ncommand = [\"x\"]\n":                                          "port",
		"[Tests.helpers.store]\ncommand = []\nport = 5555\n":                                  "helpers.store.command is empty",
		"[Tests.helpers.store]\ncommand = [\"x\"]\nport = 80\n":                               "port store is 80, must be 1024 to 65435",
		"[Tests.helpers.store]\ncommand = [\"x\"]\nport = 5555\nports = { http = \"web\" }\n": "helpers.store.ports.http must be the number of a port",
		"[Tests.helpers.store]\ncommand = [\"x\"]\nport = 5555\nhealth = \"health\"\n":        "helpers.store.health \"health\" must begin with a slash",
		"[Tests.helpers.store]\ncommand = [\"x\"]\nport = 5555\nwait_seconds = 0\n":           "helpers.store.wait_seconds is 0",
		"[Tests.helpers.store]\ncommand = [\"x\"]\nport = 5555\nnode = 1\n":                   `unknown key "node"`,
		"[Tests.helpers]\nstore = \"redis\"\n":                                                "helpers.store must be a table with command and port",
		"[Tests.files]\n\"a/b\" = \"x\"\n":                                                    `files: "a/b" is not the name of a file`,
		"[Tests.files]\na = 1\n":                                                              "files.a must be a string",
		"[Tests.files]\na = \"${addr:store}\"\n":                                              "s.toml:6:1: files.a: ${addr:store} names nothing of this test; known: serve",
		"[Tests.extra_env_vars]\nA = \"${path:a}\"\n[Tests.files]\nb = \"\"\n":                "s.toml:6:1: A: ${path:a} names nothing of this test; known: b",
		"[Tests.extra_env_vars]\nA = \"x:${port:a}\"\n[Tests.files]\nb = \"\"\n":              "A: ${port:a} names nothing of this test; known: http",
	} {
		_, err := plan.Make(input(t, "gpus_per_node = 4\n", test))
		require.ErrorContains(t, err, want, test)
	}
	in := serving(input(t, "gpus_per_node = 4\n", "[Tests.helpers.store]\ncommand = [\"x\"]\nport = 5555\n"), nil)
	_, err := plan.Make(in)
	require.ErrorContains(t, err, "helpers stand beside servers, and a vllm has none")
}
