package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The file of either client of a simulated run says so, wherever it is taken to.
//
// covers: PL-V29
func TestRawFilesOfRehearsalsAreMarked(t *testing.T) {
	dir := t.TempDir()
	tests := ""
	for _, client := range []string{"vllm", "profllm"} {
		tests += `
[[Tests]]
id = "` + client + `"
test_template_name = "vllm"
client = "` + client + `"
  [Tests.cmd_args]
  docker_image_url = "vllm/vllm-openai:v0.32.0"
  model = "Qwen/Qwen3-8B"
  decode.tensor_parallel_size = 4
  [Tests.bench_cmd_args]
  random_input_len = 64
  random_output_len = 16
  max_concurrency = 8
  num_prompts = 64
`
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte("name = \"marked\"\n"+tests), 0o644))
	env := []string{"PROFLLM_SIM_TTFT=10ms", "PROFLLM_SIM_ITL=4ms", "PROFLLM_SIM_STARTUP=0s"}
	rehearsed, _ := command(dir, env, "rehearse", "s.toml", "--output-dir", "results").CombinedOutput()
	files, err := filepath.Glob(filepath.Join(dir, "results", "*", "*", "0", "raw", "vllm-bench.json"))
	require.NoError(t, err)
	require.Len(t, files, 2, "%s", rehearsed)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		var doc map[string]any
		require.NoError(t, json.Unmarshal(data, &doc))
		require.Equal(t, "true", doc["simulated"], file)
	}
	alone := filepath.Join(t.TempDir(), "run=0.json") // taken out of its run
	data, err := os.ReadFile(files[0])
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(alone, data, 0o644))
	imported := filepath.Join(dir, "imported")
	out, err := command(dir, nil, "import", alone, "--output", imported).CombinedOutput()
	require.NoError(t, err, "%s", out)
	var records []string
	require.NoError(t, filepath.WalkDir(imported, func(path string, d os.DirEntry, err error) error {
		if d.Name() == "result.json" {
			records = append(records, path)
		}
		return err
	}))
	require.Len(t, records, 1)
	data, err = os.ReadFile(records[0])
	require.NoError(t, err)
	require.Contains(t, string(data), `"simulated": true`)
}
