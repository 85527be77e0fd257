package vllmserve

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/workload/vllm/arguments"
)

func checkArguments(t *testing.T, text string) error {
	t.Helper()
	table, err := source.Parse("t.toml", []byte(text))
	require.NoError(t, err, text)
	return CheckArguments(table, arguments.BenchServe, "0.32.0")
}

// options032 are the options of vLLM 0.32.0, by their keys in TOML.
func options032() map[string]arguments.Form {
	m := map[string]arguments.Form{}
	for _, o := range arguments.BenchServe.Options() {
		if f, ok := o.FormAt("0.32.0"); ok {
			m[strings.ReplaceAll(o.Name[2:], "-", "_")] = f
		}
	}
	return m
}

// valuesOf are values that an option takes, and three or more that it refuses, in TOML.
func valuesOf(name string, f arguments.Form) (right, wrong []string) {
	if len(f.Choices) > 0 {
		for _, c := range f.Choices {
			right = append(right, strconv.Quote(c))
		}
		return right, []string{`"no-such"`, "5", "true"}
	}
	if f.Values == "0" && f.Names != nil {
		return []string{"true", "false", `""`}, []string{"1", `"true"`, "[true]"}
	}
	if f.Values == "0" {
		return []string{"true", `""`}, []string{"false", "1", `"yes"`}
	}
	if _, ok := later[name]; ok {
		return laterValues(name)
	}
	switch f.Type {
	case "int":
		return []string{"5", `"5"`, "1"}, []string{`"five"`, "2.5", "true", `""`, "[1, 2]"}
	case "float":
		return []string{"0.5", "2", `"inf"`, "inf", `"1e3"`}, []string{`"fast"`, "true", `""`, `"1,5"`}
	case "json":
		return []string{`"{\"a\": 1}"`, "{ a = 1 }"}, []string{`"{a: 1}"`, "true", `"x y"`, `["{}", "{}"]`}
	}
	if f.Values == "+" {
		return []string{`["a=1", "b=2"]`, `"a=1"`}, []string{"true", `["--x"]`, `["a", "--seed"]`}
	}
	return []string{`"x"`, "5", `"'a b'"`}, []string{"true", `""`, `["a", "b"]`, `"--x"`}
}

// laterValues are those of an option that the client looks at after its parser.
func laterValues(name string) (right, wrong []string) {
	switch name {
	case "seed":
		return []string{"5", `"5"`, "0"}, []string{`"five"`, "2.5", "-1", "true"}
	case "random_range_ratio":
		return []string{"0.5", "0", `"{\"input\": 0.1}"`, "{ input = 0.1, output = 0.2 }"},
			[]string{`"half"`, "true", `"{input: 1}"`, "[0.1, 0.2]"}
	case "metric_percentiles":
		return []string{"99", `"50, 99.9"`, `"1"`}, []string{`"p99"`, "true", `"50,"`, "[50, 99]"}
	case "timeline_itl_thresholds":
		return []string{`"25,50"`, `"25, 50.5"`}, []string{"25", `"a,b"`, `"1,2,3"`, "true"}
	case "percentile_metrics":
		return []string{`"ttft"`, `"ttft,tpot,itl,e2el"`}, []string{`"tftt"`, `"ttft, "`, "true", "99"}
	case "header", "metadata":
		return []string{`["a=1", "b=2"]`, `"a=1"`, `"a="`}, []string{`"a"`, `["a=1", "b"]`, `["--x"]`, `"a:1"`}
	case "goodput":
		return []string{`["ttft:100", "tpot:50.5"]`, `"e2el:1e3"`},
			[]string{`"ttft"`, `["ttft:100", "itl:5"]`, `"ttft:-1"`, `"ttft=100"`}
	case "random_mm_bucket_config":
		return []string{`"{(256, 256, 1): 0.5, (720, 1280, 16): 0.5}"`, `{ "(256, 256, 1)" = 1.0 }`},
			[]string{`"x"`, "5", `"{256: 1}"`, `"{(256, 256): 1}"`}
	}
	panic(name)
}

// Every option: right values pass, three wrong ones are refused.
func TestArgumentsOfEveryKind(t *testing.T) {
	for name, a := range options032() {
		if slices.Contains(planned, name) {
			continue
		}
		right, wrong := valuesOf(name, a)
		require.GreaterOrEqual(t, len(wrong), 3, name)
		for _, v := range right {
			require.NoError(t, checkArguments(t, name+" = "+v+beside(name, v)))
			require.NoError(t, checkArguments(t, strings.ReplaceAll(name, "_", "-")+" = "+v+beside(name, v)))
		}
		for _, v := range wrong {
			require.ErrorContains(t, checkArguments(t, name+" = "+v+beside(name, v)),
				"t.toml:1:1: bench_cmd_args."+name+": ", "%s = %s", name, v)
		}
	}
}

