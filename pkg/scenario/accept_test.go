package scenario_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/validity"
)

func accepting(t *testing.T, body string) (scenario.Accept, error) {
	t.Helper()
	s, err := scenario.Load(scenario.File{Name: "s.toml",
		Data: []byte("name = \"s\"\n[[Tests]]\nid = \"a\"\ntest_template_name = \"vllm\"\n" + body)}, nil,
		scenario.HookFiles{})
	require.NotEmpty(t, s.Tests)
	return s.Tests[0].Accept, err
}

// Every threshold can be set, to its default and to the ends of its range.
func TestAcceptEveryThreshold(t *testing.T) {
	for _, x := range validity.Thresholds() {
		for _, v := range []float64{x.Min, x.Default, x.Max} {
			got, err := accepting(t, fmt.Sprintf("[Tests.accept]\n%s = %v\n", x.Key, v))
			require.NoError(t, err)
			require.Equal(t, scenario.Accept{x.Key: v}, got)
		}
	}
	got, err := accepting(t, "")
	require.NoError(t, err)
	require.Nil(t, got)
}

func TestAcceptRefused(t *testing.T) {
	for body, want := range map[string]string{
		"[Tests.accept]\ntoken_book = 0.1":        "s.toml:6:1: accept: there is no threshold \"token_book\"\n\thint: did you mean \"token_books\"?",
		"[Tests.accept]\nfailed_share = 5":        "s.toml:6:1: accept.failed_share is 5, must be 0 to 1 (share)\n\thint: largest accepted share of failed requests; default 0",
		"[Tests.accept]\nfailed_share = -0.1":     "s.toml:6:1: accept.failed_share is -0.1, must be 0 to 1 (share)",
		"[Tests.accept]\nfailed_share = nan":      "s.toml:6:1: accept.failed_share is NaN, must be 0 to 1",
		"[Tests.accept]\nquestions = 1.5":         "s.toml:6:1: accept.questions is 1.5, must be a whole number (questions)",
		"[Tests.accept]\nlag_ms = [1, 2]":         "s.toml:6:1: accept.lag_ms must be a number (ms), not a list",
		"[Tests.accept]\nlag_ms = \"much\"":       "s.toml:6:1: accept.lag_ms must be a number (ms), not the string \"much\"",
		"accept = 3":                              "s.toml:5:1: accept must be a table, not the integer 3",
		"[Tests.accept]\npercentile_risk = 0":     "s.toml:6:1: accept.percentile_risk is 0, must be 0.000001 to 0.5 (share)",
		"[Tests.accept]\nlag = 1\nrounds = 1e9\n": "s.toml:7:1: accept.rounds is 1e+09",
	} {
		_, err := accepting(t, body)
		require.ErrorContains(t, err, want, body)
	}
}
