package arguments_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/workload/vllm/arguments"
)

// Words are values as a definition file has them: numbers where the option takes some or where they are
// written as they are printed, lists where the option takes several words.
func TestReader(t *testing.T) {
	place := source.Pos{File: "--serve-cmd"}
	serve := arguments.Reader{Pos: place, Program: arguments.Serve, Own: []string{"num_iters_warm"}}
	bench := arguments.Reader{Pos: place, Program: arguments.BenchServe}
	open := arguments.Reader{Pos: place, Program: arguments.BenchServe, Any: true}
	for line, c := range map[string]struct {
		of      arguments.Reader
		options map[string]any
		model   string
	}{
		"m --port=8001 -O2 --seed 1 --seed -2":   {serve, map[string]any{"port": int64(8001), "optimization_level": int64(2), "seed": int64(-2)}, "m"},
		"--revision 1.10 --num-iters-warm 3":     {serve, map[string]any{"revision": "1.10", "num_iters_warm": int64(3)}, ""},
		"--served-model-name 1.10 b":             {serve, map[string]any{"served_model_name": []any{"1.10", "b"}}, ""},
		"--no-enable-prefix-caching":             {serve, map[string]any{"enable_prefix_caching": false}, ""},
		"--compilation-config.mode 3":            {serve, map[string]any{"compilation_config.mode": int64(3)}, ""},
		"--request-rate 0.50 --burstiness 1e2":   {bench, map[string]any{"request_rate": 0.5, "burstiness": 100.0}, ""},
		"--request-rate inf --num-prompts 1_0":   {bench, map[string]any{"request_rate": "inf", "num_prompts": "1_0"}, ""},
		"--no-oversample --save-result":          {bench, map[string]any{"no_oversample": true, "save_result": true}, ""},
		"--processes 2 --goodput a:1 b:2 --x":    {open, map[string]any{"processes": int64(2), "goodput": []any{"a:1", "b:2"}, "x": true}, ""},
		"--no-seed --temperature 0.70 --y=0x10z": {open, map[string]any{"no_seed": true, "temperature": 0.7, "y": "0x10z"}, ""},
	} {
		options, model, err := c.of.Read(strings.Fields(line))
		require.NoError(t, err, line)
		require.Equal(t, c.options, options.Plain(), line)
		if c.model != "" {
			name, _ := model.Text()
			require.Equal(t, c.model, name)
		}
	}
	for line, c := range map[string]struct {
		of   arguments.Reader
		want string
	}{
		"m n":             {serve, `--serve-cmd: unexpected argument "n"`},
		"m --sed 1":       {serve, `did you mean "seed"?`},
		"--seed --port 1": {serve, "argument --seed: expected one argument"},
		"m":               {bench, `unexpected argument "m"`},
		"8":               {open, `"8" is no argument of vllm bench serve`},
		"--x 1 --x 2":     {open, "--x is given twice"},
	} {
		_, _, err := c.of.Read(strings.Fields(line))
		require.ErrorContains(t, err, c.want, line)
	}
}

func FuzzReader(f *testing.F) {
	f.Add("m --port=8001 -O2 --no-enable-prefix-caching --compilation-config.mode 3 -- -x 1")
	f.Fuzz(func(_ *testing.T, line string) {
		for _, r := range []arguments.Reader{{Program: arguments.Serve}, {Program: arguments.BenchServe, Any: true}} {
			_, _, _ = r.Read(strings.Fields(line))
		}
	})
}
