package planner_test

import (
	"fmt"
	"path"
	"slices"
	"strings"
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
		"client_nodes is 2, but the client of a search is one process":              searchTest("profllm", "num_nodes = 3\nclient_nodes = 2", "", ""),
		"s.toml:9:1: test \"a\": the client of a search is one process":             searchTest("profllm", "", "processes = 2", ""),
		"s.toml:13:1: test \"a\": search.max is 9, but min is 10":                   searchTest("profllm", "", "", "min = 10\nmax = 9"),
		"s.toml:12:1: test \"a\": search.min is 2000, but max is 1024, its default": searchTest("profllm", "", "", "min = 2000"),
		"s.toml:12:1: test \"a\": search.max is +Inf, must be":                      searchTest("profllm", "", "", "max = inf"),
		"s.toml:12:1: test \"a\": search.start is NaN, must be":                     searchTest("profllm", "", "", "start = nan"),
		"s.toml:12:1: test \"a\": search.at_least is -1, must be":                   searchTest("profllm", "", "", "at_least = -1"),
		"s.toml:12:1: test \"a\": search.stop_losers needs a sweep":                 searchTest("profllm", "", "", "stop_losers = true"),
		"s.toml:12:1: test \"a\": search.resolution is 0.5, must be":                searchTest("profllm", "", "", "resolution = 0.5"),
		"s.toml:11:30: search.limits: unknown metric \"p99_tft_ms\"\n\thint: did": strings.Replace(searchTest("profllm", "", "", ""),
			`ttft_ms=500"`, `ttft_ms=500", "p99_tft_ms=5"`, 1),
		"s.toml:11:11: search.limits: \"p99_ttft_ms\": want KEY=VALUE": strings.Replace(searchTest("profllm", "", "", ""), "=500", "", 1),
	} {
		_, err := inline(t, "", text, options)
		require.ErrorContains(t, err, want)
	}
	_, err := inline(t, "", searchTest("profllm", "", "", "variable = \"request_rate\"\nresolution = 0.5\nmin = 2000"), options)
	require.NoError(t, err)
}

// The searches of a sweep's points are told where those of the others lie, and containers have that folder.
func TestPointsCompete(t *testing.T) {
	const points = "stop_losers = true\nat_least = 4\n[Tests.cmd_args.decode]\nmax_num_seqs = [8, 16]\n"
	text := strings.Replace(searchTest("vllm", "", "", ""), `cmd_args = { model = "m", docker_image_url = "x" }`,
		"[Tests.cmd_args]\nmodel = \"m\"\ndocker_image_url = \"x\"", 1)
	text = strings.Replace(text, "client = \"vllm\"\n", "", 1)
	text = strings.Replace(text, "test_template_name", "client = \"vllm\"\ntest_template_name", 1)
	for want, keys := range map[bool]string{true: points, false: strings.Replace(points, "stop_losers = true", "", 1)} {
		plans, err := inline(t, "", text+keys, options)
		require.NoError(t, err)
		require.Len(t, plans, 2)
		for _, p := range plans {
			all := path.Dir(p.Dir)
			argv := fmt.Sprint(p.Loads[0].Clients[0].Argv)
			require.Contains(t, argv, "--at-least 4")
			require.Equal(t, want, strings.Contains(argv, "--rivals "+all+" --gpus 4"), argv)
			require.Equal(t, want, slices.Contains(p.Mounts, all+":"+all), p.Mounts)
		}
	}
}
