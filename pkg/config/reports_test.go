package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/source"
)

func reports(t *testing.T, text string) (config.Reports, error) {
	t.Helper()
	top, err := source.Parse("s.toml", []byte(text))
	require.NoError(t, err)
	return config.ParseReports(top.Table("reports"))
}

// A table without enable switches a plain report off and a comparison on.
func TestReports(t *testing.T) {
	r, err := reports(t, `
[reports.status]
[reports.per_test]
enable = true
[reports.vllm_comparison]
group_by = ["bench_cmd_args.num_prompts", "decode.tensor_parallel_size"]
[reports.nccl_comparison]
enable = false
`)
	require.NoError(t, err)
	require.Equal(t, config.Reports{
		"status": {}, "per_test": {Enable: true}, "nccl_comparison": {},
		"vllm_comparison": {Enable: true, GroupBy: []string{"bench_cmd_args.num_prompts", "decode.tensor_parallel_size"}},
	}, r)

	none, err := reports(t, `name = "x"`)
	require.NoError(t, err)
	require.Equal(t, config.Report{Enable: true}, none.Of("dse"))
	require.False(t, none.Of("status", r).Enable, "the system's entry holds where the scenario has none")
	require.True(t, r.Of("per_test", config.Reports{"per_test": {}}).Enable, "the first entry replaces the second")
}

func TestReportsMistakes(t *testing.T) {
	_, err := reports(t, "[reports.vlm_comparison]\n[reports.status]\nenabel = true\ngroup_by = []\n[reports.dse]\nenable = 3\n[reports]\ntarball = 1\n")
	require.EqualError(t, err, `s.toml:1:10: unknown report "vlm_comparison"
	hint: did you mean "vllm_comparison"?
s.toml:3:1: unknown key "enabel"
	hint: did you mean "enable"? known: enable, group_by
s.toml:4:1: reports.status does not support group_by
	hint: only comparisons such as [reports.vllm_comparison] have group_by
s.toml:6:1: enable must be a boolean, not the integer 3
	hint: write enable = true or enable = false
s.toml:8:1: reports.tarball must be a table, not the integer 1
	hint: write [reports.tarball] and enable = true below it`)
}

func TestUnknownReportIsRefusedWithTheSystem(t *testing.T) {
	_, err := config.Parse("sys.toml",
		[]byte("name = \"x\"\nscheduler = \"slurm\"\ninstall_path = \"i\"\noutput_path = \"o\"\ndefault_partition = \"p\"\n[reports.tarbal]\n"))
	require.EqualError(t, err, "sys.toml:6:10: unknown report \"tarbal\"\n\thint: did you mean \"tarball\"?")
}
