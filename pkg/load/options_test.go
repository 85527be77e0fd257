package load

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/load/dataset"
)

// covers: LBEN-1
func TestFlagsAreVLLMs(t *testing.T) {
	var known []struct {
		Flags   []string
		Default any
	}
	readSample(t, "vllm-bench-serve-flags.json", &known)
	defaults := map[string]any{}
	for _, k := range known {
		for _, f := range k.Flags {
			defaults[f] = k.Default
		}
	}
	flags := 0
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Options]()) {
		name := f.Tag.Get("name")
		if f.Anonymous {
			continue
		}
		if name == "" {
			require.Equal(t, "-", f.Tag.Get("kong"), "%s is no flag", f.Name)
			continue
		}
		if _, ours := f.Tag.Lookup("ours"); ours {
			continue
		}
		flags++
		if strings.HasPrefix(name, "sonnet-") || strings.HasPrefix(f.Tag.Get("help"), "Refused:") {
			continue // of releases before 0.32; without a default, since it is refused
		}
		want, ok := defaults["--"+name]
		require.True(t, ok, "vllm bench serve has no --%s", name)
		have, set := f.Tag.Lookup("default")
		switch {
		case !set || have == "":
			require.Contains(t, []any{nil, false}, want, "--%s", name)
		case f.Type.Kind() == reflect.Float64 && have != "inf":
			require.Equal(t, fmt.Sprintf("%.1f", want), have, "--%s", name)
		case f.Type == reflect.TypeFor[dataset.Limits]():
			raw, err := json.Marshal(want)
			require.NoError(t, err)
			require.JSONEq(t, string(raw), have)
		default:
			require.Equal(t, fmt.Sprint(want), have, "--%s", name)
		}
	}
	require.Greater(t, flags, 50)
}

func parse(t *testing.T, line string) Options {
	t.Helper()
	o, err := ParseArgs(strings.Fields(line))
	require.NoError(t, err)
	require.NoError(t, o.Validate())
	return o
}

func TestParseArgs(t *testing.T) {
	o := parse(t, "")
	require.EqualValues(t, "openai", o.Backend)
	require.True(t, math.IsInf(o.RequestRate, 1))
	require.Equal(t, 1000, o.NumPrompts)
	require.Nil(t, o.MaxConcurrency)
	require.Nil(t, o.Temperature)
	require.Equal(t, "http://127.0.0.1:8000/v1/completions", o.url())

	o = parse(t, "--backend vllm --num_prompts 64 --goodput ttft:100 tpot:20 --metadata a=b=c d=e --top-k -1 "+
		"--temperature 0 --random-range-ratio {\"input\":0.5,\"output\":0} --host ::1 --port 81 --metric-percentiles 50,99.9")
	require.Equal(t, 64, o.NumPrompts)
	require.Equal(t, List{"ttft:100", "tpot:20"}, o.Goodput)
	require.Equal(t, -1, *o.TopK)
	require.Zero(t, *o.Temperature)
	require.Equal(t, dataset.RangeRatio{Input: 0.5}, o.RandomRangeRatio)
	require.Equal(t, "http://[::1]:81/v1/completions", o.url())
	pairs, err := o.Metadata.pairs("=")
	require.NoError(t, err)
	require.Equal(t, []Pair{{"a", "b=c"}, {"d", "e"}}, pairs)

	o = parse(t, "--backend openai-chat --base-url https://host/prefix/ --input-len 7 --goodput=ttft:1 --header a=b")
	require.Equal(t, "https://host/prefix/v1/chat/completions", o.url())
	require.Equal(t, 7, o.RandomInput())
}

