package experiment

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/workload/sglang"
	"github.com/profllm/profllm/pkg/workload/vllm"
)

const inTOML = `
suite = "baseline"
name = "tiny"
client = "profllm"
time_limit = "10m"
image = "vllm/vllm-openai:v0.11.0"

[server]
model = "m"
serve_wait_seconds = 60
tensor_parallel_size = 2
enforce_eager = true
gpu_memory_utilization = 0.5
kv_transfer_config = { kv_role = "kv_both" }

[benchmark]
num_prompts = 24
random-output-len = 32
max_concurrency = "none"
request_rate = "inf"
goodput = ["ttft:200", "tpot:20"]

[env]
HF_HUB_OFFLINE = "1"
`

const inYAML = `
suite: baseline
name: tiny
client: profllm
time_limit: 10m
image: vllm/vllm-openai:v0.11.0
server: &server
  model: m
  serve_wait_seconds: 60
  tensor_parallel_size: 2
  enforce_eager: true
  gpu_memory_utilization: 0.5
  kv_transfer_config: {kv_role: kv_both}
benchmark:
  num_prompts: 24
  random-output-len: 32
  max_concurrency: ~
  request_rate: .inf
  goodput: ["ttft:200", "tpot:20"]
env:
  HF_HUB_OFFLINE: "1"
`

const inJSON = `{"suite": "baseline", "name": "tiny", "client": "profllm", "time_limit": "10m",
 "image": "vllm/vllm-openai:v0.11.0",
 "server": {"model": "m", "serve_wait_seconds": 60, "tensor_parallel_size": 2, "enforce_eager": true,
	"gpu_memory_utilization": 0.5, "kv_transfer_config": {"kv_role": "kv_both"}},
 "benchmark": {"num_prompts": 24, "random-output-len": 32, "max_concurrency": null, "request_rate": Infinity, "goodput": ["ttft:200", "tpot:20"]},
 "env": {"HF_HUB_OFFLINE": "1"}}
`

const wanted = `name = "baseline"

[[Tests]]
client = "profllm"
description = "experiment tiny"
id = "tiny"
name = "tiny"
test_template_name = "vllm"
time_limit = "10m"
[Tests.bench_cmd_args]
goodput = ["ttft:200", "tpot:20"]
max_concurrency = "none"
num_prompts = 24
random-output-len = 32
random_input_len = 1024
request_rate = "inf"
[Tests.cmd_args]
docker_image_url = "vllm/vllm-openai:v0.11.0"
model = "m"
serve_wait_seconds = 60
[Tests.cmd_args.decode]
enforce_eager = true
gpu_memory_utilization = 0.5
tensor_parallel_size = 2
[Tests.cmd_args.decode.kv_transfer_config]
kv_role = "kv_both"
[Tests.extra_env_vars]
HF_HUB_OFFLINE = "1"
`

// The three forms of an experiment are the same scenario.
//
// covers: LIB-10, CFG-2
func TestForms(t *testing.T) {
	for name, text := range map[string]string{"x.toml": inTOML, "x.yaml": inYAML, "x.YML": inYAML, "x.json": inJSON} {
		t.Run(name, func(t *testing.T) {
			top, err := Parse(name, []byte(text))
			require.NoError(t, err)
			require.True(t, Is(top))
			s, err := Scenario(top)
			require.NoError(t, err)
			data, err := TOML(s)
			require.NoError(t, err)
			require.Equal(t, wanted, string(data))
			loaded, err := scenario.Load(scenario.File{Name: name, Table: s}, nil, scenario.HookFiles{})
			require.NoError(t, err)
			require.Equal(t, "tiny", loaded.Tests[0].ID)
		})
	}
}

// An experiment of two roles, and one that says nothing but a model and is named by its file.
func TestShort(t *testing.T) {
	for text, want := range map[string]string{
		"[server]\nmodel = \"m\"\n": "name = \"short\"\n\n[[Tests]]\ndescription = \"experiment short\"\nid = \"short\"\nname = \"short\"\n" +
			"test_template_name = \"vllm\"\n[Tests.bench_cmd_args]\nmax_concurrency = \"none\"\nnum_prompts = 1000\n" +
			"random_input_len = 1024\nrandom_output_len = 128\n[Tests.cmd_args]\nmodel = \"m\"\n",
		"engine = 'sglang'\n[benchmark]\n[server.prefill]\nx = 1\n[server.decode]\n[evaluation]\n": "name = \"short\"\n\n[[Tests]]\ndescription = \"experiment short\"\n" +
			"id = \"short\"\nname = \"short\"\ntest_template_name = \"sglang\"\n[Tests.bench_cmd_args]\n[Tests.cmd_args]\n[Tests.cmd_args.decode]\n" +
			"[Tests.cmd_args.prefill]\nx = 1\n[Tests.semantic_eval_cmd_args]\n",
	} {
		top, err := Parse("dir/short.toml", []byte(text))
		require.NoError(t, err)
		s, err := Scenario(top)
		require.NoError(t, err)
		data, err := TOML(s)
		require.NoError(t, err)
		require.Equal(t, want, string(data))
	}
}

