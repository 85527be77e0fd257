package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
)

// sample is a result as collect hands it on: every fifth one is invalid, and half of
// those have a cause.
func sample(i int) row {
	r := &result.Result{RunID: fmt.Sprint(i), Status: result.Completed, Simulated: true, Validity: &result.Validity{Valid: true, Verdict: result.VerdictValid}}
	if i%5 == 0 {
		r.Status, r.Validity = result.Failed, &result.Validity{
			Verdict: result.VerdictInvalid,
			Checks:  []result.Check{{Word: "no-success", Outcome: result.Fail, Severity: result.Invalid, Detail: fmt.Sprintf("%d requests", i)}},
		}
	}
	if i%10 == 0 {
		r.Failure = &result.Failure{Cause: "cuda-oom", Line: "out of memory", File: "logs/serve-0.log", LineNumber: 7, Confidence: result.Exact}
	}
	return row{Dir: fmt.Sprintf("/results/s/t/%d", i), Result: r}
}

func printed(t *testing.T, format string, n int) string {
	t.Helper()
	var out bytes.Buffer
	p := (&app{stdout: &out}).newPrinter(format)
	for i := range n {
		require.NoError(t, p.add(sample(i)))
		require.LessOrEqual(t, len(p.rows), mostRows)
	}
	require.NoError(t, p.end())
	return out.String()
}

// Up to a limit each result has a line; of more there is a summary of the same length
// however many they are.
func TestManyResultsAreSummedUp(t *testing.T) {
	few := printed(t, "text", mostRows)
	require.Contains(t, few, "t/499")
	require.Equal(t, mostRows/5, strings.Count(few, ": invalid no-success: "))

	many := printed(t, "text", 10*mostRows)
	require.Equal(t, strings.Count(printed(t, "text", mostRows+1), "\n"), strings.Count(many, "\n"))
	require.Regexp(t, `valid \(simulated\) +4000\n`, many)
	require.Regexp(t, `failed, invalid \(simulated\) +1000\n`, many)
	require.Regexp(t, `cause cuda-oom \(exact\) +500  t/0: logs/serve-0.log:7: out of memory`, many)
	require.Regexp(t, `invalid no-success +1000  t/0: 0 requests`, many)
	require.Contains(t, many, "5000 results: ")
}

// As JSON it is what encoding/json makes of the whole list.
func TestResultsAsJSON(t *testing.T) {
	require.Equal(t, "[]\n", printed(t, "json", 0))
	for _, n := range []int{1, 7} {
		var rows []row
		for i := range n {
			rows = append(rows, sample(i))
		}
		want, err := json.MarshalIndent(rows, "", "  ")
		require.NoError(t, err)
		require.Equal(t, string(want)+"\n", printed(t, "json", n))
	}
}
