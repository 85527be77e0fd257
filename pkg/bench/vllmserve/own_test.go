package vllmserve_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	ownclient "github.com/profllm/profllm/pkg/load"
	"github.com/profllm/profllm/pkg/workload/vllm/arguments"
)

// profllm's client knows every option that vLLM's client of the release has whose flags it takes: it
// honours the option, or refuses it with its reason.
//
// covers: LBEN-1
func TestOurClientKnowsVLLMsOptions(t *testing.T) {
	known := ownclient.OptionNames()
	n := 0
	for _, o := range arguments.BenchServe.Options() {
		if _, has := o.FormAt("0.32.0"); has {
			n++
			require.True(t, slices.Contains(known, arguments.Key(o.Name)), "%s is not known", o.Name)
		}
	}
	require.Greater(t, n, 90)
}
