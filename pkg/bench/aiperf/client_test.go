package aiperf_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/bench/aiperf"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/source"
)

func newLoad(t *testing.T, client, text string) (*aiperf.Load, error) {
	t.Helper()
	table, err := source.Parse("t.toml", []byte(text))
	require.NoError(t, err)
	return aiperf.New(aiperf.Client{Name: client, Unchecked: []string{"new_option"}}, source.Pos{}, table)
}

var target = plan.Target{Host: plan.Word{plan.Addr("serve")}, Port: plan.Word{plan.PortNumber("serve")}, Model: "org/m",
	Dir: "/run/raw", MetricsURLs: plan.Texts("http://a:1/metrics", "http://b:2/metrics")}

func argv(t *testing.T, client, text string) []string {
	t.Helper()
	l, err := newLoad(t, client, text)
	require.NoError(t, err)
	s, err := l.Command(target)
	require.NoError(t, err)
	require.True(t, s.Container)
	require.Equal(t, "logs/bench-%t.log", s.Log)
	words := make([]string, len(s.Argv))
	for i, w := range s.Argv {
		words[i] = w.String()
	}
	return words
}

func command(t *testing.T, text string) string {
	return strings.Join(argv(t, aiperf.Name, text), " ")
}

const (
	head = "aiperf profile --model org/m --endpoint-type chat --streaming --url http://${addr:serve}:${port:serve}"
	tail = " --artifact-dir /run/raw --no-server-metrics --no-gpu-telemetry --ui none"
)

func TestServedName(t *testing.T) {
	called := target
	called.Served = "q"
	for text, want := range map[string]string{"": " --model q --tokenizer org/m ", `tokenizer = "t"`: " --model q --endpoint-type "} {
		for _, client := range []string{aiperf.Name, aiperf.GenAI} {
			l, err := newLoad(t, client, text)
			require.NoError(t, err)
			step, err := l.Command(called)
			require.NoError(t, err)
			line := ""
			for _, w := range step.Argv {
				line += " " + w.String()
			}
			require.Contains(t, line, want)
		}
	}
}

// What is measured, the user's options in the order of the file, then what profllm sets.
func TestCommand(t *testing.T) {
	require.Equal(t, head+" --request-count 10"+tail, command(t, ""))
	require.Equal(t, head+" --concurrency 16 --request-count 32"+tail, command(t, "concurrency = 16"),
		"two for each place, as its documents have it")
	require.Equal(t, head+" --request-count 64 --isl 128 --osl-stddev 0"+tail,
		command(t, "request-count = 64\nisl = 128\nosl_stddev = 0"))
	require.Equal(t, "aiperf profile --model org/m --endpoint-type completions --url http://${addr:serve}:${port:serve} "+
		"--num-requests 3"+tail, command(t, "streaming = false\nnum_requests = 3\nendpoint_type = 'completions'"))
	require.NotContains(t, command(t, "benchmark_duration = 30"), "--request-count")
	require.NotContains(t, command(t, "public_dataset = 'sharegpt'"), "--request-count")
}

// covers: P-3
func TestValuesOfOptions(t *testing.T) {
	words := argv(t, aiperf.Name, `request_count = 4
extra_inputs = {ignore_eos = true, note = "it's a $HOME {x} \"y\"", stop = ["a b"]}
header = ["a:1 2", "b:3"]
audio_depths = [16, 24]
goodput = {time_to_first_token = 250, request_latency = 4000.5}
use_server_token_count = true
export_http_trace = false
open_loop_replay = false
use-legacy-max-tokens = true
extra_args = "--new x --text 'two words'"`)
	require.Equal(t, []string{"--request-count", "4",
		"--extra-inputs", `{"ignore_eos":true,"note":"it's a $HOME {x} \"y\"","stop":["a b"]}`,
		"--header", "a:1 2", "b:3", "--audio-depths", "16", "--audio-depths", "24",
		"--goodput", "time_to_first_token:250 request_latency:4000.5", "--use-server-token-count",
		"--no-open-loop-replay", "--use-legacy-max-tokens",
		"--artifact-dir", "/run/raw", "--no-server-metrics", "--no-gpu-telemetry", "--ui", "none",
		"--new", "x", "--text", "two words"}, words[9:])
}

// The servers' counters are read by profllm, and by AIPerf only if asked.
func TestServerMetrics(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  " --no-server-metrics",
		"server_metrics = false":            " --no-server-metrics",
		"no_server_metrics = true":          " --no-server-metrics",
		"server-metrics = true":             " --server-metrics",
		"server_metrics = 'auto'":           " --server-metrics http://a:1/metrics http://b:2/metrics",
		"server_metrics = 'http://c:3'":     " --server-metrics http://c:3",
		"server_metrics = ['c:3', 'd:4']":   " --server-metrics c:3 d:4",
		"no_server_metrics = false":         " --no-server-metrics",
		"server_metrics_formats = ['json']": " --server-metrics-formats json --artifact-dir /run/raw --no-server-metrics",
	} {
		got := command(t, "request_count = 1\n"+text)
		require.Contains(t, got, want+" --no-gpu-telemetry --ui none", text)
		require.Equal(t, 1, strings.Count(got, "server-metrics "), got)
	}
	require.Contains(t, command(t, "gpu_telemetry = 'dcgm:9401'"), " --gpu-telemetry dcgm:9401 ")
	require.NotContains(t, command(t, "gpu_telemetry = 'dcgm:9401'"), "no-gpu-telemetry")
}

