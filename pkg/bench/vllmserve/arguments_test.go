package vllmserve

import (
	"fmt"
	"slices"
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

// Every option: right values pass, three wrong ones are refused.
func TestArgumentsOfEveryKind(t *testing.T) {
	right := map[string][]string{
		"int": {"5", `"5"`, "-1", "1"}, "float": {"0.5", "2", `"inf"`, "inf", `"1e3"`}, "json": {`"{\"a\": 1}"`, "{ a = 1 }", `"[1]"`},
		"flag": {"true", `""`}, "switch": {"true", "false", `""`}, "text": {`"x"`, "5", `"'a b'"`}, "choice": nil, "several": {`["a=1", "b=2"]`, `"a=1"`},
	}
	wrong := map[string][]string{
		"int": {`"five"`, "2.5", "true", `""`, "[1, 2]"}, "float": {`"fast"`, "true", `""`, `"1,5"`}, "json": {`"{a: 1}"`, "true", `"x y"`, `["{}"]`},
		"flag": {"false", "1", `"yes"`}, "switch": {"1", `"true"`, "[true]"}, "text": {"true", `""`, `["a", "b"]`, `"--x"`},
		"choice": {`"no-such"`, "5", "true"}, "several": {"true", `["--x"]`, `["a", "-b"]`},
	}
	for name, a := range arguments() {
		if slices.Contains(planned, name) {
			continue
		}
		kind := a.Kind
		switch {
		case len(a.Choices) > 0:
			kind = "choice"
			for _, c := range a.Choices {
				require.NoError(t, checkArguments(t, fmt.Sprintf("%s = %q", name, c)))
			}
		case a.Several:
			kind = "several"
		}
		require.GreaterOrEqual(t, len(wrong[kind]), 3, kind)
		for _, v := range right[kind] {
			require.NoError(t, checkArguments(t, name+" = "+v))
			require.NoError(t, checkArguments(t, strings.ReplaceAll(name, "_", "-")+" = "+v))
		}
		for _, v := range wrong[kind] {
			require.ErrorContains(t, checkArguments(t, name+" = "+v), "t.toml:1:1: bench_cmd_args."+name+": ", "%s = %s", name, v)
		}
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
	for _, text := range []string{"no_self_timed = true", "'extra_body.seed' = 1", "'extra-body.a.b' = 'x'"} {
		require.NoError(t, checkArguments(t, text), text)
	}
}

func FuzzArgument(f *testing.F) {
	for _, s := range []string{"num_prompts = 3", "header = ['a=b']", "extra_body = { a = nan }", "x = 1979-05-27", "'.' = 1", "no_ = ''"} {
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
