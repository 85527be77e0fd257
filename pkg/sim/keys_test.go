package sim

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/sim/client"
)

// The keys are those of the script's own file, composed by hand from its specification; ours
// adds one.
func TestGSM8KKeys(t *testing.T) {
	text, err := json.Marshal(client.EvalResult{})
	require.NoError(t, err)
	var keys []string
	for _, line := range flatten(t, string(text)) {
		key, _, _ := strings.Cut(line, " ")
		keys = append(keys, key)
	}
	require.Equal(t, []string{
		".accuracy", ".invalid_rate", ".latency", ".questions_per_second", ".total_output_tokens", ".tokens_per_second",
		".num_questions", ".num_shots", ".max_tokens", ".timestamp",
		".request_params.endpoint", ".request_params.model", ".request_params.temperature", ".request_params.top_p",
		".request_params.top_k", ".request_params.seed", ".request_params.reasoning_effort", ".request_params.chat_template_kwargs",
		".simulated",
	}, keys)
}
