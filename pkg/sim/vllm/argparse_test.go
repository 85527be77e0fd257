package vllm

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/sim/program"
)

// The messages are those of a real vLLM 0.32.0 for the same arguments.
func TestServeRefusesAsArgparse(t *testing.T) {
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
		_, err := checkServe(strings.Fields(args))
		require.EqualError(t, err, want, args)
		var stdout, stderr bytes.Buffer
		code := Serve(t.Context(),
			program.Process{Env: func(string) string { return "" }, Stdout: &stdout, Stderr: &stderr},
			strings.Fields(args))
		require.Equal(t, program.Usage, code, args)
		require.Contains(t, stderr.String(), "usage: vllm serve [model_tag] [options]\n"+want+"\n")
		require.Contains(t, stderr.String(), "profllm sim: ", "it says what it is")
	}
}

func TestServeTakes(t *testing.T) {
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
		got, err := checkServe(strings.Fields(args))
		require.NoError(t, err, args)
		require.Equal(t, want, strings.Join(got, " "), args)
	}
	c, flags, err := parseServe(func() []string {
		args, err := checkServe(strings.Fields("m -tp 4 --max-num-se 8 --served-model-name a b --no-enable-prefix-caching"))
		require.NoError(t, err)
		return args
	}())
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, c.Names)
	require.Equal(t, []int{4, 8}, []int{c.TP, c.MaxSeqs})
	require.False(t, c.Prefix)
	require.Equal(t, []string{"tensor-parallel-size", "max-num-seqs", "served-model-name", "enable-prefix-caching"},
		flags.Names)
}

// An engine of another release has other flags.
func TestServeTakesEveryFlag(t *testing.T) {
	run := func(flags string) (int, string) {
		var stdout, stderr bytes.Buffer
		code := Serve(t.Context(), program.Process{
			Stdout: &stdout, Stderr: &stderr,
			Env: func(name string) string { return map[string]string{"PROFLLM_SIM_FLAGS": flags}[name] },
		}, strings.Fields("m --enable-reasoning --port 99999999"))
		return code, stdout.String() + stderr.String()
	}
	code, text := run("")
	require.Equal(t, program.Usage, code)
	require.Contains(t, text, "PROFLLM_SIM_FLAGS=any")
	code, text = run("any")
	require.Equal(t, program.Failed, code, "by its port")
	require.Contains(t, text, "non-default args: m --enable-reasoning --port 99999999")
	code, text = run("some")
	require.Equal(t, program.Usage, code)
	require.Contains(t, text, `PROFLLM_SIM_FLAGS="some"`)
}

// Every option of the list is taken by its names with a value of its kind.
func TestServeOptions(t *testing.T) {
	list := serveOptions()
	require.Len(t, list, 316)
	for _, o := range list {
		value := map[string]string{"int": "1", "float": "0.5", "human_readable_int": "1k",
			"human_readable_int_or_auto": "auto", "*": "x"}[o.kind]
		require.NotEmpty(t, value, "%v", o)
		require.Contains(t, []string{"0", "1", "?", "+"}, o.nargs)
		if o.choices != nil {
			value = o.choices[0]
		}
		for _, name := range o.names {
			args := []string{"m", name}
			if name == "--model" {
				args = args[1:] // else there would be two
			}
			if o.nargs != "0" {
				args = append(args, value)
			}
			_, err := checkServe(args)
			require.NoError(t, err, "%v", args)
		}
	}
}

func FuzzCheckServe(f *testing.F) {
	for _, s := range []string{
		"m --port 1", "--model", "--model=", "-O", "-O=", "-cc.", "--.", "--=", "-", "--", "m --x.y+ 1", "-n", "-n2", "--max 1", "--served-model-name",
		"m -- --port", "--no-", "-O 3", "--model m --model n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		args, err := checkServe(strings.Split(line, " "))
		if err != nil || slices.ContainsFunc(args,
			func(arg string) bool { return strings.HasPrefix(arg, "--model=") }) {
			return // a second model would become the first
		}
		again, err := checkServe(args)
		require.NoError(t, err)
		require.Equal(t, args, again)
	})
}
