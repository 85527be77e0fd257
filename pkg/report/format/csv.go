package format

import (
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/printable"
	"github.com/profllm/profllm/pkg/report"
)

// CSV writes one line for each run: what it is, every metric that some run has,
// and every setting; of series one line for each point. A cell without a value is
// empty.
func CSV(w io.Writer, r *report.Report) error {
	if len(r.Trends) > 0 {
		return writeRows(w, trendRows(r))
	}
	return writeRows(w, runRows(r))
}

// writeRows writes CSV, the header first.
func writeRows(w io.Writer, rows [][]string) error {
	c := printable.NewCSV(w)
	for _, row := range rows {
		if err := c.Write(row); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}

func runRows(r *report.Report) [][]string {
	have, asked := map[string]bool{}, map[string]bool{}
	for _, e := range r.Runs {
		for k := range e.Metrics {
			have[k] = true
		}
		for k := range e.Settings {
			asked[k] = true
		}
	}
	header := []string{
		"label", "scenario", "test", "phase", "iteration", "step", "group",
		"verdict", "kind", "usable", "reason", "run_id", "dir",
	}
	var metrics []metric.Metric
	for _, m := range metric.All {
		if have[m.Key] {
			metrics = append(metrics, m)
			header = append(header, m.Key)
		}
	}
	settings := slices.Sorted(maps.Keys(asked))
	rows := [][]string{append(header, settings...)}
	for _, e := range r.Runs {
		row := []string{
			e.Label, e.Case.Scenario, e.Case.Test, e.Case.Phase,
			strconv.Itoa(e.Case.Iteration), strconv.Itoa(e.Case.Step), e.Group,
			string(e.Verdict), string(e.Kind), strconv.FormatBool(e.Usable), e.Reason, e.RunID, e.Dir,
		}
		for _, m := range metrics {
			row = append(row, csvValue(e.Metrics[m.Key]))
		}
		for _, k := range settings {
			row = append(row, e.Settings[k])
		}
		rows = append(rows, row)
	}
	return rows
}

// trendRows are one for each point of each metric.
func trendRows(r *report.Report) [][]string {
	rows := [][]string{{
		"test", "key", "kind", "metric", "unit", "time", "value",
		"part", "cut", "shift_percent", "p_adjusted", "marks", "verdict", "runs",
	}}
	for i := range r.Trends {
		for k := range r.Trends[i].Metrics {
			rows = append(rows, pointRows(&r.Trends[i], &r.Trends[i].Metrics[k])...)
		}
	}
	return rows
}

// pointRows are the points of a metric. Their part counts the cuts before the point,
// whatever is believed of them.
func pointRows(t *report.Trend, x *report.MetricTrend) (rows [][]string) {
	part := 0
	for i, p := range x.Points {
		row := []string{
			t.Test, t.Key, string(t.Kind), x.Key, x.Unit, p.Time.UTC().Format(time.RFC3339), csvNumber(&p.Value),
		}
		cut := make([]string, 4)
		for _, c := range x.Cuts {
			if c.Index == i {
				part++
				cut = []string{
					string(c.Verdict), csvNumber(c.Percent), csvNumber(&c.AdjustedP), strings.Join(marks(c.Marks), " "),
				}
			}
		}
		row = append(append(row, strconv.Itoa(part)), cut...)
		rows = append(rows, append(row, string(x.Verdict), strings.Join(p.Runs, " ")))
	}
	return rows
}

// marks are the words of marks.
func marks(list []report.Mark) []string {
	words := make([]string, len(list))
	for i, m := range list {
		words[i] = string(m)
	}
	return words
}

func csvValue(v metric.Value) string {
	if v.Withheld {
		return ""
	}
	return csvNumber(v.Number)
}

func csvNumber(x *float64) string {
	if x == nil {
		return ""
	}
	return strconv.FormatFloat(*x, 'g', -1, 64)
}
