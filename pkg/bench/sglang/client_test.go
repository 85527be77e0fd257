package sglang_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/bench/sglang"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/source"
)

func newLoad(t *testing.T, text string) (*sglang.Load, error) {
	t.Helper()
	table, err := source.Parse("t.toml", []byte(text))
	require.NoError(t, err)
	return sglang.New(source.Pos{}, table, "")
}

func command(t *testing.T, text string, disaggregated bool) string {
	t.Helper()
	l, err := newLoad(t, text)
	require.NoError(t, err)
	s, err := l.Command(plan.Target{Host: plan.Word{plan.Addr("proxy")}, Port: plan.Word{plan.PortNumber("proxy")},
		Model: "org/m", Dir: "/run/raw", Disaggregated: disaggregated})
	require.NoError(t, err)
	require.True(t, s.Container)
	words := make([]string, len(s.Argv))
	for i, w := range s.Argv {
		words[i] = w.String()
	}
	return strings.Join(words, " ")
}

func TestCommand(t *testing.T) {
	const head = "python3 -m sglang.bench_serving --backend sglang --base-url http://${addr:proxy}:${port:proxy} --model org/m " +
		"--dataset-name random --num-prompts 30 --max-concurrency 16 --random-input-len 16 --random-output-len 128 " +
		"--warmup-requests 2 --random-range-ratio 1 --output-file /run/raw/sglang-bench.jsonl"
	require.Equal(t, head+" --output-details", command(t, "", false))
	require.Equal(t, head+" --output-details --pd-separated", command(t, "", true))
	require.Equal(t, head+` --seed 3 --flush-cache --extra-request-body {"a":[1]}`,
		command(t, "output_details = false\nseed = 3\nflush_cache = true\ndisable_tqdm = false\nextra-request-body = {a = [1]}", false))
	require.Contains(t, command(t, "random_range_ratio = 0.25\nnum_prompts = 7\nbackend = 'vllm'", false),
		"--backend vllm ")
	require.Contains(t, command(t, "goodput = 'ttft:500 tpot:50'", false), "--output-details --goodput ttft:500 tpot:50")
}

// covers: CD-17
func TestBooleansAreSwitches(t *testing.T) {
	got := command(t, "disable_stream = true\nreturn_logprob = false", false)
	require.Contains(t, got, "--disable-stream --output-details")
	require.NotContains(t, got, "return-logprob")
	require.NotContains(t, got, "rue ")
}

func TestExpect(t *testing.T) {
	for text, want := range map[string]plan.Expect{
		"":                          {NumPrompts: 30, Concurrency: 16, InputTokens: 16, OutputTokens: 128, IgnoreEOS: true, Warmups: 2},
		"disable_ignore_eos = true": {NumPrompts: 30, Concurrency: 16, InputTokens: 16, OutputTokens: 128, Warmups: 2},
		"random_range_ratio = 0.5":  {NumPrompts: 30, Concurrency: 16, Warmups: 2},
		"dataset_name = 'sharegpt'\nwarmup_requests = 0": {NumPrompts: 30, Concurrency: 16},
		"dataset_name = 'sharegpt'":                      {NumPrompts: 30, Concurrency: 16, Warmups: 2},
		"dataset_name = 'sharegpt'\ngoodput = 'ttft:500 e2el:2500.5'": {NumPrompts: 30, Concurrency: 16, Warmups: 2,
			Goodput: map[string]float64{"ttft": 500, "e2el": 2500.5}},
	} {
		l, err := newLoad(t, text)
		require.NoError(t, err)
		require.Equal(t, want, l.Expect(), text)
	}
}

func TestRefusals(t *testing.T) {
	for text, want := range map[string]string{
		"num_prompts = 0":          "t.toml:1:1: bench_cmd_args.num_prompts is 0, must be 1 or more",
		"warmup_requests = -1":     "bench_cmd_args.warmup_requests is -1, must be 0 or more",
		"random_range_ratio = 1.5": "bench_cmd_args.random_range_ratio is 1.5, must be 0-1",
		"random_input_len = 5":     "bench_cmd_args.random_input_len is called random_input here",
		"num-prompts = 5":          "bench_cmd_args.num-prompts is spelt with dashes",
		"max_concurency = 5":       "t.toml:1:1: bench_cmd_args.max_concurency is not a known argument of client \"sglang\"\n\thint: did you mean max_concurrency?",
		"output_file = 'x'":        "bench_cmd_args.output_file: profllm sets this argument itself",
		"max_concurrency = [1]":    "max_concurrency is a list, but one value is needed",
		"backend = 1":              "backend must be a string",
		"goodput = 'ttft:9 x:1'":   "t.toml:1:1: bench_cmd_args.goodput: \"x:1\": want ttft:MS, tpot:MS or e2el:MS",
		"goodput = 'ttft:0'":       "\"ttft:0\": want more than 0 ms",
		"goodput = ' '":            "no limit",
	} {
		_, err := newLoad(t, text)
		require.ErrorContains(t, err, want, text)
	}
}
