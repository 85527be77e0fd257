package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
)

// covers: CD-20
func TestEnvironmentMerge(t *testing.T) {
	p, err := plan.Make(input(t, `[global_env_vars]
A = "global a"
B = "global b"
C = { default = "global c" }
TOKEN = { file = "/s/global" }
`, `[Tests.extra_env_vars]
Z = "x y"
TOKEN = { env = "HF_TOKEN" }
A = "test a"
EMPTY = ""
HOSTS = { shell = "$(hostname) \"x\"" }
`))
	require.NoError(t, err)
	require.Equal(t, []plan.Var{
		{Name: "A", Value: plan.Text("test a")}, // the site's place, the test's value
		{Name: "B", Value: plan.Text("global b")},
		{Name: "C", Value: plan.Text("global c")},
		{Name: "Z", Value: plan.Text("x y")},
		{Name: "EMPTY", Value: plan.Text("")},
		{Name: "HOSTS", Value: plan.Word{{Shell: `$(hostname) "x"`}}},
	}, p.Env)
	require.Empty(t, p.Notes)
	require.Equal(t, []plan.Secret{{Name: "TOKEN", Env: "HF_TOKEN"}}, p.Secrets(), "not { file, env }")
}

// covers: CD-10
func TestVisibleGPUs(t *testing.T) {
	for _, c := range []struct {
		name, global, test string
		want               []int
		err                string
	}{
		{name: "not set"},
		{name: "of the site", global: `"0,1"`, want: []int{0, 1}},
		{name: "of the test", test: `"2-3"`, want: []int{2, 3}},
		{name: "the test wins", global: `"0,1"`, test: `"2"`, want: []int{2}},
		{name: "empty is not set", global: `""`},
		{name: "the test unsets", global: `"0,1"`, test: `" "`},
		{name: "no ids", test: `"GPU-1"`, err: `s.toml:6:1: CUDA_VISIBLE_DEVICES: "GPU-1" is not a GPU id`},
		{name: "not known yet", test: `{ shell = "$X" }`, err: "s.toml:6:1: CUDA_VISIBLE_DEVICES must be known before the job runs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := func(header, value string) string {
				if value == "" {
					return ""
				}
				return header + "\nCUDA_VISIBLE_DEVICES = " + value + "\n"
			}
			in := input(t, table("[global_env_vars]", c.global), table("[Tests.extra_env_vars]", c.test))
			p, err := plan.Make(in)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, in.Workload.(service).told.VisibleGPUs)
			require.Empty(t, p.Env, "Slurm would replace it in every step")
		})
	}
}

// A secret is looked up where the job runs, so a plan that was made where its
// value is known holds the reference only.
//
// covers: PL-D10 (plan.json)
func TestSecretsStayReferences(t *testing.T) {
	t.Setenv("PROFLLM_TEST_SECRET", "canary-of-a-secret")
	p, err := plan.Make(input(t, "",
		"[Tests.extra_env_vars]\nA = { env = \"PROFLLM_TEST_SECRET\" }\nB = { file = \"/proc/self/environ\" }\n"))
	require.NoError(t, err)
	data, err := p.Encode()
	require.NoError(t, err)
	require.NotContains(t, string(data), "canary")
	require.Contains(t, string(data), `"env": "PROFLLM_TEST_SECRET"`)
	require.Contains(t, string(data), `"file": "/proc/self/environ"`)
}

func TestEnvironmentRefuses(t *testing.T) {
	for line, want := range map[string]string{
		`A = 1`:                             "s.toml:6:1: A must be a string, not the integer 1\n\thint: write A = \"1\"",
		`A = 1.5`:                           "A must be a string, not the float 1.5",
		`A = true`:                          "A must be a string, not the boolean true",
		`A = ["x"]`:                         "A is a list, but one value is needed",
		`A = { env = "X", file = "/y" }`:    "A: write exactly one of env, file, shell",
		`A = {}`:                            "A: write exactly one of env, file, shell",
		`A = { env = "" }`:                  "A: write exactly one of env, file, shell",
		`A = { enf = "X" }`:                 `unknown key "enf"`,
		`A = { env = "X Y" }`:               `A: "X Y" cannot name an environment variable`,
		`A = { for = ["serve"] }`:           "A: write exactly one of env, file, shell",
		`A = { env = "X", for = [] }`:       "A: for names no role\n\thint: remove for",
		`A = { shell = "x", for = ["a"] }`:  "A: for is allowed with env and file only",
		`A = { env = "X", for = ["serv"] }`: "A: for: \"serv\" is not a role or client of this test; known: serve, bench\n\thint: did you mean \"serve\"?",
		`A = { file = "~/token" }`:          "A: \"~/token\" is not expanded\n\thint: write the absolute path",
		`A = { env = "X}$(touch x)" }`:      "cannot name an environment variable",
		`A = { default = 1 }`:               "A must be a string, not the integer 1",
		`"A B" = "x"`:                       `"A B" cannot name an environment variable`,
		`"" = "x"`:                          `"" cannot name an environment variable`,
		`"1A" = "x"`:                        `"1A" cannot name an environment variable`,
		`"A\n" = "x"`:                       `"A\n" cannot name an environment variable`,
		`"A=x;touch x #" = "x"`:             "cannot name an environment variable",
		`"É" = "x"`:                         "cannot name an environment variable",
		`A = { shell = "x", other = "" }`:   `unknown key "other"`,
	} {
		_, err := plan.Make(input(t, "", "[Tests.extra_env_vars]\n"+line+"\n"))
		require.ErrorContains(t, err, want, line)
	}
}

// CloudAI wrote values unquoted; files exist that rely on the shell.
//
// covers: CD-20
func TestShellTextIsNoted(t *testing.T) {
	for value, noted := range map[string]bool{
		"$(hostname)": true, "a`b`": true, "${X}": true, "$HOME/x": true, "$_": true,
		"": false, "a b": false, "5$": false, "$5": false, "a$": false, "^gdr_copy,cuda_ipc": false, "'x'": false,
	} {
		in := input(t, "", "[Tests.extra_env_vars]\nA = '''"+value+"'''\n")
		p, err := plan.Make(in)
		require.NoError(t, err)
		require.Equal(t, []plan.Var{{Name: "A", Value: plan.Text(value)}}, p.Env, "never expanded")
		if !noted {
			require.Empty(t, p.Notes, value)
			continue
		}
		require.Len(t, p.Notes, 1, value)
		require.Contains(t, p.Notes[0], "s.toml:6:1: A is passed unchanged")
		require.Contains(t, p.Notes[0], "{ shell = ")
	}
}
