package arguments

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func exactly(version string) *Release {
	r, err := Serve.One(version)
	if err != nil {
		panic(err)
	}
	return r
}

// The messages are those of a real vLLM 0.32.0 for the same arguments.
func TestParseRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"m --tensor-paralel-size 2":                     "vllm: error: unrecognized arguments: --tensor-paralel-size 2",
		"m --tensor-parallel 2 --max-model 3 --nope":    "vllm: error: unrecognized arguments: --nope",
		"m --tensor-parallel-size two":                  "vllm serve: error: argument --tensor-parallel-size/-tp: invalid int value: 'two'",
		"m --dtype int3":                                "vllm serve: error: argument --dtype: invalid choice: 'int3' (choose from 'auto', 'bfloat16', 'float', 'float16', 'float32', 'half')",
		"m extra --enforce-eager":                       "vllm: error: unrecognized arguments: extra",
		"m --enforce-eager true":                        "vllm: error: unrecognized arguments: true",
		"m --enforce-eager=true":                        "vllm serve: error: argument --enforce-eager/--no-enforce-eager: ignored explicit argument 'true'",
		"m --port":                                      "vllm serve: error: argument --port: expected one argument",
		"m -tp x":                                       "vllm serve: error: argument --tensor-parallel-size/-tp: invalid int value: 'x'",
		"m -x 3":                                        "vllm: error: unrecognized arguments: -x 3",
		"m --no-port":                                   "vllm: error: unrecognized arguments: --no-port",
		"m --no-enforce-eager --nopex=3 --nopey 4 5":    "vllm: error: unrecognized arguments: --nopex=3 --nopey 4 5",
		"m --max-model-len 3q":                          "vllm serve: error: argument --max-model-len: invalid human_readable_int_or_auto value: '3q'",
		"m --middleware":                                "vllm serve: error: argument --middleware: expected one argument",
		"m --served-model-name --port 1":                "vllm serve: error: argument --served-model-name: expected at least one argument",
		"m --max-lora-rank 3":                           "vllm serve: error: argument --max-lora-rank: invalid choice: 3 (choose from 1, 8, 16, 32, 64, 128, 256, 320, 512)",
		"m --gpu-memory-utilization much":               "vllm serve: error: argument --gpu-memory-utilization/--device-memory-utilization: invalid float value: 'much'",
		"m --nope.x 4":                                  "vllm: error: unrecognized arguments: --nope.x 4",
		"m --disable-log-requests --enable-chunked 512": "vllm: error: unrecognized arguments: --disable-log-requests 512",
		"m --max 4": "vllm serve: error: ambiguous option: --max could match --max-log-len, --max-model-len, --max-logprobs, --max-parallel-loading-workers, --max-loras, " +
			"--max-lora-rank, --max-cpu-loras, --max-lora-cls-labels, --max-num-batched-tokens, --max-num-scheduled-tokens, --max-num-seqs, --max-num-active-seqs, " +
			"--max-num-queued-reqs, --max-num-queued-tokens, --max-cudagraph-capture-size",
	} {
		_, err := exactly("0.32.0").Parse(strings.Fields(args))
		require.EqualError(t, err, want, args)
	}
}

func TestParseTakes(t *testing.T) {
	for args, want := range map[string]string{
		"m":                                       "m",
		"--port 1 m --host=0.0.0.0":               "m --port=1 --host=0.0.0.0",
		"-tp 2 --model m --max_num_seqs 4":        "m --tensor-parallel-size=2 --max-num-seqs=4",
		"--model=m -O3 -cc.mode=none -ep":         "m --optimization-level=3 --compilation-config.mode=none --enable-expert-parallel",
		"m --no-enable-prefix -n2 --seed -1":      "m --no-enable-prefix-caching --nnodes=2 --seed=-1",
		"m --served-model-name a b --api-key k":   "m --served-model-name a b --api-key=k",
		"m --kv-transfer-config.kv_role=kv_both":  "m --kv-transfer-config.kv_role=kv_both",
		"m --max-model-len auto -q awq":           "m --max-model-len=auto --quantization=awq",
		"m --max-model-len 25.6k --hf-token":      "m --max-model-len=25.6k --hf-token",
		"m --kv-cache-memory-bytes 2G --port 1_0": "m --kv-cache-memory-bytes=2G --port=1_0",
	} {
		got, err := exactly("0.32.0").Parse(strings.Fields(args))
		require.NoError(t, err, args)
		require.Equal(t, want, strings.Join(got, " "), args)
	}
}

// Every option of every release is taken by all its names with a value of its kind.
//
// covers: CFG-1
func TestEveryOption(t *testing.T) {
	for _, p := range programs {
		everyOption(t, p)
	}
	require.Len(t, exactly("0.32.0").options, 316, "what its own parser has")
	client, err := BenchServe.One("0.32.0")
	require.NoError(t, err)
	require.Len(t, client.options, 101, "what its own parser has")
}

var programs = []*Program{Serve, BenchServe}

func everyOption(t *testing.T, p *Program) {
	for _, r := range p.releases() {
		r.load()
		require.Greater(t, len(r.options), 30, r.Version)
		for _, o := range r.options {
			value, known := map[string]string{"int": "1", "float": "0.5", "human_readable_int": "1k",
				"human_readable_int_or_auto": "auto", "json": "{}", "json-or-string": "x", "bool": "true", "": "x"}[o.Type]
			require.True(t, known, "%v", o)
			require.Contains(t, []string{"0", "", "?", "+", "*", "2"}, o.Values, "%v", o)
			if o.Choices != nil {
				value = o.Choices[0]
			}
			for _, name := range o.names {
				args := []string{"m", name}
				if name == "--model" || p != Serve {
					args = args[1:] // else there would be two
				}
				if o.Values != "0" {
					args = append(args, value)
				}
				if o.Values == "2" {
					args = append(args, value)
				}
				_, err := r.Parse(args)
				require.NoError(t, err, "%s: %v", r.Version, args)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"m --port 1", "--model", "--model=", "-O", "-O=", "-cc.", "--.", "--=", "-", "--", "m --x.y+ 1", "-n", "-n2", "--max 1", "--served-model-name",
		"m -- --port", "--no-", "-O 3", "--model m --model n",
		`m --kv-transfer-config {"kv_role":"x","a":{}}`, `m -cc.dynamic_shapes_config.evaluate_guards 7`, `m --speculative-config {"a-b":[]}`,
	} {
		f.Add(s)
	}
	client, err := BenchServe.One("0.19.0")
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, line string) {
		_, _ = client.option(strings.Split(line, " "))
		args, err := exactly("0.32.0").Parse(strings.Split(line, " "))
		if err != nil || slices.ContainsFunc(args,
			func(arg string) bool { return strings.HasPrefix(arg, "--model=") }) {
			return // a second model would become the first
		}
		again, err := exactly("0.32.0").Parse(args)
		require.NoError(t, err)
		require.Equal(t, args, again)
	})
}
