package vllmoffline

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/clientfile"
	"github.com/profllm/profllm/pkg/pyjson"
	"github.com/profllm/profllm/pkg/result"
)

// More requests than are read are refused with their number.
func TestRequestsLimit(t *testing.T) {
	doc, err := pyjson.NewBytes([]byte(`{"elapsed_time": 1, "ttft_from": "scheduled", "input_lens": [1], "output_lens": [1],
		"queue_times": [1], "ttfts": [1], "decode_times": [1]}`)).Value()
	require.NoError(t, err)
	r := &reader{File: &clientfile.File{Name: "requests-7.json"}, part: &result.Part{},
		pool: &pool{from: "scheduled", n: mostRequests - 1}}
	require.NoError(t, r.requests(doc, nil))
	require.EqualError(t, r.requests(doc, nil), "requests-7.json: the files have 10000001 requests, and at most 10000000 are read")
}
