package planner_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/planner"
	"github.com/profllm/profllm/pkg/scenario"
)

// A key that the chosen engine, client or kind of test cannot use is an error, with its
// place and what to write; the near miss beside it loads.
//
// covers: PL-D28
func TestInapplicableKeys(t *testing.T) {
	const (
		vllm   = "test_template_name = \"vllm\"\nclient = \"vllm\"\n[Tests.cmd_args]\ndecode.tensor_parallel_size = 1\n"
		own    = "test_template_name = \"vllm\"\nclient = \"profllm\"\n[Tests.cmd_args]\ndecode.tensor_parallel_size = 1\n"
		sglang = "test_template_name = \"sglang\"\n[Tests.cmd_args]\nmodel = \"m\"\ndecode.tp_size = 1\n"
		bash   = "test_template_name = \"BashCmd\"\n[Tests.cmd_args]\ncmd = \"true\"\n"
		eval   = "[Tests.semantic_eval_cmd_args]\n"
	)
	for name, tt := range map[string]struct{ test, want, near string }{
		"SGLang's argument of vLLM's client":     {vllm + "[Tests.bench_cmd_args]\nrandom_input = 5", `s.toml:9:1: bench_cmd_args.random_input is an argument of client "sglang"` + "\n\thint: write random_input_len", vllm + "[Tests.bench_cmd_args]\nrandom_input_len = 5"},
		"with dashes":                            {vllm + "[Tests.bench_cmd_args]\nflush-cache = true", `s.toml:9:1: bench_cmd_args.flush-cache is an argument of client "sglang"` + "\n\thint: remove it, or set client = \"sglang\"", vllm + "[Tests.bench_cmd_args]\ngoodput = \"ttft:100\""},
		"vLLM's argument of SGLang's client":     {sglang + "[Tests.bench_cmd_args]\nnum_warmups = 5", `s.toml:9:1: bench_cmd_args.num_warmups is an argument of client "vllm"` + "\n\thint: write warmup_requests", sglang + "[Tests.bench_cmd_args]\nwarmup_requests = 5"},
		"without a counterpart":                  {sglang + "[Tests.bench_cmd_args]\nburstiness = 2.0", `s.toml:9:1: bench_cmd_args.burstiness is an argument of client "vllm"` + "\n\thint: remove it", sglang + "[Tests.bench_cmd_args]\nflush_cache = true"},
		"a client that the release lacks":        {vllm + "engine_version = \"0.7\"\n[Tests.bench_cmd_args]\nnum_prompts = 5", "s.toml:9:8: vLLM 0.7 has no `vllm bench serve`, which came in 0.8.0\n\thint: set client = \"profllm\"", own + "engine_version = \"0.7\"\n[Tests.bench_cmd_args]\nnum_prompts = 5"},
		"no argument of profllm's client":        {own + "[Tests.bench_cmd_args]\nnum_warmup = 5", `s.toml:9:1: bench_cmd_args.num_warmup is not an argument of client "profllm"` + "\n\thint: did you mean \"num_warmups\"?", own + "[Tests.bench_cmd_args]\nnum-warmups = 5"},
		"SGLang's option of a vLLM server":       {strings.ReplaceAll(vllm, "tensor_parallel_size", "tp_size"), "s.toml:7:8: decode.tp_size is an option of another engine; `vllm serve` has no such option\n\thint: write tensor_parallel_size", vllm},
		"vLLM's option of an SGLang server":      {sglang + "decode.max-model-len = 4096", "s.toml:8:8: decode.max-model-len is an option of another engine;", sglang + "decode.context_length = 4096"},
		"an evaluation's phase without one":      {vllm + "[[Tests.phases]]\nname = \"a\"\neval = true", "s.toml:8:9: test \"a\": phase \"a\" has eval = true, but the test has no evaluation\n\thint: add [Tests.semantic_eval_cmd_args]", vllm + eval + "[[Tests.phases]]\nname = \"a\"\neval = true"},
		"an evaluation's threshold without one":  {vllm + "[Tests.accept]\nquestions = 100", "s.toml:9:1: test \"a\": accept.questions is about an evaluation, but the test has none", vllm + eval + "[Tests.accept]\nquestions = 100"},
		"an evaluation's arguments elsewhere":    {vllm + "[Tests.bench_cmd_args]\nentrypoint = \"x\"\n[Tests.semantic_eval_cmd_args]\nnum_prompts = 5", "s.toml:11:1: unknown key \"num_prompts\"", vllm + "[Tests.semantic_eval_cmd_args]\ncli = \"--x\""},
		"thresholds of a test without a service": {bash + "[Tests.accept]\nlag_ms = 5", "test \"a\": a BashCmd test serves nothing, so accept has no effect\n\thint: remove it", bash},
		"phases of a test without a service":     {bash + "[[Tests.phases]]\nname = \"a\"", "a BashCmd test serves nothing, so phases has no effect", bash},
		"a load of a test without a service":     {bash + "[Tests.bench_cmd_args]\nnum_prompts = 5", "a BashCmd test serves nothing, so bench_cmd_args has no effect", bash},
		"prefill of a test without a service":    {bash + "prefill.tensor_parallel_size = 1", "s.toml:7:1: unknown key \"prefill\"", bash},
		"a sweep's settings without a sweep":     {vllm + "[Tests.sweep]\nmode = \"jobs\"", "s.toml:8:8: test \"a\" has [Tests.sweep], but no list, so it is not a sweep", vllm + "[Tests.bench_cmd_args]\nnum_prompts = [5, 6]\n[Tests.sweep]\nmode = \"jobs\""},
		"replicas without prefill":               {vllm + "decode.replicas = 2", "decode.replicas is 2, but there is no [cmd_args.prefill]", vllm + "decode.replicas = 1"},
	} {
		t.Run(name, func(t *testing.T) {
			check := func(test string) error {
				s, err := scenario.Load(scenario.File{Name: "s.toml",
					Data: []byte("name = \"s\"\n[[Tests]]\nid = \"a\"\n" + test + "\n")}, nil, scenario.HookFiles{})
				if err != nil {
					return err
				}
				return planner.Check(s.Tests[0])
			}
			require.ErrorContains(t, check(tt.test), tt.want)
			require.NoError(t, check(tt.near))
		})
	}
}
