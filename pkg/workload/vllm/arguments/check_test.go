package arguments

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheck(t *testing.T) {
	for line, want := range map[string]string{
		"0.32.0 --dtype bfloat16":               "",
		"0.32.0 --dtype bfloat17":               "0.32.0: argument --dtype: invalid choice: 'bfloat17' (choose from 'auto', 'bfloat16', 'float', 'float16', 'float32', 'half') | did you mean bfloat16?",
		"- --dtype bfloat17":                    "0.33.0: argument --dtype: invalid choice: 'bfloat17' (choose from 'auto', 'bfloat16', 'float', 'float16', 'float32', 'half') | did you mean bfloat16?",
		"0.11 --max-num-seqs lots":              "0.11.2: argument --max-num-seqs: invalid int value: 'lots' | ",
		"v0.32.0 --max-num-seqs 0":              "0.32.0: argument --max-num-seqs: input should be greater than or equal to 1, not 0 | ",
		"0.32 --gpu-memory-utilization=1.5":     "0.32.0: argument --gpu-memory-utilization/--device-memory-utilization: input should be less than or equal to 1, not 1.5 | ",
		"0.32.0 --guided-decoding-backend x":    "0.32.0: unrecognized arguments: --guided-decoding-backend x | vLLM 0.11.0 removed it: use --structured-outputs-config.backend",
		"0.10.2 --guided-decoding-backend auto": "",
		"- --max-num-seqs 0":                    "0.33.0: argument --max-num-seqs: input should be greater than or equal to 1, not 0 | vLLM 0.11.0 takes it: set cmd_args.engine_version if your release does",
		"- --guided-decoding-backend auto":      "",
		"0.10 --structured-outputs-config {}":   "0.10.2: unrecognized arguments: --structured-outputs-config {} | vLLM has it since 0.11.0",
		"0.11.0 --max-seq-len-to-capture 8":     "0.11.0: unrecognized arguments: --max-seq-len-to-capture 8 | vLLM 0.11.0 removed it: remove it here as well",
		"0.11.1 --max-seq-len-to-capture 8":     "0.11.1: unrecognized arguments: --max-seq-len-to-capture 8 | vLLM 0.11.0 removed it: use --max-cudagraph-capture-size",
		"0.32.0 --swap-space 4":                 "0.32.0: unrecognized arguments: --swap-space 4 | vLLM 0.18.0 removed it: remove it here as well",
		"0.32.0 --no-headless":                  "0.32.0: unrecognized arguments: --no-headless | --headless has no negation: remove it",
		"0.32.0 --warp-drive 9":                 "0.32.0: unrecognized arguments: --warp-drive 9 | ",
		"0.99 --warp-drive 9":                   "",
		"0.99 --dtype bfloat17":                 "0.33.0: argument --dtype: invalid choice: 'bfloat17' (choose from 'auto', 'bfloat16', 'float', 'float16', 'float32', 'half') | did you mean bfloat16?",
		"0.99 --swap-space 4":                   "0.33.0: unrecognized arguments: --swap-space 4 | vLLM 0.18.0 removed it: remove it here as well",
		"0.15.0 --swap-space 4":                 "",
		"0.1.0 --warp-drive 9":                  "",
		"nightly --swap-space 4":                "0.33.0: unrecognized arguments: --swap-space 4 | vLLM 0.18.0 removed it: remove it here as well",
		"nightly --warp-drive 9":                "",
		"0.32.0 --compilation-config {":         "0.32.0: argument --compilation-config/-cc: invalid json value: '{' | ",
	} {
		words := strings.Fields(line)
		version := strings.TrimPrefix(words[0], "-")
		_, r := Serve.Check(version, words[1], words[2:]...)
		if want == "" {
			require.Nil(t, r, line)
			continue
		}
		require.NotNil(t, r, line)
		require.Equal(t, want, r.Release+": "+r.Words+" | "+r.Hint, line)
		require.Equal(t, words[1] == "--warp-drive", r.Unknown, line)
	}
}

func TestAt(t *testing.T) {
	for version, want := range map[string]string{
		"0.32.0": "0.32.0", "v0.10.2": "0.10.2", "0.32.0+cpu": "0.32.0", "0.11": "0.11.0 0.11.1 0.11.2",
		"0.15.0": "0.14.1 0.16.0", "0.6.6.post1": "0.6.0 0.7.0", "0.99": "0.33.0 newer", "1.0": "0.33.0 newer",
		"0.5.4": "", "": "", "latest": "", Nightly: "0.33.0 newer",
	} {
		list, newer := Serve.At(version)
		var got []string
		for _, r := range list {
			got = append(got, r.Version)
		}
		if newer {
			got = append(got, "newer")
		}
		require.Equal(t, want, strings.Join(got, " "), version)
		require.Contains(t, append(got, ""), Serve.Nearest(version), version)
	}
}

func TestFind(t *testing.T) {
	for _, name := range []string{"--tensor-parallel-size", "tensor_parallel_size", "-tp", "tp", "tensor-parallel-size"} {
		o, ok := Serve.Find(name)
		require.True(t, ok, name)
		require.Equal(t, "--tensor-parallel-size", o.Name)
	}
	_, ok := Serve.Find("--tensor-paralel-size")
	require.False(t, ok)
}

func BenchmarkCheck(b *testing.B) {
	for b.Loop() {
		Serve.Check("0.32.0", "--dtype", "bfloat16")
	}
}

// Whatever differs between two forms of an option is told.
func TestChangesTellEveryDifference(t *testing.T) {
	for _, o := range Serve.Options() {
		for i := 1; i < len(o.Forms); i++ {
			if o.Forms[i-1].Until == o.Forms[i].Since {
				require.NotEmpty(t, differences(o.Forms[i-1], o.Forms[i]), "%s %s", o.Name, o.Forms[i].Since)
			}
		}
	}
	changes := Serve.Changes(exactly("0.10.2"), exactly("0.11.0"))
	require.Contains(t, changes, Change{"--guided-decoding-backend", "removed", []string{"use --structured-outputs-config.backend"}})
	require.Contains(t, changes, Change{"--video-pruning-rate", "added", nil})
	require.Contains(t, changes, Change{"--kv-cache-dtype", "changed", []string{"choice bfloat16 added"}})
	_, err := Serve.One("0.15.0")
	require.EqualError(t, err, "the catalogue has no vLLM 0.15.0: the releases beside it are 0.14.1 and 0.16.0")
	_, err = Serve.One("0.99")
	require.EqualError(t, err, "the catalogue has no vLLM 0.99: it has 0.6.0 to 0.33.0")
}
