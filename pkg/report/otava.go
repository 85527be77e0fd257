package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/printable"
)

// Otava writes a line for each run that a series may hold, oldest first, as Apache
// Otava's CSV importer reads it: time, then attributes, then metrics; the column
// branch names the series, so that --branch chooses one and none are mixed. A metric
// that some runs of a series lack is empty in all of them, because Otava finds
// nothing in a column with a gap and does not say so; gaps names those.
func (r *Report) Otava(w io.Writer) (gaps []string, err error) {
	runs := make([]Run, len(r.Runs))
	for i, e := range r.Runs {
		runs[i] = *e.run
	}
	series := (&Report{}).series(runs, nil)
	header := []string{"time", "branch", "test", "run", "simulated"}
	for _, s := range (&Run{}).Surroundings() {
		header = append(header, column(s.Key))
	}
	have := map[string]int{} // by metric: series that have it throughout
	whole := make([]map[string]bool, len(series))
	for i, t := range series {
		whole[i] = map[string]bool{}
		all := t.runs(0, len(t.starts))
		for _, m := range metrics {
			switch n := len(numbersOf(m, all)); {
			case n == len(all):
				whole[i][m.Key] = true
				have[m.Key]++
			case n > 0:
				gaps = append(gaps, fmt.Sprintf("%s of %s: %d of %d runs have it", m.Key, t.branch(), n, len(all)))
			}
		}
	}
	for _, m := range metrics {
		if have[m.Key] > 0 {
			header = append(header, m.Key)
		}
	}
	c := printable.NewCSV(w)
	if err := c.Write(header); err != nil {
		return nil, err
	}
	for i, t := range series {
		for _, run := range t.runs(0, len(t.starts)) {
			row := []string{when(run).UTC().Format(time.RFC3339), t.branch(), t.Test, run.Dir, strconv.FormatBool(t.Kind.Simulated())}
			for _, s := range run.Surroundings() {
				row = append(row, s.Value)
			}
			for _, m := range metrics {
				switch {
				case have[m.Key] == 0:
				case whole[i][m.Key]:
					row = append(row, csvValue(m.Of(run.Result)))
				default:
					row = append(row, "")
				}
			}
			if err := c.Write(row); err != nil {
				return nil, err
			}
		}
	}
	c.Flush()
	return gaps, c.Error()
}

// column is a setting's name as programs write names.
func column(key string) string { return strings.ReplaceAll(strings.ToLower(key), " ", "_") }

// branch names a series in a word, unique in a report.
func (t *Trend) branch() string {
	return strings.Join(strings.Fields(t.starts[0].runs[0].Case.Scenario+"/"+strings.ReplaceAll(t.Test, " ", "/")+"/"+t.Key), "_")
}
