package collect_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/tier"
)

// headlineKeys are for real files of each client some of the keys that its numbers stand
// behind, as a pattern that ends before the value.
var headlineKeys = []struct {
	client, from, to string
	keys             []string
}{
	{"vllm", "vllmserve/testdata/real/serve.json", "vllm-bench.json",
		[]string{`"request_throughput": `, `"output_throughput": `, `"mean_ttft_ms": `, `"p99_ttft_ms": `,
			`"mean_tpot_ms": `, `"total_output_tokens": `}},
	{"sglang", "sglang/testdata/0.4.3.jsonl", "sglang-bench.jsonl",
		[]string{`"request_throughput": `, `"output_throughput": `, `"mean_ttft_ms": `, `"p99_itl_ms": `,
			`"mean_e2e_latency_ms": `}},
	{"aiperf", "aiperf/testdata/profile_export_aiperf.json", "profile_export_aiperf.json",
		[]string{`"request_throughput": (?s:[^}]*?)"avg": `, `"output_token_throughput": (?s:[^}]*?)"avg": `,
			`"time_to_first_token": (?s:[^}]*?)"avg": `, `"time_to_first_token": (?s:[^}]*?)"p99": `}},
	{"inference-perf", "inferenceperf/testdata/stages/stage_0_lifecycle_metrics.json", "stage_0_lifecycle_metrics.json",
		[]string{`"requests_per_sec": `, `"output_tokens_per_sec": `, `"time_to_first_token": (?s:[^}]*?)"mean": `,
			`"request_latency": (?s:[^}]*?)"p99": `}},
	{"vllm latency", "vllmoffline/testdata/real/latency.json", "latency.json", []string{`"avg_latency": `, `"99": `}},
	{"vllm throughput", "vllmoffline/testdata/real/throughput.json", "throughput.json",
		[]string{`"requests_per_second": `, `"tokens_per_second": `, `"elapsed_time": `}},
	{"vllm startup", "vllmoffline/testdata/real/startup.json", "startup.json", []string{`"avg_cold_startup_time": `, `"avg_warm_startup_time": `}},
	{"gsm8k", "gsm8k/testdata/vllm-gsm8k.json", "vllm-gsm8k.json", []string{`"accuracy": `, `"invalid_rate": `}},
	{"lm-eval", "lmeval/testdata/lm_eval_gsm8k.json", "results_2026.json", []string{`"exact_match,strict-match": `, `"exact_match,flexible-extract": `}},
}

// A value that is no number, or none that there can be, never passes for a number that
// is not there.
//
// covers: PL-V1
func TestUnreadableNumbers(t *testing.T) {
	tier.Alone(t)
	for _, c := range headlineKeys {
		data, err := os.ReadFile("../bench/" + c.from)
		require.NoError(t, err)
		honest := filepath.Join(t.TempDir(), c.client)
		write(t, honest, c.to, string(data))
		r := only(t, collector(t), honest, nil)
		require.NotEqual(t, result.Fail, r.Validity.Check("metrics-missing").Outcome, "%s: %s", c.client,
			r.Validity.Check("metrics-missing").Detail)
		require.NotEqual(t, result.Fail, r.Validity.Check("files-missing").Outcome, c.client)
		for _, key := range c.keys {
			at := regexp.MustCompile(`(` + key + `)(-?[0-9][^,}\s]*)`)
			require.Regexp(t, at, string(data), c.client)
			for _, value := range []string{`"x"`, `[1]`, `true`, `{}`, `1e400`, `-1`, `NaN`} {
				dir := filepath.Join(t.TempDir(), "planted")
				write(t, dir, c.to, at.ReplaceAllString(string(data), "${1}"+value))
				r := only(t, collector(t), dir, nil)
				require.False(t, r.Validity.Valid, "%s: %s%s\n%v", c.client, key, value, r.Warnings)
			}
		}
	}
}

// A key that is there twice, with different values, is believed in neither.
//
// covers: PL-V8
func TestKeysTwice(t *testing.T) {
	tier.Alone(t)
	for _, c := range headlineKeys {
		data, err := os.ReadFile("../bench/" + c.from)
		require.NoError(t, err)
		for _, key := range c.keys {
			at := regexp.MustCompile(`(` + key + `)(-?[0-9][^,}\s]*)`)
			require.Regexp(t, at, string(data), c.client)
			name := key[strings.LastIndex(strings.TrimSuffix(key, `": `), `"`):]
			dir := filepath.Join(t.TempDir(), "planted")
			write(t, dir, c.to, at.ReplaceAllString(string(data), "${1}7, "+name+"${2}"))
			r := only(t, collector(t), dir, nil)
			require.False(t, r.Validity.Valid, "%s: %s\n%v", c.client, key, r.Warnings)
		}
	}
}

// A file of counts alone, or one without throughput or latency, is no result.
//
// covers: PL-V1
func TestAbsentHeadlines(t *testing.T) {
	const counts = `"num_prompts": 64, "completed": 64, "failed": 0, "duration": 2.0, "total_input_tokens": 640, "total_output_tokens": 640`
	for name, c := range map[string]struct {
		more string
		bad  bool
	}{
		"counts alone":            {"", true},
		"throughput alone":        {`, "request_throughput": 32.0, "output_throughput": 320.0`, true},
		"latency alone":           {`, "mean_ttft_ms": 12.0, "mean_tpot_ms": 3.0`, true},
		"null for a throughput":   {`, "request_throughput": null, "output_throughput": 320.0, "mean_ttft_ms": 12.0`, true},
		"no output throughput":    {`, "request_throughput": 32.0, "mean_ttft_ms": 12.0`, true},
		"TPOT without TTFT":       {`, "request_throughput": 32.0, "output_throughput": 320.0, "mean_tpot_ms": 3.0`, true},
		"what counts":             {`, "request_throughput": 32.0, "output_throughput": 320.0, "mean_ttft_ms": 12.0, "mean_tpot_ms": 3.0`, false},
		"answers of one token":    {`, "request_throughput": 32.0, "output_throughput": 320.0, "mean_ttft_ms": 12.0`, false},
		"answers that came whole": {`, "request_throughput": 32.0, "output_throughput": 320.0, "mean_e2el_ms": 12.0`, false},
	} {
		dir := filepath.Join(t.TempDir(), "planted")
		write(t, dir, "vllm-bench.json", "{"+counts+c.more+"}")
		r := only(t, collector(t), dir, nil)
		check := r.Validity.Check("metrics-missing")
		require.Equal(t, c.bad, check.Outcome == result.Fail, "%s: %s", name, check.Detail)
		require.Equal(t, c.bad, !r.Validity.Valid, "%s: %v", name, r.Validity.Words)
	}
}
