package interchange

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
)

// The text of pysheeet's benchmark without a server is no served load, though its table looks like
// one.
func TestOfflineText(t *testing.T) {
	data, err := os.ReadFile("../bench/vllmoffline/testdata/composed/requests.log")
	require.NoError(t, err)
	format, items, err := Read("logs/offline_1234.log", data)
	require.NoError(t, err)
	require.Equal(t, Offline, format)
	require.Len(t, items, 1)
	r := items[0].Record
	require.Equal(t, "offline_bench.py", r.Provenance.Imported.From)
	require.Nil(t, r.Results.CompletedRequests)
	require.Equal(t, result.FromScheduled, r.Results.Offline.Requests.TTFTFrom)
	require.InDelta(t, 512, *r.Results.Offline.Throughput.OutputThroughput, 0)
	require.Equal(t, "offline_1234.log", r.Warnings[0].File)

	_, _, err = Read("x.log", data[:bytes.Index(data, []byte("Mean TPOT"))])
	require.ErrorContains(t, err, "x.log: the text has no whole table of results")
	_, _, err = Read("x.log", bytes.Replace(data, []byte("Running benchmark"), []byte("Benchmark"), 1))
	require.Error(t, err, "of a client, whose text is no file of results")
}