// Words of extra_args that are options count as if they were keys: a load that they bound gets no bound of ours.
func TestExtraArgsAreOptions(t *testing.T) {
	got := command(t, "extra_args = '--benchmark-duration 60 --no-such 1 --streaming --gpu-telemetry a b --header=x:y'")
	require.NotContains(t, got, "--request-count")
	require.Contains(t, got, "--benchmark-duration 60")
	require.Contains(t, got, "--gpu-telemetry a b")
	require.Equal(t, 1, strings.Count(got, "--streaming"))
	require.True(t, strings.HasSuffix(got, " --no-such 1"), got)
	l, err := newLoad(t, aiperf.Name, "extra_args = '--request-count 500 --concurrency=8'")
	require.NoError(t, err)
	e := l.Expect()
	require.Equal(t, []int{500, 8}, []int{e.NumPrompts, e.Concurrency})
	require.Equal(t, 1, strings.Count(command(t, "extra_args = '--request-count 500 --concurrency=8'"), "--request-count"))
}

func TestGenAIPerf(t *testing.T) {
	require.Equal(t, "genai-perf profile --model org/m --endpoint-type chat --streaming --url ${addr:serve}:${port:serve} "+
		"--request-count 5 --extra-inputs ignore_eos:true --artifact-dir /run/raw -- --max-threads 4",
		strings.Join(argv(t, aiperf.GenAI, "request_count = 5\nextra-inputs = 'ignore_eos:true'\nextra_args = '-- --max-threads 4'"), " "))
	unbounded, err := newLoad(t, aiperf.GenAI, "concurrency = 8")
	require.NoError(t, err)
	require.Zero(t, unbounded.Expect().NumPrompts, "it measures until its numbers are steady")
	require.NotContains(t, unbounded.Options(), "request_count")
	_, err = newLoad(t, aiperf.GenAI, "artifact_dir = 'x'\nprofile-export-file = 'y'\nrequest-count = 1\nrequest_count = 2")
	require.ErrorContains(t, err, "t.toml:1:1: bench_cmd_args.artifact_dir: profllm sets this option itself")
	require.ErrorContains(t, err, "t.toml:2:1: ")
	require.ErrorContains(t, err, "t.toml:4:1: bench_cmd_args.request_count is request-count again, at t.toml:3:1")
}

// covers: P-4
func TestRefusals(t *testing.T) {
	for text, want := range map[string]string{
		"conccurency = 3":                                 "not an option of AIPerf 0.13.0; did you mean concurrency?",
		"nothing_like_it = 3":                             "not an option of AIPerf 0.13.0; remove it; if your release has it",
		"model = 'x'":                                     "profllm sets this option itself; set cmd_args.model",
		"url = 'x'":                                       "profllm sets this option itself",
		"artifact-dir = 'x'":                              "the files are below raw/",
		"profile_export_prefix = 'x'":                     "under their own names",
		"ui = 'simple'":                                   "a job has no terminal",
		"config = 'x.yaml'":                               "write the options of that file",
		"num_profile_runs = 3":                            "set repeat",
		"search_recipe = 'x'":                             "write the values of a key as a list",
		"concurrency = '1,2'":                             "write a list: concurrency = [1, 2]",
		"max_concurrency = 3":                             "an argument of another client; write concurrency",
		"num_prompts = 3":                                 "write request_count",
		"request_count = 3\nnum-requests = 3":             "num-requests is request_count again, at t.toml:1:1",
		"request_count = 3\nrequest-count = 3":            "request-count is request_count again",
		"streaming = 'yes'":                               "must be true or false",
		"concurrency = true":                              "needs a value",
		"concurrency = 1.5":                               "must be a whole number",
		"concurrency = 0":                                 "must be 1 or more",
		"request_count = [1, 2]":                          "is a list, but one value is needed",
		"extra_args = ['--x']":                            "must be a text",
		"extra_args = '--ui simple'":                      "bench_cmd_args.ui: profllm sets this option itself",
		"extra_args = '-u http://elsewhere'":              "profllm sets this option itself",
		"extra_args = '--num-profile-runs 3'":             "set repeat",
		"extra_args = '--concurrency'":                    "--concurrency has no value",
		"extra_args = '--isl 3'\nisl = 4":                 "--isl is a key of bench_cmd_args too",
		"concurrency = inf":                               "must be a whole number",
		"concurrency = 9223372036854775807":               "must be a whole number up to 1e+12",
		"request_rate = inf":                              "request_rate is the float +Inf, must be a number above",
		"request_rate = -1":                               "must be a number above 0",
		"benchmark-duration = nan":                        "benchmark-duration is the float NaN.0, must be a number",
		"request_count = 1e300":                           "must be a whole number",
		"extra_args = \"'x\"":                             "is not closed",
		"extra_args = ''\nextra-args = ''":                "is extra_args again",
		"server_metrics = ''\nserver-metrics=1":           "server-metrics is server_metrics again",
		"server_metrics = true\nno_server_metrics = true": "server_metrics and no_server_metrics",
	} {
		_, err := newLoad(t, aiperf.Name, text)
		require.Error(t, err, text)
		require.Contains(t, hintsInline(err), want, text)
		require.Contains(t, err.Error(), "t.toml:", text)
	}
	_, err := newLoad(t, aiperf.Name, "new_option = 3")
	require.NoError(t, err, "unchecked")
}

