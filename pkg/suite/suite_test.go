package suite_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/suite"
)

// The runs of bench.sh, as its documentation lists them: the name, then input, output, rate,
// concurrency and prompts; - is what a run does not set.
//
// covers: BEN-1
func TestBenchmarkTypes(t *testing.T) {
	equal(t, []string{suite.Bench}, suite.Parity, `
		throughput         random   512    256   inf  none 100
		prefill-in128      random   128    1     4    none 100
		prefill-in512      random   512    1     4    none 100
		prefill-in2048     random   2048   1     4    none 100
		prefill-in4096     random   4096   1     4    none 100
		prefill-in16384    random   16384  1     4    none 100
		decode-out128      random   128    128   4    none 100
		decode-out256      random   128    256   4    none 100
		decode-out512      random   128    512   4    none 100
		decode-out1024     random   128    1024  4    none 100
		latency-short      random   128    128   1    none 100
		latency-medium     random   512    256   1    none 100
		latency-long       random   4096   512   1    none 100
		concurrency-1      random   512    256   inf  1    100
		concurrency-4      random   512    256   inf  4    100
		concurrency-16     random   512    256   inf  16   100
		concurrency-64     random   512    256   inf  64   100
		concurrency-256    random   512    256   inf  256  100
		longctx-in4096     random   4096   100   1    none 50
		longctx-in16384    random   16384  100   1    none 50
		longctx-in32000    random   32000  100   1    none 50
		sharegpt-rateinf   sharegpt -      -     inf  none 100
		sharegpt-rate4     sharegpt -      -     4    none 100
		sonnet-rateinf     sonnet   -      -     inf  none 100
		sonnet-rate4       sonnet   -      -     4    none 100`)
	runs, _ := suite.Expand([]string{"sonnet"})
	for _, r := range runs {
		a := r.Arguments(source.Pos{}, suite.Enough)
		for key, want := range map[string]int64{"sonnet_input_len": 550, "sonnet_output_len": 150, "sonnet_prefix_len": 200} {
			n, _ := a.Get(key).Int()
			require.Equal(t, want, n, key)
		}
	}
	defaults := suite.Defaults(source.Pos{})
	require.Equal(t, map[string]any{"backend": "openai-chat", "endpoint": "/v1/chat/completions", "seed": int64(42)},
		defaults.Plain())
}

// The points of sweep.sh.
//
// covers: SWP-1
func TestSweeps(t *testing.T) {
	equal(t, []string{suite.Sweep}, suite.Parity, `
		sweep-rate-1          random 512   256  1   none 100
		sweep-rate-2          random 512   256  2   none 100
		sweep-rate-4          random 512   256  4   none 100
		sweep-rate-8          random 512   256  8   none 100
		sweep-rate-16         random 512   256  16  none 100
		sweep-rate-32         random 512   256  32  none 100
		sweep-rate-inf        random 512   256  inf none 100
		sweep-concurrency-1   random 512   256  inf 1    100
		sweep-concurrency-2   random 512   256  inf 2    100
		sweep-concurrency-4   random 512   256  inf 4    100
		sweep-concurrency-8   random 512   256  inf 8    100
		sweep-concurrency-16  random 512   256  inf 16   100
		sweep-concurrency-32  random 512   256  inf 32   100
		sweep-concurrency-64  random 512   256  inf 64   100
		sweep-concurrency-128 random 512   256  inf 128  100
		sweep-input-128       random 128   128  inf none 100
		sweep-input-256       random 256   128  inf none 100
		sweep-input-512       random 512   128  inf none 100
		sweep-input-1024      random 1024  128  inf none 100
		sweep-input-2048      random 2048  128  inf none 100
		sweep-input-4096      random 4096  128  inf none 100
		sweep-input-8192      random 8192  128  inf none 100
		sweep-input-16384     random 16384 128  inf none 100
		sweep-output-64       random 512   64   inf none 100
		sweep-output-128      random 512   128  inf none 100
		sweep-output-256      random 512   256  inf none 100
		sweep-output-512      random 512   512  inf none 100
		sweep-output-1024     random 512   1024 inf none 100
		sweep-output-2048     random 512   2048 inf none 100`)
}

// A concurrency is only reached with more prompts, so the counts grow unless parity is asked for.
//
// covers: BEN-8
func TestPromptCounts(t *testing.T) {
	equal(t, []string{"concurrency", "latency-short", "longctx-in4096"}, suite.Enough, `
		concurrency-1      random   512    256   inf  1    100
		concurrency-4      random   512    256   inf  4    100
		concurrency-16     random   512    256   inf  16   100
		concurrency-64     random   512    256   inf  64   320
		concurrency-256    random   512    256   inf  256  1280
		latency-short      random   128    128   1    none 100
		longctx-in4096     random   4096   100   1    none 50`)
}

