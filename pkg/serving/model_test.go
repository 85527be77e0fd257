package serving_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/serving"
	"github.com/profllm/profllm/pkg/source"
)

// A name of a model that no engine could mean is refused when the test is read.
//
// covers: CD-45, CFG-2
func TestCheckModel(t *testing.T) {
	pos := source.Pos{File: "t.toml", Line: 3, Col: 1}
	for model, want := range map[string]string{
		"Qwen/Qwen3-0.6B": "", "/models/with a blank": "",
		"Qwen\n": `t.toml:3:1: model "Qwen\n" has a control character`,
		"  ":     "t.toml:3:1: model is blank",
	} {
		var c source.Complaints
		serving.CheckModel(pos, "model", model, &c)
		if want == "" {
			require.NoError(t, c.Err(), model)
			continue
		}
		require.ErrorContains(t, c.Err(), want)
	}
}
