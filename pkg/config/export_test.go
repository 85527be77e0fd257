package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/config"
)

func TestExport(t *testing.T) {
	const site = "name = \"s\"\nscheduler = \"slurm\"\noutput_path = \"o\"\ninstall_path = \"i\"\ndefault_partition = \"p\"\n"
	for line, want := range map[string]config.Export{`export = "ALL"`: {"ALL"}, `export = ["A", "_b1"]`: {"A", "_b1"},
		`export = []`: nil, "": nil} {
		sys, err := config.Parse("site.toml", []byte(site+line))
		require.NoError(t, err)
		require.Equal(t, want, sys.Export, line)
	}
	for line, want := range map[string]string{
		`export = "NONE"`:     "site.toml:6:1: export must be \"ALL\" or a list of names, not \"NONE\"\n\thint: write export = [\"NONE\"]",
		`export = ["A=1"]`:    "site.toml:6:11: export: A=1 cannot name an environment variable\n\thint: write names only; a value goes to extra_env_vars",
		`export = ["A", 1]`:   "export: 1 cannot name an environment variable",
		`export = 1`:          "export must be \"ALL\" or a list of names, not the integer 1",
		`export = ["A,B=x,"]`: "cannot name an environment variable",
	} {
		_, err := config.Parse("site.toml", []byte(site+line))
		require.ErrorContains(t, err, want, line)
	}
}
