package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/collect/cache"
	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/result"
)

// sample is a result as collect hands it on: every fifth one is invalid, and half of
// those have a cause.
func sample(i int) cache.Row {
	r := &result.Result{RunID: fmt.Sprint(i), Status: result.Completed, Simulated: true,
		Validity: &result.Validity{Valid: true, Verdict: result.VerdictValid}}
	if i%5 == 0 {
		r.Status, r.Validity = result.Failed, &result.Validity{
			Verdict: result.VerdictInvalid,
			Checks: []result.Check{{Word: "no-success", Outcome: result.Fail, Severity: result.Invalid,
				Detail: fmt.Sprintf("%d requests", i)}},
		}
	}
	if i%10 == 0 {
		r.Failure = &result.Failure{Cause: "cuda-oom", Line: "out of memory", File: "logs/serve-0.log", LineNumber: 7,
			Confidence: result.Exact}
	}
	return cache.Row{Dir: fmt.Sprintf("/results/s/t/%d", i), Result: r}
}

// The results in JSON are printed as they come, and the whole is what encoding/json makes
// of the document.
func TestResultsAsJSON(t *testing.T) {
	for _, n := range []int{0, 1, 7} {
		var out bytes.Buffer
		a := &app{stdout: &out, answer: &answer{wanted: true}}
		d := &document.CollectWriter{Head: document.NewHead("collect"), Out: &out}
		a.answers(d)
		p := a.newPrinter()
		rows := []document.Row{}
		for i := range n {
			rows = append(rows, document.Row{Dir: sample(i).Dir, Result: sample(i).Result})
			require.NoError(t, p.add(sample(i)))
		}
		require.NoError(t, p.end())
		require.Equal(t, exitInvalid, a.finish(t.Context(), exitInvalid, errors.New("a <b>")))
		want, err := json.MarshalIndent(struct {
			Schema   string             `json:"schema"`
			Results  []document.Row     `json:"results"`
			ExitCode int                `json:"exit_code"`
			Errors   []document.Problem `json:"errors"`
		}{d.Schema, rows, exitInvalid, []document.Problem{{What: "a <b>"}}}, "", "  ")
		require.NoError(t, err)
		require.Equal(t, string(want)+"\n", out.String())
	}
}
