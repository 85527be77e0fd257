package editor

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/cloudaitest"
	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/experiment"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/tier"
)

// resolved are the schemas as an editor reads them.
func resolved(t *testing.T) map[string]*jsonschema.Resolved {
	t.Helper()
	all := map[string]*jsonschema.Resolved{}
	for _, file := range Files {
		s, err := Schema(file)
		require.NoError(t, err)
		data, err := json.Marshal(s)
		require.NoError(t, err)
		t.Logf("%s: %d bytes", file, len(data))
		var again jsonschema.Schema
		require.NoError(t, json.Unmarshal(data, &again))
		all[file], err = again.Resolve(nil)
		require.NoError(t, err)
	}
	return all
}

// validate is what an editor says of a file.
func validate(t *testing.T, schemas map[string]*jsonschema.Resolved, kind, text string) error {
	t.Helper()
	table, err := source.Parse("t.toml", []byte(text))
	require.NoError(t, err, text)
	return schemas[kind].Validate(table.Plain())
}

// Every definition file that profllm ships, and those of its planner's tests, fit the schema.
//
// covers: CFG-2
func TestShippedFiles(t *testing.T) {
	tier.Alone(t)
	schemas := resolved(t)
	n := 0
	for _, dir := range []string{"scenarios", "examples", "conf", "pkg/planner/testdata/format"} {
		require.NoError(t, filepath.WalkDir(filepath.Join("../..", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".toml" {
				return err
			}
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			kind, err := scenario.Kind(scenario.File{Name: path, Data: data})
			require.NoError(t, err)
			if table, err := source.Parse(path, data); err == nil && experiment.Is(table) {
				kind = "experiment"
			}
			if err := validate(t, schemas, kind, string(data)); err != nil {
				t.Errorf("%s: %.600s", path, err)
			}
			n++
			return nil
		}))
	}
	require.Greater(t, n, 20)
}

// Whatever of CloudAI's own files loads fits the schema too.
func TestCloudAIFiles(t *testing.T) {
	dir := cloudaitest.Conf(t, os.Environ())
	schemas := resolved(t)
	n := 0
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".toml" {
			return err
		}
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		file := scenario.File{Name: path, Data: data}
		kind, err := scenario.Kind(file)
		if err != nil {
			return nil
		}
		switch kind {
		case "system":
			_, err = config.Parse(path, data)
		case "scenario":
			_, err = scenario.Load(file, nil, scenario.HookFiles{})
		default:
			_, err = scenario.LoadTest(file)
		}
		if err == nil {
			n++
			require.NoError(t, validate(t, schemas, kind, string(data)), path)
		}
		return nil
	}))
	require.Greater(t, n, 20)
}

const testHead = "name = \"s\"\n[[Tests]]\nid = \"a\"\ntest_template_name = \"vllm\"\n"

