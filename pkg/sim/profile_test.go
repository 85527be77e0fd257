package sim

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The two paths exist only where a profiler is configured, as in vLLM. Each session leaves a
// trace of each worker and one of the front end, which say that they are simulated.
//
// covers: LBEN-4
func TestProfileSessions(t *testing.T) {
	_, url := serveCommand(t, nil)
	for _, path := range []string{"/start_profile", "/stop_profile"} {
		code, _, err := post(t.Context(), url+path, "")
		require.NoError(t, err)
		require.Equal(t, 404, code)
	}
	for name, c := range map[string]struct {
		env   map[string]string
		flags func(dir string) []string
		want  int
	}{
		"by option": {nil, func(dir string) []string {
			return []string{"--tensor-parallel-size", "2", "--profiler-config",
				`{"profiler":"torch","torch_profiler_dir":"` + dir + `"}`}
		}, 3},
		"workers only": {nil, func(dir string) []string {
			return []string{"--profiler-config.profiler=torch", "--profiler-config.torch_profiler_dir=" + dir,
				"--profiler-config.ignore_frontend=true"}
		}, 1},
		"of nsys": {nil, func(string) []string { return []string{"--profiler-config.profiler=cuda"} }, 0},
		"by variable": {map[string]string{"PROFLLM_SIM_FLAGS": "0.12.0"},
			func(string) []string { return nil }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "new", "folder")
			env := map[string]string{"VLLM_TORCH_PROFILER_DIR": dir} // newer releases ignore it
			for k, v := range c.env {
				env[k] = v
			}
			_, url := serveCommand(t, env, c.flags(dir)...)
			for _, path := range []string{"/stop_profile", "/start_profile", "/start_profile"} {
				code, _, err := post(t.Context(), url+path, "")
				require.NoError(t, err)
				require.Equal(t, 200, code)
			}
			_, _, err := post(t.Context(), url+"/v1/completions", hello)
			require.NoError(t, err)
			code, _, err := post(t.Context(), url+"/stop_profile", "")
			require.NoError(t, err)
			require.Equal(t, 200, code)
			traces, err := filepath.Glob(filepath.Join(dir, "*.pt.trace.json.gz"))
			require.NoError(t, err)
			require.Len(t, traces, c.want)
			for _, file := range traces {
				requireSimulatedTrace(t, file)
			}
		})
	}
}

func requireSimulatedTrace(t *testing.T, file string) {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	var trace struct {
		Simulated bool
		Events    []struct {
			Name string
			Args map[string]any
		} `json:"traceEvents"`
	}
	require.NoError(t, json.NewDecoder(z).Decode(&trace))
	require.True(t, trace.Simulated)
	require.Len(t, trace.Events, 3, "the process, the session, the request")
	require.Equal(t, "simulated profile: no model ran", trace.Events[1].Name)
	require.EqualValues(t, 6, trace.Events[2].Args["output_tokens"])
}
