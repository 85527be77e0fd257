package sim

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// evaluate runs the script against a server and returns its console and its file.
func evaluate(t testing.TB, base string, flags ...string) (string, map[string]any) {
	t.Helper()
	u, err := url.Parse(base)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "out.json")
	args := append([]string{"python3", "tests/evals/gsm8k/gsm8k_eval.py", "--host", "http://" + u.Hostname(), "--port",
		u.Port(),
		"--num-questions", "200", "--save-results", file}, flags...)
	code, out, errs := run(t, nil, args...)
	require.Equal(t, 0, code, errs)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var result map[string]any
	require.NoError(t, json.Unmarshal(text, &result))
	return out, result
}

func TestGSM8K(t *testing.T) {
	tests := map[string]struct {
		settings map[string]string
		flags    []string
		accuracy float64
		within   float64
		invalid  float64
	}{
		"default":   {nil, nil, 0.75, 0.1, 0},
		"all right": {map[string]string{"PROFLLM_SIM_ACCURACY": "1"}, nil, 1, 0, 0},
		"all wrong": {map[string]string{"PROFLLM_SIM_ACCURACY": "0"}, nil, 0, 0, 0},
		"chat":      {map[string]string{"PROFLLM_SIM_ACCURACY": "1"}, []string{"--use-chat-completions", "--model", "tiny"}, 1, 0, 0},
		"words":     {map[string]string{"PROFLLM_SIM_ACCURACY": "1", "PROFLLM_SIM_TOKENS": "words"}, []string{"--max-concurrency", "3"}, 1, 0, 0},
		"no shots":  {map[string]string{"PROFLLM_SIM_ACCURACY": "1"}, []string{"--num-shots", "0"}, 1, 0, 0},
		"failing":   {map[string]string{"PROFLLM_SIM_FAULTS": "*:fail=1"}, nil, 0, 0, 1},
		"empty":     {map[string]string{"PROFLLM_SIM_FAULTS": "*:zero-tokens"}, nil, 0, 0, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			out, r := evaluate(t, startServe(t, tt.settings), tt.flags...)
			require.InDelta(t, tt.accuracy, r["accuracy"], tt.within)
			require.InDelta(t, tt.invalid, r["invalid_rate"], 0)
			require.Equal(t, true, r["simulated"])
			require.InDelta(t, 200, r["num_questions"], 0)
			for _, line := range []string{"Accuracy: ", "Invalid responses: ", "Total latency: ",
				"Questions per second: ",
				"Total output tokens: ", "Output tokens per second: ", "Results saved to "} {
				require.Contains(t, out, "\n"+line)
			}
		})
	}
}

func TestGSM8KIsRepeatable(t *testing.T) {
	base := startServe(t, nil)
	_, first := evaluate(t, base)
	_, again := evaluate(t, base)
	require.Equal(t, first["accuracy"], again["accuracy"])
	_, other := evaluate(t, base, "--seed", "43")
	require.InDelta(t, 0.75, other["accuracy"], 0.1)
	require.NotZero(t, first["total_output_tokens"])
}

func TestGSM8KWithoutAServer(t *testing.T) {
	_, r := evaluate(t, "http://"+closedPort(t))
	require.InDelta(t, 1, r["invalid_rate"], 0)
}