// null is never "not given": it means none, or is refused.
func TestNulls(t *testing.T) {
	read := func(text string) (*source.Table, error) {
		top, err := Parse("x.yaml", []byte(text))
		require.NoError(t, err)
		return Scenario(top)
	}
	s, err := read("server: {model: m, quantization: null, max-model-len: ~}\nbenchmark:\n  max-concurrency:\n  dataset_name: sharegpt\n")
	require.NoError(t, err)
	tests := s.Get("Tests").Any.([]*source.Value)[0].Any.(*source.Table)
	require.Equal(t, map[string]any{"quantization": "None", "max-model-len": "None"}, tests.Table("cmd_args").Table("decode").Plain())
	require.Equal(t, map[string]any{"max-concurrency": "none", "dataset_name": "sharegpt", "num_prompts": int64(1000)},
		tests.Table("bench_cmd_args").Plain(), "lengths of random prompts do not apply")
	for text, want := range map[string]string{
		"server: {model: m}\nevaluation:\n":                              "x.yaml:2:1: evaluation is null\n\thint: remove it for its default",
		"server: {model: ~}\n":                                           "server.model is null",
		"server: {model: m, compilation_config: {mode: ~}}\n":            "server.compilation_config.mode is null",
		"engine: sglang\nserver: {model_path: m, tp_size: null}\n":       "server.tp_size is null",
		"server: {model: m}\nbenchmark: {num_prompts: null}\n":           "benchmark.num_prompts is null",
		"server: {model: m}\nenv: {A: }\n":                               "env.A is null",
		"server: {model: m}\nbenchmark: ~\n":                             "benchmark is null",
		"server: {model: m, decode: {block_size: 1}, prefill: {x: ~}}\n": "",
	} {
		_, err := read(text)
		if want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, want)
		}
	}
}

// The experiment of a record, or one below config, runs as by itself.
func TestRecordsAreExperiments(t *testing.T) {
	plain := `{"suite": "base", "server": {"model": "m", "max_num_seqs": 4}, "benchmark": {"num_prompts": 8, "max_concurrency": null}}`
	var all []string
	for _, text := range []string{plain, `{"suite": "base", "config": {"server": {"model": "m", "max_num_seqs": 4},
		"benchmark": {"num_prompts": 8, "max_concurrency": null}}}`,
		`{"run_id": "exp_20260101_000000_abcdef", "suite": "base", "timestamp": "2026-01-01T00:00:00Z", "duration": 12.5,
		"config": {"server": {"model": "m", "max_num_seqs": 4}, "benchmark": {"num_prompts": 8, "max_concurrency": null}},
		"results": {"request_throughput": 1.5, "p95_ttft_ms": null}, "system": {}, "profiling": {"enabled": false}, "status": "completed"}`} {
		top, err := Parse("x.json", []byte(text))
		require.NoError(t, err)
		s, err := Scenario(top)
		require.NoError(t, err)
		data, err := TOML(s)
		require.NoError(t, err)
		all = append(all, string(data))
	}
	require.Equal(t, all[0], all[1])
	require.Equal(t, all[0], all[2])
	top, err := Parse("x.json", []byte(`{"server": {"a": 1}, "config": {"server": {"b": 1}}}`))
	require.NoError(t, err)
	_, err = Scenario(top)
	require.ErrorContains(t, err, "server stands twice")
}

// A merge brings keys that the table itself does not have, the first of several before the next.
func TestMerge(t *testing.T) {
	top, err := Parse("x.yaml", []byte("a: &a {x: 1, y: 1}\nb: &b {y: 2, z: 2}\nserver:\n  <<: [*a, *b]\n  x: 0\nbenchmark: {<<: *b}\n"))
	require.NoError(t, err)
	require.Equal(t, map[string]any{"x": int64(0), "y": int64(1), "z": int64(2)}, top.Table("server").Plain())
	require.Equal(t, map[string]any{"y": int64(2), "z": int64(2)}, top.Table("benchmark").Plain())
}

