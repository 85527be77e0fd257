package lmeval_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/bench/lmeval"
	"github.com/profllm/profllm/pkg/result"
)

const fourQuestions = `{"results": {"gsm8k": {"alias": "gsm8k", "exact_match,strict-match": 0.25, "exact_match,flexible-extract": 0.5}},
"n-shot": {"gsm8k": 5}, "versions": {"gsm8k": 3}, "n-samples": {"gsm8k": {"original": 4, "effective": 4}}}`

// line is one line of a samples file, as lm-evaluation-harness 0.4 writes them.
func line(id int, filter, right string) string {
	return fmt.Sprintf(`{"doc_id": %d, "doc": {"question": "q\n%d", "x": NaN}, "target": "#### 1", "arguments": {}, "resps": [["a"]], "filter": %q, "metrics": ["exact_match"], "doc_hash": "h%d", "exact_match": %s}`+"\n", id, id, filter, id, right)
}

func withSamples(text string) (result.Part, error) {
	return lmeval.Parser{}.Parse(fstest.MapFS{
		"results_2026-11-22T01-18-52.123456.json":        {Data: []byte(fourQuestions)},
		"samples_gsm8k_2026-11-22T01-18-52.123456.jsonl": {Data: []byte(text)},
		"samples_gsm8k_2026-11-21T01-18-52.123456.jsonl": {Data: []byte("of another evaluation")},
	})
}

// covers: PL-Q7, PL-I3
func TestSamples(t *testing.T) {
	const f = "flexible-extract"
	good := line(2, f, "0.0") + line(0, "strict-match", "0.0") + line(0, f, "1.0") + line(3, f,
		"true") + "\n" + strings.TrimSuffix(line(1, f, "false"), "\n")
	p, err := withSamples(good)
	require.NoError(t, err)
	require.Empty(t, p.Warnings)
	want, err := result.NewAnswers([]string{"h0", "h1", "h2", "h3"}, []bool{true, false, false, true})
	require.NoError(t, err)
	require.Equal(t, want, p.Accuracy.Answers)

	// where the program itself puts them: in a folder named after the model
	below, err := lmeval.Parser{Dir: "raw"}.Parse(fstest.MapFS{
		"raw/org__m/results_2026-11-22T01-18-52.123456.json":        {Data: []byte(fourQuestions)},
		"raw/org__m/samples_gsm8k_2026-11-22T01-18-52.123456.jsonl": {Data: []byte(good)},
		"raw/org__m/results_2026-11-20T01-18-52.123456.json":        {Data: []byte("{}")},
	})
	require.NoError(t, err)
	require.Equal(t, want, below.Accuracy.Answers)
	require.Equal(t, "org__m/results_2026-11-22T01-18-52.123456.json", below.Accuracy.Source)

	for name, c := range map[string]struct{ text, says string }{
		"other numbers":    {line(0, f, "1") + line(1, f, "1") + line(2, f, "1") + line(3, f, "0"), "3 of 4 are right, but the result says 0.5"},
		"a part":           {line(0, f, "1") + line(1, f, "0"), "2 questions, but the result has others"},
		"nothing":          {"", "0 questions"},
		"a question twice": {line(0, f, "1") + line(0, f, "1") + line(2, f, "0") + line(3, f, "0"), "question 0 occurs twice"},
		"a share":          {line(0, f, "0.5"), "line 1: exact_match is neither right nor wrong"},
		"cut":              {line(0, f, "1") + line(1, f, "1")[:40], "line 2: "},
		"no id":            {`{"exact_match": 1}`, "doc_id is missing"},
		"no JSON":          {"\x00\xff", "line 1: "},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := withSamples(c.text)
			require.NoError(t, err, "the score stands")
			require.InDelta(t, 0.5, p.Accuracy.Value, 0)
			require.Nil(t, p.Accuracy.Answers)
			require.Len(t, p.Warnings, 1)
			require.Contains(t, p.Warnings[0].Text, c.says)
			require.Equal(t, "samples_gsm8k_2026-11-22T01-18-52.123456.jsonl", p.Warnings[0].File)
		})
	}
}

func FuzzSamples(f *testing.F) {
	f.Add([]byte(line(0, "flexible-extract", "1") + line(1, "none", "0") + line(2, "", "true") + line(3,
		"flexible-extract", "0.0")))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := withSamples(string(data))
		require.NoError(t, err)
		require.Equal(t, p.Accuracy.Answers == nil, len(p.Warnings) > 0)
	})
}