func TestOptionsThatAreRefused(t *testing.T) {
	tests := map[string]string{ // command line: part of the complaint
		"--dataset-path x.json":                          "reads no file",
		"--num-prompts 0":                                "must be 1 or more",
		"--request-rate 0":                               "must be above 0",
		"--request-rate nan":                             "must be above 0",
		"--burstiness -1":                                "must be above 0",
		"--max-concurrency 0":                            "--max-concurrency",
		"--random-input-len 0":                           "makes an empty prompt",
		"--random-output-len 0":                          "--random-output-len",
		"--random-range-ratio 1":                         "[0, 1)",
		"--random-range-ratio {\"in\":0}":                "unknown field",
		"--goodput ttfb:1":                               "ttfb",
		"--goodput ttft:-1":                              "not a number of ms, 0 or more",
		"--goodput ttft":                                 "KEY:VALUE",
		"--metadata a":                                   "KEY=VALUE",
		"--header a":                                     "KEY=VALUE",
		"--percentile-metrics ttft,foo":                  `unknown family "foo"`,
		"--metric-percentiles 101":                       "0 to 100",
		"--base-url ftp://h":                             "not an http or https URL",
		"--backend openai-chat --endpoint /v1/responses": "has to end with chat/completions",
		"--backend tgi":                                  "must be one of",
		"--backend openai-audio":                         "makes no audio; vLLM's own client has it",
		"--backend infinity-embeddings-clip":             "makes no images",
		"--backend vllm-rerank":                          "needs a query and documents",
		"--dataset-name random-rerank":                   "for backends that embed or rank",
		"--dataset-name random-mm":                       "use --backend openai-chat, not openai",
		"--backend openai-responses --dataset-name timed_trace --dataset-path x":               "sends token ids",
		"--backend vllm-rerank --endpoint /v1/score":                                           "has to end with rerank",
		"--backend openai-responses --endpoint /v1/chat":                                       "has to end with responses",
		"--backend openai-chat --logprobs 2":                                                   "set --extra-body",
		"--backend vllm-pooling --goodput e2el:1":                                              "vLLM's client has none",
		"--backend vllm-rerank --dataset-name random-rerank --probe-request-rate 1":            "no request to rank",
		"--backend openai-embeddings --extra-body {\"encoding_format\":\"bytes_only\"}":        "not as bytes",
		"--chat-template-kwargs {\"a\":1}":                                                     "nothing applies a chat template to prompts of random",
		"--probe-request-rate -1":                                                              "0 or more",
		"--lora-assignment round-robin":                                                        "no effect without --lora-modules",
		"--lora-assignment least":                                                              "must be one of",
		"--lora-modules= ":                                                                     "empty name",
		"--conversation-turn-mean 3":                                                           "need --backend openai-chat",
		"--conversation-turn-mean 0":                                                           "must be 1 or more",
		"--conversation-num 3":                                                                 "need --conversation-file",
		"--conversation-turn-delay-mean -1":                                                    "from 0 to",
		"--backend openai-chat --conversation-file x --conversation-turn-mean 2":               "says how many turns",
		"--timeline-itl-thresholds 25":                                                         "want two numbers",
		"--timeline-itl-thresholds 50,25":                                                      "want two numbers",
		"--plot-dataset-stats":                                                                 "has no name",
		"--backend vllm-pooling --plot-timeline":                                               "draws tokens",
		"--extra-body []":                                                                      "not a JSON object",
		"--extra-body {}{}":                                                                    "text after",
		"--extra-body {\"a\":}":                                                                "invalid character",
		"--ramp-up-strategy linear":                                                            "needs --ramp-up-start-rps",
		"--ramp-up-start-rps 1":                                                                "need --ramp-up-strategy",
		"--ramp-up-strategy linear --ramp-up-start-rps 0 --ramp-up-end-rps 5":                  "must be 1 or more",
		"--ramp-up-strategy linear --ramp-up-start-rps 6 --ramp-up-end-rps 5":                  "above --ramp-up-end-rps",
		"--ramp-up-strategy linear --ramp-up-start-rps 1 --ramp-up-end-rps 5 --request-rate 3": "leave out --request-rate",
		"--result-filename x.json":                                                             "no effect",
		"--no-such-flag":                                                                       "unknown flag",
		"--model --port 80":                                                                    "expected string value",
	}
	for line, want := range tests {
		t.Run(line, func(t *testing.T) {
			o, err := ParseArgs(strings.Fields(line))
			if err == nil {
				err = o.Validate()
			}
			require.ErrorContains(t, err, want)
		})
	}
	o := parse(t, "")
	o.NumPrompts, o.Burstiness = 0, 0
	require.ErrorContains(t, o.Validate(), "--num-prompts")
	require.ErrorContains(t, o.Validate(), "--burstiness")
	o = parse(t, "")
	o.Header = List{"X=a\r\nEvil: 1"}
	require.ErrorContains(t, o.Validate(), "line break")
}

// FuzzParseArgs checks that no command line makes the reader panic, and that what it accepts
// can be used.
func FuzzParseArgs(f *testing.F) {
	f.Add("--goodput ttft:1 tpot:2 --metadata a=b")
	f.Add("--extra-body {\"a\":[1,{}]} --top-k -1")
	f.Add("--random-range-ratio {\"input\":0.1} --request-rate 1e300")
	f.Add("--header a=b --header")
	f.Fuzz(func(t *testing.T, line string) {
		o, err := ParseArgs(strings.Fields(line))
		if err != nil || o.Validate() != nil {
			return
		}
		o.NumPrompts, o.RandomInputLen, o.RandomPrefixLen = 2, 3, 0
		o.InputLen = nil
		requests := o.Random(0)
		if o.chat() {
			requests[0].Prompt, requests[1].Prompt = dataset.UserMessage("a"), dataset.UserMessage("b")
		}
		b := bodiesOf(&o, "m", requests)
		require.True(t, json.Valid(b.render(nil, 1)), "%s", b.render(nil, 1))
	})
}

// A command line leaves nothing behind for the next one, not even one that is refused.
func TestParseArgsAnew(t *testing.T) {
	want, err := ParseArgs(nil)
	require.NoError(t, err)
	full := []string{"--num-prompts=5", "--temperature=0.5", "--extra-body={\"a\":1}", "--goodput", "ttft:1",
		"--header", "a=b", "--ignore-eos", "--random-range-ratio=0.5", "--top-k=3"}
	first, err := ParseArgs(full)
	require.NoError(t, err)
	again, err := ParseArgs(full)
	require.NoError(t, err)
	require.Equal(t, first, again)
	_, err = ParseArgs([]string{"--num-prompts=7", "--temperature=0.1", "--no-such"})
	require.Error(t, err)
	got, err := ParseArgs(nil)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Equal(t, 0.5, *first.Temperature, "what an earlier one returned stays")
	require.Equal(t, again, first)
}

// The flags of a command line replace options, and what it does not name stays.
func TestWith(t *testing.T) {
	base, err := ParseArgs([]string{"--model", "m", "--request-rate", "3", "--metadata", "a=1"})
	require.NoError(t, err)
	o, err := base.With([]string{"--request-rate", "inf", "--save-result", "--metadata", "b=2", "--max_concurrency=4"})
	require.NoError(t, err)
	want := base
	want.RequestRate, want.SaveResult, want.MaxConcurrency = math.Inf(1), true, new(4)
	want.Metadata = List{"a=1", "b=2"}
	require.Equal(t, want, o)
	_, err = base.With([]string{"--no-such-flag"})
	require.Error(t, err)
}
