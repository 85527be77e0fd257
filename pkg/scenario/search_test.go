package scenario

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Errors name the key that the user wrote, where it stands, also if other keys have values of its kind.
func TestErrorsNameTheKey(t *testing.T) {
	const text = "name = \"s\"\n[[Tests]]\nid = \"a\"\ntest_template_name = \"vllm\"\n%s\n"
	const search = "[Tests.search]\nlimits = [\"p99_ttft_ms=500\"]\n"
	const phase = "[[Tests.phases]]\nname = \"p\"\n"
	for keys, want := range map[string]string{
		search + `time = "soon"`:                          "s.toml:7:1: search.time \"soon\" is not understood\n\thint: write \"30m\"",
		search + `time = 30`:                              "s.toml:7:1: search.time must be a string such as \"30m\" or \"01:30:00\", not the integer 30\n\thint: for 30 minutes (as in Slurm), write time = \"30m\"",
		search + `time = 2026-01-02`:                      "s.toml:7:1: search.time must be a string such as \"30m\" or \"01:30:00\", not the date 2026-01-02\n\thint: strings need quotes: time = \"2026-01-02\"",
		search + `time = "0m"`:                            "s.toml:7:1: search.time \"0m\" is zero\n\thint: remove time: it is no limit then",
		search + `tolerance = 5`:                          "s.toml:7:1: search.tolerance: 5 is not a share",
		search + `probes = 0`:                             "s.toml:7:1: search.probes is 0, must be 1 or more",
		search + `variable = "rate"`:                      "s.toml:7:1: search.variable is \"rate\"",
		"[Tests.search]\nlimits = []":                     "s.toml:6:1: search.limits is empty",
		`time_limit = "0m"`:                               "s.toml:5:1: time_limit \"0m\" is zero, which means no limit to Slurm\n\thint: remove time_limit to use",
		`repeat = { precision = "2%", time = "soon" }`:    "s.toml:5:30: repeat.time \"soon\" is not understood",
		`repeat = { precision = "2%", max = "x" }`:        "s.toml:5:30: repeat.max must be an integer",
		phase + `cache = "drop"`:                          "s.toml:7:1: unknown phases.cache \"drop\"",
		phase + `parity = true`:                           "s.toml:7:1: phase \"p\" has parity, but no suite",
		phase + `suite = "nosuch"`:                        "s.toml:7:1: unknown suite \"nosuch\"",
		phase + `suite = 3`:                               "s.toml:7:1: phases[0].suite must be a string",
		"[[Tests.phases]]\nname = \"a/b\"":                "s.toml:6:1: phase name \"a/b\" cannot be used",
		"[Tests.sweep]\nmax_parallel = 2\nmode = \"x\"":   "s.toml:7:1: unknown sweep.mode \"x\"",
		"[Tests.sweep]\nmode = \"jobs\"\nmax_parallel=-1": "s.toml:7:1: sweep.max_parallel is -1",
	} {
		_, err := load(t, fmt.Sprintf(text, keys))
		require.ErrorContains(t, err, want, keys)
	}
	_, err := load(t, fmt.Sprintf(text, "[Tests.search]\ntime = \"3m\""))
	require.EqualError(t, err, "s.toml:5:8: search.limits is required", "and is said once")
}
