package aiperf_test

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/bench/aiperf"
	"github.com/profllm/profllm/pkg/result"
)

func accuracy(text, at string, p aiperf.AccuracyParser) (result.Part, error) {
	return p.Parse(fstest.MapFS{at: {Data: []byte(text)}})
}

// The three sets of columns, shares and percentages, tables without the row of all tasks, and what is no accuracy.
//
// covers: P-15
func TestAccuracy(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       float64 // below 0: none
		task       string
		questions  int
	}{
		{"0.8", "Task,Correct,Total,Accuracy\nabstract_algebra,35,100,35.00%\nOVERALL,35,100,35.00%\n", 0.35, "abstract_algebra", 100},
		{"fractions", "task,correct,total,accuracy\r\na,1,4,0.2500\r\nb,3,4,0.7500\r\nOVERALL,4,8,0.5000\r\n", 0.5, "OVERALL", 8},
		{"rates", "task,total,passed,unparsed,accuracy_rate,unparsed_rate\na,10,1,2,0.1,0.2\noverall,10,1,2,0.1,0.2\n", 0.1, "a", 10},
		{"a rate of 1", "task,total,passed,unparsed,accuracy_rate,unparsed_rate\nOVERALL,10,10,0,1,0\n", 1, "OVERALL", 10},
		{"a percentage", "Task,Accuracy\nOVERALL,87.5\n", 0.875, "OVERALL", 0},
		{"counts", "task,correct,total\nOVERALL,3,4\n", 0.75, "OVERALL", 4},
		{"a metric", "Metric,Value\nmmlu,0.4\n", 0.4, "mmlu", 0},
		{"no row of all", "task,correct,total,accuracy\na,,0,\nb,1,2,0.5\n", 0.5, "b", 2},
		{"byte order mark", "\xef\xbb\xbfTask,Accuracy\nOVERALL,50%\n", 0.5, "OVERALL", 0},
		{"zero questions", "task,correct,total\nOVERALL,0,0\n", -1, "", 0},
		{"a rate above 1", "task,total,passed,unparsed,accuracy_rate,unparsed_rate\nOVERALL,10,1,0,35,0\n", -1, "", 0},
		{"words", "task,accuracy\nOVERALL,high\n", -1, "", 0},
		{"only names", "task,accuracy\n", -1, "", 0},
		{"nothing", "", -1, "", 0},
	} {
		part, err := accuracy(c.text, "raw/accuracy/accuracy_results.csv", aiperf.AccuracyParser{Dir: "raw/accuracy"})
		if c.want < 0 {
			require.ErrorIs(t, err, fs.ErrNotExist, c.name)
			continue
		}
		require.NoError(t, err, c.name)
		require.InDelta(t, c.want, part.Accuracy.Value, 1e-12, c.name)
		require.Equal(t, c.task, part.Accuracy.Task, c.name)
		if c.questions > 0 {
			require.Equal(t, c.questions, *part.Accuracy.Questions, c.name)
		} else {
			require.Nil(t, part.Accuracy.Questions, c.name)
		}
	}
}

// The folders in which CloudAI looks, one after the other; a table without an accuracy is gone past.
func TestAccuracyOfCloudAI(t *testing.T) {
	part, err := aiperf.AccuracyParser{}.Parse(fstest.MapFS{
		"accuracy_results.csv":                           {Data: []byte("")},
		"aiperf_accuracy_artifacts/accuracy_results.csv": {Data: []byte("Task,Accuracy\nOVERALL,20%\n")},
		"aiperf_artifacts/accuracy_results.csv":          {Data: []byte("Task,Accuracy\nOVERALL,30%\n")},
	})
	require.NoError(t, err)
	require.InDelta(t, 0.2, part.Accuracy.Value, 1e-12)
	require.Equal(t, "aiperf_accuracy_artifacts/accuracy_results.csv", part.Accuracy.Source)
}

func FuzzAccuracy(f *testing.F) {
	f.Add("task,total,passed,unparsed,accuracy_rate,unparsed_rate\na,10,1,2,0.1,0.2\nOVERALL,10,1,2,0.1,0.2\n")
	f.Add("Task,Correct,Total,Accuracy\nOVERALL,35,100,35.00%\n")
	f.Fuzz(func(t *testing.T, text string) {
		part, err := accuracy(text, "accuracy_results.csv", aiperf.AccuracyParser{})
		if err == nil {
			require.True(t, part.Accuracy.Value >= 0 && part.Accuracy.Value <= 1)
		}
	})
}
