package format_test

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/report/format"
	"github.com/profllm/profllm/pkg/result"
)

func TestSearches(t *testing.T) {
	inTemp(t)
	r := recordOf(numbers{Throughput: 800, TTFT: 50})
	r.Search = []*result.Search{nil, {Sentence: "the highest request_rate is 9"}}
	writeRecord(t, filepath.Join(root, "searched", "0"), r)
	var out bytes.Buffer
	require.NoError(t, format.Text(&out, report.Build(load(t, "results"), report.Options{})))
	require.Contains(t, out.String(), "searched: the highest request_rate is 9")
}