// beside are the options without which one, or one value of it, is refused, in TOML.
func beside(name, v string) string {
	const file = "\ndataset_path = \"x\""
	switch name + " = " + v {
	case `dataset_name = "random"`, `dataset_name = "random-rerank"`, `dataset_name = "prefix_repetition"`:
		return ""
	case `dataset_name = "random-mm"`:
		return "\nbackend = \"openai-chat\""
	}
	switch name {
	case "dataset_name":
		return file
	case "dataset_path":
		return "\ndataset_name = \"sharegpt\""
	case "self_timed":
		return "\ndataset_name = \"timed_trace\"" + file
	case "skip_tokenizer_init":
		return "\ndataset_name = \"custom\"" + file
	case "timeline_itl_thresholds":
		return "\nplot_timeline = true"
	case "ramp_up_strategy":
		return "\nramp_up_start_rps = 1\nramp_up_end_rps = 2"
	}
	return ""
}

// client answers for every line, a JSON list of options, whether "vllm bench serve" takes
// it; the first line that it prints is its options. It runs all of the client but what
// needs a server: its parser, and what it looks at later.
const client = `
import asyncio, contextlib, io, json, sys
from vllm.benchmarks import serve
from vllm.utils.argparse_utils import FlexibleArgumentParser

async def measured(**_):
    return {}

async def as_they_are(_url, _model, prompts, _ssl):
    return prompts

def samples(args, tokenizer):
    if isinstance(args.random_range_ratio, str):
        datasets._parse_range_ratio(args.random_range_ratio)
    try:
        if not args.dataset_path:
            loaded(args, tokenizer)
    except Exception as e:
        if any(s in str(e) for s in ("dataset_path", "dataset path", "not supported on backend", "okenizer must be")):
            raise
    return []

from vllm.benchmarks.datasets import datasets
loaded = serve.get_samples
serve.benchmark, serve.get_samples, serve._align_prompts_to_server_tokenizer = measured, samples, as_they_are
serve.get_tokenizer = lambda *_, **__: object()
p = FlexibleArgumentParser()
serve.add_cli_args(p)
print(json.dumps(sorted({o[2:].replace("-", "_") for a in p._actions for o in a.option_strings if o.startswith("--")})))
for line in sys.stdin:
    try:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            asyncio.run(serve.main_async(p.parse_args(json.loads(line))))
        print("true")
    except (SystemExit, Exception) as e:
        print("false", type(e).__name__, str(e).replace(chr(10), " ")[:200])
`

// The real client agrees: on which options there are, and for each of them on the values
// that pass and the ones that do not.
func TestVLLMArguments(t *testing.T) {
	home := os.Getenv("VLLM_LAB")
	if home == "" {
		require.NotEqual(t, "1", os.Getenv("PROFLLM_REQUIRE_VLLM"), "VLLM_LAB is not set")
		t.Skip("no real vLLM (make test-vllm)")
	}
	type tried struct {
		text  string
		right bool
	}
	var tries []tried
	var in bytes.Buffer
	try := func(text string, right bool) {
		table, err := source.Parse("t.toml", []byte(text))
		require.NoError(t, err)
		words := []string{"--model=m", "--save-result"}
		for _, name := range table.Keys() {
			for _, w := range option(name, table.Get(name)) {
				text, _ := w.Literal()
				words = append(words, text)
			}
		}
		require.NoError(t, json.NewEncoder(&in).Encode(words))
		tries = append(tries, tried{text, right})
	}
	for _, name := range slices.Sorted(maps.Keys(options032())) {
		if slices.Contains(planned, name) {
			continue
		}
		right, wrong := valuesOf(name, options032()[name])
		for i, v := range append(right, wrong...) {
			try(name+" = "+v+beside(name, v), i < len(right))
		}
	}
	for text, right := range together {
		try(text, right)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(home, "venv/bin/python"), "-c", client)
	cmd.Stdin, cmd.Dir = &in, t.TempDir() // where it saves what it measured
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	require.NoError(t, err, said.String())
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for !strings.HasPrefix(lines[0], "[") { // what vLLM logs on the way
		lines = lines[1:]
	}
	var options []string
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &options))
	for _, o := range options {
		if !known(arguments.BenchServe, o) && o != "help" && o != "config" {
			t.Errorf("the client has --%s", o)
		}
	}
	require.Len(t, lines[1:], len(tries))
	for i, x := range tries {
		if strings.HasPrefix(x.text, "percentile_metrics") && !x.right {
			continue // the client takes any name, and then says no percentiles
		}
		if strings.HasPrefix(lines[1+i], "true") != x.right {
			t.Errorf("%s: the client says %s", x.text, lines[1+i])
		}
	}
	t.Logf("%d values of %d options", len(tries), len(options032()))
}

