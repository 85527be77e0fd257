package records_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/report/reporttest"
)

// covers: DATA-2
func TestPack(t *testing.T) {
	runs, err := records.Load("../result/testdata/releases")
	require.NoError(t, err)
	require.Greater(t, len(runs), 8)
	reporttest.InTemp(t)
	reporttest.Night(t) // a sweep with its plan and rewards, and runs without a record
	night, err := records.Load(reporttest.Root)
	require.NoError(t, err)
	runs = append(runs, night...)
	for _, settings := range []map[string]string{{"max_num_seqs": "8"}, {"max_num_seqs": "16"}} { // the record's, and others
		r, of := runs[0], *runs[0].Result
		of.Config.Settings = map[string]string{"max_num_seqs": "8"}
		r.Result, r.Settings = &of, settings
		runs = append(runs, r)
	}
	for _, want := range runs {
		record, besides, err := want.Pack()
		require.NoError(t, err)
		got, err := records.Unpack(record, besides)
		require.NoError(t, err)
		require.Equal(t, want, got, want.Dir)
		again, more, err := got.Pack()
		require.NoError(t, err)
		require.Equal(t, string(record), string(again))
		require.Equal(t, string(besides), string(more))
	}
	_, err = records.Unpack(nil, []byte("{"))
	require.ErrorContains(t, err, "decode what is known")
	_, err = records.Unpack([]byte("{}"), []byte("{}"))
	require.ErrorContains(t, err, "no schema")
}
