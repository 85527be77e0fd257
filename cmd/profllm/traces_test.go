package main

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
)

// tracedScenario has one server, and prefill and decode apart with two loads.
const tracedScenario = `name = "traced"
[[Tests]]
id = "one"
test_template_name = "vllm"
cmd_args = { decode = { tensor_parallel_size = 2 } }
bench_cmd_args = { num_prompts = 4, random_output_len = 4 }
torch_profiler = { torch_profiler_with_stack = false }
[[Tests]]
id = "apart"
test_template_name = "vllm"
num_nodes = 3
cmd_args = { engine_version = "0.12.0", prefill = {}, decode = { replicas = 2 } }
bench_cmd_args = { num_prompts = 4, random_output_len = 4 }
torch_profiler = { ignore_frontend = true }
phases = [{ name = "a" }, { name = "b", cache = "keep" }]
`

// The whole path of PyTorch's profiler with simulated engines: configured by the release of the
// test, started and stopped at every instance, traces awaited and in the record of their load.
//
// covers: VLM-4, LBEN-4, SCH-14, PRF-1, PRF-13
func TestRehearseTraced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(tracedScenario), 0o644))
	o := profllm(t, dir, []string{"PROFLLM_SIM_STARTUP=50ms"}, "rehearse", "s.toml")
	require.Equal(t, exitOK, o.code)
	for d, p := range runs(t, dir) {
		places, roles := []string{"."}, map[string]int{"serve": 3} // two workers and the front end
		if p.Test == "apart" {
			places, roles = []string{"a", "b"}, map[string]int{"prefill": 1, "decode_0": 1, "decode_1": 1}
		}
		seen := map[string]bool{}
		for _, place := range places {
			r := readResult(t, filepath.Join(d, place))
			require.True(t, r.Profiling.Enabled)
			require.False(t, r.Validity.Baseline())
			require.Equal(t, result.Pass, r.Validity.Check("files-missing").Outcome)
			require.Equal(t, r.Profiling.Traces[0].Path, r.Profiling.TraceFilePath)
			count := map[string]int{}
			for _, trace := range r.Profiling.Traces {
				count[trace.Role]++
				require.False(t, seen[trace.Path], "a trace of one load")
				seen[trace.Path] = true
				require.NotEmpty(t, traceEvents(t, filepath.Join(d, trace.Path)))
			}
			require.Equal(t, roles, count)
		}
	}
}

// traceEvents reads the events of a trace.
func traceEvents(t *testing.T, file string) []map[string]any {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	var trace struct {
		Events []map[string]any `json:"traceEvents"`
	}
	require.NoError(t, json.NewDecoder(z).Decode(&trace))
	return trace.Events
}
