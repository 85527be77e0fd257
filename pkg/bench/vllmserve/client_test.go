package vllmserve_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/bench/vllmserve"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/workload/vllm/arguments"
)

var target = plan.Target{
	Host: plan.Word{plan.Addr("serve")}, Port: plan.Word{plan.PortNumber("serve")}, Model: "org/a b",
	Nodes: plan.Slice{Offset: 0, Count: 1}, Dir: "/run/raw",
}

func load(t *testing.T, client, text string) (*vllmserve.Load, error) {
	t.Helper()
	table, err := source.Parse("t.toml", []byte(text))
	require.NoError(t, err)
	return vllmserve.New(client, source.Pos{File: "t.toml", Line: 1, Col: 1}, table)
}

func argv(t *testing.T, l *vllmserve.Load) []string {
	t.Helper()
	step, err := l.Command(target)
	require.NoError(t, err)
	words := make([]string, len(step.Argv))
	for i, w := range step.Argv {
		words[i] = w.String()
	}
	return words
}

func TestServedName(t *testing.T) {
	called := target
	called.Served = "qwen"
	for text, want := range map[string]string{"": "qwen", `served_model_name = "adapter"`: "adapter"} {
		l, err := load(t, "", text)
		require.NoError(t, err)
		step, err := l.Command(called)
		require.NoError(t, err)
		var words []string
		for _, w := range step.Argv {
			words = append(words, w.String())
		}
		require.Regexp(t, `^vllm bench serve --model org/a b .*--served-model-name `+want+`\b`, strings.Join(words, " "))
		require.Equal(t, 1, strings.Count(strings.Join(words, " "), "--served-model-name"))
	}
}

