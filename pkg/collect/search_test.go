package collect_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// A search that was killed may have written null in place of an answer.
func TestSearchWithoutAnAnswer(t *testing.T) {
	data, err := os.ReadFile("../bench/vllmserve/testdata/real/serve.json")
	require.NoError(t, err)
	dir := recorded(t)
	write(t, dir, "raw/vllm-bench.json", string(data))
	write(t, dir, "raw/search.json", `{"answers": [null, {"variable": "request_rate", "outcome": "found", "sentence": "9"}]}`)
	r := only(t, collector(t), dir, completed())
	require.Len(t, r.Search, 1)
	require.Equal(t, "9", r.Search[0].Sentence)
}