// together are options that pass or not only beside each other, in TOML.
var together = map[string]bool{
	`dataset_name = "sharegpt"`:                         false,
	`dataset_name = "hf"`:                               false,
	`dataset_name = "random"`:                           true,
	"dataset_name = \"random\"\ndataset_path = \"x\"":   false,
	"dataset_path = \"x\"":                              false,
	"dataset_name = \"sharegpt\"\ndataset_path = \"x\"": true,
	"dataset_name = \"timed_trace\"\ndataset_path = \"x\"\nbackend = \"openai-chat\"": false,
	"skip_tokenizer_init = true":                       false,
	"dataset_name = \"random-mm\"":                     false,
	"dataset_name = \"random-mm\"\nbackend = \"vllm\"": false,
	"self_timed = true":                                false,
	"no_self_timed = true":                             false,
	"dataset_name = \"timed_trace\"\ndataset_path = \"x\"\nself_timed = false": true,
	`ramp_up_strategy = "linear"`:                                                                   false,
	"ramp_up_strategy = \"linear\"\nramp_up_start_rps = 1":                                          false,
	"ramp_up_strategy = \"linear\"\nramp_up_start_rps = 0\nramp_up_end_rps = 5":                     true,
	"ramp_up_strategy = \"exponential\"\nramp_up_start_rps = 0\nramp_up_end_rps = 5":                false,
	"ramp_up_strategy = \"linear\"\nramp_up_start_rps = 6\nramp_up_end_rps = 5":                     false,
	"ramp_up_strategy = \"linear\"\nramp_up_start_rps = 1\nramp_up_end_rps = 5\nrequest_rate = 3":   false,
	"ramp_up_strategy = \"linear\"\nramp_up_start_rps = 1\nramp_up_end_rps = 5\nrequest_rate = inf": true,
}

func TestArgumentsTogether(t *testing.T) {
	for text, right := range together {
		err := checkArguments(t, text)
		require.Equal(t, right, err == nil, "%s: %v", text, err)
	}
}

func TestUnknownArguments(t *testing.T) {
	for text, want := range map[string]string{
		"num_prompt = 3": "bench_cmd_args.num_prompt is an option of `vllm bench serve` in no release that profllm knows (0.8.0 to 0.33.0)\n\t" +
			"hint: did you mean \"num_prompts\"? if your release has it, add it to cmd_args.unchecked_options",
		"dataset = 'random'":               "in no release",
		"no_seed = true":                   "unrecognized arguments: --no-seed\n\thint: --seed has no negation: remove it",
		"dataset_name = 'sharegtp'":        "vLLM 0.32.0 says: argument --dataset-name: invalid choice: 'sharegtp' (choose from 'sharegpt', 'burstgpt', 'random',",
		"'seed.x' = 1":                     "argument --seed: invalid int value: '{\"x\": 1}'",
		"'ignore_eos.x' = 1":               "unrecognized arguments: {\"x\": 1}",
		"'backend.x' = 'y'":                "argument --backend: invalid choice: '{\"x\": \"y\"}'",
		"no_self_timed = 3":                "unrecognized arguments: 3",
		"seed = 'x'":                       "argument --seed: invalid int value: 'x'",
		"lora_modules = ['a', '--seed=3']": "argument --lora-modules: --seed=3 would be another option",
		"sonnet_input_len = 3":             "unrecognized arguments: --sonnet-input-len 3\n\thint: vLLM 0.32.0 removed it",
	} {
		require.ErrorContains(t, checkArguments(t, text), want, text)
	}
	for _, text := range []string{"'extra_body.seed' = 1", "'extra-body.a.b' = 'x'"} {
		require.NoError(t, checkArguments(t, text), text)
	}
}

