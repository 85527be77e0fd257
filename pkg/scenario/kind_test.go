package scenario_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
)

// A file of another kind is one error and not one for each of its keys.
func TestMistakenFile(t *testing.T) {
	t.Parallel()
	const system, scenarios, test, unclear = "name = \"lab\"\nscheduler = \"slurm\"\n", "name = \"s\"\n[[Tests]]\nid = \"a\"\n", "name = \"a\"\ntest_template_name = \"vllm\"\n", "name = \"a\"\n"
	for _, c := range []struct{ text, wanted, err string }{
		{system, "system", ""},
		{system, "scenario", "f.toml: this is a system file, not a scenario file\n\thint: name a scenario, and this file with --system"},
		{scenarios, "scenario", ""},
		{scenarios, "system", "f.toml: this is a scenario file, not a system file\n\thint: name it as the scenario, and a system file with --system"},
		{test, "scenario", "f.toml: this is a test file, not a scenario file\n\thint: name a scenario that has this test in [[Tests]], by test_name"},
		{test, "system", "f.toml: this is a test file, not a system file\n\thint: name a system file with --system"},
		{unclear, "scenario", ""},
		{unclear, "system", ""},
	} {
		table, err := source.Parse("f.toml", []byte(c.text))
		require.NoError(t, err)
		if err := scenario.Mistaken(table, c.wanted); c.err == "" {
			require.NoError(t, err, c.text)
		} else {
			require.EqualError(t, err, c.err)
		}
	}
	_, err := scenario.Load(scenario.File{Name: "site.toml", Data: []byte(system)}, nil, scenario.HookFiles{})
	require.EqualError(t, err,
		"site.toml: this is a system file, not a scenario file\n\thint: name a scenario, and this file with --system")
}
