package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/bench/vllmserve"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/search"
	"github.com/profllm/profllm/pkg/search/runner"
)

// judged is a record with a median TTFT, and one failed check.
func judged(ttft float64, word string, s result.Severity) *result.Result {
	r := &result.Result{Validity: &result.Validity{Valid: true}}
	r.Results.CompletedRequests = new(300)
	r.Results.Latency = map[result.Family]result.Distribution{"ttft": {Median: new(ttft)}}
	if word != "" {
		r.Validity.Words = []string{word}
		r.Validity.Checks = []result.Check{{Word: word, Severity: s, Outcome: result.Fail}}
	}
	return r
}

// A probe that holds is evidence if it is valid; one that fails also if it had too much load.
func TestEvidence(t *testing.T) {
	l := limits(t, "median_ttft_ms=500")
	for _, c := range []struct {
		word        string
		severity    result.Severity
		holds, fail string // why a probe that holds, and one that fails, is no evidence
	}{
		{"", "", "", ""},
		{"client-bound", result.Invalid, "client-bound", "client-bound"},
		{"sends-lumped", result.Suspect, "sends-lumped", "sends-lumped"},
		{"not-steady", result.Suspect, "not-steady", ""},
		{"load-not-reached", result.Suspect, "load-not-reached: less load than was asked for holds the limits", ""},
		{"simulated", result.Note, "", ""},
	} {
		for ttft, why := range map[float64]string{50: c.holds, 900: c.fail} {
			e := runner.Of(l, 8, judged(ttft, c.word, c.severity))
			require.Equal(t, why != "", e.Invalid, "%s %g", c.word, ttft)
			require.Equal(t, why, e.Why, "%s %g", c.word, ttft)
		}
	}
}

// The numbers that are kept are those of a probe that holds, and there are none if no load does.
func TestNumbersOfASearch(t *testing.T) {
	o, _ := options(t, 0.1)
	require.NoError(t, os.WriteFile(filepath.Join(o.Dir, vllmserve.DefaultFile), []byte("{}"), 0o644))
	doc, err := runner.Run(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, "lowest-fails", doc.Answers[0].Outcome)
	require.Nil(t, doc.Answers[0].Measured)
	require.NoFileExists(t, filepath.Join(o.Dir, vllmserve.DefaultFile))

	o, asked := options(t, 10.2)
	o.Goal.Min, o.Goal.Max = 8, 8
	for i := range 10 { // the last of several runs at one load is beyond the limit
		p := runner.Probe{Name: fmt.Sprintf("probe-%03d", i+1), Value: 8, NumPrompts: 299, Seconds: 1}
		dir := filepath.Join(o.Dir, p.Name)
		require.NoError(t, os.Mkdir(dir, 0o755))
		data, err := json.Marshal(p)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, runner.ProbeFile), data, 0o644))
		require.NoError(t, writeResult(runner.Ask{Value: 8, NumPrompts: 299, Dir: dir}, 10))
		if i == 9 {
			path := filepath.Join(dir, vllmserve.DefaultFile)
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			bad := strings.Replace(string(data), `"p99_ttft_ms": 50`, `"p99_ttft_ms": 900`, 1)
			require.NoError(t, os.WriteFile(path, []byte(bad), 0o644))
		}
	}
	doc, err = runner.Run(t.Context(), o)
	require.NoError(t, err)
	require.Empty(t, *asked)
	require.Equal(t, "no", doc.Probes[9].Holds[0])
	require.Equal(t, 8.0, *doc.Answers[0].Measured)
	data, err := os.ReadFile(filepath.Join(o.Dir, vllmserve.DefaultFile))
	require.NoError(t, err)
	require.Contains(t, string(data), `"p99_ttft_ms": 50,`)
}

// A search whose budget is spent before any load surely holds keeps the numbers of one that likely does.
func TestNumbersOfAShortSearch(t *testing.T) {
	o, _ := options(t, 10.2)
	o.Goal.Probes, o.Goal.Min = 1, 4
	nearLimit(t, &o, 490)
	doc, err := runner.Run(t.Context(), o)
	require.NoError(t, err)
	a := doc.Answers[0]
	require.Equal(t, "budget-spent", a.Outcome)
	require.Nil(t, a.Low)
	require.Equal(t, 4.0, *a.Measured)
	require.FileExists(t, filepath.Join(o.Dir, vllmserve.DefaultFile))
}

// nearLimit has the server answer with a P99 of the TTFT in place of 50 ms.
func nearLimit(t *testing.T, o *runner.Options, ms int) {
	t.Helper()
	measure := o.Measure
	o.Measure = func(ctx context.Context, ask runner.Ask) error {
		require.NoError(t, measure(ctx, ask))
		path := filepath.Join(ask.Dir, vllmserve.DefaultFile)
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		text := strings.Replace(string(data), `"p99_ttft_ms": 50`, fmt.Sprintf(`"p99_ttft_ms": %d`, ms), 1)
		text = strings.Replace(text, `"p95_ttft_ms": 48.5`, fmt.Sprintf(`"p95_ttft_ms": %d`, ms*97/100), 1)
		return os.WriteFile(path, []byte(text), 0o644)
	}
}

// An interval without an end has no probability.
func TestNothingIsKnown(t *testing.T) {
	o, _ := options(t, 10.2)
	o.Goal = search.Goal{Span: search.Span{Min: 8, Max: 8, Step: 1}, Start: 8, Probes: 2, Confidence: 0.9999}
	nearLimit(t, &o, 500)
	doc, err := runner.Run(t.Context(), o)
	require.NoError(t, err)
	a := doc.Answers[0]
	require.Equal(t, "budget-spent", a.Outcome)
	require.Zero(t, a.Probability)
	require.Equal(t, "the highest request_rate within p99_ttft_ms <= 500 is not known (2 probes); "+
		"the budget is spent before the interval is narrow", a.Sentence)
}
