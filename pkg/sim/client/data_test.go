package client

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What profllm's own client has not leaves the command line, and the log says so.
func TestRandom(t *testing.T) {
	for args, want := range map[string][2]string{
		"--model m --num-prompts 3 --save-result":                    {"--model m --num-prompts 3 --save-result", ""},
		"--dataset-name random --random-input-len 8 --burstiness -1": {"--random-input-len 8 --burstiness -1", ""},
		"--dataset-name sharegpt --dataset-path a.json --sharegpt-output-len 9 --seed 1": {"--seed 1",
			"profllm sim: the data set sharegpt is not read: the prompts are random\n"},
		"--dataset-name=random-mm --random-mm-limit-mm-per-prompt {\"image\":1} --backend openai-chat": {"--backend openai-chat",
			"profllm sim: the data set random-mm is not read: the prompts are random\n"},
		"--random-input-len 16 --dataset_name prefix_repetition --prefix-repetition-prefix-len 100 --seed 1": {
			"--seed 1 --random-prefix-len 100 --random-input-len 256 --random-output-len 128",
			"profllm sim: every prompt begins with the same prefix\n"},
		"--lora-modules a b --lora-assignment random --served-model-name m --seed 1": {"--seed 1 --served-model-name a",
			"profllm sim: every request asks for the first adapter, a\n"},
	} {
		var out strings.Builder
		require.Equal(t, want[0], strings.Join(random(strings.Fields(args), &out), " "), args)
		require.Equal(t, want[1], out.String(), args)
	}
}