// hintsInline is an error without the line of the file that it shows.
func hintsInline(err error) string {
	return regexp.MustCompile(`\n(?:.*\n)*?\thint: `).ReplaceAllString(err.Error(), "; ")
}

func TestExpect(t *testing.T) {
	const synthetic = "isl = 64\nosl = 32\nextra_inputs = {ignore_eos = true}\n"
	for text, want := range map[string]plan.Expect{
		"":                {NumPrompts: 10, Concurrency: 1, InputTokens: 550},
		"concurrency = 8": {NumPrompts: 16, Concurrency: 8, InputTokens: 550},
		synthetic:         {NumPrompts: 10, Concurrency: 1, InputTokens: 64, OutputTokens: 32, IgnoreEOS: true},
		synthetic + "use_server_token_count = true": {NumPrompts: 10, Concurrency: 1, OutputTokens: 32, IgnoreEOS: true},
		synthetic + "use_server_token_count = true\nendpoint_type = 'completions'": {NumPrompts: 10, Concurrency: 1,
			InputTokens: 64, OutputTokens: 32, IgnoreEOS: true},
		"osl = 32":                                                 {NumPrompts: 10, Concurrency: 1, InputTokens: 550},
		synthetic + "isl_stddev = 2":                               {NumPrompts: 10, Concurrency: 1, OutputTokens: 32, IgnoreEOS: true},
		synthetic + "osl_stddev = 2":                               {NumPrompts: 10, Concurrency: 1, InputTokens: 64},
		synthetic + "warmup_request_count=3":                       {NumPrompts: 10, Concurrency: 1, InputTokens: 64, OutputTokens: 32, IgnoreEOS: true, Warmups: 3},
		"request_rate = 2.5\nnum_requests=7":                       {NumPrompts: 7, InputTokens: 550, RequestRate: 2.5},
		"benchmark_duration = 5":                                   {Concurrency: 1, InputTokens: 550},
		"request_count = 5\npublic_dataset = 'sharegpt'":           {NumPrompts: 5},
		"input_file = 'x'\ncustom_dataset_type = 'mooncake_trace'": {},
		"num_sessions = 4\nsession_turns_mean = 3":                 {NumPrompts: 12, Concurrency: 1},
		"goodput = 'time_to_first_token:5 inter_token_latency:6'":  {NumPrompts: 10, Concurrency: 1, InputTokens: 550, Goodput: map[string]float64{"ttft": 5, "tpot": 6}},
		"goodput = 'output_token_throughput_per_user:6'":           {NumPrompts: 10, Concurrency: 1, InputTokens: 550},
		"osl = 3\nextra_inputs = 'ignore_eos:true'":                {NumPrompts: 10, Concurrency: 1, InputTokens: 550, OutputTokens: 3, IgnoreEOS: true},
		"osl = 3\nextra_inputs = '{\"ignore_eos\": true}'":         {NumPrompts: 10, Concurrency: 1, InputTokens: 550, OutputTokens: 3, IgnoreEOS: true},
		"osl = 3\nextra_inputs = '{\"ignore_eos\": false}'":        {NumPrompts: 10, Concurrency: 1, InputTokens: 550},
		"endpoint_type = 'embeddings'":                             {NumPrompts: 10, Concurrency: 1},
	} {
		l, err := newLoad(t, aiperf.Name, text)
		require.NoError(t, err)
		got := l.Expect()
		got.SharedInput = nil
		require.Equal(t, want, got, text)
	}
}

// How much of each prompt the prefix cache of a server may hold.
func TestSharedInput(t *testing.T) {
	for text, want := range map[string]*float64{
		"": new(0.0), "isl = 75\nshared_system_prompt_length = 25": new(0.25),
		"isl = 75\nnum_prefix_prompts = 1\nprefix_prompt_length = 25": new(0.25),
		"num_prefix_prompts = 2\nprefix_prompt_length = 25":           nil,
		"request_count = 20\nnum_dataset_entries = 10":                nil,
		"request_count = 20\nnum_dataset_entries = 20":                new(0.0),
		"benchmark_duration = 3":                                      nil, "public_dataset = 'sharegpt'": nil,
	} {
		l, err := newLoad(t, aiperf.Name, text)
		require.NoError(t, err)
		require.Equal(t, want, l.Expect().SharedInput, text)
	}
}
