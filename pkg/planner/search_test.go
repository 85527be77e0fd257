package planner_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// searchTest is a test that searches, with keys of the test and of its search.
func searchTest(client, test, load, keys string) string {
	return fmt.Sprintf(`[[Tests]]
id = "a"
test_template_name = "vllm"
cmd_args = { model = "m", docker_image_url = "x" }
client = %q
%s
[Tests.bench_cmd_args]
%s
[Tests.search]
limits = ["p99_ttft_ms=500"]
%s
`, client, test, load, keys)
}

// A search for a rate does not stop at the client's default of requests in flight.
func TestSearchForARate(t *testing.T) {
	const rate = `variable = "request_rate"`
	for _, client := range []string{"vllm", "profllm"} {
		for load, want := range map[string]string{"": "", "random_input_len = 9": "", "max_concurrency = 64": "--max-concurrency 64"} {
			plans, err := inline(t, "", searchTest(client, "", load, rate), options)
			require.NoError(t, err)
			argv := fmt.Sprint(plans[0].Loads[0].Clients[0].Argv)
			if want == "" {
				require.NotContains(t, argv, "--max-concurrency", client)
			} else {
				require.Contains(t, argv, want, client)
			}
		}
		plans, err := inline(t, "", searchTest(client, "", "", ""), options)
		require.NoError(t, err)
		require.Contains(t, fmt.Sprint(plans[0].Loads[0].Clients[0].Argv), "--max-concurrency 16", "the search replaces it")
	}
}

func TestImpossibleSearches(t *testing.T) {
	for want, text := range map[string]string{
		"client_nodes is 2, but the client of a search is one process":  searchTest("profllm", "num_nodes = 3\nclient_nodes = 2", "", ""),
		"s.toml:9:1: test \"a\": the client of a search is one process": searchTest("profllm", "", "processes = 2", ""),
		"max is 9, but min is 10":                                       searchTest("profllm", "", "", "min = 10\nmax = 9"),
		"max is 1024, but min is 2000":                                  searchTest("profllm", "", "", "min = 2000"),
		"max is +Inf, must be":                                          searchTest("profllm", "", "", "max = inf"),
		"start is NaN, must be":                                         searchTest("profllm", "", "", "start = nan"),
		"resolution is 0.5, must be a whole number":                     searchTest("profllm", "", "", "resolution = 0.5"),
	} {
		_, err := inline(t, "", text, options)
		require.ErrorContains(t, err, want)
	}
	_, err := inline(t, "", searchTest("profllm", "", "", "variable = \"request_rate\"\nresolution = 0.5\nmin = 2000"), options)
	require.NoError(t, err)
}