// Every complaint has the place in the file that the user wrote.
func TestComplaints(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"x.yaml", "", "x.yaml:1:1: the file is empty"},
		{"x.yaml", "- a\n", "x.yaml:1:1: an experiment must be a table of keys, not a list"},
		{"x.yaml", "~\n", "x.yaml:1:1: an experiment must be a table of keys, not null"},
		{"x.yaml", "a: 1\n---\nb: 1\n", "x.yaml:1:1: more than one document"},
		{"x.yaml", "server: {\n", "x.yaml:1:1: did not find expected node content"},
		{"x.yaml", "server:\n  a: 1\n  a: 2\n", "x.yaml:3:3: \"a\" stands twice, first at x.yaml:2:3"},
		{"x.yaml", "server: [1, ~]\n", "x.yaml:1:13: a list has no empty elements"},
		{"x.yaml", "server: {x: 99999999999999999999}\n", "x.yaml:1:13: "},
		{"x.yaml", "server: {x: .nan}\n", "x.yaml:1:13: NaN is no value here"},
		{"x.yaml", "server: {<<: 1}\n", "x.yaml:1:10: << merges tables only"},
		{"x.yaml", "server: {? [a] : 1}\n", "x.yaml:1:12: a key must be a word"},
		{"x.yaml", "server: x\n", "x.yaml:1:1: server must be a table of the engine's options, not the string \"x\""},
		{"x.yaml", "name: 3\nserver: {}\n", "x.yaml:1:1: name must be a text, not the integer 3"},
		{"x.yaml", "sever: {}\n", "x.yaml:1:1: unknown key \"sever\"\n\thint: did you mean \"server\"?"},
		{"x.yaml", "server:\n  prefill: {}\n  decode: {}\n  dtype: half\n", "x.yaml:4:3: server.dtype: with prefill, each role has its own options"},
		{"x.yaml", "server:\n  decode: {}\n  dtype: half\n", "x.yaml:3:3: server.dtype stands beside server.decode"},
		{"x.json", "", "x.json:1:1: "},
		{"x.json", "null", "x.json:1:1: an experiment must be a table of keys, not null"},
		{"x.json", "[]", "x.json:1:1: an experiment must be a table of keys, not "},
		{"x.json", "{\"server\": {\"a\": 1,\n\"a\": 2}}", "x.json:2:"},
		{"x.json", "{} {}", "x.json:1:4: "},
		{"x.json", "{\"a\": [null]}", "x.json:1:7: a list has no empty elements"},
		{"x.json", "{\"a\": NaN}", "x.json:1:7: NaN is no value here"},
	} {
		top, err := Parse(c.name, []byte(c.text))
		if err == nil {
			_, err = Scenario(top)
		}
		require.ErrorContains(t, err, c.want, c.text)
	}
}

// Deep and wide files end with an error.
func TestLimits(t *testing.T) {
	for name, text := range map[string]string{
		"deep.yaml": strings.Repeat("[", 5000), "deep.json": strings.Repeat("[", 5000),
		"wide.yaml": "a: [" + strings.Repeat("1,", mostValues) + "1]", "wide.json": `{"a": [` + strings.Repeat("1,", mostValues) + "1]}",
		"large.yaml": strings.Repeat("#", mostBytes+1), "large.json": strings.Repeat(" ", mostBytes+1),
		"laughs.yaml": "a: &a [1,1,1,1,1,1,1,1,1]\n" + laughs(12),
	} {
		_, err := Parse(name, []byte(text))
		require.Error(t, err, name)
	}
}

// laughs is a list of lists of lists, by aliases.
func laughs(n int) string {
	var b strings.Builder
	for i := range n {
		from, to := string(rune('a'+i)), string(rune('b'+i))
		b.WriteString(to + ": &" + to + " [" + strings.Repeat("*"+from+",", 8) + "*" + from + "]\n")
	}
	return b.String()
}

// Whatever is read is a scenario file that reads as the same again.
func FuzzScenario(f *testing.F) {
	f.Add("x.toml", inTOML)
	f.Add("x.yaml", inYAML)
	f.Add("x.json", inJSON)
	f.Add("x.yaml", "a: &a {x: 1}\nserver: {<<: *a}")
	f.Fuzz(func(t *testing.T, name, text string) {
		top, err := Parse(name, []byte(text))
		if err != nil || !Is(top) || strings.ContainsRune(name, 0) { // no file has such a name
			return
		}
		s, err := Scenario(top)
		if err != nil {
			return
		}
		data, err := TOML(s)
		if err != nil {
			return // a list of tables and numbers, which TOML does not have
		}
		again, err := source.Parse("again.toml", data)
		require.NoError(t, err, "%s", data)
		second, err := TOML(again)
		require.NoError(t, err)
		require.Equal(t, string(data), string(second))
	})
}

// A key of a test that an experiment has under another name is refused: it would replace what the
// other one says.
//
// covers: LIB-10
func TestRenamedKeys(t *testing.T) {
	for key, own := range Renamed() {
		top, err := Parse("x.yaml", []byte("server: {model: m}\n"+key+": {model: other}\n"))
		require.NoError(t, err)
		_, err = Scenario(top)
		require.ErrorContains(t, err, "x.yaml:2:1: "+key+" is a key of tests in a scenario")
		require.ErrorContains(t, err, "write "+own)
	}
}

// Each key of a service has its place in server.
func TestServedKeys(t *testing.T) {
	for _, config := range []any{vllm.Config{}, sglang.Config{}} {
		for _, key := range source.Fields(config) {
			if key != "docker_image_url" {
				require.Contains(t, ServedKeys, key)
			}
		}
	}
}