// Each release has its own options.
//
// covers: CFG-1, CFG-2, LBEN-2
func TestArgumentsByRelease(t *testing.T) {
	for _, c := range []struct{ release, text, want string }{
		{"0.11.0", "bfcl_categories = 'x'", "vLLM 0.11.0 says: unrecognized arguments: --bfcl-categories x\n\thint: vLLM has it since 0.24.0"},
		{"0.24", "bfcl_categories = 'x'", ""},
		{"", "bfcl_categories = 'x'", ""},
		{"0.11.1", "endpoint_type = 'openai'", "unrecognized arguments: --endpoint-type openai\n\thint: vLLM 0.11.1 removed it: use --backend"},
		{"0.10.2", "endpoint_type = 'openai'", ""},
		{"0.9.0", "endpoint_type = 'openai'", "invalid choice: 'openai' (choose from 'openai-comp')"},
		{"0.19.0", "random_range_ratio = { input = 0.1 }", "argument --random-range-ratio: invalid float value"},
		{"0.20.0", "random_range_ratio = { input = 0.1 }", ""},
		{"0.19.0", "timeline_itl_thresholds = [25, 50]", ""},
		{"0.19.0", "timeline_itl_thresholds = [25]", "argument --timeline-itl-thresholds: expected 2 arguments"},
		{"0.20.0", "timeline_itl_thresholds = [25, 50]", "unrecognized arguments: 50"},
		{"0.31.0", "dataset_name = 'sonnet'\ndataset_path = 'x'", ""},
		{"0.32.0", "dataset_name = 'sonnet'\ndataset_path = 'x'", "invalid choice: 'sonnet'"},
		{"0.33.0", "warp_drive = 3", "in no release"},
		{"0.99", "warp_drive = 3", ""},
		{"0.99", "num_prompt = 3", "did you mean \"num_prompts\"?"},
		{"0.99", "dataset_name = 'warp'", "vLLM 0.33.0 says: argument --dataset-name: invalid choice: 'warp'"},
		{"0.6.0", "dataset_name = 'warp'", "needs dataset_path"},
	} {
		table, err := source.Parse("t.toml", []byte(c.text))
		require.NoError(t, err)
		if err := CheckArguments(table, arguments.BenchServe, c.release); c.want == "" {
			require.NoError(t, err, "%v", c)
		} else {
			require.ErrorContains(t, err, c.want, "%v", c)
		}
	}
	table, err := source.Parse("t.toml", []byte("warp_drive = 3"))
	require.NoError(t, err)
	require.NoError(t, CheckArguments(table, arguments.BenchServe, "0.32.0", "warp_drive"))
}

func FuzzArgument(f *testing.F) {
	for _, s := range []string{"num_prompts = 3", "header = ['a=b']", "extra_body = { a = nan }", "x = 1979-05-27",
		"'.' = 1", "no_ = ''"} {
		f.Add(s)
	}
	f.Fuzz(func(_ *testing.T, s string) {
		if table, err := source.Parse("t.toml", []byte(s)); err == nil {
			_ = CheckArguments(table, arguments.BenchServe, "0.32.0")
		}
	})
}

// profllm's own client: its parser and its rules decide.
func TestOwnArguments(t *testing.T) {
	for text, want := range map[string]string{
		"num_prompts = 3\nseed = 5":                      "",
		"random-range-ratio = 0.5\nignore_eos = true":    "",
		"extra_body = { a = 1 }\ngoodput = ['ttft:100']": "",
		"num_prompts = 3\nseed = 'x'":                    "t.toml:2:1: bench_cmd_args.seed: client \"profllm\" refuses it",
		"backend = 'triton'":                             "t.toml:1:1: bench_cmd_args.backend",
		"request_rate = 'fast'":                          "bench_cmd_args.request_rate",
		"dataset_name = 'sharegpt'\nseed = 4":            "",
		"dataset_name = 'timed_trace'\ndataset_path = 'x'\nself_timed = false\nnum_prompts = -1": "",
		"dataset_name = 'random-mm'": "t.toml:1:1: bench_cmd_args.dataset_name: client \"profllm\" refuses it: --dataset-name random-mm sends",
		"dataset_name = 'random-mm'\nbackend = 'openai-chat'\nrandom_mm_limit_mm_per_prompt = { image = 2, video = 0 }": "",
		"dataset_name = 'custom_image'\ndataset_path = 'x'":                                                             "--dataset-name \"custom_image\" is not supported",
		"dataset_name = 'custom'":                      "--dataset-name custom needs --dataset-path",
		"dataset_name = 'sharegpt'\nself_timed = true": "--self-timed is refused",
		"ramp_up_strategy = 'linear'":                  "needs --ramp-up-start-rps",
		"no_oversample = false":                        "hint: remove it: an option without a value",
		"temperature = true":                           "bench_cmd_args.temperature",
		"goodput = ['ttfb:100']":                       "goodput",
	} {
		table, err := source.Parse("t.toml", []byte(text))
		require.NoError(t, err)
		if err = CheckOwnArguments(table); want == "" {
			require.NoError(t, err, text)
		} else {
			require.ErrorContains(t, err, want, text)
		}
	}
}
