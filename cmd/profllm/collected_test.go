package main

import (
	"bytes"
	"encoding/json"
	"errors"
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

func printed(t *testing.T, n int) string {
	t.Helper()
	var out bytes.Buffer
	p := (&app{stdout: &out}).newPrinter()
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
	few := printed(t, mostRows)
	require.Contains(t, few, "t/499")
	require.Equal(t, mostRows/5, strings.Count(few, ": invalid no-success: "))

	many := printed(t, 10*mostRows)
	require.Equal(t, strings.Count(printed(t, mostRows+1), "\n"), strings.Count(many, "\n"))
	require.Regexp(t, `valid \(simulated\) +4000\n`, many)
	require.Regexp(t, `failed, invalid \(simulated\) +1000\n`, many)
	require.Regexp(t, `cause cuda-oom \(exact\) +500  t/0: logs/serve-0.log:7: out of memory`, many)
	require.Regexp(t, `invalid no-success +1000  t/0: 0 requests`, many)
	require.Contains(t, many, "5000 results: ")
}

// The results in JSON are printed as they come, and the whole is what encoding/json makes
// of the document.
func TestResultsAsJSON(t *testing.T) {
	for _, n := range []int{0, 1, 7} {
		var out bytes.Buffer
		a := &app{stdout: &out, answer: &answer{wanted: true}}
		d := &collectDocument{head: head{Schema: "profllm.output.collect/1"}, out: &out}
		a.answers(d)
		p := a.newPrinter()
		rows := []row{}
		for i := range n {
			rows = append(rows, sample(i))
			require.NoError(t, p.add(sample(i)))
		}
		require.NoError(t, p.end())
		require.Equal(t, exitInvalid, a.finish(t.Context(), exitInvalid, errors.New("a <b>")))
		want, err := json.MarshalIndent(struct {
			Schema   string    `json:"schema"`
			Results  []row     `json:"results"`
			ExitCode int       `json:"exit_code"`
			Errors   []problem `json:"errors"`
		}{d.Schema, rows, exitInvalid, []problem{{What: "a <b>"}}}, "", "  ")
		require.NoError(t, err)
		require.Equal(t, string(want)+"\n", out.String())
	}
}