// The label has the counts of the arguments that are sent, also those that the user replaces.
//
// covers: BEN-7
func TestLabel(t *testing.T) {
	label := func(name, over string) string {
		t.Helper()
		runs, unknown := suite.Expand([]string{name})
		require.Empty(t, unknown)
		require.Len(t, runs, 1)
		table, err := source.Parse("t.toml", []byte(over))
		require.NoError(t, err)
		text, _ := runs[0].Merged(table, source.Pos{}, suite.Enough).Get("label").Text()
		return text
	}
	require.Equal(t, "prefill-in512-out1-rate4-n100", label("prefill-in512", ""))
	require.Equal(t, "prefill-in512-out1-rate4-n7", label("prefill-in512", "num_prompts = 7"))
	require.Equal(t, "concurrency-in512-out256-rateinf-c256-n1280", label("concurrency-256", ""))
	require.Equal(t, "sonnet-in550-out150-prefix200-rateinf-n100", label("sonnet-rateinf", ""))
	require.Equal(t, "mine", label("sonnet-rateinf", "label = 'mine'"))
}

func TestNames(t *testing.T) {
	runs, unknown := suite.Expand([]string{"bench", "throughput", "sweep", "latency-long"})
	require.Empty(t, unknown)
	require.Len(t, runs, 25+29)
	seen := map[string]bool{}
	for _, r := range runs {
		require.False(t, seen[r.Name], r.Name)
		seen[r.Name] = true
	}
	_, unknown = suite.Expand([]string{"throughputs", "latency", "none"})
	require.Equal(t, []string{"throughputs", "none"}, unknown)
	require.Equal(t, `did you mean "throughput"?`, suite.Suggest("throughputs"))
	require.Equal(t, `did you mean "prefill-in512"?`, suite.Suggest("prefill-in51"))
}

// equal compares the runs with rows of a table.
func equal(t *testing.T, names []string, rule suite.Prompts, want string) {
	t.Helper()
	runs, unknown := suite.Expand(names)
	require.Empty(t, unknown)
	var got, rows []string
	for _, r := range runs {
		a := r.Arguments(source.Pos{}, rule)
		words := []string{r.Name}
		for _, key := range []string{"dataset_name", "random_input_len", "random_output_len", "request_rate",
			"max_concurrency", "num_prompts"} {
			word := "-"
			if v := a.Get(key); v != nil {
				word = fmt.Sprint(v.Plain())
			} else if key == "request_rate" {
				word = "inf"
			}
			words = append(words, word)
		}
		got = append(got, strings.Join(words, " "))
	}
	for line := range strings.Lines(want) {
		if f := strings.Fields(line); len(f) > 0 {
			rows = append(rows, strings.Join(f, " "))
		}
	}
	require.Equal(t, rows, got)
}

// The loads in place of vLLM's other scripts: each differs from the others of its suite in what it
// is about, and a load without it is among them.
func TestScripts(t *testing.T) {
	runs, unknown := suite.Expand([]string{suite.Scripts})
	require.Empty(t, unknown)
	var names []string
	seen := map[string]bool{}
	for _, r := range runs {
		names = append(names, r.Name)
		a := r.Merged(source.NewTable(source.Pos{}), source.Pos{}, suite.Enough)
		text := fmt.Sprint(a.Plain())
		require.False(t, seen[text], r.Name)
		seen[text] = true
		label, _ := a.Get("label").Text()
		require.False(t, seen[label], label)
		seen[label] = true
		if body, ok := a.Get("extra_body").Text(); ok {
			var form map[string]any
			require.NoError(t, json.Unmarshal([]byte(body), &form), "%s: %s", r.Name, body)
			require.Equal(t, false, form["ignore_eos"], "%s: a complete form would go on", r.Name)
			if kind := strings.TrimPrefix(r.Name, "structured-"); kind != "free" {
				require.Contains(t, form["structured_outputs"], kind)
			}
		}
	}
	require.Equal(t, strings.Fields("structured-free structured-json structured-regex structured-choice structured-grammar "+
		"documents-asked1 documents-asked2 documents-asked4 prefixes-100 prefixes-10 prefixes-1"), names)
	a := runs[6].Arguments(source.Pos{}, suite.Enough).Plain()
	require.EqualValues(t, 16, a["num_prompts"], "eight documents, each asked twice")
	require.EqualValues(t, 8, a["prefix_repetition_num_prefixes"])
}
