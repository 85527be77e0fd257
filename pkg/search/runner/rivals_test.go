package runner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"

	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/search/runner"
)

// configuration is a search among those of several configurations, as a sweep lays them out.
func configuration(t *testing.T, all, name string, edge float64) (runner.Options, *[]float64) {
	t.Helper()
	o, asked := options(t, edge)
	o.Dir, o.Rivals = filepath.Join(all, name, "raw"), all
	o.Contest = runner.Contest{Load: "x", GPUs: 4}
	return o, asked
}

// finish runs a search to its end.
func finish(t *testing.T, o runner.Options) *runner.Document {
	t.Helper()
	doc, err := runner.Run(t.Context(), o)
	require.NoError(t, err)
	return doc
}

// A search ends early if it surely does not reach the best of the other configurations, which is read from
// their folders.
func TestLosersStop(t *testing.T) {
	all := t.TempDir()
	first, asked := configuration(t, all, "1", 20.2)
	require.Equal(t, "found", finish(t, first).Answers[0].Outcome)
	loser, few := configuration(t, all, "2", 8.2)
	a := finish(t, loser).Answers[0]
	require.Equal(t, "beaten", a.Outcome)
	require.Equal(t, 20.0, *a.AtLeast)
	require.Equal(t, "1", a.Rival)
	require.Contains(t, a.Sentence, "; it was stopped because another configuration (1) reaches 20")
	require.Less(t, len(*few), len(*asked))
	winner, _ := configuration(t, all, "3", 30.2)
	require.Equal(t, "found", finish(t, winner).Answers[0].Outcome)
	second, _ := configuration(t, all, "4", 20.2)
	a = finish(t, second).Answers[0]
	require.Equal(t, "beaten", a.Outcome)
	require.Equal(t, "3", a.Rival, "the best so far")
	require.Equal(t, "found", finish(t, first).Answers[0].Outcome, "an answer that was found stays")
}

// Only finished searches with the same question, load and number of GPUs are compared.
func TestWhoIsNoRival(t *testing.T) {
	for name, change := range map[string]func(*runner.Options){
		"more GPUs":      func(o *runner.Options) { o.Contest.GPUs = 8 },
		"another load":   func(o *runner.Options) { o.Contest.Load = "y" },
		"another limit":  func(o *runner.Options) { o.Limits = [][]metric.Limit{limits(t, "p99_ttft_ms=600")} },
		"another place":  func(o *runner.Options) { o.Dir = filepath.Join(filepath.Dir(o.Dir), "phase", "raw") },
		"alone":          func(o *runner.Options) { o.Rivals = "" },
		"same point":     func(o *runner.Options) { o.Dir = filepath.Join(o.Rivals, "2", "r2", "raw") },
		"simulated":      func(o *runner.Options) { o.Simulated = true },
		"faster":         func(o *runner.Options) { o.Speed = 2 },
		"another search": func(o *runner.Options) { o.Variable = runner.Concurrency; o.Goal.Step, o.Goal.Min = 1, 1 },
	} {
		t.Run(name, func(t *testing.T) {
			all := t.TempDir()
			other, _ := configuration(t, all, "1", 20.2)
			change(&other)
			finish(t, other)
			o, _ := configuration(t, all, "2", 8.2)
			require.Equal(t, "found", finish(t, o).Answers[0].Outcome)
		})
	}
}

// A rival that is within one limit, but below another for want of load, stops nobody.
func TestRivalThatNeedsMoreLoad(t *testing.T) {
	all := t.TempDir()
	both := [][]metric.Limit{limits(t, "p99_ttft_ms=500", "output_throughput=1e9")}
	other, _ := configuration(t, all, "1", 20.2)
	other.Limits = both
	require.NotEmpty(t, finish(t, other).Answers[0].Why)
	o, _ := configuration(t, all, "2", 8.2)
	o.Limits = both
	require.Equal(t, "found", finish(t, o).Answers[0].Outcome)
}

