package format_test

import (
	"bytes"
	"path/filepath"
	"strconv"
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
	require.Contains(t, out.String(), "Search: searched: the highest request_rate is 9.")
	require.NotContains(t, out.String(), "Searches", "one answer is not told twice")
}

// A report opens with what was searched for; of many searches, it names the first.
func TestSearchesAreAnswers(t *testing.T) {
	inTemp(t)
	for i := range 6 {
		r := recordOf(numbers{Throughput: 800, TTFT: 50})
		r.Search = []*result.Search{{Sentence: "p99_ttft_ms <= 400 is kept up to 64"}}
		writeRecord(t, filepath.Join(root, "searched", strconv.Itoa(i)), r)
	}
	r := report.Build(load(t, "results"), report.Options{})
	require.Equal(t, report.AskSearch, r.Answers[0].Question)
	require.Contains(t, r.Answers[0].Text, "p99_ttft_ms <= 400 is kept up to 64.")
	require.Equal(t, "3 more searches are below.", r.Answers[3].Text)
	var out bytes.Buffer
	require.NoError(t, format.Text(&out, r))
	require.Contains(t, out.String(), "\nSearch: ")
	require.Contains(t, out.String(), "== Searches")
}
