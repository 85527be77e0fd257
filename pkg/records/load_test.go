package records_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/report/reporttest"
)

// Each run below a path is there once, in the order of the directories, and says which
// test it is of, what was asked for, or why it has no record.
func TestLoad(t *testing.T) {
	reporttest.InTemp(t)
	reporttest.Night(t)
	require.NoError(t, os.Symlink(reporttest.Root, "latest"))
	runs, err := records.Load("latest", reporttest.Root+"/sweep/0/2/result.json")
	require.NoError(t, err)
	var names []string
	problems := map[string]string{}
	for _, r := range runs {
		name := r.Case.Title()
		require.Equal(t, "night", r.Case.Scenario, name)
		if names = append(names, name); r.Result == nil {
			problems[name] = r.Problem
		}
	}
	require.Equal(t, []string{
		"agg", "broken", "disagg", "lossy",
		"sweep max_num_seqs=16", "sweep max_num_seqs=64", "sweep max_num_seqs=256", "sweep max_num_seqs=128", "waiting",
	}, names)
	require.Len(t, problems, 2)
	require.Contains(t, problems["broken"], "decode result")
	require.Contains(t, problems["waiting"], "profllm collect")
	point := runs[5]
	require.Equal(t, []records.Setting{{Key: "cmd_args.decode.max_num_seqs", Value: "64"}}, point.Values)
	require.Equal(t, 300.0, *point.Reward)
	require.Equal(t, 4, point.HeldGPUs())
	require.Equal(t, point.Series, runs[4].Series)
	require.NotEqual(t, point.Job, runs[4].Job)

	_, err = records.Load("nowhere")
	require.ErrorContains(t, err, "nowhere")
}

// A kind says itself whether its numbers are measured, and how.
func TestKind(t *testing.T) {
	fast := records.Kind("simulated 20x")
	require.True(t, fast.Simulated())
	require.Equal(t, 20, fast.Speed())
	require.True(t, fast.Alike(records.Simulated))
	require.False(t, fast.Alike(records.Measured))
	require.Equal(t, []string{"measured", "profiled"}, []string{records.Measured.Word(), records.Profiled.Word()})
	require.Equal(t, []string{"", " (profiled)"}, []string{records.Measured.Suffix(), records.Profiled.Suffix()})
	require.Equal(t, 1, records.Measured.Speed())
}
