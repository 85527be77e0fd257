package format

import (
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/report"
)

// Otava writes a line for each run that a series may hold, oldest first, as Apache
// Otava's CSV importer reads it: time, then attributes, then metrics; the column
// branch names the series, so that --branch chooses one and none are mixed. A metric
// that some runs of a series lack is empty in all of them, because Otava finds
// nothing in a column with a gap and does not say so; gaps names those.
func Otava(w io.Writer, r *report.Report) (gaps []string, err error) {
	runs := make([]*records.Run, len(r.Runs))
	for i, e := range r.Runs {
		runs[i] = e.Run
	}
	series, _ := report.Series(runs, nil)
	whole := make([]map[string]bool, len(series)) // the metrics that all runs of a series have
	have := map[string]bool{}                     // those that all runs of some series have
	for i, t := range series {
		var lacking []string
		whole[i], lacking = throughout(t)
		maps.Copy(have, whole[i])
		gaps = append(gaps, lacking...)
	}
	header := []string{"time", "branch", "test", "run", "simulated"}
	for _, s := range (&records.Run{}).Surroundings() {
		header = append(header, column(s.Key))
	}
	var metrics []metric.Metric
	for _, m := range metric.All {
		if have[m.Key] {
			metrics = append(metrics, m)
			header = append(header, m.Key)
		}
	}
	rows := [][]string{header}
	for i, t := range series {
		for _, run := range t.All() {
			rows = append(rows, otavaRow(t, run, metrics, whole[i]))
		}
	}
	return gaps, writeRows(w, rows)
}

// throughout are the metrics that all runs of a series have; gaps names those that only
// some have.
func throughout(t *report.Trend) (whole map[string]bool, gaps []string) {
	whole = map[string]bool{}
	all := t.All()
	for _, m := range metric.All {
		n := 0
		for _, run := range all {
			if m.Of(run.Result).Number != nil {
				n++
			}
		}
		switch {
		case n == len(all):
			whole[m.Key] = true
		case n > 0:
			gaps = append(gaps, fmt.Sprintf("%s of %s: %d of %d runs have it", m.Key, branch(t), n, len(all)))
		}
	}
	return whole, gaps
}

// otavaRow is a run of a series; of the metrics it has those that the whole series has.
func otavaRow(t *report.Trend, run *records.Run, metrics []metric.Metric, whole map[string]bool) []string {
	row := []string{
		run.Began().UTC().Format(time.RFC3339), branch(t), t.Test, run.Dir, strconv.FormatBool(t.Kind.Simulated()),
	}
	for _, s := range run.Surroundings() {
		row = append(row, s.Value)
	}
	for _, m := range metrics {
		text := ""
		if whole[m.Key] {
			text = csvValue(m.Of(run.Result))
		}
		row = append(row, text)
	}
	return row
}

// column is a setting's name as programs write names.
func column(key string) string { return strings.ReplaceAll(strings.ToLower(key), " ", "_") }

// branch names a series in a word, unique in a report.
func branch(t *report.Trend) string {
	name := t.All()[0].Case.Scenario + "/" + strings.ReplaceAll(t.Test, " ", "/") + "/" + t.Key
	return strings.Join(strings.Fields(name), "_")
}
