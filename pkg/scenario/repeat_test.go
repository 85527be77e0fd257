package scenario

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A number, or a table that says until when; every mistake is named where it stands.
func TestRepeat(t *testing.T) {
	const text = "name = \"s\"\n[[Tests]]\nid = \"a\"\ntest_template_name = \"vllm\"\nrepeat = %s\n"
	for value, want := range map[string]Repeat{
		"1": {Times: 1}, "100": {Times: 100},
		`{ precision = "2%" }`: {Times: 20,
			Until: &Until{Precision: 2, Metrics: []string{"output_throughput"}, Max: 20}},
		`{ precision = " 0.5 % ", max = 9, time = "30m", metrics = ["median_ttft_ms", "throughput"] }`: {
			Times: 9, Until: &Until{Precision: 0.5, Metrics: []string{"median_ttft_ms", "throughput"}, Max: 9,
				Time: Limit(30 * time.Minute)},
		},
	} {
		s, err := load(t, fmt.Sprintf(text, value))
		require.NoError(t, err, value)
		want.Pos = s.Tests[0].Repeat.Pos
		require.Equal(t, 5, want.Pos.Line)
		require.Equal(t, want, s.Tests[0].Repeat)
	}
	for value, want := range map[string]string{
		"0":                               "s.toml:5:1: repeat is 0, must be 1-100",
		"101":                             "s.toml:5:1: repeat is 101, must be 1-100",
		"2.5":                             "s.toml:5:1: repeat must be a number or a table, not the float 2.5\n\thint: write repeat = 6",
		`"2%"`:                            "s.toml:5:1: repeat must be a number or a table, not the string \"2%\"",
		"{ max = 9 }":                     "repeat.precision is required",
		`{ precision = 2 }`:               "s.toml:5:12: repeat.precision: 2 is not a share above 0% and up to 100%\n\thint: write it as \"2%\"",
		`{ precision = "2" }`:             "2 is not a share",
		`{ precision = "0%" }`:            "0% is not a share",
		`{ precision = "NaN%" }`:          "NaN% is not a share",
		`{ precision = "101%" }`:          "101% is not a share",
		`{ precision = "2%", max = 5 }`:   "repeat.max is 5, must be 6-20\n\thint: the median of fewer than 6 repeats has no interval; for a fixed number, write repeat = 5",
		`{ precision = "2%", max = 21 }`:  "repeat.max is 21, must be 6-20",
		`{ precision = "2%", metrics=[]}`: "repeat.metrics is empty",
		`{ precision = "2%", metric="x"}`: `unknown key "metric" in [repeat]`,
		`{ precision = "2%", time = 30 }`: "s.toml:5:30: repeat.time must be a string such as",
	} {
		_, err := load(t, fmt.Sprintf(text, value))
		require.ErrorContains(t, err, want, value)
	}
}
