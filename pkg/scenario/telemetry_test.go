package scenario_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/scenario"
)

func withTelemetry(text string) (*scenario.Scenario, error) {
	return scenario.Load(scenario.File{Name: "s.toml",
		Data: []byte("name = \"s\"\n[[Tests]]\nid = \"a\"\ntest_template_name = \"vllm\"\n" + text)}, nil,
		scenario.HookFiles{})
}

func TestTelemetry(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"":                                       time.Second,
		"[Tests.telemetry]\ninterval_s = 0.25\n": 250 * time.Millisecond,
		"[Tests.telemetry]\ninterval_s = 2\nenabled = true\n":     2 * time.Second,
		"[Tests.telemetry]\ninterval_s = 0.25\nenabled = false\n": 0,
	} {
		s, err := withTelemetry(text)
		require.NoError(t, err)
		require.Equal(t, want, s.Tests[0].Telemetry.Interval(), text)
	}
}

func TestTelemetryComplaints(t *testing.T) {
	for text, want := range map[string]string{
		"telemetry = 3\n":                          "s.toml:5:1: telemetry must be a table, not the integer 3",
		"[Tests.telemetry]\ninterval_s = 3\n":      "s.toml:6:1: telemetry.interval_s is 3, must be 0.1 to 2\n\thint: to disable sampling, write enabled = false",
		"[Tests.telemetry]\ninterval_s = 0.01\n":   "telemetry.interval_s is 0.01",
		"[Tests.telemetry]\ninterval_s = nan\n":    "telemetry.interval_s is NaN",
		"[Tests.telemetry]\ninterval = 1\n":        "did you mean \"interval_s\"?",
		"[Tests.telemetry]\ninterval_s = \"1s\"\n": "interval_s must be a number",
	} {
		_, err := withTelemetry(text)
		require.ErrorContains(t, err, want)
	}
}