func TestCommand(t *testing.T) {
	l, err := vllmserve.New("", source.Pos{}, nil)
	require.NoError(t, err)
	step, err := l.Command(target)
	require.NoError(t, err)
	require.True(t, step.Container, "vLLM's client is in the image")
	require.Equal(t, "bench", step.Name)
	require.Equal(t, []string{"vllm", "bench", "serve", "--model", "org/a b", "--base-url",
		"http://${addr:serve}:${port:serve}",
		"--random-input-len", "16", "--random-output-len", "128", "--max-concurrency", "16", "--num-prompts", "30",
		"--result-dir", "/run/raw", "--result-filename", "vllm-bench.json", "--save-result",
		"--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "50,90,95,99", "--temperature", "0"}, argv(t, l))

	l.Release = "0.9.0"
	require.NotContains(t, argv(t, l), "--temperature", "0.9.1 was the first to have it")
	l.Release = ""

	own, err := vllmserve.New("profllm", source.Pos{}, nil)
	require.NoError(t, err)
	step, err = own.Command(target)
	require.NoError(t, err)
	require.False(t, step.Container, "our client is the program itself")
	require.Equal(t, append([]string{"profllm"}, argv(t, l)[1:]...), argv(t, own), "the same options")
	require.Equal(t, "profllm bench serve", own.Name())
}

// covers: CD-17
func TestExtraOptions(t *testing.T) {
	l, err := load(t, "", `num_prompts = "7"
flag = true
off = false
bare = ""
n = 4
f = 0.5
text = "a 'b' $(touch x)\n"
dashes = "--help"
user_quoted = "'{\"a\": 1}'"
table = { b = 1, a = { c = "x <y>" } }
list = [1, "two words", { k = true }, [2, 3]]
temperature = 0.7
metric-percentiles = "99"
`)
	require.NoError(t, err)
	got := argv(t, l)
	require.Equal(t, []string{
		"--flag", "--no-off", "--bare", "--n", "4", "--f", "0.5", "--text", "a 'b' $(touch x)\n", "--dashes", "--help", "--user-quoted", `{"a": 1}`,
		"--table", `{"a":{"c":"x <y>"},"b":1}`, "--list", "1", "two words", `{"k":true}`, "[2,3]", "--temperature", "0.7", "--metric-percentiles", "99",
		"--percentile-metrics", "ttft,tpot,itl,e2el",
	}, got[20:])
	require.Equal(t, "7", got[14])
	require.Equal(t, 7, l.Options()["num_prompts"])
	require.Equal(t, "--help", l.Options()["dashes"])
}

func TestExpect(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       plan.Expect
	}{
		{"defaults", "", plan.Expect{NumPrompts: 30, Concurrency: 16, InputTokens: 16, OutputTokens: 128, IgnoreEOS: true, SharedInput: new(0.0)}},
		{"random, with a prefix", "dataset_name = 'random'\nrandom_prefix_len = 100\nrandom_input_len = 50", plan.Expect{NumPrompts: 30, Concurrency: 16, InputTokens: 150, OutputTokens: 128, IgnoreEOS: true, SharedInput: new(100.0 / 150)}},
		{"warm-ups and a rate", "num_warmups = 3\nrequest_rate = 2.5", plan.Expect{NumPrompts: 30, Concurrency: 16, InputTokens: 16, OutputTokens: 128, IgnoreEOS: true, SharedInput: new(0.0), Warmups: 3, RequestRate: 2.5}},
		{"a rate that rises", "ramp_up_strategy = 'linear'\nramp_up_start_rps = 2\nramp_up_end_rps = 20", plan.Expect{NumPrompts: 30, Concurrency: 16, InputTokens: 16, OutputTokens: 128, IgnoreEOS: true, SharedInput: new(0.0), RequestRate: 2}},
		{"no rate", "request_rate = inf", plan.Expect{NumPrompts: 30, Concurrency: 16, InputTokens: 16, OutputTokens: 128, IgnoreEOS: true, SharedInput: new(0.0)}},
		{"goodput", "goodput = ['ttft:200', 'e2el:1e3']", plan.Expect{NumPrompts: 30, Concurrency: 16, InputTokens: 16, OutputTokens: 128, IgnoreEOS: true, SharedInput: new(0.0), Goodput: map[string]float64{"ttft": 200, "e2el": 1000}}},
		{"one limit", "goodput = 'tpot:20'", plan.Expect{NumPrompts: 30, Concurrency: 16, InputTokens: 16, OutputTokens: 128, IgnoreEOS: true, SharedInput: new(0.0), Goodput: map[string]float64{"tpot": 20}}},
		{"no limit", "goodput = ['ttft:200', 'e2el:inf']", plan.Expect{NumPrompts: 30, Concurrency: 16, InputTokens: 16, OutputTokens: 128, IgnoreEOS: true, SharedInput: new(0.0), Goodput: map[string]float64{"ttft": 200}}},
		{"a limit that the client refuses", "goodput = ['ttft:200', 'itl:20']", plan.Expect{NumPrompts: 30, Concurrency: 16, InputTokens: 16, OutputTokens: 128, IgnoreEOS: true, SharedInput: new(0.0)}},
		{"lengths vary", "random_range_ratio = 0.5", plan.Expect{NumPrompts: 30, Concurrency: 16, SharedInput: new(0.0)}},
		{"lengths vary, in dashes", "random-range-ratio = 0.5", plan.Expect{NumPrompts: 30, Concurrency: 16, SharedInput: new(0.0)}},
		{"other data", "dataset_name = 'sharegpt'", plan.Expect{NumPrompts: 30, Concurrency: 16}},
		{"embeddings", "backend = 'openai-embeddings'\nnum_warmups = 2", plan.Expect{NumPrompts: 30, Concurrency: 16, Warmups: 2}},
		{"several in a request", "backend = 'vllm-pooling'\nrandom_batch_size = 8", plan.Expect{NumPrompts: 4, Concurrency: 16}},
		{"a query among them", "backend = 'vllm-rerank'\ndataset_name = 'random-rerank'\nrandom_batch_size = 11\nno_reranker = true",
			plan.Expect{NumPrompts: 3, Concurrency: 16}},
		{"answers end by themselves", "extra_body = '{\"ignore_eos\": false}'", plan.Expect{NumPrompts: 30, Concurrency: 16, InputTokens: 16, SharedInput: new(0.0)}},
		{"the same as a table", "extra_body = { ignore_eos = false }", plan.Expect{NumPrompts: 30, Concurrency: 16, InputTokens: 16, SharedInput: new(0.0)}},
		{"another extra body", "extra_body = '{\"top_p\": 0.5}'", plan.Expect{NumPrompts: 30, Concurrency: 16, InputTokens: 16, OutputTokens: 128, IgnoreEOS: true, SharedInput: new(0.0)}},
		{"other data, in dashes", "dataset-name = 'sharegpt'", plan.Expect{NumPrompts: 30, Concurrency: 16}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := load(t, "", c.text)
			require.NoError(t, err)
			require.Equal(t, c.want, l.Expect())
		})
	}
}

