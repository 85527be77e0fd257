package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/run"
)

// openly is a scenario in which secrets stand in the engine's arguments, as nobody
// should write them, under each kind of key. What only looks alike is "plain".
const openly = `name = "s"
[[Tests]]
id = "a"
test_template_name = "vllm"
num_nodes = 1
[Tests.extra_env_vars]
MY_API_KEY = "CANARY"
OPENAI_API_KEY = "CANARY"
PLAIN_TOKENIZER = "plainenv"
[Tests.cmd_args]
model = "m"
[Tests.cmd_args.decode]
tensor_parallel_size = 1
api_key = "CANARY"
hf_token = "CANARY"
max_num_batched_tokens = 4242
tokenizer = "plaintok"
kv_transfer_config = { kv_connector = "NixlConnector", kv_role = "kv_both", engine_id = "plainconn", kv_connector_extra_config = { token = "CANARY", server = "redis://me:CANARY@plainhost" } }
middleware = "Authorization: Bearer CANARY"
additional_config = '{"registry": {"password": "CANARY", "api-keys": ["CANARY", "CANARY2"]}, "x": "plainjson"}'
[Tests.bench_cmd_args]
num_prompts = 8
random_input_len = 8
random_output_len = 4
header = "X-Api-Key=CANARY"
`

// A secret that stands in the definition is in the plan, the script and the kept
// definitions, as a note says, and in nothing that is computed from them.
//
// covers: PL-D11
func TestSecretsInSettings(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs a rehearsal")
	}
	const canary = "c4n4ry77"
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(strings.ReplaceAll(openly, "CANARY", canary)),
		0o644))
	clean := func(args ...string) string {
		o := profllm(t, dir, nil, args...)
		require.NotContains(t, o.stdout+o.stderr, canary, "%v", args)
		return o.stdout
	}
	o := profllm(t, dir, nil, "rehearse", "--output-dir", "results", "s.toml")
	require.NotContains(t, o.stdout, canary)
	require.Contains(t, o.stderr, "looks like a secret")
	d := only(t, dir)
	rel, err := filepath.Rel(dir, d)
	require.NoError(t, err)
	all := ""
	for _, args := range [][]string{
		{"collect", "results"}, {"collect", "--output", "json", "results"}, {"why", rel}, {"why", "--output", "json", rel}, {"report", "results", "--html", "page.html"},
		{"report", "--output", "json", "results"}, {"report", "--output", "csv", "results"}, {"report", "--output", "markdown", "results"}, {"report", "--output", "prometheus", "results"},
		{"report", "--output", "otava", "results"}, {"diff", rel, rel}, {"diff", "--output", "json", rel, rel}, {"compare", rel, rel, "--junit", "junit.xml"}, {"trend", "results"},
		{"export", "llm-d", "--include-invalid", rel, "--output", "llmd.json"}, {"export", "pytorch", "--include-invalid", rel}, {"slurm", "status", "results"},
	} {
		all += clean(args...)
	}
	for _, want := range []string{"4242", "plaintok", "plainconn", "plainjson", "[redacted]"} {
		require.Contains(t, all, want)
	}

	// Older records are redacted when they are read.
	file := filepath.Join(d, run.ResultFile)
	old := strings.ReplaceAll(readText(t, file), "[redacted]", canary)
	require.Contains(t, old, canary)
	require.NoError(t, os.WriteFile(file, []byte(old), 0o644))
	clean("report", "--output", "json", "results")
	clean("export", "llm-d", "--include-invalid", rel)
	clean("collect", "results")

	for _, name := range filesOf(t, dir) {
		top := strings.Split(name, string(filepath.Separator))
		switch base := filepath.Base(name); {
		case base == run.PlanFile, base == run.ScriptFile, base == "s.toml" && len(top) == 1,
			strings.Contains(name, run.DefinitionDir):
		default:
			require.NotContains(t, readText(t, filepath.Join(dir, name)), canary, name)
		}
	}
}

// A file of another program is kept as it is; its record has no secret of it.
func TestSecretsInImports(t *testing.T) {
	t.Parallel()
	const canary = "c4n4ry78"
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bench.json"),
		[]byte(strings.ReplaceAll(`[{"benchmark":{"name":"vLLM benchmark","extra_info":{"args":{"model":"m","num_prompts":100,"api_key":"CANARY","hf_token":"CANARY","max_tokens":17,"tokenizer":"plaintok"},"argv":["--api-key","CANARY"]}},
"model":{"name":"m","extra_info":{"token":"CANARY","url":"http://me:CANARY@h/"}},"metric":{"name":"requests_per_second","benchmark_values":[4.0],"extra_info":{"elapsed_time":25.0,"num_requests":100,"total_num_tokens":115200}}}]`, "CANARY", canary)), 0o644))
	o := profllm(t, dir, nil, "import", "bench.json", "--output", "in")
	require.NotContains(t, o.stdout+o.stderr, canary)
	records := 0
	for _, name := range filesOf(t, filepath.Join(dir, "in")) {
		if text := readText(t, filepath.Join(dir, "in", name)); filepath.Base(filepath.Dir(name)) != run.RawDir {
			require.NotContains(t, text, canary, name)
			records += strings.Count(text, "plaintok")
		}
	}
	require.Positive(t, records, "%s", o.stderr)
}
