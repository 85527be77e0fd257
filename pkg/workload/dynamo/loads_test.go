package dynamo

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Loads of cmd_args become the phases of the test: the arguments of each over those of all, the
// command between two behind each but the last.
//
// covers: P-1, P-5, P-26
func TestPhases(t *testing.T) {
	p, err := Prepared(test(t, `workloads = "aiperf.sh"
[dynamo]
[aiperf]
cmd = "/opt/a/bin/aiperf profile"
setup-cmd = "pip install x"
between-phase-cmd = "reset"
extra-args = "--header 'a: b'"
[aiperf.args]
request-count = 50
concurrency = 2
[[aiperf_phases]]
name = "one"
[[aiperf_phases]]
name = "two"
between-phase-cmd = ""
[aiperf_phases.args]
concurrency = 4
request_count = 60
[[aiperf_phases]]
name = "three"
setup-cmd = "other"
`))
	require.NoError(t, err)
	require.Equal(t, "aiperf", p.Client)
	require.Equal(t, []string{"/opt/a/bin/aiperf"}, []string(p.ClientProgram))
	require.Equal(t, "pip install x", p.BeforeLoad)
	require.True(t, p.StopOnFailure)
	require.Equal(t, map[string]any{"request_count": int64(50), "concurrency": int64(2),
		"extra_args": "--header 'a: b'"},
		p.BenchArgs.Plain())
	require.Len(t, p.Phases, 3)
	require.Equal(t, map[string]any{"concurrency": int64(4), "request_count": int64(60)}, p.Phases[1].BenchArgs.Plain())
	require.Equal(t, "reset", *p.Phases[0].AfterLoad)
	require.Empty(t, *p.Phases[1].AfterLoad, "a phase can have none")
	require.Nil(t, p.Phases[2].AfterLoad, "nothing comes behind the last")
	require.Equal(t, "other", *p.Phases[2].BeforeLoad)
}

// A phase can have a client of its own, and say whether it is the last if it fails. An empty list
// is one load.
//
// covers: U-37
func TestKeysOfAPhase(t *testing.T) {
	p, err := Prepared(test(t, `[dynamo]
[aiperf]
cmd = "aiperf profile"
continue-on-phase-failure = true
[[aiperf_phases]]
name = "one"
cmd = "/opt/b/aiperf profile"
[[aiperf_phases]]
name = "two"
continue-on-phase-failure = false
`))
	require.NoError(t, err)
	require.False(t, p.StopOnFailure)
	require.Equal(t, []string{"/opt/b/aiperf"}, []string(p.Phases[0].ClientProgram))
	require.Nil(t, p.Phases[0].StopOnFailure)
	require.Empty(t, p.Phases[1].ClientProgram)
	require.True(t, *p.Phases[1].StopOnFailure)
	p, err = Prepared(test(t, "aiperf_phases = []\n[dynamo]"))
	require.NoError(t, err)
	require.Empty(t, p.Phases)
	require.Equal(t, "aiperf", p.Client)
}

// Who measures, and what CloudAI would pass over in silence.
//
// covers: P-1, U-9
func TestClients(t *testing.T) {
	for args, want := range map[string]string{
		"[dynamo]": "aiperf", "workloads = \"genai_perf.sh\"\n[dynamo]": "genai-perf", "workloads = \"aiperf\"\n[dynamo]": "aiperf",
	} {
		p, err := Prepared(test(t, args))
		require.NoError(t, err)
		require.Equal(t, want, p.Client)
	}
	for args, want := range map[string]string{
		"workloads = \"x.sh\"\n[dynamo]":                                             `unknown client "x.sh"`,
		"workloads = \"aiperf.sh, genai_perf.sh\"\n[dynamo]":                         "workloads names two clients",
		"[dynamo]\n[aiperf]\nstreaming = true":                                       "cmd_args.aiperf.streaming is no key of profllm",
		"[dynamo]\n[genai_perf]\nstreaming = true":                                   "cmd_args.genai_perf.streaming is no key of profllm",
		"[dynamo]\n[aiperf_accuracy]\ncli = \"x\"\nclii = 1":                         `unknown key "clii"`,
		"[dynamo]\n[[aiperf_phases]]\nname = \"a b\"":                                `phase name "a b" cannot be used`,
		"[dynamo]\n[[aiperf_phases]]\nname = \"\"":                                   "is missing or taken",
		"aiperf_phases = 1\n[dynamo]":                                                "must be a list of tables",
		"[dynamo]\n[[aiperf_phases]]\nname = \"a\"\n[[aiperf_phases]]\nname = \"a\"": "is missing or taken",
		"[dynamo]\n[aiperf.args]\nrequest-count = 1\nrequest_count = 2":              "written a second time",
		"[dynamo]\n[aiperf_accuracy]\ncli = \"--a {model} {nobody} {Else}\"":         "unknown placeholders: Else, nobody",
		"[dynamo]\n[aiperf_accuracy]\nentrypoint = \"x\"":                            "cli is required",
	} {
		_, err := Prepared(test(t, args))
		require.ErrorContains(t, err, want, args)
	}
}

// The program that asks for accuracy is the evaluation of the test.
func TestAccuracyOfCloudAI(t *testing.T) {
	p, err := Prepared(test(t, `[dynamo]
[aiperf_accuracy]
setup-cmd = "pip install 'x'"
cli = """
--model {model}
--url {url}/{endpoint}
--extra-inputs '{"temperature":0,"stop":["\\n"]}'
--artifact-dir {artifact_dir}
"""
`))
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"entrypoint": `bash -c '{ pip install '\''x'\''` + "\n" + `} || exit; exec "$@"' accuracy aiperf profile`,
		"cli": "--model {model}\n--url {url}/v1/chat/completions\n" + `--extra-inputs '{"temperature":0,"stop":["\n"]}'` +
			"\n--artifact-dir {artifact_dir}",
	}, p.EvalArgs.Plain())
}