// profllm's client says how many requests a data set has, where that is not num_prompts.
//
// covers: LBEN-2
func TestExpectOfFiles(t *testing.T) {
	for text, want := range map[string]int{
		"dataset_name = 'custom'\nnum_prompts = -1":                                                0,
		"dataset_name = 'custom'\nnum_prompts = 9":                                                 9,
		"dataset_name = 'custom'\nno_oversample = true":                                            0,
		"dataset_name = 'custom'\nno_oversample = ''":                                              0,
		"dataset_name = 'custom'\nno_oversample = false":                                           30,
		"dataset_name = 'custom'\nno-oversample = false":                                           30,
		"backend = 'vllm-rerank'\nrandom_batch_size = 10\nno_reranker = true":                      4,
		"backend = 'vllm-rerank'\nrandom_batch_size = 10\nno_reranker = false":                     3,
		"dataset_name = 'timed_trace'\nnum_prompts = -1":                                           0,
		"dataset_name = 'prefix_repetition'\nnum_prompts = 23":                                     20,
		"dataset_name = 'prefix_repetition'\nprefix_repetition_num_prefixes = 4\nnum_prompts = 23": 20,
	} {
		l, err := load(t, "profllm", text)
		require.NoError(t, err, text)
		require.Equal(t, want, l.Expect().NumPrompts, text)
	}
	_, err := load(t, "profllm", "dataset_name = 'sharegpt'\nnum_prompts = -1")
	require.ErrorContains(t, err, "must be 1 or more")
}

// covers: CD-45
func TestLoadRefuses(t *testing.T) {
	_, err := load(t, "locust", `num_prompts = 0
max_concurrency = [1, 2]
random_input_len = "many"
random-output-len = 5
result_filename = "x.json"
base-url = "http://elsewhere"
`)
	require.Equal(t, strings.TrimSpace(`
t.toml:1:1: unknown client "locust"
	hint: known: aiperf, genai-perf, profllm, sglang, vllm
t.toml:1:1: bench_cmd_args.num_prompts is 0, must be 1 or more
t.toml:2:1: max_concurrency is a list, but one value is needed
t.toml:3:1: random_input_len must be an integer, not the string "many"
t.toml:4:1: bench_cmd_args.random-output-len is spelt with dashes
	hint: write random_output_len
t.toml:5:1: bench_cmd_args.result_filename: profllm sets this argument itself
t.toml:6:1: bench_cmd_args.base-url: profllm sets this argument itself
`), err.Error())
}

func TestExpectOfConversations(t *testing.T) {
	for text, n := range map[string]int{
		"num_prompts = 11\nconversation_turn_mean = 2":                            10,
		"num_prompts = 11\nconversation_turn_mean = 20":                           20,
		"num_prompts = 11\nconversation_turn_mean = 2\nconversation_num = 7":      14,
		"num_prompts = 11\nconversation_file = \"x\"\nrandom_output_len = 5":      0,
		"num_prompts = 11\nconversation_turn_mean = 1\nbackend = \"openai-chat\"": 11,
		"num_prompts = 11\nconversation-turn-mean = 2\nbackend = \"openai-chat\"": 10,
	} {
		l, err := load(t, "profllm", text)
		require.NoError(t, err)
		e := l.Expect()
		require.Equal(t, n, e.NumPrompts, text)
		require.Equal(t, n != 11, e.InputTokens == 0, "a prompt has its history, too")
	}
}

// Without a limit on requests in flight, the client gets no --max-concurrency.
func TestUncapped(t *testing.T) {
	table, err := source.Parse("s.toml", []byte("max_concurrency = \"none\"\nnum_prompts = 7\n"))
	require.NoError(t, err)
	require.NoError(t, vllmserve.CheckArguments(table, arguments.BenchServe, ""))
	require.NoError(t, vllmserve.CheckOwnArguments(table))
	l, err := vllmserve.New("vllm", source.Pos{}, table)
	require.NoError(t, err)
	require.Zero(t, l.Expect().Concurrency)
	require.Equal(t, "none", l.Options()["max_concurrency"])
	step, err := l.Command(plan.Target{})
	require.NoError(t, err)
	for _, w := range step.Argv {
		require.NotEqual(t, "--max-concurrency", w.String())
	}
	table, err = source.Parse("s.toml", []byte("max_concurrency = \"all\"\n"))
	require.NoError(t, err)
	_, err = vllmserve.New("vllm", source.Pos{}, table)
	require.ErrorContains(t, err, "max_concurrency")
}
