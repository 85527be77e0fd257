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
	"github.com/profllm/profllm/pkg/result/resulttest"
)

// The results in JSON are printed as they come, and the whole is what encoding/json makes
// of the document.
func TestResultsAsJSON(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 7} {
		var out bytes.Buffer
		a := &app{stdout: &out, answer: &answer{wanted: true}}
		d := &document.CollectWriter{Head: document.NewHead("collect"), Out: &out}
		a.answers(d)
		p := a.newPrinter()
		rows := []document.Row{}
		for i := range n {
			row := cache.Row{Dir: fmt.Sprint("/results/s/t/", i), Result: resulttest.Good()}
			rows = append(rows, document.Row{Dir: row.Dir, Result: row.Result})
			require.NoError(t, p.add(row))
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
