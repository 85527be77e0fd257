package collect_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/sim/program"
)

// What an engine said is compared with what its role was told, by names, model and
// version.
//
// covers: PL-V25, PL-D12
func TestServers(t *testing.T) {
	const said = `{"models": [{"id": "Qwen/Qwen3-8B", "root": "Qwen/Qwen3-8B"}], "version": "0.32.0"}`
	for name, c := range map[string]struct {
		prefill, decode string
		args            string // of decode, in the plan
		real            bool
		outcome, says   string
	}{
		"nobody said":     {outcome: "not-possible", says: "no engine reported what it serves"},
		"one said":        {prefill: said, outcome: "pass", says: "1 of 2 engines serve what was planned, version 0.32.0"},
		"both":            {prefill: said, decode: said, outcome: "pass", says: "2 of 2 engines"},
		"two versions":    {prefill: said, decode: strings.ReplaceAll(said, "0.32.0", "0.31.0"), outcome: "fail", says: "the engines differ: decode is version 0.31.0, prefill is version 0.32.0"},
		"a name is gone":  {prefill: said, decode: said, args: `"served_model_name": ["Qwen/Qwen3-8B", "qwen"]`, outcome: "fail", says: `decode answers to Qwen/Qwen3-8B, not to "qwen"`},
		"SGLang's path":   {prefill: said, decode: `{"models": [{"id": "q", "root": "q"}], "model_path": "org/m"}`, args: `"served-model-name": "q"`, outcome: "fail", says: `decode serves "org/m"`},
		"simulated":       {prefill: said, args: `"x": 1`, outcome: "pass"},
		"the pin, really": {prefill: said, real: true, outcome: "fail", says: "prefill is version 0.32.0, but 0.33 was planned"},
		"unreadable":      {prefill: "{", outcome: "not-possible"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := recorded(t)
			for role, text := range map[string]string{"prefill": c.prefill, "decode": c.decode} {
				if text != "" {
					write(t, dir, "raw/identity-"+role+".json", text)
				}
			}
			data, err := os.ReadFile(filepath.Join(dir, run.PlanFile))
			require.NoError(t, err)
			text := strings.Replace(string(data), `"config": {`, `"config": {"engine_version": "0.33",`, 1)
			if c.args != "" {
				const decode = `"max_num_seqs": 64,` + "\n        " + `"tensor_parallel_size": 4`
				require.Contains(t, text, `"decode": {`+"\n        "+decode)
				text = strings.Replace(text, decode, c.args, 1)
			}
			if c.real {
				text = strings.Replace(text, `"simulated": true`, `"simulated": false`, 1)
			}
			write(t, dir, run.PlanFile, text)
			r := only(t, collector(t), dir, completed())
			require.Equal(t, c.outcome, outcome(t, r, "wrong-server"), r.Validity.Check("wrong-server").Detail)
			require.Contains(t, r.Validity.Check("wrong-server").Detail, c.says)
		})
	}
}

// A simulated engine says so, and a record of its numbers is one of a simulation although nobody
// planned a rehearsal.
func TestSimulatedEngineOfARealRun(t *testing.T) {
	for owner, simulated := range map[string]bool{"vllm": false, program.Version: true} {
		dir := recorded(t)
		data, err := os.ReadFile(filepath.Join(dir, run.PlanFile))
		require.NoError(t, err)
		write(t, dir, run.PlanFile, strings.Replace(string(data), `"simulated": true`, `"simulated": false`, 1))
		for _, file := range []string{"raw/vllm-bench.json", "raw/vllm-gsm8k.json"} {
			data, err := os.ReadFile(filepath.Join(dir, file))
			require.NoError(t, err)
			write(t, dir, file, strings.ReplaceAll(string(data), `"simulated": true`, `"simulated": false`))
		}
		write(t, dir, "raw/identity-prefill.json",
			`{"models": [{"id": "Qwen/Qwen3-8B", "root": "Qwen/Qwen3-8B", "owned_by": "`+owner+`"}], "version": "0.32.0"}`)
		r := only(t, collector(t), dir, completed())
		require.Equal(t, simulated, r.Simulated, owner)
		require.Equal(t, simulated, r.Provenance.Simulated, owner)
		require.Equal(t, simulated, outcome(t, r, "simulated") == "fail", owner)
	}
}