// A file of a rival that cannot be read, or whose search is not over, changes nothing.
func TestRivalsThatAreNot(t *testing.T) {
	all := t.TempDir()
	first, _ := configuration(t, all, "1", 20.2)
	doc := finish(t, first)
	doc.Unfinished = true
	data, err := json.Marshal(doc)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(first.Dir, runner.File), data, 0o666))
	require.NoError(t, os.MkdirAll(filepath.Join(all, "3", "raw", runner.File), 0o777))
	require.NoError(t, os.MkdirAll(filepath.Join(all, "4", "raw"), 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(all, "4", "raw", runner.File), []byte("{"), 0o666))
	o, _ := configuration(t, all, "2", 8.2)
	var said []string
	o.Said = func(format string, args ...any) {
		if strings.HasPrefix(format, "not compared") {
			said = append(said, fmt.Sprintf(format, args...))
		}
	}
	require.Equal(t, "found", finish(t, o).Answers[0].Outcome)
	require.Equal(t, []string{"not compared with: " + all + "/3/raw/search.json: is a directory",
		"not compared with: " + all + "/4/raw/search.json: unexpected end of JSON input"}, said, "each is said once")

	o.Rivals = t.TempDir()
	_, err = runner.Run(t.Context(), o)
	require.ErrorAs(t, err, new(runner.Refusal))
	require.ErrorContains(t, err, "is not below that of its rivals")
}

// A rival whose files were packed since counts as before.
func TestPackedRival(t *testing.T) {
	all := t.TempDir()
	first, _ := configuration(t, all, "1", 20.2)
	finish(t, first)
	file := filepath.Join(first.Dir, runner.File)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	var b bytes.Buffer
	w, err := xz.NewWriter(&b)
	require.NoError(t, err)
	_, err = w.Write(data)
	require.NoError(t, errors.Join(err, w.Close(), os.WriteFile(file+".xz", b.Bytes(), 0o666), os.Remove(file)))
	loser, _ := configuration(t, all, "2", 8.2)
	require.Equal(t, "beaten", finish(t, loser).Answers[0].Outcome)
}

// A search that was killed hears of the rivals that ended meanwhile, from their files alone.
func TestKilledLoser(t *testing.T) {
	all := t.TempDir()
	loser, asked := configuration(t, all, "2", 8.2)
	measure := loser.Measure
	ctx, cancel := context.WithCancelCause(t.Context())
	loser.Measure = func(_ context.Context, ask runner.Ask) error {
		if len(*asked) == 2 {
			cancel(errors.New("killed"))
			return nil
		}
		return measure(ctx, ask)
	}
	_, err := runner.Run(ctx, loser)
	require.ErrorContains(t, err, "killed")
	first, _ := configuration(t, all, "1", 40.2)
	finish(t, first)
	loser.Measure = measure
	a := finish(t, loser).Answers[0]
	require.Equal(t, "beaten", a.Outcome)
	require.Equal(t, a.Probes, len(*asked), "what was measured before the kill counts")
}

// FuzzRival reads any file of a rival.
func FuzzRival(f *testing.F) {
	f.Add([]byte(`{"schema": "profllm.search/1", "question": {"variable": "request_rate", "limits": [["p99_ttft_ms <= 500"]],
"speed": 1}, "contest": {"load": "x", "gpus": 4}, "answers": [{"low": 1e308}]}`))
	f.Add([]byte(`{"schema": "profllm.search/1", "answers": [null]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		all := t.TempDir()
		require.NoError(t, os.MkdirAll(filepath.Join(all, "1", "raw"), 0o777))
		require.NoError(t, os.WriteFile(filepath.Join(all, "1", "raw", runner.File), data, 0o666))
		o, _ := options(t, 8.2)
		o.Dir, o.Rivals, o.Contest = filepath.Join(all, "2", "raw"), all, runner.Contest{Load: "x", GPUs: 4}
		o.Goal.Probes = 2
		doc, err := runner.Run(t.Context(), o)
		require.NoError(t, err)
		require.NotEmpty(t, doc.Answers[0].Sentence)
	})
}
