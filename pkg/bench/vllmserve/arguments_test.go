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
)

func checkArguments(t *testing.T, text string) error {
	t.Helper()
	table, err := source.Parse("t.toml", []byte(text))
	require.NoError(t, err, text)
	return CheckArguments(table)
}

// valuesOf are values that an option takes, and three or more that it refuses, in TOML.
func valuesOf(a argument) (right, wrong []string) {
	if len(a.Choices) > 0 {
		for _, c := range a.Choices {
			right = append(right, strconv.Quote(c))
		}
		return right, []string{`"no-such"`, "5", "true"}
	}
	switch a.Kind {
	case "int":
		return []string{"5", `"5"`, "1"}, []string{`"five"`, "2.5", "true", `""`, "[1, 2]"}
	case "natural":
		return []string{"5", `"5"`, "0"}, []string{`"five"`, "2.5", "-1", "true"}
	case "float":
		return []string{"0.5", "2", `"inf"`, "inf", `"1e3"`}, []string{`"fast"`, "true", `""`, `"1,5"`}
	case "json":
		return []string{`"{\"a\": 1}"`, "{ a = 1 }"}, []string{`"{a: 1}"`, "true", `"x y"`, `["{}", "{}"]`}
	case "ratio":
		return []string{"0.5", "0", `"{\"input\": 0.1}"`, "{ input = 0.1, output = 0.2 }"},
			[]string{`"half"`, "true", `"{input: 1}"`, "[0.1, 0.2]"}
	case "numbers":
		return []string{"99", `"50, 99.9"`, `"1"`}, []string{`"p99"`, "true", `"50,"`, "[50, 99]"}
	case "pair":
		return []string{`"25,50"`, `"25, 50.5"`}, []string{"25", `"a,b"`, `"1,2,3"`, "true"}
	case "latencies":
		return []string{`"ttft"`, `"ttft,tpot,itl,e2el"`}, []string{`"tftt"`, `"ttft, "`, "true", "99"}
	case "assignment":
		return []string{`["a=1", "b=2"]`, `"a=1"`, `"a="`}, []string{`"a"`, `["a=1", "b"]`, `["--x"]`, `"a:1"`}
	case "objective":
		return []string{`["ttft:100", "tpot:50.5"]`, `"e2el:1e3"`},
			[]string{`"ttft"`, `["ttft:100", "itl:5"]`, `"ttft:-1"`, `"ttft=100"`}
	case "buckets":
		return []string{`"{(256, 256, 1): 0.5, (720, 1280, 16): 0.5}"`, `{ "(256, 256, 1)" = 1.0 }`},
			[]string{`"x"`, "5", `"{256: 1}"`, `"{(256, 256): 1}"`}
	case "flag":
		return []string{"true", `""`}, []string{"false", "1", `"yes"`}
	case "switch":
		return []string{"true", "false", `""`}, []string{"1", `"true"`, "[true]"}
	}
	if a.Several {
		return []string{`["a=1", "b=2"]`, `"a=1"`}, []string{"true", `["--x"]`, `["a", "-b"]`}
	}
	return []string{`"x"`, "5", `"'a b'"`}, []string{"true", `""`, `["a", "b"]`, `"--x"`}
}

// Every option: right values pass, three wrong ones are refused.
func TestArgumentsOfEveryKind(t *testing.T) {
	for name, a := range arguments() {
		if slices.Contains(planned, name) {
			continue
		}
		right, wrong := valuesOf(a)
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
	for _, name := range slices.Sorted(maps.Keys(arguments())) {
		if slices.Contains(planned, name) {
			continue
		}
		right, wrong := valuesOf(arguments()[name])
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
		if _, ok := find(o); !ok && o != "help" && o != "config" {
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
	t.Logf("%d values of %d options", len(tries), len(arguments()))
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
		"num_prompt = 3":            "did you mean \"num_prompts\"?",
		"dataset = 'random'":        "has no such option",
		"no_seed = true":            "has no such option",
		"dataset_name = 'sharegtp'": "needs one of sharegpt, burstgpt, random",
		"'seed.x' = 1":              "has no such option",
		"no_self_timed = 3":         "takes no value",
	} {
		require.ErrorContains(t, checkArguments(t, text), want, text)
	}
	for _, text := range []string{"'extra_body.seed' = 1", "'extra-body.a.b' = 'x'"} {
		require.NoError(t, checkArguments(t, text), text)
	}
}

func FuzzArgument(f *testing.F) {
	for _, s := range []string{"num_prompts = 3", "header = ['a=b']", "extra_body = { a = nan }", "x = 1979-05-27",
		"'.' = 1", "no_ = ''"} {
		f.Add(s)
	}
	f.Fuzz(func(_ *testing.T, s string) {
		if table, err := source.Parse("t.toml", []byte(s)); err == nil {
			_ = CheckArguments(table)
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
		"dataset_name = 'sharegpt'":                      "this client makes random prompts only",
		"ramp_up_strategy = 'linear'":                    "needs --ramp-up-start-rps",
		"temperature = true":                             "bench_cmd_args.temperature",
		"goodput = ['ttfb:100']":                         "goodput",
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