// covers: CFG-1, CFG-2
func TestMistakes(t *testing.T) {
	tier.Alone(t)
	schemas := resolved(t)
	for _, c := range []struct{ right, wrong string }{
		{"time_limit = \"10m\"", "time_limit = [1]"},
		{"iterations = 2", "iterations = \"two\""},
		{"client = \"profllm\"", "client = \"vlm\""},
		{"time_limit = \"10m\"", "time_limt = \"10m\""},
		{"accept = { lag_ms = 5 }", "accept = { lag_ms = \"few\" }"},
		{"accept = { lag_ms = 5 }", "accept = { lag_sm = 5 }"},
		{"[Tests.cmd_args]\nmodel = \"m\"", "[Tests.cmd_args]\nmodel = 5"},
		{"[Tests.cmd_args]\nport = 8000", "[Tests.cmd_args]\nport = \"http\""},
		{"[Tests.cmd_args.decode]\nmax_num_seqs = 8", "[Tests.cmd_args.decode]\nmax_num_seqs = \"many\""},
		{"[Tests.cmd_args.decode]\nmax_num_seqs = [8, \"16\"]", "[Tests.cmd_args.decode]\nmax_num_seqs = [8, true]"},
		{"[Tests.cmd_args.decode]\ndtype = \"bfloat16\"", "[Tests.cmd_args.decode]\ndtype = \"bfloat17\""},
		{"[Tests.cmd_args.decode]\nscheduling_policy = [\"fcfs\", \"priority\"]", "[Tests.cmd_args.decode]\nscheduling_policy = \"lifo\""},
		{"[Tests.cmd_args.decode]\nenforce_eager = true", "[Tests.cmd_args.decode]\nenforce_eager = \"yes\""},
		{"[Tests.cmd_args.decode]\ngpu_memory_utilization = 0.9", "[Tests.cmd_args.decode]\ngpu_memory_utilization = 1.5"},
		{"[Tests.cmd_args.decode]\nspeculative_config = { method = \"ngram\" }", "[Tests.cmd_args.decode]\nspeculative_config = 3"},
		{"[Tests.cmd_args.decode]\nmax_model_len = \"25.6k\"", "[Tests.cmd_args.decode]\nmax_model_len = \"long\""},
		{"[Tests.cmd_args.decode]\nan_option_of_a_fork = 3", "[Tests.cmd_args]\ndecode = 3"},
		{"[Tests.bench_cmd_args]\nnum_prompts = \"5x\"", "[Tests.bench_cmd_args]\nnum_prompts = \"5 times\""},
		{"[Tests.bench_cmd_args]\nrequest_rate = \"inf\"", "[Tests.bench_cmd_args]\nrequest_rate = \"fast\""},
		{"[Tests.bench_cmd_args]\ndataset_name = \"sharegpt\"", "[Tests.bench_cmd_args]\ndataset_name = \"sharegtp\""},
		{"[Tests.bench_cmd_args]\ngoodput = [\"ttft:100\", \"e2el:1\"]", "[Tests.bench_cmd_args]\ngoodput = true"},
		{"client = \"sglang\"\n[Tests.bench_cmd_args]\ndataset_name = \"mmmu\"", "client = \"vllm\"\n[Tests.bench_cmd_args]\ndataset_name = \"mmmu\""},
		{"[[Tests.phases]]\nname = \"a\"", "[[Tests.phases]]\ncache = \"keep\""},
		{"[[Tests.phases]]\nsuite = \"prefill\"", "[[Tests.phases]]\nsuite = 3"},
		{"[Tests.bench_cmd_args]\nmax_concurrency = \"none\"", "[Tests.bench_cmd_args]\nmax_concurrency = \"many\""},
		{"[Tests.search]\nlimits = [\"p99_ttft_ms=5\"]\nstop_losers = true", "[Tests.search]\nlimits = [\"p99_ttft_ms=5\"]\nstop_losser = true"},
		{"repeat = 3", "repeat = \"often\""},
		{"repeat = { precision = \"2%\" }", "repeat = { max = 9 }"},
	} {
		require.NoError(t, validate(t, schemas, "scenario", testHead+c.right+"\n"), c.right)
		require.Error(t, validate(t, schemas, "scenario", testHead+c.wrong+"\n"), c.wrong)
	}
	sglang := strings.Replace(testHead, "vllm", "sglang", 1)
	require.NoError(t, validate(t, schemas, "scenario", sglang+"[Tests.cmd_args.decode]\ndtype = \"x\"\n"))
	require.Error(t, validate(t, schemas, "scenario", sglang+"[Tests.cmd_args]\nserve_module = 3\n"))
	for kind, texts := range map[string][2]string{
		"test": {"name = \"a\"\ntest_template_name = \"vllm\"\n", "name = \"a\"\ntest_template_name = \"vllm\"\niterations = 3\n"},
		"system": {"name = \"a\"\nscheduler = \"slurm\"\ninstall_path = \"/i\"\noutput_path = \"/o\"\ndefault_partition = \"p\"\n",
			"name = \"a\"\n"},
	} {
		require.NoError(t, validate(t, schemas, kind, texts[0]))
		require.Error(t, validate(t, schemas, kind, texts[1]))
	}
	_, err := Schema("result")
	require.Error(t, err)
}

// An experiment has the keys of a test, some under another name, and the engine's options in server.
//
// covers: CFG-2
func TestExperiments(t *testing.T) {
	tier.Alone(t)
	schemas := resolved(t)
	for _, c := range []struct{ right, wrong string }{
		{"client = \"profllm\"", "client = \"vlm\""},
		{"engine = \"sglang\"", "engine = \"trtllm\""},
		{"image = \"a:b\"", "docker_image_url = \"a:b\""},
		{"env = { A = \"1\" }", "extra_env_vars = { A = \"1\" }"},
		{"name = \"a\"", "id = \"a\""},
		{"repeat = { precision = \"2%\" }", "repeat = { max = 9 }"},
		{"server = { dtype = \"half\", model = \"m\" }", "server = { dtype = \"float33\" }"},
		{"server = { decode = { dtype = \"half\" } }", "server = { decode = { dtype = \"float33\" } }"},
		{"server = { serve_wait_seconds = 9 }", "server = { serve_wait_seconds = \"long\" }"},
		{"benchmark = { request_rate = \"inf\" }", "benchmark = { request_rate = \"fast\" }"},
		{"engine = \"vllm\"\nbenchmark = { dataset_name = \"sharegpt\" }", "engine = \"vllm\"\nbenchmark = { dataset_name = \"sharegtp\" }"},
		{"engine = \"sglang\"\nserver = { dtype = \"x\" }", "engine = \"sglang\"\nserver = { serve_wait_seconds = \"long\" }"},
		{"evaluation = {}", "evaluation = 3"},
	} {
		require.NoError(t, validate(t, schemas, "experiment", c.right+"\n"), c.right)
		require.Error(t, validate(t, schemas, "experiment", c.wrong+"\n"), c.wrong)
	}
}
